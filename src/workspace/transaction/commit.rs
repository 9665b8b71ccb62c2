//! Carrying a transaction out: prepare, compare, replace, and put back what was replaced if the rest fails.
//!
//! *Invariant:* every step that changes something pushes what undoes it before the next one begins; what is undone is
//! undone in reverse. Old files are put aside by a rename, so putting them back needs no space and no reading. Whatever
//! goes, goes last: a process that is killed half way through a move leaves the file twice, not nowhere.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::TempPath;

use super::super::{ResolvedPath, atomic, files, marks, open};
use super::{Before, Changed, Draft, Slot, TransactionError, Unrestored};
use crate::workspace::FileError;
use crate::workspace::marks::ReadMark;

/// A slot, ready to be carried out.
enum Step<'a> {
    /// Nothing changes.
    Keep,
    /// A file comes to where nothing is.
    Create(TempPath),
    /// A file, or a link, is replaced.
    Replace(TempPath),
    /// A file whose folder takes no other file is rewritten.
    Rewrite { new: &'a [u8], old: &'a [u8] },
    /// A file, or a link, goes.
    Remove,
}

/// What puts a path back.
enum Undo<'a> {
    /// The old file stands under another name; the two are exchanged again.
    Exchange { real: PathBuf, aside: TempPath },
    /// The old file stands under another name, and nothing in its place.
    Restore { real: PathBuf, aside: TempPath },
    /// The old file is gone; its content is not.
    Rewrite { real: PathBuf, old: &'a [u8] },
    /// Nothing was there.
    Delete { real: PathBuf },
    /// No folder was there.
    DeleteFolder { folder: PathBuf },
}

