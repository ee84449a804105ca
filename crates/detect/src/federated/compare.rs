//! Nodes that learn alone beside nodes that learn together, on the same windows.

use serde::Serialize;
use synod_telemetry::{Frame, Truth};

use super::fleet::{Fleet, Learnt, Told, check};
use super::recent::Keep;
use super::trust::others_heard;
use crate::backtest::{Backtest, History, NodeResult, Outcome};
use crate::error::{Error, Result};
use crate::features::Scales;
use crate::model::{Draft, Found, NodeModel};
use crate::parallel::in_order;
use crate::recipe::Recipe;

/// How often a comparison goes through all nodes.
pub const ROUNDS: usize = 4;

/// Nodes whose answers wait in memory to be added in order: sums come out the same for any number of threads.
const WAITING: usize = 8;

/// What came of learning alone, together, and by each node's own choice between the two.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Every node alone.
    pub local: Outcome,
    /// Every node with the others.
    pub federated: Outcome,
    /// Every node as it chose.
    pub personalised: Outcome,
    /// The choices.
    pub choices: Vec<Choice>,
}

/// How a node chose.
///
/// On the last quarter of its own training time, without labels, it decides whether the others are of its kind: it learns
/// with them unless they make its windows, or those of most nodes, clearly harder to foretell. One that has just joined goes
/// by the others alone. One that learns with others has two detectors, and listens to its own until the others' has proven
/// better on its past windows, as far as it is known what these were. Who has just joined, or has no labels, listens to the
/// others from the first. With networks there is nothing to decide beforehand: a node listens to its own until the other has
/// proven better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The node.
    pub node: String,
    /// Whether it learns with others.
    pub federated: bool,
    /// How much better others let it foretell its windows, in log density per metric; of one that has just joined, how much
    /// better they do so for the middle of the others. With networks, 0: it is not measured.
    pub gain: f64,
    /// The share of the test windows in which it listened to the detector that it learnt with others.
    pub heard: f64,
}

/// A loss in log density per metric that is too small to tell nodes of another kind.
const TOLERATED: f64 = 0.015;

/// A node that has learnt both ways, before its scores are measured.
struct Both {
    alone: Draft,
    together: Learnt,
}

/// A node whose test windows were judged in every way.
pub(super) struct Judged {
    alone: NodeResult,
    together: NodeResult,
    chosen: NodeResult,
    choice: Choice,
}

/// Runs a backtest of both ways of learning. Calls `done` after every node of every round.
pub fn compare(backtest: &Backtest, history: &dyn History, done: &(dyn Fn() + Sync)) -> Result<Compared> {
    let gathering = Gathering::of(backtest, history, done)?;
    let mut fleet = Fleet::default();
    gathering.tell(&mut fleet);
    let drafts = gathering.drafts(&mut fleet);
    let middle = middle(&drafts, None);
    let judge = |index: usize| {
        let result = gathering.judged(&fleet, index, &drafts[index], middle);
        done();
        result
    };
    Compared::of(in_order(0..history.nodes(), backtest.threads, &judge))
}

/// Every node in turn as one that has just joined, with little history of its own and a fleet of all others: what it has
/// alone, what it has with them, and what it chooses. Calls `done` after every node of every round.
pub fn newcomers(
    backtest: &Backtest,
    history: &dyn History,
    keep: Keep,
    done: &(dyn Fn() + Sync),
) -> Result<Compared> {
    let gathering = Gathering::of(backtest, history, done)?;
    let mut fleet = Fleet::default();
    let scales = gathering.tell(&mut fleet);
    let drafts = gathering.drafts(&mut fleet);
    let join = |index: usize| {
        let joined = gathering.joined(&fleet, index, &scales[index], &drafts, keep);
        done();
        joined
    };
    Compared::of(in_order(0..history.nodes(), backtest.threads, &join))
}

impl Judged {
    /// Has a node listen to the detector that it learnt with others where that has proven better, `at_first` until then.
    pub(super) fn by_record(
        backtest: &Backtest,
        [alone, together]: [NodeResult; 2],
        mut choice: Choice,
        at_first: bool,
        test: &Frame,
    ) -> Result<Judged> {
        let heard = match choice.federated {
            true => others_heard(
                &alone.alarms,
                &together.alarms,
                test.truth(),
                test.step(),
                at_first,
            ),
            false => vec![false; test.rows()],
        };
        choice.heard = heard.iter().filter(|h| **h).count() as f64 / heard.len().max(1) as f64;
        Ok(Judged {
            chosen: backtest.by_turns([&alone, &together], &heard, test)?,
            alone,
            together,
            choice,
        })
    }
}

impl Compared {
    pub(super) fn of(judged: Vec<Result<Judged>>) -> Result<Compared> {
        let (mut local, mut federated, mut personalised, mut choices) = (vec![], vec![], vec![], vec![]);
        for one in judged {
            match one {
                Ok(node) => {
                    local.push(Ok(node.alone));
                    federated.push(Ok(node.together));
                    personalised.push(Ok(node.chosen));
                    choices.push(node.choice);
                }
                Err(error) => {
                    let again = |error: &Error| Err(Error::Setting(error.to_string()));
                    federated.push(again(&error));
                    personalised.push(again(&error));
                    local.push(Err(error));
                }
            }
        }
        Ok(Compared {
            local: Outcome::of(local)?,
            federated: Outcome::of(federated)?,
            personalised: Outcome::of(personalised)?,
            choices,
        })
    }
}

