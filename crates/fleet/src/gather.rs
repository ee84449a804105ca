//! Nodes that learn alone beside nodes that learn together, on the same windows.

use std::sync::Arc;

use serde::Serialize;
use synod_core::Frame;
use synod_core::parallel::in_order;
use synod_detect::learning::{Draft, Found};
use synod_detect::{History, Keep, Learner, NodeModel, Recipe};

use crate::error::{Error, Result};
use crate::fleet::{Fleet, Learnt, Told, check};
use crate::scales::Scales;

/// How often nodes are gone through before they are judged.
pub const ROUNDS: usize = 3;

/// Nodes whose answers wait in memory to be added in order: sums come out the same for any number of threads.
const WAITING: usize = 8;

/// How a node chose.
///
/// On the last quarter of its own training time, without labels, it decides whether the others are of its kind: it learns
/// with them unless they make its windows, or those of most nodes, clearly harder to foretell. One that has just joined goes
/// by the others alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The node.
    pub node: String,
    /// Whether it learns with others.
    pub federated: bool,
    /// How much better others let it foretell its windows, in log density per metric; of one that has just joined, how much
    /// better they do so for the middle of the others.
    pub gain: f64,
}

/// A loss in log density per metric that is too small to tell nodes of another kind.
const TOLERATED: f64 = 0.015;

/// A node that has learnt both ways, before its scores are measured.
struct Both {
    node: String,
    alone: Draft,
    together: Learnt,
}

/// Nodes that have told each other what they know.
///
/// As a [`Learner`] it gives each node three detectors: what it learnt alone, what it learnt with the others, and the one of
/// the two that it chose.
pub struct Together {
    recipe: Recipe,
    fleet: Fleet,
    scales: Vec<Option<Scales>>,
    drafts: Vec<Result<Both>>,
    middle: f64,
}

impl Together {
    /// Has the nodes of a history tell in rounds. Calls `done` [`ROUNDS`] times per node.
    pub fn gather(
        recipe: &Recipe,
        history: &dyn History,
        threads: usize,
        done: &(dyn Fn() + Sync),
    ) -> Result<Together> {
        check(recipe)?;
        let gathering = Gathering {
            recipe,
            history,
            threads,
            done,
        };
        let mut fleet = Fleet::default();
        let scales = gathering.tell(&mut fleet);
        let drafts = gathering.drafts(&mut fleet);
        Ok(Together {
            recipe: recipe.clone(),
            middle: middle(&drafts, None),
            fleet,
            scales,
            drafts,
        })
    }

    /// How nodes chose, in order, but for those that could not be learnt.
    pub fn choices(&self) -> Vec<Choice> {
        let learnt = self.drafts.iter().flatten();
        learnt
            .map(|both| Choice::of(&both.node, both.together.gain, self.middle))
            .collect()
    }

    /// The same nodes in turn as ones that have just joined, with so much history of their own and a fleet of all others.
    pub fn newcomers(&self, keep: Keep) -> Newcomers<'_> {
        Newcomers { fleet: self, keep }
    }

    fn both(&self, index: usize) -> Result<&Both> {
        let draft = self.drafts.get(index).ok_or(Error::NoNode(index))?;
        draft.as_ref().map_err(|e| Error::NotLearnt(e.to_string()))
    }
}

impl Learner for Together {
    fn learn(&self, index: usize, _: &Frame) -> synod_detect::Result<Vec<Arc<NodeModel>>> {
        let both = self.both(index)?;
        let marks = self.fleet.marks(&both.together);
        let alone = both.alone.clone().finish(None);
        let together = both.together.draft.clone().finish(Some(&marks));
        let choice = Choice::of(&both.node, both.together.gain, self.middle);
        Ok(three(alone, together, &choice))
    }
}

/// Nodes that have just joined: a [`Learner`] of the same three detectors.
pub struct Newcomers<'a> {
    fleet: &'a Together,
    keep: Keep,
}

impl Newcomers<'_> {
    /// How nodes chose, in order, but for those that could not be learnt. Their own windows are too few to try others on, so
    /// they go by what the others gain from each other.
    pub fn choices(&self) -> Vec<Choice> {
        let nodes = self.fleet.drafts.iter().enumerate();
        let choice = |(index, both): (usize, &Result<Both>)| {
            let both = both.as_ref().ok()?;
            Some(self.choice(index, both))
        };
        nodes.filter_map(choice).collect()
    }

    fn choice(&self, index: usize, both: &Both) -> Choice {
        let middle = middle(&self.fleet.drafts, Some(index));
        Choice::of(&both.node, middle, middle)
    }
}

