//! Who holds a folder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

const NAME: &str = ".lock";
/// How often a folder that its holder is taking away is made again.
const TRIES: usize = 100;

/// A folder that no other process can hold, for as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    /// Closing it gives the folder free.
    _file: File,
    path: PathBuf,
    /// Folders that were made to hold this one, the innermost first.
    made: Vec<PathBuf>,
}

impl Lock {
    /// Makes the folder if need be, and holds it.
    pub(super) fn take(folder: &Path) -> Result<Lock> {
        let (path, mut made) = (folder.join(NAME), vec![]);
        for _ in 0..TRIES {
            made.extend(missing(folder));
            fs::create_dir_all(folder).map_err(Error::io("create the folder of the run", folder))?;
            let file = match File::options().create(true).append(true).open(&path) {
                // Whoever held it took the folder away.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(Error::io("open", &path))?,
            };
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(held(folder)),
                // Parallel file systems are often mounted without locks.
                Ok(()) | Err(TryLockError::Error(_)) if stands(&file, &path) => {
                    return Ok(Lock {
                        _file: file,
                        path,
                        made,
                    });
                }
                _ => {}
            }
        }
        Err(held(folder))
    }

    /// Removes the folder, and those made for it, where nothing else is in them.
    pub(super) fn take_away(&self) {
        if self.made.is_empty() || !is_alone(&self.path) {
            return;
        }
        // Whoever opens the file from here on finds that it stands no longer. What cannot be removed does no harm.
        let _ = fs::remove_file(&self.path);
        for folder in &self.made {
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

fn held(folder: &Path) -> Error {
    Error::Refused {
        folder: folder.to_owned(),
        problem: "another process is at work here; wait for it, or set another `name` or --runs".into(),
    }
}

/// The folders that have yet to be made, the innermost first.
fn missing(folder: &Path) -> Vec<PathBuf> {
    let all = folder.ancestors().filter(|f| !f.as_os_str().is_empty());
    all.take_while(|f| !f.exists()).map(Path::to_owned).collect()
}

/// Whether nothing stands beside a file.
fn is_alone(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::read_dir(folder).is_ok_and(|entries| entries.count() == 1)
}

/// Whether the file that was opened is still the one at its path.
fn stands(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let place = |about: fs::Metadata| (about.dev(), about.ino());
        let (own, there) = (file.metadata().map(place), fs::metadata(path).map(place));
        matches!((own, there), (Ok(own), Ok(there)) if own == there)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}
