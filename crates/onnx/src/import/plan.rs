//! What is known of a file before anything is traced: which nodes matter, what goes in and out, and how weights are kept.

use std::collections::{BTreeMap, HashMap, HashSet};

use synod_engine::{Shape, Tensor};

use super::Import;
use super::forms::Form;
use crate::literal::{Floats, Ints, Literal};
use crate::proto::{GraphProto, ModelProto, NodeProto, ValueInfo};

pub(super) enum Problem {
    /// A field is wrong.
    Field(String),
    /// Ops are missing.
    Unsupported(String),
}

impl From<String> for Problem {
    fn from(problem: String) -> Problem {
        Problem::Field(problem)
    }
}

/// Where a name that no node defines comes from.
pub(super) enum Source {
    Ints(Ints),
    Floats(Floats),
    /// A parameter, already in its form.
    Weight {
        form: Form,
        value: Tensor,
    },
    Buffer(Tensor),
}

pub(super) struct Plan {
    /// The nodes that the output depends on, in order.
    pub(super) nodes: Vec<NodeProto>,
    /// In the order of the file, so that the parameters' order is stable.
    pub(super) sources: Vec<(String, Source)>,
    pub(super) input: String,
    pub(super) output: String,
    /// The shape of one example in the file's order.
    pub(super) example: Vec<usize>,
    /// The batch size, if the file fixes one.
    pub(super) fixed: Option<i64>,
    pub(super) opset: i64,
}

impl Plan {
    pub(super) fn new(file: &ModelProto, options: &Import) -> Result<Plan, Problem> {
        let graph = file
            .graph
            .as_ref()
            .ok_or_else(|| "not an ONNX model: the field `graph` is missing".to_owned())?;
        let output = chosen_output(graph, options)?;
        let nodes = needed(graph, &output);
        check_ops(&nodes)?;
        let literals = literals(graph)?;
        let (input, dims) = the_input(graph, &literals)?;
        let (fixed, example) = example(input, dims, options)?;
        let nodes: Vec<NodeProto> = nodes
            .into_iter()
            .filter(|n| !is_copy(n, &literals))
            .cloned()
            .collect();
        let mut copies = literals;
        for node in graph.node.iter().filter(|n| n.op_type == "Identity") {
            // A copy of a weight is a weight of its own: exporters merge equal ones, training must not.
            let original = node.input.first().and_then(|name| copies.get(name)).cloned();
            if let (Some(original), Some(name)) = (original, node.output.first()) {
                copies.insert(name.clone(), original);
            }
        }
        let sources = sources(graph, &nodes, &copies)?;
        let standard = |d: &str| d.is_empty() || d == "ai.onnx";
        let opset = file.opset_import.iter().find(|o| standard(&o.domain));
        Ok(Plan {
            nodes,
            sources,
            input: input.name.clone(),
            output,
            example,
            fixed,
            opset: opset.and_then(|o| o.version).unwrap_or(13),
        })
    }

    /// The values of all parameters and of all buffers, one after the other.
    pub(super) fn weights(&self) -> Result<(Vec<f32>, Vec<f32>), String> {
        let (mut parameters, mut buffers) = (vec![], vec![]);
        for (name, source) in &self.sources {
            let (value, to) = match source {
                Source::Weight { value, .. } => (value, &mut parameters),
                Source::Buffer(value) => (value, &mut buffers),
                _ => continue,
            };
            to.extend_from_slice(value.values().map_err(|e| format!("tensor `{name}`: {e}"))?);
        }
        Ok((parameters, buffers))
    }
}

fn chosen_output(graph: &GraphProto, options: &Import) -> Result<String, String> {
    let names: Vec<&str> = graph.output.iter().map(|o| o.name.as_str()).collect();
    let known = || format!("the outputs are `{}`", names.join("`, `"));
    match &options.output {
        Some(name) if names.contains(&name.as_str()) => Ok(name.clone()),
        Some(name) => Err(format!("there is no output `{name}`; {}", known())),
        None => names
            .first()
            .map(|n| (*n).to_owned())
            .ok_or_else(|| "the field `graph.output` is empty".into()),
    }
}

/// The nodes that an output depends on, in the file's order.
fn needed<'a>(graph: &'a GraphProto, output: &'a str) -> Vec<&'a NodeProto> {
    let mut wanted: HashSet<&str> = HashSet::from([output]);
    let mut nodes: Vec<&NodeProto> = vec![];
    for node in graph.node.iter().rev() {
        if node.output.iter().any(|o| wanted.contains(o.as_str())) {
            wanted.extend(node.input.iter().map(String::as_str));
            nodes.push(node);
        }
    }
    nodes.reverse();
    nodes
}

