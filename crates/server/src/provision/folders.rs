//! Folders below a root on this machine.
//!
//! *Invariant:* a folder comes to its place whole or not at all: it is filled aside, and what an attempt that broke off left there
//! is removed by the next one. What comes from elsewhere is bounded in bytes and in time. One thing is done to a folder at a time,
//! also if nobody waits any more for what is being done. A folder that was not put in its place here is neither used nor removed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, OwnedMutexGuard, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use toolgate_fs::created::{self, CreateError, Created};
use toolgate_model::WorkspaceSource;
use toolgate_process::Programs;
use toolgate_process::sandbox::Sandbox;
use toolgate_web::Network;

use super::seam::{Observed, Placements, ProvisionError, Provisioner, Wanted};
use super::{archive, git};

/// How many are filled from the network at a time: each may take memory for an archive, or a program. Of one principal it is one, so
/// that a server which is slow holds up nobody else.
const AT_ONCE: usize = 2;

/// Makes folders.
pub(crate) struct Folders {
    pub(crate) created: Created,
    placements: Arc<dyn Placements>,
    /// The folder whose folders are the templates.
    pub(crate) templates: Option<PathBuf>,
    pub(crate) max_bytes: u64,
    pub(crate) timeout: Duration,
    pub(crate) network: Network,
    pub(crate) programs: Programs,
    pub(crate) sandbox: Arc<Sandbox>,
    /// The file of the authorities that a variable of the service names.
    pub(crate) authorities: Option<String>,
    /// Set once git was found to be new enough.
    pub(super) has_git: OnceCell<()>,
    at_once: Semaphore,
    /// By principal, whose turn it is to have something got from the network. Never held across an await.
    of_principals: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    /// By name, whose turn it is. Never held across an await.
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// What is noted goes on to its end, also if whoever waits for it goes away.
    noting: TaskTracker,
}

/// That something may be got from the network; dropping it lets the next one.
struct Fetching<'a> {
    _of_all: SemaphorePermit<'a>,
    /// Without authentication nobody is told from the others.
    _of_principal: Option<OwnedMutexGuard<()>>,
}

/// One thing that is done to a folder. Work that goes on though nobody waits for it keeps a part of this.
struct Doing<'a> {
    folders: &'a Folders,
    name: String,
    turn: Arc<OwnedMutexGuard<()>>,
}

impl Folders {
    /// Makes it. Nothing is looked at yet.
    pub(crate) fn new(
        (created, placements): (Created, Arc<dyn Placements>),
        templates: Option<PathBuf>,
        (max_bytes, timeout): (u64, Duration),
        (network, authorities): (Network, Option<String>),
        programs: Programs,
        sandbox: Arc<Sandbox>,
    ) -> Self {
        Self {
            created,
            placements,
            templates,
            max_bytes,
            timeout,
            network,
            programs,
            sandbox,
            authorities,
            has_git: OnceCell::new(),
            at_once: Semaphore::new(AT_ONCE),
            of_principals: Mutex::default(),
            turns: Mutex::default(),
            noting: TaskTracker::new(),
        }
    }

