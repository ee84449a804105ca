//! Partitions: who holds which rows, and how skewed that is.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use synod_federate::partition::{Division, Draw, Measures, Partition, RowsToDivide, Skew};

/// Labels as in MNIST: ten, in no order.
fn digits(count: u32) -> Vec<u32> {
    (0..count)
        .map(|row| row.wrapping_mul(2_654_435_761) >> 7)
        .map(|hash| hash % 10)
        .collect()
}

fn rows_of(partition: &dyn Partition, client: usize) -> Vec<u32> {
    let mut rows = vec![77; 3];
    partition.rows(client, &mut rows);
    assert_eq!(rows.len(), partition.samples(client));
    rows
}

fn labels_of(partition: &dyn Partition, client: usize, labels: &[u32]) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for row in rows_of(partition, client) {
        *counts.entry(labels[row as usize]).or_default() += 1;
    }
    counts
}

fn every_row_once(partition: &dyn Partition, count: usize) -> bool {
    let mut all: Vec<u32> = (0..partition.clients())
        .flat_map(|c| rows_of(partition, c))
        .collect();
    all.sort_unstable();
    all.iter().copied().eq(0..count as u32)
}

fn measures(division: Division, labels: &[u32], clients: usize) -> Measures {
    let partition = division
        .divide(&RowsToDivide::labelled(labels), clients, 3)
        .unwrap();
    Measures::of(&*partition, Some(labels)).unwrap()
}

proptest! {
    #[test]
    fn every_row_belongs_to_just_one_client(
        labels in prop::collection::vec(0u32..4, 1..300),
        clients in 1usize..20,
        each in 1usize..4,
        strength in 0.01f64..10.0,
        minimum in 0usize..3,
        seed in any::<u64>(),
    ) {
        let skew = Skew { by: strength, minimum };
        let rows = RowsToDivide::labelled(&labels).with_groups(&labels);
        let groups = labels.iter().collect::<BTreeSet<_>>().len();
        // With the number of clients, and of rows that are needed if that is known.
        let all = [
            (Division::Iid, clients, Some(clients)),
            (Division::Shards(each), clients, Some(clients * each)),
            (Division::Labels(each), clients, None),
            (Division::Dirichlet(skew), clients, Some(clients * minimum)),
            (Division::PowerLaw(skew), clients, Some(clients * minimum)),
            (Division::Natural, groups, Some(groups)),
        ];
        for (division, clients, needed) in all {
            if let Ok(partition) = division.divide(&rows, clients, seed) {
                prop_assert_eq!(partition.clients(), clients);
                prop_assert!(every_row_once(&*partition, labels.len()), "{:?}", division);
                let again = division.divide(&rows, clients, seed).unwrap();
                prop_assert!((0..clients).all(|c| rows_of(&*partition, c) == rows_of(&*again, c)));
                if matches!(division, Division::Dirichlet(_) | Division::PowerLaw(_)) {
                    prop_assert!((0..clients).all(|c| partition.samples(c) >= minimum));
                }
            } else {
                prop_assert!(needed.is_none_or(|needed| needed > labels.len()), "{:?}", division);
            }
        }
    }
}

#[test]
fn even_division_shuffles_and_deals_evenly() {
    let labels = digits(60_000);
    let partition = Division::Iid
        .divide(&RowsToDivide::plain(60_000), 100, 1)
        .unwrap();
    assert!((0..100).all(|client| partition.samples(client) == 600));
    let measures = Measures::of(&*partition, Some(&labels)).unwrap();
    assert_eq!(
        (measures.smallest, measures.largest, measures.gini),
        (600, 600, 0.0)
    );
    let labels = measures.labels.unwrap();
    assert!(labels.total_variation < 0.06, "{labels:?}");
    assert!(labels.entropy > labels.global_entropy - 0.05);
    let other = Division::Iid
        .divide(&RowsToDivide::plain(60_000), 100, 2)
        .unwrap();
    assert_ne!(rows_of(&*partition, 0), rows_of(&*other, 0));
}

#[test]
fn uneven_numbers_differ_by_one_row_at_most() {
    let partition = Division::Iid.divide(&RowsToDivide::plain(103), 10, 1).unwrap();
    let sizes: BTreeSet<usize> = (0..10).map(|client| partition.samples(client)).collect();
    assert_eq!(sizes, BTreeSet::from([10, 11]));
}

#[test]
fn two_sorted_shards_hold_about_two_digits() {
    // With 6,000 of each digit no shard of 300 has two of them.
    let labels: Vec<u32> = (0..60_000).map(|row| row % 10).collect();
    let partition = Division::Shards(2)
        .divide(&RowsToDivide::labelled(&labels), 100, 5)
        .unwrap();
    for client in 0..100 {
        let held = labels_of(&*partition, client, &labels);
        assert!(held.len() <= 2 && held.values().all(|count| count % 300 == 0));
        assert_eq!(partition.samples(client), 600);
    }
    let skew = measures(Division::Shards(2), &labels, 100).labels.unwrap();
    assert!(skew.total_variation >= 0.8 && skew.labels_held > 1.5, "{skew:?}");
}

