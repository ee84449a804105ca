//! Fits, scores, judges, and writes what came of it.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use synod_core::config::Mistake;
use synod_detect::History;
use synod_runs::{Document, Folder, Grid, NodeModels, RunStanding, StartMode};

use super::config::Config;
use super::events::{End, Resume, Start};
use super::plan::{Plan, plans};
use super::results::{ArmResults, Results};
use super::table::{self, Arm};
use super::{federation, history, page, trials};

/// What is asked of a run.
pub(crate) struct Request<'a> {
    pub(crate) document: &'a Document,
    pub(crate) runs: &'a Path,
    pub(crate) start: StartMode,
    pub(crate) compare: &'a [String],
    pub(crate) ablation: bool,
    pub(crate) both_splits: bool,
    pub(crate) threads: Option<usize>,
    pub(crate) nodes: bool,
    pub(crate) json: bool,
    /// Whether detectors stay in the folder. Runs that keep none have folders of their own beside those that do.
    pub(crate) keep_models: bool,
}

impl Request<'_> {
    /// The folder of a run. What is only tried has folders of its own, so that it never comes near detectors in use.
    fn folder(&self, name: &str) -> String {
        match (self.keep_models, self.ablation, self.both_splits) {
            (true, ..) => name.to_owned(),
            (_, true, _) => format!("{name}-ablation"),
            (_, _, true) => format!("{name}-splits"),
            _ => format!("{name}-backtest"),
        }
    }
}

/// A run whose configuration is read.
struct Run<'a> {
    request: &'a Request<'a>,
    document: &'a Document,
    config: Config,
    name: String,
    folder: Folder,
    /// Whether what came of it is shown, and not only stored.
    shown: bool,
}

/// Runs what a configuration describes or, if it has a grid, every trial of it.
pub(crate) fn run(request: &Request<'_>) -> Result<()> {
    let document = request.document;
    let name = document.name()?;
    let runs = request.runs.join(request.folder(&name));
    let Some(grid) = Grid::of(document)? else {
        one(request, document, &name, &runs, request.start, true)?;
        return Ok(());
    };
    if request.ablation || request.both_splits || !request.compare.is_empty() {
        let problem = "a [grid] is run as it stands; leave --compare, --ablation and --both-splits out";
        return Err(document.refuse(&Mistake::at("grid", problem)).into());
    }
    let start = StartMode::of(true, request.start == StartMode::Force);
    // Whatever is wrong in one of them is said before the first is run.
    for trial in grid.all()? {
        Config::of(&trial.document)?;
    }
    let results = grid.run::<anyhow::Error>(&runs, &mut |trial, folder| {
        eprintln!("{}", trial.name);
        one(request, &trial.document, &trial.name, folder, start, false)
    })?;
    let found = trials::document(&name, &results);
    let mut out = std::io::stdout().lock();
    match request.json {
        true => Ok(writeln!(out, "{found}")?),
        false => trials::print(&grid, &found, &mut out),
    }
}

/// One run, from its beginning or from where it was cut short, or what it came to before.
fn one(
    request: &Request<'_>,
    document: &Document,
    name: &str,
    folder: &Path,
    start: StartMode,
    shown: bool,
) -> Result<Value> {
    let run = Run {
        config: Config::of(document)?,
        folder: Folder::hold(folder)?,
        name: name.to_owned(),
        request,
        document,
        shown,
    };
    match run.folder.enter(start, document)? {
        RunStanding::Finished(found) => run.show_again(found),
        RunStanding::Unfinished => run.run(true),
        RunStanding::Empty => run.run(false),
    }
}

