//! From an ONNX file to a model that predicts, is evaluated, trained on and stored like any other.

mod call;
mod elementwise;
mod forms;
mod images;
mod integers;
mod linear;
mod plan;
mod recurrent;
mod shapes;
#[cfg(test)]
mod tests;
mod view;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use prost::Message;
use synod_engine::Tensor;
use synod_nn::{Initializer, Model, Scope};

use crate::error::{Error, Result, fault};
use crate::proto::{ModelProto, NodeProto};
use call::{Call, Item, Outcome};
use plan::{Plan, Source};
use view::View;

/// Values larger than this many numbers per example are refused.
const LARGEST: usize = 1 << 28;

/// How a model is taken over.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Images go in as Synod's own, `[height, width, channels]`, instead of as the file says,
    /// `[channels, height, width]`.
    pub channels_last: bool,
    /// The output that the model gives; the file's first without one.
    pub output: Option<String>,
    /// The shape of one example, in the file's order, where the file leaves it open.
    pub example: Option<Vec<usize>>,
}

impl Import {
    /// Reads a file.
    pub fn file(&self, path: &Path) -> Result<Model> {
        let bytes = std::fs::read(path).map_err(|e| fault(path, format!("cannot be read: {e}")))?;
        self.bytes(&bytes, path)
    }

    /// Understands the bytes of a file, which may come from anywhere; `name` stands in errors.
    ///
    /// Weights become parameters in the order and layout of Synod's own layers; running estimates of batch normalisations
    /// become buffers, which training moves. Dropout is left out; noise is drawn while training only.
    pub fn bytes(&self, bytes: &[u8], name: &Path) -> Result<Model> {
        let file = ModelProto::decode(bytes).map_err(|e| {
            fault(
                name,
                format!("damaged or not an ONNX file: {e} ({} bytes)", bytes.len()),
            )
        })?;
        let plan = Plan::new(&file, self).map_err(|problem| match problem {
            plan::Problem::Field(problem) => fault(name, problem),
            plan::Problem::Unsupported(ops) => Error::Unsupported {
                path: name.to_owned(),
                ops,
            },
        })?;
        drop(file);
        self.build(plan, name)
    }

    fn build(&self, plan: Plan, name: &Path) -> Result<Model> {
        let problem: RefCell<Option<Error>> = RefCell::new(None);
        let mut example = plan.example.clone();
        if self.channels_last && example.len() == 3 {
            example = vec![example[1], example[2], example[0]];
        }
        let weights = plan.weights();
        let model = Model::build(example, 0, |setup| {
            let mut items: HashMap<String, Item> = HashMap::new();
            for (weight, source) in &plan.sources {
                let item = match source {
                    Source::Ints(ints) => Item::Ints(ints.clone()),
                    Source::Floats(floats) => Item::Floats(floats.clone()),
                    Source::Weight { form, value } => {
                        let param = setup.param(weight, value.shape(), Initializer::Constant(0.0));
                        Item::Weight(param, *form)
                    }
                    Source::Buffer(value) => Item::State(setup.buffer(weight, value.shape(), 0.0)),
                };
                items.insert(weight.clone(), item);
            }
            let (plan, problem) = (&plan, &problem);
            move |scope: &Scope, x: &Tensor| match self.trace(plan, &items, scope, x) {
                Ok(output) => output,
                Err((node, what)) => {
                    problem.borrow_mut().get_or_insert_with(|| Error::Node {
                        path: name.to_owned(),
                        node,
                        problem: what,
                    });
                    x.clone()
                }
            }
        });
        if let Some(error) = problem.into_inner() {
            return Err(error);
        }
        let mut model = model.map_err(|e| fault(name, e.to_string()))?;
        let (parameters, buffers) = weights.map_err(|p| fault(name, p))?;
        if parameters.len() != model.parameters().len() || buffers.len() != model.buffers().len() {
            return Err(fault(name, "the weights do not fill the parameters"));
        }
        model.parameters_mut().copy_from_slice(&parameters);
        model.buffers_mut().copy_from_slice(&buffers);
        check_sizes(&model).map_err(|p| fault(name, p))?;
        Ok(model)
    }

