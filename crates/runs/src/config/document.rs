//! A configuration file, its sections still in the words of whoever wrote it.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use synod_core::Digest;
use synod_core::config::{Mistake, Section};
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table};

use super::fault::{fault, in_words, these};
use super::kind::RunKind;
use super::nearest::nearest;
use crate::error::{Error, Result};

/// A file larger than this is no configuration.
const LARGEST: u64 = 1 << 20;
/// What every file may say above its sections.
const COMMON: [&str; 3] = ["kind", "name", "seed"];
/// What makes one file many trials.
pub(crate) const TRIALS: [&str; 2] = ["grid", "published"];
/// Runs of files without a seed have this one.
const SEED: u64 = 1;

/// A configuration: a TOML file with a kind, a name, a seed and sections.
///
/// ```
/// use synod_runs::{Document, RunKind};
/// let document = Document::of("kind = \"watch\"\n[alarm]\npercentile = 98\n", "site.toml").unwrap();
/// assert_eq!((document.kind().unwrap(), document.name().unwrap().as_str()), (RunKind::Watch, "site"));
/// let said = document.allow(&["data", "alarms"]).unwrap_err().to_string();
/// assert!(said.starts_with("site.toml:2: unknown section [alarm]; did you mean [alarms]?"));
/// ```
#[derive(Clone, Debug)]
pub struct Document {
    path: PathBuf,
    /// What was written, with its lines.
    source: String,
    /// What a trial has in place of what was written: names in `[grid]` and the place in its list.
    chosen: Vec<(String, usize)>,
    /// What the run's folder keeps: the source or, of a trial, its own configuration.
    text: String,
}

/// All of a file.
type Tree<'a> = Spanned<DeTable<'a>>;

