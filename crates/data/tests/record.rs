//! What is written to a record file is what is read from it, in place, and filters read only what they must.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use synod_data::record::{Filter, Label, LabelKind, Labels, Reader, Schema, Writer};
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.synod");
    (folder, path)
}

fn schema(columns: usize, rows_per_page: u32) -> Schema {
    Schema {
        rows_per_page,
        ..Schema::new((0..columns).map(|c| format!("c{c}")))
    }
}

/// Rows `0..rows`: time `10 i`, label `i / 10`, values `i`, `-i`.
fn ladder(path: &Path, rows: usize) {
    let mut writer =
        Writer::create(path, &schema(2, 10).labelled(LabelKind::Int).with("unit", "s")).expect("a writer");
    for i in 0..rows {
        let row = [i as f32, -(i as f32)];
        writer
            .push_labelled(10 * i as i64, Label::Int((i / 10) as i32), &row)
            .expect("pushed");
    }
    writer.finish().expect("finished");
}

#[test]
fn rows_times_labels_and_metadata_come_back() {
    let (_folder, path) = folder();
    ladder(&path, 25);
    let reader = Reader::open(&path).expect("open");
    assert_eq!(reader.recovered(), None);
    assert_eq!((reader.rows(), reader.pages(), reader.columns()), (25, 3, 2));
    assert_eq!(reader.schema().user["unit"], "s");
    for i in 0..25 {
        assert_eq!(reader.row(i).expect("a row"), [i as f32, -(i as f32)]);
        assert_eq!(reader.time(i).expect("a time"), 10 * i as i64);
        assert_eq!(
            reader.label(i).expect("a label"),
            Some(Label::Int((i / 10) as i32))
        );
    }
    let page = reader.page(2).expect("the last page");
    assert_eq!(
        (page.first_row, page.rows(), page.labels),
        (20, 5, Labels::Int(&[2; 5]))
    );
    let zone = reader.zone(1, 1).expect("a zone");
    assert_eq!((zone.min, zone.max, zone.nans), (-19.0, -10.0, 0));
    let error = reader.row(25).expect_err("no such row").to_string();
    assert!(
        error.contains("no row 25") && error.contains("rows.synod"),
        "{error}"
    );
}

#[test]
fn pages_are_aligned_and_rows_lie_inside_the_map_without_being_copied() {
    let (_folder, path) = folder();
    ladder(&path, 25);
    let reader = Reader::open(&path).expect("open");
    for number in 0..reader.pages() {
        let page = reader.page(number).expect("a page");
        assert_eq!(page.values.as_ptr() as usize % 64, 0);
        assert_eq!(page.times.as_ptr() as usize % 64, 0);
        let inside = page.values.as_ptr_range();
        for i in 0..page.rows() {
            let row = reader.row(page.first_row + i).expect("a row").as_ptr_range();
            assert!(inside.start <= row.start && row.end <= inside.end);
        }
    }
    // The first page's values lie as far behind its times as the format says, so both are in the one map.
    let page = reader.page(0).expect("a page");
    let apart = page.values.as_ptr() as usize - page.times.as_ptr() as usize;
    assert_eq!(apart, 128 + 64);
}

#[test]
fn a_filter_reads_only_pages_that_may_match() {
    let (_folder, path) = folder();
    ladder(&path, 100);
    let reader = Reader::open(&path).expect("open");
    let check = |filter: Filter, rows: std::ops::Range<usize>, pages_read: usize| {
        let mut scan = reader.scan(&filter).expect("a scan");
        let found: Vec<usize> = scan.by_ref().map(|m| m.expect("a match").row).collect();
        assert_eq!(found, rows.collect::<Vec<_>>());
        let report = scan.report();
        assert_eq!(
            (report.pages_read, report.pages_skipped),
            (pages_read, 10 - pages_read),
            "{filter:?}"
        );
        assert_eq!(report.rows_matched, found.len());
    };
    check(Filter::all(), 0..100, 10);
    check(Filter::all().time(150..250), 15..25, 2);
    check(Filter::all().time(200..300), 20..30, 1);
    check(Filter::all().label(7.0..=7.0), 70..80, 1);
    check(Filter::all().label(3.0..5.0), 30..50, 2);
    check(Filter::all().column("c0", 42.0..=42.0), 42..43, 1);
    check(Filter::all().column("c1", ..=-95.0), 95..100, 1);
    check(Filter::all().time(..500).column("c0", 45.0..), 45..50, 1);
    check(Filter::all().time(2000..), 0..0, 0);
    let error = reader
        .scan(&Filter::all().column("nope", ..))
        .err()
        .expect("unknown");
    assert!(error.to_string().contains("c0, c1"), "{error}");
}

#[test]
fn nan_is_counted_kept_and_never_matches() {
    let (_folder, path) = folder();
    let mut writer = Writer::create(&path, &schema(2, 4).labelled(LabelKind::Real)).expect("a writer");
    for i in 0..8 {
        let x = if i < 4 || i == 6 { f32::NAN } else { i as f32 };
        let label = Label::Real(if i == 0 { f32::NAN } else { 0.5 });
        writer.push_labelled(i, label, &[x, 1.0]).expect("pushed");
    }
    writer.finish().expect("finished");
    let reader = Reader::open(&path).expect("open");
    assert!(reader.row(2).expect("a row")[0].is_nan());
    assert_eq!(reader.zone(0, 0).expect("a zone").nans, 4);
    assert_eq!(reader.labels(0).expect("labels"), Some((0.5, 0.5)));
    let mut scan = reader.scan(&Filter::all().column("c0", ..)).expect("a scan");
    let rows: Vec<usize> = scan.by_ref().map(|m| m.expect("a match").row).collect();
    assert_eq!(rows, [4, 5, 7]);
    assert_eq!(scan.report().pages_read, 1, "a page of NaN only is skipped");
}