    /// Traces all nodes; on a mistake, the node and what is wrong with it.
    fn trace(
        &self,
        plan: &Plan,
        sources: &HashMap<String, Item>,
        scope: &Scope,
        x: &Tensor,
    ) -> Result<Tensor, (String, String)> {
        let input = match (self.channels_last, x.shape().rank()) {
            (true, 4) => View::images(x.clone()),
            _ => View::plain(x.clone()),
        };
        let mut made: HashMap<&str, Item> = HashMap::from([(plan.input.as_str(), input.into())]);
        for node in &plan.nodes {
            let fail = |problem: String| (title(node), problem);
            let outcome = {
                let find = |name: &String| made.get(name.as_str()).or_else(|| sources.get(name));
                let missing = node.input.iter().find(|n| !n.is_empty() && find(n).is_none());
                if let Some(missing) = missing {
                    return Err(fail(format!("input `{missing}` is defined nowhere before it")));
                }
                let call = Call {
                    node,
                    inputs: node.input.iter().map(find).collect(),
                    scope,
                    opset: plan.opset,
                    batch: x.shape().dims()[0],
                    fixed: plan.fixed,
                };
                apply(&call).map_err(fail)?
            };
            for (name, item) in node.output.iter().zip(outcome) {
                if let Item::View(view) = &item
                    && let Some(error) = view.tensor().error()
                {
                    return Err(fail(described(error)));
                }
                made.insert(name, item);
            }
        }
        let end = |problem: &str| (format!("`{}`, the output", plan.output), problem.to_owned());
        match made.get(plan.output.as_str()) {
            Some(Item::View(view)) => Ok(view.in_order()),
            Some(_) => Err(end("does not depend on the input")),
            None => Err(end("is defined by no node")),
        }
    }
}

fn title(node: &NodeProto) -> String {
    match node.name.as_str() {
        "" => format!("that gives `{}` ({})", node.output.join("`, `"), node.op_type),
        name => format!("`{name}` ({})", node.op_type),
    }
}

/// The engine's word on an op, without the line of this crate that applied it.
fn described(error: &synod_engine::Error) -> String {
    match error {
        synod_engine::Error::Op {
            op,
            arguments,
            problem,
            ..
        } => format!("`{op}` cannot take {arguments}: {problem}"),
        other => other.to_string(),
    }
}

fn check_sizes(model: &Model) -> std::result::Result<(), String> {
    let graph = model.graph(1).map_err(|e| e.to_string())?;
    let sizes = graph.nodes().iter().flat_map(|n| &n.outs).map(|&o| graph.ty(o));
    match sizes.into_iter().find(|t| t.slots() > LARGEST) {
        Some(ty) => Err(format!(
            "a value is {ty}, more than {LARGEST} numbers per example"
        )),
        None => Ok(()),
    }
}

/// What an op is traced by.
type Handler = fn(&Call<'_>) -> Outcome;

fn apply(call: &Call<'_>) -> Outcome {
    match handler(call.op()) {
        Some(handler) => handler(call),
        None => Err("the op is not supported".into()),
    }
}

fn handler(op: &str) -> Option<Handler> {
    Some(match op {
        "Relu" | "Sigmoid" | "Tanh" | "Erf" | "Sqrt" | "Exp" | "Log" | "Abs" | "Sign" | "Sin" | "Cos"
        | "Floor" | "Reciprocal" | "Neg" | "Not" | "Softplus" | "LeakyRelu" | "Elu" | "HardSigmoid"
        | "Gelu" => elementwise::unary,
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual"
        | "Equal" | "And" | "Or" => elementwise::binary,
        "Max" | "Min" => elementwise::extreme,
        "Where" => elementwise::choose,
        "Clip" => elementwise::clip,
        "Cast" => elementwise::cast,
        "Softmax" | "LogSoftmax" => elementwise::softmax,
        "RandomNormalLike" => elementwise::noise,
        "Conv" => images::conv,
        "MaxPool" | "AveragePool" => images::pool,
        "GlobalAveragePool" | "GlobalMaxPool" => images::global_pool,
        "BatchNormalization" => images::batch_norm,
        "LayerNormalization" => images::layer_norm,
        "Gemm" => linear::gemm,
        "MatMul" => linear::matmul,
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceL2" | "ReduceSumSquare"
        | "ReduceProd" => linear::reduce,
        "LSTM" => recurrent::lstm_node,
        "GRU" => recurrent::gru_node,
        "Constant" => shapes::constant,
        "Identity" | "Dropout" => shapes::same,
        "Shape" => shapes::shape,
        "ConstantOfShape" => shapes::constant_of_shape,
        "Expand" => shapes::expand,
        "Range" => shapes::range,
        "Reshape" => shapes::reshape,
        "Flatten" => shapes::flatten,
        "Squeeze" => shapes::squeeze,
        "Unsqueeze" => shapes::unsqueeze,
        "Transpose" => shapes::transpose,
        "Concat" => shapes::concat,
        "Split" => shapes::split,
        "Slice" => shapes::slice,
        "Gather" => shapes::gather,
        "Pad" => shapes::pad,
        _ => return None,
    })
}
