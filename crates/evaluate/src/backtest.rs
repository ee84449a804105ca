//! A detector against a site's own history.

use std::sync::Arc;

use synod_core::parallel::in_order;
use synod_core::{Dropped, Frame, Truth};
use synod_detect::{
    Alarm, AlarmBudget, Calibrator, Change, Episodes, History, Learner, NodeModel, ONE_EVENT,
};

use crate::bootstrap::{Bootstrap, intervals_over_nodes};
use crate::error::{Error, Result};
use crate::evaluation::{Evaluation, Scored, Settings, evaluate};
use crate::evidence::Evidence;
use crate::mean::{Mean, mean};

/// How alarms are raised and judged in a backtest.
#[derive(Clone, Debug, PartialEq)]
pub struct Backtest {
    /// What alarms may cost.
    pub alarm: AlarmBudget,
    /// Threads; nodes are shared among them.
    pub threads: usize,
    /// Whether to keep what a report shows of nodes with alarms.
    pub evidence: bool,
}

/// What a backtest found of one node.
#[derive(Clone, Debug)]
pub struct NodeResult {
    /// The node.
    pub node: String,
    /// The figures, if there are labels.
    pub evaluation: Evaluation,
    /// The fitted detector.
    pub model: Arc<NodeModel>,
    /// Starts of the test windows.
    pub times: Vec<i64>,
    /// Their scores.
    pub scores: Vec<f32>,
    /// The threshold at each of them.
    pub thresholds: Vec<f32>,
    /// Whether an alarm stood.
    pub alarms: Vec<bool>,
    /// What is known of them.
    pub truth: Vec<Truth>,
    /// The alarms, in order of time.
    pub events: Vec<Alarm>,
    /// What shows why, if it was asked for and there are alarms.
    pub evidence: Option<Evidence>,
    /// Metrics that were not used.
    pub dropped: Vec<Dropped>,
    /// What a reader should know of how its data were read.
    pub notes: Vec<String>,
}

/// A backtest of all nodes.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The mean of the figures over nodes.
    pub mean: Mean,
    /// One result per node, in the order of the history.
    pub nodes: Vec<Arc<NodeResult>>,
    /// Nodes that could not be learnt, with the reasons.
    pub failed: Vec<(usize, String)>,
}

/// Fewer nodes than this are too few to draw from.
const FEWEST_DRAWN: usize = 3;

impl Backtest {
    /// Has every node learnt, scores its test windows and compares the alarms with the labels; the outcome of every way of
    /// learning, in the learner's order. Calls `done` after every node. A node that cannot be learnt is reported and does not
    /// stop the others.
    pub fn run(
        &self,
        history: &dyn History,
        learner: &dyn Learner,
        done: &(dyn Fn() + Sync),
    ) -> Result<Vec<Outcome>> {
        let one = |index: usize| {
            let data = history.node(index).map_err(Error::from);
            let results = data.and_then(|data| self.node(learner, index, data));
            done();
            results
        };
        let nodes = in_order(0..history.nodes(), self.threads, one);
        let ways = nodes.iter().flatten().map(Vec::len).next().unwrap_or(1);
        let of_way = |way: usize| {
            nodes.iter().map(move |node| match node {
                Ok(results) => results
                    .get(way)
                    .cloned()
                    .ok_or_else(|| "nodes were learnt in different numbers of ways".to_owned()),
                Err(error) => Err(error.to_string()),
            })
        };
        (0..ways).map(|way| Outcome::of(of_way(way).collect())).collect()
    }

    fn node(
        &self,
        learner: &dyn Learner,
        index: usize,
        (train, test, notes): (Frame, Frame, Vec<String>),
    ) -> Result<Vec<Arc<NodeResult>>> {
        let mut judged: Vec<Arc<NodeResult>> = vec![];
        for model in learner.learn(index, &train)? {
            // Ways that agree on a node are judged once.
            let known = judged
                .iter()
                .find(|result| Arc::ptr_eq(&result.model, &model))
                .cloned();
            judged.push(match known {
                Some(result) => result,
                None => Arc::new(self.judge(model, &test, notes.clone())?),
            });
        }
        Ok(judged)
    }

    /// Scores a node's test windows and compares the alarms with the labels.
    fn judge(&self, model: Arc<NodeModel>, test: &Frame, notes: Vec<String>) -> Result<NodeResult> {
        let policy = Calibrator::new(model.reference(), self.alarm, model.step());
        let mut episodes = Episodes::new(test.node(), policy);
        let (mut scores, mut thresholds, mut alarms, mut events) = (vec![], vec![], vec![], vec![]);
        model.watch(test, &mut |scored| {
            let change = episodes.push(scored);
            let verdict = episodes.verdict();
            scores.push(scored.score);
            thresholds.push(verdict.threshold);
            alarms.push(verdict.alarm);
            if let Some(Change::Closed(alarm)) = change {
                events.push(alarm);
            }
        });
        events.extend(episodes.open().cloned());
        events
            .iter_mut()
            .for_each(|alarm| alarm.confirmed = confirmed(alarm, test));
        let evaluation = evaluation(&scores, &alarms, test)?;
        let evidence =
            (self.evidence && !events.is_empty()).then(|| Evidence::of(&model, test, &scores, &events));
        Ok(NodeResult {
            evidence,
            node: test.node().to_owned(),
            evaluation,
            dropped: model.features().dropped(),
            model,
            times: test.times().to_vec(),
            scores,
            thresholds,
            alarms,
            truth: test.truth().to_vec(),
            events,
            notes,
        })
    }
}

/// What alarms are worth, those less than an hour apart taken as one.
fn evaluation(scores: &[f32], alarms: &[bool], test: &Frame) -> Result<Evaluation> {
    let merge = (ONE_EVENT / test.step().max(1)).max(1) as usize;
    let scored = Scored {
        scores,
        alarms,
        truth: test.truth(),
        step: test.step(),
    };
    let settings = Settings {
        merge: merge + 1,
        ..Settings::default()
    };
    evaluate(&scored, &settings)
}

impl Outcome {
    /// Gathers results of nodes in order; an error if there is none at all.
    fn of(results: Vec<Result<Arc<NodeResult>, String>>) -> Result<Outcome> {
        let (mut nodes, mut failed) = (vec![], vec![]);
        for (index, result) in results.into_iter().enumerate() {
            match result {
                Ok(node) => nodes.push(node),
                Err(problem) => failed.push((index, problem)),
            }
        }
        if nodes.is_empty() {
            let first = failed.first().map_or("there are no nodes", |(_, e)| e.as_str());
            return Err(Error::NothingLearnt(first.to_owned()));
        }
        let figures: Vec<_> = nodes.iter().map(|n| n.evaluation.metrics).collect();
        let mut mean = mean(&figures);
        if figures.len() >= FEWEST_DRAWN {
            mean.intervals = intervals_over_nodes(&figures, &Bootstrap::default());
        }
        Ok(Outcome { mean, nodes, failed })
    }
}

/// Whether an alarm overlaps windows that are labelled anomalous; none if nothing is known of its windows.
fn confirmed(alarm: &Alarm, test: &Frame) -> Option<bool> {
    let place = |time: i64| test.times().partition_point(|t| *t < time);
    let truth = &test.truth()[place(alarm.from)..place(alarm.to)];
    let known = truth.iter().any(|t| *t != Truth::Unknown);
    known.then(|| truth.contains(&Truth::Anomalous))
}
