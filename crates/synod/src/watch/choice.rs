//! How nodes chose between learning alone and with others, in words.

use synod_fleet::Choice;

/// How a node chooses, in a sentence.
pub(super) const CHOOSING: &str = "A node learns alone if others make the last quarter of the training time harder to foretell, its \
                                   own or most nodes'; one that has just joined goes by the others.";

/// How many nodes chose to learn alone; nothing if none had a choice.
pub(super) fn chosen(choices: &[Choice]) -> Option<String> {
    let alone = choices.iter().filter(|c| !c.federated).count();
    (!choices.is_empty()).then(|| format!("{alone} of {} nodes chose to learn alone.", choices.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_how_many_learn_alone() {
        let choice = |federated| Choice {
            node: "n".to_owned(),
            federated,
            gain: 0.0,
        };
        assert_eq!(chosen(&[]), None);
        let said = chosen(&[choice(true), choice(false), choice(true)]);
        assert_eq!(said.as_deref(), Some("1 of 3 nodes chose to learn alone."));
    }
}
