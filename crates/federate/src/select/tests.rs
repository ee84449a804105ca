use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::round::TimeSpan;

const HOUR: u64 = 3_600_000;

fn by(selection: Selection) -> SelectionSettings {
    SelectionSettings {
        by: selection,
        ..SelectionSettings::default()
    }
}

/// Clients with samples, losses and work, that count how often they are looked at.
#[derive(Default)]
struct Village {
    samples: Vec<u64>,
    losses: Vec<Option<f64>>,
    busy: Vec<u64>,
    looks: Cell<u64>,
}

impl Population for Village {
    fn clients(&self) -> u64 {
        self.samples.len() as u64
    }

    fn samples(&self, client: ClientId) -> u64 {
        self.samples[client.0 as usize]
    }

    fn loss(&self, client: ClientId) -> Option<f64> {
        self.losses.get(client.0 as usize).copied().flatten()
    }

    fn free(&self, client: ClientId) -> bool {
        self.looks.set(self.looks.get() + 1);
        !self.busy.contains(&client.0)
    }
}

/// How often each client is chosen, as a share of rounds.
fn frequencies(
    settings: &SelectionSettings,
    population: &dyn Population,
    count: usize,
    rounds: u64,
) -> Vec<f64> {
    let mut chosen = vec![0.0; population.clients() as usize];
    for round in 0..rounds {
        for client in settings.pick(population, 11, Round(round), Time(0), count) {
            chosen[client.0 as usize] += 1.0 / rounds as f64;
        }
    }
    chosen
}

/// The probability of each client to be among two drawn one after another by weight, by going through all pairs.
fn two_of(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let pair = |i: usize, j: usize| weights[i] / total * weights[j] / (total - weights[i]);
    let others = |i: usize| (0..weights.len()).filter(move |&j| j != i);
    (0..weights.len())
        .map(|i| others(i).map(|j| pair(i, j) + pair(j, i)).sum())
        .collect()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.015);
    assert!(close && found.len() == expected.len(), "{found:?} {expected:?}");
}

#[test]
fn at_random_all_are_chosen_equally_often() {
    assert_close(&frequencies(&by(Selection::Random), &10, 3, 20_000), &[0.3; 10]);
}

#[test]
fn by_data_size_clients_are_chosen_in_proportion_to_their_samples() {
    let village = Village {
        samples: vec![1, 2, 3, 4, 0],
        ..Village::default()
    };
    let one = frequencies(&by(Selection::DataSize), &village, 1, 20_000);
    assert_close(&one, &[0.1, 0.2, 0.3, 0.4, 0.0]);
    let two = frequencies(&by(Selection::DataSize), &village, 2, 20_000);
    assert_close(&two, &two_of(&[1.0, 2.0, 3.0, 4.0, 0.0]));
}

#[test]
fn by_loss_clients_are_chosen_in_proportion_within_bounds() {
    // The geometric mean is 1: 0.001 counts as 0.1, 1000 as 10, and what is unknown or absurd as 1.
    let losses = vec![
        Some(0.001),
        Some(1000.0),
        Some(0.5),
        Some(2.0),
        None,
        Some(f64::NAN),
        Some(f64::INFINITY),
    ];
    let village = Village {
        samples: vec![1; 7],
        losses,
        ..Village::default()
    };
    let weights = [0.1, 10.0, 0.5, 2.0, 1.0, 1.0, 1.0];
    assert_close(
        &frequencies(&by(Selection::Loss), &village, 2, 20_000),
        &two_of(&weights),
    );
}

#[test]
fn without_known_losses_all_are_chosen_equally_often() {
    assert_close(&frequencies(&by(Selection::Loss), &5, 2, 20_000), &[0.4; 5]);
}

#[test]
fn four_times_as_many_clients_are_there_at_the_peak() {
    let day = Diurnal {
        most: 0.8,
        ..Diurnal::default()
    };
    let there = |hour: u64| {
        (0..50_000)
            .filter(|&c| day.available(5, ClientId(c), Time(hour * HOUR)))
            .count() as f64
    };
    let (peak, low, morning) = (there(26), there(14), there(8));
    assert!((peak / 50_000.0 - 0.8).abs() < 0.01, "{peak}");
    assert!((peak / low - 4.0).abs() < 0.15, "{peak} {low}");
    assert!((morning / 50_000.0 - 0.5).abs() < 0.01, "{morning}");
}

