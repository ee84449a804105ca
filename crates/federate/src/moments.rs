//! Scaling and principal components from sums over clients.
