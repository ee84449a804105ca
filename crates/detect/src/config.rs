//! The sections `[detector]` and `[alarm]` of a configuration.

use serde::Deserialize;
use synod_core::config::{Mistake, Section};
use synod_core::time::Duration;

use crate::budget::AlarmBudget;
use crate::error::Result;
use crate::features::Scaling;
use crate::recipe::Recipe;

/// What a node's detector is made of, by its name and what differs from that.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorChoice {
    /// The name of a detector.
    pub kind: String,
    /// The share of training windows, the most unusual, that a second fit leaves out.
    pub refine: Option<f64>,
    /// Passes over the training windows, of networks.
    pub epochs: Option<usize>,
    /// How far back the rolling median looks that is taken from every metric, in whole seconds.
    pub detrend: Option<Duration>,
    /// How metrics are brought to a common scale, if not as the detector has it.
    pub scaling: Option<Scaling>,
}

/// `[detector]` as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenDetector {
    kind: Option<String>,
    refine: Option<f64>,
    epochs: Option<usize>,
    detrend: Option<Duration>,
    scaling: Option<Scaling>,
}

impl DetectorChoice {
    /// What it comes to with a seed.
    pub fn recipe(&self, seed: u64) -> Result<Recipe> {
        let mut recipe = Recipe::named(&self.kind, seed)?;
        recipe.refine = self.refine.unwrap_or(recipe.refine);
        if let Some(epochs) = self.epochs {
            recipe.set_epochs(epochs);
        }
        recipe.features.detrend = self.detrend.map(Duration::whole_seconds);
        recipe.features.scaling = self.scaling.unwrap_or(recipe.features.scaling);
        Ok(recipe)
    }
}

impl Section for DetectorChoice {
    const NAME: &'static str = "detector";
    type Written = WrittenDetector;

    fn check(written: WrittenDetector) -> Result<DetectorChoice, Mistake> {
        let WrittenDetector {
            kind,
            refine,
            epochs,
            detrend,
            scaling,
        } = written;
        let kind = kind.unwrap_or_else(|| "default".to_owned());
        Recipe::named(&kind, 0).map_err(|e| Mistake::at("kind", e.to_string()))?;
        if let Some(share) = refine.filter(|share| !(0.0..0.5).contains(share)) {
            let problem = format!("`refine` is a share from 0 to 0.5, not {share}");
            return Err(Mistake::at("refine", problem));
        }
        if let Some(time) = detrend.filter(|time| time.milliseconds() % 1000 != 0) {
            let problem = format!("`detrend` is a time of whole seconds, not {time}");
            return Err(Mistake::at("detrend", problem));
        }
        Ok(DetectorChoice {
            kind,
            refine,
            epochs,
            detrend,
            scaling,
        })
    }
}

/// `[alarm]` as it is written: one of two ways to say what alarms may cost.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenAlarm {
    budget: Option<String>,
    percentile: Option<f64>,
}

impl Section for AlarmBudget {
    const NAME: &'static str = "alarm";
    type Written = WrittenAlarm;

    fn check(written: WrittenAlarm) -> Result<AlarmBudget, Mistake> {
        match (written.budget, written.percentile) {
            (None, None) => Ok(AlarmBudget::default()),
            (Some(budget), None) => budget
                .parse()
                .map_err(|e: crate::Error| Mistake::at("budget", e.to_string())),
            (None, Some(p)) if p > 0.0 && p < 100.0 => Ok(AlarmBudget::Percentile(p)),
            (None, Some(p)) => Err(Mistake::at(
                "percentile",
                format!("`percentile` lies between 0 and 100, not at {p}"),
            )),
            (Some(_), Some(_)) => Err(Mistake::at(
                "percentile",
                "give `budget` or `percentile`, not both",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn detector(written: serde_json::Value) -> Result<DetectorChoice, Mistake> {
        DetectorChoice::check(serde_json::from_value(written).expect("written so"))
    }

    #[test]
    fn features_are_set_in_the_detector() {
        let choice = detector(json!({ "detrend": "1d", "scaling": "robust" })).expect("a detector");
        let features = choice.recipe(1).expect("a recipe").features;
        assert_eq!(
            (features.detrend, features.scaling),
            (Some(86_400), Scaling::Robust)
        );
        let usual = detector(json!({})).expect("a detector");
        assert_eq!(usual.recipe(1).expect("a recipe"), Recipe::standard(1));
    }

    #[test]
    fn mistakes_are_told_with_their_key() {
        for (written, key) in [
            (json!({ "kind": "oracle" }), "kind"),
            (json!({ "refine": 0.5 }), "refine"),
            (json!({ "detrend": "1s500ms" }), "detrend"),
        ] {
            assert_eq!(detector(written).map_err(|m| m.key), Err(key.to_owned()));
        }
        for (budget, percentile, key) in [
            (None, Some(100.0), "percentile"),
            (Some("2 per node-month"), Some(98.0), "percentile"),
            (Some("5 of 4"), None, "budget"),
        ] {
            let budget = budget.map(str::to_owned);
            let found = AlarmBudget::check(WrittenAlarm { budget, percentile });
            assert_eq!(found.map_err(|m| m.key), Err(key.to_owned()));
        }
    }
}
