//! The rows of an experiment: read, split, checked and brought to scale.

use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use synod_core::config::Mistake;
use synod_core::{Digest, Hasher};
use synod_data::pipeline::Order;
use synod_data::readers::{Batch, Csv, Idx, Npy, Parquet, ReadOptions, RowReader};
use synod_nn::Data;
use synod_runs::Document;

use super::config::{DataConfig, Kind};
use super::scale::{self, Preparation, Scale};
use super::texts;

/// Rows that are read at once.
const CHUNK: usize = 1024;
/// The epoch whose order chooses the validation rows: one that training never comes to.
const SPLIT: u64 = u64::MAX;

/// Rows and their classes, with where they came from for messages.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) inputs: Vec<f32>,
    pub(super) classes: Vec<f32>,
    /// Numbers per row.
    pub(super) width: usize,
    /// Classes per row: one, or one for each character of a text.
    pub(super) targets: usize,
    /// To whom each row belongs, where rows have owners.
    pub(super) groups: Vec<u32>,
    pub(super) from: String,
    /// The number in the file of each row, if they are not all of it.
    pub(super) numbers: Vec<u64>,
}

/// The rows of an experiment. Training rows have still to be brought to scale, the others are ready for the model.
pub(super) struct Split {
    pub(super) train: Rows,
    pub(super) validation: Option<Rows>,
    pub(super) test: Option<Rows>,
    /// What training rows still lack: nothing if they are principal components.
    pub(super) scale: Scale,
    /// All that inputs go through.
    pub(super) preparation: Preparation,
}

impl Rows {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.classes.len() / self.targets.max(1)
    }

    /// The same as the trainer sees them.
    pub(super) fn data(&self) -> Data<'_> {
        Data::new(&self.inputs, self.width, &self.classes, self.targets.max(1))
    }

    /// The digest of all numbers, by which changed data are noticed.
    pub(super) fn digest(&self) -> Digest {
        let mut hasher = Hasher::new();
        let mut bytes = Vec::with_capacity(4 * CHUNK);
        for part in [&self.inputs, &self.classes] {
            for chunk in part.chunks(CHUNK) {
                bytes.clear();
                bytes.extend(chunk.iter().flat_map(|x| x.to_le_bytes()));
                hasher.update(&bytes);
            }
        }
        hasher.finish()
    }

    /// Refuses labels that are not one of `classes` classes.
    pub(super) fn check_classes(&self, classes: usize) -> Result<()> {
        let fits = |&label: &f32| label >= 0.0 && label < classes as f32;
        match self.classes.iter().position(|label| !fits(label)) {
            None => Ok(()),
            Some(row) => bail!(
                "{}: row {} (counted from 0) has label {}, but the model tells {classes} classes apart, 0 to {}; \
                 correct the label or use a model with more classes",
                self.from,
                self.numbers.get(row).map_or(row as u64, |number| *number),
                self.classes[row],
                classes.saturating_sub(1)
            ),
        }
    }

    fn check_numbers(&self, names: &[String]) -> Result<()> {
        ensure!(self.len() > 0, "{}: there are no rows", self.from);
        if let Some(at) = self.inputs.iter().position(|x| !x.is_finite()) {
            let (row, column) = (at / self.width, at % self.width);
            let name = names.get(column).map_or("?", String::as_str);
            bail!(
                "{}: row {row} (counted from 0) has no finite number in column {name:?}; fill it in, drop the row, or \
                 leave the column out with `columns`",
                self.from
            );
        }
        // Classes are kept as `f32`, which holds whole numbers up to this.
        let whole = |&c: &f32| (0.0..16_777_216.0).contains(&c) && c.fract() == 0.0;
        if let Some(row) = self.classes.iter().position(|c| !whole(c)) {
            bail!(
                "{}: row {row} (counted from 0) has label {}, which is no class; classes are 0, 1, 2, …",
                self.from,
                self.classes[row]
            );
        }
        Ok(())
    }

    /// The rows at these places.
    fn take(&self, places: impl Iterator<Item = u64>) -> Rows {
        let mut taken = Rows {
            width: self.width,
            targets: self.targets,
            from: self.from.clone(),
            ..Rows::default()
        };
        for place in places {
            let at = place as usize;
            taken
                .inputs
                .extend_from_slice(&self.inputs[at * self.width..(at + 1) * self.width]);
            taken.classes.push(self.classes[at]);
            taken.numbers.push(place);
        }
        taken
    }
}

