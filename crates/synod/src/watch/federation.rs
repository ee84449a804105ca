//! Nodes that learn alone and nodes that learn together, side by side.

use anyhow::Result;
use synod_core::time::Duration;
use synod_detect::{History, Keep, Learner, Recipe};
use synod_evaluate::{Backtest, Outcome, Recent};
use synod_fleet::{Averaging, Choice, ROUNDS, Together, Way, WaysOfLearning};
use synod_runs::NodeModels;

use super::kept::Kept;
use super::progress::Progress;
use super::table::Arm;

/// Runs every way of learning at every size. `prefix` tells apart arms of several splits.
pub(crate) fn arms(
    config: &WaysOfLearning,
    recipe: &Recipe,
    backtest: &Backtest,
    nodes: &dyn History,
    prefix: &str,
    models: Option<&NodeModels<'_>>,
) -> Result<Vec<Arm>> {
    let ways = config.ways(recipe);
    // Those of the first arm are kept.
    let kept = |arms: &[Arm]| Some((models.filter(|_| arms.is_empty())?, *ways.first()?));
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
        let learnt = learnt(config, recipe, &backtest, &history, &done, kept(&arms))?;
        progress.finish();
        add(&mut arms, learnt, &ways, &backtest, (prefix, &size));
    }
    if let Some(time) = config.cold_start {
        let keep = Keep::Seconds(time.whole_seconds());
        let progress = Progress::new(&format!("{prefix}cold start"), (ROUNDS + 1) * nodes.nodes());
        let done = || progress.step();
        let quiet = Backtest {
            evidence: false,
            ..backtest.clone()
        };
        let together = Together::gather(recipe, nodes, backtest.threads, &done)?;
        let joining = together.newcomers(keep);
        let joined = (
            judged(&quiet, nodes, &joining, &done, kept(&arms))?,
            joining.choices(),
        );
        progress.finish();
        add(
            &mut arms,
            joined,
            &ways,
            &quiet,
            (prefix, &format!(" {}", spaced(time))),
        );
    }
    for (index, problem) in arms.first().map_or(&[][..], |a| &a.outcome.failed) {
        eprintln!("synod: federation: node {index} was left out: {problem}");
    }
    Ok(arms)
}

/// A time as tables say it: whole days as a number of days.
fn spaced(time: Duration) -> String {
    match time.whole_seconds() {
        seconds if seconds % 86_400 == 0 => format!("{} d", seconds / 86_400),
        _ => time.to_string(),
    }
}

/// What every way of learning comes to, and how nodes chose between them.
type Learnt = (Vec<(Way, Outcome)>, Vec<Choice>);

/// Where models of one of the ways stay.
type Keeping<'a> = Option<(&'a NodeModels<'a>, Way)>;

/// Learns in every way.
fn learnt(
    config: &WaysOfLearning,
    recipe: &Recipe,
    backtest: &Backtest,
    history: &dyn History,
    done: &(dyn Fn() + Sync),
    keep: Keeping<'_>,
) -> Result<Learnt> {
    if Averaging::suits(recipe) {
        let averaged = config
            .averaging()
            .gather(recipe, history, backtest.threads, done)?;
        return Ok((judged(backtest, history, &averaged, done, keep)?, vec![]));
    }
    let together = Together::gather(recipe, history, backtest.threads, done)?;
    Ok((
        judged(backtest, history, &together, done, keep)?,
        together.choices(),
    ))
}

/// What a learner's ways come to: alone, together and, if there is a third, as nodes choose.
fn judged(
    backtest: &Backtest,
    history: &dyn History,
    learner: &dyn Learner,
    done: &(dyn Fn() + Sync),
    keep: Keeping<'_>,
) -> Result<Vec<(Way, Outcome)>> {
    let ways = [Way::Local, Way::Federated, Way::Personalised];
    let outcomes = match keep {
        None => backtest.run(history, learner, done)?,
        Some((models, kept)) => {
            let kept = Kept {
                learner,
                models,
                way: ways.iter().position(|way| *way == kept).unwrap_or(0),
                alone: false,
            };
            backtest.run(history, &kept, done)?
        }
    };
    Ok(ways.into_iter().zip(outcomes).collect())
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
