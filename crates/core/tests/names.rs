//! One meaning per name: a public type whose name is public in another crate too is a known exception, with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const LAYER: &str = "a layer, its op and the kernel that computes it bear the layer's name";
const MIRROR: &str = "the op of a graph mirrors its kernel one to one, and files name ops";

/// Names that stand for several types, who has them, and why.
const SEVERAL: &[(&str, &[&str], &str)] = &[
    ("Activation", &["kernels", "nn"], LAYER),
    (
        "Alarm",
        &["detect", "insight"],
        "what was raised, and what a page shows of it",
    ),
    ("BatchNorm", &["engine", "kernels", "nn"], LAYER),
    ("Binary", &["engine", "kernels"], MIRROR),
    ("Conv", &["engine", "kernels"], MIRROR),
    ("Dense", &["kernels", "nn"], LAYER),
    (
        "Event",
        &["core", "evaluate"],
        "a line of a log, and a run of alarms as it is counted",
    ),
    (
        "Fit",
        &["detect", "nn"],
        "how a detector's member is fitted, and how a model is",
    ),
    (
        "Lstm",
        &["detect", "engine", "kernels", "nn"],
        "as Conv, and the detector that is such a network",
    ),
    ("Pool", &["engine", "kernels"], MIRROR),
    (
        "Random",
        &["core", "engine"],
        "the generator, and the op that files name so",
    ),
    ("Reduction", &["engine", "kernels"], MIRROR),
    (
        "Rule",
        &["detect", "engine", "kernels"],
        "an optimiser's step and its kernel, and a detector's choice of one",
    ),
    (
        "Scored",
        &["detect", "evaluate"],
        "a window with its score, and a node's windows with theirs",
    ),
    (
        "Shape",
        &["engine", "fleet"],
        "extents of a tensor, and how a node's metrics vary together",
    ),
    ("Unary", &["engine", "kernels"], MIRROR),
];

/// Every library crate has its own.
const BY_RULE: [&str; 2] = ["Error", "Result"];

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate stands among the others")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The public types that a source defines. One in a private module is public too, or the compiler would refuse the word.
fn public_types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (kind, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        ["struct", "enum", "trait", "type"]
            .contains(&kind)
            .then(|| &rest[..end.unwrap_or(rest.len())])
    })
}

/// Names of public types, and the crates that have one of that name.
fn owners() -> io::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in fs::read_dir(crates())? {
        let (entry, mut files) = (entry?, vec![]);
        let folder = entry.path().join("src");
        if folder.is_dir() {
            sources(&folder, &mut files)?;
        }
        for file in files {
            for name in public_types(&fs::read_to_string(file)?) {
                let owner = entry.file_name().to_string_lossy().into_owned();
                owners.entry(name.to_owned()).or_default().insert(owner);
            }
        }
    }
    Ok(owners)
}

#[test]
fn a_public_name_means_one_thing() -> io::Result<()> {
    let owners = owners()?;
    assert!(owners.len() > 300, "these are not the sources");
    let several: BTreeMap<&str, BTreeSet<&str>> = owners
        .iter()
        .filter(|(name, owners)| owners.len() > 1 && !BY_RULE.contains(&name.as_str()))
        .map(|(name, owners)| (name.as_str(), owners.iter().map(String::as_str).collect()))
        .collect();
    let known: BTreeMap<&str, BTreeSet<&str>> = SEVERAL
        .iter()
        .map(|(name, owners, _)| (*name, owners.iter().copied().collect()))
        .collect();
    let new: Vec<_> = several
        .iter()
        .filter(|(name, owners)| known.get(*name) != Some(owners))
        .collect();
    let gone: Vec<_> = known
        .iter()
        .filter(|(name, owners)| several.get(*name) != Some(owners))
        .collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "name these types so that each name means one thing: {new:?}; take these off the list, or mend it: {gone:?}"
    );
    Ok(())
}

#[test]
fn types_are_found_however_they_are_written() {
    let text = "
pub struct Plain;
    pub enum Inside<'a> {
pub trait Held: Sync {
pub type Short<'a> = dyn Fn() + 'a;
pub(crate) struct Own;
struct Private;
/// pub struct Told;
pub fn one() {}
pub struct Tuple(u8);";
    let found: Vec<&str> = public_types(text).collect();
    assert_eq!(found, ["Plain", "Inside", "Held", "Short", "Tuple"]);
}
