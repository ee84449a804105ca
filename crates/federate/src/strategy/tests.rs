use synod_core::Random;

use super::*;

fn update(client: u64, samples: u64, delta: &[f32]) -> ClientUpdate {
    ClientUpdate::new(ClientId(client), samples, delta.to_vec())
}

fn random_updates(seed: u64, count: u64, len: usize) -> Vec<ClientUpdate> {
    let one = |client: u64| {
        let mut random = Random::new(seed, &[client]);
        let delta = (0..len).map(|_| random.normal() as f32).collect();
        let variate = (0..len).map(|_| random.normal() as f32).collect();
        ClientUpdate {
            steps: 1.0 + random.below(9) as f64,
            loss: random.uniform(),
            staleness: random.below(4),
            variate: Some(variate),
            origin: Some(vec![0.25; len]),
            ..ClientUpdate::new(ClientId(client), 1 + random.below(100), delta)
        }
    };
    (0..count).map(one).collect()
}

fn all() -> Vec<Box<dyn Strategy>> {
    let names = [
        "\"fedavg\"",
        "\"fedsgd\"",
        "\"fedprox\"",
        "\"fedavgm\"",
        "\"fedadagrad\"",
        "\"fedadam\"",
        "\"fedyogi\"",
        "\"scaffold\"",
        "\"fednova\"",
        "\"q-fedavg\"",
        "\"fedbuff\"",
        "\"fedasync\"",
        "\"median\"",
        "\"trimmed-mean\"",
        "\"krum\"",
        "\"multi-krum\"",
        "\"bulyan\"",
        "\"geometric-median\"",
        "\"norm-clipping\"",
        "\"fltrust\"",
    ];
    let build = |name: &&str| {
        let choice: StrategyChoice = serde_json::from_str(name).expect("a strategy");
        choice.build(0.1).expect("built")
    };
    names.iter().map(build).collect()
}

fn run(strategy: &dyn Strategy, rounds: &[Vec<ClientUpdate>]) -> Server {
    let len = rounds[0][0].delta.len();
    let mut server = Server::new(vec![0.5; len], 20);
    for updates in rounds {
        server.reference = strategy.work().reference.then(|| vec![0.1; len]);
        let mut gathering = Gathering::begin(strategy, &server);
        for update in updates {
            gathering.add(strategy, &server, update).expect("added");
        }
        strategy.step(&mut server, &gathering).expect("stepped");
    }
    server
}

#[test]
fn no_strategy_depends_on_the_order_of_arrival_or_on_who_gathers() {
    for strategy in all() {
        let strategy = &*strategy;
        let rounds = vec![random_updates(1, 11, 17), random_updates(2, 11, 17)];
        let expected = run(strategy, &rounds);
        let mut shuffled = rounds.clone();
        shuffled.iter_mut().for_each(|r| Random::new(3, &[]).shuffle(r));
        assert_eq!(run(strategy, &shuffled), expected, "{}", strategy.name());
        let mut server = Server::new(vec![0.5; 17], 20);
        for updates in &shuffled {
            server.reference = strategy.work().reference.then(|| vec![0.1; 17]);
            let mut parts = [
                Gathering::begin(strategy, &server),
                Gathering::begin(strategy, &server),
            ];
            for (i, update) in updates.iter().enumerate() {
                parts[i % 2].add(strategy, &server, update).expect("added");
            }
            let [mut first, mut second] = parts;
            first.merge(&mut second).expect("merged");
            assert_eq!(first.count(), 11);
            strategy.step(&mut server, &first).expect("stepped");
        }
        assert_eq!(server, expected, "{}", strategy.name());
    }
}

#[test]
fn malformed_updates_are_refused_and_change_nothing() {
    for strategy in all() {
        let strategy = &*strategy;
        let mut server = Server::new(vec![0.0; 3], 20);
        server.reference = Some(vec![1.0; 3]);
        let mut gathering = Gathering::begin(strategy, &server);
        for mut wrong in
            [vec![1.0, f32::NAN, 0.0], vec![1.0, 2.0], vec![f32::INFINITY; 3]].map(|d| update(9, 5, &d))
        {
            wrong.variate = Some(vec![0.0; 3]);
            assert!(
                gathering.add(strategy, &server, &wrong).is_err(),
                "{}",
                strategy.name()
            );
        }
        assert_eq!(gathering.count(), 0);
        assert!(
            strategy.step(&mut server, &gathering).is_err(),
            "{} of nothing",
            strategy.name()
        );
        assert_eq!(server.version, 0);
    }
}

#[test]
fn averages_are_weighted_by_samples() {
    let server = run(
        &Plain,
        &[vec![update(0, 30, &[1.0, 0.0]), update(1, 10, &[0.0, 4.0])]],
    );
    assert_eq!(server.weights, [1.25, 1.5]);
    assert_eq!(server.version, 1);
}

