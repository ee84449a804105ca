//! Updates in fewer bytes.
//!
//! An update is a flat slice of what training changed. [`Compression::encode`] turns it into a [`Payload`] and [`decode`] gives
//! back what arrives. Both are pure: the same update, settings and seed make the same bytes on every machine. With error
//! feedback a client keeps what was lost, its residual, and sends it with a later update.
//!
//! ```
//! use synod_federate::compress::{Compression, UpdateLayout, Values, decode};
//!
//! let layout = UpdateLayout::new(&[0..600, 600..1000])?;
//! let update: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.1).sin()).collect();
//! let mut residual = vec![0.0; 1000];
//!
//! let sign = Compression::new(Values::OneBit);
//! let payload = sign.encode(&update, &layout, Some(&mut residual), 7)?;
//! assert_eq!(payload.len(), sign.size(&layout).bytes());
//! assert!(payload.len() * 20 < 4 * update.len());
//!
//! let arrived = decode(payload.as_ref(), &layout)?;
//! for i in 0..1000 {
//!     assert!((arrived[i] + residual[i] - update[i]).abs() < 1e-6);
//! }
//! # Ok::<(), synod_federate::Error>(())
//! ```
//!
//! # On the wire
//!
//! Eight bytes say version, sparsity, bits of a value, logarithm of the block (0 for a tensor) and the length of the update. A
//! sparse update goes on with the count of values; then a seed for random places, or the places themselves. Then come the
//! blocks, each a scale and its codes.

mod header;
mod indices;
mod layout;
mod quantise;
mod select;
mod settings;

use header::{HEADER, Header, Places, malformed, take};
pub use layout::UpdateLayout;
pub use settings::{Compression, SharedScale, Sparsity, Values};

use crate::{Error, Random, Result};

const ROUNDING: u64 = 0x726f_756e_6473;

/// A compressed update, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// Bytes on the wire.
    #[expect(clippy::len_without_is_empty, reason = "there is always a header")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes themselves.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// How many bytes a payload will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Just so many, whatever the update.
    Exact(usize),
    /// So many or fewer: places of the largest values take more or less.
    AtMost(usize),
}

impl Size {
    /// The number of bytes, or its upper bound.
    pub fn bytes(self) -> usize {
        match self {
            Size::Exact(bytes) | Size::AtMost(bytes) => bytes,
        }
    }
}

impl Compression {
    /// Bytes of every payload with these settings, before there is one.
    pub fn size(&self, layout: &UpdateLayout) -> Size {
        let kept = self.sparsity.kept(layout.len());
        match self.sparsity {
            Sparsity::Dense => Size::Exact(HEADER + self.blocks_bytes(layout)),
            Sparsity::Random(_) => Size::Exact(HEADER + 4 + 8 + self.blocks_bytes(&whole(kept))),
            Sparsity::Top(_) => {
                let places = indices::bound(kept, layout.len());
                Size::AtMost(HEADER + 4 + places + self.blocks_bytes(&whole(kept)))
            }
        }
    }

    fn blocks_bytes(&self, layout: &UpdateLayout) -> usize {
        let blocks = layout.blocks(self.scale);
        blocks.map(|b| quantise::block_bytes(self.values, b.len())).sum()
    }

    /// Writes an update in few bytes.
    ///
    /// With a residual, that is added first and then holds what this payload leaves out; begin with zeros. Without, values at
    /// random places are raised so that the mean over seeds is right. Use another seed for every update: it travels with
    /// random places. After an error the residual is as it was.
    pub fn encode(
        &self,
        delta: &[f32],
        layout: &UpdateLayout,
        residual: Option<&mut [f32]>,
        seed: u64,
    ) -> Result<Payload> {
        self.check()?;
        let other = residual.as_ref().map(|r| r.len()).unwrap_or(layout.len());
        if delta.len() != layout.len() || other != layout.len() {
            return Err(Error::Data(format!(
                "an update of {} values with a residual of {other} does not fit a model of {}",
                delta.len(),
                layout.len()
            )));
        }
        let Some(residual) = residual else {
            return self.write(delta, layout, seed, true);
        };
        quantise::check(delta.iter().zip(&*residual).map(|(d, r)| d + r))?;
        // In place, and nothing from here on can fail: sums that pass the check can be written, and what was written read.
        residual.iter_mut().zip(delta).for_each(|(r, d)| *r += d);
        let payload = self.write(residual, layout, seed, false)?;
        let sent = decode(payload.as_ref(), layout)?;
        residual.iter_mut().zip(sent).for_each(|(r, s)| *r -= s);
        Ok(payload)
    }

