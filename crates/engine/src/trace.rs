//! Recording: while a function is traced, ops on tensors become nodes of a graph.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::cpu;
use crate::eager;
use crate::error::{Error, Result, Site};
use crate::graph::{Builder, Graph, Value};
use crate::ops::{Const, Op};
use crate::tensor::Tensor;
use crate::types::Type;

/// What a trace does beside naming values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Names only; free tensors with data become literals.
    Names,
    /// Names only; free tensors become captured parameters.
    Captures,
    /// Names and data: ops run as they are recorded.
    Record,
}

struct Trace {
    id: u64,
    style: Style,
    builder: Builder,
    captures: Vec<(Tensor, Value)>,
    data: Vec<(Value, Arc<[f32]>)>,
}

thread_local! {
    static TRACES: RefCell<Vec<Trace>> = const { RefCell::new(Vec::new()) };
}

/// The result of tracing: the graph and the outer tensors that became its last parameters.
pub(crate) struct Traced {
    pub(crate) graph: Graph,
    pub(crate) captures: Vec<Tensor>,
    /// The values seen while recording.
    pub(crate) data: Vec<(Value, Arc<[f32]>)>,
}

/// Pops a trace even if the traced function panics.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        TRACES.with_borrow_mut(|traces| traces.pop());
    }
}

