//! The report page as a reader's browser gets it.

use std::collections::BTreeMap;
use synod_core::Truth;
use synod_evaluate::{EventKind, Metrics, Scored, Settings, evaluate, mean};
use synod_insight::report::{
    Alarm, AlarmPeriod, Arm, Cause, DroppedMetric, Example, Heatmap, NodeSeries, Period, Report, page,
};

const ATTACK: &str = "<script>alert('x')</script>\"&\u{202e}";

fn series(node: &str, rows: usize) -> NodeSeries {
    NodeSeries {
        node: node.to_owned(),
        times: (0..rows as i64).map(|i| 1_662_000_000 + i * 900).collect(),
        scores: (0..rows)
            .map(|i| if i % 97 == 0 { 9.0 } else { (i % 13) as f32 / 13.0 })
            .collect(),
        thresholds: vec![2.0],
        labelled: vec![Period {
            start: 1_662_009_000,
            end: 1_662_018_000,
        }],
        alarms: vec![AlarmPeriod {
            start: 1_662_010_800,
            end: 1_662_013_500,
            kind: EventKind::True,
        }],
    }
}

fn arm(names: &[&str]) -> Arm {
    let mut truth = vec![Truth::Healthy; 2880];
    truth[10..20].fill(Truth::Anomalous);
    let mut alarms = vec![false; 2880];
    alarms[12..15].fill(true);
    alarms[100] = true;
    let scored = Scored {
        scores: &alarms.iter().map(|a| f32::from(u8::from(*a))).collect::<Vec<_>>(),
        alarms: &alarms,
        truth: &truth,
        step: 900,
    };
    let evaluation = evaluate(&scored, &Settings::default()).expect("same lengths");
    let nodes: BTreeMap<_, _> = names
        .iter()
        .map(|n| (n.to_string(), evaluation.clone()))
        .collect();
    let metrics: Vec<Metrics> = nodes.values().map(|n| n.metrics).collect();
    Arm {
        arm: "local".to_owned(),
        mean: mean(&metrics),
        nodes,
    }
}

fn report(node: &str, metric: &str) -> Report {
    let series = series(node, 2880);
    Report {
        improvements: vec![],
        name: "night shift".to_owned(),
        created: 1_664_582_400,
        step: 900,
        budget: Some(2.0),
        split: "chronological, first half trains.".to_owned(),
        label_rule: "drained is anomalous.".to_owned(),
        step_budget: "10 epochs.".to_owned(),
        seed: 4711,
        config: "budget = \"2 per node-month\"".to_owned(),
        arms: vec![arm(&[node])],
        alarms: vec![Alarm {
            node: node.to_owned(),
            start: 1_662_010_800,
            end: 1_662_013_500,
            peak_score: 9.0,
            threshold: 2.0,
            p_value: Some(0.001),
            kind: EventKind::True,
            summary: "A fan stopped.".to_owned(),
            causes: vec![Cause {
                metric: metric.to_owned(),
                observed: 0.0,
                expected: 4512.0,
                share: 0.61,
                peers_median: Some(4480.0),
            }],
        }],
        heatmaps: vec![Heatmap {
            node: node.to_owned(),
            unit: "deviations".to_owned(),
            times: series.times.clone(),
            metrics: vec![metric.to_owned(), "other".to_owned()],
            errors: (0..2 * 2880).map(|i| (i % 31) as f32).collect(),
            labelled: series.labelled.clone(),
            alarms: series.alarms.clone(),
        }],
        examples: vec![Example {
            node: node.to_owned(),
            metric: metric.to_owned(),
            times: series.times.clone(),
            observed: series.scores.clone(),
            expected: vec![0.5; 2880],
            labelled: series.labelled.clone(),
            alarms: series.alarms.clone(),
        }],
        dropped: vec![DroppedMetric {
            nodes: "all nodes".to_owned(),
            metric: format!("{metric}_std"),
            reason: "constant in training".to_owned(),
        }],
        notes: vec!["Labels lag by up to an hour.".to_owned()],
        nodes: vec![series],
    }
}

