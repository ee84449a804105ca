mod personal;
mod refused;
mod traffic;

use synod_nn::{Data, Loss, Optimizer, zoo};

use super::*;
use crate::compress::{Compression, Values};
use crate::round::trace::Behaviour;
use crate::strategy::StrategyChoice;

/// Points in a plane, in three classes by direction; client `k` has every `clients`-th row, or only some classes.
struct Points {
    inputs: Vec<f32>,
    classes: Vec<f32>,
    rows: Vec<Vec<u32>>,
}

impl Points {
    fn new(clients: u64, skewed: bool) -> Points {
        let mut random = Random::new(5, &[]);
        let count = 60 * clients as usize;
        let inputs: Vec<f32> = (0..2 * count).map(|_| random.normal() as f32).collect();
        let class = |p: &[f32]| {
            ((p[1].atan2(p[0]) / std::f32::consts::TAU + 0.5) * 3.0)
                .floor()
                .min(2.0)
        };
        let classes: Vec<f32> = inputs.chunks(2).map(class).collect();
        let mut order: Vec<u32> = (0..count as u32).collect();
        if skewed {
            order.sort_by_key(|i| classes[*i as usize] as u32);
        }
        let rows = order.chunks(60).map(<[u32]>::to_vec).collect();
        Points {
            inputs,
            classes,
            rows,
        }
    }
}

impl Population for Points {
    fn clients(&self) -> u64 {
        self.rows.len() as u64
    }

    fn samples(&self, client: ClientId) -> u64 {
        self.rows[client.0 as usize].len() as u64
    }

    fn data(&self, _: ClientId) -> Data<'_> {
        Data::new(&self.inputs, 2, &self.classes, 1)
    }

    fn rows(&self, client: ClientId, rows: &mut Vec<u32>) {
        rows.clone_from(&self.rows[client.0 as usize]);
    }
}

fn plan() -> Plan {
    Plan {
        loss: Loss::CrossEntropy,
        optimizer: Optimizer::sgd(0.2),
        batch: Some(10),
        itself: false,
    }
}

fn simulation<'a>(
    points: &'a Points,
    settings: &SimulationSettings,
    threads: usize,
    folder: Option<PathBuf>,
) -> Simulation<'a> {
    let model = zoo::mlp(&[2, 8, 3], 3).expect("a model");
    Simulation::new(points, &model, plan(), settings.clone(), threads, folder).expect("a federation")
}

fn accuracy(simulation: &mut Simulation<'_>, points: &Points) -> f64 {
    let rows: Vec<u32> = (0..points.classes.len() as u32).collect();
    simulation
        .evaluate(points.data(ClientId(0)), &rows)
        .expect("measured")
        .accuracy()
}

fn choice(text: &str) -> StrategyChoice {
    serde_json::from_str(text).expect("a strategy")
}

fn every_strategy() -> Vec<StrategyChoice> {
    let names = [
        "fedavg",
        "fedsgd",
        "fedprox",
        "fedavgm",
        "fedadagrad",
        "fedadam",
        "fedyogi",
        "scaffold",
        "fednova",
        "q-fedavg",
        "fedbuff",
        "fedasync",
        "median",
        "trimmed-mean",
        "krum",
        "multi-krum",
        "bulyan",
        "geometric-median",
        "norm-clipping",
        "fltrust",
    ];
    names.iter().map(|name| choice(&format!("{name:?}"))).collect()
}

/// Clients of unequal speed that fail now and then.
fn rough() -> Behaviour {
    Behaviour {
        speed_spread: 0.7,
        dropout: 0.1,
        crash: 0.1,
        straggle: 0.1,
        ..Behaviour::default()
    }
}

