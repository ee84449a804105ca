//! `synod train`: a classifier, or the detectors of a site's nodes, from a configuration file.

mod bar;
mod config;
mod data;
mod events;
mod federated;
mod feed;
mod folder;
mod grid;
mod model;
mod scale;
mod texts;
mod watch;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use synod_core::Digest;
use synod_data::augment::{Augment, Image};
use synod_data::pipeline::Position;
use synod_nn::{Callback, EarlyStopping, Fit, Flow, Loss, Model};

use self::bar::Progress;
use self::config::Config;
pub(crate) use self::config::read_text;
use self::data::{Rows, Split};
use self::events::{End, Resume, Start};
use self::federated::Run;
use self::feed::PipelineFeed;
use self::folder::{Folder, Log, Standing};
use self::grid::Grid;
use self::watch::{Record, Watch};

/// Trains what a TOML file describes, into a run directory that survives crashes: a classifier, or detectors of nodes.
#[derive(Args)]
#[command(after_help = "Examples:
  synod train experiments/mnist-cnn.toml             into runs/mnist-cnn
  synod train experiments/mnist-cnn.toml --resume    go on after a crash, to the same bits
  synod train experiments/mnist-mlp.toml --json | jq .accuracy
  synod train experiments/m100.toml                  detectors of four nodes, with a report
  synod train experiments/fedavg-mnist-2nn.toml      100 simulated clients that learn together

Paths in the file are relative to the file. A run directory holds config.toml, events.jsonl,
model.safetensors (the best), checkpoint.safetensors (the last) and, once finished, summary.json.
docs/train.md lists all settings of classifiers, docs/federate.md those of federations and grids of runs,
docs/watch.md those of detectors. Exit codes: 0 success, 1 failure, 2 a mistake in the call or the file.")]
pub(crate) struct Train {
    /// The experiment's configuration.
    config: PathBuf,
    /// Where run directories go.
    #[arg(long, default_value = "runs")]
    runs: PathBuf,
    /// Go on from the last checkpoint, or start if there is none.
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Start anew, over an earlier run of the same name.
    #[arg(long)]
    force: bool,
    /// One JSON document on standard output.
    #[arg(long)]
    json: bool,
}

/// A mistake of whoever called, rather than a failure on the way.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// All that a run works with.
struct Experiment<'a> {
    config: &'a Config,
    folder: &'a Folder,
    split: Split,
    augment: Option<Augment<Image>>,
    classes: usize,
    train_rows: usize,
}

impl Train {
    pub(crate) fn run(&self) -> Result<()> {
        if std::fs::read_to_string(&self.config).is_ok_and(|text| crate::watch::is_ours(&text)) {
            return self.watch();
        }
        let grid = Grid::of(&read_text(&self.config)?, &self.config)?;
        if let Some(grid) = grid {
            return grid.run(self);
        }
        let (config, text) = Config::read(&self.config)?;
        let folder = Folder::new(&self.runs, &config.run_name(&self.config)?);
        let resume = match folder.standing()? {
            _ if self.force => false,
            Standing::Empty => false,
            Standing::Finished(summary) if self.resume => {
                self.check_same(&config, &folder)?;
                return self.show(&summary);
            }
            Standing::Unfinished if self.resume => {
                self.check_same(&config, &folder)?;
                true
            }
            Standing::Finished(_) => return Err(occupied(&folder, "a finished run; --force replaces it")),
            Standing::Unfinished => {
                let help = "an unfinished run; --resume goes on, --force starts anew";
                return Err(occupied(&folder, help));
            }
        };
        let base = self.config.parent().unwrap_or(Path::new(""));
        let split = data::load(config.data.get_ref(), &text, base, config.seed)?;
        let mut model = match resume && config.federation.is_none() {
            true => Model::load(&folder.checkpoint())?,
            false => model::build(config.model.get_ref(), base, &split, config.seed)?,
        };
        if let Some(federation) = &config.federation {
            let run = Run {
                config: &config,
                federation: federation.get_ref(),
                folder: &folder,
                text: &text,
                resume,
                most_rounds: usize::MAX,
                in_grid: false,
                quiet: self.json,
            };
            return self.show(&run.run(&model, split)?);
        }
        let experiment = Experiment {
            classes: model::classes(&model, &split)?,
            augment: feed::augmentation(config.augment.as_ref(), model.input_shape())?,
            train_rows: split.train.len(),
            config: &config,
            folder: &folder,
            split,
        };
        let summary = experiment.run(&mut model, &text, resume)?;
        self.show(&summary)
    }

