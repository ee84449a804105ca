//! What a run tells of itself while it runs.

use serde::Serialize;
use serde_json::Value;

/// Something that happened in a run. Its fields are the keys of one line of JSON, beside `event`, which is its name.
pub trait Event: Serialize {
    /// What readers of the log know it by.
    const NAME: &'static str;

    /// The event as an object, with its name as `event`.
    fn value(&self) -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(self)?;
        let problem = || <serde_json::Error as serde::ser::Error>::custom("an event is not a struct");
        let fields = value.as_object_mut().ok_or_else(problem)?;
        fields.insert("event".to_owned(), Self::NAME.into());
        Ok(value)
    }

    /// The event as one line, with its end.
    fn line(&self) -> serde_json::Result<String> {
        Ok(format!("{}\n", self.value()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Began<'a> {
        rows: usize,
        note: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
    }

    impl Event for Began<'_> {
        const NAME: &'static str = "begin";
    }

    #[derive(Serialize)]
    struct Bare(u8);

    impl Event for Bare {
        const NAME: &'static str = "bare";
    }

    #[test]
    fn an_event_is_one_line_with_its_name_and_fields() -> serde_json::Result<()> {
        let began = Began {
            rows: 3,
            note: "two\nlines",
            seed: None,
        };
        let line = began.line()?;
        assert!(
            line.ends_with("}\n") && line.matches('\n').count() == 1,
            "{line:?}"
        );
        let read: Value = serde_json::from_str(&line)?;
        assert_eq!(
            read,
            serde_json::json!({ "event": "begin", "rows": 3, "note": "two\nlines" })
        );
        Ok(())
    }

    #[test]
    fn what_has_no_fields_is_no_event() {
        assert!(Bare(1).line().is_err());
    }
}
