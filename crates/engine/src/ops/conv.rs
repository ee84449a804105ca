//! Convolution of images. It is linear in both arguments, and so are its two gradients; the three are each other's
//! derivatives, so that one op in three roles is closed under differentiation.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Axis, Cost, Primitive, Transpose, Window, arity, tensor, traffic};
use crate::graph::{Builder, Value};
use crate::types::{Shape, Type};

/// Which of the three tensors of a convolution is the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConvRole {
    /// `(input, weights) -> output`
    Forward,
    /// `(output's cotangent, weights) -> input's cotangent`
    InputGradient,
    /// `(input, output's cotangent) -> weights' cotangent`
    WeightGradient,
}

/// The sum over taps and input channels of `input · weights`, without flipping the kernel. Images are
/// `[n, height, width, channels]`, weights `[taps down, taps across, channels / groups, outputs]`; group `i` of the
/// channels feeds group `i` of the outputs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conv {
    /// Which tensor is computed.
    pub role: ConvRole,
    /// The window; the same in all roles.
    pub window: Window,
    /// Into how many independent parts the channels fall.
    pub groups: usize,
}

/// The three tensors of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Input,
    Weights,
    Output,
}

/// An index that two of the three tensors share, or, for groups, all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    Example,
    Channel,
    Output,
    Group,
}

/// The extents of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvExtents {
    /// Images.
    pub n: usize,
    /// Channels of the input.
    pub channels: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Places of the window.
    pub places: [usize; 2],
}

impl ConvRole {
    /// The two arguments and the result.
    fn parts(self) -> ([Part; 2], Part) {
        match self {
            ConvRole::Forward => ([Part::Input, Part::Weights], Part::Output),
            ConvRole::InputGradient => ([Part::Output, Part::Weights], Part::Input),
            ConvRole::WeightGradient => ([Part::Input, Part::Output], Part::Weights),
        }
    }
}

impl Conv {
    /// The same convolution with another tensor as the result.
    pub(crate) fn as_role(self, role: ConvRole) -> Conv {
        Conv { role, ..self }
    }

    /// The extents for argument shapes that fit.
    pub fn extents(&self, first: &Shape, second: &Shape) -> Result<ConvExtents, String> {
        // What the arguments are comes before where the window goes: of two mistakes the first is the one to name.
        let (n, channels, outputs) = match self.role {
            ConvRole::Forward => {
                let [n, channels] = Window::images(first, self.window.input)?;
                let [per_group, outputs] = self.weights(second)?;
                self.fits(per_group, channels, first, second)?;
                (n, channels, outputs)
            }
            ConvRole::InputGradient => {
                let [n, channels] = Window::images(first, self.window.output()?)?;
                let [per_group, outputs] = self.weights(second)?;
                if outputs != channels {
                    return Err(format!("{first} does not have the outputs of {second}"));
                }
                let channels = per_group.checked_mul(self.groups);
                (n, channels.ok_or("the result is too large")?, outputs)
            }
            ConvRole::WeightGradient => {
                let [n, channels] = Window::images(first, self.window.input)?;
                let [m, outputs] = Window::images(second, self.window.output()?)?;
                if n != m {
                    return Err(format!("{first} and {second} differ in the number of images"));
                }
                (n, channels, outputs)
            }
        };
        let even =
            self.groups > 0 && channels.is_multiple_of(self.groups) && outputs.is_multiple_of(self.groups);
        if !even {
            return Err(format!(
                "{channels} channels and {outputs} outputs do not fall into {} equal groups",
                self.groups
            ));
        }
        Ok(ConvExtents {
            n,
            channels,
            outputs,
            places: self.window.output()?,
        })
    }

    fn weights(&self, shape: &Shape) -> Result<[usize; 2], String> {
        match *shape.dims() {
            [p, q, channels, outputs] if [p, q] == self.window.kernel => Ok([channels, outputs]),
            [_, _, _, _] => Err(format!("{shape} are not weights for a window of {}", self.window)),
            _ => Err(format!(
                "{shape} are not weights [taps down, taps across, channels / groups, outputs]"
            )),
        }
    }

    fn fits(&self, per_group: usize, channels: usize, x: &Shape, w: &Shape) -> Result<(), String> {
        match per_group.checked_mul(self.groups) {
            Some(all) if all == channels => Ok(()),
            _ => Err(format!(
                "{x} has {channels} channels, and {w} in {} groups takes {per_group} each",
                self.groups
            )),
        }
    }

    fn result(&self, e: &ConvExtents) -> Type {
        let image = |[h, w]: [usize; 2], c: usize| Type::tensor([e.n, h, w, c]);
        let [p, q] = self.window.kernel;
        match self.role {
            ConvRole::Forward => image(e.places, e.outputs),
            ConvRole::InputGradient => image(self.window.input, e.channels),
            ConvRole::WeightGradient => Type::tensor([p, q, e.channels / self.groups, e.outputs]),
        }
    }
}

