//! Which module of PyTorch is which part of a model.

use std::collections::{BTreeMap, BTreeSet};

use synod_nn::Model;

use super::tensors::Array;

/// What a module computes, as its tensors tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Conv,
    Dense,
    Norm,
    Embedding,
    Lstm,
    Gru,
}

/// A module of PyTorch; one layer of it, if it is recurrent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Module {
    pub(super) prefix: String,
    pub(super) layer: usize,
    pub(super) kind: Kind,
}

/// The parts of a model, in order.
pub(super) fn ours(model: &Model) -> Vec<(String, Kind)> {
    let entries = model.layout().entries();
    let mut parts: Vec<(String, Kind)> = vec![];
    for entry in entries {
        let (prefix, leaf) = entry.name.rsplit_once('.').unwrap_or(("", &entry.name));
        let kind = match (leaf, entry.shape.rank()) {
            ("weight", 4) => Kind::Conv,
            ("weight", _) => Kind::Dense,
            ("scale", _) => Kind::Norm,
            ("table", _) => Kind::Embedding,
            ("from_input", _) => {
                let gated = entries.iter().any(|e| e.name == format!("{prefix}.input_bias"));
                if gated { Kind::Gru } else { Kind::Lstm }
            }
            _ => continue,
        };
        parts.push((prefix.to_owned(), kind));
    }
    parts
}

/// The modules of a state dict, in the natural order of their names.
pub(super) fn theirs(tensors: &BTreeMap<String, Array>) -> Vec<Module> {
    let mut modules = vec![];
    for (name, array) in tensors {
        let (prefix, leaf) = name.rsplit_once('.').unwrap_or(("", name));
        let has = |leaf: &str| tensors.contains_key(&format!("{prefix}.{leaf}"));
        let (kind, layer) = match (leaf, array.dims.as_slice()) {
            ("weight", [_, _, _, _]) => (Kind::Conv, 0),
            ("weight", [_]) => (Kind::Norm, 0),
            ("weight", [_, _]) if has("bias") || prefix.is_empty() => (Kind::Dense, 0),
            ("weight", [_, _]) => (Kind::Embedding, 0),
            (leaf, [rows, _]) => {
                let Some(layer) = leaf.strip_prefix("weight_ih_l").and_then(|l| l.parse().ok()) else {
                    continue;
                };
                let state = tensors.get(&name.replace("weight_ih_l", "weight_hh_l"));
                let hidden = state.and_then(|s| s.dims.get(1).copied()).unwrap_or(1);
                (
                    if *rows == 3 * hidden {
                        Kind::Gru
                    } else {
                        Kind::Lstm
                    },
                    layer,
                )
            }
            _ => continue,
        };
        modules.push(Module {
            prefix: prefix.to_owned(),
            layer,
            kind,
        });
    }
    modules.sort_by_key(|m| (natural(&m.prefix), m.layer));
    modules
}

/// Names in pieces, numbers by their value: `layer2` before `layer10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut pieces: Vec<(String, u64)> = vec![(String::new(), 0)];
    let mut in_number = false;
    for c in name.chars() {
        if in_number && !c.is_ascii_digit() {
            pieces.push((String::new(), 0));
        }
        in_number = c.is_ascii_digit();
        if let Some((text, number)) = pieces.last_mut() {
            match c.to_digit(10) {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
                None => text.push(c),
            }
        }
    }
    pieces
}

/// The names that a part may have in PyTorch.
fn aliases(part: &str) -> Vec<String> {
    let mut names = vec![part.to_owned(), part.replace("log_variance", "logvar")];
    if let Some(name) = torchvision(part) {
        names.push(name);
    }
    let more: &[&str] = match part {
        "encoder0" => &["fc1", "encoder.0"],
        "mean" => &["fc21", "mu", "fc_mu", "fc_mean"],
        "log_variance" => &["fc22", "log_var", "fc_logvar", "fc_log_var"],
        "decoder0" => &["fc3", "decoder.0"],
        "decoder1" => &["fc4", "decoder.2"],
        "logits" => &["fc", "linear", "head"],
        _ => &[],
    };
    names.extend(more.iter().map(|&n| n.to_owned()));
    names
}

/// torchvision's name of a part of a residual network.
fn torchvision(part: &str) -> Option<String> {
    match part {
        "stem.conv" => return Some("conv1".into()),
        "stem.conv.norm" => return Some("bn1".into()),
        _ => {}
    }
    let pieces: Vec<&str> = part.split('.').collect();
    let (stage, block, unit, norm) = match pieces.as_slice() {
        [stage, block, unit] => (stage, block, unit, false),
        [stage, block, unit, "norm"] => (stage, block, unit, true),
        _ => return None,
    };
    let stage: usize = stage.strip_prefix("stage")?.parse().ok()?;
    let block: usize = block.strip_prefix("block")?.parse().ok()?;
    let unit = match (*unit, norm) {
        ("reduce", false) => "conv1",
        ("reduce", true) => "bn1",
        ("spread", false) => "conv2",
        ("spread", true) => "bn2",
        ("expand", false) => "conv3",
        ("expand", true) => "bn3",
        ("shortcut", false) => "downsample.0",
        ("shortcut", true) => "downsample.1",
        _ => return None,
    };
    Some(format!("layer{}.{block}.{unit}", stage + 1))
}

/// Pairs parts with modules, by name or, for kinds that are not all named so, by order.
pub(super) fn matched(
    ours: &[(String, Kind)],
    theirs: &[Module],
    problems: &mut Vec<String>,
) -> BTreeMap<String, Module> {
    let kinds: BTreeSet<Kind> = ours.iter().map(|(_, k)| *k).collect();
    let mut pairs = BTreeMap::new();
    for kind in kinds {
        let parts: Vec<&String> = ours.iter().filter(|(_, k)| *k == kind).map(|(p, _)| p).collect();
        let modules: Vec<&Module> = theirs.iter().filter(|m| m.kind == kind).collect();
        let by_name = |part: &String| {
            let names = aliases(part);
            modules
                .iter()
                .copied()
                .find(|m| m.layer == 0 && names.contains(&m.prefix))
        };
        let named: Vec<Option<&Module>> = parts.iter().map(|p| by_name(p)).collect();
        if named.iter().any(Option::is_none) && parts.len() == modules.len() {
            let ordered = parts.iter().zip(&modules);
            pairs.extend(ordered.map(|(part, &module)| ((*part).clone(), module.clone())));
            continue;
        }
        for (part, module) in parts.into_iter().zip(named) {
            match module {
                Some(module) => {
                    pairs.insert(part.clone(), module.clone());
                }
                None => problems.push(format!(
                    "`{part}` ({kind:?}) has no counterpart; it would be called `{}`",
                    aliases(part).join("`, `")
                )),
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = vec!["layer10", "layer2", "layer2.b", "layer2.a", "0", "12", "3"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(
            names,
            ["0", "3", "12", "layer2", "layer2.a", "layer2.b", "layer10"]
        );
    }

    #[test]
    fn blocks_are_called_as_in_torchvision() {
        let name = |part| torchvision(part);
        assert_eq!(name("stage0.block2.expand.norm").as_deref(), Some("layer1.2.bn3"));
        assert_eq!(
            name("stage3.block0.shortcut").as_deref(),
            Some("layer4.0.downsample.0")
        );
        assert_eq!(name("layer0"), None);
    }
}
