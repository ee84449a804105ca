//! Many runs of one experiment: every combination of the settings in its `[grid]` table.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use toml::{Table, Value as Setting};

use super::config::Config;
use super::{Misuse, Train};

/// More runs than this are taken for a mistake.
const MOST: usize = 1000;
/// The setting of which the best value counts.
const RATE: &str = "train.rate";
const SEED: &str = "seed";

/// A configuration with a grid: the rest of it, the axes, and what others have published.
pub(super) struct Grid {
    base: Table,
    axes: Vec<(String, Vec<Setting>)>,
    published: Vec<Table>,
}

/// The values of one cell, without the learning rate.
type Place = Vec<(String, Setting)>;

impl Grid {
    /// The grid of a configuration, if it has one.
    pub(super) fn of(text: &str, path: &Path) -> Result<Option<Grid>> {
        let Ok(mut base) = text.parse::<Table>() else {
            // Whoever reads the configuration itself will say what is wrong.
            return Ok(None);
        };
        let Some(grid) = base.remove("grid") else {
            return Ok(None);
        };
        let wrong = |problem: String| Misuse(format!("{}: [grid]: {problem}", path.display()));
        let Setting::Table(grid) = grid else {
            return Err(wrong("is a table of settings with lists of values".into()).into());
        };
        let mut axes = vec![];
        for (name, values) in grid {
            match values {
                Setting::Array(values) if !values.is_empty() => axes.push((name, values)),
                _ => {
                    return Err(wrong(format!("{name:?} needs a list of values, such as [0.1, 0.2]")).into());
                }
            }
        }
        let published = match base.remove("published") {
            None => vec![],
            Some(Setting::Array(all)) => all.into_iter().filter_map(|p| p.as_table().cloned()).collect(),
            Some(_) => return Err(wrong("[[published]] is a list of tables".into()).into()),
        };
        let cells: usize = axes.iter().map(|(_, v)| v.len()).product();
        ensure!(cells <= MOST, wrong(format!("{cells} runs are more than {MOST}")));
        Ok(Some(Grid {
            base,
            axes,
            published,
        }))
    }

    /// Runs every combination, each in a folder of its own, and goes on where an earlier call stopped.
    pub(super) fn run(&self, train: &Train) -> Result<()> {
        let name = match self.base.get("name").and_then(Setting::as_str) {
            Some(name) => name.to_owned(),
            None => train
                .config
                .file_stem()
                .map(|s| s.to_string_lossy().into_owned())
                .unwrap_or_default(),
        };
        let runs = train.runs.join(&name);
        let mut cells = vec![];
        for place in self.places() {
            cells.push(self.cell(&place, train, &runs)?);
        }
        let mut out = std::io::stdout().lock();
        if train.json {
            return Ok(writeln!(out, "{}", json!({ "name": name, "cells": cells }))?);
        }
        self.print(&cells, &mut out)
    }

    /// One run per learning rate; those that come later stop where the best so far had reached the target.
    fn cell(&self, place: &Place, train: &Train, runs: &Path) -> Result<Value> {
        let rates = self
            .axes
            .iter()
            .find(|(name, _)| name == RATE)
            .map(|(_, v)| v.clone());
        let rates: Vec<Option<Setting>> = rates.map_or(vec![None], |r| r.into_iter().map(Some).collect());
        let mut best: Option<Value> = None;
        for rate in rates {
            let mut settings = place.clone();
            settings.extend(rate.clone().map(|r| (RATE.to_owned(), r)));
            let most = best.as_ref().and_then(|b| b["rounds_to_target"].as_f64());
            let text = self.text(&settings)?;
            let config =
                Config::parse(&text).map_err(|e| Misuse(format!("{}: {e}", train.config.display())))?;
            let cell = slug(&settings);
            if !train.json {
                eprintln!("{}", if cell.is_empty() { "all" } else { &cell });
            }
            let most = most.map_or(usize::MAX, |m| m.ceil() as usize);
            let summary = train.run_cell(&config, &text, runs, &cell, most)?;
            let mut entry = json!({ "settings": {}, "rate": rate.as_ref().and_then(number) });
            for (name, value) in place {
                entry["settings"][name] = serde_json::to_value(value)?;
            }
            for key in [
                "rounds_to_target",
                "rounds",
                "accuracy",
                "best_accuracy",
                "seconds",
                "target",
                "traffic",
                "per_client",
                "stopped",
            ] {
                entry[key] = summary[key].clone();
            }
            if best.as_ref().is_none_or(|b| better(&entry, b)) {
                best = Some(entry);
            }
        }
        let mut best = best.unwrap_or_default();
        best["published"] = self.published(place);
        Ok(best)
    }

