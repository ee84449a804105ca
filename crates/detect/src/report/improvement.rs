//! What learning with others is worth, and to whom.

use std::collections::BTreeMap;

use super::histogram::{Better, histogram, legend};
use super::html::{Html, decimals};
use super::model::{Improvement, Report};
use super::results::value;
use crate::evaluate::{Change, Interval, Mean, for_each_of};
use crate::federated::{Choice, EARNED, FEWEST};

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

/// A fall in F1 that is worth a word.
const FELL: f64 = 0.005;

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

/// The nodes that are hurt beyond chance, those that lost most first, then those whose F1 fell as chance may have it, and how
/// many could not have shown a loss, in words.
pub fn losers<'a>(changes: impl IntoIterator<Item = (&'a String, &'a Change)>) -> String {
    let changes: Vec<(&String, &Change)> = changes.into_iter().collect();
    let silent = changes.iter().filter(|(_, change)| !change.telling).count();
    let silent = match silent {
        0 => String::new(),
        silent => format!(
            " Too few days with events to show a loss: {silent} of {} nodes.",
            changes.len()
        ),
    };
    let mut lost: Vec<(&String, &Change)> = changes
        .into_iter()
        .filter(|(_, change)| change.hurt() || change.f1 <= -FELL)
        .collect();
    lost.sort_by(|a, b| a.1.f1.total_cmp(&b.1.f1));
    let (hurt, unlucky): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(_, change)| change.hurt());
    let beyond = |(node, change): (&String, &Change)| {
        let Interval { low, high } = change.interval;
        format!(
            "{node} ({:+.3} [{low:+.3}, {high:+.3}]{})",
            change.f1,
            events(change)
        )
    };
    let within = |(node, change): (&String, &Change)| format!("{node} ({:+.3}{})", change.f1, events(change));
    let beyond = listed(hurt.into_iter().map(beyond).collect());
    let within = listed(unlucky.into_iter().map(within).collect());
    format!(
        "Hurt beyond chance: {}.{}{silent}",
        beyond.as_deref().unwrap_or("no node"),
        within.map_or(String::new(), |nodes| format!(
            " Within chance, F1 fell on {nodes}."
        ))
    )
}

/// What changed for an operator, if anything did: a node may lose windows and win events.
fn events(change: &Change) -> String {
    let parts = [
        ("events found", change.found),
        ("false alarms", change.false_alarms),
    ];
    let parts = parts.iter().filter(|(_, more)| *more != 0);
    parts.map(|(name, more)| format!(", {name} {more:+}")).collect()
}

/// What is meant by chance, in a sentence.
pub fn chance(nodes: usize) -> String {
    format!(
        "Hurt beyond chance: the node's interval of the difference in F1, from drawing stretches of a day or more, lies below 0; \
         its level is {:.2} %, the more nodes the higher.",
        for_each_of(nodes).level * 100.0
    )
}

/// How nodes chose between learning alone and with others, in words; nothing if none had a choice.
pub fn chosen(choices: &[Choice]) -> Option<String> {
    if choices.is_empty() {
        return None;
    }
    let together: Vec<&Choice> = choices.iter().filter(|c| c.federated).collect();
    let alone = format!(
        "{} of {} nodes chose to learn alone.",
        choices.len() - together.len(),
        choices.len()
    );
    if together.is_empty() {
        return Some(alone);
    }
    let heard = together.iter().filter(|c| c.heard > 0.0).count();
    let share = together.iter().map(|c| c.heard).sum::<f64>() / together.len() as f64;
    Some(format!(
        "{alone} Of the other {} nodes {heard} listened to the others, in {:.0} % of all windows.",
        together.len(),
        share * 100.0
    ))
}

/// How many of the nodes that others hurt are as good as alone once they choose, by chance or not; nothing if nobody was hurt.
pub fn back(together: &BTreeMap<String, Change>, chosen: &BTreeMap<String, Change>) -> Option<String> {
    let fell = |change: &Change| change.f1 < 0.0;
    let hurt: Vec<&String> = together.iter().filter(|(_, c)| fell(c)).map(|(n, _)| n).collect();
    let back = hurt.iter().filter(|n| chosen.get(**n).is_some_and(|c| !fell(c)));
    (!hurt.is_empty()).then(|| {
        format!(
            "Of {} nodes whose F1 fell together {} have at least what they have alone.",
            hurt.len(),
            back.count()
        )
    })
}

/// How a node chooses, in a sentence.
pub fn choosing() -> String {
    format!(
        "A node learns alone if others make the last quarter of the training time harder to foretell, its own or most nodes'. \
         One that learns with others listens to itself until they are known to lead on it by {EARNED} of F1, after at least \
         {FEWEST} anomalies; one that has just joined or has no labels listens to them from the first. With networks nothing is \
         decided beforehand, and who has no labels goes on listening to itself."
    )
}

