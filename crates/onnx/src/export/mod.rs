//! From a model to an ONNX file that other runtimes execute.
//!
//! The inference graph is walked node by node. Two traces at different batch sizes tell which extents follow the batch, so
//! the file serves any batch size. What depends on parameters alone is computed here and written as a tensor; loops whose
//! count is known (those of recurrent layers) are unrolled.

mod fold;
mod held;
mod layout;
mod loops;
mod ops;
mod writer;

use std::path::Path;

use prost::Message;
use synod_core::files;
use synod_engine::Graph;
use synod_nn::Model;

use crate::error::{Error, Result, fault};
use crate::proto::{GraphProto, ModelProto, OperatorSet, ValueInfo};
pub(crate) use fold::transposed;
use held::Held;
use writer::{Extent, Writer};

/// The opset that files are written for; every runtime of the last years has it.
const OPSET: i64 = 17;

/// How a model is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// Images go in as `[batch, channels, height, width]`, as most ONNX models have them, instead of as Synod's own,
    /// `[batch, height, width, channels]`.
    pub channels_first: bool,
}

impl Export {
    /// Writes the file, whole or not at all.
    pub fn file(&self, model: &Model, path: &Path) -> Result<()> {
        let bytes = self.bytes(model)?;
        files::write(path, &bytes).map_err(|e| fault(path, format!("cannot be written: {e}")))
    }

    /// The bytes of the file: a function `input` to `output` of a batch of any size, all in `f32`. Class and token indices
    /// are whole numbers held as `f32`, as everywhere in Synod.
    pub fn bytes(&self, model: &Model) -> Result<Vec<u8>> {
        let graphs = [model.graph(2)?, model.graph(3)?];
        let graph = self
            .graph(model, [&graphs[0], &graphs[1]])
            .map_err(Error::Export)?;
        let file = ModelProto {
            ir_version: Some(8),
            producer_name: "synod".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            graph: Some(graph),
            opset_import: vec![OperatorSet {
                domain: String::new(),
                version: Some(OPSET),
            }],
        };
        Ok(file.encode_to_vec())
    }

    fn graph(&self, model: &Model, graphs: [&Graph; 2]) -> std::result::Result<GraphProto, String> {
        let mut writer = Writer::default();
        let layouts = [
            (model.layout(), model.parameters()),
            (model.buffer_layout(), model.buffers()),
        ];
        let mut args: Vec<Held> = vec![];
        for (layout, values) in layouts {
            for entry in layout.entries() {
                let data = values
                    .get(entry.range.clone())
                    .ok_or("a parameter has no values")?;
                args.push(Held::known(&entry.name, entry.shape.dims(), data.into()));
            }
        }
        let (input, held) = self.input(model, &graphs, &mut writer)?;
        args.push(held);
        let results = ops::walk(&mut writer, graphs, args)?;
        let output = results.first().ok_or("the model gives nothing")?;
        let extents: Vec<Extent> = output.extents.clone();
        let name = writer.plain(output)?;
        writer.named("Identity", &[&name], "output");
        Ok(GraphProto {
            name: "synod".into(),
            node: writer.nodes,
            initializer: writer.tensors,
            input: vec![input],
            output: vec![writer::value_info("output", &extents)],
        })
    }

    fn input(
        &self,
        model: &Model,
        graphs: &[&Graph; 2],
        writer: &mut Writer,
    ) -> std::result::Result<(ValueInfo, Held), String> {
        let last = |g: &Graph| g.params().last().copied().ok_or("the model takes nothing");
        let shapes = [
            graphs[0].shape(last(graphs[0])?),
            graphs[1].shape(last(graphs[1])?),
        ];
        let extents = Extent::of(shapes[0].dims(), shapes[1].dims());
        let name = writer.fresh("input");
        let images = self.channels_first && model.input_shape().rank() == 3;
        let order = if images {
            vec![0, 3, 1, 2]
        } else {
            (0..extents.len()).collect()
        };
        let stored: Vec<Extent> = order.iter().map(|&a| extents[a]).collect();
        let info = writer::value_info(&name, &stored);
        Ok((info, Held::data(name, extents, order)))
    }
}
