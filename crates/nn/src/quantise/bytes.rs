//! The model of bytes, and how it computes.

use synod_engine::{Shape, Tensor};
use synod_kernels::{
    ByteFilter, ByteResults, ByteWorkspace, Conv, Geometry, Requantise, Simd, dequantise, quantise,
};

use super::calibrate;
use super::emit::LEAST_WEIGHT;
use super::grid::Grid;
use super::network::{Form, Network, Step};
use super::pool;
use super::read::{Layer, Reading, read};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::model::Model;

/// Numbers that one value of a chunk of rows may have, and the most rows of a chunk.
const AT_ONCE: usize = 1 << 21;
const CHUNK: usize = 256;

/// A model whose weights and activations are bytes. It can be used, evaluated and stored, but not trained.
#[derive(Clone, Debug)]
pub struct Quantised {
    pub(super) network: Network,
    /// What the bytes of each value mean; the output of a product that ends the network is never bytes.
    pub(super) grids: Vec<Option<Grid>>,
    pub(super) layers: Vec<ByteLayer>,
    shapes: Vec<Vec<usize>>,
    filters: Vec<ByteFilter>,
    /// The last step that reads each value.
    last_use: Vec<usize>,
    simd: Simd,
}

/// The weights of a product as bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ByteLayer {
    pub(super) name: String,
    pub(super) weight: Vec<i8>,
    /// One per output.
    pub(super) scales: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl ByteLayer {
    fn new(layer: &Layer, outputs: usize) -> Result<ByteLayer> {
        if layer.weight.iter().chain(&layer.bias).any(|x| !x.is_finite()) {
            return Err(Error::Setting(format!(
                "a weight or bias of `{}` is not finite; train the model again before it is quantised",
                layer.name
            )));
        }
        let mut scales = vec![LEAST_WEIGHT; outputs];
        for row in layer.weight.chunks_exact(outputs.max(1)) {
            scales.iter_mut().zip(row).for_each(|(s, w)| *s = s.max(w.abs()));
        }
        scales.iter_mut().for_each(|s| *s /= 127.0);
        let byte = |(i, w): (usize, &f32)| {
            let level = w / scales[i % outputs];
            level.round_ties_even().clamp(-127.0, 127.0) as i8
        };
        Ok(ByteLayer {
            name: layer.name.clone(),
            weight: layer.weight.iter().enumerate().map(byte).collect(),
            scales,
            bias: layer.bias.clone(),
        })
    }

    fn check(&self, form: &Form) -> Result<(), String> {
        let count: usize = form.weight().iter().product();
        if self.weight.len() != count
            || self.scales.len() != form.outputs()
            || self.bias.len() != form.outputs()
        {
            return Err(format!("the weights of `{}` do not fit {form:?}", self.name));
        }
        let sound = self.scales.iter().all(|s| s.is_normal() && *s > 0.0);
        match sound && self.bias.iter().all(|b| b.is_finite()) {
            true => Ok(()),
            false => Err(format!(
                "a scale or bias of `{}` is not a usable number",
                self.name
            )),
        }
    }
}

impl Quantised {
    /// The model as bytes; the ranges of activations are those seen on rows of `inputs`, cut where that brings the bytes'
    /// output closest to the model's own on the same rows.
    pub fn calibrated(model: &Model, inputs: &[f32]) -> Result<Quantised> {
        calibrate::calibrated(&read(model)?, inputs)
    }

    /// A model made by [`super::aware`], perhaps trained since, as bytes: its graph says all ranges.
    pub fn from_aware(model: &Model) -> Result<Quantised> {
        let reading = read(model)?;
        let needed = reading.network.has_grid();
        if needed.iter().zip(&reading.grids).any(|(&n, g)| n && g.is_none()) {
            return Err(Error::Setting(
                "the model's graph does not say the range of every activation; make it with `aware`, or calibrate".into(),
            ));
        }
        Quantised::new(&reading, &reading.grids)
    }

