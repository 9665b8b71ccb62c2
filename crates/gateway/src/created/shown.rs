//! What clients see of created workspaces.
//!
//! *Invariant:* how far one is, the database says; all else that is told of one that a worker has, is the worker's.

use toolgate_contract::{WorkspaceInfo, WorkspaceState};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::created::shown_source;
use toolgate_store::StoreError;
use toolgate_store::created::{CreatedWorkspace, Stage};

use super::Created;

/// Created workspaces that are read at once for a list.
const PAGE: usize = 500;

fn state(stage: Stage) -> WorkspaceState {
    match stage {
        Stage::Creating | Stage::Resuming => WorkspaceState::Creating,
        Stage::Ready => WorkspaceState::Ready,
        Stage::Suspending | Stage::Suspended => WorkspaceState::Suspended,
        Stage::Deleting => WorkspaceState::Deleting,
        Stage::Failed => WorkspaceState::Failed,
    }
}

/// Says what the database knows of a workspace, beside what a worker does that has it.
pub(super) fn shown(workspace: &CreatedWorkspace, of_worker: WorkspaceInfo) -> WorkspaceInfo {
    let problem = match workspace.stage {
        Stage::Ready if workspace.problem.is_empty() => of_worker.problem.clone(),
        Stage::Ready
        | Stage::Creating
        | Stage::Suspending
        | Stage::Suspended
        | Stage::Resuming
        | Stage::Deleting
        | Stage::Failed => workspace.problem.clone(),
    };
    WorkspaceInfo {
        name: workspace.name.clone(),
        problem,
        open_time: Some(prost_types::Timestamp {
            seconds: workspace.time.millis().div_euclid(1_000),
            nanos: i32::try_from(workspace.time.millis().rem_euclid(1_000) * 1_000_000).unwrap_or_default(),
        }),
        opened_by: workspace.by.clone(),
        state: state(workspace.stage).into(),
        source: Some(shown_source(&workspace.source.shown())),
        ..of_worker
    }
}

impl Created {
    /// Puts what is known of created workspaces into a list of those that workers have, all of which come behind a name. At least the
    /// first `most` are right then.
    pub(crate) async fn put_among(
        &self,
        caller: &OnBehalf,
        found: &mut Vec<WorkspaceInfo>,
        (behind, most): (&str, usize),
    ) -> Result<(), StoreError> {
        let (mut last, mut seen) = (behind.to_owned(), 0);
        while seen <= most {
            let rows = self.store.created_after(&last, PAGE).await?;
            let is_last = rows.len() < PAGE;
            if let Some(row) = rows.last() {
                last.clone_from(&row.name);
            }
            for row in rows.iter().filter(|row| caller.sees(&row.name)) {
                seen += 1;
                match found.iter_mut().find(|one| one.name == row.name) {
                    Some(one) => *one = shown(row, std::mem::take(one)),
                    None => found.push(shown(row, WorkspaceInfo::default())),
                }
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }
}
