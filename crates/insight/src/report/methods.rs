//! How it was measured, what was left out, and how to do it again.

use super::html::{Html, count};
use super::limits;
use super::model::Report;
use super::time::duration;

/// Split, labels, budget, seed, dropped metrics and the configuration.
pub(super) fn section(report: &Report) -> Html {
    let seed = report.seed.to_string();
    let windows = format!("One every {}.", duration(report.step));
    let rows = [
        ("Split", report.split.as_str()),
        ("Labels", &report.label_rule),
        ("Step budget", &report.step_budget),
        ("Windows", &windows),
        ("Seed", &seed),
    ];
    let rows = rows.map(|(name, text)| html!("<dt>{}</dt><dd>{}</dd>\n", name, text));
    html!(
        "<section>\n<h2>How this was measured</h2>\n<dl>\n{}</dl>\n\
         <p>Thresholds come from training data only. An alarm is a run of windows above the threshold after persistence; \
         it is false if every window of known truth in it is labelled healthy. Windows nobody labelled count neither way.</p>\n\
         {}{}</section>\n",
        Html::join(rows),
        dropped(report),
        config(report)
    )
}

fn dropped(report: &Report) -> Html {
    if report.dropped.is_empty() {
        return html!("<p>No metric was left out.</p>\n");
    }
    let rows = report.dropped.iter().take(limits::DROPPED).map(|d| {
        html!(
            "<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td></tr>\n",
            d.metric,
            d.nodes,
            d.reason
        )
    });
    let more = match report.dropped.len().saturating_sub(limits::DROPPED) {
        0 => Html::default(),
        n => html!(
            "<p class=\"quiet\">{} more; the run directory lists all.</p>\n",
            n
        ),
    };
    html!(
        "<details class=\"plain\"><summary>{} left out</summary>\n<div class=\"scroll\"><table>\n<thead><tr><th>Metric</th>\
         <th>Nodes</th><th>Why</th></tr></thead>\n<tbody>\n{}</tbody></table></div>{}</details>\n",
        count(report.dropped.len(), "metric"),
        Html::join(rows),
        more
    )
}

fn config(report: &Report) -> Html {
    let cut = report.config.floor_char_boundary(limits::CONFIG_BYTES);
    let (shown, rest) = report.config.split_at(cut);
    let more = if rest.is_empty() {
        ""
    } else {
        "\n… cut here; the run directory has all of it"
    };
    html!(
        "<details class=\"plain\"><summary>Configuration</summary>\n<pre>{}{}</pre></details>\n",
        shown,
        more
    )
}
