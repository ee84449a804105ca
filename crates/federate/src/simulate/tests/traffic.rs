//! Bytes between clients and the server.

use super::*;

#[test]
fn traffic_is_counted_as_it_is_sent() {
    let points = Points::new(10, false);
    let run = |values: Values| {
        let settings = SimulationSettings {
            fraction: 0.5,
            compression: Compression::new(values),
            ..SimulationSettings::default()
        };
        let mut simulation = simulation(&points, &settings, 1, None);
        (0..2).for_each(|_| assert!(simulation.round().is_ok()));
        simulation.traffic()
    };
    let full = run(Values::Exact);
    let model = (2 * 8 + 8 + 8 * 3 + 3) * 4;
    assert_eq!((full.down, full.up_in_full), (10 * model, 10 * model));
    let eight = run(Values::EightBit);
    assert_eq!(eight.up_in_full, full.up_in_full);
    assert!(eight.up < full.up);
}

#[test]
fn variates_travel_and_private_parts_do_not() {
    let points = Points::new(10, false);
    let run = |strategy: &str, personal: Personal| {
        let settings = SimulationSettings {
            fraction: 0.5,
            strategy: choice(strategy),
            personal,
            ..SimulationSettings::default()
        };
        let mut simulation = simulation(&points, &settings, 1, None);
        (0..2).for_each(|_| assert!(simulation.round().is_ok()));
        simulation.traffic()
    };
    let plain = run("\"fedavg\"", Personal::None);
    let variates = run("\"scaffold\"", Personal::None);
    assert_eq!(variates.down, 2 * plain.down);
    assert_eq!(
        variates.up - plain.up,
        variates.up_in_full,
        "variates travel in full"
    );
    let names = zoo::mlp(&[2, 8, 3], 3)
        .expect("a model")
        .layout()
        .entries()
        .to_vec();
    let head = &names[names.len() - 2..];
    let private = head.iter().map(|e| e.name.clone()).collect();
    let kept: usize = head.iter().map(|e| e.range.len()).sum();
    let personal = run("\"fedavg\"", Personal::Fedper { private });
    assert_eq!(plain.down - personal.down, 10 * 4 * kept as u64);
    assert_eq!(plain.up - personal.up, 10 * 4 * kept as u64);
    let clusters = run("\"fedavg\"", Personal::Ifca { clusters: 3 });
    assert_eq!((clusters.down, clusters.up), (3 * plain.down, plain.up));
}

#[test]
fn updates_that_came_for_nothing_have_travelled_too() {
    let points = Points::new(20, false);
    let settings = SimulationSettings {
        fraction: 0.5,
        behaviour: rough(),
        ..SimulationSettings::default()
    };
    let mut simulation = simulation(&points, &settings, 2, None);
    let reports: Vec<RoundReport> = (0..20).map(|_| simulation.round().expect("a round")).collect();
    let used: u64 = reports.iter().map(|r| r.updates).sum();
    let (tally, traffic) = (simulation.tally(), simulation.traffic());
    assert!(tally.in_vain() > 0, "{tally}");
    assert_eq!(traffic.up, (used + tally.in_vain()) * simulation.upload_bytes());
}
