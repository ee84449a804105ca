//! What learning with others is worth, and to whom.

use super::chart::{HEIGHT, WIDTH};
use super::html::{Html, decimals, raw};
use super::model::{Improvement, Report};
use crate::evaluate::Mean;

/// Bars of a histogram.
const BARS: usize = 21;

/// Figures that are compared, with the digits they are shown with.
const FIGURES: [(&str, &str, usize); 7] = [
    ("f1", "F1", 3),
    ("precision", "Precision", 3),
    ("recall", "Recall", 3),
    ("fpr", "FPR", 4),
    ("auroc", "AUROC", 3),
    ("ap", "AP", 3),
    ("false_alarms_per_node_month", "False alarms / node-month", 2),
];

/// A fall in F1 that is worth a word.
const HURT: f64 = 0.005;

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

/// The nodes whose F1 fell, those that lost most first, in words; none if there are none.
pub fn hurt<'a>(changes: impl IntoIterator<Item = (&'a String, &'a f64)>) -> Option<String> {
    let mut lost: Vec<(&String, &f64)> = changes.into_iter().filter(|(_, c)| **c <= -HURT).collect();
    lost.sort_by(|a, b| a.1.total_cmp(b.1));
    let named = lost
        .into_iter()
        .map(|(node, change)| format!("{node} ({change:+.3})"));
    listed(named.collect())
}

/// A table of differences and a histogram over nodes for each comparison; nothing without one.
pub(super) fn section(report: &Report) -> Html {
    if report.improvements.is_empty() {
        return Html::default();
    }
    let headings = FIGURES
        .iter()
        .map(|(_, title, _)| html!("<th scope=\"col\">{}</th>", title));
    html!(
        "<section>\n<h2>Learning together</h2>\n<p>Means over nodes of the difference, with 95 % intervals from drawing nodes. \
         A mean hides who loses: the pictures count nodes by how their F1 changed.</p>\n<div class=\"scroll\"><table>\n\
         <thead><tr><th scope=\"col\">Difference</th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n{}</section>\n",
        Html::join(headings),
        Html::join(report.improvements.iter().map(row)),
        Html::join(report.improvements.iter().filter_map(histogram)),
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
    let at = crate::evaluate::Metrics::NAMES.iter().position(|n| *n == name);
    let value = at.and_then(|i| mean.metrics.values()[i]);
    let range = mean.intervals.get(name).map(|i| {
        html!(
            "<br><small>{} to {}</small>",
            decimals(Some(i.low), places),
            decimals(Some(i.high), places)
        )
    });
    html!(
        "<td>{}{}</td>",
        decimals(value, places),
        range.unwrap_or_default()
    )
}

/// Counts of nodes by how their F1 changed, those that lost left of the middle.
fn histogram(improvement: &Improvement) -> Option<Html> {
    let changes: Vec<f64> = improvement
        .f1
        .values()
        .copied()
        .filter(|c| c.is_finite())
        .collect();
    let widest = changes.iter().map(|c| c.abs()).fold(0.0, f64::max).max(0.01);
    let counts = counts(&changes, widest);
    let most = counts.iter().copied().max().filter(|most| *most > 0)?;
    let (wide, better) = (WIDTH / BARS as i64, changes.iter().filter(|c| **c > 0.0).count());
    let worse = changes.iter().filter(|c| **c < 0.0).count();
    let bar = |(i, count): (usize, &usize)| {
        let tall = HEIGHT * *count as i64 / most as i64;
        html!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"currentColor\" fill-opacity=\"{}\"/>",
            i as i64 * wide + 2,
            HEIGHT - tall,
            wide - 4,
            tall,
            raw(match i.cmp(&(BARS / 2)) {
                std::cmp::Ordering::Less => "0.35",
                std::cmp::Ordering::Equal => "0.55",
                std::cmp::Ordering::Greater => "0.75",
            })
        )
    };
    let losing = hurt(&improvement.f1).map(|nodes| html!(" It fell on {}.", nodes));
    let label = format!(
        "F1 rose on {better} nodes and fell on {worse} of {} with {}, by up to {widest:.2}",
        changes.len(),
        improvement.arm
    );
    Some(html!(
        "<figure>\n<figcaption>{}.{}</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" width=\"100%\" height=\"120\" \
         preserveAspectRatio=\"none\">{}</svg>\n<div style=\"display:flex;justify-content:space-between\" class=\"quiet\">\
         <span>−{}</span><span>unchanged</span><span>+{}</span></div>\n</figure>\n",
        label,
        losing.unwrap_or_default(),
        WIDTH,
        HEIGHT,
        label,
        Html::join(counts.iter().enumerate().map(bar)),
        decimals(Some(widest), 2),
        decimals(Some(widest), 2)
    ))
}

/// How many changes fall into each of equal parts from `-widest` to `widest`.
fn counts(changes: &[f64], widest: f64) -> [usize; BARS] {
    let mut counts = [0; BARS];
    for change in changes {
        let share = (change / widest + 1.0) / 2.0;
        let place = ((share * BARS as f64) as usize).min(BARS - 1);
        counts[place] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page;

    #[test]
    fn changes_fall_left_and_right_of_the_middle() {
        let counts = counts(&[-1.0, -0.001, 0.0, 0.001, 1.0, 0.5], 1.0);
        assert_eq!((counts[0], counts[BARS / 2], counts[BARS - 1]), (1, 3, 1));
        assert_eq!(counts.iter().sum::<usize>(), 6);
    }

    #[test]
    fn the_page_says_who_gains_and_who_loses() {
        let mut report = Report::default();
        assert!(!page(&report).contains("Learning together"));
        report.improvements.push(Improvement {
            arm: "federated <1>".to_owned(),
            against: "local".to_owned(),
            f1: [("a", 0.2), ("b", -0.1), ("c", 0.1)]
                .map(|(n, c)| (n.to_owned(), c))
                .into(),
            ..Improvement::default()
        });
        let page = page(&report);
        assert!(page.contains("federated &lt;1&gt; less local"), "escaped");
        assert!(page.contains("F1 rose on 2 nodes and fell on 1 of 3"));
        assert!(page.contains("It fell on b (-0.100)."));
    }

    #[test]
    fn those_who_lose_most_are_named_first_and_noise_is_not() {
        let changes = |count: usize| -> Vec<(String, f64)> {
            (0..count).map(|i| (format!("n{i}"), -0.01 * i as f64)).collect()
        };
        let said = |count| hurt(changes(count).iter().map(|(n, c)| (n, c)));
        assert_eq!(said(1), None);
        assert_eq!(said(3).as_deref(), Some("n2 (-0.020), n1 (-0.010)"));
        assert!(said(11).is_some_and(|s| s.starts_with("n10 (-0.100)") && s.ends_with(" and 2 more")));
    }
}
