//! Writes a report of an invented cluster, to look at the page's design. Usage: report_page OUT.html [NODES]
#![allow(clippy::print_stdout, reason = "it says where the page is")]

use std::collections::BTreeMap;
use synod_core::Truth;
use synod_evaluate::{
    Bootstrap, EventKind, Metrics, Scored, Settings, evaluate, events, intervals_over_nodes, mean,
    true_segments,
};
use synod_insight::report::{
    Alarm, AlarmPeriod, Arm, Cause, DroppedMetric, Example, Heatmap, NodeSeries, Period, Report, page,
};

const STEP: i64 = 900;
const START: i64 = 1_661_990_400;
const ROWS: usize = 2880;

struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f32) as usize
    }
}

struct Node {
    name: String,
    scores: Vec<f32>,
    alarms: Vec<bool>,
    truth: Vec<Truth>,
}

fn node(index: usize, lift: f32, dice: &mut Dice) -> Node {
    let mut truth = vec![Truth::Healthy; ROWS];
    let mut scores = Vec::with_capacity(ROWS);
    let mut level = 0.8;
    for i in 0..ROWS {
        level = 0.95 * level + 0.05 * (0.7 + 0.6 * dice.unit() + 0.2 * (i as f32 / 15.3).sin());
        scores.push(level * (0.8 + 0.5 * dice.unit()));
    }
    let faults = if index.is_multiple_of(4) {
        1 + dice.below(3)
    } else {
        0
    };
    for _ in 0..faults {
        let (start, length) = (dice.below(ROWS - 400), 12 + dice.below(180));
        let strength = lift * (1.0 + 14.0 * dice.unit() * dice.unit());
        for i in start..start + length {
            truth[i] = Truth::Anomalous;
            let age = (i - start) as f32 / length as f32;
            scores[i] *= 1.0 + strength * (age * 6.0).min(1.0) * (0.5 + dice.unit());
        }
    }
    if index % 9 == 2 {
        let at = dice.below(ROWS - 10);
        scores[at..at + 5].iter_mut().for_each(|s| *s *= 2.6);
    }
    if index % 7 == 3 {
        scores[900..1080].fill(f32::NAN);
        truth[900..1080].fill(Truth::Unknown);
    }
    let hot: Vec<bool> = scores.iter().map(|s| *s > 2.0).collect();
    let alarms = (0..ROWS)
        .map(|i| i >= 2 && hot[i] && hot[i - 1] && hot[i - 2])
        .collect();
    Node {
        name: format!("r{:03}c{:02}", 200 + index / 20, index % 20 + 1),
        scores,
        alarms,
        truth,
    }
}

fn times() -> Vec<i64> {
    (0..ROWS as i64).map(|i| START + i * STEP).collect()
}

fn at(row: usize) -> i64 {
    START + row as i64 * STEP
}

fn labelled(node: &Node) -> Vec<Period> {
    let period = |r: std::ops::Range<usize>| Period {
        start: at(r.start),
        end: at(r.end),
    };
    true_segments(&node.truth).into_iter().map(period).collect()
}

fn alarm_periods(node: &Node) -> Vec<AlarmPeriod> {
    let found = events(&node.alarms, &node.truth, 4, 24).alarms;
    let period = |e: synod_evaluate::Event| AlarmPeriod {
        start: at(e.span.start),
        end: at(e.span.end),
        kind: e.kind,
    };
    found.into_iter().map(period).collect()
}

fn arm(name: &str, nodes: &[Node]) -> Arm {
    let settings = Settings {
        merge: 4,
        ..Settings::default()
    };
    let mut evaluations = BTreeMap::new();
    for node in nodes {
        let scored = Scored {
            scores: &node.scores,
            alarms: &node.alarms,
            truth: &node.truth,
            step: STEP,
        };
        if let Ok(evaluation) = evaluate(&scored, &settings) {
            evaluations.insert(node.name.clone(), evaluation);
        }
    }
    let metrics: Vec<Metrics> = evaluations.values().map(|e| e.metrics).collect();
    let mut mean = mean(&metrics);
    mean.intervals = intervals_over_nodes(&metrics, &Bootstrap::default());
    Arm {
        arm: name.to_owned(),
        mean,
        nodes: evaluations,
    }
}

fn alarm(node: &Node, period: AlarmPeriod, fan: bool) -> Alarm {
    let rows = ((period.start - START) / STEP) as usize..((period.end - START) / STEP) as usize;
    let peak = node.scores[rows].iter().copied().fold(0.0, f32::max);
    let cause = |metric: &str, observed, expected, share, peers| Cause {
        metric: metric.to_owned(),
        observed,
        expected,
        share,
        peers_median: peers,
    };
    let causes = if fan {
        vec![
            cause("fan1_0_avg", 0.0, 4512.0, 0.61, Some(4480.0)),
            cause("fan0_0_avg", 6230.0, 4493.0, 0.17, Some(4471.0)),
            cause("p0_core8_temp_max", 78.4, 51.2, 0.12, Some(50.5)),
            cause("total_power_std", 92.5, 41.0, 0.04, None),
        ]
    } else {
        vec![
            cause("Gpu2_gpu_utilization_avg", 0.0, 47.1, 0.48, Some(51.3)),
            cause("Gpu2_sm_clock_min", 135.0, 1312.0, 0.31, Some(1530.0)),
            cause("bytes_out_avg", 12_345_678.0, 39_211.4, 0.08, Some(41_802.0)),
        ]
    };
    let summary = if fan {
        "One fan of the second pair stopped; the others run faster and the first processor is hotter than its load explains."
    } else {
        "GPU 2 does no work and its clock is at the lowest step, while the node's other GPUs are busy."
    };
    Alarm {
        node: node.name.clone(),
        start: period.start,
        end: period.end,
        peak_score: peak,
        threshold: 2.0,
        p_value: Some(0.0004),
        kind: period.kind,
        summary: summary.to_owned(),
        causes,
    }
}

