//! `synod import`, and what comes after it, run as an operator runs them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use synod_telemetry::sources::records;
use synod_telemetry::{Frame, Truth};
use tempfile::TempDir;

fn synod(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synod"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = synod(folder, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("one document")
}

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

fn put(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(&path, text).expect("written");
    path
}

fn load(folder: &Path, name: &str) -> Frame {
    records::load(folder.join(name)).expect("a node's windows")
}

fn column<'a>(frame: &'a Frame, metric: &str) -> impl Iterator<Item = f32> + use<'a> {
    let place = frame
        .metrics()
        .iter()
        .position(|m| m == metric)
        .expect("the metric");
    frame.values().iter().skip(place).step_by(frame.width()).copied()
}

const SMALL: [&str; 8] = [
    "--nodes",
    "2",
    "--seed",
    "7",
    "--metrics",
    "few",
    "--anomalies",
    "0.1",
];

fn backtest(folder: &Path, name: &str, data: &str) -> Value {
    let config = format!(
        "kind = \"watch\"\nname = \"{name}\"\nseed = 3\n[data]\n{data}\n[split]\nkind = \"chronological\"\ntrain = 0.5\n\
         [detector]\nkind = \"pca\"\n"
    );
    put(folder, &format!("{name}.toml"), &config);
    json(folder, &["backtest", &format!("{name}.toml")])
}

#[test]
fn raw_metrics_become_the_windows_they_were_made_of_and_are_watched() {
    let site = folder();
    for format in ["raw", "record"] {
        let made = synod(
            site.path(),
            &[
                &["generate", format, "--days", "24", "--format", format],
                &SMALL[..],
            ]
            .concat(),
        );
        assert!(made.status.success(), "{}", said(&made));
    }
    let summary = json(site.path(), &["import", "m100-raw", "raw", "--out", "nodes"]);
    assert_eq!(summary["nodes"], 2);
    assert_eq!(summary["samples"]["late"], 0);
    assert_eq!(
        summary["dropped"][0]["metric"], "nagios.state",
        "what is not imported is listed"
    );
    for node in ["0.record", "1.record"] {
        let (got, want) = (
            load(&site.path().join("nodes"), node),
            load(&site.path().join("record"), node),
        );
        assert_eq!((got.node(), got.step()), (want.node(), want.step()));
        let labelled: Vec<(i64, Truth)> = truth(&want)
            .filter(|(time, _)| got.times().contains(time))
            .collect();
        assert_eq!(
            truth(&got).collect::<Vec<_>>(),
            labelled,
            "labels are Nagios' states"
        );
        assert!(got.rows() + 5 > want.rows());
        assert!(labelled.iter().any(|(_, truth)| *truth == Truth::Anomalous));
        let power = |frame: &Frame, metric| -> Vec<(i64, f32)> {
            let all = frame.times().iter().copied().zip(column(frame, metric));
            all.filter(|(_, value)| !value.is_nan()).collect()
        };
        let (got, want) = (
            power(&got, "ipmi.total_power_avg"),
            power(&want, "total_power_avg"),
        );
        assert_eq!(got.len(), want.len());
        for (a, b) in got.iter().zip(&want) {
            assert!(a.0 == b.0 && (a.1 - b.1).abs() < 0.01, "{a:?} {b:?}");
        }
    }
    let result = backtest(
        site.path(),
        "raw",
        "kind = \"record\"\npath = \"nodes/*.record\"\nexclude = [\"*_std\"]",
    );
    assert_eq!(result["label"], "label > 0");
    assert!(
        result["arms"][0]["nodes"]["1"]["auroc"].as_f64() > Some(0.5),
        "{result}"
    );
    let report = fs::read_to_string(site.path().join("runs/raw-backtest/report.html")).expect("a report");
    assert!(
        report.contains("ipmi.total_power_std"),
        "excluded metrics are listed"
    );
}

fn truth(frame: &Frame) -> impl Iterator<Item = (i64, Truth)> {
    frame.times().iter().copied().zip(frame.truth().iter().copied())
}

