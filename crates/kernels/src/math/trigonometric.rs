//! Sine and cosine.

use super::polynomial;
use crate::vector::{MAX_LANES, Vector};

/// `pi / 2` in three parts; products of the first two with the quadrant number are exact up to [`REDUCIBLE`].
const QUARTER_TURN: [f32; 3] = [1.570_312_5, 4.837_513e-4, 7.549_79e-8];

/// Above this magnitude three parts no longer hold the argument, and the standard library's reduction is used.
const REDUCIBLE: f32 = 8192.0;

/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn sin_vector<V: Vector>(x: V) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        if V::any(V::splat(REDUCIBLE).less(x.abs())) {
            by_lane(x, f32::sin)
        } else {
            quarter_turns(x, 0.0)
        }
    }
}

/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn cos_vector<V: Vector>(x: V) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        if V::any(V::splat(REDUCIBLE).less(x.abs())) {
            by_lane(x, f32::cos)
        } else {
            quarter_turns(x, 1.0)
        }
    }
}

/// `sin(x + offset * pi / 2)`.
#[inline(always)]
unsafe fn quarter_turns<V: Vector>(x: V, offset: f32) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        let one = V::splat(1.0);
        let turns = (x * V::splat(std::f32::consts::FRAC_2_PI)).round();
        let mut r = x;
        for part in QUARTER_TURN {
            r = turns.neg_mul_add(V::splat(part), r);
        }
        let square = r * r;
        let sine = polynomial(square, [-1.951_529_6e-4, 8.332_161e-3, -1.666_665_5e-1]);
        let sine = sine.mul_add(square * r, r);
        let cosine = polynomial(square, [2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]);
        let cosine = cosine.mul_add(square * square, square.neg_mul_add(V::splat(0.5), one));
        // The quadrant 0..4 in floating point, exact for the magnitudes that get here.
        let quadrant = turns + V::splat(offset);
        let quadrant = (quadrant * V::splat(0.25))
            .floor()
            .neg_mul_add(V::splat(4.0), quadrant);
        let odd = (quadrant * V::splat(0.5))
            .floor()
            .neg_mul_add(V::splat(2.0), quadrant);
        let value = V::select(odd.equal(one), cosine, sine);
        V::select(one.less(quadrant), -value, value)
    }
}

#[inline(always)]
unsafe fn by_lane<V: Vector>(x: V, f: fn(f32) -> f32) -> V {
    let mut lanes = [0.0; MAX_LANES];
    // SAFETY: the scratch holds the widest register; the CPU is vouched for by the caller.
    unsafe {
        x.store(lanes.as_mut_ptr());
        for lane in &mut lanes[..V::LANES] {
            *lane = f(*lane);
        }
        V::load(lanes.as_ptr())
    }
}
