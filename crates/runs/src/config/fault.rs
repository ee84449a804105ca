//! A mistake, shown where it stands.

use std::ops::Range;
use std::path::Path;

use super::nearest::{nearest, quoted};
use crate::error::Error;

/// Longer lines are cut, so that a fault stays readable.
const SHOWN: usize = 120;

/// The mistake with the file, its line and the line's text.
pub(super) fn fault(path: &Path, text: &str, span: Option<Range<usize>>, problem: &str) -> Error {
    let file = path.display();
    let Some(span) = span else {
        return Error::Mistake(format!("{file}: {problem}"));
    };
    let before = text.get(..span.start).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default().trim_end();
    let line: String = line.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    Error::Mistake(format!("{file}:{number}: {problem}\n  {number} | {line}"))
}

/// What the reader of a section had to say, in words for whoever wrote it.
pub(super) fn in_words(message: &str, table: &str) -> String {
    let message = message.trim_end();
    let words = quoted(message);
    let meant = |word: &str, known: &[&str]| match nearest(word, known.iter().copied()) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => String::new(),
    };
    match (words.split_first(), message.split(' ').next(), message) {
        (Some((word, known)), _, m) if m.starts_with("unknown field") => {
            format!(
                "unknown key `{word}` in [{table}]{}{}",
                meant(word, known),
                these(known)
            )
        }
        (Some((word, known)), _, m) if m.starts_with("unknown variant") => {
            format!("`{word}` is not known here{}{}", meant(word, known), these(known))
        }
        _ => match unexpected_keys(message) {
            Some((word, known)) => {
                format!(
                    "unknown key `{word}` in [{table}]{}{}",
                    meant(word, &known),
                    these(&known)
                )
            }
            None => message.to_owned(),
        },
    }
}

/// All that could stand there.
pub(super) fn these(known: &[&str]) -> String {
    match known {
        [] => String::new(),
        known => format!(" ({})", known.join(", ")),
    }
}

/// How the TOML reader names keys that a table within an enum does not have.
fn unexpected_keys(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unexpected keys in table: ")?;
    let (unknown, known) = rest.split_once(", available keys: ")?;
    Some((unknown.split(", ").next()?, known.split(", ").collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readers_words_become_a_persons() {
        for (message, said) in [
            (
                "unknown field `budgets`, expected `budget` or `percentile`",
                "unknown key `budgets` in [alarm]; did you mean `budget`? (budget, percentile)",
            ),
            (
                "unknown variant `cvs`, expected one of `idx`, `npy`",
                "`cvs` is not known here (idx, npy)",
            ),
            (
                "unexpected keys in table: factr, available keys: every, factor",
                "unknown key `factr` in [alarm]; did you mean `factor`? (every, factor)",
            ),
            ("missing field `kind`", "missing field `kind`"),
        ] {
            assert_eq!(in_words(message, "alarm"), said);
        }
    }

    #[test]
    fn a_fault_shows_its_line() {
        let text = "a = 1\n[b]\nc = \u{1b}[0m2\n";
        let said = fault(Path::new("x.toml"), text, Some(10..11), "is odd").to_string();
        assert_eq!(said, "x.toml:3: is odd\n  3 | c = [0m2");
        let said = fault(Path::new("x.toml"), text, None, "is odd").to_string();
        assert_eq!(said, "x.toml: is odd");
    }
}
