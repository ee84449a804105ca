//! Who holds which rows.
//!
//! [`Division::divide`] gives each client rows of one data set, evenly or skewed in the ways that the literature compares. It is
//! a pure function of rows, settings, number of clients and seed. [`Measures`] says how skewed the result is.
//!
//! ```
//! use synod_federate::partition::{Division, Measures, RowsToDivide};
//!
//! let labels: Vec<u32> = (0..60_000).map(|row| row % 10).collect();
//! let partition = Division::Shards(2).divide(&RowsToDivide::labelled(&labels), 100, 7)?;
//! let mut rows = Vec::new();
//! partition.rows(42, &mut rows);
//! assert_eq!(rows.len(), 600);
//!
//! let measures = Measures::of(&*partition, Some(&labels))?;
//! assert!(measures.labels.is_some_and(|labels| labels.labels_held <= 2.0));
//! # Ok::<(), synod_federate::Error>(())
//! ```

mod divide;
mod draw;
mod measure;
mod rows;
mod settings;
mod shares;

pub use draw::Drawn;
pub use measure::{LabelMeasures, Measures};
pub use rows::RowsToDivide;
pub use settings::{Division, Draw, Skew};

use crate::{Error, Result};

/// Which rows each client holds. Clients are numbered from 0.
pub trait Partition: Send + Sync {
    /// How many clients there are.
    fn clients(&self) -> usize;

    /// How many rows a client holds; 0 for one that is not there.
    fn samples(&self, client: usize) -> usize;

    /// Puts the rows of a client into `rows`, in place of what was there; none for a client that is not there.
    fn rows(&self, client: usize, rows: &mut Vec<u32>);
}

/// A partition that is written down: every row belongs to just one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divided {
    starts: Vec<usize>,
    rows: Vec<u32>,
}

impl Divided {
    fn new(held: impl IntoIterator<Item = Vec<u32>>) -> Divided {
        let (mut starts, mut rows) = (vec![0], Vec::new());
        for mut own in held {
            own.sort_unstable();
            rows.append(&mut own);
            starts.push(rows.len());
        }
        Divided { starts, rows }
    }

    /// The rows of a client, ascending; none for a client that is not there.
    pub fn of(&self, client: usize) -> &[u32] {
        match self.starts.get(client..).unwrap_or_default() {
            [start, end, ..] => &self.rows[*start..*end],
            _ => &[],
        }
    }
}

impl Partition for Divided {
    fn clients(&self) -> usize {
        self.starts.len() - 1
    }

    fn samples(&self, client: usize) -> usize {
        self.of(client).len()
    }

    fn rows(&self, client: usize, rows: &mut Vec<u32>) {
        rows.clear();
        rows.extend_from_slice(self.of(client));
    }
}

impl Division {
    /// Divides rows among clients. Every kind but [`Division::Drawn`] gives each row to just one client.
    pub fn divide(&self, rows: &RowsToDivide, clients: usize, seed: u64) -> Result<Box<dyn Partition>> {
        rows.check()?;
        if clients == 0 {
            return Err(Error::Setting(
                "rows cannot be divided among 0 clients: set a number".into(),
            ));
        }
        let divided = match *self {
            Division::Iid => divide::iid(rows, clients, seed)?,
            Division::Shards(each) => divide::shards(rows, each, clients, seed)?,
            Division::Labels(each) => divide::labels(rows, each, clients, seed)?,
            Division::Dirichlet(skew) => divide::dirichlet_over_labels(rows, skew, clients, seed)?,
            Division::PowerLaw(skew) => divide::by_power_law(rows, skew, clients, seed)?,
            Division::Natural => divide::natural(rows, clients)?,
            Division::Drawn(draw) => return Ok(Box::new(Drawn::new(rows, draw, clients, seed)?)),
        };
        Ok(Box::new(divided))
    }
}
