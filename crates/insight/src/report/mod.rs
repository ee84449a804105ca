//! `report.html`: one page that says what happened, what it cost and how it was measured.
//!
//! The page is for a person who is paged at night and does not trust us: first the alarms and their price, then the
//! evidence, then the methods. It loads nothing from anywhere, and works without its script. Names of nodes and metrics
//! come from outside and are escaped by `html!`, the only way text enters the page.

#[macro_use]
mod html;
mod alarms;
mod chart;
mod evidence;
mod headline;
mod histogram;
mod improvement;
mod methods;
mod model;
mod nodes;
mod results;
mod time;

pub use improvement::{listed, worst};
pub use model::{
    Alarm, AlarmPeriod, Arm, Cause, DroppedMetric, Example, Heatmap, Improvement, NodeSeries, Period, Report,
};

use html::{Html, raw};

/// The most causes, rows and cards that the page shows of each kind; where it shows fewer than there are, it says so.
mod limits {
    pub(super) const ALARMS: usize = 20;
    pub(super) const CAUSES: usize = 8;
    pub(super) const HEATMAPS: usize = 6;
    pub(super) const HEATMAP_ROWS: usize = 20;
    pub(super) const HEATMAP_COLUMNS: usize = 400;
    pub(super) const EXAMPLES: usize = 12;
    pub(super) const DROPPED: usize = 300;
    pub(super) const NOTES: usize = 50;
    pub(super) const CONFIG_BYTES: usize = 20_000;
    pub(super) const OPEN_TIMELINES: usize = 4;
}

const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The whole page, ready to be written to a file. Charts are decimated here; give series at full length.
pub fn page(report: &Report) -> String {
    let title = format!("{} – Synod report", report.name);
    let body = [
        headline::section(report),
        alarms::section(report),
        nodes::section(report),
        evidence::section(report),
        results::section(report),
        improvement::section(report),
        methods::section(report),
    ];
    html!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{}</main>\n<script>\n{}</script>\n</body>\n</html>\n",
        raw(POLICY),
        title,
        raw(include_str!("page.css")),
        Html::join(body),
        raw(include_str!("page.js")),
    )
    .into_string()
}
