//! A record file that was cut or damaged opens with what is whole, and says what is not. Nothing panics.

use std::{fs, path::Path, sync::LazyLock};

use proptest::prelude::*;
use synod_data::record::{Filter, Label, LabelKind, Reader, Reason, Schema, Writer};

const ROWS: usize = 11;

/// Three full pages of three rows and a short one, with labels.
fn stored(path: &Path) -> Vec<u8> {
    let schema = Schema {
        rows_per_page: 3,
        ..Schema::new(["a", "b"])
    };
    let mut writer = Writer::create(path, &schema.labelled(LabelKind::Int)).expect("a writer");
    for i in 0..ROWS {
        push(&mut writer, i);
    }
    writer.finish().expect("finished");
    fs::read(path).expect("bytes")
}

/// The same bytes for every case of a property: writing syncs to disk, which is slow.
static STORED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    stored(&folder.path().join("rows"))
});

fn push(writer: &mut Writer, i: usize) {
    writer
        .push_labelled(i as i64, Label::Int(i as i32), &[i as f32, 0.5])
        .expect("pushed");
}

/// Where the header ends, and where each page ends.
fn boundaries(path: &Path, bytes: &[u8]) -> Vec<usize> {
    let header = u32::from_le_bytes(bytes[12..16].try_into().expect("4 bytes")) as usize;
    let reader = Reader::open(path).expect("open");
    let page = |rows: usize| 128 + (rows * 8).next_multiple_of(64) + 64 + (rows * 8).next_multiple_of(64);
    let mut ends = vec![header];
    for number in 0..reader.pages() {
        ends.push(ends[number] + page(reader.page(number).expect("a page").rows()));
    }
    ends
}

fn assert_rows(reader: &Reader, rows: usize) {
    assert_eq!(reader.rows(), rows);
    for i in 0..rows {
        assert_eq!(reader.row(i).expect("a row"), [i as f32, 0.5]);
    }
}

#[test]
fn a_file_cut_at_any_byte_keeps_the_whole_pages_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, cut_path) = (folder.path().join("whole"), folder.path().join("cut"));
    let bytes = stored(&whole);
    let ends = boundaries(&whole, &bytes);
    for cut in 0..bytes.len() {
        fs::write(&cut_path, &bytes[..cut]).expect("written");
        if cut < ends[0] {
            let error = Reader::open(&cut_path).err().expect("no header").to_string();
            assert!(
                error.contains("header") || error.contains("cut"),
                "{cut}: {error}"
            );
            continue;
        }
        let pages = ends.iter().filter(|&&end| end <= cut).count() - 1;
        let rows = (pages * 3).min(ROWS);
        let reader = Reader::open(&cut_path).expect("open");
        assert_rows(&reader, rows);
        let recovered = reader.recovered().expect("something is missing").clone();
        assert_eq!(recovered.rows_kept, rows);
        let rest = (cut - ends[pages]) as u64;
        match recovered.reason {
            Reason::Index => assert!(pages == 4, "{cut}: {recovered}"),
            Reason::NotFinished => {
                assert!(rest <= 5 && recovered.bytes_dropped == rest, "{cut}: {recovered}")
            }
            Reason::TornPage { page, offset } => {
                assert_eq!((page, offset as usize), (pages, ends[pages]));
                assert_eq!(recovered.bytes_dropped, rest);
            }
            Reason::Damaged { .. } => panic!("{cut}: {recovered}"),
        }
        drop(reader);
        // Appending syncs to disk, which is slow, so it is tried around every boundary and at some places between.
        let near = |end: &usize| cut.abs_diff(*end) <= 9;
        if cut % 16 != 0 && !ends.iter().any(near) {
            continue;
        }
        let mut writer = Writer::append(&cut_path).expect("a writer");
        assert_eq!(writer.recovered(), Some(&recovered));
        for i in rows..rows + 7 {
            push(&mut writer, i);
        }
        writer.finish().expect("finished");
        let reader = Reader::open(&cut_path).expect("open");
        assert_eq!(reader.recovered(), None);
        assert_rows(&reader, rows + 7);
    }
}

