//! Evidence: which metrics were off when, and what the model expected of them.

use super::chart::{self, HEIGHT, Scale, Span, WIDTH};
use super::html::{Html, count, measured};
use super::limits;
use super::model::{Example, Heatmap, Report};
use super::time::moment;
use std::fmt::Write;

const LEVELS: usize = 7;

/// Heatmaps and reconstructions, if there are any.
pub(super) fn section(report: &Report) -> Html {
    if report.heatmaps.is_empty() && report.examples.is_empty() {
        return Html::default();
    }
    let heatmaps = report
        .heatmaps
        .iter()
        .take(limits::HEATMAPS)
        .map(|h| heatmap(h, report.step));
    let examples = report
        .examples
        .iter()
        .take(limits::EXAMPLES)
        .map(|e| example(e, report.step));
    html!(
        "<section>\n<h2>What the metrics did</h2>\n{}{}<div class=\"pairs\">\n{}</div>\n</section>\n",
        Html::join(heatmaps),
        examples_heading(report),
        Html::join(examples)
    )
}

fn examples_heading(report: &Report) -> Html {
    if report.examples.is_empty() {
        return Html::default();
    }
    html!(
        "<h3>Observed and expected</h3>\n<p class=\"legend\"><span><i class=\"key observed\"></i>observed</span>\
         <span><i class=\"key expected\"></i>expected by the model</span>\
         <span><i class=\"key labelled\"></i>labelled anomalous</span><span><i class=\"key alarm\"></i>alarm</span></p>\n"
    )
}

/// The rows with the largest errors, with as few columns as the page needs.
struct Grid<'a> {
    rows: Vec<(&'a str, Vec<f32>)>,
    columns: usize,
    top: f32,
    left_out: usize,
}

fn grid<'a>(map: &'a Heatmap, span: Span) -> Option<Grid<'a>> {
    let width = map.times.len();
    let columns = width.min(limits::HEATMAP_COLUMNS);
    let mut rows: Vec<(&str, Vec<f32>)> = map
        .metrics
        .iter()
        .zip(map.errors.chunks_exact(width.max(1)))
        .map(|(name, errors)| (name.as_str(), squeeze(&map.times, errors, columns, span)))
        .collect();
    let largest = |row: &[f32]| row.iter().copied().filter(|v| v.is_finite()).fold(0.0, f32::max);
    rows.sort_by(|a, b| largest(&b.1).total_cmp(&largest(&a.1)));
    let left_out = rows.len().saturating_sub(limits::HEATMAP_ROWS);
    rows.truncate(limits::HEATMAP_ROWS);
    let mut finite: Vec<f32> = rows
        .iter()
        .flat_map(|r| &r.1)
        .copied()
        .filter(|v| v.is_finite())
        .collect();
    finite.sort_by(f32::total_cmp);
    let top = finite
        .get(finite.len().checked_sub(1)? * 199 / 200)
        .copied()
        .filter(|t| *t > 0.0)?;
    Some(Grid {
        rows,
        columns,
        top,
        left_out,
    })
}

/// The largest error in each column; NaN where there is none.
fn squeeze(times: &[i64], errors: &[f32], columns: usize, span: Span) -> Vec<f32> {
    let mut squeezed = vec![f32::NAN; columns];
    for (&time, &error) in times.iter().zip(errors) {
        let at = (span.x(time) as usize * columns / WIDTH as usize).min(columns.saturating_sub(1));
        if let Some(cell) = squeezed.get_mut(at) {
            *cell = cell.max(error);
        }
    }
    squeezed
}

/// The shade of an error on a scale of square roots: none for the lowest eighth, which is noise.
fn level(error: f32, top: f32) -> Option<usize> {
    let share = (error / top).clamp(0.0, 1.0).sqrt();
    let level = (share * (LEVELS + 1) as f32) as usize;
    (error.is_finite() && level > 0).then(|| level.min(LEVELS))
}

/// Where a shade begins.
fn lower_bound(level: usize, top: f32) -> f32 {
    (level as f32 / (LEVELS + 1) as f32).powi(2) * top
}

