//! Nodes that learn together: what each gains, and what none loses.

use synod_detect::features::View;
use synod_detect::federated::{Averaging, Choice, Fleet, ROUNDS, Recent, Together};
use synod_detect::{
    AlarmBudget, Backtest, Error, History, Keep, Learner, NodeModel, NodeResult, Outcome, Recipe, Result,
    Split,
};
use synod_telemetry::synthetic::{Cluster, ClusterOptions, Metrics, Statistics};
use synod_telemetry::{Frame, Truth};

/// A small cluster, the first half of its days to learn from.
struct Site(Cluster);

impl Site {
    fn new(nodes: usize, days: usize) -> Site {
        let options = ClusterOptions {
            nodes,
            days,
            seed: 5,
            metrics: Metrics::Few,
            statistics: Statistics::Average,
            ..ClusterOptions::default()
        };
        Site(Cluster::new(options).expect("a cluster"))
    }
}

impl History for Site {
    fn nodes(&self) -> usize {
        self.0.options().nodes
    }

    fn node(&self, index: usize) -> Result<(Frame, Frame, Vec<String>)> {
        let (train, test) = Split::default().apply(&self.0.node_exact(index)?, 1)?;
        Ok((train, test, vec![]))
    }
}

fn backtest(threads: usize) -> Backtest {
    Backtest {
        alarm: AlarmBudget::default(),
        threads,
        evidence: false,
    }
}

/// What nodes come to alone, together and as they choose, and how they chose.
fn compare(threads: usize, history: &dyn History, done: &(dyn Fn() + Sync)) -> ([Outcome; 3], Vec<Choice>) {
    let together = Together::gather(&Recipe::standard(1), history, threads, done).expect("gathered");
    (three(threads, history, &together, done), together.choices())
}

fn three(
    threads: usize,
    history: &dyn History,
    learner: &dyn Learner,
    done: &(dyn Fn() + Sync),
) -> [Outcome; 3] {
    let outcomes = backtest(threads).run(history, learner, done).expect("judged");
    outcomes.try_into().expect("three ways")
}

fn fpr(outcome: &Outcome) -> f64 {
    outcome.mean.metrics.fpr.expect("healthy windows")
}

fn gathered(frames: &[Frame], recipe: &Recipe) -> Fleet {
    let mut fleet = Fleet::default();
    for frame in frames {
        fleet.add_scales(&Fleet::introduce(frame, recipe).expect("scales"));
    }
    let shapes: Vec<_> = frames
        .iter()
        .map(|f| fleet.describe(f, recipe).expect("a shape"))
        .collect();
    shapes.iter().for_each(|shape| fleet.add_shape(shape));
    fleet
}

fn frames(count: usize) -> Vec<Frame> {
    let site = Site::new(count, 20);
    (0..count).map(|i| site.node(i).expect("a node").0).collect()
}

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
    for i in 0..6 {
        assert_eq!(choices[i].node, chosen.nodes[i].node);
        assert_eq!(chosen.nodes[i].scores, alone.nodes[i].scores);
    }
    assert_ne!(alone.nodes[1].scores, together.nodes[1].scores);
    let ([_, together, chosen], choices) = compare(2, &Site::new(6, 20), &|| {});
    assert!(choices.iter().all(|c| c.federated), "{choices:?}");
    for (chosen, together) in chosen.nodes.iter().zip(&together.nodes) {
        assert_eq!(chosen.scores, together.scores);
    }
}

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

/// Rows that count as one each, and rows of others that count less.
struct Weighed(Vec<(f64, Vec<f64>)>);

impl Weighed {
    fn add(&mut self, weight: f64, rows: impl Iterator<Item = Vec<f64>>) {
        self.0.extend(rows.map(|row| (weight, row)));
    }

    fn mean(&self) -> Vec<f64> {
        let all: f64 = self.0.iter().map(|(weight, _)| weight).sum();
        let column = |i: usize| self.0.iter().map(|(weight, row)| weight * row[i]).sum::<f64>();
        (0..self.0[0].1.len()).map(|i| column(i) / all).collect()
    }

