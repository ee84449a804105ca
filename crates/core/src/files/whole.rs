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
    beside: PathBuf,
    /// None once it is no longer ours to remove.
    file: Option<File>,
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
            beside,
            file: Some(file),
        };
        if let Some(permissions) = permissions {
            whole.file().set_permissions(permissions)?;
        }
        Ok(whole)
    }

    /// The file, for readers and for writers that need more than [`Write`]. It is locked for as long as it is open.
    pub fn file(&self) -> &File {
        self.file
            .as_ref()
            .expect("the file is there until it is committed")
    }

    /// Gives the file its name, for good: returns once a crash of the machine would leave it whole. The file stays open
    /// and locked for whoever goes on writing.
    pub fn commit(mut self) -> io::Result<File> {
        self.file().sync_all()?;
        // Again, because a link or a pipe may have come meanwhile.
        let (place, _) = place::find(&self.path)?;
        fs::rename(&self.beside, &place)?;
        let file = self.file.take().expect("the file is there until it is committed");
        sync(place::folder(&place))?;
        Ok(file)
    }
}

/// Makes the names in a folder durable, where the file system can do so.
fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => Ok(()),
        synced => synced,
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Seek for Whole {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file().seek(position)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if self.file.is_some() {
            // Nobody is left who could be told; the next sweep tries again.
            let _ = fs::remove_file(&self.beside);
        }
    }
}
