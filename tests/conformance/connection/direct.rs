//! The service by the runner's own stubs.
//!
//! *Invariant:* a stream that does not keep to the contract is an error of the case.

use anyhow::{Context as _, Result, bail, ensure};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;
use toolgate_contract::host_service_client::HostServiceClient;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::{
    CallEvent, CancelCallRequest, ChannelOpen, ChannelRequest, ChannelResponse, ExecuteToolRequest,
    ExecuteToolResponse, HostEvent, HostHello, HostRefused, HostReport, HostRequest, HostResponse, HostRunSubagent,
    ListToolsRequest, PromptFilter, PromptReply, ToolDefinition, WatchEventsRequest, WatchEventsResponse, call_event,
    channel_request, channel_response, host_event, host_request,
};

use super::{MESSAGE_LIMIT, Notice, Way};

/// How many messages may wait in either direction.
const QUEUE: usize = 64;

pub(super) async fn unary<M: Message + Default + 'static>(
    channel: Way,
    method: &str,
    request: impl Message + Default + 'static,
) -> Result<M> {
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    grpc.ready().await?;
    let path = PathAndQuery::try_from(format!("/{method}"))?;
    let answer = grpc.unary(tonic::Request::new(request), path, ProstCodec::default());
    Ok(answer.await?.into_inner())
}

pub(super) async fn tools(channel: Way, mut request: ListToolsRequest) -> Result<Vec<ToolDefinition>> {
    let mut client = ToolServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let mut tools = Vec::new();
    loop {
        let page = client.list_tools(request.clone()).await?.into_inner();
        tools.extend(page.tools);
        if page.next_page_token.is_empty() {
            return Ok(tools);
        }
        request.page_token = page.next_page_token;
    }
}

pub(super) async fn events(channel: Way, request: WatchEventsRequest) -> Result<Streaming<WatchEventsResponse>> {
    let mut client = SessionServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let response = client.watch_events(request).await.context("WatchEvents")?;
    Ok(response.into_inner())
}

/// A call by ExecuteTool.
pub(crate) struct Execution {
    call_id: String,
    tools: ToolServiceClient<Way>,
    events: Streaming<ExecuteToolResponse>,
    last_sequence: i64,
}

pub(super) async fn execute(channel: Way, request: ExecuteToolRequest) -> Result<Execution> {
    let mut tools = ToolServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let call_id = request.call_id.clone();
    let events = tools.execute_tool(request).await.context("ExecuteTool")?.into_inner();
    Ok(Execution {
        call_id,
        tools,
        events,
        last_sequence: 0,
    })
}

impl Execution {
    /// Checks what the contract says of the sequence, too: from 1, without gaps.
    pub(super) async fn next(&mut self) -> Result<Option<CallEvent>> {
        loop {
            let Some(response) = self.events.message().await.context("the stream broke")? else {
                return Ok(None);
            };
            let event = response.event.context("a response without an event")?;
            let expected = match &event.event {
                Some(call_event::Event::Heartbeat(_)) => continue,
                Some(call_event::Event::Gap(gap)) => {
                    ensure!(
                        gap.first_sequence == self.last_sequence + 1,
                        "a gap that does not follow event {}: {gap:?}",
                        self.last_sequence
                    );
                    gap.last_sequence
                }
                Some(_) | None => self.last_sequence + 1,
            };
            ensure!(
                event.sequence == expected,
                "event {} came where {expected} was due",
                event.sequence
            );
            self.last_sequence = event.sequence;
            return Ok(Some(event));
        }
    }

    pub(super) async fn cancel(&mut self) -> Result<()> {
        let request = CancelCallRequest {
            call_id: self.call_id.clone(),
        };
        self.tools.cancel_call(request).await.context("CancelCall")?;
        Ok(())
    }
}

/// An approver by Channel.
pub(crate) struct Approvals {
    incoming: Streaming<ChannelResponse>,
    outgoing: mpsc::Sender<ChannelRequest>,
}

