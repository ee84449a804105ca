//! What a node that has just joined is told by the others.

use synod_core::Frame;
use synod_detect::{History, Keep, NodeModel, Recipe};
use synod_fleet::Together;

use crate::site::{Site, fpr, frames, gathered, three};

#[test]
fn a_node_with_a_day_of_history_is_better_off_with_the_others() {
    let site = Site::new(10, 40);
    let fleet = Together::gather(&Recipe::standard(1), &site, 2, &|| {}).expect("gathered");
    let joining = fleet.newcomers(Keep::Seconds(86_400));
    let [alone, together, _] = three(2, &site, &joining, &|| {});
    assert!(
        fpr(&together) < 0.5 * fpr(&alone),
        "{} {}",
        fpr(&together),
        fpr(&alone)
    );
    assert!(together.mean.metrics.auroc > alone.mean.metrics.auroc);
    let choices = joining.choices();
    assert!(
        choices.len() == 10 && choices.iter().all(|c| c.federated),
        "{choices:?}"
    );
}

#[test]
fn the_order_of_nodes_makes_no_difference() {
    for name in ["default", "pca"] {
        let recipe = Recipe::named(name, 1).expect("a recipe");
        let mut nodes = frames(4);
        let newcomer = nodes.pop().expect("a node");
        let forth = gathered(&nodes, &recipe)
            .welcome(&newcomer, &recipe)
            .expect("a model");
        nodes.reverse();
        let back = gathered(&nodes, &recipe)
            .welcome(&newcomer, &recipe)
            .expect("a model");
        let (a, b) = (forth.score(&newcomer).total, back.score(&newcomer).total);
        for (a, b) in a.iter().zip(&b) {
            assert!((a - b).abs() < 1e-3 * (1.0 + a.abs()), "{name}: {a} {b}");
        }
    }
}

/// A node whose first metric is as said.
fn with_first(frame: &Frame, first: impl Fn(usize) -> f32) -> Frame {
    let (width, metrics) = (frame.width(), frame.metrics().to_vec());
    let mut values = frame.values().to_vec();
    let column = values.iter_mut().step_by(width).enumerate();
    column.for_each(|(row, value)| *value = first(row));
    Frame::new("new", frame.step(), frame.times().to_vec(), metrics, values).expect("a frame")
}

#[test]
fn a_metric_that_stands_still_here_is_watched_as_others_know_it() {
    let recipe = Recipe::standard(1);
    let nodes = frames(4);
    let fleet = gathered(&nodes[..3], &recipe);
    let newcomer = with_first(&nodes[3], |_| 20.0);
    let name = newcomer.metrics()[0].clone();
    let uses = |model: &NodeModel| model.features().names().any(|n| n == name);
    assert!(!uses(&NodeModel::fit(&newcomer, &recipe).expect("a model")));
    assert!(uses(&fleet.welcome(&newcomer, &recipe).expect("a model")));
}

#[test]
fn others_tell_how_long_a_metric_may_rest_until_a_node_knows_for_itself() {
    let recipe = Recipe::standard(1);
    let nodes = frames(4);
    let moving = |row: usize| (row * 37 % 101) as f32;
    let others: Vec<Frame> = nodes[..3]
        .iter()
        .map(|n| with_first(n, |row| moving(row / 30)))
        .collect();
    let fleet = gathered(&others, &recipe);
    let site = Site::new(4, 60);
    let (long, ..) = site.node(3).expect("a node");
    let newcomer = with_first(&long, moving);
    let stuck = with_first(&long, |row| if row < 2000 { moving(row) } else { 5.5 }).slice(1900..2100);
    // After a good week the metric may rest for as long as elsewhere, after four weeks it must not. How much the scores of all
    // windows in which it is stuck rise at least:
    let rise = |days: usize| {
        let model = fleet
            .welcome(&newcomer.slice(0..days * 96), &recipe)
            .expect("a model");
        let own = model.score(&newcomer.slice(1900..2100)).total;
        let scores = model.score(&stuck).total;
        (150..200)
            .map(|row| scores[row] - own[row])
            .fold(f32::INFINITY, f32::min)
    };
    assert!(rise(8) < 1.5, "{}", rise(8));
    assert!(rise(28) > 1.5, "{}", rise(28));
}

#[test]
fn a_node_may_have_metrics_that_no_other_has_and_lack_some() {
    let recipe = Recipe::standard(1);
    let nodes = frames(3);
    let other = &nodes[2];
    let metrics = other.metrics().iter().enumerate();
    let metrics: Vec<String> = metrics
        .map(|(i, m)| if i == 1 { "my own".to_owned() } else { m.clone() })
        .collect();
    let values = other.values().to_vec();
    let renamed = Frame::new("new", other.step(), other.times().to_vec(), metrics, values).expect("a frame");
    let all = [nodes[0].clone(), nodes[1].clone(), renamed.clone()];
    let model = gathered(&all, &recipe)
        .welcome(&renamed, &recipe)
        .expect("a model");
    assert!(model.features().names().any(|n| n == "my own"));
    assert!(model.score(&renamed).total.iter().all(|s| s.is_finite()));
    // In a fleet that has never seen it, it is left out, and said to be.
    let model = gathered(&nodes[..2], &recipe)
        .welcome(&renamed, &recipe)
        .expect("a model");
    let dropped = model.features().dropped();
    assert!(
        dropped
            .iter()
            .any(|d| d.metric == "my own" && d.reason.contains("no node")),
        "{dropped:?}"
    );
}
