//! What the readers make of well-formed files, and what they say about others.

mod samples;

use samples::{batchwise, idx, npy, parquet_file, write};
use synod_data::{
    readers::{self, Batch, Csv, Idx, Npy, Parquet, ReadOptions, RowReader},
    record::{Label, LabelKind, Reader, Schema, Writer},
};

fn all(reader: &mut dyn RowReader) -> Batch {
    let mut batch = Batch::new();
    reader.read(usize::MAX, &mut batch).expect("rows");
    batch
}

fn csv(text: &str, options: &ReadOptions) -> synod_data::Result<Batch> {
    let (_folder, path) = write("t.csv", text.as_bytes());
    let mut reader = Csv::open(&path, options)?;
    let mut batch = Batch::new();
    reader.read(usize::MAX, &mut batch)?;
    Ok(batch)
}

fn named(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn idx_plain_or_packed_gives_images_and_labels() {
    let images = idx(0x08, &[3, 2, 2], &(0..12).collect::<Vec<u8>>());
    let labels = idx(0x08, &[3], &[7, 8, 9]);
    for pack in [false, true] {
        let packed = |bytes: &[u8]| {
            if pack {
                samples::gzip(bytes)
            } else {
                bytes.to_vec()
            }
        };
        let (_a, images) = write("images", &packed(&images));
        let (_b, labels) = write("labels", &packed(&labels));
        let mut reader = Idx::open(&images, &ReadOptions::default())
            .expect("open")
            .with_labels(&labels)
            .expect("labels");
        assert_eq!((reader.rows_left(), reader.names().len()), (3, 4));
        let mut batch = Batch::new();
        assert_eq!(reader.read(2, &mut batch).expect("rows"), 2);
        assert_eq!(batch.values, [0., 1., 2., 3., 4., 5., 6., 7.]);
        assert_eq!(batch.labels, [7., 8.]);
        assert_eq!(reader.read(2, &mut batch).expect("rows"), 1);
        assert_eq!(
            (batch.row(0), batch.labels[0]),
            (Some(&[8., 9., 10., 11.][..]), 9.)
        );
        assert_eq!(reader.read(2, &mut batch).expect("the end"), 0);
    }
}

#[test]
fn idx_that_is_cut_or_mismatched_says_so() {
    let mut bytes = idx(0x08, &[3, 2, 2], &[0; 12]);
    bytes.pop();
    let (_folder, path) = write("images", &bytes);
    let error = Idx::open(&path, &ReadOptions::default())
        .err()
        .expect("cut")
        .to_string();
    assert!(
        error.contains("images") && error.contains("3 rows of 4"),
        "{error}"
    );
    let (_folder, images) = write("images", &idx(0x08, &[2, 2], &[0; 4]));
    let (_folder, labels) = write("labels", &idx(0x08, &[3], &[0; 3]));
    let reader = Idx::open(&images, &ReadOptions::default()).expect("open");
    let error = reader.with_labels(&labels).err().expect("mismatch").to_string();
    assert!(error.contains("labels") && error.contains("3 rows"), "{error}");
    let (_folder, wide) = write("wide", &samples::gzip(&idx(0x08, &[1, u32::MAX, 16], &[])));
    assert!(Idx::open(&wide, &ReadOptions::default()).is_err());
}

#[test]
fn npy_types_orders_and_versions_are_understood() {
    let bytes = |values: &[i16]| values.iter().flat_map(|v| v.to_be_bytes()).collect::<Vec<u8>>();
    let (_folder, path) = write(
        "a.npy",
        &npy(1, ">i2", false, "(2, 3)", &bytes(&[1, -2, 3, 4, 5, -6])),
    );
    let batch = all(&mut Npy::open(&path, &ReadOptions::default()).expect("open"));
    assert_eq!(batch.values, [1., -2., 3., 4., 5., -6.]);
    assert_eq!(batch.column(1).collect::<Vec<_>>(), [-2., 5.]);
    for version in 1..=3 {
        let data: Vec<u8> = [0.5f64, f64::NAN].iter().flat_map(|v| v.to_le_bytes()).collect();
        let (_folder, path) = write("a.npy", &npy(version, "<f8", true, "(2,)", &data));
        let batch = all(&mut *readers::open(&path, &ReadOptions::default()).expect("open"));
        assert_eq!(
            (batch.rows(), batch.values[0], batch.values[1].is_nan()),
            (2, 0.5, true)
        );
    }
    let refused = [
        ("<f4", true, "(2, 2)", "Fortran"),
        ("<c8", false, "(2, 2)", "c8"),
        ("<f4", false, "(9, 9)", "9 rows"),
    ];
    for (descr, fortran, shape, says) in refused {
        let (_folder, path) = write("a.npy", &npy(1, descr, fortran, shape, &[0; 32]));
        let error = Npy::open(&path, &ReadOptions::default())
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains(says) && error.contains("a.npy"), "{error}");
    }
}

