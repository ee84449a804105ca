//! How a crate owns its section of a configuration, in whatever language the file is written.

use std::fmt;

use serde::de::DeserializeOwned;

/// A section of a configuration file: the words as people write them, and what they mean once they are checked.
///
/// Whoever reads the file brings the written form, shows what is wrong where it stands, and knows nothing of the words.
pub trait Section: Sized {
    /// Its name in the file, such as `alarm`.
    const NAME: &'static str;
    /// What stands in the file.
    type Written: DeserializeOwned;

    /// What is meant, or the first mistake. Keys of mistakes are those within the section.
    fn check(written: Self::Written) -> Result<Self, Mistake>;
}

/// What is wrong in a configuration, and at which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key with those above it, parted by dots; empty if it is all of a section, or of a file.
    pub key: String,
    /// What is wrong with it, and what to write instead.
    pub problem: String,
}

impl Mistake {
    /// At a key.
    pub fn at(key: impl Into<String>, problem: impl Into<String>) -> Mistake {
        Mistake {
            key: key.into(),
            problem: problem.into(),
        }
    }

    /// In a section as a whole.
    pub fn here(problem: impl Into<String>) -> Mistake {
        Mistake::at("", problem)
    }

    /// The same as seen from outside of a table.
    pub fn within(self, table: &str) -> Mistake {
        let key = match self.key.as_str() {
            "" => table.to_owned(),
            key => format!("{table}.{key}"),
        };
        Mistake { key, ..self }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => f.write_str(&self.problem),
            key => write!(f, "`{key}`: {}", self.problem),
        }
    }
}

impl std::error::Error for Mistake {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_seen_from_the_file() {
        let inner = Mistake::at("timeout", "is too short").within("round");
        assert_eq!(inner.within("federation").key, "federation.round.timeout");
        let whole = Mistake::here("is empty");
        assert_eq!(whole.to_string(), "is empty");
        assert_eq!(whole.within("data").to_string(), "`data`: is empty");
    }
}
