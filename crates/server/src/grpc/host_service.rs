//! `HostService`: takes tools, subagents and hooks that front ends lend, and tells them what to do.
//!
//! *Invariant:* a stream holds a seat, and dropping the stream is how a lost host is noticed. What a host says is checked
//! here, and what it says of an invocation that it was not given counts for nothing.

mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use toolgate_contract::host_event::Event;
use toolgate_contract::host_service_server::HostService;
use toolgate_contract::*;
use toolgate_engine::{DrainNotice, WorkspaceRuntime};
use toolgate_extensions::hosted::{self, Hello, Host, Next, Reported};
use toolgate_model::Timestamp;

use super::auth::Caller;
use super::convert::{int, timestamp};
use super::events::ResponseStream;
use super::status::bad_field;
use super::{Shared, status};

/// The service.
pub(crate) struct HostedTools(pub(crate) Arc<Shared>);

/// A stream of a host that is under way.
struct Serving {
    seat: Arc<hosted::HostStream>,
    first: Option<HostEvent>,
    heartbeat: Duration,
    draining: DrainNotice,
    closing: CancellationToken,
}

impl Serving {
    /// Returns what the host is told next; none if it has left.
    async fn next(&mut self) -> Result<Option<HostEvent>, Status> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(status::draining()),
            next = self.seat.next() => match next {
                Next::Tell(told) => Ok(Some(wire::event(told))),
                Next::Replaced => Err(status::replaced()),
                Next::Ended => Ok(None),
            },
            () = self.draining.due() => Ok(Some(self.heartbeat())),
            () = tokio::time::sleep(self.heartbeat) => Ok(Some(self.heartbeat())),
        }
    }

    fn heartbeat(&mut self) -> HostEvent {
        wire::message(Event::Heartbeat(HostHeartbeat {
            server_time: Some(timestamp(Timestamp::now())),
            ignored_reports: int(self.seat.host.ignored()),
            draining: self.draining.tell(),
        }))
    }

    /// Streams it, an end of its own as `None`.
    fn stream(self) -> impl Stream<Item = Result<Option<HostEvent>, Status>> + Send {
        stream::try_unfold(Some(self), |serving| async {
            let Some(mut serving) = serving else { return Ok(None) };
            let next = serving.next().await?;
            let rest = next.is_some().then_some(serving);
            Ok(Some((next, rest)))
        })
    }
}

/// Cuts a stream after its first error, or before its own end.
fn until_end(
    stream: impl Stream<Item = Result<Option<HostEvent>, Status>> + Send + 'static,
) -> impl Stream<Item = Result<HostEvent, Status>> + Send + 'static {
    stream.scan(false, |failed, item| {
        let goes_on = !*failed;
        *failed = item.is_err();
        std::future::ready(goes_on.then_some(item.transpose()).flatten())
    })
}

impl HostedTools {
    async fn hello(&self, caller: &Caller, hello: Option<HostHello>) -> Result<(Hello, Arc<WorkspaceRuntime>), Status> {
        let hello = hello.ok_or_else(|| bad_field("hello", "say hello first"))?;
        let place = caller.awake(&self.0.engine, &hello.workspace).await?;
        if place.gate.hold().is_some() {
            place.usable().map_err(status::admit)?;
        }
        let hello = wire::hello(caller, place.workspace.name(), hello)?;
        Ok((hello, place))
    }

    async fn serve(&self, caller: &Caller, hello: Option<HostHello>) -> Result<Serving, Status> {
        let (hello, place) = self.hello(caller, hello).await?;
        let workspace = hello.workspace.clone();
        let welcomed = self.0.hosts.welcome(hello, place.tools.clone()).await;
        let (welcome, seat) = welcomed.map_err(|error| status::host(&error))?;
        if place.gate.is_closed() {
            // Whoever closed it may have looked before the host was there.
            seat.leave().await;
            return Err(status::not_found("workspace", &workspace));
        }
        Ok(Serving {
            seat: Arc::new(seat),
            first: Some(wire::welcome(welcome, workspace)),
            heartbeat: self.0.heartbeat,
            draining: self.0.engine.calls().drain_notice(),
            closing: self.0.closing.turn(),
        })
    }
}

/// What a host has said.
enum Said {
    /// A report, and whether it counts.
    Report { counts: bool },
    /// That it leaves.
    Leaves,
}

