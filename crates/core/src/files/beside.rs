//! Files under preliminary names.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::place::folder;

/// Bytes of the final name that the preliminary one repeats: with the rest it must not be longer than file systems allow.
const REPEATED: usize = 180;
const ENDING: &str = ".part";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Creates a file beside a place, under a name that nothing else has, and locks it for as long as it is open.
pub(super) fn create(place: &Path, permissions: Option<&Permissions>) -> io::Result<(PathBuf, File)> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let mut name: &str = &name;
    while name.len() > REPEATED {
        name = &name[..name.floor_char_boundary(name.len() - 1)];
    }
    loop {
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = folder(place).join(format!(".{name}.{process}.{number}{ENDING}"));
        match open(&path, permissions) {
            // Left by a killed process that had our number.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
            Ok(file) if is_ours(&file, &path) => return Ok((path, file)),
            Ok(_) => continue,
        }
    }
}

fn open(path: &Path, permissions: Option<&Permissions>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if let Some(permissions) = permissions {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        // From the beginning, because who may not read the old file must not open the new one meanwhile.
        options.mode(permissions.mode() & 0o777);
    }
    options.open(path)
}

/// Locks a file that was just created. False if somebody who sweeps was faster.
fn is_ours(file: &File, path: &Path) -> bool {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => false,
        // Where there are no locks, nobody sweeps.
        Ok(()) | Err(TryLockError::Error(_)) => fs::symlink_metadata(path).is_ok(),
    }
}

/// Removes from a folder what killed processes left there of files that they had begun, and tells how many files those
/// were. What is still being written, by whichever process, stays; so does everything where files cannot be locked.
pub fn sweep(folder: impl AsRef<Path>) -> io::Result<usize> {
    let mut swept = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(is_preliminary) && entry.file_type()?.is_file() {
            swept += usize::from(is_swept(&entry.path())?);
        }
    }
    Ok(swept)
}

fn is_swept(path: &Path) -> io::Result<bool> {
    let Ok(file) = OpenOptions::new().write(true).open(path) else {
        return Ok(false);
    };
    if file.try_lock().is_err() {
        return Ok(false);
    }
    match fs::remove_file(path) {
        // It got its name, or somebody else swept it.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Whether a name is of the form `.name.process.number.part`.
fn is_preliminary(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let inner = name.strip_prefix('.').and_then(|n| n.strip_suffix(ENDING));
    let Some(inner) = inner else {
        return false;
    };
    let mut parts = inner.rsplitn(3, '.');
    let numbers = [parts.next(), parts.next()];
    numbers.iter().all(|part| part.is_some_and(is_number))
        && parts.next().is_some_and(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_preliminary_names_are_taken_for_such() {
        for name in [".model.safetensors.123.0.part", ".a.1.2.part"] {
            assert!(is_preliminary(name), "{name}");
        }
        for name in [
            "a.1.2.part",
            ".a.1.part",
            ".a.x.2.part",
            ".a.1.2.partial",
            "..1.2.part",
            ".part",
            ".a.1..part",
        ] {
            assert!(!is_preliminary(name), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_neither_followed_nor_written() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let place = folder.path().join("a");
        let (path, file) = create(&place, None)?;
        let text = path.to_string_lossy().into_owned();
        let number: u64 = text
            .strip_suffix(ENDING)
            .and_then(|t| t.rsplit_once('.'))
            .and_then(|(_, number)| number.parse().ok())
            .expect("a number");
        // Other tests take numbers too, so many are taken; links to a file that must stay as it is.
        let victim = folder.path().join("victim");
        fs::write(&victim, "untouched")?;
        #[cfg(unix)]
        for taken in number + 1..number + 2000 {
            let name = format!(".a.{}.{taken}.part", std::process::id());
            std::os::unix::fs::symlink(&victim, folder.path().join(name))?;
        }
        let (second, _) = create(&place, None)?;
        assert_ne!(second, path);
        assert!(fs::symlink_metadata(&second)?.is_file());
        assert_eq!(fs::read(&victim)?, b"untouched");
        drop(file);
        Ok(())
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_what_is_written_stays() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (written, file) = create(&folder.path().join("b"), None)?;
        let left = folder.path().join(".a.1.2.part");
        fs::write(&left, "half")?;
        let other = folder.path().join("a.part");
        fs::write(&other, "somebody's")?;
        assert_eq!(sweep(folder.path())?, 1);
        assert!(!left.exists() && other.exists() && written.exists());
        drop(file);
        assert_eq!(sweep(folder.path())?, 1);
        assert!(!written.exists());
        Ok(())
    }
}
