//! Lines, bands and axes. Shapes are SVG and stretch with the page; labels are HTML and do not.

use super::html::{Html, measured, raw};
use super::model::{AlarmPeriod, Period};
use super::time::{duration, moment, ticks};
use std::fmt::Write;
use synod_evaluate::EventKind;

/// The drawing's own units; the page stretches them.
pub(super) const WIDTH: i64 = 1000;
pub(super) const HEIGHT: i64 = 200;
pub(super) const STRIP: i64 = 20;
const BUCKETS: usize = 500;

/// The time that a chart covers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: i64,
    pub(super) end: i64,
}

impl Span {
    /// From the first time to one usual step after the last; none without times.
    pub(super) fn of(times: &[i64], step: i64) -> Option<Span> {
        let (start, last) = (*times.iter().min()?, *times.iter().max()?);
        let end = last.saturating_add(step.max(1));
        (end > start && end.checked_sub(start).is_some()).then_some(Span { start, end })
    }

    fn share(&self, time: i64) -> f64 {
        let inside = time.clamp(self.start, self.end) - self.start;
        inside as f64 / (self.end - self.start) as f64
    }

    pub(super) fn x(&self, time: i64) -> i64 {
        (self.share(time) * WIDTH as f64).round() as i64
    }
}

/// How values become heights.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// A scale over the finite values; none without any.
    pub(super) fn linear(values: impl Iterator<Item = f32>) -> Option<Scale> {
        let (low, high) = range(values)?;
        let margin = ((high - low) * 0.06).max(high.abs() * 1e-3).max(1e-9);
        Some(Scale {
            low: low - margin,
            high: high + margin,
            logarithmic: false,
        })
    }

    /// A scale for scores against thresholds: logarithmic from a thirtieth of the threshold where the scores tower above
    /// it, so that both can be seen.
    pub(super) fn scores(scores: &[f32], thresholds: &[f32]) -> Option<Scale> {
        let all = || scores.iter().chain(thresholds).copied();
        let (low, high) = range(all())?;
        let threshold = range(thresholds.iter().copied()).map(|t| t.0);
        match threshold.filter(|t| *t > 0.0 && high > 6.0 * t) {
            Some(threshold) => Some(Scale {
                low: (threshold / 30.0).max(low.max(threshold / 1e3) * 0.8).log10(),
                high: (high * 1.3).log10(),
                logarithmic: true,
            }),
            None => Scale::linear(all()),
        }
    }

    fn share(&self, value: f64) -> f64 {
        let value = if self.logarithmic {
            value.max(1e-300).log10()
        } else {
            value
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn y(&self, value: f32) -> i64 {
        ((1.0 - self.share(f64::from(value))) * HEIGHT as f64).round() as i64
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            return self.decades();
        }
        let rough = (self.high - self.low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|m| m * power)
            .into_iter()
            .find(|s| *s >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil();
        let at = (0..8).map(|i| (first + f64::from(i)) * step);
        at.filter(|v| *v <= self.high).collect()
    }
}

impl Scale {
    /// Powers of ten, with 2 and 5 between them where there is room.
    fn decades(&self) -> Vec<f64> {
        let (first, last) = (self.low.floor() as i32, self.high.floor() as i32);
        let wide = self.high - self.low;
        let between: &[f64] = if wide < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (wide / 5.0).ceil().max(1.0) as usize;
        let all = (first..=last)
            .step_by(every)
            .flat_map(|e| between.iter().map(move |b| b * 10f64.powi(e)));
        all.filter(|v| (self.low..=self.high).contains(&v.log10()))
            .collect()
    }
}

fn range(values: impl Iterator<Item = f32>) -> Option<(f64, f64)> {
    let finite = values.filter(|v| v.is_finite()).map(f64::from);
    finite.fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}

/// The lowest and highest value in each of the buckets that divide the span; none where nothing was measured.
fn decimate(times: &[i64], values: &[f32], span: Span) -> Vec<Option<(f32, f32)>> {
    let count = BUCKETS.min(times.len()).max(1);
    let mut buckets = vec![None; count];
    for (&time, &value) in times.iter().zip(values).filter(|(_, v)| v.is_finite()) {
        let at = ((span.share(time) * count as f64) as usize).min(count - 1);
        if let Some(bucket) = buckets.get_mut(at) {
            let (low, high) = bucket.unwrap_or((value, value));
            *bucket = Some((value.min(low), value.max(high)));
        }
    }
    buckets
}

/// A path through the extremes of every bucket, broken where three or more in a row are empty.
pub(super) fn line(times: &[i64], values: &[f32], span: Span, scale: Scale) -> String {
    let buckets = decimate(times, values, span);
    let width = WIDTH as f64 / buckets.len() as f64;
    let mut path = String::new();
    let mut pen: Option<(i64, i64)> = None;
    let mut empty = 0;
    for (i, bucket) in buckets.iter().enumerate() {
        let Some((low, high)) = *bucket else {
            empty += 1;
            continue;
        };
        let x = ((i as f64 + 0.5) * width).round() as i64;
        let (bottom, top) = (scale.y(low), scale.y(high));
        let started = pen.filter(|_| empty < 3);
        let from = started.map_or(top, |p| p.1);
        let order = if (from - top).abs() <= (from - bottom).abs() {
            [top, bottom]
        } else {
            [bottom, top]
        };
        let mut at = match started {
            Some(at) => at,
            None => {
                let _ = write!(path, "M{x} {}", order[0]);
                (x, order[0])
            }
        };
        for y in order {
            at = step(&mut path, at, (x, y));
        }
        pen = Some(at);
        empty = 0;
    }
    path
}

/// The shortest way to write a line to a point.
fn step(path: &mut String, from: (i64, i64), to: (i64, i64)) -> (i64, i64) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let _ = match (dx, dy) {
        (0, 0) => Ok(()),
        (dx, 0) => write!(path, "h{dx}"),
        (0, dy) => write!(path, "v{dy}"),
        (dx, dy) if dy < 0 => write!(path, "l{dx}{dy}"),
        (dx, dy) => write!(path, "l{dx} {dy}"),
    };
    to
}

