//! Mistakes are found when a `#[graph]` function is compiled or traced, and the message says where.
#![deny(warnings, clippy::all)]

use synod_engine::{Mode, Tensor, Type, set_mode, trace};
use synod_engine_macros::graph;

#[test]
fn found_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

fn traced(f: impl Fn(&Tensor) -> Tensor) -> String {
    trace(&[Type::scalar()], |x| vec![f(&x[0])])
        .expect_err("a mistake")
        .to_string()
}

/// The message must start with the line on which `construct` begins, and name `variable`.
fn names(message: &str, line: u32, variable: &str) {
    assert!(
        message.starts_with(&format!("{}:{line}: ", file!())),
        "line {line}: {message}"
    );
    assert!(
        message.contains(&format!("`{variable}` is not a tensor")),
        "{variable}: {message}"
    );
}

#[graph]
fn counts(x: &Tensor) -> Tensor {
    let (mut y, mut i) = (x.clone(), 0);
    while y > 1.0 {
        y = y * 0.5;
        i += 1;
    }
    y * i as f32
}
const COUNTS: u32 = line!() - 6;

#[test]
fn a_host_integer_changed_in_a_traced_loop() {
    names(&traced(counts), COUNTS, "i");
    assert_eq!(
        counts(&Tensor::scalar(8.0)).item().unwrap(),
        3.0,
        "eagerly it is no mistake"
    );
    set_mode(Mode::Graph);
    names(
        &counts(&Tensor::scalar(8.0)).values().unwrap_err().to_string(),
        COUNTS,
        "i",
    );
}

#[graph]
fn picks(x: &Tensor) -> Tensor {
    let (mut scale, mut y) = (1.0, x * 1.0);

    if *x > 0.0 {
        y = y * 2.0;
        scale = 3.0;
    }
    y * scale
}
const PICKS: u32 = line!() - 6;

#[test]
fn a_host_number_that_differs_between_the_sides_of_a_traced_if() {
    names(&traced(picks), PICKS, "scale");
    assert_eq!(
        picks(&Tensor::scalar(1.0)).item().unwrap(),
        6.0,
        "eagerly it is no mistake"
    );
}

#[graph]
fn collects(x: &Tensor) -> Tensor {
    let mut seen = vec![x.clone()];
    if *x > 0.0 {
        seen.push(x * 2.0);
    }
    Tensor::concat(&seen.iter().map(|t| t.reshape([1])).collect::<Vec<_>>(), 0).sum_all()
}
const COLLECTS: u32 = line!() - 5;

#[test]
fn a_vector_that_grows_on_one_side_of_a_traced_if() {
    names(&traced(collects), COLLECTS, "seen");
    assert_eq!(
        collects(&Tensor::scalar(1.0)).item().unwrap(),
        3.0,
        "eagerly it is no mistake"
    );
}

#[graph]
fn chooses(x: &Tensor) -> Tensor {
    let power = if *x > 0.0 { 2.0 } else { 3.0 };
    x.pow(power)
}
const CHOOSES: u32 = line!() - 3;

#[test]
fn a_traced_if_whose_value_is_a_host_number() {
    let message = traced(chooses);
    assert!(
        message.starts_with(&format!(
            "{}:{CHOOSES}: the value of the `if` is not a tensor",
            file!()
        )),
        "{message}"
    );
}

#[graph]
fn nested(x: &Tensor) -> Tensor {
    let (mut y, mut deep) = (x.clone(), 0);
    while y > 1.0 {
        y = y * 0.5;
        if y > 2.0 {
            deep += 1;
        }
    }
    y * deep as f32
}
const NESTED: u32 = line!() - 6;

#[test]
fn the_innermost_construct_is_the_one_named() {
    names(&traced(nested), NESTED, "deep");
}

#[graph]
fn misfits(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y < 10.0 {
        y = Tensor::concat(&[y.reshape([1]), y.reshape([1])], 0);
    }
    y
}
const MISFITS: u32 = line!() - 5;

#[test]
fn a_loop_that_changes_a_shape() {
    let message = traced(misfits);
    assert!(
        message.contains(&format!("{}:{MISFITS}", file!())) && message.contains("[2]"),
        "{message}"
    );
}
