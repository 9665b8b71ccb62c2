//! Folders that the service makes and takes away as a whole, below a root of its own.
//!
//! *Invariant:* a folder is filled aside and comes to its place whole, where nothing was. Nothing outside the root is written or
//! removed, wherever links lead. Who fills the folder aside is the service alone, so there is nobody to race with.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::archive::Contents;
use super::place::{self, Folder, Place};
use super::removed::Bin;

/// Where folders are filled, and where they are until they are removed. No workspace has such a name.
const MAKING: &str = "+making";
const GONE: &str = "+gone";

/// Folders in folders, as deep as is copied.
const MAX_DEPTH: usize = 100;

/// Entries of a template.
const MAX_ENTRIES: usize = 200_000;

/// Why a folder is not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Something is at its place.
    #[error("{} is there already, and no workspace: take it away, or choose another name", .0.display())]
    Taken(PathBuf),
    /// A template has something that is not copied.
    #[error("{} cannot be copied: {why}", path.display())]
    Template {
        /// What.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// There would be too much in it.
    #[error("there are more than {0} in it")]
    TooLarge(String),
    /// The system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> CreateError + 'a {
    move |source| CreateError::Io {
        what,
        path: path.to_path_buf(),
        source,
    }
}

/// A root below which folders are made, links followed.
#[derive(Clone, Debug)]
pub struct Created {
    root: PathBuf,
}

impl Created {
    /// Opens a root, which is made if it is missing, with those above it. Where links in its path lead is found once: all say
    /// the same path for a folder then. Blocking.
    ///
    /// # Errors
    /// The system refused.
    pub fn open(root: &Path) -> Result<Self, CreateError> {
        fs::create_dir_all(root).map_err(io_error("make the folder", root))?;
        let root = root.canonicalize().map_err(io_error("find the folder", root))?;
        Ok(Self { root })
    }

    /// Returns the root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns where the folder of a name is, or will be.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the names of what was moved out of the way, and is still there. Blocking.
    pub fn left(&self) -> Vec<String> {
        names_in(&self.root.join(GONE))
    }

    /// Removes what [`Self::left`] has found, unless `stop` says so. It may take long. Blocking.
    ///
    /// # Errors
    /// The system refused, or it was stopped.
    pub fn clean(&self, left: &[String], stop: &dyn Fn() -> bool) -> Result<(), CreateError> {
        for name in left {
            let path = self.root.join(GONE).join(name);
            self.bin()?.remove(&path, stop).map_err(io_error("remove", &path))?;
        }
        Ok(())
    }

    fn bin(&self) -> Result<Bin, CreateError> {
        let path = self.root.join(GONE);
        Bin::open(&self.root, &path).map_err(io_error("make the folder", &path))
    }

    fn remove(&self, path: &Path) -> Result<(), CreateError> {
        self.bin()?.remove(path, &|| false).map_err(io_error("remove", path))
    }

    /// Says whether there is anything at the place of a folder. Blocking.
    pub fn is_there(&self, name: &str) -> bool {
        self.folder(name).symlink_metadata().is_ok()
    }

    fn aside(&self, name: &str) -> PathBuf {
        self.root.join(MAKING).join(name.replace('/', "%2f"))
    }

    /// Says whether there is something aside that has not come to its place. Blocking.
    pub fn is_aside(&self, name: &str) -> bool {
        self.aside(name).symlink_metadata().is_ok()
    }

    /// Makes an empty folder aside, in which the folder of a name is filled. What an earlier attempt left there is removed.
    /// Blocking.
    ///
    /// # Errors
    /// The system refused.
    pub fn begin(&self, name: &str) -> Result<PathBuf, CreateError> {
        let root = &self.root;
        let aside = self.aside(name);
        self.remove(&aside)?;
        let made = place::make_folder(Some(root), &aside, &mut |_| {});
        made.map_err(io_error("make the folder", &aside))?;
        Ok(aside)
    }

    /// Removes what was made aside for a name. Blocking.
    ///
    /// # Errors
    /// The system refused.
    pub fn abandon(&self, name: &str) -> Result<(), CreateError> {
        self.remove(&self.aside(name))
    }

