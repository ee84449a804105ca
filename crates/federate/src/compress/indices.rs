//! Ascending places in a few bits each.
//!
//! The gaps between places are Rice-coded: the low `rest` bits as they are, what is above in unary. With no low bits that is a
//! bitmap, so the one coding serves any density, within a few percent of the entropy of places at random.

use super::header::{malformed, take};
use crate::Result;

/// Bytes that `places` of `len` places take at the most.
pub(super) fn bound(places: usize, len: usize) -> usize {
    let bits = candidates(places, len).map(|rest| places * (1 + rest) + ((len - places) >> rest));
    1 + bits.min().unwrap_or(0).div_ceil(8)
}

/// Writes ascending `places` below `len`.
pub(super) fn write(places: &[u32], len: usize, out: &mut Vec<u8>) {
    let cost = |rest: &usize| {
        gaps(places)
            .map(|gap| (gap >> rest) as usize + rest)
            .sum::<usize>()
    };
    let rest = candidates(places.len(), len).min_by_key(cost).unwrap_or(0);
    out.push(rest as u8);
    let mut bits = BitWriter {
        out,
        held: 0,
        count: 0,
    };
    for gap in gaps(places) {
        bits.zeros(gap >> rest);
        bits.push(1, 1);
        bits.push(u64::from(gap) & ((1 << rest) - 1), rest as u32);
    }
    bits.finish();
}

/// Takes `count` ascending places below `len` off the front of bytes from outside.
pub(super) fn read(bytes: &mut &[u8], count: usize, len: usize) -> Result<Vec<u32>> {
    let [rest] = take(bytes)?;
    // Each place takes at least one bit: no more memory than the bytes vouch for.
    if rest > 31 || count > bytes.len() * 8 || count > len {
        return Err(malformed("has places that cannot be"));
    }
    let mut bits = BitReader { bytes, position: 0 };
    let mut places = Vec::with_capacity(count);
    let mut next = 0u64;
    for _ in 0..count {
        let high = bits.zeros()?;
        let gap = (high << rest) | bits.take(u32::from(rest))?;
        let place = next.saturating_add(gap);
        if place >= len as u64 {
            return Err(malformed(format!("names place {place} of {len}")));
        }
        places.push(place as u32);
        next = place + 1;
    }
    let padding = bits.position.next_multiple_of(8) - bits.position;
    if bits.take(padding as u32)? != 0 {
        return Err(malformed("has bits past its places"));
    }
    let used = bits.position / 8;
    *bytes = &bytes[used..];
    Ok(places)
}

/// Widths worth trying: those about the logarithm of the mean gap.
fn candidates(places: usize, len: usize) -> impl Iterator<Item = usize> {
    let mean = (len - places) / places.max(1);
    let about = mean.max(1).ilog2() as usize;
    (about.saturating_sub(1)..=about + 1).filter(|&rest| rest < 32)
}

fn gaps(places: &[u32]) -> impl Iterator<Item = u32> {
    let before = std::iter::once(0).chain(places.iter().map(|place| place + 1));
    places.iter().zip(before).map(|(place, before)| place - before)
}

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter<'_> {
    /// Adds the low `width` bits, at most 32; the others are zero.
    fn push(&mut self, bits: u64, width: u32) {
        self.held |= bits << self.count;
        self.count += width;
        if self.count >= 32 {
            self.out.extend((self.held as u32).to_le_bytes());
            self.held >>= 32;
            self.count -= 32;
        }
    }

    fn zeros(&mut self, mut count: u32) {
        while count > 0 {
            let now = count.min(32);
            self.push(0, now);
            count -= now;
        }
    }

    fn finish(self) {
        let bytes = self.count.div_ceil(8) as usize;
        self.out.extend(&self.held.to_le_bytes()[..bytes]);
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl BitReader<'_> {
    /// At least 57 bits from here on, or all there are, with how many.
    fn window(&self) -> (u64, u32) {
        let from = (self.position / 8).min(self.bytes.len());
        let rest = &self.bytes[from..];
        let (word, bytes) = match rest.first_chunk() {
            Some(first) => (u64::from_le_bytes(*first), 8),
            None => {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                (u64::from_le_bytes(last), rest.len() as u32)
            }
        };
        let skip = (self.position % 8) as u32;
        (word >> skip, (8 * bytes).saturating_sub(skip))
    }

    /// How many zeros there are before the next one, which is taken too.
    fn zeros(&mut self) -> Result<u64> {
        let mut count = 0;
        loop {
            let (word, there) = self.window();
            if there == 0 {
                return Err(malformed("ends within its places"));
            }
            let zeros = word.trailing_zeros().min(there);
            count += u64::from(zeros);
            self.position += zeros as usize;
            if zeros < there {
                self.position += 1;
                return Ok(count);
            }
        }
    }

    /// The next `width` bits, at most 32.
    fn take(&mut self, width: u32) -> Result<u64> {
        let (word, there) = self.window();
        if there < width {
            return Err(malformed("ends within its places"));
        }
        self.position += width as usize;
        Ok(word & ((1 << width) - 1))
    }
}
