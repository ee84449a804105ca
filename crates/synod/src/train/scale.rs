//! Numbers of a file, brought to a scale that training likes, and to their principal components.

use std::thread;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use synod_core::parallel::try_in_order;
use synod_runs::{COMPONENTS, Folder};
use synod_sums::{ColumnMoments, ColumnScaling, Components, CrossMoments, Edges, Histograms};

use super::config::{DataConfig, Standardise};
use super::data::Rows;

/// Parts into which a bin with a quartile in it is cut from pass to pass.
const BINS: usize = 64;

/// What turns numbers of the file into numbers for the model: minus a centre, over a spread.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    /// One number, or one for each column.
    centre: Vec<f32>,
    spread: Vec<f32>,
}

impl Scale {
    /// Leaves numbers as they are but for a divisor.
    pub(super) fn by(divisor: f32) -> Scale {
        Scale {
            centre: vec![0.0],
            spread: vec![divisor],
        }
    }

    /// Learns from the training rows what the configuration asks for.
    pub(super) fn new(config: &DataConfig, train: &Rows) -> Result<Scale> {
        let Some(how) = config.standardise else {
            return Ok(Scale::by(config.divide_by.unwrap_or(1.0)));
        };
        let width = match how {
            Standardise::All => 1,
            _ => train.width,
        };
        Scale::of(&scaling(how, width, &parts(&train.inputs, width))?)
    }

    fn of(scaling: &ColumnScaling) -> Result<Scale> {
        let (mut centre, mut spread) = (vec![], vec![]);
        for (column, (middle, scale)) in scaling.columns().enumerate() {
            let scale = scale as f32;
            ensure!(
                scale.is_finite(),
                "column {column} (counted from 0) ranges further than single precision does; leave it out"
            );
            centre.push(middle as f32);
            spread.push(if scale > 0.0 { scale } else { 1.0 });
        }
        Ok(Scale { centre, spread })
    }

    /// Brings rows to scale, in place.
    pub(super) fn apply(&self, rows: &mut [f32]) {
        if let ([centre], [spread]) = (&self.centre[..], &self.spread[..]) {
            rows.iter_mut().for_each(|x| *x = (*x - centre) / spread);
            return;
        }
        for row in rows.chunks_mut(self.centre.len().max(1)) {
            for ((x, centre), spread) in row.iter_mut().zip(&self.centre).zip(&self.spread) {
                *x = (*x - centre) / spread;
            }
        }
    }
}

/// What became of the file's numbers before a model saw them.
pub(super) struct Preparation {
    pub(super) scale: Scale,
    pub(super) components: Option<Components>,
}

impl Preparation {
    /// Writes into the run directory, and gives for the summary, what whoever uses the model has to do to its inputs.
    pub(super) fn record(&self, folder: &Folder) -> Result<Prepared> {
        let components = self.components.as_ref().map(|components| -> Result<Projected> {
            folder.write(COMPONENTS, &serde_json::to_string(components)?)?;
            Ok(Projected {
                file: folder.path().join(COMPONENTS).display().to_string(),
                count: components.directions().len(),
                shares: components.shares().to_vec(),
                variance_kept: components.shares().iter().sum::<f64>(),
            })
        });
        Ok(Prepared {
            scale: Scaled {
                subtract: self.scale.centre.clone(),
                divide_by: self.scale.spread.clone(),
            },
            components: components.transpose()?,
        })
    }
}

/// What inputs need before the model sees them, as a summary says it.
#[derive(Serialize)]
pub(super) struct Prepared {
    scale: Scaled,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<Projected>,
}

/// Per column, or one number for all.
#[derive(Serialize)]
struct Scaled {
    subtract: Vec<f32>,
    divide_by: Vec<f32>,
}

/// Principal components that took the place of columns.
#[derive(Serialize)]
struct Projected {
    file: String,
    count: usize,
    /// The share of the variance that each keeps.
    shares: Vec<f64>,
    variance_kept: f64,
}

/// The first `count` principal components of rows.
pub(super) fn components(rows: &Rows, count: usize) -> Result<Components> {
    let width = rows.width;
    let clients = parts(&rows.inputs, width);
    let sums = merged(
        &clients,
        |rows| CrossMoments::of(width, rows),
        CrossMoments::merge,
    )?;
    Ok(Components::of(&sums, count)?)
}

/// One part for each core. The sums are exact and tell nothing of how rows were divided, so that these parts stand for whatever
/// clients a federation will have.
fn parts(values: &[f32], width: usize) -> Vec<&[f32]> {
    let rows = values.len() / width.max(1);
    values
        .chunks(rows.div_ceil(cores()).max(1) * width.max(1))
        .collect()
}

/// The scaling of columns that follows from what clients tell of their own rows.
fn scaling(how: Standardise, width: usize, clients: &[&[f32]]) -> Result<ColumnScaling> {
    let moments = merged(
        clients,
        |rows| ColumnMoments::of(width, rows),
        ColumnMoments::merge,
    )?;
    Ok(match how {
        Standardise::All | Standardise::Columns => ColumnScaling::standard(&moments),
        Standardise::Range => ColumnScaling::min_max(&moments),
        Standardise::Robust => ColumnScaling::robust(&quartiles(&moments, clients)?),
    })
}

