//! What a node's agent carries stays light.

use std::process::Command;

#[test]
fn detect_stands_on_no_parquet_federation_evaluation_report_or_progress_bar() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "synod-detect",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let crates: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(
        crates.contains(&"synod-core") && crates.contains(&"synod-nn"),
        "{text}"
    );
    let heavy = [
        "parquet",
        "indicatif",
        "synod-data",
        "synod-telemetry",
        "synod-federate",
        "synod-fleet",
        "synod-evaluate",
        "synod-insight",
    ];
    let carried: Vec<&&str> = heavy.iter().filter(|name| crates.contains(name)).collect();
    assert!(carried.is_empty(), "{carried:?}");
}
