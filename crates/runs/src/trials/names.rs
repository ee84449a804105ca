//! What the folders of trials are called.

use super::TrialSettings;

/// A folder name for a combination; empty if nothing was chosen.
pub(super) fn slug(settings: &TrialSettings) -> String {
    let part = |(name, value): &(String, toml::Value)| {
        let text = format!("{}-{value}", name.rsplit('.').next().unwrap_or(name));
        text.chars()
            .filter_map(|c| match c {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => Some(c),
                ' ' | '=' => Some('-'),
                _ => None,
            })
            .collect::<String>()
            .replace("--", "-")
            .replace("--", "-")
    };
    settings.iter().map(part).collect::<Vec<_>>().join("_")
}
