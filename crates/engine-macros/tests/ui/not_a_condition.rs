use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn choose(x: Tensor, n: usize) -> Tensor {
    if n && x > 1.0 { x } else { -x }
}

fn main() {}
