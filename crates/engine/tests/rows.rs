//! In a program with frozen parameters a row has the same result, bit for bit, however many stand beside it and wherever
//! it stands among them.

mod common;

use common::{Rng, to_f32};
use synod_engine::backend::Cpu;
use synod_engine::{Graph, Options, Session, Tensor, Type, compile_with, trace};
use synod_kernels::Simd;

/// Around every number at which the kernels choose another way.
const ROWS: [usize; 11] = [1, 2, 7, 8, 16, 24, 25, 48, 49, 100, 1024];

/// What a layer does with its product.
type Ending = fn(&Tensor, &Tensor) -> Tensor;

/// `(weights, bias, rows) -> results`
fn layer(rows: usize, [inputs, outputs]: [usize; 2], ending: Ending) -> Graph {
    let types = [
        Type::tensor([inputs, outputs]),
        Type::tensor([outputs]),
        Type::tensor([rows, inputs]),
    ];
    trace(&types, |a| vec![ending(&a[2].dot(&a[0]), &a[1])]).unwrap()
}

fn frozen(graph: &Graph, simd: Simd, weights: &[Vec<f32>]) -> Session {
    let options = Options {
        frozen: weights.len(),
        ..Options::default()
    };
    let program = compile_with(graph, &options, &[&Cpu::at(simd)]).unwrap();
    let mut session = Session::new(program.into());
    for (i, weights) in weights.iter().enumerate() {
        session.param_mut(i).copy_from_slice(weights);
    }
    session
}

fn run(session: &mut Session, input: usize, rows: &[f32]) -> Vec<f32> {
    session.param_mut(input).copy_from_slice(rows);
    session.run();
    session.output(0).to_vec()
}

/// Compares every row among `counts` rows with the row alone, for a `graph` of the weights and so many rows.
fn same_rows(
    simd: Simd,
    graph: impl Fn(usize) -> Graph,
    weights: &[Vec<f32>],
    rows: &[&[f32]],
    counts: &[usize],
) {
    let mut single = frozen(&graph(1), simd, weights);
    let alone: Vec<Vec<f32>> = rows
        .iter()
        .map(|row| run(&mut single, weights.len(), row))
        .collect();
    for &count in counts {
        let mut session = frozen(&graph(count), simd, weights);
        // The same rows at other places.
        for shift in [0, 1] {
            let at = |i: usize| (i + shift * (count / 2 + 3)) % rows.len();
            let given: Vec<f32> = (0..count).flat_map(|i| rows[at(i)]).copied().collect();
            let found = run(&mut session, weights.len(), &given);
            let size = found.len() / count;
            for (i, found) in found.chunks_exact(size).enumerate() {
                let wanted = &alone[at(i)];
                let other = found
                    .iter()
                    .zip(wanted)
                    .position(|(x, y)| x.to_bits() != y.to_bits());
                assert!(
                    other.is_none(),
                    "{} at {}: number {other:?} of row {i} of {count}",
                    graph(count),
                    simd.level()
                );
            }
        }
    }
}

fn check(extents: [usize; 2], counts: &[usize], ending: Ending) {
    let mut rng = Rng(extents[0] as u64);
    let [inputs, outputs] = extents;
    let weights = to_f32(&[rng.numbers(inputs * outputs), rng.numbers(outputs)]);
    let most = counts.iter().copied().max().unwrap_or(0);
    // Dense rows first, then rows as a rectifier leaves them, then nearly empty ones.
    for floor in [-1.0, 0.0, 0.9] {
        let rows: Vec<f32> = to_f32(&[rng.numbers(most * inputs)])[0]
            .iter()
            .map(|&x| if x > floor { x } else { 0.0 })
            .collect();
        let rows: Vec<&[f32]> = rows.chunks_exact(inputs).collect();
        for simd in Simd::available() {
            same_rows(simd, |n| layer(n, extents, ending), &weights, &rows, counts);
        }
    }
}

#[test]
fn a_dense_layer_gives_a_row_the_same_bits_alone_and_among_others() {
    let extents = [[3, 5], [100, 460], [460, 80], [320, 320], [784, 200], [1200, 90]];
    for extents in extents {
        check(extents, &ROWS, |product, bias| (product + bias).relu());
    }
    check([460, 1000], &[2, 24, 25, 100], |product, bias| {
        (product + bias).sigmoid()
    });
}

#[test]
fn a_very_wide_layer_takes_any_number_of_rows() {
    check([1, 70_000], &[2, 8, 25, 49], |product, bias| product + bias);
}

#[test]
fn so_does_a_product_without_a_bias_and_one_whose_bias_follows_later() {
    for extents in [[320, 320], [784, 200], [1200, 90]] {
        check(extents, &[8, 24, 25, 100], |product, _| product.relu());
        check(extents, &[8, 24, 25, 100], |product, _| product.clone());
        check(extents, &[8, 24, 25, 100], |product, bias| product.exp() + bias);
    }
}

#[test]
fn so_does_a_layer_in_a_loop() {
    let graph = |rows: usize| {
        let types = [
            Type::tensor([320, 320]),
            Type::tensor([320]),
            Type::tensor([rows, 320]),
        ];
        trace(&types, |a| {
            let (weights, bias) = (a[0].clone(), a[1].clone());
            synod_engine::repeat(
                [a[2].clone(), Tensor::scalar(0.0)],
                |state| state[1].less(Tensor::scalar(3.0)),
                |state| [(state[0].dot(&weights) + &bias).tanh(), &state[1] + 1.0],
            )
            .to_vec()
        })
        .unwrap()
    };
    let mut rng = Rng(4);
    let weights = to_f32(&[rng.numbers(320 * 320), rng.numbers(320)]);
    let weights = [weights[0].iter().map(|w| w / 16.0).collect(), weights[1].clone()];
    let rows = to_f32(&[rng.numbers(100 * 320)]).remove(0);
    let rows: Vec<&[f32]> = rows.chunks_exact(320).collect();
    for simd in Simd::available() {
        same_rows(simd, graph, &weights, &rows, &[2, 24, 25, 100]);
    }
}
