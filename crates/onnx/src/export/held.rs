//! A value of the engine's graph while the file is written: known numbers, or a name with axes that are reordered and
//! repeated only when an op needs them so.

use std::sync::Arc;

use super::writer::Extent;

#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Numbers known now, row-major; not yet in the file.
    Known { name: String, values: Arc<[f32]> },
    /// A name of the file: axis `i` of its tensor is the value's axis `order[i]`.
    Named { name: String, order: Vec<usize> },
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) place: Place,
    /// The value's extents.
    pub(super) extents: Vec<Extent>,
    /// Axes along which the value is repeated; there, what is held has extent 1.
    pub(super) repeated: Vec<bool>,
}

impl Held {
    pub(super) fn known(name: &str, dims: &[usize], values: Arc<[f32]>) -> Held {
        Held {
            place: Place::Known {
                name: name.to_owned(),
                values,
            },
            extents: dims.iter().map(|&d| Extent::fixed(d)).collect(),
            repeated: vec![false; dims.len()],
        }
    }

    pub(super) fn data(name: String, extents: Vec<Extent>, order: Vec<usize>) -> Held {
        Held {
            place: Place::Named { name, order },
            repeated: vec![false; extents.len()],
            extents,
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.extents.len()
    }

    /// The only number of a known value that has one; repetition makes no difference.
    pub(super) fn number(&self) -> Option<f32> {
        match &self.place {
            Place::Known { values, .. } if values.len() == 1 => Some(values[0]),
            _ => None,
        }
    }

    /// The extents of what is held: 1 where it is repeated.
    pub(super) fn held_extents(&self) -> Vec<Extent> {
        let pairs = self.extents.iter().zip(&self.repeated);
        pairs
            .map(|(&e, &r)| if r { Extent::fixed(1) } else { e })
            .collect()
    }

    pub(super) fn transposed(&self, order: &[usize]) -> Option<Held> {
        let Place::Named { name, order: held } = &self.place else {
            return None;
        };
        // The value's new axis of each of its old ones.
        let mut new = vec![0; order.len()];
        order.iter().enumerate().for_each(|(i, &a)| new[a] = i);
        Some(Held {
            place: Place::Named {
                name: name.clone(),
                order: held.iter().map(|&a| new[a]).collect(),
            },
            extents: order.iter().map(|&a| self.extents[a]).collect(),
            repeated: order.iter().map(|&a| self.repeated[a]).collect(),
        })
    }
}
