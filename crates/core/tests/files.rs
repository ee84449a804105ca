//! What a whole file promises.
#![cfg(unix)]

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use synod_core::files::{self, Whole};

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

fn refused(path: &Path) -> String {
    let error = files::write(path, b"new").expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    error.to_string()
}

#[test]
fn a_file_appears_whole_and_alone() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.txt");
    files::write(&path, b"new")?;
    assert_eq!(fs::read(&path)?, b"new");
    assert_eq!(names(folder.path())?, ["a.txt"]);
    files::write(&path, b"newer")?;
    assert_eq!(fs::read(&path)?, b"newer");
    assert_eq!(names(folder.path())?, ["a.txt"]);
    Ok(())
}

/// Whatever moment a process is killed at, what is at the path then is what is at the path before or after the commit.
#[test]
fn until_the_commit_the_old_file_stands_and_the_new_one_is_beside() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.txt");
    fs::write(&path, "old")?;
    let mut file = Whole::create(&path)?;
    for part in ["n", "e", "w"] {
        file.write_all(part.as_bytes())?;
        assert_eq!(fs::read(&path)?, b"old");
    }
    let beside = names(folder.path())?;
    assert_eq!(beside.len(), 2);
    assert!(beside[0].starts_with(".a.txt.") && beside[0].ends_with(".part"));
    file.commit()?;
    assert_eq!(fs::read(&path)?, b"new");
    assert_eq!(names(folder.path())?, ["a.txt"]);
    Ok(())
}

#[test]
fn a_file_may_grow_under_its_name() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.txt");
    let mut file = Whole::create(&path)?;
    file.write_all(b"head")?;
    assert!(!file.is_named() && !path.exists());
    file.name()?;
    assert!(file.is_named());
    assert_eq!(fs::read(&path)?, b"head");
    file.write_all(b" and tail")?;
    file.name()?;
    drop(file);
    assert_eq!(fs::read(&path)?, b"head and tail");
    Ok(())
}

#[test]
fn what_is_dropped_or_fails_leaves_nothing() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.txt");
    let mut file = Whole::create(&path)?;
    file.write_all(b"half")?;
    drop(file);
    assert!(names(folder.path())?.is_empty());
    let file = Whole::create(&path)?;
    fs::create_dir(&path)?;
    assert!(file.commit().is_err());
    assert_eq!(names(folder.path())?, ["a.txt"]);
    assert!(path.is_dir());
    Ok(())
}

#[test]
fn two_who_write_the_same_file_do_not_meet() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.txt");
    let (mut one, mut two) = (Whole::create(&path)?, Whole::create(&path)?);
    one.write_all(b"first")?;
    two.write_all(b"second")?;
    two.commit()?;
    assert_eq!(fs::read(&path)?, b"second");
    one.commit()?;
    assert_eq!(fs::read(&path)?, b"first");
    assert_eq!(names(folder.path())?, ["a.txt"]);
    Ok(())
}

#[test]
fn a_link_stays_and_what_it_links_to_is_replaced() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let far = folder.path().join("far");
    fs::create_dir(&far)?;
    fs::write(far.join("a.txt"), "old")?;
    let (link, chain) = (folder.path().join("link"), folder.path().join("chain"));
    symlink("far/a.txt", &link)?;
    symlink("link", &chain)?;
    files::write(&chain, b"new")?;
    assert_eq!(fs::read(far.join("a.txt"))?, b"new");
    assert!(fs::symlink_metadata(&link)?.is_symlink() && fs::symlink_metadata(&chain)?.is_symlink());
    assert_eq!(names(&far)?, ["a.txt"]);
    Ok(())
}

#[test]
fn what_a_link_to_nothing_links_to_is_created() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let link = folder.path().join("link");
    symlink("later.txt", &link)?;
    files::write(&link, b"new")?;
    assert!(fs::symlink_metadata(&link)?.is_symlink());
    assert_eq!(fs::read(folder.path().join("later.txt"))?, b"new");
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    symlink("b", &a)?;
    symlink("a", &b)?;
    assert!(files::write(&a, b"new").is_err(), "a circle");
    Ok(())
}

#[test]
fn what_is_no_file_is_refused_and_stays() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    assert!(refused(folder.path()).contains("is a folder"));
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status()?.success());
    assert!(refused(&pipe).contains("pipe"));
    let socket = folder.path().join("socket");
    let _open = UnixListener::bind(&socket)?;
    assert!(refused(&socket).contains("socket"));
    let link = folder.path().join("link");
    symlink("/dev/null", &link)?;
    assert!(refused(&link).contains("device"));
    assert!(refused(Path::new("/dev/null")).contains("device"));
    assert!(refused(&folder.path().join("..")).contains("name of a file"));
    assert_eq!(names(folder.path())?, ["link", "pipe", "socket"]);
    Ok(())
}

#[test]
fn permissions_of_the_old_file_are_kept_from_the_first_byte() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("secret");
    fs::write(&path, "old")?;
    let mode = |path: &Path| Ok::<u32, io::Error>(fs::metadata(path)?.permissions().mode() & 0o7777);
    for kept in [0o600, 0o640, 0o666, 0o444] {
        fs::set_permissions(&path, fs::Permissions::from_mode(kept))?;
        let mut file = Whole::create(&path)?;
        let beside = names(folder.path())?.remove(0);
        assert_eq!(mode(&folder.path().join(beside))?, kept);
        file.write_all(b"new")?;
        file.commit()?;
        assert_eq!(mode(&path)?, kept);
    }
    Ok(())
}

#[test]
fn the_longest_names_have_room_beside_them() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    for name in ["n".repeat(255), "ä".repeat(127)] {
        let path = folder.path().join(name);
        files::write(&path, b"new")?;
        assert_eq!(fs::read(&path)?, b"new");
    }
    Ok(())
}

#[test]
fn without_a_folder_the_path_is_in_the_working_one() -> io::Result<()> {
    let name = format!("synod-core-whole-{}", std::process::id());
    files::write(&name, b"new")?;
    let read = fs::read(&name)?;
    fs::remove_file(&name)?;
    assert_eq!(read, b"new");
    Ok(())
}

const SIZE: usize = 1 << 20;
const TARGET: &str = "SYNOD_FILE_TO_WRITE";

/// Other processes are killed in here by [`a_killed_process_leaves_a_whole_file_and_what_can_be_swept`].
#[test]
#[ignore = "it ends when it is killed"]
fn writes_until_killed() -> io::Result<()> {
    let Some(path) = std::env::var_os(TARGET) else {
        return Ok(());
    };
    for content in (b'a'..=b'z').cycle() {
        files::write(&path, &vec![content; SIZE])?;
        writeln!(io::stdout(), "written")?;
    }
    Ok(())
}

#[test]
fn a_killed_process_leaves_a_whole_file_and_what_can_be_swept() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.txt");
    for writes in 1..12 {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "writes_until_killed", "--ignored", "--nocapture"])
            .env(TARGET, &path)
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let written = lines
            .map_while(Result::ok)
            .filter(|line| line.contains("written"));
        assert_eq!(written.take(writes).count(), writes);
        child.kill()?;
        child.wait()?;
        let content = fs::read(&path)?;
        assert_eq!(content.len(), SIZE);
        assert!(content.iter().all(|byte| *byte == content[0]));
        files::sweep(folder.path())?;
        assert_eq!(names(folder.path())?, ["a.txt"]);
    }
    Ok(())
}
