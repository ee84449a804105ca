//! From any reader into a record file.

use super::{Batch, RowReader};
use crate::{
    error::{Error, Result},
    record::{Label, LabelKind, Writer},
};

const ROWS: usize = 1024;

/// Appends all rows that are left to a record file and returns how many there were. A row without a time gets its number;
/// a file with whole labels takes labels rounded.
pub fn import(reader: &mut dyn RowReader, writer: &mut Writer) -> Result<u64> {
    if reader.names() != writer.schema().columns {
        return Err(Error::Setting(format!(
            "the columns to import ({}) are not those of the record file ({})",
            reader.names().len(),
            writer.schema().columns.len()
        )));
    }
    let mut batch = Batch::new();
    let mut total = 0u64;
    while reader.read(ROWS, &mut batch)? > 0 {
        for i in 0..batch.rows() {
            let time = batch.times.get(i).copied().unwrap_or(writer.rows() as i64);
            let row = batch.row(i).unwrap_or_default();
            match (writer.schema().label, batch.labels.get(i)) {
                (LabelKind::None, _) => writer.push(time, row)?,
                (LabelKind::Int, Some(&label)) => {
                    writer.push_labelled(time, Label::Int(label.round() as i32), row)?;
                }
                (LabelKind::Real, Some(&label)) => writer.push_labelled(time, Label::Real(label), row)?,
                (_, None) => {
                    return Err(Error::Setting(
                        "the record file has labels; name the label column in the reader's options"
                            .to_owned(),
                    ));
                }
            }
        }
        total += batch.rows() as u64;
    }
    Ok(total)
}
