//! Prompts of all workers as one stream.
//!
//! *Invariant:* what was missed while a worker was away is made up for. The prompts of a worker are not kept back for another one.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::{Code, Status};
use toolgate_contract::channel_response::Message as Told;
use toolgate_contract::*;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;

use crate::directory::Kind;
use crate::follow::{self, Followed, Follower, of_all};
use crate::parts::Parts;
use crate::wire::{Messages, decode, framed, gone, streaming};
use crate::worker::Worker;

/// Messages that are kept back until all prompts that are open were told.
const MAX_HELD: usize = 1000;

/// How long a client waits for the prompts of a worker that is away, before the others are shown without.
pub(crate) const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(2);

/// Replies of one client that are under way, or wait for a worker that is away; more are not read.
const MAX_REPLIES: usize = 1000;

/// How long to wait before a reply is sent to its worker again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How long a worker may take to answer a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Something that is heard of one worker.
enum Heard {
    Said(Box<Told>),
    /// All prompts that are open were told.
    Complete,
}

/// What a client of prompts knows.
struct Inbox {
    /// Workers whose prompts were not told yet.
    awaited: BTreeSet<usize>,
    prompts: i32,
    /// What came before all prompts that are open were told.
    held: VecDeque<Told>,
    snapshot_ended: bool,
}

impl Inbox {
    fn new(workers: usize) -> Self {
        Self {
            awaited: (0..workers).collect(),
            prompts: 0,
            held: VecDeque::new(),
            snapshot_ended: false,
        }
    }

    /// Returns what to tell now.
    fn hear(&mut self, at: usize, heard: Heard) -> Vec<Told> {
        match heard {
            Heard::Said(told) if self.snapshot_ended => vec![*told],
            Heard::Said(told) => match &*told {
                Told::PromptAdded(_) if self.awaited.contains(&at) => {
                    self.prompts += 1;
                    vec![*told]
                }
                Told::Heartbeat(_) => vec![*told],
                Told::Opened(_)
                | Told::PromptAdded(_)
                | Told::SnapshotEnd(_)
                | Told::PromptResolved(_)
                | Told::ReplyResult(_)
                | Told::PromptUpdated(_) => {
                    self.held.push_back(*told);
                    match self.held.len() < MAX_HELD {
                        true => Vec::new(),
                        false => self.end_snapshot(),
                    }
                }
            },
            Heard::Complete => {
                self.awaited.remove(&at);
                match self.awaited.is_empty() {
                    true => self.end_snapshot(),
                    false => Vec::new(),
                }
            }
        }
    }

    /// Returns what to tell when no worker is waited for any more.
    fn end_snapshot(&mut self) -> Vec<Told> {
        if std::mem::replace(&mut self.snapshot_ended, true) {
            return Vec::new();
        }
        let end = SnapshotEnd { prompts: self.prompts };
        let mut told = vec![Told::SnapshotEnd(end)];
        told.extend(self.held.drain(..));
        told
    }
}

/// The prompts of one worker.
struct WorkersPrompts {
    open: ChannelOpen,
    watches_only: bool,
    /// The prompts that the client was told of and that are open.
    known: BTreeSet<String>,
    /// Whether all that are open were told once.
    is_complete: bool,
}

impl Followed for WorkersPrompts {
    type Told = Heard;

