//! Fits, scores, judges, and writes what came of it.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use synod_detect::{AlarmBudget, Alone, History, Recipe};
use synod_evaluate::{Backtest, SplitKind};

use super::config::{Config, Judged, Kind};
use super::progress::Progress;
use super::table::{self, Arm};
use super::{federation, history, page};
use crate::train::Misuse;

/// What is asked of a run.
pub(crate) struct Request<'a> {
    pub(crate) config: &'a Path,
    pub(crate) runs: &'a Path,
    pub(crate) compare: &'a [String],
    pub(crate) ablation: bool,
    pub(crate) both_splits: bool,
    pub(crate) threads: Option<usize>,
    pub(crate) nodes: bool,
    pub(crate) json: bool,
    pub(crate) keep_models: bool,
}

/// The percentile at which detectors for comparison give alarms.
const COMPARED_AT: f64 = 98.0;

/// One arm to be run.
struct Plan {
    name: String,
    recipe: Recipe,
    alarm: AlarmBudget,
    split: Option<SplitKind>,
    /// Whether nodes also learn together, if the configuration has it so.
    federated: bool,
}

pub(crate) fn run(request: &Request<'_>) -> Result<()> {
    let (config, text) = Config::read(request.config)?;
    let name = config.run_name(request.config)?;
    let folder = request.runs.join(&name);
    let (nodes, split) = history::open(&config, request.config, None)?;
    let alarm = config.alarm().map_err(|(_, e)| Misuse(e))?;
    let mut arms: Vec<Arm> = vec![];
    for plan in plans(request, &config, alarm)? {
        let other = match plan.split {
            None => None,
            Some(_) => Some(history::open(&config, request.config, plan.split)?.0),
        };
        let evidence = arms.is_empty() && other.is_none();
        let nodes = other.as_deref().unwrap_or(&*nodes);
        let shift = arms.len();
        match (&config.federation, plan.federated) {
            (Some(federation), true) => {
                let prefix = if plan.split.is_some() {
                    format!("{} ", plan.name)
                } else {
                    String::new()
                };
                let backtest = backtest(&plan, request.threads, evidence);
                let found = federation::arms(federation.get_ref(), &plan.recipe, &backtest, nodes, &prefix)?;
                arms.extend(found.into_iter().map(|arm| Arm {
                    against: arm.against.map(|i| i + shift),
                    ..arm
                }));
            }
            _ => arms.push(one(&plan, nodes, request.threads, evidence)?),
        }
    }
    let comparisons = table::comparisons(&arms);
    let label = label_rule(&config);
    let document = json!({
        "name": name,
        "seed": config.seed,
        "detector": config.detector(),
        "split": if request.both_splits { "both, one arm each" } else { &split },
        "label": label,
        "arms": table::json(&arms, &comparisons),
    });
    write_folder(&folder, &text, &document, &arms, request.keep_models)?;
    let context = page::Context {
        name: &name,
        config: &text,
        split: &split,
        label_rule: &label,
        seed: config.seed,
        budget: alarm,
    };
    let report = page::report(&context, &arms, &comparisons, &*nodes)?;
    let page = synod_insight::report::page(&report);
    put(&folder.join("report.html"), page.as_bytes())?;
    let mut out = std::io::stdout().lock();
    if request.json {
        return Ok(writeln!(out, "{document}")?);
    }
    let seed = config.seed;
    match request.both_splits {
        true => writeln!(out, "{name}: label {label}; seed {seed}; alarm {alarm}\n")?,
        false => writeln!(
            out,
            "{name}: split {split}; label {label}; seed {seed}; alarm {alarm}\n"
        )?,
    }
    table::print(&mut out, &arms, request.nodes)?;
    if let Some(above) = arms.first().and_then(|arm| table::above_budget(arm, alarm)) {
        writeln!(out, "{above}")?;
    }
    table::differences(&mut out, &comparisons)?;
    if request.both_splits && config.federation.is_none() {
        writeln!(out, "{}", splits(&arms))?;
    }
    Ok(writeln!(out, "Report: {}", folder.join("report.html").display())?)
}

