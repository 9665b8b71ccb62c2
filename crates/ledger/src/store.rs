//! The store of one run of a worker: what its parts are, and the tasks that work for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_contract::cluster::ListOpenPromptsRequest;
use toolgate_model::PromptId;
use toolgate_store::local::Volume;
use toolgate_store::outage::Outage;
use toolgate_store::{Interest, StoreError, Upkeep};

use crate::changes::AllRecorded;
use crate::doubts::Doubts;
use crate::follow::{self, News, Read};
use crate::holds::Holds;
use crate::kept::Kept;
use crate::notes::Notes;
use crate::options::LedgerOptions;
use crate::parts::Parts;
use crate::places::Places;
use crate::told::Told;
use crate::uploads::{Uploads, blocking};

/// How long the last notes and outputs may take when the store is closed.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);

/// How long notes wait for a change that they can be stored with.
const NOTES_DELAY: Duration = Duration::from_millis(20);

/// How long to wait before notes are sent again that no gateway has taken.
const NOTES_PAUSE: Duration = Duration::from_millis(500);

/// The store of one run of a worker, which has no database.
///
/// Dropping it leaves what is queued; [`Upkeep::close`] waits for it.
pub struct LedgerStore {
    pub(crate) holds: Arc<Holds>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) doubts: Arc<Doubts>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) kept: Kept,
    /// Where prompts and grants are, by their ids.
    pub(crate) places: Places,
    pub(crate) recorded: AllRecorded,
    pub(crate) told: Arc<Told>,
    pub(crate) changed: Arc<Notify>,
    /// How far a gateway was heard of what changes, and what was read after that.
    pub(crate) news: Arc<News>,
    pub(crate) read_prompts: Read<Vec<(PromptId, u64)>>,
    pub(crate) read_interests: Read<Vec<Interest>>,
    /// Cancelled when the tasks end.
    ending: CancellationToken,
    tasks: TaskTracker,
    closed: AtomicBool,
    /// Held while the store is closed.
    closing: Mutex<()>,
}

impl LedgerStore {
    /// Opens the store of a run: takes its workspaces, and waits for a while if another run has one of them.
    ///
    /// # Errors
    /// The folder cannot be used, no gateway is reached, or another run keeps a workspace.
    pub async fn open(options: LedgerOptions) -> Result<Self, StoreError> {
        let (folder, limits) = (options.data_dir.clone(), options.limits);
        let volume = Arc::new(blocking(move || Volume::open(&folder, limits)).await?);
        let kept = Kept::new(volume.folder());
        let holds = Arc::new(Holds::new(&options));
        let mut workspaces = options.workspaces.clone();
        for opened in kept.read().await? {
            if !workspaces.contains(&opened.name) {
                workspaces.push(opened.name);
            }
        }
        if !workspaces.is_empty() {
            holds.bind(&workspaces, options.patience).await?;
        }
        let store = Self {
            uploads: Arc::new(Uploads::new(volume, Arc::clone(&holds), Parts::new(options.network))),
            notes: Arc::default(),
            doubts: Arc::default(),
            kept,
            places: Places::default(),
            recorded: AllRecorded::default(),
            told: Arc::default(),
            changed: Arc::default(),
            news: Arc::default(),
            read_prompts: Read::default(),
            read_interests: Read::default(),
            ending: CancellationToken::new(),
            tasks: TaskTracker::new(),
            closed: AtomicBool::new(false),
            closing: Mutex::default(),
            holds,
        };
        store.start();
        Ok(store)
    }

    /// Starts the tasks.
    fn start(&self) {
        let holds = Arc::clone(&self.holds);
        self.spawn(async move { holds.keep().await });
        let (holds, notes) = (Arc::clone(&self.holds), Arc::clone(&self.notes));
        self.spawn(async move {
            let outage = Outage::default();
            loop {
                notes.wake.notified().await;
                // Most are stored with what comes next.
                sleep(NOTES_DELAY).await;
                while let Err(error) = notes.flush(&holds).await {
                    if outage.fails().is_some() {
                        tracing::warn!(%error, "notes are not stored yet; it is tried again");
                    }
                    sleep(NOTES_PAUSE).await;
                }
                if let Some(time) = outage.is_over() {
                    tracing::info!(seconds = time.as_secs(), "notes are stored again");
                }
            }
        });
        let (holds, doubts) = (Arc::clone(&self.holds), Arc::clone(&self.doubts));
        self.spawn(async move { doubts.look_after(&holds.gateways).await });
        let (holds, news, changed) = (
            Arc::clone(&self.holds),
            Arc::clone(&self.news),
            Arc::clone(&self.changed),
        );
        self.spawn(async move { follow::changes(&holds, (&news, &changed)).await });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ending = self.ending.clone();
        self.tasks.spawn(async move {
            ending.run_until_cancelled(task).await;
        });
    }

    /// Returns what is cancelled when this run must stop: another run has one of its workspaces, or may have it. Whoever started the
    /// run kills its programs and ends it.
    pub fn stopped(&self) -> CancellationToken {
        self.holds.gateways.stopped.clone()
    }

    /// Returns what this run has changed, for its plugins.
    pub fn told(&self) -> Arc<Told> {
        Arc::clone(&self.told)
    }

    /// Returns the names of the workspaces that this run has.
    pub fn workspaces_held(&self) -> Vec<String> {
        self.holds.names()
    }

    /// Says why nothing is stored any more, if that is so.
    pub(crate) fn open_still(&self) -> Result<(), StoreError> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(StoreError::Unavailable("the store is closed".to_owned())),
            false => Ok(()),
        }
    }

    /// Sends what is queued, and returns when it is stored.
    ///
    /// # Errors
    /// No gateway is reached, or this run has lost its workspaces.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.open_still()?;
        self.notes.flush(&self.holds).await
    }
}

#[async_trait]
impl Upkeep for LedgerStore {
    fn prepare_workspace(&self, name: &str) -> Result<(), StoreError> {
        self.uploads.volume.prepare(name)
    }

    async fn check(&self) -> Result<(), StoreError> {
        let nothing = ListOpenPromptsRequest { workspaces: Vec::new() };
        self.holds.gateways.ask(nothing).await?;
        let volume = Arc::clone(&self.uploads.volume);
        blocking(move || volume.check()).await
    }

    async fn free_bytes(&self) -> Option<u64> {
        let volume = Arc::clone(&self.uploads.volume);
        blocking(move || Ok(volume.free_bytes())).await.ok().flatten()
    }

    fn has_dead_runs(&self) -> bool {
        !self.holds.not_adopted().is_empty()
    }

    /// Does nothing: what was taken over is known.
    fn forget_dead_runs(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn tells_others(&self) -> bool {
        true
    }

    fn show_life(&self) {
        self.holds.hurry();
    }

    async fn give_up(&self) -> Result<(), StoreError> {
        self.holds.release().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        {
            let _closing = self.closing.lock();
            if self.closed.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
        }
        self.notes.close();
        let late = || StoreError::Unavailable("what was queued is not stored yet".to_owned());
        let rest = async {
            self.uploads.drained().await;
            self.notes.flush(&self.holds).await
        };
        let rest = timeout(CLOSING_PATIENCE, rest).await;
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let released = self.holds.release().await;
        rest.unwrap_or_else(|_| Err(late())).and(released)
    }
}

impl Drop for LedgerStore {
    fn drop(&mut self) {
        self.ending.cancel();
    }
}