    /// Brings a folder that was filled aside to its place. Blocking.
    ///
    /// # Errors
    /// Something is there, or the system refused.
    pub fn put(&self, name: &str, aside: &Path) -> Result<PathBuf, CreateError> {
        let root = &self.root;
        let folder = root.join(name);
        sync_tree(aside);
        let from = place_of(root, aside)?;
        let above = folder.parent().unwrap_or(root);
        let above = place::make_folder(Some(root), above, &mut |_| {});
        let above = above.map_err(io_error("make the folder above", &folder))?;
        let to = Place::new(&Arc::new(above), file_name(&folder));
        if to.metadata().is_ok() {
            return Err(CreateError::Taken(folder));
        }
        from.rename_new(&to).map_err(|source| match source {
            source if source.kind() == ErrorKind::AlreadyExists => CreateError::Taken(folder.clone()),
            source => io_error("move to its place", &folder)(source),
        })?;
        to.folder().sync();
        Ok(folder)
    }

    /// Takes the folder of a name away, with all that is in it; true if it was there. It is out of the way at once, and removed
    /// then. Of the folders above it, those that are empty go too. Blocking.
    ///
    /// # Errors
    /// The system refused. What was moved out of the way is removed by [`Self::clean`].
    pub fn take_away(&self, name: &str) -> Result<bool, CreateError> {
        let root = &self.root;
        let folder = root.join(name);
        let from = match place_of(root, &folder) {
            Ok(from) => from,
            Err(CreateError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if from.metadata().is_err() {
            return Ok(false);
        }
        let to = self.bin()?.place();
        from.rename_new(&to).map_err(io_error("move away", &folder))?;
        let mut above = folder.parent();
        while let Some(folder) = above.filter(|above| **above != **root && above.starts_with(root)) {
            let Ok(true) = place_of(root, folder).map(|place| place.remove_folder().is_ok()) else {
                break;
            };
            above = folder.parent();
        }
        self.remove(&to.path())?;
        Ok(true)
    }
}

fn file_name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn place_of(root: &Path, path: &Path) -> Result<Place, CreateError> {
    let above = Folder::open(Some(root), path.parent().unwrap_or(root));
    let above = above.map_err(io_error("open the folder above", path))?;
    Ok(Place::new(&Arc::new(above), file_name(path)))
}

/// Makes a folder durable, as far as the file system does that: a crash must not leave a whole folder with empty files.
fn sync_tree(folder: &Path) {
    if let Ok(opened) = fs::File::open(folder) {
        // All of the file system at once is much cheaper than file by file.
        let _ = rustix::fs::syncfs(opened);
    }
}

/// Returns the names in a folder that are text, in their order; none if it cannot be read. Blocking.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// Checks that the files in a folder have not more bytes than they may, and that they are not too many. What vanishes meanwhile
/// is passed over. Blocking.
///
/// # Errors
/// There is more, or something that cannot be looked at: that may be anything.
pub fn check_size(folder: &Path, max_bytes: u64) -> Result<(), CreateError> {
    let (mut bytes, mut entries) = (0_u64, 0);
    // Not one in the other: whoever fills it says how deep it is.
    let mut folders = vec![folder.to_path_buf()];
    let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    while let Some(folder) = folders.pop() {
        let listed = match fs::read_dir(&folder) {
            Err(error) if is_gone(&error) => continue,
            listed => listed.map_err(io_error("list", &folder))?,
        };
        for entry in listed {
            let entry = entry.map_err(io_error("list", &folder))?;
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(CreateError::TooLarge(format!("{MAX_ENTRIES} entries")));
            }
            let path = entry.path();
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(path),
                Ok(found) => bytes = bytes.saturating_add(found.len()),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(io_error("look at", &path)(error)),
            }
        }
    }
    match bytes > max_bytes {
        true => Err(CreateError::TooLarge(format!("{max_bytes} bytes"))),
        false => Ok(()),
    }
}

