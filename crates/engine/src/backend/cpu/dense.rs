//! Layers: product, bias and activation; gradients with the optimiser step inside.

use synod_kernels::{
    self as kernels, Activation, Bias, Dense, Epilogue, Gate, Hyper, Matrix, Simd, Span, bias_update, gemm,
    gemm_workspace, update_shared,
};

use super::super::{CallFrame, InPlace, KernelCall, PreparedCall};
use super::Context;
use super::product::{SMALL, useful_threads};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::ops::{Binary, Op, Rule, Unary};

/// `(x, w, [b]) -> activation(x · w + b)`
pub(super) fn forward(c: &Context<'_>, body: &Graph) -> Result<KernelCall> {
    let activation = match body.nodes().last().map(|n| &n.op) {
        Some(Op::Unary(Unary::Relu)) => Activation::Relu,
        Some(Op::Unary(Unary::Sigmoid)) => Activation::Sigmoid,
        Some(Op::Unary(Unary::Tanh)) => Activation::Tanh,
        _ => Activation::Identity,
    };
    let layer = Dense {
        rows: c.dims(0)[0],
        inputs: c.dims(1)[0],
        outputs: c.dims(1)[1],
    };
    let biased = c.node.args.len() == 3;
    if layer.rows <= SMALL {
        return Ok(small_forward(c, layer, biased, activation));
    }
    let threads = useful_threads(c.threads, layer.rows, layer.outputs, layer.inputs);
    let (simd, sum) = (c.simd, c.sum());
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let bias = if biased { frame.arg(2) } else { Span::default() };
        let reads = [frame.arg(0), frame.arg(1), bias];
        let writes = [frame.out(0), frame.scratch()];
        let ([x, w, b], [y, workspace]) = frame.memory.floats.views(reads, writes);
        let bias = biased.then_some(b);
        if layer.suits_many(simd, x) {
            layer.forward_many(simd, x, w, bias, activation, y, threads);
        } else {
            let bias = if biased { Bias::PerColumn(b) } else { Bias::None };
            let epilogue = Epilogue {
                sum,
                bias,
                activation,
                ..Epilogue::default()
            };
            let (x, w) = (
                Matrix::row_major(x, layer.inputs),
                Matrix::row_major(w, layer.outputs),
            );
            gemm(
                simd,
                layer.rows,
                layer.outputs,
                layer.inputs,
                x,
                w,
                y,
                &epilogue,
                threads,
                workspace,
            );
        }
    });
    task.scratch = gemm_workspace(simd, layer.rows, layer.outputs, layer.inputs, threads);
    Ok(task)
}

/// A few samples: reading the weights takes the time, and weights that do not change are read from padded rows.
fn small_forward(c: &Context<'_>, layer: Dense, biased: bool, activation: Activation) -> KernelCall {
    let simd = c.simd;
    let run = move |frame: CallFrame<'_>, padded: bool| {
        let bias = if biased { frame.arg(2) } else { Span::default() };
        let reads = [frame.arg(0), frame.arg(1), bias];
        let ([x, w, b], [y]) = frame.memory.floats.views(reads, [frame.out(0)]);
        let bias = biased.then_some(b);
        if padded {
            layer.forward_padded(simd, x, w, bias, activation, y);
        } else {
            layer.forward(simd, x, w, bias, activation, y);
        }
    };
    let mut task = c.task(move |frame: CallFrame<'_>| run(frame, false));
    task.prepared = Some(PreparedCall {
        arg: 1,
        slots: layer.padded_len(),
        prepare: Box::new(move |mut frame: CallFrame<'_>| {
            frame.with([0], 0, |[w], padded| layer.pad_weights(w, padded));
        }),
        kernel: Box::new(move |frame: CallFrame<'_>| run(frame, true)),
        scratch: 0,
    });
    task
}

/// Which activation's derivative a region applies to its product.
#[derive(Clone, Copy)]
enum GateKind {
    Open,
    Relu,
    Sigmoid,
    Tanh,
}

impl GateKind {
    /// Read off the ops of the region: they were matched exactly when it was fused.
    fn of(body: &Graph) -> GateKind {
        let has = |op: Op| body.nodes().iter().any(|n| n.op == op);
        let square = |n: &crate::graph::Node| n.op == Op::Binary(Binary::Mul) && n.args[0] == n.args[1];
        if body.nodes().iter().any(|n| matches!(n.op, Op::Select(_))) {
            GateKind::Relu
        } else if body.nodes().iter().any(square) {
            GateKind::Tanh
        } else if has(Op::Binary(Binary::Mul)) {
            GateKind::Sigmoid
        } else {
            GateKind::Open
        }
    }

    fn with(self, y: &[f32]) -> Gate<'_> {
        match self {
            GateKind::Open => Gate::Open,
            GateKind::Relu => Gate::Relu(y),
            GateKind::Sigmoid => Gate::Sigmoid(y),
            GateKind::Tanh => Gate::Tanh(y),
        }
    }
}

