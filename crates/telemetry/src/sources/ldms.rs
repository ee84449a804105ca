//! The CSV files of LDMS' `store_csv`: a header that begins with `#Time`, then a line per sample set.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use super::{Sample, Sink, io, source};
use crate::{
    Dropped,
    error::Result,
    metric::{MetricKind, canonical, metric},
    parse_time,
};

/// Longer lines are taken for a file that is not LDMS'.
const MAX_LINE: u64 = 16 << 20;
/// Columns that say where and when, not what.
const CONTEXT: [&str; 6] = ["Time", "Time_usec", "DT", "DT_usec", "component_id", "app_id"];

/// What a file held besides samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdmsReport {
    /// Sample sets, one per line.
    pub sets: usize,
    /// Samples given out.
    pub samples: usize,
    /// Columns left out, and why.
    pub dropped: Vec<Dropped>,
    /// The line of a last set that breaks off, if one does.
    pub torn: Option<usize>,
}

/// Reads one file of one sampler, whose metrics are called `<file's name>.<column>`.
pub fn load(path: impl AsRef<Path>, sink: &mut Sink<'_>) -> Result<LdmsReport> {
    let path = path.as_ref();
    let sampler = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let file = File::open(path).map_err(io("open the file", path))?;
    read(BufReader::new(file), path, &sampler, sink)
}

/// Reads the text of one sampler. A header may come again, as it does when the daemon restarts with other metrics.
pub fn read(mut text: impl BufRead, path: &Path, sampler: &str, sink: &mut Sink<'_>) -> Result<LdmsReport> {
    let (mut report, mut layout) = (LdmsReport::default(), None);
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        let read = text.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        if read.map_err(io("read the file", path))? == 0 {
            break;
        }
        number += 1;
        let (whole, set) = (line.ends_with(b"\n"), String::from_utf8_lossy(&line));
        let set = set.trim_end_matches(['\n', '\r']);
        if let Some(header) = set.strip_prefix('#') {
            layout = Some(Layout::of(header, path, number, sampler)?);
        } else if !set.is_empty() {
            let layout = layout.as_mut().ok_or_else(|| {
                source(
                    path,
                    "its first line is no header",
                    "LDMS writes #Time,… there; give that line first",
                )
            })?;
            match layout.set(set, &mut report, sink)? {
                Ok(()) => report.sets += 1,
                Err(_) if !whole => report.torn = Some(number),
                Err(problem) => {
                    let problem = format!("line {number}: {problem}");
                    return Err(source(path, problem, "correct the line or remove it"));
                }
            }
        }
    }
    match layout {
        Some(_) => Ok(report),
        None => Err(source(path, "it is empty", "LDMS writes a header line first")),
    }
}

/// What the columns are.
struct Layout {
    columns: Vec<Column>,
    time: usize,
    producer: usize,
}

struct Column {
    name: String,
    kind: MetricKind,
    /// Neither context nor known to be text.
    used: bool,
}

