//! What Nagios said of M100's nodes, as the raw data hold it.

use std::{collections::HashMap, path::Path};

use super::{m100::parts, m100_columns::each_where};
use crate::{
    error::Result,
    labels::{LabelInterval, State},
};

/// The check that the aggregated set takes its label from.
pub const STATE: &str = "batchs::client::state";
/// Nagios looks every 15 minutes; what it says twice with a longer gap between is two intervals, in milliseconds.
const GAP: i64 = 2 * 900 * 1000;

/// Reads the results of one check in `plugin=nagios_pub/metric=state` of all months: 0 is healthy, anything above is
/// anomalous, as in the aggregated set. Equal results less than half an hour apart are one interval. There are none if the
/// months have no such metric.
pub fn states(root: impl AsRef<Path>, check: &str) -> Result<Vec<LabelInterval>> {
    let mut found: HashMap<String, Vec<(i64, i64, State)>> = HashMap::new();
    for (_, month) in parts(root.as_ref(), "year_month=")? {
        let folder = month.join("plugin=nagios_pub/metric=state");
        if !folder.is_dir() {
            continue;
        }
        let files = parts(&folder, "")?.into_iter().map(|(_, file)| file);
        for file in files.filter(|file| file.extension().is_some_and(|e| e == "parquet")) {
            each_where(&file, Some(("description", check)), &mut |node, time, value| {
                add(&mut found, node, time, value);
                Ok(())
            })?;
        }
    }
    let mut nodes: Vec<_> = found.into_iter().collect();
    nodes.sort_by(|a, b| a.0.cmp(&b.0));
    let intervals = |(node, runs): (String, Vec<(i64, i64, State)>)| {
        runs.into_iter().map(move |(from, to, state)| LabelInterval {
            node: node.clone(),
            from: from.div_euclid(1000),
            to: to.div_euclid(1000).saturating_add(1),
            state,
            source: format!("nagios {check}"),
            reason: match state {
                State::Healthy => "it is 0".to_owned(),
                _ => "it is above 0".to_owned(),
            },
        })
    };
    Ok(nodes.into_iter().flat_map(intervals).collect())
}

/// Lets the last run of a node go on, or begins another.
fn add(found: &mut HashMap<String, Vec<(i64, i64, State)>>, node: &str, time: i64, value: f64) {
    let state = match value {
        value if value.is_nan() => return,
        value if value > 0.0 => State::Anomalous,
        _ => State::Healthy,
    };
    if !found.contains_key(node) {
        found.insert(node.to_owned(), Vec::new());
    }
    let Some(runs) = found.get_mut(node) else {
        return;
    };
    match runs.last_mut() {
        Some((_, to, last)) if *last == state && time >= *to && time.saturating_sub(*to) < GAP => *to = time,
        _ => runs.push((time, time, state)),
    }
}
