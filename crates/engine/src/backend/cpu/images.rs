//! Convolution and pooling.

use synod_kernels::{
    self as kernels, Activation, ConvEpilogue, ConvWeights, Divisor, Gate, Geometry, GeometryError, Simd,
    Span,
};

use super::super::{CallFrame, KernelCall, PreparedCall};
use super::Context;
use super::product::THREADING;
use crate::error::{Result, transform};
use crate::graph::{Graph, Node};
use crate::ops::{Conv, ConvExtents, ConvRole, Op, Pool, PoolRole, Unary, Window};

pub(super) fn conv(c: &Context<'_>, op: Conv) -> Result<KernelCall> {
    let (kernel, threads) = kernel(c, &op)?;
    let simd = c.simd;
    match op.role {
        ConvRole::Forward => Ok(forward(c, kernel, Ending::PLAIN, threads)),
        ConvRole::InputGradient => {
            let mut task = c.task(move |frame: CallFrame<'_>| {
                let reads = [frame.arg(0), frame.arg(1)];
                let writes = [frame.out(0), frame.scratch()];
                let ([dy, w], [dx, workspace]) = frame.memory.floats.views(reads, writes);
                kernel.input_gradient(simd, dy, w, Gate::Open, dx, threads, workspace);
            });
            task.scratch = kernel.input_gradient_workspace(simd, threads);
            Ok(task)
        }
        ConvRole::WeightGradient => {
            let mut task = c.task(move |frame: CallFrame<'_>| {
                let reads = [frame.arg(0), frame.arg(1)];
                let writes = [frame.out(0), frame.scratch()];
                let ([x, dy], [dw, workspace]) = frame.memory.floats.views(reads, writes);
                kernel.weight_gradient(simd, x, dy, dw, threads, workspace);
            });
            task.scratch = kernel.weight_gradient_workspace(simd, threads);
            Ok(task)
        }
    }
}

/// `(x, w, [bias], [residual]) -> activation(x * w + bias + residual)`
pub(super) fn layer(c: &Context<'_>, body: &Graph) -> Result<KernelCall> {
    let conv = |node: &Node| match node.op {
        Op::Conv(op) => Some(op),
        _ => None,
    };
    let Some(op) = body.nodes().iter().find_map(conv) else {
        return Err(transform("cpu", "a layer of images without a convolution"));
    };
    let (kernel, threads) = kernel(c, &op)?;
    let activation = match body.nodes().last().map(|n| &n.op) {
        Some(Op::Unary(Unary::Relu)) => Activation::Relu,
        Some(Op::Unary(Unary::Sigmoid)) => Activation::Sigmoid,
        Some(Op::Unary(Unary::Tanh)) => Activation::Tanh,
        _ => Activation::Identity,
    };
    let rank = |i: usize| c.dims(i).len();
    let extra = 2..c.node.args.len();
    let ending = Ending {
        bias: extra.clone().find(|&i| rank(i) == 1),
        residual: extra.clone().find(|&i| rank(i) == 4),
        activation,
    };
    Ok(forward(c, kernel, ending, threads))
}

/// What follows a convolution before it is stored: arguments by their places.
#[derive(Clone, Copy)]
struct Ending {
    bias: Option<usize>,
    residual: Option<usize>,
    activation: Activation,
}

impl Ending {
    const PLAIN: Ending = Ending {
        bias: None,
        residual: None,
        activation: Activation::Identity,
    };
}

