//! `vmap` of a graph equals a loop over examples, for every op and for control flow.

mod common;

use common::catalogue::{self, Case};
use common::{Rng, agree_all, for_seeds, random, scalar_loss};
use synod_engine::ops::{Binary, Distribution, Gather, Unary, Update};
use synod_engine::{
    Builder, Graph, Tensor, Type, branch, grad, interpret, repeat, trace, value_and_grad, vmap,
};

/// Examples near a case's arguments. Conditions, indices and keys are shuffled among themselves, so they stay valid.
fn examples(case: &Case, rng: &mut Rng, n: usize) -> Vec<Vec<Vec<f64>>> {
    let near = |p: usize, values: &Vec<f64>, rng: &mut Rng| -> Vec<f64> {
        match case.wrt.contains(&p) {
            true => values.iter().map(|x| x * rng.between(0.97, 1.03)).collect(),
            false => {
                let mut turned = values.clone();
                turned.rotate_left(rng.below(values.len()));
                turned
            }
        }
    };
    (0..n)
        .map(|_| {
            case.args
                .iter()
                .enumerate()
                .map(|(p, a)| near(p, a, rng))
                .collect()
        })
        .collect()
}

/// Batches the marked parameters and compares with one run per example; the others keep the first example's values.
fn same_as_loop(graph: &Graph, examples: &[Vec<Vec<f64>>], over: &[bool]) -> Result<(), String> {
    let n = examples.len();
    let batched = vmap(graph, over, n).map_err(|e| e.to_string())?;
    batched.verify().map_err(|e| e.to_string())?;
    let stack = |p: usize| examples.iter().flat_map(|e| e[p].clone()).collect::<Vec<f64>>();
    let args: Vec<Vec<f64>> = over
        .iter()
        .enumerate()
        .map(|(p, &is)| if is { stack(p) } else { examples[0][p].clone() })
        .collect();
    let found = interpret(&batched, &args).map_err(|e| e.to_string())?;
    let mut wanted: Vec<Vec<f64>> = vec![vec![]; graph.outputs().len()];
    for example in examples {
        let args: Vec<Vec<f64>> = over
            .iter()
            .enumerate()
            .map(|(p, &is)| {
                if is {
                    example[p].clone()
                } else {
                    examples[0][p].clone()
                }
            })
            .collect();
        let outs = interpret(graph, &args).map_err(|e| e.to_string())?;
        wanted.iter_mut().zip(outs).for_each(|(all, out)| all.extend(out));
    }
    agree_all(&format!("over {over:?}"), &found, &wanted, 1e-9)
}

fn can_batch(case: &Case) -> bool {
    !case.name.starts_with("custom") && !case.name.starts_with("push")
}

#[test]
fn every_op_of_the_catalogue_batches_over_any_choice_of_its_parameters() {
    for case in catalogue::all().iter().filter(|c| can_batch(c)) {
        let params = case.args.len();
        let choices: Vec<Vec<bool>> = match params {
            0..=3 => (1..1 << params)
                .map(|bits: usize| (0..params).map(|p| bits >> p & 1 == 1).collect())
                .collect(),
            _ => (0..params)
                .map(|one| (0..params).map(|p| p == one).collect())
                .chain([vec![true; params]])
                .collect(),
        };
        let rng = &mut Rng(8);
        for over in choices {
            for n in [1, 3] {
                let examples = examples(case, rng, n);
                same_as_loop(&case.graph, &examples, &over).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            }
        }
    }
}

#[test]
fn random_graphs_batch() {
    for_seeds(120, |rng| {
        let sample = random::graph(rng, 14);
        let over: Vec<bool> = sample.args.iter().map(|_| rng.chance(70)).collect();
        let moved = |rng: &mut Rng| {
            sample
                .args
                .iter()
                .map(|a| a.iter().map(|x| x * rng.between(0.98, 1.02)).collect())
                .collect()
        };
        let examples: Vec<Vec<Vec<f64>>> = (0..3).map(|_| moved(rng)).collect();
        same_as_loop(&sample.graph, &examples, &over)
    });
}

