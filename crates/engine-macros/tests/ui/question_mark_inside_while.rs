use synod_engine::{Result, Tensor};
use synod_engine_macros::graph;

#[graph]
fn shrink(mut x: Tensor, name: &str) -> Result<Tensor> {
    while x > 1.0 {
        x = x * Tensor::scalar(name.parse().map_err(|_| synod_engine::Error::Call(name.into()))?);
    }
    Ok(x)
}

fn main() {}
