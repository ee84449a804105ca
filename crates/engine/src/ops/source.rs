//! Values that come from nowhere: constants and random numbers.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use synod_core::random::counted::keyed;

use super::{Applied, Axes, Axis, Cost, Primitive, arity, tensor};
use crate::graph::{Builder, Value};
use crate::types::{Shape, Type};

/// A literal tensor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Const {
    /// Its shape.
    pub shape: Shape,
    /// Its elements, row-major.
    #[serde(with = "bits")]
    pub data: Arc<[f32]>,
}

/// Equal bits: a NaN literal is itself, and 0 is not -0.
impl PartialEq for Const {
    fn eq(&self, other: &Const) -> bool {
        let same = || {
            self.data
                .iter()
                .zip(other.data.iter())
                .all(|(a, b)| a.to_bits() == b.to_bits())
        };
        self.shape == other.shape && self.data.len() == other.data.len() && same()
    }
}

/// Floats as hexadecimal bits: exact, and not mistaken for extents when a model template is made.
mod bits {
    use super::*;

    pub(super) fn serialize<S: Serializer>(data: &Arc<[f32]>, s: S) -> Result<S::Ok, S::Error> {
        let text: String = data.iter().map(|x| format!("{:08x}", x.to_bits())).collect();
        s.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Arc<[f32]>, D::Error> {
        let text = String::deserialize(d)?;
        let word = |chunk: &[u8]| {
            let digits = std::str::from_utf8(chunk).ok().filter(|t| t.len() == 8)?;
            u32::from_str_radix(digits, 16).ok().map(f32::from_bits)
        };
        let data: Option<Vec<f32>> = text.as_bytes().chunks(8).map(word).collect();
        data.map(Into::into)
            .ok_or_else(|| serde::de::Error::custom("a constant is not hexadecimal"))
    }
}

impl Primitive for Const {
    fn name(&self) -> String {
        match &self.data[..] {
            [x] => format!("const {x}"),
            _ => "const".into(),
        }
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 0)?;
        if self.shape.checked_elements() != Some(self.data.len()) {
            return Err(format!("{} elements do not fill {}", self.data.len(), self.shape));
        }
        Ok(vec![Type::Tensor(self.shape.clone())])
    }

    fn vjp(&self, _: &mut Builder, _: &Applied<'_>, _: &[Option<Value>]) -> Vec<Option<Value>> {
        vec![]
    }

    fn batch(&self, b: &mut Builder, _: &[Value], _: &[bool], n: usize) -> Result<Vec<Value>, String> {
        let one = b.one(self.clone(), &[]);
        Ok(vec![b.repeat_batch(one, n)])
    }
}

/// A tensor whose elements are all equal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Full {
    /// Its shape.
    pub shape: Shape,
    /// The element.
    #[serde(with = "text")]
    pub value: f32,
}

impl PartialEq for Full {
    fn eq(&self, other: &Full) -> bool {
        self.shape == other.shape && self.value.to_bits() == other.value.to_bits()
    }
}

mod text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(value: &f32, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format!("{value:?}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f32, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Primitive for Full {
    fn name(&self) -> String {
        format!("full {:?}", self.value)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 0)?;
        Ok(vec![Type::Tensor(self.shape.clone())])
    }

    fn vjp(&self, _: &mut Builder, _: &Applied<'_>, _: &[Option<Value>]) -> Vec<Option<Value>> {
        vec![]
    }

    fn batch(&self, b: &mut Builder, _: &[Value], _: &[bool], n: usize) -> Result<Vec<Value>, String> {
        Ok(b.apply(
            Full {
                shape: self.shape.batched(n),
                value: self.value,
            },
            &[],
        ))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        Axes::pointwise(args, outs)
    }
}

/// A distribution of independent numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// Uniform in `[0, 1)`.
    Uniform,
    /// Standard normal.
    Normal,
}

/// The number of `f32` in a random key.
pub const KEY: usize = 4;

/// A random key: the same seed and counter give the same numbers, on every machine and in every mode.
pub fn key(seed: u32, counter: u32) -> [f32; KEY] {
    // 16-bit halves are exact in f32.
    let half = |x: u32| x as f32;
    [
        half(seed & 0xffff),
        half(seed >> 16),
        half(counter & 0xffff),
        half(counter >> 16),
    ]
}

/// Random numbers as a pure function of a key, which is the argument `[.., KEY]`; the key's leading axes lead the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Random {
    /// Of what kind.
    pub distribution: Distribution,
    /// How many per key.
    pub shape: Shape,
    /// Tells apart several uses of one key.
    pub salt: u32,
}

impl Primitive for Random {
    fn name(&self) -> String {
        format!("{:?}", self.distribution).to_lowercase()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        match tensor(args, 0)?.dims().split_last() {
            Some((&KEY, leading)) => Ok(vec![Type::tensor([leading, self.shape.dims()].concat())]),
            _ => Err(format!("a random key is {KEY} numbers")),
        }
    }

    fn vjp(&self, _: &mut Builder, _: &Applied<'_>, _: &[Option<Value>]) -> Vec<Option<Value>> {
        vec![None]
    }

    fn batch(&self, b: &mut Builder, args: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        Ok(b.apply(self.clone(), args))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        let mut axes = Axes::whole(args, outs);
        for i in 0..axes.args[0].len() - 1 {
            axes.args[0][i] = Axis::Factor(i as u32);
            axes.outs[0][i] = Axis::Factor(i as u32);
        }
        axes
    }

    fn cost(&self, _: &[Type], outs: &[Type]) -> Cost {
        let n = outs[0].slots() as u64;
        Cost {
            flops: 10 * n,
            bytes: 4 * n,
        }
    }
}

/// 64 well-mixed bits for element `index` of the numbers under `key` and `salt`.
pub(crate) fn uniform_bits(key: [u32; KEY], salt: u32, index: u64) -> u64 {
    let seed =
        u64::from(key[0]) | u64::from(key[1]) << 16 | u64::from(key[2]) << 32 | u64::from(key[3]) << 48;
    keyed(seed, u64::from(salt), index)
}