impl Split {
    /// Rows that all have still to be brought to scale.
    pub(super) fn new(train: Rows, validation: Option<Rows>, test: Option<Rows>, scale: Scale) -> Split {
        Split {
            train,
            validation,
            test,
            preparation: Preparation {
                scale: scale.clone(),
                components: None,
            },
            scale,
        }
    }

    /// Replaces the columns of all rows by the first principal components of the training rows.
    fn project(&mut self, count: NonZeroUsize, document: &Document) -> Result<()> {
        let (wanted, columns) = (count.get(), self.train.width);
        if wanted > columns {
            let problem =
                format!("`components` is {wanted}, but rows have {columns} columns; set {columns} or less");
            return Err(document.refuse(&Mistake::at("data.components", problem)).into());
        }
        self.scale.apply(&mut self.train.inputs);
        self.scale = Scale::by(1.0);
        let components = scale::components(&self.train, wanted)?;
        let others = self.validation.iter_mut().chain(&mut self.test);
        for rows in std::iter::once(&mut self.train).chain(others) {
            let projected = components.apply(&rows.inputs);
            rows.inputs = projected.with_context(|| format!("cannot project the rows of {}", rows.from))?;
            rows.width = wanted;
        }
        self.preparation.components = Some(components);
        Ok(())
    }

    /// The largest class of the training file, and one.
    pub(super) fn classes_seen(&self) -> usize {
        let rows = std::iter::once(&self.train).chain(&self.validation);
        rows.flat_map(|r| &r.classes).fold(0.0f32, |most, c| most.max(*c)) as usize + 1
    }
}

/// Reads all rows. What chooses and scales is learnt from the training rows that remain.
pub(super) fn load(config: &DataConfig, document: &Document, seed: u64) -> Result<Split> {
    let base = document.base();
    if config.kind == Kind::Speakers {
        return texts::load(config, base);
    }
    let labels = config.train_labels.as_deref();
    let (all, names) = read(config, base, &config.train, labels, config.columns.clone())
        .context("cannot use the training data")?;
    let test = config.test.as_ref().map(|path| {
        let labels = config.test_labels.as_deref();
        // Columns by name, because files may order them differently.
        let columns = (config.label.is_some()).then(|| names.clone());
        let (rows, _) = read(config, base, path, labels, columns)?;
        ensure!(
            rows.width == all.width,
            "{}: rows have {} numbers, those of {} have {}",
            rows.from,
            rows.width,
            all.from,
            all.width
        );
        Ok(rows)
    });
    let test = test.transpose().context("cannot use the test data")?;
    let (train, validation) = set_aside(all, config.validation, seed)?;
    let scale = Scale::new(config, &train)?;
    let mut split = Split::new(train, validation, test, scale);
    for rows in split.validation.iter_mut().chain(&mut split.test) {
        split.scale.apply(&mut rows.inputs);
    }
    if let Some(count) = config.components {
        split.project(count, document)?;
    }
    Ok(split)
}

/// Training and validation rows; which is which depends on the seed only.
fn set_aside(all: Rows, share: f32, seed: u64) -> Result<(Rows, Option<Rows>)> {
    if share == 0.0 {
        return Ok((all, None));
    }
    let rows = all.len() as u64;
    let held = (rows as f64 * f64::from(share)).round() as u64;
    ensure!(
        held > 0 && held < rows,
        "a share of {share} of {rows} rows leaves nothing to {}; change `validation`",
        if held == 0 { "judge by" } else { "train on" }
    );
    let order = Order::shuffled(rows, seed, SPLIT);
    let validation = all.take((0..held).map(|place| order.at(place)));
    let train = all.take((held..rows).map(|place| order.at(place)));
    Ok((train, Some(validation)))
}