#[test]
fn windows_of_m100_are_watched_as_they_are_and_as_records_alike() {
    let site = folder();
    let made = synod(
        site.path(),
        &[&["generate", "m100", "--days", "20"], &SMALL[..]].concat(),
    );
    assert!(made.status.success(), "{}", said(&made));
    let summary = json(
        site.path(),
        &[
            "import",
            "m100",
            "m100/*.parquet",
            "--out",
            "nodes",
            "--exclude",
            "fan*",
        ],
    );
    let labels = &summary["labels"];
    let windows = summary["windows"].as_u64().expect("a number");
    let sum: u64 = ["healthy", "anomalous", "maintenance", "unknown"]
        .iter()
        .filter_map(|state| labels[*state].as_u64())
        .sum();
    assert_eq!(sum, windows);
    assert!(labels["decided_by"]["column value"].as_u64() > Some(windows / 2));
    let one = backtest(
        site.path(),
        "windows",
        "kind = \"m100\"\npath = \"m100/*.parquet\"\nexclude = [\"fan*\"]",
    );
    let other = backtest(
        site.path(),
        "records",
        "kind = \"record\"\npath = \"nodes/*.record\"",
    );
    assert_eq!(one["label"], "value > 0");
    assert_eq!(one["arms"][0]["nodes"], other["arms"][0]["nodes"]);
    assert!(one["arms"][0]["nodes"]["0"]["auroc"].is_f64(), "{one}");
    let wrong = synod(
        site.path(),
        &[
            "import",
            "table",
            "nodes/0.record",
            "m100/0.parquet",
            "--out",
            "twice",
        ],
    );
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        said(&wrong).contains("another file of node 0"),
        "{}",
        said(&wrong)
    );
}

#[test]
fn a_kind_that_does_not_fit_is_refused() {
    let site = folder();
    put(site.path(), "n1.csv", "timestamp,a\n0,1\n");
    for (data, says, code) in [
        ("kind = \"record\"\npath = \"n1.csv\"", "no record file", 1),
        (
            "kind = \"record\"\npath = \"n1.csv\"\nlabel = \"a\"",
            "c.toml:5: a record file",
            2,
        ),
        ("kind = \"m100\"\npath = \"n1.csv\"", "value", 1),
    ] {
        put(
            site.path(),
            "c.toml",
            &format!("kind = \"watch\"\n[data]\n{data}\n"),
        );
        let refused = synod(site.path(), &["backtest", "c.toml"]);
        assert_eq!(refused.status.code(), Some(code), "{}", said(&refused));
        assert!(said(&refused).contains(says), "{}", said(&refused));
    }
}

const MEMINFO: &str = "#Time,Time_usec,ProducerName,component_id,job_id,MemFree,comm
600.0,0,n1,1,0,10,bash
900.0,0,n1,1,0,20,bash
900.0,0,n1,1,0,99,bash
1000.0,0,n1,1,0,40,bash
1000.0,0,n2,1,0,7,bash
4000.0,0,n1,1,0,50,bash
4000.0,0,n2,1,0,,bash
1100.0,0,n1,1,0,60,bash
";
const NAGIOS: &str = "[0] Nagios 4.4.6 starting...
[500] INITIAL HOST STATE: n1;UP;HARD;1;fine
[500] INITIAL HOST STATE: n9;UP;HARD;1;fine
[950] HOST ALERT: n1;DOWN;HARD;3;no answer
[1900] HOST ALERT: n1;UP;HARD;1;fine
[5000] LOG ROTATION: DAILY
";

