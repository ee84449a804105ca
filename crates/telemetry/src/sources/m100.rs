//! The M100 ExaData set: raw metrics by month, plugin and metric, and windows by node.
//!
//! Raw data lie as `year_month=YY-MM/plugin=<p>/metric=<m>/a_0.parquet`, a file holding one metric of all nodes; a model
//! wants all metrics of one node. The import turns the one into the other in two passes over windows, never over samples:
//! it streams metric after metric into windows, which go to a scratch file per metric once there are enough, and then
//! writes node after node, reading all scratch files side by side. Memory is bounded by [`SPILL`] windows, the open windows
//! of one metric, and one row; the scratch files take as much room as the result.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use synod_data::record::{Reader, Schema, Writer};

pub use super::m100_states::{STATE, states};
use super::{
    Table, io,
    m100_columns::{Contents, each},
    records, source,
};
use crate::{
    Dropped, Frame, Truth,
    error::Result,
    metric::metric,
    pattern::{matches, natural_order},
    windows::{Counts, KeptStatistics, MetricId, Stats, WindowSettings, Windows},
};

/// Windows of one metric that are kept in memory before they go to its scratch file.
pub const SPILL: usize = 4 << 20;
const SCRATCH: &str = "scratch";

/// How to read the set's windows by node: `<metric>_{avg,std,min,max}`, with the Nagios state as label.
pub fn aggregated() -> Table {
    Table {
        time: Some("timestamp".to_owned()),
        label: Some("value".to_owned()),
        ..Table::default()
    }
}

/// How to import raw metrics.
#[derive(Clone, Debug)]
pub struct Raw {
    /// Width and lateness of the windows.
    pub settings: WindowSettings,
    /// Which statistics become columns.
    pub keep: KeptStatistics,
    /// Patterns of metrics to take, as `ipmi.*` for the plugin `ipmi_pub`.
    pub include: Vec<String>,
    /// Patterns of metrics not to take.
    pub exclude: Vec<String>,
}

impl Default for Raw {
    fn default() -> Raw {
        Raw {
            settings: WindowSettings::default(),
            keep: KeptStatistics::All,
            include: vec!["ipmi.*".to_owned(), "ganglia.*".to_owned()],
            exclude: Vec::new(),
        }
    }
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct M100Report {
    /// The record files written, one per node, in natural order of the nodes.
    pub files: Vec<PathBuf>,
    /// Metrics imported.
    pub metrics: Vec<String>,
    /// Metrics left out, and why.
    pub dropped: Vec<Dropped>,
    /// What became of the samples.
    pub samples: Counts,
}

/// How far an import is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ImportProgress {
    /// So many of so many metrics are windows.
    Metrics(usize, usize),
    /// So many of so many nodes have their file.
    Nodes(usize, usize),
}

/// Gives the truth of a node's windows, which come as a frame without metrics.
pub type Labeller<'a> = dyn FnMut(&Frame) -> Result<Vec<Truth>> + 'a;

