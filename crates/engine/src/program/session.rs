//! A program with memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use synod_kernels::Span;

use super::Program;
use crate::backend::Memory;
use crate::error::{Error, Result};

/// The mutable part of a computation: parameters, state, inputs and arena in one aligned block.
///
/// Running allocates nothing (tapes of loops grow until they have seen their longest run).
#[derive(Clone)]
pub struct Session {
    program: Arc<Program>,
    memory: Memory,
    /// Whether what is computed once must be computed again.
    stale: bool,
}

impl Session {
    /// Memory for a program, all parameters zero.
    pub fn new(program: Arc<Program>) -> Session {
        let memory = Memory::zeroed(program.memory());
        Session {
            program,
            memory,
            stale: true,
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn slice(&self, span: Span) -> &[f32] {
        &self.memory.floats[span.start..span.start + span.len]
    }

    fn slice_mut(&mut self, span: Span) -> &mut [f32] {
        &mut self.memory.floats[span.start..span.start + span.len]
    }

    /// Parameter `i`.
    pub fn param(&self, i: usize) -> &[f32] {
        self.slice(self.program.param(i))
    }

    /// Parameter `i`, to be written.
    pub fn param_mut(&mut self, i: usize) -> &mut [f32] {
        self.stale |= self.program.is_frozen(i);
        self.slice_mut(self.program.param(i))
    }

    /// A contiguous run of parameters as one flat slice.
    pub fn params_between(&self, range: Range<usize>) -> &[f32] {
        self.slice(self.program.params_between(range))
    }

    /// A contiguous run of parameters as one flat slice, to be written.
    pub fn params_between_mut(&mut self, range: Range<usize>) -> &mut [f32] {
        self.stale |= self.program.is_frozen(range.start);
        self.slice_mut(self.program.params_between(range))
    }

    /// Output `i` of the last run.
    pub fn output(&self, i: usize) -> &[f32] {
        self.slice(self.program.output(i))
    }

    /// Runs the program on the parameters as they are.
    pub fn run(&mut self) {
        self.run_while(|_| {});
    }

    /// [`Session::run`], with `between` asked before every kernel call, with how many are still to come.
    pub fn run_while(&mut self, between: impl FnMut(usize)) {
        self.memory.tapes.clear();
        if std::mem::take(&mut self.stale) {
            self.program.prepare(&mut self.memory);
        }
        self.program.execute_while(&mut self.memory, 0, between);
    }

    /// [`Session::run`], and what each of its kernel calls took, named by op and by the sizes of arguments and results.
    pub fn run_timed(&mut self) -> Vec<(String, Duration)> {
        self.memory.tapes.clear();
        if std::mem::take(&mut self.stale) {
            self.program.prepare(&mut self.memory);
        }
        self.program.execute_timed(&mut self.memory)
    }

    /// Sets all parameters, runs, and copies all outputs.
    pub fn call(&mut self, args: &[&[f32]]) -> Result<Vec<Vec<f32>>> {
        if args.len() != self.program.param_count() {
            let problem = format!(
                "{} arguments for {} parameters",
                args.len(),
                self.program.param_count()
            );
            return Err(Error::Call(problem));
        }
        for (i, arg) in args.iter().enumerate() {
            let to = self.param_mut(i);
            if to.len() != arg.len() {
                let problem = format!(
                    "parameter {i} takes {} numbers and was given {}",
                    to.len(),
                    arg.len()
                );
                return Err(Error::Call(problem));
            }
            to.copy_from_slice(arg);
        }
        self.run();
        Ok((0..self.program.output_count())
            .map(|i| self.output(i).to_vec())
            .collect())
    }
}
