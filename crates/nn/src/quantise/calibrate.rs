//! The ranges of activations, observed on examples.

use std::sync::Arc;

use synod_engine::{Options, Session, compile};

use super::Quantised;
use super::emit::emit;
use super::grid::Grid;
use super::read::Reading;
use crate::error::{Error, Result};

/// Bins of a histogram: sixteen to a level.
const BINS: usize = 4096;

/// Numbers that all observed values may have at once.
const AT_ONCE: usize = 1 << 23;

/// How much of what was seen a grid reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reach {
    /// All of it.
    Extremes,
    /// All but this share at either end.
    AllBut(f64),
    /// As much as makes the squared error least.
    LeastSquares,
}

const CANDIDATES: [Reach; 5] = [
    Reach::Extremes,
    Reach::AllBut(1e-5),
    Reach::AllBut(1e-4),
    Reach::AllBut(1e-3),
    Reach::LeastSquares,
];

/// How often a value lay where.
struct Histogram {
    least: f32,
    most: f32,
    counts: Vec<u64>,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram {
            least: 0.0,
            most: 0.0,
            counts: vec![0; BINS],
        }
    }

    fn widen(&mut self, values: &[f32]) {
        for &x in values.iter().filter(|x| x.is_finite()) {
            self.least = self.least.min(x);
            self.most = self.most.max(x);
        }
    }

    fn width(&self) -> f32 {
        (self.most - self.least) / BINS as f32
    }

    fn count(&mut self, values: &[f32]) {
        let per_bin = 1.0 / self.width().max(f32::MIN_POSITIVE);
        for &x in values.iter().filter(|x| x.is_finite()) {
            let bin = ((x - self.least) * per_bin) as usize;
            self.counts[bin.min(BINS - 1)] += 1;
        }
    }

    fn grid(&self, reach: Reach) -> Grid {
        match reach {
            Reach::Extremes => Grid::covering(self.least, self.most),
            Reach::AllBut(share) => {
                let total: u64 = self.counts.iter().sum();
                let spare = (total as f64 * share) as u64;
                let skipped = |bins: &mut dyn Iterator<Item = &u64>| {
                    let mut seen = 0;
                    bins.take_while(|&&n| {
                        seen += n;
                        seen <= spare
                    })
                    .count() as f32
                };
                let low = skipped(&mut self.counts.iter());
                let high = skipped(&mut self.counts.iter().rev());
                Grid::covering(self.least + low * self.width(), self.most - high * self.width())
            }
            Reach::LeastSquares => {
                let shrunk = |i: usize| {
                    let share = 1.0 - i as f32 / 64.0;
                    Grid::covering(self.least * share, self.most * share)
                };
                let error = |grid: &Grid| self.squared_error(grid);
                let best = (0..48).map(shrunk).min_by(|a, b| error(a).total_cmp(&error(b)));
                best.unwrap_or(Grid::covering(self.least, self.most))
            }
        }
    }

    fn squared_error(&self, grid: &Grid) -> f64 {
        let (low, high) = (grid.number(0), grid.number(255));
        let step = f64::from(grid.scale);
        let bins = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        bins.map(|(i, &n)| {
            let x = self.least + (i as f32 + 0.5) * self.width();
            let beyond = f64::from((low - x).max(x - high).max(0.0));
            n as f64 * (beyond * beyond + step * step / 12.0)
        })
        .sum()
    }
}

/// The grids for a network under which its bytes come closest to what it gives in `f32`, on these rows.
pub(super) fn calibrated(reading: &Reading, inputs: &[f32]) -> Result<Quantised> {
    let width: usize = reading.network.input.iter().product();
    if inputs.is_empty() || !inputs.len().is_multiple_of(width.max(1)) {
        return Err(Error::Data(format!(
            "{} numbers are not one or more rows of {width} to calibrate with",
            inputs.len()
        )));
    }
    let has_grid = reading.network.has_grid();
    let own: Vec<usize> = (0..has_grid.len()).filter(|&i| has_grid[i]).collect();
    let last = reading.network.steps.len();
    let mut histograms: Vec<Histogram> = own.iter().map(|_| Histogram::new()).collect();
    let mut wanted = vec![];
    let observed: Vec<usize> = own.iter().copied().chain([last]).collect();
    let split = own.len();
    observe(reading, inputs, &observed, |i, values| match i == split {
        true => wanted.extend_from_slice(values),
        false => histograms[i].widen(values),
    })?;
    observe(reading, inputs, &own, |i, values| histograms[i].count(values))?;
    let mut best: Option<(f64, Quantised)> = None;
    for reach in CANDIDATES {
        let mut grids = vec![None; last + 1];
        for (&value, histogram) in own.iter().zip(&histograms) {
            grids[value] = Some(histogram.grid(reach));
        }
        let quantised = Quantised::new(reading, &grids)?;
        let error = distance(&quantised.predict(inputs)?, &wanted);
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, quantised));
        }
    }
    best.map(|(_, quantised)| quantised)
        .ok_or_else(|| Error::Data("no row to calibrate with".into()))
}

fn distance(found: &[f32], wanted: &[f32]) -> f64 {
    let squares = found.iter().zip(wanted).map(|(x, y)| f64::from(x - y).powi(2));
    squares.sum()
}

/// Runs the network in `f32` and shows the wanted values, batch by batch.
fn observe(
    reading: &Reading,
    inputs: &[f32],
    wanted: &[usize],
    mut see: impl FnMut(usize, &[f32]),
) -> Result<()> {
    let shapes = reading.network.shapes().map_err(Error::Setting)?;
    let size = |i: &usize| shapes[*i].iter().product::<usize>();
    let width = size(&0).max(1);
    let per_row: usize = wanted.iter().map(size).sum();
    let rows = (AT_ONCE / per_row.max(1)).clamp(1, 256).min(inputs.len() / width);
    let mut session: Option<(usize, Session)> = None;
    for chunk in inputs.chunks(rows * width) {
        let batch = chunk.len() / width;
        let mut current = match session.take() {
            Some((n, session)) if n == batch => session,
            _ => start(reading, batch, wanted)?,
        };
        let input = current.program().param_count() - 1;
        current.param_mut(input).copy_from_slice(chunk);
        current.run();
        (0..wanted.len()).for_each(|i| see(i, current.output(i)));
        session = Some((batch, current));
    }
    Ok(())
}

fn start(reading: &Reading, batch: usize, wanted: &[usize]) -> Result<Session> {
    let graph = emit(&reading.network, &reading.layers, None, batch, false, wanted)?;
    let mut session = Session::new(Arc::new(compile(&graph, &Options::default())?));
    for (i, layer) in reading.layers.iter().enumerate() {
        session.param_mut(2 * i).copy_from_slice(&layer.weight);
        session.param_mut(2 * i + 1).copy_from_slice(&layer.bias);
    }
    Ok(session)
}
