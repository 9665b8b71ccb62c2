//! What is asked of whoever makes places for workspaces.
//!
//! *Invariant:* plain data and one trait, which is the same for folders, machines and pods. Every method does the same however often
//! it is called.

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use toolgate_model::WorkspaceSource;

/// What is to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The name of the workspace.
    pub workspace: String,
    /// What is in it at first.
    pub source: WorkspaceSource,
    /// The principal that wants it, or empty without authentication.
    pub by: String,
    /// An id of the request that stays the same when it is tried again.
    pub request: String,
}

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// Nothing.
    Absent,
    /// It will be there, and nothing needs to be done for that: look again.
    Coming,
    /// All that is wanted.
    Ready,
    /// It is kept, and nothing runs.
    Resting,
    /// It cannot be used, and does not get better by itself.
    Broken(String),
}

/// Why what was asked for is not done.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// It will not be done, however often it is asked for; the text is for whoever wants the workspace.
    #[error("{0}")]
    Refused(String),
    /// It may be done the next time.
    #[error("{0}")]
    Failed(String),
}

/// Remembers which folders were put in their places here: what somebody else has put there is neither used nor removed.
#[async_trait]
pub trait Placements: Send + Sync + 'static {
    /// Returns the root below which the folder of a workspace was placed, or was about to be.
    fn placed(&self, wanted: &Wanted) -> Option<PathBuf>;

    /// Notes that one is about to be placed below a root, or that this did not come about.
    ///
    /// # Errors
    /// It could not be stored.
    async fn note(&self, wanted: &Wanted, root: Option<PathBuf>) -> io::Result<()>;
}

/// Makes places for workspaces, and takes them away.
#[async_trait]
pub trait Provisioner: Send + Sync + 'static {
    /// Makes the place of a workspace, or begins to. What is there already is left as it is.
    ///
    /// # Errors
    /// See [`ProvisionError`]. Nothing half made is in the way of the next attempt.
    async fn ensure(&self, wanted: &Wanted) -> Result<Observed, ProvisionError>;

    /// Lets nothing run there any more, and keeps what is stored.
    ///
    /// # Errors
    /// See [`ProvisionError`].
    async fn suspend(&self, wanted: &Wanted) -> Result<Observed, ProvisionError>;

    /// Undoes [`Self::suspend`], or begins to.
    ///
    /// # Errors
    /// See [`ProvisionError`].
    async fn resume(&self, wanted: &Wanted) -> Result<Observed, ProvisionError>;

    /// Takes the place away with all that is stored there. What is not there is taken away.
    ///
    /// # Errors
    /// See [`ProvisionError`].
    async fn delete(&self, wanted: &Wanted) -> Result<Observed, ProvisionError>;

    /// Looks what is there.
    ///
    /// # Errors
    /// It cannot be looked.
    async fn observe(&self, wanted: &Wanted) -> Result<Observed, ProvisionError>;

    /// The name of the pod whose worker waits to be bound to the workspace. `None`: the worker says its workspace itself, or it
    /// is not known yet.
    ///
    /// # Errors
    /// It cannot be looked.
    async fn pod(&self, _wanted: &Wanted) -> Result<Option<String>, ProvisionError> {
        Ok(None)
    }
}