/// Traces a function of tensors into a graph.
pub fn trace(params: &[Type], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Result<Graph> {
    named(&params.iter().map(|t| (t.clone(), "")).collect::<Vec<_>>(), f)
}

/// [`trace`] with names for the parameters.
pub fn named(params: &[(Type, &str)], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Result<Graph> {
    let traced = run(params, Style::Names, f)?;
    match traced.captures.is_empty() {
        true => Ok(traced.graph),
        false => Err(Error::Trace {
            problem:
                "a function traced by itself uses tensors of a surrounding trace; pass them as parameters"
                    .into(),
            site: Site::default(),
        }),
    }
}

/// Traces a part of a function: tensors of the surrounding trace that it uses are captured.
pub(crate) fn closure(params: &[Type], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Result<Traced> {
    run(
        &params.iter().map(|t| (t.clone(), "")).collect::<Vec<_>>(),
        Style::Names,
        f,
    )
}

/// Traces a function whose free tensors, also concrete ones, become captured parameters.
pub(crate) fn capturing(params: &[Type], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Result<Traced> {
    run(
        &params.iter().map(|t| (t.clone(), "")).collect::<Vec<_>>(),
        Style::Captures,
        f,
    )
}

/// Runs a function on concrete tensors and records what it did.
pub(crate) fn recording(args: &[Tensor], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Result<Traced> {
    let types: Vec<(Type, &str)> = args
        .iter()
        .map(|a| (Type::Tensor(a.shape().clone()), ""))
        .collect();
    run(&types, Style::Record, |params| {
        let with_data: Vec<Tensor> = params.iter().zip(args).map(|(p, a)| p.with_data_of(a)).collect();
        remember(&with_data);
        f(&with_data)
    })
}

fn run(params: &[(Type, &str)], style: Style, f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Result<Traced> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut builder = Builder::new();
    let tensors: Vec<Tensor> = params
        .iter()
        .map(|(ty, name)| {
            Tensor::named(
                ty.shape().cloned().unwrap_or_default(),
                id,
                builder.param(ty.clone(), name),
            )
        })
        .collect();
    let trace = Trace {
        id,
        style,
        builder,
        captures: vec![],
        data: vec![],
    };
    TRACES.with_borrow_mut(|traces| traces.push(trace));
    let guard = Guard;
    let outs = f(&tensors);
    let level = TRACES.with_borrow(|traces| traces.len()) - 1;
    let lifted: Result<Vec<Value>> = outs.iter().map(|t| lift(t, level)).collect();
    let trace = TRACES.with_borrow_mut(|traces| {
        let top = traces.last_mut().filter(|t| t.id == id)?;
        let rest = Trace {
            id,
            style,
            builder: Builder::new(),
            captures: vec![],
            data: vec![],
        };
        Some(std::mem::replace(top, rest))
    });
    drop(guard);
    let trace = trace.ok_or_else(|| Error::Internal("traces were closed out of order".into()))?;
    if let Some(error) = trace.builder.error() {
        return Err(error.clone());
    }
    let graph = trace.builder.finish(&lifted?)?;
    Ok(Traced {
        graph,
        captures: trace.captures.into_iter().map(|c| c.0).collect(),
        data: trace.data,
    })
}

/// True inside a trace that has no data to decide conditions with.
pub(crate) fn is_tracing() -> bool {
    TRACES.with_borrow(|traces| !traces.is_empty())
}

/// The name of a tensor in the trace at `level`.
fn lift(tensor: &Tensor, level: usize) -> Result<Value> {
    if let Some(error) = tensor.error() {
        return Err(error.clone());
    }
    TRACES.with_borrow_mut(|traces| {
        let (outer, inner) = traces.split_at_mut(level);
        let trace = &mut inner[0];
        if let Some((id, value)) = tensor.name() {
            if id == trace.id {
                return Ok(value);
            }
            let known = trace.captures.iter().find(|(c, _)| c.name() == tensor.name());
            if let Some((_, value)) = known {
                return Ok(*value);
            }
            if outer.iter().any(|t| t.id == id) {
                let value = trace
                    .builder
                    .param(Type::Tensor(tensor.shape().clone()), "capture");
                trace.captures.push((tensor.clone(), value));
                return Ok(value);
            }
        }
        let Some(data) = tensor.data() else {
            return Err(Error::Trace {
                problem: "a tensor was used after the function that traced it had ended; return it instead"
                    .into(),
                site: Site::default(),
            });
        };
        // A scalar is as good as a literal; anything larger may change between calls of a staged function.
        if trace.style == Style::Captures && tensor.shape().rank() > 0 {
            let same =
                |c: &Tensor| c.data().is_some_and(|d| Arc::ptr_eq(d, data)) && c.shape() == tensor.shape();
            if let Some((_, value)) = trace.captures.iter().find(|(c, _)| same(c)) {
                return Ok(*value);
            }
            let value = trace
                .builder
                .param(Type::Tensor(tensor.shape().clone()), "capture");
            trace.captures.push((tensor.clone(), value));
            return Ok(value);
        }
        let literal = Const {
            shape: tensor.shape().clone(),
            data: data.clone(),
        };
        let value = trace.builder.one(literal, &[]);
        if trace.style == Style::Record {
            trace.data.push((value, data.clone()));
        }
        Ok(value)
    })
}

/// Applies an op: emits it into the innermost trace, or runs it at once outside any.
pub(crate) fn emit(op: Op, args: &[&Tensor], site: Site) -> Vec<Tensor> {
    let failed = |error: Error| {
        let n = op.primitive().outputs_after_error();
        TRACES.with_borrow_mut(|traces| {
            if let Some(top) = traces.last_mut() {
                top.builder.fail(error.clone());
            }
        });
        vec![Tensor::poisoned(error); n]
    };
    if let Some(error) = args.iter().find_map(|a| a.error()) {
        return failed(error.clone());
    }
    let level = TRACES.with_borrow(|traces| traces.len());
    if level == 0 {
        return eager::apply(&op, args, &site).unwrap_or_else(failed);
    }
    // Literals among the arguments belong to the same line.
    TRACES.with_borrow_mut(|traces| traces[level - 1].builder.at(&site));
    let lifted: Result<Vec<Value>> = args.iter().map(|a| lift(a, level - 1)).collect();
    let lifted = match lifted {
        Ok(lifted) => lifted,
        Err(Error::Trace { problem, .. }) => return failed(Error::Trace { problem, site }),
        Err(other) => return failed(other),
    };
    let (outs, id, style) = TRACES.with_borrow_mut(|traces| {
        let top = &mut traces[level - 1];
        let ok = top.builder.error().is_none();
        let values = top.builder.apply(op.clone(), &lifted);
        let shaped: Vec<_> = values.iter().map(|&v| (top.builder.shape(v), v)).collect();
        let outs = match (ok, top.builder.error()) {
            (true, Some(error)) => Err(error.clone()),
            _ => Ok(shaped),
        };
        (outs, top.id, top.style)
    });
    let outs = match outs {
        Ok(outs) => outs,
        Err(error) => return failed(error),
    };
    let mut tensors: Vec<Tensor> = outs
        .into_iter()
        .map(|(shape, v)| Tensor::named(shape, id, v))
        .collect();
    if style == Style::Record && args.iter().all(|a| a.data().is_some()) {
        match eager::apply(&op, args, &site) {
            Ok(values) => {
                tensors = tensors
                    .iter()
                    .zip(&values)
                    .map(|(t, v)| t.with_data_of(v))
                    .collect();
                remember(&tensors);
            }
            Err(error) => return failed(error),
        }
    }
    tensors
}

/// Records a mistake in the innermost trace and gives the tensor that carries it on.
pub(crate) fn mistake(problem: impl Into<String>, site: Site) -> Error {
    let error = Error::Trace {
        problem: problem.into(),
        site,
    };
    TRACES.with_borrow_mut(|traces| {
        if let Some(top) = traces.last_mut() {
            top.builder.fail(error.clone());
        }
    });
    error
}

/// Emits a whole graph into the innermost trace; one that records also runs it.
pub(crate) fn inline(graph: &Graph, args: &[Tensor]) -> Result<Vec<Tensor>> {
    let level = TRACES.with_borrow(|traces| traces.len());
    let lifted: Vec<Value> = args.iter().map(|a| lift(a, level - 1)).collect::<Result<_>>()?;
    let (tensors, style) = TRACES.with_borrow_mut(|traces| {
        let top = &mut traces[level - 1];
        let outs = top.builder.inline(graph, &lifted);
        let tensors: Vec<Tensor> = outs
            .iter()
            .map(|&v| Tensor::named(top.builder.shape(v), top.id, v))
            .collect();
        match top.builder.error() {
            Some(error) => Err(error.clone()),
            None => Ok((tensors, top.style)),
        }
    })?;
    let data: Option<Vec<&[f32]>> = args.iter().map(|a| a.data().map(|d| &d[..])).collect();
    match data {
        Some(data) if style == Style::Record => {
            let results = cpu::run_once(graph, &data)?;
            let with_data = |(t, data): (&Tensor, Vec<f32>)| {
                t.with_data_of(&Tensor::concrete(t.shape().clone(), data.into()))
            };
            let tensors: Vec<Tensor> = tensors.iter().zip(results).map(with_data).collect();
            remember(&tensors);
            Ok(tensors)
        }
        _ => Ok(tensors),
    }
}

/// Keeps the values of tensors with the innermost trace.
fn remember(tensors: &[Tensor]) {
    TRACES.with_borrow_mut(|traces| {
        let Some(top) = traces.last_mut() else { return };
        for tensor in tensors {
            if let (Some((_, value)), Some(data)) = (tensor.name(), tensor.data()) {
                top.data.push((value, data.clone()));
            }
        }
    });
}

/// Records an error in the innermost trace.
pub(crate) fn note(error: &Error) {
    TRACES.with_borrow_mut(|traces| {
        if let Some(top) = traces.last_mut() {
            top.builder.fail(error.clone());
        }
    });
}
