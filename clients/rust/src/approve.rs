//! Answers prompts with a function of the program.
//!
//! *Invariant:* a prompt is handled once, over as many connections as it takes, and again only if its reply was wrong. A
//! reply whose connection broke is sent again.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, abortable};
use futures_util::stream::FuturesUnordered;
use tonic::Status;
use toolgate_contract::channel_response::Message;
use toolgate_contract::{
    ChannelOpen, ChannelResponse, PromptFilter, PromptReply, PromptReplyResult, PromptState, ReplyResult,
};

use crate::channel::{ChannelEvent, PromptChannel};
use crate::client::Client;
use crate::decision::Decision;
use crate::error::{BoxError, Error};
use crate::prompt::Prompt;

/// How often a handler is called again for one prompt because its reply was wrong.
const MAX_WRONG_REPLIES: u32 = 5;

type OnError = dyn FnMut(&Prompt, BoxError) + Send;

/// Answers prompts: by default those of the calls that the client makes, of calls made on their behalf, and of the session
/// that the client was built with.
#[must_use = "an approver does nothing until it is run"]
pub struct Approver {
    client: Client,
    name: String,
    workspace: Option<String>,
    session_ids: Vec<String>,
    everybody: bool,
    on_ready: Box<dyn FnMut() + Send>,
    on_reply: Box<dyn FnMut(&PromptReplyResult) + Send>,
    on_error: Box<OnError>,
}

impl fmt::Debug for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approver")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Prepares to answer prompts. The name is recorded with the decisions and shown to others.
    pub fn approver(&self, name: impl Into<String>) -> Approver {
        Approver {
            client: self.clone(),
            name: name.into(),
            workspace: None,
            session_ids: Vec::new(),
            everybody: false,
            on_ready: Box::new(|| {}),
            on_reply: Box::new(|_| {}),
            on_error: Box::new(|prompt, error| {
                tracing::warn!(prompt = %prompt.id(), %error, "no decision about a prompt");
            }),
        }
    }
}

/// A prompt that is open, as its handler was given it last.
struct OpenPrompt {
    prompt: Prompt,
    handler: AbortHandle,
    wrong_replies: u32,
}

impl Approver {
    /// Answers only prompts of this workspace; by default of the client's, or else of all.
    pub fn workspace(mut self, name: impl Into<String>) -> Self {
        self.workspace = Some(name.into());
        self
    }

