//! The alarms worth looking at first, with the metrics behind them.

use super::html::{Html, count, decimals, measured};
use super::limits;
use super::model::{Alarm, Cause, Report};
use super::nodes::anchor;
use super::time::{duration, moment};
use synod_evaluate::EventKind;

/// One card per alarm, most important first.
pub(super) fn section(report: &Report) -> Html {
    if report.alarms.is_empty() {
        return Html::default();
    }
    let cards = report
        .alarms
        .iter()
        .take(limits::ALARMS)
        .map(|alarm| card(alarm, report));
    let more = match report.alarms.len().saturating_sub(limits::ALARMS) {
        0 => Html::default(),
        n => html!(
            "<p class=\"quiet\">{} not shown here; the timelines below show all.</p>\n",
            count(n, "more alarm")
        ),
    };
    html!(
        "<section>\n<h2>Look at these first</h2>\n<div class=\"cards\">\n{}</div>\n{}</section>\n",
        Html::join(cards),
        more
    )
}

/// A word on whether a label bears the alarm out.
pub(super) fn verdict(kind: EventKind) -> Html {
    match kind {
        EventKind::True => html!("<span class=\"tag true\">labelled anomalous</span>"),
        EventKind::False => html!("<span class=\"tag false\">labelled healthy</span>"),
        EventKind::Unknown => html!("<span class=\"tag\">not labelled</span>"),
    }
}

fn card(alarm: &Alarm, report: &Report) -> Html {
    let name = match report.nodes.iter().position(|n| n.node == alarm.node) {
        Some(index) => html!("<a href=\"#{}\">{}</a>", anchor(index), alarm.node),
        None => html!("{}", alarm.node),
    };
    html!(
        "<article class=\"card\">\n<h3>{} {}</h3>\n<p class=\"when\">{} – {} · {}</p>\n<p>{}</p>\n<p class=\"quiet\">{}</p>\n{}</article>\n",
        name,
        verdict(alarm.kind),
        moment(alarm.start),
        moment(alarm.end),
        duration(alarm.end.saturating_sub(alarm.start)),
        alarm.summary,
        strength(alarm),
        causes(&alarm.causes)
    )
}

fn strength(alarm: &Alarm) -> Html {
    let times = f64::from(alarm.peak_score) / f64::from(alarm.threshold);
    let above = if alarm.threshold > 0.0 && times.is_finite() {
        html!(
            "Peak score {}, {} times its threshold",
            measured(alarm.peak_score),
            decimals(Some(times), if times < 10.0 { 1 } else { 0 })
        )
    } else {
        html!("Peak score {}", measured(alarm.peak_score))
    };
    match alarm.p_value.filter(|p| *p > 0.0) {
        Some(p) if p >= 0.5 => html!("{}; healthy windows score that high more often than not.", above),
        Some(p) => html!(
            "{}; at most 1 in {} healthy windows scores that high.",
            above,
            measured((1.0 / p) as f32)
        ),
        None => html!("{}.", above),
    }
}

fn causes(causes: &[Cause]) -> Html {
    if causes.is_empty() {
        return Html::default();
    }
    let peers = causes.iter().any(|c| c.peers_median.is_some());
    let (silent, others): (Vec<&Cause>, Vec<&Cause>) = causes
        .iter()
        .take(limits::CAUSES)
        .partition(|c| c.observed.is_nan());
    // Metrics that fall silent do so together, and say the same.
    let several = silent.len() > 2;
    let quiet = several.then(|| silence(&silent, peers));
    let single = silent.iter().filter(|_| !several).chain(&others);
    let rows = quiet.into_iter().chain(single.map(|c| cause(c, peers)));
    let heading = if peers {
        html!("<th class=\"n\">Peers</th>")
    } else {
        Html::default()
    };
    html!(
        "<div class=\"scroll\"><table class=\"causes\">\n<thead><tr><th>Metric</th><th class=\"n\">Observed</th>\
         <th class=\"n\">Expected</th>{}<th>Share</th></tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        heading,
        Html::join(rows)
    )
}

/// One row for metrics that are all silent.
fn silence(silent: &[&Cause], peers: bool) -> Html {
    let names: Vec<&str> = silent.iter().take(2).map(|c| c.metric.as_str()).collect();
    let shares: f64 = silent.iter().map(|c| c.share).filter(|s| s.is_finite()).sum();
    let columns: usize = if peers { 3 } else { 2 };
    html!(
        "<tr><td class=\"name\">{} and {} more</td><td class=\"n\" colspan=\"{}\">all silent</td>{}</tr>\n",
        names.join(", "),
        silent.len() - names.len(),
        columns,
        bar(shares)
    )
}

fn bar(share: f64) -> Html {
    let percent = if share.is_finite() {
        100.0 * share.clamp(0.0, 1.0)
    } else {
        0.0
    };
    html!(
        "<td><span class=\"share\"><i style=\"width:{}%\"></i></span><span class=\"percent\">{} %</span></td>",
        decimals(Some(percent), 1),
        decimals(Some(percent), 0)
    )
}

fn cause(cause: &Cause, peers: bool) -> Html {
    let median = cause.peers_median.map_or("–".to_owned(), measured);
    let median = if peers {
        html!("<td class=\"n\">{}</td>", median)
    } else {
        Html::default()
    };
    html!(
        "<tr><td class=\"name\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>{}{}</tr>\n",
        cause.metric,
        measured(cause.observed),
        measured(cause.expected),
        median,
        bar(cause.share)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_that_fall_silent_together_are_one_row() {
        let cause = |metric: &str, observed: f32| Cause {
            metric: metric.to_owned(),
            observed,
            expected: 1.0,
            share: 0.25,
            peers_median: None,
        };
        let shown = |all: &[Cause]| causes(all).into_string();
        let all = [cause("a", f32::NAN), cause("b", f32::NAN), cause("c", 2.0)];
        assert_eq!(
            shown(&all).matches("<tr><td").count(),
            3,
            "two are told one by one"
        );
        let more = [&all[..], &[cause("d", f32::NAN)]].concat();
        let page = shown(&more);
        assert_eq!(page.matches("<tr><td").count(), 2, "{page}");
        assert!(
            page.contains("a, b and 1 more") && page.contains("all silent") && page.contains("75 %"),
            "{page}"
        );
    }
}
