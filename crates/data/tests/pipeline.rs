//! The pipeline delivers every row once per epoch, in an order that only seed and epoch decide.

use std::sync::{Arc, Mutex};

use synod_data::{
    Error, Result,
    augment::{Augment, Series},
    pipeline::{Arrays, Batch, Dataset, Pipeline, PipelineBuilder, Position, TuningEvent, random},
    readers::{Csv, ReadOptions, RowReader},
    record::{Label, LabelKind, Reader, Schema, Writer},
};

const ROWS: usize = 103;

/// Row `i` is `[i, -i]` with label `i % 3`.
fn arrays() -> Arc<Arrays> {
    let values = (0..ROWS).flat_map(|i| [i as f32, -(i as f32)]).collect();
    let labels = (0..ROWS).map(|i| (i % 3) as f32).collect();
    let arrays = Arrays::new(values, 2).expect("rows");
    Arc::new(arrays.with_labels(labels).expect("labels"))
}

fn text() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.csv");
    let mut text = "a,b,y\n".to_owned();
    text.extend((0..ROWS).map(|i| format!("{i},-{i},{}\n", i % 3)));
    std::fs::write(&path, text).expect("written");
    (folder, path)
}

fn open(path: &std::path::Path) -> impl Fn() -> Result<Box<dyn RowReader>> + Send + Sync + 'static {
    let path = path.to_path_buf();
    move || {
        let options = ReadOptions {
            label: Some("y".to_owned()),
            ..ReadOptions::default()
        };
        Ok(Box::new(Csv::open(&path, &options)?))
    }
}

/// What a batch holds, as bits.
type Content = (u64, u64, Vec<u64>, Vec<u32>);

fn content(batch: &Batch) -> Content {
    let bits = batch.values().iter().chain(batch.labels()).map(|v| v.to_bits());
    (
        batch.epoch(),
        batch.index(),
        batch.rows().to_vec(),
        bits.collect(),
    )
}

fn drain(builder: PipelineBuilder, epochs: usize) -> Vec<Content> {
    let mut pipeline = builder.start().expect("started");
    let mut out = Vec::new();
    for _ in 0..epochs {
        while let Some(batch) = pipeline.next_batch().expect("a batch") {
            out.push(content(&batch));
        }
    }
    out
}

fn rows(batches: &[Content]) -> Vec<u64> {
    batches.iter().flat_map(|b| b.2.iter().copied()).collect()
}

#[test]
fn every_row_comes_once_per_epoch_with_its_own_values() {
    let batches = drain(Pipeline::over(arrays()).batch(10).seed(3), 2);
    assert_eq!(batches.len(), 22);
    let (first, second) = (rows(&batches[..11]), rows(&batches[11..]));
    assert_ne!(first, second, "epochs differ");
    for order in [first, second] {
        assert!(!order.is_sorted());
        let mut sorted = order;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..ROWS as u64));
    }
    for (_, _, rows, bits) in &batches {
        for (k, &row) in rows.iter().enumerate() {
            assert_eq!(f32::from_bits(bits[2 * k]), row as f32);
            assert_eq!(f32::from_bits(bits[2 * rows.len() + k]), (row % 3) as f32);
        }
    }
}

#[test]
fn the_output_is_the_same_for_any_number_of_workers_and_any_depth() {
    let (_folder, path) = text();
    let noise = Augment::series(1, 2)
        .with(0.7, Series::Jitter { sigma: 1.0 })
        .expect("an op");
    let build = |stream: bool, workers: usize, depth: usize| {
        let noise = noise.clone();
        let builder = if stream {
            Pipeline::stream(open(&path)).window(20)
        } else {
            Pipeline::over(arrays())
        };
        let builder = builder
            .batch(8)
            .seed(5)
            .workers(workers..=workers)
            .depth(depth..=depth);
        drain(builder.map(move |row| noise.apply_to(row)), 3)
    };
    for stream in [false, true] {
        let one = build(stream, 1, 1);
        assert_eq!(one.len(), 39);
        for (workers, depth) in [(1, 8), (2, 3), (4, 1), (7, 16)] {
            assert_eq!(
                build(stream, workers, depth),
                one,
                "{workers} workers, depth {depth}"
            );
        }
    }
}

