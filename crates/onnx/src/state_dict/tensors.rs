//! The tensors of a safetensors file as floats.

use std::collections::BTreeMap;

use safetensors::{Dtype, SafeTensors};

use crate::literal::half;

/// One tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub(super) dims: Vec<usize>,
    pub(super) values: Vec<f32>,
}

/// All tensors by name; whole numbers (counters) become floats too.
pub(super) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Array>, String> {
    let file =
        SafeTensors::deserialize(bytes).map_err(|e| format!("damaged or not a safetensors file ({e})"))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter() {
        let values = floats(view.dtype(), view.data())
            .ok_or_else(|| format!("tensor `{name}` is {:?}, which Synod does not read", view.dtype()))?;
        let dims = view.shape().to_vec();
        tensors.insert(name.to_owned(), Array { dims, values });
    }
    Ok(tensors)
}

fn floats(kind: Dtype, data: &[u8]) -> Option<Vec<f32>> {
    fn words<const N: usize>(data: &[u8], f: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        data.as_chunks::<N>().0.iter().map(|w| f(*w)).collect()
    }
    Some(match kind {
        Dtype::F32 => words(data, f32::from_le_bytes),
        Dtype::F64 => words(data, |w| f64::from_le_bytes(w) as f32),
        Dtype::F16 => words(data, |w| half(u16::from_le_bytes(w))),
        Dtype::BF16 => words(data, |[a, b]: [u8; 2]| f32::from_le_bytes([0, 0, a, b])),
        Dtype::I64 => words(data, |w| i64::from_le_bytes(w) as f32),
        Dtype::I32 => words(data, |w| i32::from_le_bytes(w) as f32),
        _ => return None,
    })
}
