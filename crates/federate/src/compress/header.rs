//! The first bytes of a payload, which say how to read the rest.

use super::{Compression, SharedScale, Sparsity, Values};
use crate::{Error, Result};

const VERSION: u8 = 1;

/// Bytes of every header.
pub(super) const HEADER: usize = 8;

/// Which values are there, as the wire says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    Dense,
    Top,
    Random,
}

/// What a payload says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) places: Places,
    pub(super) values: Values,
    pub(super) scale: SharedScale,
    pub(super) len: u32,
}

impl Header {
    pub(super) fn new(compression: &Compression, len: u32) -> Header {
        Header {
            places: match compression.sparsity {
                Sparsity::Dense => Places::Dense,
                Sparsity::Top(_) => Places::Top,
                Sparsity::Random(_) => Places::Random,
            },
            values: compression.values,
            scale: compression.scale,
            len,
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let scale = match self.scale {
            SharedScale::Tensor => 0,
            SharedScale::Block(block) => block.trailing_zeros() as u8,
        };
        out.extend([VERSION, self.places as u8, self.values.bits() as u8, scale]);
        out.extend(self.len.to_le_bytes());
    }

    /// Takes a header off the front of bytes from outside.
    pub(super) fn read(bytes: &mut &[u8]) -> Result<Header> {
        let [version, places, values, scale] = take(bytes)?;
        if version != VERSION {
            return Err(malformed(format!(
                "has version {version}, and this program reads version {VERSION}"
            )));
        }
        let places = match places {
            0 => Places::Dense,
            1 => Places::Top,
            2 => Places::Random,
            other => return Err(malformed(format!("has unknown sparsity {other}"))),
        };
        let values = match values {
            32 => Values::Exact,
            8 => Values::EightBit,
            4 => Values::FourBit,
            1 => Values::OneBit,
            other => return Err(malformed(format!("has values of {other} bits"))),
        };
        let scale = match scale {
            0 => SharedScale::Tensor,
            4..=16 => SharedScale::Block(1 << scale),
            other => return Err(malformed(format!("has unknown block {other}"))),
        };
        let len = u32::from_le_bytes(take(bytes)?);
        Ok(Header {
            places,
            values,
            scale,
            len,
        })
    }
}

/// Takes so many bytes off the front.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (first, rest) = bytes
        .split_first_chunk()
        .ok_or_else(|| malformed("ends too early"))?;
    *bytes = rest;
    Ok(*first)
}

pub(super) fn malformed(what: impl std::fmt::Display) -> Error {
    Error::Malformed(format!("a compressed update {what}"))
}
