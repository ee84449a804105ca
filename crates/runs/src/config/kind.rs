//! What a configuration is about.

use serde::Deserialize;

/// What a configuration describes. Every file says it in its first words, `kind = "train"`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A network, trained on rows, alone or by a federation.
    Train,
    /// Detectors of nodes, learnt from windows.
    Watch,
}

/// Sections that only one kind has.
const OWN: [(&str, Kind); 6] = [
    ("model", Kind::Train),
    ("train", Kind::Train),
    ("augment", Kind::Train),
    ("detector", Kind::Watch),
    ("alarm", Kind::Watch),
    ("split", Kind::Watch),
];

impl Kind {
    /// The kind as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Train => "train",
            Kind::Watch => "watch",
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
