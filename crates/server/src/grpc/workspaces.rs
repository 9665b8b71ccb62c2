//! What the services need to know of whoever opens, creates and closes workspaces.
//!
//! *Invariant:* a leaf: it uses no service. Who may open what is decided by the one who opens; who may ask is decided by the
//! service.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use toolgate_engine::{Held, Rested, WorkspaceRuntime};
use toolgate_fs::roots::BelowError;
use toolgate_model::WorkspaceSource;
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
    /// It was created.
    #[error("the workspace {0:?} was created by CreateWorkspace: delete it, or suspend it")]
    Created(String),
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

/// A workspace that somebody wants to be created.
#[derive(Clone, Debug)]
pub struct WantedCreation {
    /// Its name.
    pub name: String,
    /// What is in it at first.
    pub source: WorkspaceSource,
    /// The principal, or empty without authentication.
    pub by: String,
    /// How long whoever asks waits for it.
    pub wait: Duration,
}

/// Why a workspace is not created, suspended, resumed or deleted.
#[derive(Debug, thiserror::Error)]
pub enum CreatedError {
    /// The configuration allows none.
    #[error(
        "workspaces cannot be created here: set created_workspaces.directory to the folder in which they may be or, at gateways with a \
         database, cluster.provisioner to who makes their places"
    )]
    Fixed,
    /// The name is none.
    #[error("{0}")]
    BadName(String),
    /// What it is to be created from is not understood.
    #[error("{problem}")]
    BadSource {
        /// The field of the request.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no such template.
    #[error("there is no template {name:?}; available: {}", .known.join(", "))]
    NoTemplate {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The name is that of something else.
    #[error("the workspace {name:?} {why}: choose another name")]
    NameTaken {
        /// The name.
        name: String,
        /// What it is.
        why: &'static str,
    },
    /// Another workspace has some of its files, or the service has.
    #[error(transparent)]
    Folder(Box<OpenError>),
    /// As many are open as may be.
    #[error("there are {0} workspaces, which is as many as limits.max_workspaces allows: close or delete one first")]
    TooMany(usize),
    /// There is none of that name.
    #[error("there is no workspace {0}")]
    Unknown(String),
    /// It was not created.
    #[error(
        "the workspace {0:?} was not created by CreateWorkspace, and is not suspended, resumed or deleted: close it, if it was opened"
    )]
    NotCreated(String),
    /// It is not in a state for that.
    #[error("the workspace {name:?} {held}")]
    Held {
        /// The workspace.
        name: String,
        /// Why.
        held: Held,
    },
    /// It is brought into another state, which does not succeed yet and is tried again.
    #[error("the workspace {name:?} {why}")]
    NotYet {
        /// The workspace.
        name: String,
        /// What is tried, and what is in the way.
        why: String,
    },
    /// The service is stopping.
    #[error("the service is stopping")]
    Draining,
    /// The store failed.
    #[error("what becomes of the workspace could not be stored")]
    Store(#[from] StoreError),
    /// Something that nobody expected.
    #[error("what was to be done with the workspace was not")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Opens, creates and closes workspaces.
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

    /// Says whether workspaces may be created.
    fn can_create(&self) -> bool;

    /// Returns the names of the templates. Blocks for a moment.
    fn templates(&self) -> Vec<String>;

    /// Creates a workspace, and waits for it as long as is wanted. One of the same name and source is returned as it is, with
    /// false. Goes on though whoever asked is gone.
    async fn create(&self, wanted: WantedCreation) -> Result<(Arc<WorkspaceRuntime>, bool), CreatedError>;

    /// Suspends a workspace that was created. Comes to its end though whoever asked is gone.
    async fn suspend(&self, name: &str) -> Result<(Arc<WorkspaceRuntime>, Rested), CreatedError>;

    /// Resumes a workspace that was created, and waits for it as long as is wanted.
    async fn resume(&self, name: &str, wait: Duration) -> Result<Arc<WorkspaceRuntime>, CreatedError>;

    /// Deletes a workspace that was created, in the name of a principal if one is known, and returns how many calls were
    /// cancelled. Comes to its end though whoever asked is gone.
    async fn delete(&self, name: &str, by: &str) -> Result<usize, CreatedError>;
}