    pub(super) fn new(reading: &Reading, grids: &[Option<Grid>]) -> Result<Quantised> {
        let layers = reading
            .layers
            .iter()
            .zip(reading.network.forms())
            .map(|(layer, form)| ByteLayer::new(layer, form.outputs()))
            .collect::<Result<_>>()?;
        Quantised::from_parts(reading.network.clone(), layers, grids).map_err(Error::Setting)
    }

    /// Checks everything that computing relies on.
    pub(super) fn from_parts(
        network: Network,
        layers: Vec<ByteLayer>,
        own: &[Option<Grid>],
    ) -> Result<Quantised, String> {
        let shapes = network.shapes()?;
        let forms: Vec<Form> = network.forms().collect();
        if forms.len() != layers.len() || own.len() != shapes.len() || network.steps.is_empty() {
            return Err(format!(
                "{} layers and {} ranges for {} products and {} values",
                layers.len(),
                own.len(),
                forms.len(),
                shapes.len()
            ));
        }
        let simd = Simd::best();
        let mut filters = vec![];
        for (form, layer) in forms.iter().zip(&layers) {
            layer.check(form)?;
            let conv = Conv::new(geometry(form, 1)).map_err(|e| e.to_string())?;
            filters.push(ByteFilter::pack(&conv, simd, &layer.weight).map_err(|e| e.to_string())?);
        }
        let mut last_use = vec![0; shapes.len()];
        for (i, step) in network.steps.iter().enumerate() {
            step.sources().iter().for_each(|&s| last_use[s] = i);
        }
        Ok(Quantised {
            grids: resolved(&network, own)?,
            network,
            layers,
            shapes,
            filters,
            last_use,
            simd,
        })
    }

    /// The grids of values that do not take over another's.
    pub(super) fn own_grids(&self) -> Vec<Option<Grid>> {
        let own = self.network.has_grid().into_iter().zip(&self.grids);
        own.map(|(own, grid)| grid.filter(|_| own)).collect()
    }

    /// The shape of one example.
    pub fn input_shape(&self) -> Shape {
        Shape::from(&self.network.input[..])
    }

    /// The shape of one result.
    pub fn output_shape(&self) -> Shape {
        self.shapes
            .last()
            .map(|s| Shape::from(&s[..]))
            .unwrap_or_default()
    }

    /// The outputs for any number of rows, as numbers.
    pub fn predict(&self, inputs: &[f32]) -> Result<Vec<f32>> {
        self.predict_on(inputs, 1)
    }

    /// [`Quantised::predict`] on a number of threads; their number does not change a bit of the result.
    pub fn predict_on(&self, inputs: &[f32], threads: usize) -> Result<Vec<f32>> {
        let width = self.input_shape().elements();
        if width == 0 || !inputs.len().is_multiple_of(width) {
            return Err(Error::Data(format!(
                "{} numbers are not whole rows of {width}",
                inputs.len()
            )));
        }
        let largest = self.shapes.iter().map(|s| s.iter().product::<usize>()).max();
        let rows = (AT_ONCE / largest.unwrap_or(1).max(1)).clamp(1, CHUNK);
        let mut outputs = vec![];
        let mut run = Run {
            model: self,
            threads: threads.max(1),
            sums: vec![],
            workspace: ByteWorkspace::default(),
        };
        for chunk in inputs.chunks(rows * width) {
            run.chunk(chunk, chunk.len() / width, &mut outputs)?;
        }
        Ok(outputs)
    }

    /// The loss over all rows.
    pub fn evaluate(&self, data: &Data<'_>, loss: Loss) -> Result<f32> {
        let output = self.output_shape();
        let target = loss.target_width(&output);
        data.check(self.input_shape().elements(), target)?;
        let found = Tensor::new(self.predict(data.inputs())?, output.batched(data.rows()));
        let shape = match loss {
            Loss::CrossEntropy => [data.rows(), target].into(),
            _ => output.batched(data.rows()),
        };
        let targets = data.targets().map_or(data.inputs(), |(t, _)| t);
        let loss = loss.apply(&found, &Tensor::new(targets.to_vec(), shape));
        let values = loss.values()?;
        Ok(values.first().copied().unwrap_or(f32::NAN))
    }

