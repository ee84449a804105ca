//! Streaming windows against a group-by over all samples.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use proptest::prelude::*;
use synod_telemetry::{
    Result,
    metric::MetricKind,
    windows::{Counts, KeptStatistics, MetricId, Nodes, Stats, WindowSettings, Windows},
};

const WIDTH: i64 = 60;

type Sample = (u32, i64, f64);
type Rows = BTreeMap<i64, Vec<Stats>>;

const KINDS: [MetricKind; 2] = [MetricKind::Gauge, MetricKind::Counter];

fn settings(late: usize, held: usize) -> WindowSettings {
    WindowSettings {
        width: WIDTH,
        late,
        held,
    }
}

fn stream(samples: &[Sample], settings: WindowSettings) -> (Rows, Counts) {
    let mut windows = Windows::new(settings).expect("settings");
    for kind in KINDS {
        windows.metric(kind);
    }
    let (mut rows, mut last) = (Rows::new(), i64::MIN);
    let mut sink = |row: synod_telemetry::windows::WindowRow<'_>| {
        assert!(row.start > last, "rows come in order of time");
        last = row.start;
        rows.insert(row.start, row.stats.to_vec());
    };
    for &(metric, time, value) in samples {
        windows.push(MetricId(metric), time, value, &mut sink);
    }
    windows.finish(&mut sink);
    (rows, windows.counts())
}

/// All samples at once: drop what comes too late, keep the first of each metric and time, sort, difference, group.
fn group_by(samples: &[Sample], late: i64) -> (Rows, Counts) {
    let (mut kept, mut seen, mut counts) = (Vec::new(), BTreeSet::new(), Counts::default());
    let mut newest = i64::MIN / 2;
    for &(metric, time, value) in samples {
        let window = time.div_euclid(WIDTH * 1000);
        if !value.is_finite() || value == 9_223_372_036_854_775_794.0 {
            counts.missing += 1;
        } else if window < newest - late {
            counts.late += 1;
        } else {
            newest = newest.max(window);
            match seen.insert((metric, time)) {
                true => kept.push((metric, time, value)),
                false => counts.duplicate += 1,
            }
        }
    }
    counts.taken = kept.len() as u64;
    let mut groups: BTreeMap<i64, [Vec<f64>; 2]> = BTreeMap::new();
    for metric in 0..2 {
        let mut own: Vec<Sample> = kept.iter().copied().filter(|s| s.0 == metric).collect();
        own.sort_by_key(|s| s.1);
        for (i, &(_, time, value)) in own.iter().enumerate() {
            let start = time.div_euclid(WIDTH * 1000) * WIDTH;
            let values = &mut groups.entry(start).or_default()[metric as usize];
            match (KINDS[metric as usize], i) {
                (MetricKind::Gauge, _) => values.push(value),
                (MetricKind::Counter, 0) => {}
                (MetricKind::Counter, _) => {
                    let (_, before, old) = own[i - 1];
                    let increase = if value < old { value } else { value - old };
                    values.push(increase / ((time - before) as f64 / 1000.0));
                }
            }
        }
    }
    let rows = groups
        .into_iter()
        .filter(|(_, g)| g.iter().any(|v| !v.is_empty()));
    (
        rows.map(|(start, g)| (start, g.iter().map(|v| describe(v)).collect()))
            .collect(),
        counts,
    )
}

