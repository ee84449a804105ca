//! What of a model travels between clients and the server.

use std::ops::Range;

use super::personal::{gather, scatter};
use crate::compress::{Compression, UpdateLayout, decode_into};
use crate::error::Result;

/// The places of a model that travel, and how updates of them are laid out.
pub(super) struct Wire {
    /// None if all of the model travels.
    shared: Option<Vec<Range<usize>>>,
    layout: UpdateLayout,
}

/// How one client's update is encoded.
pub(super) struct Encoding<'a> {
    pub(super) compression: &'a Compression,
    pub(super) seed: u64,
}

impl Wire {
    /// Of all tensors but the private ones.
    pub(super) fn new(tensors: &[Range<usize>], private: &[Range<usize>]) -> Result<Wire> {
        let shared = tensors.iter().filter(|t| !private.contains(t));
        let mut end = 0;
        let packed: Vec<Range<usize>> = shared
            .clone()
            .map(|t| {
                end += t.len();
                end - t.len()..end
            })
            .collect();
        Ok(Wire {
            layout: UpdateLayout::new(&packed)?,
            shared: (!private.is_empty()).then(|| shared.cloned().collect()),
        })
    }

    /// What a model, or an update of it in full, takes.
    pub(super) fn bytes(&self) -> u64 {
        4 * self.layout.len() as u64
    }

    /// What an update takes.
    pub(super) fn update_bytes(&self, compression: &Compression) -> u64 {
        compression.size(&self.layout).bytes() as u64
    }

    /// Sends an update: what arrives of it takes its place, and what does not is kept for later. Returns the bytes.
    pub(super) fn send(
        &self,
        delta: &mut Vec<f32>,
        residual: &mut Vec<f32>,
        how: &Encoding<'_>,
    ) -> Result<u64> {
        if how.compression.is_exact() {
            return Ok(self.update_bytes(how.compression));
        }
        let Some(shared) = &self.shared else {
            return self.encode(delta, residual, how);
        };
        let mut packed = gather(delta, shared);
        let bytes = self.encode(&mut packed, residual, how)?;
        scatter(delta, shared, &packed);
        Ok(bytes)
    }

    fn encode(&self, values: &mut Vec<f32>, residual: &mut Vec<f32>, how: &Encoding<'_>) -> Result<u64> {
        let feedback = how.compression.feedback;
        if feedback {
            residual.resize(values.len(), 0.0);
        }
        let residual = feedback.then_some(&mut residual[..]);
        let payload = how.compression.encode(values, &self.layout, residual, how.seed)?;
        decode_into(payload.as_ref(), &self.layout, values)?;
        Ok(payload.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Values;

    #[test]
    fn what_is_private_takes_no_bytes_and_is_not_touched() {
        let tensors = [0..40, 40..60, 60..100];
        let (all, some) = (Wire::new(&tensors, &[]), Wire::new(&tensors, &tensors[1..2]));
        let (all, some) = (all.expect("a wire"), some.expect("a wire"));
        assert_eq!((all.bytes(), some.bytes()), (400, 320));
        let compression = Compression::new(Values::EightBit);
        let how = Encoding {
            compression: &compression,
            seed: 1,
        };
        let mut delta: Vec<f32> = (0..100).map(|i| (i as f32 - 50.0) / 100.0).collect();
        let before = delta.clone();
        let bytes = some.send(&mut delta, &mut vec![], &how).expect("sent");
        assert_eq!(bytes, some.update_bytes(&compression));
        assert!(bytes + 20 <= all.update_bytes(&compression));
        assert_eq!(delta[40..60], before[40..60]);
        assert_ne!(delta[..40], before[..40], "bytes round");
        let near = delta.iter().zip(&before).all(|(a, b)| (a - b).abs() < 0.02);
        assert!(near, "{delta:?}");
    }
}
