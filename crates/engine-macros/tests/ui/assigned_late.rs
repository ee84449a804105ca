use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn absolute(x: Tensor) -> Tensor {
    let y;
    if x > 0.0 {
        y = x;
    } else {
        y = -x;
    }
    y
}

fn main() {}