#[test]
fn a_last_page_whose_contents_never_reached_the_disk_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows");
    let bytes = stored(&path);
    let ends = boundaries(&path, &bytes);
    let mut torn = bytes[..ends[4]].to_vec();
    torn[ends[3] + 128..].fill(0);
    fs::write(&path, &torn).expect("written");
    let reader = Reader::open(&path).expect("open");
    assert_rows(&reader, 9);
    let recovered = reader.recovered().expect("a loss");
    assert_eq!(recovered.bytes_dropped as usize, ends[4] - ends[3]);
}

#[test]
fn a_damaged_page_is_named_and_the_others_stay_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows");
    let mut bytes = stored(&path);
    let ends = boundaries(&path, &bytes);
    let inside = ends[2] - 60;
    bytes[inside] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let reader = Reader::open(&path).expect("open");
    assert_eq!(reader.row(0).expect("page 0"), [0.0, 0.5]);
    assert_eq!(reader.row(6).expect("page 2"), [6.0, 0.5]);
    for _ in 0..2 {
        let error = reader.row(3).expect_err("page 1").to_string();
        let place = format!("page 1 at byte {}", ends[1]);
        assert!(error.contains(&place) && error.contains("rows"), "{error}");
    }
    let scan = reader.scan(&Filter::all()).expect("a scan");
    let (found, errors): (Vec<_>, Vec<_>) = scan.partition(|m| m.is_ok());
    assert_eq!((found.len(), errors.len()), (8, 1));
}

#[test]
fn appending_refuses_to_cut_whole_pages_behind_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows");
    let bytes = stored(&path);
    let ends = boundaries(&path, &bytes);
    let mut damaged = bytes[..ends[4]].to_vec();
    damaged[ends[1] + 13] ^= 1;
    fs::write(&path, &damaged).expect("written");
    let error = Writer::append(&path).err().expect("refused").to_string();
    assert!(error.contains("append_dropping_damage"), "{error}");
    assert_eq!(fs::read(&path).expect("bytes"), damaged, "nothing was touched");
    drop(Writer::append_dropping_damage(&path).expect("a writer"));
    assert_rows(&Reader::open(&path).expect("open"), 3);
}

/// Reads everything there is; what is read without an error must be what was written.
fn read_all(path: &Path) -> Result<(), TestCaseError> {
    let Ok(reader) = Reader::open(path) else {
        return Ok(());
    };
    prop_assert!(reader.rows() <= ROWS);
    for i in 0..reader.rows() {
        if let Ok(row) = reader.row(i) {
            prop_assert_eq!(row, [i as f32, 0.5]);
            prop_assert_eq!(reader.time(i).expect("verified"), i as i64);
            prop_assert_eq!(reader.label(i).expect("verified"), Some(Label::Int(i as i32)));
        }
    }
    for filter in [
        Filter::all(),
        Filter::all().time(3..7).label(2.0..).column("a", 4.0..),
    ] {
        if let Ok(scan) = reader.scan(&filter) {
            for found in scan.flatten() {
                prop_assert_eq!(found.values[0], found.row as f32);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn flipped_bits_are_detected_or_harmless(flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..6)) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows");
        let mut bytes = STORED.clone();
        for (at, bit) in flips {
            let i = at.index(bytes.len());
            bytes[i] ^= 1 << bit;
        }
        fs::write(&path, &bytes).expect("written");
        read_all(&path)?;
        let appended = Writer::append(&path).map(drop);
        if appended.is_ok() {
            read_all(&path)?;
        }
    }

    #[test]
    fn inserted_removed_and_repeated_bytes_are_detected_or_harmless(
        at in any::<prop::sample::Index>(),
        len in 1usize..400,
        insert in any::<bool>(),
        byte in any::<u8>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows");
        let mut bytes = STORED.clone();
        let i = at.index(bytes.len());
        if insert {
            bytes.splice(i..i, std::iter::repeat_n(byte, len));
        } else {
            bytes.drain(i..(i + len).min(bytes.len()));
        }
        fs::write(&path, &bytes).expect("written");
        read_all(&path)?;
    }
}
