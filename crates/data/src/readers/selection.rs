//! Which columns of a file are values, time and label.

use std::{collections::HashMap, path::Path};

use super::malformed;
use crate::error::{Place, Result};

/// What to take from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOptions {
    /// The value columns, in this order; none for all that hold numbers and are neither time nor label.
    pub columns: Option<Vec<String>>,
    /// The column to keep as exact time. Timestamps come as nanoseconds since 1970, plain numbers as they are,
    /// missing ones as `i64::MIN`.
    pub time: Option<String>,
    /// What plain numbers in the time column are multiplied by, before rounding.
    pub time_scale: f64,
    /// The column to keep as label.
    pub label: Option<String>,
    /// CSV: what separates fields.
    pub delimiter: u8,
    /// CSV: names of the columns of a file without a header line.
    pub names: Option<Vec<String>>,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            columns: None,
            time: None,
            time_scale: 1.0,
            label: None,
            delimiter: b',',
            names: None,
        }
    }
}

/// A column that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What becomes of a column of the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Unused,
    Value(usize),
    Time,
    Label,
}

/// The role of every column of a file, and the names of the value columns.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) roles: Vec<Role>,
    pub(super) names: Vec<String>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) time_scale: f64,
}

impl Selection {
    /// `problems[i]` says why column `i` cannot be read as numbers, if it cannot.
    pub(super) fn resolve(
        path: &Path,
        file_names: &[String],
        problems: &[Option<String>],
        options: &ReadOptions,
    ) -> Result<Selection> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (i, name) in file_names.iter().enumerate() {
            places.entry(name).or_insert(i);
        }
        let find = |name: &String| match places.get(name.as_str()) {
            Some(&i) if problems[i].is_none() => Ok(i),
            Some(&i) => {
                let reason = problems[i].as_deref().unwrap_or_default();
                let problem = format!("column {name:?} cannot be read as numbers: {reason}");
                Err(malformed(path, Place::Whole, problem, "choose another column"))
            }
            None => {
                let shown: Vec<&str> = file_names.iter().take(12).map(String::as_str).collect();
                let problem = format!(
                    "there is no column {name:?} among {} columns ({}{})",
                    file_names.len(),
                    shown.join(", "),
                    if file_names.len() > 12 { ", …" } else { "" }
                );
                Err(malformed(path, Place::Whole, problem, "check its spelling"))
            }
        };
        let mut roles = vec![Role::Unused; file_names.len()];
        for (name, role) in [(&options.time, Role::Time), (&options.label, Role::Label)] {
            if let Some(name) = name {
                roles[find(name)?] = role;
            }
        }
        let chosen: Vec<usize> = match &options.columns {
            Some(columns) => columns.iter().map(find).collect::<Result<_>>()?,
            None => (0..file_names.len())
                .filter(|&i| roles[i] == Role::Unused && problems[i].is_none())
                .collect(),
        };
        for (slot, &i) in chosen.iter().enumerate() {
            if roles[i] != Role::Unused {
                let problem = format!("column {:?} is asked for twice", file_names[i]);
                return Err(malformed(path, Place::Whole, problem, "name every column once"));
            }
            roles[i] = Role::Value(slot);
        }
        let skipped = file_names.iter().zip(problems).filter_map(|(name, problem)| {
            Some(Skipped {
                name: name.clone(),
                reason: problem.clone()?,
            })
        });
        Ok(Selection {
            roles,
            names: chosen.iter().map(|&i| file_names[i].clone()).collect(),
            skipped: skipped.collect(),
            time_scale: options.time_scale,
        })
    }

    /// A plain number of the time column as a time. NaN becomes the least time.
    pub(super) fn time(&self, value: f64) -> i64 {
        if value.is_nan() {
            return i64::MIN;
        }
        (value * self.time_scale).round() as i64
    }

    /// A whole number of the time column as a time, exactly if it is not scaled.
    pub(super) fn whole_time(&self, value: i64) -> i64 {
        if self.time_scale == 1.0 {
            value
        } else {
            self.time(value as f64)
        }
    }
}

/// The names, with `.2`, `.3` … added to those that occur again.
pub(super) fn unique(names: Vec<String>) -> Vec<String> {
    let mut taken: std::collections::HashSet<String> = names.iter().cloned().collect();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        let count = seen.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            out.push(name);
            continue;
        }
        let mut fresh = format!("{name}.{count}");
        while !taken.insert(fresh.clone()) {
            *count += 1;
            fresh = format!("{name}.{count}");
        }
        out.push(fresh);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&n| n.to_owned()).collect()
    }

    #[test]
    fn repeated_names_become_different() {
        let names = unique(strings(&["a", "b", "a", "a.2", "a"]));
        assert_eq!(names, ["a", "b", "a.3", "a.2", "a.4"].map(str::to_owned));
        let all: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(all.len(), names.len());
    }

    #[test]
    fn columns_come_in_the_order_asked_for_without_time_and_label() {
        let names = strings(&["t", "x", "text", "y", "l"]);
        let problems = [None, None, Some("text".to_owned()), None, None];
        let path = Path::new("f");
        let options = ReadOptions {
            time: Some("t".to_owned()),
            label: Some("l".to_owned()),
            ..ReadOptions::default()
        };
        let all = Selection::resolve(path, &names, &problems, &options).expect("resolved");
        assert_eq!(all.names, ["x", "y"]);
        assert_eq!(all.skipped[0].name, "text");
        let ordered = ReadOptions {
            columns: Some(strings(&["y", "x"])),
            ..options.clone()
        };
        let chosen = Selection::resolve(path, &names, &problems, &ordered).expect("resolved");
        assert_eq!(
            chosen.roles,
            [
                Role::Time,
                Role::Value(1),
                Role::Unused,
                Role::Value(0),
                Role::Label
            ]
        );
        for wrong in ["text", "z", "t"] {
            let options = ReadOptions {
                columns: Some(strings(&[wrong])),
                ..options.clone()
            };
            let error = Selection::resolve(path, &names, &problems, &options).expect_err("refused");
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }
}