impl Primitive for Conv {
    fn name(&self) -> String {
        let role = match self.role {
            ConvRole::Forward => "",
            ConvRole::InputGradient => ".input",
            ConvRole::WeightGradient => ".weight",
        };
        match self.groups {
            1 => format!("conv{role}[{}]", self.window),
            n => format!("conv{role}[{} groups {n}]", self.window),
        }
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 2)?;
        let extents = self.extents(tensor(args, 0)?, tensor(args, 1)?)?;
        Ok(vec![self.result(&extents)])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let (Some(d), first, second) = (d[0], at.args[0], at.args[1]) else {
            return vec![None, None];
        };
        use ConvRole::{Forward, InputGradient, WeightGradient};
        let (to_first, to_second) = match self.role {
            Forward => ((InputGradient, [d, second]), (WeightGradient, [first, d])),
            InputGradient => ((Forward, [d, second]), (WeightGradient, [d, first])),
            WeightGradient => ((InputGradient, [second, d]), (Forward, [first, d])),
        };
        [to_first, to_second]
            .into_iter()
            .zip(at.wanted)
            .map(|((role, args), wanted)| wanted.then(|| b.one(self.as_role(role), &args)))
            .collect()
    }

    /// The batch axis joins an index that the batched argument shares with the result; when both arguments are batched,
    /// every example becomes a group of its own. Nothing is copied for an argument that is not batched.
    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let (parts, result) = self.role.parts();
        let index = match batched {
            [true, true] => Index::Group,
            [true, false] => shared(parts[0], result),
            _ => shared(parts[1], result),
        };
        if n == 0 {
            return self.batch_of_none(b, args, batched);
        }
        let mut folded = args.to_vec();
        for i in (0..2).filter(|&i| batched[i]) {
            folded[i] = fold(b, args[i], self.groups, place(parts[i], index));
        }
        let groups = match index {
            Index::Group => self.groups * n,
            _ => self.groups,
        };
        let out = b.one(Conv { groups, ..*self }, &folded);
        Ok(vec![unfold(b, out, self.groups, n, place(result, index))])
    }

    /// Images, and without groups channels and outputs too, may be split; the window needs the whole image.
    fn axes(&self, _: &[Type], _: &[Type]) -> Axes {
        const N: Axis = Axis::Factor(0);
        const W: Axis = Axis::Whole;
        let (c, o) = match self.groups {
            1 => (Axis::Factor(1), Axis::Factor(2)),
            _ => (W, W),
        };
        let of = |part: Part| match part {
            Part::Input => vec![N, W, W, c],
            Part::Weights => vec![W, W, c, o],
            Part::Output => vec![N, W, W, o],
        };
        let (parts, result) = self.role.parts();
        Axes {
            args: parts.map(of).to_vec(),
            outs: vec![of(result)],
        }
    }

    /// The same in all roles: one multiply-add per tap, place, channel of a group, and output. Taps on padding count.
    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        let extents = match (args[0].shape(), args[1].shape()) {
            (Some(x), Some(y)) => self.extents(x, y).ok(),
            _ => None,
        };
        let flops = extents.map_or(0, |e| {
            let [p, q] = self.window.kernel;
            let factors = [
                e.n,
                e.places[0],
                e.places[1],
                p,
                q,
                e.channels / self.groups,
                e.outputs,
            ];
            factors.into_iter().fold(2u64, |f, x| f.saturating_mul(x as u64))
        });
        Cost {
            flops,
            bytes: traffic(args, outs),
        }
    }
}

impl Conv {
    fn batch_of_none(&self, b: &mut Builder, args: &[Value], batched: &[bool]) -> Result<Vec<Value>, String> {
        let shape = |i: usize| {
            let shape = b.shape(args[i]);
            match batched[i] {
                true => Shape::from(&shape.dims()[1..]),
                false => shape,
            }
        };
        let ty = self.result(&self.extents(&shape(0), &shape(1))?);
        let shape = ty.shape().map(|s| s.batched(0)).unwrap_or_default();
        Ok(vec![b.one(super::Full { shape, value: 0.0 }, &[])])
    }
}

fn shared(argument: Part, result: Part) -> Index {
    match (argument, result) {
        (Part::Input, Part::Output) | (Part::Output, Part::Input) => Index::Example,
        (Part::Input, Part::Weights) | (Part::Weights, Part::Input) => Index::Channel,
        _ => Index::Output,
    }
}

/// Where an index stands among the five axes of a tensor whose last axis is taken apart into groups and the rest:
/// `[n, h, w, groups, channels]`, `[p, q, channels, groups, outputs]` or `[n, h, w, groups, outputs]`.
fn place(part: Part, index: Index) -> usize {
    match (part, index) {
        (_, Index::Group) => 3,
        (Part::Weights, Index::Channel) => 2,
        (_, Index::Channel | Index::Output) => 4,
        (_, Index::Example) => 0,
    }
}

/// Brings the leading batch axis into one of the five axes, as its major part.
fn fold(b: &mut Builder, x: Value, groups: usize, place: usize) -> Value {
    let shape = b.shape(x);
    let &[n, d0, d1, d2, last] = shape.dims() else {
        return x;
    };
    let five = [d0, d1, d2, groups, last / groups];
    let apart = b.reshape(x, [&[n], &five[..]].concat());
    let order: Vec<usize> = (1..=place).chain([0]).chain(place + 1..6).collect();
    let moved = match place {
        0 => apart,
        _ => b.one(Transpose { order }, &[apart]),
    };
    let mut joined = five;
    joined[place] *= n;
    b.reshape(moved, [joined[0], joined[1], joined[2], joined[3] * joined[4]])
}

/// Undoes [`fold`]; `groups` are those without the batch.
fn unfold(b: &mut Builder, x: Value, groups: usize, n: usize, place: usize) -> Value {
    let shape = b.shape(x);
    let &[d0, d1, d2, last] = shape.dims() else {
        return x;
    };
    let mut five = [d0, d1, d2, groups, last / groups];
    // The product of the last two is known, so the folded one of them is what remains.
    match place {
        3 => five[4] /= n,
        _ => five[place] /= n,
    }
    let apart: Vec<usize> = [&five[..place], &[n], &five[place..]].concat();
    let apart = b.reshape(x, apart);
    let order: Vec<usize> = [place].into_iter().chain(0..place).chain(place + 1..6).collect();
    let moved = match place {
        0 => apart,
        _ => b.one(Transpose { order }, &[apart]),
    };
    b.reshape(moved, [n, five[0], five[1], five[2], five[3] * five[4]])
}
