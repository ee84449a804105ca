//! The open windows of one node.

use super::stats::{Moments, Stats, is_missing};
use crate::{
    error::{Error, Result},
    metric::MetricKind,
};

/// How samples become windows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct WindowSettings {
    /// Seconds of a window. Windows begin at whole multiples of it since 1970.
    pub width: i64,
    /// How many windows before the newest one stay open for late samples.
    pub late: usize,
    /// Samples of a metric that are held back at most, to put them in order and find duplicates. A metric that has more
    /// of them in its open windows gives up the older half, and samples older than these count as late.
    pub held: usize,
}

impl Default for WindowSettings {
    fn default() -> WindowSettings {
        WindowSettings {
            width: 900,
            late: 1,
            held: 2048,
        }
    }
}

/// A metric of a node, as [`Windows::metric`] gave it out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetricId(pub u32);

/// A closed window.
#[derive(Copy, Clone, Debug)]
pub struct WindowRow<'a> {
    /// Its start in seconds since 1970.
    pub start: i64,
    /// One entry per metric known when the window closed, in the order of their ids.
    pub stats: &'a [Stats],
}

/// What became of the samples.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken into a window.
    pub taken: u64,
    /// Dropped because their window had closed.
    pub late: u64,
    /// Dropped because the metric had a sample of the same time.
    pub duplicate: u64,
    /// Dropped because their value means "no value".
    pub missing: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            taken: self.taken + other.taken,
            late: self.late + other.late,
            duplicate: self.duplicate + other.duplicate,
            missing: self.missing + other.missing,
        }
    }
}

/// The samples of one metric that are not yet in a window's statistics, and those statistics.
struct Metric {
    kind: MetricKind,
    /// In order of time, no two at the same time, all after `settled`.
    held: Vec<(i64, f64)>,
    /// Samples up to here have been added to their windows.
    settled: i64,
    /// The last settled sample of a counter.
    last: Option<(i64, f64)>,
    /// One per open window, at the window's number modulo their count.
    open: Vec<Moments>,
}

/// Aggregates the samples of one node. Memory per metric is at most [`WindowSettings::held`] samples and the statistics of the
/// open windows.
///
/// A counter is differenced: its statistics are of the rate per second between one sample and the next, which belongs to
/// the later one's window. A value below its predecessor is a restart from zero. Samples may come in any order within the
/// open windows; of samples of the same metric and time the first is taken. A time far in the future closes all windows
/// before it, and what comes for these counts as late: a source whose clock cannot be trusted shows in [`Counts::late`].
pub struct Windows {
    settings: WindowSettings,
    width: i64,
    metrics: Vec<Metric>,
    /// The number of the newest window that a sample fell into.
    newest: Option<i64>,
    row: Vec<Stats>,
    counts: Counts,
}

