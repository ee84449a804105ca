//! Federations: aggregates for comparison with other implementations, and how long rounds take.

use std::io::Read;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use synod_federate::simulate::{Epochs, Population, Simulation, SimulationSettings, Tables};
use synod_federate::strategy::{ClientUpdate, Gathering, Server, StrategyChoice};
use synod_federate::{ClientId, Plan, Random};
use synod_nn::{Data, Loss, Optimizer, zoo};

/// What one client sent.
#[derive(Deserialize)]
struct Sent {
    samples: u64,
    #[serde(default = "one")]
    steps: f64,
    #[serde(default)]
    loss: f64,
    delta: Vec<f32>,
    variate: Option<Vec<f32>>,
}

fn one() -> f64 {
    1.0
}

/// Rounds of given updates.
#[derive(Deserialize)]
struct Rounds {
    strategy: StrategyChoice,
    rate: f64,
    weights: Vec<f32>,
    population: u64,
    rounds: Vec<Vec<Sent>>,
}

/// A whole federation of a linear classifier, on given rows.
#[derive(Deserialize)]
struct Whole {
    strategy: StrategyChoice,
    rate: f32,
    epochs: usize,
    rounds: usize,
    width: usize,
    classes: usize,
    weights: Vec<f32>,
    inputs: Vec<f32>,
    labels: Vec<f32>,
    rows: Vec<Vec<u32>>,
}

impl Population for Whole {
    fn clients(&self) -> u64 {
        self.rows.len() as u64
    }

    fn samples(&self, client: ClientId) -> u64 {
        self.rows[client.0 as usize].len() as u64
    }

    fn data(&self, _: ClientId) -> Data<'_> {
        Data::new(&self.inputs, self.width, &self.labels, 1)
    }

    fn rows(&self, client: ClientId, rows: &mut Vec<u32>) {
        rows.clone_from(&self.rows[client.0 as usize]);
    }
}

/// Reads a JSON array of tasks and prints the weights that each ends with.
pub(crate) fn check() -> Result<()> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("cannot read the tasks")?;
    let tasks: Vec<Value> = serde_json::from_str(&text).context("no JSON array of tasks")?;
    let mut ends = vec![];
    for task in tasks {
        ends.push(match task.get("inputs") {
            None => aggregate(serde_json::from_value(task)?)?,
            Some(_) => federation(serde_json::from_value(task)?)?,
        });
    }
    say(&json!(ends))
}

fn aggregate(task: Rounds) -> Result<Vec<f32>> {
    let strategy = task.strategy.build(task.rate)?;
    let mut server = Server::new(task.weights, task.population);
    for round in task.rounds {
        let mut gathering = Gathering::begin(&*strategy, &server);
        for (client, sent) in round.into_iter().enumerate() {
            let update = ClientUpdate {
                steps: sent.steps,
                loss: sent.loss,
                variate: sent.variate,
                ..ClientUpdate::new(ClientId(client as u64), sent.samples, sent.delta)
            };
            gathering.add(&*strategy, &server, &update)?;
        }
        strategy.step(&mut server, &gathering)?;
    }
    Ok(server.weights)
}

fn federation(task: Whole) -> Result<Vec<f32>> {
    let mut model = zoo::mlp(&[task.width, task.classes], 1)?;
    model.parameters_mut().copy_from_slice(&task.weights);
    let plan = Plan {
        loss: Loss::CrossEntropy,
        optimizer: Optimizer::sgd(task.rate),
        batch: None,
        itself: false,
    };
    let settings = SimulationSettings {
        fraction: 1.0,
        epochs: Epochs::Fixed(task.epochs),
        strategy: task.strategy.clone(),
        ..SimulationSettings::default()
    };
    let mut simulation = Simulation::new(&task, &model, plan, settings, 2, None)?;
    for _ in 0..task.rounds {
        simulation.round()?;
    }
    Ok(simulation.weights().to_vec())
}

/// Rounds of the paper's autoencoder: RMSprop, batch 10.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Federation {
    /// Clients, all of which take part in every round.
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// Rows of each.
    #[arg(long, default_value_t = 10_120)]
    rows: usize,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Steps of a client in a round, instead of an epoch; 0 shows what a round costs without any training.
    #[arg(long)]
    steps: Option<usize>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// One JSON line.
    #[arg(long)]
    json: bool,
}

const WIDTHS: [usize; 10] = [460, 80, 60, 40, 20, 40, 60, 80, 100, 460];

impl Federation {
    pub(crate) fn run(&self) -> Result<()> {
        let table = |client: usize| {
            let mut random = Random::new(1, &[client as u64]);
            (0..self.rows * WIDTHS[0])
                .map(|_| random.uniform() as f32)
                .collect()
        };
        let population = Tables {
            tables: (0..self.clients).map(table).collect(),
            width: WIDTHS[0],
        };
        let plan = Plan {
            loss: Loss::Rmse,
            optimizer: Optimizer::rmsprop(1e-6),
            batch: Some(10),
            itself: true,
        };
        let settings = SimulationSettings {
            fraction: 1.0,
            steps: self.steps,
            ..SimulationSettings::default()
        };
        let model = zoo::autoencoder(&WIDTHS, 1)?;
        let mut simulation = Simulation::new(&population, &model, plan, settings, self.threads, None)?;
        let started = Instant::now();
        let mut times = vec![];
        for _ in 0..self.rounds {
            let round = Instant::now();
            simulation.round()?;
            times.push(round.elapsed().as_secs_f64());
        }
        let total = started.elapsed().as_secs_f64();
        let first = times[0];
        // The first round compiles.
        let later = if times.len() > 1 {
            &mut times[1..]
        } else {
            &mut times[..]
        };
        later.sort_by(f64::total_cmp);
        let round = later[later.len() / 2];
        let per_client = round / self.clients as f64;
        match self.json {
            true => say(&json!({
                "workload": "federation", "impl": "synod", "clients": self.clients, "rows": self.rows, "steps": self.steps,
                "rounds": self.rounds, "threads": self.threads, "first_round_s": first, "round_s": round,
                "per_client_s": per_client, "total_s": total,
            })),
            false => say(&format!(
                "{} rounds of {} clients in {total:.2} s: {round:.4} s a round, {:.3} ms a client",
                self.rounds,
                self.clients,
                1e3 * per_client
            )),
        }
    }
}

fn say(what: &dyn std::fmt::Display) -> Result<()> {
    use std::io::Write;
    Ok(writeln!(std::io::stdout().lock(), "{what}")?)
}
