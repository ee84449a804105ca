use synod_engine::Tensor;
use synod_engine_macros::graph;

struct Report {
    loss: Tensor,
}

#[graph]
fn report(x: Tensor) -> Report {
    Report { loss: x.sum_all() }
}

fn main() {}
