//! How each kind of source is read.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use synod_telemetry::sources::m100::{self, ImportProgress, Raw};
use synod_telemetry::sources::prometheus::PrometheusServer;
use synod_telemetry::sources::{Sample, Table, exposition, ipmi, ldms};
use synod_telemetry::windows::{KeptStatistics, Nodes, WindowSettings};
use synod_telemetry::{load_glob, natural_order};

use super::kinds::{Kept, Ldms, M100Raw, NodeFrom, Prometheus, Scrapes, Tables, Windowing};
use super::{Import, changed, read};
use crate::train::Misuse;

/// Closed windows, of one metric each, that may wait in memory: about 100 MB.
const WAITING: usize = 4 << 20;

impl Windowing {
    fn settings(&self) -> WindowSettings {
        WindowSettings {
            width: self.window,
            late: self.late,
            ..WindowSettings::default()
        }
    }

    fn keep(&self) -> KeptStatistics {
        match self.keep {
            Kept::Mean => KeptStatistics::Mean,
            Kept::All => KeptStatistics::All,
        }
    }

    /// Makes windows of what `fill` gives and writes them, node after node.
    fn windows(
        &self,
        import: &mut Import<'_>,
        fill: impl FnOnce(&mut Import<'_>, &mut Nodes) -> Result<()>,
    ) -> Result<()> {
        let scratch = import.target.out.join(".windows.scratch");
        // One that is there was left by an import that did not end.
        let _ = std::fs::remove_file(&scratch);
        let nodes = Nodes::new(self.settings(), self.keep()).map_err(|e| Misuse(e.to_string()))?;
        let mut nodes = nodes.spilling(&scratch, WAITING)?;
        fill(import, &mut nodes)?;
        import.summary.samples = Some(nodes.counts());
        import.stage("nodes", nodes.len());
        nodes.each_frame(&mut |frame| {
            import.bar.inc(1);
            import.write(frame, "label")
        })?;
        Ok(())
    }
}

impl M100Raw {
    pub(super) fn import(&self, import: &mut Import<'_>) -> Result<()> {
        let usual = Raw::default();
        let raw = Raw {
            settings: self.windowing.settings(),
            keep: self.windowing.keep(),
            include: match self.target.include.is_empty() {
                true => usual.include,
                false => self.target.include.clone(),
            },
            exclude: self.target.exclude.clone(),
        };
        import.labels.add_first(m100::states(&self.folder, &self.state)?);
        let Import {
            labels, summary, bar, ..
        } = import;
        let mut rows = Vec::new();
        let report = raw.import_labelled(
            &self.folder,
            &self.target.out,
            &mut |windows| {
                rows.push(windows.rows());
                Ok(labels.truth(windows, "label"))
            },
            &mut |progress| {
                let (what, done, of) = match progress {
                    ImportProgress::Metrics(done, of) => ("metrics", done, of),
                    ImportProgress::Nodes(done, of) => ("nodes", done, of),
                };
                bar.set_message(what);
                bar.set_length(of as u64);
                bar.set_position(done as u64);
            },
        )?;
        let per_metric = if self.windowing.keep == Kept::All { 4 } else { 1 };
        let columns = report.metrics.len() * per_metric;
        rows.into_iter().for_each(|rows| summary.count(rows, columns));
        summary.dropped(&report.dropped);
        summary.samples = Some(report.samples);
        Ok(())
    }
}

impl Tables {
    pub(super) fn import(&self, import: &mut Import<'_>, usual: &Table) -> Result<()> {
        let table = Table {
            time: self.time.clone().or_else(|| usual.time.clone()),
            label: self.label.clone().or_else(|| usual.label.clone()),
            include: self.target.include.clone(),
            exclude: self.target.exclude.clone(),
            step: self.step,
        };
        let files = find(&self.files)?;
        import.stage("nodes", files.len());
        let mut seen = HashSet::new();
        for file in &files {
            let loaded = table.load(file)?;
            let node = loaded.frame.node().to_owned();
            if !seen.insert(node.clone()) {
                let problem = format!("{}: there is another file of node {node}", file.display());
                return Err(Misuse(format!("{problem}; import them into folders of their own")).into());
            }
            for note in loaded.notes {
                import.summary.note(format!("{}: {note}", file.display()));
            }
            import.write(loaded.frame, table.label.as_deref().unwrap_or("label"))?;
            import.bar.inc(1);
        }
        Ok(())
    }
}

impl Ldms {
    pub(super) fn import(&self, import: &mut Import<'_>) -> Result<()> {
        self.windowing.windows(import, |import, nodes| {
            let files = find(&self.files)?;
            import.stage("files", files.len());
            for file in &files {
                let read = ldms::load(file, &mut |sample| take(import, nodes, sample));
                import.bar.inc(1);
                match read {
                    Ok(report) => {
                        import.summary.dropped(&report.dropped);
                        if let Some(line) = report.torn {
                            let file = file.display();
                            import
                                .summary
                                .note(format!("{file}: line {line} breaks off and was left out"));
                        }
                    }
                    Err(problem) => import
                        .summary
                        .note(format!("{problem}; what stood before was taken")),
                }
            }
            Ok(())
        })
    }
}

impl Scrapes {
    pub(super) fn import(&self, import: &mut Import<'_>, ipmitool: bool) -> Result<()> {
        self.windowing.windows(import, |import, nodes| {
            let scrapes = self.in_order()?;
            import.stage("files", scrapes.len());
            for (time, file) in &scrapes {
                let node = self.node(file)?;
                let text = read(file)?;
                let mut sink = |sample: Sample<'_>| take(import, nodes, sample);
                let done = match ipmitool {
                    true => ipmi::read(&text, file, &node, *time, &mut sink).map(Some),
                    false => exposition::read(&text, file, &node, *time, &mut sink).map(|_| None),
                };
                import.bar.inc(1);
                match done {
                    Ok(Some(report)) => {
                        for sensor in &report.discrete {
                            import.summary.drop_one(sensor, "its readings are bits");
                        }
                        if report.strange > 0 {
                            let (file, lines) = (file.display(), report.strange);
                            import
                                .summary
                                .note(format!("{file}: {lines} lines are no readings"));
                        }
                    }
                    Ok(None) => {}
                    Err(problem) => import
                        .summary
                        .note(format!("{problem}; what stood before was taken")),
                }
            }
            Ok(())
        })
    }

