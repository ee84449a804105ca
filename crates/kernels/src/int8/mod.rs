//! Convolutions, and dense layers as convolutions of single pixels, of bytes: unsigned activations with a zero point,
//! signed weights, exact sums of 32 bits.
//!
//! Where the CPU adds four products of bytes to a sum of 32 bits at once (AVX-512 VNNI), bytes stay bytes. Elsewhere they
//! are widened to 16 bits while they are copied and packed, and multiplied in pairs: the older instructions that multiply
//! bytes directly saturate at 16 bits and need a second multiplication to widen, so that they would gain little.

use crate::{
    conv::{Conv, Geometry, GeometryError, correlation::Correlation},
    level::Simd,
};

mod finish;
mod quads;
mod words;

pub use finish::{Requantise, add_bytes, dequantise, quantise};

/// The most products whose sum fits in 32 bits whatever the bytes are.
pub(crate) const MOST_PRODUCTS: usize = i32::MAX as usize / (255 * 128);

/// Weights of one convolution, packed once for many forward passes at one level; the batch may differ.
#[derive(Clone, Debug)]
pub struct ByteFilter {
    simd: Simd,
    geometry: Geometry,
    panels: Panels,
}

#[derive(Clone, Debug)]
enum Panels {
    Words(Vec<i16>),
    Quads(quads::Panels),
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
        let panels = if quads::supported(simd) {
            Panels::Quads(quads::Panels::pack(&shape, w))
        } else {
            let layout = words::Layout::new(&shape);
            let mut panels = vec![0; layout.len()];
            layout.pack(w, &mut panels);
            Panels::Words(panels)
        };
        Ok(ByteFilter {
            simd,
            geometry: *conv.geometry(),
            panels,
        })
    }
}

/// Where the sums of a forward pass go.
#[derive(Debug)]
pub enum ByteResults<'a> {
    /// To memory, as they are.
    Sums(&'a mut [i32]),
    /// Back to bytes.
    Bytes(Requantise<'a>, &'a mut [u8]),
}

impl ByteResults<'_> {
    fn check(&self, conv: &Conv) {
        match self {
            ByteResults::Sums(sums) => conv.check_len("sums", sums.len(), conv.output_len()),
            ByteResults::Bytes(requantise, y) => {
                conv.check_len("y", y.len(), conv.output_len());
                conv.check_len("scales", requantise.scales.len(), conv.geometry().o);
                conv.check_len("bias", requantise.bias.len(), conv.geometry().o);
            }
        }
    }
}

/// Memory that forward passes use again; it grows to what the largest of them needs.
#[derive(Clone, Debug, Default)]
pub struct ByteWorkspace {
    words: Vec<i16>,
    bytes: Vec<u8>,
    sums: Vec<i32>,
}

/// The first `len` elements, of which there will be so many.
fn room<T: Copy + Default>(memory: &mut Vec<T>, len: usize) -> &mut [T] {
    if memory.len() < len {
        memory.resize(len, T::default());
    }
    &mut memory[..len]
}

impl Conv {
    /// The exact sums of `(x - zero_point) * w`, as they are or as bytes again; what is outside the image counts as
    /// `zero_point`. The number of threads changes no bit.
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
        results: ByteResults<'_>,
        threads: usize,
        workspace: &mut ByteWorkspace,
    ) {
        self.check_len("x", x.len(), self.input_len());
        results.check(self);
        let n = self.geometry().n;
        let (wanted, found) = (*self.geometry(), Geometry { n, ..w.geometry });
        assert!(
            wanted == found && simd.level() == w.simd.level(),
            "int8: weights packed for {found:?} at {} in a forward pass of {wanted:?} at {}",
            w.simd.level(),
            simd.level()
        );
        let shape = Correlation::forward(self);
        match &w.panels {
            Panels::Quads(panels) => {
                let plan = quads::Plan::new(&shape, threads);
                let copies = room(&mut workspace.bytes, plan.workspace());
                plan.run(x, zero_point, panels, results, copies);
            }
            Panels::Words(panels) => {
                let plan = words::Plan::new(&shape, threads);
                let copies = room(&mut workspace.words, plan.workspace());
                match results {
                    ByteResults::Sums(sums) => plan.run(simd, x, zero_point, panels, sums, copies),
                    ByteResults::Bytes(requantise, y) => {
                        let sums = room(&mut workspace.sums, y.len());
                        plan.run(simd, x, zero_point, panels, sums, copies);
                        requantise.run(simd, sums, y, threads);
                    }
                }
            }
        }
    }
}
