//! One network that all nodes train.

use synod_detect::Recipe;
use synod_evaluate::Outcome;
use synod_fleet::{Averaging, Error, ROUNDS};

use crate::site::{Site, backtest};

#[test]
fn a_network_of_all_nodes_takes_the_steps_of_one_and_does_not_depend_on_threads() {
    let site = Site::new(4, 20);
    let mut recipe = Recipe::named("autoencoder", 1).expect("a recipe");
    recipe.set_epochs(30);
    let averaging = Averaging {
        strategy: Default::default(),
        rounds: 5,
    };
    let steps = std::sync::atomic::AtomicUsize::new(0);
    let count = || {
        steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let found = |threads: usize, done: &(dyn Fn() + Sync)| -> [Outcome; 2] {
        let averaged = averaging.gather(&recipe, &site, threads, done).expect("gathered");
        let outcomes = backtest(threads).run(&site, &averaged, done).expect("judged");
        outcomes.try_into().expect("two ways")
    };
    let ([local, one], [_, again]) = (found(1, &count), found(2, &|| {}));
    assert_eq!(steps.into_inner(), (ROUNDS + 1) * 4);
    for ((local, a), b) in local.nodes.iter().zip(&one.nodes).zip(&again.nodes) {
        assert_eq!(a.scores, b.scores);
        assert_ne!(a.scores, local.scores);
        let steps = [a, local].map(|n| n.model.steps() as f64);
        assert!((steps[0] / steps[1] - 1.0).abs() < 0.2, "{steps:?}");
    }
    let auroc = [one, local].map(|o| o.mean.metrics.auroc.expect("labels"));
    assert!(
        auroc[0] > auroc[1] - 0.1,
        "one network of all is about as good as each node's own: {auroc:?}"
    );
}

#[test]
fn what_is_not_one_network_is_not_averaged() {
    let averaging = Averaging {
        strategy: Default::default(),
        rounds: 1,
    };
    let refused = averaging.gather(&Recipe::standard(1), &Site::new(2, 20), 1, &|| {});
    let error = refused.err().expect("refused");
    assert!(
        matches!(error, Error::NotOneNetwork) && error.to_string().contains("single autoencoder"),
        "{error}"
    );
}