/// A path at one height, from side to side.
pub(super) fn level(value: f32, scale: Scale) -> String {
    format!("M0 {}h{WIDTH}", scale.y(value))
}

/// Bands of the given height for labelled periods.
pub(super) fn labelled(periods: &[Period], span: Span, height: i64) -> Html {
    let inside = periods
        .iter()
        .filter(|p| p.end > span.start && p.start < span.end);
    Html::join(inside.map(|p| {
        let x = span.x(p.start);
        html!(
            "<rect class=\"labelled\" x=\"{}\" y=\"0\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            x,
            (span.x(p.end) - x).max(2),
            height,
            about("Labelled anomalous", p.start, p.end)
        )
    }))
}

/// Marks from `top` to the bottom of a strip for alarms: filled where a label bears them out or nothing is known, hollow
/// in time labelled healthy.
pub(super) fn alarms(periods: &[AlarmPeriod], span: Span, top: i64) -> Html {
    let inside = periods
        .iter()
        .filter(|p| p.end > span.start && p.start < span.end);
    Html::join(inside.map(|p| {
        let (class, what) = match p.kind {
            EventKind::True => ("alarm", "Alarm, labelled anomalous"),
            EventKind::False => ("alarm false", "Alarm, labelled healthy"),
            EventKind::Unknown => ("alarm", "Alarm, not labelled"),
        };
        let x = span.x(p.start);
        html!(
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            class,
            x,
            top,
            (span.x(p.end) - x).max(8),
            STRIP - 2 - top,
            about(what, p.start, p.end)
        )
    }))
}

fn about(what: &str, start: i64, end: i64) -> String {
    format!(
        "{what}, {} – {} ({})",
        moment(start),
        moment(end),
        duration(end.saturating_sub(start))
    )
}

/// A strip of alarms and, above them, labelled periods.
pub(super) fn strip(labelled_periods: &[Period], alarm_periods: &[AlarmPeriod], span: Span) -> Html {
    let top = if labelled_periods.is_empty() { 2 } else { 9 };
    html!(
        "<svg class=\"strip\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{}{}</svg>",
        WIDTH,
        STRIP,
        super::html::count(alarm_periods.len(), "alarm"),
        labelled(labelled_periods, span, STRIP),
        alarms(alarm_periods, span, top)
    )
}

