//! What a federation came to: `summary.json`, and what `--json` prints.

use serde::Serialize;
use serde_json::Value;
use synod_federate::round::Tally;
use synod_federate::simulate::{ClientMeasure, Traffic};
use synod_federate::strategy::StrategyChoice;
use synod_nn::Measured;

use super::curve::Curve;
use crate::train::scale::Prepared;

/// All of a federation.
#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) model_file: String,
    pub(super) seed: u64,
    pub(super) strategy: StrategyChoice,
    pub(super) clients: usize,
    pub(super) partition: Option<String>,
    pub(super) models: usize,
    pub(super) parameters: Option<usize>,
    pub(super) classes: usize,
    pub(super) measured_on: &'static str,
    pub(super) accuracy: f64,
    pub(super) best_accuracy: Option<f64>,
    pub(super) loss: f64,
    pub(super) rounds: u64,
    pub(super) target: Option<f64>,
    pub(super) rounds_to_target: Option<f64>,
    pub(super) traffic: Traffic,
    pub(super) tally: Tally,
    pub(super) simulated_seconds: Option<f64>,
    /// Why it fell apart, if it did.
    pub(super) stopped: Option<String>,
    pub(super) per_client: Option<Spread>,
    pub(super) seconds: f64,
    pub(super) curve: Curve,
    #[serde(flatten)]
    pub(super) prepared: Prepared,
}

/// How the clients' accuracies are spread.
#[derive(Serialize)]
pub(super) struct Spread {
    clients: usize,
    /// Clients whose own model is worse than the shared one.
    worse_with_own: Option<usize>,
    shared: Option<Accuracies>,
    own: Option<Accuracies>,
}

/// Accuracies of clients with one kind of model.
#[derive(Serialize)]
struct Accuracies {
    mean: f64,
    worst: Option<f64>,
    worst_tenth: f64,
    median: Option<f64>,
    best: Option<f64>,
}

impl Spread {
    /// Over clients that were judged one by one.
    pub(super) fn of(judged: &[ClientMeasure]) -> Spread {
        let accuracies = |of: fn(&ClientMeasure) -> Option<Measured>| -> Vec<f64> {
            judged.iter().filter_map(of).map(|m| m.accuracy()).collect()
        };
        let (shared, own) = (accuracies(|m| m.shared), accuracies(|m| m.own));
        let pairs = judged.iter().filter_map(|m| m.shared.zip(m.own));
        let worse = pairs.filter(|(shared, own)| own.accuracy() < shared.accuracy());
        Spread {
            clients: judged.len(),
            worse_with_own: (!shared.is_empty() && !own.is_empty()).then(|| worse.count()),
            shared: Accuracies::of(shared),
            own: Accuracies::of(own),
        }
    }
}

impl Accuracies {
    fn of(mut values: Vec<f64>) -> Option<Accuracies> {
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let tenth = values.len().div_ceil(10);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Some(Accuracies {
            mean: mean(&values),
            worst: values.first().copied(),
            worst_tenth: mean(&values[..tenth]),
            median: values.get(values.len() / 2).copied(),
            best: values.last().copied(),
        })
    }
}

/// What a person reads at the end.
pub(in crate::train) fn show(summary: &Value, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let accuracy = 100.0 * number(&summary["accuracy"]);
    let on = summary["measured_on"].as_str().unwrap_or("unknown");
    writeln!(
        out,
        "Accuracy {accuracy:.2} % and loss {:.5} on {on} rows.",
        number(&summary["loss"])
    )?;
    if let Some(target) = summary["target"].as_f64() {
        match summary["rounds_to_target"].as_f64() {
            Some(rounds) => writeln!(
                out,
                "{:.1} % were reached after {rounds:.1} rounds.",
                100.0 * target
            )?,
            None => writeln!(out, "{:.1} % were not reached.", 100.0 * target)?,
        }
    }
    let (tally, traffic) = (&summary["tally"], &summary["traffic"]);
    writeln!(
        out,
        "{} rounds of {} clients in {:.1} s; {} updates, {} clients dropped, {} straggled, {} failed, {} rounds abandoned.",
        summary["rounds"],
        summary["clients"],
        number(&summary["seconds"]),
        tally["reported"],
        tally["dropped"],
        tally["straggling"],
        tally["failed"],
        tally["abandoned"],
    )?;
    writeln!(
        out,
        "Sent {:.1} MB down and {:.1} MB up ({:.3} of the updates in full).",
        number(&traffic["down"]) / 1e6,
        number(&traffic["up"]) / 1e6,
        number(&traffic["up"]) / number(&traffic["up_in_full"]).max(1.0),
    )?;
    if let Some(skew) = summary["partition"].as_str() {
        writeln!(out, "{skew}")?;
    }
    for (key, name) in [
        ("shared", "Clients with the shared model"),
        ("own", "Clients with their own"),
    ] {
        let Some(of) = summary["per_client"][key].as_object() else {
            continue;
        };
        let percent = |key: &str| 100.0 * of.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let (mean, tenth, worst) = (percent("mean"), percent("worst_tenth"), percent("worst"));
        writeln!(
            out,
            "{name}: mean {mean:.2} %, worst tenth {tenth:.2} %, worst {worst:.2} %"
        )?;
    }
    writeln!(
        out,
        "Model: {}",
        summary["model_file"].as_str().unwrap_or_default()
    )
}
