//! What this crate is the one place of stays so: no other crate puts files into their place or owns a random generator.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// By which generators are known: SplitMix64's step and multipliers, and that of Knuth's linear congruences.
const CONSTANTS: [&str; 4] = [
    "9e3779b97f4a7c15",
    "bf58476d1ce4e5b9",
    "94d049bb133111eb",
    "6364136223846793005",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate stands among the others")
        .to_owned()
}

/// All sources of all crates but this one, by their paths in the folder of crates.
fn sources() -> io::Result<Vec<(String, String)>> {
    let (mut folders, mut sources) = (vec![], vec![]);
    for entry in fs::read_dir(crates())? {
        let entry = entry?;
        let folder = entry.path().join("src");
        if entry.file_name() != "core" && folder.is_dir() {
            folders.push(folder);
        }
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let short = path.strip_prefix(crates()).unwrap_or(&path).display().to_string();
                sources.push((short, fs::read_to_string(&path)?));
            }
        }
    }
    Ok(sources)
}

fn renames(text: &str) -> bool {
    let is_call = |(at, _): (usize, &str)| {
        let before = text[..at].trim_end();
        before.ends_with("fs::") || (before.ends_with("::{") || before.ends_with(',')) && imports(before)
    };
    text.match_indices("rename").any(is_call)
}

/// Whether what stands before is an open list of names of `std::fs`.
fn imports(before: &str) -> bool {
    let list = before.rsplit(';').next().unwrap_or(before);
    list.contains("use std") && list.contains("fs")
}

fn owns_generator(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let plain = plain.to_lowercase();
    CONSTANTS.iter().any(|constant| plain.contains(constant))
}

/// No source but this crate's own does something.
fn nobody_else(does: impl Fn(&str) -> bool) -> io::Result<()> {
    let sources = sources()?;
    assert!(sources.len() > 100, "these are not the sources");
    let found = sources.iter().filter(|(_, text)| does(text));
    let found: Vec<&str> = found.map(|(path, _)| path.as_str()).collect();
    assert!(found.is_empty(), "{found:?}");
    Ok(())
}

#[test]
fn files_get_their_names_in_one_place() -> io::Result<()> {
    nobody_else(renames)
}

#[test]
fn random_numbers_come_from_one_place() -> io::Result<()> {
    nobody_else(owns_generator)
}

#[test]
fn both_are_known_however_they_are_written() {
    for text in [
        "fs::rename(&a, b)?",
        "std::fs::rename(a, b)",
        "use std::fs::{File, rename};",
        "use std::{fs::rename, io};",
    ] {
        assert!(renames(text), "{text}");
    }
    for text in [
        "#[serde(rename = \"a\")]",
        "let a = rename(b);",
        "// fs, and a rename",
    ] {
        assert!(!renames(text), "{text}");
    }
    for text in [
        "0x9e37_79b9_7f4a_7c15",
        "0x9E3779B97F4A7C15",
        "6_364_136_223_846_793_005",
    ] {
        assert!(owns_generator(text), "{text}");
    }
    assert!(!owns_generator("0x6a09_e667_f3bc_c908"));
}
