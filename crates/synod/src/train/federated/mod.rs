//! A classifier trained by a federation that is simulated on this machine.

mod curve;
mod summary;

use std::time::Instant;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use synod_core::Digest;
use synod_federate::partition::{Measures, Partition, RowsToDivide as Labelled};
use synod_federate::simulate::{ClientMeasure, Population, RoundReport, Simulation};
use synod_federate::{ClientId, FederationChoice, Plan};
use synod_nn::{Data, Loss, Measured, Model};
use synod_runs::{CLIENTS, Document, Folder, Log};

use self::curve::Curve;
pub(super) use self::summary::show;
use self::summary::{Spread, Summary};
use super::config::Config;
use super::data::{Rows, Split};
use super::events::{FederationEnd, FederationResume, FederationStart, Judged, Round, recorded_digest};
use super::past::check_data;
use super::scale::Prepared;
use super::{Misuse, model, shortest};

/// Clients that are judged one by one at the end.
const JUDGED: u64 = 1000;

/// Clients that share one table.
struct Shared<'a> {
    data: Data<'a>,
    partition: Box<dyn Partition>,
}

impl Population for Shared<'_> {
    fn clients(&self) -> u64 {
        self.partition.clients() as u64
    }

    fn samples(&self, client: ClientId) -> u64 {
        self.partition.samples(client.0 as usize) as u64
    }

    fn data(&self, _: ClientId) -> Data<'_> {
        self.data
    }

    fn rows(&self, client: ClientId, rows: &mut Vec<u32>) {
        self.partition.rows(client.0 as usize, rows);
    }
}

/// What a checkpoint keeps beside the federation itself.
#[derive(Default, Serialize, Deserialize)]
struct Note {
    #[serde(deserialize_with = "recorded_digest")]
    data: Option<Digest>,
    seconds: f64,
    curve: Curve,
    /// Why it ended before its last round, if not by reaching the target.
    stopped: Option<String>,
}

/// A run, and when another one has made it pointless to go on.
pub(super) struct Run<'a> {
    pub(super) config: &'a Config,
    pub(super) federation: &'a FederationChoice,
    pub(super) folder: &'a Folder,
    pub(super) document: &'a Document,
    pub(super) resume: bool,
    /// Rounds after which another run had reached the target.
    pub(super) most_rounds: usize,
    pub(super) in_grid: bool,
    pub(super) quiet: bool,
}

impl Run<'_> {
    pub(super) fn run(&self, model: &Model, mut split: Split) -> Result<Value> {
        let (config, federation) = (self.config, self.federation);
        let classes = model::classes(model, &split)?;
        split.scale.apply(&mut split.train.inputs);
        // A row of a text has no label of its own; its first character's next stands for it.
        let firsts = split.train.classes.iter().step_by(split.train.targets.max(1));
        let labels: Vec<u32> = firsts.map(|c| *c as u32).collect();
        let rows = match split.train.groups.is_empty() {
            true => Labelled::labelled(&labels),
            false => Labelled::labelled(&labels).with_groups(&split.train.groups),
        };
        let partition = federation
            .partition
            .divide(&rows, federation.clients.get(), config.seed)
            .map_err(|e| Misuse(format!("[federation]: {e}")))?;
        let measures = (partition.clients() <= 100_000)
            .then(|| Measures::of(&*partition, Some(&labels)))
            .transpose()?;
        let population = Shared {
            data: split.train.data(),
            partition,
        };
        let plan = Plan {
            loss: Loss::CrossEntropy,
            optimizer: config.train.optimizer(federation.rounds.get()),
            batch: federation.batch(config.train.batch.get()),
            itself: false,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = federation.threads.map_or(cores, |t| t.get());
        let settings = federation.settings(config.train.epochs.get(), config.seed);
        let memories = Some(self.folder.memories());
        let simulation = Simulation::new(&population, model, plan, settings, threads, memories)
            .map_err(|e| Misuse(format!("[federation]: {e}")))?;
        let judge = match (&split.test, &split.validation) {
            _ if !simulation.has_one_model() => Judge::of_clients(federation)?,
            (Some(test), _) => Judge::Rows(test, "test"),
            (None, Some(validation)) => Judge::Rows(validation, "validation"),
            (None, None) => return Err(Misuse("there are no rows to judge by; give `test`".into()).into()),
        };
        let mut course = Course {
            run: self,
            simulation,
            judge,
            note: Note {
                data: Some(split.train.digest()),
                ..Note::default()
            },
        };
        let log = course.begin(measures.as_ref())?;
        let last = course.hold(&log)?;
        let prepared = split.preparation.record(self.folder)?;
        let summary = course.summary(last, classes, measures, prepared)?;
        log.write(&FederationEnd {
            rounds: summary.rounds,
            accuracy: summary.accuracy,
        })?;
        Ok(self.folder.finish(&summary)?)
    }
}

