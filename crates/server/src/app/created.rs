//! Workspaces that are created while the service runs: what is wanted of each, and how that comes about.
//!
//! Each has a record that says how far it is, and stands among the workspaces from the moment in which it is asked for, so that
//! whoever looks sees it. Its place is made by a [`Provisioner`], and what of it runs is the engine's. The record is written before
//! anything is done: what a run of the service does not come to, the next one does.
//!
//! *Invariant:* one is changed at a time, together with those that are opened and closed; only the making and the removing of a
//! place, which may take long, go on beside that. A place that is not whole is never opened.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolgate_config::service::{ResumeBy, WorkspaceRoot};
use toolgate_config::{Config, Environment};
use toolgate_engine::{Gate, Held, OpenedBy, Rested, Waker, WorkspaceRuntime};
use toolgate_fs::Workspace;
use toolgate_fs::created::Created;
use toolgate_model::{Timestamp, WorkspaceChange, WorkspaceSource, workspace_name_problem};
use toolgate_process::Programs;
use toolgate_process::sandbox::Sandbox;
use toolgate_store::OpenedWorkspace;
use toolgate_web::Network;

use super::created_records::{Record, Records, Stage};
use super::places::Wanted;
use super::workspaces::Inner;
use crate::grpc::{CreatedError, WantedCreation};
use crate::provision::{Folders, Observed, ProvisionError, Provisioner as _, problem_of};

/// How long a call waits for a workspace that is not ready.
const CALL_WAIT: Duration = Duration::from_secs(10);

/// How long anybody waits for one.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// What is known of created workspaces.
pub(super) struct Creating {
    pub(super) records: Records,
    pub(super) folders: Folders,
    /// Where they are.
    pub(super) root: WorkspaceRoot,
    pub(super) resume: ResumeBy,
    /// Those that are being made, and what ends that. Never held across an await.
    making: Mutex<HashMap<String, CancellationToken>>,
    /// Tells that one of them is in another state.
    changed: watch::Sender<()>,
}

impl Creating {
    /// Reads which there are; none if the configuration says nowhere where they may be.
    ///
    /// # Errors
    /// The folder cannot be made, or what is known of them cannot be read.
    pub(super) async fn open(
        config: &Config,
        environment: &Environment,
        (programs, network, sandbox): (&Programs, &Network, &Arc<Sandbox>),
    ) -> anyhow::Result<Option<Self>> {
        let rules = &config.created_workspaces;
        let Some(directory) = rules.directory.clone() else {
            return Ok(None);
        };
        let created = Created::new(directory.clone());
        let (data_dir, root) = (config.data_dir.clone(), created.clone());
        let opened = tokio::task::spawn_blocking(move || {
            root.make().context("created_workspaces.directory")?;
            Records::open(&data_dir)
        });
        let folders = Folders::new(
            (created, rules.templates.clone()),
            (rules.max_bytes, rules.timeout),
            (network.clone(), environment.get("SSL_CERT_FILE").map(ToOwned::to_owned)),
            programs.clone(),
            sandbox.clone(),
        );
        Ok(Some(Self {
            records: opened.await??,
            folders,
            root: WorkspaceRoot {
                directory,
                trust: rules.trust,
            },
            resume: rules.resume,
            making: Mutex::default(),
            changed: watch::Sender::new(()),
        }))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.directory.join(name)
    }
}

/// Checks what a workspace is to be created from.
fn check_source(folders: &Folders, source: &WorkspaceSource) -> Result<(), CreatedError> {
    let problem = problem_of(source);
    if let Some((field, problem)) = problem {
        return Err(CreatedError::BadSource { field, problem });
    }
    match source {
        WorkspaceSource::Template(name) if folders.template(name).is_none() => Err(CreatedError::NoTemplate {
            name: name.clone(),
            known: folders.template_names(),
        }),
        WorkspaceSource::Template(_)
        | WorkspaceSource::Empty
        | WorkspaceSource::Git { .. }
        | WorkspaceSource::Archive { .. } => Ok(()),
    }
}

fn internal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CreatedError {
    CreatedError::Internal(error.into())
}

impl Inner {
    fn creating(&self) -> Result<&Creating, CreatedError> {
        self.created.as_ref().ok_or(CreatedError::Fixed)
    }

