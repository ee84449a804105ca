//! Synod's record file: rows of `f32` with a time and a label each, read in place from a memory map.
//!
//! The format is described in `FORMAT.md` beside this file. [`Writer`] appends pages, [`Reader`] gives rows and pages
//! without copying, and [`Filter`] reads only the pages whose zone maps may hold a match.

mod filter;
mod header;
mod index;
mod page;
mod reader;
mod recover;
mod scan;
mod schema;
mod writer;

pub use filter::Filter;
pub use page::{Labels, Page, Zone};
pub use reader::Reader;
pub use recover::{Reason, Recovered};
pub use scan::{Match, Scan, ScanReport};
pub use schema::{Label, LabelKind, Schema};
pub use writer::Writer;

#[cfg(target_endian = "big")]
compile_error!("record files are read in place and little-endian; this machine is big-endian");

/// Alignment of every block of the file.
const BLOCK: usize = 64;

/// `bytes` rounded up to whole blocks.
fn padded(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(BLOCK)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    u64_at(bytes, at).map(|bits| bits as i64)
}
