//! Clients that do what the guides tell every client to do when something dies: they try again, elsewhere, with the same ids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::watch_prompts_response::Message;
use toolgate_contract::*;

use super::setup::{ANNA, CARL, Shown};
use crate::support::{everybody, failed, reply};

/// How long a client waits before it tries again.
pub(crate) const AGAIN: Duration = Duration::from_millis(50);

/// How long a client waits for the next thing that it is told: a gateway that was stopped says nothing, and closes nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The way to the gateways; each attempt takes the next one.
#[derive(Clone)]
pub(crate) struct Gateways {
    pub(crate) channels: Vec<Channel>,
    pub(crate) next: usize,
}

impl Gateways {
    pub(crate) fn next(&mut self) -> Channel {
        self.next += 1;
        self.channels[self.next % self.channels.len()].clone()
    }
}

/// The replies that were taken: for each prompt its call, and the ids of the replies.
pub(crate) type Accepted = Mutex<BTreeMap<String, (String, BTreeSet<String>)>>;

/// Somebody who allows what is asked.
#[derive(Clone)]
pub(crate) struct Approver {
    pub(crate) gateways: Gateways,
    pub(crate) number: usize,
}

impl Approver {
    /// Answers every prompt that comes, until there is nothing more to answer.
    pub(crate) async fn approve(mut self, accepted: Arc<Accepted>, stop: CancellationToken) {
        let mut replies = JoinSet::new();
        let mut known = BTreeSet::new();
        while !stop.is_cancelled() {
            let mut client = PermissionServiceClient::with_interceptor(self.gateways.next(), Shown(CARL, None));
            let request = WatchPromptsRequest {
                filter: Some(everybody()),
            };
            if let Ok(Ok(stream)) = timeout(PATIENCE, client.watch_prompts(request)).await {
                let mut stream = stream.into_inner();
                loop {
                    let message = tokio::select! {
                        message = timeout(PATIENCE, stream.message()) => message,
                        () = stop.cancelled() => break,
                    };
                    let Ok(Ok(Some(message))) = message else { break };
                    if let Some(Message::PromptAdded(added)) = message.message {
                        let prompt = added.prompt.unwrap();
                        if known.insert(prompt.prompt_id.clone()) {
                            replies.spawn(self.clone().answer(prompt, accepted.clone()));
                        }
                    }
                }
            }
            sleep(AGAIN).await;
        }
        while let Some(reply) = replies.join_next().await {
            reply.unwrap();
        }
    }

    /// Replies until it is known what became of it.
    async fn answer(mut self, prompt: Prompt, accepted: Arc<Accepted>) {
        let reply_id = format!("{}-{}", self.number, prompt.prompt_id);
        let request = ReplyPromptRequest {
            reply: Some(PromptReply {
                reply_id: reply_id.clone(),
                ..reply(&prompt, PromptDecision::Once)
            }),
            ..ReplyPromptRequest::default()
        };
        loop {
            let mut client = PermissionServiceClient::with_interceptor(self.gateways.next(), Shown(CARL, None));
            if let Ok(Ok(answer)) = timeout(PATIENCE, client.reply_prompt(request.clone())).await {
                match answer.into_inner().result.unwrap().result() {
                    ReplyResult::Accepted => {
                        let mut accepted = accepted.lock().unwrap();
                        let (_, replies) = accepted
                            .entry(prompt.prompt_id)
                            .or_insert((prompt.call_id, BTreeSet::new()));
                        replies.insert(reply_id);
                        return;
                    }
                    ReplyResult::AlreadyResolved => return,
                    // Its call died before it was recorded to wait for the prompt.
                    ReplyResult::Withdrawn => return self.wait_until_lost(prompt.call_id).await,
                    other => panic!("{other:?} for {prompt:?}"),
                }
            }
            sleep(AGAIN).await;
        }
    }

    /// Waits until a call has ended, which is lost.
    async fn wait_until_lost(mut self, call_id: String) {
        loop {
            let mut client = ToolServiceClient::with_interceptor(self.gateways.next(), Shown(ANNA, None));
            let request = GetCallRequest {
                call_id: call_id.clone(),
            };
            if let Ok(Ok(answer)) = timeout(PATIENCE, client.get_call(request)).await
                && let call = answer.into_inner().call.unwrap()
                && call.ending.is_some()
            {
                assert_eq!(failed(&call).reason(), FailureReason::Lost);
                return;
            }
            sleep(AGAIN).await;
        }
    }
}