/// A table of differences and a histogram over nodes for each comparison; nothing without one.
pub(super) fn section(report: &Report) -> Html {
    if report.improvements.is_empty() {
        return Html::default();
    }
    let headings = FIGURES
        .iter()
        .map(|(_, title, _)| html!("<th scope=\"col\">{}</th>", title));
    let compared = report.improvements.iter().map(|i| i.f1.len()).max();
    let choosing = match report.improvements.iter().any(|i| i.chosen.is_some()) {
        true => format!(" {}", self::choosing()),
        false => String::new(),
    };
    html!(
        "<section>\n<h2>Learning together</h2>\n<p>Means over nodes of the difference, with 95 % intervals from drawing nodes. \
         A mean hides who loses: the pictures count nodes by how each figure changed on them. TNR is 1 − FPR: it falls where FPR \
         rises, by as much. {}{}</p>\n<div class=\"scroll\"><table>\n\
         <thead><tr><th scope=\"col\">Difference</th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n{}{}</section>\n",
        chance(compared.unwrap_or(0)),
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
        losers(&improvement.f1),
        chosen
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::Metrics;
    use crate::report::page;

    #[test]
    fn the_page_says_who_gains_and_who_loses() {
        let mut report = Report::default();
        assert!(!page(&report).contains("Learning together"));
        report.improvements.push(Improvement {
            arm: "federated <1>".to_owned(),
            against: "local".to_owned(),
            f1: [
                ("a", 0.2, 0.3),
                ("b", -0.1, 0.1),
                ("c", 0.1, 0.2),
                ("d", -0.4, -0.2),
            ]
            .map(|(n, f1, high)| (n.to_owned(), change(f1, high)))
            .into(),
            ..Improvement::default()
        });
        let page = self::page(&report);
        assert!(
            page.contains("<h3>federated &lt;1&gt; less local</h3>"),
            "escaped"
        );
        let who = "Hurt beyond chance: d (-0.400 [-0.500, -0.200]). Within chance, F1 fell on b (-0.100).";
        assert!(page.contains(who), "{page}");
        assert!(page.contains("its level is 99.75 %"));
        report.improvements[0].chosen = Some("None chose.".to_owned());
        let page = self::page(&report);
        assert!(page.contains("b (-0.100). None chose.</figcaption>") && page.contains("by 0.03 of F1"));
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

    #[test]
    fn it_is_said_how_many_of_those_whom_others_hurt_come_back() {
        let changes = |f1: [f64; 3]| {
            let named = ["a", "b", "c"].map(str::to_owned).into_iter();
            named
                .zip(f1.map(|f1| change(f1, 1.0)))
                .collect::<BTreeMap<_, _>>()
        };
        let together = changes([-0.1, -0.2, 0.3]);
        assert_eq!(
            back(&together, &changes([0.0, -0.001, -0.1])).as_deref(),
            Some("Of 2 nodes whose F1 fell together 1 have at least what they have alone.")
        );
        assert_eq!(back(&changes([0.0; 3]), &together), None, "nobody was hurt");
    }

    fn change(f1: f64, high: f64) -> Change {
        Change {
            f1,
            interval: Interval { low: -0.5, high },
            telling: true,
            ..Change::default()
        }
    }

    #[test]
    fn it_is_said_how_many_learn_alone_and_how_much_others_are_listened_to() {
        let choice = |federated, heard| Choice {
            node: "n".to_owned(),
            federated,
            gain: 0.0,
            heard,
        };
        assert_eq!(chosen(&[]), None);
        let said = |choices: &[Choice]| chosen(choices).expect("words");
        assert_eq!(said(&[choice(false, 0.0)]), "1 of 1 nodes chose to learn alone.");
        assert_eq!(
            said(&[choice(true, 0.5), choice(true, 0.0), choice(false, 0.0)]),
            "1 of 3 nodes chose to learn alone. Of the other 2 nodes 1 listened to the others, in 25 % of all windows."
        );
    }

    #[test]
    fn those_who_lose_most_are_named_first_and_noise_is_not() {
        let said = |count: usize, high: f64| {
            let changes: Vec<(String, Change)> = (0..count)
                .map(|i| (format!("n{i}"), change(-0.01 * i as f64, high)))
                .collect();
            losers(changes.iter().map(|(n, c)| (n, c)))
        };
        assert_eq!(said(1, 0.0), "Hurt beyond chance: no node.");
        assert_eq!(
            said(3, 0.0),
            "Hurt beyond chance: no node. Within chance, F1 fell on n2 (-0.020), n1 (-0.010)."
        );
        let seen = Change {
            found: 3,
            false_alarms: -13,
            ..change(-0.047, 0.1)
        };
        assert!(
            losers([(&"n".to_owned(), &seen)])
                .ends_with("F1 fell on n (-0.047, events found +3, false alarms -13).")
        );
        let few = ("n0".to_owned(), Change::default());
        let said_of_few = losers([(&few.0, &few.1)]);
        assert!(said_of_few.ends_with("no node. Too few days with events to show a loss: 1 of 1 nodes."));
        assert!(said(11, 0.0).ends_with("n4 (-0.040), n3 (-0.030) and 2 more."));
        assert!(said(11, -0.001).starts_with("Hurt beyond chance: n10 (-0.100 [-0.500, -0.001]), n9"));
    }
}
