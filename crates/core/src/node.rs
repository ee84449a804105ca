//! Names of nodes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;

/// A node's name: a name, and not a way out of a folder in which a file is named after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(String);

impl NodeId {
    /// The longest name, in bytes, so that an extension still fits the name of a file.
    pub const LONGEST: usize = 200;

    /// A name without path separators, control characters and a leading dot, of 1 to [`NodeId::LONGEST`] bytes.
    pub fn new(name: impl Into<String>) -> Result<NodeId, Error> {
        let name = name.into();
        let problem = match name.as_str() {
            "" => "it is empty",
            n if n.len() > NodeId::LONGEST => "it is longer than 200 bytes",
            n if n.starts_with('.') => "it begins with a dot",
            n if n.contains(['/', '\\']) => "it has a path separator in it",
            n if n.contains(char::is_control) => "it has a control character in it",
            _ => return Ok(NodeId(name)),
        };
        let name = name.chars().take(60).collect();
        Err(Error::NodeId { name, problem })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for NodeId {
    type Err = Error;

    fn from_str(name: &str) -> Result<NodeId, Error> {
        NodeId::new(name)
    }
}

impl AsRef<str> for NodeId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// So that a map by node is asked with a text; both are in the same order.
impl std::borrow::Borrow<str> for NodeId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeId, D::Error> {
        NodeId::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_nodes_are_names() {
        for name in ["n1", "r205n03.example.org", "gpu 7", "knoten-ä", "1"] {
            assert_eq!(name.parse::<NodeId>().map(|n| n.to_string()).as_deref(), Ok(name));
        }
        assert!(NodeId::new("n".repeat(NodeId::LONGEST)).is_ok());
    }

    #[test]
    fn ways_out_of_a_folder_are_refused_with_the_reason() {
        for (name, problem) in [
            ("", "empty"),
            (".", "dot"),
            ("..", "dot"),
            (".hidden", "dot"),
            ("/etc/passwd", "separator"),
            ("a/../b", "separator"),
            ("a\\b", "separator"),
            ("a\nb", "control"),
            ("a\0b", "control"),
            (&"n".repeat(NodeId::LONGEST + 1), "200 bytes"),
        ] {
            let said = NodeId::new(name).expect_err(name).to_string();
            assert!(said.contains(problem) && said.len() < 200, "{name:?}: {said}");
        }
    }

    #[test]
    fn what_is_read_is_checked() {
        assert_eq!(
            serde_json::from_str::<NodeId>("\"n1\"").ok(),
            NodeId::new("n1").ok()
        );
        assert!(serde_json::from_str::<NodeId>("\"../n1\"").is_err());
        let written = NodeId::new("n1").map(|n| serde_json::to_string(&n).ok());
        assert_eq!(written, Ok(Some("\"n1\"".to_owned())));
    }

    proptest! {
        #[test]
        fn a_file_named_after_a_node_lies_in_its_folder(name in "\\PC{0,12}|[./a]{0,6}") {
            if let Ok(node) = NodeId::new(name) {
                let file = Path::new("folder").join(format!("{node}.part"));
                prop_assert_eq!(file.parent(), Some(Path::new("folder")));
                prop_assert_eq!(file.components().count(), 2);
            }
        }
    }
}
