//! `synod train`, as a person runs it, on small problems that are made here.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parquet::data_type::{FloatType, Int32Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;
use tempfile::TempDir;

/// Three clouds in the plane that a small perceptron tells apart; every third row belongs to each.
fn clouds(rows: usize, salt: u64) -> Vec<([f32; 2], u8)> {
    let mut state = salt;
    let mut noise = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let centres = [[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]];
    let mut row = |i: usize| {
        let [x, y] = centres[i % 3];
        ([x + 1.6 * noise(), y + 1.6 * noise()], (i % 3) as u8)
    };
    (0..rows).map(&mut row).collect()
}

fn csv(path: &Path, rows: &[([f32; 2], u8)]) {
    let mut text = "class,x,y\n".to_owned();
    text.extend(rows.iter().map(|([x, y], class)| format!("{class},{x},{y}\n")));
    fs::write(path, text).expect("written");
}

/// The points as images of 1 x 2 bytes, and their classes.
fn idx(folder: &Path, name: &str, rows: &[([f32; 2], u8)]) {
    let count = (rows.len() as u32).to_be_bytes();
    let byte = |v: f32| ((v + 1.0) * 50.0) as u8;
    let header = [&[0, 0, 8, 3][..], &count, &[0, 0, 0, 1], &[0, 0, 0, 2]].concat();
    let pixels = rows.iter().flat_map(|(p, _)| p.map(byte));
    let images: Vec<u8> = header.into_iter().chain(pixels).collect();
    fs::write(folder.join(format!("{name}-images")), images).expect("written");
    let header = [&[0, 0, 8, 1][..], &count].concat();
    let labels: Vec<u8> = header.into_iter().chain(rows.iter().map(|(_, c)| *c)).collect();
    fs::write(folder.join(format!("{name}-labels")), labels).expect("written");
}

fn parquet(path: &Path, rows: &[([f32; 2], u8)]) {
    let schema = "message rows { required float x; required int32 class; required float y; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = fs::File::create(path).expect("a file");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let classes: Vec<i32> = rows.iter().map(|(_, c)| i32::from(*c)).collect();
    for number in 0..3 {
        let mut column = group.next_column().expect("a column").expect("one of three");
        let floats: Vec<f32> = rows.iter().map(|(p, _)| p[number / 2]).collect();
        let written = match number {
            1 => column.typed::<Int32Type>().write_batch(&classes, None, None),
            _ => column.typed::<FloatType>().write_batch(&floats, None, None),
        };
        written.expect("written");
        column.close().expect("closed");
    }
    group.close().expect("closed");
    writer.close().expect("closed");
}

const CSV: &str = r#"
kind = "csv"
train = "train.csv"
test = "test.csv"
label = "class"
validation = 0.2
standardise = "columns"
"#;

/// A folder with data in all formats and `experiment.toml` on top of them.
fn folder(data: &str, train: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let (train_rows, test_rows) = (clouds(600, 1), clouds(300, 2));
    for (name, rows) in [("train", &train_rows), ("test", &test_rows)] {
        csv(&folder.path().join(format!("{name}.csv")), rows);
        parquet(&folder.path().join(format!("{name}.parquet")), rows);
        idx(folder.path(), name, rows);
    }
    configure(folder.path(), data, train);
    folder
}

fn configure(folder: &Path, data: &str, train: &str) {
    let text = format!(
        "kind = \"train\"\n[data]\n{data}\n[model]\nhidden = [16]\n\n[train]\nbatch = 20\nrate = 1e-2\n{train}\n"
    );
    fs::write(folder.join("experiment.toml"), text).expect("written");
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_synod"));
    command
        .current_dir(folder)
        .args(["train", "experiment.toml"])
        .args(args);
    command
}

