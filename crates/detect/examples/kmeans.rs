//! A detector of your own: the distance from the nearest of a few typical rows, beside Synod's.
//!
//!     cargo run --release -p synod-detect --example kmeans
//!
//! Whatever implements `Method` and `Guest` can be a member of a recipe. It is fitted, scored window by window, explained,
//! stored and read back like the others.

use std::error::Error;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use synod_core::{Frame, Random};
use synod_detect::detector::{ByMethod, Detector, Guest, Kind, Method, Parts};
use synod_detect::features::View;
use synod_detect::{Member, NodeModel, Recipe, Rows};

/// How centres are found.
#[derive(Debug)]
struct KMeans {
    centres: usize,
}

/// Centres of rows that are alike, one after the other.
#[derive(Debug, Serialize, Deserialize)]
struct Centres {
    width: usize,
    values: Vec<f32>,
}

/// Rounds of assigning rows to centres and moving these, at most.
const ROUNDS: usize = 25;

impl Method for KMeans {
    fn name(&self) -> &str {
        "kmeans"
    }

    fn fit(&self, rows: &Rows, keep: &[bool], seed: u64) -> synod_detect::Result<Arc<dyn Guest>> {
        let rows = rows.filter(keep);
        let mut order: Vec<&[f32]> = rows.iter().collect();
        Random::from_state(seed).shuffle(&mut order);
        let first: Vec<f32> = order.into_iter().take(self.centres).flatten().copied().collect();
        let mut centres = Centres {
            width: rows.width(),
            values: first,
        };
        for _ in 0..ROUNDS {
            let nearest: Vec<usize> = rows.iter().map(|row| centres.nearest(row).0).collect();
            if !centres.move_to_means(&rows, &nearest) {
                break;
            }
        }
        Ok(Arc::new(centres))
    }

    fn revive(&self, stored: &str) -> Result<Arc<dyn Guest>, String> {
        let centres: Centres = serde_json::from_str(stored).map_err(|e| e.to_string())?;
        match centres.width > 0
            && !centres.values.is_empty()
            && centres.values.len().is_multiple_of(centres.width)
        {
            true => Ok(Arc::new(centres)),
            false => Err("its centres are of different widths".into()),
        }
    }
}

impl Centres {
    /// The nearest centre and the square of its distance.
    fn nearest(&self, row: &[f32]) -> (usize, f32) {
        let centres = self.values.chunks_exact(self.width.max(1)).enumerate();
        let distance = |centre: &[f32]| {
            row.iter()
                .zip(centre)
                .map(|(x, c)| (x - c) * (x - c))
                .sum::<f32>()
        };
        let distances = centres.map(|(k, centre)| (k, distance(centre)));
        distances.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }

    /// Whether a centre moved. One that no row is nearest to stays where it is.
    fn move_to_means(&mut self, rows: &Rows, nearest: &[usize]) -> bool {
        let mut moved = false;
        for (k, centre) in self.values.chunks_exact_mut(self.width.max(1)).enumerate() {
            let own: Vec<&[f32]> = rows
                .iter()
                .zip(nearest)
                .filter(|(_, n)| **n == k)
                .map(|(row, _)| row)
                .collect();
            if own.is_empty() {
                continue;
            }
            for (f, c) in centre.iter_mut().enumerate() {
                let mean = own.iter().map(|row| row[f]).sum::<f32>() / own.len() as f32;
                moved |= mean != *c;
                *c = mean;
            }
        }
        moved
    }
}

impl Detector for Centres {
    fn judge(&self, rows: &Rows, _: &mut Vec<f32>, sizes: &mut [f32]) {
        let last = rows.iter().skip(rows.len() - sizes.len());
        last.zip(sizes)
            .for_each(|(row, size)| *size = self.nearest(row).1);
    }

    fn explain(&self, rows: &Rows) -> Parts {
        let row = rows.iter().last().unwrap_or_default();
        let (nearest, _) = self.nearest(row);
        let expected = self.values[nearest * self.width..][..self.width].to_vec();
        let shares = row.iter().zip(&expected).map(|(x, c)| (x - c) * (x - c));
        Parts {
            shares: shares.collect(),
            expected,
        }
    }
}

impl Guest for Centres {
    fn width(&self) -> usize {
        self.width
    }

    fn store(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A node in one of three states, with a sensor that is off in the last ten windows.
fn node(rows: usize, off: bool) -> Result<Frame, synod_core::Error> {
    let mut random = Random::from_state(5);
    let mut values = vec![];
    for t in 0..rows {
        let state = (t / 20 % 3) as f32;
        let wrong = if off && t + 10 >= rows { 4.0 } else { 0.0 };
        values.extend((0..6).map(|m| {
            state * (m as f32 - 2.0) + 0.2 * random.normal() as f32 + if m == 3 { wrong } else { 0.0 }
        }));
    }
    let times = (0..rows as i64).map(|t| 900 * t).collect();
    Frame::new(
        "n1",
        900,
        times,
        (0..6).map(|m| format!("sensor{m}")).collect(),
        values,
    )
}

#[expect(clippy::print_stdout, reason = "the result of the example")]
fn main() -> Result<(), Box<dyn Error>> {
    let method = Arc::new(KMeans { centres: 6 });
    let mut recipe = Recipe::standard(1);
    let kind = Kind::Outside(ByMethod(method.clone()));
    recipe.members.push(Member::new(kind, View::Values, 10, 0.3));
    let model = NodeModel::fit(&node(900, false)?, &recipe)?;

    let path = std::env::temp_dir().join(format!("kmeans-{}.safetensors", std::process::id()));
    model.save(&path)?;
    let again = NodeModel::load_with(&path, &[&*method])?;
    std::fs::remove_file(&path)?;

    let test = node(300, true)?;
    assert_eq!(model.score(&test), again.score(&test));
    let mut named = vec![];
    again.watch(&test, &mut |scored| named = scored.explain(0));
    println!("score of the last window: {:.2}", again.score(&test).total[299]);
    println!("it is {}, {:.0} % of it", named[0].metric, 100.0 * named[0].share);
    assert_eq!(named[0].metric, "sensor3");
    Ok(())
}

#[test]
fn it_does_what_it_says() -> Result<(), Box<dyn Error>> {
    main()
}
