use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn grow(mut x: Tensor) -> Tensor {
    while x < 100.0 {
        x = x * 2.0;
        if x == 64.0 {
            break;
        }
    }
    x
}

fn main() {}
