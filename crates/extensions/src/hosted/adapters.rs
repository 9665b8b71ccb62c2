//! What a host lends, as the catalog holds it: tools and hooks.
//!
//! *Invariant:* a hosted tool asks for the permission of its own name before the host hears of the call, and never says
//! that it pages its own output: what a host returns is cut like everything else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use toolgate_model::{Definition, OutputText, Source, ToolOutput};
use toolgate_tool::{Hook, HookError, HookPoint, Offer, Tool, ToolContext, ToolError};

use crate::asking::ask_to_run;

use super::host::Host;
use super::messages::{HostRequest, HostResult, HostedTool, Report, hosts_metadata, lost};

/// How long a host has to answer a hook, and one that is asked for each tool of a list.
const HOOK_TIMEOUT: Duration = Duration::from_secs(25);
const LIST_HOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// A tool that a host lends.
pub(super) struct ToolAdapter {
    pub(super) host: Arc<Host>,
    pub(super) tool: HostedTool,
}

impl ToolAdapter {
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.tool.name.eq_ignore_ascii_case(name)
    }
}

#[async_trait]
impl Tool for ToolAdapter {
    fn name(&self) -> &str {
        &self.tool.name
    }

    fn input_schema(&self) -> Value {
        self.tool.input_schema.clone()
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        let HostedTool {
            name,
            description,
            input_schema,
            effects,
        } = &self.tool;
        Definition::foreign(name, description, input_schema, Source::Hosted, effects)
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let name = &self.tool.name;
        ask_to_run(name, format!("{name} ({})", self.host.source), &input, ctx).await?;
        let work = HostRequest::Tool {
            call: ctx.call.clone(),
            origin: ctx.origin.clone(),
            tool: name.clone(),
            input,
        };
        let invocation = self.host.invoke(work);
        let invocation = invocation.map_err(|why| ToolError::Failed(lost(&self.host.name, &why)))?;
        invocation.serve(ctx).await.map(to_output)
    }
}

fn to_output(result: HostResult) -> ToolOutput {
    ToolOutput {
        title: result.title,
        output: result.output.map_or(OutputText::Stored, OutputText::Text),
        metadata: hosts_metadata(result.metadata),
        attachments: result.attachments,
        result: None,
    }
}

/// The hooks of a host.
pub(super) struct HookAdapter {
    host: Arc<Host>,
    points: Vec<HookPoint>,
}

impl HookAdapter {
    pub(super) fn new(host: Arc<Host>, points: Vec<HookPoint>) -> Self {
        Self { host, points }
    }

    fn failed(&self, problem: impl Into<String>) -> HookError {
        HookError::Failed {
            name: self.host.name.clone(),
            problem: problem.into(),
        }
    }
}

#[async_trait]
impl Hook for HookAdapter {
    fn name(&self) -> &str {
        &self.host.name
    }

    fn principal(&self) -> Option<&str> {
        Some(&self.host.principal)
    }

    fn handles(&self, point: HookPoint) -> bool {
        self.points.contains(&point)
    }

    async fn run(&self, point: HookPoint, input: Value, output: Value) -> Result<Value, HookError> {
        if self.host.is_unresponsive() {
            return Err(self.failed("it left an earlier hook without an answer"));
        }
        let in_list = point == HookPoint::Definition;
        if in_list && self.host.is_away() {
            return Err(self.failed("it is away"));
        }
        let work = HostRequest::Hook { point, input, output };
        let mut invocation = self.host.invoke(work).map_err(|why| self.failed(why))?;
        let limit = if in_list { LIST_HOOK_TIMEOUT } else { HOOK_TIMEOUT };
        match tokio::time::timeout(limit, invocation.next()).await {
            Ok(Ok(Report::HookResult(output))) => Ok(output),
            Ok(Ok(Report::Failed(error))) => Err(HookError::Refused(error)),
            // Reports of other kinds do not come this far.
            Ok(Ok(Report::Progress { .. } | Report::Output(_) | Report::Ask { .. } | Report::Completed(_))) => {
                Err(self.failed("it reports something else"))
            }
            Ok(Err(why)) => Err(self.failed(why)),
            Err(_) => {
                self.host.mark_unresponsive();
                let (point, seconds) = (point.as_str(), limit.as_secs());
                Err(self.failed(format!("it did not answer `{point}` within {seconds} s")))
            }
        }
    }
}
