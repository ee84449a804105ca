//! Ops that users bring.

use std::fmt;
use std::sync::Arc;

use super::{Applied, Cost, Primitive, traffic};
use crate::graph::{Builder, Value};
use crate::types::Type;

/// The evaluation of a custom op on plain slices.
pub type Evaluate = dyn Fn(&[&[f32]], &mut [&mut [f32]]) + Send + Sync;
/// The type rule of a custom op.
pub type Infer = dyn Fn(&[&Type]) -> Result<Vec<Type>, String> + Send + Sync;
/// The gradient of a custom op: arguments, results and cotangents in, cotangents of the arguments out.
pub type Pullback = dyn Fn(&mut Builder, &Applied<'_>, &[Option<Value>]) -> Vec<Option<Value>> + Send + Sync;

/// An op defined outside the engine. It runs in every mode, but cannot be stored in a model file.
#[derive(Clone)]
pub struct Custom {
    /// The name people see.
    pub name: Arc<str>,
    /// The type rule.
    pub infer: Arc<Infer>,
    /// The computation.
    pub evaluate: Arc<Evaluate>,
    /// The gradient.
    pub pullback: Arc<Pullback>,
    /// Floating-point operations per result element.
    pub flops_per_element: u64,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({})", self.name)
    }
}

/// Two custom ops are the same only when they are the same object.
impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.evaluate, &other.evaluate)
    }
}

impl Primitive for Custom {
    fn name(&self) -> String {
        format!("custom {}", self.name)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        (self.infer)(args)
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        (self.pullback)(b, at, d)
    }

    fn batch(&self, _: &mut Builder, _: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        Err(format!("the custom op `{}` has no batching rule", self.name))
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        let elements: u64 = outs.iter().map(|t| t.slots() as u64).sum();
        Cost {
            flops: elements * self.flops_per_element,
            bytes: traffic(args, outs),
        }
    }
}
