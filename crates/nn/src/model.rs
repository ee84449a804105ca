//! The model: parameters, and graphs for any batch size.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use synod_engine::ops::KEY;
use synod_engine::{
    Graph, ModelFile, NamedTensor, Options, Session, Shape, Template, Tensor, Type, compile, trace_named,
};

use crate::data::Data;
use crate::error::{Error, Result};
use crate::layers::Layer;
use crate::loss::Loss;
use crate::optimizer::Optimizer;
use crate::parameters::{Layout, Scope, Setup};

/// Rows that inference and evaluation handle at once.
const CHUNK: usize = 1024;

/// Where training stands, kept with the model so that it can go on, bit for bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The loss being minimised.
    pub loss: Loss,
    /// The optimiser.
    pub optimizer: Optimizer,
    /// Rows per step.
    pub batch: usize,
    /// The seed of shuffling and dropout.
    pub seed: u64,
    /// Epochs done.
    pub epoch: usize,
    /// Steps done.
    pub step: u64,
    /// The optimiser's state: for each of its tensors a flat buffer like the parameters'.
    #[serde(skip)]
    pub states: Vec<f32>,
}

/// A function with parameters that can be fitted, evaluated, used and stored.
///
/// A model from a file is the same thing as one built from layers: both hold graphs, and everything works on those.
#[derive(Clone, Debug)]
pub struct Model {
    layout: Layout,
    parameters: Vec<f32>,
    input: Shape,
    output: Shape,
    predict: Template,
    train: Template,
    pub(crate) progress: Option<Progress>,
}

impl Model {
    /// Makes a model for examples of shape `input`: `make` creates its layers, which are then traced.
    pub fn build<L: Layer>(
        input: impl Into<Shape>,
        seed: u64,
        make: impl FnOnce(&mut Setup) -> L,
    ) -> Result<Model> {
        let input = input.into();
        let mut setup = Setup::new(seed);
        let layer = make(&mut setup);
        let layout = setup.layout;
        let traced = |batch: usize, training: bool| -> synod_engine::Result<Graph> {
            let mut params: Vec<(Type, &str)> = layout
                .entries()
                .iter()
                .map(|e| (Type::tensor(&e.shape), e.name.as_str()))
                .collect();
            let count = params.len();
            if training {
                params.push((Type::tensor([KEY]), "key"));
            }
            params.push((Type::tensor(input.batched(batch)), "input"));
            trace_named(&params, |given| {
                let key = training.then(|| given[count].clone());
                let scope = Scope {
                    tensors: given[..count].to_vec(),
                    key,
                    salt: 0.into(),
                };
                vec![layer.forward(&scope, &given[given.len() - 1])]
            })
        };
        let predict = Template::new(|batch| traced(batch, false))?;
        let train = Template::new(|batch| traced(batch, true))?;
        let output = output_shape(&predict)?;
        Ok(Model {
            layout,
            parameters: setup.values,
            input,
            output,
            predict,
            train,
            progress: None,
        })
    }

    /// Names, shapes and places of the parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All parameters as one flat slice.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// All parameters as one flat slice, to be written.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// One parameter by name.
    pub fn parameter(&self, name: &str) -> Option<&[f32]> {
        let entry = self.layout.entries().iter().find(|e| e.name == name)?;
        self.parameters.get(entry.range.clone())
    }

    /// The shape of one example.
    pub fn input_shape(&self) -> &Shape {
        &self.input
    }

    /// The shape of one result.
    pub fn output_shape(&self) -> &Shape {
        &self.output
    }

    /// How far training has come, if it has begun.
    pub fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// The graph of inference: `(parameters..., input) -> output`.
    pub fn graph(&self, batch: usize) -> Result<Graph> {
        Ok(self.predict.at(batch)?)
    }

    /// The graph of a training pass: `(parameters..., key, input) -> output`.
    pub(crate) fn training_graph(&self, batch: usize) -> Result<Graph> {
        Ok(self.train.at(batch)?)
    }

    /// A session of inference with the parameters loaded; parameter `layout.entries().len()` is the input.
    pub fn session(&self, batch: usize, threads: usize) -> Result<Session> {
        self.session_of(&self.graph(batch)?, threads)
    }

    fn session_of(&self, graph: &Graph, threads: usize) -> Result<Session> {
        let count = self.layout.entries().len();
        let contiguous = std::iter::once(0..count).collect();
        let program = compile(
            graph,
            &Options {
                contiguous,
                threads,
                ..Options::default()
            },
        )?;
        let mut session = Session::new(Arc::new(program));
        session
            .params_between_mut(0..count)
            .copy_from_slice(&self.parameters);
        Ok(session)
    }