/// Carries the slots out. `before_step` is called with the number of each step before it is taken.
pub(super) fn commit(
    slots: &[Slot],
    before_step: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<Vec<Changed>, TransactionError> {
    let mut done = Vec::new();
    match carry_out(slots, &mut done, before_step) {
        Ok(changed) => {
            let folders: BTreeSet<_> = slots
                .iter()
                .filter_map(|slot| slot.file.path().real().parent())
                .collect();
            folders.into_iter().for_each(atomic::sync_folder);
            // Dropping what was put aside deletes it; not before what replaced it is sure to stay.
            drop(done);
            Ok(changed)
        }
        Err(cause) => Err(TransactionError {
            cause,
            unrestored: roll_back(done),
        }),
    }
}

fn carry_out<'a>(
    slots: &'a [Slot],
    done: &mut Vec<Undo<'a>>,
    before_step: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<Vec<Changed>, FileError> {
    let mut steps = Vec::with_capacity(slots.len());
    for slot in slots {
        slot.check_place()?;
        steps.push(prepare(slot, done).map_err(|source| slot.failed(source))?);
    }
    for slot in slots {
        slot.check_unchanged()?;
    }
    let mut changed = Vec::new();
    let (last, first): (Vec<_>, Vec<_>) = (slots.iter().zip(steps)).partition(|(_, step)| matches!(step, Step::Remove));
    for (number, (slot, step)) in first.into_iter().chain(last).enumerate() {
        before_step(number).map_err(|source| slot.failed(source))?;
        let is_kept = matches!(step, Step::Keep);
        let metadata = take(slot, step, done).map_err(|source| slot.failed(source))?;
        // A path that was not there and is not there is nothing to tell about.
        if !is_kept || metadata.is_some() {
            changed.push(slot.changed(metadata));
        }
    }
    Ok(changed)
}

fn prepare<'a>(slot: &'a Slot, done: &mut Vec<Undo<'a>>) -> io::Result<Step<'a>> {
    let real = slot.file.path().real();
    let Some(draft) = &slot.now else {
        return Ok(if slot.is_there() { Step::Remove } else { Step::Keep });
    };
    let folder = real.parent().ok_or(io::ErrorKind::IsADirectory)?;
    let like = draft.like.as_ref();
    let like = like.and_then(|like| Some((like.path.as_path(), like.snapshot.metadata()?)));
    match &slot.before {
        Before::Content(snapshot) if snapshot.exists() => {
            if slot.keeps(draft) {
                return Ok(Step::Keep);
            }
            atomic::refuse_read_only(real)?;
            atomic::sweep_folder(folder);
            match atomic::stage_temp(folder, &draft.bytes, like, None) {
                Ok(file) => Ok(Step::Replace(file.into_temp_path())),
                Err(error) if atomic::folder_does_not_take(&error) => Ok(Step::Rewrite {
                    new: &draft.bytes,
                    old: snapshot.bytes(),
                }),
                Err(error) => Err(error),
            }
        }
        Before::Content(_) => {
            create_folders(folder, done)?;
            atomic::sweep_folder(folder);
            Ok(Step::Create(
                atomic::stage_temp(folder, &draft.bytes, like, None)?.into_temp_path(),
            ))
        }
        Before::Link(_) => Ok(Step::Replace(
            atomic::stage_temp(folder, &draft.bytes, like, None)?.into_temp_path(),
        )),
    }
}

/// Creates a folder and those above it, one by one, so that each can be taken back.
fn create_folders(folder: &Path, done: &mut Vec<Undo<'_>>) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        match std::fs::create_dir(folder) {
            Ok(()) => done.push(Undo::DeleteFolder { folder: folder.into() }),
            // Somebody else was faster, and may keep it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes a step and returns the metadata of the file that then is there.
fn take<'a>(slot: &'a Slot, step: Step<'a>, done: &mut Vec<Undo<'a>>) -> io::Result<Option<Metadata>> {
    let real = slot.file.path().real();
    match step {
        Step::Keep => return Ok(slot.snapshot_metadata()),
        Step::Create(file) => {
            file.persist_noclobber(real).map_err(|error| error.error)?;
            done.push(Undo::Delete { real: real.into() });
        }
        Step::Replace(file) => replace(slot, file, done)?,
        Step::Rewrite { new, old } => rewrite(real, new, old, done)?,
        Step::Remove => {
            let aside = put_aside(real)?;
            done.push(Undo::Restore {
                real: real.into(),
                aside,
            });
            return Ok(None);
        }
    }
    real.symlink_metadata().map(Some)
}

fn replace<'a>(slot: &'a Slot, file: TempPath, done: &mut Vec<Undo<'a>>) -> io::Result<()> {
    let real = slot.file.path().real();
    let old = match &slot.before {
        Before::Content(snapshot) => snapshot.bytes(),
        Before::Link(_) => &[],
    };
    match exchange(&file, real) {
        Ok(()) => {
            done.push(Undo::Exchange {
                real: real.into(),
                aside: file,
            });
            Ok(())
        }
        // A file system that cannot exchange: the old content is kept in memory only.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match file.persist(real) {
            Ok(()) => {
                done.push(Undo::Rewrite { real: real.into(), old });
                Ok(())
            }
            Err(error) => Err(error.error),
        },
        Err(error) if atomic::folder_does_not_take(&error.into()) => {
            let new = slot.now.as_ref().map_or(&[][..], |draft| &draft.bytes);
            rewrite(real, new, old, done)
        }
        Err(error) => Err(error.into()),
    }
}

fn rewrite<'a>(real: &Path, new: &[u8], old: &'a [u8], done: &mut Vec<Undo<'a>>) -> io::Result<()> {
    // If it fails it puts the old content back itself.
    atomic::write_in_place(real, new, old, None)?;
    done.push(Undo::Rewrite { real: real.into(), old });
    Ok(())
}

fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// Renames to a path where nothing is.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if to.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(from, to)
        }
        done => done.map_err(io::Error::from),
    }
}

/// Gives a file a name under which it is deleted when it is dropped.
fn put_aside(real: &Path) -> io::Result<TempPath> {
    let folder = real.parent().ok_or(io::ErrorKind::IsADirectory)?;
    let aside = tempfile::Builder::new()
        .prefix(atomic::TEMP_PREFIX)
        .suffix(atomic::TEMP_SUFFIX)
        .make_in(folder, |name| rename_new(real, name))
        .map_err(|error| io::Error::from(error.kind()))?;
    Ok(aside.into_temp_path())
}

