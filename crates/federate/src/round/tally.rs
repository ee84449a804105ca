//! What happened in all rounds so far, counted.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Refusal, Upload};

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of everything that the round engine decided. Every selected client ends as one of reported,
        /// straggling, dropped or failed, or is still at work.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Tally { $($(#[$doc])* pub $name: u64,)* }

        impl Tally {
            /// What was counted since an earlier state of the same tally.
            pub fn since(&self, earlier: &Tally) -> Tally {
                Tally { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }
        }
    };
}

tally! {
    /// Check-ins of clients.
    check_ins,
    /// Clients sent away until later.
    rejected,
    /// Clients given work.
    selected,
    /// Plans sent again, to clients that lost theirs.
    configured_again,
    /// Clients whose update was stored.
    reported,
    /// Clients still at work when it was too late.
    straggling,
    /// Clients that were gone and did not come back in time.
    dropped,
    /// Clients that sent something malformed and nothing better in time.
    failed,
    /// Updates that arrived after their round ended.
    late,
    /// Updates that were already stored, and acknowledged again.
    duplicates,
    /// Updates that differ from what their client had already sent.
    conflicting,
    /// Updates for work that was over, or had not begun.
    stale,
    /// Updates of clients that had not been selected.
    unselected,
    /// Arrivals that were no updates.
    malformed,
    /// Rounds committed.
    committed,
    /// Rounds abandoned.
    abandoned,
    /// Stored updates that went with an abandoned round.
    discarded,
    /// Bytes of the updates stored.
    bytes,
    /// Samples behind the updates stored.
    samples,
}

impl Tally {
    /// Updates that arrived and were of no use.
    pub(crate) fn in_vain(&self) -> u64 {
        let refused = [
            self.late,
            self.duplicates,
            self.conflicting,
            self.stale,
            self.unselected,
            self.malformed,
        ];
        self.discarded + refused.iter().sum::<u64>()
    }

    pub(super) fn stored(&mut self, upload: &Upload) {
        self.reported += 1;
        self.bytes = self.bytes.saturating_add(upload.bytes);
        self.samples = self.samples.saturating_add(upload.samples);
    }

    pub(super) fn refused(&mut self, why: &Refusal) {
        let counter = match why {
            Refusal::Late => &mut self.late,
            Refusal::Stale { .. } | Refusal::Early { .. } => &mut self.stale,
            Refusal::Unselected => &mut self.unselected,
            Refusal::Conflict { .. } => &mut self.conflicting,
            Refusal::Malformed { .. } => &mut self.malformed,
        };
        *counter += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            committed,
            abandoned,
            discarded,
            check_ins,
            rejected,
            ..
        } = self;
        let Tally {
            selected,
            reported,
            straggling,
            dropped,
            failed,
            bytes,
            ..
        } = self;
        let Tally {
            late,
            duplicates,
            conflicting,
            stale,
            unselected,
            malformed,
            ..
        } = self;
        writeln!(
            f,
            "rounds    {committed} committed, {abandoned} abandoned with {discarded} updates"
        )?;
        writeln!(f, "check-ins {check_ins}, of which {rejected} sent away")?;
        writeln!(
            f,
            "clients   {selected} selected: {reported} reported ({bytes} bytes), {straggling} straggled, {dropped} dropped, {failed} failed"
        )?;
        write!(
            f,
            "refused   {late} late, {stale} stale, {unselected} unselected, {conflicting} conflicting, {malformed} malformed; {duplicates} duplicates acknowledged again"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_says_what_was_counted_since_another() {
        let before = Tally {
            reported: 3,
            late: 1,
            ..Tally::default()
        };
        let after = Tally {
            reported: 10,
            late: 1,
            bytes: 8,
            ..Tally::default()
        };
        assert_eq!(
            after.since(&before),
            Tally {
                reported: 7,
                bytes: 8,
                ..Tally::default()
            }
        );
        assert!(after.to_string().contains("10 reported (8 bytes)"), "{after}");
    }
}
