//! What a site knows of its nodes' health, with who says so.
//!
//! Every source gives [`LabelInterval`]s; [`merge`] makes one truth per window of them, by one rule.

mod hostlist;
mod intervals;
mod maintenance;
mod nagios_log;
mod nagios_status;
mod slurm;

pub use intervals::{LabelInterval, Merged, State, merge};
pub use maintenance::{Maintenance, maintenance, parse_maintenance};
pub use nagios_log::nagios_log;
pub use nagios_status::nagios_status;
pub use slurm::sinfo_json;

/// What the states of Nagios that are neither good nor bad mean.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Severity {
    /// A service in WARNING.
    pub warning: State,
    /// A service in UNKNOWN.
    pub unknown: State,
}

/// Neither is taken for healthy or anomalous.
impl Default for Severity {
    fn default() -> Severity {
        Severity {
            warning: State::Unknown,
            unknown: State::Unknown,
        }
    }
}

impl Severity {
    /// A service's state by its number or name.
    fn service(self, state: &str) -> Option<(State, &'static str)> {
        match state {
            "0" | "OK" => Some((State::Healthy, "OK")),
            "1" | "WARNING" => Some((self.warning, "WARNING")),
            "2" | "CRITICAL" => Some((State::Anomalous, "CRITICAL")),
            "3" | "UNKNOWN" => Some((self.unknown, "UNKNOWN")),
            _ => None,
        }
    }

    /// A host's state by its number or name.
    fn host(state: &str) -> Option<(State, &'static str)> {
        match state {
            "0" | "UP" => Some((State::Healthy, "UP")),
            "1" | "DOWN" => Some((State::Anomalous, "DOWN")),
            "2" | "UNREACHABLE" => Some((State::Anomalous, "UNREACHABLE")),
            _ => None,
        }
    }
}
