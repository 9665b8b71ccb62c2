//! Workspaces that clients create at a gateway with a database: what is asked for is written down there, and any gateway brings it about.
//!
//! In `created/`, in reading order: `requests`, what clients ask of the service for workspaces; `waits`, how many of a principal wait; `shown`, what they see of created ones;
//! `calls`, what becomes of calls of one that is not ready, and those that make one; `looks`, which of
//! their workers were looked for of late; `working`, which of them this gateway works for;
//! `steps`, what it does for each; `rests`, how one is suspended and deleted.
//!
//! *Invariant:* the database says how far a workspace is. What is kept here of it is a hint only: a call that is let pass because of it
//! finds that its worker has the workspace no more.

mod calls;
mod looks;
mod requests;
mod rests;
mod shown;
mod steps;
mod waits;
mod working;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_config::service::ProvisionerConfig;
use toolgate_server::app::store_front::StoreFront;
use toolgate_server::provision::{Provisioner, Wanted};
use toolgate_store::StoreError;
use toolgate_store::created::{CreatedWorkspace, CreatedWorkspaces, Stage};
use toolgate_store::ledger::Ledger;

use self::looks::Looks;
use self::waits::Waits;
use crate::pool::Pool;
use crate::registry::Registry;

/// How often whoever waits for a workspace looks, should nobody say that it has changed.
const LOOK: Duration = Duration::from_millis(500);

/// The created workspaces.
pub(crate) struct Created {
    store: Arc<dyn CreatedWorkspaces>,
    ledger: Arc<dyn Ledger>,
    provisioner: Arc<dyn Provisioner>,
    registry: Arc<Registry>,
    front: StoreFront,
    pool: Arc<Pool>,
    on_first_call: bool,
    /// None for never.
    idle_suspend: Option<Duration>,
    /// Those of which it is known that they take no calls.
    held: RwLock<HashSet<String>>,
    /// In which workspaces something was called since that was noted last.
    called: Mutex<BTreeSet<String>>,
    looks: Looks,
    waits: Waits,
    /// Tells those who wait here that something may have changed.
    changed: watch::Sender<()>,
    /// There is something to do.
    news: Notify,
    /// How many there are at each stage.
    counts: RwLock<Vec<(Stage, u64)>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// What created workspaces are kept and made with.
pub(crate) struct Means {
    pub(crate) store: Arc<dyn CreatedWorkspaces>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) provisioner: Arc<dyn Provisioner>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) front: StoreFront,
    pub(crate) pool: Arc<Pool>,
}

impl Created {
    pub(crate) fn new(means: Means, config: &ProvisionerConfig, closing: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            store: means.store,
            ledger: means.ledger,
            provisioner: means.provisioner,
            registry: means.registry,
            front: means.front,
            pool: means.pool,
            on_first_call: config.on_first_call,
            idle_suspend: Some(config.idle_suspend).filter(|idle| !idle.is_zero()),
            held: RwLock::default(),
            called: Mutex::default(),
            looks: Looks::default(),
            waits: Waits::default(),
            changed: watch::Sender::new(()),
            news: Notify::new(),
            counts: RwLock::default(),
            tasks: TaskTracker::new(),
            closing,
        })
    }

    /// Returns how many there are at each stage.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.read();
        let of = |stage: Stage| {
            counts
                .iter()
                .find(|(one, _)| *one == stage)
                .map_or(0, |(_, count)| *count)
        };
        Stage::ALL
            .into_iter()
            .map(|stage| (stage.as_str(), of(stage)))
            .collect()
    }

    /// Returns how a workspace is once it is as somebody waits for it to be, or when that takes too long; none if it is gone.
    async fn wait_for(
        &self,
        name: &str,
        time: Duration,
        is_it: impl Fn(&CreatedWorkspace) -> bool,
    ) -> Result<Option<CreatedWorkspace>, StoreError> {
        let begun = Instant::now();
        let mut changed = self.changed.subscribe();
        loop {
            let found = self.store.created(name).await?;
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() || self.closing.is_cancelled() || found.as_ref().is_none_or(&is_it) {
                return Ok(found);
            }
            tokio::select! {
                // The sender is kept here.
                _ = changed.changed() => {}
                () = tokio::time::sleep(LOOK.min(left)) => {}
                () = self.closing.cancelled() => {}
            }
        }
    }

    /// Lets go of what is remembered of workers that had workspaces which were deleted since.
    async fn let_go(&self, names: &[String]) -> Result<(), StoreError> {
        if names.is_empty() {
            return Ok(());
        }
        for name in self.store.which_are_free(names).await? {
            self.registry.let_go(&name);
        }
        Ok(())
    }

    /// As [`Self::let_go`], of one that nobody has created now.
    async fn let_go_of(&self, name: &str) -> Result<(), StoreError> {
        match self.registry.owner(name) {
            Some(_) => self.let_go(&[name.to_owned()]).await,
            None => Ok(()),
        }
    }

    /// Says that this gateway has written something down: there is something to do, and others may wait for it.
    fn told(&self) {
        self.news.notify_one();
        self.changed.send_replace(());
    }
}

/// Returns what is asked of a provisioner.
fn wanted(workspace: &CreatedWorkspace) -> Wanted {
    Wanted {
        workspace: workspace.name.clone(),
        source: workspace.source.clone(),
        by: workspace.by.clone(),
        request: workspace.request.clone(),
    }
}
