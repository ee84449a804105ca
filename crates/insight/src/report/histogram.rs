//! A histogram over nodes of how one figure changed on them.

use std::cmp::Ordering;

use super::chart::HEIGHT;
use super::html::{Html, count as number, decimals};

/// Bars of a histogram; the middle one is of nodes that hardly changed.
const BARS: usize = 21;

/// The width of a bar with the gap beside it, in the drawing's own units.
const WIDE: usize = 10;

/// Which way a figure is better.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Higher,
    Lower,
}

impl Better {
    fn words(self) -> &'static str {
        match self {
            Better::Higher => "higher is better",
            Better::Lower => "lower is better",
        }
    }

    /// The colour of a change.
    fn class(self, change: Ordering) -> &'static str {
        match (change, self) {
            (Ordering::Equal, _) => "same",
            (Ordering::Greater, Better::Higher) | (Ordering::Less, Better::Lower) => "better",
            _ => "worse",
        }
    }
}

/// What the colours and the number of a histogram mean.
pub(super) fn legend() -> Html {
    html!(
        "<p class=\"legend\"><span><i class=\"key better\"></i>better</span><span><i class=\"key worse\"></i>worse</span>\
         <span><i class=\"key same\"></i>hardly changed</span><span>the number is that of nodes in the highest bar</span></p>\n"
    )
}

/// Counts of nodes by how a figure changed on them, those where it fell left of the middle; nodes where it is undefined are
/// said and left out.
pub(super) fn histogram(title: &str, places: usize, better: Better, changes: &[Option<f64>]) -> Html {
    let defined: Vec<f64> = changes
        .iter()
        .flatten()
        .copied()
        .filter(|c| c.is_finite())
        .collect();
    let picture = match defined.iter().any(|c| *c != 0.0) {
        true => picture(title, places, better, &defined),
        false => Html::default(),
    };
    html!(
        "<div><h4>{} <small>{}</small></h4>\n<p>{}</p>\n{}</div>\n",
        title,
        better.words(),
        tally(better, &defined, changes.len()),
        picture
    )
}

/// On how many nodes a figure rose, fell, stayed and is undefined.
fn tally(better: Better, defined: &[f64], nodes: usize) -> Html {
    let count = |order| {
        let alike = defined.iter().filter(|c| c.partial_cmp(&&0.0) == Some(order));
        alike.count()
    };
    let changed = [
        ("rose", Ordering::Greater),
        ("fell", Ordering::Less),
        ("same", Ordering::Equal),
    ];
    let changed = changed.map(|(word, order)| (word, better.class(order), count(order)));
    let undefined = ("undefined", "same", nodes - defined.len());
    let parts = changed
        .into_iter()
        .chain([undefined])
        .filter(|(.., count)| *count > 0);
    let parts = parts.enumerate().map(|(i, (word, class, count))| {
        let before = if i > 0 { ", " } else { "" };
        html!("{}<span class=\"{}\">{} on {}</span>", before, class, word, count)
    });
    html!("{} of {} nodes", Html::join(parts), nodes)
}

/// The bars, on an axis of their own that reaches as far to either side as the largest change.
fn picture(title: &str, places: usize, better: Better, changes: &[f64]) -> Html {
    let least = 10f64.powi(1 - places as i32);
    let widest = changes.iter().map(|c| c.abs()).fold(least, f64::max);
    let counts = counts(changes, widest);
    let highest = counts.iter().copied().max().unwrap_or(0).max(1);
    let at = counts.iter().position(|count| *count == highest).unwrap_or(0);
    let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let edge = |i: usize| decimals(Some(widest * (2.0 * i as f64 / BARS as f64 - 1.0)), places);
    let bars = bars.map(|(i, count)| {
        let tall = HEIGHT * *count as i64 / highest as i64;
        let about = format!("{}, {} to {}", number(*count, "node"), edge(i), edge(i + 1));
        bar(i, tall, better, &about)
    });
    let end = decimals(Some(widest), places);
    html!(
        "<div class=\"bars\"><span style=\"left:{}%\">{}</span><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{}\">{}</svg></div>\n<div class=\"ends\"><span>−{}</span><span>0</span><span>+{}</span></div>\n",
        (2 * at + 1) * 50 / BARS,
        highest,
        BARS * WIDE,
        HEIGHT,
        format!("Nodes by how their {title} changed, from −{end} to +{end}"),
        Html::join(bars),
        end,
        end
    )
}

