//! Nodes that learn alone and nodes that learn together, side by side.

use anyhow::Result;
use serde::Deserialize;
use synod_detect::{History, Keep, Learner, Recipe};
use synod_evaluate::{Backtest, Outcome, Recent};
use synod_federate::strategy;
use synod_fleet::{Averaging, Choice, ROUNDS, Together};

use super::progress::Progress;
use super::table::Arm;

/// The `[federation]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FederationConfig {
    /// Which ways of learning are shown; the report and the stored detectors are those of the first. All unless given.
    pub(crate) arms: Option<Vec<Way>>,
    /// Parts of the training windows that are learnt from: 4 is the last quarter.
    #[serde(default = "whole")]
    pub(crate) reduce: Vec<usize>,
    /// Days of history that every node in turn has when it joins the others.
    pub(crate) cold_start_days: Option<f64>,
    /// What is made of networks that nodes trained.
    pub(crate) strategy: Option<strategy::StrategyChoice>,
    /// Rounds among which a network's steps are divided.
    pub(crate) rounds: Option<usize>,
}

/// Rounds of averaging unless given.
const ROUNDS_OF_NETWORKS: usize = 100;

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

fn whole() -> Vec<usize> {
    vec![1]
}

impl FederationConfig {
    /// The ways that are shown. There is no choice between networks.
    fn ways(&self, recipe: &Recipe) -> Vec<Way> {
        let all = || match Averaging::suits(recipe) {
            true => vec![Way::Local, Way::Federated],
            false => vec![Way::Local, Way::Federated, Way::Personalised],
        };
        self.arms.clone().unwrap_or_else(all)
    }

    /// What is wrong with it for a recipe, if anything.
    pub(crate) fn problem(&self, recipe: &Recipe) -> Option<String> {
        let network = Averaging::suits(recipe);
        if network && self.cold_start_days.is_some() {
            return Some(
                "`cold_start_days` is for detectors that are fitted from sums, not for networks".into(),
            );
        }
        if !network && (self.rounds.is_some() || self.strategy.is_some()) {
            return Some(
                "`rounds` and `strategy` are for networks; other detectors are fitted from sums".into(),
            );
        }
        if let Some(rounds) = self.rounds.filter(|r| !(1..=100_000).contains(r)) {
            return Some(format!(
                "`rounds` is a whole number from 1 to 100000, not {rounds}"
            ));
        }
        let arms = self.ways(recipe);
        if network && arms.contains(&Way::Personalised) {
            return Some("nodes choose between detectors that are fitted from sums, not between networks; leave \"personalised\" out".into());
        }
        let twice = |i: usize| arms[..i].contains(&arms[i]);
        if arms.is_empty() || (0..arms.len()).any(twice) {
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
    recipe: &Recipe,
    backtest: &Backtest,
    nodes: &dyn History,
    prefix: &str,
) -> Result<Vec<Arm>> {
    let ways = config.ways(recipe);
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
        let progress = Progress::new(&format!("{prefix}federated{size}"), (ROUNDS + 1) * nodes.nodes());
        let done = || progress.step();
        let learnt = learnt(config, recipe, &backtest, &history, &done)?;
        progress.finish();
        add(&mut arms, learnt, &ways, &backtest, (prefix, &size));
    }
    if let Some(days) = config.cold_start_days {
        let keep = Keep::Seconds((days * 86_400.0) as i64);
        let progress = Progress::new(&format!("{prefix}cold start"), (ROUNDS + 1) * nodes.nodes());
        let done = || progress.step();
        let quiet = Backtest {
            evidence: false,
            ..backtest.clone()
        };
        let together = Together::gather(recipe, nodes, backtest.threads, &done)?;
        let joining = together.newcomers(keep);
        let joined = (judged(&quiet, nodes, &joining, &done)?, joining.choices());
        progress.finish();
        add(&mut arms, joined, &ways, &quiet, (prefix, &format!(" {days} d")));
    }
    for (index, problem) in arms.first().map_or(&[][..], |a| &a.outcome.failed) {
        eprintln!("synod: federation: node {index} was left out: {problem}");
    }
    Ok(arms)
}

/// What every way of learning comes to, and how nodes chose between them.
type Learnt = (Vec<(Way, Outcome)>, Vec<Choice>);

/// Learns in every way.
fn learnt(
    config: &FederationConfig,
    recipe: &Recipe,
    backtest: &Backtest,
    history: &dyn History,
    done: &(dyn Fn() + Sync),
) -> Result<Learnt> {
    if Averaging::suits(recipe) {
        let averaging = Averaging {
            strategy: config.strategy.clone().unwrap_or_default(),
            rounds: config.rounds.unwrap_or(ROUNDS_OF_NETWORKS),
        };
        let averaged = averaging.gather(recipe, history, backtest.threads, done)?;
        return Ok((judged(backtest, history, &averaged, done)?, vec![]));
    }
    let together = Together::gather(recipe, history, backtest.threads, done)?;
    Ok((judged(backtest, history, &together, done)?, together.choices()))
}

/// What a learner's ways come to: alone, together and, if there is a third, as nodes choose.
fn judged(
    backtest: &Backtest,
    history: &dyn History,
    learner: &dyn Learner,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<(Way, Outcome)>> {
    let ways = [Way::Local, Way::Federated, Way::Personalised];
    Ok(ways
        .into_iter()
        .zip(backtest.run(history, learner, done)?)
        .collect())
}

/// Adds an arm for every way of learning that is shown, each compared with the local one of its size.
fn add(
    arms: &mut Vec<Arm>,
    (mut outcomes, choices): Learnt,
    ways: &[Way],
    backtest: &Backtest,
    (prefix, size): (&str, &str),
) {
    let first = arms.len();
    for way in ways {
        let Some(at) = outcomes.iter().position(|(w, _)| w == way) else {
            continue;
        };
        let choices = match way {
            Way::Personalised => choices.clone(),
            _ => vec![],
        };
        let outcome = outcomes.swap_remove(at).1;
        let name = format!("{prefix}{}{size}", way.name());
        arms.push(arm(name, backtest, outcome, choices));
    }
    against_local(&mut arms[first..], ways, first);
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
