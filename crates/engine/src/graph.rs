//! The one intermediate representation: a pure function in A-normal form.
//!
//! Every op is applied to names, in evaluation order; every value is defined once and typed.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Site};
use crate::ops::{Cost, Op};
use crate::types::{Shape, Type};

/// The name of a value inside one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(pub u32);

impl Value {
    /// The position in tables indexed by value.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One op applied to values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// From which values.
    pub args: Vec<Value>,
    /// The values it defines.
    pub outs: Vec<Value>,
    /// The user's source line.
    pub site: Site,
}

/// A pure function: parameters, nodes in evaluation order, outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    params: Vec<Value>,
    names: Vec<String>,
    nodes: Vec<Node>,
    outputs: Vec<Value>,
    types: Vec<Type>,
}

impl Graph {
    /// The parameters, in calling order.
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// The name of parameter `index`, for people.
    pub fn param_name(&self, index: usize) -> &str {
        self.names.get(index).map_or("", String::as_str)
    }

    /// The nodes, in evaluation order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// The number of values; every [`Value::index`] is below it.
    pub fn values(&self) -> usize {
        self.types.len()
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.types[value.index()]
    }

    /// The shape of a tensor value; a stack has the scalar shape here.
    pub fn shape(&self, value: Value) -> &Shape {
        static SCALAR: Shape = Shape::scalar();
        self.ty(value).shape().unwrap_or(&SCALAR)
    }

    /// The types of the parameters.
    pub fn param_types(&self) -> Vec<Type> {
        self.params.iter().map(|&p| self.ty(p).clone()).collect()
    }

    /// The types of the outputs.
    pub fn output_types(&self) -> Vec<Type> {
        self.outputs.iter().map(|&p| self.ty(p).clone()).collect()
    }

    /// How often each value is read by nodes and outputs.
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.values()];
        let read = self.nodes.iter().flat_map(|n| &n.args).chain(&self.outputs);
        read.for_each(|v| uses[v.index()] += 1);
        uses
    }

    /// For each value, the index of the node that defines it; parameters have none.
    pub fn definitions(&self) -> Vec<Option<usize>> {
        let mut definitions = vec![None; self.values()];
        for (i, node) in self.nodes.iter().enumerate() {
            node.outs.iter().for_each(|o| definitions[o.index()] = Some(i));
        }
        definitions
    }

    /// The cost of one node.
    pub(crate) fn node_cost(&self, node: &Node) -> Cost {
        let types = |values: &[Value]| values.iter().map(|&v| self.ty(v).clone()).collect::<Vec<_>>();
        node.op.primitive().cost(&types(&node.args), &types(&node.outs))
    }

    /// The cost of evaluating the graph once; the body of a loop counts once.
    pub fn cost(&self) -> Cost {
        self.nodes.iter().map(|n| self.node_cost(n)).sum()
    }

    /// Checks every invariant: single definition before use, and types that the ops' own rules give.
    pub fn verify(&self) -> Result<()> {
        if let Some(ty) = self.types.iter().find(|t| too_large(t)) {
            return Err(Error::Internal(format!("a value of type {ty} is too large")));
        }
        let mut defined = vec![false; self.values()];
        let mut define = |v: Value| match defined.get_mut(v.index()) {
            Some(d) if !*d => {
                *d = true;
                Ok(())
            }
            Some(_) => Err(Error::Internal(format!("value %{} is defined twice", v.0))),
            None => Err(Error::Internal(format!("value %{} has no type", v.0))),
        };
        self.params.iter().try_for_each(|&p| define(p))?;
        // The nodes are checked in order, so `seen` grows with the definitions.
        let mut seen: Vec<bool> = vec![false; self.values()];
        self.params.iter().for_each(|p| seen[p.index()] = true);
        for node in &self.nodes {
            if let Some(v) = node
                .args
                .iter()
                .find(|v| !seen.get(v.index()).copied().unwrap_or(false))
            {
                return Err(Error::Internal(format!(
                    "{}: value %{} is read before it is defined",
                    node.op, v.0
                )));
            }
            // Type rules read the types of inner graphs, so these must be sound first.
            for inner in node.op.graphs() {
                inner.verify()?;
            }
            let args: Vec<&Type> = node.args.iter().map(|&v| self.ty(v)).collect();
            let types = infer(&node.op, &args, &node.site)?;
            if types.len() != node.outs.len() {
                return Err(Error::Internal(format!(
                    "{} defines {} values",
                    node.op,
                    node.outs.len()
                )));
            }
            for (&out, ty) in node.outs.iter().zip(&types) {
                define(out)?;
                if self.ty(out) != ty {
                    let found = self.ty(out);
                    return Err(Error::Internal(format!(
                        "{}: type {found} recorded, {ty} inferred",
                        node.op
                    )));
                }
                seen[out.index()] = true;
            }
        }
        match self
            .outputs
            .iter()
            .find(|v| !seen.get(v.index()).copied().unwrap_or(false))
        {
            Some(v) => Err(Error::Internal(format!("output %{} is never defined", v.0))),
            None => Ok(()),
        }
    }
}

