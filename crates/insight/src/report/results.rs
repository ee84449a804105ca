//! The tables: means over nodes with intervals, and every node by itself.

use super::html::{Html, count, decimals, raw};
use super::model::{Arm, Report};
use synod_evaluate::{Mean, Metrics};

struct Column {
    name: &'static str,
    title: &'static str,
    meaning: &'static str,
    places: usize,
}

const fn column(name: &'static str, title: &'static str, meaning: &'static str, places: usize) -> Column {
    Column {
        name,
        title,
        meaning,
        places,
    }
}

const COLUMNS: [Column; 14] = [
    column(
        "false_alarms_per_node_month",
        "False alarms / node-month",
        "false alarm events in 30 days of time labelled healthy",
        2,
    ),
    column(
        "event_recall",
        "Anomalies found",
        "share of labelled periods with an alarm inside",
        3,
    ),
    column(
        "event_precision",
        "Alarms right",
        "share of alarms that touch a labelled period",
        3,
    ),
    column(
        "delay_minutes",
        "Delay, min",
        "from the start of a labelled period to its first alarm, found ones only",
        0,
    ),
    column(
        "lead_minutes",
        "Lead, min",
        "from an alarm to the labelled period it came before; some lead by chance",
        0,
    ),
    column(
        "f1",
        "F1",
        "harmonic mean of precision and recall, window by window, at the threshold set before the test data was seen",
        3,
    ),
    column(
        "precision",
        "Precision",
        "share of alarm windows that are anomalous",
        3,
    ),
    column(
        "recall",
        "Recall (TPR)",
        "share of anomalous windows with an alarm",
        3,
    ),
    column("fpr", "FPR", "share of healthy windows with an alarm", 4),
    column("tnr", "TNR", "share of healthy windows without an alarm", 4),
    column(
        "auroc",
        "AUROC",
        "chance that an anomalous window scores above a healthy one",
        3,
    ),
    column("ap", "AP", "average precision over all thresholds", 3),
    column(
        "vus_pr",
        "VUS-PR",
        "as AP, with credit for scores near an anomaly; volume over buffer widths",
        3,
    ),
    column(
        "best_f1",
        "Best F1",
        "F1 at the threshold that is best in hindsight; nobody can choose it beforehand",
        3,
    ),
];

/// A figure by its name.
pub(super) fn value(metrics: &Metrics, name: &str) -> Option<f64> {
    let at = Metrics::NAMES.iter().position(|n| *n == name)?;
    metrics.values().get(at).copied().flatten()
}

/// The comparison of arms and, behind it, the nodes of each.
pub(super) fn section(report: &Report) -> Html {
    if report.arms.is_empty() {
        return Html::default();
    }
    let nodes = report.arms.iter().map(per_node);
    html!(
        "<section>\n<h2>Results against the labels</h2>\n<p>Means over nodes, with bootstrap intervals where they were computed. \
         Where a figure is undefined on some nodes, its mean is over the others and their number stands beside it. No point adjustment. {}</p>\n{}{}\
         <details class=\"plain\"><summary>What the columns mean</summary>\n<dl>\n{}</dl></details>\n</section>\n",
        stated(report),
        means(report),
        Html::join(nodes),
        Html::join(
            COLUMNS
                .iter()
                .map(|c| html!("<dt>{}</dt><dd>{}</dd>\n", c.title, c.meaning))
        )
    )
}

fn stated(report: &Report) -> Html {
    html!(
        "Split: {} Labels: {} Step budget: {}",
        report.split,
        report.label_rule,
        report.step_budget
    )
}

/// Figures as rows and arms as columns: it stays readable on a phone, and arms are few.
fn means(report: &Report) -> Html {
    let arms = report
        .arms
        .iter()
        .map(|arm| html!("<th class=\"n\">{}</th><th></th>", arm.arm));
    let rows = COLUMNS.iter().map(|c| {
        let cells = report.arms.iter().map(|arm| mean_cell(&arm.mean, c));
        html!(
            "<tr><th scope=\"row\" title=\"{}\">{}</th>{}</tr>\n",
            c.meaning,
            c.title,
            Html::join(cells)
        )
    });
    html!(
        "<div class=\"scroll\"><table class=\"means\">\n<thead><tr><th></th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        Html::join(arms),
        Html::join(rows)
    )
}

fn mean_cell(mean: &Mean, column: &Column) -> Html {
    let places = column.places;
    let interval = mean.intervals.get(column.name);
    let interval = interval.map(|i| {
        format!(
            "{} – {}",
            decimals(Some(i.low), places),
            decimals(Some(i.high), places)
        )
    });
    let nodes = mean.nodes_defined.get(column.name).map(|n| match n {
        0 => "undefined on every node".to_owned(),
        n => count(*n, "node"),
    });
    let beside: Vec<String> = interval.into_iter().chain(nodes).collect();
    html!(
        "<td class=\"n\">{}</td><td><small>{}</small></td>",
        decimals(value(&mean.metrics, column.name), places),
        beside.join(" · ")
    )
}

fn per_node(arm: &Arm) -> Html {
    let heads = COLUMNS
        .iter()
        .map(|c| html!("<th class=\"n\" title=\"{}\">{}</th>", c.meaning, c.title));
    let rows = arm.nodes.iter().map(|(name, node)| {
        let cells = COLUMNS.iter().map(|c| {
            let figure = value(&node.metrics, c.name);
            let key = figure.map_or(raw(""), |v| html!(" data-v=\"{}\"", format!("{v:.6}")));
            let text = decimals(figure, c.places);
            html!("<td class=\"n\"{}>{}</td>", key, text)
        });
        html!(
            "<tr><th scope=\"row\" class=\"name\">{}</th>{}</tr>\n",
            name,
            Html::join(cells)
        )
    });
    html!(
        "<details class=\"plain\"><summary>Every node: {}</summary>\n<div class=\"scroll\"><table class=\"sortable\">\n\
         <thead><tr><th>Node</th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div></details>\n",
        arm.arm,
        Html::join(heads),
        Html::join(rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_figure_that_exists() {
        for column in &COLUMNS {
            assert!(Metrics::NAMES.contains(&column.name), "{}", column.name);
        }
    }
}
