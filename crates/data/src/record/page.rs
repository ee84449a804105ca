//! One page: where its parts are, how it is written, and what it promises about its rows.

use super::{
    BLOCK,
    header::checksum,
    i64_at, padded,
    schema::{Label, LabelKind, Schema},
    u32_at, u64_at,
};

pub(super) const MAGIC: &[u8; 8] = b"SYNODPAG";
const ZONE_BYTES: usize = 12;
const HEAD_CHECKSUM: usize = 52;

/// What the values of one column of one page lie between.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Zone {
    /// The least value, +∞ if there is none but NaN.
    pub min: f32,
    /// The greatest value, −∞ if there is none but NaN.
    pub max: f32,
    /// How many are NaN.
    pub nans: u32,
}

impl Zone {
    pub(super) const EMPTY: Zone = Zone {
        min: f32::INFINITY,
        max: f32::NEG_INFINITY,
        nans: 0,
    };

    fn add(&mut self, value: f32) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.nans += u32::from(value.is_nan());
    }
}

/// The labels of a page, in place.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Labels<'a> {
    /// The file has none.
    None,
    /// Classes or states, one per row.
    Int(&'a [i32]),
    /// Targets, one per row.
    Real(&'a [f32]),
}

impl Labels<'_> {
    /// The label of row `i` of the page.
    pub fn get(&self, i: usize) -> Option<Label> {
        match self {
            Labels::None => None,
            Labels::Int(labels) => labels.get(i).map(|&label| Label::Int(label)),
            Labels::Real(labels) => labels.get(i).map(|&label| Label::Real(label)),
        }
    }
}

/// A verified page, borrowed from the file's map.
#[derive(Copy, Clone, Debug)]
pub struct Page<'a> {
    /// Index of the page's first row in the file.
    pub first_row: usize,
    /// The time of each row.
    pub times: &'a [i64],
    /// The label of each row.
    pub labels: Labels<'a>,
    /// All values, row by row.
    pub values: &'a [f32],
    /// Values per row.
    pub columns: usize,
}

impl<'a> Page<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.times.len()
    }

    /// Row `i` of the page, counted from 0.
    pub fn row(&self, i: usize) -> Option<&'a [f32]> {
        let start = i.checked_mul(self.columns)?;
        self.values.get(start..start.checked_add(self.columns)?)
    }
}

/// Offsets of the parts of a page of some number of rows, from its start.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) times: usize,
    pub(super) labels: usize,
    pub(super) values: usize,
    pub(super) end: usize,
}

impl Parts {
    /// None if the sizes overflow.
    pub(super) fn of(schema: &Schema, rows: usize) -> Option<Parts> {
        let columns = schema.columns.len();
        let times = padded(BLOCK + columns.checked_mul(ZONE_BYTES)?)?;
        let labels = times.checked_add(padded(rows.checked_mul(8)?)?)?;
        let values = labels.checked_add(padded(rows.checked_mul(schema.label.bytes())?)?)?;
        let end = values.checked_add(padded(rows.checked_mul(columns)?.checked_mul(4)?)?)?;
        Some(Parts {
            times,
            labels,
            values,
            end,
        })
    }
}

/// What a page's head says, its checksum verified.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Head {
    pub(super) number: u32,
    pub(super) rows: u32,
    pub(super) first_row: u64,
    pub(super) times: (i64, i64),
    pub(super) labels: [u8; 8],
    pub(super) body_checksum: u32,
}

impl Head {
    /// Reads the head of the page that begins at `at`, or says what is wrong.
    pub(super) fn read(bytes: &[u8], at: usize, schema: &Schema) -> Result<Head, &'static str> {
        let page = bytes.get(at..).unwrap_or_default();
        let columns = schema.columns.len();
        let head = page
            .get(..BLOCK + columns * ZONE_BYTES)
            .ok_or("the page's head is cut off")?;
        if &head[..8] != MAGIC {
            return Err("no page begins here");
        }
        let crc = checksum(&[&head[..HEAD_CHECKSUM], &head[BLOCK..]]);
        if u32_at(head, HEAD_CHECKSUM) != Some(crc) {
            return Err("the page's head does not match its checksum");
        }
        Head::fields(head).ok_or("the page's head is cut off")
    }

    fn fields(head: &[u8]) -> Option<Head> {
        Some(Head {
            number: u32_at(head, 8)?,
            rows: u32_at(head, 12)?,
            first_row: u64_at(head, 16)?,
            times: (i64_at(head, 24)?, i64_at(head, 32)?),
            labels: head.get(40..48)?.try_into().ok()?,
            body_checksum: u32_at(head, 48)?,
        })
    }
}

