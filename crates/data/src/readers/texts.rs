//! Texts by speaker: one JSON object a line, with the lines to learn from and those to be judged by.

use std::io::{BufRead, Read};
use std::path::Path;

use serde::Deserialize;

use super::{input, malformed};
use crate::error::{Place, Result, io_error};

/// A speaker's line of JSON that is longer than this is taken for a mistake.
const LONGEST: u64 = 64 << 20;

/// What one speaker says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Speaker {
    /// Lines to learn from.
    pub train: Vec<String>,
    /// Lines to be judged by.
    #[serde(default)]
    pub test: Vec<String>,
}

/// Reads all speakers of a file, in its order: a line each, such as `{"train": ["To be,"], "test": ["or not"]}`; other
/// keys are left alone. The file may be gzip.
pub fn speakers(path: impl AsRef<Path>) -> Result<Vec<Speaker>> {
    let path = path.as_ref();
    let mut reader = input::open(path)?.reader;
    let (mut all, mut line, mut number) = (vec![], String::new(), 0);
    loop {
        line.clear();
        number += 1;
        let read = (&mut reader).take(LONGEST).read_line(&mut line);
        if read.map_err(io_error("read the file", path))? == 0 {
            return Ok(all);
        }
        if line.trim().is_empty() {
            continue;
        }
        let at = Place::Field {
            line: number,
            column: 1,
        };
        let advice = "write one object a line with lists of strings under `train` and `test`";
        let speaker = serde_json::from_str(&line).map_err(|e| malformed(path, at, e.to_string(), advice))?;
        all.push(speaker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speakers_are_read_in_order_and_a_broken_line_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("roles.jsonl");
        let text = "{\"role\": \"HAMLET\", \"train\": [\"To be,\", \"or not\"], \"test\": [\"to be\"]}\n\n{\"train\": []}\n";
        std::fs::write(&path, text).expect("written");
        let read = speakers(&path).expect("read");
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].train.len(), &read[0].test[0][..]), (2, "to be"));
        std::fs::write(&path, format!("{text}{{\"train\": [3]}}\n")).expect("written");
        let said = speakers(&path).expect_err("refused").to_string();
        assert!(said.contains("line 4"), "{said}");
    }
}