    /// The outputs for any number of rows.
    pub fn predict(&self, inputs: &[f32]) -> Result<Vec<f32>> {
        let (width, out) = (self.input.elements(), self.output.elements());
        if !inputs.len().is_multiple_of(width.max(1)) {
            return Err(Error::Data(format!(
                "{} numbers are not whole rows of {width}",
                inputs.len()
            )));
        }
        let mut outputs = Vec::with_capacity(inputs.len() / width.max(1) * out);
        let count = self.layout.entries().len();
        self.chunks(
            inputs.len() / width.max(1),
            |m, n| m.session(n, 1),
            |session, rows| {
                session
                    .param_mut(count)
                    .copy_from_slice(&inputs[rows.start * width..rows.end * width]);
                session.run();
                outputs.extend_from_slice(session.output(0));
            },
        )?;
        Ok(outputs)
    }

    /// The loss over all rows.
    pub fn evaluate(&self, data: &Data<'_>, loss: Loss) -> Result<f32> {
        let (width, target) = (self.input.elements(), loss.target_width(self.output.elements()));
        data.check(width, target)?;
        // A root of means is not a mean of roots.
        let summed = if loss == Loss::Rmse { Loss::Mse } else { loss };
        let count = self.layout.entries().len();
        let make = |m: &Model, n: usize| {
            m.session_of(&loss_graph(&m.graph(n)?, summed, data.is_itself(), target)?, 1)
        };
        let mut total = 0.0;
        self.chunks(data.rows(), make, |session, rows| {
            let n = rows.len();
            session
                .param_mut(count)
                .copy_from_slice(&data.inputs()[rows.start * width..rows.end * width]);
            if let Some((targets, w)) = data.targets() {
                session
                    .param_mut(count + 1)
                    .copy_from_slice(&targets[rows.start * w..rows.end * w]);
            }
            session.run();
            total += f64::from(session.output(0)[0]) * n as f64;
        })?;
        let mean = total / data.rows() as f64;
        Ok(if loss == Loss::Rmse { mean.sqrt() } else { mean } as f32)
    }

    fn chunks(
        &self,
        rows: usize,
        make: impl Fn(&Model, usize) -> Result<Session>,
        mut run: impl FnMut(&mut Session, std::ops::Range<usize>),
    ) -> Result<()> {
        let (whole, rest) = (rows / CHUNK, rows % CHUNK);
        if whole > 0 {
            let mut session = make(self, CHUNK)?;
            (0..whole).for_each(|i| run(&mut session, i * CHUNK..(i + 1) * CHUNK));
        }
        if rest > 0 {
            run(&mut make(self, rest)?, whole * CHUNK..rows);
        }
        Ok(())
    }

    /// Stores the model, with the state of its training, so that another process can use it or train on.
    pub fn save(&self, path: &Path) -> Result<()> {
        let name = |e: &crate::parameters::Entry, prefix: &str| format!("{prefix}{}", e.name);
        let mut tensors: Vec<NamedTensor> = vec![];
        let mut add = |values: &[f32], prefix: &str| {
            tensors.extend(self.layout.entries().iter().map(|e| NamedTensor {
                name: name(e, prefix),
                shape: e.shape.clone(),
                data: values[e.range.clone()].to_vec(),
            }));
        };
        add(&self.parameters, "");
        let mut notes = BTreeMap::new();
        if let Some(progress) = &self.progress {
            for (k, state) in progress.states.chunks(self.layout.len().max(1)).enumerate() {
                add(state, &state_prefix(k));
            }
            let text = serde_json::to_string(progress).map_err(|e| Error::Data(e.to_string()))?;
            notes.insert("training".to_owned(), text);
        }
        let graphs = [("predict", &self.predict), ("train", &self.train)];
        let graphs = graphs
            .into_iter()
            .map(|(k, t)| (k.to_owned(), t.clone()))
            .collect();
        Ok(ModelFile {
            tensors,
            graphs,
            notes,
        }
        .save(path)?)
    }

    /// Loads a stored model. A damaged or foreign file is an error that says what is wrong.
    pub fn load(path: &Path) -> Result<Model> {
        let file = ModelFile::load(path)?;
        Model::from_file(file).map_err(|problem| Error::File {
            path: path.to_owned(),
            problem,
        })
    }

