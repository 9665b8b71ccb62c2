//! What the services need to know of whoever opens and closes workspaces.
//!
//! *Invariant:* a leaf: it uses no service. Who may open what is decided by the one who opens; who may ask is decided by the
//! service.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use toolgate_engine::WorkspaceRuntime;
use toolgate_fs::roots::BelowError;
use toolgate_store::StoreError;

/// A workspace that somebody wants to be open.
#[derive(Clone, Debug)]
pub struct WantedWorkspace {
    /// Its name.
    pub name: String,
    /// Its folder, as it was written.
    pub directory: PathBuf,
    /// Whether a folder that is not there is made.
    pub create: bool,
    /// The principal, or empty without authentication.
    pub by: String,
}

/// Why a workspace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration allows no folder.
    #[error("workspaces cannot be opened at run time: set workspace_roots to the folders below which they may be")]
    Fixed,
    /// The name is none.
    #[error("{0}")]
    BadName(String),
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] BelowError),
    /// It is not there.
    #[error("{} does not exist: make it, or set `create`", .0.display())]
    Missing(PathBuf),
    /// It holds files of the service, or lies among them.
    #[error("{} holds files of the service itself, or lies among them", .0.display())]
    Reserved(PathBuf),
    /// Another workspace has some of its files.
    #[error("{} overlaps with the folder of another workspace: use that one, or another folder", .0.display())]
    Overlaps(PathBuf),
    /// The name belongs to another folder.
    #[error("the workspace {name:?} is {} already: close it first, or choose another name", directory.display())]
    NameTaken {
        /// The name.
        name: String,
        /// Its folder.
        directory: PathBuf,
    },
    /// As many are open as may be.
    #[error("{0} workspaces are open, which is as many as limits.max_workspaces allows: close one first")]
    TooMany(usize),
    /// The service is stopping.
    #[error("the service is stopping")]
    Draining,
    /// The store failed.
    #[error("the workspace could not be remembered")]
    Store(#[from] StoreError),
    /// Something that nobody expected.
    #[error("the workspace could not be opened")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a workspace cannot be closed.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// There is none of that name.
    #[error("there is no workspace {0}")]
    Unknown(String),
    /// The configuration names it.
    #[error("the workspace {0:?} is one of the configuration, and cannot be closed: take it out of `workspaces` there")]
    Configured(String),
    /// The store failed. What of the workspace runs is ended all the same.
    #[error("that the workspace was closed could not be stored")]
    Store(#[from] StoreError),
    /// Something that nobody expected.
    #[error("the workspace could not be closed")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Opens and closes workspaces.
#[async_trait]
pub trait Workspaces: Send + Sync + 'static {
    /// Says whether the workspaces stay what they are.
    fn are_fixed(&self) -> bool;

    /// Returns the folders below which workspaces may be opened.
    fn roots(&self) -> Vec<String>;

    /// Returns how many workspaces may be open when another one is opened.
    fn most(&self) -> usize;

    /// Opens a workspace; one of the same name and folder that is open and not broken is returned as it is, with false. Comes
    /// to its end though whoever asked is gone.
    async fn open(&self, wanted: WantedWorkspace) -> Result<(Arc<WorkspaceRuntime>, bool), OpenError>;

    /// Closes a workspace, in the name of a principal if one is known, and returns how many calls were cancelled. Comes to its
    /// end though whoever asked is gone.
    async fn close(&self, name: &str, by: &str) -> Result<usize, CloseError>;
}
