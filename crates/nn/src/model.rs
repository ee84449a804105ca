//! The model: parameters, and graphs for any batch size.

mod store;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use synod_engine::ops::KEY;
use synod_engine::{Graph, Options, Session, Shape, Template, Tensor, Type, compile, trace_named};

use crate::data::Data;
use crate::error::{Error, Result};
use crate::layers::Layer;
use crate::loss::Loss;
use crate::optimizer::Optimizer;
use crate::parameters::{Layout, Scope, Setup};

/// Rows that inference and evaluation handle at once, and numbers that one tensor may then have.
const CHUNK: usize = 1024;
const LARGEST: usize = 1 << 24;

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
    /// What the states count in: [`Rule::unit`](synod_engine::ops::Rule::unit) of the step.
    #[serde(default = "one")]
    pub unit: f32,
    /// The optimiser's state: for each of its tensors a flat buffer like the parameters'.
    #[serde(skip)]
    pub states: Vec<f32>,
}

fn one() -> f32 {
    1.0
}

impl Progress {
    /// Counts the states in the units of the step. Files from before units were used count in ones.
    pub(crate) fn convert(&mut self) -> Result<(), String> {
        if !(self.unit > 0.0 && self.unit <= 1.0) {
            return Err(format!(
                "the training note is damaged: states cannot count in {}",
                self.unit
            ));
        }
        let unit = self.optimizer.rule.unit(self.step);
        if unit != self.unit {
            let factor = self.unit / unit;
            self.states.iter_mut().for_each(|x| *x *= factor);
            self.unit = unit;
        }
        Ok(())
    }
}

