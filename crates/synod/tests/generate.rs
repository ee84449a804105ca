//! `synod generate`, run as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

fn generate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synod"))
        .arg("generate")
        .arg(folder)
        .args(arguments)
        .output()
        .expect("the program runs")
}

const SMALL: [&str; 7] = ["--nodes", "3", "--days", "4", "--seed", "7", "--json"];

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
        .map(|e| {
            (
                e.file_name().to_string_lossy().into_owned(),
                std::fs::read(e.path()).expect("a file"),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn any_number_of_threads_writes_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    let first = generate(&one, &[&SMALL[..], &["--threads", "1"]].concat());
    let second = generate(&many, &[&SMALL[..], &["--threads", "3"]].concat());
    assert!(first.status.success() && second.status.success(), "{first:?}");
    let names: Vec<String> = files(&one).into_iter().map(|f| f.0).collect();
    assert_eq!(names, ["0.parquet", "1.parquet", "2.parquet", "faults.json"]);
    assert_eq!(files(&one), files(&many));
    let summary: serde_json::Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(
        (summary["nodes"].as_u64(), summary["columns"].as_u64()),
        (Some(3), Some(460))
    );
    assert!(summary["windows"].as_u64() > Some(1100), "{summary}");
}

#[test]
fn records_and_raw_readings_are_written_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let (record, raw) = (folder.path().join("record"), folder.path().join("raw"));
    assert!(
        generate(
            &record,
            &[&SMALL[..], &["--format", "record", "--metrics", "few"]].concat()
        )
        .status
        .success()
    );
    let rows = synod_data::record::Reader::open(record.join("2.record")).expect("a record file");
    assert_eq!(rows.schema().columns.len(), 13 * 4);
    assert!(
        generate(
            &raw,
            &[&SMALL[..], &["--format", "raw", "--metrics", "few"]].concat()
        )
        .status
        .success()
    );
    for place in [
        "plugin=ipmi_pub/metric=total_power",
        "plugin=ganglia_pub/metric=load_one",
        "plugin=nagios_pub/metric=state",
    ] {
        assert!(
            raw.join("year_month=22-01")
                .join(place)
                .join("a_0.parquet")
                .is_file(),
            "{place}"
        );
    }
}

#[test]
fn a_folder_with_something_in_it_is_left_alone_unless_forced() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("thesis.txt"), "years").expect("a file");
    let refused = generate(folder.path(), &SMALL);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));
    assert_eq!(files(folder.path()).len(), 1);
    assert!(
        generate(folder.path(), &[&SMALL[..], &["--force"]].concat())
            .status
            .success()
    );
    assert_eq!(files(folder.path()).len(), 5);
}

#[test]
fn a_senseless_parameter_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = generate(&folder.path().join("out"), &["--anomalies", "0.8"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("anomalies is 0.8"));
    assert!(!folder.path().join("out").exists());
}
