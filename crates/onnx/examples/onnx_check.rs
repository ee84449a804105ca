//! The Rust half of `make onnx-check`: runs models on inputs from, and writes results to, files of little-endian `f32`.

use std::path::Path;

use synod_nn::{Model, zoo};
use synod_onnx::{Export, Import, state_dict};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["import", file, input, output] => {
            let model = Import::default().file(Path::new(file))?;
            predict(&model, input, output)
        }
        ["weights", name, file, input, output] => {
            let mut model = make(name)?;
            state_dict::load(&mut model, Path::new(file))?;
            predict(&model, input, output)
        }
        ["export", name, file, input, output] => {
            let model = make(name)?;
            Export::default().file(&model, Path::new(file))?;
            predict(&model, input, output)
        }
        _ => Err(
            "usage: onnx_check import FILE IN OUT | weights NAME FILE IN OUT | export NAME FILE IN OUT"
                .into(),
        ),
    }
}

/// A model of the zoo; residual networks for small images, which change neither weights nor code.
fn make(name: &str) -> Result<Model> {
    let version = match name {
        "resnet50-v1" => zoo::Version::V1,
        "resnet50" => zoo::Version::V15,
        _ => return Ok(zoo::by_name(name, 1)?),
    };
    let settings = zoo::Resnet {
        version,
        blocks: vec![3, 4, 6, 3],
        width: 64,
        image: [64, 64],
        classes: 1000,
    };
    Ok(zoo::resnet(&settings, 1)?)
}

fn predict(model: &Model, input: &str, output: &str) -> Result<()> {
    let bytes = std::fs::read(input)?;
    let (words, _) = bytes.as_chunks::<4>();
    let rows: Vec<f32> = words.iter().map(|w| f32::from_le_bytes(*w)).collect();
    let results = model.predict(&rows)?;
    let bytes: Vec<u8> = results.iter().flat_map(|x| x.to_le_bytes()).collect();
    Ok(std::fs::write(output, bytes)?)
}
