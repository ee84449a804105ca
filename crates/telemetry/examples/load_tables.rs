//! Loads one file per node and prints what came of it: `load_tables PATTERN [LABEL [INCLUDE …]]`, `-` for no label.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use synod_telemetry::{Error, Result, Truth, load_glob, sources::Table};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let pattern = arguments.next();
    let pattern =
        pattern.ok_or_else(|| Error::Setting("usage: load_tables PATTERN [LABEL [INCLUDE …]]".to_owned()))?;
    let table = Table {
        label: arguments.next().filter(|label| label != "-"),
        include: arguments.collect(),
        ..Table::default()
    };
    for path in load_glob(&pattern)? {
        let loaded = table.load(&path)?;
        let frame = &loaded.frame;
        let count = |truth| frame.truth().iter().filter(|t| **t == truth).count();
        let missing = frame.values().iter().filter(|v| v.is_nan()).count();
        println!(
            "{}: {} windows of {} s, {} metrics, {} dropped, {missing} values missing, {} healthy, {} anomalous, {} unknown",
            frame.node(),
            frame.rows(),
            frame.step(),
            frame.width(),
            frame.dropped().len(),
            count(Truth::Healthy),
            count(Truth::Anomalous),
            count(Truth::Unknown),
        );
        loaded.notes.iter().for_each(|note| println!("  {note}"));
    }
    Ok(())
}
