//! Tensors that stand in the file: checked, and as the two kinds of numbers Synod tells apart.

use std::sync::Arc;

use crate::proto::{TensorProto, element};

/// Floats, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Floats {
    pub(crate) dims: Vec<usize>,
    pub(crate) values: Arc<[f32]>,
}

/// Whole numbers (also booleans), row-major: shapes, axes and indices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ints {
    pub(crate) dims: Vec<usize>,
    pub(crate) values: Vec<i64>,
}

impl Ints {
    pub(crate) fn vector(values: Vec<i64>) -> Ints {
        Ints {
            dims: vec![values.len()],
            values,
        }
    }

    pub(crate) fn to_floats(&self) -> Floats {
        Floats {
            dims: self.dims.clone(),
            values: self.values.iter().map(|&i| i as f32).collect(),
        }
    }
}

/// A literal of either kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Floats(Floats),
    Ints(Ints),
}

impl Literal {
    /// Understands a tensor of a file. Its extents must multiply to the number of elements that are really there, so
    /// nothing is larger than the file.
    pub(crate) fn read(tensor: &TensorProto) -> Result<Literal, String> {
        let fail = |problem: String| format!("tensor `{}`: {problem}", tensor.name);
        if tensor.data_location.unwrap_or(0) != 0 {
            return Err(fail(
                "its data lie in another file; export the model as a single file".into(),
            ));
        }
        let dims: Option<Vec<usize>> = tensor.dims.iter().map(|&d| usize::try_from(d).ok()).collect();
        let dims = dims.ok_or_else(|| fail(format!("dims {:?} has a negative extent", tensor.dims)))?;
        let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let count = count.ok_or_else(|| fail(format!("dims {dims:?} is too large")))?;
        let (literal, found) = match numbers(tensor).map_err(fail)? {
            Numbers::Floats(values) => {
                let found = values.len();
                let values = values.into();
                (Literal::Floats(Floats { dims, values }), found)
            }
            Numbers::Ints(values) => {
                let found = values.len();
                (Literal::Ints(Ints { dims, values }), found)
            }
        };
        match found == count {
            true => Ok(literal),
            false => Err(format!(
                "tensor `{}`: dims {:?} asks for {count} elements, and the data hold {found}",
                tensor.name, tensor.dims
            )),
        }
    }

    pub(crate) fn dims(&self) -> &[usize] {
        match self {
            Literal::Floats(f) => &f.dims,
            Literal::Ints(i) => &i.dims,
        }
    }
}

enum Numbers {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

fn numbers(tensor: &TensorProto) -> Result<Numbers, String> {
    let kind = tensor.data_type.unwrap_or(0);
    if let Some(raw) = tensor.raw_data.as_deref().filter(|raw| !raw.is_empty()) {
        return raw_numbers(kind, raw);
    }
    let wide = || tensor.int32_data.iter().map(|&i| i64::from(i)).collect();
    Ok(match kind {
        element::FLOAT => Numbers::Floats(tensor.float_data.clone()),
        element::DOUBLE => Numbers::Floats(tensor.double_data.iter().map(|&x| x as f32).collect()),
        element::FLOAT16 => {
            let halves = tensor.int32_data.iter().map(|&bits| half(bits as u16));
            Numbers::Floats(halves.collect())
        }
        element::INT64 => Numbers::Ints(tensor.int64_data.clone()),
        element::UINT32 | element::UINT64 => {
            Numbers::Ints(tensor.uint64_data.iter().map(|&i| i as i64).collect())
        }
        element::UINT8
        | element::INT8
        | element::UINT16
        | element::INT16
        | element::INT32
        | element::BOOL => Numbers::Ints(wide()),
        other => return Err(unknown(other)),
    })
}

fn raw_numbers(kind: i32, raw: &[u8]) -> Result<Numbers, String> {
    fn words<const N: usize, T>(raw: &[u8], f: impl Fn([u8; N]) -> T) -> Result<Vec<T>, String> {
        let (words, rest) = raw.as_chunks::<N>();
        match rest.is_empty() {
            true => Ok(words.iter().map(|w| f(*w)).collect()),
            false => Err(format!(
                "raw_data has {} bytes, not whole elements of {N}",
                raw.len()
            )),
        }
    }
    Ok(match kind {
        element::FLOAT => Numbers::Floats(words(raw, f32::from_le_bytes)?),
        element::DOUBLE => Numbers::Floats(words(raw, |w| f64::from_le_bytes(w) as f32)?),
        element::FLOAT16 => Numbers::Floats(words(raw, |w| half(u16::from_le_bytes(w)))?),
        element::INT64 => Numbers::Ints(words(raw, i64::from_le_bytes)?),
        element::UINT64 => Numbers::Ints(words(raw, |w| u64::from_le_bytes(w) as i64)?),
        element::INT32 => Numbers::Ints(words(raw, |w| i32::from_le_bytes(w).into())?),
        element::UINT32 => Numbers::Ints(words(raw, |w| u32::from_le_bytes(w).into())?),
        element::INT16 => Numbers::Ints(words(raw, |w| i16::from_le_bytes(w).into())?),
        element::UINT16 => Numbers::Ints(words(raw, |w| u16::from_le_bytes(w).into())?),
        element::INT8 => Numbers::Ints(words(raw, |w| i8::from_le_bytes(w).into())?),
        element::UINT8 | element::BOOL => Numbers::Ints(words(raw, |[b]: [u8; 1]| b.into())?),
        other => return Err(unknown(other)),
    })
}

fn unknown(kind: i32) -> String {
    format!("data_type {kind} is not one that Synod reads; convert the model to float32")
}

/// The value of 16 bits of IEEE 754 half precision.
pub(crate) fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, (bits >> 10) & 31, f32::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        e => (1024.0 + fraction) * 2f32.powi(i32::from(e) - 25),
    };
    if sign == 1 { -size } else { size }
}

/// True for the element types whose values are whole numbers.
pub(crate) fn is_whole(kind: i64) -> bool {
    use element::*;
    let whole = [UINT8, INT8, UINT16, INT16, INT32, INT64, BOOL, UINT32, UINT64];
    whole.iter().any(|&k| i64::from(k) == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_their_known_values() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f32::NEG_INFINITY);
    }

    #[test]
    fn a_tensor_that_promises_more_than_it_holds_is_refused() {
        let lie = TensorProto {
            name: "w".into(),
            dims: vec![1 << 40, 1 << 40],
            data_type: Some(element::FLOAT),
            float_data: vec![1.0],
            ..TensorProto::default()
        };
        assert!(Literal::read(&lie).is_err_and(|e| e.contains("`w`") && e.contains("too large")));
        let lie = TensorProto {
            dims: vec![1000],
            ..lie
        };
        assert!(Literal::read(&lie).is_err_and(|e| e.contains("1000 elements") && e.contains("hold 1")));
    }
}