#[test]
fn ldms_samples_become_windows_with_labels_and_a_list_of_what_was_dropped() {
    let site = folder();
    put(site.path(), "meminfo", MEMINFO);
    put(site.path(), "nagios.log", NAGIOS);
    put(
        site.path(),
        "work.txt",
        "n2, 1970-01-01T00:10Z, 1970-01-01T00:20Z, new fans\n",
    );
    let common = [
        "import", "ldms", "meminfo", "--out", "nodes", "--window", "5m", "--keep", "mean",
    ];
    let labels = ["--nagios-log", "nagios.log", "--maintenance", "work.txt"];
    let summary = json(site.path(), &[&common[..], &labels].concat());
    assert_eq!(
        summary["samples"],
        serde_json::json!({"taken": 5, "late": 1, "duplicate": 1, "missing": 1})
    );
    assert_eq!(summary["dropped"][0]["metric"], "meminfo.comm");
    assert!(
        summary["notes"][0].as_str().expect("a note").contains("n9"),
        "{summary}"
    );
    let n1 = load(&site.path().join("nodes"), "n1.record");
    assert_eq!(n1.times(), [600, 900, 3900]);
    assert_eq!(n1.values(), [10.0, 30.0, 50.0]);
    assert_eq!(n1.truth(), [Truth::Healthy, Truth::Anomalous, Truth::Healthy]);
    let n2 = load(&site.path().join("nodes"), "n2.record");
    assert_eq!(
        (n2.times(), n2.truth()),
        ([900].as_slice(), [Truth::Unknown].as_slice())
    );
    assert_eq!(summary["labels"]["maintenance"], 1);
    assert_eq!(summary["labels"]["decided_by"]["nagios host"], 3);
    let names: Vec<_> = fs::read_dir(site.path().join("nodes"))
        .expect("a folder")
        .collect();
    assert_eq!(names.len(), 2, "no scratch is left: {names:?}");
}

#[test]
fn scrapes_are_of_the_time_their_files_were_written() {
    let site = folder();
    for (i, (time, requests)) in [(1200u64, 100), (1260, 160), (1320, 400)].into_iter().enumerate() {
        let text = format!("# TYPE r counter\nr{{code=\"200\"}} {requests}\nup 1\n");
        let path = put(site.path(), &format!("n1/{i}.prom"), &text);
        let file = File::options().write(true).open(path).expect("a file");
        let when = UNIX_EPOCH + Duration::from_secs(time);
        file.set_modified(when).expect("set");
    }
    put(site.path(), "n1/3.prom", "up 1\nthis is { broken\n");
    let summary = json(
        site.path(),
        &[
            "import",
            "exposition",
            "n1/*.prom",
            "--node-from",
            "folder",
            "--out",
            "nodes",
            "--window",
            "1m",
        ],
    );
    let n1 = load(&site.path().join("nodes"), "n1.record");
    assert_eq!(n1.times()[..3], [1200, 1260, 1320]);
    let rates: Vec<f32> = column(&n1, "r{code=\"200\"}_avg").collect();
    assert!(rates[0].is_nan());
    assert_eq!(rates[1..3], [1.0, 4.0], "a counter is a rate per second");
    let note = summary["notes"][0].as_str().expect("a note");
    assert!(
        note.contains("3.prom: line 2") && note.contains("before was taken"),
        "{note}"
    );
}

#[test]
fn sensor_readings_are_imported_and_bits_are_listed() {
    let site = folder();
    let text = "Timestamp: 1970-01-01 00:00:10 UTC\nFan1 | 3000 RPM | ok\nHost Power | 0x00 | ok\n\
                Timestamp: 1970-01-01 00:01:10 UTC\nFan1 | 5000 RPM | ok\n";
    put(site.path(), "n7.txt", text);
    let summary = json(
        site.path(),
        &["import", "ipmitool", "n7.txt", "--out", "nodes", "--window", "2m"],
    );
    assert_eq!(summary["dropped"][0]["metric"], "Host_Power");
    let n7 = load(&site.path().join("nodes"), "n7.record");
    assert_eq!(n7.metrics(), ["Fan1_avg", "Fan1_std", "Fan1_min", "Fan1_max"]);
    assert_eq!(n7.row(0), [4000.0, 1000.0, 3000.0, 5000.0]);
}

/// Answers every request with a counter of node n1 that grows by 2 per second, or with metadata.
fn prometheus() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
            let request = lines.next().expect("a line").expect("text");
            lines
                .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                .for_each(drop);
            let body = answer(&request);
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all((head + &body).as_bytes()).expect("sent");
        }
    });
    url
}

