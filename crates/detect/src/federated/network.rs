//! Nodes that train one network together, by averaging: what leaves a node is what its steps changed.

use std::collections::BTreeMap;

use synod_federate::simulate::{Epochs, Population, Settings, Simulation};
use synod_federate::strategy;
use synod_federate::{ClientId, Plan};
use synod_nn::Data;
use synod_telemetry::Frame;

use super::compare::{Choice, Compared, Judged};
use crate::backtest::{Backtest, History, NodeResult};
use crate::detector::{Autoencoder, Fitted, Kind, Training, held_out, hide, learnt_from};
use crate::error::{Error, Result};
use crate::features::{Features, View};
use crate::habits::Habits;
use crate::model::{Draft, Fit, healthy};
use crate::parallel::in_order;
use crate::recipe::Recipe;
use crate::rows::Rows;

/// How nodes train a network together.
#[derive(Clone, Debug, PartialEq)]
pub struct Averaging {
    /// What is made of the nodes' updates.
    pub strategy: strategy::Choice,
    /// Rounds among which the steps that a node would take alone are divided.
    pub rounds: usize,
}

impl Averaging {
    /// Whether a recipe is one network that can be averaged.
    pub fn suits(recipe: &Recipe) -> bool {
        training(recipe).is_some()
    }

    /// A backtest of networks that every node trains alone, and of one that all train together with as many steps; each
    /// node measures its errors by its own, and listens to its own network until the shared one has proven better. All nodes'
    /// training windows are in memory. Calls `done` [`super::ROUNDS`] times per node.
    pub fn compare(
        &self,
        backtest: &Backtest,
        history: &dyn History,
        done: &(dyn Fn() + Sync),
    ) -> Result<Compared> {
        let Some((training, view)) = training(&backtest.recipe) else {
            return Err(Error::Setting(
                "only a single autoencoder is averaged over nodes; use kind = \"autoencoder\" or \"paper\""
                    .into(),
            ));
        };
        let alone = backtest.nodes(history, done);
        let learn = |index: usize| {
            let node = history
                .node(index)
                .and_then(|(train, ..)| Node::of(&train, &backtest.recipe, view));
            done();
            node
        };
        let nodes = in_order(0..history.nodes(), backtest.threads, &learn);
        let fleet = Fleet::of(nodes.iter().flatten(), training, backtest.recipe.seed);
        let shared = self.train(&fleet, training, backtest, history.nodes(), done)?;
        let judge = |index: usize| {
            let result = match (&nodes[index], &alone[index]) {
                (Ok(_), Ok(alone)) => history
                    .node(index)
                    .and_then(|data| fleet.judged(&shared, training, backtest, data, alone)),
                (Err(error), _) | (_, Err(error)) => Err(Error::Setting(error.to_string())),
            };
            done();
            result
        };
        Compared::of(in_order(0..history.nodes(), backtest.threads, &judge))
    }

    /// The parameters of the shared network, and the steps of a node behind them.
    fn train(
        &self,
        fleet: &Fleet,
        training: &Training,
        backtest: &Backtest,
        count: usize,
        done: &dyn Fn(),
    ) -> Result<(Vec<f32>, usize)> {
        let model = training.network(fleet.places.len(), backtest.recipe.seed)?;
        let most = fleet.tables.iter().map(|t| t.0.len()).max().unwrap_or(0);
        let epoch = most.div_ceil(training.batch.max(1)).max(1);
        let steps = (training.passes(most) * epoch).div_ceil(self.rounds.max(1));
        let plan = Plan {
            loss: training.loss(),
            optimizer: training.constant(),
            batch: Some(training.batch.max(1)),
            itself: training.hide <= 0.0,
        };
        let settings = Settings {
            seed: backtest.recipe.seed,
            fraction: 1.0,
            epochs: Epochs::Fixed(steps.div_ceil(epoch)),
            steps: Some(steps),
            strategy: self.strategy.clone(),
            ..Settings::default()
        };
        let mut simulation = Simulation::new(fleet, &model, plan, settings, backtest.threads, None)?;
        let mut told = 0;
        for round in 1..=self.rounds.max(1) {
            simulation.round()?;
            while told * self.rounds.max(1) < round * count {
                done();
                told += 1;
            }
        }
        Ok((simulation.weights().to_vec(), steps * self.rounds.max(1)))
    }
}

