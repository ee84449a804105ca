//! Sums that do not depend on the order of what is added.
