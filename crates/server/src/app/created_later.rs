//! What is done with created workspaces that are there: they are suspended, resumed and deleted, and taken up by the next run.
//!
//! *Invariant:* as in `created`: the record is written before anything is done. Whatever is asked, a workspace of the configuration,
//! and one that was opened, is never taken for a created one of the same name.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use toolgate_config::service::ResumeBy;
use toolgate_engine::{Held, Rested, Waker, WorkspaceRuntime};
use toolgate_model::WorkspaceChange;
use toolgate_store::OpenedWorkspace;

use super::created::{Coming, Creating, held, internal};
use super::created_records::{Record, Stage};
use super::workspaces::Inner;
use crate::grpc::CreatedError;
use crate::provision::{Observed, Provisioner as _};

/// How long a call waits for a workspace that is not ready.
const CALL_WAIT: Duration = Duration::from_secs(10);

/// How long anybody waits for one.
const MAX_WAIT: Duration = Duration::from_secs(600);

impl Inner {
    /// Suspends a workspace.
    pub(super) async fn suspend(self: &Arc<Self>, name: &str) -> Result<Rested, CreatedError> {
        let _changing = self.changing.lock().await;
        let (creating, record) = self.created_one(name)?;
        match record.stage {
            Stage::Suspended => {
                return match self.lost(name) {
                    Some(problem) => Err(held(record.name, Held::Failed(problem))),
                    None => Ok(Rested::default()),
                };
            }
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
        match &record.stage {
            Stage::Suspended => {}
            Stage::Ready if self.lost(name).is_some() => {}
            Stage::Ready | Stage::Creating => return Ok(()),
            Stage::Failed(problem) => return Err(held(record.name, Held::Failed(problem.clone()))),
            Stage::Deleting => return Err(held(record.name, Held::Deleting)),
        }
        self.check_draining()?;
        self.reopen(creating, record, Coming::Resumed).await
    }

    /// Returns why a workspace that was created could not be opened again, if that is so.
    fn lost(&self, name: &str) -> Option<String> {
        match self.engine.catalogs().find(name)?.gate.hold()? {
            Held::Failed(problem) => Some(problem.clone()),
            Held::Creating | Held::Suspended { .. } | Held::Deleting => None,
        }
    }

    /// Opens a workspace again. One that cannot be is there with what is wrong, so that nobody waits for it.
    async fn reopen(self: &Arc<Self>, creating: &Creating, record: Record, coming: Coming) -> Result<(), CreatedError> {
        let opened = match creating.folders.resume(&record.wanted()).await {
            Ok(Observed::Ready) => self.open_created(record.clone(), coming).await,
            Ok(Observed::Absent | Observed::Coming | Observed::Resting) => Err(anyhow::anyhow!("its folder is gone")),
            Ok(Observed::Broken(problem)) => Err(anyhow::anyhow!(problem)),
            Err(error) => Err(error.into()),
        };
        let Err(error) = opened else { return Ok(()) };
        let problem = format!("{error:#}: mend that and resume the workspace, or delete it");
        let broken = Record {
            stage: Stage::Failed(problem.clone()),
            ..record
        };
        // The record stays what it was: the next attempt may do better.
        self.hold(&broken).await.map_err(internal)?;
        Err(held(broken.name, Held::Failed(problem)))
    }

    /// Deletes a workspace with its folder.
    pub(super) async fn delete(self: &Arc<Self>, name: &str, by: &str) -> Result<usize, CreatedError> {
        let (record, cancelled) = {
            let _changing = self.changing.lock().await;
            let (creating, record) = self.created_one(name)?;
            // Where its folder is may be noted at the same moment.
            let deleting = creating.records.update(name, |record| record.stage = Stage::Deleting);
            let record = deleting.await.map_err(internal)?.unwrap_or(record);
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
        // Nothing may go on in the next workspace of this name.
        self.engine.end_suspended(name, by).await?;
        self.store.drop_workspace(name, by).await?;
        creating.records.forget(name).await.map_err(internal)?;
        self.opener.close(name).await;
        if let Some(place) = self.engine.catalogs().find(name).filter(|_| !self.is_foreign(name)) {
            self.engine.catalogs().remove(&place);
        }
        self.tell(name, WorkspaceChange::Closed);
        Ok(())
    }

    /// Takes up what an earlier run has left; returns the names. `opened` are those that it had open, created or not.
    pub(super) async fn restore_created(self: &Arc<Self>, opened: &[OpenedWorkspace]) -> anyhow::Result<Vec<String>> {
        let Some(creating) = &self.created else {
            return Ok(Vec::new());
        };
        let created = creating.folders.created.clone();
        let (stop, looked) = (self.stop.clone(), created.clone());
        let left = tokio::task::spawn_blocking(move || looked.left()).await?;
        // It may take long, and nobody waits for it.
        self.tasks.spawn_blocking(move || {
            if let Err(error) = created.clean(&left, &|| stop.is_cancelled())
                && !stop.is_cancelled()
            {
                tracing::warn!(%error, "what was left of deleted workspaces is still there");
            }
        });
        let mut names = Vec::new();
        for record in creating.records.all() {
            let name = record.name.clone();
            let folder = record.folder(&creating.root.directory);
            let is_other = |one: &OpenedWorkspace| one.name == name && Path::new(&one.directory) != folder;
            // While nothing could be created here, the name was free for others.
            if self.engine.catalogs().find(&name).is_some() || opened.iter().any(is_other) {
                tracing::warn!(
                    workspace = %name,
                    "another workspace has this name, and the one that was created is not opened: it is there again when the \
                     other one is closed, or out of the configuration, and the service starts anew"
                );
                continue;
            }
            names.push(name.clone());
            self.store.prepare_workspace(&name)?;
            self.has_opened.store(true, std::sync::atomic::Ordering::Relaxed);
            match record.stage {
                Stage::Ready => match self.reopen(creating, record, Coming::Restored).await {
                    Err(error @ CreatedError::Held { .. }) => tracing::error!("{error}"),
                    opened => opened?,
                },
                Stage::Suspended | Stage::Failed(_) | Stage::Deleting => self.hold(&record).await?,
                Stage::Creating => {
                    self.hold(&record).await?;
                    self.make(record);
                }
            }
        }
        Ok(names)
    }

    /// Goes on to delete what an earlier run has begun to. To be called when its calls were looked after: those that waited there
    /// have ended by then.
    pub(super) fn delete_left(self: &Arc<Self>) {
        let records = self.created.iter().flat_map(|creating| creating.records.all());
        for record in records.filter(|record| record.stage == Stage::Deleting && !self.is_foreign(&record.name)) {
            let inner = self.clone();
            self.tasks.spawn(async move {
                if let Err(error) = inner.remove(&record, "").await {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::error!(workspace = record.name, error, "a workspace could not be deleted");
                }
            });
        }
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