    /// How the rows vary in a direction together with each column.
    fn along(&self, direction: &[f64]) -> Vec<f64> {
        let (mean, mut sums, mut all) = (self.mean(), vec![0.0; direction.len()], 0.0);
        for (weight, row) in &self.0 {
            let away: Vec<f64> = row.iter().zip(&mean).map(|(x, m)| x - m).collect();
            let length = product(&away, direction);
            sums.iter_mut()
                .zip(&away)
                .for_each(|(s, a)| *s += weight * length * a);
            all += weight;
        }
        sums.iter().map(|sum| sum / all).collect()
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The healthy training windows of a node as its detector sees them.
fn rows_of(node: &NodeResult, frame: &Frame) -> Vec<Vec<f64>> {
    let features = node.model.features();
    let rows = features.view(&features.prepare(frame), View::Values);
    let healthy = rows
        .iter()
        .zip(frame.truth())
        .filter(|(_, truth)| **truth != Truth::Anomalous);
    healthy
        .map(|(row, _)| row.iter().map(|x| f64::from(*x)).collect())
        .collect()
}

/// The mean of a fitted plane, and its directions.
fn plane(node: &NodeResult) -> (Vec<f64>, Vec<Vec<f64>>) {
    let stored = serde_json::to_value(&node.model).expect("a document");
    let list = |name: &str| -> Vec<f64> {
        let list = stored["members"][0]["fitted"]["pca"][name]
            .as_array()
            .expect("a plane");
        list.iter().map(|x| x.as_f64().expect("a number")).collect()
    };
    let (mean, plane) = (list("mean"), list("plane"));
    let directions = plane.chunks_exact(mean.len()).map(<[f64]>::to_vec).collect();
    (mean, directions)
}

/// How far directions are from principal axes of rows, as a share of the first variance; and the variance along each.
fn astray(rows: &Weighed, directions: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let images: Vec<Vec<f64>> = directions.iter().map(|d| rows.along(d)).collect();
    let variances: Vec<f64> = images
        .iter()
        .zip(directions)
        .map(|(i, d)| product(i, d))
        .collect();
    let off = images
        .iter()
        .zip(directions)
        .zip(&variances)
        .map(|((image, direction), variance)| {
            let parts = image
                .iter()
                .zip(direction)
                .map(|(i, d)| (i - variance * d).powi(2));
            parts.sum::<f64>().sqrt()
        });
    (off.fold(0.0, f64::max) / variances[0], variances)
}

#[test]
fn a_plane_is_fitted_to_the_nodes_own_windows_and_to_those_of_the_others_at_a_quarter_of_a_node() {
    let (site, recipe) = (Site::new(4, 20), Recipe::named("pca", 1).expect("a recipe"));
    let fleet = Together::gather(&recipe, &site, 2, &|| {}).expect("gathered");
    let [_, together, _] = three(2, &site, &fleet, &|| {});
    let found = together.nodes;
    let names = |node: usize| found[node].model.features().names();
    assert!((1..4).all(|node| names(node).eq(names(0))));
    let rows: Vec<_> = found
        .iter()
        .zip(frames(4))
        .map(|(node, frame)| rows_of(node, &frame))
        .collect();
    for (i, node) in found.iter().enumerate() {
        let mut all = Weighed(vec![]);
        all.add(1.0, rows[i].iter().cloned());
        let own = Weighed(all.0.clone());
        for (_, other) in rows.iter().enumerate().filter(|(j, _)| *j != i) {
            let mut one = Weighed(vec![]);
            one.add(1.0, other.iter().cloned());
            let mean = one.mean();
            let centred = |row: &Vec<f64>| row.iter().zip(&mean).map(|(x, m)| x - m).collect();
            all.add(0.25 / 3.0, other.iter().map(centred));
        }
        let (mean, directions) = plane(node);
        // Means are rounded once; products are summed in single precision and directions found in it: dozens of roundings
        // of 6e-8.
        let off = mean
            .iter()
            .zip(all.mean())
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        assert!(off < 1e-6, "{off}");
        let (off, variances) = astray(&all, &directions);
        assert!(off < 1e-5, "{off}");
        let alone = astray(&own, &directions).0;
        assert!(alone > 1e-3, "the others are not in it: {alone}");
        assert!(variances.is_sorted_by(|a, b| a >= b), "{variances:?}");
        let unit = |i: usize| {
            (0..mean.len())
                .map(|j| f64::from(u8::from(i == j)))
                .collect::<Vec<_>>()
        };
        let whole: f64 = (0..mean.len()).map(|i| all.along(&unit(i))[i]).sum();
        let share = |count: usize| variances[..count].iter().sum::<f64>() / whole;
        let count = variances.len();
        assert!(
            share(count) >= 0.9 - 1e-5 && share(count - 1) < 0.9,
            "{variances:?} of {whole}"
        );
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

#[test]
fn networks_are_not_fitted_from_sums_and_say_so() {
    let recipe = Recipe::named("autoencoder", 1).expect("a recipe");
    let site = Site::new(2, 20);
    let refused = Together::gather(&recipe, &site, 1, &|| {});
    let error = refused.err().expect("refused");
    assert!(
        matches!(&error, Error::Setting(text) if text.contains("sums")),
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
        matches!(&error, Error::Setting(text) if text.contains("single autoencoder")),
        "{error}"
    );
}
