//! Texts as rows: so many characters, and for each the one that comes next.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use synod_data::readers::{Speaker, speakers};

use super::config::DataConfig;
use super::data::{Rows, Split};
use super::scale::Scale;

/// Characters in a row unless the configuration says another number.
const LENGTH: usize = 80;

/// Rows of all speakers, each of whom owns his own. Classes are the characters that the training texts hold, in the order of
/// their code points, after one that stands for all others.
pub(super) fn load(config: &DataConfig, base: &Path) -> Result<Split> {
    let path = base.join(&config.train);
    let all = speakers(&path).context("cannot use the texts")?;
    let length = config.length.map_or(LENGTH, |l| l.get());
    let alphabet: BTreeSet<char> = all
        .iter()
        .flat_map(|s| text(&s.train).chars().collect::<Vec<_>>())
        .collect();
    let alphabet: Vec<char> = alphabet.into_iter().collect();
    let empty = || Rows {
        width: length,
        targets: length,
        from: path.display().to_string(),
        ..Rows::default()
    };
    let (mut train, mut test) = (empty(), empty());
    let heard = |s: &&Speaker| text(&s.train).chars().count() > 1;
    for (owner, speaker) in all.iter().filter(heard).enumerate() {
        add(&mut train, &speaker.train, owner as u32, &alphabet);
        add(&mut test, &speaker.test, owner as u32, &alphabet);
    }
    ensure!(
        train.len() > 0 && test.len() > 0,
        "{}: there are no texts to learn from or none to be judged by",
        path.display()
    );
    Ok(Split::new(train, None, Some(test), Scale::by(1.0)))
}

fn text(lines: &[String]) -> String {
    lines.join("\n")
}

/// Cuts a text into rows. The last one reaches back so that it is whole, and a text shorter than a row is said again.
fn add(rows: &mut Rows, lines: &[String], owner: u32, alphabet: &[char]) {
    let class = |c: char| alphabet.binary_search(&c).map_or(0, |i| i + 1) as f32;
    let codes: Vec<f32> = text(lines).chars().map(class).collect();
    let length = rows.width;
    if codes.len() < 2 {
        return;
    }
    let codes: Vec<f32> = match codes.len() > length {
        true => codes,
        false => codes.iter().copied().cycle().take(length + 1).collect(),
    };
    let last = codes.len() - length - 1;
    for start in (0..=last)
        .step_by(length)
        .chain((!last.is_multiple_of(length)).then_some(last))
    {
        rows.inputs.extend_from_slice(&codes[start..start + length]);
        rows.classes
            .extend_from_slice(&codes[start + 1..start + length + 1]);
        rows.groups.push(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_foretold_and_short_texts_are_said_again() {
        let mut rows = Rows {
            width: 4,
            targets: 4,
            ..Rows::default()
        };
        let alphabet: Vec<char> = "abcdefghij".chars().collect();
        add(&mut rows, &["abcdefghij".into()], 3, &alphabet);
        assert_eq!(
            rows.inputs,
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 6.0, 7.0, 8.0, 9.0]
        );
        assert_eq!(rows.classes[8..], [7.0, 8.0, 9.0, 10.0]);
        assert_eq!((rows.len(), rows.groups), (3, vec![3; 3]));
        let mut short = Rows {
            width: 4,
            targets: 4,
            ..Rows::default()
        };
        add(&mut short, &["ab".into()], 0, &alphabet);
        assert_eq!(
            (short.inputs, short.classes),
            (vec![1.0, 2.0, 1.0, 2.0], vec![2.0, 1.0, 2.0, 1.0])
        );
    }
}