#[test]
fn fednova_undoes_unequal_numbers_of_steps() {
    // Two clients with the same direction per step, one of which took three times as many.
    let steps = |mut u: ClientUpdate, n: f64| {
        u.steps = n;
        u
    };
    let round = vec![
        steps(update(0, 1, &[1.0]), 1.0),
        steps(update(1, 1, &[-3.0]), 3.0),
    ];
    assert_eq!(
        run(&Nova, std::slice::from_ref(&round)).weights,
        [0.5],
        "opposed steps cancel"
    );
    assert_eq!(
        run(&Plain, &[round]).weights,
        [-0.5],
        "a plain mean follows who works more"
    );
}

#[test]
fn scaffold_averages_like_fedavg_and_moves_its_variate_by_the_part_that_took_part() {
    let mut round = random_updates(4, 5, 6);
    round.iter_mut().for_each(|u| u.variate = Some(vec![2.0; 6]));
    let server = run(&Scaffold { rate: 1.0 }, std::slice::from_ref(&round));
    assert_eq!(server.weights, run(&Plain, &[round]).weights);
    assert_eq!(server.memory, [vec![0.5; 6]], "5 of 20 clients moved theirs by 2");
}

#[test]
fn robust_strategies_stay_with_the_many_where_the_mean_is_led_away() {
    let mut round: Vec<ClientUpdate> = (0..9)
        .map(|i| update(i, 10, &[1.0 + 0.01 * i as f32, -1.0]))
        .collect();
    round.extend((9..11).map(|i| update(i, 10, &[-100.0, 100.0])));
    let near = |w: &[f32]| (w[0] - 1.54).abs() < 0.06 && (w[1] + 0.5).abs() < 0.01;
    let robust: [Box<dyn Strategy>; 6] = [
        Box::new(Median),
        Box::new(TrimmedMean { cut: 0.2 }),
        Box::new(Krum {
            malicious: 2,
            keep: 1,
        }),
        Box::new(Krum {
            malicious: 2,
            keep: 5,
        }),
        Box::new(Bulyan { malicious: 2 }),
        Box::new(GeometricMedian {
            steps: 200,
            smallest: 1e-6,
        }),
    ];
    for strategy in robust {
        let weights = run(&*strategy, std::slice::from_ref(&round)).weights;
        assert!(near(&weights), "{}: {weights:?}", strategy.name());
    }
    assert!(!near(&run(&Plain, std::slice::from_ref(&round)).weights));
    let clipped = run(&Clipped { norm: 1.5 }, &[round]).weights;
    assert!(clipped[0] > 1.0, "clipping weakens the few: {clipped:?}");
}

#[test]
fn trust_goes_to_updates_that_agree_with_the_servers_own() {
    let round = vec![update(0, 1, &[3.0, 0.0]), update(1, 1, &[-50.0, 0.0])];
    let mut server = Server::new(vec![0.0; 2], 2);
    server.reference = Some(vec![1.0, 0.0]);
    let mut gathering = Gathering::begin(&Trust, &server);
    round
        .into_iter()
        .for_each(|u| gathering.add(&Trust, &server, &u).expect("added"));
    Trust.step(&mut server, &gathering).expect("stepped");
    assert_eq!(
        server.weights,
        [1.0, 0.0],
        "as long as the server's own, and the other unheard"
    );
}

#[test]
fn old_updates_count_less() {
    let aged = |staleness| ClientUpdate {
        staleness,
        ..update(0, 1, &[1.0])
    };
    let buffered = Buffered {
        buffer: 1,
        rate: 1.0,
        staleness: 9,
    };
    assert_eq!(run(&buffered, &[vec![aged(0)]]).weights, [1.5]);
    assert_eq!(run(&buffered, &[vec![aged(3)]]).weights, [1.0]);
    let mixed = Mixed {
        mixing: 0.5,
        power: 1.0,
        staleness: 9,
    };
    // The client began at 0.5 - 0.25 and went 1 up: its weights are 0.75 above today's.
    let moved = ClientUpdate {
        origin: Some(vec![-0.25]),
        ..aged(1)
    };
    assert_eq!(run(&mixed, &[vec![moved]]).weights, [0.5 + 0.25 * 0.75]);
}

#[test]
fn configurations_are_names_or_tables_and_mistakes_are_named() {
    let parse = |text: &str| serde_json::from_str::<StrategyChoice>(text);
    assert_eq!(parse("\"fedavg\"").expect("a name"), StrategyChoice::Fedavg);
    let table = parse(r#"{"kind": "fedprox", "mu": 0.5}"#).expect("a table");
    assert_eq!(table, StrategyChoice::Fedprox { mu: 0.5 });
    let round_trip = parse(&serde_json::to_string(&table).expect("written")).expect("read");
    assert_eq!(round_trip, table);
    let said = parse("\"fedavgg\"").expect_err("unknown").to_string();
    assert!(said.contains("fedavgg") && said.contains("fltrust"), "{said}");
    let said = parse(r#"{"kind": "fedprox", "nu": 1}"#)
        .expect_err("unknown")
        .to_string();
    assert!(!said.is_empty());
    let said = parse(r#"{"kind": "krum", "mu": 1}"#)
        .expect_err("misplaced")
        .to_string();
    assert!(said.contains("mu") && said.contains("malicious"), "{said}");
    let wrong = parse(r#"{"kind": "trimmed-mean", "cut": 0.5}"#)
        .expect("parsed")
        .build(0.1);
    assert!(wrong.is_err());
}
