//! Which arms a run has.

use anyhow::Result;
use synod_detect::{AlarmBudget, Alone, History, Recipe};
use synod_evaluate::{Backtest, SplitKind};
use synod_runs::NodeModels;

use super::config::Config;
use super::kept::Kept;
use super::progress::Progress;
use super::run::Request;
use super::table::Arm;
use crate::train::Misuse;

/// The percentile at which detectors for comparison give alarms.
const COMPARED_AT: f64 = 98.0;

/// One arm to be run.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) recipe: Recipe,
    pub(super) alarm: AlarmBudget,
    pub(super) split: Option<SplitKind>,
    /// Whether nodes also learn together, if the configuration has it so.
    pub(super) federated: bool,
}

/// The arms that are asked for, the configuration's own first.
pub(super) fn plans(request: &Request<'_>, config: &Config) -> Result<Vec<Plan>> {
    let (recipe, alarm) = (&config.recipe, config.alarm);
    let plan = |name: &str, recipe: Recipe, alarm: AlarmBudget| Plan {
        name: name.to_owned(),
        recipe,
        alarm,
        split: None,
        federated: false,
    };
    let compared = AlarmBudget::Percentile(COMPARED_AT);
    if request.both_splits {
        let kinds = [
            ("random", SplitKind::Random),
            ("chronological", SplitKind::Chronological),
        ];
        let with = |(name, kind): (&str, SplitKind)| Plan {
            split: Some(kind),
            federated: true,
            ..plan(name, recipe.clone(), alarm)
        };
        return Ok(kinds.into_iter().map(with).collect());
    }
    let mut plans = vec![Plan {
        federated: !request.ablation,
        ..plan("local", recipe.clone(), alarm)
    }];
    for other in request.compare {
        let recipe = Recipe::named(other, config.seed).map_err(|e| Misuse(e.to_string()))?;
        plans.push(plan(other, recipe, compared));
    }
    if request.ablation {
        let changed = recipe.ablations().into_iter();
        plans.extend(changed.map(|(name, recipe)| plan(name, recipe, alarm)));
        plans.push(plan("threshold at the 98th percentile", recipe.clone(), compared));
        for baseline in ["pca", "paper"] {
            let recipe = Recipe::named(baseline, config.seed).map_err(|e| Misuse(e.to_string()))?;
            plans.push(plan(baseline, recipe, compared));
        }
    }
    Ok(plans)
}

impl Plan {
    /// How its alarms are raised and judged.
    pub(super) fn backtest(&self, asked: Option<usize>, evidence: bool) -> Backtest {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        Backtest {
            alarm: self.alarm,
            threads: asked.unwrap_or_else(all),
            evidence,
        }
    }

    /// Every node by itself. Models are kept if there is a place for them.
    pub(super) fn alone(
        &self,
        nodes: &dyn History,
        backtest: &Backtest,
        models: Option<&NodeModels<'_>>,
    ) -> Result<Arm> {
        let progress = Progress::new(&self.name, nodes.nodes());
        let (alone, done) = (Alone(self.recipe.clone()), || progress.step());
        let mut outcomes = match models {
            None => backtest.run(nodes, &alone, &done)?,
            Some(models) => {
                let kept = Kept {
                    learner: &alone,
                    models,
                    way: 0,
                    alone: true,
                };
                backtest.run(nodes, &kept, &done)?
            }
        };
        progress.finish();
        let outcome = outcomes.remove(0);
        for (index, problem) in &outcome.failed {
            eprintln!("synod: {}: node {index} was left out: {problem}", self.name);
        }
        Ok(Arm {
            name: self.name.clone(),
            alarm: self.alarm.to_string(),
            outcome,
            against: None,
            choices: vec![],
        })
    }
}
