//! Small graphs that together contain every op in every form.

use std::sync::Arc;

use synod_engine::ops::{
    Applied, BatchNorm, BatchNormRole, Binary, Broadcast, Concat, Const, Conv, ConvRole, Custom,
    Distribution, Dot, Empty, FakeQuant, Full, Gather, Lstm, LstmRole, Merge, NotEmpty, Op, Pad, Pool,
    PoolRole, Pop, Push, Random, Reduce, Reduction, Reshape, Rule, Scatter, Select, Slice, Slide, Transpose,
    Unary, Update, Window,
};
use synod_engine::{Builder, Graph, Tensor, Type, Value, branch, passes, repeat, trace};

use super::{Rng, training};

/// A graph, arguments in its domain, and the parameters it can be differentiated by.
pub struct Case {
    pub name: String,
    pub graph: Graph,
    pub args: Vec<Vec<f64>>,
    pub wrt: Vec<usize>,
    /// A step for central differences.
    pub step: f64,
}

macro_rules! families {
    ($($name:ident),*) => {
        /// The variant of an op. A new variant does not compile until it stands in the list, and then needs a case.
        pub fn family(op: &Op) -> &'static str { match op { $(Op::$name(_) => stringify!($name)),* } }
        /// All variants.
        pub const FAMILIES: &[&str] = &[$(stringify!($name)),*];
    };
}
families!(
    Unary, Binary, Select, Reduce, Broadcast, Dot, Conv, Pool, Lstm, BatchNorm, Reshape, Transpose, Slice,
    Pad, Concat, Gather, Scatter, Const, Full, Random, If, While, Empty, Push, Pop, NotEmpty, Merge, Update,
    FakeQuant, Fused, Custom
);

pub const RULES: [Rule; 9] = [
    Rule::Sgd { weight_decay: 0.0 },
    Rule::Sgd { weight_decay: 0.1 },
    Rule::Momentum {
        momentum: 0.9,
        nesterov: false,
        weight_decay: 0.0,
    },
    Rule::Momentum {
        momentum: 0.8,
        nesterov: true,
        weight_decay: 0.05,
    },
    Rule::RmsProp {
        alpha: 0.9,
        eps: 1e-3,
    },
    Rule::Adam {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-3,
        weight_decay: 0.0,
        decoupled: false,
    },
    Rule::Adam {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-3,
        weight_decay: 0.1,
        decoupled: false,
    },
    Rule::Adam {
        beta1: 0.8,
        beta2: 0.9,
        eps: 1e-3,
        weight_decay: 0.1,
        decoupled: true,
    },
    Rule::Adagrad { eps: 1e-3 },
];

const STEP: f64 = 1e-3;

/// One op applied to parameters of the given shapes, all of them differentiable.
fn single(op: impl Into<Op>, shapes: &[&[usize]]) -> Case {
    let op = op.into();
    let mut b = Builder::new();
    let params: Vec<Value> = shapes.iter().map(|&s| b.param(Type::tensor(s), "")).collect();
    let outs = b.apply(op.clone(), &params);
    let graph = b.finish(&outs).expect("a sound case");
    let sizes: Vec<usize> = shapes.iter().map(|s| s.iter().product()).collect();
    let mut all = Rng(sizes.len() as u64).apart(sizes.iter().sum()).into_iter();
    let args = sizes.iter().map(|&n| all.by_ref().take(n).collect()).collect();
    Case {
        name: format!("{op} {shapes:?}"),
        graph,
        args,
        wrt: (0..shapes.len()).collect(),
        step: STEP,
    }
}