#[test]
fn a_run_resumed_anywhere_delivers_the_identical_rest() {
    let (_folder, path) = text();
    for stream in [false, true] {
        let build = || {
            let builder = if stream {
                Pipeline::stream(open(&path)).window(30)
            } else {
                Pipeline::over(arrays())
            };
            builder.batch(16).seed(11).epochs(3)
        };
        let whole = drain(build(), 3);
        for stop in 0..whole.len() {
            let mut pipeline = build().start().expect("started");
            let mut delivered = 0;
            while delivered < stop {
                delivered += usize::from(pipeline.next_batch().expect("a batch").is_some());
            }
            let stored = serde_json::to_string(&pipeline.position()).expect("stored");
            drop(pipeline);
            let position: Position = serde_json::from_str(&stored).expect("loaded");
            let mut resumed = build().resume(position).expect("resumed");
            let (mut rest, mut ends) = (Vec::new(), 0);
            while ends < 4 {
                match resumed.next_batch().expect("a batch") {
                    Some(batch) => rest.push(content(&batch)),
                    None => ends += 1,
                }
            }
            assert_eq!(rest, whole[stop..], "stopped before batch {stop}");
        }
    }
}

#[test]
fn a_position_of_other_settings_is_refused() {
    let position = Pipeline::over(arrays())
        .seed(1)
        .start()
        .expect("started")
        .position();
    for other in [
        Pipeline::over(arrays()).seed(2),
        Pipeline::over(arrays()).seed(1).batch(9),
        Pipeline::over(arrays()).seed(1).shard(0, 2),
        Pipeline::over(arrays()).seed(1).sequential(),
    ] {
        let error = other.resume(position).err().expect("refused").to_string();
        assert!(error.contains("position"), "{error}");
    }
}

#[test]
fn shards_share_no_row_and_have_all() {
    let (_folder, path) = text();
    for stream in [false, true] {
        let mut all = Vec::new();
        for shard in 0..4 {
            let builder = if stream {
                Pipeline::stream(open(&path)).window(16)
            } else {
                Pipeline::over(arrays())
            };
            let mine = rows(&drain(builder.batch(7).seed(2).shard(shard, 4), 1));
            assert!((25..=26).contains(&mine.len()), "{}", mine.len());
            all.extend(mine);
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..ROWS as u64));
    }
}

#[test]
fn sequential_order_short_batches_and_the_end() {
    let (_folder, path) = text();
    for stream in [false, true] {
        let build = || {
            if stream {
                Pipeline::stream(open(&path))
            } else {
                Pipeline::over(arrays())
            }
        };
        let batches = drain(build().batch(10).sequential(), 1);
        assert!(rows(&batches).into_iter().eq(0..ROWS as u64));
        assert_eq!(batches[10].2.len(), 3);
        assert_eq!(drain(build().batch(10).drop_last(), 1).len(), 10);
        let mut pipeline = build().batch(200).epochs(1).start().expect("started");
        assert!(pipeline.next_batch().expect("the batch").is_some());
        for _ in 0..3 {
            assert!(pipeline.next_batch().expect("the end").is_none());
        }
    }
}

#[test]
fn a_window_shuffles_a_stream_within_its_reach() {
    let (_folder, path) = text();
    let order = rows(&drain(
        Pipeline::stream(open(&path)).window(10).batch(10).seed(4),
        1,
    ));
    assert!(!order.is_sorted());
    for (place, &row) in order.iter().enumerate() {
        assert!(
            row < place as u64 + 10,
            "row {row} at place {place} comes too early"
        );
    }
}

#[test]
fn errors_and_panics_of_a_mapping_arrive_in_place_of_their_batch() {
    let failing = |panics: bool| {
        Pipeline::over(arrays())
            .batch(10)
            .sequential()
            .workers(2..=2)
            .epochs(1)
            .map(move |row| match row.index {
                35 if panics => panic!("row {} is cursed", row.index),
                35 => Err("no good".to_owned()),
                _ => Ok(()),
            })
    };
    for panics in [false, true] {
        let mut pipeline = failing(panics).start().expect("started");
        let mut outcomes = Vec::new();
        for _ in 0..11 {
            outcomes.push(match pipeline.next_batch() {
                Ok(Some(batch)) => batch.index() as i64,
                Ok(None) => panic!("too early"),
                Err(Error::Map { row: 35, message }) if !panics => {
                    assert_eq!(message, "no good");
                    assert_eq!(pipeline.position().batch, 3);
                    -1
                }
                Err(Error::Panicked {
                    batch: 3, message, ..
                }) if panics => {
                    assert!(message.contains("row 35 is cursed"));
                    -1
                }
                Err(other) => panic!("{other}"),
            });
        }
        assert_eq!(outcomes, [0, 1, 2, -1, 4, 5, 6, 7, 8, 9, 10]);
    }
}

