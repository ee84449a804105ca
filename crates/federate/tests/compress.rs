//! Compressed updates: what arrives, how far from what was sent, and in how many bytes.

use proptest::prelude::*;
use synod_federate::Random;
use synod_federate::compress::{
    Compression, SharedScale, Size, Sparsity, UpdateLayout, Values, decode, decode_into,
};

fn all() -> Vec<Compression> {
    let values = [Values::Exact, Values::EightBit, Values::FourBit, Values::OneBit];
    let each = values.map(Compression::new);
    let mut all: Vec<Compression> = each
        .iter()
        .flat_map(|&c| [c, c.top(0.1), c.random(0.1), c.top(1.0), c.random(0.7)])
        .collect();
    all.extend(each.map(|c| Compression {
        scale: SharedScale::Tensor,
        ..c
    }));
    all.extend(each.map(|c| Compression {
        scale: SharedScale::Block(16),
        ..c
    }));
    all
}

fn update(len: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed, &[99]);
    (0..len).map(|_| random.normal() as f32 * 0.1).collect()
}

/// A layout of three tensors, the middle one short.
fn tensors(len: usize) -> UpdateLayout {
    let (a, b) = (len / 2, len / 2 + (len - len / 2).min(7));
    UpdateLayout::new(&[0..a, a..b, b..len]).unwrap()
}

/// The block of each value, found the long way.
fn block_of(layout: &UpdateLayout, scale: SharedScale, place: usize) -> std::ops::Range<usize> {
    let tensor = layout.tensors().find(|t| t.contains(&place)).unwrap();
    match scale {
        SharedScale::Tensor => tensor,
        SharedScale::Block(block) => {
            let start = tensor.start + (place - tensor.start) / block as usize * block as usize;
            start..(start + block as usize).min(tensor.end)
        }
    }
}

