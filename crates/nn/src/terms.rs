//! Terms that others add to a training loss: a pull towards given parameters, and a slope.

use std::ops::Range;

use synod_engine::{Graph, Shape, Tensor, Type, trace_named};

use crate::error::Result;
use crate::parameters::Entry;

/// Which terms a [`Trainer`](crate::Trainer) adds to its loss. Federated learning corrects what clients learn with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Half a strength times the squared distance to an anchor, see [`Trainer::set_anchor`](crate::Trainer::set_anchor).
    pub proximal: bool,
    /// The product of the parameters and a slope, see [`Trainer::set_slope`](crate::Trainer::set_slope).
    pub linear: bool,
}

impl Terms {
    /// How many inputs the terms add to a step of a model with `count` parameters: the anchor and its strength, the slope.
    pub(crate) fn inputs(self, count: usize) -> usize {
        let (proximal, linear) = (usize::from(self.proximal), usize::from(self.linear));
        proximal * (count + 1) + linear * count
    }

    /// Those inputs, split where kinds meet: each part lies side by side in memory.
    pub(crate) fn ranges(self, all: Range<usize>) -> Vec<Range<usize>> {
        let count = match (self.proximal, self.linear) {
            (false, false) => return vec![],
            (true, false) => all.len() - 1,
            (false, true) => all.len(),
            (true, true) => (all.len() - 1) / 2,
        };
        let mut ranges = vec![];
        let mut at = all.start;
        if self.proximal {
            ranges.extend([at..at + count, at + count..at + count + 1]);
            at += count + 1;
        }
        if self.linear {
            ranges.push(at..at + count);
        }
        ranges
    }
}

/// `(what the loss takes..., [anchor..., strength], [slope...]) -> (loss with the terms, what else it gives...)`.
pub(crate) fn add(loss: Graph, entries: &[Entry], terms: Terms) -> Result<Graph> {
    if terms == Terms::default() {
        return Ok(loss);
    }
    let own: Vec<(Type, String)> = loss
        .param_types()
        .into_iter()
        .enumerate()
        .map(|(i, ty)| (ty, loss.param_name(i).to_owned()))
        .collect();
    let count = own.len();
    let like = |prefix: &str| -> Vec<(Type, String)> {
        let named = |e: &Entry| (Type::tensor(&e.shape), format!("{prefix}/{}", e.name));
        entries.iter().map(named).collect()
    };
    let mut params = own;
    if terms.proximal {
        params.extend(like("anchor"));
        params.push((Type::tensor([1]), "strength".into()));
    }
    if terms.linear {
        params.extend(like("slope"));
    }
    let named: Vec<(Type, &str)> = params
        .iter()
        .map(|(ty, name)| (ty.clone(), name.as_str()))
        .collect();
    let traced = trace_named(&named, |given| {
        let mut outputs = loss.apply(&given[..count]);
        let weights = &given[..entries.len()];
        let mut further = &given[count..];
        if terms.proximal {
            let (anchor, rest) = further.split_at(entries.len());
            let (strength, rest) = rest.split_at(1);
            further = rest;
            let far = sum(weights
                .iter()
                .zip(anchor)
                .map(|(w, a)| square(&(w - a)).sum_all()));
            outputs[0] = &outputs[0] + far * strength[0].reshape(Shape::default()) * 0.5;
        }
        if terms.linear {
            let slope = sum(weights.iter().zip(further).map(|(w, s)| (w * s).sum_all()));
            outputs[0] = &outputs[0] + slope;
        }
        outputs
    });
    Ok(traced?)
}

fn square(x: &Tensor) -> Tensor {
    x * x
}

fn sum(terms: impl Iterator<Item = Tensor>) -> Tensor {
    terms.reduce(|a, b| a + b).unwrap_or_else(|| Tensor::scalar(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, Loss, Optimizer, Trainer, zoo};

    const ROWS: [f32; 12] = [0.1, 0.9, 0.3, 0.4, 0.2, 0.8, 0.7, 0.5, 0.6, 0.0, 0.3, 0.2];

    /// The parameters after steps on full and short batches.
    fn trained(terms: Terms, prepare: impl Fn(&mut Trainer)) -> Vec<f32> {
        let model = zoo::autoencoder(&[3, 5, 3], 1).expect("a model");
        let trainer = Trainer::new(&model, Loss::Mse, Optimizer::sgd(0.1), 2, true, 1).expect("compiled");
        let mut trainer = trainer.with_terms(terms).expect("compiled");
        prepare(&mut trainer);
        for rows in [&[0u32, 1][..], &[2, 3], &[1]] {
            trainer.step(&Data::itself(&ROWS, 3), rows, 0.1).expect("stepped");
        }
        trainer.parameters().to_vec()
    }

    #[test]
    fn terms_pull_and_push_each_step_as_their_gradients_say() {
        let start = zoo::autoencoder(&[3, 5, 3], 1)
            .expect("a model")
            .parameters()
            .to_vec();
        let anchor: Vec<f32> = start.iter().map(|w| w * 0.5).collect();
        let slope: Vec<f32> = (0..start.len()).map(|i| (i as f32 * 0.7).sin()).collect();
        let both = Terms {
            proximal: true,
            linear: true,
        };
        let with = trained(both, |t| {
            t.set_anchor(0.3, &anchor);
            t.set_slope(&slope);
        });
        // The oracle takes plain steps and adds the terms' gradients, at the weights before each step, by hand.
        let model = zoo::autoencoder(&[3, 5, 3], 1).expect("a model");
        let mut plain = Trainer::new(&model, Loss::Mse, Optimizer::sgd(0.1), 2, true, 1).expect("compiled");
        for rows in [&[0u32, 1][..], &[2, 3], &[1]] {
            let before = plain.parameters().to_vec();
            plain.step(&Data::itself(&ROWS, 3), rows, 0.1).expect("stepped");
            let further = before
                .iter()
                .zip(&anchor)
                .zip(&slope)
                .map(|((w, a), s)| 0.3 * (w - a) + s);
            let moved: Vec<f32> = plain
                .parameters()
                .iter()
                .zip(further)
                .map(|(w, g)| w - 0.1 * g)
                .collect();
            plain.set_parameters(&moved);
        }
        let apart = with
            .iter()
            .zip(plain.parameters())
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(apart < 1e-6, "{apart}");
    }

    #[test]
    fn each_term_works_alone_and_neither_does_anything_at_zero() {
        let plain = trained(Terms::default(), |_| {});
        let near = |a: &[f32]| a.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-6);
        let (proximal, linear) = (
            Terms {
                proximal: true,
                linear: false,
            },
            Terms {
                proximal: false,
                linear: true,
            },
        );
        assert!(near(&trained(proximal, |_| {})) && near(&trained(linear, |_| {})));
        let zeros = vec![0.0; plain.len()];
        assert!(!near(&trained(proximal, |t| t.set_anchor(1.0, &zeros))));
        assert!(!near(&trained(linear, |t| t.set_slope(&vec![1.0; zeros.len()]))));
    }
}