/// The op's own type rule, with errors that name op, arguments and source line.
fn infer(op: &Op, args: &[&Type], site: &Site) -> Result<Vec<Type>> {
    let fail = |problem: String| Error::Op {
        op: op.primitive().name(),
        arguments: match args {
            [] => "no arguments".into(),
            _ => args
                .iter()
                .map(|t| t.to_string())
                .collect::<Vec<_>>()
                .join(" and "),
        },
        problem,
        site: site.clone(),
    };
    let types = op.primitive().infer(args).map_err(fail)?;
    match types.iter().find(|t| too_large(t)) {
        Some(t) => Err(fail(format!("the result {t} is too large"))),
        None => Ok(types),
    }
}

/// True for a tensor with more elements than can be counted safely, also inside a stack.
fn too_large(ty: &Type) -> bool {
    match ty {
        Type::Tensor(shape) => shape.checked_elements().is_none(),
        Type::Stack(frame) => frame.iter().any(too_large),
    }
}

/// Builds a graph node by node.
///
/// The first mistake is kept and returned by [`Builder::finish`]; later calls still give values, so rules that emit
/// many nodes need no error handling of their own.
#[derive(Debug, Default)]
pub struct Builder {
    graph: Graph,
    defined_by: Vec<Option<u32>>,
    site: Site,
    error: Option<Error>,
}

impl Builder {
    /// An empty graph.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Sets the source line that following nodes carry.
    pub fn at(&mut self, site: &Site) {
        self.site = site.clone();
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.graph.ty(value)
    }

    /// The shape of a tensor value.
    pub fn shape(&self, value: Value) -> Shape {
        self.graph.shape(value).clone()
    }

    /// The graph as far as it is built.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The node that defines a value; parameters have none.
    pub fn definition(&self, value: Value) -> Option<&Node> {
        self.defined_by[value.index()].map(|i| &self.graph.nodes[i as usize])
    }

    /// The first mistake made so far.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Records a mistake, unless there is an earlier one.
    pub fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    fn define(&mut self, ty: Type) -> Value {
        self.graph.types.push(ty);
        self.defined_by.push(None);
        Value(self.graph.types.len() as u32 - 1)
    }

    /// Adds a parameter.
    pub fn param(&mut self, mut ty: Type, name: &str) -> Value {
        if too_large(&ty) {
            let problem = format!("parameter `{name}` of type {ty} is too large");
            self.fail(Error::Trace {
                problem,
                site: self.site.clone(),
            });
            ty = Type::scalar();
        }
        let value = self.define(ty);
        self.graph.params.push(value);
        self.graph.names.push(name.to_owned());
        value
    }

    /// Applies an op and returns the values it defines.
    pub fn apply(&mut self, op: impl Into<Op>, args: &[Value]) -> Vec<Value> {
        let op = op.into();
        let types: Vec<&Type> = args.iter().map(|&v| self.graph.ty(v)).collect();
        match infer(&op, &types, &self.site) {
            Ok(types) => {
                let outs: Vec<Value> = types.into_iter().map(|t| self.define(t)).collect();
                let node = Node {
                    op,
                    args: args.to_vec(),
                    outs: outs.clone(),
                    site: self.site.clone(),
                };
                outs.iter()
                    .for_each(|o| self.defined_by[o.index()] = Some(self.graph.nodes.len() as u32));
                self.graph.nodes.push(node);
                outs
            }
            Err(error) => {
                self.fail(error);
                let outs = op.primitive().outputs_after_error();
                (0..outs).map(|_| self.define(Type::scalar())).collect()
            }
        }
    }

    /// Applies an op that defines one value.
    pub fn one(&mut self, op: impl Into<Op>, args: &[Value]) -> Value {
        self.apply(op, args)[0]
    }

    /// Copies a node of another graph, with its arguments renamed.
    pub fn copy(&mut self, node: &Node, args: &[Value]) -> Vec<Value> {
        self.at(&node.site);
        self.apply(node.op.clone(), args)
    }

    /// Copies all nodes of `graph`, its parameters replaced by `args`; returns what its outputs have become.
    pub fn inline(&mut self, graph: &Graph, args: &[Value]) -> Vec<Value> {
        let names = self.inline_all(graph, args);
        graph.outputs.iter().map(|o| names[o.index()]).collect()
    }

    /// Like [`Builder::inline`], and returns the new name of every value of `graph`.
    pub fn inline_all(&mut self, graph: &Graph, args: &[Value]) -> Vec<Value> {
        let mut names = vec![Value(u32::MAX); graph.values()];
        if args.len() != graph.params.len() {
            let problem = format!("{} arguments for {} parameters", args.len(), graph.params.len());
            self.fail(Error::Internal(problem));
            let zero = self.define(Type::scalar());
            return vec![zero; graph.values()];
        }
        for (p, a) in graph.params.iter().zip(args) {
            names[p.index()] = *a;
        }
        for node in &graph.nodes {
            let args: Vec<Value> = node.args.iter().map(|a| names[a.index()]).collect();
            let outs = self.copy(node, &args);
            node.outs.iter().zip(outs).for_each(|(o, v)| names[o.index()] = v);
        }
        names
    }

    /// Closes the graph.
    pub fn finish(mut self, outputs: &[Value]) -> Result<Graph> {
        self.graph.outputs = outputs.to_vec();
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.graph),
        }
    }
}

/// Starts a builder with the parameters of `graph`.
pub(crate) fn with_params_of(graph: &Graph) -> (Builder, Vec<Value>) {
    let mut b = Builder::new();
    let params = (0..graph.params.len())
        .map(|i| b.param(graph.ty(graph.params[i]).clone(), graph.param_name(i)))
        .collect();
    (b, params)
}