    /// Returns the record of a workspace that was created, and its place.
    fn created_one(&self, name: &str) -> Result<(&Creating, Record), CreatedError> {
        let record = self
            .created
            .as_ref()
            .and_then(|created| Some((created, created.records.get(name)?)));
        match record {
            Some(found) => Ok(found),
            None if !name.is_empty() && self.engine.catalogs().find(name).is_some() => {
                Err(CreatedError::NotCreated(name.to_owned()))
            }
            None => Err(CreatedError::Unknown(name.to_owned())),
        }
    }

    fn check_draining(&self) -> Result<(), CreatedError> {
        match self.engine.calls().is_draining() || self.stop.is_cancelled() {
            true => Err(CreatedError::Draining),
            false => Ok(()),
        }
    }

    /// Begins to create a workspace; false if it is there already, or will be.
    pub(super) async fn create(self: &Arc<Self>, wanted: WantedCreation) -> Result<bool, CreatedError> {
        let WantedCreation { name, source, by, .. } = wanted;
        let creating = self.creating()?;
        if let Some(problem) = workspace_name_problem(&name) {
            return Err(CreatedError::BadName(problem));
        }
        let _changing = self.changing.lock().await;
        self.check_draining()?;
        let mut earlier = None;
        if let Some(record) = creating.records.get(&name) {
            if record.source != source {
                let why = "was created from something else";
                return Err(CreatedError::NameTaken { name, why });
            }
            match record.stage {
                Stage::Creating | Stage::Ready | Stage::Suspended => return Ok(false),
                Stage::Deleting => return Err(held(name, Held::Deleting)),
                Stage::Failed(_) => earlier = Some(record),
            }
        } else if self.engine.catalogs().find(&name).is_some() {
            let why = "is there already, and was not created";
            return Err(CreatedError::NameTaken { name, why });
        }
        check_source(&creating.folders, &source)?;
        let most = self.opener.config.limits.max_workspaces as usize;
        if earlier.is_none() && self.engine.catalogs().all().len() >= most {
            return Err(CreatedError::TooMany(most));
        }
        self.check_place(creating, &name).await?;
        let record = match earlier {
            Some(record) => Record {
                stage: Stage::Creating,
                ..record
            },
            None => Record {
                request: uuid::Uuid::now_v7().to_string(),
                time: Timestamp::now(),
                stage: Stage::Creating,
                name,
                source,
                by,
            },
        };
        creating.records.keep(record.clone()).await.map_err(internal)?;
        self.store.prepare_workspace(&record.name)?;
        self.has_opened.store(true, std::sync::atomic::Ordering::Relaxed);
        self.hold(&record).await.map_err(internal)?;
        self.make(record);
        Ok(true)
    }

    /// Checks that there is room for the folder of a workspace.
    async fn check_place(self: &Arc<Self>, creating: &Creating, name: &str) -> Result<(), CreatedError> {
        let folder = creating.folder(name);
        if folder.symlink_metadata().is_ok() {
            let name = name.to_owned();
            let why = "has a folder already, which was not created";
            return Err(CreatedError::NameTaken { name, why });
        }
        let (inner, called) = (self.clone(), name.to_owned());
        let root = creating.root.directory.clone();
        let checked = tokio::task::spawn_blocking(move || {
            let root = root.canonicalize().unwrap_or(root);
            inner.check(&called, &root.join(&called))
        });
        let checked = checked.await.map_err(internal)?;
        checked.map_err(|error| CreatedError::Folder(Box::new(error)))
    }

    /// Lets a workspace stand among the others in which nothing can be done.
    async fn hold(self: &Arc<Self>, record: &Record) -> anyhow::Result<()> {
        let place = self.held_place(record).await?;
        self.opener.close(&record.name).await;
        self.engine.catalogs().add(place);
        self.tell(&record.name, WorkspaceChange::Changed);
        Ok(())
    }

    async fn held_place(self: &Arc<Self>, record: &Record) -> anyhow::Result<WorkspaceRuntime> {
        let by_calls = self
            .created
            .as_ref()
            .is_some_and(|created| created.resume == ResumeBy::Calls);
        let held = match &record.stage {
            Stage::Creating | Stage::Ready => Held::Creating,
            Stage::Suspended => Held::Suspended { by_calls },
            Stage::Failed(problem) => Held::Failed(problem.clone()),
            Stage::Deleting => Held::Deleting,
        };
        let folder = self.created.as_ref().map(|created| created.folder(&record.name));
        let wanted = Wanted {
            workspace: Workspace::absent(&record.name, &folder.unwrap_or_default()),
            trusted: false,
            opened: Some(opened_by(record)),
            problem: Some(held.to_string()),
        };
        let opener = self.opener.clone();
        let opened = tokio::task::spawn_blocking(move || opener.open(wanted)).await??;
        Ok(WorkspaceRuntime {
            gate: Gate::held(held),
            ..opened.place
        })
    }