/// Copies what is in a template. Links stay links, if they lead to something in the template. Blocking.
///
/// # Errors
/// It has something that is not copied, too much of it, or the system refused.
pub fn copy_template(template: &Path, to: &Path, max_bytes: u64) -> Result<(), CreateError> {
    let mut copy = Copy {
        template,
        entries: 0,
        bytes: 0,
        max_bytes,
    };
    copy.folder(template, to, 0)
}

struct Copy<'a> {
    template: &'a Path,
    entries: usize,
    bytes: u64,
    max_bytes: u64,
}

impl Copy<'_> {
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), CreateError> {
        let refused = |path: &Path, why| CreateError::Template {
            path: path.to_path_buf(),
            why,
        };
        if depth > MAX_DEPTH {
            return Err(refused(from, "it is too deep in the template"));
        }
        for entry in fs::read_dir(from).map_err(io_error("list", from))? {
            let entry = entry.map_err(io_error("list", from))?;
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(CreateError::TooLarge(format!("{MAX_ENTRIES} entries")));
            }
            let found = entry.metadata().map_err(io_error("look at", &path))?;
            if found.is_dir() {
                fs::create_dir(&target).map_err(io_error("make the folder", &target))?;
                self.folder(&path, &target, depth + 1)?;
                let mode = Permissions::from_mode(found.permissions().mode() & 0o777);
                fs::set_permissions(&target, mode).map_err(io_error("make the folder", &target))?;
            } else if found.is_symlink() {
                let leads = fs::read_link(&path).map_err(io_error("read the link", &path))?;
                if !stays_below(self.template, from, &leads) {
                    return Err(refused(&path, "it is a link that leads out of the template"));
                }
                symlink(&leads, &target).map_err(io_error("make the link", &target))?;
            } else if found.is_file() {
                self.bytes = self.bytes.saturating_add(found.len());
                if self.bytes > self.max_bytes {
                    return Err(CreateError::TooLarge(format!("{} bytes", self.max_bytes)));
                }
                fs::copy(&path, &target).map_err(io_error("copy", &path))?;
            } else {
                return Err(refused(&path, "it is neither a file, a folder nor a link"));
            }
        }
        Ok(())
    }
}

