//! The README's example, as it stands there.

use synod_engine::{Mode, Tensor, set_mode, value_and_gradient};
use synod_engine_macros::graph;

#[graph]
fn settle(x: Tensor, rate: &Tensor) -> Tensor {
    let mut h = x;
    while (&h * &h).sum_all() > 1.0 {
        h = &h * rate;
    }
    if h.sum_all() > 0.0 {
        h.sum_all()
    } else {
        -h.sum_all()
    }
}

#[test]
fn the_readmes_function_gives_the_same_value_and_slopes_in_both_modes() -> synod_engine::Result<()> {
    let (x, rate) = (Tensor::new(vec![3.0, 4.0], [2]), Tensor::scalar(0.5));
    // |x| = 5 falls below 1 after three halvings: (3 + 4) / 8.
    let eager = settle(x.clone(), &rate).item()?;
    assert_eq!(eager, 0.875);
    let gradients = |x: &Tensor, rate: &Tensor| {
        value_and_gradient(|a| settle(a[0].clone(), &a[1]), &[x.clone(), rate.clone()])
    };
    let (_, before) = gradients(&x, &rate)?;
    set_mode(Mode::Graph);
    assert_eq!(settle(x.clone(), &rate).item()?, eager);
    let (value, after) = gradients(&x, &rate)?;
    assert_eq!(value.item()?, eager);
    // d/dx = rate³ and d/drate = 3 rate² (3 + 4).
    for slopes in [before, after] {
        assert_eq!(slopes[0].values()?, [0.125, 0.125]);
        assert_eq!(slopes[1].item()?, 5.25);
    }
    Ok(())
}