impl Raw {
    /// Imports all months under `root` into `<out>/<node>.record`, which [`records::load`] reads. Nothing is known of any
    /// window.
    pub fn import(&self, root: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<M100Report> {
        let unknown = &mut |frame: &Frame| Ok(vec![Truth::Unknown; frame.rows()]);
        self.import_labelled(root, out, unknown, &mut |_| {})
    }

    /// Like [`Raw::import`], with labels, and telling how far it is.
    pub fn import_labelled(
        &self,
        root: impl AsRef<Path>,
        out: impl AsRef<Path>,
        labeller: &mut Labeller<'_>,
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<M100Report> {
        let (root, out) = (root.as_ref(), out.as_ref());
        let mut report = M100Report::default();
        let files = self.find(root, &mut report)?;
        let scratch = out.join(SCRATCH);
        fs::create_dir_all(&scratch).map_err(io("make the folder", &scratch))?;
        let done = self
            .columns(&files, &scratch, &mut report, progress)
            .and_then(|columns| self.nodes(&columns, out, &mut report, labeller, progress));
        let removed = fs::remove_dir_all(&scratch).map_err(io("remove the scratch folder", &scratch));
        done.and(removed)?;
        Ok(report)
    }

    /// Streams every metric of all nodes into its scratch file.
    fn columns(
        &self,
        files: &[(String, Vec<PathBuf>)],
        scratch: &Path,
        report: &mut M100Report,
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<Vec<Merge>> {
        let mut columns = Vec::new();
        for (number, (name, months)) in files.iter().enumerate() {
            let path = scratch.join(format!("{number}.record"));
            progress(ImportProgress::Metrics(number, files.len()));
            match self.column(name, months, &path, report)? {
                Some(parts) => {
                    report.metrics.push(name.clone());
                    columns.push(Merge {
                        reader: Reader::open(&path)?,
                        parts,
                    });
                }
                None => report.dropped.push(Dropped {
                    metric: name.clone(),
                    reason: "it holds text or bytes".to_owned(),
                }),
            }
        }
        Ok(columns)
    }

    /// The files of every metric to import, months in order.
    fn find(&self, root: &Path, report: &mut M100Report) -> Result<Vec<(String, Vec<PathBuf>)>> {
        let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for (_, month) in parts(root, "year_month=")? {
            for (plugin, folder) in parts(&month, "plugin=")? {
                let plugin = plugin.trim_end_matches("_pub").to_owned();
                for (name, folder) in parts(&folder, "metric=")? {
                    let files = parts(&folder, "")?.into_iter().map(|(_, file)| file);
                    let files = files.filter(|file| file.extension().is_some_and(|e| e == "parquet"));
                    found.entry(format!("{plugin}.{name}")).or_default().extend(files);
                }
            }
        }
        if found.is_empty() {
            let advice = "give the folder that holds year_month=…/plugin=…/metric=…";
            return Err(source(root, "there are no raw metrics below it", advice));
        }
        let any = |patterns: &[String], name: &str| patterns.iter().any(|pattern| matches(pattern, name));
        let mut chosen = Vec::new();
        for (name, files) in found {
            match any(&self.include, &name) && !any(&self.exclude, &name) {
                true => chosen.push((name, files)),
                false => report.dropped.push(Dropped {
                    metric: name,
                    reason: "not among the included".to_owned(),
                }),
            }
        }
        chosen.sort_by(|a, b| natural_order(&a.0, &b.0));
        Ok(chosen)
    }

    /// Streams one metric of all nodes into its scratch file, and tells where each node's windows are; none if it is text.
    fn column(
        &self,
        name: &str,
        months: &[PathBuf],
        path: &Path,
        report: &mut M100Report,
    ) -> Result<Option<Parts>> {
        let mut names = Vec::new();
        self.keep.name(name, &mut names);
        let mut spill = Spill::new(Writer::create_whole(path, &Schema::new(names))?, self.keep);
        let kind = metric(name, None).kind;
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut nodes: Vec<(String, Windows)> = Vec::new();
        let mut last = 0;
        for month in months {
            let contents = each(month, &mut |node, time, value| {
                // Rows of one node often follow each other.
                if nodes.get(last).is_none_or(|(name, _)| name != node) {
                    last = match places.get(node) {
                        Some(&place) => place,
                        None => {
                            let mut windows = Windows::new(self.settings)?;
                            windows.metric(kind);
                            nodes.push((checked(node, month)?, windows));
                            places.insert(node.to_owned(), nodes.len() - 1);
                            nodes.len() - 1
                        }
                    };
                }
                let windows = &mut nodes[last].1;
                windows.push(MetricId(0), time, value, &mut |row| {
                    spill.take(node, row.start, row.stats);
                });
                spill.relieve()
            })?;
            if contents == Contents::Text {
                return Ok(None);
            }
        }
        for (node, windows) in &mut nodes {
            windows.finish(&mut |row| spill.take(node, row.start, row.stats));
            report.samples = report.samples + windows.counts();
        }
        spill.finish().map(Some)
    }

    /// Writes a record file per node.
    fn nodes(
        &self,
        columns: &[Merge],
        out: &Path,
        report: &mut M100Report,
        labeller: &mut Labeller<'_>,
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<()> {
        let mut names = Vec::new();
        report
            .metrics
            .iter()
            .for_each(|metric| self.keep.name(metric, &mut names));
        let nodes: BTreeSet<&String> = columns.iter().flat_map(|column| column.parts.keys()).collect();
        let mut nodes: Vec<&String> = nodes.into_iter().collect();
        nodes.sort_by(|a, b| natural_order(a, b));
        for (number, node) in nodes.iter().enumerate() {
            progress(ImportProgress::Nodes(number, nodes.len()));
            let path = records::file(out, node)?;
            let step = self.settings.width;
            let times = times(columns, node)?;
            let windows = Frame::new(node.as_str(), step, times, Vec::new(), Vec::new())?;
            let truth = labeller(&windows)?;
            let mut writer = Writer::create_whole(&path, &records::schema(node, step, &names))?;
            merge(columns, &windows.with_truth(truth)?, &mut writer)?;
            writer.finish()?;
            report.files.push(path);
        }
        Ok(())
    }
}

/// For each node, the first row and the number of rows of each of its runs in a scratch file.
type Parts = BTreeMap<String, Vec<(usize, usize)>>;

/// The windows of one metric on their way to its scratch file.
struct Spill {
    writer: Writer,
    keep: KeptStatistics,
    /// Start and values of the windows of each node that are not yet written.
    waiting: BTreeMap<String, (Vec<i64>, Vec<f32>)>,
    count: usize,
    parts: Parts,
}

impl Spill {
    fn new(writer: Writer, keep: KeptStatistics) -> Spill {
        Spill {
            writer,
            keep,
            waiting: BTreeMap::new(),
            count: 0,
            parts: Parts::new(),
        }
    }

    fn take(&mut self, node: &str, start: i64, stats: &[Stats]) {
        if !self.waiting.contains_key(node) {
            self.waiting.insert(node.to_owned(), Default::default());
        }
        if let (Some((starts, values)), Some(stats)) = (self.waiting.get_mut(node), stats.first()) {
            starts.push(start);
            self.keep.values(stats, values);
            self.count += 1;
        }
    }

    fn relieve(&mut self) -> Result<()> {
        if self.count >= SPILL { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        for (node, (starts, values)) in std::mem::take(&mut self.waiting) {
            let first = self.writer.rows() as usize;
            let width = values.len() / starts.len().max(1);
            for (start, row) in starts.iter().zip(values.chunks(width.max(1))) {
                self.writer.push(*start, row)?;
            }
            self.parts.entry(node).or_default().push((first, starts.len()));
        }
        self.count = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<Parts> {
        self.write()?;
        self.writer.finish()?;
        Ok(self.parts)
    }
}

/// One metric's scratch file.
struct Merge {
    reader: Reader,
    parts: Parts,
}

impl Merge {
    /// The rows of a node, which are in the order of their times.
    fn rows(&self, node: &str) -> impl Iterator<Item = usize> {
        let runs = self.parts.get(node).into_iter().flatten();
        runs.flat_map(|&(first, count)| first..first + count)
    }
}

/// The starts of all windows that any metric of a node has.
fn times(columns: &[Merge], node: &str) -> Result<Vec<i64>> {
    let mut times = BTreeSet::new();
    for column in columns {
        for row in column.rows(node) {
            times.insert(column.reader.time(row)?);
        }
    }
    Ok(times.into_iter().collect())
}

/// Writes the windows of one node, each with the values of all metrics that have it.
fn merge(columns: &[Merge], windows: &Frame, writer: &mut Writer) -> Result<()> {
    let mut rows: Vec<_> = columns
        .iter()
        .map(|column| column.rows(windows.node()).peekable())
        .collect();
    let mut values = Vec::new();
    for (&start, &truth) in windows.times().iter().zip(windows.truth()) {
        values.clear();
        for (column, rows) in columns.iter().zip(&mut rows) {
            let next = rows.peek().map(|&row| column.reader.time(row)).transpose()?;
            match rows.next_if(|_| next == Some(start)) {
                Some(row) => values.extend_from_slice(column.reader.row(row)?),
                None => values.extend(std::iter::repeat_n(f32::NAN, column.reader.columns())),
            }
        }
        records::push(writer, start, truth, &values)?;
    }
    Ok(())
}

/// The entries of a folder whose names begin with a prefix, as the rest of the name and the path, in natural order.
pub(super) fn parts(folder: &Path, prefix: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io("list the folder", folder))? {
        let entry = entry.map_err(io("list the folder", folder))?;
        if let Some(name) = entry.file_name().to_string_lossy().strip_prefix(prefix) {
            found.push((name.to_owned(), entry.path()));
        }
    }
    found.sort_by(|a, b| natural_order(&a.0, &b.0));
    Ok(found)
}

/// A node's name, if it may be the name of a file.
fn checked(node: &str, path: &Path) -> Result<String> {
    if !records::is_name(node) {
        let problem = format!("{node:?} cannot be the name of a node");
        return Err(source(
            path,
            problem,
            "names are letters, digits, dots, dashes and underscores",
        ));
    }
    Ok(node.to_owned())
}
