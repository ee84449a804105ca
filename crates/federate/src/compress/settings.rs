//! How an update is compressed, as a configuration says it.

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Which values of an update travel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sparsity {
    /// All of them.
    #[default]
    Dense,
    /// This fraction, the largest in magnitude; their places travel with them.
    Top(f64),
    /// This fraction, one from each of as many equal stretches; only a seed travels for their places.
    Random(f64),
}

impl Sparsity {
    /// How many of `len` values travel: at least one if there are any.
    pub fn kept(self, len: usize) -> usize {
        match self {
            Sparsity::Dense => len,
            Sparsity::Top(fraction) | Sparsity::Random(fraction) => {
                ((fraction * len as f64).ceil() as usize).clamp(len.min(1), len)
            }
        }
    }
}

/// How each value that travels is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Values {
    /// As the 32 bits it has.
    #[default]
    #[serde(rename = "exact")]
    Exact,
    /// In 8 bits, rounded at random so that the mean is right.
    #[serde(rename = "8-bit")]
    EightBit,
    /// In 4 bits, rounded at random so that the mean is right.
    #[serde(rename = "4-bit")]
    FourBit,
    /// As its sign, times the mean magnitude of its block.
    #[serde(rename = "1-bit")]
    OneBit,
}

impl Values {
    /// Bits of one value, without its share of a scale.
    pub fn bits(self) -> usize {
        match self {
            Values::Exact => 32,
            Values::EightBit => 8,
            Values::FourBit => 4,
            Values::OneBit => 1,
        }
    }
}

/// Which values share a scale, in the codings that have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharedScale {
    /// So many neighbours in a tensor: a power of two from 16 to 65,536.
    Block(u32),
    /// A whole tensor; with sparsity, all that travel.
    Tensor,
}

impl Default for SharedScale {
    fn default() -> SharedScale {
        SharedScale::Block(256)
    }
}

/// How updates are compressed.
///
/// In a configuration it is a name, `"none"`, `"8-bit"`, `"4-bit"` or `"1-bit"`, or a table of what differs from `"none"`:
///
/// ```
/// use synod_federate::compress::{Compression, Sparsity, Values};
///
/// let one: Compression = serde_json::from_str(r#""1-bit""#)?;
/// assert_eq!(one, Compression::new(Values::OneBit));
///
/// let top: Compression = serde_json::from_str(r#"{ "top": 0.01, "values": "8-bit" }"#)?;
/// assert_eq!(top.sparsity, Sparsity::Top(0.01));
/// assert!(top.feedback);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(into = "Table")]
pub struct Compression {
    /// Which values travel.
    pub sparsity: Sparsity,
    /// How they are written.
    pub values: Values,
    /// What shares a scale.
    pub scale: SharedScale,
    /// Whether clients keep what was lost and add it to their next update. Unless set, codings that are wrong on average
    /// have it: the largest values, and signs.
    pub feedback: bool,
}

impl Compression {
    /// Every value, written so; with error feedback if that is needed.
    pub fn new(values: Values) -> Compression {
        Compression::default().with(Sparsity::Dense, values)
    }

    /// Only this fraction of values, the largest.
    pub fn top(self, fraction: f64) -> Compression {
        self.with(Sparsity::Top(fraction), self.values)
    }

    /// Only this fraction of values, at random places.
    pub fn random(self, fraction: f64) -> Compression {
        self.with(Sparsity::Random(fraction), self.values)
    }

    fn with(self, sparsity: Sparsity, values: Values) -> Compression {
        let feedback = matches!(sparsity, Sparsity::Top(_)) || values == Values::OneBit;
        Compression {
            sparsity,
            values,
            feedback,
            ..self
        }
    }

    /// Whether nothing is lost.
    pub fn is_exact(&self) -> bool {
        self.sparsity == Sparsity::Dense && self.values == Values::Exact
    }

    /// Refuses fractions and blocks that make no sense.
    pub fn check(&self) -> Result<()> {
        if let Sparsity::Top(fraction) | Sparsity::Random(fraction) = self.sparsity
            && !(fraction > 0.0 && fraction <= 1.0)
        {
            return Err(Error::Setting(format!(
                "compression keeps a fraction of values above 0 and up to 1, not {fraction}"
            )));
        }
        match self.scale {
            SharedScale::Block(block) if !block.is_power_of_two() || !(16..=65_536).contains(&block) => {
                Err(Error::Setting(format!(
                    "a block of {block} values cannot share a scale: use a power of two from 16 to 65536"
                )))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Table {
    #[serde(skip_serializing_if = "Option::is_none")]
    top: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    random: Option<f64>,
    #[serde(default)]
    values: Values,
    #[serde(default)]
    scale: SharedScale,
    feedback: Option<bool>,
}

impl From<Compression> for Table {
    fn from(from: Compression) -> Table {
        let (top, random) = match from.sparsity {
            Sparsity::Dense => (None, None),
            Sparsity::Top(fraction) => (Some(fraction), None),
            Sparsity::Random(fraction) => (None, Some(fraction)),
        };
        Table {
            top,
            random,
            values: from.values,
            scale: from.scale,
            feedback: Some(from.feedback),
        }
    }
}

impl TryFrom<Table> for Compression {
    type Error = Error;

    fn try_from(table: Table) -> Result<Compression> {
        let sparsity = match (table.top, table.random) {
            (None, None) => Sparsity::Dense,
            (Some(fraction), None) => Sparsity::Top(fraction),
            (None, Some(fraction)) => Sparsity::Random(fraction),
            (Some(_), Some(_)) => {
                return Err(Error::Setting(
                    "compression keeps either the top values or random ones: remove `top` or `random`".into(),
                ));
            }
        };
        let mut compression = Compression::default().with(sparsity, table.values);
        compression.scale = table.scale;
        compression.feedback = table.feedback.unwrap_or(compression.feedback);
        compression.check()?;
        Ok(compression)
    }
}

struct NameOrTable;

impl<'de> Visitor<'de> for NameOrTable {
    type Value = Compression;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("\"none\", \"8-bit\", \"4-bit\", \"1-bit\", or a table such as { top = 0.01, values = \"8-bit\" }")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Compression, E> {
        let values = match name {
            "none" => Values::Exact,
            "8-bit" => Values::EightBit,
            "4-bit" => Values::FourBit,
            "1-bit" => Values::OneBit,
            other => return Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        };
        Ok(Compression::new(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Compression, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        table.try_into().map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Compression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Compression, D::Error> {
        deserializer.deserialize_any(NameOrTable)
    }
}