#[test]
fn every_strategy_learns_and_any_number_of_threads_gives_the_same_bits() {
    let points = Points::new(20, false);
    for strategy in every_strategy() {
        let settings = SimulationSettings {
            fraction: 0.4,
            strategy: strategy.clone(),
            behaviour: rough(),
            trusted: 60,
            ..SimulationSettings::default()
        };
        let mut runs: Vec<Simulation<'_>> = [1, 3]
            .map(|threads| simulation(&points, &settings, threads, None))
            .into();
        let before = accuracy(&mut runs[0], &points);
        for _ in 0..30 {
            let reports: Vec<RoundReport> = runs.iter_mut().map(|s| s.round().expect("a round")).collect();
            assert_eq!(reports[0], reports[1], "{strategy:?}");
        }
        assert_eq!(runs[0].weights(), runs[1].weights(), "{strategy:?}");
        let after = accuracy(&mut runs[0], &points);
        assert!(
            after > before + 0.1 || after > 0.9,
            "{strategy:?}: {before} to {after}"
        );
    }
}

#[test]
fn a_federation_goes_on_from_a_checkpoint_to_the_same_bits() {
    let points = Points::new(12, true);
    for (strategy, personal) in [
        ("\"scaffold\"", Personal::None),
        ("\"fedadam\"", Personal::Ditto { lambda: 0.3 }),
        (r#"{"kind": "fedbuff", "buffer": 3}"#, Personal::None),
        ("\"fedavg\"", Personal::Ifca { clusters: 2 }),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = SimulationSettings {
            fraction: 0.5,
            strategy: choice(strategy),
            behaviour: rough(),
            compression: Compression::new(Values::OneBit),
            personal,
            ..SimulationSettings::default()
        };
        let states = |name: &str| Some(folder.path().join(name));
        let mut whole = simulation(&points, &settings, 2, states("whole"));
        let expected: Vec<RoundReport> = (0..9).map(|_| whole.round().expect("a round")).collect();
        let file = folder.path().join("checkpoint.safetensors");
        let mut first = simulation(&points, &settings, 1, states("states"));
        (0..4).for_each(|_| assert!(first.round().is_ok()));
        first.save(&file, "here").expect("saved");
        // A round that no checkpoint holds, as after a crash.
        first.round().expect("a round");
        drop(first);
        let mut second = simulation(&points, &settings, 2, states("states"));
        assert_eq!(second.restore(&file).expect("restored"), "here");
        let rest: Vec<RoundReport> = (0..5).map(|_| second.round().expect("a round")).collect();
        assert_eq!(rest, expected[4..], "{strategy}");
        assert_eq!(second.weights(), whole.weights(), "{strategy}");
    }
}

#[test]
fn checkpoints_that_are_damaged_or_of_other_settings_are_refused() {
    let points = Points::new(4, false);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("checkpoint.safetensors");
    let mut saved = simulation(&points, &SimulationSettings::default(), 1, None);
    saved.round().expect("a round");
    saved.save(&file, "").expect("saved");
    let other = SimulationSettings {
        seed: 2,
        ..SimulationSettings::default()
    };
    let said = simulation(&points, &other, 1, None)
        .restore(&file)
        .expect_err("refused")
        .to_string();
    assert!(said.contains("other settings"), "{said}");
    let bytes = std::fs::read(&file).expect("read");
    for cut in [0, 7, 100, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..cut]).expect("written");
        assert!(
            simulation(&points, &SimulationSettings::default(), 1, None)
                .restore(&file)
                .is_err(),
            "{cut} bytes"
        );
    }
}

