//! Shapes and types of values.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The largest number of elements a tensor may have; keeps byte counts far from overflow.
pub const MAX_ELEMENTS: usize = 1 << 40;

/// The extents of a tensor, outermost first. A scalar has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// The shape of a scalar.
    pub const fn scalar() -> Shape {
        Shape(Vec::new())
    }

    /// The extents.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements. Types are checked against overflow when a graph is built.
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// The number of elements, or `None` past [`MAX_ELEMENTS`].
    pub fn checked_elements(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .filter(|&n| n <= MAX_ELEMENTS)
    }

    /// This shape with `extent` put in front.
    pub fn batched(&self, extent: usize) -> Shape {
        let mut dims = Vec::with_capacity(self.0.len() + 1);
        dims.push(extent);
        dims.extend_from_slice(&self.0);
        Shape(dims)
    }

    /// Row-major strides in elements.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.0.len()];
        for i in (0..self.0.len().saturating_sub(1)).rev() {
            strides[i] = strides[i + 1] * self.0[i + 1];
        }
        strides
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(dims)
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(dims.to_vec())
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape(dims.to_vec())
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Shape {
        shape.clone()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            write!(f, "{}{d}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

/// The type of a value in a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// A dense `f32` tensor.
    Tensor(Shape),
    /// The tape of a loop: a stack of frames, each holding one value of every listed type.
    Stack(Arc<[Type]>),
}

impl Type {
    /// A tensor type.
    pub fn tensor(shape: impl Into<Shape>) -> Type {
        Type::Tensor(shape.into())
    }

    /// The type of a scalar.
    pub const fn scalar() -> Type {
        Type::Tensor(Shape::scalar())
    }

    /// The shape, if this is a tensor.
    pub fn shape(&self) -> Option<&Shape> {
        match self {
            Type::Tensor(shape) => Some(shape),
            Type::Stack(_) => None,
        }
    }

    /// The number of `f32` slots a value of this type occupies in memory; a stack is one handle.
    pub fn slots(&self) -> usize {
        match self {
            Type::Tensor(shape) => shape.elements(),
            Type::Stack(_) => 1,
        }
    }

    /// True for a rank-0 tensor.
    pub(crate) fn is_scalar(&self) -> bool {
        matches!(self, Type::Tensor(shape) if shape.rank() == 0)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(shape) => write!(f, "f32{shape}"),
            Type::Stack(frame) => {
                f.write_str("stack(")?;
                list(f, frame.iter())?;
                f.write_str(")")
            }
        }
    }
}

/// Writes items separated by commas.
pub(crate) fn list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    for (i, item) in items.enumerate() {
        write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
    }
    Ok(())
}