/// A chart: its shapes, the values on the left, an optional strip and the times below. `label` is read to the blind.
pub(super) fn framed(label: &str, shapes: Html, span: Span, scale: Scale, strip: Html) -> Html {
    let values = Html::join(scale.ticks().into_iter().map(|value| {
        let top = 100.0 * (1.0 - scale.share(value));
        html!(
            "<span style=\"top:{}%\">{}</span>",
            (top * 10.0).round() / 10.0,
            measured(value as f32)
        )
    }));
    let grid = Html::join(scale.ticks().into_iter().map(|value| {
        html!(
            "<path class=\"grid\" d=\"M0 {}h{}\"/>",
            scale.y(value as f32),
            WIDTH
        )
    }));
    html!(
        "<div class=\"chart\"><div class=\"y\">{}</div><div class=\"plot\" data-start=\"{}\" data-end=\"{}\">\
         <svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{}{}</svg>{}{}</div></div>\n",
        values,
        span.start,
        span.end,
        WIDTH,
        HEIGHT,
        label,
        grid,
        shapes,
        strip,
        time_axis(span)
    )
}

/// The times under a chart.
pub(super) fn time_axis(span: Span) -> Html {
    let labels = ticks(span.start, span.end, 7)
        .into_iter()
        .filter(|(t, _)| span.share(*t) < 0.94);
    let labels = labels.map(|(time, label)| {
        let share = span.share(time);
        let late = raw(if share > 0.84 { " class=\"late\"" } else { "" });
        html!(
            "<span{} style=\"left:{}%\">{}</span>",
            late,
            (1000.0 * share).round() / 10.0,
            label
        )
    });
    html!("<div class=\"x\">{}</div>", Html::join(labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spike() -> (Vec<i64>, Vec<f32>) {
        let times: Vec<i64> = (0..20_000).map(|i| i * 60).collect();
        let mut values = vec![1.0; 20_000];
        values[12_345] = 50.0;
        (times, values)
    }

    #[test]
    fn one_window_in_twenty_thousand_is_still_seen() {
        let (times, values) = spike();
        let span = Span::of(&times, 60).expect("times");
        let scale = Scale::linear(values.iter().copied()).expect("values");
        let path = line(&times, &values, span, scale);
        assert!(
            path.contains(&format!("v-{}", scale.y(1.0) - scale.y(50.0))),
            "{path}"
        );
        assert!(path.len() < 6000, "{} bytes", path.len());
    }

    #[test]
    fn missing_windows_break_the_line() {
        let times: Vec<i64> = (0..100).map(|i| i * 60).collect();
        let mut values: Vec<f32> = (0..100).map(|i| (i % 7) as f32).collect();
        values[40..60].fill(f32::NAN);
        let span = Span::of(&times, 60).expect("times");
        let scale = Scale::linear(values.iter().copied()).expect("values");
        assert_eq!(line(&times, &values, span, scale).matches('M').count(), 2);
    }

    #[test]
    fn scores_far_above_the_threshold_get_a_logarithmic_scale() {
        let scale = Scale::scores(&[0.5, 1.0, 900.0], &[2.0]).expect("values");
        assert!(scale.logarithmic);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert!(scale.share(2.0) > 0.1 && scale.share(900.0) < 1.0);
        assert!(!Scale::scores(&[0.5, 3.0], &[2.0]).expect("values").logarithmic);
    }

    #[test]
    fn extremes_do_not_panic() {
        let span = Span::of(&[0, 10], 1).expect("times");
        let values = [f32::INFINITY, f32::NAN, f32::MAX, f32::MIN];
        for pair in values.windows(2) {
            if let Some(scale) = Scale::scores(pair, &[0.0]) {
                line(&[0, 10], pair, span, scale);
                scale.ticks();
            }
        }
        assert_eq!(Span::of(&[i64::MIN, i64::MAX], 1), None);
        assert_eq!(Span::of(&[], 1), None);
        assert_eq!(Scale::linear([f32::NAN].into_iter()), None);
    }
}
