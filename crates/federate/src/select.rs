//! Who takes part in a round.
