//! Nodes that learn together: what each gains, and what none loses.

mod networks;
mod newcomers;
mod plane;
mod site;
mod together;
