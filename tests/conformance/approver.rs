//! The person of a case: sees every prompt through `PermissionService.Channel` and gives the replies that the steps name.
//!
//! *Invariant:* each prompt gets the first reply left for its permission; without one it is refused. A prompt of a step
//! that runs beside an earlier one is answered only after that one has asked, or has ended.

use std::collections::HashMap;
use std::convert::Infallible;

use anyhow::{Context as _, Result, bail};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use toolgate::grpc::proto::permission_service_client::PermissionServiceClient;
use toolgate::grpc::proto::{
    ChannelOpen, ChannelRequest, ChannelResponse, Prompt, PromptDecision, PromptReply, ReplyResult, channel_request,
    channel_response, prompt,
};

use crate::case::{Answer, Reply};

/// How many messages may wait in either direction.
const QUEUE: usize = 64;

/// What the player tells the approver.
pub(crate) enum Notice {
    /// A call is about to start.
    Started {
        call_id: String,
        replies: Vec<Reply>,
        /// The call that must have asked first.
        after: Option<String>,
    },
    /// A call has ended.
    Ended { call_id: String },
}

/// Answers the prompts of one case.
pub(crate) struct Approver {
    incoming: Streaming<ChannelResponse>,
    outgoing: mpsc::Sender<ChannelRequest>,
    notices: mpsc::Receiver<Notice>,
    desk: Desk,
}

impl Approver {
    /// Opens the channel, and waits until it is known what is open.
    pub(crate) async fn open(channel: Channel) -> Result<(Self, mpsc::Sender<Notice>)> {
        let (outgoing, requests) = mpsc::channel(QUEUE);
        let open = ChannelOpen {
            name: "conformance".to_owned(),
            filter: None,
        };
        send(&outgoing, channel_request::Message::Open(open)).await?;
        let mut client = PermissionServiceClient::new(channel);
        let response = client
            .channel(ReceiverStream::new(requests))
            .await
            .context("opening the channel")?;
        let mut incoming = response.into_inner();
        let first = next(&mut incoming).await?;
        if !matches!(first, channel_response::Message::Opened(_)) {
            bail!("the channel's first message is not `opened`: {first:?}");
        }
        let second = next(&mut incoming).await?;
        if !matches!(second, channel_response::Message::SnapshotEnd(_)) {
            bail!("a fresh server has open prompts: {second:?}");
        }
        let (notify, notices) = mpsc::channel(QUEUE);
        Ok((
            Self {
                incoming,
                outgoing,
                notices,
                desk: Desk::default(),
            },
            notify,
        ))
    }

    /// Answers prompts until something goes wrong; the player drops it when the steps are done.
    pub(crate) async fn run(mut self) -> Result<Infallible> {
        loop {
            let due = tokio::select! {
                // A call is announced before it starts: its notice is read before its prompts.
                biased;
                notice = self.notices.recv() => self.desk.note(notice.context("the player is gone")?),
                message = next(&mut self.incoming) => self.read(message?)?,
            };
            for (prompt, decision, message) in due {
                let reply = PromptReply {
                    reply_id: format!("reply-to-{}", prompt.prompt_id),
                    prompt_id: prompt.prompt_id,
                    decision: decision.into(),
                    message,
                    input_digest: prompt.input_digest,
                    ..PromptReply::default()
                };
                send(&self.outgoing, channel_request::Message::Reply(reply)).await?;
            }
        }
    }

    fn read(&mut self, message: channel_response::Message) -> Result<Vec<Due>> {
        match message {
            channel_response::Message::PromptAdded(added) => {
                Ok(self.desk.take(added.prompt.context("`prompt_added` without a prompt")?))
            }
            channel_response::Message::ReplyResult(result) => match result.result() {
                // Another reply, or a cancellation, may have settled the prompt a moment before.
                ReplyResult::Accepted | ReplyResult::AlreadyResolved | ReplyResult::Withdrawn => Ok(Vec::new()),
                result_kind @ (ReplyResult::Unspecified
                | ReplyResult::NotFound
                | ReplyResult::Expired
                | ReplyResult::DigestMismatch
                | ReplyResult::OtherInstance
                | ReplyResult::Invalid) => bail!("a reply was not taken: {result_kind:?}: {}", result.message),
            },
            channel_response::Message::PromptResolved(_) | channel_response::Message::Heartbeat(_) => Ok(Vec::new()),
            message @ (channel_response::Message::Opened(_) | channel_response::Message::SnapshotEnd(_)) => {
                bail!("the channel sent {message:?} twice")
            }
        }
    }
}

