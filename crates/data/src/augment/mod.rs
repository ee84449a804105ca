//! Random changes of rows that make training see more than the data hold.
//!
//! Every change is a pure function of seed, epoch and row, so neither the order of rows nor the number of workers matters.
//!
//! ```
//! use synod_data::augment::{Augment, Image};
//! let augment = Augment::images(28, 28, 1)
//!     .with(0.5, Image::FlipHorizontal)?
//!     .with(1.0, Image::Crop { padding: 2 })?;
//! let mut pixels = vec![0.0; 28 * 28];
//! augment.apply(1, 0, 42, &mut pixels, &mut Vec::new())?;
//! # Ok::<(), synod_data::Error>(())
//! ```

mod image;
mod series;

use self::image::Extent;
pub use self::{image::Image, series::Series};
use crate::{
    error::{Error, Result},
    pipeline::{Row, random},
};

/// A list of changes, each made with a probability of its own, in order.
#[derive(Clone, Debug)]
pub struct Augment<Op> {
    /// Rows or steps, columns, channels.
    extent: Extent,
    ops: Vec<(f32, Op)>,
}

/// A change that can stand in a list.
pub trait Augmentation {
    /// What is wrong with its settings for rows of this extent, if anything.
    fn problem(&self, extent: [usize; 3]) -> Option<String>;

    /// Changes a row in place. `scratch` is memory to use.
    fn change(&self, extent: [usize; 3], draws: &mut Draws, values: &mut [f32], scratch: &mut Vec<f32>);
}

impl Augment<Image> {
    /// For images with rows, columns and channels in this order, channels innermost.
    pub fn images(height: usize, width: usize, channels: usize) -> Augment<Image> {
        Augment {
            extent: [height, width, channels],
            ops: Vec::new(),
        }
    }
}

impl Augment<Series> {
    /// For telemetry of `steps` points in time with `channels` values each, channels innermost.
    pub fn series(steps: usize, channels: usize) -> Augment<Series> {
        Augment {
            extent: [steps, 1, channels],
            ops: Vec::new(),
        }
    }
}

impl<Op: Augmentation> Augment<Op> {
    /// The same with one more change, made with this probability.
    pub fn with(mut self, probability: f32, op: Op) -> Result<Augment<Op>> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(Error::Setting(format!(
                "{probability} is not a probability; it should lie between 0 and 1"
            )));
        }
        if let Some(problem) = op.problem(self.extent) {
            return Err(Error::Setting(problem));
        }
        self.ops.push((probability, op));
        Ok(self)
    }

    /// Changes row `index` of the data for one epoch. The error says that the row has another extent.
    pub fn apply(
        &self,
        seed: u64,
        epoch: u64,
        index: u64,
        values: &mut [f32],
        scratch: &mut Vec<f32>,
    ) -> Result<()> {
        let expected: usize = self.extent.iter().product();
        if values.len() != expected {
            let [a, b, c] = self.extent;
            return Err(Error::Setting(format!(
                "a row of {} values is not {a} x {b} x {c}",
                values.len()
            )));
        }
        for (number, (probability, op)) in self.ops.iter().enumerate() {
            let mut draws = Draws {
                seed,
                epoch,
                index,
                stream: (number as u64 + 1) << 40,
            };
            if draws.uniform() < *probability {
                op.change(self.extent, &mut draws, values, scratch);
            }
        }
        Ok(())
    }

    /// Changes a row of a pipeline; give it to [`crate::pipeline::PipelineBuilder::map`].
    pub fn apply_to(&self, row: &mut Row<'_>) -> Result<(), String> {
        self.apply(row.seed, row.epoch, row.index, row.values, row.scratch)
            .map_err(|e| e.to_string())
    }
}

/// Random numbers for one change of one row in one epoch.
pub struct Draws {
    seed: u64,
    epoch: u64,
    index: u64,
    stream: u64,
}

impl Draws {
    fn bits(&mut self) -> u64 {
        self.stream += 1;
        random(self.seed, self.epoch, self.stream, self.index)
    }

    /// Uniform in `[0, 1)`.
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Uniform in `0..bound`; 0 if `bound` is.
    pub fn below(&mut self, bound: usize) -> usize {
        crate::pipeline::below(self.bits(), bound as u64) as usize
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f32::consts::TAU * self.uniform()).cos()
    }
}
