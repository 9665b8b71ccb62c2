//! Confining programs: what they may write, read and connect to is set by the kernel before they begin, and holds for
//! all that descends from them.
//!
//! Files are Landlock's: everything may be read and executed but the hidden paths and most devices, and only what the
//! [`Demand`] names may be written. Within walls only the system's folders and what was named may be read. System calls are
//! seccomp's (see [`filter`]): sockets while the network is denied, what would lead out of the confinement, and what
//! reaches other processes. Capabilities that a root service has and a build does not need are dropped. What neither
//! of them can tell apart passes a [`gate`]: the workspace but what is code or configuration in it, and Unix sockets.
//!
//! What no kernel offers, and so is not promised: Landlock knows no right for changing mode, owner, times and extended
//! attributes, nor for `stat`. A program that may write anywhere may do that to any file of its user, except that
//! it cannot have a file run as its owner. In [`Mode::ReadOnly`] seccomp refuses those calls altogether. Without walls, names
//! in hidden folders can be listed, their contents not read.
//!
//! *Invariant:* everything is prepared here, in the service; the child only applies it. Rules are opened by path, so this is
//! blocking work.

mod demand;
mod filter;
mod gate;
mod links;
mod repository;
mod rules;
mod scratch;
#[cfg(test)]
mod tests;

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::fs::OFlags;

pub use demand::{Demand, Mode, Places, SandboxError};
use filter::{Filters, Wanted};
pub use gate::Stopped;
use gate::{Gate, Policy, Root};
use links::Links;
use rules::{Rules, Stamps};
use scratch::{Scratch, Slot};

use super::{notify, sys};

/// Rulesets that are kept for the next command with the same demand.
const MAX_CACHED: usize = 64;

/// What the running kernel can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The version of Landlock's interface, 0 without it.
    pub landlock: u32,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// Whether they can be handed to the service to be decided.
    pub notify: bool,
}

impl Kernel {
    /// The first version that also guards truncating, without which a file that cannot be written can be emptied.
    const NEEDED: u32 = 3;

    /// Asks the kernel.
    pub fn probe() -> Self {
        Self {
            landlock: sys::landlock_version(),
            seccomp: sys::has_seccomp() && filter::is_for_this_machine(),
            notify: sys::has_seccomp() && filter::is_for_this_machine() && notify::is_possible(),
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
        } else if !self.notify {
            missing.push(
                "system calls that the service decides (seccomp user notification, Linux 5.19, and the right to trace its \
                 own programs)"
                    .to_owned(),
            );
        }
        missing
    }
}

/// Makes confinements.
#[derive(Debug)]
pub struct Sandbox {
    kernel: Kernel,
    places: Arc<Places>,
    scratch: Scratch,
    /// The rulesets of late, the last used one at the end.
    cache: Mutex<Vec<Cached>>,
    filters: Mutex<Vec<(Wanted, Filters)>>,
    /// The programs that hand calls to a gate: for connections, and for files too.
    gates: Option<[Arc<[libc::sock_filter]>; 2]>,
}

