//! A window's readings and their statistics.
//!
//! Every reading is simulated: the course of the metric through the window, which steps or bends where a job began, plus
//! noise, rounded to the sensor's step. Mean, deviation, least and greatest are then those of the readings, so they agree
//! with each other as they do in real windows. Noise comes from a table at a random place, which makes a reading cost
//! about a nanosecond.

use super::catalogue::{Metric, Response};
use super::jobs::TICKS;
use super::random::{Rng, Stream, exp, rough_normal};

/// Room for the readings of a window, in whole vectors.
const LANES: usize = 8;
const ROOM: usize = 48;
const NOISE: usize = 4096;
/// The index of the shape without a change of jobs.
const STEADY: usize = TICKS as usize;

/// Mean, standard deviation (of the population), least and greatest of a window.
pub(super) type Summary = [f32; 4];

/// Shapes of courses and a table of noise, the same for every cluster.
pub(super) struct Sampler {
    /// By number of readings, response and place of the change.
    shapes: Vec<(usize, Vec<[f32; ROOM]>)>,
    noise: Vec<f32>,
    levels: [f32; ROOM],
}

/// A metric's course through one window, in steps of the sensor relative to `base`.
struct Course {
    base: f64,
    start: f32,
    rise: f32,
    noise: f32,
    low: f32,
    high: f32,
}

impl Sampler {
    pub(super) fn new(metrics: &[Metric]) -> Sampler {
        let mut rng = Rng::new(0, Stream::Shapes, 0);
        let noise = (0..NOISE + ROOM).map(|_| rng.normal() as f32).collect();
        let mut counts: Vec<usize> = metrics.iter().map(Metric::samples).collect();
        counts.sort_unstable();
        counts.dedup();
        Sampler {
            shapes: counts.into_iter().map(|n| (n, shapes(n))).collect(),
            noise,
            levels: [0.0; ROOM],
        }
    }

    /// The statistics of a window in which a metric went from one value to another; NaN if either is.
    pub(super) fn window(
        &mut self,
        metric: &Metric,
        ends: (f64, f64),
        change: Option<usize>,
        bits: u64,
    ) -> Summary {
        let Some((base, n)) = self.read(metric, ends, change, bits) else {
            return [f32::NAN; 4];
        };
        summary(&self.levels, n, base, metric.quantum)
    }

    /// The readings of a window, none if the metric is silent.
    pub(super) fn readings(
        &mut self,
        metric: &Metric,
        ends: (f64, f64),
        change: Option<usize>,
        bits: u64,
    ) -> impl Iterator<Item = f64> {
        let read = self.read(metric, ends, change, bits);
        let (base, n) = read.unwrap_or((0.0, 0));
        let quantum = metric.quantum;
        self.levels[..n]
            .iter()
            .map(move |level| (base + f64::from(*level)) * quantum)
    }

    /// Fills `levels` and gives what they are relative to and how many there are.
    fn read(
        &mut self,
        metric: &Metric,
        ends: (f64, f64),
        change: Option<usize>,
        bits: u64,
    ) -> Option<(f64, usize)> {
        let course = Course::new(metric, ends, bits)?;
        let n = metric.samples();
        let (_, shapes) = self.shapes.iter().find(|(count, _)| *count == n)?;
        let shape =
            shapes.get(metric.response as usize * (STEADY + 1) + change.unwrap_or(STEADY).min(STEADY))?;
        let at = (bits & (NOISE as u64 - 1)) as usize;
        let noise = self.noise.get(at..at + ROOM)?;
        course.fill(shape, noise, &mut self.levels);
        Some((course.base, n))
    }
}

impl Course {
    fn new(metric: &Metric, (from, to): (f64, f64), bits: u64) -> Option<Course> {
        if from.is_nan() || to.is_nan() {
            return None;
        }
        let step = metric.quantum;
        let base = (from / step).round();
        // What is switched off reads exactly zero.
        let on = f64::from(from != 0.0 || to != 0.0);
        let moved = on * metric.jitter * rough_normal(bits);
        let noise = on * metric.noise + metric.relative * to.abs();
        Some(Course {
            base,
            start: ((from + moved) / step - base) as f32,
            rise: ((to - from) / step) as f32,
            noise: (noise / step) as f32,
            low: -base as f32,
            high: (metric.ceiling / step - base) as f32,
        })
    }

    fn fill(&self, shape: &[f32; ROOM], noise: &[f32], levels: &mut [f32; ROOM]) {
        for ((level, shape), noise) in levels.iter_mut().zip(shape).zip(noise) {
            let course = round(self.start + self.rise * shape + self.noise * noise);
            let above = if course < self.low { self.low } else { course };
            *level = if above > self.high { self.high } else { above };
        }
    }
}

