//! Changes are what they say, and the same whenever seed, epoch and row are.

use proptest::prelude::*;
use synod_data::augment::{Augment, Image, Series};

fn image(op: Image, row: u64, pixels: &[f32]) -> Vec<f32> {
    let augment = Augment::images(4, 3, 2).with(1.0, op).expect("an op");
    let mut values = pixels.to_vec();
    augment
        .apply(1, 2, row, &mut values, &mut Vec::new())
        .expect("applied");
    values
}

fn pixels() -> Vec<f32> {
    (1..=24).map(|v| v as f32).collect()
}

fn at(values: &[f32], y: usize, x: usize, c: usize) -> f32 {
    values[(y * 3 + x) * 2 + c]
}

#[test]
fn flips_mirror_pixels_and_keep_channels() {
    let (before, across, over) = (
        pixels(),
        image(Image::FlipHorizontal, 0, &pixels()),
        image(Image::FlipVertical, 0, &pixels()),
    );
    for y in 0..4 {
        for x in 0..3 {
            for c in 0..2 {
                assert_eq!(at(&across, y, x, c), at(&before, y, 2 - x, c));
                assert_eq!(at(&over, y, x, c), at(&before, 3 - y, x, c));
            }
        }
    }
    assert_eq!(image(Image::FlipHorizontal, 0, &across), before);
}

#[test]
fn a_crop_moves_the_image_every_way_and_pads_with_zeros() {
    let before = pixels();
    let mut moves = std::collections::HashSet::new();
    for row in 0..300 {
        let after = image(Image::Crop { padding: 1 }, row, &before);
        let fits = |(down, right): (isize, isize)| {
            (0..4).all(|y: usize| {
                (0..3).all(|x: usize| {
                    let source = y.checked_add_signed(-down).zip(x.checked_add_signed(-right));
                    let source = source.filter(|&(y, x)| y < 4 && x < 3);
                    at(&after, y, x, 1) == source.map_or(0.0, |(y, x)| at(&before, y, x, 1))
                })
            })
        };
        let ways = (-1..=1).flat_map(|down| (-1..=1).map(move |right| (down, right)));
        moves.insert(ways.filter(|&way| fits(way)).collect::<Vec<_>>());
    }
    assert_eq!(moves.len(), 9, "nine ways, each seen and each exactly one");
    assert!(moves.iter().all(|ways| ways.len() == 1));
}

#[test]
fn a_cutout_fills_one_rectangle() {
    for row in 0..50 {
        let after = image(Image::Cutout { size: 2, fill: -1.0 }, row, &pixels());
        let cut = after.iter().filter(|&&v| v == -1.0).count();
        assert!([2, 4, 8].contains(&cut), "{cut}");
        let kept = after.iter().zip(pixels()).filter(|(a, b)| *a == b).count();
        assert_eq!(kept + cut, 24);
    }
}

fn series(op: Series, row: u64) -> Vec<f32> {
    let augment = Augment::series(5, 2).with(1.0, op).expect("an op");
    let mut values: Vec<f32> = (0..10).map(|v| v as f32 + 1.0).collect();
    augment
        .apply(9, 0, row, &mut values, &mut Vec::new())
        .expect("applied");
    values
}

#[test]
fn a_time_shift_repeats_the_edge() {
    let mut shifts = std::collections::HashSet::new();
    for row in 0..100 {
        let after = series(Series::TimeShift { most: 2 }, row);
        let shift = (-2isize..=2).find(|&later| {
            (0..5).all(|step: isize| {
                let source = (step - later).clamp(0, 4) as f32;
                after[2 * step as usize] == 2.0 * source + 1.0
                    && after[2 * step as usize + 1] == 2.0 * source + 2.0
            })
        });
        shifts.insert(shift.unwrap_or_else(|| panic!("{after:?} is no shift")));
    }
    assert_eq!(shifts.len(), 5);
}

#[test]
fn scale_is_one_factor_per_channel_and_jitter_has_the_spread_asked_for() {
    let after = series(Series::Scale { sigma: 0.3 }, 4);
    for c in 0..2 {
        let factor = after[c] / (c as f32 + 1.0);
        assert!(factor != 1.0);
        for step in 0..5 {
            let before = (2 * step + c) as f32 + 1.0;
            assert!((after[2 * step + c] / before - factor).abs() < 1e-5);
        }
    }
    let noise: Vec<f32> = (0..2000)
        .flat_map(|row| {
            series(Series::Jitter { sigma: 0.5 }, row)
                .into_iter()
                .enumerate()
                .map(|(i, v)| v - i as f32 - 1.0)
                .collect::<Vec<_>>()
        })
        .collect();
    let mean = noise.iter().sum::<f32>() / noise.len() as f32;
    let sigma = (noise.iter().map(|v| v * v).sum::<f32>() / noise.len() as f32).sqrt();
    assert!(mean.abs() < 0.02 && (sigma - 0.5).abs() < 0.02, "{mean} {sigma}");
}

#[test]
fn masks_and_probabilities_hit_their_share() {
    let masked: usize = (0..1000)
        .map(|row| {
            series(
                Series::Mask {
                    share: 0.2,
                    fill: f32::NAN,
                },
                row,
            )
            .iter()
            .filter(|v| v.is_nan())
            .count()
        })
        .sum();
    assert!((1800..2200).contains(&masked), "{masked} of 10000");
    let sometimes = Augment::images(4, 3, 2)
        .with(0.25, Image::FlipVertical)
        .expect("an op");
    let flipped = (0..4000)
        .filter(|&row| {
            let mut values = pixels();
            sometimes
                .apply(0, 7, row, &mut values, &mut Vec::new())
                .expect("applied");
            values != pixels()
        })
        .count();
    assert!((900..1100).contains(&flipped), "{flipped} of 4000");
}

#[test]
fn settings_and_rows_that_do_not_fit_are_refused() {
    assert!(Augment::images(4, 4, 1).with(1.5, Image::FlipVertical).is_err());
    assert!(
        Augment::images(4, 4, 1)
            .with(1.0, Image::Crop { padding: 4 })
            .is_err()
    );
    assert!(
        Augment::series(4, 1)
            .with(1.0, Series::TimeShift { most: 4 })
            .is_err()
    );
    assert!(
        Augment::series(4, 1)
            .with(1.0, Series::Jitter { sigma: f32::NAN })
            .is_err()
    );
    let augment = Augment::series(4, 1);
    let error = augment
        .apply(0, 0, 0, &mut [0.0; 5], &mut Vec::new())
        .expect_err("another extent");
    assert!(error.to_string().contains("4 x 1 x 1"), "{error}");
}

proptest! {
    #[test]
    fn any_list_is_a_pure_function_of_seed_epoch_and_row(
        seed in any::<u64>(), epoch in 0u64..100, row in any::<u64>(),
        height in 1usize..6, width in 1usize..6, channels in 1usize..4, size in 1usize..9,
    ) {
        let padding = height.min(width) - 1;
        let augment = Augment::images(height, width, channels)
            .with(0.5, Image::FlipHorizontal).expect("an op")
            .with(0.5, Image::FlipVertical).expect("an op")
            .with(0.8, Image::Crop { padding }).expect("an op")
            .with(0.8, Image::Cutout { size, fill: 0.0 }).expect("an op");
        let run = |scratch: &mut Vec<f32>| {
            let mut values: Vec<f32> = (0..height * width * channels).map(|v| v as f32).collect();
            augment.apply(seed, epoch, row, &mut values, scratch).expect("applied");
            values
        };
        prop_assert_eq!(run(&mut Vec::new()), run(&mut vec![7.0; 3]));
    }
}
