//! The front end of a case that runs the model: it lends what the case says, mostly nothing, and answers the runs of
//! subagents as the steps say.
//!
//! *Invariant:* each run gets the first reply left for its call; without one it fails.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use toolgate_contract::{
    HostCompleted, HostFailed, HostHello, HostRefused, HostReport, HostRunSubagent, LentTool, host_report,
};

use crate::case::{Reply, Subagent};
use crate::connection::{Connection, Hosting};

/// What the steps say, and what was asked for.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<HashMap<String, Part>>>);

#[derive(Default)]
struct Part {
    replies: VecDeque<Subagent>,
    runs: Vec<HostRunSubagent>,
}

impl Script {
    /// Says what the runs of a call get, before it starts.
    pub(crate) fn prepare(&self, call_id: &str, replies: &[Reply]) {
        let of_subagents = replies.iter().filter_map(|reply| match reply {
            Reply::Subagent(reply) => Some(reply.clone()),
            Reply::Permission { .. } | Reply::Question { .. } | Reply::OpenQuestion(_) => None,
        });
        self.with(call_id, |part| part.replies.extend(of_subagents));
    }

    /// Returns the runs that were asked for on behalf of a call.
    pub(crate) fn runs(&self, call_id: &str) -> Vec<HostRunSubagent> {
        self.with(call_id, |part| part.runs.clone())
    }

    fn with<T>(&self, call_id: &str, look: impl FnOnce(&mut Part) -> T) -> T {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(parts.entry(call_id.to_owned()).or_default())
    }

    fn answer(&self, run: HostRunSubagent) -> host_report::Report {
        let reply = self.with(&run.call_id.clone(), |part| {
            part.runs.push(run);
            part.replies.pop_front()
        });
        match reply {
            Some(Subagent::Text(text)) => host_report::Report::Completed(HostCompleted {
                output: Some(text),
                ..HostCompleted::default()
            }),
            Some(Subagent::Error(error)) => host_report::Report::Failed(HostFailed { error }),
            None => host_report::Report::Failed(HostFailed {
                error: "the case has no reply for this run".to_owned(),
            }),
        }
    }
}

/// The front end.
pub(crate) struct Host {
    hosting: Hosting,
    script: Script,
}

impl Host {
    /// Lends; from then on `task` is offered, and what is lent.
    pub(crate) async fn open(connection: &Connection, script: Script, tools: Vec<LentTool>) -> Result<Self> {
        let hello = HostHello {
            name: "conformance".to_owned(),
            runs_subagents: true,
            tools,
            ..HostHello::default()
        };
        let hosting = connection.host(hello).await?;
        Ok(Self { hosting, script })
    }

    /// What it could not lend.
    pub(crate) fn refused(&self) -> &[HostRefused] {
        self.hosting.refused()
    }

    /// Answers until something goes wrong.
    pub(crate) async fn run(mut self) -> Result<Infallible> {
        loop {
            let run = self.hosting.next().await?;
            let report = HostReport {
                invocation_id: run.invocation_id.clone(),
                report: Some(self.script.answer(run)),
            };
            self.hosting.report(report).await?;
        }
    }
}
