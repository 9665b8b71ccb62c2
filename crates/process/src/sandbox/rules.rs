//! From a demand to a Landlock ruleset.
//!
//! Landlock only ever allows, and what is allowed on a folder is allowed below it. Hiding a path therefore means to allow
//! everything beside it, on every level from the root down. What is made in such a folder later is not covered, so the
//! folders that were listed are remembered with their times, and the ruleset is made anew when one has changed.
//!
//! *Invariant:* links are not followed while listing: a link beside a hidden path may lead to it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::fs::{FileType, Mode as Permissions, OFlags};

use super::demand::{Demand, Places, SandboxError};
use super::gate::Root;

/// The newest interface that these rules were written for; older kernels enforce what they know of it.
const KNOWN: ABI = ABI::V9;

/// Entries of all listed folders together.
const MAX_ENTRIES: usize = 20_000;

/// The devices that any program may use. Others are left out: a disk can be read past every rule.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// A ruleset in the kernel.
#[derive(Debug)]
pub(super) struct Rules(OwnedFd);

impl AsFd for Rules {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What the rules were made from, to see whether it is still so.
#[derive(Debug, Default)]
pub(super) struct Stamps(Vec<(PathBuf, bool, Option<Stamp>)>);

/// Which file it was and, of a listed folder, when its entries last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed: Option<(i64, i64)>,
}

impl Stamp {
    fn take(path: &Path, listed: bool) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: listed.then(|| (metadata.mtime(), metadata.mtime_nsec())),
        })
    }
}

impl Stamps {
    /// Says whether nothing has changed since.
    pub(super) fn hold(&self) -> bool {
        let mut all = self.0.iter();
        all.all(|(path, listed, stamp)| Stamp::take(path, *listed).ok() == *stamp)
    }
}

/// Makes the ruleset of a demand. Blocking.
///
/// In what is `gated` the service writes on the program's behalf, so that Landlock lets it only read there.
pub(super) fn build(
    demand: &Demand,
    places: &Places,
    hidden: &[PathBuf],
    gated: &[Root],
    temporary: &Path,
) -> Result<(Rules, Stamps), SandboxError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?;
    if !demand.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(KNOWN))?;
    }
    let mut builder = Builder {
        ruleset: ruleset.create()?,
        hidden,
        gated,
        stamps: Stamps::default(),
        listed: 0,
    };
    if demand.walls {
        builder.add_named(demand, places)?;
    } else {
        builder.add_readable(demand, places)?;
    }
    builder.add_writable(demand, places, temporary)?;
    let Builder { ruleset, stamps, .. } = builder;
    let descriptor: Option<OwnedFd> = ruleset.into();
    let descriptor = descriptor.ok_or_else(|| SandboxError::Path {
        path: PathBuf::from("a ruleset"),
        source: io::ErrorKind::Unsupported.into(),
    })?;
    Ok((Rules(descriptor), stamps))
}

struct Builder<'a> {
    ruleset: RulesetCreated,
    hidden: &'a [PathBuf],
    gated: &'a [Root],
    stamps: Stamps,
    listed: usize,
}

