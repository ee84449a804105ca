//! `synod export`: a model for other runtimes.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use synod_nn::{Model, zoo};
use synod_onnx::Export;

/// Writes a model as ONNX.
#[derive(Args)]
#[command(after_help = "Examples:
  synod export model.safetensors --out model.onnx
  synod export resnet50 --out resnet50.onnx --nchw       a fresh model of the zoo, images as [batch, channels, height, width]

The file takes a batch of any size under the name `input` and gives `output`, all in f32; images are
[batch, height, width, channels] as in Synod unless --nchw is given.")]
pub(crate) struct ExportCommand {
    /// A model file, or the name of a model of the zoo.
    model: String,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
    /// Images go in as [batch, channels, height, width].
    #[arg(long)]
    nchw: bool,
}

impl ExportCommand {
    pub(crate) fn run(&self) -> Result<()> {
        let path = std::path::Path::new(&self.model);
        let model = match path.exists() {
            true => Model::load(path)?,
            false => zoo::by_name(&self.model, 0)
                .with_context(|| format!("`{}` is neither a file nor a model of the zoo", self.model))?,
        };
        let export = Export {
            channels_first: self.nchw,
        };
        export.file(&model, &self.out)?;
        let (out, parameters) = (self.out.display(), model.layout().len());
        let (input, output) = (model.input_shape(), model.output_shape());
        writeln!(
            std::io::stdout(),
            "{out}: {parameters} parameters, {input} to {output}"
        )?;
        Ok(())
    }
}