async fn take(host: &Host, report: Option<HostReport>) -> Result<Said, Status> {
    let report = report.unwrap_or_default();
    let Some(said) = wire::report(report.report)? else {
        return Ok(Said::Leaves);
    };
    match host.report(&report.invocation_id, said).await {
        Reported::Accepted => Ok(Said::Report { counts: true }),
        Reported::NotOpen => Ok(Said::Report { counts: false }),
        Reported::Misfit => Err(bad_field(
            "report.report",
            "an invocation of this kind takes no such report",
        )),
        Reported::TooMany => Err(bad_field("report.ask", "too many requests in one invocation")),
    }
}

/// The requests of one stream that has said hello.
struct Listening {
    requests: Streaming<HostRequest>,
    service: HostedTools,
    caller: Arc<Caller>,
    seat: Arc<hosted::HostStream>,
}

impl Listening {
    /// Reads requests until there is something to tell; none at the end.
    async fn next(&mut self) -> Option<Result<Option<HostEvent>, Status>> {
        loop {
            let request = match self.requests.message().await {
                Ok(Some(request)) => request,
                Ok(None) => {
                    self.seat.leave().await;
                    return None;
                }
                Err(broken) => return Some(Err(broken)),
            };
            match request.message {
                Some(host_request::Message::Report(report)) => match take(&self.seat.host, Some(report)).await {
                    Ok(Said::Report { .. }) => {}
                    Ok(Said::Leaves) => self.seat.leave().await,
                    Err(status) => return Some(Err(status)),
                },
                Some(host_request::Message::Hello(hello)) => return Some(self.again(hello).await),
                None => return Some(Err(bad_field("message", "an empty message"))),
            }
        }
    }

    async fn again(&self, hello: HostHello) -> Result<Option<HostEvent>, Status> {
        let (hello, _) = self.service.hello(&self.caller, Some(hello)).await?;
        if hello.workspace != self.seat.host.workspace {
            return Err(bad_field("hello.workspace", "another workspace takes another stream"));
        }
        let workspace = hello.workspace.clone();
        let welcome = self.seat.update(hello).await.map_err(|error| status::host(&error))?;
        Ok(Some(wire::welcome(welcome, workspace)))
    }
}

#[tonic::async_trait]
impl HostService for HostedTools {
    type HostStream = ResponseStream<HostResponse>;

    async fn host(&self, request: Request<Streaming<HostRequest>>) -> Result<Response<Self::HostStream>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let mut requests = request.into_inner();
        let first = tokio::select! {
            first = requests.message() => first?,
            () = self.0.closing.at_once().cancelled() => return Err(status::draining()),
        };
        let Some(host_request::Message::Hello(hello)) = first.and_then(|request| request.message) else {
            return Err(bad_field("message", "the first message of a host is `hello`"));
        };
        let serving = self.serve(&caller, Some(hello)).await?;
        let listening = Listening {
            requests,
            service: Self(self.0.clone()),
            caller,
            seat: serving.seat.clone(),
        };
        let answers = stream::unfold(Some(listening), |listening| async {
            let mut listening = listening?;
            let next = listening.next().await?;
            let rest = next.is_ok().then_some(listening);
            Some((next, rest))
        });
        let events = until_end(stream::select(serving.stream(), answers));
        Ok(Response::new(Box::pin(events.map(move |event| {
            event.map(|event| HostResponse { event: Some(event) })
        }))))
    }

    type ServeToolsStream = ResponseStream<ServeToolsResponse>;

    async fn serve_tools(
        &self,
        request: Request<ServeToolsRequest>,
    ) -> Result<Response<Self::ServeToolsStream>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let serving = self.serve(&caller, request.into_inner().hello).await?;
        let events = until_end(serving.stream());
        Ok(Response::new(Box::pin(events.map(move |event| {
            event.map(|event| ServeToolsResponse { event: Some(event) })
        }))))
    }

    async fn report_invocation(
        &self,
        request: Request<ReportInvocationRequest>,
    ) -> Result<Response<ReportInvocationResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let host = self.0.hosts.find(&request.token, &caller.principal().id());
        // The token is a secret: it is not repeated.
        let host = host.ok_or_else(|| status::not_found("host", "of this token"))?;
        let accepted = match take(&host, request.report).await? {
            Said::Report { counts } => counts,
            Said::Leaves => {
                self.0.hosts.leave(&host).await;
                true
            }
        };
        Ok(Response::new(ReportInvocationResponse { accepted }))
    }
}
