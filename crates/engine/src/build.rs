//! Short names for the ops that rules emit most.

use std::sync::Arc;

use crate::graph::{Builder, Value};
use crate::ops::{
    Binary, Broadcast, Const, Conv, ConvRole, Empty, Full, Merge, Pool, PoolRole, Reshape, Unary, Window,
};
use crate::types::{Shape, Type};

impl Builder {
    /// `-x`
    pub fn neg(&mut self, x: Value) -> Value {
        self.one(Unary::Neg, &[x])
    }

    /// `x + y`
    pub fn add(&mut self, x: Value, y: Value) -> Value {
        self.one(Binary::Add, &[x, y])
    }

    /// `x - y`
    pub fn sub(&mut self, x: Value, y: Value) -> Value {
        self.one(Binary::Sub, &[x, y])
    }

    /// `x * y`
    pub fn mul(&mut self, x: Value, y: Value) -> Value {
        self.one(Binary::Mul, &[x, y])
    }

    /// `x / y`
    pub fn div(&mut self, x: Value, y: Value) -> Value {
        self.one(Binary::Div, &[x, y])
    }

    /// `x * factor`
    pub fn scale(&mut self, x: Value, factor: f32) -> Value {
        let factor = self.full_like(factor, x);
        self.mul(x, factor)
    }

    /// The sum of two values of one type, tensors or stacks.
    pub(crate) fn sum_of(&mut self, x: Value, y: Value) -> Value {
        match self.ty(x) {
            Type::Tensor(_) => self.add(x, y),
            Type::Stack(_) => self.one(Merge, &[x, y]),
        }
    }

    /// A tensor of `value` shaped like `like`.
    pub fn full_like(&mut self, value: f32, like: Value) -> Value {
        let shape = self.shape(like);
        self.one(Full { shape, value }, &[])
    }

    /// The zero of a value's type.
    pub(crate) fn zero_like(&mut self, like: Value) -> Value {
        match self.ty(like).clone() {
            Type::Tensor(shape) => self.one(Full { shape, value: 0.0 }, &[]),
            Type::Stack(frame) => self.one(Empty { frame }, &[]),
        }
    }

    /// A literal.
    pub fn constant(&mut self, data: Vec<f32>, shape: impl Into<Shape>) -> Value {
        self.one(
            Const {
                shape: shape.into(),
                data: Arc::from(data),
            },
            &[],
        )
    }

    /// The convolution of images with weights.
    pub fn conv(&mut self, images: Value, weights: Value, window: Window, groups: usize) -> Value {
        let role = ConvRole::Forward;
        self.one(Conv { role, window, groups }, &[images, weights])
    }

    /// The largest element of every window.
    pub fn max_pool(&mut self, images: Value, window: Window) -> Value {
        let role = PoolRole::MaxPick;
        self.one(Pool { role, window }, &[images, images])
    }

    /// The sum of every window.
    pub fn sum_pool(&mut self, images: Value, window: Window) -> Value {
        let role = PoolRole::Sum;
        self.one(Pool { role, window }, &[images])
    }

    /// The same elements under another shape; nothing is emitted if it is the same.
    pub fn reshape(&mut self, x: Value, shape: impl Into<Shape>) -> Value {
        let shape = shape.into();
        if self.ty(x).shape() == Some(&shape) {
            x
        } else {
            self.one(Reshape { shape }, &[x])
        }
    }

    /// A scalar repeated to fill `shape`.
    pub fn broadcast_to(&mut self, scalar: Value, shape: &Shape) -> Value {
        if shape.rank() == 0 {
            return scalar;
        }
        self.one(
            Broadcast {
                axes: vec![],
                shape: shape.clone(),
            },
            &[scalar],
        )
    }

    /// `n` copies of a tensor along a new first axis.
    pub(crate) fn repeat_batch(&mut self, x: Value, n: usize) -> Value {
        let shape = self.shape(x);
        self.one(
            Broadcast {
                axes: (1..=shape.rank()).collect(),
                shape: shape.batched(n),
            },
            &[x],
        )
    }
}
