//! Files that are whole or absent.
//!
//! A file is written beside its place under a name of its own, synced, renamed, and its folder synced. At the place is
//! either what was there before or all of the new file, whenever the process or the machine stops. Whoever fails or is
//! dropped takes away what it wrote; what a killed process leaves, [`sweep`] finds.

mod beside;
mod place;
mod whole;

use std::io::{self, Write};
use std::path::Path;

pub use beside::sweep;
pub use whole::{Whole, sync_folder};

/// Writes a file that is whole or absent. See [`Whole`] for what may stand at the path.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let mut file = Whole::create(path)?;
    file.write_all(bytes)?;
    file.commit()
}
