//! The one shape that forward pass and input gradient share: every result is a sum over the taps of a window.

use std::ops::Range;

use super::{
    band::greatest_common_divisor,
    geometry::{Axis, Conv},
};

/// One spatial axis: result `g` sees the sources `g * stride - low + t * dilation`, and lies at `g * step + start`.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Line {
    pub(crate) taps: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// Negative where the first result starts inside the source.
    pub(crate) low: isize,
    /// Elements of the source.
    pub(crate) source: usize,
    /// Results.
    pub(crate) results: usize,
    /// Elements of the tensor in which the results lie.
    pub(crate) target: usize,
    pub(crate) step: usize,
    pub(crate) start: usize,
    /// The tap of the weights that tap 0 is, and the way from each to the next.
    pub(crate) first_tap: usize,
    pub(crate) tap_step: isize,
}

impl Line {
    /// The source that the first tap of result `g` would meet if the source went on for ever.
    #[inline(always)]
    pub(crate) fn first_source(&self, g: usize) -> isize {
        (g * self.stride) as isize - self.low
    }

    /// The results for which every one of `taps` meets a source.
    #[inline(always)]
    pub(crate) fn shared_results(&self, taps: Range<usize>) -> Range<usize> {
        if taps.is_empty() {
            return 0..0;
        }
        let first = self.low - (taps.start * self.dilation) as isize;
        let start = first.max(0).unsigned_abs().div_ceil(self.stride);
        let last = self.source as isize + self.low - ((taps.end - 1) * self.dilation) as isize;
        let end = last.max(0).unsigned_abs().div_ceil(self.stride).min(self.results);
        start.min(end)..end
    }

    /// The results all of whose taps meet a source.
    #[inline(always)]
    pub(crate) fn inside(&self) -> Range<usize> {
        self.shared_results(0..self.taps)
    }
}

/// A correlation of `n` images; sizes of channels are per group.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Correlation {
    pub(crate) n: usize,
    pub(crate) lines: [Line; 2],
    pub(crate) groups: usize,
    /// Channels of the source that are summed.
    pub(crate) depth: usize,
    /// Channels of the result.
    pub(crate) columns: usize,
    /// Where the weights of a tap, a channel of the source and a channel of the result lie, relative to the group's.
    pub(crate) tap_strides: [usize; 2],
    pub(crate) depth_stride: usize,
    pub(crate) column_stride: usize,
    /// From a group's weights to the next's.
    pub(crate) group_stride: usize,
}

impl Correlation {
    /// The forward pass.
    pub(crate) fn forward(conv: &Conv) -> Correlation {
        let lines = conv.axes.map(|axis| Line {
            taps: axis.taps,
            stride: axis.stride,
            dilation: axis.dilation,
            low: axis.low as isize,
            source: axis.input,
            results: axis.output,
            target: axis.output,
            step: 1,
            start: 0,
            first_tap: 0,
            tap_step: 1,
        });
        let (inputs, o) = (conv.group_inputs(), conv.geometry.o);
        Correlation {
            n: conv.geometry.n,
            lines,
            groups: conv.geometry.groups,
            depth: inputs,
            columns: conv.group_outputs(),
            tap_strides: [conv.geometry.kernel[1] * inputs * o, inputs * o],
            depth_stride: o,
            column_stride: 1,
            group_stride: conv.group_outputs(),
        }
    }

    /// The gradients of the inputs whose rows and columns leave the remainders `phase` by the strides: these, and
    /// only these, meet the same taps, so that no tap is multiplied by a zero that the stride put there.
    pub(crate) fn input_gradient(conv: &Conv, phase: [usize; 2]) -> Correlation {
        let forward = Correlation::forward(conv);
        Correlation {
            lines: [0, 1].map(|i| gradient_line(conv.axes[i], phase[i])),
            depth: forward.columns,
            columns: forward.depth,
            depth_stride: forward.column_stride,
            column_stride: forward.depth_stride,
            ..forward
        }
    }

    pub(crate) fn taps(&self) -> usize {
        self.lines[0].taps * self.lines[1].taps
    }

    /// Floats from a pixel of the source to the next.
    pub(crate) fn source_pitch(&self) -> usize {
        self.depth * self.groups
    }

    /// Floats from a pixel of the target to the next.
    pub(crate) fn target_pitch(&self) -> usize {
        self.columns * self.groups
    }

    /// Where the weights of tap `(y, x)` start, relative to the group's.
    #[inline(always)]
    pub(crate) fn tap(&self, y: usize, x: usize) -> usize {
        let [rows, columns] = self.lines;
        let y = (rows.first_tap as isize + y as isize * rows.tap_step) as usize;
        let x = (columns.first_tap as isize + x as isize * columns.tap_step) as usize;
        y * self.tap_strides[0] + x * self.tap_strides[1]
    }
}

/// Input `stride * g + phase` meets output `g + (phase + low - tap * dilation) / stride` at the taps where that is
/// whole. They are evenly spaced; taken from last to first, their outputs ascend.
fn gradient_line(axis: Axis, phase: usize) -> Line {
    let (stride, dilation) = (axis.stride, axis.dilation);
    let every = stride / greatest_common_divisor(stride, dilation);
    let ahead = |tap: usize| (phase + axis.low) as isize - (tap * dilation) as isize;
    let first = (0..axis.taps.min(every)).find(|&tap| ahead(tap) % stride as isize == 0);
    let last = first.map(|first| axis.taps - 1 - (axis.taps - 1 - first) % every);
    let taps = first
        .zip(last)
        .map_or(0, |(first, last)| (last - first) / every + 1);
    let last = last.unwrap_or(0);
    Line {
        taps,
        stride: 1,
        dilation: every * dilation / stride,
        low: -(ahead(last) / stride as isize),
        source: axis.output,
        results: axis.input.saturating_sub(phase).div_ceil(stride),
        target: axis.input,
        step: stride,
        start: phase,
        first_tap: last,
        tap_step: -(every as isize),
    }
}