#[derive(Debug)]
struct Cached {
    demand: Demand,
    hidden: Vec<PathBuf>,
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
        let gate = |files| {
            let program = kernel.notify.then(|| filter::gate(files).ok().flatten()).flatten();
            program.map(Arc::<[libc::sock_filter]>::from)
        };
        Ok(Self {
            kernel,
            places: Arc::new(places),
            scratch: Scratch::new()?,
            cache: Mutex::default(),
            filters: Mutex::default(),
            gates: gate(false).zip(gate(true)).map(<[_; 2]>::from),
        })
    }

    /// Returns what the kernel can enforce.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Returns the hidden path that lies in a folder, if there is one: files right beside it cannot be made by programs
    /// that may write that folder.
    pub fn hidden_below(&self, folder: &Path) -> Option<PathBuf> {
        let folder = folder.canonicalize().ok()?;
        self.places
            .hidden_now(&mut Links::default())
            .into_iter()
            .find(|hidden| hidden.starts_with(&folder))
    }

    /// Prepares the confinement of one program, from what an earlier one with the same demand left if nothing has
    /// changed since. Blocking.
    ///
    /// # Errors
    /// See [`SandboxError`]; the program must not be started then.
    pub fn confine(&self, demand: &Demand) -> Result<Confinement, SandboxError> {
        let slot = self.scratch.take().map_err(SandboxError::Scratch)?;
        let mut links = Links::default();
        let hidden = self.places.hidden_now(&mut links);
        let gate = self.gate(demand, &hidden, slot.path(), &mut links);
        let rules = match self.kernel.landlock {
            0 => None,
            _ => Some(self.rules(demand, &hidden, gate.as_ref(), slot.path())?),
        };
        let filters = if self.kernel.seccomp {
            self.filters(Wanted {
                mode: demand.mode,
                network: demand.network,
                has_landlock: rules.is_some(),
                has_gate: gate.is_some(),
                has_sockets: !self.places.sockets.is_empty(),
            })?
        } else {
            Filters::default()
        };
        let gate_program = gate
            .as_ref()
            .zip(self.gates.as_ref())
            .map(|(gate, [connections, files])| if gate.has_files() { files } else { connections });
        Ok(Confinement {
            enforced: self.enforced(demand, gate.is_some()),
            places: Arc::clone(&self.places),
            demand: demand.clone(),
            writable: OnceLock::new(),
            readable: OnceLock::new(),
            gate: gate.zip(gate_program.cloned()),
            hidden,
            rules,
            filters,
            slot,
        })
    }

    /// Makes the gate of a program; none where the kernel has none, or nothing but the gate would confine it.
    fn gate(&self, demand: &Demand, hidden: &[PathBuf], slot: &Path, links: &mut Links) -> Option<Arc<Gate>> {
        self.gates.as_ref()?;
        let workspace = demand
            .written_workspace()
            .filter(|_| self.kernel.landlock > 0)
            .and_then(|path| links.follow(path));
        let mut roots: Vec<Root> = workspace.iter().map(|path| Root::plain(path.clone())).collect();
        roots.extend(
            workspace
                .iter()
                .filter_map(|path| repository::elsewhere(path))
                .map(Root::git),
        );
        if self.kernel.landlock > 0 {
            self.guarded_elsewhere(demand, &mut roots, links);
        }
        let mut socket_folders = vec![slot.to_path_buf()];
        // What is refused without the network is what leads to others.
        socket_folders.extend(workspace.filter(|_| demand.network));
        Some(Gate::new(Policy {
            roots,
            protected: self.places.protected.clone(),
            configuration: demand.configuration.clone(),
            directory: demand.directory.clone(),
            opened: demand.opened.clone(),
            hidden: hidden.to_vec(),
            socket_folders,
            sockets: self.places.sockets.clone(),
        }))
    }

    /// Adds the folders elsewhere that may be written and that rules are read from, or from beside which: Landlock cannot tell
    /// these files from others.
    fn guarded_elsewhere(&self, demand: &Demand, roots: &mut Vec<Root>, links: &mut Links) {
        for folder in demand
            .written_elsewhere(&self.places)
            .filter_map(|path| links.follow(path))
        {
            let is_known = roots.iter().any(|root| folder.starts_with(&root.path));
            let mut read = demand.configuration.iter();
            if !is_known && read.any(|place| place.starts_with(&folder) || folder.starts_with(place)) {
                roots.push(Root::plain(folder));
            }
        }
    }

    fn filters(&self, wanted: Wanted) -> Result<Filters, SandboxError> {
        let mut known = self.filters.lock();
        if let Some((_, filters)) = known.iter().find(|(known, _)| *known == wanted) {
            return Ok(Arc::clone(filters));
        }
        let filters = filter::filters(wanted)?;
        known.push((wanted, Arc::clone(&filters)));
        Ok(filters)
    }

    /// Makes a cache that may be written within walls, a folder or an empty file, unless it is there; nothing else is made.
    /// Blocking.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_cache(&self, path: &Path, is_folder: bool) -> io::Result<()> {
        if !self.places.caches.iter().any(|cache| cache == path) || path.symlink_metadata().is_ok() {
            return Ok(());
        }
        let folder = if is_folder { Some(path) } else { path.parent() };
        if let Some(folder) = folder {
            DirBuilder::new().recursive(true).create(folder)?;
        }
        if !is_folder {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            rustix::fs::open(path, flags, rustix::fs::Mode::from_raw_mode(0o644))?;
        }
        Ok(())
    }

    /// Removes all temporary folders. To be called when no program runs any more.
    pub fn close(&self) {
        self.scratch.close();
    }

    fn rules(
        &self,
        demand: &Demand,
        hidden: &[PathBuf],
        gate: Option<&Arc<Gate>>,
        slot: &Path,
    ) -> Result<Arc<Rules>, SandboxError> {
        let mut cache = self.cache.lock();
        let found = cache
            .iter()
            .position(|entry| entry.slot == slot && entry.demand == *demand && entry.hidden == hidden);
        if let Some(index) = found {
            let entry = cache.remove(index);
            if entry.stamps.hold() {
                let rules = Arc::clone(&entry.rules);
                cache.push(entry);
                return Ok(rules);
            }
        }
        drop(cache);
        let gated = gate.map_or(&[][..], |gate| gate.roots());
        let (rules, stamps) = rules::build(demand, &self.places, hidden, gated, slot)?;
        let rules = Arc::new(rules);
        let mut cache = self.cache.lock();
        if cache.len() >= MAX_CACHED {
            cache.remove(0);
        }
        cache.push(Cached {
            demand: demand.clone(),
            hidden: hidden.to_vec(),
            slot: slot.to_path_buf(),
            stamps,
            rules: Arc::clone(&rules),
        });
        Ok(rules)
    }

    fn enforced(&self, demand: &Demand, has_gate: bool) -> Enforced {
        let Kernel { landlock, seccomp, .. } = self.kernel;
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
            sockets: match (has_gate, demand.network, seccomp) {
                (true, _, _) => "gate",
                (false, false, true) => "seccomp",
                (false, _, _) => "none",
            },
            protected: match demand.mode {
                Mode::ReadOnly if landlock > 0 => "landlock",
                Mode::WorkspaceWrite if has_gate && landlock > 0 => "gate",
                Mode::ReadOnly | Mode::WorkspaceWrite => "none",
            },
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
    /// On connections to Unix sockets: `gate`, `seccomp` or `none`.
    pub sockets: &'static str,
    /// On writing what is code or configuration in the workspace: `gate`, `landlock` or `none`.
    pub protected: &'static str,
}

