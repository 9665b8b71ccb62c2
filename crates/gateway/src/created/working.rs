//! Which created workspaces this gateway works for: those that are due and that it has claimed.
//!
//! *Invariant:* a claim is kept while work is under way, and the work is given up when it cannot be kept, or somebody wants something
//! else. While nothing is due, the database is asked a few questions a second, and nobody else anything.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use toolgate_store::created::{CreatedWorkspace, Step};
use toolgate_store::{StoreError, outage};

use super::Created;

/// How often it is looked for what is due.
const POLL: Duration = Duration::from_millis(500);

/// How long a claim is good for, and how often it is kept.
const TERM: Duration = Duration::from_secs(10);
const KEEPING: Duration = Duration::from_secs(2);

/// Workspaces that are worked for at once.
const AT_ONCE: usize = 64;

/// How often workspaces are counted, and how often it is looked which of them are idle, at least and at most.
const COUNTING: Duration = Duration::from_secs(5);
const IDLE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// How long to leave a failing database alone.
const PAUSE: Duration = Duration::from_secs(1);

impl Created {
    /// Works until `stop`.
    pub(crate) async fn work(self: Arc<Self>, stop: CancellationToken) {
        let elsewhere = self.store.created_changed();
        let (mut is_away, mut counted, mut idled) = (false, None, Instant::now());
        while !stop.is_cancelled() {
            let looked = async {
                self.look().await?;
                if counted.is_none_or(|counted: Instant| counted.elapsed() > COUNTING) {
                    counted = Some(Instant::now());
                    *self.counts.write() = self.store.count_created().await?;
                }
                self.look_for_idle(&mut idled).await
            };
            match stop.run_until_cancelled(looked).await {
                None => break,
                Some(Ok(())) => is_away = false,
                Some(Err(error)) => {
                    if !std::mem::replace(&mut is_away, true) {
                        outage::tell(&error, "it cannot be looked what is to be done for created workspaces");
                    }
                    stop.run_until_cancelled(sleep(PAUSE)).await;
                }
            }
            let hint = async {
                match &elsewhere {
                    Some(elsewhere) => elsewhere.notified().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = hint => { self.changed.send_replace(()); }
                () = self.news.notified() => {}
                () = sleep(POLL) => {}
            }
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn look(self: &Arc<Self>) -> Result<(), StoreError> {
        let held = self.store.created_held().await?;
        *self.held.write() = held.into_iter().collect();
        for workspace in self.store.resume_answered().await? {
            tracing::info!(
                workspace,
                "a suspended workspace is resumed: a call there waits for nobody any more"
            );
        }
        let workers = self.registry.workers();
        {
            let held = self.held.read();
            for worker in workers.iter() {
                worker.facts.write().excuse(|name| held.contains(name));
            }
        }
        let facts = workers.iter().map(|worker| worker.facts.read().clone());
        let of_those_away = facts.filter(|facts| !facts.is_there);
        let names: Vec<String> = of_those_away
            .flat_map(|facts| facts.names().collect::<Vec<_>>())
            .collect();
        self.let_go(&names).await?;
        let room = AT_ONCE.saturating_sub(self.tasks.len());
        if room == 0 {
            return Ok(());
        }
        for workspace in self.store.claim_created(TERM, room).await? {
            let created = Arc::clone(self);
            self.tasks.spawn(async move { created.work_for(workspace).await });
        }
        Ok(())
    }

    /// Suspends what is idle, if that was not looked at a moment ago.
    async fn look_for_idle(&self, looked: &mut Instant) -> Result<(), StoreError> {
        let Some(idle) = self.idle_suspend else {
            return Ok(());
        };
        if looked.elapsed() < (idle / 4).clamp(IDLE.0, IDLE.1) {
            return Ok(());
        }
        *looked = Instant::now();
        let called: Vec<String> = std::mem::take(&mut *self.called.lock()).into_iter().collect();
        if !called.is_empty()
            && let Err(error) = self.store.note_called(&called).await
        {
            // The next time.
            self.called.lock().extend(called);
            return Err(error);
        }
        for workspace in self.store.suspend_idle(idle).await? {
            tracing::info!(workspace, "a workspace is suspended: nothing has run there for long");
            self.told();
        }
        Ok(())
    }

    /// Works for a workspace that is claimed, and writes down what came of it.
    async fn work_for(&self, workspace: CreatedWorkspace) {
        let step = {
            let attempt = self.attempt(&workspace);
            tokio::pin!(attempt);
            loop {
                tokio::select! {
                    step = &mut attempt => break step,
                    is_mine = self.is_still_mine(&workspace) => if !is_mine { break None },
                }
            }
        };
        let written = match step {
            Some(step) => self.write(&workspace, step).await,
            None => self.store.give_back(&workspace).await,
        };
        if let Err(error) = written {
            // The claim ends by itself, and whoever has the next one looks what there is.
            tracing::warn!(workspace = workspace.name, %error, "what was done for a workspace could not be stored");
        }
        self.told();
    }

    async fn write(&self, workspace: &CreatedWorkspace, step: Step) -> Result<(), StoreError> {
        let (name, stage) = (&workspace.name, workspace.stage.as_str());
        match &step {
            Step::Reached(to, _) if *to != workspace.stage => {
                tracing::info!(
                    workspace = name,
                    from = stage,
                    to = to.as_str(),
                    "a workspace has come further"
                );
            }
            Step::Failed(problem) => tracing::warn!(workspace = name, stage, problem, "a workspace has failed"),
            Step::Later { problem, attempts, .. } if !problem.is_empty() => {
                tracing::warn!(
                    workspace = name,
                    stage,
                    problem,
                    attempts,
                    "a workspace does not come further yet"
                );
            }
            Step::Reached(..) | Step::Later { .. } => {}
        }
        match self.store.step_created(workspace, step).await? {
            true => Ok(()),
            false => self.store.give_back(workspace).await,
        }
    }

    /// Waits for a moment, or until something is told; says whether the claim holds then.
    async fn is_still_mine(&self, workspace: &CreatedWorkspace) -> bool {
        let mut changed = self.changed.subscribe();
        tokio::select! {
            () = self.closing.cancelled() => return false,
            () = sleep(KEEPING) => {}
            // The sender is kept here. Not all at once.
            _ = changed.changed() => sleep(Duration::from_millis(50)).await,
        }
        match self.store.keep_claim(workspace, TERM).await {
            Ok(is_mine) => is_mine,
            Err(error) => {
                tracing::debug!(workspace = workspace.name, %error, "a claim cannot be kept");
                false
            }
        }
    }
}
