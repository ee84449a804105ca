//! Elementwise chains.

use synod_kernels::{self as kernels, Access, Chain, Instr, Reg, Simd, Source, Span};

use super::super::{CallFrame, InPlace, KernelCall};
use super::{Context, elements};
use crate::error::{Error, Result};
use crate::graph::{Builder, Graph, Value};
use crate::ops::{Binary, Op, Unary};
use crate::passes::{Repeat, repeats};

/// The most arguments and results of a chain.
const WIDTH: usize = 32;
/// As many of most chains.
const SHORT: usize = 4;

/// A single elementwise op is a chain of one.
pub(super) fn single(c: &Context<'_>) -> Result<KernelCall> {
    let mut b = Builder::new();
    let params: Vec<Value> = c
        .node
        .args
        .iter()
        .map(|&a| b.param(c.graph.ty(a).clone(), ""))
        .collect();
    let outs = b.apply(c.node.op.clone(), &params);
    fused(c, &b.finish(&outs)?)
}

pub(super) fn fused(c: &Context<'_>, body: &Graph) -> Result<KernelCall> {
    let internal = |e: &dyn std::fmt::Display| Error::Internal(format!("lowering `{}`: {e}", c.node.op));
    let Lowered {
        inputs,
        instrs,
        outputs,
    } = lower(body).map_err(|e| internal(&e))?;
    let (arity, outs) = (inputs.len(), c.node.outs.len());
    if arity > WIDTH || outs > WIDTH {
        return Err(internal(&"too many arguments or results"));
    }
    // Each result may take the place of one argument that is only read element by element.
    let only_full = |arg: usize| {
        inputs
            .iter()
            .all(|&(a, access)| a != arg || access == Access::Full)
    };
    let free = (0..c.node.args.len()).filter(|&arg| only_full(arg));
    let in_place = (0..outs)
        .zip(free)
        .map(|(out, arg)| (out, arg, InPlace::May))
        .collect();
    let (reads, accesses): (Vec<usize>, Vec<Access>) = inputs.into_iter().unzip();
    let chain = Chain::new(accesses, instrs, outputs).map_err(|e| internal(&e))?;
    let (simd, len) = (c.simd, elements(c.graph, &c.node.outs));
    let threads = c.threads_for(len);
    let call = Call {
        chain,
        reads,
        outs,
        simd,
        len,
        threads,
    };
    // Most chains are short, and room for the longest takes longer to clear than they take to run.
    let mut task = if arity.max(outs) <= SHORT {
        c.task(move |frame: CallFrame<'_>| call.run::<SHORT>(frame))
    } else {
        c.task(move |frame: CallFrame<'_>| call.run::<WIDTH>(frame))
    };
    task.in_place = in_place;
    Ok(task)
}

struct Call {
    chain: Chain,
    /// The argument of every input.
    reads: Vec<usize>,
    outs: usize,
    simd: Simd,
    len: usize,
    threads: usize,
}

impl Call {
    /// Runs a chain of at most `N` inputs and results.
    fn run<const N: usize>(&self, frame: CallFrame<'_>) {
        let mut outs_at = [Span::default(); N];
        (0..self.outs).for_each(|i| outs_at[i] = frame.out(i));
        let outs_at = &outs_at[..self.outs];
        // An argument in the place of a result is read through the result.
        let mut spans = [Span::default(); N];
        let mut shared = [None; N];
        for (i, &arg) in self.reads.iter().enumerate() {
            let span = frame.arg(arg);
            shared[i] = outs_at.iter().position(|o| *o == span && span.len > 0);
            spans[i] = if shared[i].is_some() {
                Span::default()
            } else {
                span
            };
        }
        let arity = self.reads.len();
        let floats = &mut frame.memory.floats;
        floats.split_many(&spans[..arity], outs_at, &mut |x, y| {
            let mut sources = [Source::Output(0); N];
            for i in 0..arity {
                sources[i] = shared[i].map_or(Source::Slice(x[i]), Source::Output);
            }
            self.chain
                .run_shared(self.simd, self.len, &sources[..arity], y, self.threads);
        });
    }
}

struct Lowered {
    /// The argument and how it is read, per input.
    inputs: Vec<(usize, Access)>,
    instrs: Vec<Instr>,
    outputs: Vec<Reg>,
}

fn lower(body: &Graph) -> Result<Lowered, String> {
    // An argument may be read in several ways; each way is an input of its own.
    let mut inputs: Vec<(usize, Access)> = vec![];
    let mut input_of: Vec<Option<usize>> = vec![None; body.values()];
    let mut input = |arg: usize, access: Access| {
        inputs
            .iter()
            .position(|i| *i == (arg, access))
            .unwrap_or_else(|| {
                inputs.push((arg, access));
                inputs.len() - 1
            })
    };
    let arg_of = |v: Value| body.params().iter().position(|p| *p == v);
    for node in body.nodes() {
        if let Op::Broadcast(b) = &node.op {
            let arg = arg_of(node.args[0]).ok_or("a broadcast of a chain's own value")?;
            let access = match repeats(b, body.shape(node.args[0])).ok_or("an irregular broadcast")? {
                Repeat::Scalar => Access::Scalar,
                Repeat::Row(n) => Access::Row(n),
                Repeat::Column(n) => Access::Column(n),
            };
            input_of[node.outs[0].index()] = Some(input(arg, access));
        } else {
            for &a in &node.args {
                if let Some(arg) = arg_of(a) {
                    input_of[a.index()] = Some(input(arg, Access::Full));
                }
            }
        }
    }
    let mut registers: Vec<Option<Reg>> = input_of.iter().map(|i| i.map(|i| i as Reg)).collect();
    let mut next = inputs.len() as Reg;
    let mut instrs = vec![];
    for node in body.nodes() {
        let reg = |i: usize| registers[node.args[i].index()].ok_or("a value has no register");
        instrs.push(match &node.op {
            Op::Broadcast(_) => continue,
            Op::Full(f) => Instr::Splat(next, f.value),
            Op::Unary(f) => Instr::Unary(unary(*f), next, reg(0)?),
            Op::Binary(f) => Instr::Binary(binary(*f), next, reg(0)?, reg(1)?),
            Op::Select(_) => Instr::Select(next, reg(0)?, reg(1)?, reg(2)?),
            other => return Err(format!("`{other}` is not elementwise")),
        });
        registers[node.outs[0].index()] = Some(next);
        next += 1;
    }
    let outputs: Option<Vec<Reg>> = body.outputs().iter().map(|o| registers[o.index()]).collect();
    Ok(Lowered {
        inputs,
        instrs,
        outputs: outputs.ok_or("an output has no register")?,
    })
}

fn unary(f: Unary) -> kernels::Unary {
    match f {
        Unary::Neg => kernels::Unary::Neg,
        Unary::Abs => kernels::Unary::Abs,
        Unary::Sign => kernels::Unary::Sign,
        Unary::Exp => kernels::Unary::Exp,
        Unary::Log => kernels::Unary::Log,
        Unary::Sqrt => kernels::Unary::Sqrt,
        Unary::Recip => kernels::Unary::Recip,
        Unary::Sin => kernels::Unary::Sin,
        Unary::Cos => kernels::Unary::Cos,
        Unary::Tanh => kernels::Unary::Tanh,
        Unary::Sigmoid => kernels::Unary::Sigmoid,
        Unary::Relu => kernels::Unary::Relu,
        Unary::Erf => kernels::Unary::Erf,
        Unary::Floor => kernels::Unary::Floor,
    }
}

fn binary(f: Binary) -> kernels::Binary {
    match f {
        Binary::Add => kernels::Binary::Add,
        Binary::Sub => kernels::Binary::Sub,
        Binary::Mul => kernels::Binary::Mul,
        Binary::Div => kernels::Binary::Div,
        Binary::Max => kernels::Binary::Max,
        Binary::Min => kernels::Binary::Min,
        Binary::Pow => kernels::Binary::Pow,
        Binary::Less => kernels::Binary::Less,
        Binary::Equal => kernels::Binary::Equal,
    }
}
