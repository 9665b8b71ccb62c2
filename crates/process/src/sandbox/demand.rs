//! What a program is to be confined to, and why that cannot be.
//!
//! *Invariant:* plain data, but for looking where hidden paths lead.

use std::io;
use std::path::{Path, PathBuf};

use super::links::Links;

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

/// Paths that are treated alike for every program of the service.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// What no program may read or write, even where it may everything around it: the service's own state and secrets.
    pub hidden: Vec<PathBuf>,
    /// What may be read although it is hidden.
    pub readable: Vec<PathBuf>,
    /// What may be written by every program.
    pub writable: Vec<PathBuf>,
    /// What may be read within walls: the system's folders, and those of tools.
    pub common: Vec<PathBuf>,
    /// What may be written within walls beside the workspace: the caches of toolchains.
    pub caches: Vec<PathBuf>,
    /// The last parts of paths that may not be written in a workspace: what is code or configuration there.
    pub protected: Vec<PathBuf>,
    /// The Unix sockets that may be connected to.
    pub sockets: Vec<PathBuf>,
}

impl Places {
    /// Returns what is hidden now, links followed: what is not there yet is looked for again with the next program.
    pub(super) fn hidden_now(&self, links: &mut Links) -> Vec<PathBuf> {
        let mut hidden: Vec<PathBuf> = self.hidden.iter().filter_map(|path| links.follow(path)).collect();
        hidden.dedup();
        hidden
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
    /// What in it may not be written beside what is protected by its name, links followed: where its rules are read from.
    pub configuration: Vec<PathBuf>,
    /// The folder in it that may not be put elsewhere, nor those around it, links followed: where work begins.
    pub directory: Option<PathBuf>,
    /// Folders elsewhere that were approved.
    pub approved: Vec<PathBuf>,
    /// Whether it is held to this: it may read nothing but the system's folders and what is named here, and may write the
    /// caches of toolchains.
    pub walls: bool,
    /// What it may read beside that, within walls.
    pub readable: Vec<PathBuf>,
    /// What it may read although it is hidden from others.
    pub shown: Vec<PathBuf>,
    /// What a person let it write although it is protected.
    pub opened: Vec<PathBuf>,
}

impl Demand {
    /// Makes one that may write nothing elsewhere.
    pub fn new(mode: Mode, workspace: PathBuf) -> Self {
        Self {
            mode,
            network: false,
            workspace,
            configuration: Vec::new(),
            directory: None,
            approved: Vec::new(),
            walls: false,
            readable: Vec::new(),
            shown: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// Returns the workspace's folder if it may be written. A workspace of `/` contains nothing, as for the rules.
    pub(super) fn written_workspace(&self) -> Option<&Path> {
        let is_written = self.mode == Mode::WorkspaceWrite && self.workspace.parent().is_some();
        is_written.then_some(self.workspace.as_path())
    }

    /// Returns what may be written beside the workspace and the temporary folder.
    pub(super) fn written_elsewhere<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = &'a Path> {
        let caches = places.caches.iter().filter(|_| self.walls);
        let written = self.approved.iter().chain(&places.writable).chain(caches);
        written.map(PathBuf::as_path)
    }

    /// Returns what may be read within walls beside what may be written.
    pub(super) fn readable_within_walls<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = &'a Path> {
        let named = [&self.workspace].into_iter().chain(&self.readable);
        named
            .chain(&places.common)
            .chain(&places.readable)
            .map(PathBuf::as_path)
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
