//! Frames of nodes whose sensors differ, made alike.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::{Dropped, Frame, error::Result};

/// Parts of which a node has several, that differ from node to node. A number right behind such a word is an index.
const PARTS: [&str; 2] = ["core", "dimm"];
/// Labels whose number is an index.
const LABELS: [&str; 2] = ["cpu=\"", "core=\""];

/// A frame on the metrics of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// The frame, with the metrics asked for in the order asked for.
    pub frame: Frame,
    /// Metrics asked for that the frame has not; they are NaN.
    pub vanished: Vec<String>,
    /// Metrics of the frame that were not asked for; they are left out.
    pub new: Vec<String>,
}

/// Projects a frame onto a list of metrics, so that a trained model reads it whatever its node measures today.
pub fn select<S: AsRef<str>>(frame: &Frame, metrics: &[S]) -> Result<Selected> {
    let places: HashMap<&str, usize> = frame
        .metrics()
        .iter()
        .enumerate()
        .rev()
        .map(|(i, m)| (m.as_str(), i))
        .collect();
    let wanted: HashSet<&str> = metrics.iter().map(AsRef::as_ref).collect();
    let columns: Vec<Option<usize>> = metrics.iter().map(|m| places.get(m.as_ref()).copied()).collect();
    let mut values = Vec::with_capacity(frame.rows() * metrics.len());
    for row in (0..frame.rows()).map(|row| frame.row(row)) {
        values.extend(columns.iter().map(|column| column.map_or(f32::NAN, |c| row[c])));
    }
    let names = metrics.iter().map(|m| m.as_ref().to_owned()).collect();
    let missing = metrics
        .iter()
        .zip(&columns)
        .filter(|(_, column)| column.is_none());
    Ok(Selected {
        frame: rebuilt(frame, names, values)?.with_dropped(frame.dropped().to_vec()),
        vanished: missing.map(|(name, _)| name.as_ref().to_owned()).collect(),
        new: frame
            .metrics()
            .iter()
            .filter(|m| !wanted.contains(m.as_str()))
            .cloned()
            .collect(),
    })
}

/// All frames on the metrics of any of them, in the order in which they first occur. What a node has not is NaN.
pub fn union(frames: &[Frame]) -> Result<Vec<Frame>> {
    let mut seen = HashSet::new();
    let all = frames.iter().flat_map(Frame::metrics);
    let metrics: Vec<&String> = all.filter(|metric| seen.insert(metric.as_str())).collect();
    frames
        .iter()
        .map(|frame| Ok(select(frame, &metrics)?.frame))
        .collect()
}

/// All frames on the metrics that all of them have, in the order of the first; others are listed as dropped.
pub fn intersection(frames: &[Frame]) -> Result<Vec<Frame>> {
    let Some((first, others)) = frames.split_first() else {
        return Ok(Vec::new());
    };
    let others: Vec<HashSet<&String>> = others
        .iter()
        .map(|frame| frame.metrics().iter().collect())
        .collect();
    let common: Vec<&String> = first
        .metrics()
        .iter()
        .filter(|m| others.iter().all(|o| o.contains(m)))
        .collect();
    let only = |frame: &Frame| {
        let Selected { frame, new, .. } = select(frame, &common)?;
        let mut dropped = frame.dropped().to_vec();
        dropped.extend(new.into_iter().map(|metric| Dropped {
            metric,
            reason: "not every node has it".to_owned(),
        }));
        Ok(frame.with_dropped(dropped))
    };
    frames.iter().map(only).collect()
}

/// The frame with metrics that are equal up to the number of a core or memory module replaced by their mean, maximum and
/// population standard deviation: `p0_core0_temp` and `p0_core17_temp` become `p0_core_temp_mean`, `_max` and `_std`.
///
/// Nodes whose sockets have other cores then have the same metrics. A metric that is the only one of its kind is replaced
/// too, so that the names do not depend on how many there are.
pub fn aggregate_parts(frame: &Frame) -> Result<Frame> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let (mut plain, mut dropped) = (Vec::new(), frame.dropped().to_vec());
    for (column, metric) in frame.metrics().iter().enumerate() {
        let Some(family) = family(metric) else {
            plain.push(column);
            continue;
        };
        dropped.push(Dropped {
            metric: metric.clone(),
            reason: format!("it is part of {family}_mean, _max and _std"),
        });
        let place = *places.entry(family.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((family, Vec::new()));
        }
        groups[place].1.push(column);
    }
    let mut names: Vec<String> = plain.iter().map(|&c| frame.metrics()[c].clone()).collect();
    names.extend(
        groups
            .iter()
            .flat_map(|(family, _)| ["mean", "max", "std"].map(|s| format!("{family}_{s}"))),
    );
    let mut values = Vec::with_capacity(frame.rows() * names.len());
    for row in (0..frame.rows()).map(|row| frame.row(row)) {
        values.extend(plain.iter().map(|&c| row[c]));
        values.extend(groups.iter().flat_map(|(_, columns)| summary(row, columns)));
    }
    Ok(rebuilt(frame, names, values)?.with_dropped(dropped))
}