impl Layout {
    fn of(header: &str, path: &Path, line: usize, sampler: &str) -> Result<Layout> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let find = |wanted: &str| {
            names.iter().position(|name| *name == wanted).ok_or_else(|| {
                let problem = format!("line {line}: the header has no column {wanted}");
                source(
                    path,
                    problem,
                    "LDMS' store_csv writes #Time,Time_usec,ProducerName,…; is it another kind of file?",
                )
            })
        };
        let (time, producer) = (find("Time")?, find("ProducerName")?);
        let column = |name: &&str| {
            let found = metric(&format!("{sampler}.{}", canonical(name)), None);
            Column {
                name: found.name,
                kind: found.kind,
                used: !CONTEXT.contains(name) && *name != "ProducerName" && *name != "job_id",
            }
        };
        Ok(Layout {
            columns: names.iter().map(column).collect(),
            time,
            producer,
        })
    }

    /// Gives out the samples of a line; the inner error says what is wrong with it.
    fn set(
        &mut self,
        line: &str,
        report: &mut LdmsReport,
        sink: &mut Sink<'_>,
    ) -> Result<Result<(), String>> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != self.columns.len() {
            return Ok(Err(format!(
                "{} fields where the header has {}",
                fields.len(),
                self.columns.len()
            )));
        }
        let Some(time) = parse_time(fields[self.time]) else {
            return Ok(Err(format!("{:?} is no time", fields[self.time])));
        };
        let node = fields[self.producer];
        if node.is_empty() {
            return Ok(Err("it names no producer".to_owned()));
        }
        for (field, column) in fields
            .iter()
            .zip(&mut self.columns)
            .filter(|(_, column)| column.used)
        {
            let value = match field.parse() {
                Ok(value) => value,
                Err(_) if field.is_empty() => f64::NAN,
                Err(_) => {
                    column.used = false;
                    let shown: String = field.chars().take(20).collect();
                    report.dropped.push(Dropped {
                        metric: column.name.clone(),
                        reason: format!("it holds text such as {shown:?}"),
                    });
                    continue;
                }
            };
            report.samples += 1;
            sink(Sample {
                node,
                metric: &column.name,
                kind: column.kind,
                time,
                value,
            })?;
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "#Time,Time_usec,ProducerName,component_id,job_id,app_id,MemFree,Active(anon),comm
1746581500.002023,2023,node-a,1,0,0,56582396,1839832,bash
1746581501.002023,2023,node-b,1,7,0,56582397,,bash
";

    type Row = (String, String, i64, f64);

    fn rows(text: &str) -> Result<(Vec<Row>, LdmsReport)> {
        let mut rows = Vec::new();
        let report = read(text.as_bytes(), Path::new("meminfo"), "meminfo", &mut |s| {
            rows.push((s.node.to_owned(), s.metric.to_owned(), s.time, s.value));
            Ok(())
        })?;
        Ok((rows, report))
    }

    #[test]
    fn columns_are_metrics_of_their_producer() -> Result<()> {
        let (rows, report) = rows(TEXT)?;
        assert_eq!(
            rows[0],
            (
                "node-a".into(),
                "meminfo.MemFree".into(),
                1_746_581_500_002,
                56_582_396.0
            )
        );
        assert_eq!(
            (rows[3].0.as_str(), rows[3].1.as_str()),
            ("node-b", "meminfo.Active(anon)")
        );
        assert!(rows[3].3.is_nan());
        assert_eq!((report.sets, report.samples, report.torn), (2, 4, None));
        assert_eq!(report.dropped[0].metric, "meminfo.comm");
        assert_eq!(report.dropped.len(), 1, "said once");
        Ok(())
    }

    #[test]
    fn a_header_may_come_again_and_a_last_line_may_break_off() -> Result<()> {
        let again = format!("{TEXT}#Time,ProducerName,x\n1746581502,node-a,5\n1746581503,no");
        let (rows, report) = rows(&again)?;
        assert_eq!(rows.last().map(|r| r.1.as_str()), Some("meminfo.x"));
        assert_eq!(report.torn, Some(6));
        Ok(())
    }

    #[test]
    fn other_files_are_refused() {
        for (text, says) in [
            ("", "empty"),
            ("a,b\n1,2\n", "no header"),
            ("#Time,x\n1,2\n", "ProducerName"),
            ("#Time,ProducerName,x\n1,n\n", "line 2: 2 fields"),
            ("#Time,ProducerName,x\nnoon,n,1\n", "\"noon\" is no time"),
        ] {
            let error = rows(text).expect_err(text).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(bytes.as_slice(), Path::new("f"), "s", &mut |_| Ok(()));
        }

        #[test]
        fn mutations_never_panic(at in 0usize..TEXT.len(), with in "[,#\n0.é-]{0,3}") {
            let mut text = TEXT.to_owned();
            text.replace_range(at..at + 1, &with);
            let _ = rows(&text);
        }
    }
}
