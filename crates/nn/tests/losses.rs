//! Losses and activations against their closed forms.

use synod_engine::Tensor;
use synod_nn::Loss;
use synod_nn::layers::Activation;

fn close(tensor: &Tensor, wanted: &[f64]) {
    let got = tensor.values().expect("a value");
    assert_eq!(got.len(), wanted.len());
    for (g, w) in got.iter().zip(wanted) {
        assert!(
            (f64::from(*g) - w).abs() <= 2e-6 * w.abs().max(1.0),
            "{got:?} {wanted:?}"
        );
    }
}

fn row(x: &[f32]) -> Tensor {
    Tensor::new(x.to_vec(), [1, x.len()])
}

#[test]
fn losses_have_their_textbook_values() {
    let (y, t) = (row(&[1.0, -2.0, 0.5]), row(&[0.0, 1.0, 0.25]));
    let e = [1.0f64, -3.0, 0.25];
    let mse = e.iter().map(|x| x * x).sum::<f64>() / 3.0;
    close(&Loss::Mse.apply(&y, &t), &[mse]);
    close(&Loss::Rmse.apply(&y, &t), &[mse.sqrt()]);
    close(&Loss::Mae.apply(&y, &t), &[4.25 / 3.0]);
    let huber = (0.5 * 0.8 * 0.8 + 0.8 * 0.2) + (0.8 * (3.0 - 0.4)) + 0.5 * 0.0625;
    close(&Loss::Huber { delta: 0.8 }.apply(&y, &t), &[huber / 3.0]);
    let bce: f64 = [(1.0f64, 0.0f64), (-2.0, 1.0), (0.5, 0.25)]
        .iter()
        .map(|(x, t)| {
            let p = 1.0 / (1.0 + (-x).exp());
            -(t * p.ln() + (1.0 - t) * (1.0 - p).ln())
        })
        .sum();
    close(&Loss::Bce.apply(&y, &t), &[bce / 3.0]);
    let exps: Vec<f64> = [1.0f64, -2.0, 0.5].iter().map(|x| x.exp()).collect();
    let cross = -(exps[2] / exps.iter().sum::<f64>()).ln();
    close(
        &Loss::CrossEntropy.apply(&y, &Tensor::new(vec![2.0], [1])),
        &[cross],
    );
}

#[test]
fn losses_stay_finite_far_out() {
    let (y, t) = (row(&[500.0, -500.0]), row(&[0.0, 1.0]));
    close(&Loss::Bce.apply(&y, &t), &[500.0]);
    close(
        &Loss::CrossEntropy.apply(&y, &Tensor::new(vec![1.0], [1])),
        &[1000.0],
    );
    close(&row(&[1000.0, 1000.0]).softmax(), &[0.5, 0.5]);
    // An exact reconstruction has a loss and a gradient, not NaN.
    let same = row(&[1.0, 2.0]);
    let (loss, gradient) =
        synod_engine::value_and_gradient(|x| Loss::Rmse.apply(&x[0], &same), std::slice::from_ref(&same))
            .expect("a gradient");
    assert!(loss.item().expect("a loss") < 1e-18);
    close(&gradient[0], &[0.0, 0.0]);
}

#[test]
fn activations_have_their_textbook_values() {
    let xs = [-2.0f32, -0.5, 0.0, 0.5, 2.0];
    let check = |a: Activation, f: &dyn Fn(f64) -> f64| {
        close(&a.apply(&row(&xs)), &xs.map(|x| f(f64::from(x))));
    };
    check(Activation::Identity, &|x| x);
    check(Activation::Relu, &|x| x.max(0.0));
    check(Activation::LeakyRelu(0.1), &|x| {
        if x > 0.0 { x } else { f64::from(0.1f32) * x }
    });
    check(Activation::Sigmoid, &|x| 1.0 / (1.0 + (-x).exp()));
    check(Activation::Tanh, &f64::tanh);
    // Φ(0.5) and Φ(2) from tables of the normal distribution.
    let phi = |x: f64| match x.abs() {
        0.0 => 0.5,
        0.5 => 0.691_462_461_274_013,
        _ => 0.977_249_868_051_821,
    };
    check(Activation::Gelu, &|x| {
        x * if x < 0.0 { 1.0 - phi(x) } else { phi(x) }
    });
    let total: f64 = xs.iter().map(|x| f64::from(*x).exp()).sum();
    check(Activation::Softmax, &|x| x.exp() / total);
}
