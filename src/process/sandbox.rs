//! Confining programs: what they may write, read and connect to is set by the kernel before they begin, and holds for
//! all that descends from them.
//!
//! Files are Landlock's: everything may be read and executed but the hidden paths and most devices, and only what the
//! [`Demand`] names may be written. System calls are seccomp's (see [`filter`]): sockets while the network is denied, and
//! what would lead out of the confinement. Capabilities that a root service has and a build does not need are dropped.
//!
//! What no kernel offers, and so is not promised: Landlock knows no right for changing mode, owner, times and extended
//! attributes, nor for `stat`. A program that may write anywhere may do that to any file of its user. In
//! [`Mode::ReadOnly`] seccomp refuses those calls altogether. Named Unix sockets can be connected to before Landlock 9.
//! Names in hidden folders can be listed, their contents not read.
//!
//! *Invariant:* everything is prepared here, in the service; the child only applies it. Rules are opened by path, so this is
//! blocking work.

mod filter;
mod rules;
mod scratch;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use filter::Filters;
use rules::{Rules, Stamps};
use scratch::{Scratch, Slot};

use super::sys;

/// Rulesets that are kept for the next command with the same demand.
const MAX_CACHED: usize = 64;

/// What a program may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The workspace, its temporary folder and what was approved.
    WorkspaceWrite,
    /// Its temporary folder and what was approved.
    ReadOnly,
}

impl Mode {
    /// Returns configuration's word for the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }
}

/// What the running kernel can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The version of Landlock's interface, 0 without it.
    pub landlock: u32,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
}

impl Kernel {
    /// The first version that also guards truncating, without which a file that cannot be written can be emptied.
    const NEEDED: u32 = 3;

    /// Asks the kernel.
    pub fn probe() -> Self {
        Self {
            landlock: sys::landlock_version(),
            seccomp: sys::has_seccomp() && filter::is_for_this_machine(),
        }
    }

    /// Returns what is missing for a complete confinement, in words for the operator.
    pub fn lacks(self) -> Vec<String> {
        let mut missing = Vec::new();
        match self.landlock {
            0 => missing
                .push("Landlock (Linux 5.13, and \"landlock\" in the kernel's list of security modules)".to_owned()),
            version if version < Self::NEEDED => missing.push(format!(
                "Landlock version {} (Linux 6.2); this kernel has version {version}, which does not guard truncating",
                Self::NEEDED
            )),
            _ => {}
        }
        if !self.seccomp {
            missing.push("system call filters (seccomp)".to_owned());
        }
        missing
    }
}

/// Paths that are treated alike for every program of the service.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// What no program may read or write, even where it may everything around it: the service's own state and secrets.
    pub hidden: Vec<PathBuf>,
    /// What may be read although it is hidden.
    pub readable: Vec<PathBuf>,
    /// What may be written by every program.
    pub writable: Vec<PathBuf>,
}

impl Places {
    /// Follows the links in all paths, and leaves out what does not exist.
    fn real(self) -> Self {
        let real = |paths: Vec<PathBuf>| paths.into_iter().filter_map(|path| path.canonicalize().ok()).collect();
        Self {
            hidden: real(self.hidden),
            readable: real(self.readable),
            writable: real(self.writable),
        }
    }
}

/// What one program is to be confined to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Demand {
    /// What it may write.
    pub mode: Mode,
    /// Whether it may use the network.
    pub network: bool,
    /// The workspace's folder.
    pub workspace: PathBuf,
    /// Folders elsewhere that were approved.
    pub approved: Vec<PathBuf>,
    /// What it may read although it is hidden from others.
    pub readable: Vec<PathBuf>,
}

impl Demand {
    /// Returns the workspace's folder if it may be written. A workspace of `/` contains nothing, as for the rules.
    fn written_workspace(&self) -> Option<&Path> {
        let is_written = self.mode == Mode::WorkspaceWrite && self.workspace.parent().is_some();
        is_written.then_some(self.workspace.as_path())
    }
}