#[test]
fn a_client_is_there_in_one_stretch_a_day_and_not_the_same_ones_every_day() {
    let day = Diurnal::default();
    let lasting = |client: u64, from: u64| {
        let hours = (from..from + 24).map(|h| day.available(5, ClientId(client), Time(h * HOUR)));
        hours.collect::<Vec<_>>()
    };
    let comings = |hours: &[bool]| hours.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    assert!((0..1000).all(|client| comings(&lasting(client, 14)) <= 1));
    let differ = (0..1000)
        .filter(|&client| lasting(client, 14) != lasting(client, 38))
        .count();
    assert!(differ > 700, "{differ}");
}

#[test]
fn only_those_who_are_there_are_chosen_by_availability() {
    let settings = by(Selection::Availability);
    let noon = Time(14 * HOUR);
    let chosen = settings.pick(&1000, 5, Round(0), noon, 100);
    assert_eq!(chosen.len(), 100);
    assert!(
        chosen
            .iter()
            .all(|&client| settings.day.available(5, client, noon))
    );
    let all = settings.pick(&1000, 5, Round(0), noon, 1000);
    assert_eq!(
        all.len(),
        (0..1000)
            .filter(|&c| settings.day.available(5, ClientId(c), noon))
            .count()
    );
}

#[test]
fn a_thousand_of_a_million_are_chosen_by_looking_at_few() {
    let looks = |selection| {
        let village = Village {
            samples: vec![1; 1_000_000],
            ..Village::default()
        };
        assert_eq!(
            by(selection)
                .pick(&village, 5, Round(0), Time(14 * HOUR), 1000)
                .len(),
            1000
        );
        village.looks.get()
    };
    assert_eq!(looks(Selection::Random), 1000);
    let available = looks(Selection::Availability);
    assert!((3500..4500).contains(&available), "{available}");
    assert_eq!(looks(Selection::DataSize), 1_000_000);
}

#[test]
fn the_configuration_is_short() {
    let settings: SelectionSettings =
        serde_json::from_str(r#"{ "by": "data-size", "day": { "peak": 12 } }"#).unwrap();
    assert_eq!(
        (settings.by, settings.day.peak, settings.day.swing),
        (Selection::DataSize, 12.0, 4.0)
    );
    assert!(settings.check().is_ok());
    assert_eq!(
        serde_json::from_str::<SelectionSettings>("{}").unwrap().by,
        Selection::Random
    );
    for wrong in [
        r#"{ "loss_floor": 0 }"#,
        r#"{ "day": { "swing": 0.5 } }"#,
        r#"{ "day": { "most": 2 } }"#,
    ] {
        assert!(
            serde_json::from_str::<SelectionSettings>(wrong)
                .unwrap()
                .check()
                .is_err(),
            "{wrong}"
        );
    }
}

fn selections() -> impl Strategy<Value = Selection> {
    use Selection::*;
    prop::sample::select(vec![Random, DataSize, Loss, Availability])
}

proptest! {
    #[test]
    fn chosen_clients_exist_are_free_differ_and_follow_from_the_seed(
        selection in selections(),
        samples in prop::collection::vec(0u64..5, 0..60),
        busy in prop::collection::vec(0u64..60, 0..10),
        (seed, round, hour, count) in (any::<u64>(), any::<u64>(), 0u64..1000, 0usize..80),
    ) {
        let losses = samples.iter().map(|&s| (s > 0).then_some(s as f64 - 1.0)).collect();
        let village = Village { samples, losses, busy, ..Village::default() };
        let at = Time(0) + TimeSpan(hour * HOUR);
        let chosen = by(selection).pick(&village, seed, Round(round), at, count);
        prop_assert!(chosen.len() <= count);
        prop_assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(chosen.iter().all(|c| c.0 < village.clients() && !village.busy.contains(&c.0)));
        prop_assert_eq!(&by(selection).pick(&village, seed, Round(round), at, count), &chosen);
        if matches!(selection, Selection::Random | Selection::Loss) {
            let free = (0..village.clients()).filter(|c| !village.busy.contains(c)).count();
            prop_assert_eq!(chosen.len(), count.min(free));
        }
    }
}
