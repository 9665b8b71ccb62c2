//! How the runner uses a service: by its own stubs, or through a client library and its driver (`clients/DRIVER.md`).
//!
//! *Invariant:* both ways have the same functions and the same errors, so that a case cannot tell them apart.

mod direct;
mod driven;

use anyhow::{Context as _, Result, bail};
use prost::Message;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};
use toolgate_contract::{
    CallEvent, ExecuteToolRequest, HostHello, HostRefused, HostReport, HostRunSubagent, ListToolsRequest, Prompt,
    PromptReply, ReplyResult, ToolDefinition, WatchEventsRequest, WatchEventsResponse,
};

use crate::driver::Driver;

/// The largest message that is taken.
const MESSAGE_LIMIT: usize = 64 << 20;

/// The way to a service, for the runner's own stubs.
pub(crate) type Way = InterceptedService<Channel, Token>;

/// Shows a token, where one is needed.
#[derive(Clone, Default)]
pub(crate) struct Token(pub(crate) Option<MetadataValue<Ascii>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A service that is connected to.
#[derive(Clone)]
pub(crate) enum Connection {
    /// By the runner's own stubs.
    Direct(Way),
    /// As the client with this name of a driver.
    Driven(Driver, String),
}

impl Connection {
    /// Ends it, as far as it is the driver's.
    pub(crate) async fn close(self) -> Result<()> {
        match self {
            Self::Direct(_) => Ok(()),
            Self::Driven(driver, client) => driven::close(&driver, &client).await,
        }
    }

    /// Calls an RPC that has one answer.
    pub(crate) async fn unary<M: Message + Default + 'static>(
        &self,
        method: &str,
        request: impl Message + Default + 'static,
    ) -> Result<M> {
        let answer = match self {
            Self::Direct(channel) => direct::unary(channel.clone(), method, request).await,
            Self::Driven(driver, client) => driven::unary(driver, client, method, &request).await,
        };
        answer.with_context(|| method.to_owned())
    }

    /// Lists tools, all pages of them.
    pub(crate) async fn tools(&self, request: ListToolsRequest) -> Result<Vec<ToolDefinition>> {
        let listed = match self {
            Self::Direct(channel) => direct::tools(channel.clone(), request).await,
            Self::Driven(driver, client) => driven::tools(driver, client, &request).await,
        };
        listed.context("ListTools")
    }

    /// Starts a call.
    pub(crate) async fn execute(&self, request: ExecuteToolRequest) -> Result<Execution> {
        match self {
            Self::Direct(channel) => direct::execute(channel.clone(), request)
                .await
                .map(|it| Execution::Direct(Box::new(it))),
            Self::Driven(driver, client) => Ok(Execution::Driven(Box::new(driven::execute(driver, client, &request)))),
        }
    }

    /// Sees all prompts from now on, on a service that has none yet.
    pub(crate) async fn approvals(&self, name: &str) -> Result<Approvals> {
        match self {
            Self::Direct(channel) => direct::approvals(channel.clone(), name).await.map(Approvals::Direct),
            Self::Driven(driver, client) => driven::approvals(driver, client, name).await.map(Approvals::Driven),
        }
    }

    /// Lends tools and runs subagents.
    pub(crate) async fn host(&self, hello: HostHello) -> Result<Hosting> {
        match self {
            Self::Direct(channel) => direct::host(channel.clone(), hello).await.map(Hosting::Direct),
            Self::Driven(driver, client) => driven::host(driver, client, &hello).await.map(Hosting::Driven),
        }
    }

    /// Watches events from now on.
    pub(crate) async fn events(&self) -> Result<Events> {
        let all = WatchEventsRequest::default();
        match self {
            Self::Direct(channel) => direct::events(channel.clone(), all)
                .await
                .map(|it| Events::Direct(Box::new(it))),
            Self::Driven(driver, client) => driven::events(driver, client, &all).await.map(Events::Driven),
        }
    }
}

/// A call that is watched.
pub(crate) enum Execution {
    Direct(Box<direct::Execution>),
    Driven(Box<driven::Execution>),
}

impl Execution {
    /// Returns the next event, heartbeats left out; `None` when the stream has ended. Nothing is lost if the future is
    /// dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<CallEvent>> {
        match self {
            Self::Direct(call) => call.next().await,
            Self::Driven(call) => call.next().await,
        }
    }

    /// Asks the call to stop.
    pub(crate) async fn cancel(&mut self) -> Result<()> {
        match self {
            Self::Direct(call) => call.cancel().await,
            Self::Driven(call) => call.cancel().await,
        }
    }
}

/// What an approver is told.
pub(crate) enum Notice {
    /// A prompt is open.
    Added(Box<Prompt>),
    /// What became of a reply, and why if it was not taken.
    Replied(ReplyResult, String),
}

/// An approver's side.
pub(crate) enum Approvals {
    Direct(direct::Approvals),
    Driven(driven::Approvals),
}

impl Approvals {
    /// Waits for what there is to know. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Notice> {
        match self {
            Self::Direct(approvals) => approvals.next().await,
            Self::Driven(approvals) => approvals.next().await,
        }
    }

    /// Answers a prompt.
    pub(crate) async fn reply(&mut self, reply: PromptReply) -> Result<()> {
        match self {
            Self::Direct(approvals) => approvals.reply(reply).await,
            Self::Driven(approvals) => approvals.reply(&reply).await,
        }
    }
}

/// A host's side.
pub(crate) enum Hosting {
    Direct(direct::Hosting),
    Driven(driven::Hosting),
}

impl Hosting {
    /// What could not be lent.
    pub(crate) fn refused(&self) -> &[HostRefused] {
        match self {
            Self::Direct(host) => &host.refused,
            Self::Driven(host) => &host.refused,
        }
    }

    /// Waits for a subagent to run.
    pub(crate) async fn next(&mut self) -> Result<HostRunSubagent> {
        match self {
            Self::Direct(host) => host.next().await,
            Self::Driven(host) => host.next().await,
        }
    }

    /// Reports on an invocation.
    pub(crate) async fn report(&mut self, report: HostReport) -> Result<()> {
        match self {
            Self::Direct(host) => host.report(report).await,
            Self::Driven(host) => host.report(&report).await,
        }
    }
}

/// Events of the service.
pub(crate) enum Events {
    Direct(Box<tonic::Streaming<WatchEventsResponse>>),
    Driven(driven::Events),
}

impl Events {
    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Result<WatchEventsResponse> {
        let event = match self {
            Self::Direct(events) => events.message().await.context("the events broke")?,
            Self::Driven(events) => events.next().await?,
        };
        match event {
            Some(event) => Ok(event),
            None => bail!("the events ended"),
        }
    }
}