#[test]
fn csv_headers_quotes_missing_values_and_truth_values() {
    let text = "\u{feff}#Time, a ,\"b \"\"x\"\"\",name,c\r\n1,2,3,\"u, v\",true\r\n\r\n2,,NA,\"two\nlines\",FALSE\n3,1e3,-inf,w,nan";
    let (_folder, path) = write("t.csv", text.as_bytes());
    let mut reader = Csv::open(&path, &ReadOptions::default()).expect("open");
    assert_eq!(reader.names(), ["Time", "a", "b \"x\"", "c"]);
    assert_eq!(reader.skipped()[0].name, "name");
    let batch = all(&mut reader);
    assert_eq!(batch.rows(), 3);
    assert_eq!(batch.row(0), Some(&[1., 2., 3., 1.][..]));
    let second = batch.row(1).expect("a row");
    assert!(second[1].is_nan() && second[2].is_nan() && second[3] == 0.0);
    assert_eq!(&batch.row(2).expect("a row")[..3], [3., 1000., f32::NEG_INFINITY]);
}

#[test]
fn csv_time_is_exact_and_label_is_apart() {
    let options = ReadOptions {
        time: named("t"),
        label: named("y"),
        ..ReadOptions::default()
    };
    let batch = csv("t,x,y\n1662000000123456789,5,1\n-1,6,0\n", &options).expect("rows");
    assert_eq!(batch.times, [1_662_000_000_123_456_789, -1]);
    assert_eq!((batch.values, batch.labels), (vec![5., 6.], vec![1., 0.]));
    let options = ReadOptions {
        time: named("t"),
        time_scale: 1000.0,
        delimiter: b';',
        names: Some(vec!["t".to_owned(), "x".to_owned()]),
        ..ReadOptions::default()
    };
    let batch = csv("1.5;2\n2;3\n", &options).expect("rows");
    assert_eq!((batch.times, batch.values), (vec![1500, 2000], vec![2., 3.]));
}

#[test]
fn csv_errors_name_file_line_and_column() {
    let mut text = "a,b\n".to_owned();
    text.extend((0..200).map(|i| format!("{i},\"1\"\n")));
    let bad = text.clone() + "1,oops\n";
    let error = csv(&bad, &ReadOptions::default()).expect_err("text").to_string();
    assert!(
        error.contains("t.csv: line 202, column 2: \"oops\" is not a number"),
        "{error}"
    );
    let short = text.clone() + "1\n";
    let error = csv(&short, &ReadOptions::default())
        .expect_err("short")
        .to_string();
    assert!(
        error.contains("line 202") && error.contains("1 fields where the header has 2"),
        "{error}"
    );
    let open = text + "1,\"2\n3,4\n";
    let error = csv(&open, &ReadOptions::default())
        .expect_err("open quote")
        .to_string();
    assert!(
        error.contains("line 202") && error.contains("never closed"),
        "{error}"
    );
    assert!(csv("", &ReadOptions::default()).is_err());
}

#[test]
fn a_csv_file_whose_last_line_breaks_off_gives_the_lines_before() {
    for rows in [3, 200] {
        let mut text = "a,b\n".to_owned();
        text.extend((0..rows).map(|i| format!("{i},1\n")));
        let (_folder, path) = write("t.csv", (text.clone() + "9").as_bytes());
        let mut reader = Csv::open(&path, &ReadOptions::default()).expect("open");
        assert_eq!(all(&mut reader).rows(), rows);
        assert_eq!(reader.torn(), Some(rows as u64 + 2));
        let whole = csv(&(text.clone() + "9,8"), &ReadOptions::default()).expect("rows");
        assert_eq!(whole.rows(), rows + 1, "a last line needs no line break");
        assert!(
            csv(&(text + "9\n"), &ReadOptions::default()).is_err(),
            "a short line that is whole is wrong"
        );
    }
}

