//! One file per node: what loads, what is said about it, and what is refused.

mod files;

use files::{Column, parquet, write};
use proptest::prelude::*;
use synod_telemetry::{
    Frame, Result, Truth,
    sources::{Loaded, Table},
};

const NAN: f32 = f32::NAN;

fn text(name: &str, text: &str, table: &Table) -> Result<Loaded> {
    let (_folder, path) = write(name, text.as_bytes());
    table.load(path)
}

fn column(frame: &Frame, name: &str) -> Vec<f32> {
    let index = frame
        .metrics()
        .iter()
        .position(|m| m == name)
        .expect("the metric");
    (0..frame.rows()).map(|row| frame.row(row)[index]).collect()
}

fn labelled() -> Table {
    Table {
        label: Some("label".into()),
        ..Table::default()
    }
}

#[test]
fn rows_without_times_are_a_minute_apart() -> Result<()> {
    let Loaded { frame, notes } = text("machine-1-2.csv", "a,b,label\n1,2,0\n3,,1\n5,6,\n", &labelled())?;
    assert_eq!(frame.node(), "machine-1-2");
    assert_eq!((frame.step(), frame.times()), (60, [0, 60, 120].as_slice()));
    assert_eq!(frame.metrics(), ["a", "b"]);
    assert_eq!(column(&frame, "a"), [1.0, 3.0, 5.0]);
    assert!(frame.row(1)[1].is_nan());
    assert_eq!(frame.truth(), [Truth::Healthy, Truth::Anomalous, Truth::Unknown]);
    assert_eq!(notes, Vec::<String>::new());
    Ok(())
}

#[test]
fn timestamps_in_parquet_are_found_by_their_type_and_give_the_step() -> Result<()> {
    let bytes = parquet(&[
        (
            "when",
            Column::Stamp(vec![
                1_662_000_000_000,
                1_662_000_900_000,
                1_662_003_600_000,
                1_662_004_500_000,
            ]),
        ),
        ("x", Column::Float(vec![1.0, NAN, 3.0, 4.0])),
        ("count", Column::Int(vec![1, 2, 3, 4])),
        ("host", Column::Text(vec!["a", "a", "a", "a"])),
    ]);
    let (_folder, path) = write("n7.parquet", &bytes);
    let frame = Table::default().load(path)?.frame;
    assert_eq!(
        frame.times(),
        [1_662_000_000, 1_662_000_900, 1_662_003_600, 1_662_004_500]
    );
    assert_eq!((frame.step(), frame.node()), (900, "n7"));
    assert_eq!(frame.metrics(), ["x", "count"]);
    assert_eq!(frame.dropped()[0].metric, "host");
    assert_eq!(frame.dropped()[0].reason, "it holds text or bytes");
    assert_eq!(frame.truth(), [Truth::Unknown; 4]);
    Ok(())
}

#[test]
fn patterns_choose_columns_and_every_other_one_is_listed() -> Result<()> {
    let table = Table {
        include: vec!["ipmi.*".into(), "ganglia.*".into(), "lustre.*".into()],
        exclude: vec!["*energy*".into()],
        label: Some("nagios.drained".into()),
        ..Table::default()
    };
    let csv = "ipmi.a,ganglia.energy,ganglia.b,nagios.ping,nagios.drained\n1,2,3,4,0\n1,2,3,4,1\n";
    let Loaded { frame, notes } = text("n.csv", csv, &table)?;
    assert_eq!(frame.metrics(), ["ipmi.a", "ganglia.b"]);
    let dropped: Vec<(&str, &str)> = frame
        .dropped()
        .iter()
        .map(|d| (d.metric.as_str(), d.reason.as_str()))
        .collect();
    assert_eq!(
        dropped,
        [
            ("ganglia.energy", "excluded by \"*energy*\""),
            ("nagios.ping", "not among the included")
        ]
    );
    assert!(notes.iter().any(|note| note.contains("lustre")), "{notes:?}");
    Ok(())
}

#[test]
fn shuffled_and_repeated_times_are_put_right_and_told() -> Result<()> {
    let csv = "time,a,b,label\n300,5,5,1\n100,1,,0\n200,3,3,0\n100,2,2,1\n200,9,9,0\n";
    let Loaded { frame, notes } = text("n.csv", csv, &labelled())?;
    assert_eq!(frame.times(), [100, 200, 300]);
    assert_eq!(
        column(&frame, "a"),
        [2.0, 3.0, 5.0],
        "the fullest row, and of equals the first"
    );
    assert_eq!(
        frame.truth(),
        [Truth::Anomalous, Truth::Healthy, Truth::Anomalous]
    );
    assert!(
        notes.iter().any(|n| n.starts_with("2 rows came before")),
        "{notes:?}"
    );
    assert!(
        notes.iter().any(|n| n.starts_with("2 rows repeat the time")),
        "{notes:?}"
    );
    Ok(())
}

