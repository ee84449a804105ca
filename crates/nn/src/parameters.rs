//! Parameters: one flat buffer with named views, and their tensors while a model is traced.

use std::ops::Range;

use synod_engine::{Shape, Tensor};

use crate::init::Initializer;

/// A named view into the flat buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, such as `layer0.weight`.
    pub name: String,
    /// The shape.
    pub shape: Shape,
    /// Where its elements lie.
    pub range: Range<usize>,
}

/// The names, shapes and places of all parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    entries: Vec<Entry>,
}

impl Layout {
    /// The views, in order and without gaps.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number of floats: the model's parameter count.
    pub fn len(&self) -> usize {
        self.entries.last().map_or(0, |e| e.range.end)
    }

    /// True without parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The view that holds element `index` of the flat buffer.
    pub fn entry_at(&self, index: usize) -> Option<&Entry> {
        self.entries.iter().find(|e| e.range.contains(&index))
    }

    pub(crate) fn push(&mut self, name: String, shape: Shape) -> usize {
        let start = self.len();
        let range = start..start + shape.elements();
        self.entries.push(Entry { name, shape, range });
        self.entries.len() - 1
    }
}

/// A parameter, as a layer holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    index: usize,
}

/// Collects the parameters of a model while its layers are made.
pub struct Setup {
    seed: u64,
    prefix: Vec<String>,
    pub(crate) layout: Layout,
    pub(crate) values: Vec<f32>,
}

impl Setup {
    pub(crate) fn new(seed: u64) -> Setup {
        Setup {
            seed,
            prefix: vec![],
            layout: Layout::default(),
            values: vec![],
        }
    }

    /// A new parameter with its initial values.
    pub fn param(&mut self, name: &str, shape: impl Into<Shape>, init: Initializer) -> Param {
        let shape = shape.into();
        let stream = self.layout.entries.len() as u32;
        self.values.extend(init.values(shape.dims(), self.seed, stream));
        let name = self
            .prefix
            .iter()
            .map(String::as_str)
            .chain([name])
            .collect::<Vec<_>>()
            .join(".");
        Param {
            index: self.layout.push(name, shape),
        }
    }

    /// Makes a part of the model whose parameters' names begin with `name`.
    pub fn within<T>(&mut self, name: &str, make: impl FnOnce(&mut Setup) -> T) -> T {
        self.prefix.push(name.to_owned());
        let made = make(self);
        self.prefix.pop();
        made
    }
}

/// What a layer sees while it is traced: the parameters' tensors, and whether the model is being trained.
pub struct Scope {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) key: Option<Tensor>,
    pub(crate) salt: std::cell::Cell<u32>,
}

impl Scope {
    /// The tensor of a parameter.
    pub fn get(&self, param: Param) -> &Tensor {
        &self.tensors[param.index]
    }

    /// True while training: dropout drops, and so on.
    pub fn training(&self) -> bool {
        self.key.is_some()
    }

    /// The step's random key and a salt of its own for every use, while training.
    pub fn key(&self) -> Option<(&Tensor, u32)> {
        self.salt.set(self.salt.get() + 1);
        self.key.as_ref().map(|k| (k, self.salt.get()))
    }
}
