//! Branches and loops whose conditions are data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Cost, Empty, NotEmpty, Pop, Primitive, Push, Select, broadcast_all, traffic};
use crate::grad;
use crate::graph::{Builder, Graph, Value};
use crate::types::Type;
use crate::vmap;

/// `(condition, operands...)`: calls one of two graphs on the operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct If {
    /// Called when the condition is not zero.
    pub then: Arc<Graph>,
    /// Called when it is zero.
    pub otherwise: Arc<Graph>,
}

fn matches(what: &str, graph: &Graph, args: &[&Type]) -> Result<(), String> {
    let wanted = graph.param_types();
    if wanted.iter().eq(args.iter().copied()) {
        return Ok(());
    }
    let list =
        |types: &mut dyn Iterator<Item = &Type>| types.map(|t| t.to_string()).collect::<Vec<_>>().join(", ");
    Err(format!(
        "the {what} takes ({}) and is given ({})",
        list(&mut wanted.iter()),
        list(&mut args.iter().copied())
    ))
}

impl Primitive for If {
    fn name(&self) -> String {
        "if".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        let Some((condition, operands)) = args.split_first() else {
            return Err("it needs a condition".into());
        };
        if !condition.is_scalar() {
            return Err(format!("the condition is {condition}, not a scalar"));
        }
        matches("branch", &self.then, operands)?;
        matches("other branch", &self.otherwise, operands)?;
        let (then, otherwise) = (self.then.output_types(), self.otherwise.output_types());
        if then.len() != otherwise.len() {
            return Err(format!(
                "one branch gives {} values, the other {}",
                then.len(),
                otherwise.len()
            ));
        }
        if let Some((a, b)) = then.iter().zip(&otherwise).find(|(a, b)| a != b) {
            return Err(format!("one branch gives {a} where the other gives {b}"));
        }
        Ok(then)
    }

    /// Each side recomputes its own forward pass, so nothing but the operands is kept.
    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let wanted = &at.wanted[1..];
        let full: Vec<Value> = d
            .iter()
            .zip(at.outs)
            .map(|(d, &o)| d.unwrap_or_else(|| b.zero_like(o)))
            .collect();
        let sides = (
            grad::pullback(&self.then, wanted),
            grad::pullback(&self.otherwise, wanted),
        );
        let (then, otherwise) = match sides {
            (Ok(then), Ok(otherwise)) => (Arc::new(then), Arc::new(otherwise)),
            (Err(e), _) | (_, Err(e)) => {
                b.fail(e);
                return vec![None; at.args.len()];
            }
        };
        let mut given = b
            .apply(If { then, otherwise }, &[at.args, &full].concat())
            .into_iter();
        let mut result = vec![None];
        result.extend(wanted.iter().map(|&w| if w { given.next() } else { None }));
        result
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let operands = broadcast_all(b, &args[1..], &batched[1..], n);
        let all = vec![true; operands.len()];
        if !batched[0] {
            let side = |g: &Graph| {
                vmap::batch_graph(g, &all, n)
                    .map(Arc::new)
                    .map_err(|e| e.to_string())
            };
            let branches = If {
                then: side(&self.then)?,
                otherwise: side(&self.otherwise)?,
            };
            return Ok(b.apply(branches, &[&args[..1], &operands].concat()));
        }
        // Different elements take different sides: compute both and choose.
        let then = vmap::inline_batched(b, &self.then, &operands, &all, n)?;
        let otherwise = vmap::inline_batched(b, &self.otherwise, &operands, &all, n)?;
        let pick = then
            .iter()
            .zip(&otherwise)
            .map(|(&x, &y)| choose(b, args[0], x, y));
        pick.collect()
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        Axes::whole(args, outs)
    }

    /// The dearer side.
    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        let (x, y) = (self.then.cost(), self.otherwise.cost());
        let inner = if x.flops >= y.flops { x } else { y };
        inner
            + Cost {
                flops: 0,
                bytes: traffic(args, outs),
            }
    }

    fn outputs_after_error(&self) -> usize {
        self.then.outputs().len()
    }
}

