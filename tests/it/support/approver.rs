//! An approver on a channel.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use toolgate_contract::channel_response::Message;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::*;

/// An open channel.
pub(crate) struct Approver {
    replies: mpsc::Sender<ChannelRequest>,
    messages: Streaming<ChannelResponse>,
    /// What was open when the channel opened.
    pub(crate) snapshot: Vec<Prompt>,
}

/// A reply to a prompt as it was shown, without an id.
pub(crate) fn reply(prompt: &Prompt, decision: PromptDecision) -> PromptReply {
    let always_patterns = match &prompt.request {
        Some(prompt::Request::Permission(asked)) if decision == PromptDecision::Always => asked.always.clone(),
        Some(_) | None => Vec::new(),
    };
    PromptReply {
        always_patterns,
        prompt_id: prompt.prompt_id.clone(),
        input_digest: prompt.input_digest.clone(),
        decision: decision.into(),
        ..Default::default()
    }
}

/// The filter for everybody's prompts.
pub(crate) fn everybody() -> PromptFilter {
    PromptFilter {
        all: true,
        workspace: "-".to_owned(),
        ..PromptFilter::default()
    }
}

/// Lists everybody's prompts that are open.
pub(crate) fn list_all() -> ListPromptsRequest {
    ListPromptsRequest {
        filter: Some(everybody()),
        ..ListPromptsRequest::default()
    }
}

/// Watches everybody's prompts.
pub(crate) fn watch_all() -> WatchPromptsRequest {
    WatchPromptsRequest {
        filter: Some(everybody()),
    }
}

impl Approver {
    /// Opens a channel for all prompts and reads the snapshot.
    pub(crate) async fn open(channel: Channel, name: &str) -> Result<Self, Status> {
        Self::open_for(channel, name, everybody()).await
    }

    /// Opens a channel for the prompts that a filter lets through, and reads the snapshot.
    pub(crate) async fn open_for(channel: Channel, name: &str, filter: PromptFilter) -> Result<Self, Status> {
        let (replies, requests) = mpsc::channel(64);
        let open = ChannelOpen {
            name: name.to_owned(),
            filter: Some(filter),
        };
        let message = Some(channel_request::Message::Open(open));
        replies
            .send(ChannelRequest { message })
            .await
            .expect("the receiver is at hand");
        let messages = PermissionServiceClient::new(channel)
            .channel(ReceiverStream::new(requests))
            .await?
            .into_inner();
        let mut approver = Self {
            replies,
            messages,
            snapshot: Vec::new(),
        };
        assert!(matches!(approver.next().await?, Message::Opened(_)));
        loop {
            match approver.next().await? {
                Message::PromptAdded(added) => approver.snapshot.extend(added.prompt),
                Message::SnapshotEnd(end) => {
                    assert_eq!(end.prompts as usize, approver.snapshot.len());
                    return Ok(approver);
                }
                other => panic!("in the snapshot: {other:?}"),
            }
        }
    }

    /// The next message but heartbeats.
    pub(crate) async fn next(&mut self) -> Result<Message, Status> {
        loop {
            match self.messages.message().await? {
                Some(ChannelResponse {
                    message: Some(Message::Heartbeat(_)),
                }) => {}
                Some(ChannelResponse { message: Some(message) }) => return Ok(message),
                Some(ChannelResponse { message: None }) => panic!("an empty message"),
                None => return Err(Status::unavailable("the channel ended")),
            }
        }
    }

    /// Sends a reply; false if the channel is gone.
    pub(crate) async fn send(&self, reply: PromptReply) -> bool {
        let message = Some(channel_request::Message::Reply(reply));
        self.replies.send(ChannelRequest { message }).await.is_ok()
    }

    /// Waits for the next new prompt.
    pub(crate) async fn added(&mut self) -> Prompt {
        loop {
            if let Message::PromptAdded(added) = self.next().await.unwrap() {
                return added.prompt.unwrap();
            }
        }
    }

    /// Waits for the result of the next reply.
    pub(crate) async fn result(&mut self) -> PromptReplyResult {
        loop {
            if let Message::ReplyResult(result) = self.next().await.unwrap() {
                return result;
            }
        }
    }

    /// Waits until this prompt has ended.
    pub(crate) async fn resolved(&mut self, id: &str) -> Prompt {
        loop {
            if let Message::PromptResolved(resolved) = self.next().await.unwrap() {
                let prompt = resolved.prompt.unwrap();
                if prompt.prompt_id == id {
                    return prompt;
                }
            }
        }
    }
}
