use synod_engine::Tensor;
use synod_engine_macros::staged;

#[staged]
async fn later(x: Tensor) -> Tensor {
    x
}

fn main() {}
