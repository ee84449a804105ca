//! When alarms are raised, as an operator sets it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Persistence;
use crate::budget::AlarmBudget;
use crate::error::Error;

/// How a budget of false alarms becomes a threshold.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A level that follows the node, with a limiter.
    #[default]
    Adaptive,
    /// The rank among the training scores.
    Conformal,
    /// The rank among the scores of late, by a level that makes up for past alarms.
    AdaptiveConformal,
    /// The tail of the training scores, extrapolated.
    Tail,
    /// Deviations above the moving mean.
    Moving,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 5] = [
        Rule::Adaptive,
        Rule::Conformal,
        Rule::AdaptiveConformal,
        Rule::Tail,
        Rule::Moving,
    ];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Adaptive => "adaptive",
            Rule::Conformal => "conformal",
            Rule::AdaptiveConformal => "adaptive-conformal",
            Rule::Tail => "tail",
            Rule::Moving => "moving",
        }
    }
}

impl FromStr for Rule {
    type Err = Error;
    fn from_str(text: &str) -> Result<Rule, Error> {
        let named = Rule::ALL.into_iter().find(|r| r.name() == text);
        named.ok_or_else(|| {
            let names = Rule::ALL.map(Rule::name).join(", ");
            Error::Setting(format!(
                "there is no alarm rule {text:?}; there are {names}, and percentile"
            ))
        })
    }
}

/// When alarms are raised: what they may cost, by which rule, and for how long it must hold.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AlarmPolicy {
    /// What alarms may cost.
    pub budget: AlarmBudget,
    /// How the threshold is found; of no matter if the budget is a percentile.
    pub rule: Rule,
    /// How many windows of how many must agree; none if one is enough.
    pub persistence: Option<Persistence>,
}

/// "2 per node-month", "2 per node-month, tail, 3 of 4 windows".
impl fmt::Display for AlarmPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.budget)?;
        if self.rule != Rule::default() && matches!(self.budget, AlarmBudget::PerNodeMonth(_)) {
            write!(f, ", {}", self.rule.name())?;
        }
        match self.persistence {
            Some(persistence) => write!(f, ", {persistence} windows"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_by_their_names_and_an_unknown_one_lists_them() {
        for rule in Rule::ALL {
            assert_eq!(rule.name().parse::<Rule>().ok(), Some(rule));
        }
        let error = "magic".parse::<Rule>().expect_err("no rule").to_string();
        assert!(error.contains("magic") && error.contains("tail"), "{error}");
    }

    #[test]
    fn a_policy_says_what_differs_from_the_usual() {
        let usual = AlarmPolicy::default();
        assert_eq!(usual.to_string(), "2 per node-month");
        let other = AlarmPolicy {
            rule: Rule::Tail,
            persistence: Persistence::new(3, 4).ok(),
            ..usual
        };
        assert_eq!(other.to_string(), "2 per node-month, tail, 3 of 4 windows");
    }
}
