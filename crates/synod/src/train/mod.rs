//! `synod train`: a classifier, or the detectors of a site's nodes, from a configuration file.

mod bar;
mod config;
mod data;
mod events;
mod federated;
mod feed;
mod grid;
mod model;
mod past;
mod scale;
mod summary;
mod texts;
mod watch;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use synod_core::Digest;
use synod_data::augment::{Augment, Image};
use synod_data::pipeline::Position;
use synod_nn::{Callback, EarlyStopping, Fit, Flow, Loss, Model};
use synod_runs::{Document, Folder, Grid, Log, RunKind, RunStanding, StartMode, Trial};

use self::bar::Progress;
use self::config::Config;
use self::data::{Rows, Split};
use self::events::{End, Resume, Start};
use self::federated::Run;
use self::feed::PipelineFeed;
use self::past::{Past, check_data};
use self::summary::{Judged, Summary};
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

/// What one run is asked for.
struct Call<'a> {
    document: &'a Document,
    folder: PathBuf,
    start: StartMode,
    /// Rounds after which another run had reached the target.
    most_rounds: usize,
    in_grid: bool,
}

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
        let document = Document::read(&self.config)?;
        if document.kind()? == RunKind::Watch {
            return self.watch(&document);
        }
        let name = document.name()?;
        if let Some(grid) = Grid::of(&document)? {
            return grid::run(&grid, &name, self);
        }
        let summary = self.one(&Call {
            document: &document,
            folder: self.runs.join(name),
            start: StartMode::of(self.resume, self.force),
            most_rounds: usize::MAX,
            in_grid: false,
        })?;
        self.show(&summary)
    }

    /// One run of a grid, in a folder of its own; one that is finished or was cut short goes on from there.
    fn trial(&self, trial: &Trial, runs: &Path, most_rounds: usize) -> Result<Value> {
        self.one(&Call {
            document: &trial.document,
            folder: trial.folder(runs),
            start: StartMode::of(true, self.force),
            most_rounds,
            in_grid: true,
        })
    }

    /// One run, from its beginning or from where it was cut short, or what it came to before.
    fn one(&self, call: &Call<'_>) -> Result<Value> {
        let document = call.document;
        let config = Config::of(document)?;
        if call.in_grid && config.federation.is_none() {
            return Err(Misuse("a [grid] goes with a [federation]".into()).into());
        }
        let folder = Folder::hold(&call.folder)?;
        let resume = match folder.enter(call.start, document)? {
            RunStanding::Finished(summary) => return Ok(summary),
            RunStanding::Unfinished => true,
            RunStanding::Empty => false,
        };
        let split = data::load(&config.data, document, config.seed)?;
        let mut model = match resume && config.federation.is_none() {
            true => Model::load(&folder.checkpoint())?,
            false => model::build(&config.model, document.base(), &split, config.seed)?,
        };
        if let Some(federation) = &config.federation {
            let run = Run {
                config: &config,
                federation,
                folder: &folder,
                document,
                resume,
                most_rounds: call.most_rounds,
                in_grid: call.in_grid,
                quiet: self.json,
            };
            return run.run(&model, split);
        }
        let experiment = Experiment {
            classes: model::classes(&model, &split)?,
            augment: feed::augmentation(config.augment.as_ref(), model.input_shape())?,
            train_rows: split.train.len(),
            config: &config,
            folder: &folder,
            split,
        };
        experiment.run(&mut model, document, resume)
    }

    /// Detectors, one per node.
    fn watch(&self, document: &Document) -> Result<()> {
        crate::watch::run(&crate::watch::Request {
            document,
            runs: &self.runs,
            start: StartMode::of(self.resume, self.force),
            compare: &[],
            ablation: false,
            both_splits: false,
            threads: None,
            nodes: false,
            json: self.json,
            keep_models: true,
        })
    }

    fn show(&self, summary: &Value) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            return Ok(writeln!(out, "{summary}")?);
        }
        match summary["tally"].is_null() {
            true => Ok(summary::show(summary, &mut out)?),
            false => Ok(federated::show(summary, &mut out)?),
        }
    }
}

impl Experiment<'_> {
    fn run(mut self, model: &mut Model, document: &Document, resume: bool) -> Result<Value> {
        let done = model.progress().filter(|_| resume).map_or(0, |p| p.epoch);
        let data = self.split.train.digest();
        let (log, past) = match resume {
            true => {
                let log = self.folder.go_on()?;
                let past = Past::until(done, &log)?;
                check_data(self.folder, past.data, data)?;
                log.write(&Resume { epoch: done })?;
                (log, Some(past))
            }
            false => (self.folder.begin(document)?, None),
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
            accuracy: summary.accuracy,
        })?;
        Ok(self.folder.finish(&summary)?)
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
            let (plan, name) = (feed.plan(), model::title(&config.model));
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
    fn summary(&self, record: &Record) -> Result<Summary> {
        let path = self.folder.model();
        let best = Model::load(&path).context("cannot use the model that was just stored")?;
        let measure = |rows: &Rows| -> Result<Judged> {
            let data = rows.data();
            Ok(Judged {
                loss: shortest(best.evaluate(&data, Loss::CrossEntropy)?),
                accuracy: shortest(best.accuracy(&data, 1)?),
                rows: data.rows(),
            })
        };
        let test = self.split.test.as_ref().map(measure).transpose()?;
        let validation = self.split.validation.as_ref().map(measure).transpose()?;
        let (measured_on, shown) = match test {
            Some(_) => ("test", test),
            None => ("validation", validation),
        };
        let config = self.config;
        Ok(Summary {
            name: self.folder.name(),
            model: model::title(&config.model),
            model_file: path.display().to_string(),
            seed: config.seed,
            parameters: best.layout().len(),
            classes: self.classes,
            rows: self.train_rows,
            accuracy: shown.map(|judged| judged.accuracy),
            loss: shown.map(|judged| judged.loss),
            measured_on,
            test,
            validation,
            training_loss: shortest(record.loss),
            epochs: record.epochs,
            best_epoch: record.best_epoch,
            stopped_early: record.epochs < config.train.epochs.get(),
            seconds: record.seconds,
            prepared: self.split.preparation.record(self.folder)?,
        })
    }
}

/// The `f64` that prints as the `f32` does.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}
