//! A file as memory: bytes and numbers read in place.

use std::{fs::File, io, mem, slice};

use memmap2::{Advice, Mmap};

/// A file's contents, mapped into memory, in the byte order of the machine.
///
/// The file is shared with everyone who may write to it. Bytes that others change show up changed, at any moment,
/// so nothing read from a map may be trusted twice. If others *truncate* the file, touching a page that is gone ends the
/// process with `SIGBUS`; no Rust code can turn that into an error. Map only files that are appended to or replaced by
/// renaming, as Synod's own are.
pub struct Map {
    mapped: Mmap,
}

impl Map {
    /// Maps the whole file as it is now; what is appended later is not seen.
    pub fn open(file: &File) -> io::Result<Map> {
        // SAFETY: the type's documentation hands on the contract of a shared mapping: others may change the bytes,
        // which are only ever read as numbers, for which every bit pattern is valid.
        let mapped = unsafe { Mmap::map(file)? };
        Ok(Map { mapped })
    }

    /// Tells the system that reads will jump about, so that it does not read ahead. Only a hint.
    pub fn expect_random_reads(&self) {
        let _ = self.mapped.advise(Advice::Random);
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.mapped
    }

    /// `len` floats from byte `start` on; none if they leave the file or `start` is not aligned.
    pub fn floats(&self, start: usize, len: usize) -> Option<&[f32]> {
        self.numbers(start, len)
    }

    /// `len` integers of 32 bits from byte `start` on; none if they leave the file or `start` is not aligned.
    pub fn ints(&self, start: usize, len: usize) -> Option<&[i32]> {
        self.numbers(start, len)
    }

    /// `len` integers of 64 bits from byte `start` on; none if they leave the file or `start` is not aligned.
    pub fn longs(&self, start: usize, len: usize) -> Option<&[i64]> {
        self.numbers(start, len)
    }

    fn numbers<T: Number>(&self, start: usize, len: usize) -> Option<&[T]> {
        let end = start.checked_add(len.checked_mul(mem::size_of::<T>())?)?;
        let bytes = self.bytes().get(start..end)?;
        if !bytes.as_ptr().cast::<T>().is_aligned() {
            return None;
        }
        // SAFETY: in bounds and aligned, borrowed with `self`, and every bit pattern is a `Number`.
        Some(unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), len) })
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Types without padding for which every bit pattern is a value.
trait Number: Copy {}
impl Number for f32 {}
impl Number for i32 {}
impl Number for i64 {}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    fn map(bytes: &[u8]) -> Map {
        let path = std::env::temp_dir().join(format!(
            "synod-map-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .expect("a file");
        let _ = std::fs::remove_file(path);
        file.write_all(bytes).expect("written");
        file.rewind().expect("rewound");
        Map::open(&file).expect("mapped")
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no mmap")]
    fn numbers_are_read_in_place_and_only_inside_the_file() {
        let mut bytes = 7i64.to_ne_bytes().to_vec();
        bytes.extend(1.5f32.to_ne_bytes());
        bytes.extend((-3i32).to_ne_bytes());
        let map = map(&bytes);
        assert_eq!(map.bytes(), bytes);
        assert_eq!(map.longs(0, 1), Some(&[7i64][..]));
        assert_eq!(map.floats(8, 1), Some(&[1.5f32][..]));
        assert_eq!(map.ints(12, 1), Some(&[-3][..]));
        assert_eq!(map.floats(16, 0), Some(&[][..]));
        assert_eq!(map.floats(12, 2), None);
        assert_eq!(map.floats(9, 1), None, "not aligned");
        assert_eq!(map.longs(usize::MAX, 1), None);
        assert_eq!(map.longs(0, usize::MAX / 4), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no mmap")]
    fn an_empty_file_is_an_empty_map() {
        let map = map(&[]);
        assert!(map.bytes().is_empty());
        assert_eq!(map.floats(0, 1), None);
    }
}
