//! `synod import-model`: a model of another framework as one of Synod's.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use synod_nn::zoo;
use synod_onnx::{Import, state_dict};

/// Turns an ONNX file, or a PyTorch state dict in a safetensors file, into a model file.
#[derive(Args)]
#[command(after_help = "Examples:
  synod import-model model.onnx --out model.safetensors
  synod import-model resnet50.safetensors --zoo resnet50 --out model.safetensors")]
pub(crate) struct ImportCommand {
    /// An .onnx file, or a .safetensors file with the tensors of a PyTorch module.
    file: PathBuf,
    /// The model file to write.
    #[arg(long)]
    out: PathBuf,
    /// The model of the zoo that the tensors of a safetensors file belong to.
    #[arg(long)]
    zoo: Option<String>,
    /// Images go in as Synod's [height, width, channels] instead of as the ONNX file says.
    #[arg(long)]
    channels_last: bool,
    /// The output of the ONNX file that the model gives; the first by default.
    #[arg(long)]
    output: Option<String>,
    /// The shape of one example, such as 3,224,224, where the ONNX file leaves it open.
    #[arg(long, value_delimiter = ',')]
    example: Option<Vec<usize>>,
}

impl ImportCommand {
    pub(crate) fn run(&self) -> Result<()> {
        let model = match &self.zoo {
            Some(name) => {
                let mut model = zoo::by_name(name, 0)?;
                state_dict::load(&mut model, &self.file)?;
                model
            }
            None => {
                ensure!(
                    self.file.extension().is_none_or(|e| e != "safetensors"),
                    "a safetensors file holds tensors and no graph; name the model with --zoo"
                );
                let import = Import {
                    channels_last: self.channels_last,
                    output: self.output.clone(),
                    example: self.example.clone(),
                };
                import.file(&self.file)?
            }
        };
        model.save(&self.out)?;
        let (parameters, input, output) = (model.layout().len(), model.input_shape(), model.output_shape());
        writeln!(
            std::io::stdout(),
            "{}: {parameters} parameters, {input} to {output}",
            self.out.display()
        )?;
        Ok(())
    }
}
