//! Updates in fewer bytes.