/// `(dy, w, y) -> gate(y) ∘ (dy · wᵀ)`
pub(super) fn gated(c: &Context<'_>, body: &Graph) -> Result<KernelCall> {
    let layer = Dense {
        rows: c.dims(0)[0],
        inputs: c.dims(1)[0],
        outputs: c.dims(1)[1],
    };
    let product = InputGradient::new(c, layer, GateKind::of(body));
    let workspace = product.workspace();
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let reads = [frame.arg(0), frame.arg(1), frame.arg(2)];
        let writes = [frame.out(0), frame.scratch()];
        let ([dy, w, y], [dx, workspace]) = frame.memory.floats.views(reads, writes);
        product.run(dy, w, y, dx, workspace);
    });
    task.scratch = workspace;
    Ok(task)
}

/// `dx = gate(dy · wᵀ)` by the kernel that suits the number of rows.
struct InputGradient {
    simd: Simd,
    layer: Dense,
    gate: GateKind,
    threads: usize,
}

impl InputGradient {
    fn new(c: &Context<'_>, layer: Dense, gate: GateKind) -> InputGradient {
        let threads = useful_threads(c.threads, layer.rows, layer.inputs, layer.outputs);
        InputGradient {
            simd: c.simd,
            layer,
            gate,
            threads,
        }
    }

    fn workspace(&self) -> usize {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.layer;
        if rows <= SMALL {
            0
        } else {
            gemm_workspace(self.simd, rows, inputs, outputs, self.threads)
        }
    }

    fn run(&self, dy: &[f32], w: &[f32], y: &[f32], dx: &mut [f32], workspace: &mut [f32]) {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.layer;
        let gate = self.gate.with(y);
        if rows <= SMALL {
            return self.layer.input_gradient(self.simd, dy, w, gate, dx);
        }
        let (dy, w) = (
            Matrix::row_major(dy, outputs),
            Matrix::row_major(w, outputs).transposed(),
        );
        let epilogue = Epilogue {
            gate,
            ..Epilogue::default()
        };
        gemm(
            self.simd,
            rows,
            inputs,
            outputs,
            dy,
            w,
            dx,
            &epilogue,
            self.threads,
            workspace,
        );
    }
}

/// The optimiser's part of a task: where its numbers and states are.
struct Step {
    rule: kernels::Rule,
    states: usize,
}

impl Step {
    fn of(body: &Graph) -> Result<Step> {
        let rule = body.nodes().iter().find_map(|n| {
            if let Op::Update(u) = &n.op {
                Some(u.rule)
            } else {
                None
            }
        });
        rule.map(Step::new)
            .ok_or_else(|| Error::Internal("a fused update without its rule".into()))
    }

    fn new(rule: Rule) -> Step {
        Step {
            rule: lower(rule),
            states: rule.states(),
        }
    }

    fn hyper(&self, frame: &CallFrame<'_>, arg: usize) -> Hyper {
        let at = frame.arg(arg).start;
        let numbers = &frame.memory.floats[at..at + 3];
        Hyper {
            rate: numbers[0],
            more: [numbers[1], numbers[2]],
        }
    }

    /// The spans of up to two states, which begin at argument `first`.
    fn spans(&self, frame: &CallFrame<'_>, first: usize) -> [Span; 2] {
        std::array::from_fn(|i| {
            if i < self.states {
                frame.arg(first + i)
            } else {
                Span::default()
            }
        })
    }

    /// Results `from..` are the parameter and its states, changed in place.
    fn in_place(&self, from: usize, parameter: usize, first_state: usize) -> Vec<(usize, usize, InPlace)> {
        let states = (0..self.states).map(|i| (from + 1 + i, first_state + i, InPlace::Must));
        std::iter::once((from, parameter, InPlace::Must))
            .chain(states)
            .collect()
    }
}

fn lower(rule: Rule) -> kernels::Rule {
    match rule {
        Rule::Sgd { weight_decay } => kernels::Rule::Sgd { weight_decay },
        Rule::Momentum {
            momentum,
            nesterov,
            weight_decay,
        } => kernels::Rule::Momentum {
            momentum,
            nesterov,
            weight_decay,
        },
        Rule::RmsProp { alpha, eps } => kernels::Rule::RmsProp { alpha, eps },
        Rule::Adam {
            beta1,
            beta2,
            eps,
            weight_decay,
            decoupled,
        } => kernels::Rule::Adam {
            beta1,
            beta2,
            eps,
            weight_decay,
            decoupled,
        },
        Rule::Adagrad { eps } => kernels::Rule::Adagrad { eps },
    }
}

/// `(p, g, hyper, states...) -> (p, states...)`
pub(super) fn plain_update(c: &Context<'_>, rule: Rule) -> Result<KernelCall> {
    Ok(bias_like(c, Step::new(rule), 1))
}

/// `(b, dy, hyper, states...) -> (b, states...)`, the gradient being the column sums of `dy`.
pub(super) fn bias(c: &Context<'_>, body: &Graph) -> Result<KernelCall> {
    Ok(bias_like(c, Step::of(body)?, c.dims(1)[0]))
}