#[test]
fn examples_may_take_different_sides_and_loop_for_different_lengths() {
    let graph = trace(&[Type::scalar(), Type::scalar()], |s| {
        let (x, n) = repeat(
            (s[0].clone(), Tensor::scalar(0.0)),
            |(x, n)| x.less(&s[1]).select(n.less(50.0), 0.0),
            |(x, n)| (branch(x.less(1.0), x, |x| x + 0.3, |x| x * 1.7), n + 1.0),
        );
        vec![x, n]
    })
    .unwrap();
    let examples = [[0.1, 5.0], [4.0, 3.0], [0.5, 0.9], [-2.0, 100.0]].map(|e| e.map(|x| vec![x]).to_vec());
    same_as_loop(&graph, &examples, &[true, true]).unwrap();
    same_as_loop(&graph, &examples, &[true, false]).unwrap();
}

#[test]
fn a_condition_of_any_sign_keeps_a_batched_loop_going() {
    // The condition is the state itself, which is true while it is not zero.
    let graph = trace(&[Type::scalar()], |s| {
        vec![repeat(s[0].clone(), |x| x.clone(), |x| x + 1.0)]
    })
    .unwrap();
    let examples = [-3.0, 0.0, -1.0].map(|x| vec![vec![x]]);
    same_as_loop(&graph, &examples, &[true]).unwrap();
}

#[test]
fn a_batch_of_none_is_empty() {
    let graph = trace(&[Type::tensor([2])], |s| {
        vec![repeat(s[0].clone(), |x| x.sum_all().less(9.0), |x| &x * &x + 1.0)]
    });
    let batched = vmap(&graph.unwrap(), &[true], 0).unwrap();
    assert_eq!(interpret(&batched, &[Vec::<f64>::new()]).unwrap(), [[0.0; 0]]);
}

#[test]
fn the_gradient_of_a_batch_is_the_batch_of_gradients() {
    for case in catalogue::all()
        .iter()
        .filter(|c| can_batch(c) && !c.wrt.is_empty())
    {
        let rng = &mut Rng(3);
        let loss = scalar_loss(&case.graph, rng);
        let over = vec![true; case.args.len()];
        let examples = examples(case, rng, 3);
        let stack = |p: usize| examples.iter().flat_map(|e| e[p].clone()).collect::<Vec<f64>>();
        let args: Vec<Vec<f64>> = (0..over.len()).map(stack).collect();
        let total = sum_of_outputs(&vmap(&loss, &over, 3).unwrap());
        let found = interpret(&grad(&total, &case.wrt).unwrap(), &args).unwrap();
        let one = grad(&loss, &case.wrt).unwrap();
        let mut wanted: Vec<Vec<f64>> = vec![vec![]; case.wrt.len()];
        for example in &examples {
            let outs = interpret(&one, example).unwrap();
            wanted.iter_mut().zip(outs).for_each(|(all, out)| all.extend(out));
        }
        agree_all(&case.name, &found, &wanted, 1e-6).unwrap();
    }
}

fn sum_of_outputs(graph: &Graph) -> Graph {
    let mut b = Builder::new();
    let params: Vec<_> = graph.param_types().into_iter().map(|t| b.param(t, "")).collect();
    let out = b.inline(graph, &params)[0];
    let total = common::sum_all(&mut b, out);
    b.finish(&[total]).unwrap()
}

#[test]
fn gradients_without_loops_batch_too() {
    let loss = trace(&[Type::tensor([3]), Type::tensor([3])], |s| {
        vec![(s[0].tanh() * &s[1]).exp().sum_all()]
    })
    .unwrap();
    let slopes = value_and_grad(&loss, &[0, 1]).unwrap();
    let rng = &mut Rng(2);
    let examples: Vec<Vec<Vec<f64>>> = (0..4).map(|_| vec![rng.apart(3), rng.apart(3)]).collect();
    same_as_loop(&slopes, &examples, &[true, false]).unwrap();
    same_as_loop(&slopes, &examples, &[true, true]).unwrap();
}

