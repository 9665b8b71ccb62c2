//! Workspaces that clients create where several processes share a store: what is wanted of each, and how far it is.
//!
//! Whoever takes a request writes down what is wanted. Whichever process claims it next brings it about, and goes on where one that died
//! had stopped.
//!
//! *Invariant:* one process works for a workspace at a time, by a claim that ends by itself, by the store's clock. What a claimant
//! writes down takes place only while the workspace is at the stage that it knew: whoever wants something else meanwhile is not
//! overtaken. A workspace that rests, or is about to, is held by no run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use toolgate_model::{CallId, Timestamp, WorkspaceSource};

use crate::StoreError;

/// How far a created workspace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Its place is being made, or its worker has not come.
    Creating,
    /// A worker has it.
    Ready,
    /// What runs there is being ended.
    Suspending,
    /// Its place is kept, and nothing runs there.
    Suspended,
    /// As `Creating`, with what was kept.
    Resuming,
    /// Its place is being taken away.
    Deleting,
    /// It could not be made or resumed.
    Failed,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Creating,
        Self::Ready,
        Self::Suspending,
        Self::Suspended,
        Self::Resuming,
        Self::Deleting,
        Self::Failed,
    ];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Ready => "ready",
            Self::Suspending => "suspending",
            Self::Suspended => "suspended",
            Self::Resuming => "resuming",
            Self::Deleting => "deleting",
            Self::Failed => "failed",
        }
    }

    /// Returns the one of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == name)
    }

    /// Says whether it is left by itself.
    pub const fn is_under_way(self) -> bool {
        match self {
            Self::Creating | Self::Suspending | Self::Resuming | Self::Deleting => true,
            Self::Ready | Self::Suspended | Self::Failed => false,
        }
    }
}

/// A workspace that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedWorkspace {
    /// Its name.
    pub name: String,
    /// What it is created from; as it may be shown, once nothing is got from there any more.
    pub source: WorkspaceSource,
    /// The principal that wanted it.
    pub by: String,
    /// When that was.
    pub time: Timestamp,
    /// The id of the request for its place, which stays the same when that is tried again.
    pub request: String,
    /// How far it is.
    pub stage: Stage,
    /// Why it has failed, or why it takes so long; else empty.
    pub problem: String,
    /// The principal that wanted it to be at this stage; empty if nobody did.
    pub asked_by: String,
    /// For how long it has been there.
    pub lasts: Duration,
    /// When it came there, in microseconds by the clock of the store: two stays at the same stage differ in it.
    pub since: i64,
    /// Whether what is to be done at this stage has been begun.
    pub is_begun: bool,
    /// How often that was tried in vain, one time after the other.
    pub attempts: u64,
    /// How many calls were cancelled when it was suspended, or is deleted.
    pub cancelled: u64,
    /// Whether a worker has had it.
    pub was_ready: bool,
}

/// A workspace that somebody wants.
#[derive(Clone, Debug)]
pub struct NewWorkspace {
    /// Its name.
    pub name: String,
    /// What it is created from.
    pub source: WorkspaceSource,
    /// Who wants it.
    pub by: String,
    /// When.
    pub time: Timestamp,
    /// The id of the request, if it is a new one.
    pub request: String,
}

/// How many workspaces there may be.
#[derive(Clone, Debug)]
pub struct Quota {
    /// Of these names, and of those below a prefix (`PREFIX/*`); none for all.
    pub of: Option<Vec<String>>,
    /// So many.
    pub most: u64,
}

/// What became of a request to create a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is created from now on.
    Now(CreatedWorkspace),
    /// It is there, or on its way.
    Before(CreatedWorkspace),
    /// It was created from something else.
    Otherwise,
    /// Somebody has, or had, a workspace of this name that was not created.
    Foreign,
    /// There are so many already.
    Full {
        /// By which quota.
        quota: usize,
        /// How many.
        open: u64,
    },
}

/// What came of an attempt to bring a workspace further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again after so long.
    Later {
        /// How long.
        after: Duration,
        /// What was wrong, if anything was.
        problem: String,
        /// Whether it was begun.
        is_begun: bool,
        /// How often it was tried in vain.
        attempts: u64,
    },
    /// It has come to another stage, or has stayed at this one: look again after so long.
    Reached(Stage, Duration),
    /// It has failed, for this reason.
    Failed(String),
}