    /// The files with their times, in the order of these: a window must not close before its samples come.
    fn in_order(&self) -> Result<Vec<(i64, PathBuf)>> {
        let mut scrapes = Vec::new();
        for file in find(&self.files)? {
            scrapes.push((self.time.map_or_else(|| changed(&file), Ok)?, file));
        }
        scrapes.sort_by_key(|(time, _)| *time);
        Ok(scrapes)
    }

    fn node(&self, file: &Path) -> Result<String> {
        let name = match self.node_from {
            NodeFrom::File => file.file_stem(),
            NodeFrom::Folder => file.parent().and_then(Path::file_name),
        };
        let name = name.map(|name| name.to_string_lossy().into_owned());
        name.ok_or_else(|| Misuse(format!("{}: it is in no folder with a name", file.display())).into())
    }
}

impl Prometheus {
    pub(super) fn import(&self, import: &mut Import<'_>) -> Result<()> {
        let mut server = PrometheusServer::new(&self.url).map_err(|e| Misuse(e.to_string()))?;
        server.node_label = self.node_label.clone();
        let kinds = server.kinds().unwrap_or_else(|problem| {
            let note = format!("{problem}; which metrics are counters is told by their names");
            import.summary.note(note);
            Default::default()
        });
        let (from, to) = (self.from.div_euclid(1000), self.to.div_euclid(1000));
        let span = self.span.max(self.step) / self.step * self.step;
        let starts: Vec<i64> = (0..)
            .map(|i: i64| from.saturating_add(i.saturating_mul(span)))
            .take_while(|start| *start <= to)
            .collect();
        self.windowing.windows(import, |import, nodes| {
            import.stage("requests", starts.len() * self.query.len());
            let mut nameless = 0;
            for start in &starts {
                let end = to.min(start.saturating_add(span - self.step));
                for query in &self.query {
                    let mut sink = |sample: Sample<'_>| take(import, nodes, sample);
                    let report = server.range(query, (*start, end), self.step, &kinds, &mut sink)?;
                    nameless = report.nameless.max(nameless);
                    import.bar.inc(1);
                }
            }
            if nameless > 0 {
                let label = &self.node_label;
                import.summary.note(format!(
                    "{nameless} series lack the label {label} that names the node, and were left out"
                ));
            }
            Ok(())
        })
    }
}

/// Gives a sample to its window, unless its metric is not wanted.
fn take(import: &mut Import<'_>, nodes: &mut Nodes, sample: Sample<'_>) -> synod_telemetry::Result<()> {
    match import.unwanted(sample.metric) {
        Some(reason) => import.summary.drop_one(sample.metric, &reason),
        None => nodes.take(sample)?,
    }
    Ok(())
}

/// The files that patterns name, each once, in natural order.
pub(super) fn find(patterns: &[String]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        files.extend(load_glob(pattern)?);
    }
    files.sort_by(|a, b| natural_order(&a.to_string_lossy(), &b.to_string_lossy()));
    files.dedup();
    Ok(files)
}
