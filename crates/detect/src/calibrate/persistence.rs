//! Alarms that must hold for several windows.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Calibrator, Verdict};
use crate::error::Error;

/// More windows than this are no persistence but patience.
const MOST: usize = 1000;

/// How many of the latest windows must be unusual, such as 3 of 4.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Persistence {
    of_these: usize,
    windows: usize,
}

impl Persistence {
    /// `m` of the latest `k` windows, where m is 1 to k and k at most 1000.
    pub fn new(m: usize, k: usize) -> Result<Persistence, Error> {
        if !(1..=k).contains(&m) || k > MOST {
            return Err(Error::Setting(format!(
                "{m} of {k} windows cannot be asked for; the first number is 1 to the second, and that at most {MOST}"
            )));
        }
        Ok(Persistence {
            of_these: m,
            windows: k,
        })
    }
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.of_these, self.windows)
    }
}

/// "3 of 4".
impl FromStr for Persistence {
    type Err = Error;
    fn from_str(text: &str) -> Result<Persistence, Error> {
        let numbers = text.split_once(" of ").and_then(|(m, k)| {
            let (m, k) = (m.trim().parse(), k.trim().parse());
            Some((m.ok()?, k.ok()?))
        });
        match numbers {
            Some((m, k)) => Persistence::new(m, k),
            None => Err(Error::Setting(format!(
                "{text:?} is no persistence; write it as \"3 of 4\""
            ))),
        }
    }
}

impl From<Persistence> for String {
    fn from(persistence: Persistence) -> String {
        persistence.to_string()
    }
}

impl TryFrom<String> for Persistence {
    type Error = Error;
    fn try_from(text: String) -> Result<Persistence, Error> {
        text.parse()
    }
}

/// A rule that is heard when it holds in enough of the latest windows. Its budget is that of the rule, of which it spends
/// less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Persistent {
    rule: Box<Calibrator>,
    persistence: Persistence,
    latest: VecDeque<bool>,
}

impl Persistent {
    pub(super) fn new(rule: Calibrator, persistence: Persistence) -> Persistent {
        Persistent {
            rule: Box::new(rule),
            persistence,
            latest: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, score: f32, measured: f32) -> Verdict {
        let verdict = self.rule.push(score, measured);
        self.latest.push_back(verdict.alarm);
        while self.latest.len() > self.persistence.windows {
            self.latest.pop_front();
        }
        let unusual = self.latest.iter().filter(|a| **a).count();
        Verdict {
            alarm: unusual >= self.persistence.of_these,
            ..verdict
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_stands_while_enough_of_the_latest_windows_are_unusual() -> Result<(), Error> {
        let mut rule = Persistent::new(Calibrator::Fixed(0.5), "2 of 3".parse()?);
        let scores = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, f32::NAN];
        let alarms = scores.map(|s| rule.push(s, s).alarm);
        assert_eq!(
            alarms,
            [false, false, false, false, false, true, true, true, false, false]
        );
        Ok(())
    }

    #[test]
    fn one_of_one_changes_nothing() -> Result<(), Error> {
        let mut rule = Persistent::new(Calibrator::Fixed(0.5), Persistence::new(1, 1)?);
        for score in [0.2, 0.7, 0.1, 0.9] {
            assert_eq!(rule.push(score, score), Calibrator::Fixed(0.5).push(score, score));
        }
        Ok(())
    }

    #[test]
    fn what_cannot_be_asked_for_is_an_error() {
        for bad in [
            "",
            "3",
            "3 4",
            "0 of 4",
            "5 of 4",
            "-1 of 4",
            "3 of four",
            "1 of 1001",
        ] {
            assert!(bad.parse::<Persistence>().is_err(), "{bad}");
        }
        let text = Persistence::new(3, 4).map(|p| p.to_string()).ok();
        assert_eq!(text.as_deref(), Some("3 of 4"));
    }
}
