//! Numbers rounded to the few levels of a byte, with a gradient that trains through the rounding.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Axis, Binary, Broadcast, Cost, Primitive, Select, Transpose};
use super::{arity, tensor, traffic};
use crate::graph::{Builder, Value};
use crate::types::{Shape, Type};

/// Levels stay below this, so that every one of them, and half a step more, is exact in `f32`.
const LARGEST: i32 = 1 << 20;

/// `(x, scale) -> scale · round(clamp(x / scale, least, most))`, halves to even: what is left of `x` after a trip through an
/// integer. The scale is a scalar, or has one number for each place along `axis`.
///
/// A zero point `z` of unsigned bytes is the levels `-z..=255 - z`: zero is always a level.
///
/// The gradient goes straight through: by `x` it is 1 where `x` lies between the outermost levels and 0 elsewhere, by the
/// scale it is none. This is a definition, not the derivative, which is zero almost everywhere and teaches nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FakeQuant {
    /// The axis along which scales differ.
    pub axis: Option<usize>,
    /// The lowest level, at most 0.
    pub least: i32,
    /// The highest level, at least 0.
    pub most: i32,
}

impl FakeQuant {
    /// Symmetric signed bytes, as for weights; -128 is not used.
    pub fn signed(axis: Option<usize>) -> FakeQuant {
        FakeQuant {
            axis,
            least: -127,
            most: 127,
        }
    }

    /// Unsigned bytes in which `zero_point` stands for zero, as for activations.
    pub fn unsigned(zero_point: u8) -> FakeQuant {
        let zero = i32::from(zero_point);
        FakeQuant {
            axis: None,
            least: -zero,
            most: 255 - zero,
        }
    }

    /// The shape of the scale, and the scales' places in a tensor: `(outer, scales, inner)` extents.
    pub(crate) fn runs(&self, x: &Shape) -> (usize, usize, usize) {
        match self.axis {
            None => (1, 1, x.elements()),
            Some(a) => (
                x.dims()[..a].iter().product(),
                x.dims()[a],
                x.dims()[a + 1..].iter().product(),
            ),
        }
    }

    fn spread(&self, b: &mut Builder, scale: Value, x: Value) -> Value {
        let axes = self.axis.into_iter().collect();
        let shape = b.shape(x);
        match shape.rank() {
            0 => scale,
            _ => b.one(Broadcast { axes, shape }, &[scale]),
        }
    }
}

impl Primitive for FakeQuant {
    fn name(&self) -> String {
        let axis = self.axis.map(|a| format!(" axis {a}")).unwrap_or_default();
        format!("fakequant[{}..={}{axis}]", self.least, self.most)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 2)?;
        let (x, scale) = (tensor(args, 0)?, tensor(args, 1)?);
        let levels = -LARGEST..=LARGEST;
        let sound = levels.contains(&self.least)
            && levels.contains(&self.most)
            && self.least <= 0
            && self.most >= 0
            && self.least < self.most;
        if !sound {
            return Err(format!(
                "levels from {} to {} are not a range around zero within {LARGEST}",
                self.least, self.most
            ));
        }
        let wanted: Shape = match self.axis {
            None => Shape::scalar(),
            Some(a) => match x.dims().get(a) {
                Some(&extent) => [extent].into(),
                None => return Err(format!("{x} has no axis {a}")),
            },
        };
        if *scale != wanted {
            return Err(format!("the scale of {x} is {scale}, not {wanted}"));
        }
        Ok(vec![Type::Tensor(x.clone())])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let (Some(d), x) = (d[0], at.args[0]) else {
            return vec![None, None];
        };
        let scale = self.spread(b, at.args[1], x);
        let zero = b.full_like(0.0, x);
        let (least, most) = (
            b.scale(scale, self.least as f32),
            b.scale(scale, self.most as f32),
        );
        let (below, above) = (b.one(Binary::Less, &[x, least]), b.one(Binary::Less, &[most, x]));
        let outside = b.add(below, above);
        vec![Some(b.one(Select, &[outside, zero, d])), None]
    }

    /// Scales that differ between examples, too, stand along one axis of examples and places.
    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let (mut x, scale) = (args[0], args[1]);
        if !batched[1] {
            let axis = self.axis.map(|a| a + 1);
            return Ok(b.apply(FakeQuant { axis, ..*self }, args));
        }
        if !batched[0] {
            x = b.repeat_batch(x, n);
        }
        let Some(axis) = self.axis.map(|a| a + 1) else {
            let axis = Some(0);
            return Ok(b.apply(FakeQuant { axis, ..*self }, &[x, scale]));
        };
        let shape = b.shape(x);
        let places = shape.dims()[axis];
        let others = (1..shape.rank()).filter(|&a| a != axis);
        let order: Vec<usize> = [0, axis].into_iter().chain(others).collect();
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
        let moved = b.one(Transpose { order }, &[x]);
        let apart = b.shape(moved);
        let joined = b.reshape(moved, [&[n * places], &apart.dims()[2..]].concat());
        let scale = b.reshape(scale, [n * places]);
        let axis = Some(0);
        let out = b.one(FakeQuant { axis, ..*self }, &[joined, scale]);
        let out = b.reshape(out, apart);
        Ok(vec![b.one(Transpose { order: back }, &[out])])
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        let mut axes = Axes::pointwise(args, outs);
        axes.args[1] = self.axis.iter().map(|&a| Axis::Factor(a as u32)).collect();
        axes
    }

    /// A division, two comparisons, a rounding and a product for each element.
    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        Cost {
            flops: outs.iter().map(|t| 5 * t.slots() as u64).sum(),
            bytes: traffic(args, outs),
        }
    }
}
