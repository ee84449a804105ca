use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn scale(x: &mut Tensor, by: f32) {
    *x = &*x * by;
}

fn main() {}
