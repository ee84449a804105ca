use std::collections::HashMap;

use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn remember(mut x: Tensor, seen: &mut HashMap<usize, Tensor>) -> Tensor {
    while x < 10.0 {
        seen.insert(seen.len(), x.clone());
        x = x + 1.0;
    }
    x
}

fn main() {}
