//! Compiled graphs: tasks with every offset resolved, and sessions that own the memory they run in.

mod bind;
mod session;

use std::fmt::{self, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use synod_kernels::Span;

use crate::backend::{Backend, CallFrame, Cpu, Kernel, Memory, RowDependence};
use crate::error::Result;
use crate::graph::Graph;
use crate::passes;
use crate::plan::Lifetime;

pub use session::Session;

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run the passes first.
    pub optimise: bool,
    /// `(output, parameter)`: the output is wanted in the parameter's place, which may be overwritten once it is read.
    pub donate: Vec<(usize, usize)>,
    /// Runs of parameters that lie side by side without gaps; all others are aligned.
    pub contiguous: Vec<Range<usize>>,
    /// Parameters before this one stay as they are from run to run: what depends on them alone is computed once, and again
    /// after they were written. If there are any, dense layers give a row the same bits however many stand beside it.
    pub frozen: usize,
    /// Threads for large ops.
    pub threads: usize,
    /// The program runs inside another one's working memory, which it may overwrite, its parameters up to `kept` included.
    pub inner: bool,
    /// Parameters from this one on are as they were after a run, unless they are donated.
    pub kept: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            optimise: true,
            donate: vec![],
            contiguous: vec![],
            frozen: 0,
            threads: 1,
            inner: false,
            kept: 0,
        }
    }
}

/// Compiles a graph for the processor.
pub fn compile(graph: &Graph, options: &Options) -> Result<Program> {
    compile_with(graph, options, &[&Cpu::new(options.threads)])
}

/// Compiles a graph for several backends, each node going where it is cheapest.
pub fn compile_with(graph: &Graph, options: &Options, backends: &[&dyn Backend]) -> Result<Program> {
    let rows = match options.frozen {
        0 => RowDependence::Together,
        _ => RowDependence::Alone,
    };
    compile_as(graph, options, rows, backends)
}

/// [`compile_with`] for a program that may be part of another one, whose rows it shares.
pub(crate) fn compile_as(
    graph: &Graph,
    options: &Options,
    rows: RowDependence,
    backends: &[&dyn Backend],
) -> Result<Program> {
    let graph = match (options.optimise, options.frozen) {
        (true, 0) => passes::optimise(graph, |_, _| {})?,
        (true, frozen) => passes::optimise(&passes::absorb(graph, frozen)?, |_, _| {})?,
        (false, _) => graph.clone(),
    };
    bind::bind(&graph, options, rows, backends)
}

/// A kernel with its places in memory.
struct Bound {
    name: String,
    kernel: Box<dyn Kernel>,
    args: Vec<Span>,
    outs: Vec<Span>,
    scratch: Span,
}

/// A compiled graph. It holds no data: many sessions may run one program at the same time.
pub struct Program {
    /// What is run once, and again when a frozen parameter was written.
    once: Vec<Bound>,
    tasks: Vec<Bound>,
    frozen: usize,
    params: Vec<Span>,
    outputs: Vec<Span>,
    /// Copies that bring donated outputs home at the end.
    homing: Vec<(Span, Span)>,
    memory: usize,
    lifetimes: Vec<Lifetime>,
    offsets: Vec<usize>,
    arena: usize,
}

impl Program {
    /// `f32` of memory a session needs.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// `f32` of the arena, the part of memory whose places are reused.
    pub fn arena(&self) -> usize {
        self.arena
    }

    /// The lifetimes that were planned and the offsets they got, for those who check the plan.
    pub fn plan(&self) -> (&[Lifetime], &[usize]) {
        (&self.lifetimes, &self.offsets)
    }

    /// Where parameter `i` lies.
    pub fn param(&self, i: usize) -> Span {
        self.params[i]
    }

    /// The number of parameters.
    pub fn param_count(&self) -> usize {
        self.params.len()
    }

    /// Where output `i` lies after a run.
    pub fn output(&self, i: usize) -> Span {
        self.outputs[i]
    }

    /// The number of outputs.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// Where a contiguous run of parameters lies.
    pub fn params_between(&self, range: Range<usize>) -> Span {
        match (
            self.params.get(range.start),
            range.end.checked_sub(1).and_then(|i| self.params.get(i)),
        ) {
            (Some(first), Some(last)) if !range.is_empty() => Span {
                start: first.start,
                len: last.start + last.len - first.start,
            },
            _ => Span::default(),
        }
    }

    /// The number of kernel calls in a run.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Runs in `memory`, everything moved by `base`.
    pub(crate) fn execute(&self, memory: &mut Memory, base: usize) {
        self.execute_while(memory, base, |_| {});
    }

    /// Runs like [`Program::execute`] and calls `between` before every task, with how many are still to come.
    pub(crate) fn execute_while(&self, memory: &mut Memory, base: usize, mut between: impl FnMut(usize)) {
        for (i, task) in self.tasks.iter().enumerate() {
            between(self.tasks.len() - i);
            run(task, memory, base);
        }
        for (from, to) in &self.homing {
            let start = from.start + base;
            memory
                .floats
                .copy_within(start..start + from.len, to.start + base);
        }
    }

    /// Runs like [`Program::execute`] and gives what each task was and took.
    pub(crate) fn execute_timed(&self, memory: &mut Memory) -> Vec<(String, Duration)> {
        let mut times = vec![];
        for task in &self.tasks {
            let start = Instant::now();
            run(task, memory, 0);
            let sizes: Vec<usize> = task.args.iter().chain(&task.outs).map(|s| s.len).collect();
            times.push((format!("{} {sizes:?}", task.name), start.elapsed()));
        }
        for (from, to) in &self.homing {
            let range = from.start..from.start + from.len;
            memory.floats.copy_within(range, to.start);
        }
        times
    }

    /// Computes what does not change from run to run.
    pub(crate) fn prepare(&self, memory: &mut Memory) {
        self.once.iter().for_each(|task| run(task, memory, 0));
    }

    /// Whether parameter `i` stays as it is from run to run.
    pub(crate) fn is_frozen(&self, i: usize) -> bool {
        i < self.frozen
    }

    /// The tasks and their places, for people.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let place = |s: &Span| format!("{}+{}", s.start, s.len);
        let places = |spans: &[Span]| spans.iter().map(place).collect::<Vec<_>>().join(" ");
        for (kind, tasks) in [("once", &self.once), ("task", &self.tasks)] {
            for (i, task) in tasks.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "{kind} {i:3}  {} -> {}  {}",
                    places(&task.args),
                    places(&task.outs),
                    task.name
                );
            }
        }
        text
    }
}

fn run(task: &Bound, memory: &mut Memory, base: usize) {
    task.kernel.run(CallFrame {
        memory,
        base,
        args: &task.args,
        outs: &task.outs,
        scratch: task.scratch,
    });
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({} tasks, {} floats)", self.tasks.len(), self.memory)
    }
}
