//! The workers that wait to hear of changed prompts: who follows which workspaces, and what they are told.
//!
//! *Invariant:* a change wakes those who follow its workspace, and nobody else: of ten thousand followers it mostly concerns one. Nothing
//! is asked of the store while nobody follows, and where an answer takes its time, no more than half of the time is spent on
//! asking.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use toolgate_contract::cluster::follow_response::Message as Told;
use toolgate_contract::cluster::{FollowChanged, FollowHeartbeat, FollowResponse};
use toolgate_ledger::wire::HEARTBEAT;
use toolgate_model::{PromptId, WorkspaceSet};
use toolgate_server::grpc::Closing;
use toolgate_store::ledger::Ledger;
use toolgate_store::{StoreError, read_prompts};

/// How often it is looked whether prompts have changed, should nobody say so.
const LOOK: Duration = Duration::from_millis(500);

/// How long no look may have come to its end before all are told: what was opened and decided meanwhile was seen by none. Workers count
/// on it.
const BLIND: Duration = Duration::from_secs(2);

/// After a look that took longer there is a pause.
const QUICK: Duration = Duration::from_millis(10);

/// Those who follow each workspace. None is empty.
type ByWorkspace = HashMap<String, Vec<Arc<Notify>>>;

/// Open prompts, each with the number of its state, and its workspace.
type Known = HashMap<PromptId, (u64, String)>;

/// Tells followers that prompts have changed in their workspaces.
#[derive(Default)]
pub(crate) struct Followers {
    all: Mutex<ByWorkspace>,
    /// It is to be looked at once.
    look: Notify,
}

/// Somebody who follows some workspaces, until this is dropped.
struct Following {
    followers: Arc<Followers>,
    workspaces: Vec<String>,
    changed: Arc<Notify>,
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut all = self.followers.all.lock();
        for workspace in &self.workspaces {
            if let Some(here) = all.get_mut(workspace) {
                here.retain(|one| !Arc::ptr_eq(one, &self.changed));
                if here.is_empty() {
                    all.remove(workspace);
                }
            }
        }
        let is_last = all.is_empty();
        drop(all);
        if is_last {
            self.followers.look.notify_one();
        }
    }
}

impl Followers {
    /// Tells whoever follows these workspaces of changes, until it is closing.
    pub(crate) fn told(
        self: &Arc<Self>,
        reads: &WorkspaceSet,
        closing: &Closing,
    ) -> impl Stream<Item = Result<FollowResponse, Status>> + Send + use<> {
        let over = closing.turn();
        // The first word comes at once: so the worker knows that it is heard.
        let begin = (self.follow(reads), over, true);
        futures_util::stream::unfold(begin, |(following, over, is_first)| async move {
            let message = if is_first {
                Told::Heartbeat(FollowHeartbeat {})
            } else {
                tokio::select! {
                    () = over.cancelled() => return None,
                    changed = timeout(HEARTBEAT, following.changed.notified()) => match changed {
                        Ok(()) => Told::Changed(FollowChanged {}),
                        Err(_) => Told::Heartbeat(FollowHeartbeat {}),
                    },
                }
            };
            let said = FollowResponse { message: Some(message) };
            Some((Ok(said), (following, over, false)))
        })
    }

    fn follow(self: &Arc<Self>, reads: &WorkspaceSet) -> Following {
        let following = Following {
            followers: Arc::clone(self),
            workspaces: reads.names().map(str::to_owned).collect(),
            changed: Arc::default(),
        };
        let mut all = self.all.lock();
        for workspace in &following.workspaces {
            let here = all.entry(workspace.clone()).or_default();
            here.push(Arc::clone(&following.changed));
        }
        drop(all);
        self.look.notify_one();
        following
    }

