//! Convolution and pooling mean what their definitions say, for every window, and so do their derivatives, their batches
//! and their compiled forms.

mod common;

use common::catalogue::{CONV_ROLES, POOL_ROLES, convolution};
use common::differences::derivatives;
use common::{Rng, agree_all, for_seeds, to_f32, to_f64};
use synod_engine::ops::{Op, Padding, Pool, PoolRole, Slide, Window};
use synod_engine::{
    Builder, Graph, Options, Session, Template, Tensor, Type, compile, interpret, trace, vmap,
};

fn random_window(rng: &mut Rng) -> Window {
    loop {
        let mut pair = |from: usize, below: usize| [from + rng.below(below), from + rng.below(below)];
        let window = Window {
            input: pair(1, 6),
            kernel: pair(1, 3),
            stride: pair(1, 3),
            padding: [pair(0, 3), pair(0, 3)],
            dilation: pair(1, 2),
        };
        if window.output().is_ok() {
            return window;
        }
    }
}

/// The sum over taps of a strided part of the padded image times one matrix of weights: a convolution by other ops.
fn by_products(x: &Tensor, w: &Tensor, window: &Window) -> Tensor {
    let [[top, bottom], [left, right]] = window.padding;
    let [h, ww] = window.output().unwrap();
    let (n, c) = (x.shape().dims()[0], x.shape().dims()[3]);
    let o = w.shape().dims()[3];
    let padded = x.pad(&[0, top, left, 0], &[0, bottom, right, 0]);
    let mut sum = Tensor::zeros([n * h * ww, o]);
    for p in 0..window.kernel[0] {
        for q in 0..window.kernel[1] {
            let tap = [p * window.dilation[0], q * window.dilation[1]];
            // Only steps of one can be sliced by this method, so rows and columns are picked one at a time.
            let rows: Vec<Tensor> = (0..h)
                .map(|i| i * window.stride[0] + tap[0])
                .map(|i| padded.slice(1, i..i + 1))
                .collect();
            let rows = Tensor::concat(&rows, 1);
            let columns: Vec<Tensor> = (0..ww)
                .map(|j| j * window.stride[1] + tap[1])
                .map(|j| rows.slice(2, j..j + 1))
                .collect();
            let seen = Tensor::concat(&columns, 2).reshape([n * h * ww, c]);
            let weights = w.slice(0, p..p + 1).slice(1, q..q + 1).reshape([c, o]);
            sum = sum + seen.dot(&weights);
        }
    }
    sum.reshape([n, h, ww, o])
}

#[test]
fn a_convolution_is_the_sum_over_taps_of_products() {
    for_seeds(60, |rng| {
        let window = random_window(rng);
        let (n, groups) = (1 + rng.below(2), 1 + rng.below(3));
        let (c, o) = (1 + rng.below(3), 1 + rng.below(3));
        let ([h, w], [p, q]) = (window.input, window.kernel);
        let types = [
            Type::tensor([n, h, w, groups * c]),
            Type::tensor([p, q, c, groups * o]),
        ];
        let graph = trace(&types, |s| {
            let slide = Slide {
                stride: window.stride,
                padding: Padding::Explicit(window.padding),
                dilation: window.dilation,
            };
            let by_group: Vec<Tensor> = (0..groups)
                .map(|g| {
                    let x = s[0].slice(3, g * c..(g + 1) * c);
                    by_products(&x, &s[1].slice(3, g * o..(g + 1) * o), &window)
                })
                .collect();
            vec![s[0].conv(&s[1], &slide, groups), Tensor::concat(&by_group, 3)]
        });
        let graph = graph.map_err(|e| e.to_string())?;
        let args = [
            rng.numbers(n * h * w * groups * c),
            rng.numbers(p * q * c * groups * o),
        ];
        let outs = interpret(&graph, &args).map_err(|e| e.to_string())?;
        agree_all(&format!("{window:?}"), &outs[..1], &outs[1..], 1e-12)
    });
}