    /// One run of a grid, in a folder of its own; one that is finished or was cut short goes on from there.
    fn run_cell(
        &self,
        config: &Config,
        text: &str,
        runs: &Path,
        name: &str,
        most_rounds: usize,
    ) -> Result<Value> {
        let folder = Folder::new(runs, if name.is_empty() { "all" } else { name });
        let standing = if self.force {
            Standing::Empty
        } else {
            folder.standing()?
        };
        let resume = match standing {
            Standing::Finished(summary) => {
                self.check_same(config, &folder)?;
                return Ok(summary);
            }
            Standing::Unfinished => {
                self.check_same(config, &folder)?;
                true
            }
            Standing::Empty => false,
        };
        let base = self.config.parent().unwrap_or(Path::new(""));
        let split = data::load(config.data.get_ref(), text, base, config.seed)?;
        let model = model::build(config.model.get_ref(), base, &split, config.seed)?;
        let federation = config.federation.as_ref();
        let federation = federation.ok_or_else(|| Misuse("a [grid] goes with a [federation]".into()))?;
        let run = Run {
            config,
            federation: federation.get_ref(),
            folder: &folder,
            text,
            resume,
            most_rounds,
            in_grid: true,
            quiet: self.json,
        };
        run.run(&model, split)
    }

    /// Detectors, one per node. They are fitted in seconds, so a run that was cut short is simply done again.
    fn watch(&self) -> Result<()> {
        crate::watch::run(&crate::watch::Request {
            config: &self.config,
            runs: &self.runs,
            compare: &[],
            ablation: false,
            both_splits: false,
            threads: None,
            nodes: false,
            json: self.json,
            keep_models: true,
        })
    }

    /// A run goes on only as it began, or its result would be that of no configuration.
    fn check_same(&self, config: &Config, folder: &Folder) -> Result<()> {
        let before = Config::parse(&folder.config_text()?);
        match before.as_ref() == Ok(config) {
            true => Ok(()),
            false => Err(Misuse(format!(
                "{} differs from the configuration in {} with which the run began; restore it, set another `name`, or \
                 start anew with --force",
                self.config.display(),
                folder.path().display()
            ))
            .into()),
        }
    }

    fn show(&self, summary: &Value) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            return Ok(writeln!(out, "{summary}")?);
        }
        if !summary["tally"].is_null() {
            return Ok(federated::show(summary, &mut out)?);
        }
        let number = |key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
        writeln!(
            out,
            "Accuracy {:.2} % and loss {:.5} on {} rows.",
            100.0 * number("accuracy"),
            number("loss"),
            summary["measured_on"].as_str().unwrap_or("unknown"),
        )?;
        let early = if summary["stopped_early"] == true {
            ", stopped early"
        } else {
            ""
        };
        writeln!(
            out,
            "{} epochs{early}, the best of them {}, in {:.1} s; {} parameters.",
            summary["epochs"],
            summary["best_epoch"],
            number("seconds"),
            summary["parameters"],
        )?;
        writeln!(
            out,
            "Model: {}",
            summary["model_file"].as_str().unwrap_or_default()
        )?;
        Ok(())
    }
}

fn occupied(folder: &Folder, help: &str) -> anyhow::Error {
    Misuse(format!("{} holds {help}", folder.path().display())).into()
}

