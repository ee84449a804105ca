//! Names with `*` in them, and files named by such.

use std::{
    cmp::Ordering,
    fs,
    path::{Component, Path, PathBuf},
};

use crate::error::{Error, Result};

/// Whether a name fits a pattern, in which `*` stands for any run of characters and `?` for one. Case counts.
pub fn matches(pattern: &str, name: &str) -> bool {
    fits(pattern.as_bytes(), name.as_bytes())
}

/// Greedy matching with one point to return to: time is at most the product of both lengths.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(b'?') => {
                p += 1;
                n += 1;
                // The rest of a character of several bytes.
                while name.get(n).is_some_and(|b| b & 0xc0 == 0x80) {
                    n += 1;
                }
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                Some((at, from)) => {
                    *from += 1;
                    (p, n) = (*at + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// Orders names as people do: runs of digits by their value, everything else by its bytes.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    loop {
        let (x, y) = match (left.first(), right.first()) {
            (Some(x), Some(y)) => (x, y),
            (x, y) => return x.is_some().cmp(&y.is_some()).then_with(|| a.cmp(b)),
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (m, n) = (digits(left), digits(right));
            let order = m.0.len().cmp(&n.0.len()).then_with(|| m.0.cmp(n.0));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (m.1, n.1);
        } else if x != y {
            return x.cmp(y);
        } else {
            (left, right) = (&left[1..], &right[1..]);
        }
    }
}

/// The digits that a text begins with, without leading zeros, and the rest.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let zeros = number.iter().position(|b| *b != b'0').unwrap_or(number.len());
    (&number[zeros..], rest)
}

/// The files whose paths fit a pattern, in natural order. `*` and `?` do not cross `/` and do not stand for the dot of a
/// hidden file. An error if there are none.
pub fn load_glob(pattern: &str) -> Result<Vec<PathBuf>> {
    let whole = Path::new(pattern);
    if whole.is_file() {
        return Ok(vec![whole.to_path_buf()]);
    }
    let mut found = vec![PathBuf::new()];
    for part in whole.components() {
        let text = part.as_os_str().as_encoded_bytes();
        if matches!(part, Component::Normal(_)) && text.iter().any(|b| matches!(b, b'*' | b'?')) {
            found = found.iter().flat_map(|folder| inside(folder, text)).collect();
        } else {
            found.iter_mut().for_each(|path| path.push(part));
        }
    }
    found.retain(|path| path.is_file());
    found.sort_by(|a, b| natural_order(&a.to_string_lossy(), &b.to_string_lossy()).then_with(|| a.cmp(b)));
    match found.is_empty() {
        true => Err(Error::Setting(format!(
            "no file matches {pattern:?}; check the path, which starts from the current folder unless it begins with /"
        ))),
        false => Ok(found),
    }
}

fn inside(folder: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let here = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = fs::read_dir(here).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name()).filter(|name| {
        let bytes = name.as_encoded_bytes();
        fits(pattern, bytes) && (!bytes.starts_with(b".") || pattern.starts_with(b"."))
    });
    names.map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, by trying every length of every star.
    fn oracle(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|n| oracle(rest, &name[n..])),
            Some((b'?', rest)) => !name.is_empty() && oracle(rest, &name[1..]),
            Some((byte, rest)) => name.first() == Some(byte) && oracle(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_its_definition(pattern in "[ab*?]{0,7}", name in "[ab]{0,8}") {
            prop_assert_eq!(matches(&pattern, &name), oracle(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn natural_order_is_an_order(names in proptest::collection::vec("[a0-9-]{0,6}", 3)) {
            let (a, b, c) = (&names[0], &names[1], &names[2]);
            prop_assert_eq!(natural_order(a, b), natural_order(b, a).reverse());
            if natural_order(a, b).is_le() && natural_order(b, c).is_le() {
                prop_assert!(natural_order(a, c).is_le());
            }
        }
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        assert_eq!(natural_order("machine-1-2", "machine-1-10"), Ordering::Less);
        assert_eq!(natural_order("node010", "node9"), Ordering::Greater);
        assert_eq!(natural_order("n1", "n1a"), Ordering::Less);
    }

    #[test]
    fn a_question_mark_is_one_character_of_any_width() {
        assert!(matches("?x", "éx"));
        assert!(!matches("?", "ab"));
    }

    #[test]
    fn globs_find_files_in_natural_order_and_say_when_there_are_none() -> Result<()> {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["m-10.csv", "m-2.csv", "other.txt", ".hidden.csv"] {
            fs::write(folder.path().join(name), "x").expect("written");
        }
        fs::create_dir(folder.path().join("folder.csv")).expect("made");
        let found = load_glob(&format!("{}/*.csv", folder.path().display()))?;
        let names: Vec<_> = found.iter().filter_map(|p| p.file_name()).collect();
        assert_eq!(names, ["m-2.csv", "m-10.csv"]);
        let error = load_glob(&format!("{}/*.parquet", folder.path().display())).expect_err("nothing");
        assert!(error.to_string().contains("*.parquet"), "{error}");
        Ok(())
    }
}
