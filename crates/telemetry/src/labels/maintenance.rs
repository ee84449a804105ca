//! Planned work on nodes.

use std::path::Path;

use super::intervals::{LabelInterval, State};
use crate::{
    error::{Error, Result},
    parse_time,
    pattern::matches,
};

/// Work on all nodes that fit a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// The nodes, with `*` for anything.
    pub nodes: String,
    /// The first second of it, since 1970.
    pub from: i64,
    /// The first second after it.
    pub to: i64,
    /// What is done.
    pub reason: String,
}

/// The work as intervals of the nodes there are.
pub fn maintenance<S: AsRef<str>>(work: &[Maintenance], nodes: &[S]) -> Vec<LabelInterval> {
    let mut intervals = Vec::new();
    for work in work {
        let hit = nodes
            .iter()
            .map(AsRef::as_ref)
            .filter(|node| matches(&work.nodes, node));
        intervals.extend(hit.map(|node| LabelInterval {
            node: node.to_owned(),
            from: work.from,
            to: work.to,
            state: State::Maintenance,
            source: "maintenance".to_owned(),
            reason: work.reason.clone(),
        }));
    }
    intervals
}

/// Reads lines of the form `nodes, from, to, reason`, the reason being optional. Empty lines and those that begin with `#`
/// mean nothing.
pub fn parse_maintenance(text: &str, path: &Path) -> Result<Vec<Maintenance>> {
    let mut work = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |problem: String| Error::Source {
            path: path.to_path_buf(),
            problem: format!("line {}: {problem}", number + 1),
            advice: "write: nodes, from, to, reason, with times as 2025-06-03T08:00Z",
        };
        let fields: Vec<&str> = line.splitn(4, ',').map(str::trim).collect();
        let [nodes, from, to, rest @ ..] = fields.as_slice() else {
            return Err(wrong(format!("{} fields", fields.len())));
        };
        let time = |text: &str| {
            let time = parse_time(text).map(|time| time.div_euclid(1000));
            time.ok_or_else(|| wrong(format!("{text:?} is no time")))
        };
        let (from, to) = (time(from)?, time(to)?);
        if to <= from || nodes.is_empty() {
            return Err(wrong("it names no nodes, or ends before it begins".to_owned()));
        }
        work.push(Maintenance {
            nodes: (*nodes).to_owned(),
            from,
            to,
            reason: rest.first().copied().unwrap_or_default().to_owned(),
        });
    }
    Ok(work)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_choose_the_nodes() -> Result<()> {
        let text = "# spring\nr1*, 1970-01-01T00:01Z, 1970-01-01T00:02:00Z, new fans, both\n\n*2,0,60\n";
        let work = parse_maintenance(text, Path::new("work"))?;
        assert_eq!(
            (work[0].from, work[0].to, work[0].reason.as_str()),
            (60, 120, "new fans, both")
        );
        let intervals = maintenance(&work, &["r1n1", "r2n1", "r1n2"]);
        let of: Vec<(&str, i64)> = intervals.iter().map(|i| (i.node.as_str(), i.from)).collect();
        assert_eq!(of, [("r1n1", 60), ("r1n2", 60), ("r1n2", 0)]);
        Ok(())
    }

    #[test]
    fn wrong_lines_are_named() {
        for wrong in ["n1, 5", "n1, soon, 7", "n1, 7, 5", ", 1, 2"] {
            let error = parse_maintenance(&format!("\n{wrong}"), Path::new("work")).expect_err(wrong);
            assert!(error.to_string().contains("line 2"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[n,0-9:T\n#é -]{0,40}") {
            let _ = parse_maintenance(&text, Path::new("work"));
        }
    }
}
