//! The section `[federation]` of a configuration of what to watch.

use serde::Deserialize;
use serde::de::IgnoredAny;
use synod_core::config::{Mistake, Section};
use synod_core::time::Duration;
use synod_detect::Recipe;
use synod_federate::strategy;

use crate::network::Averaging;

/// Rounds of averaging unless given.
const ROUNDS_OF_NETWORKS: usize = 100;

/// How nodes learn.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Alone.
    Local,
    /// With the others.
    Federated,
    /// As each node chooses on the last of its training windows.
    Personalised,
}

impl Way {
    /// The way as tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Local => "local",
            Way::Federated => "federated",
            Way::Personalised => "personalised",
        }
    }
}

/// Which ways of learning are set side by side, and how nodes learn together.
#[derive(Clone, Debug, PartialEq)]
pub struct WaysOfLearning {
    arms: Option<Vec<Way>>,
    /// Parts of the training windows that are learnt from: 4 is the last quarter.
    pub reduce: Vec<usize>,
    /// The history that every node in turn has when it joins the others.
    pub cold_start: Option<Duration>,
    strategy: Option<strategy::StrategyChoice>,
    rounds: Option<usize>,
}

/// `[federation]` as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenWays {
    arms: Option<Vec<Way>>,
    reduce: Option<Vec<usize>>,
    cold_start: Option<Duration>,
    /// What `cold_start` was called, with a number of days.
    cold_start_days: Option<IgnoredAny>,
    strategy: Option<strategy::StrategyChoice>,
    rounds: Option<usize>,
}

impl Section for WaysOfLearning {
    const NAME: &'static str = "federation";
    type Written = WrittenWays;

    fn check(written: WrittenWays) -> Result<WaysOfLearning, Mistake> {
        if written.cold_start_days.is_some() {
            let problem = "`cold_start_days` is written `cold_start`, with a unit: cold_start = \"1d\"";
            return Err(Mistake::at("cold_start_days", problem));
        }
        let arms = written.arms;
        let twice = |arms: &[Way]| (0..arms.len()).any(|i| arms[..i].contains(&arms[i]));
        if arms.as_deref().is_some_and(|arms| arms.is_empty() || twice(arms)) {
            let problem = "`arms` names each of \"local\", \"federated\", \"personalised\" at most once";
            return Err(Mistake::at("arms", problem));
        }
        let reduce = written.reduce.unwrap_or_else(|| vec![1]);
        if let Some(part) = reduce.iter().find(|part| !(1..=1000).contains(*part)) {
            let problem = format!("`reduce` holds whole numbers from 1 to 1000, not {part}");
            return Err(Mistake::at("reduce", problem));
        }
        if reduce.is_empty() && written.cold_start.is_none() {
            let problem = "`reduce` is empty; write [1] to learn from all training windows";
            return Err(Mistake::at("reduce", problem));
        }
        if let Some(time) = written.cold_start.filter(|time| time.milliseconds() % 1000 != 0) {
            let problem = format!("`cold_start` is a time of whole seconds, not {time}");
            return Err(Mistake::at("cold_start", problem));
        }
        if let Some(rounds) = written.rounds.filter(|rounds| !(1..=100_000).contains(rounds)) {
            let problem = format!("`rounds` is a whole number from 1 to 100000, not {rounds}");
            return Err(Mistake::at("rounds", problem));
        }
        Ok(WaysOfLearning {
            arms,
            reduce,
            cold_start: written.cold_start,
            strategy: written.strategy,
            rounds: written.rounds,
        })
    }
}

impl WaysOfLearning {
    /// The ways that are shown; the report and the stored detectors are those of the first. All unless given. There is no
    /// choice between networks.
    pub fn ways(&self, recipe: &Recipe) -> Vec<Way> {
        let all = || match Averaging::suits(recipe) {
            true => vec![Way::Local, Way::Federated],
            false => vec![Way::Local, Way::Federated, Way::Personalised],
        };
        self.arms.clone().unwrap_or_else(all)
    }

    /// How networks are averaged.
    pub fn averaging(&self) -> Averaging {
        Averaging {
            strategy: self.strategy.clone().unwrap_or_default(),
            rounds: self.rounds.unwrap_or(ROUNDS_OF_NETWORKS),
        }
    }

    /// Fails if detectors like this do not learn so; keys are those of the whole file.
    pub fn check_for(&self, recipe: &Recipe) -> Result<(), Mistake> {
        let network = Averaging::suits(recipe);
        let given = |key: &str, problem: &str| Err(Mistake::at(key, problem).within(WaysOfLearning::NAME));
        if network && self.cold_start.is_some() {
            let problem = "`cold_start` is for detectors that are fitted from sums, not for networks";
            return given("cold_start", problem);
        }
        let networks = [
            ("rounds", self.rounds.is_some()),
            ("strategy", self.strategy.is_some()),
        ];
        if let Some((key, _)) = networks.iter().find(|(_, given)| !network && *given) {
            let problem = "`rounds` and `strategy` are for networks; other detectors are fitted from sums";
            return given(key, problem);
        }
        if network && self.ways(recipe).contains(&Way::Personalised) {
            let problem = "nodes choose between detectors that are fitted from sums, not between networks; leave \
                           \"personalised\" out";
            return given("arms", problem);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(written: Value) -> Result<WaysOfLearning, Mistake> {
        WaysOfLearning::check(serde_json::from_value(written).expect("written so"))
    }

    #[test]
    fn all_ways_are_shown_unless_some_are_named() {
        let ways = read(json!({})).expect("all by default");
        assert_eq!(ways.reduce, [1]);
        let (standard, paper) = (Recipe::standard(1), Recipe::named("paper", 1).expect("a recipe"));
        assert_eq!(ways.ways(&standard).len(), 3);
        assert_eq!(ways.ways(&paper), [Way::Local, Way::Federated]);
        let some = read(json!({ "arms": ["federated"], "reduce": [1, 16], "cold_start": "1d" }));
        assert_eq!(some.expect("read").ways(&standard), [Way::Federated]);
    }

    #[test]
    fn mistakes_are_told_with_their_key() {
        for (written, key, said) in [
            (json!({ "arms": [] }), "arms", "at most once"),
            (json!({ "arms": ["local", "local"] }), "arms", "at most once"),
            (json!({ "reduce": [0] }), "reduce", "from 1 to 1000"),
            (json!({ "reduce": [] }), "reduce", "write [1]"),
            (json!({ "rounds": 0 }), "rounds", "from 1 to"),
            (
                json!({ "cold_start_days": 1 }),
                "cold_start_days",
                "cold_start = \"1d\"",
            ),
        ] {
            let mistake = read(written).expect_err(key);
            assert!(mistake.key == key && mistake.problem.contains(said), "{mistake}");
        }
        for (written, name, key) in [
            (json!({ "rounds": 5 }), "default", "federation.rounds"),
            (json!({ "strategy": "fedavg" }), "default", "federation.strategy"),
            (json!({ "cold_start": "1d" }), "paper", "federation.cold_start"),
            (json!({ "arms": ["personalised"] }), "paper", "federation.arms"),
        ] {
            let recipe = Recipe::named(name, 1).expect("a recipe");
            let mistake = read(written).and_then(|ways| ways.check_for(&recipe));
            assert_eq!(mistake.map_err(|m| m.key), Err(key.to_owned()));
        }
    }
}
