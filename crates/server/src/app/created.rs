//! Workspaces that are created while the service runs: what is wanted of each, and how that comes about.
//!
//! Each has a record that says how far it is, and stands among the workspaces from the moment in which it is asked for, so that
//! whoever looks sees it. Its place is made by a `Provisioner`, and what of it runs is the engine's. The record is written before
//! anything is done: what a run of the service does not come to, the next one does.
//!
//! *Invariant:* one is changed at a time, together with those that are opened and closed; only the making and the removing of a
//! place, which may take long, go on beside that. A place that is not whole is never opened.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolgate_config::service::{ResumeBy, WorkspaceRoot};
use toolgate_config::{Config, Environment};
use toolgate_engine::{Gate, Held, OpenedBy, WorkspaceRuntime};
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

/// What is known of created workspaces.
pub(super) struct Creating {
    pub(super) records: Arc<Records>,
    pub(super) folders: Folders,
    /// Where they are.
    pub(super) root: WorkspaceRoot,
    pub(super) resume: ResumeBy,
    /// Those that are being made, and what ends that. Never held across an await.
    pub(super) making: Mutex<HashMap<String, CancellationToken>>,
    /// Tells that one of them is in another state.
    pub(super) changed: watch::Sender<()>,
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
        let data_dir = config.data_dir.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let created = Created::open(&directory).context("created_workspaces.directory")?;
            let records = Records::open(&data_dir, created.root())?;
            anyhow::Ok((created, Arc::new(records)))
        });
        let (created, records) = opened.await??;
        let directory = created.root().to_path_buf();
        let folders = Folders::new(
            (created, records.clone()),
            rules.templates.clone(),
            (rules.max_bytes, rules.timeout),
            (network.clone(), environment.get("SSL_CERT_FILE").map(ToOwned::to_owned)),
            programs.clone(),
            sandbox.clone(),
        );
        Ok(Some(Self {
            records,
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

/// Why a created workspace is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coming {
    /// Its place was made.
    New,
    /// Somebody wants to work there again.
    Resumed,
    /// An earlier run had it open.
    Restored,
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

pub(super) fn internal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CreatedError {
    CreatedError::Internal(error.into())
}

impl Inner {
    pub(super) fn creating(&self) -> Result<&Creating, CreatedError> {
        self.created.as_ref().ok_or(CreatedError::Fixed)
    }

    /// Returns the record of a workspace that was created, and its place.
    pub(super) fn created_one(&self, name: &str) -> Result<(&Creating, Record), CreatedError> {
        if self.is_foreign(name) {
            return Err(CreatedError::NotCreated(name.to_owned()));
        }
        let created = self.created.as_ref();
        let record = created.and_then(|created| Some((created, created.records.get(name)?)));
        record.ok_or_else(|| CreatedError::Unknown(name.to_owned()))
    }

    /// Says whether a workspace is there that was not created: an old record of its name says nothing of it.
    pub(super) fn is_foreign(&self, name: &str) -> bool {
        let place = self.engine.catalogs().find(name).filter(|_| !name.is_empty());
        place.is_some_and(|place| match &place.opened {
            Some(OpenedBy { source, .. }) => source.is_none(),
            None => true,
        })
    }

    pub(super) fn check_draining(&self) -> Result<(), CreatedError> {
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
        if self.is_foreign(&name) {
            let why = "is there already, and was not created";
            return Err(CreatedError::NameTaken { name, why });
        }
        let mut earlier = None;
        if let Some(record) = creating.records.get(&name) {
            // An address may be signed anew each time.
            if record.source.shown() != source.shown() {
                let why = "was created from something else";
                return Err(CreatedError::NameTaken { name, why });
            }
            match record.stage {
                Stage::Creating | Stage::Ready | Stage::Suspended => return Ok(false),
                Stage::Deleting => return Err(held(name, Held::Deleting)),
                Stage::Failed(_) => earlier = Some(record),
            }
        }
        check_source(&creating.folders, &source)?;
        let most = self.opener.config.limits.max_workspaces as usize;
        if earlier.is_none() && self.engine.catalogs().all().len() >= most {
            return Err(CreatedError::TooMany(most));
        }
        self.check_place(creating, &name, earlier.as_ref()).await?;
        let record = match earlier {
            Some(record) => Record {
                stage: Stage::Creating,
                source,
                ..record
            },
            None => Record {
                request: uuid::Uuid::now_v7().to_string(),
                time: Timestamp::now(),
                stage: Stage::Creating,
                name,
                source,
                by,
                placed: None,
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
    async fn check_place(
        self: &Arc<Self>,
        creating: &Creating,
        name: &str,
        earlier: Option<&Record>,
    ) -> Result<(), CreatedError> {
        let folder = creating.folder(name);
        // An earlier attempt may have come so far.
        let is_own = || earlier.is_some_and(|record| creating.folders.is_own(&record.wanted()));
        if folder.symlink_metadata().is_ok() && !is_own() {
            let name = name.to_owned();
            let why = "has a folder already, which was not created";
            return Err(CreatedError::NameTaken { name, why });
        }
        let (inner, called) = (self.clone(), name.to_owned());
        let checked = tokio::task::spawn_blocking(move || inner.check(&called, &folder));
        let checked = checked.await.map_err(internal)?;
        checked.map_err(|error| CreatedError::Folder(Box::new(error)))
    }

    /// Lets a workspace stand among the others in which nothing can be done.
    pub(super) async fn hold(self: &Arc<Self>, record: &Record) -> anyhow::Result<()> {
        let place = self.held_place(record).await?;
        self.opener.close(&record.name).await;
        self.engine.catalogs().add(place);
        self.tell(&record.name, WorkspaceChange::Changed);
        Ok(())
    }

    pub(super) async fn held_place(self: &Arc<Self>, record: &Record) -> anyhow::Result<WorkspaceRuntime> {
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
        let folder = self
            .created
            .as_ref()
            .map(|created| record.folder(&created.root.directory));
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

    pub(super) fn tell(&self, name: &str, change: WorkspaceChange) {
        self.engine.announce_workspace(name, change);
        if let Some(created) = &self.created {
            created.changed.send_replace(());
        }
    }

    /// Makes the place of a workspace, and opens it.
    pub(super) fn make(self: &Arc<Self>, record: Record) {
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
                Ok(Observed::Ready) => inner.open_created(record.clone(), Coming::New).await,
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
            // Whoever tries again says it again.
            source: record.source.shown(),
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
    pub(super) async fn open_created(self: &Arc<Self>, record: Record, coming: Coming) -> anyhow::Result<()> {
        let Some(creating) = &self.created else { return Ok(()) };
        let (inner, name) = (self.clone(), record.name.clone());
        let (root, folder) = (creating.root.clone(), creating.folder(&name));
        let found = tokio::task::spawn_blocking(move || inner.find_below(&name, &[root], (&folder, false)));
        let (workspace, trusted) = found.await??;
        let name = record.name.clone();
        if coming == Coming::New {
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
            // Nothing is got from there any more.
            source: record.source.shown(),
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
        let change = match coming {
            Coming::New => WorkspaceChange::Opened,
            Coming::Resumed | Coming::Restored => WorkspaceChange::Changed,
        };
        self.tell(&name, change);
        if coming == Coming::Restored {
            // What was left is looked after at once for all, when the other workspaces are there too.
            return Ok(());
        }
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
}

pub(super) fn held(name: String, held: Held) -> CreatedError {
    CreatedError::Held { name, held }
}

fn opened_by(record: &Record) -> OpenedBy {
    OpenedBy {
        by: record.by.clone(),
        time: record.time,
        source: Some(record.source.shown()),
    }
}