/// A prepared confinement: for one program and all that descends from it. Its temporary folder is emptied when it is
/// dropped, which must not be before the last of them has ended.
#[derive(Debug)]
pub struct Confinement {
    rules: Option<Arc<Rules>>,
    filters: Filters,
    slot: Slot,
    enforced: Enforced,
    places: Arc<Places>,
    demand: Demand,
    /// The folders that may be written, links followed, once somebody asks: after most programs nobody does, and to look is a
    /// hundred system calls.
    writable: OnceLock<Vec<PathBuf>>,
    /// What may be read within walls beside that, likewise.
    readable: OnceLock<Vec<PathBuf>>,
    hidden: Vec<PathBuf>,
    gate: Option<(Arc<Gate>, Arc<[libc::sock_filter]>)>,
}

impl Confinement {
    /// Returns what is enforced.
    pub fn enforced(&self) -> &Enforced {
        &self.enforced
    }

    /// Says whether files at a path, links followed, may be written. Blocking.
    pub fn may_write(&self, path: &Path) -> bool {
        let is_protected = self.gate.as_ref().is_some_and(|(gate, _)| gate.protects(path));
        self.is_in_writable(path) && !self.is_hidden(path) && !is_protected
    }

    /// Says whether files at a path, links followed, may be read. Blocking.
    pub fn may_read(&self, path: &Path) -> bool {
        let is_open = !self.demand.walls || self.is_in_readable(path) || self.is_in_writable(path);
        is_open && !self.is_hidden(path)
    }

    fn is_in_writable(&self, path: &Path) -> bool {
        let Self { demand, places, .. } = self;
        let folders = self.writable.get_or_init(|| {
            let named = demand.written_workspace().into_iter();
            followed(named.chain(demand.written_elsewhere(places)).chain([self.slot.path()]))
        });
        is_in(path, folders)
    }

    fn is_in_readable(&self, path: &Path) -> bool {
        let Self { demand, places, .. } = self;
        let folders = self
            .readable
            .get_or_init(|| followed(demand.readable_within_walls(places)));
        is_in(path, folders)
    }

    /// Returns what the gate refused so far.
    pub fn stopped(&self) -> Vec<Stopped> {
        self.gate.as_ref().map(|(gate, _)| gate.stopped()).unwrap_or_default()
    }

    /// Says whether a path is hidden, or a folder with something hidden in it, which nobody should be asked to open.
    pub fn touches_hidden(&self, path: &Path) -> bool {
        self.is_hidden(path) || self.hidden.iter().any(|hidden| hidden.starts_with(path))
    }

    fn is_hidden(&self, path: &Path) -> bool {
        is_in(path, &self.hidden)
    }

    /// Returns the private folder for temporary files, the program's `TMPDIR`.
    pub fn temporary(&self) -> &Path {
        self.slot.path()
    }

    /// Returns what the child is to apply.
    ///
    /// `socket` is where it is to send the listener of its gate.
    pub(super) fn restriction<'a>(&'a self, socket: Option<BorrowedFd<'a>>) -> sys::Restriction<'a> {
        sys::Restriction {
            ruleset: self.rules.as_ref().map(|rules| -> BorrowedFd<'_> { rules.as_fd() }),
            filters: &self.filters,
            gate: self.gate.as_ref().map(|(_, program)| &**program).zip(socket),
        }
    }

    /// Says whether calls of the program are handed to the service.
    pub(super) fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Serves those calls until no process is left that could make one.
    pub(super) fn serve(&self, listener: notify::Listener) -> io::Result<()> {
        self.gate.as_ref().map_or(Ok(()), |(gate, _)| gate.serve(listener))
    }
}

/// Returns where paths lead; one that leads nowhere as it is. Blocking.
fn followed<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    paths
        .map(|path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf()))
        .collect()
}

/// Says whether a path is one of some folders, or below one.
fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}
