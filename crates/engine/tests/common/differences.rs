//! Derivatives by central differences of the `f64` interpreter.

use synod_engine::{Graph, grad, interpret};

use super::{Rng, agree, directional, scalar_loss};

const TOLERANCE: f64 = 1e-6;

fn evaluate(graph: &Graph, args: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, String> {
    interpret(graph, args).map_err(|e| format!("{e}\n{graph}"))
}

/// The derivative of all outputs along one direction, by Richardson's extrapolation of central differences.
pub fn along(
    graph: &Graph,
    args: &[Vec<f64>],
    direction: &[Vec<f64>],
    step: f64,
) -> Result<Vec<Vec<f64>>, String> {
    let moved = |h: f64| -> Result<Vec<Vec<f64>>, String> {
        let pairs = args.iter().zip(direction);
        let at: Vec<Vec<f64>> = pairs
            .map(|(a, d)| a.iter().zip(d).map(|(a, d)| a + h * d).collect())
            .collect();
        evaluate(graph, &at)
    };
    let slope = |h: f64| -> Result<Vec<Vec<f64>>, String> {
        let (up, down) = (moved(h)?, moved(-h)?);
        let one =
            |(u, d): (&Vec<f64>, &Vec<f64>)| u.iter().zip(d).map(|(u, d)| (u - d) / (2.0 * h)).collect();
        Ok(up.iter().zip(&down).map(one).collect())
    };
    let (coarse, fine) = (slope(step)?, slope(step / 2.0)?);
    let better = |(c, f): (&Vec<f64>, &Vec<f64>)| c.iter().zip(f).map(|(c, f)| (4.0 * f - c) / 3.0).collect();
    Ok(coarse.iter().zip(&fine).map(better).collect())
}

fn zeros(args: &[Vec<f64>]) -> Vec<Vec<f64>> {
    args.iter().map(|a| vec![0.0; a.len()]).collect()
}

/// First derivatives of a scalar graph, element by element.
pub fn first(loss: &Graph, args: &[Vec<f64>], wrt: &[usize], step: f64) -> Result<(), String> {
    let slope = grad(loss, wrt).map_err(|e| e.to_string())?;
    slope.verify().map_err(|e| e.to_string())?;
    let found = evaluate(&slope, args)?;
    for (&p, found) in wrt.iter().zip(&found) {
        let mut wanted = vec![];
        for i in 0..args[p].len() {
            let mut direction = zeros(args);
            direction[p][i] = 1.0;
            wanted.push(along(loss, args, &direction, step)?[0][0]);
        }
        agree(
            &format!("first derivative by parameter {p}"),
            found,
            &wanted,
            TOLERANCE,
            1e-3,
        )?;
    }
    Ok(())
}

/// The derivative of a gradient graph along a random direction `v`, which is also the gradient of `gradient · v`.
/// Returns the scalar graph `gradient · v`, one order higher than `loss`.
pub fn next_order(
    loss: &Graph,
    args: &[Vec<f64>],
    wrt: &[usize],
    step: f64,
    rng: &mut Rng,
) -> Result<Graph, String> {
    let gradient = grad(loss, wrt).map_err(|e| e.to_string())?;
    let mut direction = zeros(args);
    wrt.iter()
        .for_each(|&p| direction[p] = rng.directions(args[p].len()));
    let chosen: Vec<Vec<f64>> = wrt.iter().map(|&p| direction[p].clone()).collect();
    let product = directional(&gradient, &chosen);
    let second = grad(&product, wrt).map_err(|e| e.to_string())?;
    second.verify().map_err(|e| e.to_string())?;
    let (found, wanted) = (
        evaluate(&second, args)?,
        along(&gradient, args, &direction, step)?,
    );
    for ((found, wanted), p) in found.iter().zip(&wanted).zip(wrt) {
        agree(
            &format!("second derivative by parameter {p}"),
            found,
            wanted,
            TOLERANCE,
            1e-3,
        )?;
    }
    Ok(product)
}

/// First and second derivatives of every output of a graph agree with central differences.
pub fn derivatives(graph: &Graph, args: &[Vec<f64>], wrt: &[usize], step: f64) -> Result<(), String> {
    let mut rng = Rng(7);
    let loss = scalar_loss(graph, &mut rng);
    first(&loss, args, wrt, step)?;
    next_order(&loss, args, wrt, step, &mut rng).map(|_| ())
}