async fn next(incoming: &mut Streaming<ChannelResponse>) -> Result<channel_response::Message> {
    let response = incoming
        .message()
        .await
        .context("the channel broke")?
        .context("the channel ended")?;
    response.message.context("an empty message in the channel")
}

async fn send(outgoing: &mpsc::Sender<ChannelRequest>, message: channel_request::Message) -> Result<()> {
    let request = ChannelRequest { message: Some(message) };
    outgoing.send(request).await.ok().context("the channel is closed")
}

/// A prompt and what is answered to it.
pub(crate) type Due = (Prompt, PromptDecision, String);

/// Decides who is answered what, and when.
#[derive(Default)]
pub(crate) struct Desk {
    calls: HashMap<String, Asker>,
    held: Vec<Prompt>,
}

#[derive(Default)]
struct Asker {
    replies: Vec<Reply>,
    after: Option<String>,
    /// Has asked, or has ended.
    seen: bool,
}

impl Desk {
    /// Takes a notice; returns the answers that are due now.
    pub(crate) fn note(&mut self, notice: Notice) -> Vec<Due> {
        match notice {
            Notice::Started {
                call_id,
                replies,
                after,
            } => {
                self.calls.insert(
                    call_id,
                    Asker {
                        replies,
                        after,
                        seen: false,
                    },
                );
            }
            Notice::Ended { call_id } => self.calls.entry(call_id).or_default().seen = true,
        }
        self.due()
    }

    /// Takes a prompt; returns the answers that are due now.
    pub(crate) fn take(&mut self, prompt: Prompt) -> Vec<Due> {
        self.calls.entry(prompt.call_id.clone()).or_default().seen = true;
        self.held.push(prompt);
        self.due()
    }

    fn due(&mut self) -> Vec<Due> {
        let mut due = Vec::new();
        for prompt in std::mem::take(&mut self.held) {
            if self.must_wait(&prompt) {
                self.held.push(prompt);
            } else if let Some((decision, message)) = self.decide(&prompt) {
                due.push((prompt, decision, message));
            }
        }
        due
    }

    fn must_wait(&self, prompt: &Prompt) -> bool {
        let after = self.calls.get(&prompt.call_id).and_then(|asker| asker.after.as_ref());
        after.is_some_and(|earlier| !self.calls.get(earlier).is_some_and(|asker| asker.seen))
    }

    /// Returns what is answered; `None` leaves the prompt open.
    fn decide(&mut self, prompt: &Prompt) -> Option<(PromptDecision, String)> {
        let refused = Some((PromptDecision::Reject, String::new()));
        let Some(prompt::Request::Permission(asked)) = &prompt.request else {
            return refused;
        };
        let replies = self.calls.get_mut(&prompt.call_id).map(|asker| &mut asker.replies);
        let Some(replies) = replies else {
            return refused;
        };
        let is_for_it =
            |reply: &Reply| matches!(reply, Reply::Permission { permission, .. } if *permission == asked.permission);
        let Some(index) = replies.iter().position(is_for_it) else {
            return refused;
        };
        match replies.remove(index) {
            Reply::Permission { answer, message, .. } => match answer {
                Answer::Once => Some((PromptDecision::Once, message)),
                Answer::Always => Some((PromptDecision::Always, message)),
                Answer::Reject => Some((PromptDecision::Reject, message)),
                Answer::None => None,
            },
            Reply::Question | Reply::Subagent => refused,
        }
    }
}