fn answer(request: &str) -> String {
    if request.contains("/metadata") {
        return r#"{"status":"success","data":{"odd":[{"type":"counter","help":"","unit":""}]}}"#.to_owned();
    }
    let number = |key: &str| -> i64 {
        let rest = request.split(&format!("{key}=")).nth(1).expect("the parameter");
        let end = rest.find(['&', ' ']).expect("an end");
        rest[..end].parse().expect("a number")
    };
    let (from, to, step) = (number("start"), number("end"), number("step"));
    let points: Vec<String> = (from..=to)
        .step_by(step as usize)
        .map(|t| format!("[{t},\"{}\"]", 2 * t))
        .collect();
    format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[
           {{"metric":{{"__name__":"odd","instance":"n1:9100"}},"values":[{0}]}},
           {{"metric":{{"__name__":"nobodys"}},"values":[{0}]}}]}}}}"#,
        points.join(",")
    )
}

#[test]
fn a_server_is_asked_span_after_span() {
    let site = folder();
    let url = prometheus();
    let summary = json(
        site.path(),
        &[
            "import",
            "prometheus",
            &url,
            "--match",
            "{job=\"node\"}",
            "--from",
            "3600",
            "--to",
            "18000",
            "--step",
            "60s",
            "--out",
            "nodes",
            "--keep",
            "mean",
        ],
    );
    let n1 = load(&site.path().join("nodes"), "n1.record");
    assert_eq!(summary["samples"]["taken"], (18000 - 3600) / 60 + 1);
    assert_eq!(n1.times()[..2], [3600, 4500]);
    assert_eq!(n1.rows(), 17);
    assert!(n1.values().iter().all(|rate| *rate == 2.0), "{:?}", n1.values());
    assert!(
        said_of(&summary).contains("1 series lack the label instance"),
        "{summary}"
    );
}

fn said_of(summary: &Value) -> String {
    summary["notes"].to_string()
}

#[test]
fn mistakes_are_named_and_nothing_is_overwritten() {
    let site = folder();
    put(site.path(), "meminfo", MEMINFO);
    put(site.path(), "full/thesis.txt", "years");
    put(site.path(), "evil", "#Time,ProducerName,x\n0,../../n1,5\n");
    put(site.path(), "empty.log", "nothing of use\n");
    for (arguments, code, says) in [
        (&["ldms", "meminfo", "--out", "full"][..], 2, "--force"),
        (&["ldms", "absent*", "--out", "o1"], 2, "no file matches"),
        (&["ldms", "meminfo", "--out", "o2", "--window", "soon"], 2, "15m"),
        (&["m100-raw", "meminfo", "--out", "o3"], 2, "year_month="),
        (&["m100-raw", ".", "--out", "o4"], 1, "no raw metrics"),
        (
            &["ldms", "evil", "--out", "o5"],
            1,
            "cannot be the name of a node",
        ),
        (
            &["ldms", "meminfo", "--out", "o6", "--nagios-log", "empty.log"],
            1,
            "is it a log of Nagios",
        ),
        (&["ldms", "empty.log", "--out", "o7"], 1, "nothing to import"),
        (
            &[
                "prometheus",
                "ftp://x",
                "--query",
                "up",
                "--from",
                "0",
                "--to",
                "9",
                "--out",
                "o8",
            ],
            2,
            "http://",
        ),
        (
            &[
                "prometheus",
                "http://x",
                "--query",
                "up",
                "--from",
                "9",
                "--to",
                "0",
                "--out",
                "o9",
            ],
            2,
            "--from",
        ),
    ] {
        let refused = synod(site.path(), &[&["import"], arguments].concat());
        assert_eq!(
            refused.status.code(),
            Some(code),
            "{arguments:?}: {}",
            said(&refused)
        );
        assert!(said(&refused).contains(says), "{arguments:?}: {}", said(&refused));
    }
    assert_eq!(
        fs::read_dir(site.path().join("full")).expect("a folder").count(),
        1
    );
    assert!(!site.path().join("o1").exists());
    let forced = synod(
        site.path(),
        &["import", "ldms", "meminfo", "--out", "full", "--force"],
    );
    assert!(forced.status.success(), "{}", said(&forced));
    assert!(said(&forced).contains("1 late, 1 duplicate"), "{}", said(&forced));
    assert!(site.path().join("full/n1.record").is_file());
}
