//! Who holds which rows.
