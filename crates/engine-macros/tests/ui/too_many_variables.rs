use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn many(x: Tensor) -> Tensor {
    let (mut a, mut b, mut c, mut d, mut e, mut f) = (x.clone(), x.clone(), x.clone(), x.clone(), x.clone(), x.clone());
    let (mut g, mut h, mut i, mut j, mut k, mut l) = (x.clone(), x.clone(), x.clone(), x.clone(), x.clone(), x.clone());
    while a < 10.0 {
        (a, b, c, d, e, f) = (b, c, d, e, f, a);
        (g, h, i, j, k, l) = (h, i, j, k, l, g);
    }
    a + b + c + d + e + f + g + h + i + j + k + l
}

fn main() {}
