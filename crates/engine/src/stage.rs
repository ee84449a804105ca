//! The one-line switch between running at once and compiling, and the cache of compiled functions.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::Result;
use crate::graph::Graph;
use crate::program::{Options, Program, Session, compile};
use crate::tensor::Tensor;
use crate::trace;
use crate::types::Type;

/// How functions marked `#[graph]` run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Op by op, at once.
    #[default]
    Eager,
    /// Traced, compiled and cached.
    Graph,
}

/// Compiled functions kept per thread; the oldest goes first.
const CACHE: usize = 64;

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Eager) };
    static COMPILED: RefCell<VecDeque<(Arc<Graph>, Session)>> = const { RefCell::new(VecDeque::new()) };
}

/// Switches how `#[graph]` functions run on this thread from now on.
pub fn set_mode(mode: Mode) {
    MODE.set(mode);
}

/// How `#[graph]` functions run on this thread.
pub fn mode() -> Mode {
    MODE.get()
}

/// Compiles and runs a function of tensors; a function that traces to the same graph again is not compiled again.
///
/// Inside a trace the function simply becomes part of it. A mistake comes back as a tensor that carries the error.
pub fn staged(args: &[Tensor], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Vec<Tensor> {
    if trace::is_tracing() {
        return f(args);
    }
    let run = || -> Result<Vec<Tensor>> {
        if let Some(error) = args.iter().find_map(Tensor::error) {
            return Err(error.clone());
        }
        let types: Vec<Type> = args.iter().map(|a| Type::Tensor(a.shape().clone())).collect();
        let traced = trace::capturing(&types, f)?;
        call(traced.graph, &[args, &traced.captures].concat())
    };
    run().unwrap_or_else(|error| vec![Tensor::poisoned(error)])
}

/// Runs a graph through the cache of compiled programs.
pub(crate) fn call(graph: Graph, args: &[Tensor]) -> Result<Vec<Tensor>> {
    let data: Vec<&[f32]> = args.iter().map(|a| a.data().map_or(&[][..], |d| d)).collect();
    COMPILED.with_borrow_mut(|cache| {
        let known = cache.iter().position(|(g, _)| **g == graph);
        let (key, mut session) = match known.and_then(|i| cache.remove(i)) {
            Some(entry) => entry,
            None => {
                let program: Program = compile(&graph, &Options::default())?;
                (Arc::new(graph), Session::new(Arc::new(program)))
            }
        };
        let outs = session.call(&data);
        let tensors = outs.map(|outs| {
            let shapes = key.outputs().iter().map(|&o| key.shape(o).clone());
            shapes
                .zip(outs)
                .map(|(shape, data)| Tensor::concrete(shape, data.into()))
                .collect()
        });
        cache.push_back((key, session));
        if cache.len() > CACHE {
            cache.pop_front();
        }
        tensors
    })
}

/// How many compiled functions this thread holds.
pub fn compiled_functions() -> usize {
    COMPILED.with_borrow(VecDeque::len)
}

impl Graph {
    /// Applies the graph to tensors: inside a trace it becomes part of it, outside it is compiled, cached and run.
    pub fn apply(&self, args: &[Tensor]) -> Vec<Tensor> {
        let result = match trace::is_tracing() {
            true => trace::inline(self, args),
            false => call(self.clone(), args),
        };
        result.unwrap_or_else(|error| vec![Tensor::poisoned(error); self.outputs().len()])
    }
}
