//! Parameters: one flat buffer with named views; state that is not trained: another; and their tensors while a model is
//! traced.

use std::cell::{Cell, RefCell};
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

/// The names, shapes and places of all parameters, or of all buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    entries: Vec<Entry>,
}

impl Layout {
    /// The views, in order and without gaps.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number of floats; of the parameters' layout, the model's parameter count.
    pub fn len(&self) -> usize {
        self.entries.last().map_or(0, |e| e.range.end)
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The view that holds element `index` of the flat buffer.
    pub(crate) fn entry_at(&self, index: usize) -> Option<&Entry> {
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

/// State that is not trained, such as a running mean, as a layer holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBuffer {
    index: usize,
}

/// Collects the parameters and buffers of a model while its layers are made.
pub struct Setup {
    seed: u64,
    prefix: Vec<String>,
    pub(crate) layout: Layout,
    pub(crate) values: Vec<f32>,
    pub(crate) buffer_layout: Layout,
    pub(crate) buffer_values: Vec<f32>,
}

impl Setup {
    pub(crate) fn new(seed: u64) -> Setup {
        Setup {
            seed,
            prefix: vec![],
            layout: Layout::default(),
            values: vec![],
            buffer_layout: Layout::default(),
            buffer_values: vec![],
        }
    }

    /// A new parameter with its initial values.
    pub fn param(&mut self, name: &str, shape: impl Into<Shape>, init: Initializer) -> Param {
        let shape = shape.into();
        let stream = self.layout.entries.len() as u32;
        self.values.extend(init.values(shape.dims(), self.seed, stream));
        let name = self.full_name(name);
        Param {
            index: self.layout.push(name, shape),
        }
    }

    /// New state that is not trained, all elements equal at first. A training step may give it a new value with
    /// [`Scope::set_buffer`]; gradient and optimiser do not touch it.
    pub fn buffer(&mut self, name: &str, shape: impl Into<Shape>, value: f32) -> StateBuffer {
        let shape = shape.into();
        self.buffer_values
            .extend(std::iter::repeat_n(value, shape.elements()));
        let name = self.full_name(name);
        StateBuffer {
            index: self.buffer_layout.push(name, shape),
        }
    }

    fn full_name(&self, name: &str) -> String {
        let parts = self.prefix.iter().map(String::as_str).chain([name]);
        parts.collect::<Vec<_>>().join(".")
    }

    /// Makes a part of the model whose parameters' names begin with `name`.
    pub fn within<T>(&mut self, name: &str, make: impl FnOnce(&mut Setup) -> T) -> T {
        self.prefix.push(name.to_owned());
        let made = make(self);
        self.prefix.pop();
        made
    }
}

/// What a layer sees while it is traced: the tensors of parameters and buffers, and whether the model is being trained.
pub struct Scope {
    tensors: Vec<Tensor>,
    buffers: RefCell<Vec<Tensor>>,
    loss: RefCell<Option<Tensor>>,
    key: Option<Tensor>,
    salt: Cell<u32>,
}

impl Scope {
    pub(crate) fn new(tensors: Vec<Tensor>, buffers: Vec<Tensor>, key: Option<Tensor>) -> Scope {
        Scope {
            tensors,
            buffers: buffers.into(),
            loss: None.into(),
            key,
            salt: 0.into(),
        }
    }

    /// The tensor of a parameter.
    pub fn get(&self, param: Param) -> &Tensor {
        &self.tensors[param.index]
    }

    /// The tensor of a buffer: as it is before the step, or as the step has set it already.
    pub fn buffer(&self, buffer: StateBuffer) -> Tensor {
        self.buffers.borrow()[buffer.index].clone()
    }

    /// Gives a buffer the value it will have after this training step; does nothing when the model is only used. Not for
    /// the inside of a loop or branch, whose tensors end with it.
    pub fn set_buffer(&self, buffer: StateBuffer, value: Tensor) {
        if self.training() {
            self.buffers.borrow_mut()[buffer.index] = value;
        }
    }

    /// Adds a scalar to the loss of this training step, such as a divergence or a penalty on activations; does nothing when
    /// the model is only used. Not for the inside of a loop or branch, whose tensors end with it.
    pub fn add_loss(&self, term: Tensor) {
        if self.training() {
            let mut loss = self.loss.borrow_mut();
            *loss = Some(match loss.take() {
                Some(sum) => sum + term,
                None => term,
            });
        }
    }

    /// What a training step gives beside the output: the buffers, and the loss that layers have added.
    pub(crate) fn into_rest(self) -> Vec<Tensor> {
        let buffers = self.buffers.into_inner();
        buffers.into_iter().chain(self.loss.into_inner()).collect()
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
