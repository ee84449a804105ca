//! The memory a program runs in.

use synod_kernels::{Buffer, Span};

use crate::types::Type;

/// One aligned block for everything, and the tapes of loops.
#[derive(Clone, Default)]
pub struct Memory {
    /// Parameters, states, inputs and the arena.
    pub floats: Buffer,
    pub(crate) tapes: Tapes,
}

impl Memory {
    /// Zeroed memory for `len` numbers.
    pub fn zeroed(len: usize) -> Memory {
        Memory { floats: Buffer::zeroed(len), tapes: Tapes::default() }
    }
}

/// What a kernel sees: memory, and where its arguments, results and working memory are.
pub struct Frame<'a> {
    /// The memory.
    pub memory: &'a mut Memory,
    pub(crate) base: usize,
    pub(crate) args: &'a [Span],
    pub(crate) outs: &'a [Span],
    pub(crate) scratch: Span,
}

impl Frame<'_> {
    fn moved(&self, span: Span) -> Span {
        Span { start: span.start + self.base, len: span.len }
    }

    /// Where argument `i` is.
    pub fn arg(&self, i: usize) -> Span {
        self.moved(self.args[i])
    }

    /// Where result `i` goes.
    pub fn out(&self, i: usize) -> Span {
        self.moved(self.outs[i])
    }

    /// Working memory.
    pub fn scratch(&self) -> Span {
        self.moved(self.scratch)
    }

    /// How many arguments there are.
    pub fn arg_count(&self) -> usize {
        self.args.len()
    }

    /// Runs `f` on one result and some arguments; a result that shares an argument's place is not passed twice.
    pub fn with<const R: usize>(&mut self, args: [usize; R], out: usize, f: impl FnOnce([&[f32]; R], &mut [f32])) {
        let (reads, write) = (args.map(|i| self.arg(i)), self.out(out));
        let (reads, [write]) = self.memory.floats.views(reads, [write]);
        f(reads, write);
    }

    /// Copies within memory.
    pub fn copy(&mut self, from: Span, to: Span) {
        if from != to {
            self.memory.floats.copy_within(from.start..from.start + from.len, to.start);
        }
    }

    /// The first number of a span.
    pub fn number(&self, span: Span) -> f32 {
        self.memory.floats[span.start]
    }
}

/// Tapes as linked frames in two vectors that are emptied before each run and keep their capacity, so that steady
/// training allocates nothing. A tape is the one-based index of its top frame, held as the bits of an `f32`; 0 is empty.
#[derive(Clone, Default)]
pub(crate) struct Tapes {
    frames: Vec<(u32, usize)>,
    data: Vec<f32>,
}

impl Tapes {
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.data.clear();
    }

    /// Puts a frame of `parts` on top of `below`.
    pub(crate) fn push<'a>(&mut self, below: f32, parts: impl Iterator<Item = &'a [f32]>) -> f32 {
        self.frames.push((below.to_bits(), self.data.len()));
        parts.for_each(|p| self.data.extend_from_slice(p));
        f32::from_bits(self.frames.len() as u32)
    }

    /// The tape below the top frame, and where the frame's data begins.
    pub(crate) fn top(&self, tape: f32) -> Option<(f32, usize)> {
        let index = (tape.to_bits() as usize).checked_sub(1)?;
        self.frames.get(index).map(|&(below, at)| (f32::from_bits(below), at))
    }

    pub(crate) fn data(&self, at: usize, len: usize) -> &[f32] {
        &self.data[at..at + len]
    }

    /// The sum of two tapes whose frames hold `types`.
    pub(crate) fn merge(&mut self, a: f32, b: f32, types: &[Type]) -> f32 {
        let ((below_a, mut at_a), (below_b, mut at_b)) = match (self.top(a), self.top(b)) {
            (Some(a), Some(b)) => (a, b),
            (Some(_), None) => return a,
            _ => return b,
        };
        let below = self.merge(below_a, below_b, types);
        // Inner tapes are merged first: they append to the same vectors.
        let start = self.data.len();
        let size: usize = types.iter().map(Type::slots).sum();
        let mut inner: Vec<f32> = vec![];
        let (mut ia, mut ib) = (at_a, at_b);
        for ty in types {
            if let Type::Stack(frame) = ty {
                let (x, y) = (self.data[ia], self.data[ib]);
                inner.push(self.merge(x, y, frame));
            }
            ia += ty.slots();
            ib += ty.slots();
        }
        let start = if inner.is_empty() { start } else { self.data.len() };
        self.data.reserve(size);
        let mut inner = inner.into_iter();
        for ty in types {
            match ty {
                Type::Tensor(shape) => {
                    for i in 0..shape.elements() {
                        let sum = self.data[at_a + i] + self.data[at_b + i];
                        self.data.push(sum);
                    }
                }
                Type::Stack(_) => self.data.push(inner.next().unwrap_or(0.0)),
            }
            at_a += ty.slots();
            at_b += ty.slots();
        }
        self.frames.push((below.to_bits(), start));
        f32::from_bits(self.frames.len() as u32)
    }
}