    async fn once(&mut self, by: &Follower<Heard>) -> Result<(), Status> {
        let mut stream = open_prompts(&by.caller, &self.open, self.watches_only, &by.worker).await?;
        let mut snapshot = Some(BTreeSet::new());
        while let Some(message) = stream.next().await {
            let told = match message?.message {
                None | Some(Told::Opened(_) | Told::ReplyResult(_)) => continue,
                Some(Told::SnapshotEnd(_)) => {
                    let there = snapshot.take().unwrap_or_default();
                    if !self.make_up(by, &there).await? {
                        return Ok(());
                    }
                    if !std::mem::replace(&mut self.is_complete, true) && !by.tell(Heard::Complete).await {
                        return Ok(());
                    }
                    continue;
                }
                Some(Told::PromptAdded(PromptAdded { prompt: Some(prompt) })) => {
                    let (parts, worker, id) = (&by.parts, &by.worker, &prompt.prompt_id);
                    if !parts.registry.counts(worker, &prompt.workspace) {
                        continue;
                    }
                    parts.directory.learn(Kind::Prompt, id, worker, &prompt.workspace);
                    if let Some(there) = &mut snapshot {
                        there.insert(id.clone());
                    }
                    if !self.known.insert(id.clone()) {
                        continue;
                    }
                    Told::PromptAdded(PromptAdded { prompt: Some(prompt) })
                }
                // A worker speaks of its own prompts only.
                Some(Told::PromptResolved(PromptResolved { prompt: Some(prompt) })) => {
                    if !self.known.remove(&prompt.prompt_id) {
                        continue;
                    }
                    Told::PromptResolved(PromptResolved { prompt: Some(prompt) })
                }
                Some(Told::PromptUpdated(PromptUpdated { prompt: Some(prompt) })) => {
                    if !self.known.contains(&prompt.prompt_id) {
                        continue;
                    }
                    Told::PromptUpdated(PromptUpdated { prompt: Some(prompt) })
                }
                Some(Told::Heartbeat(heartbeat)) => Told::Heartbeat(ChannelHeartbeat {
                    // That a worker stops is not that the gateway does.
                    draining: false,
                    ..heartbeat
                }),
                // One without a prompt says nothing.
                Some(Told::PromptUpdated(_) | Told::PromptAdded(_) | Told::PromptResolved(_)) => continue,
            };
            if !by.tell(Heard::Said(Box::new(told))).await {
                return Ok(());
            }
        }
        Err(follow::closed())
    }
}