/// The name of a metric without the number of its part; none if it is of no part.
fn family(metric: &str) -> Option<String> {
    let lower = metric.to_ascii_lowercase();
    let behind = |word: &&str| {
        let ends = lower.match_indices(word).map(|(at, word)| at + word.len());
        ends.map(|from| (from, digits(&metric[from..])))
            .find(|(_, count)| *count > 0)
    };
    let labelled = LABELS
        .iter()
        .find_map(behind)
        .filter(|(from, count)| metric[from + count..].starts_with('"'));
    let (from, count) = labelled.or_else(|| PARTS.iter().find_map(behind))?;
    // The label goes with its number: `{cpu="3",mode="idle"}` is `{cpu="",mode="idle"}`.
    Some(format!("{}{}", &metric[..from], &metric[from + count..]))
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Mean, maximum and deviation of the values that are there.
fn summary(row: &[f32], columns: &[usize]) -> [f32; 3] {
    let present = || columns.iter().map(|&c| f64::from(row[c])).filter(|v| !v.is_nan());
    let count = present().count() as f64;
    if count == 0.0 {
        return [f32::NAN; 3];
    }
    let mean = present().sum::<f64>() / count;
    let variance = present().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    let max = present().fold(f64::NEG_INFINITY, f64::max);
    [mean as f32, max as f32, variance.sqrt() as f32]
}

/// Names of metrics that some but not all frames have: what [`union`] fills and [`intersection`] drops.
pub fn differing(frames: &[Frame]) -> Vec<String> {
    let mut counts: HashMap<&String, usize> = HashMap::new();
    for frame in frames {
        let own: BTreeSet<&String> = frame.metrics().iter().collect();
        own.into_iter()
            .for_each(|metric| *counts.entry(metric).or_default() += 1);
    }
    let mut some: Vec<String> = counts
        .into_iter()
        .filter(|(_, n)| *n < frames.len())
        .map(|(m, _)| m.clone())
        .collect();
    some.sort_by(|a, b| crate::pattern::natural_order(a, b));
    some
}

fn rebuilt(frame: &Frame, metrics: Vec<String>, values: Vec<f32>) -> Result<Frame> {
    Ok(Frame::new(
        frame.node(),
        frame.step(),
        frame.times().to_vec(),
        metrics,
        values,
    )?
    .with_truth(frame.truth().to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Truth;

    fn frame(node: &str, columns: &[(&str, [f32; 2])]) -> Frame {
        let metrics = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let values = (0..2)
            .flat_map(|row| columns.iter().map(move |(_, v)| v[row]))
            .collect();
        let frame = Frame::new(node, 60, vec![0, 60], metrics, values).expect("a frame");
        frame
            .with_truth(vec![Truth::Healthy, Truth::Anomalous])
            .expect("labels")
    }

    fn two() -> Vec<Frame> {
        vec![
            frame("n1", &[("a", [1.0, 2.0]), ("b", [3.0, 4.0])]),
            frame("n2", &[("c", [5.0, 6.0]), ("a", [7.0, 8.0])]),
        ]
    }

    #[test]
    fn a_union_has_all_metrics_and_says_nothing_where_a_node_has_none() -> Result<()> {
        let frames = union(&two())?;
        for frame in &frames {
            assert_eq!(frame.metrics(), ["a", "b", "c"]);
            assert_eq!(frame.truth(), [Truth::Healthy, Truth::Anomalous]);
        }
        assert_eq!(frames[1].row(0)[0], 7.0);
        assert!(frames[1].row(0)[1].is_nan() && frames[0].row(1)[2].is_nan());
        assert_eq!(differing(&two()), ["b", "c"]);
        Ok(())
    }

    #[test]
    fn an_intersection_lists_what_it_drops() -> Result<()> {
        let frames = intersection(&two())?;
        assert_eq!(frames[0].metrics(), ["a"]);
        assert_eq!(
            (frames[1].row(0), frames[1].row(1)),
            ([7.0].as_slice(), [8.0].as_slice())
        );
        assert_eq!(frames[1].dropped()[0].metric, "c");
        Ok(())
    }

    #[test]
    fn a_model_reads_a_node_whose_metrics_have_changed() -> Result<()> {
        let selected = select(&two()[0], &["gone", "b"])?;
        assert_eq!(selected.frame.metrics(), ["gone", "b"]);
        assert!(selected.frame.row(0)[0].is_nan());
        assert_eq!(selected.frame.row(1)[1], 4.0);
        assert_eq!(
            (selected.vanished, selected.new),
            (vec!["gone".to_owned()], vec!["a".to_owned()])
        );
        Ok(())
    }

    #[test]
    fn cores_of_a_socket_become_their_mean_maximum_and_deviation() -> Result<()> {
        let nan = f32::NAN;
        let frame = aggregate_parts(&frame(
            "n1",
            &[
                ("p0_core0_temp", [40.0, nan]),
                ("p0_power", [100.0, 110.0]),
                ("p0_core17_temp", [44.0, nan]),
                ("p1_core3_temp", [50.0, 51.0]),
                ("gpu0_core_temp", [60.0, 61.0]),
            ],
        ))?;
        let names = [
            "p0_power",
            "gpu0_core_temp",
            "p0_core_temp_mean",
            "p0_core_temp_max",
            "p0_core_temp_std",
        ];
        assert_eq!(&frame.metrics()[..5], names);
        assert_eq!(&frame.row(0)[2..], [42.0, 44.0, 2.0, 50.0, 50.0, 0.0]);
        assert!(frame.row(1)[2..5].iter().all(|v| v.is_nan()));
        assert_eq!(frame.dropped().len(), 3);
        Ok(())
    }

    #[test]
    fn families_are_names_without_an_index() {
        assert_eq!(family("ipmi.dimm12_temp").as_deref(), Some("ipmi.dimm_temp"));
        assert_eq!(
            family("node_cpu_seconds_total{cpu=\"3\",mode=\"idle\"}").as_deref(),
            Some("node_cpu_seconds_total{cpu=\"\",mode=\"idle\"}")
        );
        assert_eq!(family("gpu0_core_temp"), None);
        assert_eq!(family("score_7"), None);
    }
}
