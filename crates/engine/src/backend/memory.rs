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
        Memory {
            floats: Buffer::zeroed(len),
            tapes: Tapes::default(),
        }
    }
}

/// What a kernel sees: memory, and where its arguments, results and working memory are.
pub struct CallFrame<'a> {
    /// The memory.
    pub memory: &'a mut Memory,
    pub(crate) base: usize,
    pub(crate) args: &'a [Span],
    pub(crate) outs: &'a [Span],
    pub(crate) scratch: Span,
}

impl CallFrame<'_> {
    fn moved(&self, span: Span) -> Span {
        Span {
            start: span.start + self.base,
            len: span.len,
        }
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
    pub fn with<const R: usize>(
        &mut self,
        args: [usize; R],
        out: usize,
        f: impl FnOnce([&[f32]; R], &mut [f32]),
    ) {
        let (reads, write) = (args.map(|i| self.arg(i)), self.out(out));
        let (reads, [write]) = self.memory.floats.views(reads, [write]);
        f(reads, write);
    }

    /// Copies within memory.
    pub fn copy(&mut self, from: Span, to: Span) {
        if from != to {
            self.memory
                .floats
                .copy_within(from.start..from.start + from.len, to.start);
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
        self.frames
            .get(index)
            .map(|&(below, at)| (f32::from_bits(below), at))
    }

    pub(crate) fn data(&self, at: usize, len: usize) -> &[f32] {
        &self.data[at..at + len]
    }

    /// The sum of two tapes whose frames hold `types`, built from the top: however long they are, nothing recurses but
    /// tapes inside tapes.
    pub(crate) fn merge(&mut self, mut a: f32, mut b: f32, types: &[Type]) -> f32 {
        let size: usize = types.iter().map(Type::slots).sum();
        let (mut sum, mut above) = (0.0, None);
        loop {
            let (Some((below_a, at_a)), Some((below_b, at_b))) = (self.top(a), self.top(b)) else {
                // Below the end of the shorter tape the longer one goes on alone.
                let rest = if self.top(a).is_some() { a } else { b };
                self.link(above, rest, &mut sum);
                return sum;
            };
            let (index, to) = (self.frames.len(), self.data.len());
            self.frames.push((0, to));
            self.data.resize(to + size, 0.0);
            self.link(above, f32::from_bits(index as u32 + 1), &mut sum);
            self.add(at_a, at_b, to, types);
            (a, b, above) = (below_a, below_b, Some(index));
        }
    }

    /// Puts `tape` below the frame `above`, or makes it the whole sum.
    fn link(&mut self, above: Option<usize>, tape: f32, sum: &mut f32) {
        match above {
            Some(frame) => self.frames[frame].0 = tape.to_bits(),
            None => *sum = tape,
        }
    }

    /// Writes the sum of the frames' data at `a` and `b` to `to`.
    fn add(&mut self, mut a: usize, mut b: usize, mut to: usize, types: &[Type]) {
        for ty in types {
            match ty {
                Type::Tensor(shape) => {
                    (0..shape.elements())
                        .for_each(|i| self.data[to + i] = self.data[a + i] + self.data[b + i]);
                }
                Type::Stack(frame) => self.data[to] = self.merge(self.data[a], self.data[b], frame),
            }
            (a, b, to) = (a + ty.slots(), b + ty.slots(), to + ty.slots());
        }
    }
}
