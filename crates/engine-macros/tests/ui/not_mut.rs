use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn double(x: Tensor) -> Tensor {
    let y = x.clone();
    if x > 0.0 {
        y = x * 2.0;
    }
    y
}

fn main() {}