    /// Answers the prompts of these sessions instead, whoever makes the calls.
    pub fn sessions(mut self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.session_ids = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Answers the prompts of everybody's calls instead, which an approver in a program of its own needs.
    pub fn everybody(mut self) -> Self {
        self.everybody = true;
        self
    }

    /// Is called when the prompts that were open are known, again after each reconnection.
    pub fn on_ready(mut self, callback: impl FnMut() + Send + 'static) -> Self {
        self.on_ready = Box::new(callback);
        self
    }

    /// Is told what became of each reply.
    pub fn on_reply(mut self, callback: impl FnMut(&PromptReplyResult) + Send + 'static) -> Self {
        self.on_reply = Box::new(callback);
        self
    }

    /// Is told of each prompt that the handler failed on, or whose replies were wrong time after time. By default that is
    /// logged.
    pub fn on_error(mut self, callback: impl FnMut(&Prompt, BoxError) + Send + 'static) -> Self {
        self.on_error = Box::new(callback);
        self
    }

    fn filter(&self) -> PromptFilter {
        let context = self.client.context();
        let workspace = self.workspace.as_ref().unwrap_or(&context.workspace);
        let mut filter = PromptFilter {
            workspace: if workspace.is_empty() { "-" } else { workspace }.to_owned(),
            all: self.everybody,
            session_ids: self.session_ids.clone(),
            client_ids: Vec::new(),
        };
        if !self.everybody && self.session_ids.is_empty() {
            filter.client_ids.clone_from(&context.client_ids);
            filter
                .session_ids
                .extend(Some(context.session_id.clone()).filter(|id| !id.is_empty()));
        }
        filter
    }

    /// Answers prompts until its future is dropped, or the service cannot be reached any more; it returns why.
    ///
    /// `handle` is called with each prompt: one for a permission, or one with questions. Its future is dropped when the prompt is settled elsewhere. An error leaves the
    /// prompt to others. If a reply itself was wrong (`INVALID`, `DIGEST_MISMATCH`), the handler is called again, with
    /// the prompt as it stands and what was wrong; five times at most.
    ///
    /// The futures of all prompts run within this one: a handler that blocks holds up the others.
    pub async fn run<H, F>(mut self, handle: H) -> Error
    where
        H: Fn(Prompt, Option<String>) -> F,
        F: Future<Output = Result<Decision, BoxError>>,
    {
        let client = self.client.clone();
        let failure = client.unless_closed(async { Err::<(), Error>(self.serve(handle).await) });
        failure.await.err().unwrap_or(Error::Closed)
    }

    async fn serve<H, F>(&mut self, handle: H) -> Error
    where
        H: Fn(Prompt, Option<String>) -> F,
        F: Future<Output = Result<Decision, BoxError>>,
    {
        let open = ChannelOpen {
            name: self.name.clone(),
            filter: Some(self.filter()),
        };
        let mut channel = PromptChannel::new(self.client.clone(), open);
        let mut patience = self.client.patience();
        let mut known: HashMap<String, OpenPrompt> = HashMap::new();
        let mut unanswered: HashMap<String, PromptReply> = HashMap::new();
        let mut listed: Option<HashSet<String>> = None;
        let mut handlers = FuturesUnordered::new();
        let call = |prompt: Prompt, problem: Option<String>| {
            let decided = handle(prompt.clone(), problem);
            abortable(async move { (prompt, decided.await) })
        };
        loop {
            let event = tokio::select! {
                event = channel.next() => event,
                Some(decided) = handlers.next() => {
                    // A handler that was dropped has nothing to say.
                    let Ok((prompt, decision)) = decided else { continue };
                    self.send(&channel, &mut unanswered, &prompt, decision).await;
                    continue;
                }
            };
            let message = match event {
                None => return Error::Closed,
                Some(ChannelEvent::Refused(error)) => return error,
                Some(ChannelEvent::Lost(error)) => {
                    let status = error
                        .status()
                        .cloned()
                        .unwrap_or_else(|| Status::unavailable(error.to_string()));
                    // The channel itself pauses before it connects.
                    if patience.pause(&status).is_none() {
                        return error;
                    }
                    continue;
                }
                Some(ChannelEvent::Opened) => {
                    listed = Some(HashSet::new());
                    if let Some(sender) = channel.sender() {
                        for reply in unanswered.values() {
                            // What does not arrive is sent over the next connection.
                            let _ = sender.send(PromptChannel::request(reply.clone())).await;
                        }
                    }
                    continue;
                }
                Some(ChannelEvent::Message(message)) => message,
            };
            patience.succeeded();
            let ChannelResponse { message } = *message;
            match message {
                Some(Message::PromptAdded(added)) => {
                    let Some(prompt) = added.prompt.and_then(Prompt::from_message) else {
                        continue;
                    };
                    let id = prompt.id().to_owned();
                    if let Some(listed) = &mut listed {
                        listed.insert(id.clone());
                    }
                    if known.contains_key(&id) {
                        continue;
                    }
                    let (handler, abort) = call(prompt.clone(), None);
                    handlers.push(handler);
                    let open = OpenPrompt {
                        prompt,
                        handler: abort,
                        wrong_replies: 0,
                    };
                    known.insert(id, open);
                }
                Some(Message::SnapshotEnd(_)) => {
                    if let Some(listed) = listed.take() {
                        // What ended while there was no connection.
                        known.retain(|id, open| listed.contains(id) || forget(open));
                    }
                    (self.on_ready)();
                }
                Some(Message::PromptResolved(resolved)) => {
                    let id = resolved.prompt.map(|prompt| prompt.prompt_id).unwrap_or_default();
                    known.remove(&id).iter().for_each(|open| {
                        forget(open);
                    });
                }
                Some(Message::ReplyResult(result)) => {
                    if unanswered.remove(&result.reply_id).is_none() {
                        continue;
                    }
                    (self.on_reply)(&result);
                    if let Some((prompt, problem)) = self.again(&mut known, &result) {
                        let (handler, abort) = call(prompt.clone(), Some(problem));
                        handlers.push(handler);
                        if let Some(open) = known.get_mut(prompt.id()) {
                            open.handler = abort;
                        }
                    }
                }
                Some(Message::Opened(_) | Message::Heartbeat(_) | Message::PromptUpdated(_)) | None => {}
            }
        }
    }

    /// Replies with what a handler has decided.
    async fn send(
        &mut self,
        channel: &PromptChannel,
        unanswered: &mut HashMap<String, PromptReply>,
        prompt: &Prompt,
        decision: Result<Decision, BoxError>,
    ) {
        let decision = decision.unwrap_or_else(|error| {
            (self.on_error)(prompt, error);
            Decision::Leave
        });
        let Some(reply) = decision.reply_to(prompt.message()) else {
            return;
        };
        unanswered.insert(reply.reply_id.clone(), reply.clone());
        if let Some(sender) = channel.sender() {
            // What does not arrive is sent over the next connection.
            let _ = sender.send(PromptChannel::request(reply)).await;
        }
    }

    /// Returns the prompt to ask again and what was wrong with the reply, if the reply itself was wrong.
    fn again(
        &mut self,
        known: &mut HashMap<String, OpenPrompt>,
        result: &PromptReplyResult,
    ) -> Option<(Prompt, String)> {
        if !matches!(result.result(), ReplyResult::Invalid | ReplyResult::DigestMismatch) {
            return None;
        }
        let open = known.get_mut(&result.prompt_id)?;
        // A reply that cannot be read at all is answered without the prompt, which is as it was then.
        if let Some(prompt) = result.prompt.clone().and_then(Prompt::from_message) {
            open.prompt = prompt;
        }
        if open.prompt.message().state() != PromptState::Open {
            return None;
        }
        let problem = if result.message.is_empty() {
            format!("the reply was not accepted: {}", result.result().as_str_name())
        } else {
            result.message.clone()
        };
        open.wrong_replies += 1;
        if open.wrong_replies > MAX_WRONG_REPLIES {
            let text = format!("{} replies were not accepted: {problem}", open.wrong_replies);
            (self.on_error)(&open.prompt, text.into());
            return None;
        }
        Some((open.prompt.clone(), problem))
    }
}

/// Drops the handler of a prompt that has ended.
fn forget(open: &OpenPrompt) -> bool {
    open.handler.abort();
    false
}
