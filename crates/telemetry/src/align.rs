//! Frames on other metrics than their own.

use std::collections::HashMap;

use crate::{Frame, error::Result};

/// The frame on a list of metrics, in that order. What it has not is NaN, what is not asked for is left out.
pub(crate) fn select<S: AsRef<str>>(frame: &Frame, metrics: &[S]) -> Result<Frame> {
    let named = frame.metrics().iter().enumerate().rev();
    let places: HashMap<&str, usize> = named.map(|(i, metric)| (metric.as_str(), i)).collect();
    let columns: Vec<Option<usize>> = metrics.iter().map(|m| places.get(m.as_ref()).copied()).collect();
    let mut values = Vec::with_capacity(frame.rows() * metrics.len());
    for row in (0..frame.rows()).map(|row| frame.row(row)) {
        values.extend(columns.iter().map(|column| column.map_or(f32::NAN, |c| row[c])));
    }
    let names = metrics.iter().map(|m| m.as_ref().to_owned()).collect();
    let selected = Frame::new(frame.node(), frame.step(), frame.times().to_vec(), names, values)?;
    Ok(selected
        .with_truth(frame.truth().to_vec())?
        .with_dropped(frame.dropped().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Truth;

    #[test]
    fn metrics_come_in_the_order_asked_for_and_absent_ones_are_nan() -> Result<()> {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let frame = Frame::new("n1", 60, vec![0, 60], names, vec![1.0, 3.0, 2.0, 4.0])?;
        let frame = frame.with_truth(vec![Truth::Healthy, Truth::Anomalous])?;
        let selected = select(&frame, &["gone", "b"])?;
        assert_eq!(selected.metrics(), ["gone", "b"]);
        assert!(selected.row(0)[0].is_nan());
        assert_eq!(selected.row(1)[1], 4.0);
        assert_eq!(selected.truth(), frame.truth());
        Ok(())
    }
}