/// Why a confinement could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The private temporary folder cannot be made.
    #[error("cannot make a temporary folder: {0}")]
    Scratch(#[source] io::Error),
    /// A path cannot be opened or listed.
    #[error("cannot use {}: {source}", path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder that holds a hidden path has too many entries to name all others.
    #[error("{} has too many entries to hide one of them", .0.display())]
    TooMany(PathBuf),
    /// The kernel refuses the rules.
    #[error("the kernel refuses the rules: {0}")]
    Rules(#[from] landlock::RulesetError),
    /// The filter cannot be made.
    #[error("cannot make the filter of system calls: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// Makes confinements.
#[derive(Debug)]
pub struct Sandbox {
    kernel: Kernel,
    places: Places,
    scratch: Scratch,
    /// The rulesets of late, the last used one at the end.
    cache: Mutex<Vec<Cached>>,
}

#[derive(Debug)]
struct Cached {
    demand: Demand,
    slot: PathBuf,
    stamps: Stamps,
    rules: Arc<Rules>,
}

impl Sandbox {
    /// Prepares for a kernel. Blocking.
    ///
    /// # Errors
    /// No folder for temporary files can be made.
    pub fn new(kernel: Kernel, places: Places) -> io::Result<Self> {
        Ok(Self {
            kernel,
            places: places.real(),
            scratch: Scratch::new()?,
            cache: Mutex::default(),
        })
    }

    /// Returns what the kernel can enforce.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Returns the hidden path that lies in a folder, if there is one: files right beside it cannot be made by programs
    /// that may write that folder.
    pub fn hidden_below(&self, folder: &Path) -> Option<&Path> {
        let folder = folder.canonicalize().ok()?;
        let hidden = self.places.hidden.iter().find(|hidden| hidden.starts_with(&folder));
        hidden.map(PathBuf::as_path)
    }

    /// Prepares the confinement of one program, from what an earlier one with the same demand left if nothing has
    /// changed since. Blocking.
    ///
    /// # Errors
    /// See [`SandboxError`]; the program must not be started then.
    pub fn confine(&self, demand: &Demand) -> Result<Confinement, SandboxError> {
        let slot = self.scratch.take().map_err(SandboxError::Scratch)?;
        let rules = match self.kernel.landlock {
            0 => None,
            _ => Some(self.rules(demand, slot.path())?),
        };
        let filters = if self.kernel.seccomp {
            filter::filters(demand.mode, demand.network, rules.is_some())?
        } else {
            Filters::default()
        };
        Ok(Confinement {
            enforced: self.enforced(demand),
            writable: self.writable(demand, slot.path()),
            hidden: self.places.hidden.clone(),
            rules,
            filters,
            slot,
        })
    }

    /// Removes all temporary folders. To be called when no program runs any more.
    pub fn close(&self) {
        self.scratch.close();
    }

    fn rules(&self, demand: &Demand, slot: &Path) -> Result<Arc<Rules>, SandboxError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache
            .iter()
            .position(|entry| entry.slot == slot && entry.demand == *demand);
        if let Some(index) = found {
            let entry = cache.remove(index);
            if entry.stamps.hold() {
                let rules = Arc::clone(&entry.rules);
                cache.push(entry);
                return Ok(rules);
            }
        }
        drop(cache);
        let (rules, stamps) = rules::build(demand, &self.places, slot)?;
        let rules = Arc::new(rules);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED {
            cache.remove(0);
        }
        cache.push(Cached {
            demand: demand.clone(),
            slot: slot.to_path_buf(),
            stamps,
            rules: Arc::clone(&rules),
        });
        Ok(rules)
    }

    fn writable(&self, demand: &Demand, slot: &Path) -> Vec<PathBuf> {
        let workspace = demand.written_workspace().map(Path::to_path_buf);
        let named = workspace.into_iter().chain(demand.approved.iter().cloned());
        let named = named
            .chain(self.places.writable.iter().cloned())
            .chain([slot.to_path_buf()]);
        named.map(|path| path.canonicalize().unwrap_or(path)).collect()
    }

    fn enforced(&self, demand: &Demand) -> Enforced {
        let Kernel { landlock, seccomp } = self.kernel;
        let filesystem = match landlock {
            0 => "none".to_owned(),
            version => format!("landlock {version}"),
        };
        let network = match (demand.network, seccomp, landlock >= 4) {
            (true, _, _) => "allowed",
            (false, true, true) => "denied by seccomp and landlock",
            (false, true, false) => "denied by seccomp",
            (false, false, true) => "TCP denied by landlock",
            (false, false, false) => "none",
        };
        Enforced {
            filesystem,
            network,
            system_calls: if seccomp { "seccomp" } else { "none" },
            signals: if landlock >= 6 { "landlock" } else { "none" },
        }
    }
}

/// What the kernel enforces on a program, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforced {
    /// On files: `landlock` and its version, or `none`.
    pub filesystem: String,
    /// On the network.
    pub network: &'static str,
    /// On dangerous system calls: `seccomp` or `none`.
    pub system_calls: &'static str,
    /// On signals to processes outside, and abstract Unix sockets there: `landlock` or `none`.
    pub signals: &'static str,
}

/// A prepared confinement: for one program and all that descends from it. Its temporary folder is emptied when it is
/// dropped, which must not be before the last of them has ended.
#[derive(Debug)]
pub struct Confinement {
    rules: Option<Arc<Rules>>,
    filters: Filters,
    slot: Slot,
    enforced: Enforced,
    writable: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
}

impl Confinement {
    /// Returns what is enforced.
    pub fn enforced(&self) -> &Enforced {
        &self.enforced
    }

    /// Says whether files at a path, links followed, may be written.
    pub fn may_write(&self, path: &Path) -> bool {
        self.writable.iter().any(|root| path.starts_with(root)) && !self.is_hidden(path)
    }

    /// Says whether a path is hidden, or a folder with something hidden in it, which nobody should be asked to open.
    pub fn touches_hidden(&self, path: &Path) -> bool {
        self.is_hidden(path) || self.hidden.iter().any(|hidden| hidden.starts_with(path))
    }

    fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Returns the private folder for temporary files, the program's `TMPDIR`.
    pub fn temporary(&self) -> &Path {
        self.slot.path()
    }

    /// Returns what the child is to apply.
    pub(super) fn restriction(&self) -> sys::Restriction<'_> {
        sys::Restriction {
            ruleset: self.rules.as_ref().map(|rules| -> BorrowedFd<'_> { rules.as_fd() }),
            filters: &self.filters,
        }
    }
}
