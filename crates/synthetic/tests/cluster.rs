//! What the synthetic cluster promises.

use std::collections::BTreeSet;

use synod_synthetic::{
    Cluster, ClusterOptions, FileFormat, ReportedMetrics, STEP, Statistics, write_faults, write_node,
};
use synod_telemetry::{Error, Frame, Result, Truth};

fn options(nodes: usize, days: usize) -> ClusterOptions {
    ClusterOptions {
        nodes,
        days,
        seed: 7,
        ..ClusterOptions::default()
    }
}

fn averages(nodes: usize, days: usize) -> ClusterOptions {
    ClusterOptions {
        statistics: Statistics::Average,
        ..options(nodes, days)
    }
}

/// The values of one column between two times, without NaN, and how many windows there were.
fn between(frame: &Frame, column: &str, from: i64, to: i64) -> (Vec<f32>, usize) {
    let at = frame
        .metrics()
        .iter()
        .position(|m| m == column)
        .expect("a column");
    let rows = frame
        .times()
        .iter()
        .enumerate()
        .filter(|(_, t)| (from..to).contains(t));
    let all: Vec<f32> = rows.map(|(row, _)| frame.row(row)[at]).collect();
    (all.iter().copied().filter(|v| !v.is_nan()).collect(), all.len())
}

#[test]
fn by_default_a_node_has_460_columns_in_the_order_of_m100() -> Result<()> {
    let frame = Cluster::new(options(1, 2))?.node(0)?;
    assert_eq!(frame.width(), 460);
    let first: Vec<&str> = frame.metrics().iter().take(4).map(String::as_str).collect();
    assert!(
        first[0].ends_with("_avg") && first[1].ends_with("_std"),
        "{first:?}"
    );
    assert!(
        first[2].ends_with("_min") && first[3].ends_with("_max"),
        "{first:?}"
    );
    for row in 0..frame.rows() {
        for s in frame.row(row).chunks(4).filter(|s| !s[0].is_nan()) {
            let slack = 1e-5 * s[3].abs();
            assert!(s[2] - slack <= s[0] && s[0] <= s[3] + slack, "{s:?}");
            assert!(s[1] <= (s[3] - s[2]) / 2.0 + slack && s[1] >= 0.0, "{s:?}");
        }
    }
    Ok(())
}

#[test]
fn nodes_differ_in_their_populated_cores_unless_they_are_all_alike() -> Result<()> {
    let sets = |heterogeneity| -> Result<BTreeSet<Vec<String>>> {
        let cluster = Cluster::new(ClusterOptions {
            heterogeneity,
            ..averages(5, 1)
        })?;
        (0..5).map(|i| Ok(cluster.node(i)?.metrics().to_vec())).collect()
    };
    assert_eq!(sets(1.0)?.len(), 5);
    assert_eq!(sets(0.0)?.len(), 1);
    Ok(())
}

#[test]
fn fewer_metrics_are_the_same_metrics() -> Result<()> {
    let all = Cluster::new(ClusterOptions {
        anomalies: 0.0,
        ..options(1, 3)
    })?
    .node(0)?;
    for metrics in [ReportedMetrics::Ipmi, ReportedMetrics::Few] {
        let some = Cluster::new(ClusterOptions {
            anomalies: 0.0,
            metrics,
            ..options(1, 3)
        })?
        .node(0)?;
        assert!(some.width() < all.width() && some.metrics().iter().all(|m| all.metrics().contains(m)));
    }
    Ok(())
}

#[test]
fn a_node_is_the_same_in_a_cluster_of_any_size_and_in_parts() -> Result<()> {
    let (small, large) = (Cluster::new(options(3, 40))?, Cluster::new(options(45, 40))?);
    let whole = small.node(2)?;
    assert!(
        whole
            .values()
            .iter()
            .zip(large.node(2)?.values())
            .all(|(a, b)| a.to_bits() == b.to_bits())
    );
    let mut row = 0;
    for part in small.parts(2, 7)? {
        let part = part?;
        assert!(part.rows() <= 7 * 96);
        for r in 0..part.rows() {
            assert_eq!(part.times()[r], whole.times()[row]);
            assert!(
                part.row(r)
                    .iter()
                    .zip(whole.row(row))
                    .all(|(a, b)| a.to_bits() == b.to_bits())
            );
            row += 1;
        }
    }
    assert_eq!(row, whole.rows());
    Ok(())
}

