//! What nodes gain from each other, and how they choose.

use synod_detect::{History, Keep, Recipe, Result};
use synod_evaluate::Recent;
use synod_fleet::{Error, ROUNDS, Together};
use synod_telemetry::Frame;

use crate::site::{Site, compare, fpr};

#[test]
fn with_little_to_learn_from_nodes_raise_fewer_false_alarms_together() {
    let site = Site::new(10, 40);
    let short = Recent {
        history: &site,
        keep: Keep::Part(8),
    };
    let ([alone, together, _], choices) = compare(2, &short, &|| {});
    assert!(
        fpr(&together) < fpr(&alone),
        "{} against {}",
        fpr(&together),
        fpr(&alone)
    );
    assert_eq!(choices.len(), 10);
}

/// Nodes whose metrics have each other's names, on every node in another order.
struct Unlike(Site);

impl History for Unlike {
    fn nodes(&self) -> usize {
        self.0.nodes()
    }

    fn node(&self, index: usize) -> Result<(Frame, Frame, Vec<String>)> {
        let (train, test, notes) = self.0.node(index)?;
        let renamed = |frame: Frame| {
            let mut metrics = frame.metrics().to_vec();
            let count = metrics.len();
            metrics.rotate_left(index % count);
            let (times, values) = (frame.times().to_vec(), frame.values().to_vec());
            let named = Frame::new(frame.node(), frame.step(), times, metrics, values)?;
            named.with_truth(frame.truth().to_vec())
        };
        Ok((renamed(train)?, renamed(test)?, notes))
    }
}

#[test]
fn nodes_that_are_not_alike_choose_to_learn_alone_and_are_as_alone() {
    let ([alone, together, chosen], choices) = compare(2, &Unlike(Site::new(6, 20)), &|| {});
    assert!(choices.iter().all(|c| !c.federated), "{choices:?}");
    assert_eq!([choices.len(), chosen.nodes.len(), alone.nodes.len()], [6; 3]);
    for (choice, (chosen, alone)) in choices.iter().zip(chosen.nodes.iter().zip(&alone.nodes)) {
        assert_eq!(choice.node, chosen.node);
        assert_eq!(chosen.scores, alone.scores);
    }
    assert_ne!(alone.nodes[1].scores, together.nodes[1].scores);
    let ([_, together, chosen], choices) = compare(2, &Site::new(6, 20), &|| {});
    assert!(choices.iter().all(|c| c.federated), "{choices:?}");
    for (chosen, together) in chosen.nodes.iter().zip(&together.nodes) {
        assert_eq!(chosen.scores, together.scores);
    }
}

#[test]
fn threads_make_no_difference_and_progress_is_told() {
    let site = Site::new(5, 20);
    let steps = std::sync::atomic::AtomicUsize::new(0);
    let count = || {
        steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let (([_, one, _], _), ([_, three, _], _)) = (compare(1, &site, &count), compare(3, &site, &|| {}));
    assert_eq!(steps.into_inner(), (ROUNDS + 1) * 5);
    for (a, b) in one.nodes.iter().zip(&three.nodes) {
        assert_eq!(a.scores, b.scores);
        assert_eq!(a.thresholds, b.thresholds);
    }
}

#[test]
fn networks_are_not_fitted_from_sums_and_say_so() {
    let recipe = Recipe::named("autoencoder", 1).expect("a recipe");
    let site = Site::new(2, 20);
    let refused = Together::gather(&recipe, &site, 1, &|| {});
    let error = refused.err().expect("refused");
    assert!(
        matches!(error, Error::NotFromSums) && error.to_string().contains("sums"),
        "{error}"
    );
}

#[test]
fn too_little_to_learn_from_is_an_error_of_the_node_and_not_of_all() {
    struct Odd(Site);
    impl History for Odd {
        fn nodes(&self) -> usize {
            self.0.nodes()
        }

        fn node(&self, index: usize) -> Result<(Frame, Frame, Vec<String>)> {
            let (train, test, notes) = self.0.node(index)?;
            let train = if index == 1 { train.slice(0..10) } else { train };
            Ok((train, test, notes))
        }
    }
    let (outcomes, _) = compare(2, &Odd(Site::new(4, 20)), &|| {});
    for outcome in outcomes {
        assert_eq!(outcome.nodes.len(), 3);
        assert!(
            outcome.failed[0].0 == 1 && outcome.failed[0].1.contains("too few"),
            "{:?}",
            outcome.failed
        );
    }
}
