//! Every op against results and gradients from another framework.

mod layers;
mod plain;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Deserialize;
use synod_engine::Tensor;

use crate::tensors::{Array, Tensors};

/// Arguments of the comparison op by op.
#[derive(Args)]
pub(crate) struct ParityOps {
    /// A directory with cases.json and cases.safetensors, as `peers/parity_ops_torch.py` writes them.
    directory: PathBuf,
    /// The largest difference allowed, relative to the largest element of a tensor.
    #[arg(long, default_value_t = 1e-4)]
    tolerance: f64,
}

/// One configuration of an op. Settings that an op does not have are absent.
#[derive(Deserialize)]
struct Case {
    op: String,
    inputs: usize,
    outputs: usize,
    cotangents: usize,
    wrt: Vec<usize>,
    #[serde(default)]
    kernel: [usize; 2],
    #[serde(default)]
    stride: [usize; 2],
    #[serde(default)]
    padding: [[usize; 2]; 2],
    #[serde(default)]
    dilation: [usize; 2],
    #[serde(default)]
    groups: usize,
    #[serde(default)]
    count_padding: bool,
    #[serde(default)]
    momentum: f32,
    #[serde(default)]
    eps: f32,
    #[serde(default)]
    hidden: usize,
    #[serde(default)]
    axis: usize,
    #[serde(default)]
    low: Vec<usize>,
    #[serde(default)]
    high: Vec<usize>,
    #[serde(default)]
    start: Vec<usize>,
    #[serde(default)]
    stop: Vec<usize>,
    #[serde(default)]
    order: Vec<usize>,
    #[serde(default)]
    k: usize,
}

/// What goes into a case.
struct Given {
    inputs: Vec<Tensor>,
    cotangents: Vec<Tensor>,
}

/// What comes out of a case, flat.
struct Found {
    outputs: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
}

/// The worst differences of an op's cases so far.
struct Row {
    op: String,
    cases: usize,
    outputs: f64,
    gradients: Option<f64>,
    worst: (usize, f64),
}

impl ParityOps {
    pub(crate) fn run(&self) -> Result<()> {
        let list = self.directory.join("cases.json");
        let text = std::fs::read(&list).with_context(|| format!("reading {}", list.display()))?;
        let cases: Vec<Case> =
            serde_json::from_slice(&text).with_context(|| format!("reading {}", list.display()))?;
        let tensors = Tensors::read(&self.directory.join("cases.safetensors"))?;
        ensure!(!cases.is_empty(), "{} lists no cases", list.display());
        let mut rows: Vec<Row> = vec![];
        for (number, case) in cases.iter().enumerate() {
            let (outputs, gradients) =
                differences(number, case, &tensors).with_context(|| format!("case {number}, {}", case.op))?;
            note(&mut rows, number, case, outputs, gradients);
        }
        print(&rows, self.tolerance);
        // Written so that NaN is a failure too.
        let failed: Vec<&Row> = rows
            .iter()
            .filter(|r| r.worst.1.is_nan() || r.worst.1 > self.tolerance)
            .collect();
        match &failed[..] {
            [] => Ok(()),
            [first, ..] => bail!(
                "{} of {} ops differ by more than {:.0e}; the worst case of {} is number {} of {}",
                failed.len(),
                rows.len(),
                self.tolerance,
                first.op,
                first.worst.0,
                list.display()
            ),
        }
    }
}

/// The worst difference of outputs and of gradients.
fn differences(number: usize, case: &Case, tensors: &Tensors) -> Result<(f64, f64)> {
    let all = |kind: &str, count: usize| -> Result<Vec<&Array>> {
        (0..count)
            .map(|i| tensors.get(&format!("{number}/{kind}/{i}")))
            .collect()
    };
    let concrete = |arrays: Vec<&Array>| -> Vec<Tensor> {
        let tensor = |a: &Array| Tensor::new(a.values.clone(), &a.shape[..]);
        arrays.into_iter().map(tensor).collect()
    };
    let given = Given {
        inputs: concrete(all("input", case.inputs)?),
        cotangents: concrete(all("cotangent", case.cotangents)?),
    };
    let (outputs, gradients) = (all("output", case.outputs)?, all("gradient", case.wrt.len())?);
    let found = match layers::run(case, &given) {
        Some(found) => vec![found?],
        None => vec![plain::compiled(case, &given)?, plain::eager(case, &given)?],
    };
    let mut worst = (0.0, 0.0);
    for found in found {
        worst.0 = larger(worst.0, largest(&found.outputs, &outputs)?);
        worst.1 = larger(worst.1, largest(&found.gradients, &gradients)?);
    }
    Ok(worst)
}

/// The larger of two differences, where NaN counts as the largest.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn largest(found: &[Vec<f32>], expected: &[&Array]) -> Result<f64> {
    ensure!(
        found.len() == expected.len(),
        "{} tensors, not {}",
        found.len(),
        expected.len()
    );
    let mut worst = 0.0;
    for (found, expected) in found.iter().zip(expected) {
        let (m, n) = (found.len(), expected.values.len());
        ensure!(m == n, "{m} elements, not {n}");
        worst = larger(worst, difference(found, &expected.values));
    }
    Ok(worst)
}

/// The largest difference of two elements, relative to the largest element expected.
fn difference(found: &[f32], expected: &[f32]) -> f64 {
    let apart = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).abs();
    let most = found.iter().zip(expected).map(apart).fold(0.0, larger);
    let scale = expected.iter().map(|x| f64::from(x.abs())).fold(0.0, larger);
    if most == 0.0 { 0.0 } else { most / scale }
}

fn note(rows: &mut Vec<Row>, number: usize, case: &Case, outputs: f64, gradients: f64) {
    let worst = larger(outputs, gradients);
    let gradients = (!case.wrt.is_empty()).then_some(gradients);
    match rows.last_mut().filter(|r| r.op == case.op) {
        Some(row) => {
            row.cases += 1;
            row.outputs = larger(row.outputs, outputs);
            row.gradients = row.gradients.zip(gradients).map(|(a, b)| larger(a, b));
            if larger(row.worst.1, worst) != row.worst.1 {
                row.worst = (number, worst);
            }
        }
        None => rows.push(Row {
            op: case.op.clone(),
            cases: 1,
            outputs,
            gradients,
            worst: (number, worst),
        }),
    }
}

#[allow(clippy::print_stdout, reason = "the result of the program")]
fn print(rows: &[Row], tolerance: f64) {
    println!("{:26} {:>5}  {:>9}  {:>9}", "op", "cases", "outputs", "gradients");
    for row in rows {
        let gradients = row.gradients.map_or("–".into(), |g| format!("{g:.2e}"));
        let above = if row.worst.1 <= tolerance {
            ""
        } else {
            "  above tolerance"
        };
        println!(
            "{:26} {:>5}  {:>9.2e}  {gradients:>9}{above}",
            row.op, row.cases, row.outputs
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_relative_to_the_largest_element_and_sees_nan() {
        assert_eq!(difference(&[1.0, 10.5], &[1.0, 10.0]), 0.05);
        assert_eq!(difference(&[0.0; 2], &[0.0; 2]), 0.0);
        assert_eq!(difference(&[1e-9], &[0.0]), f64::INFINITY);
        assert!(difference(&[f32::NAN, 1.0], &[1.0, 1.0]).is_nan());
        assert!(larger(larger(f64::NAN, 1.0), 2.0).is_nan());
    }
}
