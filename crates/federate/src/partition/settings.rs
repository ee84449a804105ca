//! How rows are divided, as a configuration says it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// How rows are divided among clients.
///
/// ```
/// use synod_federate::partition::Division;
///
/// let shards: Division = serde_json::from_str(r#"{ "shards": 2 }"#)?;
/// assert_eq!(shards, Division::Shards(2));
/// let skewed: Division = serde_json::from_str(r#"{ "dirichlet": 0.5 }"#)?;
/// assert_eq!(skewed, Division::Dirichlet(0.5.into()));
/// let at_least: Division = serde_json::from_str(r#"{ "dirichlet": { "alpha": 0.5, "minimum": 10 } }"#)?;
/// # let Division::Dirichlet(skew) = at_least else { panic!() };
/// # assert_eq!(skew.minimum, 10);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// Shuffled and dealt out evenly.
    #[default]
    Iid,
    /// Sorted by label and cut into equal shards, of which each client gets so many at random.
    Shards(usize),
    /// Each client holds rows of just so many labels; a label's rows are divided evenly among its holders.
    Labels(usize),
    /// Each label's rows are divided by shares from a Dirichlet distribution of this concentration: the lower, the more skewed.
    Dirichlet(Skew),
    /// Shuffled; the client of rank `r` gets rows in proportion to `r` to the minus this power.
    PowerLaw(Skew),
    /// By the group that each row belongs to, such as a node or a writer.
    Natural,
    /// Each client draws rows for itself when asked, and clients may hold the same rows: for populations larger than the data.
    Drawn(Draw),
}

/// How strong a skew is, and how many rows each client has at least.
///
/// In a configuration it is a number, or a table with `alpha` or `exponent`, and `minimum`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Skew {
    /// The concentration or the power.
    #[serde(rename = "alpha")]
    pub by: f64,
    /// Rows of each client at least, taken from those with the most. 1 unless set.
    pub minimum: usize,
}

impl From<f64> for Skew {
    fn from(by: f64) -> Skew {
        Skew { by, minimum: 1 }
    }
}

/// What each client draws.
///
/// In a configuration it is a number of rows, or a table with `rows` and `labels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Draw {
    /// Rows of each client.
    pub rows: usize,
    /// Of how many labels; of any if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<usize>,
}

impl From<usize> for Draw {
    fn from(rows: usize) -> Draw {
        Draw { rows, labels: None }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SkewTable {
    #[serde(alias = "exponent")]
    alpha: f64,
    minimum: Option<usize>,
}

impl From<SkewTable> for Skew {
    fn from(table: SkewTable) -> Skew {
        Skew {
            by: table.alpha,
            minimum: table.minimum.unwrap_or(1),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrawTable {
    rows: usize,
    labels: Option<usize>,
}

impl From<DrawTable> for Draw {
    fn from(table: DrawTable) -> Draw {
        Draw {
            rows: table.rows,
            labels: table.labels,
        }
    }
}

/// A value that is a single number in short and a table in full.
struct NumberOrTable<N, T, V>(&'static str, PhantomData<(N, T, V)>);

impl<'de, N, T, V> Visitor<'de> for NumberOrTable<N, T, V>
where
    N: Number,
    T: Deserialize<'de>,
    V: From<N> + From<T>,
{
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<V, E> {
        let number = N::from_float(value);
        number
            .map(V::from)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Float(value), &self))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<V, E> {
        let number = N::from_integer(value);
        number
            .map(V::from)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<V, E> {
        let number = i64::try_from(value).ok().and_then(N::from_integer);
        number
            .map(V::from)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(V::from)
    }
}

trait Number: Sized {
    fn from_float(value: f64) -> Option<Self>;
    fn from_integer(value: i64) -> Option<Self>;
}

impl Number for f64 {
    fn from_float(value: f64) -> Option<f64> {
        Some(value)
    }
    fn from_integer(value: i64) -> Option<f64> {
        Some(value as f64)
    }
}

impl Number for usize {
    fn from_float(_: f64) -> Option<usize> {
        None
    }
    fn from_integer(value: i64) -> Option<usize> {
        usize::try_from(value).ok()
    }
}

impl<'de> Deserialize<'de> for Skew {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Skew, D::Error> {
        let expected = "a number such as 0.5, or a table such as { alpha = 0.5, minimum = 10 }";
        deserializer.deserialize_any(NumberOrTable::<f64, SkewTable, Skew>(expected, PhantomData))
    }
}

impl<'de> Deserialize<'de> for Draw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Draw, D::Error> {
        let expected = "a number of rows such as 60, or a table such as { rows = 60, labels = 2 }";
        deserializer.deserialize_any(NumberOrTable::<usize, DrawTable, Draw>(expected, PhantomData))
    }
}
