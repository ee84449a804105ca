//! Nodes that train one network together, by averaging: what leaves a node is what its steps changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_core::Frame;
use synod_core::parallel::in_order;
use synod_detect::detector::{Autoencoder, Fitted, Kind, Training, held_out, hide, learnt_from};
use synod_detect::features::{Features, View};
use synod_detect::learning::{Draft, Fit, Habits, healthy};
use synod_detect::{History, Learner, NodeModel, Recipe, Rows};
use synod_federate::simulate::{Epochs, Population, Simulation, SimulationSettings};
use synod_federate::strategy;
use synod_federate::{ClientId, Plan};
use synod_nn::Data;

use crate::error::{Error, Result};

/// How nodes train a network together.
#[derive(Clone, Debug, PartialEq)]
pub struct Averaging {
    /// What is made of the nodes' updates.
    pub strategy: strategy::StrategyChoice,
    /// Rounds among which the steps that a node would take alone are divided.
    pub rounds: usize,
}

impl Averaging {
    /// Whether a recipe is one network that can be averaged.
    pub fn suits(recipe: &Recipe) -> bool {
        training(recipe).is_some()
    }

    /// Has the nodes of a history train one network together, with as many steps as a node would take alone. All nodes'
    /// training windows are in memory. Calls `done` [`super::ROUNDS`] times per node.
    pub fn gather(
        &self,
        recipe: &Recipe,
        history: &dyn History,
        threads: usize,
        done: &(dyn Fn() + Sync),
    ) -> Result<Averaged> {
        let Some((training, view)) = training(recipe) else {
            return Err(Error::NotOneNetwork);
        };
        let prepare = |index: usize| {
            let history = history.node(index).map_err(Error::from);
            let node = history.and_then(|(train, ..)| Node::of(&train, recipe, view));
            done();
            node
        };
        let nodes = in_order(0..history.nodes(), threads, prepare);
        let tables = Tables::of(nodes.iter().flatten(), training, recipe.seed);
        let done = || (1..super::ROUNDS).for_each(|_| done());
        let (parameters, steps) =
            self.train(&tables, training, recipe.seed, threads, history.nodes(), &done)?;
        Ok(Averaged {
            recipe: recipe.clone(),
            training: training.clone(),
            places: tables.places,
            parameters,
            steps,
        })
    }

    /// The parameters of the shared network, and the steps of a node behind them.
    fn train(
        &self,
        tables: &Tables,
        training: &Training,
        seed: u64,
        threads: usize,
        count: usize,
        done: &dyn Fn(),
    ) -> Result<(Vec<f32>, usize)> {
        let model = training.network(tables.places.len(), seed)?;
        let most = tables.tables.iter().map(|t| t.0.len()).max().unwrap_or(0);
        let epoch = most.div_ceil(training.batch.max(1)).max(1);
        let steps = (training.passes(most) * epoch).div_ceil(self.rounds.max(1));
        let plan = Plan {
            loss: training.loss(),
            optimizer: training.constant(),
            batch: Some(training.batch.max(1)),
            itself: training.hide <= 0.0,
        };
        let settings = SimulationSettings {
            seed,
            fraction: 1.0,
            epochs: Epochs::Fixed(steps.div_ceil(epoch)),
            steps: Some(steps),
            strategy: self.strategy.clone(),
            ..SimulationSettings::default()
        };
        let mut simulation = Simulation::new(tables, &model, plan, settings, threads, None)?;
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
struct Tables {
    places: BTreeMap<String, usize>,
    /// Every node's rows, and what the network sees of them if something is hidden.
    tables: Vec<(Rows, Option<Vec<f32>>)>,
}

impl Tables {
    fn of<'a>(nodes: impl Iterator<Item = &'a Node> + Clone, training: &Training, seed: u64) -> Tables {
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
        Tables { places, tables }
    }
}

/// A network that nodes have trained together.
///
/// As a [`Learner`] it gives each node two: the network that it trained alone, and the shared one, which measures the node's errors
/// by its own.
pub struct Averaged {
    recipe: Recipe,
    training: Training,
    places: BTreeMap<String, usize>,
    parameters: Vec<f32>,
    steps: usize,
}

impl Averaged {
    fn shared(&self, train: &Frame) -> Result<NodeModel> {
        let recipe = &self.recipe;
        let features = Features::fit(train, &recipe.features)?;
        let places: Option<Vec<usize>> = features
            .names()
            .map(|name| self.places.get(name).copied())
            .collect();
        let places = places.ok_or_else(|| Error::Node {
            node: train.node().to_owned(),
            problem: "it has metrics that it had not when the network was trained; train it anew".into(),
        })?;
        let habits = Habits::learn(&features.prepare(train), &healthy(train)?, features.width());
        let fit: &mut Fit<'_> = &mut |_, _, rows, keep| {
            held_out(rows, keep, recipe.unseen, |rows, keep| {
                let network = Autoencoder::cut(&self.training, self.places.len(), &self.parameters, &places);
                let network = network.trained(&self.training, &rows.filter(keep), self.steps);
                Ok(Fitted::Autoencoder(network))
            })
        };
        Ok(Draft::fit(train, recipe, features, habits, fit)?.finish(None))
    }
}

impl Learner for Averaged {
    fn learn(&self, index: usize, train: &Frame) -> synod_detect::Result<Vec<Arc<NodeModel>>> {
        let alone = NodeModel::fit(train, &self.recipe.of_node(index))?;
        Ok(vec![Arc::new(alone), Arc::new(self.shared(train)?)])
    }
}

impl Population for Tables {
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