/// One error for all ops that are not known.
fn check_ops(nodes: &[&NodeProto]) -> Result<(), Problem> {
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in nodes {
        let standard = node.domain.is_empty() || node.domain == "ai.onnx";
        if !standard || super::handler(&node.op_type).is_none() {
            let op = match standard {
                true => node.op_type.clone(),
                false => format!("{}.{}", node.domain, node.op_type),
            };
            let name = match node.name.as_str() {
                "" => node.output.first().cloned().unwrap_or_default(),
                name => name.to_owned(),
            };
            missing.entry(op).or_default().push(format!("`{name}`"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let each = missing.iter().map(|(op, nodes)| {
        let shown = nodes.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
        let more = if nodes.len() > 8 { ", ..." } else { "" };
        format!("{op} x {} ({shown}{more})", nodes.len())
    });
    Err(Problem::Unsupported(each.collect::<Vec<_>>().join("; ")))
}

fn literals(graph: &GraphProto) -> Result<HashMap<String, Literal>, String> {
    let mut literals = HashMap::new();
    for (i, tensor) in graph.initializer.iter().enumerate() {
        let literal = Literal::read(tensor).map_err(|e| format!("graph.initializer[{i}]: {e}"))?;
        if literals.insert(tensor.name.clone(), literal).is_some() {
            return Err(format!("graph.initializer[{i}]: `{}` occurs twice", tensor.name));
        }
    }
    Ok(literals)
}

fn is_copy(node: &NodeProto, literals: &HashMap<String, Literal>) -> bool {
    node.op_type == "Identity" && node.input.first().is_some_and(|name| literals.contains_key(name))
}

fn the_input<'a>(
    graph: &'a GraphProto,
    literals: &HashMap<String, Literal>,
) -> Result<(&'a ValueInfo, Vec<Option<i64>>), String> {
    let inputs: Vec<&ValueInfo> = graph
        .input
        .iter()
        .filter(|i| !literals.contains_key(&i.name))
        .collect();
    let [input] = inputs.as_slice() else {
        let names: Vec<&str> = inputs.iter().map(|i| i.name.as_str()).collect();
        return Err(format!(
            "the model has {} inputs (`{}`); Synod's models have one, so export it as a function of one tensor",
            names.len(),
            names.join("`, `")
        ));
    };
    let shape = input
        .r#type
        .as_ref()
        .and_then(|t| t.tensor_type.as_ref())
        .and_then(|t| t.shape.as_ref())
        .ok_or_else(|| format!("input `{}` has no shape; export the model with one", input.name))?;
    Ok((input, shape.dim.iter().map(|d| d.dim_value).collect()))
}

/// The batch size, if fixed, and the shape of one example.
fn example(
    input: &ValueInfo,
    dims: Vec<Option<i64>>,
    options: &Import,
) -> Result<(Option<i64>, Vec<usize>), String> {
    let [batch, rest @ ..] = dims.as_slice() else {
        return Err(format!("input `{}` is a scalar, not a batch", input.name));
    };
    if let Some(given) = &options.example {
        return match given.len() == rest.len() && check_example(given) {
            true => Ok((*batch, given.clone())),
            false => Err(format!("an example of shape {given:?} does not fit {dims:?}")),
        };
    }
    let extent = |d: &Option<i64>| d.and_then(|d| usize::try_from(d).ok()).filter(|&d| d > 0);
    let extents: Option<Vec<usize>> = rest.iter().map(extent).collect();
    match extents.filter(|e| check_example(e)) {
        Some(extents) => Ok((*batch, extents)),
        None => Err(format!(
            "input `{}` leaves its shape {dims:?} open beside the batch; say what one example is",
            input.name
        )),
    }
}

fn check_example(extents: &[usize]) -> bool {
    let elements = Shape::from(extents).checked_elements();
    elements.is_some_and(|n| n > 0 && n <= super::LARGEST)
}

/// Decides what every literal is: what nodes use in one way only is kept in that form.
fn sources(
    graph: &GraphProto,
    nodes: &[NodeProto],
    literals: &HashMap<String, Literal>,
) -> Result<Vec<(String, Source)>, String> {
    let mut forms: HashMap<&str, Form> = HashMap::new();
    for node in nodes {
        for (i, name) in node.input.iter().enumerate() {
            let wanted = Form::wanted(node, i);
            forms
                .entry(name)
                .and_modify(|f| *f = if *f == wanted { wanted } else { Form::Plain })
                .or_insert(wanted);
        }
    }
    let copies = graph.node.iter().filter(|n| n.op_type == "Identity");
    let names = graph.initializer.iter().map(|t| &t.name);
    let names = names.chain(copies.filter_map(|n| n.output.first()));
    let mut sources = vec![];
    for name in names {
        let (Some(&form), Some(literal)) = (forms.get(name.as_str()), literals.get(name)) else {
            continue;
        };
        let source = match literal {
            Literal::Ints(ints) => Source::Ints(ints.clone()),
            Literal::Floats(floats) if floats.dims.is_empty() || floats.values.is_empty() => {
                Source::Floats(floats.clone())
            }
            Literal::Floats(floats) => {
                let plain = Tensor::new(floats.values.clone(), literal.dims());
                let value = form.apply(&plain).map_err(|e| format!("tensor `{name}`: {e}"))?;
                match form {
                    Form::Buffer => Source::Buffer(value),
                    form => Source::Weight { form, value },
                }
            }
        };
        sources.push((name.clone(), source));
    }
    Ok(sources)
}
