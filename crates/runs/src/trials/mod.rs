//! Many runs of one configuration: every combination of the settings in its `[grid]`.

mod names;
mod table;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use synod_core::config::Mistake;
use toml::{Table, Value as Setting};

use self::names::slug;
pub use self::table::{plain, table};
use crate::config::Document;
use crate::error::{Error, Result};

/// More trials than this are taken for a mistake.
const MOST: usize = 1000;

/// The values of a trial, by their names.
pub type TrialSettings = Vec<(String, Setting)>;

/// A configuration whose `[grid]` lists values of settings.
#[derive(Clone, Debug)]
pub struct Grid {
    document: Document,
    /// The configuration without the grid.
    base: Table,
    axes: Vec<(String, Vec<Setting>)>,
    published: Vec<Table>,
}

/// One combination.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What was chosen.
    pub settings: TrialSettings,
    /// The configuration that it comes to.
    pub document: Document,
    /// The name of its folder.
    pub name: String,
}

impl Trial {
    /// Its folder among those of the grid.
    pub fn folder(&self, grid: &Path) -> PathBuf {
        grid.join(&self.name)
    }
}

impl Grid {
    /// The grid of a configuration, if it has one.
    pub fn of(document: &Document) -> Result<Option<Grid>> {
        let wrong = |key: &str, problem: String| document.refuse(&Mistake::at(key, problem));
        let mut base: Table = document.text().parse().map_err(|e| wrong("", format!("{e}")))?;
        let (Some(grid), published) = (base.remove("grid"), base.remove("published")) else {
            return Ok(None);
        };
        let Setting::Table(grid) = grid else {
            return Err(wrong(
                "grid",
                "is a table of settings with lists of values".into(),
            ));
        };
        let mut axes = vec![];
        for (name, values) in grid {
            match values {
                Setting::Array(values) if !values.is_empty() => axes.push((name, values)),
                _ => {
                    let problem = format!("{name:?} needs a list of values, such as [0.1, 0.2]");
                    return Err(wrong("grid", problem));
                }
            }
        }
        let published = match published {
            None => vec![],
            Some(Setting::Array(all)) => all.into_iter().filter_map(|p| p.as_table().cloned()).collect(),
            Some(_) => return Err(wrong("published", "[[published]] is a list of tables".into())),
        };
        let trials = axes
            .iter()
            .try_fold(1usize, |all, (_, values)| all.checked_mul(values.len()));
        if let Some(trials) = trials.map_or(Some(usize::MAX), |t| (t > MOST).then_some(t)) {
            return Err(wrong("grid", format!("{trials} runs are more than {MOST}")));
        }
        Ok(Some(Grid {
            document: document.clone(),
            base,
            axes,
            published,
        }))
    }