impl Experiment<'_> {
    fn run(mut self, model: &mut Model, text: &str, resume: bool) -> Result<Value> {
        let done = model.progress().filter(|_| resume).map_or(0, |p| p.epoch);
        let data = self.split.train.digest();
        let (log, past) = match resume {
            true => {
                let (log, past) = self.folder.go_on(done)?;
                self.folder.check_data(past.data, data)?;
                log.write(&Resume { epoch: done })?;
                (log, Some(past))
            }
            false => (self.folder.begin(text)?, None),
        };
        let patience = self.config.train.early_stopping.map_or(usize::MAX, |p| p.get());
        let (mut record, mut stopping, mut over) = (Record::default(), EarlyStopping::new(patience), false);
        for report in past.iter().flat_map(|p| &p.reports) {
            record.note(report);
            over = stopping.on_epoch(report, model)? == Flow::Stop;
        }
        if !over && done < self.config.train.epochs.get() {
            let from = past.map(|p| Position {
                epoch: done as u64,
                batch: 0,
                plan: p.plan,
            });
            record = self.fit(model, &log, record, &mut stopping, from, data)?;
        }
        let summary = self.summary(&record)?;
        log.write(&End {
            epochs: record.epochs,
            accuracy: &summary["accuracy"],
        })?;
        self.folder.finish(&summary)?;
        Ok(summary)
    }

    fn fit(
        &mut self,
        model: &mut Model,
        log: &Log,
        record: Record,
        stopping: &mut EarlyStopping,
        from: Option<Position>,
        data: Digest,
    ) -> Result<Record> {
        let (config, resume) = (self.config, from.is_some());
        let train = std::mem::take(&mut self.split.train);
        let pipeline = feed::pipeline(config, train, self.split.scale.clone(), self.augment.take(), log)?;
        let mut feed = PipelineFeed::start(pipeline, self.train_rows, from)?;
        if !resume {
            let (plan, name) = (feed.plan(), model::title(config.model.get_ref()));
            log.write(&Start {
                plan,
                data,
                model: name,
                seed: config.seed,
                rows: self.train_rows,
                parameters: model.layout().len(),
                classes: self.classes,
            })?;
        }
        let fit = Fit {
            epochs: config.train.epochs.get(),
            batch: config.train.batch.get(),
            seed: config.seed,
            validation: self.split.validation.as_ref().map(Rows::data),
            resume,
            ..Fit::new(
                Loss::CrossEntropy,
                config.train.optimizer(config.train.epochs.get()),
            )
        };
        let mut watch = Watch {
            folder: self.folder,
            log: log.clone(),
            validation: self.split.validation.as_ref(),
            test: self.split.test.as_ref(),
            every: config.train.checkpoint,
            record,
        };
        let mut bar = Progress::new();
        let mut callbacks: [&mut dyn Callback; 3] = [&mut bar, &mut watch, stopping];
        model.fit_from(&mut feed, &fit, &mut callbacks)?;
        Ok(watch.record)
    }

    /// What the best model is worth, measured on the file that was stored.
    fn summary(&self, record: &Record) -> Result<Value> {
        let path = self.folder.model();
        let best = Model::load(&path).context("cannot use the model that was just stored")?;
        let measure = |rows: Option<&Rows>| -> Result<Value> {
            let Some(data) = rows.map(Rows::data) else {
                return Ok(Value::Null);
            };
            let (loss, accuracy) = (
                best.evaluate(&data, Loss::CrossEntropy)?,
                best.accuracy(&data, 1)?,
            );
            Ok(json!({ "loss": shortest(loss), "accuracy": shortest(accuracy), "rows": data.rows() }))
        };
        let test = measure(self.split.test.as_ref())?;
        let validation = measure(self.split.validation.as_ref())?;
        let (on, shown) = match test.is_null() {
            false => ("test", &test),
            true => ("validation", &validation),
        };
        let config = self.config;
        let mut summary = json!({
            "name": self.folder.path().file_name().map(|n| n.to_string_lossy()),
            "model": model::title(config.model.get_ref()),
            "model_file": path.display().to_string(),
            "seed": config.seed,
            "parameters": best.layout().len(),
            "classes": self.classes,
            "rows": self.train_rows,
            "accuracy": shown["accuracy"],
            "loss": shown["loss"],
            "measured_on": on,
            "test": test,
            "validation": validation,
            "training_loss": shortest(record.loss),
            "epochs": record.epochs,
            "best_epoch": record.best_epoch,
            "stopped_early": record.epochs < config.train.epochs.get(),
            "seconds": record.seconds,
        });
        self.split.preparation.record(self.folder, &mut summary)?;
        Ok(summary)
    }
}

/// The `f64` that prints as the `f32` does.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}
