//! A small cluster whose nodes learn alone and together.

use synod_core::Frame;
use synod_detect::{AlarmBudget, History, Learner, Recipe, Result};
use synod_evaluate::{Backtest, Outcome, Split};
use synod_fleet::{Choice, Fleet, Together};
use synod_synthetic::{Cluster, ClusterOptions, ReportedMetrics, Statistics};

/// A small cluster, the first half of its days to learn from.
pub(crate) struct Site(Cluster);

impl Site {
    pub(crate) fn new(nodes: usize, days: usize) -> Site {
        let options = ClusterOptions {
            nodes,
            days,
            seed: 5,
            metrics: ReportedMetrics::Few,
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
        let (train, test) = Split::default().apply(
            &self.0.node_exact(index).map_err(synod_detect::Error::outside)?,
            1,
        )?;
        Ok((train, test, vec![]))
    }
}

pub(crate) fn backtest(threads: usize) -> Backtest {
    Backtest {
        alarm: AlarmBudget::default(),
        threads,
        evidence: false,
    }
}

/// What nodes come to alone, together and as they choose, and how they chose.
pub(crate) fn compare(
    threads: usize,
    history: &dyn History,
    done: &(dyn Fn() + Sync),
) -> ([Outcome; 3], Vec<Choice>) {
    let together = Together::gather(&Recipe::standard(1), history, threads, done).expect("gathered");
    (three(threads, history, &together, done), together.choices())
}

pub(crate) fn three(
    threads: usize,
    history: &dyn History,
    learner: &dyn Learner,
    done: &(dyn Fn() + Sync),
) -> [Outcome; 3] {
    let outcomes = backtest(threads).run(history, learner, done).expect("judged");
    outcomes.try_into().expect("three ways")
}

pub(crate) fn fpr(outcome: &Outcome) -> f64 {
    outcome.mean.metrics.fpr.expect("healthy windows")
}

pub(crate) fn gathered(frames: &[Frame], recipe: &Recipe) -> Fleet {
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

pub(crate) fn frames(count: usize) -> Vec<Frame> {
    let site = Site::new(count, 20);
    (0..count).map(|i| site.node(i).expect("a node").0).collect()
}