    /// The names of the settings that vary.
    pub fn axes(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|(name, _)| name.as_str())
    }

    /// The values of a setting that varies; none if it does not.
    pub fn values(&self, axis: &str) -> &[Setting] {
        let found = self.axes.iter().find(|(name, _)| name == axis);
        found.map_or(&[], |(_, values)| values)
    }

    /// All combinations of the settings but for some, the last varying fastest.
    pub fn combinations(&self, apart: &[&str]) -> Vec<TrialSettings> {
        let mut all: Vec<TrialSettings> = vec![vec![]];
        for (name, values) in self
            .axes
            .iter()
            .filter(|(name, _)| !apart.contains(&name.as_str()))
        {
            let with = |settings: &TrialSettings, value: &Setting| {
                [&settings[..], &[(name.clone(), value.clone())]].concat()
            };
            all = all
                .iter()
                .flat_map(|settings| values.iter().map(move |value| with(settings, value)))
                .collect();
        }
        all
    }

    /// The trial of a combination. Its mistakes are shown at their lines in the file.
    pub fn trial(&self, settings: TrialSettings) -> Result<Trial> {
        let mut table = self.base.clone();
        table.remove("name");
        let wrong = |problem: String| self.document.refuse(&Mistake::at("grid", problem));
        let mut chosen = vec![];
        for (name, value) in &settings {
            set(&mut table, name, value.clone()).map_err(|e| wrong(format!("{name:?} {e}")))?;
            let place = self.values(name).iter().position(|v| v == value);
            chosen.extend(place.map(|place| (name.clone(), place)));
        }
        let text = toml::to_string(&table).map_err(|e| wrong(e.to_string()))?;
        let name = match slug(&settings) {
            name if name.is_empty() => "all".to_owned(),
            name => name,
        };
        Ok(Trial {
            document: self.document.trial(chosen, text),
            settings,
            name,
        })
    }

    /// Runs every combination by `one`, which is told the trial and its folder and gives the trial's result.
    pub fn run<E: From<Error>>(
        &self,
        runs: &Path,
        one: &mut dyn FnMut(&Trial, &Path) -> Result<Value, E>,
    ) -> Result<Vec<Value>, E> {
        let trials: Vec<Trial> = self.all()?;
        let mut results = vec![];
        for trial in &trials {
            let result = one(trial, &trial.folder(runs))?;
            results.push(json!({ "settings": settings_json(&trial.settings), "result": result }));
        }
        Ok(results)
    }

    /// Every trial.
    pub fn all(&self) -> Result<Vec<Trial>> {
        self.combinations(&[])
            .into_iter()
            .map(|settings| self.trial(settings))
            .collect()
    }

    /// What others have published for a combination: rounds or an accuracy.
    pub fn published(&self, settings: &TrialSettings) -> Option<f64> {
        let fits = |table: &&Table| {
            let axis = |key: &String| self.axes.iter().any(|(axis, _)| axis == key);
            let named: Vec<(&String, &Setting)> = table.iter().filter(|(key, _)| axis(key)).collect();
            let chosen = |key: &String, value: &Setting| settings.iter().any(|(k, v)| k == key && v == value);
            !named.is_empty() && named.iter().all(|(key, value)| chosen(key, value))
        };
        let found = self.published.iter().find(fits)?;
        let figure = found.get("rounds").or(found.get("accuracy"))?;
        figure.as_float().or(figure.as_integer().map(|i| i as f64))
    }
}

/// TrialSettings as an object.
pub fn settings_json(settings: &TrialSettings) -> Value {
    let pair = |(name, value): &(String, Setting)| (name.clone(), json!(value));
    Value::Object(settings.iter().map(pair).collect::<Map<_, _>>())
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TEXT: &str = r#"
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

    fn grid(text: &str) -> Result<Option<Grid>> {
        Grid::of(&Document::of(text, "x.toml")?)
    }

    #[test]
    fn a_grid_is_every_combination_and_published_figures_find_their_cell() {
        let grid = grid(TEXT).expect("read").expect("a grid");
        let places = grid.combinations(&["train.rate"]);
        assert_eq!((places.len(), grid.all().expect("trials").len()), (4, 8));
        let figures: Vec<Option<f64>> = places.iter().map(|p| grid.published(p)).collect();
        assert_eq!(figures.iter().filter(|f| **f == Some(664.0)).count(), 1);
        let trial = grid.trial(places[3].clone()).expect("a trial");
        let made: Table = trial.document.text().parse().expect("read");
        assert_eq!(made["federation"]["partition"]["shards"].as_integer(), Some(2));
        assert!(!made.contains_key("grid") && !made.contains_key("published") && !made.contains_key("name"));
        let names: BTreeSet<String> = grid.all().expect("trials").into_iter().map(|t| t.name).collect();
        assert_eq!(names.len(), 8, "{names:?}");
    }

    #[test]
    fn what_is_no_grid_is_refused_with_its_line() {
        assert!(grid("name = 'a'").expect("read").is_none());
        for (text, said) in [
            ("\n[grid]\nx = 1", "x.toml:2: \"x\" needs a list"),
            ("grid = 1", "x.toml:1: is a table"),
            (
                "[a]\nb = 1\n[grid]\n\"a.b.c\" = [1]",
                "\"a.b.c\" goes through \"b\"",
            ),
        ] {
            let refused = grid(text).and_then(|grid| grid.map_or(Ok(vec![]), |g| g.all()));
            let refused = refused.expect_err(text).to_string();
            assert!(refused.contains(said), "{refused}");
        }
        let many = format!("[grid]\na = {0:?}\nb = {0:?}", [0; 40]);
        assert!(
            grid(&many)
                .expect_err("too many")
                .to_string()
                .contains("1600 runs")
        );
    }
}