impl Windows {
    /// No metrics and no samples.
    pub fn new(settings: WindowSettings) -> Result<Windows> {
        if settings.width <= 0
            || settings.width > i64::MAX / 4000
            || settings.held < 2
            || settings.late > 1000
        {
            return Err(Error::Setting(format!(
                "windows of {} s with {} late and {} held samples are not possible; give a width of 1 s or more, at most \
                 1000 late windows and at least 2 samples",
                settings.width, settings.late, settings.held
            )));
        }
        Ok(Windows {
            settings,
            width: settings.width * 1000,
            metrics: Vec::new(),
            newest: None,
            row: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Adds a metric, whose id is the number of metrics before it.
    pub fn metric(&mut self, kind: MetricKind) -> MetricId {
        self.metrics.push(Metric {
            kind,
            held: Vec::new(),
            settled: i64::MIN,
            last: None,
            open: vec![Moments::EMPTY; self.settings.late + 1],
        });
        MetricId(self.metrics.len() as u32 - 1)
    }

    /// What became of the samples so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a sample of a time in milliseconds since 1970. Windows that it closes go to `sink`, in order of time; windows
    /// without any sample are left out. A sample of an unknown metric counts as missing.
    #[inline]
    pub fn push(&mut self, metric: MetricId, time: i64, value: f64, sink: &mut impl FnMut(WindowRow<'_>)) {
        if is_missing(value) || metric.0 as usize >= self.metrics.len() {
            self.counts.missing += 1;
            return;
        }
        let window = time.div_euclid(self.width);
        match self.newest {
            Some(newest) if window > newest => self.advance(newest, window, sink),
            Some(newest) if window < newest - self.settings.late as i64 => {
                self.counts.late += 1;
                return;
            }
            Some(_) => {}
            None => self.newest = Some(window),
        }
        let metric = &mut self.metrics[metric.0 as usize];
        if time <= metric.settled {
            self.counts.late += 1;
            return;
        }
        if metric.held.len() == self.settings.held {
            metric.settle(self.settings.held / 2, self.width);
            if time <= metric.settled {
                self.counts.late += 1;
                return;
            }
        }
        match metric.hold(time, value) {
            true => self.counts.taken += 1,
            false => self.counts.duplicate += 1,
        }
    }

    /// Closes all windows.
    pub fn finish(&mut self, sink: &mut impl FnMut(WindowRow<'_>)) {
        if let Some(newest) = self.newest.take() {
            for window in newest - self.settings.late as i64..=newest {
                self.close(window, sink);
            }
        }
    }

    /// Makes `window` the newest and closes those that are now too old.
    #[cold]
    fn advance(&mut self, newest: i64, window: i64, sink: &mut impl FnMut(WindowRow<'_>)) {
        let late = self.settings.late as i64;
        for old in newest - late..=newest.min(window - late - 1) {
            self.close(old, sink);
        }
        self.newest = Some(window);
    }

    fn close(&mut self, window: i64, sink: &mut impl FnMut(WindowRow<'_>)) {
        let end = (window + 1).saturating_mul(self.width);
        self.row.clear();
        let mut any = false;
        for metric in &mut self.metrics {
            let before = metric.held.partition_point(|&(time, _)| time < end);
            metric.settle(before, self.width);
            // What comes now for a closed window is late, even if this metric had nothing in it.
            metric.settled = metric.settled.max(end.saturating_sub(1));
            let slot = window.rem_euclid(metric.open.len() as i64) as usize;
            let moments = std::mem::replace(&mut metric.open[slot], Moments::EMPTY);
            any |= !moments.is_empty();
            self.row.push(moments.stats());
        }
        if any {
            let start = window * self.settings.width;
            sink(WindowRow {
                start,
                stats: &self.row,
            });
        }
    }
}

impl Metric {
    /// Keeps a sample; false if there is one of the same time.
    #[inline]
    fn hold(&mut self, time: i64, value: f64) -> bool {
        match self.held.last() {
            Some(&(last, _)) if time <= last => {}
            _ => {
                self.held.push((time, value));
                return true;
            }
        }
        match self.held.binary_search_by_key(&time, |&(t, _)| t) {
            Ok(_) => false,
            Err(place) => {
                self.held.insert(place, (time, value));
                true
            }
        }
    }

    /// Adds the first `count` held samples to their windows.
    fn settle(&mut self, count: usize, width: i64) {
        let slots = self.open.len() as i64;
        let (mut from, mut to, mut slot) = (0, 0, 0);
        for &(time, value) in self.held.iter().take(count) {
            if time >= to || time < from {
                let window = time.div_euclid(width);
                (from, to) = (window.saturating_mul(width), (window + 1).saturating_mul(width));
                slot = window.rem_euclid(slots) as usize;
            }
            let moments = &mut self.open[slot];
            match self.kind {
                MetricKind::Gauge => moments.add(value),
                MetricKind::Counter => {
                    if let Some((before, old)) = self.last {
                        let increase = if value >= old { value - old } else { value };
                        moments.add(increase * 1000.0 / time.saturating_sub(before) as f64);
                    }
                    self.last = Some((time, value));
                }
            }
            self.settled = time;
        }
        self.held.drain(..count.min(self.held.len()));
    }
}
