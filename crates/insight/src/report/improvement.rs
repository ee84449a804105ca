//! What learning with others is worth, and to whom.

use super::histogram::{Better, histogram, legend};
use super::html::{Html, decimals};
use super::model::{Improvement, Report};
use super::results::value;
use synod_evaluate::{Mean, Metrics};

/// Figures that are compared, with the digits they are shown with.
const FIGURES: [(&str, &str, usize); 8] = [
    ("f1", "F1", 3),
    ("precision", "Precision", 3),
    ("recall", "Recall", 3),
    ("fpr", "FPR", 4),
    ("auroc", "AUROC", 3),
    ("ap", "AP", 3),
    ("event_recall", "Events found", 3),
    ("false_alarms_per_node_month", "False alarms / node-month", 2),
];

/// Figures whose changes are drawn node by node. That of TNR is that of FPR turned around.
const DRAWN: [(&str, Better); 4] = [
    ("f1", Better::Higher),
    ("precision", Better::Higher),
    ("recall", Better::Higher),
    ("fpr", Better::Lower),
];

/// Nodes that are named in a sentence.
const NAMED: usize = 8;

/// The first of some names, and how many more there are; none of none.
pub fn listed(mut names: Vec<String>) -> Option<String> {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let and = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| names.join(", ") + &and)
}

/// On how many nodes F1 rose and fell, and the node on which it fell most, in words.
pub fn worst<'a>(differences: impl IntoIterator<Item = (&'a String, &'a Metrics)>) -> String {
    let changes: Vec<(&String, f64)> = differences
        .into_iter()
        .filter_map(|(node, metrics)| Some((node, metrics.f1?)))
        .collect();
    let count = |sign: f64| changes.iter().filter(|(_, f1)| f1 * sign > 0.0).count();
    let rose = format!(
        "F1 rose on {} and fell on {} of {} nodes",
        count(1.0),
        count(-1.0),
        changes.len()
    );
    match changes.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((node, f1)) if *f1 < 0.0 => format!("{rose}, most on {node} ({f1:+.3})."),
        _ => format!("{rose}."),
    }
}

/// A table of differences and a histogram over nodes for each comparison; nothing without one.
pub(super) fn section(report: &Report) -> Html {
    if report.improvements.is_empty() {
        return Html::default();
    }
    let headings = FIGURES
        .iter()
        .map(|(_, title, _)| html!("<th scope=\"col\">{}</th>", title));
    let choosing = report.improvements.iter().find_map(|i| i.choosing.as_ref());
    let choosing = choosing.map_or(String::new(), |words| format!(" {words}"));
    html!(
        "<section>\n<h2>Learning together</h2>\n<p>Means over nodes of the difference, with 95 % intervals from drawing nodes. \
         A mean hides who loses: the pictures count nodes by how each figure changed on them. TNR is 1 − FPR: it falls where FPR \
         rises, by as much.{}</p>\n<div class=\"scroll\"><table>\n\
         <thead><tr><th scope=\"col\">Difference</th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n{}{}</section>\n",
        choosing,
        Html::join(headings),
        Html::join(report.improvements.iter().map(row)),
        legend(),
        Html::join(report.improvements.iter().map(over_nodes)),
    )
}

fn row(improvement: &Improvement) -> Html {
    let cells = FIGURES
        .iter()
        .map(|(name, _, places)| cell(&improvement.mean, name, *places));
    html!(
        "<tr><th scope=\"row\">{} less {}</th>{}</tr>\n",
        improvement.arm,
        improvement.against,
        Html::join(cells)
    )
}

fn cell(mean: &Mean, name: &str, places: usize) -> Html {
    let range = mean.intervals.get(name).map(|i| {
        html!(
            "<br><small>{} to {}</small>",
            decimals(Some(i.low), places),
            decimals(Some(i.high), places)
        )
    });
    html!(
        "<td>{}{}</td>",
        decimals(value(&mean.metrics, name), places),
        range.unwrap_or_default()
    )
}

