//! Values in few bits: a scale per block, then a code per value.

use std::ops::Range;

use super::Values;
use super::header::{malformed, take};
use super::select::magnitude;
use crate::{Error, Random, Result};

/// Beyond this a client has diverged, and sums of a few such values would not be finite.
const LARGEST: f32 = 1e38;
/// Blocks with nothing above this are zero: the inverse of their scale would not be finite.
const SMALLEST: f32 = 1e-36;
/// Codes made at a time, from a small buffer of noise.
const CHUNK: usize = 256;
/// Added to a small number, it leaves the nearest integer in the low bits.
const TO_INTEGER: f32 = 12_582_912.0;

/// Bytes of `len` values that share a scale.
pub(super) fn block_bytes(values: Values, len: usize) -> usize {
    let scale = if values == Values::Exact { 0 } else { 4 };
    scale + (len * values.bits()).div_ceil(8)
}

/// Refuses what is not a number or too large to be an update.
pub(super) fn check(values: impl Iterator<Item = f32> + Clone) -> Result<()> {
    if largest(values.clone()) <= LARGEST.to_bits() {
        return Ok(());
    }
    let mut values = values.enumerate();
    let (place, value) = values
        .find(|&(_, v)| magnitude(v) > LARGEST.to_bits())
        .unwrap_or_default();
    Err(Error::Data(format!(
        "value {place} of an update is {value}: training diverged, try a lower learning rate"
    )))
}

/// Writes values block by block. They have passed `check`.
pub(super) fn write(
    coding: Values,
    values: &[f32],
    blocks: impl Iterator<Item = Range<usize>>,
    random: &mut Random,
    out: &mut Vec<u8>,
) {
    match coding {
        Values::Exact => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Values::EightBit => blocks.for_each(|b| write_rounded::<127>(&values[b], random, out, bytes)),
        Values::FourBit => blocks.for_each(|b| write_rounded::<7>(&values[b], random, out, nibbles)),
        Values::OneBit => blocks.for_each(|b| write_signs(&values[b], out)),
    }
}

/// Reads values block by block from bytes from outside, and takes them off the front.
pub(super) fn read(
    coding: Values,
    bytes: &mut &[u8],
    blocks: impl Iterator<Item = Range<usize>>,
    out: &mut [f32],
) -> Result<()> {
    for block in blocks {
        let out = &mut out[block];
        let scale = match coding {
            Values::Exact => 1.0,
            _ => read_scale(bytes, coding)?,
        };
        let codes = (out.len() * coding.bits()).div_ceil(8);
        let (codes, rest) = bytes
            .split_at_checked(codes)
            .ok_or_else(|| malformed("ends too early"))?;
        *bytes = rest;
        match coding {
            Values::Exact => read_exact(codes, out)?,
            Values::EightBit => read_bytes(codes, scale, out)?,
            Values::FourBit => read_nibbles(codes, scale, out)?,
            Values::OneBit => read_signs(codes, scale, out)?,
        }
    }
    Ok(())
}

fn largest(values: impl Iterator<Item = f32>) -> u32 {
    // As signed integers, which every machine can compare in vectors.
    values.fold(0, |m, v| m.max(magnitude(v) as i32)) as u32
}

fn write_rounded<const LEVELS: i8>(
    values: &[f32],
    random: &mut Random,
    out: &mut Vec<u8>,
    pack: fn(&[u8], &mut Vec<u8>),
) {
    let levels = f32::from(LEVELS);
    let largest = f32::from_bits(largest(values.iter().copied()));
    let (scale, inverse) = match largest < SMALLEST {
        true => (0.0, 0.0),
        false => (largest / levels, levels / largest),
    };
    out.extend(scale.to_le_bytes());
    let (mut noise, mut codes) = ([0u16; CHUNK], [0u8; CHUNK]);
    for chunk in values.chunks(CHUNK) {
        fill(random, &mut noise);
        for ((code, &value), &noise) in codes.iter_mut().zip(chunk).zip(&noise) {
            let exact = (value * inverse).max(-levels).min(levels);
            // Within half a step either way, and never half: a whole number stays what it is.
            let shift = (f32::from(noise) + 0.5) * (1.0 / 65_536.0) - 0.5;
            *code = (exact + shift + TO_INTEGER).to_bits() as u8;
        }
        pack(&codes[..chunk.len()], out);
    }
}

fn fill(random: &mut Random, noise: &mut [u16; CHUNK]) {
    for four in noise.as_chunks_mut::<4>().0 {
        let bits = random.bits();
        *four = [bits, bits >> 16, bits >> 32, bits >> 48].map(|b| b as u16);
    }
}

fn bytes(codes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(codes);
}