/// Keeps workspaces that clients create.
#[async_trait]
pub trait CreatedWorkspaces: Send + Sync + 'static {
    /// Notes that a workspace is wanted, unless it is there. One that has failed is tried again. `served` are the workspaces that there are
    /// beside created ones; they count.
    async fn want_workspace(&self, new: NewWorkspace, quotas: &[Quota], served: &[String])
    -> Result<Asked, StoreError>;

    /// Returns the one of a name.
    async fn created(&self, name: &str) -> Result<Option<CreatedWorkspace>, StoreError>;

    /// Returns some of those whose names come behind this one, in their order.
    async fn created_after(&self, name: &str, most: usize) -> Result<Vec<CreatedWorkspace>, StoreError>;

    /// Returns the names of those that are at no stage at which they take calls, or were so a moment ago.
    async fn created_held(&self) -> Result<Vec<String>, StoreError>;

    /// Returns how many there are at each stage.
    async fn count_created(&self) -> Result<Vec<(Stage, u64)>, StoreError>;

    /// Notes that somebody wants a workspace to be at another stage, if it is at one of these. Returns it as it is then.
    async fn want_stage(
        &self,
        name: &str,
        from: &[Stage],
        to: Stage,
        by: &str,
    ) -> Result<Option<CreatedWorkspace>, StoreError>;

    /// Has it looked at a workspace soon.
    async fn look_at(&self, name: &str) -> Result<(), StoreError>;

    /// Claims some of those for which something is to be done now.
    async fn claim_created(&self, term: Duration, most: usize) -> Result<Vec<CreatedWorkspace>, StoreError>;

    /// Keeps a claim for another term; false if it is lost, or somebody wants another stage.
    async fn keep_claim(&self, workspace: &CreatedWorkspace, term: Duration) -> Result<bool, StoreError>;

    /// Gives a claim back of which nothing came.
    async fn give_back(&self, workspace: &CreatedWorkspace) -> Result<(), StoreError>;

    /// Writes down what came of an attempt, and gives the claim back; false if somebody wants another stage.
    async fn step_created(&self, workspace: &CreatedWorkspace, step: Step) -> Result<bool, StoreError>;

    /// Returns which of these were deleted, and nobody has had since.
    async fn which_are_free(&self, names: &[String]) -> Result<Vec<String>, StoreError>;

    /// Notes that something was called in workspaces.
    async fn note_called(&self, names: &[String]) -> Result<(), StoreError>;

    /// Suspends those in which nothing runs and in which nothing was called for so long. A call that is admitted at the same moment is
    /// either seen here, or not admitted. Returns their names.
    async fn suspend_idle(&self, idle: Duration) -> Result<Vec<String>, StoreError>;

    /// Wants those suspended workspaces to be resumed in which a call has nothing to wait for any more. Returns their names.
    async fn resume_answered(&self) -> Result<Vec<String>, StoreError>;

    /// Takes a claimed workspace from whoever holds it: what it still writes there is not taken.
    async fn take_from_holder(&self, workspace: &CreatedWorkspace) -> Result<(), StoreError>;

    /// Returns the calls of a workspace that have not ended; each with whether all it does is to wait for a person.
    async fn unfinished_calls(&self, name: &str) -> Result<Vec<(CallId, bool)>, StoreError>;

    /// Ends calls of a workspace that nobody holds as cancelled, with their prompts: all, or those that do more than wait. Counts them
    /// with those that were cancelled before.
    async fn end_calls(&self, workspace: &CreatedWorkspace, all: bool, before: u64) -> Result<(), StoreError>;

    /// Frees a claimed workspace from workers that were bound to it, but for this one of a principal.
    async fn release_binding(
        &self,
        workspace: &CreatedWorkspace,
        principal: &str,
        worker: &str,
    ) -> Result<(), StoreError>;

    /// Forgets a claimed workspace that is deleted. Its name is free.
    async fn forget_created(&self, workspace: &CreatedWorkspace) -> Result<(), StoreError>;

    /// Returns what is notified when another process may have changed something, or prompts; none if the store cannot tell. It is a
    /// help only: whoever waits looks now and then as well.
    fn created_changed(&self) -> Option<Arc<Notify>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_names() {
        for stage in Stage::ALL {
            assert_eq!(Stage::of(stage.as_str()), Some(stage));
        }
        assert_eq!(Stage::of("other"), None);
    }
}