fn heatmap(node: &Node, dice: &mut Dice) -> Heatmap {
    let metrics: Vec<String> = (0..32)
        .map(|i| {
            let families = [
                "fan{}_0_avg",
                "p0_core{}_temp_max",
                "dimm{}_temp_avg",
                "Gpu{}_power_usage_std",
            ];
            families[i % 4].replace("{}", &(i / 4).to_string())
        })
        .collect();
    let mut errors = Vec::with_capacity(metrics.len() * ROWS);
    for i in 0..metrics.len() {
        let weight = 3.0 / (1.0 + i as f32);
        for (score, truth) in node.scores.iter().zip(&node.truth) {
            let strange = if *truth == Truth::Anomalous {
                weight * score
            } else {
                0.0
            };
            errors.push(0.6 * dice.unit() * dice.unit() + strange + score * 0.0);
        }
    }
    Heatmap {
        node: node.name.clone(),
        unit: "robust standard deviations of the training data".to_owned(),
        times: times(),
        metrics,
        errors,
        labelled: labelled(node),
        alarms: alarm_periods(node),
    }
}

fn example(node: &Node, metric: &str, base: f32, fault: f32, dice: &mut Dice) -> Example {
    let mut load = 0.5;
    let (mut observed, mut expected) = (Vec::new(), Vec::new());
    for (truth, score) in node.truth.iter().zip(&node.scores) {
        load = (0.97 * load + 0.03 * (dice.unit() * 2.0 - 0.5)).clamp(0.0, 1.0);
        let fit = base * (0.8 + 0.4 * load);
        expected.push(fit);
        let real = if *truth == Truth::Anomalous {
            fault
        } else {
            fit * (0.97 + 0.06 * dice.unit())
        };
        observed.push(if score.is_nan() { f32::NAN } else { real });
    }
    Example {
        node: node.name.clone(),
        metric: metric.to_owned(),
        times: times(),
        observed,
        expected,
        labelled: labelled(node),
        alarms: alarm_periods(node),
    }
}

fn report(count: usize) -> Report {
    let mut dice = Dice(42);
    let nodes: Vec<Node> = (0..count).map(|i| node(i, 3.0, &mut dice)).collect();
    let weaker: Vec<Node> = (0..count).map(|i| node(i, 1.1, &mut dice)).collect();
    let series = |node: &Node| NodeSeries {
        node: node.name.clone(),
        times: times(),
        scores: node.scores.clone(),
        thresholds: vec![2.0],
        labelled: labelled(node),
        alarms: alarm_periods(node),
    };
    let mut alarms: Vec<Alarm> = nodes
        .iter()
        .flat_map(|n| {
            alarm_periods(n)
                .into_iter()
                .map(move |p| alarm(n, p, p.start % 1800 == 0))
        })
        .collect();
    alarms.sort_by(|a, b| b.peak_score.total_cmp(&a.peak_score));
    alarms.truncate(7);
    if let Some(last) = alarms.last_mut() {
        last.kind = EventKind::False;
    }
    Report {
        improvements: vec![],
        name: "M100 nodes, September".to_owned(),
        created: 1_664_582_400,
        step: STEP,
        budget: Some(2.0),
        split: "chronological: first half trains, second half is scored; the last fifth of the first half calibrates.".to_owned(),
        label_rule: "a window is anomalous while nagios.nagiosdrained is above zero.".to_owned(),
        step_budget: "10 epochs of 198 steps, batch 64, for every arm.".to_owned(),
        seed: 7,
        config: "name = \"m100\"\nseed = 7\n[alarm]\nbudget = \"2 per node-month\"\n".to_owned(),
        arms: vec![arm("local", &nodes), arm("pca", &weaker)],
        nodes: nodes.iter().map(series).collect(),
        heatmaps: vec![heatmap(&nodes[0], &mut dice)],
        examples: vec![
            example(&nodes[0], "fan1_0_avg", 4500.0, 0.0, &mut dice),
            example(&nodes[0], "p0_core8_temp_max", 50.0, 79.0, &mut dice),
        ],
        alarms,
        dropped: vec![
            DroppedMetric {
                nodes: "all nodes".to_owned(),
                metric: "ps1_input_voltag_std".to_owned(),
                reason: "constant in the training data".to_owned(),
            },
            DroppedMetric {
                nodes: "r200c04".to_owned(),
                metric: "Gpu3_fb_used_avg".to_owned(),
                reason: "missing in 97 % of the training windows".to_owned(),
            },
        ],
        notes: vec![
            "Drained nodes stand idle, so part of what is labelled anomalous looks like an idle node.".to_owned(),
            "52 of 70 nodes have no labelled anomaly; figures that need one are means over the other 18.".to_owned(),
        ],
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: report_page OUT.html [NODES]")?;
    let nodes = arguments.next().map_or(Ok(70), |n| n.parse())?;
    let page = page(&report(std::cmp::max(nodes, 1)));
    std::fs::write(&path, &page)?;
    println!("{path}: {} bytes", page.len());
    Ok(())
}