/// Undoes what was done, last first, and returns where that failed.
fn roll_back(done: Vec<Undo<'_>>) -> Vec<Unrestored> {
    let mut unrestored = Vec::new();
    for undo in done.into_iter().rev() {
        let (real, result) = match undo {
            Undo::Exchange { real, aside } => {
                let result = exchange(&aside, &real).map_err(io::Error::from);
                (real, result.map_err(|_| save(aside)))
            }
            Undo::Restore { real, aside } => {
                let result = rename_new(&aside, &real);
                (real, result.map_err(|_| save(aside)))
            }
            Undo::Rewrite { real, old } => {
                let result = std::fs::read(&real)
                    .and_then(|now| atomic::write_in_place(&real, old, &now, None))
                    .map(drop);
                (real, result.map_err(|_| None))
            }
            Undo::Delete { real } => {
                let result = std::fs::remove_file(&real);
                (real, result.map_err(|_| None))
            }
            Undo::DeleteFolder { folder } => {
                // What somebody else has put there meanwhile stays, and its folder with it.
                let _ = std::fs::remove_dir(&folder);
                continue;
            }
        };
        if let Err(saved) = result {
            unrestored.push(Unrestored { path: real, saved });
        }
    }
    unrestored
}

/// Keeps an old file that could not be put back, under a name that nobody sweeps: it may be the only copy.
fn save(aside: TempPath) -> Option<PathBuf> {
    let temporary = aside.keep().ok()?;
    let saved = temporary.with_extension("saved");
    let is_renamed = rename_new(&temporary, &saved).is_ok();
    Some(if is_renamed { saved } else { temporary })
}

impl Slot {
    fn is_there(&self) -> bool {
        match &self.before {
            Before::Content(snapshot) => snapshot.exists(),
            Before::Link(_) => true,
        }
    }

    /// Says whether the file is already what it will be, content and attributes.
    fn keeps(&self, draft: &Draft) -> bool {
        let Before::Content(before) = &self.before else {
            return false;
        };
        let is_like_itself = (draft.like.as_ref()).is_some_and(|like| like.path == self.file.path().real());
        is_like_itself && before.bytes() == draft.bytes
    }

    fn snapshot_metadata(&self) -> Option<Metadata> {
        match &self.before {
            Before::Content(snapshot) => snapshot.metadata().cloned(),
            Before::Link(_) => None,
        }
    }

    /// Fails if a link has come into the path, or was turned elsewhere, since it was resolved.
    fn check_place(&self) -> Result<(), FileError> {
        let place = self.file.path();
        match &self.before {
            Before::Content(_) if !place.names_link() => open::check_leads_there(place),
            Before::Content(_) | Before::Link(_) => open::check_not_swapped(place),
        }
    }

    fn check_unchanged(&self) -> Result<(), FileError> {
        let place = self.file.path();
        match &self.before {
            Before::Content(snapshot) => files::expect(place, snapshot),
            Before::Link(to) => match std::fs::read_link(place.real()) {
                Ok(now) if now == *to => Ok(()),
                Ok(_) | Err(_) => Err(FileError::Swapped {
                    path: place.shown().into(),
                }),
            },
        }
    }

    fn failed(&self, source: io::Error) -> FileError {
        let attempt = if self.now.is_some() { "write" } else { "delete" };
        FileError::io(attempt, self.file.path().shown(), source)
    }

    fn changed(&self, metadata: Option<Metadata>) -> Changed {
        let mark = self.now.as_ref().zip(metadata).map(|(draft, metadata)| {
            let sha256 = marks::sha256(&draft.bytes);
            ReadMark::new(&metadata, Some(sha256), SystemTime::now())
        });
        Changed {
            path: ResolvedPath::clone(self.file.path()),
            mark,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_rewritten_in_place_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        for (old, new) in [("old", "something longer"), ("something long", "new"), ("", "x")] {
            std::fs::write(&file, old).unwrap();
            let mut done = Vec::new();
            rewrite(&file, new.as_bytes(), old.as_bytes(), &mut done).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), new);
            assert!(roll_back(done).is_empty());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), old);
        }
    }

    #[test]
    fn what_cannot_be_put_back_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "mine").unwrap();
        let aside = put_aside(&file).unwrap();
        let saved = aside.with_extension("saved");
        std::fs::write(&file, "theirs").unwrap();
        let undo = Undo::Restore {
            real: file.clone(),
            aside,
        };
        let unrestored = Unrestored {
            path: file.clone(),
            saved: Some(saved.clone()),
        };
        assert_eq!(roll_back(vec![undo]), [unrestored]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(std::fs::read_to_string(saved).unwrap(), "mine");
    }
}
