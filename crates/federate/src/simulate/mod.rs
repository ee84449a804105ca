//! Federations of many clients on one machine.