    /// The share of rows whose class is among the `k` highest scores; 1 for plain accuracy. Of equal scores the first ranks
    /// higher.
    pub fn accuracy(&self, data: &Data<'_>, k: usize) -> Result<f32> {
        let output = self.output_shape();
        data.check(
            self.input_shape().elements(),
            Loss::CrossEntropy.target_width(&output),
        )?;
        let Some((classes, _)) = data.targets() else {
            return Err(Error::Data("an accuracy needs classes as targets".into()));
        };
        let scores = self.predict(data.inputs())?;
        let count = output.dims().last().copied().unwrap_or(1).max(1);
        let hit = |(row, &class): (&[f32], &f32)| {
            let class = class as usize;
            row.get(class).is_some_and(|own| {
                let ahead = |(i, s): (usize, &f32)| s > own || s == own && i < class;
                row.iter().enumerate().filter(|&(i, s)| ahead((i, s))).count() < k
            })
        };
        let hits = scores
            .chunks_exact(count)
            .zip(classes)
            .filter(|&pair| hit(pair))
            .count();
        Ok(hits as f32 / classes.len() as f32)
    }
}

/// What the bytes of every value mean.
fn resolved(network: &Network, own: &[Option<Grid>]) -> Result<Vec<Option<Grid>>, String> {
    let mut grids: Vec<Option<Grid>> = vec![];
    for (value, (needed, given)) in network.has_grid().into_iter().zip(own).enumerate() {
        if given.is_some_and(|g| !g.is_sound()) {
            return Err(format!("the range of value {value} is not usable"));
        }
        let step = value.checked_sub(1).and_then(|i| network.steps.get(i));
        let grid = match (needed, step) {
            (true, _) => *given,
            (false, Some(step)) if step.keeps_grid() => grids[step.sources()[0]],
            _ => None,
        };
        let ends = value == network.steps.len() && matches!(step, Some(Step::Product { .. }));
        if grid.is_none() && !ends || !needed && given.is_some() && *given != grid {
            return Err(format!(
                "value {value} has no range, or not that of the value it comes from"
            ));
        }
        grids.push(grid);
    }
    Ok(grids)
}

fn geometry(form: &Form, n: usize) -> Geometry {
    match *form {
        Form::Dense { inputs, outputs } => Geometry::new([n, 1, 1, inputs], [1, 1], outputs),
        Form::Conv {
            window,
            groups,
            channels,
            outputs,
        } => Geometry {
            stride: window.stride,
            padding: window.padding,
            dilation: window.dilation,
            groups,
            ..Geometry::new(
                [n, window.input[0], window.input[1], channels],
                window.kernel,
                outputs,
            )
        },
    }
}

/// A forward pass under way, and the memory it uses again.
struct Run<'a> {
    model: &'a Quantised,
    threads: usize,
    sums: Vec<i32>,
    workspace: ByteWorkspace,
}

/// A product under way: its shape for these rows, its layer, and the value it reads.
#[derive(Clone, Copy)]
struct Product {
    conv: Conv,
    layer: usize,
    from: usize,
}

