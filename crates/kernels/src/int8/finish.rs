//! From exact sums back to numbers or bytes.

/// `y = sum * scale + bias`, with a scale and a bias per channel, channels innermost.
pub fn dequantise(sums: &[i32], scales: &[f32], bias: &[f32], y: &mut [f32]) {
    check(sums.len(), scales.len(), bias.len(), y.len());
    let channels = scales.len().max(1);
    for (sums, y) in sums.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
        for (((y, &sum), scale), bias) in y.iter_mut().zip(sums).zip(scales).zip(bias) {
            *y = sum as f32 * scale + bias;
        }
    }
}

/// `y = round(sum * scale + bias) + zero_point`, kept between `zero_point` and 255 if `relu`, else between 0 and 255;
/// halves round to even. Scales and biases are in steps of the result.
pub fn requantise(sums: &[i32], scales: &[f32], bias: &[f32], zero_point: u8, relu: bool, y: &mut [u8]) {
    check(sums.len(), scales.len(), bias.len(), y.len());
    let channels = scales.len().max(1);
    let zero = f32::from(zero_point);
    let least = if relu { zero } else { 0.0 };
    for (sums, y) in sums.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
        for (((y, &sum), scale), bias) in y.iter_mut().zip(sums).zip(scales).zip(bias) {
            let value = (sum as f32 * scale + bias).round_ties_even() + zero;
            *y = value.clamp(least, 255.0) as u8;
        }
    }
}

fn check(sums: usize, scales: usize, bias: usize, y: usize) {
    assert!(
        scales == bias && sums == y && (sums == 0 || scales > 0 && sums.is_multiple_of(scales)),
        "int8: {sums} sums with {scales} scales and {bias} biases into {y} results"
    );
}
