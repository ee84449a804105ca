//! Models as files.

use std::collections::BTreeMap;
use std::path::Path;

use synod_engine::ops::KEY;
use synod_engine::{ModelFile, NamedTensor, Shape, Template, Type};

use super::{Model, Progress};
use crate::error::{Error, Result};
use crate::parameters::Layout;

/// Names of buffers in a file begin with this.
const BUFFER: &str = "buffer/";

impl Model {
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
        tensors.extend(self.buffer_layout.entries().iter().map(|e| NamedTensor {
            name: format!("{BUFFER}{}", e.name),
            shape: e.shape.clone(),
            data: self.buffers[e.range.clone()].to_vec(),
        }));
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
        let is_buffer = |t: &NamedTensor| t.name.starts_with(BUFFER);
        let trained = file
            .tensors
            .iter()
            .position(is_buffer)
            .unwrap_or(file.tensors.len());
        if trained == 0 || !trained.is_multiple_of(1 + states) {
            return Err(format!(
                "{trained} tensors are not parameters and {states} states of each"
            ));
        }
        let count = trained / (1 + states);
        let (mut layout, mut parameters) = (Layout::default(), vec![]);
        for t in &file.tensors[..count] {
            layout.push(t.name.clone(), t.shape.clone());
            parameters.extend_from_slice(&t.data);
        }
        for (i, t) in file.tensors[count..trained].iter().enumerate() {
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
        progress.iter_mut().try_for_each(Progress::convert)?;
        let (mut buffer_layout, mut buffers) = (Layout::default(), vec![]);
        for t in &file.tensors[trained..] {
            let name = t.name.strip_prefix(BUFFER);
            let name = name.ok_or(format!("`{}` stands among the buffers and is none", t.name))?;
            buffer_layout.push(name.to_owned(), t.shape.clone());
            buffers.extend_from_slice(&t.data);
        }
        let layouts = [&layout, &buffer_layout];
        let (input, output) = signature(&predict, layouts, false)?;
        if signature(&train, layouts, true)? != (input.clone(), output.clone()) {
            return Err("the graphs of training and inference differ in input or output".into());
        }
        Ok(Model {
            layout,
            parameters,
            buffer_layout,
            buffers,
            input,
            output,
            predict,
            train,
            progress,
            threads: super::cores(),
        })
    }
}

fn state_prefix(k: usize) -> String {
    format!("optimizer.{k}/")
}

/// The shapes of an example and a result, if the graph takes just these parameters and buffers, and in training gives the
/// buffers back, perhaps with a loss.
fn signature(template: &Template, layouts: [&Layout; 2], training: bool) -> Result<(Shape, Shape), String> {
    let graph = template.at(1).map_err(|e| e.to_string())?;
    let mut types = graph.param_types().into_iter();
    for e in layouts.into_iter().flat_map(Layout::entries) {
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
    let mut outputs = graph.output_types().into_iter();
    let output = per_example(outputs.next())?;
    let given_back: Vec<Type> = match training {
        true => layouts[1]
            .entries()
            .iter()
            .map(|e| Type::tensor(&e.shape))
            .collect(),
        false => vec![],
    };
    let kept = given_back.into_iter().all(|ty| outputs.next() == Some(ty));
    // A training graph may end with a loss of its own.
    let rest: Vec<Type> = outputs.collect();
    let ends = rest.is_empty() || training && rest == [Type::scalar()];
    if types.next().is_some() || !kept || !ends {
        return Err("the graph does not take and give what a model does".into());
    }
    Ok((input, output))
}
