//! Finding what other processes did to prompts and grants: services on the same data directory, and commands that answer or
//! ask with a service of their own.
//!
//! *Invariant:* the store is looked at only while somebody waits or listens here, and then by one query over the ids of the
//! open prompts. Only what differs is read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use toolgate_model::{Decision, Prompt, PromptId, PromptOutcome, PromptState};
use toolgate_store::outage::{self, Outage};
use toolgate_store::{Interest, StoreError, read_prompts};

use super::Board;

/// How long what another process did may go unnoticed.
const PERIOD: Duration = Duration::from_millis(500);

/// Waits until it is time to look again, or until the store says that another process has changed something.
async fn wait(changed: Option<&Notify>) {
    let period = tokio::time::sleep(PERIOD);
    match changed {
        Some(changed) => tokio::select! {
            () = changed.notified() => {}
            () = period => {}
        },
        None => period.await,
    }
}

/// What the store may refuse here for a while.
#[derive(Default)]
pub(super) struct Outages {
    /// To say what other processes did to prompts.
    prompts: Outage,
    /// To take who listens here.
    listeners_here: Outage,
    /// To say who listens elsewhere.
    listeners_elsewhere: Outage,
}

/// Returns what an attempt brought, if it went well; says now and then while it does not.
fn brought<T>(outage: &Outage, attempt: Result<T, StoreError>, what: &str) -> Option<T> {
    match attempt {
        Ok(answer) => {
            let _ = outage.is_over();
            Some(answer)
        }
        Err(error) => {
            if outage.fails().is_some() {
                outage::tell(&error, what);
            }
            None
        }
    }
}

/// What is to be read from the store.
#[derive(Default)]
struct Differences {
    /// Prompts that are new or have changed, with the number of that state.
    changed: Vec<(PromptId, u64)>,
    /// Prompts that are not open any more.
    gone: Vec<PromptId>,
}

impl Board {
    /// Looks at the store now and then, from now on until nobody waits or listens.
    pub(super) fn keep_looking(self: &Arc<Self>) {
        if self.over.is_cancelled() || std::mem::replace(&mut self.state().is_looking, true) {
            return;
        }
        let (board, over) = (Arc::downgrade(self), self.over.clone());
        self.tasks.spawn(async move {
            let changed = match board.upgrade() {
                Some(board) => board.store.changed_elsewhere(),
                None => return,
            };
            while over.run_until_cancelled(wait(changed.as_deref())).await.is_some() {
                let Some(board) = board.upgrade() else { return };
                let everything = board.what_to_look_at();
                board.tell_who_listens(Duration::ZERO).await;
                let Some(everything) = everything else { return };
                let found = board.store.attended_lately().await;
                board.found_approvers(found);
                let _gate = board.pass().await;
                let what = "what other processes did to prompts could not be read";
                brought(&board.outages.prompts, board.look(everything).await, what);
            }
        });
    }

    /// Tells other processes who listens here, if that is new to them and they were told nothing for this long.
    pub(super) async fn tell_who_listens(&self, pause: Duration) {
        let mut told = self.told.lock().await;
        let interests = self.state().presence.interests();
        let is_known = match &*told {
            Some((before, when)) => *before == interests || when.elapsed() < pause,
            None => interests.is_empty(),
        };
        if is_known {
            return;
        }
        // If it fails it is tried again soon; until then the approvers count here only.
        let what = "other processes could not be told of the approvers here";
        let attended = self.store.attend(interests.clone()).await;
        if brought(&self.outages.listeners_here, attended, what).is_some() {
            *told = Some((interests, Instant::now()));
        }
    }

    /// Finds out who listens at other processes, also to calls that began a moment ago.
    pub(in crate::prompts) async fn look_for_approvers(&self) {
        let found = self.store.attended_elsewhere().await;
        self.found_approvers(found);
    }

    fn found_approvers(&self, found: Result<Vec<Interest>, StoreError>) {
        let what = "the approvers at other processes could not be found";
        if let Some(interests) = brought(&self.outages.listeners_elsewhere, found, what)
            && self.state().presence.found_elsewhere(interests, Instant::now())
        {
            self.visits.notify_waiters();
        }
    }

    /// Says whether all prompts are to be looked at, or only those on which calls wait; none if nobody needs to know.
    fn what_to_look_at(&self) -> Option<bool> {
        let mut state = self.state();
        // Listeners come under this lock.
        let listens = self.changes.receiver_count() > 0;
        state.is_looking = listens || !state.waiting.is_empty();
        state.is_looking.then_some(listens)
    }

    /// Brings what is shown up to date. The gate is passed.
    pub(super) async fn look(&self, everything: bool) -> Result<(), StoreError> {
        let stored = self.store.open_prompts().await?;
        let Differences { changed, gone } = self.differences(stored, everything);
        if changed.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let wanted: Vec<_> = changed.into_iter().chain(gone.into_iter().map(|id| (id, 0))).collect();
        let found = read_prompts(&*self.store, wanted.iter().map(|(id, _)| id.clone())).await?;
        // First, so that whoever is woken is judged by what was granted with the reply.
        let grants = self.store.grants(&self.instance).await?;
        self.state().grants.replace(grants);
        for ((id, prompt), (_, revision)) in found.into_iter().zip(wanted) {
            match prompt {
                Ok(Some(prompt)) if prompt.state == PromptState::Open => self.show(Arc::new(prompt), revision),
                Ok(Some(prompt)) => drop(self.ended(prompt)),
                Ok(None) => self.vanished(&id),
                // One that cannot be read, perhaps of a newer release, keeps back no other.
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(prompt = %id, error, "a prompt cannot be read");
                }
            }
        }
        Ok(())
    }

    fn differences(&self, stored: Vec<(PromptId, u64)>, everything: bool) -> Differences {
        let state = self.state();
        let open: BTreeSet<&PromptId> = stored.iter().map(|(id, _)| id).collect();
        let is_meant = |id: &PromptId| everything || state.waiting.contains_key(id);
        let gone = state.open.keys().filter(|id| is_meant(id) && !open.contains(id));
        let gone = gone.cloned().collect();
        let is_new = |(id, revision): &(PromptId, u64)| {
            everything && state.open.get(id).is_none_or(|shown| shown.revision != *revision)
        };
        Differences {
            changed: stored.iter().filter(|one| is_new(one)).cloned().collect(),
            gone,
        }
    }

    /// Ends what is shown of a prompt that is not stored any more, because its call is not.
    fn vanished(&self, id: &PromptId) {
        let shown = self.state().open.get(id).map(|shown| shown.prompt.clone());
        if let Some(prompt) = shown {
            self.ended(Prompt {
                state: PromptState::Withdrawn,
                decision: Some(Decision::new(PromptOutcome::Withdrawn(
                    "its call is not stored any more".to_owned(),
                ))),
                ..(*prompt).clone()
            });
        }
    }
}
