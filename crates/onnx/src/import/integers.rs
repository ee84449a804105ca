//! Arithmetic of shapes, done while the model is imported.

use crate::literal::{Floats, Ints};

/// Longer lists of whole numbers than this are no shapes.
pub(super) const LONGEST: usize = 1 << 16;

/// Extents, and pairs of elements.
type Aligned = (Vec<usize>, Vec<(i64, i64)>);

/// The elements of two lists side by side, a single one repeated.
fn aligned(x: &Ints, y: &Ints) -> Result<Aligned, String> {
    let (n, m) = (x.values.len(), y.values.len());
    let pairs = match (n, m) {
        _ if x.dims == y.dims => x.values.iter().copied().zip(y.values.iter().copied()).collect(),
        (_, 1) => x.values.iter().map(|&v| (v, y.values[0])).collect(),
        (1, _) => y.values.iter().map(|&v| (x.values[0], v)).collect(),
        _ => {
            return Err(format!(
                "shapes {:?} and {:?} of whole numbers do not fit",
                x.dims, y.dims
            ));
        }
    };
    let wider = if (x.dims.len(), n) >= (y.dims.len(), m) {
        x
    } else {
        y
    };
    Ok((wider.dims.clone(), pairs))
}

pub(super) fn binary(op: &str, x: &Ints, y: &Ints) -> Result<Ints, String> {
    let (dims, pairs) = aligned(x, y)?;
    let apply = |(a, b): (i64, i64)| -> Option<i64> {
        Some(match op {
            "Add" => a.checked_add(b)?,
            "Sub" => a.checked_sub(b)?,
            "Mul" => a.checked_mul(b)?,
            "Div" => a.checked_div(b)?,
            "Pow" => a.checked_pow(u32::try_from(b).ok()?)?,
            "Less" => i64::from(a < b),
            "Greater" => i64::from(a > b),
            "LessOrEqual" => i64::from(a <= b),
            "GreaterOrEqual" => i64::from(a >= b),
            "Equal" => i64::from(a == b),
            "And" => i64::from(a != 0 && b != 0),
            "Or" => i64::from(a != 0 || b != 0),
            _ => return None,
        })
    };
    let values: Option<Vec<i64>> = pairs.into_iter().map(apply).collect();
    values
        .map(|values| Ints { dims, values })
        .ok_or_else(|| format!("{op} of these whole numbers has no result"))
}

pub(super) fn choose(condition: &Ints, x: &Ints, y: &Ints) -> Result<Ints, String> {
    let (dims, pairs) = aligned(x, y)?;
    let pick = |c: i64, (a, b): (i64, i64)| if c != 0 { a } else { b };
    let values = match condition.values.as_slice() {
        [c] => pairs.into_iter().map(|p| pick(*c, p)).collect(),
        many if many.len() == pairs.len() => many.iter().zip(pairs).map(|(&c, p)| pick(c, p)).collect(),
        many => return Err(format!("{} conditions for {} numbers", many.len(), pairs.len())),
    };
    Ok(Ints { dims, values })
}

pub(super) fn truncated(floats: &Floats) -> Ints {
    Ints {
        dims: floats.dims.clone(),
        values: floats.values.iter().map(|&x| x as i64).collect(),
    }
}

/// `start, start + step, ...` below `stop`.
pub(super) fn range(start: i64, stop: i64, step: i64) -> Result<Ints, String> {
    let span = i128::from(stop) - i128::from(start);
    if step == 0 || (span / i128::from(step)) > LONGEST as i128 {
        return Err(format!(
            "a range from {start} to {stop} by {step} is not a list of indices"
        ));
    }
    let count = (span + i128::from(step) - i128::from(step.signum())) / i128::from(step);
    Ok(Ints::vector(
        (0..count.max(0) as i64).map(|i| start + i * step).collect(),
    ))
}

/// Elements of a list, negative indices counted from its end.
pub(super) fn gather(table: &Ints, indices: &Ints) -> Result<Ints, String> {
    let rows = table.dims.first().copied().unwrap_or(1);
    let width = table.values.len() / rows.max(1);
    let mut values = vec![];
    if indices.values.len().saturating_mul(width) > LONGEST {
        return Err("too many whole numbers are gathered".into());
    }
    for &i in &indices.values {
        let row = super::call::axis(i, rows).map_err(|_| format!("index {i} is outside a list of {rows}"))?;
        values.extend_from_slice(&table.values[row * width..(row + 1) * width]);
    }
    let dims = [&indices.dims, table.dims.get(1..).unwrap_or(&[])].concat();
    Ok(Ints { dims, values })
}