#[test]
fn two_labels_a_client_are_just_two_and_labels_are_shared_fairly() {
    let labels = digits(60_000);
    for clients in [10, 23] {
        let partition = Division::Labels(2)
            .divide(&RowsToDivide::labelled(&labels), clients, 9)
            .unwrap();
        let mut holders = [0usize; 10];
        for client in 0..clients {
            let held = labels_of(&*partition, client, &labels);
            assert_eq!(held.len(), 2);
            held.keys().for_each(|&label| holders[label as usize] += 1);
        }
        let (fewest, most) = (holders.iter().min().unwrap(), holders.iter().max().unwrap());
        assert!(most - fewest <= 1, "{holders:?}");
    }
}

#[test]
fn a_lower_concentration_is_more_skewed_and_a_high_one_is_even() {
    let labels = digits(20_000);
    let skew = |alpha: f64| {
        measures(Division::Dirichlet(alpha.into()), &labels, 20)
            .labels
            .unwrap()
    };
    let distances: Vec<f64> = [0.05, 0.5, 5.0, 1e6]
        .map(|alpha| skew(alpha).total_variation)
        .to_vec();
    assert!(distances.is_sorted_by(|a, b| a > b), "{distances:?}");
    assert!(distances[0] > 0.6 && distances[3] < 0.02, "{distances:?}");
}

#[test]
fn every_client_of_a_strong_skew_has_the_minimum() {
    let labels = digits(6000);
    let skew = Skew {
        by: 0.05,
        minimum: 10,
    };
    let partition = Division::Dirichlet(skew)
        .divide(&RowsToDivide::labelled(&labels), 300, 1)
        .unwrap();
    assert!((0..300).all(|client| partition.samples(client) >= 10));
    assert!(every_row_once(&*partition, 6000));
}

#[test]
fn sizes_of_a_power_law_follow_their_rank() {
    let partition = Division::PowerLaw(1.0.into())
        .divide(&RowsToDivide::plain(100_000), 50, 1)
        .unwrap();
    let mut sizes: Vec<usize> = (0..50).map(|client| partition.samples(client)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    for (rank, &size) in sizes.iter().enumerate() {
        let expected = sizes[0] as f64 / (rank + 1) as f64;
        assert!((size as f64 - expected).abs() < 5.0, "{rank}: {size} {expected}");
    }
    let even = Division::PowerLaw(0.0.into())
        .divide(&RowsToDivide::plain(1000), 10, 1)
        .unwrap();
    assert!((0..10).all(|client| even.samples(client) == 100));
}

#[test]
fn natural_clients_are_groups_in_order() {
    let groups = [7, 3, 7, 900, 3, 7];
    let rows = RowsToDivide::grouped(&groups);
    let partition = Division::Natural.divide(&rows, 3, 0).unwrap();
    assert_eq!(rows_of(&*partition, 0), [1, 4]);
    assert_eq!(rows_of(&*partition, 1), [0, 2, 5]);
    assert_eq!(rows_of(&*partition, 2), [3]);
    assert!(rows_of(&*partition, 3).is_empty());
}

#[test]
fn a_million_clients_draw_their_rows_when_asked() {
    let labels = digits(60_000);
    let draw = |labels| Division::Drawn(Draw { rows: 60, labels });
    for (kinds, held) in [(None, 5..=10), (Some(1), 1..=1), (Some(2), 2..=2)] {
        let partition = draw(kinds)
            .divide(&RowsToDivide::labelled(&labels), 1_000_000, 4)
            .unwrap();
        assert_eq!((partition.clients(), partition.samples(999_999)), (1_000_000, 60));
        assert_eq!(partition.samples(1_000_000), 0);
        let (mut rows_seen, mut labels_seen) = (BTreeSet::new(), BTreeSet::new());
        for client in (0..1_000_000).step_by(1013) {
            let rows = rows_of(&*partition, client);
            assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), 60);
            assert_eq!(rows, rows_of(&*partition, client));
            let own = labels_of(&*partition, client, &labels);
            assert!(held.contains(&own.len()));
            labels_seen.extend(own.into_keys());
            rows_seen.extend(rows);
        }
        // 988 clients of 60 rows: 63 % of all rows are expected among them.
        assert_eq!(labels_seen.len(), 10);
        assert!((33_000..43_000).contains(&rows_seen.len()), "{}", rows_seen.len());
    }
}