    fn tell(&self, name: &str, change: WorkspaceChange) {
        self.engine.announce_workspace(name, change);
        if let Some(created) = &self.created {
            created.changed.send_replace(());
        }
    }

    /// Makes the place of a workspace, and opens it.
    fn make(self: &Arc<Self>, record: Record) {
        let Some(creating) = &self.created else { return };
        let stop = self.stop.child_token();
        creating.making.lock().insert(record.name.clone(), stop.clone());
        let inner = self.clone();
        self.tasks.spawn(async move {
            let Some(creating) = &inner.created else { return };
            let wanted = record.wanted();
            // If it is stopped, whoever did so, or the next run, does the rest.
            let made = stop.run_until_cancelled(creating.folders.ensure(&wanted)).await;
            let Some(made) = made else { return };
            let _changing = inner.changing.lock().await;
            let current = creating.records.get(&record.name);
            let Some(record) = current.filter(|record| record.stage == Stage::Creating) else {
                return;
            };
            creating.making.lock().remove(&record.name);
            let opened = match made {
                Ok(Observed::Ready) => inner.open_created(record.clone(), true).await,
                Ok(Observed::Broken(problem)) => Err(anyhow::anyhow!(problem)),
                Ok(Observed::Absent | Observed::Coming | Observed::Resting) => Err(anyhow::anyhow!("it did not come")),
                Err(error @ (ProvisionError::Refused(_) | ProvisionError::Failed(_))) => Err(error.into()),
            };
            if let Err(error) = opened {
                inner.failed(record, format!("{error:#}")).await;
            }
        });
    }

    /// Notes that a workspace could not be made.
    async fn failed(self: &Arc<Self>, record: Record, problem: String) {
        let name = record.name.clone();
        tracing::warn!(workspace = name, "a workspace could not be created: {problem}");
        let record = Record {
            stage: Stage::Failed(problem),
            ..record
        };
        let Some(creating) = &self.created else { return };
        if let Err(error) = creating.records.keep(record.clone()).await {
            tracing::error!(workspace = name, %error, "that a workspace could not be created could not be stored");
        }
        if let Err(error) = self.hold(&record).await {
            tracing::error!(
                workspace = name,
                "a workspace that could not be created is not shown so: {error:#}"
            );
        }
    }