    fn published(&self, place: &Place) -> Value {
        let fits = |table: &&Table| {
            let axis = |key: &String| self.axes.iter().any(|(axis, _)| axis == key);
            let named: Vec<(&String, &Setting)> = table.iter().filter(|(key, _)| axis(key)).collect();
            !named.is_empty()
                && named
                    .iter()
                    .all(|(key, value)| place.iter().any(|(k, v)| k == *key && v == *value))
        };
        let found = self.published.iter().find(fits);
        found
            .and_then(|t| t.get("rounds").or(t.get("accuracy")))
            .and_then(number)
            .map_or(Value::Null, |n| json!(n))
    }

    /// All combinations but for the learning rate.
    fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = vec![vec![]];
        for (name, values) in self.axes.iter().filter(|(name, _)| name != RATE) {
            let with =
                |place: &Place, value: &Setting| [&place[..], &[(name.clone(), value.clone())]].concat();
            places = places
                .iter()
                .flat_map(|p| values.iter().map(move |v| with(p, v)))
                .collect();
        }
        places
    }

    /// The configuration of one run.
    fn text(&self, settings: &Place) -> Result<String> {
        let mut table = self.base.clone();
        table.remove("name");
        for (name, value) in settings {
            set(&mut table, name, value.clone()).map_err(|e| Misuse(format!("[grid]: {name:?} {e}")))?;
        }
        Ok(toml::to_string(&table)?)
    }

    /// A table with a line for every combination but for learning rates and seeds.
    fn print(&self, cells: &[Value], out: &mut dyn Write) -> Result<()> {
        let axes = self.axes.iter().map(|(n, _)| n.as_str());
        let axes: Vec<&str> = axes.filter(|n| *n != RATE && *n != SEED).collect();
        let mut groups: Vec<(Vec<String>, Vec<&Value>)> = vec![];
        for cell in cells {
            let key: Vec<String> = axes.iter().map(|a| plain(&cell["settings"][*a])).collect();
            match groups.iter_mut().find(|(k, _)| *k == key) {
                Some((_, group)) => group.push(cell),
                None => groups.push((key, vec![cell])),
            }
        }
        let mut heads: Vec<String> = axes
            .iter()
            .map(|a| a.rsplit('.').next().unwrap_or(a).to_owned())
            .collect();
        let seeds = self
            .axes
            .iter()
            .find(|(n, _)| n == SEED)
            .map_or(1, |(_, v)| v.len());
        heads.extend(
            [
                "rate",
                "rounds to target",
                "published",
                "accuracy",
                "best",
                "bytes up",
            ]
            .map(str::to_owned),
        );
        let mut lines = vec![heads];
        for (key, group) in groups {
            lines.push(key.into_iter().chain(figures(&group)).collect());
        }
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|i| lines.iter().map(|l| l[i].chars().count()).max().unwrap_or(0))
            .collect();
        for line in &lines {
            let cells = line
                .iter()
                .zip(&widths)
                .map(|(text, width)| format!("{text:<width$}"));
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        if seeds > 1 {
            writeln!(out, "Means of {seeds} seeds, with the lowest and the highest.")?;
        }
        Ok(())
    }
}