    pub(crate) fn from_file(file: ModelFile) -> Result<Model, String> {
        let graph = |name: &str| {
            file.graphs
                .get(name)
                .cloned()
                .ok_or(format!("the graph `{name}` is missing"))
        };
        let (predict, train) = (graph("predict")?, graph("train")?);
        let mut progress: Option<Progress> = match file.notes.get("training") {
            Some(text) => {
                Some(serde_json::from_str(text).map_err(|e| format!("the training note is damaged: {e}"))?)
            }
            None => None,
        };
        let states = progress.as_ref().map_or(0, |p| p.optimizer.rule.states());
        if file.tensors.is_empty() || !file.tensors.len().is_multiple_of(1 + states) {
            return Err(format!(
                "{} tensors are not parameters and {states} states of each",
                file.tensors.len()
            ));
        }
        let count = file.tensors.len() / (1 + states);
        let (mut layout, mut parameters) = (Layout::default(), vec![]);
        for t in &file.tensors[..count] {
            layout.push(t.name.clone(), t.shape.clone());
            parameters.extend_from_slice(&t.data);
        }
        for (i, t) in file.tensors[count..].iter().enumerate() {
            let of = &file.tensors[i % count];
            if t.name != format!("{}{}", state_prefix(i / count), of.name) || t.shape != of.shape {
                return Err(format!(
                    "`{}` is not the optimiser's state of `{}`",
                    t.name, of.name
                ));
            }
            if let Some(p) = &mut progress {
                p.states.extend_from_slice(&t.data);
            }
        }
        let (input, output) = signature(&predict, &layout, false)?;
        if signature(&train, &layout, true)? != (input.clone(), output.clone()) {
            return Err("the graphs of training and inference differ in input or output".into());
        }
        Ok(Model {
            layout,
            parameters,
            input,
            output,
            predict,
            train,
            progress,
        })
    }
}

fn state_prefix(k: usize) -> String {
    format!("optimizer.{k}/")
}

fn output_shape(predict: &Template) -> Result<Shape> {
    let graph = predict.at(1)?;
    let shape = graph
        .outputs()
        .first()
        .map(|&o| graph.shape(o).clone())
        .unwrap_or_default();
    match shape.dims() {
        [1, rest @ ..] => Ok(rest.into()),
        _ => Err(Error::Setting(format!(
            "a model must give one result per example, not {shape} for one example"
        ))),
    }
}

/// The shapes of an example and a result, if the graph takes just these parameters.
fn signature(template: &Template, layout: &Layout, training: bool) -> Result<(Shape, Shape), String> {
    let graph = template.at(1).map_err(|e| e.to_string())?;
    let mut types = graph.param_types().into_iter();
    for e in layout.entries() {
        if types.next() != Some(Type::tensor(&e.shape)) {
            return Err(format!(
                "the graph does not take the parameter `{}` {}",
                e.name, e.shape
            ));
        }
    }
    if training && types.next() != Some(Type::tensor([KEY])) {
        return Err("the training graph takes no random key".into());
    }
    let per_example = |ty: Option<Type>| match ty.as_ref().and_then(Type::shape).map(Shape::dims) {
        Some([1, rest @ ..]) => Ok(Shape::from(rest)),
        _ => Err("the graph is not a function of a batch of examples".to_owned()),
    };
    let input = per_example(types.next())?;
    let outputs = graph.output_types();
    if types.next().is_some() || outputs.len() != 1 {
        return Err("the graph takes or gives too much".into());
    }
    Ok((input, per_example(outputs.into_iter().next())?))
}

/// `(what the graph takes..., [target]) -> loss`
pub(crate) fn loss_graph(graph: &Graph, loss: Loss, itself: bool, target: usize) -> Result<Graph> {
    let mut params: Vec<(Type, &str)> = graph
        .param_types()
        .into_iter()
        .enumerate()
        .map(|(i, t)| (t, graph.param_name(i)))
        .collect();
    let count = params.len();
    let output = graph
        .outputs()
        .first()
        .map(|&o| graph.shape(o).clone())
        .unwrap_or_default();
    let batch = output.dims().first().copied().unwrap_or(0);
    let shape: Shape = if loss == Loss::CrossEntropy {
        [batch, target].into()
    } else {
        output
    };
    if !itself {
        params.push((Type::Tensor(shape), "target"));
    }
    let traced = trace_named(&params, |given| {
        let output = graph.apply(&given[..count]);
        let target: &Tensor = if itself { &given[count - 1] } else { &given[count] };
        vec![loss.apply(&output[0], target)]
    });
    Ok(traced?)
}
