use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn pick(x: &Tensor, y: &Tensor) -> Tensor {
    let larger = if x.sum_all() > y.sum_all() { x } else { y };
    larger * 2.0
}

fn main() {}
