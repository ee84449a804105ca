//! From the pipeline into the trainer.

use std::sync::Arc;

use anyhow::Result;
use synod_data::augment::{Augment, Image};
use synod_data::pipeline::{Arrays, Batch, Pipeline, PipelineBuilder, Position, TuningEvent};
use synod_engine::Shape;
use synod_nn::{Data, Error, Feed};

use super::config::{AugmentConfig, Config};
use super::data::Rows;
use super::scale::Scale;
use super::{Misuse, events};
use synod_runs::Log;

/// Batches that the pipeline's threads shuffle, augment and scale ahead of training.
pub(super) struct PipelineFeed {
    pipeline: Pipeline,
    /// The batch being trained on; its memory goes back when the next is asked for.
    batch: Option<Batch>,
    rows: usize,
}

impl PipelineFeed {
    /// Starts the threads at the first batch, or at that of the position.
    pub(super) fn start(
        pipeline: PipelineBuilder,
        rows: usize,
        from: Option<Position>,
    ) -> Result<PipelineFeed> {
        let pipeline = match from {
            None => pipeline.start()?,
            Some(position) => pipeline.resume(position)?,
        };
        Ok(PipelineFeed {
            pipeline,
            batch: None,
            rows,
        })
    }

    /// Identifies the settings that decide what batches hold.
    pub(super) fn plan(&self) -> u64 {
        self.pipeline.position().plan
    }
}

impl Feed for PipelineFeed {
    fn rows(&self) -> usize {
        self.rows
    }

    fn next_batch(&mut self) -> synod_nn::Result<Option<Data<'_>>> {
        self.batch = None;
        let next = self.pipeline.next_batch();
        self.batch = next.map_err(|e| Error::Feed(Box::new(e)))?;
        let batch = self.batch.as_ref();
        Ok(batch.map(|b| Data::new(b.values(), b.columns(), b.labels(), 1)))
    }
}

/// Settings of the pipeline over the training rows, whose decisions go to the log.
pub(super) fn pipeline(
    config: &Config,
    train: Rows,
    scale: Scale,
    augment: Option<Augment<Image>>,
    log: &Log,
) -> Result<PipelineBuilder> {
    let rows = train.len();
    let arrays = Arrays::new(train.inputs, train.width)?.with_labels(train.classes)?;
    let log = log.clone();
    let mut builder = Pipeline::over(Arc::new(arrays))
        .batch(config.train.batch.get().min(rows))
        .seed(config.seed)
        .epochs(config.train.epochs.get() as u64)
        // A decision that cannot be logged is no reason to stop: the next epoch's event tells of a full disk.
        .events(move |event| drop(log.write(&describe(event))));
    if let Some(augment) = augment {
        builder = builder.map(move |row| augment.apply_to(row));
    }
    Ok(builder.map(move |row| {
        scale.apply(row.values);
        Ok(())
    }))
}

fn describe(event: &TuningEvent) -> events::Pipeline<'_> {
    let (what, from, to, because) = match event {
        TuningEvent::Workers { from, to, because } => ("workers", from, to, because),
        TuningEvent::Depth { from, to, because } => ("depth", from, to, because),
    };
    events::Pipeline {
        what,
        from: *from,
        to: *to,
        because,
    }
}

/// The changes of images that the configuration asks for.
pub(super) fn augmentation(
    config: Option<&AugmentConfig>,
    input: &Shape,
) -> Result<Option<Augment<Image>>, Misuse> {
    let Some(config) = config else {
        return Ok(None);
    };
    let [height, width, channels] = *input.dims() else {
        return Err(Misuse(format!(
            "[augment] changes images of rows, columns and channels, but the model takes {input}; leave it out"
        )));
    };
    let zeros = |size: usize| Image::Cutout { size, fill: 0.0 };
    let changes = [
        (config.flip_horizontal, Some(Image::FlipHorizontal)),
        (config.flip_vertical, Some(Image::FlipVertical)),
        (Some(1.0), config.crop.map(|p| Image::Crop { padding: p.get() })),
        (Some(1.0), config.cutout.map(|size| zeros(size.get()))),
    ];
    let mut augment = Augment::images(height, width, channels);
    for (probability, change) in changes {
        if let (Some(probability), Some(change)) = (probability, change) {
            let added = augment.with(probability, change);
            augment = added.map_err(|e| Misuse(format!("[augment]: {e}")))?;
        }
    }
    Ok(Some(augment))
}
