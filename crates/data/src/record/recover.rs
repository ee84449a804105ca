//! What a record file still holds when its index is missing or wrong.

use std::fmt;

use super::{
    BLOCK,
    header::checksum,
    index::{self, Entry},
    page::{self, Head, Parts},
    schema::Schema,
};

/// Bytes that a page and the index begin with alike, so that a file cut within them tells nothing of what was to come.
const SHARED_PREFIX: usize = 5;

/// What was kept and lost of a file that its writer did not finish, or that was damaged since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Rows that can be read.
    pub rows_kept: usize,
    /// Bytes at the end of the file that are of no use.
    pub bytes_dropped: u64,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recovered {
            rows_kept,
            bytes_dropped,
            reason,
        } = self;
        write!(
            f,
            "{reason}: {rows_kept} rows kept, {bytes_dropped} bytes dropped"
        )
    }
}

/// Why a file had to be recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The writer stopped between two pages without finishing; no written page is lost.
    NotFinished,
    /// Only the index is cut or damaged; no row is lost.
    Index,
    /// The file ends in the middle of a page.
    TornPage {
        /// Number of the page that is cut.
        page: usize,
        /// Where it begins.
        offset: u64,
    },
    /// What follows the last good page is not a page.
    Damaged {
        /// Number of the page that should be there.
        page: usize,
        /// Where it should begin.
        offset: u64,
        /// What is wrong.
        problem: &'static str,
        /// Whether a whole page was seen behind the damage, so that more than a torn end is lost.
        pages_behind: bool,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotFinished => write!(f, "the writer did not finish the file"),
            Reason::Index => write!(f, "the index is cut or damaged and was rebuilt"),
            Reason::TornPage { page, offset } => {
                write!(f, "page {page} at byte {offset} was not written to its end")
            }
            Reason::Damaged {
                page,
                offset,
                problem,
                pages_behind,
            } => {
                let behind = if *pages_behind {
                    ", and whole pages lie behind it"
                } else {
                    ""
                };
                write!(f, "page {page} at byte {offset} is damaged ({problem}){behind}")
            }
        }
    }
}

/// Walks the pages from `pages_begin` on. Returns those that are whole, where they end, and why the walk ended there.
pub(super) fn walk(bytes: &[u8], schema: &Schema, pages_begin: usize) -> (Vec<Entry>, usize, Recovered) {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut at, mut rows) = (pages_begin, 0usize);
    let mut reason = loop {
        match next_page(bytes, schema, at, entries.len(), rows) {
            Ok((head, end)) => {
                entries.push(Entry::new(at, &head));
                rows += head.rows as usize;
                at = end;
            }
            Err(reason) => break reason,
        }
    };
    // A crash of the whole machine may leave the last pages in place but not their contents.
    while let Some(last) = entries.last() {
        if body_is_whole(bytes, schema, last) {
            break;
        }
        (at, rows) = (last.offset, last.first_row);
        reason = Reason::TornPage {
            page: entries.len() - 1,
            offset: at as u64,
        };
        entries.pop();
    }
    if let Reason::Damaged { pages_behind, .. } = &mut reason {
        *pages_behind = has_page(bytes, schema, at + BLOCK);
    }
    let index_only = reason == Reason::Index && bytes.get(at..at + 8) == Some(index::MAGIC);
    let recovered = Recovered {
        rows_kept: rows,
        bytes_dropped: if index_only { 0 } else { (bytes.len() - at) as u64 },
        reason,
    };
    (entries, at, recovered)
}

fn next_page(
    bytes: &[u8],
    schema: &Schema,
    at: usize,
    number: usize,
    rows: usize,
) -> Result<(Head, usize), Reason> {
    let rest = &bytes[at..];
    let torn = || Reason::TornPage {
        page: number,
        offset: at as u64,
    };
    let damaged = |problem| Reason::Damaged {
        page: number,
        offset: at as u64,
        problem,
        pages_behind: false,
    };
    if rest.is_empty() {
        return Err(Reason::NotFinished);
    }
    let magic = &rest[..rest.len().min(8)];
    if magic.len() <= SHARED_PREFIX && page::MAGIC.starts_with(magic) {
        return Err(Reason::NotFinished);
    }
    if index::MAGIC.starts_with(magic) {
        return Err(Reason::Index);
    }
    if page::MAGIC.starts_with(magic) && rest.len() < Parts::of(schema, 0).map_or(0, |p| p.times) {
        return Err(torn());
    }
    let head = Head::read(bytes, at, schema).map_err(damaged)?;
    if head.number as usize != number || head.first_row != rows as u64 {
        return Err(damaged("it is a page of another place"));
    }
    if head.rows == 0 || head.rows > schema.rows_per_page {
        return Err(damaged("its number of rows is impossible"));
    }
    let end = Parts::of(schema, head.rows as usize).and_then(|parts| at.checked_add(parts.end));
    match end {
        Some(end) if end <= bytes.len() => Ok((head, end)),
        _ => Err(torn()),
    }
}

/// Whether the body of a page matches the checksum in its head.
pub(super) fn body_is_whole(bytes: &[u8], schema: &Schema, entry: &Entry) -> bool {
    let Ok(head) = Head::read(bytes, entry.offset, schema) else {
        return false;
    };
    let Some(parts) = Parts::of(schema, entry.rows) else {
        return false;
    };
    let body = bytes.get(entry.offset + parts.times..entry.offset + parts.end);
    head.rows as usize == entry.rows && body.is_some_and(|body| checksum(&[body]) == head.body_checksum)
}

/// Whether a page with a valid head begins anywhere from `from` on.
fn has_page(bytes: &[u8], schema: &Schema, from: usize) -> bool {
    let blocks = bytes.get(from..).unwrap_or_default().chunks(BLOCK);
    blocks.enumerate().any(|(i, block)| {
        block.starts_with(page::MAGIC) && Head::read(bytes, from + i * BLOCK, schema).is_ok()
    })
}
