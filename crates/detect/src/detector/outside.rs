//! Detectors that are not of this crate: what somebody outside implements, and how that is stored.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Detector, Parts};
use crate::error::Result;
use crate::rows::Rows;

/// A way to learn a detector that is not of this crate.
pub trait Method: fmt::Debug + Send + Sync {
    /// Its name, which tells stored detectors apart.
    fn name(&self) -> &str;

    /// Learns from rows in order of time, of which those not to `keep` are left out.
    fn fit(&self, rows: &Rows, keep: &[bool], seed: u64) -> Result<Arc<dyn Guest>>;

    /// What [`Guest::store`] gave, as a detector again; or what is wrong with it.
    fn revive(&self, stored: &str) -> Result<Arc<dyn Guest>, String>;
}

/// A fitted detector that is not of this crate.
pub trait Guest: Detector + fmt::Debug + Send + Sync {
    /// The features of the rows it judges.
    fn width(&self) -> usize;

    /// All that it has learnt, as a text.
    fn store(&self) -> String;
}

/// A method as a part of a recipe; equal to itself alone.
#[derive(Clone, Debug)]
pub struct ByMethod(pub Arc<dyn Method>);

impl PartialEq for ByMethod {
    fn eq(&self, other: &ByMethod) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A guest and how it is stored. One that was read from a file is asleep until its method revives it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outside {
    method: String,
    stored: String,
    #[serde(skip)]
    guest: Option<Arc<dyn Guest>>,
}

impl PartialEq for Outside {
    fn eq(&self, other: &Outside) -> bool {
        (&self.method, &self.stored) == (&other.method, &other.stored)
    }
}

impl Outside {
    pub(super) fn new(method: &str, guest: Arc<dyn Guest>) -> Outside {
        Outside {
            method: method.to_owned(),
            stored: guest.store(),
            guest: Some(guest),
        }
    }

    /// Wakes the guest by whichever of some methods it is of.
    pub(crate) fn revive(&mut self, methods: &[&dyn Method]) -> Result<(), String> {
        let Some(method) = methods.iter().find(|method| method.name() == self.method) else {
            return Err(format!(
                "it is of the method {:?}, which is not there",
                self.method
            ));
        };
        self.guest = Some(method.revive(&self.stored)?);
        Ok(())
    }

    pub(super) fn suits(&self, width: usize) -> bool {
        self.guest.as_ref().is_some_and(|guest| guest.width() == width)
    }
}

impl Detector for Outside {
    fn look_back(&self) -> usize {
        self.guest.as_ref().map_or(0, |guest| guest.look_back())
    }

    fn judge(&self, rows: &Rows, space: &mut Vec<f32>, sizes: &mut [f32]) {
        match &self.guest {
            Some(guest) => guest.judge(rows, space, sizes),
            None => sizes.fill(0.0),
        }
    }

    fn explain(&self, rows: &Rows) -> Parts {
        let nothing = || Parts {
            expected: vec![0.0; rows.width()],
            shares: vec![0.0; rows.width()],
        };
        self.guest
            .as_ref()
            .map_or_else(nothing, |guest| guest.explain(rows))
    }
}
