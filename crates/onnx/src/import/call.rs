//! One node being traced: its inputs, its attributes, and what its outputs may be.

use synod_engine::Tensor;
use synod_nn::{Param, Scope, StateBuffer};

use super::forms::Form;
use super::view::View;
use crate::literal::{Floats, Ints};
use crate::proto::{Attribute, NodeProto, TensorProto};

/// What a name of the ONNX graph stands for while it is traced.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A tensor of the trace.
    View(View),
    /// Whole numbers that are known: shapes, axes.
    Ints(Ints),
    /// Floats that are known.
    Floats(Floats),
    /// A parameter, kept in a form.
    Weight(Param, Form),
    /// State that is not trained.
    State(StateBuffer),
}

impl From<Tensor> for Item {
    fn from(tensor: Tensor) -> Item {
        Item::View(View::plain(tensor))
    }
}

impl From<View> for Item {
    fn from(view: View) -> Item {
        Item::View(view)
    }
}

impl From<Ints> for Item {
    fn from(ints: Ints) -> Item {
        Item::Ints(ints)
    }
}

/// The outputs of a node.
pub(super) type Outcome = Result<Vec<Item>, String>;

/// One output.
pub(super) fn one(item: impl Into<Item>) -> Outcome {
    Ok(vec![item.into()])
}

pub(super) struct Call<'a> {
    pub(super) node: &'a NodeProto,
    pub(super) inputs: Vec<Option<&'a Item>>,
    pub(super) scope: &'a Scope,
    pub(super) opset: i64,
    /// Rows in the batch that is being traced.
    pub(super) batch: usize,
    /// The batch size that the file was exported for, if it is fixed.
    pub(super) fixed: Option<i64>,
}

impl Call<'_> {
    pub(super) fn op(&self) -> &str {
        &self.node.op_type
    }

    /// An input that must be there.
    pub(super) fn item(&self, i: usize) -> Result<&Item, String> {
        self.optional(i).ok_or_else(|| format!("input {i} is missing"))
    }

    pub(super) fn optional(&self, i: usize) -> Option<&Item> {
        self.inputs.get(i).copied().flatten()
    }

    /// An input as a tensor of the trace.
    pub(super) fn view(&self, i: usize) -> Result<View, String> {
        Ok(match self.item(i)? {
            Item::View(view) => view.clone(),
            Item::Ints(ints) => literal(&ints.to_floats()),
            Item::Floats(floats) => literal(floats),
            Item::Weight(param, Form::Plain) => View::plain(self.scope.get(*param).clone()),
            Item::Weight(_, form) => return Err(format!("input {i} is kept as {form:?}")),
            Item::State(buffer) => View::plain(self.scope.buffer(*buffer)),
        })
    }

    /// An input as a tensor with its axes in order.
    pub(super) fn tensor(&self, i: usize) -> Result<Tensor, String> {
        Ok(self.view(i)?.in_order())
    }

    /// A weight in the form that this node wants.
    pub(super) fn formed(&self, i: usize) -> Result<Tensor, String> {
        let wanted = Form::wanted(self.node, i);
        match self.item(i)? {
            Item::Weight(param, form) if *form == wanted => Ok(self.scope.get(*param).clone()),
            _ => wanted.apply(&self.tensor(i)?),
        }
    }

    /// An input that must be known whole numbers.
    pub(super) fn ints(&self, i: usize) -> Result<&Ints, String> {
        match self.item(i)? {
            Item::Ints(ints) => Ok(ints),
            _ => Err(format!(
                "input {i} must be known when the model is imported, and depends on its data"
            )),
        }
    }

    /// An input that must be a known number.
    pub(super) fn number(&self, i: usize) -> Result<f32, String> {
        match self.item(i)? {
            Item::Floats(f) if f.values.len() == 1 => Ok(f.values[0]),
            Item::Ints(f) if f.values.len() == 1 => Ok(f.values[0] as f32),
            _ => Err(format!("input {i} must be one number that is known")),
        }
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.node.attribute.iter().find(|a| a.name == name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).and_then(|a| a.i).unwrap_or(default)
    }

    pub(super) fn float(&self, name: &str, default: f32) -> f32 {
        self.attribute(name).and_then(|a| a.f).unwrap_or(default)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        let bytes = self.attribute(name)?.s.as_deref()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let all = self.attribute(name).map_or(&[][..], |a| &a.strings);
        all.iter()
            .map(|s| String::from_utf8_lossy(s).into_owned())
            .collect()
    }

    pub(super) fn int_list(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|a| a.ints.as_slice())
    }

    pub(super) fn float_list(&self, name: &str) -> Option<&[f32]> {
        self.attribute(name).map(|a| a.floats.as_slice())
    }

    pub(super) fn literal(&self, name: &str) -> Option<&TensorProto> {
        self.attribute(name)?.t.as_ref()
    }

    /// Whole numbers that newer opsets give as input `i` and older ones as an attribute.
    pub(super) fn list(&self, i: usize, name: &str) -> Result<Option<Vec<i64>>, String> {
        match self.optional(i) {
            Some(_) => self.ints(i).map(|x| Some(x.values.clone())),
            None => Ok(self.int_list(name).map(<[i64]>::to_vec)),
        }
    }
}

/// A known tensor as part of the trace.
pub(super) fn literal(floats: &Floats) -> View {
    View::plain(Tensor::new(floats.values.clone(), floats.dims.as_slice()))
}

/// The axis that a possibly negative number names.
pub(super) fn axis(number: i64, rank: usize) -> Result<usize, String> {
    let moved = if number < 0 {
        number.checked_add(rank as i64)
    } else {
        Some(number)
    };
    moved
        .and_then(|a| usize::try_from(a).ok())
        .filter(|&a| a < rank)
        .ok_or_else(|| format!("axis {number} is not one of {rank}"))
}

/// Distinct axes, ascending.
pub(super) fn axes(numbers: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    let mut axes: Vec<usize> = numbers.iter().map(|&n| axis(n, rank)).collect::<Result<_, _>>()?;
    axes.sort_unstable();
    match axes.windows(2).any(|w| w[0] == w[1]) {
        true => Err(format!("axes {numbers:?} name one axis twice")),
        false => Ok(axes),
    }
}
