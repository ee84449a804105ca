//! A file while it is written.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{beside, place};

/// A file that gets its name when it is whole.
///
/// An old file is replaced and its permissions are kept. A symbolic link stays and what it links to is replaced. Folders,
/// devices, pipes and sockets are refused. Dropped before [`Whole::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Whole {
    path: PathBuf,
    /// Where the file is until it has its name.
    beside: Option<PathBuf>,
    file: File,
}

impl Whole {
    /// Begins an empty file beside its place.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Whole> {
        let path = path.as_ref().to_path_buf();
        let (place, about) = place::find(&path)?;
        let permissions = about.map(|about| about.permissions());
        let (beside, file) = beside::create(&place, permissions.as_ref())?;
        let whole = Whole {
            path,
            beside: Some(beside),
            file,
        };
        if let Some(permissions) = permissions {
            whole.file.set_permissions(permissions)?;
        }
        Ok(whole)
    }

    /// The file, for readers and for writers that need more than [`Write`]. It is locked for as long as it is open.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether it has its name.
    pub fn is_named(&self) -> bool {
        self.beside.is_none()
    }

    /// Gives the file its name, for good: returns once a crash of the machine would leave it whole.
    pub fn commit(mut self) -> io::Result<()> {
        self.name()
    }

    /// Like [`Whole::commit`], for a file that grows after it has its name: whatever is written until the next call is then
    /// durable too.
    pub fn name(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let Some(beside) = &self.beside else {
            return Ok(());
        };
        // Once more, because a link or a pipe may have come meanwhile.
        let (place, _) = place::find(&self.path)?;
        fs::rename(beside, &place)?;
        self.beside = None;
        sync_folder(place::folder(&place))
    }
}

/// Makes the names in a folder durable, where the file system can do so.
pub fn sync_folder(folder: impl AsRef<Path>) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => Ok(()),
        synced => synced,
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Whole {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // Nobody is left who could be told; the next sweep tries again.
            let _ = fs::remove_file(beside);
        }
    }
}
