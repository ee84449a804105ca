//! A round as a state machine: events in, actions out.
