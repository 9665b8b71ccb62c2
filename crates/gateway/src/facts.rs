//! What a worker said of itself last.
//!
//! *Invariant:* it stays known while the worker is away, but for workspaces that were deleted since.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use toolgate_contract::WorkspaceInfo;

/// What a worker said last.
#[derive(Clone, Default)]
pub(crate) struct Facts {
    /// Whether it answered the last time.
    pub(crate) is_there: bool,
    /// Whether it was told that it did not.
    pub(crate) was_told: bool,
    /// Whether it is away, and all workspaces that it had were deleted since.
    pub(crate) has_lost_all: bool,
    /// Whether it is away, and nothing was to run in any workspace that it had: they were suspended, or were to be deleted.
    pub(crate) is_excused: bool,
    /// Its workspaces, in its own order.
    pub(crate) workspaces: Arc<[WorkspaceInfo]>,
    /// The folders below which it opens others.
    pub(crate) roots: Arc<[String]>,
    /// The templates that it creates others from.
    pub(crate) templates: Arc<[String]>,
    /// Whether it creates others.
    pub(crate) creates: bool,
    /// The version of its program.
    pub(crate) version: Arc<str>,
    /// Why the gateway does not use it although it is there.
    pub(crate) refused: Option<Arc<str>>,
    /// Why it cannot be used, and since when.
    pub(crate) away: Option<(Arc<str>, SystemTime)>,
    /// Calls that run or wait there, and those that wait for their turn.
    pub(crate) calls: (i32, i32),
}

impl Facts {
    /// Returns the names of its workspaces.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.workspaces.iter().map(|one| one.name.clone())
    }

    /// Forgets a workspace of one that is away.
    pub(crate) fn lose(&mut self, workspace: &str) {
        if !self.is_there && self.names().any(|name| name == workspace) {
            let left = self.workspaces.iter().filter(|one| one.name != workspace);
            self.workspaces = left.cloned().collect();
            self.has_lost_all = self.workspaces.is_empty();
        }
    }

    /// Takes note of it if it is away while all its workspaces rest.
    pub(crate) fn excuse(&mut self, rests: impl Fn(&str) -> bool) {
        let is_away = !self.is_there && !self.workspaces.is_empty();
        self.is_excused |= is_away && self.workspaces.iter().all(|one| rests(&one.name));
    }

    /// Says whether it has been away for so long.
    pub(crate) fn is_away_for(&self, time: Duration) -> bool {
        let since = self.away.as_ref().filter(|_| !self.is_there);
        since.is_some_and(|(_, since)| since.elapsed().is_ok_and(|elapsed| elapsed > time))
    }
}
