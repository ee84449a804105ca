//! Running a chain block by block over scratch memory on the stack.

use std::{mem::MaybeUninit, ops::Range};

use super::{
    Access, Binary, MAX_REGISTERS, Source, Unary,
    compile::{Operation, Place, Program, Step},
};
use crate::{
    level::Kernel,
    math,
    share::Shared,
    vector::{MAX_LANES, Vector},
};

/// Floats of scratch: most of a first-level cache.
const SCRATCH: usize = 6144;
/// The longest block: long enough to make the dispatch of an instruction cheap.
const LONGEST: usize = 512;

/// A chain on some of its elements.
pub(super) struct Run<'a> {
    pub(super) program: &'a Program,
    pub(super) range: Range<usize>,
    pub(super) inputs: &'a [Source<'a>],
    /// Where each output starts; nobody else writes these elements.
    pub(super) outputs: &'a [Shared; MAX_REGISTERS],
}

#[repr(align(64))]
struct Scratch(MaybeUninit<[f32; SCRATCH]>);

/// Where everything lies for the block at hand.
struct Frame {
    scratch: *mut f32,
    block: usize,
    inputs: [*const f32; MAX_REGISTERS],
    outputs: [*mut f32; MAX_REGISTERS],
    /// Bit `o` is set if output `o` may be written as soon as it is known.
    direct: u64,
}

impl Frame {
    #[inline(always)]
    fn slot(&self, slot: usize) -> *mut f32 {
        self.scratch.wrapping_add(slot * self.block)
    }

    #[inline(always)]
    fn address(&self, place: Place) -> *mut f32 {
        match place {
            Place::Input(i) => self.inputs[i].cast_mut(),
            Place::Slot(slot) => self.slot(slot),
            Place::Output(o, _) if self.direct >> o & 1 == 1 => self.outputs[o],
            Place::Output(_, slot) => self.slot(slot),
        }
    }
}

impl Kernel for Run<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Run {
            program,
            range,
            inputs,
            outputs,
        } = self;
        let mut scratch = Scratch(MaybeUninit::uninit());
        let block = block_of(program);
        let mut starts = [std::ptr::null_mut(); MAX_REGISTERS];
        for (start, output) in starts.iter_mut().zip(outputs) {
            *start = output.pointer();
        }
        let mut frame = Frame {
            scratch: scratch.0.as_mut_ptr().cast(),
            block,
            inputs: [std::ptr::null(); MAX_REGISTERS],
            outputs: starts,
            direct: direct_outputs(program, inputs),
        };
        // SAFETY: the slots fit the scratch; every slice was checked to have the elements its access needs; a block's
        // inputs in place are read before they are overwritten, by the choice of `direct`.
        unsafe {
            fill_constants(program, inputs, &frame, range.len().min(block));
            let mut start = range.start;
            while start < range.end {
                let count = (range.end - start).min(block);
                for (input, source) in inputs.iter().enumerate() {
                    let access = program.inputs[input];
                    // A row that fits a block a whole number of times looks the same in every block.
                    if start > range.start && is_settled(access, block) {
                        continue;
                    }
                    let base = match *source {
                        Source::Slice(x) => x.as_ptr(),
                        Source::Output(o) => starts[o].cast_const(),
                    };
                    let slot = frame.slot(program.input_slots[input]);
                    frame.inputs[input] = locate(access, base, start, count, slot);
                }
                for (output, base) in frame.outputs.iter_mut().zip(starts).take(program.outputs.len()) {
                    *output = base.add(start);
                }
                for step in &program.steps {
                    execute::<V>(step, &frame, count);
                }
                for (o, output) in program.outputs.iter().enumerate() {
                    if frame.direct >> o & 1 == 0 {
                        frame
                            .slot(output.slot)
                            .copy_to_nonoverlapping(frame.outputs[o], count);
                    }
                }
                start += count;
            }
        }
    }
}

/// Elements of a block: as many as fit the scratch, and whole rows where several of the longest row do.
fn block_of(program: &Program) -> usize {
    let most = (SCRATCH / program.slots.max(1)).min(LONGEST) / MAX_LANES * MAX_LANES;
    let period = |access: &Access| match *access {
        Access::Row(n) if n <= most && n.is_multiple_of(MAX_LANES) => n,
        _ => 1,
    };
    let longest = program.inputs.iter().map(period).max().unwrap_or(1);
    most / longest * longest
}

#[inline(always)]
fn is_settled(access: Access, block: usize) -> bool {
    match access {
        Access::Scalar => true,
        Access::Row(n) => block.is_multiple_of(n),
        Access::Full | Access::Column(_) => false,
    }
}

