//! Sums and averages.

use super::{
    Divisor,
    windows::{Part, Seen, Visit},
};
use crate::{
    level::Kernel,
    vector::{Vector, load_up_to, store_up_to},
};

/// The divided sum of every window.
pub(super) struct Sum<'a> {
    pub(super) part: Part<'a>,
    pub(super) x: &'a [f32],
    pub(super) divisor: Divisor,
    pub(super) y: *mut f32,
}

/// The adjoint of [`Sum`].
pub(super) struct Spread<'a> {
    pub(super) part: Part<'a>,
    pub(super) dy: &'a [f32],
    pub(super) divisor: Divisor,
    pub(super) dx: *mut f32,
}

/// What a window's sum is multiplied by.
#[inline(always)]
fn scale(divisor: Divisor, part: &Part<'_>, seen: &Seen) -> f32 {
    let [down, across] = part.pool.window.kernel;
    match divisor {
        Divisor::One => 1.0,
        Divisor::Window => 1.0 / (down as f32 * across as f32),
        Divisor::Inside => 1.0 / (seen.count[0] as f32 * seen.count[1] as f32).max(1.0),
    }
}

impl Kernel for Sum<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the tensors were checked against the pooling.
        unsafe { self.part.each::<V>(&self) }
    }
}

impl Kernel for Spread<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the tensors were checked against the pooling, and parts of a spread are whole images.
        unsafe {
            self.part.clear(self.dx);
            self.part.each::<V>(&self)
        }
    }
}

impl Visit for Sum<'_> {
    #[inline(always)]
    unsafe fn visit<V: Vector>(&self, seen: &Seen, channel: usize, count: usize) {
        // SAFETY: passed on from the caller.
        unsafe {
            let x = self.x.as_ptr().wrapping_add(seen.from + channel);
            let mut sum = V::splat(0.0);
            for i in 0..seen.count[0] {
                for j in 0..seen.count[1] {
                    sum = sum + load_up_to(x.add(i * seen.step[0] + j * seen.step[1]), count);
                }
            }
            let scaled = sum * V::splat(scale(self.divisor, &self.part, seen));
            store_up_to(scaled, self.y.add(seen.to + channel), count);
        }
    }
}

impl Visit for Spread<'_> {
    #[inline(always)]
    unsafe fn visit<V: Vector>(&self, seen: &Seen, channel: usize, count: usize) {
        // SAFETY: passed on from the caller.
        unsafe {
            let error = load_up_to::<V>(self.dy.as_ptr().add(seen.to + channel), count);
            let error = error * V::splat(scale(self.divisor, &self.part, seen));
            let dx = self.dx.wrapping_add(seen.from + channel);
            for i in 0..seen.count[0] {
                for j in 0..seen.count[1] {
                    let to = dx.add(i * seen.step[0] + j * seen.step[1]);
                    store_up_to(load_up_to::<V>(to, count) + error, to, count);
                }
            }
        }
    }
}
