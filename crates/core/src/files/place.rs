//! Where a file is to stand.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Links that are followed before they are taken for a circle, as many as Linux follows.
const MOST_LINKS: usize = 40;

/// The place behind all symbolic links, and what is there now, which is a file or nothing.
pub(super) fn find(path: &Path) -> io::Result<(PathBuf, Option<Metadata>)> {
    let mut place = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        if place.file_name().is_none() {
            return Err(refused("it is not the name of a file; name one"));
        }
        match fs::symlink_metadata(&place) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok((place, None)),
            Err(e) => return Err(e),
            Ok(about) if about.is_symlink() => {
                // What is linked to without a path of its own, such as /dev/stdout to a pipe, is no place for a file.
                check(&fs::metadata(&place))?;
                let target = fs::read_link(&place)?;
                place = place.parent().unwrap_or(Path::new("")).join(target);
            }
            about => {
                check(&about)?;
                return Ok((place, about.ok()));
            }
        }
    }
    Err(refused("it is a circle of symbolic links; remove them"))
}

/// Refuses what a rename would destroy, or would not reach.
fn check(about: &io::Result<Metadata>) -> io::Result<()> {
    match about {
        Ok(about) if about.is_dir() => Err(refused("it is a folder; name a file in it")),
        Ok(about) if !about.is_file() => Err(refused(
            "it is a device, a pipe or a socket, which cannot be replaced by a whole file; name a file",
        )),
        _ => Ok(()),
    }
}

fn refused(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, problem)
}

/// The folder of a place.
pub(super) fn folder(place: &Path) -> &Path {
    place
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
