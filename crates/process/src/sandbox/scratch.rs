//! Private folders for temporary files: one per program, emptied when its confinement is dropped, and used again.
//!
//! They are used again, and not made anew, because a ruleset holds the folder itself: a new one needs new rules.
//!
//! *Invariant:* a folder is handed out empty and to one holder at a time. One that cannot be emptied is never used again.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use parking_lot::{Mutex, MutexGuard};

use crate::{Temporary, sweep_temporary};

/// Makes and keeps the folders.
#[derive(Debug)]
pub(super) struct Scratch {
    shared: Arc<Shared>,
    used: mpsc::Sender<PathBuf>,
}

#[derive(Debug)]
struct Shared {
    base: PathBuf,
    /// What is free, and how many there are. Held for moments.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: Vec<PathBuf>,
    made: u64,
    /// None once closed.
    folder: Option<Temporary>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Scratch {
    pub(super) fn new() -> io::Result<Self> {
        let folder = Temporary::new()?;
        let shared = Arc::new(Shared {
            base: folder.path().canonicalize()?,
            state: Mutex::new(State {
                free: Vec::new(),
                made: 0,
                folder: Some(folder),
            }),
        });
        let (used, returned) = mpsc::channel::<PathBuf>();
        let emptied = Arc::clone(&shared);
        // Ends with the last sender: this object and the folders that are handed out.
        thread::Builder::new().name("sandbox-sweep".to_owned()).spawn(move || {
            sweep_temporary();
            while let Ok(path) = returned.recv() {
                match empty(&path) {
                    Ok(()) => emptied.state().free.push(path),
                    Err(error) => tracing::debug!(path = %path.display(), %error, "a temporary folder stays full"),
                }
            }
        })?;
        Ok(Self { shared, used })
    }

    /// Hands out an empty folder. Blocking.
    pub(super) fn take(&self) -> io::Result<Slot> {
        let mut state = self.shared.state();
        let path = match state.free.pop() {
            Some(path) => path,
            None => {
                let path = self.shared.base.join(state.made.to_string());
                DirBuilder::new().mode(0o700).create(&path)?;
                state.made += 1;
                path
            }
        };
        Ok(Slot {
            path,
            used: self.used.clone(),
        })
    }

    /// Removes all folders.
    pub(super) fn close(&self) {
        let folder = self.shared.state().folder.take();
        if let Some(Err(error)) = folder.map(Temporary::close) {
            tracing::warn!(%error, "cannot remove the folder of temporary files");
        }
    }
}

/// A folder that is handed out.
#[derive(Debug)]
pub(super) struct Slot {
    path: PathBuf,
    used: mpsc::Sender<PathBuf>,
}

impl Slot {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Fails only when the thread has gone, and then the folder goes with all others.
        let _ = self.used.send(std::mem::take(&mut self.path));
    }
}

fn empty(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