impl Choice {
    /// A node is measured by all others, not only by its like, so most of them must be of one kind and the node of it.
    fn of(node: &str, gain: f64, middle: f64) -> Choice {
        Choice {
            node: node.to_owned(),
            federated: gain.min(middle) > -TOLERATED,
            gain,
            heard: 0.0,
        }
    }

    /// Of a node that goes by its record alone.
    pub(super) fn by_record(node: &str) -> Choice {
        Choice {
            node: node.to_owned(),
            federated: true,
            gain: 0.0,
            heard: 0.0,
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

/// The rounds in which nodes tell.
struct Gathering<'a> {
    backtest: &'a Backtest,
    history: &'a dyn History,
    done: &'a (dyn Fn() + Sync),
}

impl<'a> Gathering<'a> {
    fn of(
        backtest: &'a Backtest,
        history: &'a dyn History,
        done: &'a (dyn Fn() + Sync),
    ) -> Result<Gathering<'a>> {
        check(&backtest.recipe)?;
        Ok(Gathering {
            backtest,
            history,
            done,
        })
    }

    fn recipe(&self) -> &Recipe {
        &self.backtest.recipe
    }

    fn train(&self, index: usize) -> Result<Frame> {
        self.history.node(index).map(|(train, ..)| train)
    }

    /// Asks every node, and takes in the answers in order. A node that cannot answer is left out; it will say why when it
    /// is to learn.
    fn ask<T: Send>(&self, question: impl Fn(usize) -> Result<T> + Sync, mut take: impl FnMut(Option<T>)) {
        let count = self.history.nodes();
        let step = self.backtest.threads.clamp(1, WAITING) * 2;
        for from in (0..count).step_by(step) {
            let ask = |index: usize| {
                let answer = question(index).ok();
                (self.done)();
                answer
            };
            let answers = in_order(from..(from + step).min(count), self.backtest.threads, &ask);
            answers.into_iter().for_each(&mut take);
        }
    }

    /// The first two rounds.
    fn tell(&self, fleet: &mut Fleet) -> Vec<Option<Scales>> {
        let mut scales = vec![];
        self.ask(
            |index| Fleet::introduce(&self.train(index)?, self.recipe()),
            |answer| scales.push(answer),
        );
        scales.iter().flatten().for_each(|s| fleet.add_scales(s));
        let known = fleet.clone();
        self.ask(
            |index| known.describe(&self.train(index)?, self.recipe()),
            |answer| answer.iter().for_each(|shape| fleet.add_shape(shape)),
        );
        scales
    }

    /// The last two rounds: nodes learn both ways, and tell what their scores are.
    fn drafts(&self, fleet: &mut Fleet) -> Vec<Result<Both>> {
        let learn = |index: usize| {
            let train = self.train(index)?;
            let shape = fleet.describe(&train, self.recipe())?;
            let both = Both {
                alone: NodeModel::draft(&train, self.recipe())?,
                together: fleet.learn(&train, self.recipe(), Some(&shape))?,
            };
            (self.done)();
            Ok(both)
        };
        let drafts = in_order(0..self.history.nodes(), self.backtest.threads, &learn);
        for both in drafts.iter().flatten() {
            fleet.add_members(&both.together.draft.members());
        }
        let units: Vec<_> = drafts
            .iter()
            .flatten()
            .map(|both| self.unit(fleet, both))
            .collect();
        units.iter().for_each(|unit| fleet.add_unit(unit));
        drafts
    }

    fn unit(&self, fleet: &Fleet, both: &Both) -> Found {
        let marks = fleet.marks(&both.together);
        both.together.draft.unit(Some(&marks))
    }

    /// Judges a node's test windows in every way.
    fn judged(&self, fleet: &Fleet, index: usize, both: &Result<Both>, middle: f64) -> Result<Judged> {
        let both = both.as_ref().map_err(|e| Error::Setting(e.to_string()))?;
        let (train, test, notes) = self.history.node(index)?;
        let marks = fleet.marks(&both.together);
        let choice = Choice::of(test.node(), both.together.gain, middle);
        let local = both.alone.clone().finish(None);
        let federated = both.together.draft.clone().finish(Some(&marks));
        let labelled = train.truth().iter().any(|t| *t != Truth::Unknown);
        let results = [
            self.backtest.judge(local, &test, notes.clone())?,
            self.backtest.judge(federated, &test, notes)?,
        ];
        Judged::by_record(self.backtest, results, choice, !labelled, &test)
    }

    /// Judges a node that has just joined in every way. Its own windows are too few to try others on, so it goes by what the
    /// others gain from each other.
    fn joined(
        &self,
        fleet: &Fleet,
        index: usize,
        scales: &Option<Scales>,
        drafts: &[Result<Both>],
        keep: Keep,
    ) -> Result<Judged> {
        let both = drafts[index]
            .as_ref()
            .map_err(|e| Error::Setting(e.to_string()))?;
        let (train, test, notes) = self.history.node(index)?;
        let told = Told {
            scales: scales.clone().unwrap_or_default(),
            members: both.together.draft.members(),
            unit: self.unit(fleet, both),
        };
        let others = fleet.without(&told, &fleet.describe(&train, self.recipe())?);
        let short = keep.of(&train);
        let local = NodeModel::fit(&short, self.recipe())?;
        let federated = others.welcome(&short, self.recipe())?;
        let middle = middle(drafts, Some(index));
        let results = [
            self.backtest.judge(local, &test, notes.clone())?,
            self.backtest.judge(federated, &test, notes)?,
        ];
        let choice = Choice::of(test.node(), middle, middle);
        Judged::by_record(self.backtest, results, choice, true, &test)
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