/// What a line says of the cells of one combination.
fn figures(group: &[&Value]) -> [String; 6] {
    let numbers = |key: &str| -> Vec<f64> { group.iter().filter_map(|c| c[key].as_f64()).collect() };
    let spread = |values: Vec<f64>, write: &dyn Fn(f64) -> String| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let (low, high) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        match values.len() {
            0 => "-".to_owned(),
            1 => write(mean),
            _ => format!("{} ({} to {})", write(mean), write(low), write(high)),
        }
    };
    let reached = numbers("rounds_to_target");
    let rounds = match reached.len() == group.len() {
        true => spread(reached, &|r| format!("{r:.1}")),
        false if group[0]["target"].is_null() => "-".to_owned(),
        false => format!("> {}", group[0]["rounds"]),
    };
    let percent = |x: f64| format!("{:.2} %", 100.0 * x);
    let bytes = group.iter().filter_map(|c| {
        let full = c["traffic"]["up_in_full"].as_f64().filter(|f| *f > 0.0)?;
        Some(c["traffic"]["up"].as_f64()? / full)
    });
    [
        plain(&group[0]["rate"]),
        rounds,
        plain(&group[0]["published"]),
        spread(numbers("accuracy"), &percent),
        spread(numbers("best_accuracy"), &percent),
        bytes
            .max_by(f64::total_cmp)
            .map_or("-".to_owned(), |b| format!("{b:.3}")),
    ]
}

/// A setting or figure as a person writes it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(table) => {
            let part = |(key, value): (&String, &Value)| match key.as_str() {
                "kind" => plain(value),
                _ => format!("{key} {}", plain(value)),
            };
            let (kind, rest): (Vec<_>, Vec<_>) = table.iter().partition(|(key, _)| *key == "kind");
            kind.into_iter()
                .chain(rest)
                .map(part)
                .collect::<Vec<_>>()
                .join(", ")
        }
        other => other.to_string(),
    }
}

/// Fewer rounds to the target, or a higher accuracy where it is not reached.
fn better(a: &Value, b: &Value) -> bool {
    match (a["rounds_to_target"].as_f64(), b["rounds_to_target"].as_f64()) {
        (Some(a), Some(b)) => a < b,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => a["best_accuracy"].as_f64() > b["best_accuracy"].as_f64(),
    }
}

fn number(value: &Setting) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|i| i as f64))
}

/// Puts a value at a dotted name.
fn set(table: &mut Table, name: &str, value: Setting) -> Result<(), String> {
    let (parents, last) = name.rsplit_once('.').unwrap_or(("", name));
    let mut at = table;
    for parent in parents.split('.').filter(|p| !p.is_empty()) {
        let entry = at.entry(parent).or_insert_with(|| Setting::Table(Table::new()));
        at = entry
            .as_table_mut()
            .ok_or_else(|| format!("goes through {parent:?}, which is no table"))?;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// A folder name for a run.
fn slug(settings: &Place) -> String {
    let part = |(name, value): &(String, Setting)| {
        let text = format!("{}-{value}", name.rsplit('.').next().unwrap_or(name));
        text.chars()
            .filter_map(|c| match c {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => Some(c),
                ' ' | '=' => Some('-'),
                _ => None,
            })
            .collect::<String>()
            .replace("--", "-")
            .replace("--", "-")
    };
    settings.iter().map(part).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_every_combination_and_published_figures_find_their_cell() {
        let text = r#"
            name = "g"
            [train]
            rate = 1.0
            [grid]
            "train.rate" = [0.1, 0.2]
            "federation.fraction" = [0.0, 0.1]
            "federation.partition" = ["iid", { shards = 2 }]
            [[published]]
            "federation.fraction" = 0.1
            "federation.partition" = { shards = 2 }
            rounds = 664
        "#;
        let grid = Grid::of(text, Path::new("x.toml"))
            .expect("read")
            .expect("a grid");
        let places = grid.places();
        assert_eq!(places.len(), 4);
        let figures: Vec<Value> = places.iter().map(|p| grid.published(p)).collect();
        assert_eq!(figures.iter().filter(|f| **f == json!(664.0)).count(), 1);
        let made: Table = grid.text(&places[3]).expect("written").parse().expect("read");
        assert_eq!(made["federation"]["partition"]["shards"].as_integer(), Some(2));
        assert!(!made.contains_key("grid") && !made.contains_key("published"));
        let slugs: std::collections::BTreeSet<String> = places.iter().map(slug).collect();
        assert_eq!(slugs.len(), 4, "{slugs:?}");
        assert!(Grid::of("[grid]\nx = 1", Path::new("x.toml")).is_err());
        assert!(
            Grid::of("name = 'a'", Path::new("x.toml"))
                .expect("read")
                .is_none()
        );
    }
}
