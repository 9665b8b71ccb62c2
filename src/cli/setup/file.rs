//! The file of a client: where it really is, and how it is replaced.
//!
//! *Invariant:* with `--project` nothing outside the folder is read or written. A file is replaced as a whole, and only while it
//! is as it was shown; its mode and its owner stay.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};

use super::Change;
use crate::cli::exit::Failure;

/// Returns where a file really is: what manages such files often puts links there, and they stay.
///
/// # Errors
/// A link leads to nothing, or out of the folder that the file has to be in.
pub(super) fn locate(path: &Path, within: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path).map_err(|source| unread(path, source))?;
    let path = path.as_path();
    let there = what_is_there(path);
    let found = match fs::canonicalize(there) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(leads_nowhere(there)),
        Err(source) => return Err(unread(there, source)),
    };
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    // With an empty rest, `join` would put a slash behind the name of a file.
    let found = if rest.as_os_str().is_empty() {
        found
    } else {
        found.join(rest)
    };
    if let Some(folder) = within {
        let folder = fs::canonicalize(folder).map_err(|source| unread(folder, source))?;
        if !found.starts_with(&folder) {
            return Err(Failure::Usage(format!(
                "{} is a link out of the project, to {}, so it was not touched: put a file there, or leave out --project to \
                 change your own",
                path.display(),
                found.display()
            )));
        }
    }
    Ok(found)
}

/// Of a file that is new, the folders above it may be links.
fn what_is_there(path: &Path) -> &Path {
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    path.ancestors().find(is_there).unwrap_or(path)
}

fn leads_nowhere(link: &Path) -> Failure {
    Failure::Usage(format!(
        "{} is a link to a file that does not exist, so it was left unchanged: create that file, or remove the link",
        link.display()
    ))
}

fn unread(path: &Path, source: io::Error) -> Failure {
    Failure::Read {
        path: path.to_owned(),
        source,
    }
}

/// Returns the text of a file, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unread(path, source)),
    }
}

/// Replaces the file as a whole: the client may read it at any moment.
pub(super) fn write(change: &Change) -> Result<(), Failure> {
    let path = &change.path;
    let unwritten = |source| Failure::WriteFile {
        path: path.clone(),
        source,
    };
    // Before a folder is made.
    unchanged(change)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(unwritten)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(unwritten)?;
    file.write_all(change.new.as_bytes()).map_err(unwritten)?;
    match fs::metadata(path) {
        Ok(like) => {
            own(file.as_file(), &like).map_err(|source| not_given(path, &source))?;
            file.as_file().set_permissions(like.permissions()).map_err(unwritten)?;
        }
        Err(_) => {
            let mode = Permissions::from_mode(change.mode);
            file.as_file().set_permissions(mode).map_err(unwritten)?;
        }
    }
    file.as_file().sync_all().map_err(unwritten)?;
    // And again, as the last thing: the client may have written meanwhile, and so may whoever owns the folder.
    unchanged(change)?;
    file.persist(path).map_err(|error| unwritten(error.error))?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(unwritten)
}

fn unchanged(change: &Change) -> Result<(), Failure> {
    let path = &change.path;
    // The path has no links in it, unless one was put there since.
    let there = what_is_there(path);
    let is_here = fs::canonicalize(there).is_ok_and(|found| found == there);
    if is_here && read(path)? == change.old {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} has been changed meanwhile, so nothing was written; run this command again",
        path.display()
    )))
}

/// Gives a file to whom another belongs.
fn own(file: &File, like: &fs::Metadata) -> io::Result<()> {
    let mine = file.metadata()?;
    let owner = (mine.uid() != like.uid()).then(|| Uid::from_raw(like.uid()));
    let group = (mine.gid() != like.gid()).then(|| Gid::from_raw(like.gid()));
    if owner.is_none() && group.is_none() {
        return Ok(());
    }
    Ok(rustix::fs::fchown(file, owner, group)?)
}