fn describe(values: &[f64]) -> Stats {
    if values.is_empty() {
        return Stats::NONE;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    Stats {
        count: values.len() as u32,
        mean,
        std: (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt(),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

fn same(a: &Stats, b: &Stats) -> bool {
    let near =
        |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-9 * (1.0 + x.abs());
    a.count == b.count
        && near(a.mean, b.mean)
        && (near(a.std, b.std) || (a.std - b.std).abs() < 1e-6)
        && near(a.min, b.min)
        && near(a.max, b.max)
}

fn assert_same(got: &Rows, want: &Rows) {
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
    for (start, row) in want {
        for (g, w) in got[start].iter().zip(row) {
            assert!(same(g, w), "window {start}: {g:?} where {w:?} is right");
        }
    }
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let value = prop_oneof![
        8 => (0u32..1000).prop_map(f64::from),
        1 => Just(f64::NAN),
        1 => Just(9_223_372_036_854_775_794.0),
    ];
    // Steps back make late samples and duplicates, large steps forward make gaps; low values are resets.
    let step = prop_oneof![6 => -8i64..20, 2 => -90i64..120, 1 => 0i64..400];
    proptest::collection::vec((0u32..2, step, value), 0..200).prop_map(|steps| {
        let mut time = -100_000;
        let walk = steps.into_iter().map(|(metric, step, value)| {
            time += step * 1000;
            (metric, time, value)
        });
        walk.collect()
    })
}

proptest! {
    #[test]
    fn one_pass_gives_what_a_group_by_gives(samples in samples(), late in 0usize..4) {
        let (got, counts) = stream(&samples, settings(late, 4096));
        let (want, wanted) = group_by(&samples, late as i64);
        prop_assert_eq!(counts, wanted);
        assert_same(&got, &want);
    }

    #[test]
    fn holding_few_samples_changes_nothing_when_they_come_in_order(mut samples in samples()) {
        samples.sort_by_key(|s| s.1);
        let (few, counts) = stream(&samples, settings(1, 2));
        let (want, wanted) = group_by(&samples, 1);
        prop_assert_eq!(counts.taken + counts.late + counts.duplicate, wanted.taken + wanted.duplicate);
        // A duplicate of a sample that is no longer held counts as late; both are dropped.
        prop_assert_eq!(counts.taken, wanted.taken);
        assert_same(&few, &want);
    }

    #[test]
    fn no_times_panic(samples in proptest::collection::vec((0u32..3, any::<i64>(), any::<f64>()), 0..40)) {
        let mut windows = Windows::new(settings(1, 2)).expect("settings");
        for kind in KINDS {
        windows.metric(kind);
    }
        let mut sink = |_: synod_telemetry::windows::WindowRow<'_>| {};
        for (metric, time, value) in samples {
            windows.push(MetricId(metric), time, value, &mut sink);
        }
        windows.finish(&mut sink);
    }
}

#[test]
fn a_counter_that_restarts_counts_from_zero() {
    let samples = [
        (1, 0, 100.0),
        (1, 10_000, 150.0),
        (1, 20_000, 20.0),
        (1, 60_000, 60.0),
    ];
    let (rows, _) = stream(&samples, settings(1, 64));
    assert_eq!(
        (rows[&0][1].count, rows[&0][1].max, rows[&0][1].min),
        (2, 5.0, 2.0)
    );
    assert_eq!(rows[&60][1].mean, 1.0);
    assert!(
        rows[&0][0].count == 0 && rows[&0][0].mean.is_nan(),
        "the gauge has no samples"
    );
}

#[test]
fn settings_that_make_no_windows_are_refused() {
    for wrong in [
        WindowSettings {
            width: 0,
            ..WindowSettings::default()
        },
        WindowSettings {
            held: 0,
            ..WindowSettings::default()
        },
        WindowSettings {
            late: 100_000,
            ..WindowSettings::default()
        },
    ] {
        assert!(Windows::new(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn nodes_become_frames_with_metrics_that_appear_later() -> Result<()> {
    let mut nodes = Nodes::new(settings(0, 64), KeptStatistics::Mean)?;
    for (node, metric, time, value) in [
        ("n10", "a", 0, 1.0),
        ("n2", "b", 0, 5.0),
        ("n10", "a", 60_000, 3.0),
        ("n10", "a10", 120_000, 7.0),
        ("n10", "a9", 120_000, 8.0),
    ] {
        nodes.push(node, metric, MetricKind::Gauge, time, value)?;
    }
    let frames = nodes.frames()?;
    assert_eq!(frames.iter().map(|f| f.node()).collect::<Vec<_>>(), ["n2", "n10"]);
    assert_eq!(frames[1].metrics(), ["a", "a9", "a10"]);
    assert_eq!(frames[1].times(), [0, 60, 120]);
    assert!(frames[1].row(0)[1].is_nan() && frames[1].row(2)[0].is_nan());
    assert_eq!(frames[1].row(2)[1..], [8.0, 7.0]);
    Ok(())
}

#[test]
fn sources_may_give_one_metric_after_the_other() -> Result<()> {
    let mut nodes = Nodes::new(settings(0, 64), KeptStatistics::All)?;
    for metric in ["b", "a"] {
        for minute in 0..5 {
            nodes.push("n1", metric, MetricKind::Gauge, minute * 60_000, minute as f64)?;
        }
    }
    assert_eq!((nodes.counts().taken, nodes.counts().late), (10, 0));
    let frames = nodes.frames()?;
    assert_eq!(frames[0].times(), [0, 60, 120, 180, 240]);
    assert_eq!(frames[0].metrics()[4], "b_avg");
    assert_eq!(frames[0].row(3), [3.0, 0.0, 3.0, 3.0, 3.0, 0.0, 3.0, 3.0]);
    Ok(())
}

#[test]
fn windows_that_waited_in_a_file_come_back_in_order() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let scratch = folder.path().join("scratch");
    let settings = WindowSettings {
        width: 60,
        ..WindowSettings::default()
    };
    let mut kept = Nodes::new(settings, KeptStatistics::All)?;
    let mut spilled = Nodes::new(settings, KeptStatistics::All)?.spilling(&scratch, 7)?;
    for i in 0..4000i64 {
        let (node, metric) = (
            ["n1", "n2", "n10"][i as usize % 3],
            ["a", "b"][i as usize % 7 / 4],
        );
        for nodes in [&mut kept, &mut spilled] {
            nodes.push(node, metric, MetricKind::Gauge, i * 1700, (i % 13) as f64)?;
        }
    }
    assert!(
        fs::metadata(&scratch).expect("a file").len() > 1000,
        "some windows waited there"
    );
    assert_eq!(kept.counts(), spilled.counts());
    let (kept, spilled) = (kept.frames()?, spilled.frames()?);
    assert_eq!(kept.len(), 3);
    for (a, b) in kept.iter().zip(&spilled) {
        assert_eq!(
            (a.node(), a.times(), a.metrics()),
            (b.node(), b.times(), b.metrics())
        );
        let bits = |f: &synod_telemetry::Frame| f.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(a), bits(b));
    }
    assert!(!scratch.exists());
    Ok(())
}
