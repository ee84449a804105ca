//! Bytes of a file, unpacked if they are gzip.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;

use crate::error::{Result, io_error};

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Deflate cannot make more of a byte than this.
const GZIP_EXPANSION: u64 = 1032;

/// A file's contents from the start, and the most bytes they can come to.
pub(super) struct Input {
    pub(super) reader: Box<dyn BufRead + Send>,
    pub(super) at_most: u64,
    /// Bytes of the file itself.
    pub(super) length: u64,
    pub(super) packed: bool,
}

pub(super) fn open(path: &Path) -> Result<Input> {
    let file = File::open(path).map_err(io_error("open the file", path))?;
    let length = file.metadata().map_err(io_error("look at the file", path))?.len();
    let mut plain = BufReader::with_capacity(1 << 16, file);
    let start = plain.fill_buf().map_err(io_error("read the file", path))?;
    let packed = start.starts_with(&GZIP);
    let reader: Box<dyn BufRead + Send> = if packed {
        Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(plain)))
    } else {
        Box::new(plain)
    };
    let at_most = if packed {
        length.saturating_mul(GZIP_EXPANSION)
    } else {
        length
    };
    Ok(Input {
        reader,
        at_most,
        length,
        packed,
    })
}

/// The first bytes of the unpacked contents, fewer if the file is shorter.
pub(super) fn first_bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?
        .reader
        .take(512)
        .read_to_end(&mut bytes)
        .map_err(io_error("read the file", path))?;
    Ok(bytes)
}