fn read(
    config: &DataConfig,
    base: &Path,
    path: &Path,
    labels: Option<&Path>,
    columns: Option<Vec<String>>,
) -> Result<(Rows, Vec<String>)> {
    let path = base.join(path);
    let options = ReadOptions {
        columns,
        label: config.label.clone(),
        ..ReadOptions::default()
    };
    let mut apart = None;
    let mut reader: Box<dyn RowReader> = match (config.kind, labels) {
        (Kind::Idx, Some(labels)) => Box::new(Idx::open(&path, &options)?.with_labels(base.join(labels))?),
        (Kind::Idx, None) => Box::new(Idx::open(&path, &options)?),
        (Kind::Npy, labels) => {
            apart = labels.map(|l| read_labels(&base.join(l))).transpose()?;
            Box::new(Npy::open(&path, &options)?)
        }
        (Kind::Csv | Kind::Speakers, _) => Box::new(Csv::open(&path, &options)?),
        (Kind::Parquet, _) => Box::new(Parquet::open(&path, &options)?),
    };
    let names = reader.names().to_vec();
    let mut rows = Rows {
        width: names.len(),
        targets: 1,
        from: path.display().to_string(),
        ..Rows::default()
    };
    ensure!(rows.width > 0, "{}: there are no columns of numbers", rows.from);
    let mut batch = Batch::new();
    while reader.read(CHUNK, &mut batch)? > 0 {
        rows.inputs.extend_from_slice(&batch.values);
        rows.classes.extend_from_slice(&batch.labels);
    }
    if let Some(classes) = apart {
        rows.classes = classes;
    }
    let count = rows.inputs.len() / rows.width;
    ensure!(
        rows.classes.len() == count,
        "{}: {} labels for {count} rows; choose the label file that belongs to the rows",
        rows.from,
        rows.classes.len()
    );
    rows.check_numbers(&names)?;
    Ok((rows, names))
}

fn read_labels(path: &Path) -> Result<Vec<f32>> {
    let mut reader = Npy::open(path, &ReadOptions::default())?;
    let width = reader.names().len();
    ensure!(
        width == 1,
        "{}: {width} numbers a row are no labels; one is needed",
        path.display()
    );
    let (mut batch, mut labels) = (Batch::new(), vec![]);
    while reader.read(CHUNK, &mut batch)? > 0 {
        labels.extend_from_slice(&batch.values);
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(inputs: &[f32], width: usize) -> Rows {
        Rows {
            inputs: inputs.to_vec(),
            classes: (0..inputs.len() / width).map(|i| i as f32).collect(),
            width,
            targets: 1,
            from: "here".to_owned(),
            ..Rows::default()
        }
    }

    #[test]
    fn rows_set_aside_are_not_trained_on_and_none_is_lost() {
        let (train, held) = set_aside(rows(&[0.0; 100], 1), 0.3, 7).expect("split");
        let held = held.expect("validation rows");
        assert_eq!((train.len(), held.len()), (70, 30));
        let mut all: Vec<f32> = [train.classes, held.classes].concat();
        all.sort_by(f32::total_cmp);
        assert!(all.into_iter().eq((0..100).map(|i| i as f32)));
        assert!(
            set_aside(rows(&[0.0; 3], 1), 0.01, 7).is_err(),
            "nothing to judge by"
        );
    }

    #[test]
    fn labels_that_are_no_class_are_named() {
        let mut bad = rows(&[0.0; 4], 1);
        let said = bad.check_classes(3).expect_err("refused").to_string();
        assert!(said.contains("here: row 3") && said.contains("label 3"), "{said}");
        let odd = bad.take([1, 3].into_iter());
        let said = odd.check_classes(3).expect_err("refused").to_string();
        assert!(said.contains("row 3"), "by its number in the file: {said}");
        bad.classes[1] = 0.5;
        let said = bad.check_numbers(&[]).expect_err("refused").to_string();
        assert!(said.contains("row 1") && said.contains("0.5"), "{said}");
    }

    #[test]
    fn the_digest_tells_rows_apart() {
        let (a, mut b) = (rows(&[1.0; 6], 2), rows(&[1.0; 6], 2));
        assert_eq!(a.digest(), b.digest());
        b.classes[0] = 1.0;
        assert_ne!(a.digest(), b.digest());
    }
}