fn bar(index: usize, tall: i64, better: Better, about: &str) -> Html {
    html!(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
        better.class(index.cmp(&(BARS / 2))),
        index * WIDE + 1,
        HEIGHT - tall,
        WIDE - 2,
        tall,
        about
    )
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

    /// Two nodes where it fell far, one where it hardly fell, one where it did not change, one where it rose, and one where it
    /// is undefined.
    const CHANGES: [Option<f64>; 6] = [Some(-0.4), Some(-0.4), Some(-0.001), Some(0.0), Some(0.4), None];

    fn drawn(better: Better, changes: &[Option<f64>]) -> String {
        histogram("Recall", 3, better, changes).into_string()
    }

    /// Class, left edge and height of every bar.
    fn bars(page: &str) -> Vec<[&str; 3]> {
        let rects = page.split("<rect ").skip(1);
        rects
            .map(|rect| {
                let values: Vec<&str> = rect.split('"').skip(1).step_by(2).collect();
                [values[0], values[1], values[4]]
            })
            .collect()
    }

    #[test]
    fn bars_count_nodes_and_their_colour_means_better_or_worse_whichever_way_that_is() {
        let higher = drawn(Better::Higher, &CHANGES);
        assert_eq!(
            bars(&higher),
            [
                ["worse", "1", "200"],
                ["same", "101", "200"],
                ["better", "201", "100"]
            ]
        );
        let lower = drawn(Better::Lower, &CHANGES);
        assert_eq!(
            bars(&lower),
            [
                ["better", "1", "200"],
                ["same", "101", "200"],
                ["worse", "201", "100"]
            ]
        );
        assert!(higher.contains("higher is better") && lower.contains("lower is better"));
    }

    #[test]
    fn nodes_are_told_apart_in_words_of_the_same_colours_and_the_undefined_are_left_out() {
        assert!(drawn(Better::Lower, &CHANGES).contains(
            "<p><span class=\"worse\">rose on 1</span>, <span class=\"better\">fell on 3</span>, \
             <span class=\"same\">same on 1</span>, <span class=\"same\">undefined on 1</span> of 6 nodes</p>"
        ));
        let odd = drawn(Better::Higher, &[Some(f64::NAN), Some(0.1)]);
        assert!(odd.contains("rose on 1</span>, <span class=\"same\">undefined on 1</span> of 2 nodes"));
        assert_eq!(bars(&odd), [["better", "201", "200"]]);
    }

    #[test]
    fn without_a_change_nothing_is_drawn() {
        for (changes, said) in [
            (&[Some(0.0), Some(-0.0)][..], "same on 2</span> of 2 nodes"),
            (&[None, None], "undefined on 2</span> of 2 nodes"),
        ] {
            let page = drawn(Better::Higher, changes);
            assert!(page.contains(said) && !page.contains("<svg"), "{page}");
        }
    }

    #[test]
    fn every_figure_has_an_axis_of_its_own_that_rounding_errors_do_not_fill() {
        let wide = drawn(Better::Higher, &CHANGES);
        assert!(wide.contains("<span>−0.400</span><span>0</span><span>+0.400</span>"));
        let narrow = drawn(Better::Higher, &[Some(1e-15), Some(-1e-15)]);
        assert!(narrow.contains("<span>+0.010</span>"), "{narrow}");
        assert_eq!(bars(&narrow), [["same", "101", "200"]]);
    }

    #[test]
    fn changes_fall_left_and_right_of_the_middle() {
        let counts = counts(&[-1.0, -0.001, 0.0, 0.001, 1.0, 0.5], 1.0);
        assert_eq!((counts[0], counts[BARS / 2], counts[BARS - 1]), (1, 3, 1));
        assert_eq!(counts.iter().sum::<usize>(), 6);
    }
}
