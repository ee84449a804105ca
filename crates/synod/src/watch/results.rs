//! What a run came to, for programs: `results.json`, and what `--json` prints.

use std::collections::BTreeMap;

use serde::Serialize;
use synod_evaluate::{Evaluation, Mean, Metrics};
use synod_fleet::Choice;

use super::table::{Arm, Comparison};

/// All of a run.
#[derive(Serialize)]
pub(super) struct Results<'a> {
    pub(super) name: &'a str,
    pub(super) seed: u64,
    pub(super) detector: &'a str,
    pub(super) split: &'a str,
    pub(super) label: &'a str,
    pub(super) arms: Vec<ArmResults<'a>>,
}

/// One arm.
#[derive(Serialize)]
pub(super) struct ArmResults<'a> {
    arm: &'a str,
    alarm: &'a str,
    /// The most steps that an optimiser took for a node.
    steps: usize,
    mean: &'a Mean,
    nodes: BTreeMap<&'a str, &'a Evaluation>,
    /// Why nodes were left out.
    failed: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Difference<'a>>,
    #[serde(skip_serializing_if = "<[Choice]>::is_empty")]
    choices: &'a [Choice],
}

/// What an arm has over another.
#[derive(Serialize)]
struct Difference<'a> {
    against: &'a str,
    mean: &'a Mean,
    /// Nodes whose F1 rose, and those whose F1 fell.
    better: usize,
    worse: usize,
    nodes: &'a BTreeMap<String, Metrics>,
}

impl<'a> ArmResults<'a> {
    /// Of an arm, with what it has over the one it is compared with.
    pub(super) fn of(arm: &'a Arm, comparisons: &'a [Comparison<'a>]) -> ArmResults<'a> {
        let nodes = &arm.outcome.nodes;
        let found = comparisons.iter().find(|c| std::ptr::eq(c.arm, arm));
        ArmResults {
            arm: &arm.name,
            alarm: &arm.alarm,
            steps: nodes.iter().map(|node| node.model.steps()).max().unwrap_or(0),
            mean: &arm.outcome.mean,
            nodes: nodes.iter().map(|n| (n.node.as_str(), &n.evaluation)).collect(),
            failed: arm.outcome.failed.iter().map(|(_, why)| why.as_str()).collect(),
            difference: found.map(|found| Difference {
                against: &found.against.name,
                mean: &found.mean,
                better: found.count(1.0),
                worse: found.count(-1.0),
                nodes: &found.differences,
            }),
            choices: &arm.choices,
        }
    }
}