fn forward(c: &Context<'_>, kernel: kernels::Conv, ending: Ending, threads: usize) -> KernelCall {
    let simd = c.simd;
    let layer = Forward {
        kernel,
        simd,
        ending,
        threads,
    };
    let mut task = c.task(move |frame: CallFrame<'_>| layer.run(frame, |w| ConvWeights::Plain(w)));
    task.scratch = kernel.forward_workspace(simd, threads);
    task.prepared = Some(PreparedCall {
        arg: 1,
        slots: kernel.packed_len(simd),
        prepare: Box::new(move |mut frame: CallFrame<'_>| {
            frame.with([0], 0, |[w], panels| kernel.pack_into(simd, w, panels));
        }),
        kernel: Box::new(move |frame: CallFrame<'_>| layer.run(frame, |w| ConvWeights::Panels(w))),
        scratch: kernel.packed_workspace(simd, threads),
    });
    task
}

/// A convolution and how it runs.
#[derive(Clone, Copy)]
struct Forward {
    kernel: kernels::Conv,
    simd: Simd,
    ending: Ending,
    threads: usize,
}

impl Forward {
    fn run(&self, frame: CallFrame<'_>, filter: impl Fn(&[f32]) -> ConvWeights<'_>) {
        let Ending {
            bias,
            residual,
            activation,
        } = self.ending;
        let optional = |i: Option<usize>| i.map_or(Span::default(), |i| frame.arg(i));
        let reads = [frame.arg(0), frame.arg(1), optional(bias), optional(residual)];
        let writes = [frame.out(0), frame.scratch()];
        let ([x, w, biases, shortcut], [y, workspace]) = frame.memory.floats.views(reads, writes);
        let epilogue = ConvEpilogue {
            bias: bias.map(|_| biases),
            residual: residual.map(|_| shortcut),
            activation,
        };
        self.kernel
            .forward(self.simd, x, filter(w), &epilogue, y, self.threads, workspace);
    }
}

/// The kernel of a convolution and the threads that pay for it.
fn kernel(c: &Context<'_>, op: &Conv) -> Result<(kernels::Conv, usize)> {
    let shape = |i: usize| c.graph.shape(c.node.args[i]);
    let extents = op.extents(shape(0), shape(1)).map_err(|e| transform("cpu", e))?;
    let kernel = kernels::Conv::new(geometry(op, &extents)).map_err(refused)?;
    let flops = c.graph.node_cost(c.node).flops;
    Ok((kernel, if flops < THREADING as u64 { 1 } else { c.threads }))
}

fn geometry(op: &Conv, extents: &ConvExtents) -> Geometry {
    let Window {
        input: [h, w],
        kernel,
        stride,
        padding,
        dilation,
    } = op.window;
    Geometry {
        n: extents.n,
        h,
        w,
        c: extents.channels,
        o: extents.outputs,
        kernel,
        stride,
        padding,
        dilation,
        groups: op.groups,
    }
}

fn refused(error: GeometryError) -> crate::Error {
    transform("cpu", error.to_string())
}

pub(super) fn pool(c: &Context<'_>, op: Pool) -> Result<KernelCall> {
    let shapes: Vec<_> = c.node.args.iter().map(|&a| c.graph.shape(a)).collect();
    let [n, channels] = op.extents(&shapes).map_err(|e| transform("cpu", e))?;
    let Window {
        input: [h, w],
        kernel,
        stride,
        padding,
        dilation,
    } = op.window;
    let window = kernels::PoolGeometry {
        n,
        h,
        w,
        c: channels,
        kernel,
        stride,
        padding,
        dilation,
    };
    let pool = kernels::Pool::new(window).map_err(refused)?;
    let threads = c.threads_for(n * h * w * channels);
    let simd = c.simd;
    // Where every window sees some of the image, its maximum is what it picks of itself.
    let inside = (0..2).all(|axis| {
        let reach = (kernel[axis] - 1) * dilation[axis];
        padding[axis].iter().all(|&pad| pad <= reach)
    });
    let itself = c.node.args.first() == c.node.args.get(1) && inside;
    Ok(match op.role {
        PoolRole::MaxPick if itself => c.task(move |mut frame: CallFrame<'_>| {
            frame.with([0], 0, |[x], y| pool.max(simd, x, y, threads));
        }),
        PoolRole::MaxPick => c.task(move |mut frame: CallFrame<'_>| {
            frame.with([0, 1], 0, |[x, z], y| pool.max_pick(simd, x, z, y, threads));
        }),
        PoolRole::MaxSpread => c.task(move |mut frame: CallFrame<'_>| {
            frame.with([0, 1], 0, |[x, dy], dx| pool.max_spread(simd, x, dy, dx, threads));
        }),
        PoolRole::Sum => c.task(move |mut frame: CallFrame<'_>| {
            frame.with([0], 0, |[x], y| pool.sum(simd, x, Divisor::One, y, threads));
        }),
        PoolRole::SumSpread => c.task(move |mut frame: CallFrame<'_>| {
            frame.with([0], 0, |[dy], dx| {
                pool.sum_spread(simd, dy, Divisor::One, dx, threads)
            });
        }),
    })
}