fn inner_product(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

#[test]
fn the_three_roles_are_one_trilinear_form() {
    for_seeds(40, |rng| {
        let window = random_window(rng);
        let (groups, extents) = (1 + rng.below(3), [2, 1 + rng.below(3), 1 + rng.below(3)]);
        let cases = CONV_ROLES.map(|role| convolution(role, window, groups, extents));
        let (x, w) = (&cases[0].args[0], &cases[0].args[1]);
        let y = &cases[1].args[0];
        let run = |i: usize, args: [&Vec<f64>; 2]| -> Result<Vec<f64>, String> {
            let outs = interpret(&cases[i].graph, &args.map(Clone::clone));
            Ok(outs.map_err(|e| e.to_string())?.swap_remove(0))
        };
        let forms = [
            inner_product(y, &run(0, [x, w])?),
            inner_product(x, &run(1, [y, w])?),
            inner_product(w, &run(2, [x, y])?),
        ];
        agree_all(
            &format!("{window:?}"),
            &[forms[1..].to_vec()],
            &[vec![forms[0]; 2]],
            1e-12,
        )
    });
}

fn pool_graph(role: PoolRole, window: Window, n: usize, c: usize) -> Graph {
    let ([h, w], [i, j]) = (window.input, window.output().unwrap());
    let (x, y) = (Type::tensor([n, h, w, c]), Type::tensor([n, i, j, c]));
    let types = match role {
        PoolRole::MaxPick => vec![x.clone(), x],
        PoolRole::MaxSpread => vec![x, y],
        PoolRole::Sum => vec![x],
        PoolRole::SumSpread => vec![y],
    };
    let mut b = Builder::new();
    let params: Vec<_> = types.into_iter().map(|t| b.param(t, "")).collect();
    let out = b.one(Pool { role, window }, &params);
    b.finish(&[out]).unwrap()
}

fn random_args(graph: &Graph, rng: &mut Rng) -> Vec<Vec<f64>> {
    let size = |i: usize| graph.shape(graph.params()[i]).elements();
    (0..graph.params().len()).map(|i| rng.apart(size(i))).collect()
}

#[test]
fn random_windows_have_right_derivatives() {
    for_seeds(24, |rng| {
        let window = random_window(rng);
        let conv = convolution(*rng.pick(&CONV_ROLES), window, 1 + rng.below(2), [1, 1, 2]);
        derivatives(&conv.graph, &conv.args, &[0, 1], 1e-3)?;
        let pool = pool_graph(*rng.pick(&POOL_ROLES), window, 1, 2);
        let all: Vec<usize> = (0..pool.params().len()).collect();
        derivatives(&pool, &random_args(&pool, rng), &all, 1e-4)
    });
}

#[test]
fn random_windows_batch_and_compile() {
    for_seeds(80, |rng| {
        let window = random_window(rng);
        let graph = match rng.chance(60) {
            true => {
                let extents = [1 + rng.below(3), 1 + rng.below(3), 1 + rng.below(5)];
                convolution(*rng.pick(&CONV_ROLES), window, 1 + rng.below(3), extents).graph
            }
            false => pool_graph(*rng.pick(&POOL_ROLES), window, 2, 1 + rng.below(5)),
        };
        let over: Vec<bool> = graph.params().iter().map(|_| rng.chance(60)).collect();
        let batched = vmap(&graph, &over, 3).map_err(|e| e.to_string())?;
        batched.verify().map_err(|e| e.to_string())?;
        let args = random_args(&batched, rng);
        let found = interpret(&batched, &args).map_err(|e| e.to_string())?;
        let mut wanted = vec![vec![]];
        for i in 0..3 {
            let part = |p: usize| match over[p] {
                true => args[p][i * args[p].len() / 3..(i + 1) * args[p].len() / 3].to_vec(),
                false => args[p].clone(),
            };
            let one: Vec<Vec<f64>> = (0..args.len()).map(part).collect();
            wanted[0].extend(interpret(&graph, &one).map_err(|e| e.to_string())?.swap_remove(0));
        }
        agree_all(&format!("{over:?}"), &found, &wanted, 1e-9)?;
        let program = compile(&batched, &Options::default()).map_err(|e| e.to_string())?;
        let given = to_f32(&args);
        let given: Vec<&[f32]> = given.iter().map(Vec::as_slice).collect();
        let outs = Session::new(program.into())
            .call(&given)
            .map_err(|e| e.to_string())?;
        agree_all("compiled", &to_f64(&outs), &found, 1e-5)
    });
}

#[test]
fn batching_copies_nothing_that_is_not_batched() {
    let types = [Type::tensor([2, 4, 4, 3]), Type::tensor([3, 3, 3, 5])];
    let graph = trace(&types, |s| vec![s[0].conv(&s[1], &Slide::by(1), 1)]).unwrap();
    let convs = |over: &[bool]| -> Vec<(usize, Vec<usize>)> {
        let batched = vmap(&graph, over, 7).unwrap();
        let of = |n: &synod_engine::Node| match n.op {
            Op::Conv(c) => Some((c.groups, batched.shape(n.outs[0]).dims().to_vec())),
            _ => None,
        };
        batched.nodes().iter().filter_map(of).collect()
    };
    assert_eq!(convs(&[true, false]), [(1, vec![14, 2, 2, 5])]);
    assert_eq!(convs(&[false, true]), [(1, vec![2, 2, 2, 35])]);
    assert_eq!(convs(&[true, true]), [(7, vec![2, 2, 2, 35])]);
    let none = vmap(&graph, &[true, true], 0).unwrap();
    assert_eq!(none.output_types(), [Type::tensor([0, 2, 2, 2, 5])]);
}

fn image(values: &[f32], h: usize, w: usize) -> Tensor {
    Tensor::new(values.to_vec(), [1, h, w, 1])
}

#[test]
fn max_pooling_takes_the_first_of_equals_lets_nan_through_and_ignores_padding() {
    let tie = image(&[2.0, 2.0, 1.0, 2.0], 2, 2);
    let (value, slopes) =
        synod_engine::value_and_gradient(|x| x[0].max_pool([2, 2], &Slide::by(1)).sum_all(), &[tie]).unwrap();
    assert_eq!(value.values().unwrap(), [2.0]);
    assert_eq!(slopes[0].values().unwrap(), [1.0, 0.0, 0.0, 0.0]);
    let nan = image(&[1.0, f32::NAN, 3.0, 4.0], 2, 2).max_pool([2, 2], &Slide::by(1));
    assert!(nan.values().unwrap()[0].is_nan());
    let negative = image(&[-1.0, -2.0, -3.0, -4.0], 2, 2).max_pool([2, 2], &Slide::by(2).padded(1));
    assert_eq!(negative.values().unwrap(), [-1.0, -2.0, -3.0, -4.0]);
}

#[test]
fn averages_count_padding_or_not() {
    let x = image(&[4.0; 4], 2, 2);
    let slide = Slide::by(1).padded(1);
    let with = x.average_pool([2, 2], &slide, true);
    assert_eq!(
        with.values().unwrap(),
        [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]
    );
    let without = x.average_pool([2, 2], &slide, false);
    assert_eq!(without.values().unwrap(), [4.0; 9]);
}

#[test]
fn graphs_with_images_are_stored_and_printed() {
    let f = |batch: usize| {
        trace(
            &[Type::tensor([batch, 6, 6, 2]), Type::tensor([3, 3, 1, 4])],
            |s| {
                let y = s[0].conv(&s[1], &Slide::by(2).same(), 2);
                vec![y.max_pool([2, 2], &Slide::by(1))]
            },
        )
    };
    let template = Template::new(f).unwrap();
    let again = Template::from_text(&template.to_text()).unwrap();
    assert_eq!(again.at(5).unwrap(), f(5).unwrap());
    let text = f(5).unwrap().to_string();
    assert!(
        text.contains("conv[3x3 stride 2x2 padding [[0, 1], [0, 1]] groups 2] %0, %1"),
        "{text}"
    );
    assert!(text.contains("pool.max[2x2] %2, %2"), "{text}");
}

#[test]
fn the_cost_of_a_convolution_is_the_same_in_every_role() {
    let window = Slide::by(1).same().over([14, 14], [5, 5]);
    for role in CONV_ROLES {
        let case = convolution(role, window, 2, [3, 4, 8]);
        let cost = case.graph.cost();
        assert_eq!(cost.flops, 2 * 3 * 14 * 14 * 5 * 5 * 4 * 16);
    }
}

#[test]
fn bias_shortcut_and_activation_join_their_convolution_and_keep_its_meaning() {
    for_seeds(60, |rng| {
        let (c, o) = (1 + rng.below(5), 1 + rng.below(20));
        let window = random_window(rng);
        let [h, w] = window.output().unwrap();
        let [p, q] = window.kernel;
        let slide = Slide {
            stride: window.stride,
            padding: Padding::Explicit(window.padding),
            dilation: window.dilation,
        };
        let types = [
            Type::tensor([2, window.input[0], window.input[1], c]),
            Type::tensor([p, q, c, o]),
            Type::tensor([o]),
            Type::tensor([2, h, w, o]),
        ];
        let (bias, shortcut, ending, first) = (rng.chance(70), rng.chance(50), rng.below(4), rng.chance(50));
        let graph = trace(&types, |a| {
            let mut y = a[0].conv(&a[1], &slide, 1);
            if shortcut && first {
                y = &a[3] + y;
            }
            if bias {
                y = y + &a[2];
            }
            if shortcut && !first {
                y = y + &a[3];
            }
            vec![match ending {
                0 => y.relu(),
                1 => y.tanh(),
                2 => y.sigmoid(),
                _ => y,
            }]
        })
        .map_err(|e| e.to_string())?;
        let optimised = synod_engine::passes::optimise(&graph, |_, _| {}).map_err(|e| e.to_string())?;
        if bias || shortcut || ending < 3 {
            let [only] = optimised.nodes() else {
                return Err(format!("not one node:\n{optimised}"));
            };
            if !matches!(&only.op, Op::Fused(f) if f.kind == synod_engine::ops::FusedKind::Conv) {
                return Err(format!("not a convolution:\n{optimised}"));
            }
        }
        let args = random_args(&graph, rng);
        let wanted = interpret(&graph, &args).map_err(|e| e.to_string())?;
        let program = compile(&graph, &Options::default()).map_err(|e| e.to_string())?;
        let given = to_f32(&args);
        let given: Vec<&[f32]> = given.iter().map(Vec::as_slice).collect();
        let found = Session::new(program.into())
            .call(&given)
            .map_err(|e| e.to_string())?;
        agree_all("compiled", &to_f64(&found), &wanted, 1e-5)
    });
}
