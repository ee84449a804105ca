//! Where the pages are: the optional last block of a record file.

use super::{
    header::checksum,
    i64_at,
    page::{Head, Parts},
    schema::Schema,
    u32_at, u64_at,
};

pub(super) const MAGIC: &[u8; 8] = b"SYNODIDX";
const END: &[u8; 8] = b"SYNODEND";
const ENTRY_BYTES: usize = 40;
const FRONT_BYTES: usize = 16;
const BACK_BYTES: usize = 24;

/// One page as the index knows it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) offset: usize,
    pub(super) first_row: usize,
    pub(super) rows: usize,
    pub(super) times: (i64, i64),
    pub(super) labels: [u8; 8],
}

impl Entry {
    pub(super) fn new(offset: usize, head: &Head) -> Entry {
        Entry {
            offset,
            first_row: head.first_row as usize,
            rows: head.rows as usize,
            times: head.times,
            labels: head.labels,
        }
    }
}

/// The index of these pages, to be written at `offset`.
pub(super) fn encode(entries: &[Entry], offset: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend((entries.len() as u64).to_le_bytes());
    for entry in entries {
        bytes.extend((entry.offset as u64).to_le_bytes());
        bytes.extend((entry.rows as u64).to_le_bytes());
        bytes.extend(entry.times.0.to_le_bytes());
        bytes.extend(entry.times.1.to_le_bytes());
        bytes.extend(entry.labels);
    }
    bytes.extend(offset.to_le_bytes());
    bytes.extend(checksum(&[&bytes]).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(END);
    bytes
}

/// The pages of a file that ends with a valid index, and where that index begins.
pub(super) fn decode(bytes: &[u8], schema: &Schema, pages_begin: usize) -> Option<(Vec<Entry>, usize)> {
    let back = bytes.len().checked_sub(BACK_BYTES)?;
    if &bytes[bytes.len() - 8..] != END {
        return None;
    }
    let offset = usize::try_from(u64_at(bytes, back)?).ok()?;
    let front = bytes.get(offset..back + 8)?;
    if front.get(..8)? != MAGIC || u32_at(bytes, back + 8)? != checksum(&[front]) {
        return None;
    }
    let table = bytes.get(offset + FRONT_BYTES..back)?;
    let count = usize::try_from(u64_at(front, 8)?).ok()?;
    if count.checked_mul(ENTRY_BYTES)? != table.len() {
        return None;
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(count);
    let (mut at, mut first_row) = (pages_begin, 0usize);
    for raw in table.chunks_exact(ENTRY_BYTES) {
        let rows = u32_at(raw, 8)?;
        if u64_at(raw, 0)? != at as u64 || rows == 0 || rows > schema.rows_per_page {
            return None;
        }
        entries.push(Entry {
            offset: at,
            first_row,
            rows: rows as usize,
            times: (i64_at(raw, 16)?, i64_at(raw, 24)?),
            labels: raw[32..40].try_into().ok()?,
        });
        at = at.checked_add(Parts::of(schema, rows as usize)?.end)?;
        first_row = first_row.checked_add(rows as usize)?;
    }
    (at == offset).then_some((entries, offset))
}
