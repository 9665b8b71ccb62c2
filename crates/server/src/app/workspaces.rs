//! Workspaces that come and go while the service runs.
//!
//! One is opened in this order: the folder is found below a root, it is remembered, its tools are made, then it is there for
//! calls. It is closed in the opposite order, its calls first. What is remembered is opened again by the next run; what
//! cannot be is there as a broken one, so that somebody sees it.
//!
//! *Invariant:* one is opened or closed at a time. The folders of workspaces do not overlap, else the rules of one could be
//! got round in the other; checkouts count as a whole. Files of the service itself are in none of those that are opened here.
//! Trust is the root's, never the client's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_config::logins::LoginFiles;
use toolgate_config::service::WorkspaceRoot;
use toolgate_engine::{Engine, OpenedBy, Rested, WorkspaceRuntime};
use toolgate_fs::Workspace;
use toolgate_fs::path::follow;
use toolgate_fs::roots::{BelowError, BelowRoot, find, overlap};
use toolgate_model::{Timestamp, WorkspaceChange, workspace_name_problem};
use toolgate_store::{OpenedWorkspace, Store};
use toolgate_web::Network;

use super::created::Creating;
use super::created_later::ForCalls;
use super::places::{Opened, Opener, UnusableFolder, Wanted};
use super::rules::Rules;
use super::upkeep::fetch_skills;
use crate::grpc::{CloseError, CreatedError, OpenError, WantedCreation, WantedWorkspace, Workspaces};

/// Opens and closes workspaces. Cheap to clone.
#[derive(Clone)]
pub(super) struct AtRunTime(Arc<Inner>);

/// What both opening and creating need.
pub(super) struct Inner {
    pub(super) opener: Arc<Opener>,
    pub(super) engine: Arc<Engine>,
    pub(super) store: Arc<dyn Store>,
    rules: Arc<Rules>,
    network: Network,
    /// Those that are created, if any may be.
    pub(super) created: Option<Creating>,
    /// Whether one was ever opened here, or by a run before.
    pub(super) has_opened: AtomicBool,
    /// Held while one is opened or closed.
    pub(super) changing: tokio::sync::Mutex<()>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl AtRunTime {
    pub(super) fn new(
        opener: Opener,
        engine: Arc<Engine>,
        store: Arc<dyn Store>,
        rules: Arc<Rules>,
        network: Network,
        created: Option<Creating>,
    ) -> Self {
        let inner = Arc::new(Inner {
            opener: Arc::new(opener),
            engine,
            store,
            rules,
            network,
            created,
            has_opened: AtomicBool::new(false),
            changing: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        let for_calls = ForCalls(Arc::downgrade(&inner));
        inner.engine.catalogs().wake_with(Arc::new(for_calls));
        Self(inner)
    }

    /// Opens what an earlier run had open. What cannot be opened any more is there and takes no calls.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn restore(&self) -> anyhow::Result<()> {
        let inner = &self.0;
        let _changing = inner.changing.lock().await;
        let opened = inner.store.workspaces().await?;
        let created = inner.restore_created(&opened).await?;
        for opened in opened {
            if created.contains(&opened.name) {
                continue;
            }
            if inner.is_bound_folder(&opened) {
                inner.take(&opened.name, true).await?;
                continue;
            }
            if inner.engine.catalogs().find(&opened.name).is_some() {
                tracing::warn!(
                    workspace = %opened.name,
                    "the configuration has a workspace of this name, and the one that was opened is forgotten"
                );
                inner.store.drop_workspace(&opened.name, "").await?;
                continue;
            }
            inner.store.prepare_workspace(&opened.name)?;
            inner.has_opened.store(true, Ordering::Relaxed);
            let wanted = inner.clone();
            let opened = tokio::task::spawn_blocking(move || wanted.open_again(&opened)).await??;
            inner.let_in(opened);
        }
        Ok(())
    }

    /// Goes on to delete what an earlier run has begun to, once the calls that it left were looked after.
    pub(super) fn delete_left(&self) {
        self.0.delete_left();
    }

    /// Opens the folder of a worker that waits for a workspace under the name of the one that a gateway has bound it to. It is told to
    /// whoever starts it again.
    ///
    /// # Errors
    /// It has another workspace, or the store or the folder cannot be used.
    pub(super) async fn bind(&self, name: &str) -> anyhow::Result<()> {
        let (inner, name) = (self.0.clone(), name.to_owned());
        let binding = async move {
            let _changing = inner.changing.lock().await;
            anyhow::ensure!(!inner.stop.is_cancelled(), "the worker stops");
            inner.take(&name, false).await
        };
        self.to_its_end(binding).await.map_err(anyhow::Error::from_boxed)?
    }

    /// Waits for what is under way. No workspace is opened after that.
    pub(super) async fn finish(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Does what must not be left half done when whoever asked for it is gone.
    async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.0.tasks.spawn(work).await?)
    }
}

#[async_trait]
impl Workspaces for AtRunTime {
    fn are_fixed(&self) -> bool {
        let inner = &self.0;
        let is_none_wanted = inner.opener.config.workspace_roots.is_empty() && inner.created.is_none();
        is_none_wanted && !inner.has_opened.load(Ordering::Relaxed)
    }

