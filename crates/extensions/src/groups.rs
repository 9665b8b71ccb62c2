//! What runs for each workspace, so that it can be ended with its workspace or with all of them.
//!
//! *Invariant:* what is ended is gone when the end returns. Whatever a group starts is in the group.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// What runs for one workspace.
#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl Group {
    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The groups by the names of their workspaces. Dropping them asks all to end.
pub(crate) struct Groups {
    groups: Mutex<HashMap<String, Group>>,
    stop: CancellationToken,
    _stop: DropGuard,
}

impl Default for Groups {
    fn default() -> Self {
        let stop = CancellationToken::new();
        Self {
            groups: Mutex::default(),
            _stop: stop.clone().drop_guard(),
            stop,
        }
    }
}

impl Groups {
    /// Returns the group of a workspace; a new one is there from now on.
    pub(crate) fn of(&self, workspace: &str) -> Group {
        let mut groups = self.groups.lock();
        let group = groups.entry(workspace.to_owned()).or_insert_with(|| Group {
            tasks: TaskTracker::new(),
            stop: self.stop.child_token(),
        });
        group.clone()
    }

    /// Ends what runs for a workspace.
    pub(crate) async fn end(&self, workspace: &str) {
        let group = self.groups.lock().remove(workspace);
        if let Some(group) = group {
            group.end().await;
        }
    }

    /// Ends what runs for any.
    pub(crate) async fn end_all(&self) {
        self.stop.cancel();
        let groups: Vec<Group> = self.groups.lock().drain().map(|(_, group)| group).collect();
        for group in groups {
            group.end().await;
        }
    }
}
