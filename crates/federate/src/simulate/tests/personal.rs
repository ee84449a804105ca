//! What clients keep to themselves.

use super::*;

#[test]
fn personal_models_beat_the_shared_one_where_clients_differ() {
    let points = Points::new(12, true);
    let model = zoo::mlp(&[2, 8, 3], 3).expect("a model");
    let names: Vec<String> = model.layout().entries().iter().map(|e| e.name.clone()).collect();
    let head = names[names.len() - 2..].to_vec();
    let clients: Vec<ClientId> = (0..12).map(ClientId).collect();
    let settings = SimulationSettings {
        fraction: 1.0,
        holdout: 0.2,
        ..SimulationSettings::default()
    };
    let mut plain = simulation(&points, &settings, 2, None);
    (0..2).for_each(|_| assert!(plain.round().is_ok()));
    let judged = plain.evaluate_clients(&clients).expect("judged");
    assert!(
        judged
            .iter()
            .all(|m| m.own.is_none() && m.shared == Some(m.used()))
    );
    let shared = judged.iter().map(|m| m.used().accuracy()).sum::<f64>() / 12.0;
    for personal in [
        Personal::FineTune { epochs: 3 },
        Personal::Ditto { lambda: 0.1 },
        Personal::Fedper { private: head },
    ] {
        let settings = SimulationSettings {
            fraction: 1.0,
            holdout: 0.2,
            personal,
            ..SimulationSettings::default()
        };
        let mut simulation = simulation(&points, &settings, 2, None);
        (0..2).for_each(|_| assert!(simulation.round().is_ok()));
        let judged = simulation.evaluate_clients(&clients).expect("judged");
        assert!(judged.iter().all(|m| m.used().rows == 12));
        let own = judged.iter().map(|m| m.used().accuracy()).sum::<f64>() / 12.0;
        assert!(own > shared + 0.02, "{:?}: {shared} {own}", settings.personal);
        let private = matches!(settings.personal, Personal::Fedper { .. });
        assert!(
            judged
                .iter()
                .all(|m| m.shared.is_none() == private && m.own.is_some())
        );
        assert_eq!(simulation.has_one_model(), !private);
    }
}

#[test]
fn clients_of_two_kinds_find_their_clusters_and_those_alike_the_same() {
    // Half of the clients call the first class the last.
    let mut points = Points::new(12, false);
    for client in 6..12 {
        for row in points.rows[client].clone() {
            let class = &mut points.classes[row as usize];
            *class = 2.0 - *class;
        }
    }
    let run = |personal| {
        let settings = SimulationSettings {
            fraction: 1.0,
            holdout: 0.2,
            epochs: Epochs::Fixed(3),
            personal,
            ..SimulationSettings::default()
        };
        let mut simulation = simulation(&points, &settings, 2, None);
        (0..20).for_each(|_| assert!(simulation.round().is_ok()));
        let clients: Vec<ClientId> = (0..12).map(ClientId).collect();
        let judged = simulation.evaluate_clients(&clients).expect("judged");
        assert_eq!(simulation.models().count(), settings.personal.clusters());
        judged.iter().map(|m| m.used().accuracy()).sum::<f64>() / 12.0
    };
    let (one, two) = (run(Personal::None), run(Personal::Ifca { clusters: 2 }));
    assert!(two > 0.85 && two > one + 0.2, "{one} {two}");
}

#[test]
fn layers_that_keep_statistics_stay_with_their_clients() {
    use synod_nn::layers::{Activation, BatchNorm, Dense, Layer, Sequential};
    let model = Model::build([2], 3, |setup| {
        let first = setup.within("first", |s| Dense::new(s, 2, 8, Activation::Relu));
        let norm = setup.within("norm", |s| BatchNorm::new(s, 8));
        let last = setup.within("last", |s| Dense::new(s, 8, 3, Activation::Identity));
        let layers: Vec<Box<dyn Layer>> = vec![Box::new(first), Box::new(norm), Box::new(last)];
        Sequential(layers)
    })
    .expect("a model");
    let points = Points::new(8, true);
    let settings = SimulationSettings {
        fraction: 1.0,
        holdout: 0.2,
        personal: Personal::Fedbn,
        ..SimulationSettings::default()
    };
    let mut simulation = Simulation::new(&points, &model, plan(), settings, 2, None).expect("a federation");
    let norm = simulation.private.clone();
    (0..5).for_each(|_| assert!(simulation.round().is_ok()));
    let before = [model.parameters(), model.buffers()].concat();
    for (i, (now, then)) in simulation.weights().iter().zip(&before).enumerate() {
        assert!(
            *now == *then || !norm.iter().any(|r| r.contains(&i)),
            "place {i} travelled"
        );
    }
    assert_ne!(simulation.weights(), before);
    let clients: Vec<ClientId> = (0..8).map(ClientId).collect();
    let judged = simulation.evaluate_clients(&clients).expect("judged");
    let own = judged.iter().map(|m| m.used().accuracy()).sum::<f64>() / 8.0;
    assert!(own > 0.9, "{own}");
}