    fn roots(&self) -> Vec<String> {
        let roots = self.0.opener.config.workspace_roots.iter();
        roots
            .map(|root| root.directory.to_string_lossy().into_owned())
            .collect()
    }

    fn most(&self) -> usize {
        self.0.opener.config.limits.max_workspaces as usize
    }

    async fn open(&self, wanted: WantedWorkspace) -> Result<(Arc<WorkspaceRuntime>, bool), OpenError> {
        let inner = self.0.clone();
        let opening = async move { inner.open(wanted).await };
        self.to_its_end(opening).await.map_err(OpenError::Internal)?
    }

    async fn close(&self, name: &str, by: &str) -> Result<usize, CloseError> {
        let (inner, name, by) = (self.0.clone(), name.to_owned(), by.to_owned());
        let closing = async move { inner.close(&name, &by).await };
        self.to_its_end(closing).await.map_err(CloseError::Internal)?
    }

    fn can_create(&self) -> bool {
        self.0.created.is_some()
    }

    fn templates(&self) -> Vec<String> {
        let created = self.0.created.as_ref();
        created
            .map(|created| created.folders.template_names())
            .unwrap_or_default()
    }

    async fn create(&self, wanted: WantedCreation) -> Result<(Arc<WorkspaceRuntime>, bool), CreatedError> {
        let (inner, name, wait) = (self.0.clone(), wanted.name.clone(), wanted.wait);
        let creating = async move { inner.create(wanted).await };
        let is_new = self.to_its_end(creating).await.map_err(CreatedError::Internal)??;
        Ok((self.0.settled(&name, wait).await?, is_new))
    }

    async fn suspend(&self, name: &str) -> Result<(Arc<WorkspaceRuntime>, Rested), CreatedError> {
        let (inner, called) = (self.0.clone(), name.to_owned());
        let suspending = async move { inner.suspend(&called).await };
        let rested = self.to_its_end(suspending).await.map_err(CreatedError::Internal)??;
        Ok((self.0.settled(name, Duration::ZERO).await?, rested))
    }

    async fn resume(&self, name: &str, wait: Duration) -> Result<Arc<WorkspaceRuntime>, CreatedError> {
        let (inner, called) = (self.0.clone(), name.to_owned());
        let resuming = async move { inner.resume(&called).await };
        self.to_its_end(resuming).await.map_err(CreatedError::Internal)??;
        self.0.settled(name, wait).await
    }

