//! From numbers to bytes, from exact sums back to numbers or bytes, and sums of bytes.
//!
//! The loops are plain, and compiled for every level; no product is contracted with a sum, so that all levels give the
//! same bytes.

use crate::{
    level::{Kernel, Simd},
    share::{Shared, share},
    vector::Vector,
};

/// Added to a smaller number, it leaves the number rounded, halves to even, in the lowest bits: at 1.5 · 2²³ numbers are
/// integers.
const ROUND: f32 = 12_582_912.0;

/// Results below which threads do not pay.
const SHARE: usize = 1 << 15;

/// A number of steps between `-zero_point` and `255 - zero_point` as a byte.
#[inline(always)]
fn byte(steps: f32, zero_point: u8) -> u8 {
    ((steps + ROUND).to_bits() as u8).wrapping_add(zero_point)
}

/// The steps that bytes have room for, counted from the zero point; not below it if `relu`.
fn room(zero_point: u8, relu: bool) -> [f32; 2] {
    let zero = f32::from(zero_point);
    [if relu { 0.0 } else { -zero }, 255.0 - zero]
}

/// `y = sum * scale + bias`, with a scale and a bias per channel, channels innermost.
pub fn dequantise(sums: &[i32], scales: &[f32], bias: &[f32], y: &mut [f32]) {
    check(sums.len(), scales.len(), bias.len(), y.len());
    let channels = scales.len().max(1);
    for (sums, y) in sums.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
        for (((y, &sum), scale), bias) in y.iter_mut().zip(sums).zip(scales).zip(bias) {
            *y = sum as f32 * scale + bias;
        }
    }
}

/// How sums become bytes: `round(sum * scale + bias) + zero_point`, kept between `zero_point` and 255 if `relu`, else
/// between 0 and 255; halves round to even. Scales and biases, of every channel, are in steps of the result.
#[derive(Copy, Clone, Debug)]
pub struct Requantise<'a> {
    /// One per channel; channels are innermost.
    pub scales: &'a [f32],
    /// One per channel.
    pub bias: &'a [f32],
    /// The byte that stands for zero.
    pub zero_point: u8,
    /// Whether negative sums become zero.
    pub relu: bool,
}

impl Requantise<'_> {
    /// Turns sums into bytes.
    pub fn run(&self, simd: Simd, sums: &[i32], y: &mut [u8], threads: usize) {
        check(sums.len(), self.scales.len(), self.bias.len(), y.len());
        let channels = self.scales.len().max(1);
        let threads = if y.len() < SHARE { 1 } else { threads };
        let target = Shared::new(y);
        share(threads, sums.len() / channels, |pixels| {
            let range = pixels.start * channels..pixels.end * channels;
            simd.run(SumsToBytes {
                how: *self,
                // SAFETY: the threads' pixels are disjoint and lie inside the bytes.
                y: unsafe { target.part(range.clone()) },
                sums: &sums[range],
            });
        });
    }

    /// The least and most steps of a result.
    pub(super) fn room(&self) -> [f32; 2] {
        room(self.zero_point, self.relu)
    }
}

struct SumsToBytes<'a> {
    how: Requantise<'a>,
    sums: &'a [i32],
    y: &'a mut [u8],
}

impl Kernel for SumsToBytes<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (how, channels) = (self.how, self.how.scales.len().max(1));
        let ([least, most], zero_point) = (how.room(), how.zero_point);
        let pixels = self.sums.chunks_exact(channels);
        for (sums, y) in pixels.zip(self.y.chunks_exact_mut(channels)) {
            for (((y, &sum), scale), bias) in y.iter_mut().zip(sums).zip(how.scales).zip(how.bias) {
                let steps = sum as f32 * scale + bias;
                *y = byte(steps.max(least).min(most), zero_point);
            }
        }
    }
}

/// `y = round(x / scale) + zero_point`, kept between 0 and 255; halves round to even, and what is not a number becomes 0.
pub fn quantise(simd: Simd, x: &[f32], scale: f32, zero_point: u8, y: &mut [u8]) {
    assert!(
        x.len() == y.len(),
        "int8: {} numbers as {} bytes",
        x.len(),
        y.len()
    );
    simd.run(NumbersToBytes {
        x,
        scale,
        zero_point,
        y,
    });
}

struct NumbersToBytes<'a> {
    x: &'a [f32],
    scale: f32,
    zero_point: u8,
    y: &'a mut [u8],
}

impl Kernel for NumbersToBytes<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [least, most] = room(self.zero_point, false);
        for (y, x) in self.y.iter_mut().zip(self.x) {
            *y = byte((x / self.scale).max(least).min(most), self.zero_point);
        }
    }
}

/// `y = round((a - a_zero) * a_steps + (b - b_zero) * b_steps) + zero_point`, kept between `zero_point` and 255 if `relu`,
/// else between 0 and 255; halves round to even. An operand is its bytes, its zero point, and the steps of the result that
/// one of its own is.
pub fn add_bytes(
    simd: Simd,
    a: (&[u8], u8, f32),
    b: (&[u8], u8, f32),
    zero_point: u8,
    relu: bool,
    y: &mut [u8],
    threads: usize,
) {
    assert!(
        a.0.len() == y.len() && b.0.len() == y.len(),
        "int8: {} and {} bytes added to {}",
        a.0.len(),
        b.0.len(),
        y.len()
    );
    let threads = if y.len() < SHARE { 1 } else { threads };
    let (len, target) = (y.len(), Shared::new(y));
    share(threads, len, |range| {
        simd.run(AddBytes {
            a: (&a.0[range.clone()], a.1, a.2),
            b: (&b.0[range.clone()], b.1, b.2),
            zero_point,
            room: room(zero_point, relu),
            // SAFETY: the threads' ranges are disjoint and lie inside the bytes.
            y: unsafe { target.part(range) },
        });
    });
}

struct AddBytes<'a> {
    a: (&'a [u8], u8, f32),
    b: (&'a [u8], u8, f32),
    zero_point: u8,
    room: [f32; 2],
    y: &'a mut [u8],
}

impl Kernel for AddBytes<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [least, most] = self.room;
        let number = |byte: u8, zero: u8, steps: f32| (i32::from(byte) - i32::from(zero)) as f32 * steps;
        for ((y, &a), &b) in self.y.iter_mut().zip(self.a.0).zip(self.b.0) {
            let steps = number(a, self.a.1, self.a.2) + number(b, self.b.1, self.b.2);
            *y = byte(steps.max(least).min(most), self.zero_point);
        }
    }
}

fn check(sums: usize, scales: usize, bias: usize, y: usize) {
    assert!(
        scales == bias && sums == y && (sums == 0 || scales > 0 && sums.is_multiple_of(scales)),
        "int8: {sums} sums with {scales} scales and {bias} biases into {y} results"
    );
}
