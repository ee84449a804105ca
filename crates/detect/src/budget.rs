//! How many false alarms an operator is willing to bear.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What decides when a score becomes an alarm.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AlarmBudget {
    /// As many false alarms per node and 30 days, however the data drift.
    PerNodeMonth(f64),
    /// Whatever exceeds this percentile of the training scores, which is what most papers do.
    Percentile(f64),
}

impl Default for AlarmBudget {
    fn default() -> AlarmBudget {
        AlarmBudget::PerNodeMonth(2.0)
    }
}

impl fmt::Display for AlarmBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlarmBudget::PerNodeMonth(count) => write!(f, "{count} per node-month"),
            AlarmBudget::Percentile(p) => write!(f, "percentile {p}"),
        }
    }
}

impl From<AlarmBudget> for String {
    fn from(budget: AlarmBudget) -> String {
        budget.to_string()
    }
}

impl TryFrom<String> for AlarmBudget {
    type Error = Error;
    fn try_from(text: String) -> Result<AlarmBudget, Error> {
        text.parse()
    }
}

/// "2 per node-month", "1 per node-week", "percentile 98".
impl FromStr for AlarmBudget {
    type Err = Error;
    fn from_str(text: &str) -> Result<AlarmBudget, Error> {
        let wrong = || {
            Error::Setting(format!(
                "{text:?} is no alarm budget; write it as \"2 per node-month\" (or -week, -day, -year)"
            ))
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (count, days) = match words.as_slice() {
            ["percentile", p] => {
                let p: f64 = p.parse().map_err(|_| wrong())?;
                return if p > 0.0 && p < 100.0 {
                    Ok(AlarmBudget::Percentile(p))
                } else {
                    Err(wrong())
                };
            }
            [count, "per", unit] => (
                count.parse::<f64>().map_err(|_| wrong())?,
                match *unit {
                    "node-day" => 1.0,
                    "node-week" => 7.0,
                    "node-month" => 30.0,
                    "node-year" => 365.0,
                    _ => return Err(wrong()),
                },
            ),
            _ => return Err(wrong()),
        };
        let per_month = count * 30.0 / days;
        if !(per_month > 0.0 && per_month <= 1000.0) {
            return Err(wrong());
        }
        Ok(AlarmBudget::PerNodeMonth(per_month))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_as_people_write_them() -> Result<(), Error> {
        assert_eq!(
            "2 per node-month".parse::<AlarmBudget>()?,
            AlarmBudget::PerNodeMonth(2.0)
        );
        assert_eq!(
            "0.7 per node-week".parse::<AlarmBudget>()?,
            AlarmBudget::PerNodeMonth(3.0)
        );
        assert_eq!(
            "percentile 98".parse::<AlarmBudget>()?,
            AlarmBudget::Percentile(98.0)
        );
        for bad in [
            "",
            "two per node-month",
            "2 per month",
            "-1 per node-day",
            "0 per node-month",
            "percentile 100",
            "NaN per node-day",
        ] {
            let error = bad.parse::<AlarmBudget>().expect_err(bad);
            assert!(error.to_string().contains("2 per node-month"), "{error}");
        }
        Ok(())
    }
}
