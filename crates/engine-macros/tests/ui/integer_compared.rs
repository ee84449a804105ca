use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn halve(mut x: Tensor, n: usize) -> Tensor {
    while x > n {
        x = x * 0.5;
    }
    x
}

fn main() {}
