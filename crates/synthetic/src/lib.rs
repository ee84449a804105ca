//! A cluster that was never built: telemetry like Marconi100's, with faults whose truth is known.
//!
//! Jobs make load, load makes power, power makes heat, fans follow the hottest chip, and monitoring reads all of it with
//! steps, noise and gaps. Faults break that chain in nine ways; operators notice some time later, drain the node and label
//! it. Means, deviations, autocorrelation and differences between nodes are those measured on real nodes
//! (M100 ExaData, CC BY 4.0).
//!
//! Everything is a function of [`ClusterOptions`]: a node is computed from the seed and its number, the room and the jobs
//! of its rack from the seed alone. Nodes can be asked for in any order, on any number of threads, on any machine, and
//! come out the same to the bit; a node is also the same in a cluster of any size.
//!
//! ```
//! use synod_telemetry::Truth;
//! use synod_synthetic::{Cluster, ClusterOptions};
//! let cluster = Cluster::new(ClusterOptions { nodes: 2, days: 10, seed: 7, ..ClusterOptions::default() })?;
//! let frame = cluster.node(1)?;
//! assert_eq!(frame.width(), 115 * 4);
//! assert!(frame.rows() > 940);
//! for fault in cluster.faults(1)? {
//!     println!("{} from {} to {}: see {:?}", fault.kind.name(), fault.from, fault.to, fault.metrics);
//! }
//! # Ok::<(), synod_telemetry::Error>(())
//! ```
#![forbid(unsafe_code)]

mod catalogue;
mod cluster;
mod config;
mod fault;
mod hardware;
mod jobs;
mod labels;
mod load;
mod node;
mod options;
mod physics;
mod random;
mod room;
mod sampling;
mod write;

pub use cluster::{Cluster, NodeParts};
pub use config::{ClusterChoice, JudgedBy, WrittenCluster};
pub use fault::{Fault, FaultKind};
pub use options::{ClusterOptions, RACK, ReportedMetrics, STEP, Statistics};
pub use write::{FileFormat, Written, month_count, write_faults, write_node, write_raw};