/// Opens the channel, and waits until it is known what is open.
pub(super) async fn approvals(channel: Way, name: &str) -> Result<Approvals> {
    let (outgoing, requests) = mpsc::channel(QUEUE);
    let open = ChannelOpen {
        name: name.to_owned(),
        filter: Some(PromptFilter {
            all: true,
            ..PromptFilter::default()
        }),
    };
    say(&outgoing, channel_request::Message::Open(open)).await?;
    let mut client = PermissionServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let response = client.channel(ReceiverStream::new(requests)).await;
    let incoming = response.context("opening the channel")?.into_inner();
    let mut approvals = Approvals { incoming, outgoing };
    let first = approvals.message().await?;
    if !matches!(first, channel_response::Message::Opened(_)) {
        bail!("the channel's first message is not `opened`: {first:?}");
    }
    let second = approvals.message().await?;
    if !matches!(second, channel_response::Message::SnapshotEnd(_)) {
        bail!("a fresh server has open prompts: {second:?}");
    }
    Ok(approvals)
}

async fn say(outgoing: &mpsc::Sender<ChannelRequest>, message: channel_request::Message) -> Result<()> {
    let request = ChannelRequest { message: Some(message) };
    outgoing.send(request).await.ok().context("the channel is closed")
}

impl Approvals {
    async fn message(&mut self) -> Result<channel_response::Message> {
        let response = self.incoming.message().await.context("the channel broke")?;
        let response = response.context("the channel ended")?;
        response.message.context("an empty message in the channel")
    }

    pub(super) async fn next(&mut self) -> Result<Notice> {
        loop {
            match self.message().await? {
                channel_response::Message::PromptAdded(added) => {
                    let prompt = added.prompt.context("`prompt_added` without a prompt")?;
                    return Ok(Notice::Added(Box::new(prompt)));
                }
                channel_response::Message::ReplyResult(result) => {
                    return Ok(Notice::Replied(result.result(), result.message));
                }
                channel_response::Message::PromptUpdated(_)
                | channel_response::Message::PromptResolved(_)
                | channel_response::Message::Heartbeat(_) => {}
                message @ (channel_response::Message::Opened(_) | channel_response::Message::SnapshotEnd(_)) => {
                    bail!("the channel sent {message:?} twice")
                }
            }
        }
    }

    pub(super) async fn reply(&mut self, reply: PromptReply) -> Result<()> {
        say(&self.outgoing, channel_request::Message::Reply(reply)).await
    }
}

/// A host by Host.
pub(crate) struct Hosting {
    incoming: Streaming<HostResponse>,
    outgoing: mpsc::Sender<HostRequest>,
    pub(super) refused: Vec<HostRefused>,
}

/// Says hello and waits for the welcome.
pub(super) async fn host(channel: Way, hello: HostHello) -> Result<Hosting> {
    let (outgoing, requests) = mpsc::channel(QUEUE);
    tell(&outgoing, host_request::Message::Hello(hello)).await?;
    let mut client = HostServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let response = client.host(ReceiverStream::new(requests)).await;
    let incoming = response.context("opening the host's stream")?.into_inner();
    let mut hosting = Hosting {
        incoming,
        outgoing,
        refused: Vec::new(),
    };
    let first = hosting.message().await?;
    let host_event::Event::Welcome(welcome) = first else {
        bail!("the host's first message is not `welcome`: {first:?}");
    };
    hosting.refused = welcome.refused;
    Ok(hosting)
}

async fn tell(outgoing: &mpsc::Sender<HostRequest>, message: host_request::Message) -> Result<()> {
    let request = HostRequest { message: Some(message) };
    outgoing.send(request).await.ok().context("the host's stream is closed")
}

impl Hosting {
    async fn message(&mut self) -> Result<host_event::Event> {
        let response = self.incoming.message().await.context("the host's stream broke")?;
        let event: Option<HostEvent> = response.context("the host's stream ended")?.event;
        event.and_then(|event| event.event).context("the host was told nothing")
    }

    pub(super) async fn next(&mut self) -> Result<HostRunSubagent> {
        loop {
            match self.message().await? {
                host_event::Event::RunSubagent(run) => return Ok(run),
                host_event::Event::Cancel(_) | host_event::Event::Heartbeat(_) => {}
                other @ (host_event::Event::Welcome(_)
                | host_event::Event::Invoke(_)
                | host_event::Event::Hook(_)
                | host_event::Event::AskResult(_)) => bail!("the host was told {other:?}"),
            }
        }
    }

    pub(super) async fn report(&mut self, report: HostReport) -> Result<()> {
        tell(&self.outgoing, host_request::Message::Report(report)).await
    }
}
