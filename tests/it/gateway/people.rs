//! Clients that do what the guides tell every client to do when something dies: they try again, elsewhere, with the same ids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::watch_prompts_response::Message;
use toolgate_contract::*;

use super::setup::{CARL, Shown};
use crate::support::{everybody, reply};

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
    /// What is said of a reply that is to be sent again.
    pub(crate) not_yet: &'static [ReplyResult],
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
                    result if self.not_yet.contains(&result) => {}
                    other => panic!("{other:?} for {prompt:?}"),
                }
            }
            sleep(AGAIN).await;
        }
    }
}