/// By what a federation is judged.
enum Judge<'a> {
    /// Rows of nobody's, and what they are called.
    Rows(&'a Rows, &'static str),
    /// The rows that clients held back, each by the model it has.
    Clients(Vec<ClientId>),
}

impl Judge<'_> {
    fn of_clients(federation: &FederationChoice) -> Result<Judge<'static>> {
        if federation.holdout > 0.0 {
            return Ok(Judge::Clients(judged(federation)));
        }
        let problem = "[federation]: with this `personal` no model is shared whole, so that the test rows cannot judge it; \
                       have clients hold rows back, such as holdout = 0.2";
        Err(Misuse(problem.into()).into())
    }
}

/// The clients that are judged one by one.
fn judged(federation: &FederationChoice) -> Vec<ClientId> {
    (0..(federation.clients.get() as u64).min(JUDGED))
        .map(ClientId)
        .collect()
}

struct Course<'a> {
    run: &'a Run<'a>,
    simulation: Simulation<'a>,
    judge: Judge<'a>,
    note: Note,
}

impl Course<'_> {
    /// Takes hold of the run directory, and of the checkpoint in it if there is one to go on from.
    fn begin(&mut self, measures: Option<&Measures>) -> Result<Log> {
        let (run, data) = (self.run, self.note.data);
        if !run.resume {
            let log = run.folder.begin(run.document)?;
            log.write(&FederationStart {
                clients: run.federation.clients.get(),
                partition: measures.map(ToString::to_string),
            })?;
            return Ok(log);
        }
        let log = run.folder.go_on()?;
        let note = self.simulation.restore(&run.folder.checkpoint())?;
        self.note = serde_json::from_str(&note)
            .context("the checkpoint's history is damaged; --force starts anew")?;
        if let Some(data) = data {
            check_data(run.folder, self.note.data, data)?;
        }
        let round = self.simulation.rounds();
        log.write(&FederationResume { round })?;
        Ok(log)
    }

    /// Holds rounds until the last, or until the target is reached.
    fn hold(&mut self, log: &Log) -> Result<Option<RoundReport>> {
        let federation = self.run.federation;
        let rounds = federation.rounds.get().min(self.run.most_rounds) as u64;
        let bar = self.bar(rounds);
        let before = self.note.seconds;
        let started = Instant::now();
        let mut last = None;
        while self.simulation.rounds() < rounds && !self.reached() {
            let report = match self.simulation.round() {
                // In a grid a federation that falls apart is a result like others.
                Err(synod_federate::Error::Round(why)) if self.run.in_grid => {
                    self.note.stopped = Some(why);
                    break;
                }
                held => held?,
            };
            let round = report.round;
            let mut judged = None;
            if round.is_multiple_of(federation.evaluate.get() as u64) || round == rounds {
                let measured = self.measure()?;
                self.note
                    .curve
                    .push(round, measured.accuracy(), measured.mean_loss());
                judged = Some(Judged {
                    accuracy: measured.accuracy(),
                    test_loss: measured.mean_loss(),
                });
                bar.set_message(format!("accuracy {:.2} %", 100.0 * measured.accuracy()));
            }
            log.note(&Round {
                report: &report,
                judged,
            })?;
            self.note.seconds = before + started.elapsed().as_secs_f64();
            let every = self.run.config.train.checkpoint.get() as u64;
            if round.is_multiple_of(every) || round == rounds || self.reached() {
                let note = serde_json::to_string(&self.note)?;
                self.simulation.save(&self.run.folder.checkpoint(), &note)?;
            }
            bar.set_position(round);
            last = Some(report);
        }
        bar.finish_and_clear();
        Ok(last)
    }

    fn bar(&self, rounds: u64) -> ProgressBar {
        let bar = if self.run.quiet {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(rounds)
        };
        let style = ProgressStyle::with_template("round {pos}/{len} {wide_bar} {msg} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_position(self.simulation.rounds());
        bar
    }

    fn reached(&self) -> bool {
        let target = self.run.federation.target;
        target.is_some_and(|target| self.note.curve.rounds_to(target).is_some())
    }

    fn measure(&mut self) -> Result<Measured> {
        let rows = match &self.judge {
            Judge::Rows(rows, _) => rows,
            Judge::Clients(clients) => {
                let judged = self.simulation.evaluate_clients(clients)?;
                return Ok(judged.iter().fold(Measured::default(), |sum, m| sum + m.used()));
            }
        };
        let data = rows.data();
        let all: Vec<u32> = (0..data.rows() as u32).collect();
        Ok(self.simulation.evaluate(data, &all)?)
    }

    /// Saves the model, and with IFCA the others beside it.
    fn save_models(&self) -> Result<Vec<Model>> {
        let models: Vec<Model> = self.simulation.models().collect();
        for (i, model) in models.iter().enumerate() {
            model.save(&match i {
                0 => self.run.folder.model(),
                i => self.run.folder.further_model(i + 1),
            })?;
        }
        Ok(models)
    }

    /// Judges clients one by one, leaves a line for each in the run directory, and says how they are spread.
    fn clients(&mut self) -> Result<Option<Spread>> {
        if self.run.federation.holdout == 0.0 {
            return Ok(None);
        }
        let measures = self.simulation.evaluate_clients(&judged(self.run.federation))?;
        let accuracy = |m: Option<Measured>| m.map(|m| m.accuracy());
        let line = |m: &ClientMeasure| {
            let (shared, own) = (accuracy(m.shared), accuracy(m.own));
            json!({ "client": m.client, "rows": m.used().rows, "shared": shared, "own": own }).to_string()
        };
        let lines: Vec<String> = measures.iter().map(line).collect();
        self.run.folder.write(CLIENTS, &(lines.join("\n") + "\n"))?;
        Ok(Some(Spread::of(&measures)))
    }

    fn summary(
        &mut self,
        last: Option<RoundReport>,
        classes: usize,
        skew: Option<Measures>,
        prepared: Prepared,
    ) -> Result<Summary> {
        let (config, federation, folder) = (self.run.config, self.run.federation, self.run.folder);
        let measured = self.measure()?;
        let models = self.save_models()?;
        let clients = self.clients()?;
        let on = match &self.judge {
            Judge::Rows(_, on) => on,
            Judge::Clients(_) => "clients' held-back",
        };
        let curve = &self.note.curve;
        Ok(Summary {
            name: folder.name(),
            model: model::title(&config.model),
            model_file: folder.model().display().to_string(),
            seed: config.seed,
            strategy: federation.strategy.clone(),
            clients: federation.clients.get(),
            partition: skew.map(|s| s.to_string()),
            models: models.len(),
            parameters: models.first().map(|m| m.layout().len()),
            classes,
            measured_on: on,
            accuracy: shortest(measured.accuracy() as f32),
            best_accuracy: curve.best(),
            loss: shortest(measured.mean_loss() as f32),
            rounds: self.simulation.rounds(),
            target: federation.target,
            rounds_to_target: federation.target.and_then(|t| curve.rounds_to(t)),
            traffic: self.simulation.traffic(),
            tally: *self.simulation.tally(),
            simulated_seconds: last.map(|r| r.clock),
            stopped: self.note.stopped.clone(),
            per_client: clients,
            seconds: self.note.seconds,
            curve: curve.clone(),
            prepared,
        })
    }
}
