//! What the rows of a record file are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The most columns a record file may have.
pub(super) const MAX_COLUMNS: usize = 65_536;

/// Bytes of rows that a full page holds unless the schema says otherwise.
const PAGE_BYTES: usize = 256 << 10;

/// Wide rows make larger pages, because a zone map is as large as three rows.
const LEAST_ROWS: usize = 16;

/// The type of the labels of a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub enum LabelKind {
    /// Rows have no label.
    #[default]
    None,
    /// Classes or states.
    Int,
    /// Targets.
    Real,
}

impl LabelKind {
    /// Bytes of one label.
    pub(super) fn bytes(self) -> usize {
        if self == LabelKind::None { 0 } else { 4 }
    }
}

/// The label of one row.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Label {
    /// A class or state.
    Int(i32),
    /// A target.
    Real(f32),
}

impl Label {
    /// The label as a number; both kinds fit exactly.
    pub fn value(self) -> f64 {
        match self {
            Label::Int(value) => f64::from(value),
            Label::Real(value) => f64::from(value),
        }
    }

    pub(super) fn kind(self) -> LabelKind {
        match self {
            Label::Int(_) => LabelKind::Int,
            Label::Real(_) => LabelKind::Real,
        }
    }

    pub(super) fn bits(self) -> [u8; 4] {
        match self {
            Label::Int(value) => value.to_le_bytes(),
            Label::Real(value) => value.to_le_bytes(),
        }
    }
}

/// Names of the columns, type of the labels, rows per page, and whatever else the writer wants to keep with the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// One name per column, all different.
    pub columns: Vec<String>,
    /// The type of the labels.
    pub label: LabelKind,
    /// Rows of a full page.
    pub rows_per_page: u32,
    /// Free keys and values: origin, unit of time, scaling.
    pub user: BTreeMap<String, String>,
}

impl Schema {
    /// Columns of these names, without labels, in pages of about 256 KiB but at least 16 rows.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Schema {
        let columns: Vec<String> = columns.into_iter().map(Into::into).collect();
        let row = 4 * columns.len() + 12;
        Schema {
            rows_per_page: (PAGE_BYTES / row).max(LEAST_ROWS) as u32,
            columns,
            label: LabelKind::None,
            user: BTreeMap::new(),
        }
    }

    /// The same with labels of this kind.
    pub fn labelled(mut self, kind: LabelKind) -> Schema {
        self.label = kind;
        self
    }

    /// The same with one more key and value.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Schema {
        self.user.insert(key.into(), value.into());
        self
    }

    /// The index of a column; the error lists what there is.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.columns
            .iter()
            .position(|column| column == name)
            .ok_or_else(|| {
                let shown: Vec<&str> = self.columns.iter().take(12).map(String::as_str).collect();
                let more = if self.columns.len() > 12 { ", …" } else { "" };
                Error::Setting(format!(
                    "there is no column {name:?}; the columns are {}{more}",
                    shown.join(", ")
                ))
            })
    }

    /// What is wrong with the schema, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        let count = self.columns.len();
        if !(1..=MAX_COLUMNS).contains(&count) {
            return Some(format!(
                "{count} columns, but a record file has 1 to {MAX_COLUMNS}"
            ));
        }
        if self.rows_per_page == 0 {
            return Some("pages of no rows".to_owned());
        }
        let mut seen = std::collections::HashSet::new();
        let twice = self.columns.iter().find(|name| !seen.insert(name.as_str()));
        twice.map(|name| format!("two columns are called {name:?}"))
    }
}

/// What the header stores as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Names {
    pub(super) columns: Vec<String>,
    #[serde(default)]
    pub(super) user: BTreeMap<String, String>,
}