#[test]
fn a_broken_stream_gives_its_error_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.csv");
    let mut text = "a,b,y\n".to_owned();
    text.extend((0..500).map(|i| format!("{i},1,0\n")));
    std::fs::write(&path, text + "oops\n").expect("written");
    let mut pipeline = Pipeline::stream(open(&path))
        .sequential()
        .batch(50)
        .start()
        .expect("started");
    let error = loop {
        match pipeline.next_batch() {
            Ok(batch) => assert!(batch.is_some()),
            Err(e) => break e.to_string(),
        }
    };
    assert!(error.contains("rows.csv: line 502"), "{error}");
    assert!(pipeline.next_batch().expect("the end").is_none());
    let mut missing = Pipeline::stream(open(&folder.path().join("none")))
        .start()
        .expect("started");
    assert!(missing.next_batch().is_err());
}

#[test]
fn a_record_file_feeds_the_pipeline() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.synod");
    let schema = Schema {
        rows_per_page: 9,
        ..Schema::new(["a", "b"])
    };
    let mut writer = Writer::create(&path, &schema.labelled(LabelKind::Int)).expect("a writer");
    for i in 0..ROWS {
        let row = [i as f32, -(i as f32)];
        writer
            .push_labelled(i as i64, Label::Int((i % 3) as i32), &row)
            .expect("pushed");
    }
    writer.finish().expect("finished");
    let reader = Arc::new(Reader::open(&path).expect("open"));
    let from_file = drain(Pipeline::over(reader).batch(10).seed(3), 2);
    assert_eq!(from_file, drain(Pipeline::over(arrays()).batch(10).seed(3), 2));
}

#[test]
fn buffers_are_used_again() {
    let mut pipeline = Pipeline::over(arrays())
        .batch(5)
        .workers(2..=2)
        .depth(4..=4)
        .start()
        .expect("started");
    let mut batches = 0;
    while batches < 400 {
        batches += usize::from(pipeline.next_batch().expect("a batch").is_some());
    }
    // Four in the queue and one in the consumer's hands.
    assert!(pipeline.buffers_made() <= 5, "{}", pipeline.buffers_made());
}

/// A source that is far slower than a consumer that does nothing.
struct Slow;

impl Dataset for Slow {
    fn rows(&self) -> u64 {
        1000
    }

    fn columns(&self) -> usize {
        1
    }

    fn copy_row(&self, row: u64, to: &mut [f32]) -> Result<()> {
        let work = (0..20_000).fold(row, |sum, i| random(sum, i, 0, 0));
        to.fill(work as f32);
        Ok(())
    }

    fn label(&self, _: u64) -> Result<Option<f32>> {
        Ok(None)
    }
}

#[test]
fn a_consumer_that_waits_gets_more_workers_and_then_more_depth() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&events);
    let mut pipeline = Pipeline::over(Arc::new(Slow))
        .batch(1)
        .workers(1..=2)
        .depth(1..=4)
        .events(move |event| log.lock().expect("a lock").push(event.clone()))
        .start()
        .expect("started");
    let mut batches = 0;
    while pipeline.effort() != (2, 4) && batches < 5000 {
        batches += usize::from(pipeline.next_batch().expect("a batch").is_some());
    }
    let events = events.lock().expect("a lock");
    assert!(
        matches!(events[0], TuningEvent::Workers { from: 1, to: 2, .. }),
        "{events:?}"
    );
    let deeper = |event: &TuningEvent| matches!(event, TuningEvent::Depth { from: 2, to: 4, .. });
    assert!(events.iter().any(deeper), "{events:?}");
}

#[test]
fn settings_without_sense_are_refused() {
    let wrong = [
        Pipeline::over(arrays()).batch(0),
        Pipeline::over(arrays()).shard(3, 3),
        Pipeline::over(arrays()).workers(0..=2),
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        Pipeline::over(arrays()).depth(3..=2),
        Pipeline::over(Arc::new(Arrays::new(Vec::new(), 3).expect("no rows"))),
    ];
    for builder in wrong {
        assert!(matches!(builder.start(), Err(Error::Setting(_))));
    }
    assert!(Arrays::new(vec![0.0; 5], 2).is_err());
}