/// Why the two splits differ, with what they gave.
fn splits(arms: &[Arm]) -> String {
    let rate = |i: usize| {
        arms.get(i)
            .and_then(|a| a.outcome.mean.metrics.fpr)
            .unwrap_or(f64::NAN)
            * 100.0
    };
    format!(
        "\nWith a random split nearly every test window has a neighbour in training one window away: training and test errors\n\
         have one distribution, and a percentile of the one gives its share of false alarms in the other, whatever the model\n\
         ({:.1} % of healthy windows here). Split in time the rate is what drift makes of it ({:.1} % here). Only that is\n\
         what an operator will see.",
        rate(0),
        rate(1)
    )
}

fn plans(request: &Request<'_>, config: &Config, alarm: AlarmBudget) -> Result<Vec<Plan>> {
    let recipe = config.recipe().map_err(Misuse)?;
    let plan = |name: &str, recipe: Recipe, alarm: AlarmBudget| Plan {
        name: name.to_owned(),
        recipe,
        alarm,
        split: None,
        federated: false,
    };
    let compared = AlarmBudget::Percentile(COMPARED_AT);
    if request.both_splits {
        let kinds = [
            ("random", SplitKind::Random),
            ("chronological", SplitKind::Chronological),
        ];
        let with = |(name, kind): (&str, SplitKind)| Plan {
            split: Some(kind),
            federated: true,
            ..plan(name, recipe.clone(), alarm)
        };
        return Ok(kinds.into_iter().map(with).collect());
    }
    let mut plans = vec![Plan {
        federated: !request.ablation,
        ..plan("local", recipe.clone(), alarm)
    }];
    for other in request.compare {
        let recipe = Recipe::named(other, config.seed).map_err(|e| Misuse(e.to_string()))?;
        plans.push(plan(other, recipe, compared));
    }
    if request.ablation {
        plans.extend(
            recipe
                .ablations()
                .into_iter()
                .map(|(name, recipe)| plan(name, recipe, alarm)),
        );
        plans.push(plan("threshold at the 98th percentile", recipe, compared));
        for baseline in ["pca", "paper"] {
            let recipe = Recipe::named(baseline, config.seed).map_err(|e| Misuse(e.to_string()))?;
            plans.push(plan(baseline, recipe, compared));
        }
    }
    Ok(plans)
}

fn backtest(plan: &Plan, asked: Option<usize>, evidence: bool) -> Backtest {
    Backtest {
        alarm: plan.alarm,
        threads: threads(asked),
        evidence,
    }
}

fn one(plan: &Plan, nodes: &dyn History, asked: Option<usize>, evidence: bool) -> Result<Arm> {
    let progress = Progress::new(&plan.name, nodes.nodes());
    let backtest = backtest(plan, asked, evidence);
    let mut outcomes = backtest.run(nodes, &Alone(plan.recipe.clone()), &|| progress.step())?;
    progress.finish();
    let outcome = outcomes.remove(0);
    for (index, problem) in &outcome.failed {
        eprintln!("synod: {}: node {index} was left out: {problem}", plan.name);
    }
    Ok(Arm {
        name: plan.name.clone(),
        alarm: plan.alarm.to_string(),
        outcome,
        against: None,
        choices: vec![],
    })
}

fn label_rule(config: &Config) -> String {
    let data = config.data.get_ref();
    match &data.label {
        None if data.kind == Kind::Synthetic && data.truth == Judged::Exact => {
            "the injected faults themselves".to_owned()
        }
        None if data.kind == Kind::Synthetic => "what operators noted: late, sometimes false".to_owned(),
        Some(label) => format!("{label} > 0"),
        None => "none".to_owned(),
    }
}

fn threads(asked: Option<usize>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(all)
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
    synod_core::files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
