//! One thing that a host is asked to do, from its queue to its end, and what waits for it.
//!
//! *Invariant:* an invocation that nobody waits for any more is closed: dropping it tells the host, if the host knew of it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use toolgate_model::Ask;
use toolgate_tool::{Refusal, ToolContext, ToolError};

use super::host::Host;
use super::messages::{HostResult, Report, hosts_metadata, lost};

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
    pub(super) async fn serve(mut self, ctx: &ToolContext) -> Result<HostResult, ToolError> {
        let progress = self.progress.clone();
        let mut title = String::new();
        let mut asking: Option<Asking<'_>> = None;
        let mut requests: VecDeque<(String, Box<Ask>)> = VecDeque::new();
        loop {
            if asking.is_none()
                && let Some((id, ask)) = requests.pop_front()
            {
                asking = Some(Box::pin(async move { (id, ctx.permission.ask(*ask).await.map(drop)) }));
            }
            tokio::select! {
                biased;
                () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
                (id, answer) = asked(&mut asking) => {
                    asking = None;
                    self.host.answer(self.id, &id, answer.map_err(|refusal| refusal.to_string()));
                }
                report = self.next() => match report {
                    Ok(Report::Output(bytes)) => ctx.output.write(bytes).await?,
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

    async fn show_progress(&self, ctx: &ToolContext, last_title: &mut String) {
        if let Some((title, patch)) = self.host.take_progress(self.id) {
            if let Some(title) = &title {
                title.clone_into(last_title);
            }
            ctx.output.progress(title, hosts_metadata(patch)).await;
        }
    }
}