#[test]
fn parquet_types_nulls_and_row_groups_become_rows() {
    let (_folder, path) = write("t.parquet", &parquet_file());
    let options = ReadOptions {
        time: named("time"),
        label: named("flag"),
        ..ReadOptions::default()
    };
    let mut reader = Parquet::open(&path, &options).expect("open");
    assert_eq!(reader.names(), ["int", "real"]);
    assert_eq!(reader.skipped()[0].name, "text");
    assert_eq!(reader.rows(), 60);
    let batch = all(&mut reader);
    assert_eq!(batch.rows(), 60);
    for i in 0..60usize {
        let row = batch.row(i).expect("a row");
        assert_eq!(row[0], i as f32 - 5.0);
        assert!(if i % 3 == 0 {
            row[1].is_nan()
        } else {
            row[1] == i as f32 / 2.0
        });
        assert_eq!(batch.times[i], (1_662_000_000_000 + i as i64) * 1_000_000);
        assert_eq!(batch.labels[i], f32::from(u8::from(i % 2 == 0)));
    }
}

#[test]
fn parquet_selects_columns_and_prunes_row_groups_by_statistics() {
    let (_folder, path) = write("t.parquet", &parquet_file());
    let options = ReadOptions {
        columns: Some(vec!["real".to_owned(), "int".to_owned()]),
        ..ReadOptions::default()
    };
    let mut reader = Parquet::open(&path, &options)
        .expect("open")
        .prune("int", 17.0, 18.0)
        .expect("a column");
    let batch = all(&mut reader);
    assert_eq!((batch.rows(), reader.groups_skipped()), (20, 2));
    assert_eq!(batch.row(5), Some(&[12.5, 20.0][..]), "in the order asked for");
    assert_eq!(
        batch.column(1).collect::<Vec<_>>(),
        (15..35).map(|v| v as f32).collect::<Vec<_>>()
    );
}

#[test]
fn batches_of_any_size_give_the_same_rows() {
    let (_folder, path) = write("t.parquet", &parquet_file());
    let whole = batchwise(&path, usize::MAX).expect("rows");
    for limit in [1, 7, 20, 59] {
        let parts = batchwise(&path, limit).expect("rows");
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&parts), bits(&whole), "batches of {limit}");
    }
}

#[test]
fn import_fills_a_record_file() {
    let (folder, path) = write("t.parquet", &parquet_file());
    let options = ReadOptions {
        time: named("time"),
        label: named("flag"),
        ..ReadOptions::default()
    };
    let mut reader = readers::open(&path, &options).expect("open");
    let record = folder.path().join("rows.synod");
    let schema = Schema::new(reader.names()).labelled(LabelKind::Int);
    let mut writer = Writer::create(&record, &schema).expect("a writer");
    assert_eq!(readers::import(&mut *reader, &mut writer).expect("imported"), 60);
    writer.finish().expect("finished");
    let rows = Reader::open(&record).expect("open");
    assert_eq!((rows.rows(), rows.row(7).expect("a row")), (60, &[2.0, 3.5][..]));
    assert_eq!(rows.label(7).expect("a label"), Some(Label::Int(0)));
    assert_eq!(rows.time(7).expect("a time"), 1_662_000_000_007_000_000);
}

#[test]
fn missing_and_foreign_files_are_named() {
    let error = readers::open("/no/such/file", &ReadOptions::default())
        .err()
        .expect("none")
        .to_string();
    assert!(error.contains("/no/such/file"), "{error}");
    let (_folder, path) = write("blob", &[0, 1, 2, 3, 4, 5]);
    let error = readers::open(&path, &ReadOptions::default())
        .err()
        .expect("foreign")
        .to_string();
    assert!(
        error.contains("blob") && error.contains("neither Parquet"),
        "{error}"
    );
}
