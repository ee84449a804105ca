//! What Slurm says of its nodes: `sinfo --json`.

use std::path::Path;

use serde_json::Value;

use super::{
    hostlist::expand,
    intervals::{LabelInterval, State},
};
use crate::error::{Error, Result};

/// Flags and states of a node that is out of service because something is wrong, or is said to be.
const BAD: [&str; 10] = [
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "DOWN",
    "FAIL",
    "FAILING",
    "ERROR",
    "NOT_RESPONDING",
    "NO_RESPOND",
    "INVALID_REG",
];
const WORKED_ON: [&str; 5] = [
    "MAINT",
    "MAINTENANCE",
    "REBOOT",
    "REBOOT_ISSUED",
    "REBOOT_REQUESTED",
];
const SILENT: [&str; 6] = [
    "POWERED_DOWN",
    "POWERING_DOWN",
    "POWERING_UP",
    "FUTURE",
    "UNKNOWN",
    "CLOUD",
];

/// Reads the nodes that `sinfo --json` or `scontrol show nodes --json` printed at `now`, in seconds.
///
/// A node that is drained, draining or down is anomalous since its reason was set, and one under maintenance is so. Where
/// the state is `idle`, the drain stands among the flags, so both are looked at. Any other node is healthy at `now`.
pub fn sinfo_json(text: &[u8], path: &Path, now: i64) -> Result<Vec<LabelInterval>> {
    let wrong = |problem: String| Error::Source {
        path: path.to_path_buf(),
        problem,
        advice: "give what sinfo --json or scontrol show nodes --json prints",
    };
    let answer: Value = serde_json::from_slice(text).map_err(|e| wrong(format!("it is not JSON: {e}")))?;
    let list = |key: &str| answer.get(key).and_then(Value::as_array);
    let mut intervals = Vec::new();
    if let Some(nodes) = list("nodes") {
        for node in nodes {
            let name = node
                .get("name")
                .or_else(|| node.get("hostname"))
                .and_then(Value::as_str);
            let name = name.ok_or_else(|| wrong("a node has no name".to_owned()))?;
            let words = words(&[node.get("state"), node.get("state_flags")]);
            let since = node.get("reason_changed_at").and_then(number);
            intervals.push(interval(name, &words, text_of(node.get("reason")), since, now));
        }
    } else if let Some(groups) = list("sinfo") {
        for group in groups {
            let names = group
                .pointer("/nodes/nodes")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let words = words(&[group.pointer("/node/state")]);
            let since = group.pointer("/reason/time").and_then(number);
            let reason = text_of(group.pointer("/reason/description"));
            for name in names.filter_map(Value::as_str).filter_map(expand).flatten() {
                intervals.push(interval(&name, &words, reason, since, now));
            }
        }
    } else {
        return Err(wrong("there is no list of nodes".to_owned()));
    }
    Ok(intervals)
}

fn interval(name: &str, words: &[String], reason: &str, since: Option<i64>, now: i64) -> LabelInterval {
    let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let state = match () {
        () if any(&WORKED_ON) => State::Maintenance,
        () if any(&BAD) => State::Anomalous,
        () if any(&SILENT) => State::Unknown,
        () => State::Healthy,
    };
    // The reason's time is the drain's; a node in service has none, or that of an old one.
    let since = since.filter(|&since| state > State::Healthy && since > 0 && since <= now);
    LabelInterval {
        node: name.to_owned(),
        from: since.unwrap_or(now),
        to: now.saturating_add(1),
        state,
        source: "slurm".to_owned(),
        reason: if reason.is_empty() {
            words.join("+")
        } else {
            format!("{}: {reason}", words.join("+"))
        },
    }
}

/// The words of states, which are a string or a list of strings.
fn words(values: &[Option<&Value>]) -> Vec<String> {
    let mut words = Vec::new();
    for value in values.iter().flatten() {
        let one = value.as_str().into_iter();
        let many = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        let parts = one.chain(many).flat_map(|text| text.split('+'));
        words.extend(parts.map(|word| word.trim_end_matches('*').to_ascii_uppercase()));
    }
    words
}

/// A number, or the number in `{"set": true, "number": …}`.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        value
            .get("number")?
            .as_i64()
            .filter(|_| value.get("set") != Some(&Value::Bool(false)))
    })
}

fn text_of(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = r#"{"nodes":[
        {"name":"n1","state":"idle","state_flags":["DRAIN"],"reason":"fan","reason_changed_at":500,"reason_set_by_user":"root"},
        {"name":"n2","state":"allocated","state_flags":[],"reason":"","reason_changed_at":0},
        {"name":"n3","state":"down","state_flags":["NOT_RESPONDING"],"reason":"Not responding","reason_changed_at":5000},
        {"name":"n4","state":"idle","state_flags":["MAINTENANCE","DRAIN"],"reason":"","reason_changed_at":0}]}"#;
    const NEW: &str = r#"{"sinfo":[{"node":{"state":["IDLE","DRAIN"]},"nodes":{"nodes":["r[1-2]"]},
        "reason":{"description":"GPU","time":{"set":true,"infinite":false,"number":600},"user":"root"}},
        {"node":{"state":["MIXED"]},"nodes":{"nodes":["r3"]},"reason":{"description":"","time":{"set":false,"number":0}}}]}"#;

    fn shown(intervals: &[LabelInterval]) -> Vec<(&str, i64, State)> {
        intervals
            .iter()
            .map(|i| (i.node.as_str(), i.from, i.state))
            .collect()
    }

    #[test]
    fn a_drain_may_stand_among_the_flags() -> Result<()> {
        let intervals = sinfo_json(OLD.as_bytes(), Path::new("sinfo"), 1000)?;
        assert_eq!(
            shown(&intervals),
            [
                ("n1", 500, State::Anomalous),
                ("n2", 1000, State::Healthy),
                ("n3", 1000, State::Anomalous),
                ("n4", 1000, State::Maintenance),
            ]
        );
        assert_eq!(intervals[0].reason, "IDLE+DRAIN: fan");
        Ok(())
    }

    #[test]
    fn newer_releases_group_nodes_by_state() -> Result<()> {
        let intervals = sinfo_json(NEW.as_bytes(), Path::new("sinfo"), 1000)?;
        let want = [
            ("r1", 600, State::Anomalous),
            ("r2", 600, State::Anomalous),
            ("r3", 1000, State::Healthy),
        ];
        assert_eq!(shown(&intervals), want);
        Ok(())
    }

    proptest! {
        #[test]
        fn mutations_never_panic(at in 0usize..OLD.len(), with in "[\\[\\]{}\":,0n-]{0,3}") {
            for json in [OLD, NEW] {
                let mut text = json.to_owned();
                let at = at % text.len();
                text.replace_range(at..at + 1, &with);
                let _ = sinfo_json(text.as_bytes(), Path::new("s"), 1000);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = sinfo_json(&bytes, Path::new("s"), 0);
        }
    }
}