/// Outputs that no later step reads the old contents of.
fn direct_outputs(program: &Program, inputs: &[Source<'_>]) -> u64 {
    let mut direct = u64::MAX;
    for (input, source) in inputs.iter().enumerate() {
        if let Source::Output(o) = *source
            && program.last_read[input] > program.outputs[o].step
        {
            direct &= !(1 << o);
        }
    }
    direct
}

#[inline(always)]
unsafe fn fill_constants(program: &Program, inputs: &[Source<'_>], frame: &Frame, count: usize) {
    for &(slot, constant) in &program.constants {
        // SAFETY: a slot holds a block.
        unsafe { fill(frame.slot(slot), constant, count) };
    }
    for (input, source) in inputs.iter().enumerate() {
        if let (Access::Scalar, Source::Slice(x)) = (program.inputs[input], source) {
            // SAFETY: a slot holds a block.
            unsafe { fill(frame.slot(program.input_slots[input]), x[0], count) };
        }
    }
}

#[inline(always)]
unsafe fn fill(to: *mut f32, value: f32, count: usize) {
    for i in 0..count {
        // SAFETY: the caller vouches for `count` floats.
        unsafe { *to.add(i) = value };
    }
}

/// The address of `count` elements from `start` on: in the input itself if they lie there in order, else in the slot.
#[inline(always)]
unsafe fn locate(access: Access, base: *const f32, start: usize, count: usize, slot: *mut f32) -> *const f32 {
    // SAFETY: the input was checked to have the elements its access needs, and the slot holds a block.
    unsafe {
        match access {
            Access::Full => base.add(start),
            Access::Scalar => slot,
            Access::Row(period) => {
                let mut offset = start % period;
                if offset + count <= period {
                    return base.add(offset);
                }
                let mut done = 0;
                while done < count {
                    let run = (period - offset).min(count - done);
                    base.add(offset).copy_to_nonoverlapping(slot.add(done), run);
                    done += run;
                    offset = 0;
                }
                slot
            }
            Access::Column(width) => {
                let mut done = 0;
                while done < count {
                    let element = (start + done) / width;
                    let run = ((element + 1) * width - start - done).min(count - done);
                    fill(slot.add(done), *base.add(element), run);
                    done += run;
                }
                slot
            }
        }
    }
}

/// Applies an expression to every element of up to three arrays.
macro_rules! each {
    ($step:ident, $frame:ident, $count:ident, |$a:ident| $value:expr) => {
        each!(@ $step, $frame, $count, [$a 0], $value)
    };
    ($step:ident, $frame:ident, $count:ident, |$a:ident, $b:ident| $value:expr) => {
        each!(@ $step, $frame, $count, [$a 0, $b 1], $value)
    };
    ($step:ident, $frame:ident, $count:ident, |$a:ident, $b:ident, $c:ident| $value:expr) => {
        each!(@ $step, $frame, $count, [$a 0, $b 1, $c 2], $value)
    };
    (@ $step:ident, $frame:ident, $count:ident, [$($x:ident $index:literal),+], $value:expr) => {{
        let from = $step.arguments.map(|place| $frame.address(place).cast_const());
        let to = $frame.address($step.result);
        let mut i = 0;
        while i + V::LANES <= $count {
            $(let $x = V::load(from[$index].add(i));)+
            let value: V = $value;
            value.store(to.add(i));
            i += V::LANES;
        }
        if i < $count {
            let tail = $count - i;
            $(let $x = V::load_partial(from[$index].add(i), tail);)+
            let value: V = $value;
            value.store_partial(to.add(i), tail);
        }
    }};
}

/// Runs one step over `count` elements.
#[inline(always)]
unsafe fn execute<V: Vector>(step: &Step, frame: &Frame, count: usize) {
    // SAFETY: every place of the step holds `count` elements, and a result overlaps its arguments entirely or not.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        match step.operation {
            Operation::Copy => each!(step, frame, count, |x| x),
            Operation::Unary(Unary::Neg) => each!(step, frame, count, |x| -x),
            Operation::Unary(Unary::Abs) => each!(step, frame, count, |x| x.abs()),
            Operation::Unary(Unary::Sign) => each!(step, frame, count, |x| {
                V::select(zero.less(x), one, V::select(x.less(zero), -one, x))
            }),
            Operation::Unary(Unary::Exp) => each!(step, frame, count, |x| math::exp_vector(x)),
            Operation::Unary(Unary::Log) => each!(step, frame, count, |x| math::log_vector(x)),
            Operation::Unary(Unary::Sqrt) => each!(step, frame, count, |x| x.sqrt()),
            Operation::Unary(Unary::Recip) => each!(step, frame, count, |x| one / x),
            Operation::Unary(Unary::Sin) => each!(step, frame, count, |x| math::sin_vector(x)),
            Operation::Unary(Unary::Cos) => each!(step, frame, count, |x| math::cos_vector(x)),
            Operation::Unary(Unary::Tanh) => each!(step, frame, count, |x| math::tanh_vector(x)),
            Operation::Unary(Unary::Sigmoid) => each!(step, frame, count, |x| math::sigmoid_vector(x)),
            Operation::Unary(Unary::Relu) => each!(step, frame, count, |x| zero.max(x)),
            Operation::Unary(Unary::Erf) => each!(step, frame, count, |x| math::erf_vector(x)),
            Operation::Unary(Unary::Floor) => each!(step, frame, count, |x| x.floor()),
            Operation::Binary(Binary::Add) => each!(step, frame, count, |a, b| a + b),
            Operation::Binary(Binary::Sub) => each!(step, frame, count, |a, b| a - b),
            Operation::Binary(Binary::Mul) => each!(step, frame, count, |a, b| a * b),
            Operation::Binary(Binary::Div) => each!(step, frame, count, |a, b| a / b),
            Operation::Binary(Binary::Max) => each!(step, frame, count, |a, b| a.nan_or(a.max(b))),
            Operation::Binary(Binary::Min) => each!(step, frame, count, |a, b| a.nan_or(a.min(b))),
            Operation::Binary(Binary::Pow) => each!(step, frame, count, |a, b| math::pow_vector(a, b)),
            Operation::Binary(Binary::Less) => {
                each!(step, frame, count, |a, b| V::select(a.less(b), one, zero))
            }
            Operation::Binary(Binary::Equal) => {
                each!(step, frame, count, |a, b| V::select(a.equal(b), one, zero))
            }
            Operation::Select => {
                each!(step, frame, count, |condition, yes, no| {
                    V::select(condition.equal(zero), no, yes)
                })
            }
        }
    }
}