/// `select` with one condition per batch element.
fn choose(b: &mut Builder, condition: Value, x: Value, y: Value) -> Result<Value, String> {
    let Type::Tensor(shape) = b.ty(x).clone() else {
        return Err(
            "a branch or loop that depends on the batch element carries a tape; apply vmap before grad"
                .into(),
        );
    };
    let spread = b.one(super::Broadcast { axes: vec![0], shape }, &[condition]);
    Ok(b.one(Select, &[spread, x, y]))
}

/// `(state..., captures...)`: while `cond(state, captures)` is not zero, `state = body(state, captures)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct While {
    /// Gives one scalar.
    pub cond: Arc<Graph>,
    /// Gives the next state.
    pub body: Arc<Graph>,
}

impl While {
    /// How many values the loop carries.
    pub fn carried(&self) -> usize {
        self.body.outputs().len()
    }

    /// The same loop that also pushes every state it passes on a tape, carried after the state.
    pub(crate) fn taped(&self) -> crate::Result<While> {
        let k = self.carried();
        let state = &self.body.param_types()[..k];
        let tape = Type::Stack(state.into());
        let wrap = |g: &Graph, push: bool| {
            let mut b = Builder::new();
            let state: Vec<Value> = state.iter().map(|t| b.param(t.clone(), "state")).collect();
            let mut top = b.param(tape.clone(), "tape");
            let captures: Vec<Value> = g.param_types()[k..]
                .iter()
                .map(|t| b.param(t.clone(), "capture"))
                .collect();
            if push {
                top = b.one(Push, &[&[top][..], &state].concat());
            }
            let mut outs = b.inline(g, &[&state[..], &captures].concat());
            if push {
                outs.push(top);
            }
            b.finish(&outs).map(Arc::new)
        };
        Ok(While {
            cond: wrap(&self.cond, false)?,
            body: wrap(&self.body, true)?,
        })
    }

    /// The loop that pops the tape, recomputes each body and pulls cotangents back through it. It carries the tape, the
    /// state's cotangents and the sums of the wanted captures' cotangents.
    fn untaped(&self, wanted: &[bool]) -> crate::Result<While> {
        let k = self.carried();
        let types = self.body.param_types();
        let (state, captures) = types.split_at(k);
        let kept: Vec<usize> = (0..captures.len()).filter(|&i| wanted[k + i]).collect();
        let params = |b: &mut Builder| {
            let tape = b.param(Type::Stack(state.into()), "tape");
            let d: Vec<Value> = state.iter().map(|t| b.param(t.clone(), "d state")).collect();
            let sums: Vec<Value> = kept
                .iter()
                .map(|&i| b.param(captures[i].clone(), "d capture"))
                .collect();
            let captures: Vec<Value> = captures.iter().map(|t| b.param(t.clone(), "capture")).collect();
            (tape, d, sums, captures)
        };
        let mut b = Builder::new();
        let (tape, ..) = params(&mut b);
        let more = b.one(NotEmpty, &[tape]);
        let cond = b.finish(&[more])?;

        let mut b = Builder::new();
        let (tape, d, sums, captures) = params(&mut b);
        let popped = b.apply(Pop, &[tape]);
        let wanted: Vec<bool> = (0..types.len()).map(|i| i < k || wanted[i]).collect();
        let pulled = grad::pullback(&self.body, &wanted)?;
        let pulled = b.inline(&pulled, &[&popped[1..], &captures, &d].concat());
        let mut outs = vec![popped[0]];
        outs.extend(&pulled[..k]);
        for (&sum, &more) in sums.iter().zip(&pulled[k..]) {
            outs.push(b.sum_of(sum, more));
        }
        Ok(While {
            cond: cond.into(),
            body: b.finish(&outs)?.into(),
        })
    }
}