/// Two codes in a byte, each raised by 8 to be positive.
fn nibbles(codes: &[u8], out: &mut Vec<u8>) {
    let raised = |code: u8| code.wrapping_add(8) & 0xf;
    let (pairs, last) = codes.as_chunks::<2>();
    out.extend(pairs.iter().map(|&[low, high]| raised(low) | raised(high) << 4));
    out.extend(last.iter().map(|&low| raised(low)));
}

/// A set bit is a negative value.
fn write_signs(values: &[f32], out: &mut Vec<u8>) {
    out.extend(mean_magnitude(values).to_le_bytes());
    let sign = |value: f32| value.to_bits() >> 31;
    let (eights, last) = values.as_chunks::<8>();
    out.extend(eights.iter().map(|eight| {
        let mut byte = 0;
        for (i, &value) in eight.iter().enumerate() {
            byte |= sign(value) << i;
        }
        byte as u8
    }));
    if !last.is_empty() {
        let bits = last.iter().enumerate();
        out.push(bits.fold(0, |byte, (i, &value)| byte | (sign(value) << i) as u8));
    }
}

/// The mean absolute value, added up in a fixed order in lanes.
fn mean_magnitude(values: &[f32]) -> f32 {
    let mut total = 0.0f64;
    for chunk in values.chunks(CHUNK) {
        let mut lanes = [0.0f32; 8];
        let (eights, last) = chunk.as_chunks::<8>();
        for eight in eights {
            for (lane, value) in lanes.iter_mut().zip(eight) {
                // A share of each value, so that no sum of large ones overflows.
                *lane += value.abs() * (1.0 / CHUNK as f32);
            }
        }
        let rest: f64 = last.iter().map(|value| f64::from(value.abs())).sum();
        total += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>() * CHUNK as f64 + rest;
    }
    (total / values.len().max(1) as f64) as f32
}

fn read_scale(bytes: &mut &[u8], coding: Values) -> Result<f32> {
    let scale = f32::from_le_bytes(take(bytes)?);
    let levels = match coding {
        Values::EightBit => 127.0,
        Values::FourBit => 7.0,
        _ => 1.0,
    };
    if scale.is_sign_negative() || !(scale * levels).is_finite() {
        return Err(malformed(format!("has scale {scale}")));
    }
    Ok(scale)
}

fn read_exact(codes: &[u8], out: &mut [f32]) -> Result<()> {
    for (out, &four) in out.iter_mut().zip(codes.as_chunks::<4>().0) {
        *out = f32::from_le_bytes(four);
    }
    match largest(out.iter().copied()) < f32::INFINITY.to_bits() {
        true => Ok(()),
        false => Err(malformed("has a value that is not finite")),
    }
}

fn read_bytes(codes: &[u8], scale: f32, out: &mut [f32]) -> Result<()> {
    for (out, &code) in out.iter_mut().zip(codes) {
        *out = f32::from(code as i8) * scale;
    }
    match codes.iter().fold(false, |bad, &code| bad | (code == 0x80)) {
        true => Err(malformed("has a code beyond its scale")),
        false => Ok(()),
    }
}

fn read_nibbles(codes: &[u8], scale: f32, out: &mut [f32]) -> Result<()> {
    let value = |code: u8| (i16::from(code) - 8) as f32 * scale;
    let beyond = |byte: u8| (byte & 0xf == 0) | (byte >> 4 == 0);
    let (pairs, last) = out.as_chunks_mut::<2>();
    for (pair, &byte) in pairs.iter_mut().zip(codes) {
        *pair = [value(byte & 0xf), value(byte >> 4)];
    }
    let (whole, half) = codes.split_at(pairs.len());
    let mut bad = whole.iter().fold(false, |bad, &byte| bad | beyond(byte));
    for (out, &byte) in last.iter_mut().zip(half) {
        *out = value(byte);
        bad |= byte == 0 || byte > 0xf;
    }
    match bad {
        true => Err(malformed("has a code beyond its scale")),
        false => Ok(()),
    }
}

fn read_signs(codes: &[u8], scale: f32, out: &mut [f32]) -> Result<()> {
    let value =
        |byte: u8, i: usize| f32::from_bits(scale.to_bits() ^ (u32::from(byte) << (31 - i) & 1 << 31));
    let (eights, last) = out.as_chunks_mut::<8>();
    for (eight, &byte) in eights.iter_mut().zip(codes) {
        for (i, out) in eight.iter_mut().enumerate() {
            *out = value(byte, i);
        }
    }
    if let (false, Some(&byte)) = (last.is_empty(), codes.last()) {
        if u32::from(byte) >> last.len() != 0 {
            return Err(malformed("has signs past its end"));
        }
        for (i, out) in last.iter_mut().enumerate() {
            *out = value(byte, i);
        }
    }
    Ok(())
}
