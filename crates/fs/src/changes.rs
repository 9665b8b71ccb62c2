//! Changes of files as a whole: what one will do, before it is done, and several of them in one step.
//!
//! *Invariant:* of several files either all get their new content or none; only if even undoing fails do some keep it,
//! and the error names them. Who looks meanwhile may see some files changed and others not yet.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use super::atomic::{self, Staged};
use super::blocking::blocking;
use super::error::FileError;
use super::files::LockedFile;
use super::marks::{self, ReadMark};
use super::place::{Folders, Place};
use super::snapshot::{self, Snapshot};
use super::target::Target;
pub use super::version::{LINK_MODE, PlannedChange, Version};
use super::{ResolvedPath, Workspace};

impl LockedFile {
    /// Says what [`LockedFile::replace`] will do: the file keeps its mode.
    pub fn planned_change(&self, old: &Snapshot, new: &Bytes) -> PlannedChange {
        let mode = old.version().and_then(|version| version.mode);
        let bytes = new.clone();
        self.planned(old.version(), Some(Version { bytes, mode }))
    }

    pub(super) fn planned(&self, before: Option<Version>, after: Option<Version>) -> PlannedChange {
        PlannedChange {
            path: self.path().real().into(),
            shown: self.path().display_path().into(),
            before,
            after,
        }
    }
}

/// What a file is to become.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The file.
    pub file: LockedFile,
    /// What it must be now.
    pub old: Arc<Snapshot>,
    /// What it is to be; none to delete it. Without a mode an existing file keeps its own.
    pub new: Option<Version>,
}

impl Replacement {
    /// Says what [`replace_all`] will do to the file.
    pub fn planned_change(&self) -> PlannedChange {
        let kept = self.old.version().and_then(|version| version.mode);
        let kept = kept.filter(|mode| *mode != LINK_MODE);
        let after = self.new.clone().map(|version| Version {
            mode: version.mode.or(kept),
            ..version
        });
        self.file.planned(self.old.version(), after)
    }

    fn stage(&self, folders: &mut Folders) -> Result<Prepared<'_>, FileError> {
        let path = self.file.path();
        let Some(new) = &self.new else {
            return Ok(Prepared {
                replacement: self,
                place: folders.find(path)?,
                staged: None,
            });
        };
        let place = folders.make(path, &mut drop)?;
        let staged = atomic::stage(place.clone(), path, &new.bytes, &self.old, new.mode)?;
        Ok(Prepared {
            replacement: self,
            place: Some(place),
            staged: Some(staged),
        })
    }
}

/// A replacement of which only the last step is left, and where it is made or taken back.
struct Prepared<'a> {
    replacement: &'a Replacement,
    /// None where the folder is not there.
    place: Option<Place>,
    staged: Option<Staged<'a>>,
}

impl Prepared<'_> {
    fn commit(&mut self) -> Result<Option<ReadMark>, FileError> {
        let Replacement { file, old, new } = self.replacement;
        match (self.staged.take(), new) {
            (Some(staged), Some(new)) => {
                let metadata = staged.commit()?;
                let sha256 = marks::sha256(&new.bytes);
                Ok(Some(ReadMark::new(&metadata, Some(sha256), SystemTime::now())))
            }
            (None, _) | (_, None) if old.exists() => file.delete_at(self.place.as_ref()).map(|()| None),
            (None, _) | (_, None) => Ok(None),
        }
    }

    fn undo(&self) -> Result<(), FileError> {
        let Replacement { file, old, .. } = self.replacement;
        let Some(place) = &self.place else { return Ok(()) };
        let now = Snapshot::take_at(file.path(), Some(place))?;
        match old.version() {
            Some(old) => atomic::stage(place.clone(), file.path(), &old.bytes, &now, old.mode)?
                .commit()
                .map(drop),
            None if now.exists() => file.delete_at(Some(place)),
            None => Ok(()),
        }
    }
}

/// Gives every file its new content, or none: everything is written and durable before the first file changes, and what
/// was changed is put back if a later one cannot be. Once begun it goes on to the end, even if the caller goes away.
/// Returns the marks of the new contents for the session, none for files that are gone.
///
/// # Errors
/// A file is not what it must be, or what the operating system says.
pub async fn replace_all(replacements: Vec<Replacement>) -> Result<Vec<Option<ReadMark>>, FileError> {
    blocking(move || {
        let mut folders = Folders::default();
        for Replacement { file, old, .. } in &replacements {
            let place = folders.find(file.path())?;
            snapshot::expect_at(file.path(), place.as_ref(), old)?;
        }
        let mut prepared = replacements
            .iter()
            .map(|replacement| replacement.stage(&mut folders))
            .collect::<Result<Vec<_>, _>>()?;
        let mut marks = Vec::with_capacity(prepared.len());
        for count in 0..prepared.len() {
            match prepared[count].commit() {
                Ok(mark) => marks.push(mark),
                Err(cause) => return Err(undo_all(&prepared[..count], cause)),
            }
        }
        Ok(marks)
    })
    .await
}

fn undo_all(done: &[Prepared<'_>], cause: FileError) -> FileError {
    let mut files = Vec::new();
    for prepared in done.iter().rev() {
        if let Err(error) = prepared.undo() {
            tracing::error!(%error, "a change of several files could not be undone");
            files.push(prepared.replacement.file.path().display_path().to_path_buf());
        }
    }
    if files.is_empty() {
        return cause;
    }
    FileError::HalfDone {
        cause: Box::new(cause),
        files,
    }
}

/// Resolves a path once more that was resolved to `real` before. `names_link` says that it was the path of a link, which
/// may be there again.
///
/// # Errors
/// It leads elsewhere now.
pub async fn relocate(
    workspace: &Arc<Workspace>,
    shown: PathBuf,
    real: &Path,
    names_link: bool,
) -> Result<ResolvedPath, FileError> {
    let workspace = Arc::clone(workspace);
    let path = blocking(move || {
        Ok(if names_link {
            Target::resolve(&workspace, &shown).into_entry()
        } else {
            workspace.resolve(shown)
        })
    })
    .await?;
    if path.real() == real {
        Ok(path)
    } else {
        Err(FileError::Swapped {
            path: path.display_path().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;

    #[tokio::test]
    async fn what_cannot_be_finished_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = Workspace::open("w", &root, None).unwrap();
        std::fs::write(root.join("a"), "a").unwrap();
        std::fs::write(root.join("b"), "b").unwrap();
        let files = Files::new(true);
        let mut replacements = Vec::new();
        for (name, new) in [("new/c", Some("new")), ("a", Some("new")), ("b", None)] {
            let file = files.lock(workspace.resolve(name)).await;
            let old = file.load().await.unwrap();
            let new = new.map(|text| Version {
                bytes: Bytes::from_static(text.as_bytes()),
                mode: None,
            });
            replacements.push(Replacement { file, old, new });
        }
        // What was deleted already cannot be deleted again.
        replacements.push(replacements[2].clone());
        let error = replace_all(replacements.clone()).await.unwrap_err();
        assert!(matches!(error, FileError::Io { attempt: "delete", .. }), "{error}");
        let text = |name: &str| std::fs::read_to_string(root.join(name)).ok();
        assert_eq!(
            [text("a"), text("b"), text("new/c")],
            [Some("a".into()), Some("b".into()), None]
        );
        assert_eq!(
            root.join("new").read_dir().unwrap().count(),
            0,
            "no temporary file stays"
        );

        replacements.pop();
        replace_all(replacements).await.unwrap();
        assert_eq!(
            [text("a"), text("b"), text("new/c")],
            [Some("new".into()), None, Some("new".into())]
        );
    }
}