impl Primitive for While {
    fn name(&self) -> String {
        "while".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        matches("loop's condition", &self.cond, args)?;
        matches("loop's body", &self.body, args)?;
        match &self.cond.output_types()[..] {
            [ty] if ty.is_scalar() => {}
            _ => return Err("the loop's condition is not one scalar".into()),
        }
        let next = self.body.output_types();
        for (i, ty) in next.iter().enumerate() {
            match args.get(i) {
                Some(&before) if before == ty => {}
                Some(before) => {
                    return Err(format!("the loop turns state {} from {before} into {ty}", i + 1));
                }
                None => return Err("the loop's body gives more values than it takes".into()),
            }
        }
        Ok(next)
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let k = self.carried();
        let (Some(tape), Ok(back)) = (at.tape, self.untaped(at.wanted)) else {
            b.fail(crate::Error::Internal(
                "a loop was differentiated without its tape".into(),
            ));
            return vec![None; at.args.len()];
        };
        let mut args = vec![tape];
        for (d, &out) in d.iter().zip(at.outs) {
            args.push(d.unwrap_or_else(|| b.zero_like(out)));
        }
        let kept: Vec<usize> = (k..at.args.len()).filter(|&i| at.wanted[i]).collect();
        for &i in &kept {
            args.push(b.zero_like(at.args[i]));
        }
        args.extend(&at.args[k..]);
        let given = b.apply(back, &args);
        let mut result = vec![None; at.args.len()];
        (0..k).for_each(|i| result[i] = Some(given[1 + i]));
        kept.iter()
            .enumerate()
            .for_each(|(j, &i)| result[i] = Some(given[1 + k + j]));
        result
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let k = self.carried();
        let args = broadcast_all(b, args, batched, n);
        let all = vec![true; args.len()];
        let text = |e: crate::Error| e.to_string();
        let cond = vmap::batch_graph(&self.cond, &all, n).map_err(text)?;
        let body = vmap::batch_graph(&self.body, &all, n).map_err(text)?;
        // Elements that are done keep their state while any other goes on.
        let mut any = Builder::new();
        let params: Vec<Value> = cond.param_types().into_iter().map(|t| any.param(t, "")).collect();
        let more = any.inline(&cond, &params)[0];
        // Conditions count as true by not being zero, of whatever sign, so they become ones before they are summed.
        let (one, zero) = (any.full_like(1.0, more), any.full_like(0.0, more));
        let ones = any.one(Select, &[more, one, zero]);
        let count = any.one(
            super::Reduce {
                kind: super::Reduction::Sum,
                axes: vec![0],
            },
            &[ones],
        );
        let any = any.finish(&[count]).map_err(text)?;

        let mut step = Builder::new();
        let params: Vec<Value> = body
            .param_types()
            .into_iter()
            .map(|t| step.param(t, ""))
            .collect();
        let more = step.inline(&cond, &params)[0];
        let next = step.inline(&body, &params);
        let kept: Result<Vec<Value>, String> = (0..k)
            .map(|i| choose(&mut step, more, next[i], params[i]))
            .collect();
        let step = step.finish(&kept?).map_err(text)?;
        Ok(b.apply(
            While {
                cond: any.into(),
                body: step.into(),
            },
            &args,
        ))
    }

    /// One pass of the loop; how many there will be is not known.
    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        self.cond.cost()
            + self.body.cost()
            + Cost {
                flops: 0,
                bytes: traffic(args, outs),
            }
    }

    fn outputs_after_error(&self) -> usize {
        self.carried()
    }
}

/// The empty tape of a loop.
pub(crate) fn empty_tape(b: &mut Builder, of: &While) -> Value {
    let frame: Arc<[Type]> = of.body.param_types()[..of.carried()].into();
    b.one(Empty { frame }, &[])
}
