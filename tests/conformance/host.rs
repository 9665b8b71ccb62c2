//! The front end of a case that runs the model: it lends what the case says, mostly nothing, and answers the runs of
//! subagents as the steps say.
//!
//! *Invariant:* each run gets the first reply left for its call; without one it fails.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use toolgate::grpc::proto::host_service_client::HostServiceClient;
use toolgate::grpc::proto::{
    HostCompleted, HostEvent, HostFailed, HostHello, HostRefused, HostReport, HostRequest, HostResponse,
    HostRunSubagent, LentTool, host_event, host_report, host_request,
};

use crate::case::{Reply, Subagent};

/// How many reports may wait.
const QUEUE: usize = 64;

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
            Reply::Permission { .. } | Reply::Question { .. } => None,
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
    incoming: Streaming<HostResponse>,
    outgoing: mpsc::Sender<HostRequest>,
    script: Script,
    /// What it could not lend.
    pub(crate) refused: Vec<HostRefused>,
}

impl Host {
    /// Says hello and waits for the welcome: from then on `task` is offered, and what is lent.
    pub(crate) async fn open(channel: Channel, script: Script, tools: Vec<LentTool>) -> Result<Self> {
        let (outgoing, requests) = mpsc::channel(QUEUE);
        let hello = HostHello {
            name: "conformance".to_owned(),
            runs_subagents: true,
            tools,
            ..HostHello::default()
        };
        send(&outgoing, host_request::Message::Hello(hello)).await?;
        let response = HostServiceClient::new(channel)
            .host(ReceiverStream::new(requests))
            .await;
        let mut incoming = response.context("opening the host's stream")?.into_inner();
        let first = next(&mut incoming).await?;
        let host_event::Event::Welcome(welcome) = first else {
            bail!("the host's first message is not `welcome`: {first:?}");
        };
        Ok(Self {
            incoming,
            outgoing,
            script,
            refused: welcome.refused,
        })
    }

    /// Answers until something goes wrong.
    pub(crate) async fn run(mut self) -> Result<Infallible> {
        loop {
            match next(&mut self.incoming).await? {
                host_event::Event::RunSubagent(run) => {
                    let report = HostReport {
                        invocation_id: run.invocation_id.clone(),
                        report: Some(self.script.answer(run)),
                    };
                    send(&self.outgoing, host_request::Message::Report(report)).await?;
                }
                host_event::Event::Cancel(_) | host_event::Event::Heartbeat(_) => {}
                other @ (host_event::Event::Welcome(_)
                | host_event::Event::Invoke(_)
                | host_event::Event::Hook(_)
                | host_event::Event::AskResult(_)) => bail!("the host was told {other:?}"),
            }
        }
    }
}

async fn next(incoming: &mut Streaming<HostResponse>) -> Result<host_event::Event> {
    let response = incoming.message().await.context("the host's stream broke")?;
    let event: Option<HostEvent> = response.context("the host's stream ended")?.event;
    event.and_then(|event| event.event).context("the host was told nothing")
}

async fn send(outgoing: &mpsc::Sender<HostRequest>, message: host_request::Message) -> Result<()> {
    let request = HostRequest { message: Some(message) };
    outgoing.send(request).await.ok().context("the host's stream is closed")
}
