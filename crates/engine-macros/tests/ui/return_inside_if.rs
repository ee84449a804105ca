use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn positive(x: Tensor) -> Tensor {
    if x < 0.0 {
        return -x;
    }
    x
}

fn main() {}
