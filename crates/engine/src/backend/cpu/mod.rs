//! The processor: every op becomes a task that calls one of our kernels.

mod chain;
mod control;
mod dense;
mod images;
mod moves;
mod norm;
mod product;
mod quantised;
mod recurrent;
mod simple;

use synod_kernels::{Simd, Sum};

use super::{Backend, Kernel, KernelCall, RowDependence};
use crate::error::Result;
use crate::graph::{Graph, Node, Value};
use crate::ops::{FusedKind, Op};
use crate::program::{Options, Session, compile_with};

/// The processor this program runs on.
pub struct Cpu {
    simd: Simd,
    threads: usize,
}

impl Cpu {
    /// With the best vector level; large products use up to `threads` threads.
    pub fn new(threads: usize) -> Cpu {
        Cpu {
            simd: Simd::best(),
            threads: threads.max(1),
        }
    }

    /// At a given vector level.
    pub fn at(simd: Simd) -> Cpu {
        Cpu { simd, threads: 1 }
    }
}

impl Default for Cpu {
    fn default() -> Cpu {
        Cpu::new(1)
    }
}

/// Sustained speed assumed of one core, for choosing between backends.
const FLOPS: f64 = 40e9;
const BANDWIDTH: f64 = 15e9;
const DISPATCH: f64 = 30e-9;

/// Elements of an op that moves more than it computes, below which it runs on one thread.
const SHARED: usize = 200_000;

impl Backend for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn seconds(&self, graph: &Graph, node: &Node) -> Option<f64> {
        let cost = graph.node_cost(node);
        Some(DISPATCH + (cost.flops as f64 / FLOPS).max(cost.bytes as f64 / BANDWIDTH))
    }

    fn compile(&self, region: &Graph, rows: RowDependence) -> Result<Vec<KernelCall>> {
        region
            .nodes()
            .iter()
            .map(|node| self.lower(region, node, rows))
            .collect()
    }
}

impl Cpu {
    fn lower(&self, graph: &Graph, node: &Node, rows: RowDependence) -> Result<KernelCall> {
        let context = Context {
            graph,
            node,
            simd: self.simd,
            threads: self.threads,
            rows,
        };
        match &node.op {
            Op::Unary(_) | Op::Binary(_) | Op::Select(_) => chain::single(&context),
            Op::Fused(f) => match f.kind {
                FusedKind::Chain => chain::fused(&context, &f.body),
                FusedKind::Dense => dense::forward(&context, &f.body),
                FusedKind::Conv => images::layer(&context, &f.body),
                FusedKind::GatedDot => dense::gated(&context, &f.body),
                FusedKind::DotUpdate => dense::update(&context, &f.body),
                FusedKind::SumUpdate => dense::bias(&context, &f.body),
                FusedKind::DenseBackward => dense::backward(&context, &f.body),
            },
            Op::Update(op) => dense::plain_update(&context, op.rule),
            Op::Dot(dot) => product::dot(&context, *dot),
            Op::Reduce(op) => simple::reduce(&context, op),
            Op::Full(op) => Ok(simple::full(&context, op.value)),
            Op::Const(op) => Ok(simple::literal(&context, op.data.clone())),
            Op::Random(op) => Ok(simple::random(&context, op)),
            Op::Custom(op) => simple::custom(&context, op),
            Op::Conv(op) => images::conv(&context, *op),
            Op::Pool(op) => images::pool(&context, *op),
            Op::Lstm(op) => recurrent::lstm(&context, *op),
            Op::BatchNorm(op) => Ok(norm::batch_norm(&context, *op)),
            Op::FakeQuant(op) => Ok(quantised::fake_quant(&context, *op)),
            Op::Reshape(_) => Ok(moves::reshape(&context)),
            Op::Broadcast(_) | Op::Transpose(_) | Op::Slice(_) => moves::read(&context),
            Op::Pad(op) => Ok(moves::pad(&context, op)),
            Op::Concat(op) => Ok(moves::concat(&context, op.axis)),
            Op::Gather(_) => Ok(moves::gather(&context)),
            Op::Scatter(op) => Ok(moves::scatter(&context, op.rows)),
            Op::If(op) => control::branch(&context, self, op),
            Op::While(op) => control::repeat(&context, self, op),
            Op::Empty(_) => Ok(control::empty(&context)),
            Op::Push(_) => Ok(control::push(&context)),
            Op::Pop(_) => Ok(control::pop(&context)),
            Op::NotEmpty(_) => Ok(control::not_empty(&context)),
            Op::Merge(_) => Ok(control::merge(&context)),
        }
    }
}

/// A node being lowered.
struct Context<'a> {
    graph: &'a Graph,
    node: &'a Node,
    simd: Simd,
    threads: usize,
    rows: RowDependence,
}

impl<'a> Context<'a> {
    fn dims(&self, arg: usize) -> &'a [usize] {
        self.graph.shape(self.node.args[arg]).dims()
    }

    fn out_dims(&self) -> &'a [usize] {
        self.graph.shape(self.node.outs[0]).dims()
    }

    /// Threads that pay for a pass over so many elements.
    fn threads_for(&self, elements: usize) -> usize {
        if elements < SHARED { 1 } else { self.threads }
    }

    /// How a product is added up, which has the bits of the small-batch kernels where the number of rows must not matter.
    fn sum(&self) -> Sum {
        match self.rows {
            RowDependence::Together => Sum::Blocks,
            RowDependence::Alone => Sum::InOrder,
        }
    }

    fn task(&self, kernel: impl Kernel + 'static) -> KernelCall {
        KernelCall {
            name: self.node.op.to_string(),
            kernel: Box::new(kernel),
            args: self.node.args.clone(),
            outs: self.node.outs.clone(),
            in_place: vec![],
            scratch: 0,
            constant: false,
            prepared: None,
        }
    }
}

fn elements(graph: &Graph, values: &[Value]) -> usize {
    values.first().map_or(0, |&v| graph.shape(v).elements())
}

/// Compiles a graph as it is, runs it once and gives its outputs: how eager ops run.
pub(crate) fn run_once(graph: &Graph, args: &[&[f32]]) -> Result<Vec<Vec<f32>>> {
    let options = Options {
        optimise: false,
        ..Options::default()
    };
    let program = compile_with(graph, &options, &[&Cpu::default()])?;
    Session::new(program.into()).call(args)
}
