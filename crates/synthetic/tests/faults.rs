//! Every kind of fault of the synthetic cluster shows where it should.

use synod_synthetic::{Cluster, ClusterOptions, Fault, FaultKind, STEP};
use synod_telemetry::Frame;

/// The values of one column between two times, without NaN, and how many windows there were.
fn between(frame: &Frame, column: &str, from: i64, to: i64) -> (Vec<f32>, usize) {
    let at = frame
        .metrics()
        .iter()
        .position(|m| m == column)
        .expect("a column");
    let rows = frame
        .times()
        .iter()
        .enumerate()
        .filter(|(_, t)| (from..to).contains(t));
    let all: Vec<f32> = rows.map(|(row, _)| frame.row(row)[at]).collect();
    (all.iter().copied().filter(|v| !v.is_nan()).collect(), all.len())
}

fn mean(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len() as f32
}

/// The first long enough fault of a kind in a cluster, with its node's frame.
fn fault(kind: FaultKind) -> (Frame, Fault) {
    let cluster = Cluster::new(ClusterOptions {
        nodes: 24,
        days: 60,
        seed: 7,
        ..ClusterOptions::default()
    })
    .expect("a cluster");
    for node in 0..24 {
        let faults = cluster.faults(node).expect("a node");
        let long = |f: &&Fault| {
            f.kind == kind && f.to - f.from >= if kind == FaultKind::Reboot { 2 } else { 12 } * STEP
        };
        if let Some(fault) = faults.iter().find(long) {
            return (cluster.node(node).expect("a node"), fault.clone());
        }
    }
    panic!("no {} in 24 nodes", kind.name());
}

/// A metric's means in the last half of a fault and in the two days before it.
fn during_and_before(frame: &Frame, fault: &Fault, column: &str) -> (f32, f32) {
    let (during, _) = between(frame, column, (fault.from + fault.to) / 2, fault.to);
    let (before, _) = between(frame, column, fault.from - 192 * STEP, fault.from);
    (mean(&during), mean(&before))
}

#[test]
fn a_dead_fan_stands_and_the_others_speed_up() {
    let (frame, fault) = fault(FaultKind::Fan);
    let speeds = (0..4).map(|i| during_and_before(&frame, &fault, &format!("fan{i}_0_avg")));
    let ratio: Vec<f32> = speeds.map(|(during, before)| during / before).collect();
    assert_eq!(ratio.iter().filter(|r| **r < 0.05).count(), 1, "{ratio:?}");
    assert_eq!(ratio.iter().filter(|r| **r > 1.02).count(), 3, "{ratio:?}");
}

#[test]
fn a_dead_supply_gives_nothing_and_the_other_carries_all() {
    let (frame, fault) = fault(FaultKind::PowerSupply);
    let current = |s| during_and_before(&frame, &fault, &format!("ps{s}_output_curre_avg"));
    let (dead, alive) = if current(0).0 == 0.0 { (0, 1) } else { (1, 0) };
    assert_eq!(current(dead).0, 0.0);
    assert_eq!(
        during_and_before(&frame, &fault, &format!("ps{dead}_output_volta_avg")).0,
        0.0
    );
    let (from, to) = (fault.from, fault.to);
    let (power, _) = between(&frame, &format!("ps{alive}_input_power_avg"), from + STEP, to);
    let (total, _) = between(&frame, "total_power_avg", from + STEP, to);
    assert!(mean(&power) > 0.95 * mean(&total), "one supply carries the node");
}

#[test]
fn a_lost_gpu_is_silent_and_its_clock_stands() {
    let (frame, fault) = fault(FaultKind::GpuLoss);
    let silent: Vec<&String> = fault
        .metrics
        .iter()
        .filter(|m| !m.ends_with("sm_clock"))
        .collect();
    assert_eq!(silent.len(), 5);
    for metric in silent {
        assert!(
            between(&frame, &format!("{metric}_avg"), fault.from, fault.to)
                .0
                .is_empty(),
            "{metric}"
        );
    }
    let clock = fault
        .metrics
        .iter()
        .find(|m| m.ends_with("sm_clock"))
        .expect("a clock");
    let (clocks, _) = between(&frame, &format!("{clock}_avg"), fault.from + STEP, fault.to);
    assert!(
        !clocks.is_empty() && clocks.iter().all(|c| (c - 135.0).abs() < 2.0),
        "{clocks:?}"
    );
}

#[test]
fn a_stuck_governor_takes_power_away_from_load_or_gives_it_without() {
    let (frame, fault) = fault(FaultKind::Governor);
    let (power, _) = between(&frame, "p0_power_avg", fault.from + STEP, fault.to);
    let greatest = power.iter().copied().fold(0.0, f32::max);
    let least = power.iter().copied().fold(f32::MAX, f32::min);
    assert!(greatest < 65.0 || least > 60.0, "{least} to {greatest}");
}

#[test]
fn a_leak_eats_the_free_memory() {
    let (frame, fault) = fault(FaultKind::MemoryLeak);
    let (free, _) = between(&frame, "mem_free_avg", fault.from, fault.to);
    assert!(free.last() < free.first());
    assert!(free[free.len() - 1] < 0.25 * 3.0e8, "{free:?}");
}

#[test]
fn throttling_is_hot_and_slow() {
    let (frame, fault) = fault(FaultKind::Throttling);
    let (fan, before) = during_and_before(&frame, &fault, "fan0_0_avg");
    assert!(fan > before + 1000.0, "{fan} {before}");
    let end = (fault.from + fault.to) / 2;
    let (clock, _) = between(&frame, "Gpu0_sm_clock_max", end, fault.to);
    assert!(clock.iter().all(|c| *c < 800.0), "{clock:?}");
}

#[test]
fn a_node_without_network_still_has_its_board() {
    let (frame, fault) = fault(FaultKind::NetworkDown);
    let (load, windows) = between(&frame, "load_one_avg", fault.from, fault.to);
    let (power, _) = between(&frame, "total_power_avg", fault.from, fault.to);
    assert!(windows >= 8 && load.is_empty());
    assert!(power.len() * 10 >= windows * 9, "{} of {windows}", power.len());
}

#[test]
fn a_stuck_sensor_repeats_itself() {
    let (frame, fault) = fault(FaultKind::StuckSensor);
    assert_eq!(fault.metrics.len(), 1);
    let metric = &fault.metrics[0];
    let (values, _) = between(&frame, &format!("{metric}_avg"), fault.from, fault.to);
    let (deviations, _) = between(&frame, &format!("{metric}_std"), fault.from, fault.to);
    assert!(values.len() > 5 && values.iter().all(|v| *v == values[0]));
    assert!(deviations.iter().all(|d| *d == 0.0));
}

#[test]
fn a_reboot_silences_the_system_and_ends_its_jobs() {
    let (frame, fault) = fault(FaultKind::Reboot);
    let (load, _) = between(&frame, "load_one_avg", fault.from, fault.from + STEP);
    assert!(load.is_empty());
    let (after, _) = between(
        &frame,
        "Gpu0_gpu_utilization_avg",
        fault.from + 2 * STEP,
        fault.returned,
    );
    assert!(after.iter().all(|u| *u < 1.0), "{after:?}");
}
