//! What a configuration is about.

use serde::Deserialize;

/// What a configuration describes. Every file says it in its first words, `kind = "train"`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// A network, trained on rows, alone or by a federation.
    Train,
    /// Detectors of nodes, learnt from windows.
    Watch,
}

/// Sections that only one kind has.
const OWN: [(&str, RunKind); 6] = [
    ("model", RunKind::Train),
    ("train", RunKind::Train),
    ("augment", RunKind::Train),
    ("detector", RunKind::Watch),
    ("alarm", RunKind::Watch),
    ("split", RunKind::Watch),
];

impl RunKind {
    /// The kind as it is written.
    pub fn name(self) -> &'static str {
        match self {
            RunKind::Train => "train",
            RunKind::Watch => "watch",
        }
    }

    /// What a file that does not say its kind is told.
    pub(super) fn missing<'a>(keys: impl Iterator<Item = &'a str>) -> String {
        let mut found = keys.filter_map(|key| OWN.iter().find(|(own, _)| *own == key));
        let seems = match found.next() {
            None => String::new(),
            Some((section, kind)) => {
                format!("; with its [{section}] it seems to be kind = \"{}\"", kind.name())
            }
        };
        format!(
            "the file does not say its `kind`: write kind = \"train\" for networks and federations, or kind = \"watch\" for \
             detectors of nodes, above all sections{seems}"
        )
    }
}