    /// Has it looked at once whether prompts have changed.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    fn tell(&self, changed: &BTreeSet<String>) {
        let all = self.all.lock();
        for follower in changed.iter().filter_map(|workspace| all.get(workspace)).flatten() {
            follower.notify_one();
        }
    }

    fn tell_all(&self) {
        let all = self.all.lock();
        for follower in all.values().flatten() {
            follower.notify_one();
        }
    }

    /// Looks for changes until `stop`, and then for as long as somebody follows: streams end one after the other.
    pub(crate) async fn watch(&self, ledger: &dyn Ledger, stop: &CancellationToken) {
        let elsewhere = ledger.changed_elsewhere();
        let mut known = Known::new();
        let mut looked = Instant::now();
        loop {
            let hint = async {
                match &elsewhere {
                    Some(elsewhere) => elsewhere.notified().await,
                    None => std::future::pending().await,
                }
            };
            let is_followed = !self.all.lock().is_empty();
            tokio::select! {
                () = self.look.notified() => {}
                () = hint => {}
                () = sleep(LOOK), if is_followed => {}
                () = stop.cancelled(), if !is_followed => {}
            }
            if self.all.lock().is_empty() {
                if stop.is_cancelled() {
                    return;
                }
                // What is known is kept: it is read prompt by prompt.
                looked = Instant::now();
                continue;
            }
            let (begun, mut changed) = (Instant::now(), BTreeSet::new());
            let seen = changes(ledger, &mut known, &mut changed).await;
            // Also if the look was cut off: what is known by now is told by no later one.
            self.tell(&changed);
            match seen {
                Ok(()) => {
                    if begun.duration_since(looked) > BLIND {
                        self.tell_all();
                    }
                    looked = begun;
                }
                Err(error) => tracing::debug!(%error, "it cannot be looked whether prompts have changed"),
            }
            // Where many prompts are open and more come all the time, each look finds what has come during the pause. A quick one costs
            // less than a reply that waits.
            if begun.elapsed() > QUICK {
                sleep(begun.elapsed().min(LOOK)).await;
            }
        }
    }
}

/// Adds the workspaces of the prompts that are other ones than those that are known.
async fn changes(ledger: &dyn Ledger, known: &mut Known, changed: &mut BTreeSet<String>) -> Result<(), StoreError> {
    let open = ledger.open_prompts().await?.into_iter().collect();
    let new = new_ones(open, known, changed);
    let found = read_prompts(ledger, new.iter().map(|(id, _)| id.clone())).await?;
    for ((id, found), (_, revision)) in found.into_iter().zip(new) {
        match found {
            Ok(Some(prompt)) => {
                changed.insert(prompt.workspace.clone());
                known.insert(id, (revision, prompt.workspace));
            }
            Ok(None) => {}
            // One that cannot be read, perhaps of a newer release, keeps back no other.
            Err(error) => tracing::debug!(prompt = %id, %error, "a prompt cannot be read"),
        }
    }
    Ok(())
}

/// Adds the workspaces of known prompts that have changed or are not open any more; returns those that are not known.
fn new_ones(open: HashMap<PromptId, u64>, known: &mut Known, changed: &mut BTreeSet<String>) -> Vec<(PromptId, u64)> {
    known.retain(|id, (_, workspace)| {
        let stays = open.contains_key(id);
        if !stays {
            changed.insert(workspace.clone());
        }
        stays
    });
    let mut new = Vec::new();
    for (id, revision) in open {
        match known.get_mut(&id) {
            Some((known, _)) if *known == revision => {}
            Some((known, workspace)) => {
                *known = revision;
                changed.insert(workspace.clone());
            }
            None => new.push((id, revision)),
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_told_whatever_becomes_of_new_prompts() {
        let entry = |id: &str, revision, workspace: &str| (PromptId::new(id), (revision, workspace.to_owned()));
        let mut known = Known::from([entry("same", 1, "a"), entry("other", 1, "b"), entry("gone", 1, "c")]);
        let open = [("same", 1), ("other", 2), ("new", 1)].map(|(id, revision)| (PromptId::new(id), revision));
        let mut changed = BTreeSet::new();
        let new = new_ones(open.into(), &mut known, &mut changed);
        assert_eq!(new, [(PromptId::new("new"), 1)]);
        assert_eq!(changed, BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        assert_eq!(known, Known::from([entry("same", 1, "a"), entry("other", 2, "b")]));
    }
}
