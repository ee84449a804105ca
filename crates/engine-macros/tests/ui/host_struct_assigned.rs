use synod_engine::Tensor;
use synod_engine_macros::graph;

#[derive(Clone)]
struct Settings {
    rate: f32,
}

#[graph]
fn step(x: Tensor, mut settings: Settings) -> Tensor {
    if x > 1.0 {
        settings = Settings { rate: 0.5 };
    }
    x * settings.rate
}

fn main() {}
