//! Carrying a transaction out: prepare, compare, replace, and put back what was replaced if the rest fails.
//!
//! *Invariant:* every step that changes something pushes what undoes it before the next one begins; what is undone is
//! undone in reverse. Old files are put aside by a rename, so putting them back needs no space and no reading. Whatever
//! goes, goes last: a process that is killed half way through a move leaves the file twice, not nowhere.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::place::{Folders, Place, Temp};
use super::super::{ResolvedPath, atomic, marks, open, snapshot};
use super::{Before, Changed, Draft, Slot, TransactionError, Unrestored};
use crate::FileError;
use crate::marks::ReadMark;

/// A slot, ready to be carried out.
struct Prepared<'a> {
    slot: &'a Slot,
    /// Where it is; none if its folder is not there, and then nothing changes.
    place: Option<Place>,
    step: Step<'a>,
}

enum Step<'a> {
    /// Nothing changes.
    Keep,
    /// A file comes to where nothing is.
    Create(Temp),
    /// A file, or a link, is replaced.
    Replace(Temp),
    /// A file whose folder takes no other file is rewritten.
    Rewrite { new: &'a [u8], old: &'a [u8] },
    /// A file, or a link, goes.
    Remove,
}

/// What puts a place back.
enum Undo<'a> {
    /// The old file stands under another name; the two are exchanged again.
    Exchange { place: Place, aside: Temp },
    /// The old file stands under another name, and nothing in its place.
    Restore { place: Place, aside: Temp },
    /// The old file is gone; its content is not.
    Rewrite { place: Place, old: &'a [u8] },
    /// Nothing was there.
    Delete { place: Place },
    /// No folder was there.
    DeleteFolder { folder: Place },
}

