//! The first block of a record file.

use super::{
    BLOCK, padded,
    schema::{LabelKind, MAX_COLUMNS, Names, Schema},
    u32_at,
};
use crate::error::{Error, Result};

pub(super) const MAGIC: &[u8; 8] = b"SYNODREC";
const VERSION: u32 = 1;
const MAX_JSON: usize = 8 << 20;

/// The header of a file with this schema, padded to whole blocks.
pub(super) fn encode(schema: &Schema) -> Result<Vec<u8>> {
    let refuse = |problem: String| Error::Setting(format!("this schema cannot be stored: {problem}"));
    if let Some(problem) = schema.problem() {
        return Err(refuse(problem));
    }
    let names = Names {
        columns: schema.columns.clone(),
        user: schema.user.clone(),
    };
    let json = serde_json::to_vec(&names).map_err(|e| refuse(e.to_string()))?;
    if json.len() > MAX_JSON {
        let problem = format!(
            "names and user values take {} bytes, at most {MAX_JSON} are allowed",
            json.len()
        );
        return Err(refuse(problem));
    }
    let len = (BLOCK + json.len()).next_multiple_of(BLOCK);
    let label: u32 = match schema.label {
        LabelKind::None => 0,
        LabelKind::Int => 1,
        LabelKind::Real => 2,
    };
    let mut bytes = MAGIC.to_vec();
    let fields = [
        VERSION,
        len as u32,
        schema.columns.len() as u32,
        schema.rows_per_page,
        json.len() as u32,
        label,
    ];
    bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    let crc = checksum(&[&bytes, &json]);
    bytes.extend(crc.to_le_bytes());
    bytes.resize(BLOCK, 0);
    bytes.extend(json);
    bytes.resize(len, 0);
    Ok(bytes)
}

/// The schema in a file's bytes and where its pages begin, or what is wrong and at which byte.
pub(super) fn decode(bytes: &[u8]) -> Result<(Schema, usize), (u64, String)> {
    let magic = bytes.get(..8).unwrap_or(bytes);
    if !MAGIC.starts_with(magic) {
        return Err((0, "this is not a record file".to_owned()));
    }
    let cut = || {
        (
            bytes.len() as u64,
            "the file ends inside its header, before the first row".to_owned(),
        )
    };
    if bytes.len() < BLOCK {
        return Err(cut());
    }
    let field = |at| u32_at(bytes, at).ok_or_else(cut);
    if field(8)? != VERSION {
        return Err((8, format!("version {} is not known, only {VERSION}", field(8)?)));
    }
    let (len, columns, rows_per_page) = (field(12)? as usize, field(16)? as usize, field(20)?);
    let json_len = field(24)? as usize;
    if json_len > MAX_JSON || columns > MAX_COLUMNS || padded(BLOCK + json_len) != Some(len) {
        return Err((12, "the header's sizes contradict each other".to_owned()));
    }
    let json = bytes.get(BLOCK..BLOCK + json_len).ok_or_else(cut)?;
    if bytes.len() < len {
        return Err(cut());
    }
    if field(32)? != checksum(&[&bytes[..32], json]) {
        return Err((32, "the header does not match its checksum".to_owned()));
    }
    let label = match field(28)? {
        0 => LabelKind::None,
        1 => LabelKind::Int,
        2 => LabelKind::Real,
        other => return Err((28, format!("label type {other} is not known"))),
    };
    let names: Names = serde_json::from_slice(json)
        .map_err(|e| (BLOCK as u64, format!("the names are not readable: {e}")))?;
    let schema = Schema {
        columns: names.columns,
        label,
        rows_per_page,
        user: names.user,
    };
    if schema.columns.len() != columns {
        return Err((
            16,
            format!("{columns} columns, but {} names", schema.columns.len()),
        ));
    }
    schema
        .problem()
        .map_or(Ok((schema, len)), |problem| Err((16, problem)))
}

pub(super) fn checksum(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}
