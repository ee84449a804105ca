//! Text becomes markup in one place, escaped.

use std::borrow::Cow;

/// Markup whose parts were escaped when it was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Html(String);

impl Html {
    pub(super) fn join(parts: impl IntoIterator<Item = Html>) -> Html {
        Html(parts.into_iter().map(|part| part.0).collect())
    }

    pub(super) fn from_markup(markup: String) -> Html {
        Html(markup)
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Markup of our own writing; never text from outside.
pub(super) fn raw(markup: &'static str) -> Html {
    Html(markup.to_owned())
}

/// What can stand in a `{}` of [`html!`].
pub(super) trait Piece {
    fn piece(&self) -> Cow<'_, str>;
}

impl Piece for Html {
    fn piece(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl Piece for str {
    fn piece(&self) -> Cow<'_, str> {
        escape(self)
    }
}

impl Piece for String {
    fn piece(&self) -> Cow<'_, str> {
        escape(self)
    }
}

impl<T: Piece + ?Sized> Piece for &T {
    fn piece(&self) -> Cow<'_, str> {
        (*self).piece()
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Piece for $number {
            fn piece(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        })*
    };
}

numbers!(usize i64 u64 f64);

/// Formats markup; each argument is escaped unless it is [`Html`].
macro_rules! html {
    ($format:literal $(, $piece:expr)* $(,)?) => {
        $crate::report::html::Html::from_markup(format!($format $(, $crate::report::html::Piece::piece(&$piece))*))
    };
}

/// Escapes what HTML reads, and replaces control and text-direction characters, which could make a name look like another.
fn escape(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !matches!(c, '&' | '<' | '>' | '"' | '\'') && !deceptive(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if deceptive(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

fn deceptive(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A number with so many decimals, or a dash where it is undefined.
pub(super) fn decimals(value: Option<f64>, places: usize) -> String {
    match value.filter(|v| v.is_finite()) {
        Some(value) => format!("{value:.places$}").replace('-', "−"),
        None => "–".to_owned(),
    }
}

/// A measurement with about four significant digits and its thousands apart.
pub(super) fn measured(value: f32) -> String {
    let size = value.abs();
    if value.is_nan() {
        return "missing".to_owned();
    }
    if size != 0.0 && !(1e-3..1e9).contains(&size) {
        return format!("{value:.2e}").replace('-', "−");
    }
    let places = match size {
        s if s >= 1000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{size:.places$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let sign = if value < 0.0 { "−" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", thousands(whole))
}

fn thousands(digits: &str) -> String {
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 alarm`, `2 alarms`.
pub(super) fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", thousands(&number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_markup_is_not() {
        let inner = html!("<b>{}</b>", "a<b & \"c\"");
        let outer = html!("<p>{}{}</p>", inner, "'");
        assert_eq!(
            outer.into_string(),
            "<p><b>a&lt;b &amp; &quot;c&quot;</b>&#39;</p>"
        );
    }

    #[test]
    fn names_cannot_turn_the_text_around() {
        assert_eq!(escape("r01\u{202e}10r\u{0}"), "r01\u{fffd}10r\u{fffd}");
        assert_eq!(escape("Größe\n"), "Größe\n");
    }

    #[test]
    fn measurements_read_well() {
        let read: Vec<String> = [1234567.0, 812.25, 23.5, 0.0, -4.0, 1e12, 0.00001, f32::NAN]
            .into_iter()
            .map(measured)
            .collect();
        assert_eq!(
            read,
            [
                "1,234,567",
                "812.2",
                "23.5",
                "0",
                "−4",
                "1.00e12",
                "1.00e−5",
                "missing"
            ]
        );
    }
}