/// Carries the slots out. `before_step` is called with the number of each step before it is taken.
pub(super) fn commit(
    slots: &[Slot],
    before_step: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<Vec<Changed>, TransactionError> {
    let (mut done, mut folders) = (Vec::new(), Folders::default());
    match carry_out(slots, &mut folders, &mut done, before_step) {
        Ok(changed) => {
            folders.sync();
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
    folders: &mut Folders,
    done: &mut Vec<Undo<'a>>,
    before_step: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<Vec<Changed>, FileError> {
    let mut prepared = Vec::with_capacity(slots.len());
    for slot in slots {
        slot.check_place()?;
        prepared.push(prepare(slot, folders, done)?);
    }
    for Prepared { slot, place, .. } in &prepared {
        slot.check_unchanged(place.as_ref())?;
    }
    let mut changed = Vec::new();
    let (last, first): (Vec<_>, Vec<_>) =
        (prepared.into_iter()).partition(|prepared| matches!(prepared.step, Step::Remove));
    for (number, Prepared { slot, place, step }) in first.into_iter().chain(last).enumerate() {
        before_step(number).map_err(|source| slot.failed(source))?;
        let is_kept = matches!(step, Step::Keep);
        let metadata = match place {
            Some(place) => take(slot, place, step, done).map_err(|source| slot.failed(source))?,
            None => None,
        };
        // A path that was not there and is not there is nothing to tell about.
        if !is_kept || metadata.is_some() {
            changed.push(slot.changed(metadata));
        }
    }
    Ok(changed)
}

fn prepare<'a>(slot: &'a Slot, folders: &mut Folders, done: &mut Vec<Undo<'a>>) -> Result<Prepared<'a>, FileError> {
    let path = slot.file.path();
    let Some(draft) = &slot.now else {
        let step = if slot.is_there() { Step::Remove } else { Step::Keep };
        let place = folders.find(path)?;
        if place.is_none() && slot.is_there() {
            return Err(slot.failed(io::ErrorKind::NotFound.into()));
        }
        return Ok(Prepared { slot, place, step });
    };
    let place = folders.make(path, &mut |folder| done.push(Undo::DeleteFolder { folder }))?;
    let step = prepare_to_write(slot, draft, &place, folders)?;
    Ok(Prepared {
        slot,
        place: Some(place),
        step,
    })
}

fn prepare_to_write<'a>(
    slot: &'a Slot,
    draft: &'a Draft,
    place: &Place,
    folders: &mut Folders,
) -> Result<Step<'a>, FileError> {
    let failed = |source| slot.failed(source);
    if slot.keeps(draft) {
        return Ok(Step::Keep);
    }
    let old = match &slot.before {
        Before::Content(snapshot) if snapshot.exists() => Some(snapshot),
        Before::Content(_) | Before::Link(_) => None,
    };
    if old.is_some() {
        atomic::refuse_read_only(place).map_err(failed)?;
    }
    atomic::sweep_folder(place.folder());
    match (stage(draft, place, folders)?, old) {
        (Ok(temp), None) if !slot.is_there() => Ok(Step::Create(temp)),
        (Ok(temp), _) => Ok(Step::Replace(temp)),
        (Err(error), Some(old)) if atomic::folder_does_not_take(&error) => Ok(Step::Rewrite {
            new: &draft.bytes,
            old: old.bytes(),
        }),
        (Err(error), _) => Err(failed(error)),
    }
}

/// Writes the draft beside its place. The file that it is to be like is opened where it was found, or is left alone.
fn stage(draft: &Draft, place: &Place, folders: &mut Folders) -> Result<io::Result<Temp>, FileError> {
    let Some((path, metadata)) = draft
        .like
        .as_ref()
        .and_then(|like| Some((&like.path, like.snapshot.metadata()?)))
    else {
        return Ok(atomic::stage_temp(place.folder(), &draft.bytes, None, None));
    };
    let file = folders.find(path)?.and_then(|like| like.open(OFlags::RDONLY).ok());
    let like = atomic::Like {
        file: file.as_ref(),
        metadata,
    };
    Ok(atomic::stage_temp(place.folder(), &draft.bytes, Some(like), None))
}

/// Takes a step and returns the metadata of the file that then is there.
fn take<'a>(slot: &'a Slot, place: Place, step: Step<'a>, done: &mut Vec<Undo<'a>>) -> io::Result<Option<Metadata>> {
    match step {
        Step::Keep => return Ok(slot.snapshot_metadata()),
        Step::Create(file) => {
            file.persist_new(&place)?;
            done.push(Undo::Delete { place: place.clone() });
        }
        Step::Replace(file) => replace(slot, &place, file, done)?,
        Step::Rewrite { new, old } => rewrite(&place, new, old, done)?,
        Step::Remove => {
            let aside = put_aside(&place)?;
            done.push(Undo::Restore { place, aside });
            return Ok(None);
        }
    }
    place.metadata().map(Some)
}

fn replace<'a>(slot: &'a Slot, place: &Place, file: Temp, done: &mut Vec<Undo<'a>>) -> io::Result<()> {
    let old = match &slot.before {
        Before::Content(snapshot) => snapshot.bytes(),
        Before::Link(_) => &[],
    };
    let place = place.clone();
    match file.place().exchange(&place) {
        Ok(()) => {
            done.push(Undo::Exchange { place, aside: file });
            Ok(())
        }
        // A file system that cannot exchange: the old content is kept in memory only.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            file.persist(&place)?;
            done.push(Undo::Rewrite { place, old });
            Ok(())
        }
        Err(error) if atomic::folder_does_not_take(&error.into()) => {
            let new = slot.now.as_ref().map_or(&[][..], |draft| &draft.bytes);
            rewrite(&place, new, old, done)
        }
        Err(error) => Err(error.into()),
    }
}

fn rewrite<'a>(place: &Place, new: &[u8], old: &'a [u8], done: &mut Vec<Undo<'a>>) -> io::Result<()> {
    // If it fails it puts the old content back itself.
    atomic::write_in_place(place, new, old, None)?;
    let place = place.clone();
    done.push(Undo::Rewrite { place, old });
    Ok(())
}

/// Gives a file a name under which it is deleted when it is dropped.
fn put_aside(place: &Place) -> io::Result<Temp> {
    Temp::aside(place, atomic::aside_name()).map_err(atomic::plain)
}