/// A function with parameters that can be fitted, evaluated, used and stored.
///
/// A model from a file is the same thing as one built from layers: both hold graphs, and everything works on those.
#[derive(Clone, Debug)]
pub struct Model {
    layout: Layout,
    parameters: Vec<f32>,
    buffer_layout: Layout,
    buffers: Vec<f32>,
    input: Shape,
    output: Shape,
    predict: Template,
    train: Template,
    pub(crate) progress: Option<Progress>,
    threads: usize,
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
        let (layout, buffer_layout) = (setup.layout, setup.buffer_layout);
        let traced = |batch: usize, training: bool| -> synod_engine::Result<Graph> {
            let (count, state) = (layout.entries().len(), buffer_layout.entries().len());
            let mut params: Vec<(Type, &str)> = layout
                .entries()
                .iter()
                .chain(buffer_layout.entries())
                .map(|e| (Type::tensor(&e.shape), e.name.as_str()))
                .collect();
            if training {
                params.push((Type::tensor([KEY]), "key"));
            }
            params.push((Type::tensor(input.batched(batch)), "input"));
            trace_named(&params, |given| {
                let (tensors, rest) = given.split_at(count);
                let (buffers, rest) = rest.split_at(state);
                let key = training.then(|| rest[0].clone());
                let scope = Scope::new(tensors.to_vec(), buffers.to_vec(), key);
                let output = layer.forward(&scope, &rest[rest.len() - 1]);
                let rest = if training { scope.into_rest() } else { vec![] };
                std::iter::once(output).chain(rest).collect()
            })
        };
        let predict = Template::new(|batch| traced(batch, false))?;
        let train = Template::new(|batch| traced(batch, true))?;
        let output = output_shape(&predict)?;
        Ok(Model {
            layout,
            parameters: setup.values,
            buffer_layout,
            buffers: setup.buffer_values,
            input,
            output,
            predict,
            train,
            progress: None,
            threads: cores(),
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

    /// Names, shapes and places of the state that is not trained.
    pub fn buffer_layout(&self) -> &Layout {
        &self.buffer_layout
    }

    /// All state that is not trained as one flat slice.
    pub fn buffers(&self) -> &[f32] {
        &self.buffers
    }

    /// All state that is not trained as one flat slice, to be written.
    pub fn buffers_mut(&mut self) -> &mut [f32] {
        &mut self.buffers
    }

    /// One buffer by name.
    pub fn buffer(&self, name: &str) -> Option<&[f32]> {
        let entry = self.buffer_layout.entries().iter().find(|e| e.name == name)?;
        self.buffers.get(entry.range.clone())
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

    /// With up to `threads` threads inside large ops of `predict`, `evaluate` and `accuracy`; the default is one per core.
    /// The results do not depend on it.
    pub fn with_threads(self, threads: usize) -> Model {
        Model { threads, ..self }
    }

    /// The graph of inference: `(parameters..., buffers..., input) -> output`.
    pub fn graph(&self, batch: usize) -> Result<Graph> {
        Ok(self.predict.at(batch)?)
    }

    /// The graph of a training pass: `(parameters..., buffers..., key, input) -> (output, buffers..., [loss])`,
    /// where the loss is what layers add of their own.
    pub(crate) fn training_graph(&self, batch: usize) -> Result<Graph> {
        Ok(self.train.at(batch)?)
    }

    /// A session of inference with parameters and buffers loaded; the last parameter of the program is the input.
    pub fn session(&self, batch: usize, threads: usize) -> Result<Session> {
        self.session_of(&self.graph(batch)?, threads)
    }

    fn session_of(&self, graph: &Graph, threads: usize) -> Result<Session> {
        let (count, state) = (self.layout.entries().len(), self.buffer_layout.entries().len());
        let contiguous = vec![0..count, count..count + state];
        let program = compile(
            graph,
            &Options {
                contiguous,
                frozen: count + state,
                threads,
                ..Options::default()
            },
        )?;
        let mut session = Session::new(Arc::new(program));
        session
            .params_between_mut(0..count)
            .copy_from_slice(&self.parameters);
        session
            .params_between_mut(count..count + state)
            .copy_from_slice(&self.buffers);
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
        let count = self.first_input();
        self.chunks(
            inputs.len() / width.max(1),
            |m, n| m.session(n, m.threads),
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
        let target = loss.target_width(&self.output);
        // A root of means is not a mean of roots.
        let summed = if loss == Loss::Rmse { Loss::Mse } else { loss };
        let itself = data.is_itself();
        let mean = self.mean_over(data, target, |graph| loss_graph(graph, 0, summed, itself, target))?;
        Ok(if loss == Loss::Rmse { mean.sqrt() } else { mean } as f32)
    }

    /// The share of rows whose class is among the `k` highest scores; 1 for plain accuracy. Of equal scores the first
    /// ranks higher.
    pub fn accuracy(&self, data: &Data<'_>, k: usize) -> Result<f32> {
        let target = Loss::CrossEntropy.target_width(&self.output);
        if data.is_itself() {
            return Err(Error::Data("an accuracy needs classes as targets".into()));
        }
        let measure = |graph: &Graph| {
            measure_graph(graph, 0, false, Some(target), |output, target| {
                let rows = output
                    .shape()
                    .dims()
                    .split_last()
                    .map_or(&[][..], |(_, rows)| rows);
                output.in_top_k(&target.reshape(rows), k).mean_all()
            })
        };
        Ok(self.mean_over(data, target, measure)? as f32)
    }

    /// The mean over all rows of what `measure` makes of the inference graph.
    fn mean_over(
        &self,
        data: &Data<'_>,
        target: usize,
        measure: impl Fn(&Graph) -> Result<Graph>,
    ) -> Result<f64> {
        let (width, count) = (self.input.elements(), self.first_input());
        data.check(width, target)?;
        let make = |m: &Model, n: usize| m.session_of(&measure(&m.graph(n)?)?, m.threads);
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
        Ok(total / data.rows() as f64)
    }

    /// The position of the input among the parameters of the inference graph.
    fn first_input(&self) -> usize {
        self.layout.entries().len() + self.buffer_layout.entries().len()
    }

    fn chunks(
        &self,
        rows: usize,
        make: impl Fn(&Model, usize) -> Result<Session>,
        mut run: impl FnMut(&mut Session, std::ops::Range<usize>),
    ) -> Result<()> {
        let chunk = self.chunk()?;
        let (whole, rest) = (rows / chunk, rows % chunk);
        if whole > 0 {
            let mut session = make(self, chunk)?;
            (0..whole).for_each(|i| run(&mut session, i * chunk..(i + 1) * chunk));
        }
        if rest > 0 {
            run(&mut make(self, rest)?, whole * chunk..rows);
        }
        Ok(())
    }

    /// Fewer rows at once for models of large images.
    pub(crate) fn chunk(&self) -> Result<usize> {
        let graph = self.graph(1)?;
        let sizes = graph
            .nodes()
            .iter()
            .flat_map(|n| &n.outs)
            .map(|&o| graph.ty(o).slots());
        Ok((LARGEST / sizes.max().unwrap_or(1).max(1)).clamp(1, CHUNK))
    }
}

/// The cores of this machine.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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

/// `(what the graph takes..., [target]) -> (loss, buffers...)` for a graph that gives `(output, buffers..., [loss])`.
pub(crate) fn loss_graph(
    graph: &Graph,
    buffers: usize,
    loss: Loss,
    itself: bool,
    target: usize,
) -> Result<Graph> {
    let classes = (loss == Loss::CrossEntropy).then_some(target);
    measure_graph(graph, buffers, itself, classes, |output, target| {
        loss.apply(output, target)
    })
}

/// [`loss_graph`] for any measure of output and target; a target is shaped like the output, or holds as many classes.
pub(crate) fn measure_graph(
    graph: &Graph,
    buffers: usize,
    itself: bool,
    classes: Option<usize>,
    measure: impl FnOnce(&Tensor, &Tensor) -> Tensor,
) -> Result<Graph> {
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
    if !itself {
        let shape = classes.map_or(output, |n| [batch, n].into());
        params.push((Type::Tensor(shape), "target"));
    }
    let traced = trace_named(&params, |given| {
        let output = graph.apply(&given[..count]);
        let target: &Tensor = if itself { &given[count - 1] } else { &given[count] };
        let mut loss = measure(&output[0], target);
        if let Some(own) = output.get(1 + buffers) {
            loss = loss + own;
        }
        let kept = output[1..].iter().take(buffers).cloned();
        std::iter::once(loss).chain(kept).collect()
    });
    Ok(traced?)
}
