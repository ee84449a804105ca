//! Page headers, looked at before the decoder takes memory on their word.

use parquet::{
    basic::{Compression, Type},
    file::metadata::ColumnChunkMetaData,
};

/// A page of a few bytes may always unpack to this much.
const FREE_BYTES: u64 = 64 << 10;
const STRUCT: u8 = 12;
const MAX_DEPTH: usize = 8;

/// Walks the pages of a column chunk. The error says which sizes cannot be true.
pub(super) fn check(file: &[u8], chunk: &ColumnChunkMetaData) -> Result<(), String> {
    let start = match chunk.dictionary_page_offset() {
        Some(offset) if offset > 0 => offset.min(chunk.data_page_offset()),
        _ => chunk.data_page_offset(),
    };
    let end = start.checked_add(chunk.compressed_size());
    let range = match (usize::try_from(start), end.map(usize::try_from)) {
        (Ok(start), Some(Ok(end))) => file.get(start..end),
        _ => None,
    };
    let pages = range.ok_or("the column lies outside the file")?;
    let value_bytes = match chunk.column_type() {
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        _ => 0,
    };
    walk(pages, expansion(chunk.compression()), value_bytes)
}

/// Walks pages one behind the other, whose codec makes at most `expansion` bytes of one.
fn walk(mut pages: &[u8], expansion: u64, value_bytes: i64) -> Result<(), String> {
    while !pages.is_empty() {
        let mut thrift = Thrift { bytes: pages };
        let header = thrift.page_header().ok_or("a page header is not readable")?;
        let packed = usize::try_from(header.packed).ok();
        let body = packed.and_then(|n| thrift.bytes.split_at_checked(n));
        let (body, next) = body.ok_or("a page is longer than its column")?;
        let allowed = (body.len() as u64).saturating_mul(expansion).max(FREE_BYTES);
        if u64::try_from(header.unpacked).map_or(true, |n| n > allowed) {
            let (packed, unpacked) = (header.packed, header.unpacked);
            return Err(format!("a page of {packed} bytes claims to unpack to {unpacked}"));
        }
        let dictionary = i64::from(header.dictionary_values.unwrap_or(0));
        if dictionary < 0 || dictionary * value_bytes > i64::from(header.unpacked) {
            return Err(format!(
                "a dictionary claims {dictionary} values, more than its page holds"
            ));
        }
        pages = next;
    }
    Ok(())
}

/// The most bytes that a codec can make of one.
fn expansion(compression: Compression) -> u64 {
    match compression {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 64,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1032,
        _ => 65_536,
    }
}

#[derive(Default)]
struct PageHeader {
    unpacked: i32,
    packed: i32,
    dictionary_values: Option<i32>,
}

/// A reader of Thrift's compact protocol that keeps the few fields wanted here and skips the others.
struct Thrift<'a> {
    bytes: &'a [u8],
}

impl Thrift<'_> {
    fn page_header(&mut self) -> Option<PageHeader> {
        let mut header = PageHeader::default();
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (2, 5) => header.unpacked = self.int()?,
                (3, 5) => header.packed = self.int()?,
                (7, STRUCT) => header.dictionary_values = Some(self.first_int()?),
                _ => self.skip(kind, 0)?,
            }
        }
        Some(header)
    }

    /// Field 1 of a struct, as a number.
    fn first_int(&mut self) -> Option<i32> {
        let (mut id, mut value) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (1, 5) => value = self.int()?,
                _ => self.skip(kind, 0)?,
            }
        }
        Some(value)
    }

    /// The type of the next field, with its id put into `id`; `Some(None)` at the end of a struct.
    fn field(&mut self, id: &mut i16) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        let delta = i16::from(byte >> 4);
        *id = if delta == 0 {
            i16::try_from(self.int()?).ok()?
        } else {
            id.checked_add(delta)?
        };
        Some(Some(byte & 15))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => self.bytes = self.bytes.get(8..)?,
            8 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.bytes = self.bytes.get(length..)?;
            }
            9 | 10 => {
                let byte = self.byte()?;
                let count = match byte >> 4 {
                    15 => self.varint()?,
                    few => u64::from(few),
                };
                let kind = byte & 15;
                for _ in 0..count {
                    // Truth values take a byte each in lists, unlike in structs.
                    if kind <= 2 {
                        self.byte()?;
                    } else {
                        self.skip(kind, depth + 1)?;
                    }
                }
            }
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn int(&mut self) -> Option<i32> {
        let raw = self.varint()?;
        i32::try_from((raw >> 1) as i64 ^ -((raw & 1) as i64)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i32, out: &mut Vec<u8>) {
        let mut raw = ((value << 1) ^ (value >> 31)) as u32;
        while raw >= 0x80 {
            out.push(raw as u8 | 0x80);
            raw >>= 7;
        }
        out.push(raw as u8);
    }

    /// A page of `packed` bytes, with a dictionary of so many values if there is one.
    fn page(unpacked: i32, packed: i32, dictionary: Option<i32>) -> Vec<u8> {
        let mut out = Vec::new();
        for field in [0, unpacked, packed] {
            out.push(0x15);
            int(field, &mut out);
        }
        if let Some(values) = dictionary {
            // From field 3 to field 7, a struct whose first field is the number of values.
            out.extend([0x4c, 0x15]);
            int(values, &mut out);
            out.push(0);
        }
        out.push(0);
        out.resize(out.len() + packed.clamp(0, 1000) as usize, 7);
        out
    }

    #[test]
    fn honest_pages_pass_and_impossible_sizes_are_named() {
        let honest = [page(80, 20, Some(10)), page(900, 500, None)].concat();
        assert_eq!(walk(&honest, 64, 8), Ok(()));
        let bomb = walk(&page(i32::MAX, 500, None), 64, 8).expect_err("a bomb");
        assert!(bomb.contains("500") && bomb.contains("2147483647"), "{bomb}");
        assert!(walk(&page(-1, 5, None), 64, 8).is_err());
        assert!(walk(&page(80, 20, Some(i32::MAX)), 64, 8).is_err());
        assert!(walk(&page(80, 20, Some(-1)), 64, 8).is_err());
        assert!(
            walk(&page(80, 5000, None), 64, 8).is_err(),
            "longer than the column"
        );
        assert!(walk(&page(80, -1, None), 64, 8).is_err());
        assert!(walk(&honest[..3], 64, 8).is_err());
    }
}
