//! Batch normalisation while training, and its gradient: two ops whose meanings are graphs of ordinary ops.

use serde::{Deserialize, Serialize};

use super::{Applied, Cost, Primitive, arity, tensor, traffic};
use crate::graph::{Builder, Graph, Value};
use crate::tensor::Tensor;
use crate::trace::trace;
use crate::types::{Shape, Type};
use crate::{grad, vmap};

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchNormRole {
    /// `(x [.., channels], scale [channels], shift [channels]) -> (y [.., channels], mean [channels], variance [channels])`,
    /// the variance biased.
    Forward,
    /// `(x, scale, shift, mean, variance, cotangents of y) -> (cotangents of x, of the scale, of the shift)`.
    Backward,
}

/// See [`BatchNormRole`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchNorm {
    /// Forward or backward.
    pub role: BatchNormRole,
    /// Added to the variance.
    pub eps: f32,
    /// Whether negative results become zero.
    pub relu: bool,
}

impl BatchNorm {
    fn backward(self) -> BatchNorm {
        BatchNorm {
            role: BatchNormRole::Backward,
            ..self
        }
    }

    /// The op in ordinary ops, on arguments of these types.
    pub fn meaning(&self, args: &[Type]) -> Graph {
        let traced = trace(args, |args| match self.role {
            BatchNormRole::Forward => self.normalise(args),
            BatchNormRole::Backward => self.pull_back(args),
        });
        traced.unwrap_or_default()
    }

    fn normalise(&self, args: &[Tensor]) -> Vec<Tensor> {
        let [x, scale, shift] = [0, 1, 2].map(|i| &args[i]);
        let axes = rows(x);
        let mean = x.mean(&axes);
        let centred = x - &mean;
        let variance = (&centred * &centred).mean(&axes);
        let y = centred * (scale / (&variance + self.eps).sqrt()) + shift;
        let y = if self.relu { y.relu() } else { y };
        vec![y, mean, variance]
    }

    fn pull_back(&self, args: &[Tensor]) -> Vec<Tensor> {
        let [x, scale, shift, mean, variance, d] = [0, 1, 2, 3, 4, 5].map(|i| &args[i]);
        let axes = rows(x);
        let centred = x - mean;
        let inverse = (variance + self.eps).sqrt().recip();
        let gain = scale * &inverse;
        let d = match self.relu {
            true => {
                let zero = Tensor::zeros(x.shape().clone());
                zero.less(&centred * &gain + shift).select(d, &zero)
            }
            false => d.clone(),
        };
        let product = &d * &centred;
        let d_scale = product.sum(&axes) * &inverse;
        let dx = (&d - d.mean(&axes) - centred * (product.mean(&axes) * &inverse * &inverse)) * gain;
        vec![dx, d_scale, d.sum(&axes)]
    }
}

/// All axes but the last.
fn rows(x: &Tensor) -> Vec<usize> {
    (0..x.shape().rank().saturating_sub(1)).collect()
}

impl Primitive for BatchNorm {
    fn name(&self) -> String {
        let role = match self.role {
            BatchNormRole::Forward => "batch_norm",
            BatchNormRole::Backward => "batch_norm.backward",
        };
        let relu = if self.relu { " relu" } else { "" };
        format!("{role}[eps {}{relu}]", self.eps)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        let count = match self.role {
            BatchNormRole::Forward => 3,
            BatchNormRole::Backward => 6,
        };
        arity(args, count)?;
        let x = tensor(args, 0)?;
        let Some(&channels) = x.dims().last() else {
            return Err("the first argument is a scalar, and has no channels".into());
        };
        let per_channel: Shape = [channels].into();
        for i in 1..count {
            let (found, wanted) = (tensor(args, i)?, if i == 5 { x } else { &per_channel });
            if found != wanted {
                return Err(format!(
                    "argument {} is {found}, but must be {wanted} for {x}",
                    i + 1
                ));
            }
        }
        Ok([x.clone(), per_channel.clone(), per_channel]
            .map(Type::Tensor)
            .to_vec())
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        if let (BatchNormRole::Forward, &[x, scale, shift], &[_, mean, variance], &[Some(d), None, None]) =
            (self.role, at.args, at.outs, d)
        {
            let given = b.apply(self.backward(), &[x, scale, shift, mean, variance, d]);
            return given.into_iter().map(Some).collect();
        }
        let types: Vec<Type> = at.args.iter().map(|&a| b.ty(a).clone()).collect();
        grad::inline_pullback(b, &self.meaning(&types), at.args, d, at.wanted)
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let single = |(&a, &is): (&Value, &bool)| match (b.ty(a), is) {
            (Type::Tensor(s), true) => Type::tensor(&s.dims()[1..]),
            (ty, _) => ty.clone(),
        };
        let types: Vec<Type> = args.iter().zip(batched).map(single).collect();
        vmap::inline_batched(b, &self.meaning(&types), args, batched, n)
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        let per_element = match self.role {
            BatchNormRole::Forward => 6,
            BatchNormRole::Backward => 9,
        };
        Cost {
            flops: args[0].slots() as u64 * per_element,
            bytes: traffic(args, outs),
        }
    }

    fn outputs_after_error(&self) -> usize {
        3
    }
}