/// How figures changed on single nodes, and who lost.
fn over_nodes(improvement: &Improvement) -> Html {
    let chosen = improvement.chosen.as_ref();
    let chosen = chosen.map_or(String::new(), |words| format!(" {words}"));
    let histograms = DRAWN.iter().filter_map(|(name, better)| {
        let (_, title, places) = FIGURES.iter().find(|(n, ..)| n == name)?;
        let changes = improvement.differences.values().map(|d| value(d, name));
        Some(histogram(title, *places, *better, &changes.collect::<Vec<_>>()))
    });
    html!(
        "<figure>\n<h3>{} less {}</h3>\n<div class=\"changes\">\n{}</div>\n<figcaption>{}{}</figcaption>\n</figure>\n",
        improvement.arm,
        improvement.against,
        Html::join(histograms),
        worst(&improvement.differences),
        chosen
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page;
    use std::collections::BTreeMap;

    fn changes(f1: &[(&str, f64)]) -> BTreeMap<String, Metrics> {
        let change = |(node, f1): &(&str, f64)| {
            let metrics = Metrics {
                f1: Some(*f1),
                ..Metrics::default()
            };
            ((*node).to_owned(), metrics)
        };
        f1.iter().map(change).collect()
    }

    #[test]
    fn the_page_says_who_loses_most() {
        let mut report = Report::default();
        assert!(!page(&report).contains("Learning together"));
        report.improvements.push(Improvement {
            arm: "federated <1>".to_owned(),
            against: "local".to_owned(),
            differences: changes(&[("a", 0.2), ("b", -0.1), ("c", 0.0), ("d", -0.4)]),
            ..Improvement::default()
        });
        let page = self::page(&report);
        assert!(
            page.contains("<h3>federated &lt;1&gt; less local</h3>"),
            "escaped"
        );
        assert!(page.contains("F1 rose on 1 and fell on 2 of 4 nodes, most on d (-0.400)."));
        report.improvements[0].chosen = Some("None chose.".to_owned());
        report.improvements[0].choosing = Some("A node <chooses> by lot.".to_owned());
        report.improvements.push(report.improvements[0].clone());
        let page = self::page(&report);
        assert!(page.contains("d (-0.400). None chose.</figcaption>"));
        let choosing = page.matches("by as much. A node &lt;chooses&gt; by lot.</p>");
        assert_eq!(choosing.count(), 1, "said once, of all comparisons");
    }

    #[test]
    fn nobody_is_named_where_nobody_loses() {
        let said = worst(&changes(&[("a", 0.2), ("b", 0.0)]));
        assert_eq!(said, "F1 rose on 1 and fell on 0 of 2 nodes.");
    }

    #[test]
    fn every_figure_is_counted_by_its_own_changes_and_fewer_false_positives_are_better() {
        let node = |f1, precision, recall, fpr| Metrics {
            f1,
            precision,
            recall,
            fpr,
            ..Metrics::default()
        };
        let gains = node(Some(0.2), Some(0.3), Some(0.1), Some(-0.01));
        let loses = node(Some(-0.1), None, Some(0.0), Some(-0.02));
        let page = over_nodes(&Improvement {
            differences: [("a".to_owned(), gains), ("b".to_owned(), loses)].into(),
            ..Improvement::default()
        })
        .into_string();
        let said: Vec<String> = page
            .split("<h4>")
            .skip(1)
            .map(|part| {
                format!(
                    "{} {}",
                    before(part, " <small>"),
                    before(&part[part.find("<p>").expect("words")..], "</p>")
                )
            })
            .collect();
        let word = |class: &str, what: &str| format!("<span class=\"{class}\">{what}</span>");
        assert_eq!(
            said,
            [
                format!(
                    "F1 <p>{}, {} of 2 nodes",
                    word("better", "rose on 1"),
                    word("worse", "fell on 1")
                ),
                format!(
                    "Precision <p>{}, {} of 2 nodes",
                    word("better", "rose on 1"),
                    word("same", "undefined on 1")
                ),
                format!(
                    "Recall <p>{}, {} of 2 nodes",
                    word("better", "rose on 1"),
                    word("same", "same on 1")
                ),
                format!("FPR <p>{} of 2 nodes", word("better", "fell on 2")),
            ]
        );
    }

    fn before<'a>(text: &'a str, end: &str) -> &'a str {
        text.split(end).next().unwrap_or_default()
    }
}
