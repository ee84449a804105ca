//! Matrix products against plain loops, and the independence of their bits from threads and packing.

mod common;

use common::{Random, assert_close, levels, rounds};
use synod_kernels::{Activation, Bias, Dense, Epilogue, Gate, Matrix, Simd, Sum, gemm, gemm_workspace};

#[derive(Copy, Clone, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    a_transposed: bool,
    b_transposed: bool,
}

fn cases() -> Vec<Case> {
    let mut random = Random::new(21);
    let fixed = [
        (0, 5, 3),
        (5, 0, 3),
        (5, 4, 0),
        (1, 1, 1),
        (6, 16, 8),
        (14, 32, 8),
        (100, 90, 700),
        (13, 400, 33),
    ];
    let mut sizes: Vec<(usize, usize, usize)> = if cfg!(miri) {
        fixed[..5].to_vec()
    } else {
        fixed.to_vec()
    };
    let bound = if cfg!(miri) { 20 } else { 90 };
    sizes.extend((0..rounds(120)).map(|_| (random.below(bound), random.below(bound), random.below(bound))));
    let flags = |i: usize| (i % 2 == 1, i / 2 % 2 == 1);
    let case = |(i, (m, n, k))| {
        let (a_transposed, b_transposed) = flags(i);
        Case {
            m,
            n,
            k,
            a_transposed,
            b_transposed,
        }
    };
    sizes.into_iter().enumerate().map(case).collect()
}

fn matrix(data: &[f32], rows: usize, columns: usize, transposed: bool) -> Matrix<'_> {
    if transposed {
        Matrix::row_major(data, rows).transposed()
    } else {
        Matrix::row_major(data, columns)
    }
}

fn product(case: Case, a: &[f32], b: &[f32]) -> Vec<f64> {
    let Case {
        m,
        n,
        k,
        a_transposed,
        b_transposed,
    } = case;
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            for p in 0..k {
                let x = a[if a_transposed { p * m + i } else { i * k + p }] as f64;
                let y = b[if b_transposed { j * k + p } else { p * n + j }] as f64;
                c[i * n + j] += x * y;
            }
        }
    }
    c
}

#[test]
fn products_of_any_shape_and_orientation() {
    let mut random = Random::new(22);
    for case in cases() {
        let Case { m, n, k, .. } = case;
        let (a, b) = (random.numbers(m * k), random.numbers(k * n));
        let wanted = product(case, &a, &b);
        for simd in levels() {
            let mut workspace = vec![f32::NAN; gemm_workspace(simd, m, n, k, 1)];
            let mut c = vec![f32::NAN; m * n];
            let (a, b) = (
                matrix(&a, m, k, case.a_transposed),
                matrix(&b, k, n, case.b_transposed),
            );
            gemm(
                simd,
                m,
                n,
                k,
                a,
                b,
                &mut c,
                &Epilogue::default(),
                1,
                &mut workspace,
            );
            assert_close(&c, &wanted, 5e-5, &format!("{case:?} {simd:?}"));
        }
    }
}

#[test]
fn the_epilogue_adds_activates_and_gates() {
    let mut random = Random::new(23);
    for (i, case) in cases().into_iter().enumerate() {
        let Case { m, n, k, .. } = case;
        let (a, b) = (random.numbers(m * k), random.numbers(k * n));
        let (old, residual, outputs) = (
            random.numbers(m * n),
            random.numbers(m * n),
            random.numbers(m * n),
        );
        let (per_row, per_column) = (random.numbers(m), random.numbers(n));
        let epilogue = Epilogue {
            sum: [Sum::OntoOld, Sum::Blocks, Sum::OntoOld, Sum::InOrder][i % 4],
            bias: [Bias::None, Bias::PerColumn(&per_column), Bias::PerRow(&per_row)][i % 3],
            residual: (i % 5 < 2).then_some(&residual[..]),
            activation: [
                Activation::Relu,
                Activation::Identity,
                Activation::Tanh,
                Activation::LeakyRelu(0.5),
            ][i % 4],
            gate: if i % 7 == 0 {
                Gate::Relu(&outputs)
            } else {
                Gate::Open
            },
        };
        let mut wanted = product(case, &a, &b);
        for (at, value) in wanted.iter_mut().enumerate() {
            *value += if epilogue.sum == Sum::OntoOld {
                old[at] as f64
            } else {
                0.0
            };
            *value += match epilogue.bias {
                Bias::None => 0.0,
                Bias::PerColumn(bias) => bias[at % n] as f64,
                Bias::PerRow(bias) => bias[at / n] as f64,
            };
            *value += if epilogue.residual.is_some() {
                residual[at] as f64
            } else {
                0.0
            };
            *value = match epilogue.activation {
                Activation::Relu => value.max(0.0),
                Activation::Tanh => value.tanh(),
                Activation::LeakyRelu(slope) if *value < 0.0 => slope as f64 * *value,
                _ => *value,
            };
            if matches!(epilogue.gate, Gate::Relu(_)) && outputs[at] <= 0.0 {
                *value = 0.0;
            }
        }
        for simd in levels() {
            let mut workspace = vec![0.0; gemm_workspace(simd, m, n, k, 1)];
            let mut c = old.clone();
            let (a, b) = (
                matrix(&a, m, k, case.a_transposed),
                matrix(&b, k, n, case.b_transposed),
            );
            gemm(simd, m, n, k, a, b, &mut c, &epilogue, 1, &mut workspace);
            assert_close(&c, &wanted, 5e-5, &format!("{case:?} {simd:?} {epilogue:?}"));
        }
    }
}