#[test]
fn measures_match_their_definitions() {
    // One client has both labels evenly, the other three rows of one: worked out by hand.
    let (labels, groups) = ([0, 1, 1, 1, 1], [0, 0, 1, 1, 1]);
    let partition = Division::Natural
        .divide(&RowsToDivide::grouped(&groups), 2, 0)
        .unwrap();
    let measures = Measures::of(&*partition, Some(&labels)).unwrap();
    assert_eq!((measures.smallest, measures.largest, measures.rows), (2, 3, 5));
    assert!((measures.gini - 0.1).abs() < 1e-12);
    let skew = measures.labels.clone().unwrap();
    assert!((skew.total_variation - (0.3 + 0.2) / 2.0).abs() < 1e-12);
    let (p, q) = (0.2f64, 0.8f64);
    let first = ((0.5f64.sqrt() - p.sqrt()).powi(2) + (0.5f64.sqrt() - q.sqrt()).powi(2)) / 2.0;
    let second = (p + (1.0 - q.sqrt()).powi(2)) / 2.0;
    assert!((skew.hellinger - (first.sqrt() + second.sqrt()) / 2.0).abs() < 1e-12);
    assert!((skew.entropy - 0.5).abs() < 1e-12 && skew.labels_held == 1.5);
    assert!((skew.global_entropy - (-p * p.log2() - q * q.log2())).abs() < 1e-12);
    let text = measures.to_string();
    assert!(
        text.starts_with("2 clients hold 5 rows, 2 to 3 each (Gini 0.10); 1.5 of 2 labels"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_divided_says_why() {
    let labels = digits(100);
    let labelled = RowsToDivide::labelled(&labels);
    let why = |division: Division, rows: &RowsToDivide, clients| {
        let answer = division.divide(rows, clients, 0);
        answer.err().expect("an error").to_string()
    };
    let plain = RowsToDivide::plain(100);
    assert!(why(Division::Iid, &plain, 0).contains("0 clients"));
    assert!(why(Division::Iid, &plain, 101).contains("fewer clients"));
    assert!(why(Division::Shards(2), &plain, 10).contains("no labels"));
    assert!(why(Division::Shards(0), &labelled, 10).contains("at least 1 shard"));
    assert!(why(Division::Shards(2), &labelled, 51).contains("102 shards"));
    assert!(why(Division::Labels(11), &labelled, 10).contains("the rows have 10"));
    assert!(why(Division::Labels(2), &labelled, 4).contains("to nobody"));
    assert!(why(Division::Labels(10), &labelled, 50).contains("cannot be held by 50"));
    assert!(why(Division::Dirichlet(0.0.into()), &labelled, 10).contains("above 0"));
    assert!(why(Division::Dirichlet(f64::NAN.into()), &labelled, 10).contains("above 0"));
    assert!(why(Division::PowerLaw((-1.0).into()), &plain, 10).contains("0 or above"));
    let skew = Skew { by: 1.0, minimum: 11 };
    assert!(why(Division::PowerLaw(skew), &plain, 10).contains("11 each"));
    assert!(why(Division::Natural, &plain, 10).contains("no groups"));
    assert!(why(Division::Natural, &RowsToDivide::grouped(&labels), 3).contains("10 groups"));
    assert!(why(Division::Drawn(101.into()), &plain, 10).contains("101 different rows"));
    let draw = Draw {
        rows: 3,
        labels: Some(0),
    };
    assert!(why(Division::Drawn(draw), &labelled, 10).contains("0 labels"));
}

#[test]
fn settings_read_as_they_are_written_in_a_configuration() {
    let read = |text: &str| serde_json::from_str::<Division>(text).unwrap();
    assert_eq!(read(r#""iid""#), Division::Iid);
    assert_eq!(read(r#""natural""#), Division::Natural);
    assert_eq!(read(r#"{ "shards": 2 }"#), Division::Shards(2));
    assert_eq!(read(r#"{ "labels": 2 }"#), Division::Labels(2));
    assert_eq!(read(r#"{ "dirichlet": 1 }"#), Division::Dirichlet(1.0.into()));
    let full = read(r#"{ "power-law": { "exponent": 1.5, "minimum": 4 } }"#);
    assert_eq!(full, Division::PowerLaw(Skew { by: 1.5, minimum: 4 }));
    assert_eq!(read(r#"{ "drawn": 60 }"#), Division::Drawn(60.into()));
    let two = Division::Drawn(Draw {
        rows: 60,
        labels: Some(2),
    });
    assert_eq!(read(r#"{ "drawn": { "rows": 60, "labels": 2 } }"#), two);
    for division in [full, two, Division::Dirichlet(0.5.into())] {
        assert_eq!(read(&serde_json::to_string(&division).unwrap()), division);
    }
    let wrong = serde_json::from_str::<Division>(r#"{ "dirichlet": "much" }"#);
    assert!(wrong.unwrap_err().to_string().contains("alpha"));
}
