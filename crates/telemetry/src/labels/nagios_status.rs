//! Nagios' `status.dat`: the state of every host and service at the time it was written.

use std::{collections::BTreeMap, path::Path};

use super::{
    Severity,
    intervals::{LabelInterval, State},
};
use crate::error::{Error, Result};

/// Keys of one block that are kept; real blocks have about 60.
const MAX_KEYS: usize = 1000;

/// Reads the hard states of all hosts and services, each from its last hard change to the time the file was written, and
/// the downtimes as maintenance. A state that is still soft says what was known before it; a check that never ran says
/// nothing. A file that breaks off gives its whole blocks.
pub fn nagios_status(text: &[u8], path: &Path, severity: Severity) -> Result<Vec<LabelInterval>> {
    let text = String::from_utf8_lossy(text);
    let blocks = blocks(&text);
    let created = blocks
        .iter()
        .find(|(kind, _)| *kind == "info")
        .and_then(|(_, block)| time(block, "created"));
    let created = created.ok_or_else(|| Error::Source {
        path: path.to_path_buf(),
        problem: "there is no info block that says when it was created".to_owned(),
        advice: "is it the status.dat of a running Nagios?",
    })?;
    let read = |(kind, block): &(&str, Block<'_>)| match *kind {
        "hoststatus" | "host" => status(block, created, severity),
        "servicestatus" | "service" => status(block, created, severity),
        "hostdowntime" | "servicedowntime" => downtime(block),
        _ => None,
    };
    Ok(blocks.iter().filter_map(read).collect())
}

type Block<'a> = BTreeMap<&'a str, &'a str>;

fn blocks(text: &str) -> Vec<(&str, Block<'_>)> {
    let (mut blocks, mut open) = (Vec::new(), None::<(&str, Block<'_>)>);
    for line in text.lines() {
        let line = line.trim();
        match &mut open {
            None => {
                let kind = line.strip_suffix('{').map(str::trim);
                open = kind
                    .filter(|kind| !kind.is_empty() && !kind.starts_with('#'))
                    .map(|kind| (kind, Block::new()));
            }
            Some(_) if line == "}" => blocks.extend(open.take()),
            Some((_, block)) => {
                if let Some((key, value)) = line.split_once('=')
                    && block.len() < MAX_KEYS
                {
                    block.insert(key, value);
                }
            }
        }
    }
    blocks
}

fn status(block: &Block<'_>, created: i64, severity: Severity) -> Option<LabelInterval> {
    if block.get("has_been_checked") == Some(&"0") {
        return None;
    }
    let service = block.get("service_description");
    let soft = block.get("state_type") == Some(&"0");
    let number = if soft { "last_hard_state" } else { "current_state" };
    let number = block.get(number).or_else(|| block.get("current_state"))?;
    let (state, name) = match service {
        Some(_) => severity.service(number)?,
        None => Severity::host(number)?,
    };
    let changed = time(block, "last_hard_state_change").or_else(|| time(block, "last_state_change"));
    // A state that never changed has no time of change; all that is known is the last check.
    let from = changed.or_else(|| time(block, "last_check"))?;
    let output = if soft {
        ""
    } else {
        block.get("plugin_output").copied().unwrap_or_default()
    };
    Some(LabelInterval {
        node: (*block.get("host_name")?).to_owned(),
        from: from.min(created),
        to: created.saturating_add(1),
        state,
        source: service.map_or("nagios host".to_owned(), |service| format!("nagios {service}")),
        reason: if output.is_empty() {
            name.to_owned()
        } else {
            format!("{name}: {output}")
        },
    })
}

fn downtime(block: &Block<'_>) -> Option<LabelInterval> {
    let (from, to) = (time(block, "start_time")?, time(block, "end_time")?);
    // A flexible downtime is only an offer until something happens.
    let offered = block.get("fixed") == Some(&"0") && block.get("is_in_effect") == Some(&"0");
    let author = block.get("author").copied().unwrap_or("somebody");
    (to > from && !offered).then(|| LabelInterval {
        node: block.get("host_name").copied().unwrap_or_default().to_owned(),
        from,
        to,
        state: State::Maintenance,
        source: format!("nagios downtime by {author}"),
        reason: block.get("comment").copied().unwrap_or_default().to_owned(),
    })
}

/// A time that is not zero, which stands for never.
fn time(block: &Block<'_>, key: &str) -> Option<i64> {
    block.get(key)?.parse().ok().filter(|&time| time > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STATUS: &str = "# comment
info {
\tcreated=1000
\t}

hoststatus {
\thost_name=n1
\thas_been_checked=1
\tcurrent_state=1
\tlast_hard_state=0
\tstate_type=0
\tlast_hard_state_change=400
\tplugin_output=no answer
\t}
servicestatus {
\thost_name=n1
\tservice_description=sshd
\thas_been_checked=1
\tcurrent_state=2
\tstate_type=1
\tlast_hard_state_change=600
\tplugin_output=refused = no {
\t}
servicestatus {
\thost_name=n1
\tservice_description=load
\thas_been_checked=0
\tcurrent_state=0
\t}
hostdowntime {
\thost_name=n2
\tstart_time=900
\tend_time=1900
\tfixed=1
\tis_in_effect=1
\tauthor=admin
\tcomment=new DIMM
\t}
";

    fn read(text: &str) -> Result<Vec<LabelInterval>> {
        nagios_status(text.as_bytes(), Path::new("status.dat"), Severity::default())
    }

    #[test]
    fn hard_states_last_until_the_file_was_written() -> Result<()> {
        let intervals = read(STATUS)?;
        let shown: Vec<_> = intervals
            .iter()
            .map(|i| (i.node.as_str(), i.from, i.to, i.state, i.source.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("n1", 400, 1001, State::Healthy, "nagios host"),
                ("n1", 600, 1001, State::Anomalous, "nagios sshd"),
                ("n2", 900, 1900, State::Maintenance, "nagios downtime by admin"),
            ]
        );
        assert_eq!(intervals[1].reason, "CRITICAL: refused = no {");
        assert_eq!(intervals[0].reason, "UP", "the output is that of the soft state");
        Ok(())
    }

    #[test]
    fn warnings_mean_what_the_site_says() -> Result<()> {
        let text = STATUS.replace("current_state=2", "current_state=1");
        assert_eq!(read(&text)?[1].state, State::Unknown);
        let strict = Severity {
            warning: State::Anomalous,
            ..Severity::default()
        };
        let intervals = nagios_status(text.as_bytes(), Path::new("s"), strict)?;
        assert_eq!(intervals[1].state, State::Anomalous);
        Ok(())
    }

    #[test]
    fn other_files_are_refused() {
        assert!(read("").is_err() && read("hoststatus {\n\thost_name=a\n\t}\n").is_err());
    }

    proptest! {
        #[test]
        fn mutations_never_panic(at in 0usize..STATUS.len(), with in "[{}=\n\t0-9é]{0,3}", cut in 0usize..STATUS.len()) {
            let mut text = STATUS.to_owned();
            text.replace_range(at..at + 1, &with);
            let _ = read(&text);
            let _ = nagios_status(&text.as_bytes()[..cut.min(text.len())], Path::new("s"), Severity::default());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = nagios_status(&bytes, Path::new("s"), Severity::default());
        }
    }
}
