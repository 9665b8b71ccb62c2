//! How a created workspace is suspended and deleted: what runs there ends first.
//!
//! *Invariant:* calls are cancelled by their worker as long as it does that soon; then the workspace is taken from it, and what is left is
//! ended in the database. So they end exactly once, whatever has become of the worker.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use toolgate_contract::{CancelCallRequest, CancelCallResponse};
use toolgate_model::CallId;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::provision::{Observed, ProvisionError};
use toolgate_store::StoreError;
use toolgate_store::created::{CreatedWorkspace, Stage, Step};

use super::steps::{in_vain, reached, soon};
use super::{Created, wanted};
use crate::registry::ASK_TIMEOUT;

const CANCEL_CALL: &str = "/toolgate.v1.ToolService/CancelCall";

/// How long a worker has to end calls that are cancelled, and how often it is looked whether it has.
const ENDING: (Duration, Duration) = (Duration::from_secs(8), Duration::from_millis(100));

impl Created {
    /// Ends what runs in a workspace, or all, and takes it from its worker.
    async fn end_calls(&self, workspace: &CreatedWorkspace, all: bool) -> Result<(), StoreError> {
        let cancelled = match workspace.is_begun {
            // It was done before.
            true => 0,
            false => self.cancel(workspace, all).await?,
        };
        self.store.take_from_holder(workspace).await?;
        self.store.end_calls(workspace, all, cancelled).await
    }

    /// Has the worker cancel calls, as far as it does that soon. Returns how many have ended.
    async fn cancel(&self, workspace: &CreatedWorkspace, all: bool) -> Result<u64, StoreError> {
        let ending = async || {
            let calls = self.store.unfinished_calls(&workspace.name).await?;
            let calls = calls.into_iter().filter(|(_, only_waits)| all || !only_waits);
            Ok::<Vec<CallId>, StoreError>(calls.map(|(id, _)| id).collect())
        };
        let calls = ending().await?;
        let worker = self.registry.owner(&workspace.name);
        let Some(worker) = worker.filter(|worker| !calls.is_empty() && worker.facts.read().is_there) else {
            return Ok(0);
        };
        let entry = OnBehalf::entry_to_end_calls(&workspace.name);
        for id in &calls {
            let request = CancelCallRequest {
                call_id: id.to_string(),
            };
            let asked = worker.ask::<_, CancelCallResponse>(CANCEL_CALL, request, Some(&entry));
            match timeout(ASK_TIMEOUT, asked).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::debug!(workspace = workspace.name, call = %id, %error, "a worker does not cancel a call");
                }
                // It is not worth while to ask more of it.
                Err(_) => break,
            }
        }
        let begun = Instant::now();
        loop {
            let left = ending().await?;
            if left.is_empty() || begun.elapsed() > ENDING.0 {
                let ended = calls.iter().filter(|id| !left.contains(id));
                return Ok(ended.count() as u64);
            }
            sleep(ENDING.1).await;
        }
    }

    /// Lets nothing run in a workspace any more.
    pub(super) async fn suspend(&self, workspace: &CreatedWorkspace) -> Result<Step, StoreError> {
        self.end_calls(workspace, false).await?;
        Ok(match self.provisioner.suspend(&wanted(workspace)).await {
            Ok(Observed::Resting) => reached(Stage::Suspended),
            Ok(Observed::Ready | Observed::Coming) => soon(workspace, String::new()),
            Ok(Observed::Absent) => {
                Step::Failed("its place was to be suspended, and is gone: create it again, or delete it".to_owned())
            }
            Ok(Observed::Broken(problem)) => Step::Failed(problem),
            Err(ProvisionError::Refused(problem)) => {
                tracing::error!(
                    workspace = workspace.name,
                    problem,
                    "a workspace is not suspended, and taken up again: whoever makes its place refuses it"
                );
                Step::Reached(Stage::Resuming, Duration::ZERO)
            }
            Err(ProvisionError::Failed(problem)) => in_vain(workspace, problem, true),
        })
    }

    /// Ends all calls of a workspace, withdraws its prompts and takes its standing approvals back: the next place of its name is another one.
    pub(super) async fn end_all(&self, workspace: &CreatedWorkspace) -> Result<(), StoreError> {
        self.end_calls(workspace, true).await?;
        self.front.end_workspace(&workspace.name, &workspace.asked_by).await
    }

    /// Takes a workspace away. What of its calls is stored stays.
    pub(super) async fn delete(&self, workspace: &CreatedWorkspace) -> Option<Step> {
        if let Err(error) = self.end_all(workspace).await {
            return Some(in_vain(workspace, error.to_string(), false));
        }
        match self.provisioner.delete(&wanted(workspace)).await {
            Ok(Observed::Absent) => match self.store.forget_created(workspace).await {
                Ok(()) => None,
                Err(error) => Some(in_vain(workspace, error.to_string(), true)),
            },
            Ok(Observed::Broken(problem)) | Err(ProvisionError::Refused(problem) | ProvisionError::Failed(problem)) => {
                Some(in_vain(workspace, problem, true))
            }
            Ok(Observed::Ready | Observed::Coming | Observed::Resting) => Some(soon(workspace, String::new())),
        }
    }
}
