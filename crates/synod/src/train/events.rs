//! What a run writes into its log, and reads from it to go on.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use synod_core::{Digest, Event};
use synod_federate::simulate;
use synod_nn::EpochReport;

/// Training begins.
#[derive(Serialize)]
pub(super) struct Start {
    pub(super) plan: u64,
    pub(super) data: Digest,
    pub(super) model: String,
    pub(super) seed: u64,
    pub(super) rows: usize,
    pub(super) parameters: usize,
    pub(super) classes: usize,
}

/// A federation begins.
#[derive(Serialize)]
pub(super) struct FederationStart {
    pub(super) clients: usize,
    pub(super) partition: Option<String>,
}

/// Training goes on after an epoch.
#[derive(Serialize)]
pub(super) struct Resume {
    pub(super) epoch: usize,
}

/// A federation goes on after a round.
#[derive(Serialize)]
pub(super) struct FederationResume {
    pub(super) round: u64,
}

/// The input pipeline changed how it works.
#[derive(Serialize)]
pub(super) struct Pipeline<'a> {
    pub(super) what: &'static str,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) because: &'a str,
}

/// An epoch is over.
#[derive(Serialize, Deserialize)]
pub(super) struct Epoch {
    pub(super) epoch: usize,
    pub(super) epochs: usize,
    pub(super) loss: f32,
    pub(super) validation: Option<f32>,
    pub(super) validation_accuracy: Option<f32>,
    pub(super) test_accuracy: Option<f32>,
    pub(super) rate: f32,
    pub(super) rows: usize,
    pub(super) seconds: f64,
}

/// A round is over; with what its model is worth, if it was judged.
#[derive(Serialize)]
pub(super) struct Round<'a> {
    #[serde(flatten)]
    pub(super) report: &'a simulate::RoundReport,
    #[serde(flatten)]
    pub(super) judged: Option<Judged>,
}

/// What a round's model is worth.
#[derive(Serialize)]
pub(super) struct Judged {
    pub(super) accuracy: f64,
    pub(super) test_loss: f64,
}

/// Training is over.
#[derive(Serialize)]
pub(super) struct End {
    pub(super) epochs: usize,
    pub(super) accuracy: Option<f64>,
}

/// A federation is over.
#[derive(Serialize)]
pub(super) struct FederationEnd {
    pub(super) rounds: u64,
    pub(super) accuracy: f64,
}

macro_rules! named {
    ($($event:ty = $name:literal),+ $(,)?) => {$(
        impl Event for $event {
            const NAME: &'static str = $name;
        }
    )+};
}

named! {
    Start = "start",
    FederationStart = "start",
    Resume = "resume",
    FederationResume = "resume",
    Pipeline<'_> = "pipeline",
    Epoch = "epoch",
    Round<'_> = "round",
    End = "end",
    FederationEnd = "end",
}

impl Epoch {
    /// As it was trained.
    pub(super) fn report(&self) -> EpochReport {
        EpochReport {
            epoch: self.epoch,
            epochs: self.epochs,
            loss: self.loss,
            validation: self.validation,
            rate: self.rate,
            rows: self.rows,
            seconds: self.seconds,
        }
    }
}

/// What a run needs of its log to go on.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Recorded {
    /// How training began.
    Start {
        /// The plan of its pipeline.
        plan: u64,
        /// Its training data.
        #[serde(deserialize_with = "recorded_digest")]
        data: Option<Digest>,
    },
    /// An epoch.
    Epoch(Epoch),
    /// Anything else.
    #[serde(other)]
    Other,
}

/// The digest of training data as a run recorded it; none if that is something else, which older versions wrote.
pub(super) fn recorded_digest<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Digest>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Digest(Digest),
        Other(IgnoredAny),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::Digest(digest) => Some(digest),
        Given::Other(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_read_again_and_that_of_an_older_version_has_no_digest() -> serde_json::Result<()> {
        let start = Start {
            plan: u64::MAX,
            data: Digest::of(b"rows"),
            model: "mlp".into(),
            seed: 1,
            rows: 2,
            parameters: 3,
            classes: 4,
        };
        let read = |line: &str| match serde_json::from_str(line) {
            Ok(Recorded::Start { plan, data }) => Some((plan, data)),
            _ => None,
        };
        let line = start.line()?;
        assert_eq!(read(&line), Some((u64::MAX, Some(Digest::of(b"rows")))), "{line}");
        assert_eq!(
            read(r#"{"event":"start","plan":7,"data":3735928559}"#),
            Some((7, None))
        );
        Ok(())
    }

    #[test]
    fn an_epoch_is_read_again_to_the_bit() -> serde_json::Result<()> {
        let epoch = Epoch {
            epoch: 1,
            epochs: 2,
            loss: 0.1,
            validation: None,
            validation_accuracy: None,
            test_accuracy: Some(1.0 / 3.0),
            rate: 1e-7,
            rows: 3,
            seconds: 0.2,
        };
        let line = epoch.line()?;
        let read: Recorded = serde_json::from_str(&line)?;
        assert!(
            matches!(read, Recorded::Epoch(read) if read.report() == epoch.report()),
            "{line}"
        );
        Ok(())
    }
}