/// A digest of values that another machine must reproduce.
#[test]
fn bits_do_not_depend_on_the_machine() -> Result<()> {
    let frame = Cluster::new(options(1, 5))?.node(0)?;
    let digest = frame.values().iter().fold(0xcbf2_9ce4_8422_2325u64, |h, v| {
        (h ^ u64::from(v.to_bits())).wrapping_mul(0x0000_0100_0000_01b3)
    });
    assert_eq!(digest, DIGEST, "{digest:#x}");
    Ok(())
}

const DIGEST: u64 = 0x801f_19dd_d3cd_9b4b;

#[test]
fn seeds_make_different_clusters() -> Result<()> {
    let power = |seed| -> Result<Vec<f32>> {
        let frame = Cluster::new(ClusterOptions {
            seed,
            ..averages(1, 2)
        })?
        .node(0)?;
        Ok(between(&frame, "total_power_avg", 0, i64::MAX).0)
    };
    assert_ne!(power(1)?, power(2)?);
    Ok(())
}

#[test]
fn without_faults_only_false_positives_are_labelled() -> Result<()> {
    let healthy = ClusterOptions {
        anomalies: 0.0,
        ..averages(6, 90)
    };
    let count = |options: ClusterOptions| -> Result<usize> {
        let cluster = Cluster::new(options)?;
        let mut sum = 0;
        for node in 0..6 {
            assert!(cluster.faults(node)?.is_empty());
            assert!(
                cluster
                    .node_exact(node)?
                    .truth()
                    .iter()
                    .all(|t| *t == Truth::Healthy)
            );
            sum += cluster
                .node(node)?
                .truth()
                .iter()
                .filter(|t| **t == Truth::Anomalous)
                .count();
        }
        Ok(sum)
    };
    assert_eq!(
        count(ClusterOptions {
            false_labels: 0.0,
            ..healthy.clone()
        })?,
        0
    );
    // Half an event per node-month, one to four windows each.
    let expected = 6.0 * 3.0 * 0.5 * 2.5;
    let found = count(healthy)? as f64;
    assert!(
        (expected / 3.0..expected * 3.0).contains(&found),
        "{found} of about {expected}"
    );
    Ok(())
}

#[test]
fn the_share_of_faulty_windows_is_the_one_asked_for() -> Result<()> {
    for (anomalies, slack) in [(0.03, 0.25), (0.15, 0.15)] {
        let cluster = Cluster::new(ClusterOptions {
            anomalies,
            ..averages(20, 120)
        })?;
        let mut faulty = 0;
        for node in 0..20 {
            faulty += cluster
                .faults(node)?
                .iter()
                .map(|f| (f.to - f.from) / STEP)
                .sum::<i64>();
        }
        let share = faulty as f64 / (20.0 * 120.0 * 96.0);
        assert!((share / anomalies - 1.0).abs() < slack, "{share} for {anomalies}");
    }
    Ok(())
}

