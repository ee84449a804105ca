//! The tape of a differentiated loop: an immutable stack of frames.
//!
//! `Push` and `Pop` are each other's adjoint, so loops stay differentiable any number of times. The empty stack is zero:
//! popping it gives zeros and an empty stack.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Applied, Primitive, arity};
use crate::graph::{Builder, Value};
use crate::types::Type;

/// An empty stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {
    /// The types of the values in a frame.
    pub frame: Arc<[Type]>,
}

/// A stack with one more frame: arguments are the stack and the frame's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Push;

/// The stack below the top frame, and the frame's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pop;

/// 1 if the stack has a frame, else 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotEmpty;

/// The sum of two stacks, frame by frame from the top; the shorter one counts as zeros below its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge;

fn frame<'a>(args: &[&'a Type]) -> Result<&'a Arc<[Type]>, String> {
    match args.first() {
        Some(Type::Stack(frame)) => Ok(frame),
        _ => Err("the first argument is not a stack".into()),
    }
}

fn no_batch(what: &str) -> Result<Vec<Value>, String> {
    Err(format!(
        "`{what}` of a loop's tape cannot be batched; apply vmap first and grad to its result"
    ))
}

impl Primitive for Empty {
    fn name(&self) -> String {
        "empty".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 0)?;
        Ok(vec![Type::Stack(self.frame.clone())])
    }

    fn vjp(&self, _: &mut Builder, _: &Applied<'_>, _: &[Option<Value>]) -> Vec<Option<Value>> {
        vec![]
    }

    fn batch(&self, _: &mut Builder, _: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        no_batch("empty")
    }
}

impl Primitive for Push {
    fn name(&self) -> String {
        "push".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        let frame = frame(args)?;
        if !frame.iter().eq(args[1..].iter().copied()) {
            return Err("the values are not a frame of the stack".into());
        }
        Ok(vec![args[0].clone()])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        match d[0] {
            Some(d) => b.apply(Pop, &[d]).into_iter().map(Some).collect(),
            None => vec![None; at.args.len()],
        }
    }

    fn batch(&self, _: &mut Builder, _: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        no_batch("push")
    }
}

impl Primitive for Pop {
    fn name(&self) -> String {
        "pop".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        let values = frame(args)?.iter().cloned();
        Ok(std::iter::once(args[0].clone()).chain(values).collect())
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let full: Vec<Value> = d
            .iter()
            .zip(at.outs)
            .map(|(d, &o)| d.unwrap_or_else(|| b.zero_like(o)))
            .collect();
        vec![Some(b.one(Push, &full))]
    }

    fn batch(&self, _: &mut Builder, _: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        no_batch("pop")
    }
}

impl Primitive for NotEmpty {
    fn name(&self) -> String {
        "notempty".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        frame(args).map(|_| vec![Type::scalar()])
    }

    fn vjp(&self, _: &mut Builder, _: &Applied<'_>, _: &[Option<Value>]) -> Vec<Option<Value>> {
        vec![None]
    }

    fn batch(&self, _: &mut Builder, _: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        no_batch("notempty")
    }
}

impl Primitive for Merge {
    fn name(&self) -> String {
        "merge".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 2)?;
        frame(args)?;
        if args[0] != args[1] {
            return Err("the stacks hold different frames".into());
        }
        Ok(vec![args[0].clone()])
    }

    fn vjp(&self, _: &mut Builder, _: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        vec![d[0], d[0]]
    }

    fn batch(&self, _: &mut Builder, _: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        no_batch("merge")
    }
}