/// The tags in order; panics where markup is not well formed.
fn tags(page: &str) -> Vec<String> {
    const VOID: [&str; 2] = ["meta", "!doctype"];
    let (mut open, mut all) = (Vec::<String>::new(), Vec::new());
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        assert!(
            !rest[..at].contains('>') || open.last().is_some_and(|t| t == "style" || t == "script"),
            "stray >"
        );
        let tail = &rest[at + 1..];
        let end = tail.find('>').expect("every tag ends");
        let tag = &tail[..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of <{tag}>");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/', '\n'])
            .next()
            .unwrap_or_default()
            .to_owned();
        rest = &tail[end + 1..];
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_ref(), Some(&name), "<{tag}> closes something else");
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            if name == "script" || name == "style" {
                rest = &rest[rest.find(&format!("</{name}>")).expect("it closes")..];
            }
            open.push(name.clone());
        }
        all.push(name);
    }
    assert!(open.is_empty(), "left open: {open:?}");
    all
}

#[test]
fn the_page_is_well_formed_and_says_what_matters_first() {
    let page = page(&report("r200c01", "fan1_0_avg"));
    tags(&page);
    let order = [
        "<strong>1 alarm</strong> on 1 of 1 node",
        "budget 2",
        "Labels lag by up to an hour.",
        "A fan stopped.",
        "61 %",
        "Every node over time",
        "error by metric and time",
        "Observed and expected",
        "Results against the labels",
        "drained is anomalous.",
        "constant in training",
        "2 per node-month&quot;",
    ];
    let mut from = 0;
    for text in order {
        let at = page[from..]
            .find(text)
            .unwrap_or_else(|| panic!("{text} is missing or out of order"));
        from += at;
    }
    assert!(page.contains("4711"), "the seed");
}

#[test]
fn names_from_outside_never_become_markup() {
    let page = page(&report(ATTACK, ATTACK));
    assert_eq!(
        tags(&page).iter().filter(|t| *t == "script").count(),
        2,
        "our own script, opened and closed"
    );
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"));
    assert!(!page.contains("<script>alert") && !page.contains('\u{202e}'));
}

#[test]
fn every_text_of_a_report_is_escaped() {
    let mut report = report("n", "m");
    let attack = || ATTACK.to_owned();
    (report.name, report.split, report.label_rule) = (attack(), attack(), attack());
    (report.step_budget, report.config, report.notes) = (attack(), attack(), vec![attack()]);
    report.arms[0].arm = attack();
    report.alarms[0].summary = attack();
    report.heatmaps[0].unit = attack();
    report.dropped[0].reason = attack();
    report.dropped[0].nodes = attack();
    let page = page(&report);
    tags(&page);
    assert!(!page.contains("<script>alert"));
}

#[test]
fn the_page_loads_nothing_from_anywhere() {
    let page = page(&report("r200c01", "fan1_0_avg"));
    for loader in ["http://", "https://", " src=", "@import", "url("] {
        assert!(!page.contains(loader), "{loader}");
    }
}

#[test]
fn an_empty_report_is_a_page_and_broken_series_do_not_panic() {
    tags(&page(&Report::default()));
    let mut broken = report("r200c01", "fan1_0_avg");
    broken.nodes[0].scores = vec![f32::NAN; 3];
    broken.nodes[0].thresholds.clear();
    broken.nodes.push(NodeSeries::default());
    broken.heatmaps[0].errors.truncate(17);
    broken.examples[0].times = vec![i64::MIN, i64::MAX];
    broken.alarms[0].causes[0].share = f64::NAN;
    broken.alarms[0].end = i64::MIN;
    tags(&page(&broken));
}

#[test]
fn what_was_not_labelled_is_not_called_false() {
    let mut report = report("r200c01", "fan1_0_avg");
    report.arms.clear();
    assert!(page(&report).contains("nobody can say how many alarms are false"));
}

#[test]
fn a_cluster_of_seventy_nodes_stays_small() {
    let mut report = report("r200c01", "fan1_0_avg");
    report.nodes = (0..70).map(|i| series(&format!("node{i}"), 24_000)).collect();
    let size = page(&report).len();
    assert!(size < 2_000_000, "{size} bytes");
}

#[test]
fn a_report_survives_json_with_what_is_missing_in_it() {
    let mut report = report("r200c01", "fan1_0_avg");
    report.nodes[0].scores[5..50].fill(f32::NAN);
    report.alarms[0].causes[0].observed = f32::NAN;
    let text = serde_json::to_string(&report).expect("serialises");
    let read: Report = serde_json::from_str(&text).expect("reads");
    assert!(page(&read) == page(&report), "another page after a round trip");
    assert!(page(&read).contains("<td class=\"n\">missing</td>"));
}
