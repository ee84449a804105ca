//! Trials as a table that a person reads.

use std::io::{self, Write};

use serde_json::Value;

/// Writes lines of cells with columns of one width each, the first line being the heads.
pub fn table(lines: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|l| l.get(column))
            .map(|c| c.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for line in lines {
        let cells = line
            .iter()
            .zip(&widths)
            .map(|(text, width)| format!("{text:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// A setting or figure as a person writes it.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(table) => {
            let part = |(key, value): (&String, &Value)| match key.as_str() {
                "kind" => plain(value),
                _ => format!("{key} {}", plain(value)),
            };
            let (kind, rest): (Vec<_>, Vec<_>) = table.iter().partition(|(key, _)| *key == "kind");
            let parts: Vec<String> = kind.into_iter().chain(rest).map(part).collect();
            parts.join(", ")
        }
        other => other.to_string(),
    }
}