impl Run<'_> {
    fn run(&self, resume: bool) -> Result<Value> {
        let (request, config) = (self.request, &self.config);
        let (nodes, split) = history::open(config, self.document.base(), None)?;
        let plans = plans(request, config)?;
        let log = match resume {
            true => self.folder.go_on()?,
            false => self.folder.begin(self.document)?,
        };
        let digest = self.document.digest();
        match resume {
            true => log.write(&Resume { nodes: nodes.nodes() })?,
            false => log.write(&Start {
                config: digest,
                detector: &config.detector,
                seed: config.seed,
                nodes: nodes.nodes(),
                split: &split,
            })?,
        }
        let models = match request.keep_models {
            true => Some(NodeModels::new(&self.folder, &log, digest)?),
            false => None,
        };
        let arms = self.arms(&plans, &*nodes, models.as_ref())?;
        models.map_or(Ok(()), NodeModels::finish)?;
        let found = self.write(&arms, &*nodes, &split)?;
        let alarms = arms.iter().take(1).flat_map(|arm| &arm.outcome.nodes);
        log.write(&End {
            arms: arms.len(),
            alarms: alarms.map(|node| node.events.len()).sum(),
        })?;
        Ok(found)
    }

    fn arms(&self, plans: &[Plan], nodes: &dyn History, models: Option<&NodeModels<'_>>) -> Result<Vec<Arm>> {
        let mut arms: Vec<Arm> = vec![];
        for plan in plans {
            let other = match plan.split {
                None => None,
                Some(_) => Some(history::open(&self.config, self.document.base(), plan.split)?.0),
            };
            let first = arms.is_empty();
            let backtest = plan.backtest(self.request.threads, first && other.is_none());
            let nodes = other.as_deref().unwrap_or(nodes);
            let models = models.filter(|_| first);
            let shift = arms.len();
            let Some(ways) = self.config.federation.as_ref().filter(|_| plan.federated) else {
                arms.push(plan.alone(nodes, &backtest, models)?);
                continue;
            };
            let prefix = match plan.split {
                Some(_) => format!("{} ", plan.name),
                None => String::new(),
            };
            let found = federation::arms(ways, &plan.recipe, &backtest, nodes, &prefix, models)?;
            arms.extend(found.into_iter().map(|arm| Arm {
                against: arm.against.map(|i| i + shift),
                ..arm
            }));
        }
        Ok(arms)
    }

    /// Writes the run's folder, the result last, and shows what came of it.
    fn write(&self, arms: &[Arm], nodes: &dyn History, split: &str) -> Result<Value> {
        let (request, config) = (self.request, &self.config);
        let comparisons = table::comparisons(arms);
        let label = config.label_rule();
        let results = Results {
            name: &self.name,
            seed: config.seed,
            detector: &config.detector,
            split: if request.both_splits {
                "both, one arm each"
            } else {
                split
            },
            label: &label,
            arms: arms.iter().map(|arm| ArmResults::of(arm, &comparisons)).collect(),
        };
        let mut alarms = String::new();
        for alarm in arms
            .iter()
            .take(1)
            .flat_map(|arm| &arm.outcome.nodes)
            .flat_map(|n| &n.events)
        {
            alarms += &serde_json::to_string(alarm)?;
            alarms.push('\n');
        }
        self.folder.write("alarms.jsonl", &alarms)?;
        let context = page::Context {
            name: &self.name,
            config: self.document.text(),
            split,
            label_rule: &label,
            seed: config.seed,
            budget: config.alarm,
        };
        let report = page::report(&context, arms, &comparisons, nodes)?;
        self.folder
            .write("report.html", &synod_insight::report::page(&report))?;
        let found = self.folder.finish_with_results(&results)?;
        let mut out = std::io::stdout().lock();
        match (self.shown, request.json) {
            (false, _) => {}
            (true, true) => writeln!(out, "{found}")?,
            (true, false) => self.print(arms, &comparisons, split, &mut out)?,
        }
        Ok(found)
    }

    fn print(
        &self,
        arms: &[Arm],
        comparisons: &[table::Comparison<'_>],
        split: &str,
        out: &mut dyn Write,
    ) -> Result<()> {
        let (name, config, request) = (&self.name, &self.config, self.request);
        let (seed, alarm, label) = (config.seed, config.alarm, config.label_rule());
        match request.both_splits {
            true => writeln!(out, "{name}: label {label}; seed {seed}; alarm {alarm}\n")?,
            false => writeln!(
                out,
                "{name}: split {split}; label {label}; seed {seed}; alarm {alarm}\n"
            )?,
        }
        table::print(out, arms, request.nodes)?;
        if let Some(above) = arms.first().and_then(|arm| table::above_budget(arm, alarm)) {
            writeln!(out, "{above}")?;
        }
        table::differences(out, comparisons)?;
        if request.both_splits && config.federation.is_none() {
            writeln!(out, "{}", splits(arms))?;
        }
        self.place(out)
    }

    /// What a finished run came to.
    fn show_again(&self, found: Value) -> Result<Value> {
        let mut out = std::io::stdout().lock();
        match (self.shown, self.request.json) {
            (false, _) => {}
            (true, true) => writeln!(out, "{found}")?,
            (true, false) => {
                writeln!(out, "{} is finished; --force runs it anew.", self.name)?;
                self.place(&mut out)?;
            }
        }
        Ok(found)
    }

    fn place(&self, out: &mut dyn Write) -> Result<()> {
        let report = self.folder.path().join("report.html");
        Ok(writeln!(out, "Report: {}", report.display())?)
    }
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