#[test]
fn any_length_comes_back_at_its_length_and_size() {
    for compression in all() {
        for len in [
            0usize, 1, 2, 3, 7, 8, 9, 15, 16, 17, 255, 256, 257, 511, 1000, 4097,
        ] {
            let (layout, sent) = (tensors(len), update(len, 3));
            let payload = compression.encode(&sent, &layout, None, 5).unwrap();
            let arrived = decode(payload.as_ref(), &layout).unwrap();
            assert_eq!(arrived.len(), len);
            let mut used = vec![9.0; 50];
            decode_into(payload.as_ref(), &layout, &mut used).unwrap();
            assert_eq!(used, arrived);
            match compression.size(&layout) {
                Size::Exact(bytes) => assert_eq!(payload.len(), bytes, "{compression:?} {len}"),
                Size::AtMost(bytes) => assert!(payload.len() <= bytes, "{compression:?} {len}"),
            }
            if compression.is_exact() || compression == Compression::default().top(1.0) {
                assert_eq!(arrived, sent);
            }
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_bytes_and_another_seed_others() {
    let (layout, sent) = (tensors(1000), update(1000, 1));
    for compression in all() {
        let payload = |seed| compression.encode(&sent, &layout, None, seed).unwrap();
        assert_eq!(payload(4), payload(4));
        let rounded = matches!(compression.values, Values::EightBit | Values::FourBit);
        if rounded || matches!(compression.sparsity, Sparsity::Random(_)) {
            assert_ne!(payload(4), payload(5), "{compression:?}");
        }
    }
}

#[test]
fn a_payload_is_as_small_as_promised() {
    let layout = UpdateLayout::single(199_210);
    let share = |c: Compression| c.size(&layout).bytes() as f64 / (4.0 * 199_210.0);
    assert!(share(Compression::new(Values::EightBit)) <= 0.255);
    assert!(share(Compression::new(Values::FourBit)) <= 0.13);
    assert!(share(Compression::new(Values::OneBit)) <= 0.036);
    assert!(share(Compression::default().random(0.01)) <= 0.0101);
    // A place among a hundred has an entropy of 8.1 bits.
    assert!(share(Compression::new(Values::EightBit).top(0.01)) <= 0.01 * (8.0 + 8.9) / 32.0);
    assert!(share(Compression::default().top(0.5)) <= 0.5 + 1.0 / 32.0 + 0.001);
}

#[test]
fn places_that_are_clustered_take_fewer_bytes_than_the_bound() {
    let (top, layout) = (Compression::default().top(0.01), UpdateLayout::single(100_000));
    let mut sent = vec![0.0; 100_000];
    sent[500..1500].fill(1.0);
    let payload = top.encode(&sent, &layout, None, 0).unwrap();
    assert!(payload.len() < top.size(&layout).bytes());
    assert_eq!(decode(payload.as_ref(), &layout).unwrap(), sent);
}

#[test]
fn rounding_moves_a_value_less_than_one_step_of_its_block() {
    for (values, levels) in [(Values::EightBit, 127.0), (Values::FourBit, 7.0)] {
        for scale in [SharedScale::Block(64), SharedScale::Tensor] {
            let compression = Compression {
                scale,
                ..Compression::new(values)
            };
            let (layout, sent) = (tensors(1001), update(1001, 8));
            let payload = compression.encode(&sent, &layout, None, 2).unwrap();
            let arrived = decode(payload.as_ref(), &layout).unwrap();
            for i in 0..sent.len() {
                let block = &sent[block_of(&layout, scale, i)];
                let step = block.iter().fold(0.0f32, |m, v| m.max(v.abs())) / levels;
                assert!((sent[i] - arrived[i]).abs() <= step * 1.0001, "{values:?} {i}");
            }
        }
    }
}

#[test]
fn rounded_values_are_right_on_average() {
    let layout = UpdateLayout::single(70);
    let sent = update(70, 4);
    let largest = sent.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    for (values, levels) in [(Values::EightBit, 127.0), (Values::FourBit, 7.0)] {
        let (mean, seeds) = mean(&Compression::new(values), &sent, &layout, 4000);
        // A rounding has a deviation of half a step at the most; five of the mean's.
        let within = 5.0 * 0.5 * f64::from(largest / levels) / seeds.sqrt();
        for (mean, &sent) in mean.iter().zip(&sent) {
            assert!((mean - f64::from(sent)).abs() < within, "{mean} {sent}");
        }
    }
}

#[test]
fn random_places_are_right_on_average() {
    // 7 does not divide 70 · 0.3: stretches differ in length.
    let (layout, sent) = (UpdateLayout::single(67), update(67, 4));
    for values in [Values::Exact, Values::EightBit] {
        let (mean, seeds) = mean(&Compression::new(values).random(0.3), &sent, &layout, 20_000);
        for (mean, &sent) in mean.iter().zip(&sent) {
            let deviation = 4.0 * f64::from(sent).abs() + 0.02;
            assert!((mean - f64::from(sent)).abs() < 5.0 * deviation / seeds.sqrt());
        }
    }
}

fn mean(compression: &Compression, sent: &[f32], layout: &UpdateLayout, seeds: u64) -> (Vec<f64>, f64) {
    let mut total = vec![0.0; sent.len()];
    for seed in 0..seeds {
        let payload = compression.encode(sent, layout, None, seed).unwrap();
        let arrived = decode(payload.as_ref(), layout).unwrap();
        total
            .iter_mut()
            .zip(arrived)
            .for_each(|(t, a)| *t += f64::from(a));
    }
    let mean = total.iter().map(|t| t / seeds as f64).collect();
    (mean, seeds as f64)
}

#[test]
fn a_sign_arrives_as_the_mean_magnitude_of_its_block() {
    let compression = Compression::new(Values::OneBit);
    let (layout, sent) = (tensors(900), update(900, 6));
    let payload = compression.encode(&sent, &layout, None, 0).unwrap();
    let arrived = decode(payload.as_ref(), &layout).unwrap();
    for i in 0..sent.len() {
        let block = &sent[block_of(&layout, SharedScale::Block(256), i)];
        let mean = block.iter().map(|v| f64::from(v.abs())).sum::<f64>() / block.len() as f64;
        let expected = mean.copysign(f64::from(sent[i]));
        assert!((f64::from(arrived[i]) - expected).abs() < 1e-6 * mean, "{i}");
    }
}

#[test]
fn the_largest_values_are_kept_and_of_equal_ones_the_first() {
    let layout = UpdateLayout::single(10);
    let sent = [1.0, -3.0, 2.0, 0.0, 2.0, -2.0, 5.0, 2.0, 0.5, -0.0];
    let payload = Compression::default().top(0.4).encode(&sent, &layout, None, 0);
    let arrived = decode(payload.unwrap().as_ref(), &layout).unwrap();
    assert_eq!(arrived, [0.0, -3.0, 2.0, 0.0, 2.0, 0.0, 5.0, 0.0, 0.0, 0.0]);
}

#[test]
fn what_is_lost_is_sent_later() {
    for compression in all().into_iter().filter(|c| !c.is_exact()) {
        let layout = tensors(600);
        let mut residual = vec![0.0; 600];
        let (mut sent, mut arrived) = (vec![0.0f64; 600], vec![0.0f64; 600]);
        let mut worst = 0.0f32;
        for round in 0..200 {
            // Part of each update is the same, as gradients are.
            let noise = update(600, round);
            let delta: Vec<f32> = noise
                .iter()
                .enumerate()
                .map(|(i, n)| n + 0.05 * (i as f32).sin())
                .collect();
            let payload = compression
                .encode(&delta, &layout, Some(&mut residual), round)
                .unwrap();
            let now = decode(payload.as_ref(), &layout).unwrap();
            sent.iter_mut().zip(&delta).for_each(|(s, d)| *s += f64::from(*d));
            arrived.iter_mut().zip(now).for_each(|(a, n)| *a += f64::from(n));
            worst = residual.iter().fold(worst, |m, r| m.max(r.abs()));
        }
        for i in 0..600 {
            let missing = sent[i] - arrived[i];
            assert!((missing - f64::from(residual[i])).abs() < 1e-3, "{compression:?}");
        }
        // 200 updates of a deviation of 0.1 with a drift of 0.05: nothing like their sum stays behind.
        assert!(worst < 6.0, "{compression:?} {worst}");
    }
}

/// Steps of gradient descent on a quadratic, each sent compressed; gives the distance to the optimum.
fn descend(compression: &Compression, feedback: bool) -> f64 {
    let (n, rate) = (64, 0.02f32);
    let layout = UpdateLayout::single(n);
    let optimum = update(n as usize, 12);
    // Curvatures differ and a few coordinates are steep: their sign is all that arrives of the rest.
    let curvature: Vec<f32> = (0..n).map(|i| if i % 16 == 0 { 20.0 } else { 0.5 }).collect();
    let mut at = vec![0.0f32; n as usize];
    let mut residual = vec![0.0; n as usize];
    for step in 0..4000 {
        let delta: Vec<f32> = (0..n as usize)
            .map(|i| -rate * curvature[i] * (at[i] - optimum[i] + noise(step, i)))
            .collect();
        let kept = feedback.then_some(residual.as_mut_slice());
        let payload = compression.encode(&delta, &layout, kept, step).unwrap();
        let arrived = decode(payload.as_ref(), &layout).unwrap();
        at.iter_mut().zip(arrived).for_each(|(x, d)| *x += d);
    }
    at.iter()
        .zip(&optimum)
        .map(|(a, o)| f64::from(a - o).powi(2))
        .sum::<f64>()
        .sqrt()
}

/// Gradient noise that averages to zero but whose sign does not: mostly small, sometimes large the other way.
fn noise(step: u64, i: usize) -> f32 {
    let mut random = Random::new(step, &[i as u64]);
    if random.uniform() < 0.1 { 0.9 } else { -0.1 }
}

#[test]
fn signs_reach_the_optimum_with_feedback_and_stall_without() {
    let sign = Compression::new(Values::OneBit);
    let exact = descend(&Compression::default(), false);
    let with = descend(&sign, true);
    let without = descend(&sign, false);
    assert!(with < exact + 0.5, "exact {exact}, with feedback {with}");
    assert!(without > 2.0 * with, "with feedback {with}, without {without}");
}

#[test]
fn a_diverged_update_is_refused_and_the_residual_kept() {
    let layout = UpdateLayout::single(3);
    for compression in all() {
        for bad in [f32::NAN, f32::INFINITY, -f32::INFINITY, 3e38] {
            let mut residual = [1.0, 2.0, 3.0];
            let answer = compression.encode(&[0.0, bad, 1.0], &layout, Some(&mut residual), 0);
            let message = answer.unwrap_err().to_string();
            assert!(message.contains("value 1") && message.contains("learning rate"));
            assert_eq!(residual, [1.0, 2.0, 3.0]);
        }
    }
}

#[test]
fn extreme_but_finite_updates_come_back_finite() {
    let layout = UpdateLayout::single(300);
    for compression in all() {
        for size in [1e38f32, 1e30, 1e-30, 1e-37, f32::MIN_POSITIVE, 1e-45, 0.0] {
            let sent: Vec<f32> = (0..300).map(|i| if i % 3 == 0 { -size } else { size }).collect();
            if let Ok(payload) = compression.encode(&sent, &layout, None, 1) {
                let arrived = decode(payload.as_ref(), &layout).unwrap();
                assert!(arrived.iter().all(|v| v.is_finite()), "{compression:?} {size}");
            }
        }
    }
}

#[test]
fn settings_read_as_names_and_tables_and_say_what_is_wrong() {
    let read = |text: &str| serde_json::from_str::<Compression>(text);
    assert_eq!(read(r#""none""#).unwrap(), Compression::default());
    assert_eq!(read(r#""8-bit""#).unwrap(), Compression::new(Values::EightBit));
    let full = r#"{ "random": 0.05, "values": "4-bit", "scale": { "block": 1024 }, "feedback": true }"#;
    let full = read(full).unwrap();
    assert_eq!(full.sparsity, Sparsity::Random(0.05));
    assert_eq!((full.scale, full.feedback), (SharedScale::Block(1024), true));
    for compression in all() {
        let text = serde_json::to_string(&compression).unwrap();
        assert_eq!(read(&text).unwrap(), compression);
    }
    let message = |text| read(text).unwrap_err().to_string();
    assert!(message(r#""2-bit""#).contains("8-bit"));
    assert!(message(r#"{ "top": 0.0 }"#).contains("above 0"));
    assert!(message(r#"{ "top": 0.1, "random": 0.1 }"#).contains("remove"));
    assert!(message(r#"{ "scale": { "block": 100 } }"#).contains("power of two"));
    assert!(message(r#"{ "topp": 0.1 }"#).contains("topp"));
}

#[test]
fn a_layout_has_no_gaps() {
    assert!(UpdateLayout::new(&[0..3, 4..5]).is_err());
    assert!(UpdateLayout::new(&[1..3, 3..4]).is_err());
    assert!(UpdateLayout::new(&[]).unwrap().is_empty());
    assert_eq!(UpdateLayout::new(&[0..3, 3..3, 3..5]).unwrap().len(), 5);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), len in 0u32..400) {
        let _ = decode(&bytes, &UpdateLayout::single(len));
    }

    #[test]
    fn random_bytes_after_a_good_header_give_finite_values_or_an_error(
        which in 0usize..28,
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        keep in 8usize..40,
    ) {
        let (layout, compression) = (tensors(200), all()[which]);
        let mut payload = compression.encode(&update(200, 1), &layout, None, 3).unwrap().into_bytes();
        payload.truncate(keep);
        payload.extend(bytes);
        if let Ok(values) = decode(&payload, &layout) {
            prop_assert!(values.len() == 200 && values.iter().all(|v| v.is_finite()));
        }
    }

    #[test]
    fn flipped_and_missing_bits_give_finite_values_or_an_error(
        which in 0usize..28,
        flips in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (layout, compression) = (tensors(300), all()[which]);
        let mut bytes = compression.encode(&update(300, 1), &layout, None, 3).unwrap().into_bytes();
        for flip in flips {
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
            prop_assert!(decode(&bytes, &layout).is_err());
        } else if let Ok(values) = decode(&bytes, &layout) {
            prop_assert!(values.len() == 300 && values.iter().all(|v| v.is_finite()));
        }
    }

    #[test]
    fn top_values_match_a_sort(values in prop::collection::vec(-5i8..5, 1..200), fraction in 0.01f64..1.0) {
        let sent: Vec<f32> = values.iter().map(|&v| f32::from(v)).collect();
        let layout = UpdateLayout::single(sent.len() as u32);
        let top = Compression::default().top(fraction);
        let payload = top.encode(&sent, &layout, None, 0).unwrap();
        let mut order: Vec<usize> = (0..sent.len()).collect();
        order.sort_by(|&a, &b| sent[b].abs().total_cmp(&sent[a].abs()).then(a.cmp(&b)));
        let mut expected = vec![0.0; sent.len()];
        for &i in &order[..top.sparsity.kept(sent.len())] {
            expected[i] = sent[i];
        }
        prop_assert_eq!(decode(payload.as_ref(), &layout).unwrap(), expected);
    }

    #[test]
    fn a_payload_for_another_model_is_refused(which in 0usize..28, len in 0u32..300) {
        prop_assume!(len != 200);
        let payload = all()[which].encode(&update(200, 1), &tensors(200), None, 3).unwrap();
        prop_assert!(decode(payload.as_ref(), &UpdateLayout::single(len)).is_err());
    }
}