#[test]
fn zero_pulls_and_variates_are_fedavg_bit_for_bit() {
    let points = Points::new(6, true);
    let run = |strategy: &str| {
        let settings = SimulationSettings {
            fraction: 1.0,
            strategy: choice(strategy),
            ..SimulationSettings::default()
        };
        let mut simulation = simulation(&points, &settings, 1, None);
        let rounds = if strategy.contains("scaffold") { 1 } else { 3 };
        (0..rounds).for_each(|_| assert!(simulation.round().is_ok()));
        simulation.weights().to_vec()
    };
    let settings = SimulationSettings {
        fraction: 1.0,
        ..SimulationSettings::default()
    };
    let mut plain = simulation(&points, &settings, 1, None);
    plain.round().expect("a round");
    assert_eq!(
        run("\"scaffold\""),
        plain.weights(),
        "variates are zero in the first round"
    );
    (0..2).for_each(|_| assert!(plain.round().is_ok()));
    assert_eq!(run(r#"{"kind": "fedprox", "mu": 0.0}"#), plain.weights());
    assert_ne!(run(r#"{"kind": "fedprox", "mu": 0.5}"#), plain.weights());
}

#[test]
fn one_round_of_all_clients_with_all_their_rows_is_one_step_on_all_rows() {
    let points = Points::new(7, true);
    let model = zoo::mlp(&[2, 8, 3], 3).expect("a model");
    let whole = Plan {
        batch: None,
        ..plan()
    };
    let all: Vec<u32> = points.rows.concat();
    let examples = Examples {
        data: points.data(ClientId(0)),
        rows: &all,
    };
    let central = Worker::new(&model, whole)
        .train(&Task::new(model.parameters(), examples, 1, 9))
        .expect("a step");
    assert_eq!(central.steps, 1);
    for strategy in ["\"fedavg\"", "\"fedsgd\""] {
        let settings = SimulationSettings {
            fraction: 1.0,
            strategy: choice(strategy),
            ..SimulationSettings::default()
        };
        let mut federation =
            Simulation::new(&points, &model, whole, settings, 2, None).expect("a federation");
        assert_eq!(federation.round().expect("a round").updates, 7);
        for (a, b) in federation.weights().iter().zip(&central.weights) {
            assert!((a - b).abs() < 1e-6, "{strategy}: {a} {b}");
        }
        assert_ne!(federation.weights(), model.parameters());
    }
}

#[test]
fn who_is_selected_how_long_it_works_and_what_it_sends_are_all_learnt_from() {
    let points = Points::new(20, false);
    let selections = ["random", "data-size", "loss", "availability"];
    let compressions = [
        r#""4-bit""#,
        r#"{"top": 0.2, "values": "8-bit"}"#,
        r#"{"random": 0.3, "values": "1-bit"}"#,
    ];
    for (i, compression) in selections
        .iter()
        .enumerate()
        .flat_map(|s| compressions.map(|c| (s, c)))
    {
        let settings: SimulationSettings = serde_json::from_str(&format!(
            r#"{{"fraction": 0.4, "epochs": {{"least": 1, "most": 4}}, "selection": {{"by": "{}"}}, "compression": {compression}}}"#,
            i.1
        ))
        .expect("settings");
        let mut runs: Vec<Simulation<'_>> = [1, 3]
            .map(|threads| simulation(&points, &settings, threads, None))
            .into();
        for _ in 0..25 {
            let reports: Vec<RoundReport> = runs.iter_mut().map(|s| s.round().expect("a round")).collect();
            assert_eq!(reports[0], reports[1]);
        }
        assert_eq!(runs[0].weights(), runs[1].weights());
        let traffic = runs[0].traffic();
        assert!(traffic.up * 2 < traffic.up_in_full, "{compression}: {traffic:?}");
        let found = accuracy(&mut runs[0], &points);
        assert!(found > 0.8, "{} {compression}: {found}", i.1);
    }
}

#[test]
fn the_rate_follows_its_schedule_from_round_to_round() {
    let points = Points::new(6, false);
    let run = |schedule| {
        let model = zoo::mlp(&[2, 8, 3], 3).expect("a model");
        let plan = Plan {
            optimizer: Optimizer::sgd(0.2).with_schedule(schedule),
            ..plan()
        };
        let mut simulation = Simulation::new(&points, &model, plan, SimulationSettings::default(), 1, None)
            .expect("a federation");
        let mut moved = vec![];
        for _ in 0..4 {
            let before = simulation.weights().to_vec();
            simulation.round().expect("a round");
            let pairs = simulation.weights().iter().zip(&before);
            moved.push(pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt());
        }
        moved
    };
    let stops = run(Schedule::Step {
        every: 2,
        factor: 1e-6,
    });
    let constant = run(Schedule::Constant);
    assert_eq!(stops[..2], constant[..2]);
    assert!(
        stops[2] < 1e-4 * constant[2] && stops[3] < 1e-4 * constant[3],
        "{stops:?} {constant:?}"
    );
}