    async fn delete(&self, name: &str, by: &str) -> Result<usize, CreatedError> {
        let (inner, name, by) = (self.0.clone(), name.to_owned(), by.to_owned());
        let deleting = async move { inner.delete(&name, &by).await };
        self.to_its_end(deleting).await.map_err(CreatedError::Internal)?
    }
}

impl Inner {
    async fn open(self: &Arc<Self>, wanted: WantedWorkspace) -> Result<(Arc<WorkspaceRuntime>, bool), OpenError> {
        if let Some(problem) = workspace_name_problem(&wanted.name) {
            return Err(OpenError::BadName(problem));
        }
        if !wanted.directory.is_absolute() {
            return Err(BelowError::BadPath.into());
        }
        let _changing = self.changing.lock().await;
        if self.engine.calls().is_draining() || self.stop.is_cancelled() {
            return Err(OpenError::Draining);
        }
        let there = self.engine.catalogs().find(&wanted.name);
        if let Some(place) = &there {
            if place.gate.hold().is_some() || !is_in(place, &wanted.directory) {
                return Err(OpenError::NameTaken {
                    name: wanted.name,
                    directory: place.workspace.directory().to_path_buf(),
                });
            }
            if place.opened.is_none() || place.problem().is_none() {
                return Ok((place.clone(), false));
            }
        }
        if self.opener.config.workspace_roots.is_empty() {
            return Err(OpenError::Fixed);
        }
        let most = self.opener.config.limits.max_workspaces as usize;
        if there.is_none() && self.engine.catalogs().all().len() >= most {
            return Err(OpenError::TooMany(most));
        }
        let WantedWorkspace {
            name,
            directory,
            create,
            by,
        } = wanted;
        let (inner, called) = (self.clone(), name.clone());
        let found = tokio::task::spawn_blocking(move || inner.find(&called, &directory, create));
        let (workspace, trusted) = found.await.map_err(|error| OpenError::Internal(error.into()))??;
        if let Some(broken) = &there {
            self.engine.close_workspace(broken, &by).await?;
            self.opener.close(&name).await;
        }
        // The name may have been another folder's.
        self.engine.inbox().end_workspace(&name, &by).await?;
        let time = Timestamp::now();
        self.store
            .keep_workspace(OpenedWorkspace {
                name: name.clone(),
                directory: workspace.directory().to_string_lossy().into_owned(),
                by: by.clone(),
                time,
            })
            .await?;
        self.has_opened.store(true, Ordering::Relaxed);
        let wanted = Wanted {
            workspace,
            trusted,
            opened: Some(OpenedBy {
                by: by.clone(),
                time,
                source: None,
            }),
            problem: None,
        };
        let opener = self.opener.clone();
        let opened = tokio::task::spawn_blocking(move || opener.open(wanted)).await;
        let opened = opened.map_err(anyhow::Error::from).and_then(|opened| opened);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.opener.close(&name).await;
                self.store.drop_workspace(&name, &by).await?;
                return Err(OpenError::Internal(error.into()));
            }
        };
        let place = self.let_in(opened);
        self.engine.announce_workspace(&name, WorkspaceChange::Opened);
        Ok((place, true))
    }

    async fn close(&self, name: &str, by: &str) -> Result<usize, CloseError> {
        let _changing = self.changing.lock().await;
        let place = self.engine.catalogs().find(name);
        let place = place
            .filter(|_| !name.is_empty())
            .ok_or_else(|| CloseError::Unknown(name.to_owned()))?;
        match &place.opened {
            None => return Err(CloseError::Configured(name.to_owned())),
            Some(OpenedBy { source: Some(_), .. }) => return Err(CloseError::Created(name.to_owned())),
            Some(OpenedBy { source: None, .. }) => {}
        }
        // Whatever happens then, the next run does not open it.
        self.store.drop_workspace(name, by).await?;
        let closed = self.engine.close_workspace(&place, by).await;
        self.opener.close(name).await;
        self.engine.announce_workspace(name, WorkspaceChange::Closed);
        Ok(closed?)
    }

    /// Lets calls into a workspace, and begins to look after it.
    pub(super) fn let_in(&self, opened: Opened) -> Arc<WorkspaceRuntime> {
        let Opened {
            place, fetch, watched, ..
        } = opened;
        if let Some(problem) = &place.now().broken {
            tracing::error!("workspace {} refuses calls: {problem}", place.workspace.name());
        }
        let place = self.engine.catalogs().add(place);
        watched.into_iter().for_each(|watched| self.rules.add(watched));
        // Nobody waits for nothing.
        if !fetch.wanted.is_empty() {
            let fetching = fetch_skills(self.network.clone(), vec![fetch], self.stop.clone());
            self.tasks.spawn(async move {
                // It fails for no reason of its own; the log says what was left out.
                let _ = fetching.await;
            });
        }
        place
    }

    /// Says whether what an earlier run had open is the folder of a worker that waits for a workspace, which was bound to it.
    fn is_bound_folder(&self, opened: &OpenedWorkspace) -> bool {
        let unbound = self.opener.config.unbound.as_ref();
        unbound.is_some_and(|unbound| Path::new(&opened.directory) == unbound.directory)
    }

    /// Opens the folder of a worker that waits for a workspace under a name. `is_known` says that an earlier run has done so.
    async fn take(self: &Arc<Self>, name: &str, is_known: bool) -> anyhow::Result<()> {
        let unbound = self.opener.config.unbound.clone();
        let unbound = unbound.context("this worker has its workspaces from its configuration")?;
        if let Some(problem) = workspace_name_problem(name) {
            anyhow::bail!(problem);
        }
        if let Some(place) = self.engine.catalogs().all().first() {
            let other = place.workspace.name();
            anyhow::ensure!(other == name, "it has the workspace {other:?}, for good");
            return Ok(());
        }
        let home = self.opener.environment.home().map(Path::to_path_buf);
        let (called, folder) = (name.to_owned(), unbound.directory.clone());
        let opened = tokio::task::spawn_blocking(move || Workspace::open(&called, &folder, home)).await?;
        let workspace = opened.with_context(|| UnusableFolder::at(&unbound.directory))?;
        if !is_known {
            let kept = OpenedWorkspace {
                name: name.to_owned(),
                directory: unbound.directory.to_string_lossy().into_owned(),
                by: String::new(),
                time: Timestamp::now(),
            };
            self.store.keep_workspace(kept).await?;
        }
        let (opener, trusted) = (self.opener.clone(), unbound.trust);
        let opening = move || {
            opener.open(Wanted {
                workspace,
                trusted,
                // As one of the configuration, it is never closed.
                opened: None,
                problem: None,
            })
        };
        let opened = tokio::task::spawn_blocking(opening).await??;
        self.let_in(opened);
        self.engine.announce_workspace(name, WorkspaceChange::Opened);
        tracing::info!(workspace = name, "this worker has its workspace");
        Ok(())
    }

    /// Opens what an earlier run had open.
    fn open_again(&self, opened: &OpenedWorkspace) -> anyhow::Result<Opened> {
        let directory = Path::new(&opened.directory);
        let by = OpenedBy {
            by: opened.by.clone(),
            time: opened.time,
            source: None,
        };
        let (workspace, trusted, problem) = match self.find(&opened.name, directory, false) {
            Ok((workspace, trusted)) => (workspace, trusted, None),
            Err(error) => {
                let problem = format!("{error}; it was open when the service stopped: open it again, or close it");
                (Workspace::absent(&opened.name, directory), false, Some(problem))
            }
        };
        self.opener.open(Wanted {
            workspace,
            trusted,
            opened: Some(by),
            problem,
        })
    }

    /// Finds the folder of a workspace, which may be made, and says whether its code is trusted. Blocking.
    fn find(&self, name: &str, directory: &Path, create: bool) -> Result<(Workspace, bool), OpenError> {
        let roots = &self.opener.config.workspace_roots;
        if roots.is_empty() {
            return Err(OpenError::Fixed);
        }
        self.find_below(name, roots, (directory, create))
    }

    /// The same below other roots. Blocking.
    pub(super) fn find_below(
        &self,
        name: &str,
        roots: &[WorkspaceRoot],
        (directory, create): (&Path, bool),
    ) -> Result<(Workspace, bool), OpenError> {
        let folders: Vec<PathBuf> = roots.iter().map(|root| root.directory.clone()).collect();
        let found = find(&folders, directory)?;
        self.check(name, &found.folder)?;
        if !found.is_there {
            if !create {
                return Err(OpenError::Missing(directory.to_path_buf()));
            }
            found.make()?;
        }
        let BelowRoot {
            folder,
            root,
            root_folder,
            ..
        } = found;
        let home = self.opener.environment.home().map(Path::to_path_buf);
        let workspace = Workspace::open_below(name, (&root_folder, &folder), home).map_err(BelowError::Io)?;
        self.check(name, workspace.real_worktree())?;
        Ok((workspace, roots[root].trust))
    }

    /// Checks that a folder, links followed, is nobody else's.
    pub(super) fn check(&self, name: &str, folder: &Path) -> Result<(), OpenError> {
        let own = self.own_files();
        let is_reserved = overlap(folder, &self.opener.data_dir) || own.iter().any(|own| overlap(folder, own));
        if is_reserved {
            return Err(OpenError::Reserved(folder.to_path_buf()));
        }
        let places = self.engine.catalogs().all();
        let mut others = places.iter().filter(|place| place.workspace.name() != name);
        let overlaps = |place: &Arc<WorkspaceRuntime>| {
            let workspace = &place.workspace;
            overlap(folder, workspace.real_worktree()) || overlap(folder, workspace.real_directory())
        };
        match others.any(overlaps) {
            true => Err(OpenError::Overlaps(folder.to_path_buf())),
            false => Ok(()),
        }
    }

    /// Returns the files and folders of the service itself that lie elsewhere than in its data directory, links followed.
    fn own_files(&self) -> Vec<PathBuf> {
        let Opener {
            config, environment, ..
        } = &*self.opener;
        let logins = LoginFiles::locate(environment).map(|logins| logins.hidden().map(Path::to_path_buf));
        let files = config.private_files.iter().chain(&config.listen.unix).cloned();
        let files = files.chain(logins.into_iter().flatten());
        files.map(|file| follow(&file)).collect()
    }
}

/// Says whether a path is the folder of a workspace.
fn is_in(place: &WorkspaceRuntime, written: &Path) -> bool {
    let workspace = &place.workspace;
    written == workspace.directory() || follow(written) == workspace.real_directory()
}
