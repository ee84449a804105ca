//! Nodes that learn alone and nodes that learn together, side by side.

use anyhow::Result;
use serde::Deserialize;
use synod_detect::federated::{Choice, Keep, ROUNDS, Recent, compare, newcomers};
use synod_detect::{Backtest, History, Outcome};

use super::run::bar;
use super::table::Arm;

/// The `[federation]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FederationConfig {
    /// Which ways of learning are shown; the report and the stored detectors are those of the first.
    #[serde(default = "usual")]
    pub(crate) arms: Vec<Way>,
    /// Parts of the training windows that are learnt from: 4 is the last quarter.
    #[serde(default = "whole")]
    pub(crate) reduce: Vec<usize>,
    /// Days of history that every node in turn has when it joins the others.
    pub(crate) cold_start_days: Option<f64>,
}

/// How nodes learn.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// Alone.
    Local,
    /// With the others.
    Federated,
    /// As each node chooses on the last of its training windows.
    Personalised,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Local => "local",
            Way::Federated => "federated",
            Way::Personalised => "personalised",
        }
    }
}

fn usual() -> Vec<Way> {
    vec![Way::Local, Way::Federated, Way::Personalised]
}

fn whole() -> Vec<usize> {
    vec![1]
}

impl FederationConfig {
    /// What is wrong with it, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let twice = |i: usize| self.arms[..i].contains(&self.arms[i]);
        if self.arms.is_empty() || (0..self.arms.len()).any(twice) {
            return Some(
                "`arms` names each of \"local\", \"federated\", \"personalised\" at most once".to_owned(),
            );
        }
        if let Some(part) = self.reduce.iter().find(|p| !(1..=1000).contains(*p)) {
            return Some(format!("`reduce` holds whole numbers from 1 to 1000, not {part}"));
        }
        if self.reduce.is_empty() && self.cold_start_days.is_none() {
            return Some("`reduce` is empty; write [1] to learn from all training windows".to_owned());
        }
        let days = self.cold_start_days.filter(|d| !(*d > 0.0 && *d <= 3650.0));
        days.map(|d| format!("`cold_start_days` is a number of days above 0, not {d}"))
    }
}

/// Runs every way of learning at every size. `prefix` tells apart arms of several splits.
pub(crate) fn arms(
    config: &FederationConfig,
    backtest: &Backtest,
    nodes: &dyn History,
    prefix: &str,
) -> Result<Vec<Arm>> {
    let mut arms: Vec<Arm> = vec![];
    for part in &config.reduce {
        let size = match part {
            1 => String::new(),
            part => format!(" 1/{part}"),
        };
        // Pictures are for the whole history alone.
        let backtest = Backtest {
            evidence: backtest.evidence && arms.is_empty(),
            ..backtest.clone()
        };
        let history = Recent {
            history: nodes,
            keep: Keep::Part(*part),
        };
        let bar = bar(&format!("{prefix}federated{size}"), ROUNDS * nodes.nodes());
        let compared = compare(&backtest, &history, &|| bar.inc(1))?;
        bar.finish_and_clear();
        let mut outcomes = [
            (Way::Local, Some(compared.local)),
            (Way::Federated, Some(compared.federated)),
            (Way::Personalised, Some(compared.personalised)),
        ];
        let first = arms.len();
        for way in &config.arms {
            let outcome = outcomes
                .iter_mut()
                .find(|(w, _)| w == way)
                .and_then(|(_, o)| o.take());
            let Some(outcome) = outcome else {
                continue;
            };
            let choices = if *way == Way::Personalised {
                compared.choices.clone()
            } else {
                vec![]
            };
            arms.push(arm(
                format!("{prefix}{}{size}", way.name()),
                &backtest,
                outcome,
                choices,
            ));
        }
        against_local(&mut arms[first..], &config.arms, first);
    }
    if let Some(days) = config.cold_start_days {
        let keep = Keep::Seconds((days * 86_400.0) as i64);
        let bar = bar(&format!("{prefix}cold start"), ROUNDS * nodes.nodes());
        let quiet = Backtest {
            evidence: false,
            ..backtest.clone()
        };
        let (local, federated) = newcomers(&quiet, nodes, keep, &|| bar.inc(1))?;
        bar.finish_and_clear();
        let size = format!(" {days} d");
        let first = arms.len();
        arms.push(arm(format!("{prefix}local{size}"), backtest, local, vec![]));
        arms.push(arm(
            format!("{prefix}federated{size}"),
            backtest,
            federated,
            vec![],
        ));
        arms[first + 1].against = Some(first);
    }
    for (index, problem) in arms.first().map_or(&[][..], |a| &a.outcome.failed) {
        eprintln!("synod: federation: node {index} was left out: {problem}");
    }
    Ok(arms)
}

fn arm(name: String, backtest: &Backtest, outcome: Outcome, choices: Vec<Choice>) -> Arm {
    Arm {
        name,
        alarm: backtest.alarm.to_string(),
        outcome,
        against: None,
        choices,
    }
}

/// Every arm of a size is compared with the local one of that size.
fn against_local(arms: &mut [Arm], ways: &[Way], first: usize) {
    let Some(local) = ways.iter().position(|way| *way == Way::Local) else {
        return;
    };
    let others = arms.iter_mut().enumerate().filter(|(i, _)| *i != local);
    others.for_each(|(_, arm)| arm.against = Some(first + local));
}