fn bias_like(c: &Context<'_>, step: Step, rows: usize) -> KernelCall {
    let (simd, threads) = (c.simd, c.threads_for(c.out_dims().iter().product()));
    let in_place = step.in_place(0, 0, 3);
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let hyper = step.hyper(&frame, 2);
        let [s0, s1] = step.spans(&frame, 3);
        let ([dy], [p, s0, s1]) = frame.memory.floats.views([frame.arg(1)], [frame.arg(0), s0, s1]);
        match rows {
            1 => update_shared(simd, &step.rule, hyper, dy, p, [s0, s1], threads),
            _ => bias_update(simd, rows, dy, &step.rule, hyper, p, [s0, s1]),
        }
    });
    task.in_place = in_place;
    task
}

/// `(w, x, dy, hyper, states...) -> (w, states...)`
pub(super) fn update(c: &Context<'_>, body: &Graph) -> Result<KernelCall> {
    let step = Step::of(body)?;
    let layer = Dense {
        rows: c.dims(1)[0],
        inputs: c.dims(1)[1],
        outputs: c.dims(2)[1],
    };
    let weights = WeightUpdate::new(c, layer);
    let (workspace, in_place) = (weights.workspace(), step.in_place(0, 0, 4));
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let hyper = step.hyper(&frame, 3);
        let [s0, s1] = step.spans(&frame, 4);
        let writes = [frame.arg(0), s0, s1, frame.scratch()];
        let ([x, dy], [w, s0, s1, workspace]) =
            frame.memory.floats.views([frame.arg(1), frame.arg(2)], writes);
        weights.run(x, dy, &step.rule, hyper, w, [s0, s1], workspace);
    });
    task.scratch = workspace;
    task.in_place = in_place;
    Ok(task)
}

/// `(w, x, dy, hyper, states..., [y]) -> (dx, w, states...)`
pub(super) fn backward(c: &Context<'_>, body: &Graph) -> Result<KernelCall> {
    let step = Step::of(body)?;
    let layer = Dense {
        rows: c.dims(1)[0],
        inputs: c.dims(1)[1],
        outputs: c.dims(2)[1],
    };
    let gated = c.node.args.len() > 4 + step.states;
    let gate = if gated { GateKind::of(body) } else { GateKind::Open };
    let (input, weights) = (InputGradient::new(c, layer, gate), WeightUpdate::new(c, layer));
    let (workspace, in_place) = (input.workspace().max(weights.workspace()), step.in_place(1, 0, 4));
    let simd = c.simd;
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let hyper = step.hyper(&frame, 3);
        let [s0, s1] = step.spans(&frame, 4);
        let y = if gated {
            frame.arg(4 + step.states)
        } else {
            Span::default()
        };
        let reads = [frame.arg(1), frame.arg(2), y];
        let writes = [frame.out(0), frame.arg(0), s0, s1, frame.scratch()];
        let ([x, dy, y], [dx, w, s0, s1, workspace]) = frame.memory.floats.views(reads, writes);
        if layer.rows <= SMALL {
            layer.backward(simd, x, dy, gate.with(y), dx, &step.rule, hyper, w, [s0, s1]);
        } else {
            input.run(dy, w, y, dx, workspace);
            weights.run(x, dy, &step.rule, hyper, w, [s0, s1], workspace);
        }
    });
    task.scratch = workspace;
    task.in_place = in_place;
    Ok(task)
}

/// `w -= step(xᵀ · dy)` by the kernel that suits the number of rows.
struct WeightUpdate {
    simd: Simd,
    layer: Dense,
    threads: usize,
}

impl WeightUpdate {
    fn new(c: &Context<'_>, layer: Dense) -> WeightUpdate {
        let threads = useful_threads(c.threads, layer.inputs, layer.outputs, layer.rows);
        WeightUpdate {
            simd: c.simd,
            layer,
            threads,
        }
    }

    fn gradient(&self) -> usize {
        (self.layer.inputs * self.layer.outputs).next_multiple_of(16)
    }

    fn workspace(&self) -> usize {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.layer;
        match rows <= SMALL {
            true => 0,
            false => self.gradient() + gemm_workspace(self.simd, inputs, outputs, rows, self.threads),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "operands, rule and state of one fused kernel"
    )]
    fn run(
        &self,
        x: &[f32],
        dy: &[f32],
        rule: &kernels::Rule,
        hyper: Hyper,
        w: &mut [f32],
        states: [&mut [f32]; 2],
        workspace: &mut [f32],
    ) {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.layer;
        if rows <= SMALL {
            return self.layer.weight_update(self.simd, x, dy, rule, hyper, w, states);
        }
        let (gradient, workspace) = workspace.split_at_mut(self.gradient());
        let gradient = &mut gradient[..inputs * outputs];
        let (x, dy) = (
            Matrix::row_major(x, inputs).transposed(),
            Matrix::row_major(dy, outputs),
        );
        gemm(
            self.simd,
            inputs,
            outputs,
            rows,
            x,
            dy,
            gradient,
            &Epilogue::default(),
            self.threads,
            workspace,
        );
        kernels::update(self.simd, rule, hyper, gradient, w, states);
    }
}