fn not_given(path: &Path, source: &io::Error) -> Failure {
    Failure::Usage(format!(
        "{} belongs to another user or group, and its owner could not be kept ({source}), so it was left unchanged: run this as its owner",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const OWN_FILE: u32 = 0o600;

    fn change(path: &Path, old: Option<&str>, new: &str) -> Change {
        Change {
            path: path.to_owned(),
            old: old.map(str::to_owned),
            new: new.to_owned(),
            shown: String::new(),
            mode: OWN_FILE,
        }
    }

    /// A folder whose path has no links in it.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
        let (_kept, folder) = folder();
        let path = folder.join("deep/settings.json");
        write(&change(&path, None, "{}\n")).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, OWN_FILE);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write(&change(&path, Some("{}\n"), "{\"a\": 1}\n")).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        let refused = write(&change(&path, Some("{}\n"), "")).unwrap_err();
        assert!(refused.to_string().contains("changed meanwhile"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\": 1}\n");
        let others = path.parent().unwrap().read_dir().unwrap().count();
        assert_eq!(others, 1, "nothing else is left");
    }

    #[test]
    fn a_file_keeps_its_owner_or_is_left_alone() {
        let (_kept, folder) = folder();
        let path = folder.join("settings.json");
        fs::write(&path, "{}\n").unwrap();
        let other = (Some(Uid::from_raw(4321)), Some(Gid::from_raw(4321)));
        if rustix::fs::chown(&path, other.0, other.1).is_ok() {
            write(&change(&path, Some("{}\n"), "{\"a\": 1}\n")).unwrap();
            let kept = path.metadata().unwrap();
            assert_eq!((kept.uid(), kept.gid()), (4321, 4321));
        } else {
            // Whoever may not give files away is told so.
            let like = fs::metadata("/etc/passwd").unwrap();
            assert!(own(&File::open(&path).unwrap(), &like).is_err());
        }
    }

    #[test]
    fn a_link_that_was_put_there_meanwhile_is_not_followed() {
        let (_kept, folder) = folder();
        fs::create_dir(folder.join("elsewhere")).unwrap();
        symlink(folder.join("elsewhere"), folder.join("project")).unwrap();
        symlink("nowhere", folder.join("link.json")).unwrap();
        for path in ["project/settings.json", "link.json"] {
            let path = folder.join(path);
            assert!(write(&change(&path, None, "{}\n")).is_err(), "{}", path.display());
        }
        assert_eq!(folder.join("elsewhere").read_dir().unwrap().count(), 0);
        assert!(folder.join("link.json").is_symlink());
    }

    #[test]
    fn links_are_followed_but_not_out_of_a_project_and_not_to_nothing() {
        let (_kept, home) = folder();
        let project = home.join("project");
        fs::create_dir_all(project.join("inside")).unwrap();
        fs::write(home.join("mine.json"), "{}\n").unwrap();
        symlink("../mine.json", project.join("out.json")).unwrap();
        symlink("..", project.join("up")).unwrap();
        symlink("nowhere.json", project.join("dangling.json")).unwrap();
        symlink("nowhere", project.join("lost")).unwrap();
        symlink("inside", project.join("in")).unwrap();
        let at = |file: &str, within: Option<&Path>| locate(&project.join(file), within);

        assert_eq!(
            at("in/new/a.json", Some(&project)).unwrap(),
            project.join("inside/new/a.json")
        );
        assert_eq!(at("out.json", None).unwrap(), home.join("mine.json"));
        assert_eq!(at("up/new.json", None).unwrap(), home.join("new.json"));
        for file in ["out.json", "up/new.json", "up/mine.json"] {
            let refused = at(file, Some(&project)).unwrap_err().to_string();
            assert!(refused.contains("out of the project"), "{file}: {refused}");
        }
        for file in ["dangling.json", "lost/a.json"] {
            for within in [None, Some(project.as_path())] {
                let refused = at(file, within).unwrap_err().to_string();
                assert!(refused.contains("does not exist"), "{file}: {refused}");
            }
        }
    }
}
