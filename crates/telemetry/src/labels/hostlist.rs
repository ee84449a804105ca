//! Slurm's short form of many node names: `n[001-003,7],login`.

/// More names than this are taken for a mistake.
const MAX_NAMES: usize = 65_536;

/// The names that a list stands for; none if it is not one or stands for too many.
pub(super) fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for item in items(list)? {
        let mut found = vec![String::new()];
        let mut rest = item;
        while let Some(open) = rest.find('[') {
            let close = open + rest[open..].find(']')?;
            let indices = indices(&rest[open + 1..close])?;
            if found.len().checked_mul(indices.len())? > MAX_NAMES {
                return None;
            }
            let prefix = &rest[..open];
            let all = found
                .iter()
                .flat_map(|name| indices.iter().map(move |index| format!("{name}{prefix}{index}")));
            found = all.collect();
            rest = &rest[close + 1..];
        }
        if rest.contains(']') || item.is_empty() {
            return None;
        }
        names.extend(found.into_iter().map(|name| name + rest));
        if names.len() > MAX_NAMES {
            return None;
        }
    }
    Some(names)
}

/// The parts between commas that stand outside brackets.
fn items(list: &str) -> Option<Vec<&str>> {
    let (mut items, mut from, mut inside) = (Vec::new(), 0, false);
    for (i, c) in list.char_indices() {
        match c {
            '[' if inside => return None,
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                items.push(&list[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    items.push(&list[from..]);
    (!inside).then_some(items)
}

/// `001-003,7` as its numbers, with the zeros of the first number of each range.
fn indices(text: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| text.parse::<u32>().ok())?
        };
        let (from, to) = (number(first)?, number(last)?);
        if to < from || (to - from) as usize >= MAX_NAMES - out.len() {
            return None;
        }
        out.extend((from..=to).map(|n| format!("{n:0width$}", width = first.len().min(10))));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_keep_their_zeros() {
        assert_eq!(
            expand("n[001-003,7],login"),
            Some(
                ["n001", "n002", "n003", "n7", "login"]
                    .map(str::to_owned)
                    .to_vec()
            )
        );
        assert_eq!(
            expand("r[0-1]n[8-9]x").map(|n| n.join(" ")),
            Some("r0n8x r0n9x r1n8x r1n9x".to_owned())
        );
        assert_eq!(expand("plain"), Some(vec!["plain".to_owned()]));
    }

    #[test]
    fn what_is_no_list_is_none() {
        for wrong in [
            "",
            "n[1-",
            "n[3-1]",
            "n[a]",
            "n[0-4294967295]",
            "n[0-999][0-999][0-999]",
            "a,,b",
            "n]",
            "[[1]]",
            "n[-]",
        ] {
            assert_eq!(expand(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[n0-9\\[\\],é-]{0,24}") {
            let _ = expand(&text);
        }
    }
}
