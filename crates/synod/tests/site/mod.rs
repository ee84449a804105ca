//! A site whose nodes are made here, and the program as an operator runs it there.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

pub const STEP: i64 = 900;

/// Numbers between -0.5 and 0.5.
pub struct Noise(u64);

impl Noise {
    pub fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64 - 0.5
    }
}

/// A node whose temperature and fan follow its load, with a fan that stops in windows 700 to 740.
pub fn node(path: &Path, salt: u64, change: impl Fn(usize, &mut Vec<String>)) {
    let (mut noise, mut load) = (Noise(salt), 0.5);
    let mut text = "timestamp,load,power,temperature,fan,idle,state\n".to_owned();
    for t in 0..1000usize {
        load = (0.95 * load + 0.1 * noise.next() + 0.025f64).clamp(0.0, 1.0);
        let broken = (700..740).contains(&t);
        let power = 200.0 + 600.0 * load + 10.0 * noise.next();
        let temperature = 30.0 + 30.0 * load + noise.next() + if broken { 15.0 } else { 0.0 };
        let fan = if broken {
            0.0
        } else {
            4000.0 + 1500.0 * load + 50.0 * noise.next()
        };
        let label = u8::from((702..742).contains(&t));
        let mut fields = vec![
            (1_600_000_000 + STEP * t as i64).to_string(),
            format!("{load:.4}"),
            format!("{power:.2}"),
            format!("{temperature:.2}"),
            format!("{fan:.0}"),
            "7".to_owned(),
            label.to_string(),
        ];
        change(t, &mut fields);
        if !fields.is_empty() {
            text += &(fields.join(",") + "\n");
        }
    }
    fs::write(path, text).expect("written");
}

pub fn site(nodes: u64) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    (0..nodes).for_each(|n| node(&folder.path().join(format!("n{n}.csv")), 11 + n, |_, _| {}));
    config(folder.path(), "");
    folder
}

pub fn config(folder: &Path, more: &str) {
    let text = format!(
        "kind = \"watch\"\nname = \"site\"\nseed = 3\n[data]\nkind = \"csv\"\npath = \"n*.csv\"\nlabel = \"state\"\n{more}\n\
         [split]\nkind = \"chronological\"\ntrain = 0.6\n[detector]\nkind = \"default\"\n\
         [alarm]\nbudget = \"2 per node-month\"\n"
    );
    fs::write(folder.join("site.toml"), text).expect("written");
}

pub fn synod(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synod"))
        .current_dir(folder)
        .args(args)
        .output()
        .expect("runs")
}

pub fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("one document")
}