/// A traced function of tensors.
fn traced(name: &str, shapes: &[&[usize]], f: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Case {
    let types: Vec<Type> = shapes.iter().map(|&s| Type::tensor(s)).collect();
    let graph = trace(&types, f).expect("a sound case");
    let args = shapes
        .iter()
        .enumerate()
        .map(|(i, s)| Rng(i as u64).apart(s.iter().product()))
        .collect();
    Case {
        name: name.into(),
        graph,
        args,
        wrt: (0..shapes.len()).collect(),
        step: STEP,
    }
}

impl Case {
    fn positive(mut self) -> Case {
        self.args.iter_mut().flatten().for_each(|x| *x = x.abs());
        self
    }

    fn with(mut self, arg: usize, values: &[f64]) -> Case {
        self.args[arg] = values.to_vec();
        self.wrt.retain(|&w| w != arg);
        self
    }
}

pub fn all() -> Vec<Case> {
    [
        elementwise(),
        reductions(),
        products(),
        convolutions(),
        pools(),
        moves(),
        indices(),
        sources(),
        updates(),
        recurrent(),
        normalised(),
        control(),
        stacks(),
        fused(),
        quantised(),
    ]
    .into_iter()
    .flatten()
    .chain([custom()])
    .collect()
}

const SHAPES: [&[usize]; 6] = [&[], &[1], &[5], &[2, 3], &[0], &[3, 0, 2]];

fn elementwise() -> Vec<Case> {
    let mut cases = vec![];
    for shape in SHAPES {
        for f in Unary::ALL {
            let case = single(f, &[shape]);
            cases.push(if matches!(f, Unary::Log | Unary::Sqrt) {
                case.positive()
            } else {
                case
            });
        }
        for f in Binary::ALL {
            let case = single(f, &[shape, shape]);
            cases.push(if f == Binary::Pow { case.positive() } else { case });
        }
        let n: usize = shape.iter().product();
        let condition: Vec<f64> = (0..n).map(|i| (i % 2) as f64).collect();
        cases.push(single(Select, &[shape, shape, shape]).with(0, &condition));
    }
    cases
}

pub const KINDS: [Reduction; 4] = [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min];

fn reductions() -> Vec<Case> {
    let forms: [(&[usize], &[usize]); 9] = [
        (&[4], &[0]),
        (&[2, 3], &[0]),
        (&[2, 3], &[1]),
        (&[2, 3], &[0, 1]),
        (&[2, 3, 4], &[0, 2]),
        (&[2, 3, 2, 2], &[1, 2]),
        (&[1, 3, 1], &[0, 2]),
        (&[3, 0], &[0]),
        (&[2, 2], &[]),
    ];
    let mut cases = vec![];
    for (shape, axes) in forms {
        cases.extend(KINDS.map(|kind| {
            single(
                Reduce {
                    kind,
                    axes: axes.to_vec(),
                },
                &[shape],
            )
        }));
    }
    for kind in [Reduction::Sum, Reduction::Mean] {
        cases.push(single(Reduce { kind, axes: vec![0] }, &[&[0, 2]]));
    }
    let spreads: [(&[usize], &[usize], &[usize]); 7] = [
        (&[], &[], &[3]),
        (&[3], &[1], &[2, 3]),
        (&[3], &[0], &[3, 2]),
        (&[3], &[1], &[2, 3, 2]),
        (&[2, 3], &[0, 2], &[2, 4, 3]),
        (&[1], &[0], &[1, 3]),
        (&[2], &[0], &[2, 0]),
    ];
    cases.extend(spreads.map(|(from, axes, to)| {
        single(
            Broadcast {
                axes: axes.to_vec(),
                shape: to.into(),
            },
            &[from],
        )
    }));
    cases
}

/// All four transposed forms.
pub const DOTS: [Dot; 4] = [
    Dot { ta: false, tb: false },
    Dot { ta: false, tb: true },
    Dot { ta: true, tb: false },
    Dot { ta: true, tb: true },
];

fn products() -> Vec<Case> {
    let mut cases = vec![];
    for dot in DOTS {
        for (m, n, k) in [(2, 3, 4), (1, 1, 1), (3, 1, 2), (1, 4, 3), (0, 2, 3), (2, 3, 0)] {
            let x = if dot.ta { [k, m] } else { [m, k] };
            let y = if dot.tb { [n, k] } else { [k, n] };
            cases.push(single(dot, &[&x, &y]));
            for batch in [0, 1, 3] {
                cases.push(single(dot, &[&[batch, x[0], x[1]], &[batch, y[0], y[1]]]));
            }
        }
    }
    cases
}

/// Windows of every form: single taps, strides, uneven padding, dilation, and places that cover only padding.
pub fn windows() -> Vec<Window> {
    let plain = Window {
        input: [4, 3],
        kernel: [2, 2],
        stride: [1, 1],
        padding: [[0, 0]; 2],
        dilation: [1, 1],
    };
    vec![
        plain,
        Window {
            kernel: [1, 1],
            stride: [2, 2],
            ..plain
        },
        Window {
            kernel: [3, 2],
            stride: [2, 1],
            padding: [[1, 2], [0, 1]],
            ..plain
        },
        Window {
            dilation: [2, 1],
            padding: [[1, 0], [2, 0]],
            ..plain
        },
        // The last row, and the last column, of the image is never reached.
        Window {
            kernel: [2, 1],
            stride: [3, 2],
            ..plain
        },
        Window {
            input: [1, 2],
            kernel: [1, 2],
            padding: [[2, 1], [1, 1]],
            ..plain
        },
    ]
}

pub const CONV_ROLES: [ConvRole; 3] = [
    ConvRole::Forward,
    ConvRole::InputGradient,
    ConvRole::WeightGradient,
];

/// A convolution with its two arguments.
pub fn convolution(
    role: ConvRole,
    window: Window,
    groups: usize,
    [n, channels, outputs]: [usize; 3],
) -> Case {
    let ([h, w], [p, q]) = (window.input, window.kernel);
    let [i, j] = window.output().expect("a window that fits");
    let x = [n, h, w, channels * groups];
    let weights = [p, q, channels, outputs * groups];
    let y = [n, i, j, outputs * groups];
    let shapes: [&[usize]; 2] = match role {
        ConvRole::Forward => [&x, &weights],
        ConvRole::InputGradient => [&y, &weights],
        ConvRole::WeightGradient => [&x, &y],
    };
    single(Conv { role, window, groups }, &shapes)
}

fn convolutions() -> Vec<Case> {
    let mut cases = vec![];
    for role in CONV_ROLES {
        for (i, window) in windows().into_iter().enumerate() {
            let (groups, extents) = match i % 3 {
                0 => (1, [2, 2, 3]),
                1 => (2, [1, 2, 1]),
                _ => (3, [2, 1, 1]),
            };
            cases.push(convolution(role, window, groups, extents));
        }
        cases.push(convolution(role, windows()[0], 2, [2, 2, 2]));
        cases.push(convolution(role, windows()[0], 1, [0, 2, 1]));
    }
    cases
}

pub const POOL_ROLES: [PoolRole; 4] = [
    PoolRole::MaxPick,
    PoolRole::MaxSpread,
    PoolRole::Sum,
    PoolRole::SumSpread,
];

fn pools() -> Vec<Case> {
    let mut cases = vec![];
    for role in POOL_ROLES {
        for window in windows() {
            let [h, w] = window.input;
            let [i, j] = window.output().expect("a window that fits");
            let (x, y) = ([2, h, w, 2], [2, i, j, 2]);
            let shapes: &[&[usize]] = match role {
                PoolRole::MaxPick => &[&x, &x],
                PoolRole::MaxSpread => &[&x, &y],
                PoolRole::Sum => &[&x],
                PoolRole::SumSpread => &[&y],
            };
            cases.push(single(Pool { role, window }, shapes));
        }
    }
    let slide = Slide::by(2).same();
    cases.push(traced("max pooling", &[&[1, 5, 4, 2]], |s| {
        vec![s[0].max_pool([3, 2], &slide)]
    }));
    for padding in [false, true] {
        cases.push(traced("average pooling", &[&[2, 3, 3, 1]], |s| {
            vec![s[0].average_pool([2, 3], &Slide::by(1).padded(1), padding)]
        }));
    }
    cases
}

fn moves() -> Vec<Case> {
    let slice = |start: &[usize], stop: &[usize], step: &[usize]| Slice {
        start: start.to_vec(),
        stop: stop.to_vec(),
        step: step.to_vec(),
    };
    let pad = |low: &[usize], high: &[usize], gap: &[usize]| Pad {
        low: low.to_vec(),
        high: high.to_vec(),
        gap: gap.to_vec(),
    };
    vec![
        single(Reshape { shape: [3, 2].into() }, &[&[2, 3]]),
        single(Reshape { shape: [1].into() }, &[&[]]),
        single(Reshape { shape: [0, 5].into() }, &[&[2, 0]]),
        single(Transpose { order: vec![1, 0] }, &[&[2, 3]]),
        single(Transpose { order: vec![2, 0, 1] }, &[&[2, 3, 4]]),
        single(
            Transpose {
                order: vec![0, 3, 2, 1],
            },
            &[&[2, 1, 3, 2]],
        ),
        single(Transpose { order: vec![1, 0] }, &[&[0, 3]]),
        single(Transpose { order: vec![] }, &[&[]]),
        single(slice(&[1], &[4], &[1]), &[&[5]]),
        single(slice(&[1], &[6], &[2]), &[&[7]]),
        single(slice(&[0], &[7], &[3]), &[&[7]]),
        single(slice(&[1, 0], &[3, 4], &[1, 3]), &[&[3, 4]]),
        single(slice(&[2], &[2], &[1]), &[&[4]]),
        single(slice(&[0, 1], &[0, 2], &[1, 1]), &[&[0, 3]]),
        single(pad(&[1], &[2], &[0]), &[&[3]]),
        single(pad(&[0], &[1], &[2]), &[&[3]]),
        single(pad(&[1, 0], &[0, 2], &[1, 0]), &[&[2, 3]]),
        single(pad(&[2], &[1], &[1]), &[&[0]]),
        single(pad(&[0, 0], &[0, 0], &[3, 0]), &[&[1, 2]]),
        single(Concat { axis: 0 }, &[&[2], &[3]]),
        single(Concat { axis: 1 }, &[&[2, 1], &[2, 3], &[2, 0]]),
        single(Concat { axis: 0 }, &[&[1, 2]]),
    ]
}

fn indices() -> Vec<Case> {
    vec![
        single(Gather, &[&[4, 2], &[3]]).with(1, &[2.0, 0.0, 2.0]),
        single(Gather, &[&[3], &[2, 2]]).with(1, &[1.0, 1.0, 0.0, 2.0]),
        single(Gather, &[&[3, 2, 2], &[]]).with(1, &[1.0]),
        single(Gather, &[&[3, 2], &[0]]).with(1, &[]),
        single(Scatter { rows: 4 }, &[&[3], &[3, 2]]).with(0, &[2.0, 0.0, 2.0]),
        single(Scatter { rows: 3 }, &[&[2, 2], &[2, 2]]).with(0, &[1.0, 1.0, 0.0, 2.0]),
        single(Scatter { rows: 2 }, &[&[], &[3]]).with(0, &[1.0]),
        single(Scatter { rows: 0 }, &[&[0], &[0, 2]]).with(0, &[]),
    ]
}

fn sources() -> Vec<Case> {
    let times = |op: Op, name: &str| {
        let mut b = Builder::new();
        let x = b.param(Type::tensor([2, 2]), "x");
        let y = b.one(op, &[]);
        let product = b.mul(x, y);
        let graph = b.finish(&[product]).expect("a sound case");
        Case {
            name: name.into(),
            graph,
            args: vec![Rng(3).apart(4)],
            wrt: vec![0],
            step: STEP,
        }
    };
    let literal = Const {
        shape: [2, 2].into(),
        data: [1.5, -2.0, 0.25, 3.0].into(),
    };
    let mut cases = vec![
        times(literal.into(), "const"),
        times(
            Full {
                shape: [2, 2].into(),
                value: -1.25,
            }
            .into(),
            "full",
        ),
    ];
    for distribution in [Distribution::Uniform, Distribution::Normal] {
        let random = Random {
            distribution,
            shape: [2, 2].into(),
            salt: 5,
        };
        cases.push(single(random.clone(), &[&[4]]).with(0, &[1.0, 2.0, 3.0, 4.0]));
        cases.push(single(random, &[&[2, 4]]).with(0, &[1.0, 2.0, 3.0, 4.0, 9.0, 0.0, 65535.0, 7.0]));
    }
    cases
}

fn updates() -> Vec<Case> {
    let mut cases = vec![];
    for rule in RULES {
        for shape in [&[3][..], &[2, 2], &[]] {
            let states = vec![shape; rule.states()];
            let shapes = [&[shape, shape, &[3][..]][..], &states].concat();
            let mut case = single(Update { rule }, &shapes);
            // Second moments are positive, and the numbers of a step are those of a real one.
            case.args[3..].iter_mut().flatten().for_each(|x| *x = x.abs());
            case.args[2] = rule.hyper(0.05, 3).map(f64::from).to_vec();
            cases.push(case);
        }
    }
    cases
}

fn recurrent() -> Vec<Case> {
    let mut cases = vec![];
    for [time, batch, hidden] in [[1, 1, 1], [1, 3, 2], [3, 2, 3], [4, 1, 2]] {
        let (wide, narrow) = ([time, batch, 4 * hidden], [time, batch, hidden]);
        let (weights, state) = ([hidden, 4 * hidden], [batch, hidden]);
        let role = LstmRole::Forward;
        cases.push(single(Lstm { role }, &[&wide, &weights, &state, &state]));
        let role = LstmRole::Backward;
        cases.push(single(
            Lstm { role },
            &[&wide, &narrow, &weights, &state, &narrow, &narrow],
        ));
    }
    cases
}

fn normalised() -> Vec<Case> {
    let mut cases = vec![];
    for (x, channels) in [
        (&[3, 2][..], [2]),
        (&[2, 3, 2, 3], [3]),
        (&[1, 2], [2]),
        (&[4], [4]),
    ] {
        for relu in [false, true] {
            for role in [BatchNormRole::Forward, BatchNormRole::Backward] {
                let eps = 0.125;
                let shapes = [x, &channels, &channels, &channels, &channels, x];
                let count = if role == BatchNormRole::Forward { 3 } else { 6 };
                let mut case = single(BatchNorm { role, eps, relu }, &shapes[..count]);
                if relu {
                    // Results far from the kink, on either side of it.
                    let near = |args: &mut Vec<f64>, to: &dyn Fn(usize) -> f64| {
                        let args = args.iter_mut().enumerate();
                        args.for_each(|(i, x)| *x = to(i) + 0.1 * *x);
                    };
                    near(&mut case.args[0], &|i| if i % 4 < 2 { -1.0 } else { 1.0 });
                    near(&mut case.args[1], &|_| 1.0);
                    near(&mut case.args[2], &|_| 0.2);
                    case.args
                        .iter_mut()
                        .skip(3)
                        .take(1)
                        .for_each(|mean| near(mean, &|_| 0.0));
                }
                case.args
                    .iter_mut()
                    .skip(4)
                    .take(1)
                    .flatten()
                    .for_each(|x| *x = x.abs());
                cases.push(case);
            }
        }
    }
    cases
}

fn control() -> Vec<Case> {
    let sides = |s: &[Tensor]| {
        let (x, w) = (&s[0], &s[1]);
        let c = x.sum_all().less(w.sum_all());
        vec![branch(c, x.clone(), |x| &x * w, |x| x.sin() + w)]
    };
    vec![
        traced("if, one side", &[&[3], &[3]], sides),
        traced("if, other side", &[&[3], &[3]], |s| {
            sides(&[s[1].clone(), s[0].clone()])
        }),
        traced("if without operands", &[&[2]], |s| {
            let c = s[0].sum_all().less(10.0);
            vec![branch(c, (), |()| s[0].exp(), |()| s[0].clone())]
        }),
        traced(
            "while with a data-dependent count, a branch and a closure",
            &[&[3], &[3]],
            |s| {
                let w = &s[1];
                let (x, n) = repeat(
                    (s[0].clone(), Tensor::scalar(0.0)),
                    |(x, _)| (x * x).sum_all().less(9.0),
                    |(x, n)| {
                        let even = (&n - (&n * 0.5).floor() * 2.0).equals(0.0);
                        let grown = branch(even, x, |x| &x * 1.5 + w.tanh(), |x| &x + x.sin() * w);
                        (grown, n + 1.0)
                    },
                );
                vec![x, n]
            },
        ),
        traced("while that does not run", &[&[2]], |s| {
            vec![repeat(s[0].clone(), |x| x.sum_all().greater(1e3), |x| x.exp())]
        }),
        traced("nested while", &[&[2], &[]], |s| {
            let a = &s[1];
            let (x, _) = repeat(
                (s[0].clone(), Tensor::scalar(0.0)),
                |(_, i)| i.less(3.0),
                |(x, i)| {
                    let (y, _) = repeat(
                        (x, Tensor::scalar(0.0)),
                        |(y, j)| j.less(&i + 1.0).select((y * y).sum_all().less(50.0), 0.0),
                        |(y, j)| (y.sin() + &y * a, j + 1.0),
                    );
                    (y, i + 1.0)
                },
            );
            vec![x]
        }),
        traced("while that exchanges its states", &[&[2], &[2]], |s| {
            let (x, y, _) = repeat(
                (s[0].clone(), s[1].clone(), Tensor::scalar(0.0)),
                |(_, _, i)| i.less(3.0),
                |(x, y, i)| (y.clone(), &x * &y, i + 1.0),
            );
            vec![x, y]
        }),
    ]
}

fn stacks() -> Vec<Case> {
    let frame: Arc<[Type]> = vec![Type::tensor([2]), Type::scalar()].into();
    let mut b = Builder::new();
    let [x, y] = [(); 2].map(|()| b.param(Type::tensor([2]), ""));
    let [s, t] = [(); 2].map(|()| b.param(Type::scalar(), ""));
    let empty = b.one(Empty { frame }, &[]);
    let one = b.one(Push, &[empty, x, s]);
    let two = b.one(Push, &[one, y, t]);
    // Frames are added from the top, the shorter stack counting as zeros below its end.
    let other = b.one(Push, &[empty, x, t]);
    let both = b.one(Merge, &[two, other]);
    let top = b.apply(Pop, &[both]);
    let below = b.apply(Pop, &[top[0]]);
    let nothing = b.apply(Pop, &[below[0]]);
    let (more, none) = (b.one(NotEmpty, &[top[0]]), b.one(NotEmpty, &[below[0]]));
    let outs = [top[1], top[2], below[1], below[2], nothing[1], more, none];
    let graph = b.finish(&outs).expect("a sound case");
    let args = vec![Rng(1).apart(2), Rng(2).apart(2), Rng(3).apart(1), Rng(4).apart(1)];
    vec![Case {
        name: "push, merge and pop".into(),
        graph,
        args,
        wrt: vec![0, 1, 2, 3],
        step: STEP,
    }]
}

/// Optimised training steps, whose nodes are fused.
fn fused() -> Vec<Case> {
    let mut cases = vec![];
    for activation in [Unary::Relu, Unary::Sigmoid, Unary::Tanh] {
        let step = training::step(&[3, 4, 2], 2, activation, RULES[3], &mut Rng(2));
        let graph = passes::optimise(&step.graph, |_, _| {}).expect("a sound training step");
        let wrt = (0..graph.params().len()).collect();
        let name = format!("fused training step with {activation:?}");
        cases.push(Case {
            name,
            graph,
            args: step.args,
            wrt,
            step: 1e-4,
        });
    }
    cases
}

/// `(x, y) -> x y`, with values and a step so round that its `f32` arithmetic is exact.
fn custom() -> Case {
    let infer = |args: &[&Type]| match args {
        [x, y] if x == y => Ok(vec![(*x).clone()]),
        _ => Err("it takes two tensors of one shape".to_string()),
    };
    let pullback = |b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]| {
        let (Some(d), &[x, y]) = (d[0], at.args) else {
            return vec![None, None];
        };
        vec![Some(b.mul(d, y)), Some(b.mul(d, x))]
    };
    let op = Custom {
        name: "times".into(),
        infer: Arc::new(infer),
        evaluate: Arc::new(|x: &[&[f32]], y: &mut [&mut [f32]]| {
            (0..y[0].len()).for_each(|i| y[0][i] = x[0][i] * x[1][i]);
        }),
        pullback: Arc::new(pullback),
        flops_per_element: 1,
    };
    let mut case = single(op, &[&[3], &[3]]);
    case.args = vec![vec![0.5, -1.0, 1.5], vec![2.0, 0.25, -0.5]];
    case.step = 1.0 / 64.0;
    case
}

/// Their gradient is a definition, not the derivative, so they stand here without one.
fn quantised() -> Vec<Case> {
    let forms: [(FakeQuant, &[usize]); 6] = [
        (FakeQuant::signed(None), &[]),
        (FakeQuant::unsigned(3), &[5]),
        (FakeQuant::signed(Some(0)), &[3]),
        (FakeQuant::signed(Some(1)), &[4, 3]),
        (FakeQuant::signed(Some(0)), &[2, 3, 2]),
        (
            FakeQuant {
                axis: Some(1),
                least: -2,
                most: 3,
            },
            &[2, 3, 2],
        ),
    ];
    let case = |(op, shape): (FakeQuant, &[usize])| {
        let scales: Vec<usize> = op.axis.map(|a| shape[a]).into_iter().collect();
        let count: usize = scales.iter().product();
        // No number of the catalogue lies near half a step of any of these, whatever the precision.
        let steps: Vec<f64> = (0..count).map(|i| (50 + 19 * i) as f64 / 256.0).collect();
        let case = single(op, &[shape, &scales]);
        let x = case.args[0].clone();
        case.with(0, &x).with(1, &steps)
    };
    forms.into_iter().map(case).collect()
}
