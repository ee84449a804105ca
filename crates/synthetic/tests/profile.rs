//! The synthetic cluster beside what was measured on real nodes.
//!
//! Figures are from six nodes of Marconi100 in September 2022 (M100 ExaData, CC BY 4.0): mean and standard deviation of
//! window means while busy and while idle, lag-1 autocorrelation, and the spread of nodes' busy means over the spread of
//! windows within a node. NaN stands where the real figure is that of one odd node of the six (one was switched off while
//! idle, one was hardly used and then by other kinds of jobs) or of a handful of bursts.

use synod_synthetic::{Cluster, ClusterOptions, STEP, Statistics};

struct Measured {
    metric: &'static str,
    busy: (f64, f64),
    idle: f64,
    lag1: f64,
    between: f64,
}

const fn m(metric: &'static str, mean: f64, sd: f64, idle: f64, lag1: f64, between: f64) -> Measured {
    Measured {
        metric,
        busy: (mean, sd),
        idle,
        lag1,
        between,
    }
}

const NAN: f64 = f64::NAN;
const MEASURED: [Measured; 36] = [
    m("ambient", 23.33, 2.45, 23.85, 0.970, 1.35),
    m("pcie", 44.64, 4.09, 38.86, 0.961, 0.62),
    m("total_power", 788.6, 188.1, 424.2, 0.940, 0.395),
    m("p0_power", 73.77, 38.85, 26.93, 0.972, 0.459),
    m("p1_power", 69.72, 39.55, 31.12, 0.973, 0.261),
    m("p0_mem_power", 20.74, 3.88, 18.07, 0.931, 0.343),
    m("p0_io_power", 58.70, 3.55, 53.39, 0.967, 1.479),
    m("ps0_input_power", 455.0, 102.0, 243.3, 0.948, 0.388),
    m("ps0_input_voltag", 227.68, 1.19, 227.21, 0.834, 0.512),
    m("ps0_output_curre", 32.63, 7.86, 15.48, 0.946, 0.426),
    m("ps0_output_volta", 12.240, NAN, NAN, NAN, 0.545),
    m("fan0_0", 4506.3, 624.7, NAN, 0.926, 0.781),
    m("fan0_1", 4724.0, 588.8, NAN, 0.892, 0.966),
    m("fan_disk_power", 35.39, 10.20, 31.87, 0.888, 0.637),
    m("gpu0_core_temp", 50.66, 9.11, 36.99, 0.954, 0.459),
    m("gpu0_mem_temp", 49.54, 10.61, 34.54, 0.968, 0.408),
    m("dimm0_temp", 31.93, 2.51, 30.58, 0.966, 1.269),
    m("dimm15_temp", 33.42, 2.03, 33.29, 0.965, 0.672),
    m("p0_vdd_temp", 37.81, 4.70, NAN, 0.978, 0.547),
    m("p0_core8_temp", 49.50, 8.27, 39.50, 0.965, 0.360),
    m("cpu_user", 12.13, 16.13, 0.362, 0.943, 0.175),
    m("cpu_system", 1.182, 2.370, 0.039, 0.938, 0.201),
    m("cpu_idle", 86.68, 16.69, 99.55, 0.943, 0.181),
    m("load_one", 27.18, 82.10, 0.632, 0.923, NAN),
    m("load_fifteen", 26.82, 81.28, 0.928, 0.977, NAN),
    m("mem_free", 2.637e8, 4.0e7, 3.066e8, 0.951, 0.148),
    m("mem_cached", 6.99e6, 5.71e6, 3.32e6, 0.958, 0.238),
    m("bytes_in", 3.88e4, 2.306e5, 1.40e4, 0.705, NAN),
    m("bytes_out", 6.40e4, 3.202e5, 2.95e4, NAN, NAN),
    m("pkts_in", 119.2, 365.9, 71.1, NAN, NAN),
    m("proc_run", 26.89, 84.12, 0.667, 0.882, NAN),
    m("proc_total", 2191.8, 272.8, 1981.9, 0.989, 0.595),
    m("Gpu0_gpu_utilization", 47.10, 33.18, 1.461, 0.933, 0.155),
    m("Gpu0_power_usage", 125.5, 61.67, 44.79, 0.929, 0.316),
    m("Gpu0_sm_clock", 1365.4, 292.5, 386.2, 0.904, NAN),
    m("Gpu0_fb_used", 4978.0, 4567.5, 185.9, 0.946, NAN),
];

/// One node's values of one metric, NaN where there are none, and whether a job ran.
struct Series {
    values: Vec<f64>,
    busy: Vec<bool>,
}

fn mean_sd(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut n, mut sum, mut square) = (0.0, 0.0, 0.0);
    values.filter(|v| !v.is_nan()).for_each(|v| {
        n += 1.0;
        sum += v;
        square += v * v;
    });
    let mean = sum / n;
    (mean, (square / n - mean * mean).max(0.0).sqrt())
}

