//! Regions that a kernel computes at once. The body is the meaning; everything else is derived from it.

use std::sync::Arc;

use super::{Applied, Cost, Primitive, traffic};
use crate::grad;
use crate::graph::{Builder, Graph, Value};
use crate::types::Type;
use crate::vmap;

/// Which kernel computes a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FusedKind {
    /// Product, bias and activation.
    Dense,
    /// Convolution, bias, another result of the same shape, and activation.
    Conv,
    /// A product whose result is gated by an activation's derivative.
    GatedDot,
    /// A weight gradient applied to the weights without being stored.
    DotUpdate,
    /// A bias gradient applied to the bias without being stored.
    SumUpdate,
    /// The input gradient of a layer and the update of its weights, in one sweep over them.
    DenseBackward,
    /// Elementwise ops on one iteration space.
    Chain,
}

/// A region of a graph as one node. Fusion passes make them; they are never stored in a model file.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The kernel.
    pub kind: FusedKind,
    /// The region: its parameters are the node's arguments.
    pub body: Arc<Graph>,
}

impl Primitive for Fused {
    fn name(&self) -> String {
        let ops: Vec<String> = self.body.nodes().iter().map(|n| n.op.to_string()).collect();
        format!("{:?}({})", self.kind, ops.join(" ")).to_lowercase()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        let wanted = self.body.param_types();
        if !wanted.iter().eq(args.iter().copied()) {
            return Err(format!("the region takes {} other arguments", wanted.len()));
        }
        Ok(self.body.output_types())
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        grad::inline_pullback(b, &self.body, at.args, d, at.wanted)
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        vmap::inline_batched(b, &self.body, args, batched, n)
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        Cost {
            flops: self.body.cost().flops,
            bytes: traffic(args, outs),
        }
    }

    fn outputs_after_error(&self) -> usize {
        self.body.outputs().len()
    }
}
