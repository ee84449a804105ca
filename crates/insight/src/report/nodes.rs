//! Every node over time: a strip of labels and alarms, and behind it the scores.

use super::chart::{self, HEIGHT, Scale, Span};
use super::html::{Html, count, decimals, raw};
use super::limits;
use super::model::{NodeSeries, Report};
use synod_evaluate::Evaluation;

/// The address of a node's timeline on the page.
pub(super) fn anchor(index: usize) -> String {
    format!("node-{index}")
}

/// One line per node, those with most alarms first and the first few open; nodes with nothing to show are folded away.
pub(super) fn section(report: &Report) -> Html {
    let every_time: Vec<i64> = report
        .nodes
        .iter()
        .flat_map(|n| n.times.iter().copied())
        .collect();
    let Some(whole) = Span::of(&every_time, report.step) else {
        return Html::default();
    };
    let mut order: Vec<(usize, &NodeSeries)> = report.nodes.iter().enumerate().collect();
    order.sort_by_key(|(_, node)| std::cmp::Reverse(node.alarms.len()));
    let quiet = |node: &NodeSeries| node.alarms.is_empty() && node.labelled.is_empty();
    let (silent, telling): (Vec<_>, Vec<_>) = order.into_iter().partition(|(_, node)| quiet(node));
    let rows = telling.iter().enumerate().map(|(rank, (index, node))| {
        let open = rank < limits::OPEN_TIMELINES && !node.alarms.is_empty();
        row(report, *index, node, whole, open)
    });
    html!(
        "<section>\n<h2>Every node over time</h2>\n<p>Each line is a node, most alarms first; open one to see its scores.</p>\n{}\
         <div class=\"nodes\">\n<div class=\"ruler\"><span></span>{}<span></span></div>\n{}</div>\n{}</section>\n",
        legend(),
        chart::time_axis(whole),
        Html::join(rows),
        folded(report, &silent, whole)
    )
}

fn folded(report: &Report, silent: &[(usize, &NodeSeries)], whole: Span) -> Html {
    if silent.is_empty() {
        return Html::default();
    }
    let rows = silent
        .iter()
        .map(|(index, node)| row(report, *index, node, whole, false));
    html!(
        "<details class=\"plain\"><summary>{} with neither an alarm nor a labelled anomaly</summary>\n<div class=\"nodes\">\n{}</div></details>\n",
        count(silent.len(), "node"),
        Html::join(rows)
    )
}

/// What the colours and lines mean.
pub(super) fn legend() -> Html {
    raw(
        "<p class=\"legend\"><span><i class=\"key score\"></i>score</span><span><i class=\"key threshold\"></i>threshold</span>\
         <span><i class=\"key labelled\"></i>labelled anomalous</span><span><i class=\"key alarm\"></i>alarm</span>\
         <span><i class=\"key alarm false\"></i>alarm in time labelled healthy</span></p>\n",
    )
}

fn row(report: &Report, index: usize, node: &NodeSeries, whole: Span, open: bool) -> Html {
    let evaluation = report.arms.first().and_then(|arm| arm.nodes.get(&node.node));
    let empty = node.times.is_empty();
    let strip = if empty {
        html!("<span class=\"quiet\">no windows</span>")
    } else {
        chart::strip(&node.labelled, &node.alarms, whole)
    };
    html!(
        "<details id=\"{}\"{}><summary><span class=\"name\">{}</span>{}<span class=\"figure\">{}</span></summary>\n{}{}</details>\n",
        anchor(index),
        raw(if open { " open" } else { "" }),
        node.node,
        strip,
        count(node.alarms.len(), "alarm"),
        if empty {
            Html::default()
        } else {
            timeline(node, whole)
        },
        evaluation.map(figures).unwrap_or_default()
    )
}

fn timeline(node: &NodeSeries, span: Span) -> Html {
    let Some(scale) = Scale::scores(&node.scores, &node.thresholds) else {
        return html!("<p class=\"quiet\">No window has a score.</p>\n");
    };
    let threshold = match node.thresholds.as_slice() {
        [one] => chart::level(*one, scale),
        many => chart::line(&node.times, many, span, scale),
    };
    let shapes = html!(
        "{}<path class=\"score\" d=\"{}\"/><path class=\"threshold\" d=\"{}\"/>",
        chart::labelled(&node.labelled, span, HEIGHT),
        chart::line(&node.times, &node.scores, span, scale),
        threshold
    );
    let strip = chart::strip(&[], &node.alarms, span);
    chart::framed(
        &format!("Anomaly score of {} over time", node.node),
        shapes,
        span,
        scale,
        strip,
    )
}

fn figures(node: &Evaluation) -> Html {
    let m = &node.metrics;
    let parts = [
        (
            "false alarms per month",
            decimals(m.false_alarms_per_node_month, 2),
        ),
        (
            "anomalies found",
            format!("{} of {}", node.segments_found, node.segments),
        ),
        ("precision", decimals(m.precision, 2)),
        ("recall", decimals(m.recall, 2)),
        ("average precision", decimals(m.ap, 2)),
        ("AUROC", decimals(m.auroc, 2)),
    ];
    let parts = parts.map(|(name, value)| html!("<span>{} <b>{}</b></span>", name, value));
    html!("<p class=\"figures\">{}</p>\n", Html::join(parts))
}