#[test]
fn labels_come_late_and_end_after_the_repair() -> Result<()> {
    let cluster = Cluster::new(ClusterOptions {
        false_labels: 0.0,
        ..averages(4, 120)
    })?;
    let mut seen = 0;
    for node in 0..4 {
        let frame = cluster.node(node)?;
        for fault in cluster.faults(node)? {
            let lag = (fault.detected - fault.from) / STEP;
            assert!((1..=6).contains(&lag) && fault.returned > fault.to, "{fault:?}");
            for (time, truth) in frame.times().iter().zip(frame.truth()) {
                if (fault.from..fault.detected).contains(time) {
                    assert_ne!(*truth, Truth::Anomalous, "labelled before it was noticed");
                }
                if (fault.detected..fault.returned).contains(time) {
                    assert_ne!(*truth, Truth::Healthy, "not labelled");
                }
            }
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
    Ok(())
}

#[test]
fn maintenance_stops_all_nodes_and_leaves_no_label() -> Result<()> {
    let cluster = Cluster::new(averages(3, 60))?;
    let maintenance = cluster.maintenance();
    assert!(!maintenance.is_empty());
    for node in 0..3 {
        let (frame, busy) = (cluster.node(node)?, cluster.busy(node)?);
        for (from, to) in &maintenance {
            for (time, truth) in frame.times().iter().zip(frame.truth()) {
                if (*from..*to).contains(time) {
                    assert_eq!(*truth, Truth::Unknown);
                    assert!(!busy[((time - cluster.options().start) / STEP) as usize]);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn files_are_the_same_bytes_in_any_order_and_readable() -> std::result::Result<(), Box<dyn std::error::Error>>
{
    let cluster = Cluster::new(options(2, 35))?;
    let (one, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (forwards, backwards) = (one.path(), other.path());
    for layout in [FileFormat::Parquet, FileFormat::Record] {
        let first: Vec<_> = [0, 1]
            .iter()
            .map(|i| write_node(&cluster, *i, forwards, layout))
            .collect::<Result<_>>()?;
        std::thread::scope(|scope| {
            let cluster = &cluster;
            for node in [1, 0] {
                scope.spawn(move || write_node(cluster, node, backwards, layout).map(|_| ()));
            }
        });
        for (path, written) in first {
            let name = path.file_name().ok_or("a name")?;
            assert_eq!(
                std::fs::read(&path)?,
                std::fs::read(backwards.join(name))?,
                "{}",
                path.display()
            );
            assert!(written.windows > 3300 && written.columns == 460);
        }
    }
    let options = synod_data::readers::ReadOptions {
        time: Some("timestamp".to_owned()),
        label: Some("value".to_owned()),
        ..Default::default()
    };
    let reader = synod_data::readers::open(forwards.join("0.parquet"), &options)?;
    assert_eq!(reader.names().len(), 460);
    let record = synod_data::record::Reader::open(forwards.join("0.record"))?;
    let frame = cluster.node(0)?;
    let loaded = synod_telemetry::sources::records::load(forwards.join("0.record"))?;
    assert_eq!(
        (loaded.node(), loaded.step(), loaded.times(), loaded.truth()),
        (frame.node(), frame.step(), frame.times(), frame.truth())
    );
    for row in [0, 1000, frame.rows() - 1] {
        assert!(
            record
                .row(row)?
                .iter()
                .zip(frame.row(row))
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
    }
    Ok(())
}

#[test]
fn faults_json_says_what_was_wrong() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::new(averages(3, 90))?;
    let folder = tempfile::tempdir()?;
    let text = std::fs::read_to_string(write_faults(&cluster, folder.path())?)?;
    let document: serde_json::Value = serde_json::from_str(&text)?;
    let faults = cluster.faults(1)?;
    assert_eq!(
        document["nodes"]["1"].as_array().map(Vec::len),
        Some(faults.len())
    );
    assert_eq!(document["nodes"]["1"][0]["kind"], faults[0].kind.name());
    assert_eq!(document["cluster"]["seed"], 7);
    Ok(())
}

#[test]
fn senseless_parameters_are_refused_by_name() {
    let base = ClusterOptions::default();
    let bad = [
        (
            "nodes",
            ClusterOptions {
                nodes: 0,
                ..base.clone()
            },
        ),
        (
            "days",
            ClusterOptions {
                days: 0,
                ..base.clone()
            },
        ),
        (
            "anomalies",
            ClusterOptions {
                anomalies: 0.9,
                ..base.clone()
            },
        ),
        (
            "anomalies",
            ClusterOptions {
                anomalies: f64::NAN,
                ..base.clone()
            },
        ),
        (
            "drift",
            ClusterOptions {
                drift: -1.0,
                ..base.clone()
            },
        ),
        (
            "heterogeneity",
            ClusterOptions {
                heterogeneity: f64::INFINITY,
                ..base.clone()
            },
        ),
        (
            "false_labels",
            ClusterOptions {
                false_labels: -0.1,
                ..base.clone()
            },
        ),
        (
            "start",
            ClusterOptions {
                start: 17,
                ..base.clone()
            },
        ),
    ];
    for (name, options) in bad {
        match Cluster::new(options) {
            Err(Error::Setting(message)) => assert!(message.contains(name), "{message}"),
            other => panic!("{name}: {:?}", other.map(|_| ())),
        }
    }
    let cluster = Cluster::new(ClusterOptions {
        nodes: 3,
        days: 1,
        ..base
    })
    .expect("a cluster");
    assert!(cluster.node(3).is_err());
}
