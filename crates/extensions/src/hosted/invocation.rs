//! One thing that a host is asked to do, from its queue to its end, and what waits for it.
//!
//! *Invariant:* an invocation that nobody waits for any more is closed: dropping it tells the host, if the host knew of it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use toolgate_model::{Ask, Attachment, CallId, JsonMap, Origin};
use toolgate_tool::{CallContext, HookPoint, Refusal, SubagentRun, ToolError};

use super::host::Host;
use super::lent;

/// What a host is asked to do.
#[derive(Debug)]
pub enum Work {
    /// To run a tool.
    Tool {
        /// The call.
        call: CallId,
        /// In whose name.
        origin: Arc<Origin>,
        /// The tool.
        tool: String,
        /// The frozen input.
        input: Value,
    },
    /// To run a subagent.
    Subagent {
        /// The call of `task`.
        call: CallId,
        /// In whose name.
        origin: Arc<Origin>,
        /// The run.
        run: SubagentRun,
    },
    /// To run a hook.
    Hook {
        /// The point.
        point: HookPoint,
        /// What it is about.
        input: Value,
        /// What it may change.
        output: Value,
    },
}

impl Work {
    /// Says whether a report is of a kind that this has.
    pub(super) fn takes(&self, report: &Report) -> bool {
        let is_hook = matches!(self, Self::Hook { .. });
        match report {
            Report::Failed(_) => true,
            Report::HookResult(_) => is_hook,
            Report::Progress { .. } | Report::Output(_) | Report::Ask { .. } | Report::Completed(_) => !is_hook,
        }
    }
}

/// What a host is told.
#[derive(Debug)]
pub enum Told {
    /// To do something.
    Invoke {
        /// Names the invocation.
        id: String,
        /// What to do.
        work: Arc<Work>,
        /// Whether an earlier stream was sent it.
        resent: bool,
    },
    /// To give something up.
    Cancel {
        /// Names the invocation.
        id: String,
    },
    /// What became of a request for permission.
    AskResult {
        /// Names the invocation.
        id: String,
        /// Names the request.
        ask: String,
        /// Why the tool may not go on, if it may not.
        result: Result<(), String>,
    },
}

/// What a host reports.
#[derive(Debug)]
pub enum Report {
    /// Title or metadata changed.
    Progress {
        /// The new title.
        title: Option<String>,
        /// The patch.
        patch: JsonMap,
    },
    /// More output.
    Output(Bytes),
    /// A permission is needed.
    Ask {
        /// Names the request.
        id: String,
        /// The request.
        ask: Box<Ask>,
    },
    /// A result.
    Completed(HostResult),
    /// There is none; a text for the model.
    Failed(String),
    /// What a hook leaves.
    HookResult(Value),
}

impl Report {
    /// Says whether it ends the invocation.
    pub(super) fn is_last(&self) -> bool {
        match self {
            Self::Completed(_) | Self::Failed(_) | Self::HookResult(_) => true,
            Self::Progress { .. } | Self::Output(_) | Self::Ask { .. } => false,
        }
    }
}

/// The result of a tool or a subagent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostResult {
    /// A short text for people.
    pub title: String,
    /// The text for the model; none if it is what was reported as output.
    pub output: Option<String>,
    /// Merged over what was reported.
    pub metadata: JsonMap,
    /// Files that belong to it.
    pub attachments: Vec<Attachment>,
}

/// An open invocation, as whoever waits for it holds it.
pub(super) struct Invocation {
    pub(super) host: Arc<Host>,
    pub(super) id: u64,
    pub(super) reports: mpsc::Receiver<Report>,
    /// Interim title and metadata are there to be fetched.
    pub(super) progress: Arc<Notify>,
}

impl Drop for Invocation {
    fn drop(&mut self) {
        self.host.close(self.id);
    }
}

type Asking<'c> = Pin<Box<dyn Future<Output = (String, Result<(), Refusal>)> + Send + 'c>>;

async fn asked(asking: &mut Option<Asking<'_>>) -> (String, Result<(), Refusal>) {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

impl Invocation {
    /// Waits for the next report; why there is none if the host is gone.
    pub(super) async fn next(&mut self) -> Result<Report, String> {
        match self.reports.recv().await {
            Some(report) => Ok(report),
            None => Err(self.host.why_ended()),
        }
    }

    /// Serves a call while the host works for it, and returns what the host comes to. The host's requests for permission
    /// are put one after the other; what else it reports is not held up by them.
    pub(super) async fn serve(mut self, ctx: &CallContext) -> Result<HostResult, ToolError> {
        let progress = self.progress.clone();
        let mut title = String::new();
        let mut asking: Option<Asking<'_>> = None;
        let mut requests: VecDeque<(String, Box<Ask>)> = VecDeque::new();
        loop {
            if asking.is_none()
                && let Some((id, ask)) = requests.pop_front()
            {
                asking = Some(Box::pin(async move { (id, ctx.ask(*ask).await.map(drop)) }));
            }
            tokio::select! {
                biased;
                () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
                (id, answer) = asked(&mut asking) => {
                    asking = None;
                    self.host.answer(self.id, &id, answer.map_err(|refusal| refusal.to_string()));
                }
                report = self.next() => match report {
                    Ok(Report::Output(bytes)) => ctx.output(bytes).await?,
                    Ok(Report::Ask { id, ask }) => requests.push_back((id, ask)),
                    Ok(Report::Completed(mut result)) => {
                        self.show_progress(ctx, &mut title).await;
                        if result.title.is_empty() {
                            result.title = title;
                        }
                        return Ok(result);
                    }
                    Ok(Report::Failed(error)) => {
                        self.show_progress(ctx, &mut title).await;
                        return Err(ToolError::Failed(error));
                    }
                    // Kept apart, and refused where they do not fit.
                    Ok(Report::Progress { .. } | Report::HookResult(_)) => {}
                    Err(why) => return Err(ToolError::Failed(lost(&self.host.name, &why))),
                },
                () = progress.notified() => self.show_progress(ctx, &mut title).await,
            }
        }
    }

    async fn show_progress(&self, ctx: &CallContext, last_title: &mut String) {
        if let Some((title, patch)) = self.host.take_progress(self.id) {
            if let Some(title) = &title {
                title.clone_into(last_title);
            }
            ctx.progress(title, lent::own(patch)).await;
        }
    }
}

/// Returns the text of a call whose host is gone.
pub(super) fn lost(host: &str, why: &str) -> String {
    format!(
        "The front end {host}, which ran this, is gone: {why}. What was done until then is not known: look at the \
         present state before you repeat it."
    )
}
