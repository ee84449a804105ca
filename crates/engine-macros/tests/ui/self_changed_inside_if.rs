use synod_engine::Tensor;
use synod_engine_macros::graph;

struct Counter {
    seen: usize,
}

impl Counter {
    #[graph]
    fn count(&mut self, x: Tensor) -> Tensor {
        if x > 0.0 {
            self.seen += 1;
        }
        x
    }
}

fn main() {}