#[test]
fn threads_and_packing_do_not_change_a_bit() {
    let mut random = Random::new(24);
    for case in cases().into_iter().step_by(3) {
        let Case { m, n, k, .. } = case;
        let (a, b) = (random.numbers(m * k), random.numbers(k * n));
        let (a, b) = (
            matrix(&a, m, k, case.a_transposed),
            matrix(&b, k, n, case.b_transposed),
        );
        let bias = random.numbers(n);
        let epilogue = Epilogue {
            bias: Bias::PerColumn(&bias),
            activation: Activation::Relu,
            ..Epilogue::default()
        };
        for simd in levels() {
            let run = |threads: usize| {
                let mut workspace = vec![0.0; gemm_workspace(simd, m, n, k, threads)];
                let mut c = vec![0.0; m * n];
                gemm(simd, m, n, k, a, b, &mut c, &epilogue, threads, &mut workspace);
                c
            };
            let one = run(1);
            for threads in [2, 3, 4] {
                assert!(one == run(threads), "{case:?} {simd:?} with {threads} threads");
            }
        }
    }
}

#[test]
fn in_order_a_product_has_the_bits_of_a_dense_layer() {
    let mut random = Random::new(25);
    for (i, case) in cases().into_iter().enumerate() {
        let Case { m, n, k, .. } = case;
        let (x, w, bias) = (random.numbers(m * k), random.numbers(k * n), random.numbers(n));
        let bias = (i % 3 > 0).then_some(&bias[..]);
        let activation = [Activation::Identity, Activation::Relu, Activation::Tanh][i % 3];
        let epilogue = Epilogue {
            sum: Sum::InOrder,
            bias: bias.map_or(Bias::None, Bias::PerColumn),
            activation,
            ..Epilogue::default()
        };
        for simd in levels() {
            let layer = Dense {
                rows: m,
                inputs: k,
                outputs: n,
            };
            let mut wanted = vec![f32::NAN; m * n];
            layer.forward(simd, &x, &w, bias, activation, &mut wanted);
            for threads in [1, 2] {
                let mut workspace = vec![0.0; gemm_workspace(simd, m, n, k, threads)];
                let mut c = vec![f32::NAN; m * n];
                let (x, w) = (Matrix::row_major(&x, k), Matrix::row_major(&w, n));
                gemm(simd, m, n, k, x, w, &mut c, &epilogue, threads, &mut workspace);
                let same = c.iter().zip(&wanted).all(|(c, y)| c.to_bits() == y.to_bits());
                assert!(same, "{case:?} {simd:?} with {threads} threads");
            }
        }
    }
}

#[test]
#[should_panic(expected = "workspace")]
fn a_short_workspace_is_refused() {
    let (a, b) = ([0.0; 4], [0.0; 4]);
    let (a, b) = (Matrix::row_major(&a, 2), Matrix::row_major(&b, 2));
    gemm(
        Simd::best(),
        2,
        2,
        2,
        a,
        b,
        &mut [0.0; 4],
        &Epilogue::default(),
        1,
        &mut [],
    );
}