impl Run<'_> {
    fn grid(&self, value: usize) -> Grid {
        // Only the output of a last product has none, and nobody asks for that.
        self.model.grids[value].unwrap_or(Grid::covering(0.0, 0.0))
    }

    fn chunk(&mut self, inputs: &[f32], rows: usize, outputs: &mut Vec<f32>) -> Result<()> {
        let model = self.model;
        let input = self.grid(0);
        let mut bytes = vec![0; inputs.len()];
        quantise(model.simd, inputs, input.scale, input.zero_point, &mut bytes);
        let mut values = vec![bytes];
        let mut layer = 0;
        let last = model.network.steps.len();
        for (i, step) in model.network.steps.iter().enumerate() {
            let mut y = vec![];
            if let Step::Product { from, form, relu } = step {
                let conv = Conv::new(geometry(form, rows)).map_err(|e| Error::Setting(e.to_string()))?;
                let product = Product {
                    conv,
                    layer,
                    from: *from,
                };
                match i + 1 == last {
                    true => self.product_in_numbers(product, &values[*from], *relu, outputs),
                    false => y = self.product_in_bytes(product, &values[*from], i + 1, *relu),
                }
                layer += 1;
            } else {
                y = self.rest(step, i + 1, &mut values, rows);
            }
            values.push(y);
            for &s in step.sources().iter().filter(|&&s| model.last_use[s] == i) {
                values[s] = vec![];
            }
        }
        if let Some(grid) = model.grids[last] {
            outputs.extend(values[last].iter().map(|&q| grid.number(q)));
        }
        Ok(())
    }

    fn multiply(&mut self, product: Product, x: &[u8], results: ByteResults<'_>) {
        product.conv.forward_bytes(
            self.model.simd,
            x,
            self.grid(product.from).zero_point,
            &self.model.filters[product.layer],
            results,
            self.threads,
            &mut self.workspace,
        );
    }

    fn product_in_bytes(&mut self, product: Product, x: &[u8], to: usize, relu: bool) -> Vec<u8> {
        let layer = &self.model.layers[product.layer];
        let (step, to) = (self.grid(product.from).scale, self.grid(to));
        let scales: Vec<f32> = layer.scales.iter().map(|w| step * w / to.scale).collect();
        let bias: Vec<f32> = layer.bias.iter().map(|b| b / to.scale).collect();
        let mut y = vec![0; product.conv.output_len()];
        let requantise = Requantise {
            scales: &scales,
            bias: &bias,
            zero_point: to.zero_point,
            relu,
        };
        self.multiply(product, x, ByteResults::Bytes(requantise, &mut y));
        y
    }

    fn product_in_numbers(&mut self, product: Product, x: &[u8], relu: bool, outputs: &mut Vec<f32>) {
        let layer = &self.model.layers[product.layer];
        let step = self.grid(product.from).scale;
        let scales: Vec<f32> = layer.scales.iter().map(|w| step * w).collect();
        let mut sums = std::mem::take(&mut self.sums);
        sums.resize(product.conv.output_len(), 0);
        self.multiply(product, x, ByteResults::Sums(&mut sums));
        let start = outputs.len();
        outputs.resize(start + sums.len(), 0.0);
        dequantise(&sums, &scales, &layer.bias, &mut outputs[start..]);
        if relu {
            outputs[start..].iter_mut().for_each(|y| *y = y.max(0.0));
        }
        self.sums = sums;
    }

    /// All steps but products.
    fn rest(&self, step: &Step, to: usize, values: &mut [Vec<u8>], rows: usize) -> Vec<u8> {
        let from = step.sources()[0];
        if matches!(step, Step::Reshape { .. }) && self.model.last_use[from] + 1 == to {
            return std::mem::take(&mut values[from]);
        }
        let shape = &self.model.shapes[to];
        let mut y = vec![0; rows * shape.iter().product::<usize>()];
        let (x, places) = (
            &values[from],
            [0, 1, 2].map(|i| shape.get(i).copied().unwrap_or(1)),
        );
        match step {
            Step::Add { from: [a, b], relu } => {
                let pair = |i: usize| (&values[i][..], self.grid(i));
                pool::add(
                    self.model.simd,
                    pair(*a),
                    pair(*b),
                    self.grid(to),
                    *relu,
                    &mut y,
                    self.threads,
                );
            }
            Step::MaxPool { window, .. } => pool::max(window, places, self.grid(from), x, &mut y),
            Step::AveragePool {
                window,
                count_padding,
                ..
            } => {
                let grids = [self.grid(from), self.grid(to)];
                pool::average(window, places, *count_padding, grids, x, &mut y);
            }
            Step::Relu { .. } => {
                let zero = self.grid(from).zero_point;
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = x.max(zero));
            }
            Step::Reshape { .. } | Step::Product { .. } => y.copy_from_slice(x),
        }
        y
    }
}