#[test]
fn times_may_be_text_seconds_or_finer_units() -> Result<()> {
    let iso = "timestamp,a\n2022-09-01 00:00:00,1\n\"2022-09-01T00:15:00Z\",2\n\n,3\n";
    let Loaded { frame, notes } = text("n.csv", iso, &Table::default())?;
    assert_eq!(frame.times(), [1_661_990_400, 1_661_991_300]);
    assert!(
        notes.iter().any(|n| n.starts_with("1 rows have no time")),
        "{notes:?}"
    );
    for unit in [1i64, 1000, 1_000_000, 1_000_000_000] {
        let csv = format!("Time,a\n{},1\n{},2\n", 1_661_990_400 * unit, 1_661_991_300 * unit);
        assert_eq!(
            text("n.csv", &csv, &Table::default())?.frame.times(),
            [1_661_990_400, 1_661_991_300]
        );
    }
    let wrong = text("n.csv", "time,a\nnoon,1\n", &Table::default()).expect_err("no time");
    assert!(wrong.to_string().contains("noon"), "{wrong}");
    Ok(())
}

#[test]
fn a_missing_label_column_is_an_error_that_names_file_and_columns() {
    let error = text("node9.csv", "a,b\n1,2\n", &labelled())
        .expect_err("no label")
        .to_string();
    assert!(
        error.contains("node9.csv") && error.contains("\"label\"") && error.contains("a, b"),
        "{error}"
    );
    let table = Table {
        time: Some("when".into()),
        ..Table::default()
    };
    let error = text("node9.csv", "a,b\n1,2\n", &table)
        .expect_err("no time")
        .to_string();
    assert!(error.contains("time column \"when\""), "{error}");
}

#[test]
fn metrics_without_any_value_stay_and_blanks_are_missing() -> Result<()> {
    let csv = "a,gone,blank\n1,,9223372036854775794\n2,,inf\n3,,4\n";
    let Loaded { frame, notes } = text("n.csv", csv, &Table::default())?;
    assert_eq!(frame.metrics(), ["a", "gone", "blank"]);
    assert!(column(&frame, "gone").iter().all(|v| v.is_nan()));
    assert_eq!(column(&frame, "blank").iter().filter(|v| v.is_nan()).count(), 2);
    assert!(notes[0].starts_with("2 infinite or blank"), "{notes:?}");
    Ok(())
}

#[test]
fn one_row_is_a_frame_and_no_row_is_an_error() -> Result<()> {
    assert_eq!(text("n.csv", "a,b\n1,2\n", &Table::default())?.frame.rows(), 1);
    let timed = text("n.csv", "time,b\n1000,2\n", &Table::default())?;
    assert_eq!((timed.frame.step(), timed.frame.times()), (60, [1000].as_slice()));
    assert!(timed.notes[0].contains("60 s is assumed"), "{:?}", timed.notes);
    for (content, says) in [
        ("", "empty"),
        ("a,b\n", "no rows"),
        ("time,b\n,2\n", "has a time"),
    ] {
        let error = text("n.csv", content, &Table::default())
            .expect_err("no rows")
            .to_string();
        assert!(error.contains("n.csv") && error.contains(says), "{error}");
    }
    Ok(())
}

#[test]
fn nothing_left_to_watch_is_an_error() {
    let table = Table {
        exclude: vec!["*".into()],
        ..Table::default()
    };
    let error = text("n.csv", "a,b\n1,2\n", &table)
        .expect_err("nothing")
        .to_string();
    assert!(error.contains("no metric is left"), "{error}");
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf8_are_read_and_told() -> Result<()> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(OsStr::from_bytes(b"n\xff1.csv"));
    std::fs::write(&path, b"a,b\xfe\n1,2\n").expect("written");
    let found = Table::default().load(&path)?;
    assert_eq!(found.frame.node(), "n\u{fffd}1");
    assert_eq!(found.frame.metrics(), ["a", "b\u{fffd}"]);
    assert!(found.notes[0].contains("not UTF-8"), "{:?}", found.notes);
    Ok(())
}

fn small_parquet() -> Vec<u8> {
    parquet(&[
        ("timestamp", Column::Stamp((0..50).map(|i| i * 60_000).collect())),
        ("x", Column::Double((0..50).map(f64::from).collect())),
        ("label", Column::Int(vec![0; 50])),
    ])
}

#[test]
fn parquet_that_breaks_off_is_refused_at_every_length() {
    let whole = small_parquet();
    for length in (4..whole.len()).step_by(41) {
        let (_folder, path) = write("n.parquet", &whole[..length]);
        let error = labelled().load(&path).expect_err("it breaks off").to_string();
        assert!(error.contains("n.parquet"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_parquet_never_panics(at in 0usize..2000, byte in any::<u8>()) {
        let mut bytes = small_parquet();
        let at = at % bytes.len();
        bytes[at] = byte;
        let (_folder, path) = write("n.parquet", &bytes);
        if let Ok(loaded) = labelled().load(path) {
            prop_assert!(loaded.frame.times().is_sorted());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (_folder, path) = write("n.csv", &bytes);
        let _ = Table::default().load(path);
    }

    #[test]
    fn arbitrary_tables_of_text_never_panic(text in "(time|a|\"b\")(,[a-z\"#]{0,3}){0,3}\n([-0-9.:T\" \n,eNa]{0,40})") {
        let (_folder, path) = write("n.csv", text.as_bytes());
        let _ = Table::default().load(path);
    }
}