    /// Opens the folder of a workspace that was created, and lets calls in.
    async fn open_created(self: &Arc<Self>, record: Record, is_new: bool) -> anyhow::Result<()> {
        let Some(creating) = &self.created else { return Ok(()) };
        let (inner, name) = (self.clone(), record.name.clone());
        let (root, folder) = (creating.root.clone(), creating.folder(&name));
        let found = tokio::task::spawn_blocking(move || inner.find_below(&name, &[root], (&folder, false)));
        let (workspace, trusted) = found.await??;
        let name = record.name.clone();
        if is_new {
            // The name may have been another folder's.
            self.engine.inbox().end_workspace(&name, &record.by).await?;
            let opened = OpenedWorkspace {
                name: name.clone(),
                directory: workspace.directory().to_string_lossy().into_owned(),
                by: record.by.clone(),
                time: record.time,
            };
            self.store.keep_workspace(opened).await?;
        }
        let opened_by = opened_by(&record);
        let ready = Record {
            stage: Stage::Ready,
            ..record
        };
        creating.records.keep(ready).await?;
        self.opener.close(&name).await;
        let wanted = Wanted {
            workspace,
            trusted,
            opened: Some(opened_by),
            problem: None,
        };
        let opener = self.opener.clone();
        let opened = tokio::task::spawn_blocking(move || opener.open(wanted)).await??;
        self.let_in(opened);
        let change = match is_new {
            true => WorkspaceChange::Opened,
            false => WorkspaceChange::Changed,
        };
        self.tell(&name, change);
        if let Err(error) = self.engine.take_up_calls(&name).await {
            let error: &(dyn std::error::Error + 'static) = &error;
            tracing::error!(
                workspace = name,
                error,
                "calls that wait for a person could not be taken up; it is tried again"
            );
        }
        Ok(())
    }

    /// Suspends a workspace.
    pub(super) async fn suspend(self: &Arc<Self>, name: &str) -> Result<Rested, CreatedError> {
        let _changing = self.changing.lock().await;
        let (creating, record) = self.created_one(name)?;
        match record.stage {
            Stage::Suspended => return Ok(Rested::default()),
            Stage::Ready => {}
            Stage::Creating => return Err(held(record.name, Held::Creating)),
            Stage::Failed(problem) => return Err(held(record.name, Held::Failed(problem))),
            Stage::Deleting => return Err(held(record.name, Held::Deleting)),
        }
        self.check_draining()?;
        let record = Record {
            stage: Stage::Suspended,
            ..record
        };
        creating.records.keep(record.clone()).await.map_err(internal)?;
        let rests = self.held_place(&record).await.map_err(internal)?;
        let rested = match self.engine.catalogs().find(name) {
            Some(place) => self.engine.suspend_workspace(&place, rests).await,
            None => Ok(Rested::default()),
        };
        self.opener.close(name).await;
        if let Err(error) = creating.folders.suspend(&record.wanted()).await {
            tracing::warn!(workspace = name, %error, "the place of a suspended workspace");
        }
        self.tell(name, WorkspaceChange::Changed);
        Ok(rested?)
    }

    /// Resumes a workspace; what does not need it is left as it is.
    pub(super) async fn resume(self: &Arc<Self>, name: &str) -> Result<(), CreatedError> {
        let _changing = self.changing.lock().await;
        let (creating, record) = self.created_one(name)?;
        let place = self.engine.catalogs().find(name);
        let is_lost = place.is_some_and(|place| matches!(place.gate.hold(), Some(Held::Failed(_))));
        match &record.stage {
            Stage::Suspended => {}
            Stage::Ready if is_lost => {}
            Stage::Ready | Stage::Creating => return Ok(()),
            Stage::Failed(problem) => return Err(held(record.name, Held::Failed(problem.clone()))),
            Stage::Deleting => return Err(held(record.name, Held::Deleting)),
        }
        self.check_draining()?;
        match creating.folders.resume(&record.wanted()).await {
            Ok(Observed::Ready) => {}
            Ok(Observed::Absent | Observed::Coming | Observed::Resting) => {
                let problem = "its folder is gone: put it back and resume the workspace, or delete it";
                return Err(held(record.name, Held::Failed(problem.to_owned())));
            }
            Ok(Observed::Broken(problem)) => return Err(held(record.name, Held::Failed(problem))),
            Err(error) => return Err(internal(error)),
        }
        self.open_created(record, false).await.map_err(internal)
    }

    /// Deletes a workspace with its folder.
    pub(super) async fn delete(self: &Arc<Self>, name: &str, by: &str) -> Result<usize, CreatedError> {
        let (record, cancelled) = {
            let _changing = self.changing.lock().await;
            let (creating, record) = self.created_one(name)?;
            let record = Record {
                stage: Stage::Deleting,
                ..record
            };
            creating.records.keep(record.clone()).await.map_err(internal)?;
            if let Some(making) = creating.making.lock().remove(name) {
                making.cancel();
            }
            let place = self.engine.catalogs().find(name);
            let cancelled = match place.filter(|place| place.gate.hold().is_none()) {
                Some(place) => self.engine.close_workspace(&place, by).await,
                None => self.engine.end_suspended(name, by).await,
            };
            self.hold(&record).await.map_err(internal)?;
            (record, cancelled?)
        };
        self.remove(&record, by).await?;
        Ok(cancelled)
    }

    /// Removes the folder of a workspace that is being deleted, and forgets it.
    async fn remove(self: &Arc<Self>, record: &Record, by: &str) -> Result<(), CreatedError> {
        let creating = self.creating()?;
        creating.folders.delete(&record.wanted()).await.map_err(internal)?;
        let _changing = self.changing.lock().await;
        let name = &record.name;
        if creating
            .records
            .get(name)
            .is_none_or(|current| current.request != record.request)
        {
            // Somebody else was faster.
            return Ok(());
        }
        self.store.drop_workspace(name, by).await?;
        creating.records.forget(name).await.map_err(internal)?;
        self.opener.close(name).await;
        if let Some(place) = self.engine.catalogs().find(name) {
            self.engine.catalogs().remove(&place);
        }
        self.tell(name, WorkspaceChange::Closed);
        Ok(())
    }

    /// Takes up what an earlier run has left; returns the names.
    pub(super) async fn restore_created(self: &Arc<Self>) -> anyhow::Result<Vec<String>> {
        let Some(creating) = &self.created else {
            return Ok(Vec::new());
        };
        let created = creating.folders.created.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || created.clean()).await {
            tracing::warn!(%error, "what was left of deleted workspaces is still there");
        }
        let mut names = Vec::new();
        for record in creating.records.all() {
            let name = record.name.clone();
            names.push(name.clone());
            if self.engine.catalogs().find(&name).is_some() {
                tracing::warn!(
                    workspace = %name,
                    "the configuration has a workspace of this name, and the one that was created is not opened"
                );
                continue;
            }
            self.store.prepare_workspace(&name)?;
            self.has_opened.store(true, std::sync::atomic::Ordering::Relaxed);
            match record.stage {
                Stage::Ready => {
                    let broken = record.clone();
                    if let Err(error) = self.open_created(record, false).await {
                        let problem = format!("{error:#}: mend that and resume the workspace, or delete it");
                        self.hold(&Record {
                            stage: Stage::Failed(problem),
                            ..broken
                        })
                        .await?;
                    }
                }
                Stage::Suspended | Stage::Failed(_) => self.hold(&record).await?,
                Stage::Creating => {
                    self.hold(&record).await?;
                    self.make(record);
                }
                Stage::Deleting => {
                    self.hold(&record).await?;
                    let inner = self.clone();
                    self.tasks.spawn(async move {
                        if let Err(error) = inner.remove(&record, "").await {
                            let error: &(dyn std::error::Error + 'static) = &error;
                            tracing::error!(workspace = record.name, error, "a workspace could not be deleted");
                        }
                    });
                }
            }
        }
        Ok(names)
    }

    /// Returns what is there of a workspace, and waits until nothing is to be expected of waiting.
    pub(super) async fn settled(&self, name: &str, wait: Duration) -> Result<Arc<WorkspaceRuntime>, CreatedError> {
        let mut changed = self.created.as_ref().map(|created| created.changed.subscribe());
        let find = || self.engine.catalogs().find(name).filter(|_| !name.is_empty());
        let settled = async {
            while find().is_some_and(|place| place.gate.hold() == Some(&Held::Creating)) {
                let Some(changed) = &mut changed else { return };
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        let settled = tokio::time::timeout(wait.min(MAX_WAIT), settled);
        // Too late, or because the service stops: it is told how far it is.
        let _ = self.stop.run_until_cancelled(settled).await;
        find().ok_or_else(|| CreatedError::Unknown(name.to_owned()))
    }
}

fn held(name: String, held: Held) -> CreatedError {
    CreatedError::Held { name, held }
}

fn opened_by(record: &Record) -> OpenedBy {
    OpenedBy {
        by: record.by.clone(),
        time: record.time,
        source: Some(record.source.clone()),
    }
}

/// Resumes workspaces for calls and replies. It does not keep them.
pub(super) struct ForCalls(pub(super) Weak<Inner>);

#[async_trait]
impl Waker for ForCalls {
    fn rouse(&self, workspace: &str) {
        if let Some(inner) = self.0.upgrade() {
            inner.resume_for_calls(workspace);
        }
    }

    async fn wait(&self, workspace: &str) {
        let Some(inner) = self.0.upgrade() else { return };
        let resumed = async {
            if let Some(resuming) = inner.resume_for_calls(workspace) {
                // What is wrong is told by the state of the workspace.
                let _ = resuming.await;
            }
            let _ = inner.settled(workspace, CALL_WAIT).await;
        };
        let resumed = tokio::time::timeout(CALL_WAIT, resumed);
        let _ = inner.stop.run_until_cancelled(resumed).await;
    }
}

impl Inner {
    /// Resumes a workspace, if calls and replies may do that.
    fn resume_for_calls(self: &Arc<Self>, name: &str) -> Option<JoinHandle<()>> {
        self.created
            .as_ref()
            .filter(|created| created.resume == ResumeBy::Calls)?;
        let (inner, name) = (self.clone(), name.to_owned());
        // Whoever wants it may be gone before it is there.
        Some(self.tasks.spawn(async move {
            if let Err(error) = inner.resume(&name).await {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(workspace = name, error, "a suspended workspace could not be resumed");
            }
        }))
    }
}