fn heatmap(map: &Heatmap, step: i64) -> Html {
    let Some((span, grid)) = Span::of(&map.times, step).and_then(|s| Some((s, grid(map, s)?))) else {
        return html!("<p class=\"quiet\">No errors to show for {}.</p>\n", map.node);
    };
    let names = Html::join(
        grid.rows
            .iter()
            .map(|(name, _)| html!("<span title=\"{}\">{}</span>", name, name)),
    );
    let rest = match grid.left_out {
        0 => Html::default(),
        n => html!(" {} with smaller errors not shown.", count(n, "metric")),
    };
    html!(
        "<h3>{}: error by metric and time</h3>\n<p class=\"quiet\">The stronger the colour, the further from what the model expected, in {}; blank is near it or missing.{}</p>\n{}\
         <div class=\"heat\" style=\"--rows:{}\"><div class=\"rows\">{}</div><div class=\"plot\" data-start=\"{}\" data-end=\"{}\">\
         <svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{}</svg>{}{}</div></div>\n",
        map.node,
        map.unit,
        rest,
        scale_legend(&grid),
        grid.rows.len(),
        names,
        span.start,
        span.end,
        grid.columns,
        grid.rows.len() * 10,
        format!(
            "Errors of {} from {} to {}",
            map.node,
            moment(span.start),
            moment(span.end)
        ),
        shades(&grid),
        chart::strip(&map.labelled, &map.alarms, span),
        chart::time_axis(span)
    )
}

/// One path per shade, drawn as thick strokes: far smaller than a rectangle per cell.
fn shades(grid: &Grid<'_>) -> Html {
    let mut paths = vec![String::new(); LEVELS + 1];
    for (row, (_, errors)) in grid.rows.iter().enumerate() {
        let mut x = 0;
        for run in errors.chunk_by(|a, b| level(*a, grid.top) == level(*b, grid.top)) {
            let shade = run.first().and_then(|error| level(*error, grid.top));
            if let Some(path) = shade.and_then(|l| paths.get_mut(l)) {
                let _ = write!(path, "M{x} {}h{}", row * 10 + 5, run.len());
            }
            x += run.len();
        }
    }
    let drawn = paths.iter().enumerate().filter(|(_, path)| !path.is_empty());
    Html::join(drawn.map(|(level, path)| html!("<path class=\"heat{}\" d=\"{}\"/>", level, path)))
}

fn scale_legend(grid: &Grid<'_>) -> Html {
    let steps = (1..=LEVELS).map(|level| {
        let bound = measured(round(lower_bound(level, grid.top)));
        html!("<span><i class=\"key heat{}\"></i>≥ {}</span>", level, bound)
    });
    html!("<p class=\"legend\">{}</p>\n", Html::join(steps))
}

/// Two significant digits are enough for a legend.
fn round(value: f32) -> f32 {
    let power = 10f32.powf(value.abs().max(1e-30).log10().floor() - 1.0);
    (value / power).round() * power
}

fn example(example: &Example, step: i64) -> Html {
    let both = || example.observed.iter().chain(&example.expected).copied();
    let title = html!(
        "<h4><span class=\"name\">{}</span> <span class=\"quiet\">{}</span></h4>\n",
        example.metric,
        example.node
    );
    let Some((span, scale)) = Span::of(&example.times, step).zip(Scale::linear(both())) else {
        return html!("<div>{}<p class=\"quiet\">No values.</p></div>\n", title);
    };
    let shapes = html!(
        "{}<path class=\"expected\" d=\"{}\"/><path class=\"observed\" d=\"{}\"/>",
        chart::labelled(&example.labelled, span, HEIGHT),
        chart::line(&example.times, &example.expected, span, scale),
        chart::line(&example.times, &example.observed, span, scale)
    );
    let label = format!("{} of {}, observed and expected", example.metric, example.node);
    let strip = chart::strip(&[], &example.alarms, span);
    html!(
        "<div>{}{}</div>\n",
        title,
        chart::framed(&label, shapes, span, scale, strip)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_errors_are_blank_and_the_largest_are_darkest() {
        assert_eq!(level(0.015, 1.0), None);
        assert_eq!(level(f32::NAN, 1.0), None);
        assert_eq!(level(0.02, 1.0), Some(1));
        assert_eq!((level(1.0, 1.0), level(9.0, 1.0)), (Some(LEVELS), Some(LEVELS)));
    }

    #[test]
    fn squeezing_keeps_the_worst_error_of_each_column() {
        let times: Vec<i64> = (0..1000).map(|i| i * 60).collect();
        let mut errors = vec![0.1; 1000];
        errors[777] = 5.0;
        let span = Span::of(&times, 60).expect("times");
        let squeezed = squeeze(&times, &errors, 100, span);
        assert_eq!(squeezed.iter().position(|e| *e == 5.0), Some(77));
    }
}