impl Learner for Newcomers<'_> {
    fn learn(&self, index: usize, train: &Frame) -> synod_detect::Result<Vec<Arc<NodeModel>>> {
        let Together {
            recipe,
            fleet,
            scales,
            ..
        } = self.fleet;
        let both = self.fleet.both(index)?;
        let told = Told {
            scales: scales[index].clone().unwrap_or_default(),
            members: both.together.draft.members(),
            unit: unit(fleet, both),
        };
        let others = fleet.without(&told, &fleet.describe(train, recipe)?);
        let short = self.keep.of(train);
        let alone = NodeModel::fit(&short, recipe)?;
        let together = others.welcome(&short, recipe)?;
        Ok(three(alone, together, &self.choice(index, both)))
    }
}

fn three(alone: NodeModel, together: NodeModel, choice: &Choice) -> Vec<Arc<NodeModel>> {
    let (alone, together) = (Arc::new(alone), Arc::new(together));
    let chosen = if choice.federated { &together } else { &alone };
    vec![alone.clone(), together.clone(), chosen.clone()]
}

impl Choice {
    /// A node is measured by all others, not only by its like, so most of them must be of one kind and the node of it.
    fn of(node: &str, gain: f64, middle: f64) -> Choice {
        Choice {
            node: node.to_owned(),
            federated: gain.min(middle) > -TOLERATED,
            gain,
        }
    }
}

/// The middle of what nodes gain in log density, but for one of them; without nodes, a loss.
fn middle(drafts: &[Result<Both>], but: Option<usize>) -> f64 {
    let others = drafts.iter().enumerate().filter(|(i, _)| Some(*i) != but);
    let gain = |(_, both): (usize, &Result<Both>)| both.as_ref().ok().map(|both| both.together.gain);
    middle_of(others.filter_map(gain).collect())
}

fn middle_of(mut gains: Vec<f64>) -> f64 {
    gains.sort_by(f64::total_cmp);
    gains.get(gains.len() / 2).copied().unwrap_or(f64::NEG_INFINITY)
}

/// What a node's scores are, with the others' word on its members.
fn unit(fleet: &Fleet, both: &Both) -> Found {
    let marks = fleet.marks(&both.together);
    both.together.draft.unit(Some(&marks))
}

/// The rounds in which nodes tell.
struct Gathering<'a> {
    recipe: &'a Recipe,
    history: &'a dyn History,
    threads: usize,
    done: &'a (dyn Fn() + Sync),
}

impl Gathering<'_> {
    fn train(&self, index: usize) -> Result<Frame> {
        let (train, ..) = self.history.node(index)?;
        Ok(train)
    }

    /// Asks every node, and takes in the answers in order. A node that cannot answer is left out; it will say why when it
    /// is to learn.
    fn ask<T: Send>(&self, question: impl Fn(usize) -> Result<T> + Sync, mut take: impl FnMut(Option<T>)) {
        let count = self.history.nodes();
        let step = self.threads.clamp(1, WAITING) * 2;
        for from in (0..count).step_by(step) {
            let ask = |index: usize| {
                let answer = question(index).ok();
                (self.done)();
                answer
            };
            let answers = in_order(from..(from + step).min(count), self.threads, ask);
            answers.into_iter().for_each(&mut take);
        }
    }

    /// The first two rounds.
    fn tell(&self, fleet: &mut Fleet) -> Vec<Option<Scales>> {
        let mut scales = vec![];
        self.ask(
            |index| Fleet::introduce(&self.train(index)?, self.recipe),
            |answer| scales.push(answer),
        );
        scales.iter().flatten().for_each(|s| fleet.add_scales(s));
        let known = fleet.clone();
        self.ask(
            |index| known.describe(&self.train(index)?, self.recipe),
            |answer| answer.iter().for_each(|shape| fleet.add_shape(shape)),
        );
        scales
    }

    /// The last two rounds: nodes learn both ways, and tell what their scores are.
    fn drafts(&self, fleet: &mut Fleet) -> Vec<Result<Both>> {
        let learn = |index: usize| {
            let train = self.train(index)?;
            let shape = fleet.describe(&train, self.recipe)?;
            let both = Both {
                node: train.node().to_owned(),
                alone: NodeModel::draft(&train, self.recipe)?,
                together: fleet.learn(&train, self.recipe, Some(&shape))?,
            };
            (self.done)();
            Ok(both)
        };
        let drafts = in_order(0..self.history.nodes(), self.threads, learn);
        for both in drafts.iter().flatten() {
            fleet.add_members(&both.together.draft.members());
        }
        let units: Vec<_> = drafts.iter().flatten().map(|both| unit(fleet, both)).collect();
        units.iter().for_each(|unit| fleet.add_unit(unit));
        drafts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_learn_together_if_most_are_of_one_kind_and_they_are_of_it() {
        let (like, unlike) = (0.1, -0.1);
        let chosen = |gain, others: &[f64]| Choice::of("n", gain, middle_of(others.to_vec())).federated;
        assert!(chosen(like, &[like, unlike, like]) && !chosen(like, &[unlike, like, unlike]));
        assert!(chosen(-0.5 * TOLERATED, &[like]) && !chosen(unlike, &[like]));
        assert!(!chosen(like, &[]), "nobody to be like");
    }
}
