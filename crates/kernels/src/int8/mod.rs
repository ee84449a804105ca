//! Convolutions, and dense layers as convolutions of single pixels, of bytes: unsigned activations with a zero point,
//! signed weights, exact sums of 32 bits.
//!
//! Bytes are widened to 16 bits while they are copied and packed, and multiplied in pairs. The instructions that multiply
//! bytes directly saturate at 16 bits and need a second multiplication to widen, so that they would gain little.

use std::ops::Range;

use crate::{
    conv::{Conv, Geometry, GeometryError, correlation::Correlation},
    level::Simd,
};

mod filter;
mod finish;
mod sweep;
mod tile;

use filter::Layout;
pub use finish::{dequantise, requantise};

/// The most products whose sum fits in 32 bits whatever the bytes are.
pub(crate) const MOST_PRODUCTS: usize = i32::MAX as usize / (255 * 128);

/// Weights of one convolution, packed once for many forward passes at one level; the batch may differ.
#[derive(Clone, Debug)]
pub struct ByteFilter {
    simd: Simd,
    geometry: Geometry,
    data: Vec<i16>,
}

impl ByteFilter {
    /// Packs weights laid out like those of a [`Conv`]. Fails where a sum of so many products might overflow.
    pub fn pack(conv: &Conv, simd: Simd, w: &[i8]) -> Result<ByteFilter, GeometryError> {
        conv.check_len("w", w.len(), conv.weight_len());
        let shape = Correlation::forward(conv);
        let products = shape.taps().saturating_mul(shape.depth);
        if products > MOST_PRODUCTS {
            return Err(GeometryError::Sum { products });
        }
        let layout = Layout::new(&shape);
        let mut data = vec![0; layout.len()];
        layout.pack(w, &mut data);
        Ok(ByteFilter {
            simd,
            geometry: *conv.geometry(),
            data,
        })
    }
}

impl Conv {
    /// The 16-bit words of workspace that [`Conv::forward_bytes`] needs.
    pub fn forward_bytes_workspace(&self, threads: usize) -> usize {
        sweep::Plan::new(&Correlation::forward(self), threads).workspace()
    }

    /// `sums` = the exact sums of `(x - zero_point) * w`; what is outside the image counts as `zero_point`.
    #[expect(
        clippy::too_many_arguments,
        reason = "operands of one kernel, and where it runs"
    )]
    pub fn forward_bytes(
        &self,
        simd: Simd,
        x: &[u8],
        zero_point: u8,
        w: &ByteFilter,
        sums: &mut [i32],
        threads: usize,
        workspace: &mut [i16],
    ) {
        self.check_len("x", x.len(), self.input_len());
        self.check_len("sums", sums.len(), self.output_len());
        let n = self.geometry().n;
        let (wanted, found) = (*self.geometry(), Geometry { n, ..w.geometry });
        assert!(
            wanted == found && simd.level() == w.simd.level(),
            "int8: weights packed for {found:?} at {} in a forward pass of {wanted:?} at {}",
            w.simd.level(),
            simd.level()
        );
        let plan = sweep::Plan::new(&Correlation::forward(self), threads);
        assert!(
            workspace.len() >= plan.workspace(),
            "int8: a workspace of {} words, not {}",
            workspace.len(),
            plan.workspace()
        );
        plan.run(simd, x, zero_point, &w.data, sums, workspace);
    }
}

/// Channels handled together, padded to whole pairs.
fn pairs(channels: &Range<usize>) -> usize {
    channels.len().div_ceil(2)
}
