//! The raw layout of M100 as record files of nodes.

mod files;

use std::{fs, path::Path};

use files::{Column, parquet};
use synod_telemetry::{
    Result, Truth,
    sources::{
        Table,
        m100::{self, Raw},
        records,
    },
    windows::{KeptStatistics, WindowSettings},
};

fn metric(root: &Path, month: &str, plugin: &str, name: &str, columns: &[(&str, Column)]) {
    let folder = root.join(format!("year_month={month}/plugin={plugin}/metric={name}"));
    fs::create_dir_all(&folder).expect("made");
    fs::write(folder.join("a_0.parquet"), parquet(columns)).expect("written");
}

fn rows(samples: &[(i64, i32, &'static str)]) -> [(&'static str, Column); 3] {
    [
        (
            "timestamp",
            Column::Stamp(samples.iter().map(|s| s.0 * 1000).collect()),
        ),
        ("value", Column::Int(samples.iter().map(|s| s.1).collect())),
        ("node", Column::Text(samples.iter().map(|s| s.2).collect())),
    ]
}

fn raw(keep: KeptStatistics) -> Raw {
    Raw {
        settings: WindowSettings {
            width: 60,
            ..WindowSettings::default()
        },
        keep,
        ..Raw::default()
    }
}

#[test]
fn metrics_of_all_nodes_become_windows_of_each_node() -> Result<()> {
    let (root, out) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    let power = [
        (0, 10, "10"),
        (0, 5, "2"),
        (20, 20, "10"),
        (20, 20, "10"),
        (60, 40, "10"),
        (65, 7, "2"),
    ];
    metric(root.path(), "22-08", "ipmi_pub", "p0_power", &rows(&power));
    metric(
        root.path(),
        "22-09",
        "ipmi_pub",
        "p0_power",
        &rows(&[(120, 50, "10")]),
    );
    metric(
        root.path(),
        "22-08",
        "ganglia_pub",
        "boottime",
        &rows(&[(0, 100, "10"), (61, 100, "10")]),
    );
    let names = [
        ("timestamp", Column::Stamp(vec![0])),
        ("value", Column::Text(vec!["Linux"])),
        ("node", Column::Text(vec!["10"])),
    ];
    metric(root.path(), "22-08", "ganglia_pub", "os_name", &names);
    metric(root.path(), "22-08", "weather_pub", "temp", &rows(&[(0, 1, "x")]));
    let report = raw(KeptStatistics::Mean).import(root.path(), out.path())?;
    assert_eq!(report.metrics, ["ganglia.boottime", "ipmi.p0_power"]);
    let dropped: Vec<&str> = report.dropped.iter().map(|d| d.metric.as_str()).collect();
    assert_eq!(dropped, ["weather.temp", "ganglia.os_name"]);
    assert_eq!(
        (report.samples.taken, report.samples.duplicate),
        (8, 1),
        "the repeated row at 20 s"
    );
    assert_eq!(
        report.files,
        [out.path().join("2.record"), out.path().join("10.record")]
    );
    let frame = records::load(&report.files[1])?;
    assert_eq!((frame.node(), frame.step()), ("10", 60));
    assert_eq!(frame.times(), [0, 60, 120]);
    let power: Vec<f32> = (0..3).map(|row| frame.row(row)[1]).collect();
    assert_eq!(power, [15.0, 40.0, 50.0]);
    assert!(
        frame.row(0)[0].is_nan(),
        "a counter has no rate before its second sample"
    );
    assert_eq!(frame.row(1)[0], 0.0);
    assert_eq!(frame.truth(), [Truth::Unknown; 3]);
    assert!(!out.path().join("scratch").exists());
    Ok(())
}

#[test]
fn all_statistics_are_named_as_the_aggregated_set_names_them() -> Result<()> {
    let (root, out) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    metric(
        root.path(),
        "22-08",
        "ipmi_pub",
        "ambient",
        &rows(&[(0, 1, "0"), (10, 3, "0")]),
    );
    let report = raw(KeptStatistics::All).import(root.path(), out.path())?;
    let frame = records::load(&report.files[0])?;
    assert_eq!(
        frame.metrics(),
        ["avg", "std", "min", "max"].map(|s| format!("ipmi.ambient_{s}"))
    );
    assert_eq!(frame.row(0), [2.0, 1.0, 1.0, 3.0]);
    Ok(())
}

#[test]
fn a_node_cannot_name_a_file_elsewhere() {
    let (root, out) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    metric(
        root.path(),
        "22-08",
        "ipmi_pub",
        "ambient",
        &rows(&[(0, 1, "../../x")]),
    );
    let error = raw(KeptStatistics::All)
        .import(root.path(), out.path())
        .expect_err("a path")
        .to_string();
    assert!(error.contains("cannot be the name of a node"), "{error}");
}

#[test]
fn folders_without_metrics_and_damaged_files_are_refused() {
    let (root, out) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    let error = raw(KeptStatistics::All)
        .import(root.path(), out.path())
        .expect_err("empty")
        .to_string();
    assert!(error.contains("no raw metrics"), "{error}");
    metric(
        root.path(),
        "22-08",
        "ipmi_pub",
        "ambient",
        &rows(&[(0, 1, "0"); 50]),
    );
    let path = root
        .path()
        .join("year_month=22-08/plugin=ipmi_pub/metric=ambient/a_0.parquet");
    let whole = fs::read(&path).expect("read");
    for at in (0..whole.len()).step_by(31) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x15;
        fs::write(&path, &damaged).expect("written");
        let _ = raw(KeptStatistics::Mean).import(root.path(), out.path());
        fs::write(&path, &whole[..at]).expect("written");
        assert!(
            raw(KeptStatistics::Mean).import(root.path(), out.path()).is_err(),
            "cut at {at}"
        );
    }
}

#[test]
fn aggregated_windows_load_as_a_table_with_unknown_labels() -> Result<()> {
    let bytes = parquet(&[
        ("timestamp", Column::Stamp(vec![0, 900_000, 1_800_000])),
        ("ambient_avg", Column::Double(vec![20.0, 21.0, f64::NAN])),
        ("ambient_std", Column::Double(vec![0.5, 0.1, 0.2])),
        ("value", Column::Double(vec![0.0, 2.0, f64::NAN])),
    ]);
    let (_folder, path) = files::write("388.parquet", &bytes);
    let table: Table = m100::aggregated();
    let frame = table.load(path)?.frame;
    assert_eq!((frame.node(), frame.step()), ("388", 900));
    assert_eq!(frame.metrics(), ["ambient_avg", "ambient_std"]);
    assert_eq!(frame.truth(), [Truth::Healthy, Truth::Anomalous, Truth::Unknown]);
    Ok(())
}

#[test]
fn frames_survive_a_record_file() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = vec!["a".to_owned(), "b".to_owned()];
    let frame = synod_telemetry::Frame::new(
        "n1",
        60,
        vec![-60, 0, 300],
        metrics,
        vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    )?
    .with_truth(vec![Truth::Anomalous, Truth::Unknown, Truth::Healthy])?;
    let path = folder.path().join("n1.record");
    records::save(&frame, &path)?;
    assert_eq!(records::load(&path)?, frame);
    Ok(())
}