#[test]
fn batched_keys_give_every_example_its_own_numbers() {
    let graph = trace(&[Type::tensor([4])], |s| {
        vec![s[0].random(Distribution::Normal, [3], 1)]
    })
    .unwrap();
    let examples: Vec<Vec<Vec<f64>>> = (0..3).map(|i| vec![vec![f64::from(i), 0.0, 7.0, 0.0]]).collect();
    same_as_loop(&graph, &examples, &[true]).unwrap();
}

#[test]
fn what_cannot_be_batched_says_so_and_what_to_do() {
    let looped = trace(&[Type::scalar()], |s| {
        vec![repeat(s[0].clone(), |x| x.less(9.0), |x| &x * 2.0 + 1.0)]
    })
    .unwrap();
    let error = vmap(&grad(&looped, &[0]).unwrap(), &[true], 2)
        .unwrap_err()
        .to_string();
    assert!(error.contains("tape") && error.contains("vmap"), "{error}");
    let cases = catalogue::all();
    let custom = cases.iter().find(|c| c.name.starts_with("custom")).unwrap();
    let error = vmap(&custom.graph, &[true, true], 2).unwrap_err().to_string();
    assert!(
        error.contains("`times`") && error.contains("batching rule"),
        "{error}"
    );
    let error = vmap(&looped, &[true, false], 2).unwrap_err().to_string();
    assert!(error.contains("2 marks for 1 parameters"), "{error}");
}

#[test]
fn ops_that_batch_without_copies_stay_one_op() {
    let ops = |graph: Graph, over: &[bool]| -> Vec<String> {
        vmap(&graph, over, 4)
            .unwrap()
            .nodes()
            .iter()
            .map(|n| n.op.to_string())
            .collect()
    };
    let unary = trace(&[Type::tensor([3])], |s| vec![s[0].exp()]).unwrap();
    assert_eq!(ops(unary, &[true]), [Unary::Exp.to_op()]);
    let product = trace(&[Type::tensor([2, 3]), Type::tensor([3, 5])], |s| {
        vec![s[0].dot(&s[1])]
    })
    .unwrap();
    assert_eq!(ops(product, &[true, false]), ["reshape", "dot", "reshape"]);
    let picked = trace(&[Type::tensor([5, 2]), Type::tensor([3])], |s| {
        vec![s[0].gather(&s[1])]
    })
    .unwrap();
    assert_eq!(ops(picked, &[false, true]), [Gather.to_op()]);
    let sum = trace(&[Type::tensor([3]), Type::tensor([3])], |s| vec![&s[0] + &s[1]]).unwrap();
    assert_eq!(ops(sum, &[true, true]), [Binary::Add.to_op()]);
}

trait Named {
    fn to_op(self) -> String;
}

impl<T: Into<synod_engine::Op>> Named for T {
    fn to_op(self) -> String {
        self.into().to_string()
    }
}

#[test]
fn an_update_batches_by_its_meaning() {
    let rule = catalogue::RULES[5];
    let mut b = Builder::new();
    let p: Vec<_> = [[2], [2], [3], [2], [2]]
        .map(|s| b.param(Type::tensor(s), ""))
        .to_vec();
    let outs = b.apply(Update { rule }, &p);
    let graph = b.finish(&outs).unwrap();
    let hyper = rule.hyper(0.1, 1).map(f64::from).to_vec();
    let rng = &mut Rng(6);
    let positive = |rng: &mut Rng| rng.apart(2).iter().map(|x| x.abs()).collect::<Vec<f64>>();
    let examples: Vec<Vec<Vec<f64>>> = (0..3)
        .map(|_| {
            vec![
                rng.apart(2),
                rng.apart(2),
                hyper.clone(),
                rng.apart(2),
                positive(rng),
            ]
        })
        .collect();
    same_as_loop(&graph, &examples, &[false, true, false, true, true]).unwrap();
}
