//! Whatever a file holds, a reader gives rows or an error: no panic, no endless loop, no memory beyond the file's due.

mod samples;

use std::sync::LazyLock;

use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use proptest::prelude::*;
use samples::{batchwise, gzip, idx, npy, parquet_with, write};
use synod_data::readers::{self, Batch, ReadOptions};

/// Rows that any of the samples may come to, damaged or not; more would mean that a count was believed.
const PLAUSIBLE_VALUES: usize = 1 << 20;

static SAMPLES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let numbers: Vec<u8> = (0..240u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let images = idx(0x08, &[10, 4, 6], &numbers[..240]);
    let mut csv = "a,b,\"c\"\n".to_owned();
    csv.extend((0..90).map(|i| format!("{i},{}.5,\"x{i}\"\n", i * 2)));
    let gz = Compression::GZIP(GzipLevel::default());
    let zstd = Compression::ZSTD(ZstdLevel::default());
    vec![
        gzip(&images),
        images,
        npy(1, "<f4", false, "(24, 10)", &numbers),
        npy(2, "<u2", false, "(240, 2)", &numbers),
        gzip(csv.as_bytes()),
        csv.into_bytes(),
        parquet_with(Compression::UNCOMPRESSED),
        parquet_with(Compression::SNAPPY),
        parquet_with(Compression::LZ4_RAW),
        parquet_with(gz),
        parquet_with(zstd),
    ]
});

#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Set(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), 0u8..8).prop_map(|(i, bit)| Damage::Flip(i, bit)),
        4 => (at(), prop_oneof![Just(0xff), Just(0x7f), Just(0x80), Just(0), any::<u8>()]).prop_map(|(i, b)| Damage::Set(i, b)),
        1 => at().prop_map(Damage::Cut),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(i, b)| Damage::Insert(i, b)),
        1 => (at(), 1usize..40).prop_map(|(i, n)| Damage::Remove(i, n)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    match damage {
        Damage::Flip(i, bit) => bytes[i.index(len)] ^= 1 << bit,
        Damage::Set(i, byte) => bytes[i.index(len)] = *byte,
        Damage::Cut(i) => bytes.truncate(i.index(len)),
        Damage::Insert(i, more) => drop(bytes.splice(i.index(len)..i.index(len), more.iter().copied())),
        Damage::Remove(i, n) => drop(bytes.drain(i.index(len)..(i.index(len) + n).min(len))),
    }
}

#[test]
fn the_samples_themselves_are_sound() {
    for (i, sample) in SAMPLES.iter().enumerate() {
        let (_folder, path) = write("f", sample);
        let values = batchwise(&path, 7).unwrap_or_else(|e| panic!("sample {i}: {e}"));
        assert!(values.len() >= 180, "sample {i}: {} values", values.len());
    }
}

#[test]
fn every_cut_of_every_sample_gives_rows_or_an_error() {
    let (_folder, path) = write("f", &[]);
    for sample in SAMPLES.iter() {
        for cut in (0..sample.len()).step_by(7) {
            std::fs::write(&path, &sample[..cut]).expect("written");
            let _ = batchwise(&path, 16);
        }
    }
}

/// Sizes of 2^31 and beyond, where the formats keep their sizes.
#[test]
fn huge_declared_sizes_are_refused_without_taking_memory() {
    let huge = [
        idx(0x0e, &[u32::MAX, u32::MAX], &[0; 64]),
        idx(0x0e, &[u32::MAX, u32::MAX, u32::MAX, u32::MAX], &[0; 64]),
        gzip(&idx(0x08, &[1, 60_000, 60_000], &[0; 64])),
        npy(1, "<f8", false, "(18446744073709551615,)", &[0; 64]),
        npy(1, "<f8", false, "(4294967296, 4294967296)", &[0; 64]),
        npy(1, "<f8", false, "(0, 4294967296)", &[]),
        [
            &[0x93, b'N', b'U', b'M', b'P', b'Y', 2, 0, 255, 255, 255, 255][..],
            &[b' '; 64],
        ]
        .concat(),
    ];
    for bytes in huge {
        let (_folder, path) = write("f", &bytes);
        let error = batchwise(&path, usize::MAX).expect_err("refused").to_string();
        assert!(error.contains('f') && error.len() > 20, "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn damaged_files_give_rows_or_an_error(
        which in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..5),
        limit in prop_oneof![Just(1usize), Just(50), Just(1_000_000)],
    ) {
        let mut bytes = SAMPLES[which.index(SAMPLES.len())].clone();
        damages.iter().for_each(|d| apply(&mut bytes, d));
        let (_folder, path) = write("f", &bytes);
        let Ok(mut reader) = readers::open(&path, &ReadOptions::default()) else {
            return Ok(());
        };
        let (mut batch, mut values) = (Batch::new(), 0);
        while let Ok(rows @ 1..) = reader.read(limit, &mut batch) {
            prop_assert_eq!(batch.rows(), rows);
            prop_assert_eq!(batch.values.len(), rows * reader.names().len());
            values += batch.values.len();
            prop_assert!(values <= PLAUSIBLE_VALUES);
        }
    }
}