/// Undoes what was done, last first, and returns where that failed.
fn roll_back(done: Vec<Undo<'_>>) -> Vec<Unrestored> {
    let mut unrestored = Vec::new();
    for undo in done.into_iter().rev() {
        let (place, result) = match undo {
            Undo::Exchange { place, aside } => {
                let result = aside.place().exchange(&place);
                (place, result.map_err(|_| save(aside)))
            }
            Undo::Restore { place, aside } => {
                let result = aside.place().rename_new(&place);
                (place, result.map_err(|_| save(aside)))
            }
            Undo::Rewrite { place, old } => {
                let result = put_back(&place, old);
                (place, result.map_err(|_| None))
            }
            Undo::Delete { place } => {
                let result = place.remove();
                (place, result.map_err(|_| None))
            }
            Undo::DeleteFolder { folder } => {
                // What somebody else has put there meanwhile stays, and its folder with it.
                let _ = folder.remove_folder();
                continue;
            }
        };
        if let Err(saved) = result {
            let path = place.path();
            unrestored.push(Unrestored { path, saved });
        }
    }
    unrestored
}

fn put_back(place: &Place, old: &[u8]) -> io::Result<()> {
    let mut now = Vec::new();
    place.open(OFlags::RDONLY)?.read_to_end(&mut now)?;
    atomic::write_in_place(place, old, &now, None).map(drop)
}

/// Keeps an old file that could not be put back, under a name that nobody sweeps: it may be the only copy.
fn save(aside: Temp) -> Option<PathBuf> {
    let temporary = aside.keep();
    let path = temporary.path().with_extension("saved");
    let saved = Place::new(temporary.folder(), path.file_name()?);
    let is_renamed = temporary.rename_new(&saved).is_ok();
    Some(if is_renamed { saved.path() } else { temporary.path() })
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
        let is_like_itself = (draft.like.as_ref()).is_some_and(|like| like.path.real() == self.file.path().real());
        before.exists() && is_like_itself && before.bytes() == draft.bytes
    }

    fn snapshot_metadata(&self) -> Option<Metadata> {
        match &self.before {
            Before::Content(snapshot) => snapshot.metadata().cloned(),
            Before::Link(_) => None,
        }
    }

    /// Fails if the path was turned elsewhere since it was resolved. That of a link is found by opening its folder.
    fn check_place(&self) -> Result<(), FileError> {
        let path = self.file.path();
        match &self.before {
            Before::Content(_) if !path.names_link() => open::check_leads_there(path),
            Before::Content(_) | Before::Link(_) => Ok(()),
        }
    }

    fn check_unchanged(&self, place: Option<&Place>) -> Result<(), FileError> {
        let path = self.file.path();
        match &self.before {
            Before::Content(snapshot) => snapshot::expect_at(path, place, snapshot),
            Before::Link(to) => match place.map(Place::read_link) {
                Some(Ok(now)) if now == *to => Ok(()),
                Some(_) | None => Err(FileError::Swapped {
                    path: path.display_path().into(),
                }),
            },
        }
    }

    fn failed(&self, source: io::Error) -> FileError {
        let attempt = if self.now.is_some() { "write" } else { "delete" };
        FileError::io(attempt, self.file.path().display_path(), source)
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
    use std::path::Path;
    use std::sync::Arc;

    use super::super::super::place::Folder;
    use super::*;

    /// Returns the place of a file called `a`, in a folder, and its path.
    fn place(folder: &Path) -> (Place, PathBuf) {
        let folder = Arc::new(Folder::open(None, &folder.canonicalize().unwrap()).unwrap());
        let place = Place::new(&folder, "a");
        let path = place.path();
        (place, path)
    }

    #[test]
    fn a_file_rewritten_in_place_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let (place, file) = place(folder.path());
        for (old, new) in [("old", "something longer"), ("something long", "new"), ("", "x")] {
            std::fs::write(&file, old).unwrap();
            let mut done = Vec::new();
            rewrite(&place, new.as_bytes(), old.as_bytes(), &mut done).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), new);
            assert!(roll_back(done).is_empty());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), old);
        }
    }

    #[test]
    fn what_cannot_be_put_back_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (place, file) = place(folder.path());
        std::fs::write(&file, "mine").unwrap();
        let aside = put_aside(&place).unwrap();
        let saved = aside.place().path().with_extension("saved");
        std::fs::write(&file, "theirs").unwrap();
        let undo = Undo::Restore { place, aside };
        let unrestored = Unrestored {
            path: file.clone(),
            saved: Some(saved.clone()),
        };
        assert_eq!(roll_back(vec![undo]), [unrestored]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(std::fs::read_to_string(saved).unwrap(), "mine");
    }
}