impl Series {
    fn of(&self, busy: bool) -> impl Iterator<Item = f64> {
        let state = self.busy.iter();
        self.values
            .iter()
            .zip(state)
            .filter(move |(_, b)| **b == busy)
            .map(|(v, _)| *v)
    }

    fn lag1(&self) -> f64 {
        let (mean, sd) = mean_sd(self.values.iter().copied());
        let products: Vec<f64> = self
            .values
            .windows(2)
            .map(|w| (w[0] - mean) * (w[1] - mean))
            .collect();
        mean_sd(products.into_iter()).0 / (sd * sd)
    }
}

/// Every metric of every node, on the full grid of windows.
fn cluster() -> (Vec<String>, Vec<Vec<Series>>) {
    let options = ClusterOptions {
        nodes: 40,
        days: 28,
        seed: 11,
        anomalies: 0.0,
        statistics: Statistics::Average,
        ..ClusterOptions::default()
    };
    let (windows, start) = (options.days * 96, options.start);
    let cluster = Cluster::new(options).expect("a cluster");
    let names: Vec<String> = MEASURED.iter().map(|m| m.metric.to_owned()).collect();
    let node = |i: usize| {
        let (frame, busy) = (cluster.node(i).expect("a node"), cluster.busy(i).expect("a node"));
        let series = |name: &String| {
            let column = frame.metrics().iter().position(|c| *c == format!("{name}_avg"))?;
            let mut values = vec![f64::NAN; windows];
            for (row, time) in frame.times().iter().enumerate() {
                values[((time - start) / STEP) as usize] = f64::from(frame.row(row)[column]);
            }
            Some(Series {
                values,
                busy: busy.clone(),
            })
        };
        names.iter().map(series).collect::<Vec<_>>()
    };
    let mut metrics: Vec<Vec<Series>> = names.iter().map(|_| Vec::new()).collect();
    for i in 0..40 {
        for (all, one) in metrics.iter_mut().zip(node(i)) {
            all.extend(one);
        }
    }
    (names, metrics)
}

/// Spread of the nodes' busy means over the spread within a node.
fn between(nodes: &[Series]) -> f64 {
    let each: Vec<(f64, f64)> = nodes.iter().map(|n| mean_sd(n.of(true))).collect();
    mean_sd(each.iter().map(|e| e.0)).1 / mean_sd(each.iter().map(|e| e.1)).0
}

/// Tolerances: means within a tenth or half a deviation; deviations, and spreads between nodes, within a factor 1.5;
/// autocorrelation within 0.05. A real figure is that of six nodes, so it is not known better than this.
#[test]
fn means_deviations_autocorrelation_and_spread_are_those_of_real_nodes() {
    let (names, series) = cluster();
    let mut wrong = Vec::new();
    eprintln!(
        "{:24} {:>22} {:>22} {:>16} {:>14} {:>14}",
        "metric", "busy", "sd", "idle", "lag 1", "between"
    );
    for ((measured, name), nodes) in MEASURED.iter().zip(&names).zip(&series) {
        assert!(nodes.len() >= 20, "{name} is on {} nodes", nodes.len());
        let (mean, sd) = mean_sd(nodes.iter().flat_map(|n| n.of(true)));
        let idle = mean_sd(nodes.iter().flat_map(|n| n.of(false))).0;
        let lag1 = mean_sd(nodes.iter().map(Series::lag1)).0;
        let (real_mean, real_sd) = measured.busy;
        let spread = between(nodes);
        eprintln!(
            "{name:24} {mean:11.4} {real_mean:11.4} {sd:11.4} {real_sd:11.4} {idle:8.2} {:8.2} {lag1:7.3} {:7.3} {spread:7.3} {:7.3}",
            measured.idle, measured.lag1, measured.between
        );
        let near = |a: f64, b: f64| (a - b).abs() <= (0.1 * b.abs()).max(0.5 * real_sd);
        let ratio = |a: f64, b: f64| b.is_nan() || (a / b < 1.5 && b / a < 1.5);
        let mut check = |ok: bool, what: &str| {
            if !ok {
                wrong.push(format!("{name}: {what}"));
            }
        };
        check(near(mean, real_mean), "busy mean");
        check(ratio(sd, real_sd), "busy deviation");
        check(measured.idle.is_nan() || near(idle, measured.idle), "idle mean");
        check(
            measured.lag1.is_nan() || (lag1 - measured.lag1).abs() <= 0.05,
            "autocorrelation",
        );
        check(ratio(spread, measured.between), "between nodes");
    }
    assert!(
        wrong.is_empty(),
        "{} differ from the real nodes: {wrong:#?}",
        wrong.len()
    );
}
