//! Elementwise chains: a few instructions over vector registers of the caller's choosing, run block by block so that
//! whatever passes between them stays in the first-level cache.

use std::{error::Error, fmt};

use crate::{
    level::Simd,
    share::{Shared, share},
};

mod compile;
mod run;

use compile::Program;

/// The number of a chain's register.
pub type Reg = u16;

/// Registers, inputs and outputs a chain may have.
pub const MAX_REGISTERS: usize = 64;

/// Elements that are shared out among threads at once.
const SHARE: usize = 4096;

/// A function of one operand.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-x`.
    Neg,
    /// Magnitude.
    Abs,
    /// -1, 0 or 1; NaN stays NaN.
    Sign,
    /// Exponential.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// `1 / x`.
    Recip,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// Error function.
    Erf,
    /// Rounds down.
    Floor,
}

/// A function of two operands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// The larger; NaN if either is.
    Max,
    /// The smaller; NaN if either is.
    Min,
    /// `a` to the power `b`.
    Pow,
    /// 1 if `a < b`, else 0.
    Less,
    /// 1 if `a == b`, else 0.
    Equal,
}

/// One step of a chain; the first register is the destination.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Instr {
    /// `r0 = f(r1)`.
    Unary(Unary, Reg, Reg),
    /// `r0 = f(r1, r2)`.
    Binary(Binary, Reg, Reg, Reg),
    /// `r0 = r1 != 0 ? r2 : r3`.
    Select(Reg, Reg, Reg, Reg),
    /// `r0` is the constant.
    Splat(Reg, f32),
}

/// Which element of an input belongs to element `i` of the result.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Element `i`.
    Full,
    /// The only element.
    Scalar,
    /// Element `i % n`: a row of `n` repeated.
    Row(usize),
    /// Element `i / n`: one value for every row of `n`.
    Column(usize),
}

/// Where an input of a run lies.
#[derive(Copy, Clone, Debug)]
pub enum Source<'a> {
    /// In a slice of its own.
    Slice(&'a [f32]),
    /// In the old contents of that output, which is then computed in place; the access must be [`Access::Full`].
    Output(usize),
}

/// Why a list of instructions is not a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// A register number is too large, or there are too many inputs or outputs.
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How much of it.
        count: usize,
    },
    /// A register is read before anything is written to it.
    Unset {
        /// The register.
        register: Reg,
        /// The instruction that reads it, or `None` if it is an output.
        instruction: Option<usize>,
    },
    /// An input repeats with period zero.
    ZeroPeriod {
        /// The input.
        input: usize,
    },
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainError::TooMany { what, count } => {
                write!(
                    f,
                    "a chain of {count} {what} exceeds the limit of {MAX_REGISTERS}"
                )
            }
            ChainError::Unset {
                register,
                instruction: Some(at),
            } => {
                write!(
                    f,
                    "instruction {at} reads register {register}, which nothing has written"
                )
            }
            ChainError::Unset {
                register,
                instruction: None,
            } => {
                write!(f, "register {register} is an output, but nothing writes it")
            }
            ChainError::ZeroPeriod { input } => write!(f, "input {input} repeats with period zero"),
        }
    }
}

impl Error for ChainError {}

/// A checked chain, ready to run any number of times.
#[derive(Clone, Debug)]
pub struct Chain {
    program: Program,
}

impl Chain {
    /// Checks and prepares a chain. Input `i` is in register `i` at the start; registers may be written again.
    pub fn new(inputs: Vec<Access>, instrs: Vec<Instr>, outputs: Vec<Reg>) -> Result<Chain, ChainError> {
        Program::compile(inputs, &instrs, &outputs).map(|program| Chain { program })
    }

    /// Computes `len` elements of every output.
    ///
    /// # Panics
    /// If the numbers or lengths of the slices do not match the chain's inputs, outputs and `len`.
    pub fn run(&self, simd: Simd, len: usize, inputs: &[Source<'_>], outputs: &mut [&mut [f32]]) {
        self.run_shared(simd, len, inputs, outputs, 1);
    }

    /// [`Chain::run`] by several threads, each on its own elements.
    pub fn run_shared(
        &self,
        simd: Simd,
        len: usize,
        inputs: &[Source<'_>],
        outputs: &mut [&mut [f32]],
        threads: usize,
    ) {
        self.check(len, inputs, outputs);
        let mut starts = [Shared::null(); MAX_REGISTERS];
        for (start, output) in starts.iter_mut().zip(outputs) {
            *start = Shared::new(output);
        }
        share(threads, len.div_ceil(SHARE), |shares| {
            simd.run(run::Run {
                program: &self.program,
                range: shares.start * SHARE..(shares.end * SHARE).min(len),
                inputs,
                outputs: &starts,
            });
        });
    }

    fn check(&self, len: usize, inputs: &[Source<'_>], outputs: &[&mut [f32]]) {
        let (wanted, found) = (
            (self.program.inputs.len(), self.program.outputs.len()),
            (inputs.len(), outputs.len()),
        );
        assert!(
            wanted == found,
            "chain: (inputs, outputs) are {found:?}, not {wanted:?}"
        );
        for (i, output) in outputs.iter().enumerate() {
            assert!(
                output.len() == len,
                "chain: output {i} has {} elements, not {len}",
                output.len()
            );
        }
        for (i, (source, access)) in inputs.iter().zip(&self.program.inputs).enumerate() {
            let needed = match *access {
                Access::Full => len,
                Access::Scalar => 1,
                Access::Row(n) => n,
                Access::Column(n) => len.div_ceil(n),
            };
            match *source {
                Source::Slice(x) => {
                    assert!(
                        x.len() == needed,
                        "chain: input {i} has {} elements, not {needed}",
                        x.len()
                    );
                }
                Source::Output(o) => {
                    let in_place = *access == Access::Full && o < outputs.len();
                    assert!(
                        in_place,
                        "chain: input {i} ({access:?}) cannot be in place in output {o}"
                    );
                }
            }
        }
    }
}
