//! Who computes what: backends report cost per node, nodes are assigned, and convex regions are compiled.

mod assign;
pub mod cpu;
mod interpreted;
mod memory;

use crate::error::Result;
use crate::graph::{Graph, Node, Value};

pub use assign::{Region, assign, partition};
pub use cpu::Cpu;
pub use interpreted::Interpreter;
pub use memory::{CallFrame, Memory};

/// A device or library that can run parts of a graph.
pub trait Backend: Send + Sync {
    /// The name people see.
    fn name(&self) -> &str;

    /// Seconds that a node would take, or `None` if this backend cannot run it.
    fn seconds(&self, graph: &Graph, node: &Node) -> Option<f64>;

    /// Compiles a region, whose parameters and outputs are its boundary, into tasks.
    fn compile(&self, region: &Graph, rows: RowDependence) -> Result<Vec<KernelCall>>;
}

/// What the result of a row may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowDependence {
    /// How many rows there are may decide the order of additions: the fastest way for so many, while training.
    Together,
    /// On the row alone, to the last bit: what is asked of a model is answered alike however it is asked.
    Alone,
}

/// Something that computes results from arguments, both in memory. It must not allocate.
pub trait Kernel: Send + Sync {
    /// Runs once.
    fn run(&self, frame: CallFrame<'_>);
}

impl<F: Fn(CallFrame<'_>) + Send + Sync> Kernel for F {
    fn run(&self, frame: CallFrame<'_>) {
        self(frame)
    }
}

/// Whether a result may, or must, take the place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// The kernel is correct either way.
    May,
    /// The kernel changes the argument and nothing else.
    Must,
}

/// One call of a kernel, on values of the region it was compiled from.
pub struct KernelCall {
    /// What people see.
    pub name: String,
    /// The computation.
    pub kernel: Box<dyn Kernel>,
    /// Arguments.
    pub args: Vec<Value>,
    /// Results.
    pub outs: Vec<Value>,
    /// `(result, argument, how)`.
    pub in_place: Vec<(usize, usize, InPlace)>,
    /// Working memory in `f32`.
    pub scratch: usize,
    /// The result never changes, so one run is enough.
    pub constant: bool,
    /// The task as it would be if one of its arguments were frozen.
    pub prepared: Option<PreparedCall>,
}

/// A task in two parts: an argument that does not change is brought into another form once, and used in that form.
pub struct PreparedCall {
    /// Which argument.
    pub arg: usize,
    /// `f32` of its other form.
    pub slots: usize,
    /// Makes the other form.
    pub prepare: Box<dyn Kernel>,
    /// The computation, with the other form in the argument's place.
    pub kernel: Box<dyn Kernel>,
    /// Its working memory in `f32`.
    pub scratch: usize,
}
