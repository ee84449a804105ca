//! What was wrong with whom: `faults.json`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use synod_telemetry::Result;

use super::{io_error, whole};
use crate::cluster::Cluster;
use crate::fault::Fault;

/// Writes `faults.json` into a folder: the cluster's parameters, its maintenance, and every node's faults with the metrics
/// that show them. Times are seconds since 1970.
pub fn write_faults(cluster: &Cluster, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("faults.json");
    whole(&path, |file| {
        let mut out = BufWriter::new(file);
        let mut line = |text: String| writeln!(out, "{text}").map_err(io_error("write the file", &path));
        line(format!("{{\"cluster\": {},", parameters(cluster)))?;
        line(format!("\"maintenance\": {},", json!(cluster.maintenance())))?;
        line("\"nodes\": {".to_owned())?;
        let nodes = cluster.options().nodes;
        for node in 0..nodes {
            let faults: Vec<Value> = cluster.faults(node)?.iter().map(describe).collect();
            let comma = if node + 1 < nodes { "," } else { "" };
            line(format!("{}: {}{comma}", json!(cluster.name(node)), json!(faults)))?;
        }
        line("}}".to_owned())?;
        out.flush().map_err(io_error("write the file", &path))
    })?;
    Ok(path)
}

fn parameters(cluster: &Cluster) -> Value {
    let o = cluster.options();
    json!({
        "nodes": o.nodes, "days": o.days, "seed": o.seed, "anomalies": o.anomalies, "drift": o.drift,
        "heterogeneity": o.heterogeneity, "false_labels": o.false_labels, "start": o.start,
    })
}

fn describe(fault: &Fault) -> Value {
    json!({
        "kind": fault.kind.name(), "from": fault.from, "to": fault.to, "ramp": fault.ramp,
        "detected": fault.detected, "returned": fault.returned, "metrics": fault.metrics,
    })
}