fn training(recipe: &Recipe) -> Option<(&Training, View)> {
    match &recipe.members[..] {
        [only] => match &only.kind {
            Kind::Autoencoder(training) => Some((training, only.view)),
            _ => None,
        },
        _ => None,
    }
}

/// A node's rows to learn from.
struct Node {
    metrics: Vec<String>,
    rows: Rows,
}

impl Node {
    fn of(train: &Frame, recipe: &Recipe, view: View) -> Result<Node> {
        let healthy = healthy(train)?;
        let features = Features::fit(train, &recipe.features)?;
        let rows = features.view(&features.prepare(train), view);
        // As alone, the last windows are spared to see what errors on unseen ones are.
        let seen = learnt_from(rows.len(), recipe.unseen);
        let rows = rows.slice(0..seen).filter(&healthy[..seen]);
        if rows.is_empty() {
            return Err(Error::Node {
                node: train.node().to_owned(),
                problem: "none of the windows to train on is healthy; train on another or a longer time"
                    .into(),
            });
        }
        Ok(Node {
            metrics: features.names().map(str::to_owned).collect(),
            rows,
        })
    }
}

/// All nodes' rows in one width: what a node does not have is 0, the centre.
struct Fleet {
    places: BTreeMap<String, usize>,
    /// Every node's rows, and what the network sees of them if something is hidden.
    tables: Vec<(Rows, Option<Vec<f32>>)>,
}

impl Fleet {
    fn of<'a>(nodes: impl Iterator<Item = &'a Node> + Clone, training: &Training, seed: u64) -> Fleet {
        let names = nodes.clone().flat_map(|n| n.metrics.iter().cloned());
        let mut places: BTreeMap<String, usize> = names.map(|name| (name, 0)).collect();
        places.values_mut().enumerate().for_each(|(i, place)| *place = i);
        let mut tables = vec![];
        for (index, node) in nodes.enumerate() {
            let at: Vec<usize> = node.metrics.iter().map(|m| places[m]).collect();
            let mut values = vec![0.0; node.rows.len() * places.len()];
            for (wide, row) in values.chunks_exact_mut(places.len()).zip(node.rows.iter()) {
                at.iter()
                    .zip(row)
                    .for_each(|(place, value)| wide[*place] = *value);
            }
            let rows = Rows::new(places.len(), values);
            let seen = hide(&rows, training.hide, seed.wrapping_add(1000 * index as u64));
            tables.push((rows, seen));
        }
        Fleet { places, tables }
    }

    /// A node's test windows, judged by the shared network and its own errors beside those of the node alone.
    fn judged(
        &self,
        (parameters, steps): &(Vec<f32>, usize),
        training: &Training,
        backtest: &Backtest,
        (train, test, notes): (Frame, Frame, Vec<String>),
        alone: &NodeResult,
    ) -> Result<Judged> {
        let recipe = &backtest.recipe;
        let features = Features::fit(&train, &recipe.features)?;
        let places: Vec<usize> = features.names().map(|name| self.places[name]).collect();
        let healthy = healthy(&train)?;
        let habits = Habits::learn(&features.prepare(&train), &healthy, features.width());
        let fit: &mut Fit<'_> = &mut |_, _, rows, keep| {
            held_out(rows, keep, recipe.unseen, |rows, keep| {
                let network = Autoencoder::cut(training, self.places.len(), parameters, &places);
                Ok(Fitted::Autoencoder(network.trained(
                    training,
                    &rows.filter(keep),
                    *steps,
                )))
            })
        };
        let draft = Draft::fit(&train, recipe, features, habits, fit)?;
        let together = backtest.judge(draft.finish(None), &test, notes)?;
        let choice = Choice::by_record(test.node());
        Judged::by_record(backtest, [alone.clone(), together], choice, false, &test)
    }
}

impl Population for Fleet {
    fn clients(&self) -> u64 {
        self.tables.len() as u64
    }

    fn samples(&self, client: ClientId) -> u64 {
        self.tables.get(client.0 as usize).map_or(0, |t| t.0.len()) as u64
    }

    fn data(&self, client: ClientId) -> Data<'_> {
        let width = self.places.len();
        match self.tables.get(client.0 as usize) {
            Some((rows, Some(seen))) => Data::new(seen, width, rows.values(), width),
            Some((rows, None)) => Data::itself(rows.values(), width),
            None => Data::itself(&[], width),
        }
    }

    fn rows(&self, client: ClientId, rows: &mut Vec<u32>) {
        rows.clear();
        rows.extend(0..self.samples(client) as u32);
    }
}
