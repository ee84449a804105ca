//! The interpreter as a backend: it can run everything on tensors, slowly.

use super::{Backend, CallFrame, InPlace, KernelCall, RowDependence};
use crate::error::Result;
use crate::graph::{Graph, Node, Value};
use crate::interpreter::interpret_slices;
use crate::types::Type;

/// See the module. Unlike other backends it allocates while it runs.
pub struct Interpreter;

impl Backend for Interpreter {
    fn name(&self) -> &str {
        "interpreter"
    }

    fn seconds(&self, graph: &Graph, node: &Node) -> Option<f64> {
        let tensors = node
            .args
            .iter()
            .chain(&node.outs)
            .all(|&v| matches!(graph.ty(v), Type::Tensor(_)));
        let cost = graph.node_cost(node);
        tensors.then_some(1e-6 + cost.flops as f64 * 5e-9 + cost.bytes as f64 * 2e-9)
    }

    fn compile(&self, region: &Graph, _: RowDependence) -> Result<Vec<KernelCall>> {
        let graph = region.clone();
        let kernel = move |frame: CallFrame<'_>| {
            let args: Vec<Vec<f32>> = (0..frame.arg_count())
                .map(|i| frame.arg(i))
                .map(|s| frame.memory.floats[s.start..s.start + s.len].to_vec())
                .collect();
            let args: Vec<&[f32]> = args.iter().map(Vec::as_slice).collect();
            // Types were checked when the region was cut; should interpreting fail all the same, NaN shows it downstream.
            let failed = |_| {
                graph
                    .outputs()
                    .iter()
                    .map(|&o| vec![f32::NAN; graph.ty(o).slots()])
                    .collect()
            };
            let results = interpret_slices(&graph, &args).unwrap_or_else(failed);
            for (i, data) in results.iter().enumerate() {
                let at = frame.out(i).start;
                frame.memory.floats[at..at + data.len()].copy_from_slice(data);
            }
        };
        let in_place: Vec<(usize, usize, InPlace)> = vec![];
        Ok(vec![KernelCall {
            name: format!("interpret {} nodes", region.nodes().len()),
            kernel: Box::new(kernel),
            args: region.params().to_vec(),
            outs: region.outputs().to_vec() as Vec<Value>,
            in_place,
            scratch: 0,
            constant: false,
            prepared: None,
        }])
    }
}
