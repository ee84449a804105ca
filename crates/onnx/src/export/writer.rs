//! The nodes and tensors of the file, as they are written.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::fold::transposed;
use crate::proto::{
    Attribute, Dimension, NodeProto, TensorProto, TensorShape, TensorType, TypeProto, ValueInfo, element,
    kind,
};

/// An extent `fixed + per_example · batch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Extent {
    pub(super) fixed: i64,
    pub(super) per_example: i64,
}

impl Extent {
    pub(super) fn fixed(extent: usize) -> Extent {
        Extent {
            fixed: extent as i64,
            per_example: 0,
        }
    }

    /// The extents that are `two` for a batch of 2 and `three` for one of 3.
    pub(super) fn of(two: &[usize], three: &[usize]) -> Vec<Extent> {
        let pair = |(&x, &y): (&usize, &usize)| {
            let per_example = y as i64 - x as i64;
            Extent {
                fixed: x as i64 - 2 * per_example,
                per_example,
            }
        };
        two.iter().zip(three).map(pair).collect()
    }

    pub(super) fn is_fixed(self) -> bool {
        self.per_example == 0
    }
}

/// What a node's attribute may be.
#[derive(Clone, Debug)]
pub(super) enum Setting {
    Int(i64),
    Ints(Vec<i64>),
}

/// Address, extents and order of known numbers.
type KnownAs = (usize, Vec<usize>, Vec<usize>);

#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) nodes: Vec<NodeProto>,
    pub(super) tensors: Vec<TensorProto>,
    names: HashSet<String>,
    lists: HashMap<Vec<i64>, String>,
    shapes: HashMap<Vec<Extent>, String>,
    batch: Option<String>,
    count: usize,
    /// Where known numbers were written; holding them keeps the address theirs.
    known: HashMap<KnownAs, (String, Arc<[f32]>)>,
}

impl Writer {
    /// A name that nothing has yet, like this one.
    pub(super) fn fresh(&mut self, like: &str) -> String {
        let mut name = like.to_owned();
        while name.is_empty() || name == "output" || !self.names.insert(name.clone()) {
            self.count += 1;
            name = format!("{like}.{}", self.count);
        }
        name
    }

    /// Adds a node with one output and gives that a name.
    pub(super) fn node(&mut self, op: &str, inputs: &[&str], settings: &[(&str, Setting)]) -> String {
        let output = self.fresh(&op.to_lowercase());
        self.push(op, inputs, settings, &output);
        output
    }

    /// Adds a node whose output has a given name.
    pub(super) fn named(&mut self, op: &str, inputs: &[&str], output: &str) {
        self.push(op, inputs, &[], output);
    }

