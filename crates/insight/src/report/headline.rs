//! What matters first: how many alarms, where, and at what price.

use super::html::{Html, count, decimals};
use super::limits;
use super::model::Report;
use super::time::moment;
use synod_evaluate::Evaluation;

/// Sums over the nodes of the arm that is shown.
#[derive(Default)]
struct Totals {
    alarms: usize,
    nodes_alarming: usize,
    judged: usize,
    false_alarms: usize,
    healthy_months: f64,
    segments: usize,
    found: usize,
    over_budget: usize,
}

fn totals(report: &Report) -> Totals {
    let mut totals = Totals {
        alarms: report.nodes.iter().map(|n| n.alarms.len()).sum(),
        nodes_alarming: report.nodes.iter().filter(|n| !n.alarms.is_empty()).count(),
        ..Totals::default()
    };
    let over = |node: &Evaluation| {
        let rate = node.metrics.false_alarms_per_node_month;
        rate.zip(report.budget)
            .is_some_and(|(rate, budget)| rate > 2.0 * budget)
    };
    for node in report.arms.iter().take(1).flat_map(|arm| arm.nodes.values()) {
        totals.judged += node.alarm_events;
        totals.false_alarms += node.false_alarms;
        totals.healthy_months += node.healthy_months;
        totals.segments += node.segments;
        totals.found += node.segments_found;
        totals.over_budget += usize::from(over(node));
    }
    totals
}

impl Totals {
    fn rate(&self) -> Option<f64> {
        (self.healthy_months > 0.0).then(|| self.false_alarms as f64 / self.healthy_months)
    }
}

/// The title, the verdict in a sentence, the tiles, and the warnings.
pub(super) fn section(report: &Report) -> Html {
    let totals = totals(report);
    html!(
        "<header>\n<p class=\"kicker\">Synod report · made {} UTC · all times are UTC</p>\n<h1>{}</h1>\n<p class=\"verdict\">{}</p>\n\
         <div class=\"tiles\">\n{}</div>\n{}</header>\n",
        moment(report.created),
        report.name,
        verdict(report, &totals),
        tiles(report, &totals),
        notes(report),
    )
}

fn verdict(report: &Report, totals: &Totals) -> Html {
    let nodes = count(report.nodes.len(), "node");
    if totals.alarms == 0 {
        return html!("No alarms on {}. {}", nodes, price(report, totals));
    }
    html!(
        "<strong>{}</strong> on {} of {}. {}",
        count(totals.alarms, "alarm"),
        totals.nodes_alarming,
        nodes,
        price(report, totals)
    )
}

fn price(report: &Report, totals: &Totals) -> Html {
    let Some(rate) = totals.rate() else {
        return html!("Nothing is labelled healthy here, so nobody can say how many alarms are false.");
    };
    let cost = html!(
        "Of the {} that can be judged, {} fell in time labelled healthy: <strong>{}</strong> per node-month",
        totals.judged,
        totals.false_alarms,
        decimals(Some(rate), 2)
    );
    match report.budget {
        Some(budget) if rate <= budget => html!("{}, within the budget of {}.", cost, budget),
        Some(budget) => {
            html!(
                "{}, <strong class=\"bad\">{} times the budget</strong> of {}.",
                cost,
                decimals(Some(rate / budget), 1),
                budget
            )
        }
        None => html!("{}; no budget was set.", cost),
    }
}

fn tile(label: &str, value: Html, detail: Html) -> Html {
    html!(
        "<div class=\"tile\"><div class=\"label\">{}</div><div class=\"value\">{}</div><div class=\"detail\">{}</div></div>\n",
        label,
        value,
        detail
    )
}

fn tiles(report: &Report, totals: &Totals) -> Html {
    let metrics = report
        .arms
        .first()
        .map(|arm| arm.mean.metrics)
        .unwrap_or_default();
    let unlabelled = html!("no labels to compare with");
    let alarms = tile(
        "Alarms",
        html!("{}", totals.alarms),
        html!(
            "on {} of {}",
            totals.nodes_alarming,
            count(report.nodes.len(), "node")
        ),
    );
    let price = tile(
        "False alarms per node-month",
        html!("{}", decimals(totals.rate(), 2)),
        budget(report, totals),
    );
    let found = if totals.segments == 0 {
        tile("Labelled anomalies found", html!("–"), unlabelled.clone())
    } else {
        let of = html!("{}<small> of {}</small>", totals.found, totals.segments);
        tile(
            "Labelled anomalies found",
            of,
            html!("unbroken labelled periods with an alarm inside"),
        )
    };
    let delay = match metrics.delay_minutes {
        None => tile("Delay to first alarm", html!("–"), unlabelled),
        Some(minutes) => tile(
            "Delay to first alarm",
            html!("{}<small> min</small>", decimals(Some(minutes), 0)),
            html!("mean over nodes, anomalies found only"),
        ),
    };
    Html::join([alarms, price, found, delay])
}

/// A bar of the rate with a mark at the budget, and which nodes are worst.
fn budget(report: &Report, totals: &Totals) -> Html {
    let Some((rate, budget)) = totals.rate().zip(report.budget.filter(|b| *b > 0.0)) else {
        return html!("no budget, or nothing labelled healthy");
    };
    let scale = rate.max(budget) * 1.15;
    let class = if rate <= budget { "good" } else { "over" };
    let worst = match totals.over_budget {
        0 => html!("no node above twice the budget"),
        n => html!("{} above twice the budget", count(n, "node")),
    };
    html!(
        "<div class=\"meter {}\"><i style=\"width:{}%\"></i><b style=\"left:{}%\"></b></div>budget {} · {}",
        class,
        decimals(Some(100.0 * rate / scale), 1),
        decimals(Some(100.0 * budget / scale), 1),
        budget,
        worst
    )
}

fn notes(report: &Report) -> Html {
    if report.notes.is_empty() {
        return Html::default();
    }
    let shown = report.notes.iter().take(limits::NOTES);
    let items = shown.map(|note| html!("<li>{}</li>\n", note));
    html!(
        "<aside class=\"notes\"><h2>Before you trust this page</h2>\n<ul>\n{}</ul></aside>\n",
        Html::join(items)
    )
}
