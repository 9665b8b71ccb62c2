//! Subagents that hosts run.
//!
//! *Invariant:* which host runs one depends on the hosts of the workspace only, and on what the call says.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use toolgate_model::Origin;
use toolgate_tool::{SubagentAnswer, SubagentRun, SubagentRunner, ToolContext, ToolError};

use super::host::Host;
use super::messages::{HostRequest, hosts_metadata, lost};
use super::{GRACE, Hosts};

/// The key of a call's free data that names the host of its subagents.
const HOST: &str = "host";

impl Hosts {
    /// Finds who runs an agent for a call: the host that the call names, else one of the same principal, else any; of
    /// those one that is here before one that is away, and the one that came last.
    fn runner(&self, agent: &str, origin: &Origin) -> Option<Arc<Host>> {
        let named = origin.extra.get(HOST).and_then(Value::as_str);
        let hosts = self.of_workspace(&origin.workspace).into_iter();
        // Of equals the last one.
        hosts.filter(|host| host.runs(agent)).max_by_key(|host| {
            let is_named = named == Some(host.name.as_str());
            (is_named, host.principal == origin.requester, !host.is_away())
        })
    }

    /// Waits for who runs an agent: after a restart of the service its front end may not be back yet.
    async fn wait_for_runner(&self, agent: &str, origin: &Origin) -> Option<Arc<Host>> {
        let mut changes = self.changes.subscribe();
        let found = async {
            loop {
                changes.borrow_and_update();
                if let Some(host) = self.runner(agent, origin) {
                    return host;
                }
                // The sender lives in `self`.
                let _ = changes.changed().await;
            }
        };
        tokio::time::timeout(GRACE, found).await.ok()
    }
}

#[async_trait]
impl SubagentRunner for Hosts {
    fn is_there(&self, workspace: &str) -> bool {
        self.of_workspace(workspace).iter().any(|host| host.runs_subagents())
    }

    async fn run(&self, run: SubagentRun, ctx: &ToolContext) -> Result<SubagentAnswer, ToolError> {
        let host = tokio::select! {
            biased;
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
            host = self.wait_for_runner(&run.agent, &ctx.origin) => host,
        };
        let Some(host) = host else {
            return Err(ToolError::Failed(format!(
                "no connected front end runs the agent {}. Do the work yourself, or tell the user.",
                run.agent
            )));
        };
        let work = HostRequest::Subagent {
            call: ctx.call.clone(),
            origin: ctx.origin.clone(),
            run,
        };
        let invocation = host.invoke(work);
        let invocation = invocation.map_err(|why| ToolError::Failed(lost(&host.name, &why)))?;
        let result = invocation.serve(ctx).await?;
        Ok(SubagentAnswer {
            text: result.output.unwrap_or_default(),
            metadata: hosts_metadata(result.metadata),
            attachments: result.attachments,
        })
    }
}