impl WorkersPrompts {
    /// Tells what became of prompts that the client knows and that are open no more: they were answered meanwhile. Says whether the
    /// client still listens.
    async fn make_up(&mut self, by: &Follower<Heard>, there: &BTreeSet<String>) -> Result<bool, Status> {
        for prompt_id in self.known.difference(there).cloned().collect::<Vec<_>>() {
            let question = GetPromptRequest {
                prompt_id: prompt_id.clone(),
            };
            let path = "/toolgate.v1.PermissionService/GetPrompt";
            let answer: Result<GetPromptResponse, _> = by.worker.ask(path, question, Some(&by.caller.entry())).await;
            let resolved = match answer {
                Ok(GetPromptResponse { prompt }) => Some(PromptResolved { prompt }),
                Err(status) if status.code() == Code::NotFound => None,
                // The next attempt tells of it.
                Err(status) => return Err(status),
            };
            self.known.remove(&prompt_id);
            let told = resolved.map(|resolved| Heard::Said(Box::new(Told::PromptResolved(resolved))));
            if let Some(told) = told
                && !by.tell(told).await
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

type Prompts = std::pin::Pin<Box<dyn Stream<Item = Result<ChannelResponse, Status>> + Send>>;

/// Opens the stream that counts as an approver, or the one that only watches.
async fn open_prompts(
    caller: &OnBehalf,
    open: &ChannelOpen,
    watches_only: bool,
    worker: &Worker,
) -> Result<Prompts, Status> {
    let entry = caller.entry();
    if watches_only {
        let question = stream::iter([WatchPromptsRequest {
            filter: open.filter.clone(),
        }]);
        let path = "/toolgate.v1.PermissionService/WatchPrompts";
        let (stream, kept) = worker.follow::<_, WatchPromptsResponse>(path, question, &entry).await?;
        return Ok(Box::pin(stream.map(move |message| {
            let _kept = &kept;
            message.map(of_watcher)
        })));
    }
    let first = ChannelRequest {
        message: Some(channel_request::Message::Open(open.clone())),
    };
    // A request that goes on keeps the stream open, also when nobody reads the answer any more: it ends with its reader.
    let (reading, read) = oneshot::channel::<Infallible>();
    let questions = stream::iter([first]).chain(stream::once(read).filter_map(|_| async { None }));
    let path = "/toolgate.v1.PermissionService/Channel";
    let (stream, kept) = worker.follow::<_, ChannelResponse>(path, questions, &entry).await?;
    Ok(Box::pin(stream.map(move |message| {
        let _kept = (&kept, &reading);
        message
    })))
}

fn of_watcher(message: WatchPromptsResponse) -> ChannelResponse {
    use watch_prompts_response::Message as Watched;
    let message = message.message.map(|message| match message {
        Watched::Opened(opened) => Told::Opened(opened),
        Watched::PromptAdded(added) => Told::PromptAdded(added),
        Watched::SnapshotEnd(end) => Told::SnapshotEnd(end),
        Watched::PromptUpdated(updated) => Told::PromptUpdated(updated),
        Watched::PromptResolved(resolved) => Told::PromptResolved(resolved),
        Watched::Heartbeat(heartbeat) => Told::Heartbeat(heartbeat),
    });
    ChannelResponse { message }
}

fn to_watcher(told: Told) -> Option<WatchPromptsResponse> {
    use watch_prompts_response::Message as Watched;
    let message = match told {
        Told::Opened(opened) => Watched::Opened(opened),
        Told::PromptAdded(added) => Watched::PromptAdded(added),
        Told::SnapshotEnd(end) => Watched::SnapshotEnd(end),
        Told::PromptUpdated(updated) => Watched::PromptUpdated(updated),
        Told::PromptResolved(resolved) => Watched::PromptResolved(resolved),
        Told::Heartbeat(heartbeat) => Watched::Heartbeat(heartbeat),
        Told::ReplyResult(_) => return None,
    };
    Some(WatchPromptsResponse { message: Some(message) })
}

/// What is told of the prompts of all workers.
fn told(
    parts: &Arc<Parts>,
    caller: &OnBehalf,
    open: ChannelOpen,
    watches_only: bool,
) -> impl Stream<Item = Result<Told, Status>> + Send + use<> {
    // Counted before they are followed: the first ones have these numbers.
    let mut inbox = Inbox::new(parts.registry.workers_for(caller).len());
    let (receiver, tasks) = of_all(parts, caller, move |_| WorkersPrompts {
        open: open.clone(),
        watches_only,
        known: BTreeSet::new(),
        is_complete: false,
    });
    let opened = Told::Opened(ChannelOpened {
        instance_id: parts.facts.instance.clone(),
    });
    let closing = parts.closing.turn();
    let patience = Instant::now() + SNAPSHOT_PATIENCE;
    let mut ready = VecDeque::from([opened]);
    if inbox.awaited.is_empty() {
        ready.extend(inbox.end_snapshot());
    }
    let state = (receiver, tasks, inbox, ready);
    stream::try_unfold(state, move |(mut receiver, tasks, mut inbox, mut ready)| {
        let closing = closing.clone();
        async move {
            loop {
                if let Some(told) = ready.pop_front() {
                    return Ok(Some((told, (receiver, tasks, inbox, ready))));
                }
                let heard = async {
                    match inbox.snapshot_ended {
                        true => Ok(receiver.recv().await),
                        // The prompts of the others are not kept back for a worker that is away or hangs.
                        false => timeout_at(patience, receiver.recv()).await,
                    }
                };
                match closing.run_until_cancelled(heard).await {
                    None | Some(Ok(None)) => return Err(status::draining()),
                    Some(Ok(Some(heard))) => {
                        let (at, heard) = heard?;
                        ready.extend(inbox.hear(at, heard));
                    }
                    Some(Err(_)) => ready.extend(inbox.end_snapshot()),
                }
            }
        }
    })
}

/// Watches the prompts of all workers.
pub(crate) fn prompts(parts: Arc<Parts>, caller: OnBehalf, question: WatchPromptsRequest) -> Response<Body> {
    let open = ChannelOpen {
        filter: question.filter,
        ..ChannelOpen::default()
    };
    let told = told(&parts, &caller, open, true);
    streaming(told.filter_map(|told| async {
        match told {
            Ok(told) => to_watcher(told).map(|message| Ok(framed(&message))),
            Err(status) => Some(Err(status)),
        }
    }))
}

/// The same, and takes replies, each to the worker of its prompt.
pub(crate) fn channel(
    parts: Arc<Parts>,
    caller: OnBehalf,
    first: ChannelRequest,
    messages: Messages,
) -> Result<Response<Body>, Status> {
    let Some(channel_request::Message::Open(open)) = first.message else {
        return Err(status::bad_field("message", "the first message of a channel is `open`"));
    };
    let told = told(&parts, &caller, open.clone(), false);
    // All replies that are under way have room for the bytes of the largest message.
    let room = Arc::new(Semaphore::new(parts.limit.min(Semaphore::MAX_PERMITS)));
    let replies = stream::try_unfold((messages, room), |(mut messages, room)| async {
        // The client has nothing more to say, or is gone: the other half shows which.
        let Ok(Some(message)) = messages.next().await else {
            return Ok(None);
        };
        let bytes = u32::try_from(message.len()).unwrap_or(u32::MAX);
        // It is never closed.
        let taken = room.clone().acquire_many_owned(bytes).await;
        match decode::<ChannelRequest>(&message)?.message {
            Some(channel_request::Message::Reply(reply)) => Ok(Some(((reply, taken), (messages, room)))),
            Some(channel_request::Message::Open(_)) => Err(status::bad_field("message", "the channel is already open")),
            None => Err(status::bad_field("message", "an empty message")),
        }
    });
    // One for a worker that hangs does not hold up those for others.
    let about = Arc::new((parts, caller, open.name));
    let replies = replies.map(move |read: Result<(PromptReply, _), Status>| {
        let about = about.clone();
        async move {
            let (parts, caller, name) = &*about;
            let (reply, _taken) = read?;
            let mut pause = PAUSES.0;
            loop {
                match answer(parts, caller, name, reply.clone()).await {
                    // It stays with the client's stream until the worker is back and knows the gateway. By its id it is taken as the same
                    // one, if the worker has it already.
                    Err(status) if is_passing(&status) && !reply.reply_id.is_empty() => sleep(pause).await,
                    other => return other.map(Told::ReplyResult),
                }
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    });
    let replies = replies.buffer_unordered(MAX_REPLIES);
    // The stream ends with what is told or at the first error; a client that only stops talking goes on listening.
    let both = stream::select(told, replies).scan(false, |failed, item| {
        let goes_on = !*failed;
        *failed = item.is_err();
        std::future::ready(goes_on.then_some(item))
    });
    Ok(streaming(both.map(|told| {
        told.map(|told| framed(&ChannelResponse { message: Some(told) }))
    })))
}

/// Says whether a worker may take later what it has not taken now.
fn is_passing(status: &Status) -> bool {
    [Code::Unavailable, Code::Unauthenticated, Code::ResourceExhausted].contains(&status.code())
}

/// Sends a reply to the worker of its prompt.
async fn answer(parts: &Parts, caller: &OnBehalf, name: &str, reply: PromptReply) -> Result<PromptReplyResult, Status> {
    let found = parts
        .directory
        .find(&parts.registry, caller, Kind::Prompt, &reply.prompt_id)
        .await;
    let worker = match found {
        Ok(worker) => worker,
        // One of them says what becomes of a reply to a prompt that is not there.
        Err(status) if [Code::NotFound, Code::InvalidArgument].contains(&status.code()) => parts.any(caller)?,
        Err(status) => return Err(status),
    };
    let question = ReplyPromptRequest {
        reply: Some(reply),
        name: name.to_owned(),
    };
    let path = "/toolgate.v1.PermissionService/ReplyPrompt";
    let entry = caller.entry();
    let asked = timeout(REPLY_TIMEOUT, worker.ask(path, question, Some(&entry)));
    let answer: ReplyPromptResponse = asked.await.unwrap_or_else(|_| Err(gone(&worker.name)))?;
    Ok(answer.result.unwrap_or_default())
}
