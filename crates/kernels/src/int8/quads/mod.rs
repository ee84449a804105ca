//! Bytes as they are, multiplied in fours by AVX-512 VNNI.
//!
//! The bytes of the images are unsigned and keep their zero point; what it adds to a sum is the same for every place, for
//! around the images the copy has zero points too, and is taken away by starting every sum below zero.

use crate::level::{Level, Simd};

mod filter;
mod sweep;
mod tile;

pub(super) use filter::Panels;
pub(super) use sweep::Plan;

/// Whether the CPU has the instructions and the level allows them.
pub(super) fn supported(simd: Simd) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let found = is_x86_feature_detected!("avx512vnni");
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let found = false;
    found && simd.level() == Level::Avx512
}
