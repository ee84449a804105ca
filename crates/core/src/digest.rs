//! Digests of bytes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;

/// The BLAKE3 digest of some bytes: nobody finds others with the same. Text is 64 hexadecimal digits.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Takes in bytes part by part; how they are divided does not show in the digest.
#[derive(Clone, Debug, Default)]
pub struct Hasher(blake3::Hasher);

impl Digest {
    /// Of all these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// Of a file's contents, read in pieces.
    pub fn of_file(path: impl AsRef<Path>) -> io::Result<Digest> {
        Digest::of_reader(File::open(path)?)
    }

    /// Of all that is left to read.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Digest> {
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(read) => hasher.update(&buffer[..read]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Hasher {
    /// Of no bytes yet.
    pub fn new() -> Hasher {
        Hasher::default()
    }

    /// Takes in more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Digest, Error> {
        let hash = blake3::Hash::from_hex(text);
        let shown = || text.chars().take(80).collect();
        Ok(Digest(*hash.map_err(|_| Error::Digest(shown()))?.as_bytes()))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of no bytes, as published with BLAKE3.
    const EMPTY: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

    #[test]
    fn the_digest_is_blake3() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse(), Ok(Digest::of(b"")));
    }

    #[test]
    fn parts_and_files_have_the_digest_of_the_whole() -> io::Result<()> {
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let mut hasher = Hasher::new();
        for part in bytes.chunks(777) {
            hasher.write_all(part)?;
        }
        assert_eq!(hasher.finish(), Digest::of(&bytes));
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bytes");
        std::fs::write(&path, &bytes)?;
        assert_eq!(Digest::of_file(&path)?, Digest::of(&bytes));
        assert_ne!(Digest::of(&bytes), Digest::of(&bytes[1..]));
        Ok(())
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        for text in ["", "12", &EMPTY[1..], &EMPTY.replace('a', "g")] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
        let json = format!("\"{EMPTY}\"");
        assert_eq!(serde_json::from_str::<Digest>(&json).ok(), Some(Digest::of(b"")));
        assert_eq!(serde_json::to_string(&Digest::of(b"")).ok(), Some(json));
        assert!(serde_json::from_str::<Digest>("7").is_err());
    }
}