impl Builder<'_> {
    fn add_readable(&mut self, demand: &Demand, places: &Places) -> Result<(), SandboxError> {
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        // Names are no secret, and a root folder that cannot be listed breaks more than it protects.
        self.allow(Path::new("/"), AccessFs::ReadDir.into())?;
        for entry in self.entries(Path::new("/"))? {
            if entry != Path::new("/dev") {
                self.spread(&entry, read)?;
            }
        }
        self.add_shown(demand, places, read)
    }

    /// Allows reading what was named, and nothing else.
    fn add_named(&mut self, demand: &Demand, places: &Places) -> Result<(), SandboxError> {
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        for path in places.common.iter().chain(&demand.readable).chain([&demand.workspace]) {
            self.root_if_there(path, read)?;
        }
        self.add_shown(demand, places, read)
    }

    /// Allows reading what may be read although it is in a hidden folder.
    fn add_shown(&mut self, demand: &Demand, places: &Places, read: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let shown = places.readable.iter().chain(&demand.shown);
        for readable in shown.filter_map(|path| path.canonicalize().ok()) {
            self.allow_if_there(&readable, read)?;
        }
        Ok(())
    }

    fn add_writable(&mut self, demand: &Demand, places: &Places, temporary: &Path) -> Result<(), SandboxError> {
        // A block device that one may make is a disk that one may write.
        let write = AccessFs::from_all(KNOWN) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
        for device in DEVICES {
            let rights = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
            self.allow_if_there(&Path::new("/dev").join(device), rights)?;
        }
        if !self.gated.is_empty() {
            // A new terminal; its other end is in a folder with those of others, and passes the gate.
            for device in ["/dev/ptmx", "/dev/pts/ptmx"] {
                let rights = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
                self.allow_if_there(Path::new(device), rights)?;
            }
        }
        self.allow_if_there(Path::new("/dev/shm"), write)?;
        self.allow(temporary, write)?;
        // What only names a socket or a pipe is no code, and may be made without asking.
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        let gated = read | AccessFs::MakeSock | AccessFs::MakeFifo;
        for root in self.gated {
            self.root(&root.path, gated)?;
        }
        if let Some(workspace) = demand.written_workspace().filter(|_| self.gated.is_empty()) {
            self.root(workspace, write)?;
        }
        for path in demand.written_elsewhere(places) {
            // What does not exist cannot be opened, and approving its parent instead would approve more.
            self.root_elsewhere(path, write)?;
        }
        Ok(())
    }

    /// As [`Self::root_if_there`], unless writes there pass the gate.
    fn root_elsewhere(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let is_gated = path
            .canonicalize()
            .is_ok_and(|real| self.gated.iter().any(|root| real.starts_with(&root.path)));
        match is_gated {
            true => Ok(()),
            false => self.root_if_there(path, rights),
        }
    }

    fn root_if_there(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        if path.exists() {
            return self.root(path, rights);
        }
        self.remember(path, false);
        Ok(())
    }

    /// Allows something on a path that was named, links in it followed.
    fn root(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let real = path.canonicalize().map_err(|source| path_error(path, source))?;
        self.remember(path, false);
        self.spread(&real, rights)
    }

    /// Allows something on a path and all below but what is hidden.
    fn spread(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        if self.hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return Ok(());
        }
        if !self.hidden.iter().any(|hidden| hidden.starts_with(path)) {
            return self.allow_if_there(path, rights);
        }
        for entry in self.entries(path)? {
            self.spread(&entry, rights)?;
        }
        Ok(())
    }

    /// Lists a folder, links left out.
    fn entries(&mut self, folder: &Path) -> Result<Vec<PathBuf>, SandboxError> {
        let failed = |source| path_error(folder, source);
        // Noted before it is listed: what changes in between makes the stamp too old, and that is the safe side.
        self.remember(folder, true);
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            self.listed += 1;
            if self.listed > MAX_ENTRIES {
                return Err(SandboxError::TooMany(folder.to_path_buf()));
            }
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                entries.push(entry.path());
            }
        }
        Ok(entries)
    }

    /// Remembers what a path is now. What the service cannot see is nothing: nor can the program, which is the same user's.
    fn remember(&mut self, path: &Path, listed: bool) {
        self.stamps
            .0
            .push((path.to_path_buf(), listed, Stamp::take(path, listed).ok()));
    }

    /// As [`Self::allow`], for what may have gone meanwhile or may not be looked at.
    fn allow_if_there(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        match self.allow(path, rights) {
            Err(SandboxError::Path { .. }) => Ok(()),
            other => other,
        }
    }

    fn allow(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let failed = |error: rustix::io::Errno| path_error(path, error.into());
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Permissions::empty()).map_err(failed)?;
        let status = rustix::fs::fstat(&opened).map_err(failed)?;
        let rights = match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => rights,
            FileType::Symlink => return Ok(()),
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => rights & AccessFs::from_file(KNOWN),
        };
        (&mut self.ruleset).add_rule(PathBeneath::new(opened, rights))?;
        Ok(())
    }
}

fn path_error(path: &Path, source: io::Error) -> SandboxError {
    let path = path.to_path_buf();
    SandboxError::Path { path, source }
}
