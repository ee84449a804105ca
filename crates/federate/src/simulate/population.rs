//! Clients and their rows.

use synod_nn::Data;

use crate::client::ClientId;

/// The registered clients of a federation. Rows are asked for when a client works, so that many clients cost nothing.
pub trait Population: Sync {
    /// How many there are; their ids are the numbers below.
    fn clients(&self) -> u64;

    /// How many rows a client has.
    fn samples(&self, client: ClientId) -> u64;

    /// The data that a client's rows are among.
    fn data(&self, client: ClientId) -> Data<'_>;

    /// Replaces `rows` by a client's.
    fn rows(&self, client: ClientId, rows: &mut Vec<u32>);
}

/// Clients that each have a table of their own, such as the nodes of a cluster.
pub struct Tables {
    /// The tables' numbers, row by row.
    pub tables: Vec<Vec<f32>>,
    /// Numbers in a row.
    pub width: usize,
}

impl Population for Tables {
    fn clients(&self) -> u64 {
        self.tables.len() as u64
    }

    fn samples(&self, client: ClientId) -> u64 {
        let len = self.tables.get(client.0 as usize).map_or(0, Vec::len);
        (len / self.width.max(1)) as u64
    }

    fn data(&self, client: ClientId) -> Data<'_> {
        let rows = self.tables.get(client.0 as usize).map_or(&[][..], |t| t);
        Data::itself(rows, self.width)
    }

    fn rows(&self, client: ClientId, rows: &mut Vec<u32>) {
        rows.clear();
        rows.extend(0..self.samples(client) as u32);
    }
}
