//! How a workspace's catalog of tools tells clients what changed.

use std::sync::Arc;

use toolgate_model::{ServiceEvent, ServiceEventKind, Timestamp};
use toolgate_store::Store;

/// Returns what a [`Catalog`](toolgate_tool::Catalog) announces its changes with: they become events of the workspace.
pub fn record_tool_changes(
    workspace: &str,
    store: Arc<dyn Store>,
) -> impl Fn(ServiceEventKind) + Send + Sync + 'static {
    let workspace = workspace.to_owned();
    move |kind| {
        store.record(ServiceEvent {
            workspace: workspace.clone(),
            session: None,
            time: Timestamp::now(),
            kind,
        });
    }
}
