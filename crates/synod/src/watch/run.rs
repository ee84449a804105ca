//! Fits, scores, judges, and writes what came of it.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use synod_detect::{AlarmBudget, AlarmPolicy, Backtest, Recipe};

use super::config::Config;
use super::table::{self, Arm};
use super::{history, page};
use crate::train::Misuse;

/// What is asked of a run.
pub(crate) struct Request<'a> {
    pub(crate) config: &'a Path,
    pub(crate) runs: &'a Path,
    pub(crate) compare: &'a [String],
    pub(crate) threads: Option<usize>,
    pub(crate) nodes: bool,
    pub(crate) json: bool,
    pub(crate) keep_models: bool,
}

/// The percentile at which detectors for comparison give alarms.
const COMPARED_AT: f64 = 98.0;

pub(crate) fn run(request: &Request<'_>) -> Result<()> {
    let (config, text) = Config::read(request.config)?;
    let name = config.run_name(request.config)?;
    let folder = request.runs.join(&name);
    let (nodes, split) = history::open(&config, request.config)?;
    let mut plans = vec![(
        "local".to_owned(),
        config.recipe().map_err(Misuse)?,
        config.alarm().map_err(|(_, e)| Misuse(e))?,
    )];
    for other in request.compare {
        let recipe = Recipe::named(other, config.seed).map_err(|e| Misuse(e.to_string()))?;
        let alarm = AlarmPolicy {
            budget: AlarmBudget::Percentile(COMPARED_AT),
            ..AlarmPolicy::default()
        };
        plans.push((other.clone(), recipe, alarm));
    }
    let mut arms = vec![];
    for (arm, recipe, alarm) in plans {
        let bar = bar(&arm, nodes.nodes());
        let backtest = Backtest {
            recipe,
            alarm,
            threads: threads(request.threads),
            evidence: arms.is_empty(),
        };
        let outcome = backtest.run(&*nodes, &|| bar.inc(1))?;
        bar.finish_and_clear();
        for (index, problem) in &outcome.failed {
            eprintln!("synod: {arm}: node {index} was left out: {problem}");
        }
        arms.push(Arm {
            name: arm,
            alarm: alarm.to_string(),
            outcome,
        });
    }
    let document = json!({
        "name": name,
        "seed": config.seed,
        "detector": config.detector(),
        "split": split,
        "label": label_rule(&config),
        "arms": table::json(&arms),
    });
    write_folder(&folder, &text, &document, &arms, request.keep_models)?;
    let context = page::Context {
        name: &name,
        config: &text,
        split: &split,
        label_rule: &label_rule(&config),
        seed: config.seed,
        budget: config.alarm().map_err(|(_, e)| Misuse(e))?.budget,
    };
    let report = page::report(&context, &arms, &*nodes)?;
    put(
        &folder.join("report.html"),
        synod_detect::report::page(&report).as_bytes(),
    )?;
    let mut out = std::io::stdout().lock();
    if request.json {
        return Ok(writeln!(out, "{document}")?);
    }
    writeln!(
        out,
        "{name}: split {}; label {}; seed {}\n",
        split,
        label_rule(&config),
        config.seed
    )?;
    table::print(&mut out, &arms, request.nodes)?;
    Ok(writeln!(out, "Report: {}", folder.join("report.html").display())?)
}

fn label_rule(config: &Config) -> String {
    match &config.data.get_ref().label {
        Some(label) => format!("{label} > 0"),
        None => "none".to_owned(),
    }
}

fn threads(asked: Option<usize>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(all)
}

fn bar(arm: &str, nodes: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:12} {bar:40} {pos}/{len} nodes  {eta}");
    let bar = ProgressBar::new(nodes as u64).with_message(arm.to_owned());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Writes the run directory; every file is whole or absent.
fn write_folder(
    folder: &Path,
    config: &str,
    document: &serde_json::Value,
    arms: &[Arm],
    keep_models: bool,
) -> Result<()> {
    let creating = || format!("cannot create the run directory {}", folder.display());
    fs::create_dir_all(folder).with_context(creating)?;
    put(&folder.join("config.toml"), config.as_bytes())?;
    put(
        &folder.join("results.json"),
        serde_json::to_string_pretty(document)?.as_bytes(),
    )?;
    let Some(local) = arms.first() else {
        return Ok(());
    };
    let mut alarms = String::new();
    for alarm in local.outcome.nodes.iter().flat_map(|n| &n.events) {
        alarms += &serde_json::to_string(alarm)?;
        alarms.push('\n');
    }
    put(&folder.join("alarms.jsonl"), alarms.as_bytes())?;
    if keep_models {
        let models = folder.join("models");
        fs::create_dir_all(&models).with_context(creating)?;
        for node in &local.outcome.nodes {
            node.model
                .save(models.join(format!("{}.safetensors", node.node)))?;
        }
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("partial");
    let writing = || format!("cannot write {}", path.display());
    let mut file = fs::File::create(&beside).with_context(writing)?;
    file.write_all(bytes).with_context(writing)?;
    file.sync_all().with_context(writing)?;
    fs::rename(&beside, path).with_context(writing)
}