/// To the next whole number, in two additions: exact below 2²², and the compiler can do eight at once.
fn round(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    let x = if x > 4e6 { 4e6 } else { x };
    let x = if x < -4e6 { -4e6 } else { x };
    (x + MAGIC) - MAGIC
}

/// Sums run in eight lanes in a fixed order, so that no machine adds differently.
fn summary(levels: &[f32; ROOM], n: usize, base: f64, quantum: f64) -> Summary {
    let (mut sum, mut square) = ([0.0f32; LANES], [0.0f32; LANES]);
    let (mut least, mut greatest) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    for group in levels[..n].chunks(LANES) {
        for (i, &level) in group.iter().enumerate() {
            sum[i] += level;
            square[i] += level * level;
            least[i] = if level < least[i] { level } else { least[i] };
            greatest[i] = if level > greatest[i] { level } else { greatest[i] };
        }
    }
    let total = |lanes: [f32; LANES]| lanes.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
    let (mean, square) = (total(sum), total(square));
    let low = least.iter().copied().fold(f32::INFINITY, f32::min);
    let high = greatest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let deviation = if low == high {
        0.0
    } else {
        (square - mean * mean).max(0.0).sqrt()
    };
    [
        ((base + mean) * quantum) as f32,
        (deviation * quantum) as f32,
        ((base + f64::from(low)) * quantum) as f32,
        ((base + f64::from(high)) * quantum) as f32,
    ]
}

/// The courses of `n` readings from 0 to 1, for every response and every place of a change.
fn shapes(n: usize) -> Vec<[f32; ROOM]> {
    let responses = [Response::Fast, Response::Warm, Response::Slow];
    let each = responses
        .into_iter()
        .flat_map(|response| (0..=STEADY).map(move |change| (response, change)));
    each.map(|(response, change)| {
        std::array::from_fn(|i| {
            let tick = (i.min(n - 1) * TICKS as usize) as f64 / n as f64;
            course(response, change, tick) as f32
        })
    })
    .collect()
}

fn course(response: Response, change: usize, tick: f64) -> f64 {
    let last = (TICKS - 1) as f64;
    let since = tick - change as f64;
    let follow = |ticks: f64| 1.0 - exp(-(since.max(0.0) + 0.5) / ticks);
    let whole = |ticks: f64| 1.0 - exp(-((last - change as f64).max(0.0) + 0.5) / ticks);
    match response {
        _ if change == STEADY => (tick + 1.0) / TICKS as f64,
        _ if since < 0.0 => 0.0,
        Response::Fast => 1.0,
        Response::Warm => follow(9.0) / whole(9.0),
        Response::Slow => follow(40.0) / whole(40.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::metrics;
    use crate::options::ReportedMetrics;

    fn power() -> (Metric, Sampler) {
        let all = metrics(&[vec![0], vec![1]], ReportedMetrics::All);
        let sampler = Sampler::new(&all);
        let metric = all.into_iter().find(|m| m.name == "p0_power").expect("a metric");
        (metric, sampler)
    }

    #[test]
    fn statistics_are_those_of_the_readings() {
        let (metric, mut sampler) = power();
        for bits in [1u64 << 60, 77 << 40, u64::MAX] {
            let readings: Vec<f64> = sampler.readings(&metric, (40.0, 120.0), Some(20), bits).collect();
            let [mean, deviation, least, greatest] = sampler.window(&metric, (40.0, 120.0), Some(20), bits);
            assert_eq!(readings.len(), 45);
            let m = readings.iter().sum::<f64>() / 45.0;
            let v = readings.iter().map(|r| (r - m) * (r - m)).sum::<f64>() / 45.0;
            assert!((f64::from(mean) - m).abs() < 1e-3 && (f64::from(deviation) - v.sqrt()).abs() < 1e-3);
            assert_eq!(
                f64::from(least),
                readings.iter().copied().fold(f64::INFINITY, f64::min)
            );
            assert_eq!(f64::from(greatest), readings.iter().copied().fold(0.0, f64::max));
            assert!(
                readings.iter().all(|r| r % 2.0 == 0.0),
                "readings come in steps of 2 W"
            );
        }
    }

    #[test]
    fn a_job_that_begins_within_a_window_is_a_step_in_power() {
        let (metric, mut sampler) = power();
        let readings: Vec<f64> = sampler
            .readings(&metric, (40.0, 140.0), Some(30), 5 << 50)
            .collect();
        assert!(readings[..30].iter().all(|r| *r < 60.0) && readings[30..].iter().all(|r| *r > 120.0));
    }

    #[test]
    fn a_silent_metric_has_no_readings() {
        let (metric, mut sampler) = power();
        assert!(
            sampler
                .window(&metric, (40.0, f64::NAN), None, 1)
                .iter()
                .all(|x| x.is_nan())
        );
        assert_eq!(sampler.readings(&metric, (f64::NAN, 1.0), None, 1).count(), 0);
    }
}