impl Document {
    /// Reads a file.
    pub fn read(path: impl AsRef<Path>) -> Result<Document> {
        let path = path.as_ref();
        let reading = "read the configuration";
        let length = std::fs::metadata(path).map_err(Error::io(reading, path))?.len();
        if length > LARGEST {
            let file = path.display();
            return Err(Error::Mistake(format!(
                "{file}: {length} bytes are no configuration"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(Error::io(reading, path))?;
        Document::of(text, path)
    }

    /// From a text that stands, or is to stand, at a path.
    pub fn of(text: impl Into<String>, path: impl AsRef<Path>) -> Result<Document> {
        let source = text.into();
        let document = Document {
            path: path.as_ref().to_owned(),
            chosen: vec![],
            text: source.clone(),
            source,
        };
        if let Err(e) = DeTable::parse(&document.source) {
            return Err(document.fault(e.span(), &in_words(e.message(), "")));
        }
        Ok(document)
    }

    /// The same with values chosen from its `[grid]`. The text is what the trial's folder keeps.
    pub(crate) fn trial(&self, chosen: Vec<(String, usize)>, text: String) -> Document {
        Document {
            chosen,
            text,
            ..self.clone()
        }
    }

    /// Where the file stands.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder to which paths in the file are relative.
    pub fn base(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// The configuration of this run, as its folder keeps it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The digest of [`Document::text`], by which models know what made them.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }

    /// What the file is about. It must be said.
    pub fn kind(&self) -> Result<RunKind> {
        match self.get("kind")? {
            Some(kind) => Ok(kind),
            None => {
                let tree = self.tree();
                let keys = tree.get_ref().keys().map(|key| key.get_ref().as_ref());
                Err(self.fault(None, &RunKind::missing(keys)))
            }
        }
    }

    /// Refuses a file that is about something else. `doing` says who asks.
    pub fn expect(&self, kind: RunKind, doing: &str) -> Result<()> {
        match self.kind()? {
            found if found == kind => Ok(()),
            found => {
                let (wanted, found) = (kind.name(), found.name());
                let problem =
                    format!("{doing} reads kind = \"{wanted}\", and this file is kind = \"{found}\"");
                Err(self.refuse(&Mistake::at("kind", problem)))
            }
        }
    }

    /// The name of the run, which becomes a folder: the one given, or the file's.
    pub fn name(&self) -> Result<String> {
        let given: Option<String> = self.get("name")?;
        let stem = || self.path.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = given.or_else(stem).unwrap_or_default();
        let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        match !name.is_empty() && name.len() <= 100 && name.chars().all(plain) && !name.starts_with('.') {
            true => Ok(name),
            false => Err(self.refuse(&Mistake::at(
                "name",
                format!("{name:?} cannot name a run, which becomes a folder; set `name`, of letters, digits, `-`, `_` and `.`"),
            ))),
        }
    }

    /// The seed of everything random.
    pub fn seed(&self) -> Result<u64> {
        Ok(self.get("seed")?.unwrap_or(SEED))
    }

    /// Refuses sections other than these and those that make trials.
    pub fn allow(&self, sections: &[&str]) -> Result<()> {
        let tree = self.tree();
        let known = |key: &str| sections.contains(&key) || COMMON.contains(&key) || TRIALS.contains(&key);
        let Some((key, value)) = tree.get_ref().iter().find(|(key, _)| !known(key.get_ref())) else {
            return Ok(());
        };
        let name = key.get_ref().as_ref();
        let problem = match value.get_ref().is_table() {
            true => {
                let all = sections.iter().chain(&TRIALS).copied();
                let meant = nearest(name, all).map(|meant| format!("; did you mean [{meant}]?"));
                format!(
                    "unknown section [{name}]{}{}",
                    meant.unwrap_or_default(),
                    these(sections)
                )
            }
            false => {
                let meant = nearest(name, COMMON).map(|meant| format!("; did you mean `{meant}`?"));
                format!(
                    "unknown key `{name}`{}{}",
                    meant.unwrap_or_default(),
                    these(&COMMON)
                )
            }
        };
        Err(self.fault(Some(key.span()), &problem))
    }

    /// Whether there is a section of this name.
    pub fn has(&self, section: &str) -> bool {
        self.tree().get_ref().contains_key(section)
    }

    /// A section that must be there.
    pub fn section<S: Section>(&self) -> Result<S> {
        let name = S::NAME;
        let missing = || self.fault(None, &format!("there is no section [{name}], which is needed"));
        self.optional::<S>()?.ok_or_else(missing)
    }

    /// A section that may be left out.
    pub fn optional<S: Section>(&self) -> Result<Option<S>> {
        let Some(written) = self.get(S::NAME)? else {
            return Ok(None);
        };
        let checked = S::check(written);
        checked
            .map(Some)
            .map_err(|mistake| self.refuse(&mistake.within(S::NAME)))
    }

    /// A section that counts as empty where it is left out.
    pub fn or_empty<S: Section>(&self) -> Result<S> {
        match self.optional()? {
            Some(section) => Ok(section),
            None => {
                let empty = Spanned::new(0..0, DeValue::Table(DeTable::new()));
                let written = S::Written::deserialize(ValueDeserializer::from(empty));
                let written = written.map_err(|e| self.fault(None, &in_words(e.message(), S::NAME)))?;
                S::check(written).map_err(|mistake| self.refuse(&mistake.within(S::NAME)))
            }
        }
    }

    /// The error that shows a mistake at the line of its key, or of the nearest key above it.
    pub fn refuse(&self, mistake: &Mistake) -> Error {
        self.fault(self.place(&mistake.key), &mistake.problem)
    }

    /// Whether both say the same, however they are written.
    pub fn says_the_same_as(&self, text: &str) -> bool {
        let read = |text: &str| text.parse::<Table>().ok();
        read(&self.text).is_some_and(|own| read(text) == Some(own))
    }

    fn fault(&self, span: Option<Range<usize>>, problem: &str) -> Error {
        fault(&self.path, &self.source, span, problem)
    }

    /// A single value at a dotted key, for whoever chooses by it who reads a section.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let (parents, last) = key.rsplit_once('.').unwrap_or(("", key));
        let mut table = self.tree().into_inner();
        for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
            table = match table.remove(parent).map(Spanned::into_inner) {
                Some(DeValue::Table(inner)) => inner,
                _ => return Ok(None),
            };
        }
        let Some(value) = table.remove(last) else {
            return Ok(None);
        };
        let span = value.span();
        let read = T::deserialize(ValueDeserializer::from(value));
        read.map(Some)
            .map_err(|e| self.fault(e.span().or(Some(span)), &in_words(e.message(), key)))
    }

    /// The span of the deepest key that stands in the file.
    fn place(&self, key: &str) -> Option<Range<usize>> {
        let tree = self.tree();
        let (mut table, mut found) = (tree.get_ref(), None);
        for part in key.split('.') {
            let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == part) else {
                break;
            };
            found = Some(key.span());
            match value.get_ref().as_table() {
                Some(inner) => table = inner,
                None => break,
            }
        }
        found
    }

    /// All of the file, with what a trial has chosen. It was parsed before.
    fn tree(&self) -> Tree<'_> {
        let empty = |_| Spanned::new(0..0, DeTable::new());
        let mut tree = DeTable::parse(&self.source).unwrap_or_else(empty);
        for (name, place) in &self.chosen {
            let grid = tree
                .get_ref()
                .get("grid")
                .and_then(|grid| grid.get_ref().as_table());
            let axis = grid.and_then(|grid| grid.get_key_value(name.as_str()));
            let value =
                axis.and_then(|(key, values)| Some((key.span(), values.get_ref().get(*place)?.clone())));
            if let Some((span, value)) = value {
                put(tree.get_mut(), name, span, value);
            }
        }
        if !self.chosen.is_empty() {
            TRIALS.iter().for_each(|key| drop(tree.get_mut().remove(*key)));
        }
        tree
    }
}

/// Puts a value of a grid at its dotted name; its lines stay those of the grid.
fn put<'a>(table: &mut DeTable<'a>, name: &str, span: Range<usize>, value: Spanned<DeValue<'a>>) {
    let (first, rest) = name
        .split_once('.')
        .map_or((name, None), |(first, rest)| (first, Some(rest)));
    let key = || Spanned::new(span.clone(), Cow::Owned(first.to_owned()));
    let Some(rest) = rest else {
        table.remove(first);
        table.insert(key(), value);
        return;
    };
    if !table.contains_key(first) {
        let empty = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        table.insert(key(), empty);
    }
    if let Some(DeValue::Table(inner)) = table.get_mut(first).map(Spanned::get_mut) {
        put(inner, rest, span, value);
    }
}