    /// Waits until nothing else is done to the folder of a name.
    async fn begin(&self, wanted: &Wanted) -> Doing<'_> {
        let name = wanted.workspace.clone();
        let turn = self.turns.lock().entry(name.clone()).or_default().clone();
        let turn = Arc::new(turn.lock_owned().await);
        Doing {
            folders: self,
            name,
            turn,
        }
    }

    /// Waits until something may be got from the network for a principal.
    async fn may_fetch(&self, by: &str) -> Result<Fetching<'_>, ProvisionError> {
        let turn = (!by.is_empty()).then(|| {
            let mut turns = self.of_principals.lock();
            turns.retain(|_, turn| turn.strong_count() > 0);
            let turn = turns.get(by).and_then(Weak::upgrade).unwrap_or_default();
            turns.insert(by.to_owned(), Arc::downgrade(&turn));
            turn
        });
        let waiting = async {
            let of_principal = match turn {
                Some(turn) => Some(turn.lock_owned().await),
                None => None,
            };
            (self.at_once.acquire().await, of_principal)
        };
        let (of_all, of_principal) = timeout(self.timeout, waiting).await.map_err(|_| {
            let time = self.timeout.as_secs();
            ProvisionError::Failed(format!(
                "other workspaces were being filled from the network for {time} s, which is as long as created_workspaces.timeout \
                 allows to wait: try again"
            ))
        })?;
        Ok(Fetching {
            _of_all: of_all.map_err(|_| ProvisionError::Failed("the service is stopping".to_owned()))?,
            _of_principal: of_principal,
        })
    }

    /// Does what may take too long because of others.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, ProvisionError>> + Send,
    ) -> Result<T, ProvisionError> {
        let done = timeout(self.timeout, work).await;
        done.unwrap_or_else(|_| {
            let time = self.timeout.as_secs();
            Err(ProvisionError::Refused(format!(
                "it took longer than created_workspaces.timeout allows, {time} s"
            )))
        })
    }

    /// Says whether the folder of a workspace was put in its place here. Blocks for a moment.
    pub(crate) fn is_own(&self, wanted: &Wanted) -> bool {
        let root = self.placements.placed(wanted);
        // What is still aside has not come to its place, though it was about to.
        root.is_some_and(|root| root == self.created.root()) && !self.created.is_aside(&wanted.workspace)
    }

    /// Says why what is at the place of a workspace is not its own. Blocks for a moment.
    fn foreign(&self, wanted: &Wanted) -> Option<String> {
        let root = self.created.root();
        match self.placements.placed(wanted) {
            Some(other) if other != root => Some(format!(
                "it was created below {}, and created_workspaces.directory is {} now: set that back, or delete the workspace, \
                 whose folder stays then",
                other.display(),
                root.display()
            )),
            Some(_) | None => {
                let is_foreign = self.created.is_there(&wanted.workspace) && !self.is_own(wanted);
                is_foreign.then(|| CreateError::Taken(self.created.folder(&wanted.workspace)).to_string())
            }
        }
    }

    /// Returns the folder of a template, if there is one of that name. Blocks for a moment.
    pub(crate) fn template(&self, name: &str) -> Option<PathBuf> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain);
        let folder = self.templates.as_ref().filter(|_| is_name)?.join(name);
        folder.is_dir().then_some(folder)
    }

    /// Returns the names of the templates. Blocks for a moment.
    pub(crate) fn template_names(&self) -> Vec<String> {
        let names = self.templates.iter().flat_map(|folder| created::names_in(folder));
        names.filter(|name| self.template(name).is_some()).collect()
    }
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        let mut turns = self.folders.turns.lock();
        // Of the map, and of the guard, which may be kept by work that goes on.
        let is_last = |turn: &Arc<tokio::sync::Mutex<()>>| Arc::strong_count(turn) <= 2;
        if Arc::strong_count(&self.turn) == 1 && turns.get(&self.name).is_some_and(is_last) {
            turns.remove(&self.name);
        }
    }
}