/// Says whether a link in a folder below a root leads to something below it, by its text.
fn stays_below(root: &Path, folder: &Path, leads: &Path) -> bool {
    let Ok(at) = folder.strip_prefix(root) else {
        return false;
    };
    let mut depth = at.components().count();
    for part in leads.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

/// Writes what is in an archive into an empty folder. Blocking.
///
/// # Errors
/// The system refused.
pub fn write_contents(contents: &Contents, to: &Path) -> Result<(), CreateError> {
    let files = contents.files.iter().filter_map(|file| file.path.parent());
    let mut folders: BTreeMap<&Path, ()> = files.map(|folder| (folder, ())).collect();
    folders.extend(contents.folders.iter().map(|folder| (folder.as_path(), ())));
    for folder in folders.into_keys() {
        let folder = to.join(folder);
        fs::create_dir_all(&folder).map_err(io_error("make the folder", &folder))?;
    }
    for file in &contents.files {
        let path = to.join(&file.path);
        fs::write(&path, &file.bytes).map_err(io_error("write", &path))?;
        // One that its owner cannot read would be of no use.
        let mode = Permissions::from_mode(file.mode | 0o600);
        fs::set_permissions(&path, mode).map_err(io_error("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage() -> (tempfile::TempDir, PathBuf, Created) {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir(base.join("root")).unwrap();
        let created = Created::open(&base.join("root")).unwrap();
        (folder, base, created)
    }

    #[test]
    fn a_folder_comes_whole_and_goes_whole() {
        let (_folder, base, created) = stage();
        let aside = created.begin("acme/web").unwrap();
        fs::write(aside.join("left"), "").unwrap();
        // What an earlier attempt left is not there.
        let aside = created.begin("acme/web").unwrap();
        assert!(!aside.join("left").exists());
        fs::write(aside.join("file"), "text").unwrap();
        assert!(!created.is_there("acme/web"));
        let folder = created.put("acme/web", &aside).unwrap();
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "text");
        let again = created.begin("acme/web").unwrap();
        assert!(matches!(created.put("acme/web", &again), Err(CreateError::Taken(_))));
        // What is linked from inside stays; what is read-only goes.
        fs::write(base.join("outside"), "kept").unwrap();
        fs::create_dir_all(folder.join("cache/deep")).unwrap();
        fs::write(folder.join("cache/deep/file"), "").unwrap();
        symlink(&base, folder.join("link")).unwrap();
        fs::set_permissions(folder.join("cache/deep"), Permissions::from_mode(0o500)).unwrap();
        assert!(created.take_away("acme/web").unwrap());
        assert!(!base.join("root/acme").exists() && base.join("outside").exists());
        assert!(!created.take_away("acme/web").unwrap());
        assert_eq!(fs::read_dir(base.join("root/+gone")).unwrap().count(), 0);
        created.abandon("acme/web").unwrap();
        // What an earlier run has not removed to its end.
        fs::create_dir_all(base.join("root/+gone/a/b")).unwrap();
        let left = created.left();
        fs::create_dir(base.join("root/+gone/later")).unwrap();
        assert!(created.clean(&left, &|| true).is_err());
        created.clean(&left, &|| false).unwrap();
        assert_eq!(created.left(), ["later"]);
    }

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let (_folder, base, created) = stage();
        fs::create_dir_all(base.join("elsewhere/web")).unwrap();
        symlink(base.join("elsewhere"), base.join("root/acme")).unwrap();
        let aside = created.begin("acme/new").unwrap();
        assert!(created.put("acme/new", &aside).is_err());
        assert!(created.take_away("acme/web").is_err());
        assert!(base.join("elsewhere/web").exists() && !base.join("elsewhere/new").exists());
        // A link at the place itself goes, and not what it leads to.
        symlink(base.join("elsewhere"), base.join("root/link")).unwrap();
        assert!(created.take_away("link").unwrap() && base.join("elsewhere").exists());
    }

    #[test]
    fn a_template_is_copied_with_its_links() {
        let (_folder, base, _) = stage();
        let (template, to) = (base.join("template"), base.join("to"));
        fs::create_dir_all(template.join("src/deep")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(template.join("src/run"), "run").unwrap();
        fs::set_permissions(template.join("src/run"), Permissions::from_mode(0o755)).unwrap();
        symlink("../run", template.join("src/deep/link")).unwrap();
        copy_template(&template, &to, 3).unwrap();
        assert_eq!(fs::read_link(to.join("src/deep/link")).unwrap(), Path::new("../run"));
        let mode = fs::metadata(to.join("src/run")).unwrap().permissions().mode();
        assert_eq!(
            (
                fs::read_to_string(to.join("src/deep/link")).unwrap().as_str(),
                mode & 0o777
            ),
            ("run", 0o755)
        );
        let size = 3 + "../run".len() as u64;
        check_size(&template, size).unwrap();
        check_size(&template, size - 1).unwrap_err();
        let check = |links: &str, bytes, expected: &str| {
            let to = tempfile::tempdir().unwrap();
            let link = template.join("src/deep/other");
            symlink(links, &link).unwrap();
            let error = copy_template(&template, to.path(), bytes).unwrap_err().to_string();
            fs::remove_file(link).unwrap();
            assert!(error.contains(expected), "{links}: {error}");
        };
        check("../../../outside", 3, "leads out of the template");
        check("/etc/passwd", 3, "leads out of the template");
        check("../run", 2, "more than 2 bytes");
    }

    #[test]
    fn the_files_of_an_archive_are_written() {
        let (_folder, base, _) = stage();
        let contents = Contents {
            files: vec![super::super::archive::Member {
                path: "a/b".into(),
                mode: 0o755,
                bytes: bytes::Bytes::from_static(b"text"),
            }],
            folders: vec!["empty".into()],
        };
        write_contents(&contents, &base.join("root")).unwrap();
        assert_eq!(fs::read_to_string(base.join("root/a/b")).unwrap(), "text");
        assert!(base.join("root/empty").is_dir());
    }
}