fn train(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().expect("synod runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn events(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("events.jsonl")).expect("a log");
    let parse = |line: &str| serde_json::from_str(line).expect("an event");
    text.lines().map(parse).collect()
}

#[test]
fn clouds_are_told_apart_whatever_format_they_come_in() {
    let table = |kind: &str| CSV.replace("csv", kind);
    let idx = r#"
kind = "idx"
train = "train-images"
train_labels = "train-labels"
test = "test-images"
test_labels = "test-labels"
divide_by = 100
"#;
    for data in [table("csv"), table("parquet"), idx.to_owned()] {
        let folder = folder(&data, "epochs = 8\nschedule = \"cosine\"");
        let summary = json(&train(folder.path(), &["--json"]));
        assert!(summary["accuracy"].as_f64() > Some(0.99), "{data}: {summary}");
        assert_eq!(summary["test"]["rows"], 300);
    }
}

#[test]
fn the_summary_and_the_log_tell_what_was_done() {
    let folder = folder(CSV, "epochs = 4");
    let output = train(folder.path(), &["--json"]);
    let summary = json(&output);
    let run = folder.path().join("runs/experiment");
    let stored: Value =
        serde_json::from_slice(&fs::read(run.join("summary.json")).expect("a summary")).expect("JSON");
    assert_eq!(summary, stored);
    assert_eq!(summary["parameters"], 2 * 16 + 16 + 16 * 3 + 3);
    assert_eq!((&summary["epochs"], &summary["classes"]), (&4.into(), &3.into()));
    assert_eq!(
        (&summary["rows"], &summary["validation"]["rows"]),
        (&480.into(), &120.into())
    );
    for key in ["accuracy", "loss", "seconds"] {
        assert!(
            summary[key].as_f64().is_some_and(|v| v >= 0.0),
            "{key}: {summary}"
        );
    }
    assert_eq!(summary["accuracy"], summary["test"]["accuracy"]);
    let events = events(&run);
    assert_eq!(
        (&events[0]["event"], &events[0]["rows"]),
        (&"start".into(), &480.into())
    );
    let epochs: Vec<&Value> = events.iter().filter(|e| e["event"] == "epoch").collect();
    assert_eq!(epochs.len(), 4);
    assert!(epochs[3]["loss"].as_f64() < epochs[0]["loss"].as_f64());
    assert_eq!(events.last().expect("an event")["event"], "end");
    assert_eq!(
        said(&output).lines().count(),
        4,
        "one plain line per epoch: {}",
        said(&output)
    );
    let model = fs::read(run.join("model.safetensors")).expect("a model");
    assert!(!model.is_empty());
}

#[test]
fn a_finished_run_is_not_overwritten_unless_told_and_resuming_it_shows_it() {
    let folder = folder(CSV, "epochs = 2");
    let first = json(&train(folder.path(), &["--json"]));
    let again = train(folder.path(), &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("finished run; --force"), "{}", said(&again));
    assert_eq!(json(&train(folder.path(), &["--json", "--resume"])), first);
    configure(folder.path(), CSV, "epochs = 3");
    let other = train(folder.path(), &["--resume"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(
        said(&other).contains("differs from the configuration"),
        "{}",
        said(&other)
    );
    assert_eq!(json(&train(folder.path(), &["--json", "--force"]))["epochs"], 3);
}

/// Kills a run once its first checkpoint is there, and goes on.
#[test]
fn a_killed_run_resumes_to_the_bits_of_one_that_was_not() {
    let schedule = "epochs = 200\nschedule = \"cosine\"\nearly_stopping = 150";
    let (killed, whole) = (folder(CSV, schedule), folder(CSV, schedule));
    let mut child = command(killed.path(), &[])
        .stderr(Stdio::null())
        .spawn()
        .expect("synod runs");
    let run = killed.path().join("runs/experiment");
    let (checkpoint, since) = (run.join("checkpoint.safetensors"), Instant::now());
    while !checkpoint.exists() && since.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(
        !run.join("summary.json").exists(),
        "the run was over before it could be killed"
    );
    // A crash may also tear the line that is being written.
    let log = run.join("events.jsonl");
    let torn = [&fs::read(&log).expect("a log")[..], b"{\"event\":\"epo"].concat();
    fs::write(&log, torn).expect("written");

    let refused = train(killed.path(), &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("--resume goes on"), "{}", said(&refused));
    let resumed = json(&train(killed.path(), &["--resume", "--json"]));
    let uninterrupted = json(&train(whole.path(), &["--json"]));
    for key in ["accuracy", "loss", "best_epoch", "epochs", "training_loss"] {
        assert_eq!(resumed[key], uninterrupted[key], "{key}");
    }
    for file in ["model.safetensors", "checkpoint.safetensors"] {
        let bytes =
            |folder: &TempDir| fs::read(folder.path().join("runs/experiment").join(file)).expect("a model");
        assert!(bytes(&killed) == bytes(&whole), "{file} differs");
    }
    let log = fs::read_to_string(log).expect("a log");
    assert!(log.contains(r#""event":"resume""#), "{log}");
}

#[test]
fn a_run_does_not_go_on_with_other_data() {
    let folder = folder(CSV, "epochs = 3");
    json(&train(folder.path(), &["--json"]));
    fs::remove_file(folder.path().join("runs/experiment/summary.json")).expect("removed");
    csv(&folder.path().join("train.csv"), &clouds(600, 3));
    let refused = train(folder.path(), &["--resume"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        said(&refused).contains("training data are not those"),
        "{}",
        said(&refused)
    );
}

#[test]
fn a_run_that_no_longer_gets_better_stops_early_and_keeps_its_best() {
    // At this rate the loss cannot settle.
    let folder = folder(CSV, "epochs = 200\nearly_stopping = 2");
    let path = folder.path().join("experiment.toml");
    let text = fs::read_to_string(&path).expect("a configuration");
    fs::write(&path, text.replace("rate = 1e-2", "rate = 0.3")).expect("written");
    let summary = json(&train(folder.path(), &["--json"]));
    let epochs = summary["epochs"].as_u64().expect("epochs");
    assert!(epochs < 200, "{summary}");
    assert_eq!(summary["stopped_early"], true);
    assert_eq!(summary["best_epoch"].as_u64(), Some(epochs - 2));
    let best = &events(&folder.path().join("runs/experiment"));
    let losses = best.iter().filter_map(|e| e["validation"].as_f64());
    let least = losses.fold(f64::INFINITY, f64::min);
    let stored = summary["validation"]["loss"].as_f64().expect("a loss");
    assert!((stored - least).abs() < 1e-6, "{stored} {least}");
}

#[test]
fn training_goes_on_from_a_stored_model_in_another_run() {
    let folder = folder(CSV, "epochs = 6");
    let first = json(&train(folder.path(), &["--json"]));
    let path = folder.path().join("experiment.toml");
    let text = fs::read_to_string(&path).expect("a configuration");
    let text = text.replace("hidden = [16]", "file = \"runs/experiment/model.safetensors\"");
    fs::write(&path, text.replacen("kind", "name = \"second\"\nkind", 1)).expect("written");
    json(&train(folder.path(), &["--json"]));
    let epochs = events(&folder.path().join("runs/second"));
    let loss = epochs.iter().find(|e| e["event"] == "epoch").expect("an epoch")["loss"].as_f64();
    let start = events(&folder.path().join("runs/experiment"));
    let from = start.iter().find(|e| e["event"] == "epoch").expect("an epoch")["loss"].as_f64();
    assert!(
        loss < from,
        "the second run begins where the first ended: {loss:?} {from:?}"
    );
    assert_eq!(first["parameters"], 99);
}

#[test]
fn mistakes_in_the_configuration_show_their_line_and_leave_nothing_behind() {
    let folder = folder(CSV, "epochs = 2\nlearning_rate = 3");
    let output = train(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = said(&output);
    assert!(
        said.contains("experiment.toml:18: unknown key `learning_rate`")
            && said.contains("  18 | learning_rate = 3"),
        "{said}"
    );
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn bad_data_are_named_with_file_and_place() {
    let idx = r#"
kind = "idx"
train = "train-images"
train_labels = "train-labels"
validation = 0.5
"#;
    type Spoil = fn(&Path);
    let cases: [(&str, Spoil, &[&str]); 6] = [
        (
            idx,
            |f| spoil(&f.join("train-images"), |b| b.truncate(500)),
            &["train-images", "byte"],
        ),
        (
            idx,
            |f| spoil(&f.join("train-images"), |b| b[2] = 0x55),
            &["train-images", "byte 0", "0x55"],
        ),
        (
            idx,
            |f| fs::remove_file(f.join("train-labels")).expect("removed"),
            &["train-labels", "cannot open"],
        ),
        (
            CSV,
            |f| fs::remove_file(f.join("test.csv")).expect("removed"),
            &["test data", "test.csv", "cannot open"],
        ),
        (
            CSV,
            |f| replace(&f.join("train.csv"), "\n1,", "\n1.5,"),
            &["train.csv: row 1 ", "label 1.5"],
        ),
        (
            CSV,
            |f| replace(&f.join("test.csv"), "\n2,", "\n7,"),
            &["test.csv: row 2 ", "label 7", "3 classes"],
        ),
    ];
    for (data, spoil, expected) in cases {
        let folder = folder(data, "epochs = 1");
        spoil(folder.path());
        let output = train(folder.path(), &[]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            expected.iter().all(|part| said.contains(part)),
            "{expected:?}: {said}"
        );
        assert!(!folder.path().join("runs").exists(), "nothing was begun: {said}");
    }
}

fn spoil(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a file");
    change(&mut bytes);
    fs::write(path, bytes).expect("written");
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).expect("a file");
    fs::write(path, text.replacen(from, to, 1)).expect("written");
}

#[test]
fn models_that_do_not_fit_the_rows_are_refused() {
    for (model, code, expected) in [
        ("mlp-2nn", 1, "rows of the data have 2 numbers"),
        ("char-lstm", 2, "one number per class"),
        ("autoencoder", 2, "no classifier"),
        ("cnn-minst", 2, "no model of the zoo is called `cnn-minst`"),
    ] {
        let folder = folder(CSV, "epochs = 1");
        replace(
            &folder.path().join("experiment.toml"),
            "hidden = [16]",
            &format!("zoo = \"{model}\""),
        );
        let output = train(folder.path(), &[]);
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    }
}

#[test]
fn help_shows_examples() {
    let output = Command::new(env!("CARGO_BIN_EXE_synod"))
        .args(["train", "--help"])
        .output()
        .expect("synod runs");
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(
        help.contains("synod train experiments/mnist-cnn.toml --resume"),
        "{help}"
    );
}