    fn push(&mut self, op: &str, inputs: &[&str], settings: &[(&str, Setting)], output: &str) {
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|&i| i.to_owned()).collect(),
            output: vec![output.to_owned()],
            name: format!("node.{output}"),
            op_type: op.to_owned(),
            attribute: settings.iter().map(|(name, s)| attribute(name, s)).collect(),
            domain: String::new(),
        });
    }

    /// Adds a tensor of floats.
    pub(super) fn floats(&mut self, name: &str, dims: &[usize], values: &[f32]) -> String {
        let name = self.fresh(name);
        self.tensors.push(TensorProto {
            dims: dims.iter().map(|&d| d as i64).collect(),
            data_type: Some(element::FLOAT),
            raw_data: Some(values.iter().flat_map(|x| x.to_le_bytes()).collect()),
            name: name.clone(),
            ..TensorProto::default()
        });
        name
    }

    /// Adds known numbers with their axes in `order`; what is used often is written once.
    pub(super) fn known(
        &mut self,
        name: &str,
        dims: &[usize],
        values: &Arc<[f32]>,
        order: &[usize],
    ) -> String {
        let key = (values.as_ptr() as usize, dims.to_vec(), order.to_vec());
        if let Some((name, _)) = self.known.get(&key) {
            return name.clone();
        }
        let (dims, moved) = transposed(dims, values, order);
        let name = self.floats(name, &dims, &moved);
        self.known.insert(key, (name.clone(), values.clone()));
        name
    }

    /// A list of whole numbers; equal lists are written once.
    pub(super) fn ints(&mut self, values: &[i64]) -> String {
        if let Some(name) = self.lists.get(values) {
            return name.clone();
        }
        let name = self.fresh("ints");
        self.tensors.push(TensorProto {
            dims: vec![values.len() as i64],
            data_type: Some(element::INT64),
            raw_data: Some(values.iter().flat_map(|x| x.to_le_bytes()).collect()),
            name: name.clone(),
            ..TensorProto::default()
        });
        self.lists.insert(values.to_vec(), name.clone());
        name
    }

    /// A shape as a value of the file; extents that follow the batch are computed there.
    pub(super) fn shape(&mut self, extents: &[Extent]) -> String {
        if let Some(name) = self.shapes.get(extents) {
            return name.clone();
        }
        let name = match extents.iter().all(|e| e.is_fixed()) {
            true => self.ints(&extents.iter().map(|e| e.fixed).collect::<Vec<_>>()),
            false => {
                let parts: Vec<String> = extents.iter().map(|&e| self.extent(e)).collect();
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                self.node("Concat", &parts, &[("axis", Setting::Int(0))])
            }
        };
        self.shapes.insert(extents.to_vec(), name.clone());
        name
    }

    /// One extent as a list of one number.
    fn extent(&mut self, extent: Extent) -> String {
        if extent.is_fixed() {
            return self.ints(&[extent.fixed]);
        }
        let batch = match &self.batch {
            Some(name) => name.clone(),
            None => {
                let shape = self.node("Shape", &["input"], &[]);
                let first = self.ints(&[0]);
                let name = self.node("Gather", &[&shape, &first], &[]);
                self.batch = Some(name.clone());
                name
            }
        };
        let mut name = batch;
        if extent.per_example != 1 {
            let factor = self.ints(&[extent.per_example]);
            name = self.node("Mul", &[&name, &factor], &[]);
        }
        if extent.fixed != 0 {
            let term = self.ints(&[extent.fixed]);
            name = self.node("Add", &[&name, &term], &[]);
        }
        name
    }

    /// The value under another shape: at most one extent that follows the batch is left to the runtime.
    pub(super) fn reshape(&mut self, name: &str, extents: &[Extent]) -> String {
        let free = extents.iter().filter(|e| !e.is_fixed()).count();
        let zero = extents.iter().any(|e| e.is_fixed() && e.fixed == 0);
        let shape = match free {
            0 | 1 if !zero => {
                let list = extents.iter().map(|e| if e.is_fixed() { e.fixed } else { -1 });
                self.ints(&list.collect::<Vec<_>>())
            }
            _ => self.shape(extents),
        };
        self.node("Reshape", &[name, &shape], &[])
    }
}

fn attribute(name: &str, setting: &Setting) -> Attribute {
    let mut attribute = Attribute {
        name: name.to_owned(),
        ..Attribute::default()
    };
    attribute.r#type = Some(match setting {
        Setting::Int(i) => {
            attribute.i = Some(*i);
            kind::INT
        }
        Setting::Ints(list) => {
            attribute.ints = list.clone();
            kind::INTS
        }
    });
    attribute
}

/// The declaration of an input or output of floats.
pub(super) fn value_info(name: &str, extents: &[Extent]) -> ValueInfo {
    let dimension = |e: &Extent| match (e.fixed, e.per_example) {
        (fixed, 0) => Dimension {
            dim_value: Some(fixed),
            dim_param: None,
        },
        (0, 1) => Dimension {
            dim_value: None,
            dim_param: Some("batch".into()),
        },
        _ => Dimension::default(),
    };
    ValueInfo {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorType {
                elem_type: Some(element::FLOAT),
                shape: Some(TensorShape {
                    dim: extents.iter().map(dimension).collect(),
                }),
            }),
        }),
    }
}
