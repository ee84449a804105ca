//! What a metric is: its name as all sources write it, its kind, its unit.

use crate::pattern::matches;

/// How a metric's values are to be read.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// A state at a time.
    #[default]
    Gauge,
    /// A sum that only grows until it restarts from zero.
    Counter,
}

/// A metric as the registry knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The canonical name.
    pub name: String,
    /// Gauge or counter.
    pub kind: MetricKind,
    /// The unit of its values, if known.
    pub unit: Option<&'static str>,
}

/// Names of metrics that only grow. The first pattern that fits decides, so exceptions stand first.
const KINDS: [(&str, MetricKind); 31] = [
    // Ganglia reports ECC totals and energy as sums since the driver loaded, violations as sums of nanoseconds.
    ("*ecc_?be_*_total", MetricKind::Counter),
    ("*disk_total", MetricKind::Gauge),
    ("*mem_total", MetricKind::Gauge),
    ("*swap_total", MetricKind::Gauge),
    ("*proc_total", MetricKind::Gauge),
    ("*fb_total", MetricKind::Gauge),
    ("*_total", MetricKind::Counter),
    ("*energy_consumption*", MetricKind::Counter),
    ("*energy_joules*", MetricKind::Counter),
    ("*_violation", MetricKind::Counter),
    ("*retired_pages_?be", MetricKind::Counter),
    ("*xid_errors", MetricKind::Gauge),
    ("*_bucket", MetricKind::Counter),
    ("*_count", MetricKind::Counter),
    ("*_sum", MetricKind::Counter),
    // The time of the last boot: a gauge that jumps, whose difference is zero but for reboots.
    ("*boottime", MetricKind::Counter),
    ("*boot_time_seconds", MetricKind::Counter),
    ("vmstat.nr_*", MetricKind::Gauge),
    ("vmstat.pg*", MetricKind::Counter),
    ("vmstat.psw*", MetricKind::Counter),
    ("vmstat.numa_*", MetricKind::Counter),
    ("vmstat.workingset_*", MetricKind::Counter),
    ("vmstat.thp_*", MetricKind::Counter),
    ("vmstat.compact_*", MetricKind::Counter),
    ("procstat.cores_up", MetricKind::Gauge),
    ("procstat.*cpu_enabled*", MetricKind::Gauge),
    ("procstat.procs_*", MetricKind::Gauge),
    ("procstat.*", MetricKind::Counter),
    ("procnetdev.*", MetricKind::Counter),
    ("lustre*.*bytes*", MetricKind::Counter),
    ("opa.*", MetricKind::Counter),
];

/// Units by name; the first pattern that fits decides.
const UNITS: [(&str, &str); 34] = [
    ("*_seconds_total", "s"),
    ("*_seconds", "s"),
    ("*_bytes_total", "B"),
    ("*_bytes", "B"),
    ("*_celsius", "°C"),
    ("*_watts", "W"),
    ("*_volts", "V"),
    ("*_amperes", "A"),
    ("*_joules*", "J"),
    ("*_hertz", "Hz"),
    ("*_ratio", "1"),
    ("*_temp", "°C"),
    ("*.ambient", "°C"),
    ("ambient", "°C"),
    ("*pcie", "°C"),
    ("*gv100card?", "°C"),
    ("*fan?_?", "rpm"),
    ("*fan*_tach", "rpm"),
    ("*fan_disk_power", "W"),
    ("*_input_power", "W"),
    ("*_power", "W"),
    ("*power_usage", "W"),
    ("*input_volt*", "V"),
    ("*output_volt*", "V"),
    ("*output_curr*", "A"),
    ("*energy_consumption*", "mJ"),
    ("*boottime", "s"),
    ("*bytes_in", "B/s"),
    ("*bytes_out", "B/s"),
    ("*pkts_in", "1/s"),
    ("*pkts_out", "1/s"),
    ("*_clock", "MHz"),
    ("*cpu_speed", "MHz"),
    ("meminfo.*", "KiB"),
];

/// The statistics that windows add to a metric's name.
const STATISTICS: [&str; 4] = ["_avg", "_std", "_min", "_max"];

/// The metric of a source's name. A kind that the source states outweighs what the name suggests.
pub fn metric(name: &str, stated: Option<MetricKind>) -> Metric {
    let name = canonical(name);
    let base = STATISTICS
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(&name);
    let lower = base.to_ascii_lowercase();
    // Labels of a series say which, not what.
    let what = lower.split('{').next().unwrap_or_default();
    let named = KINDS
        .iter()
        .find(|(pattern, _)| matches(pattern, what))
        .map(|(_, kind)| *kind);
    let unit = UNITS
        .iter()
        .find(|(pattern, _)| matches(pattern, what))
        .map(|(_, unit)| *unit);
    Metric {
        kind: stated.or(named).unwrap_or_default(),
        unit,
        name,
    }
}

/// A name without blanks or control characters: `CPU 1 Temp` is `CPU_1_Temp`, so that a name is one word everywhere.
/// What stands inside quotes, the value of a label, stays as it is.
pub(crate) fn canonical(name: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::with_capacity(name.len()), false, false);
    for c in name.trim().chars() {
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = c == '\\' && !escaped;
        match c {
            c if quoted && !c.is_control() => out.push(c),
            c if c.is_whitespace() || c.is_control() => {
                if !out.ends_with('_') {
                    out.push('_');
                }
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_from_the_source_or_the_name() {
        let kind = |name| metric(name, None).kind;
        assert_eq!(
            kind("node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"}"),
            MetricKind::Counter
        );
        assert_eq!(kind("Gpu0_total_energy_consumption"), MetricKind::Counter);
        assert_eq!(kind("ganglia.boottime"), MetricKind::Counter);
        assert_eq!(kind("ganglia.mem_total"), MetricKind::Gauge);
        assert_eq!(kind("ganglia.Gpu1_fb_total"), MetricKind::Gauge);
        assert_eq!(kind("ganglia.Gpu1_ecc_dbe_volatile_total"), MetricKind::Counter);
        assert_eq!(kind("ipmi.p0_power_avg"), MetricKind::Gauge);
        assert_eq!(
            metric("odd_total", Some(MetricKind::Gauge)).kind,
            MetricKind::Gauge
        );
    }

    #[test]
    fn units_come_from_the_name() {
        let unit = |name| metric(name, None).unit;
        assert_eq!(unit("ipmi.p0_core3_temp_max"), Some("°C"));
        assert_eq!(
            unit("node_network_receive_bytes_total{device=\"ib0\"}"),
            Some("B")
        );
        assert_eq!(unit("total_power"), Some("W"));
        assert_eq!(unit("mystery"), None);
    }

    #[test]
    fn names_are_one_word() {
        assert_eq!(canonical(" CPU 1  Temp\n"), "CPU_1_Temp");
        assert_eq!(canonical("m{l=\"a b\"}"), "m{l=\"a b\"}");
    }
}
