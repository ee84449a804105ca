//! Nagios' log: every change of state while it was written.

use std::collections::BTreeMap;

use super::{
    Severity,
    intervals::{LabelInterval, State},
};

/// Reads the hard states of all hosts and services and the downtimes, each from the line that begins it to the one that
/// ends it. What is still open at the end of the log, or when Nagios stops, lasts until then. Lines of other kinds, and
/// lines that are no log lines, mean nothing.
pub fn nagios_log(text: &[u8], severity: Severity) -> Vec<LabelInterval> {
    let text = String::from_utf8_lossy(text);
    let mut log = Log::default();
    let mut now = None;
    for (time, message) in text.lines().filter_map(line) {
        now = Some(time);
        if message.starts_with("Successfully shutdown") || message.starts_with("Caught SIGTERM") {
            log.stop(time);
        } else if let Some((kind, rest)) = message.split_once(": ") {
            log.event(time, kind, rest, severity);
        }
    }
    if let Some(now) = now {
        log.stop(now.saturating_add(1));
        log.end_downtimes(now.saturating_add(1));
    }
    log.intervals
        .sort_by(|a, b| (a.from, &a.node, &a.source).cmp(&(b.from, &b.node, &b.source)));
    log.intervals
}

/// `[seconds] message`.
fn line(line: &str) -> Option<(i64, &str)> {
    let (time, message) = line.trim_end().strip_prefix('[')?.split_once("] ")?;
    Some((time.parse().ok()?, message))
}

#[derive(Default)]
struct Log {
    /// The open interval of each host and service; a host's own service is empty.
    open: BTreeMap<(String, String), LabelInterval>,
    downtimes: BTreeMap<(String, String), LabelInterval>,
    intervals: Vec<LabelInterval>,
}

impl Log {
    fn event(&mut self, time: i64, kind: &str, rest: &str, severity: Severity) {
        let fields: Vec<&str> = rest.split(';').collect();
        match (kind, fields.as_slice()) {
            (
                "INITIAL HOST STATE" | "CURRENT HOST STATE" | "HOST ALERT",
                [host, state, "HARD", _attempt, output @ ..],
            ) => {
                self.change(time, host, "", Severity::host(state), &output.join(";"));
            }
            (
                "INITIAL SERVICE STATE" | "CURRENT SERVICE STATE" | "SERVICE ALERT",
                [host, service, state, "HARD", _attempt, output @ ..],
            ) => self.change(time, host, service, severity.service(state), &output.join(";")),
            ("HOST DOWNTIME ALERT", [host, what, comment @ ..]) => {
                self.downtime(time, host, "", what, &comment.join(";"));
            }
            ("SERVICE DOWNTIME ALERT", [host, service, what, comment @ ..]) => {
                self.downtime(time, host, service, what, &comment.join(";"));
            }
            _ => {}
        }
    }

    fn change(&mut self, time: i64, host: &str, service: &str, state: Option<(State, &str)>, output: &str) {
        let Some((state, name)) = state else {
            return;
        };
        let output = if output == "(null)" { "" } else { output };
        let interval = LabelInterval {
            node: host.to_owned(),
            from: time,
            to: time,
            state,
            source: format!("nagios {}", if service.is_empty() { "host" } else { service }),
            reason: if output.is_empty() {
                name.to_owned()
            } else {
                format!("{name}: {output}")
            },
        };
        let key = (host.to_owned(), service.to_owned());
        match self.open.get_mut(&key) {
            // The same state said again goes on.
            Some(open) if open.state == state => {}
            _ => {
                let before = self.open.insert(key, interval);
                self.close(before, time);
            }
        }
    }

    fn downtime(&mut self, time: i64, host: &str, service: &str, what: &str, comment: &str) {
        let key = (host.to_owned(), service.to_owned());
        match what {
            "STARTED" => {
                self.downtimes.entry(key).or_insert_with(|| LabelInterval {
                    node: host.to_owned(),
                    from: time,
                    to: time,
                    state: State::Maintenance,
                    source: "nagios downtime".to_owned(),
                    reason: comment.trim().to_owned(),
                });
            }
            "STOPPED" | "CANCELLED" => {
                let ended = self.downtimes.remove(&key);
                self.close(ended, time);
            }
            _ => {}
        }
    }

    /// Nagios no longer looks: nothing is known until it says so again.
    fn stop(&mut self, time: i64) {
        for (_, interval) in std::mem::take(&mut self.open) {
            self.close(Some(interval), time);
        }
    }

    fn end_downtimes(&mut self, time: i64) {
        for (_, interval) in std::mem::take(&mut self.downtimes) {
            self.close(Some(interval), time);
        }
    }

    fn close(&mut self, interval: Option<LabelInterval>, time: i64) {
        self.intervals.extend(
            interval
                .filter(|i| i.from < time)
                .map(|i| LabelInterval { to: time, ..i }),
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOG: &str = "[100] Nagios 4.4.6 starting... (PID=1)
[100] INITIAL HOST STATE: n1;UP;HARD;1;
[100] INITIAL SERVICE STATE: n1;sshd;OK;HARD;1;(null)
[110] SERVICE ALERT: n1;sshd;CRITICAL;SOFT;1;refused
[120] SERVICE ALERT: n1;sshd;CRITICAL;HARD;3;refused; port 22
[125] SERVICE ALERT: n1;sshd;CRITICAL;HARD;3;refused again
[130] HOST DOWNTIME ALERT: n1;STARTED; Host has entered a period of scheduled downtime
[150] HOST DOWNTIME ALERT: n1;STOPPED; Host has exited from a period of scheduled downtime
[160] SERVICE ALERT: n1;sshd;OK;HARD;3;fine
[200] Caught SIGTERM, shutting down...
[200] Successfully shutdown... (PID=1)
";

    #[test]
    fn states_last_from_one_hard_change_to_the_next() {
        let intervals = nagios_log(LOG.as_bytes(), Severity::default());
        let shown: Vec<_> = intervals
            .iter()
            .map(|i| (i.from, i.to, i.state, i.source.as_str(), i.reason.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                (100, 200, State::Healthy, "nagios host", "UP"),
                (100, 120, State::Healthy, "nagios sshd", "OK"),
                (
                    120,
                    160,
                    State::Anomalous,
                    "nagios sshd",
                    "CRITICAL: refused; port 22"
                ),
                (
                    130,
                    150,
                    State::Maintenance,
                    "nagios downtime",
                    "Host has entered a period of scheduled downtime"
                ),
                (160, 200, State::Healthy, "nagios sshd", "OK: fine"),
            ]
        );
    }

    #[test]
    fn a_log_that_goes_on_is_known_up_to_its_last_line() {
        let log = "[10] CURRENT HOST STATE: n1;DOWN;HARD;1;gone\n[90] SERVICE FLAPPING ALERT: x\n";
        let intervals = nagios_log(log.as_bytes(), Severity::default());
        assert_eq!(
            (intervals[0].from, intervals[0].to, intervals[0].state),
            (10, 91, State::Anomalous)
        );
    }

    proptest! {
        #[test]
        fn mutations_never_panic(at in 0usize..LOG.len(), with in "[\\[\\];: \n0-9é-]{0,3}") {
            let mut text = LOG.to_owned();
            text.replace_range(at..at + 1, &with);
            for interval in nagios_log(text.as_bytes(), Severity::default()) {
                prop_assert!(interval.from < interval.to);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = nagios_log(&bytes, Severity::default());
        }
    }
}