/// The zone of one column of the page at `at`. The head must have been verified.
pub(super) fn zone(bytes: &[u8], at: usize, column: usize) -> Option<Zone> {
    let at = at + BLOCK + column * ZONE_BYTES;
    Some(Zone {
        min: f32::from_bits(u32_at(bytes, at)?),
        max: f32::from_bits(u32_at(bytes, at + 4)?),
        nans: u32_at(bytes, at + 8)?,
    })
}

/// Least and greatest label as numbers; none if there are no labels or only NaN.
pub(super) fn label_range(kind: LabelKind, bits: [u8; 8]) -> Option<(f64, f64)> {
    let (low, high) = (u32_at(&bits, 0)?, u32_at(&bits, 4)?);
    let (low, high) = match kind {
        LabelKind::None => return None,
        LabelKind::Int => (f64::from(low as i32), f64::from(high as i32)),
        LabelKind::Real => (f64::from(f32::from_bits(low)), f64::from(f32::from_bits(high))),
    };
    (low <= high).then_some((low, high))
}

/// Rows that wait to be written as one page.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) times: Vec<i64>,
    pub(super) labels: Vec<Label>,
    pub(super) values: Vec<f32>,
}

impl Pending {
    pub(super) fn clear(&mut self) {
        self.times.clear();
        self.labels.clear();
        self.values.clear();
    }

    /// Writes page `number` into `out`, in place of what was there, and returns its head.
    pub(super) fn encode(
        &self,
        schema: &Schema,
        parts: Parts,
        number: u32,
        first_row: u64,
        out: &mut Vec<u8>,
    ) -> Head {
        let columns = schema.columns.len();
        out.clear();
        out.resize(parts.end, 0);
        copy(out, parts.times, self.times.iter().map(|t| t.to_le_bytes()));
        copy(out, parts.labels, self.labels.iter().map(|l| l.bits()));
        copy(out, parts.values, self.values.iter().map(|v| v.to_le_bytes()));
        let mut zones = vec![Zone::EMPTY; columns];
        for row in self.values.chunks_exact(columns) {
            zones
                .iter_mut()
                .zip(row)
                .for_each(|(zone, &value)| zone.add(value));
        }
        let zones = zones
            .iter()
            .flat_map(|z| [z.min.to_le_bytes(), z.max.to_le_bytes(), z.nans.to_le_bytes()]);
        copy(out, BLOCK, zones);
        let head = Head {
            number,
            rows: self.times.len() as u32,
            first_row,
            times: (
                self.times.iter().copied().min().unwrap_or(i64::MAX),
                self.times.iter().copied().max().unwrap_or(i64::MIN),
            ),
            labels: self.label_bits(schema.label),
            body_checksum: checksum(&[&out[parts.times..]]),
        };
        head.write(columns, out);
        head
    }

    fn label_bits(&self, kind: LabelKind) -> [u8; 8] {
        let mut bits = [0; 8];
        let (low, high) = match kind {
            LabelKind::None => return bits,
            LabelKind::Int => {
                let ints = self.labels.iter().map(|l| match l {
                    Label::Int(value) => *value,
                    Label::Real(_) => 0,
                });
                let (low, high) = ints.fold((i32::MAX, i32::MIN), |(a, b), v| (a.min(v), b.max(v)));
                (low.to_le_bytes(), high.to_le_bytes())
            }
            LabelKind::Real => {
                let mut zone = Zone::EMPTY;
                self.labels.iter().for_each(|l| zone.add(l.value() as f32));
                (zone.min.to_le_bytes(), zone.max.to_le_bytes())
            }
        };
        bits[..4].copy_from_slice(&low);
        bits[4..].copy_from_slice(&high);
        bits
    }
}

impl Head {
    fn write(&self, columns: usize, out: &mut [u8]) {
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&self.number.to_le_bytes());
        out[12..16].copy_from_slice(&self.rows.to_le_bytes());
        out[16..24].copy_from_slice(&self.first_row.to_le_bytes());
        out[24..32].copy_from_slice(&self.times.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.times.1.to_le_bytes());
        out[40..48].copy_from_slice(&self.labels);
        out[48..52].copy_from_slice(&self.body_checksum.to_le_bytes());
        let crc = checksum(&[&out[..HEAD_CHECKSUM], &out[BLOCK..BLOCK + columns * ZONE_BYTES]]);
        out[HEAD_CHECKSUM..HEAD_CHECKSUM + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

fn copy<const N: usize>(out: &mut [u8], at: usize, items: impl Iterator<Item = [u8; N]>) {
    for (to, item) in out[at..].chunks_exact_mut(N).zip(items) {
        to.copy_from_slice(&item);
    }
}
