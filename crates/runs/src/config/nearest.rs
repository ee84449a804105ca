//! Words that were meant.

/// Below this likeness a word is another one, not the same mistyped.
const ALIKE: f64 = 0.75;

/// The word that was most likely meant.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let rated = known
        .into_iter()
        .map(|known| (likeness(word, known), known))
        .filter(|(likeness, _)| *likeness >= ALIKE);
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

/// Slips of the keyboard weigh by the length of the word; a common beginning makes words more alike.
fn likeness(a: &str, b: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(a, b).max(strsim::jaro_winkler(a, b) - 0.1)
}

/// The words in backquotes, in their order.
pub(super) fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["budget", "percentile", "report_timeout", "rounds", "csv"];
        for (word, meant) in [
            ("budgets", Some("budget")),
            ("percentil", Some("percentile")),
            ("precentile", Some("percentile")),
            ("timeout", None),
            ("round", Some("rounds")),
            ("cvs", None),
            ("x", None),
        ] {
            let found = nearest(word, known);
            match (word, meant) {
                // Three letters, two of them swapped: either is right.
                ("cvs", _) => assert!(found.is_none_or(|f| f == "csv")),
                _ => assert_eq!(found, meant, "{word}"),
            }
        }
    }

    #[test]
    fn words_in_backquotes_are_found() {
        let text = "unknown field `budgets`, expected `budget` or `percentile`";
        assert_eq!(quoted(text), ["budgets", "budget", "percentile"]);
    }
}
