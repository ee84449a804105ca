//! Maxima, and what lies where they are.

use super::windows::{Part, Seen, Visit};
use crate::{
    level::Kernel,
    vector::{Vector, load_up_to, store_up_to},
};

/// The maximum of every window.
pub(super) struct Max<'a> {
    pub(super) part: Part<'a>,
    pub(super) x: &'a [f32],
    pub(super) y: *mut f32,
}

/// The element of `z` at every maximum of `x`.
pub(super) struct Pick<'a> {
    pub(super) part: Part<'a>,
    pub(super) x: &'a [f32],
    pub(super) z: &'a [f32],
    pub(super) y: *mut f32,
}

/// The adjoint of [`Pick`].
pub(super) struct Spread<'a> {
    pub(super) part: Part<'a>,
    pub(super) x: &'a [f32],
    pub(super) dy: &'a [f32],
    pub(super) dx: *mut f32,
    /// Whether an element may belong to several windows.
    pub(super) overlap: bool,
}

impl Kernel for Max<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the tensors were checked against the pooling.
        unsafe { self.part.each::<V>(&self) }
    }
}

impl Kernel for Pick<'_> {
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

impl Visit for Max<'_> {
    #[inline(always)]
    unsafe fn visit<V: Vector>(&self, seen: &Seen, channel: usize, count: usize) {
        // SAFETY: passed on from the caller.
        unsafe {
            let x = self.x.as_ptr().wrapping_add(seen.from + channel);
            let mut best = V::splat(f32::NEG_INFINITY);
            for i in 0..seen.count[0] {
                for j in 0..seen.count[1] {
                    let value = load_up_to::<V>(x.add(i * seen.step[0] + j * seen.step[1]), count);
                    best = value.nan_or(value.max(best));
                }
            }
            store_up_to(best, self.y.add(seen.to + channel), count);
        }
    }
}

/// `yes` where `value` takes the place of `best` as the maximum, else `no`.
#[inline(always)]
fn where_better<V: Vector>(value: V, best: V, yes: V, no: V) -> V {
    let larger = V::select(best.less(value), yes, no);
    let first_nan = V::select(best.equal(best), yes, no);
    V::select(value.equal(value), larger, first_nan)
}

impl Visit for Pick<'_> {
    #[inline(always)]
    unsafe fn visit<V: Vector>(&self, seen: &Seen, channel: usize, count: usize) {
        // SAFETY: passed on from the caller.
        unsafe {
            let to = self.y.add(seen.to + channel);
            if seen.is_empty() {
                return store_up_to(V::splat(0.0), to, count);
            }
            let (x, z) = (
                self.x.as_ptr().wrapping_add(seen.from + channel),
                self.z.as_ptr().wrapping_add(seen.from + channel),
            );
            let (mut best, mut picked) = (load_up_to::<V>(x, count), load_up_to::<V>(z, count));
            for i in 0..seen.count[0] {
                for j in 0..seen.count[1] {
                    let at = i * seen.step[0] + j * seen.step[1];
                    let value = load_up_to::<V>(x.add(at), count);
                    picked = where_better(value, best, load_up_to(z.add(at), count), picked);
                    best = where_better(value, best, value, best);
                }
            }
            store_up_to(picked, to, count);
        }
    }
}

impl Visit for Spread<'_> {
    #[inline(always)]
    unsafe fn visit<V: Vector>(&self, seen: &Seen, channel: usize, count: usize) {
        if seen.is_empty() {
            return;
        }
        // SAFETY: passed on from the caller.
        unsafe {
            let x = self.x.as_ptr().wrapping_add(seen.from + channel);
            let mut best = V::splat(f32::NEG_INFINITY);
            for i in 0..seen.count[0] {
                for j in 0..seen.count[1] {
                    let value = load_up_to::<V>(x.add(i * seen.step[0] + j * seen.step[1]), count);
                    best = value.nan_or(value.max(best));
                }
            }
            // What is left of the gradient goes, lane by lane, to the first element that is the maximum; a NaN is one.
            let zero = V::splat(0.0);
            let mut left = load_up_to::<V>(self.dy.as_ptr().add(seen.to + channel), count);
            let dx = self.dx.wrapping_add(seen.from + channel);
            for i in 0..seen.count[0] {
                for j in 0..seen.count[1] {
                    let at = i * seen.step[0] + j * seen.step[1];
                    let value = load_up_to::<V>(x.add(at), count);
                    let (is_number, is_best) = (value.equal(value), value.equal(best));
                    let mut taken = V::select(is_number, V::select(is_best, left, zero), left);
                    left = V::select(is_number, V::select(is_best, zero, left), zero);
                    if self.overlap {
                        taken = taken + load_up_to(dx.add(at), count);
                    }
                    store_up_to(taken, dx.add(at), count);
                }
            }
        }
    }
}