/// Counts between edges that come closer to the quartiles from pass to pass, until they are known to the bit.
fn quartiles(moments: &ColumnMoments, clients: &[&[f32]]) -> Result<Histograms> {
    let mut edges = Edges::even(moments, BINS)?;
    loop {
        let count = |rows: &[f32]| {
            let mut counted = Histograms::new(edges.clone());
            counted.add(rows)?;
            Ok(counted)
        };
        let counted = merged(clients, count, Histograms::merge)?;
        match counted.refine(&[0.25, 0.5, 0.75], BINS, 0.0) {
            Some(finer) => edges = finer,
            None => return Ok(counted),
        }
    }
}

type Told<T> = synod_sums::Result<T>;

/// What each client tells of its own rows, merged into one; clients work at the same time.
fn merged<T: Send>(
    clients: &[&[f32]],
    tell: impl Fn(&[f32]) -> Told<T> + Sync,
    merge: impl Fn(&mut T, &T) -> Told<()>,
) -> Result<T> {
    let told = try_in_order(0..clients.len(), cores(), |client| tell(clients[client]))?;
    let mut told = told.into_iter();
    let mut all = told.next().context("there are no rows to learn a scale from")?;
    for one in told {
        merge(&mut all, &one)?;
    }
    Ok(all)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: [Standardise; 4] = [
        Standardise::All,
        Standardise::Columns,
        Standardise::Range,
        Standardise::Robust,
    ];

    /// Rows of three columns: a bent one with an outlier, one that never changes, and one of few whole numbers.
    fn rows(count: usize) -> Vec<[f32; 3]> {
        let bent = |i: usize| ((i * 7919 % 1009) as f32 / 100.0).powi(3) - 20.0;
        let row = |i: usize| [if i == 5 { 1e9 } else { bent(i) }, -7.5, (i * 31 % 7) as f32];
        (0..count).map(row).collect()
    }

    fn scale(how: Standardise, clients: &[&[f32]]) -> Scale {
        let width = if how == Standardise::All { 1 } else { 3 };
        Scale::of(&scaling(how, width, clients).expect("a scaling")).expect("a scale")
    }

    #[test]
    fn standardised_columns_have_mean_zero_and_unit_deviation() {
        let scaling = scaling(
            Standardise::Columns,
            2,
            &[&[1.0, 7.0, 3.0, 7.0], &[5.0, 7.0, 7.0, 7.0]],
        );
        let scale = Scale::of(&scaling.expect("a scaling")).expect("a scale");
        assert_eq!(scale.centre, [4.0, 7.0]);
        assert_eq!(
            scale.spread,
            [5.0f32.sqrt(), 1.0],
            "a constant column is not divided by zero"
        );
        let mut row = [4.0, 9.0];
        scale.apply(&mut row);
        assert_eq!(row, [0.0, 2.0]);
    }

    #[test]
    fn ranged_columns_go_from_zero_to_one() {
        let mut all = rows(400).concat();
        let scale = scale(Standardise::Range, &[&all]);
        scale.apply(&mut all);
        for (column, most) in [(0, 1.0), (1, 0.0), (2, 1.0)] {
            let values = all.iter().skip(column).step_by(3);
            let (mut least, mut largest) = (f32::INFINITY, f32::NEG_INFINITY);
            values.for_each(|v| (least, largest) = (least.min(*v), largest.max(*v)));
            assert_eq!((least, largest), (0.0, most), "column {column}");
        }
    }

    #[test]
    fn robust_columns_are_scaled_by_the_quartiles_of_the_sorted_values() {
        let all = rows(401);
        let scale = scale(Standardise::Robust, &[&all.concat()]);
        for column in 0..3 {
            let mut sorted: Vec<f32> = all.iter().map(|row| row[column]).collect();
            sorted.sort_by(f32::total_cmp);
            let apart = sorted[300] - sorted[100];
            let spread = if apart > 0.0 { apart } else { 1.0 };
            assert_eq!(
                (scale.centre[column], scale.spread[column]),
                (sorted[200], spread),
                "column {column}"
            );
        }
    }

    #[test]
    fn whatever_clients_rows_belong_to_they_are_scaled_to_the_same_bits() {
        let all = rows(300);
        let whole = all.concat();
        for how in EVERY {
            let expected = scale(how, &[&whole]);
            assert_eq!(scale(how, &parts(&whole, 3)), expected, "{how:?}: by cores");
            for clients in [2, 7, 40] {
                let own = |client| {
                    all.iter()
                        .enumerate()
                        .filter(move |(i, _)| i * i % clients == client)
                };
                let owned: Vec<Vec<f32>> = (0..clients)
                    .map(|client| own(client).flat_map(|(_, row)| *row).collect())
                    .collect();
                let mut told: Vec<&[f32]> = owned.iter().map(Vec::as_slice).collect();
                for _ in 0..3 {
                    told.rotate_left(clients / 2);
                    assert_eq!(scale(how, &told), expected, "{how:?}: {clients} clients");
                    told.reverse();
                }
            }
        }
    }

    #[test]
    fn a_column_that_single_precision_cannot_span_is_refused() {
        let scaling = scaling(Standardise::Range, 1, &[&[f32::MIN, f32::MAX]]).expect("a scaling");
        let said = Scale::of(&scaling).expect_err("refused").to_string();
        assert!(said.contains("column 0"), "{said}");
    }
}