#[test]
fn flushed_rows_are_readable_while_the_writer_goes_on() {
    let (_folder, path) = folder();
    let mut writer = Writer::create(&path, &schema(1, 100)).expect("a writer");
    writer.push(1, &[1.0]).expect("pushed");
    writer.flush().expect("flushed");
    let early = Reader::open(&path).expect("open");
    for i in 2..=150 {
        writer.push(i, &[i as f32]).expect("pushed");
    }
    let second = Writer::append(&path).err().expect("locked").to_string();
    assert!(second.contains("another writer"), "{second}");
    writer.finish().expect("finished");
    assert_eq!((early.rows(), early.row(0).expect("a row")), (1, &[1.0][..]));
    let late = Reader::open(&path).expect("open");
    assert_eq!(
        (late.rows(), late.pages()),
        (150, 3),
        "the flushed page stays short"
    );
    for i in 0..150 {
        assert_eq!(late.row(i).expect("a row"), [i as f32 + 1.0]);
    }
}

#[test]
fn a_whole_file_has_its_name_only_when_it_is_finished() {
    let (folder, path) = folder();
    ladder(&path, 3);
    let mut writer = Writer::create_whole(&path, &Schema::new(["a"])).unwrap();
    writer.push(1, &[5.0]).unwrap();
    drop(writer);
    assert_eq!(
        Reader::open(&path).unwrap().rows(),
        3,
        "the old file is as it was"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let mut writer = Writer::create_whole(&path, &Schema::new(["a"])).unwrap();
    writer.push(1, &[5.0]).unwrap();
    writer.finish().unwrap();
    assert_eq!(Reader::open(&path).unwrap().row(0).unwrap(), [5.0]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn appending_to_a_finished_file_continues_it() {
    let (_folder, path) = folder();
    ladder(&path, 25);
    let mut writer = Writer::append(&path).expect("a writer");
    assert_eq!((writer.recovered(), writer.rows()), (None, 25));
    for i in 25..47 {
        writer
            .push_labelled(10 * i, Label::Int(i as i32 / 10), &[i as f32, 0.0])
            .expect("pushed");
    }
    writer.finish().expect("finished");
    let reader = Reader::open(&path).expect("open");
    assert_eq!((reader.recovered(), reader.rows()), (None, 47));
    for i in 0..47 {
        assert_eq!(reader.row(i).expect("a row")[0], i as f32);
    }
}

#[test]
fn rows_and_schemas_that_do_not_fit_are_refused() {
    let (_folder, path) = folder();
    let mut writer = Writer::create(&path, &schema(2, 10)).expect("a writer");
    assert!(writer.push(0, &[1.0]).is_err());
    assert!(writer.push_labelled(0, Label::Int(1), &[1.0, 2.0]).is_err());
    assert_eq!(writer.rows(), 0);
    let none: [&str; 0] = [];
    assert!(Writer::create(&path, &Schema::new(none)).is_err());
    let twice = Writer::create(&path, &Schema::new(["a", "a"]))
        .err()
        .expect("twice");
    assert!(twice.to_string().contains("\"a\""), "{twice}");
    let huge = Schema::new(["a"]).with("k", "v".repeat(9 << 20));
    assert!(Writer::create(&path, &huge).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_round_trip_bit_for_bit(
        columns in 1usize..6,
        rows_per_page in 1u32..9,
        bits in prop::collection::vec(any::<u32>(), 0..200),
        times in prop::collection::vec(any::<i64>(), 200),
        flush in 1usize..20,
    ) {
        let (_folder, path) = folder();
        let mut writer = Writer::create(&path, &schema(columns, rows_per_page)).expect("a writer");
        let values: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
        for (i, row) in values.chunks_exact(columns).enumerate() {
            writer.push(times[i], row).expect("pushed");
            if i % flush == 0 {
                writer.flush().expect("flushed");
            }
        }
        writer.finish().expect("finished");
        let reader = Reader::open(&path).expect("open");
        prop_assert_eq!(reader.rows(), values.len() / columns);
        for (i, row) in values.chunks_exact(columns).enumerate() {
            let read: Vec<u32> = reader.row(i).expect("a row").iter().map(|v| v.to_bits()).collect();
            let written: Vec<u32> = row.iter().map(|v| v.to_bits()).collect();
            prop_assert_eq!(read, written);
            prop_assert_eq!(reader.time(i).expect("a time"), times[i]);
        }
    }

    #[test]
    fn a_scan_finds_exactly_the_rows_that_match(
        values in prop::collection::vec(prop::option::of(-20i8..20), 1..150),
        low in -20i64..20,
        width in 0i64..20,
    ) {
        let (_folder, path) = folder();
        let mut writer = Writer::create(&path, &schema(1, 7)).expect("a writer");
        let value = |v: &Option<i8>| v.map_or(f32::NAN, f32::from);
        for v in &values {
            writer.push(v.unwrap_or(100).into(), &[value(v)]).expect("pushed");
        }
        writer.finish().expect("finished");
        let reader = Reader::open(&path).expect("open");
        let range = low as f32..(low + width) as f32;
        let by_value: Vec<usize> = reader
            .scan(&Filter::all().column("c0", range.clone()))
            .expect("a scan")
            .map(|m| m.expect("a match").row)
            .collect();
        let by_time: Vec<usize> = reader
            .scan(&Filter::all().time(low..low + width))
            .expect("a scan")
            .map(|m| m.expect("a match").row)
            .collect();
        let expected: Vec<usize> = (0..values.len()).filter(|&i| range.contains(&value(&values[i]))).collect();
        prop_assert_eq!(&by_value, &expected);
        prop_assert_eq!(&by_time, &expected);
    }
}
