//! Bringing held values into the order and extents that an op of ONNX needs.

use super::held::{Held, Place};
use super::writer::{Extent, Setting, Writer};

impl Writer {
    /// The name of a tensor whose axis `i` is the value's axis `order[i]`; repeated axes have extent 1.
    pub(super) fn arranged(&mut self, value: &Held, order: &[usize]) -> String {
        match &value.place {
            Place::Known { name, values } => self.known(name, &known_dims(value), values, order),
            Place::Named { name, order: held } => {
                let place = |axis: &usize| held.iter().position(|a| a == axis).unwrap_or(*axis);
                let perm: Vec<usize> = order.iter().map(place).collect();
                if perm.iter().copied().eq(0..perm.len()) {
                    return name.clone();
                }
                let extents = value.held_extents();
                let one = Extent::fixed(1);
                let moved = perm.iter().filter(|&&p| extents[held[p]] != one);
                let moved: Vec<usize> = moved.copied().collect();
                if moved.is_sorted() {
                    let wanted: Vec<Extent> = order.iter().map(|&a| extents[a]).collect();
                    return self.reshape(name, &wanted);
                }
                let perm = perm.iter().map(|&p| p as i64).collect();
                self.node("Transpose", &[name], &[("perm", Setting::Ints(perm))])
            }
        }
    }

    /// The name of a tensor that is the value: axes in order, repetitions made.
    pub(super) fn plain(&mut self, value: &Held) -> Result<String, String> {
        self.full(value, &(0..value.rank()).collect::<Vec<_>>())
    }

    /// Like [`Writer::arranged`], with repetitions made.
    pub(super) fn full(&mut self, value: &Held, order: &[usize]) -> Result<String, String> {
        let name = self.arranged(value, order);
        if !value.repeated.contains(&true) {
            return Ok(name);
        }
        let extents: Vec<Extent> = order.iter().map(|&a| value.extents[a]).collect();
        let shape = self.shape(&extents);
        Ok(self.node("Expand", &[&name, &shape], &[]))
    }
}

/// The extents of known numbers.
pub(super) fn known_dims(value: &Held) -> Vec<usize> {
    // Known numbers never follow the batch unless repeated along it.
    value
        .held_extents()
        .iter()
        .map(|e| e.fixed.max(0) as usize)
        .collect()
}