impl Doing<'_> {
    async fn make(&self, wanted: &Wanted) -> Result<(), ProvisionError> {
        if self.folders.placements.placed(wanted).is_some() {
            // An attempt that broke off was about to, and nothing is there.
            self.note(wanted, None).await?;
        }
        let aside = self.blocking(Created::begin).await?;
        if let Err(error) = self.fill(wanted, &aside).await {
            if let Err(error) = self.blocking(Created::abandon).await {
                tracing::warn!(workspace = wanted.workspace, %error, "what was made of a workspace is still there");
            }
            return Err(error);
        }
        self.note(wanted, Some(self.folders.created.root().to_path_buf()))
            .await?;
        let Err(error) = self.blocking(move |created, name| created.put(name, &aside)).await else {
            return Ok(());
        };
        if self.folders.created.is_aside(&self.name) {
            // As long as this is not noted, what is aside says so.
            self.note(wanted, None).await?;
            self.blocking(Created::abandon).await?;
        }
        Err(error)
    }

    /// Notes whether the folder is in its place. It is done to its end, and nothing else is done to the folder before.
    async fn note(&self, wanted: &Wanted, root: Option<PathBuf>) -> Result<(), ProvisionError> {
        let (placements, wanted, turn) = (self.folders.placements.clone(), wanted.clone(), self.turn.clone());
        let noted = self.folders.noting.spawn(async move {
            let _turn = turn;
            placements.note(&wanted, root).await
        });
        let noted = noted.await.map_err(std::io::Error::from).and_then(|noted| noted);
        noted.map_err(|error| ProvisionError::Failed(format!("where the folder is could not be stored: {error}")))
    }

    async fn fill(&self, wanted: &Wanted, aside: &Path) -> Result<(), ProvisionError> {
        let (folders, to) = (self.folders, aside.to_path_buf());
        match &wanted.source {
            WorkspaceSource::Empty => Ok(()),
            WorkspaceSource::Template(name) => {
                let template = folders.template(name).ok_or_else(|| {
                    ProvisionError::Refused(format!("the operator has no template {name:?} any more"))
                })?;
                let max = folders.max_bytes;
                self.blocking(move |_, _| created::copy_template(&template, &to, max))
                    .await
            }
            WorkspaceSource::Git { url, reference } => {
                let _fetching = folders.may_fetch(&wanted.by).await?;
                folders.in_time(git::clone(folders, (url, reference), aside)).await
            }
            WorkspaceSource::Archive { url } => {
                let _fetching = folders.may_fetch(&wanted.by).await?;
                let contents = folders.in_time(archive::fetch(folders, url)).await?;
                self.blocking(move |_, _| created::write_contents(&contents, &to)).await
            }
        }
    }

    /// Says whether the folder is there.
    async fn look(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        let is_there = self.blocking(|created, name| Ok(created.is_there(name))).await?;
        Ok(match (self.folders.foreign(wanted), is_there) {
            (Some(problem), _) => Observed::Broken(problem),
            (None, true) => Observed::Ready,
            (None, false) => Observed::Absent,
        })
    }

    /// Does what may block, to its end, and says what was wrong.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Created, &str) -> Result<T, CreateError> + Send + 'static,
    ) -> Result<T, ProvisionError> {
        let (created, name, turn) = (self.folders.created.clone(), self.name.clone(), self.turn.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&created, &name)
        });
        let done = done.await;
        let done = done.map_err(|error| ProvisionError::Failed(format!("the work on a folder broke off: {error}")))?;
        done.map_err(|error| match error {
            CreateError::Taken(_) | CreateError::Template { .. } | CreateError::TooLarge(_) => {
                ProvisionError::Refused(error.to_string())
            }
            CreateError::Io { .. } => ProvisionError::Failed(error.to_string()),
        })
    }
}

#[async_trait]
impl Provisioner for Folders {
    async fn ensure(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        let doing = self.begin(wanted).await;
        match doing.look(wanted).await? {
            Observed::Absent => doing.make(wanted).await?,
            Observed::Broken(problem) => return Err(ProvisionError::Refused(problem)),
            Observed::Ready | Observed::Coming | Observed::Resting => {}
        }
        Ok(Observed::Ready)
    }

    async fn suspend(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        // Nothing of a folder runs.
        self.observe(wanted).await
    }

    async fn resume(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.observe(wanted).await
    }

    async fn delete(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        let doing = self.begin(wanted).await;
        match self.placements.placed(wanted) {
            Some(root) if root != self.created.root() => {
                let (workspace, root) = (&wanted.workspace, root.display());
                tracing::warn!(
                    workspace,
                    "the folder of a deleted workspace is below another root, {root}, and stays"
                );
            }
            Some(_) if self.is_own(wanted) => {
                doing.blocking(Created::take_away).await?;
            }
            Some(_) | None => {}
        }
        // The last: before, it says that nothing has come to the place.
        doing.blocking(Created::abandon).await?;
        Ok(Observed::Absent)
    }

    async fn observe(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.begin(wanted).await.look(wanted).await
    }
}
