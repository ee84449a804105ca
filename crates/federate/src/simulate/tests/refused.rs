//! What is refused before a round is held, or ends a federation with a word.

use super::*;

#[test]
fn a_rate_that_lets_all_clients_diverge_is_told() {
    let points = Points::new(4, false);
    let model = zoo::mlp(&[2, 8, 3], 3).expect("a model");
    let wild = Plan {
        optimizer: Optimizer::sgd(1e30),
        ..plan()
    };
    let mut simulation =
        Simulation::new(&points, &model, wild, SimulationSettings::default(), 1, None).expect("a federation");
    let said = simulation.round().expect_err("diverged").to_string();
    assert!(said.contains("learning rate"), "{said}");
}

#[test]
fn strategies_that_take_updates_for_gradients_refuse_other_optimisers() {
    let points = Points::new(4, false);
    let model = zoo::mlp(&[2, 8, 3], 3).expect("a model");
    let refused = |strategy: &str, optimizer| {
        let (settings, plan) = (
            SimulationSettings {
                strategy: choice(strategy),
                ..SimulationSettings::default()
            },
            Plan { optimizer, ..plan() },
        );
        let made = Simulation::new(&points, &model, plan, settings, 1, None);
        made.err().map(|e| e.to_string())
    };
    let momentum = Optimizer::momentum(0.1, 0.9);
    let fading = Optimizer::sgd(0.1).with_schedule(Schedule::Exponential { factor: 0.9 });
    for strategy in ["\"scaffold\"", "\"q-fedavg\""] {
        let said = refused(strategy, momentum).expect("refused");
        assert!(said.contains("optimizer = \"sgd\""), "{said}");
        assert_eq!(refused(strategy, Optimizer::sgd(0.1)), None);
    }
    assert!(
        refused("\"q-fedavg\"", fading)
            .expect("refused")
            .contains("schedule")
    );
    assert_eq!(refused("\"scaffold\"", fading), None);
    assert_eq!(refused("\"fedavg\"", momentum), None);
}

#[test]
fn rounds_that_are_too_small_for_a_strategy_are_refused_at_once() {
    let points = Points::new(20, false);
    let model = zoo::mlp(&[2, 8, 3], 3).expect("a model");
    let settings = SimulationSettings {
        fraction: 0.3,
        strategy: choice("\"bulyan\""),
        ..SimulationSettings::default()
    };
    let said = Simulation::new(&points, &model, plan(), settings, 1, None).err();
    let said = said.expect("refused").to_string();
    assert!(
        said.contains("needs 7 updates") && said.contains("takes 6"),
        "{said}"
    );
}

#[test]
fn a_goal_of_its_own_is_refused_not_overlooked() {
    let points = Points::new(4, false);
    let mut settings = SimulationSettings::default();
    settings.round.goal = 3;
    let model = zoo::mlp(&[2, 8, 3], 3).expect("a model");
    let made = Simulation::new(&points, &model, plan(), settings, 1, None);
    assert!(made.err().expect("refused").to_string().contains("`fraction`"));
}