    fn write(&self, wanted: &[f32], layout: &UpdateLayout, seed: u64, unbiased: bool) -> Result<Payload> {
        quantise::check(wanted.iter().copied())?;
        let len = wanted.len() as u32;
        let kept = self.sparsity.kept(wanted.len());
        let mut out = Vec::with_capacity(self.size(layout).bytes());
        Header::new(self, len).write(&mut out);
        let random = &mut Random::new(seed, &[ROUNDING]);
        let values: Vec<f32> = match self.sparsity {
            Sparsity::Dense => {
                let blocks = layout.blocks(self.scale);
                quantise::write(self.values, wanted, blocks, random, &mut out);
                return Ok(Payload(out));
            }
            Sparsity::Top(_) => {
                let places = select::largest(wanted, kept);
                out.extend((kept as u32).to_le_bytes());
                indices::write(&places, wanted.len(), &mut out);
                places.iter().map(|&place| wanted[place as usize]).collect()
            }
            Sparsity::Random(_) => {
                out.extend((kept as u32).to_le_bytes());
                out.extend(seed.to_le_bytes());
                select::scattered(seed, kept as u32, len)
                    .map(|(place, of)| wanted[place as usize] * if unbiased { of as f32 } else { 1.0 })
                    .collect()
            }
        };
        quantise::check(values.iter().copied())?;
        let blocks = whole(kept);
        quantise::write(self.values, &values, blocks.blocks(self.scale), random, &mut out);
        Ok(Payload(out))
    }
}

/// Reads what [`Compression::encode`] wrote, from bytes that anyone may have sent.
///
/// What is not a whole payload for just this layout is an error; memory is bounded by the layout, and every value is finite.
pub fn decode(bytes: &[u8], layout: &UpdateLayout) -> Result<Vec<f32>> {
    let mut values = Vec::new();
    decode_into(bytes, layout, &mut values)?;
    Ok(values)
}

/// [`decode`] into a vector that is used again for many payloads. After an error it holds nothing of use.
pub fn decode_into(bytes: &[u8], layout: &UpdateLayout, values: &mut Vec<f32>) -> Result<()> {
    let rest = &mut &*bytes;
    let header = Header::read(rest)?;
    if header.len as usize != layout.len() {
        return Err(malformed(format!(
            "has {} values for a model of {}",
            header.len,
            layout.len()
        )));
    }
    values.clear();
    values.resize(layout.len(), 0.0);
    if header.places == Places::Dense {
        quantise::read(header.values, rest, layout.blocks(header.scale), values)?;
    } else {
        scatter(&header, rest, values)?;
    }
    match rest.len() {
        0 => Ok(()),
        more => Err(malformed(format!("has {more} bytes too many"))),
    }
}

/// Reads kept values and puts them in their places.
fn scatter(header: &Header, rest: &mut &[u8], values: &mut [f32]) -> Result<()> {
    let kept = u32::from_le_bytes(take(rest)?);
    if kept > header.len {
        return Err(malformed(format!("keeps {kept} of {} values", header.len)));
    }
    let places: Vec<u32> = match header.places {
        Places::Random => {
            let seed = u64::from_le_bytes(take(rest)?);
            let scattered = select::scattered(seed, kept, header.len);
            scattered.map(|(place, _)| place).collect()
        }
        _ => indices::read(rest, kept as usize, values.len())?,
    };
    let blocks = whole(kept as usize);
    let mut read = vec![0.0; kept as usize];
    quantise::read(header.values, rest, blocks.blocks(header.scale), &mut read)?;
    for (place, value) in places.into_iter().zip(read) {
        values[place as usize] = value;
    }
    Ok(())
}

/// Kept values are one tensor: their places cross the real ones.
fn whole(kept: usize) -> UpdateLayout {
    UpdateLayout::single(kept as u32)
}
