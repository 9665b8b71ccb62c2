//! Prompts and events of all workers as one stream.
//!
//! *Invariant:* one task for each worker and client, and one bounded buffer for each client: whoever reads slowly holds up the streams
//! of its own only. A worker that goes away ends nothing: its stream is opened again, and what was missed is made up for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::{Code, Status};
use toolgate_contract::channel_response::Message as Told;
use toolgate_contract::*;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;

use crate::directory::Kind;
use crate::parts::Parts;
use crate::wire::{Messages, decode, framed, streaming};
use crate::worker::Worker;

/// Messages that wait for one client.
const BUFFER: usize = 16;

/// Messages that are kept back until all prompts that are open were told.
const MAX_HELD: usize = 1000;

/// How long to wait before a worker is tried again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How long a client waits for the prompts of a worker that is away, before the others are shown without.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(2);

/// What comes of one worker: which one that is, and what it says.
type News<T> = Result<(usize, T), Status>;

/// Something that is heard of one worker.
enum Heard {
    Said(Box<Told>),
    /// All prompts that are open were told.
    Complete,
}

/// Runs one task for each worker, also for those that come later, which end with the stream. Those that are there now have the
/// first numbers.
fn of_all<T, F>(
    parts: &Parts,
    follow: impl Fn(usize, Arc<Worker>, mpsc::Sender<News<T>>) -> F + Send + 'static,
) -> (mpsc::Receiver<News<T>>, JoinSet<()>)
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(BUFFER);
    let mut known = parts.registry.subscribe();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut numbers, mut followed) = (0.., Vec::<(Arc<Worker>, AbortHandle)>::new());
        let mut followers = JoinSet::new();
        loop {
            let workers = known.borrow_and_update().clone();
            let is_one = |worker: &Arc<Worker>| workers.iter().any(|one| Arc::ptr_eq(one, worker));
            for (_, task) in followed.extract_if(.., |(worker, _)| !is_one(worker)) {
                task.abort();
            }
            for worker in workers.iter() {
                if followed.iter().any(|(one, _)| Arc::ptr_eq(one, worker)) {
                    continue;
                }
                let Some(at) = numbers.next() else { return };
                let task = followers.spawn(follow(at, worker.clone(), sender.clone()));
                followed.push((worker.clone(), task));
            }
            if known.changed().await.is_err() {
                return;
            }
        }
    });
    (receiver, tasks)
}

/// Says whether a stream that ended so may be opened again.
fn may_come_back(status: &Status) -> bool {
    [
        Code::Unavailable,
        Code::Aborted,
        Code::Cancelled,
        Code::Unknown,
        Code::Internal,
    ]
    .contains(&status.code())
}

/// Waits before a stream is opened again that began at this moment, and returns the pause after the next one.
async fn rest(began: Instant, pause: Duration) -> Duration {
    // One that held for a while broke for another reason than the one before.
    let pause = if began.elapsed() > PAUSES.1 { PAUSES.0 } else { pause };
    tokio::time::sleep(pause).await;
    (pause * 2).min(PAUSES.1)
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

/// Follows the prompts of one worker for as long as the client listens.
async fn follow_prompts(
    parts: Arc<Parts>,
    caller: OnBehalf,
    open: ChannelOpen,
    watches_only: bool,
    (at, worker): (usize, Arc<Worker>),
    heard: mpsc::Sender<News<Heard>>,
) {
    let (mut known, mut pause) = (BTreeSet::new(), PAUSES.0);
    let mut is_complete = false;
    loop {
        let began = Instant::now();
        let followed = follow_once(
            &parts,
            &caller,
            &open,
            watches_only,
            (at, &worker),
            &heard,
            &mut known,
            &mut is_complete,
        );
        let ended = followed.await;
        match ended {
            // The client is gone.
            Ok(()) => return,
            Err(status) if may_come_back(&status) => {}
            Err(status) => {
                let _ = heard.send(Err(status)).await;
                return;
            }
        }
        pause = rest(began, pause).await;
    }
}

#[allow(clippy::too_many_arguments)] // what one attempt shares with the next
async fn follow_once(
    parts: &Parts,
    caller: &OnBehalf,
    open: &ChannelOpen,
    watches_only: bool,
    (at, worker): (usize, &Worker),
    heard: &mpsc::Sender<News<Heard>>,
    known: &mut BTreeSet<String>,
    is_complete: &mut bool,
) -> Result<(), Status> {
    let mut stream = open_prompts(caller, open, watches_only, worker).await?;
    let mut there = BTreeSet::new();
    let mut is_snapshot = true;
    while let Some(message) = stream.next().await {
        let told = match message?.message {
            None | Some(Told::Opened(_) | Told::ReplyResult(_)) => continue,
            Some(Told::SnapshotEnd(_)) => {
                is_snapshot = false;
                // What the client knows and is open no more was answered meanwhile.
                for id in known.difference(&there).cloned().collect::<Vec<_>>() {
                    known.remove(&id);
                    let question = GetPromptRequest { prompt_id: id };
                    let path = "/toolgate.v1.PermissionService/GetPrompt";
                    let answer: Result<GetPromptResponse, _> = worker.ask(path, question, Some(&caller.entry())).await;
                    match answer {
                        Ok(GetPromptResponse { prompt }) => {
                            let told = Told::PromptResolved(PromptResolved { prompt });
                            if heard.send(Ok((at, Heard::Said(Box::new(told))))).await.is_err() {
                                return Ok(());
                            }
                        }
                        Err(status) if status.code() == Code::NotFound => {}
                        Err(status) => return Err(status),
                    }
                }
                if !*is_complete {
                    *is_complete = true;
                    if heard.send(Ok((at, Heard::Complete))).await.is_err() {
                        return Ok(());
                    }
                }
                continue;
            }
            Some(Told::PromptAdded(PromptAdded { prompt: Some(prompt) })) => {
                if !parts.registry.counts(worker, &prompt.workspace) {
                    continue;
                }
                parts
                    .directory
                    .learn(Kind::Prompt, &prompt.prompt_id, worker, &prompt.workspace);
                if is_snapshot {
                    there.insert(prompt.prompt_id.clone());
                }
                if !known.insert(prompt.prompt_id.clone()) {
                    continue;
                }
                Told::PromptAdded(PromptAdded { prompt: Some(prompt) })
            }
            // A worker speaks of its own prompts only.
            Some(Told::PromptResolved(PromptResolved { prompt: Some(prompt) })) => {
                if !known.remove(&prompt.prompt_id) {
                    continue;
                }
                Told::PromptResolved(PromptResolved { prompt: Some(prompt) })
            }
            Some(Told::PromptUpdated(PromptUpdated { prompt: Some(prompt) })) => {
                if !known.contains(&prompt.prompt_id) {
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
        if heard.send(Ok((at, Heard::Said(Box::new(told))))).await.is_err() {
            return Ok(());
        }
    }
    Err(Status::unavailable("the worker has closed the stream"))
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
    let questions = stream::iter([first]).chain(stream::pending());
    let path = "/toolgate.v1.PermissionService/Channel";
    let (stream, kept) = worker.follow::<_, ChannelResponse>(path, questions, &entry).await?;
    Ok(Box::pin(stream.map(move |message| {
        let _kept = &kept;
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
    let inbox = Inbox::new(parts.registry.workers().len());
    let shared = (parts.clone(), caller.clone(), open);
    let (receiver, tasks) = of_all(parts, move |at, worker, heard| {
        let (parts, caller, open) = shared.clone();
        follow_prompts(parts, caller, open, watches_only, (at, worker), heard)
    });
    let opened = Told::Opened(ChannelOpened {
        instance_id: parts.facts.instance.clone(),
    });
    let closing = parts.closing.clone();
    let patience = Instant::now() + SNAPSHOT_PATIENCE;
    let state = (receiver, tasks, inbox, VecDeque::from([opened]));
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
    let replies = stream::try_unfold((messages, parts, caller, open.name), |mut state| async {
        let (messages, parts, caller, name) = &mut state;
        // The client has nothing more to say, or is gone: the other half shows which.
        let Ok(Some(message)) = messages.next().await else {
            return Ok(None);
        };
        let result = match decode::<ChannelRequest>(&message)?.message {
            Some(channel_request::Message::Reply(reply)) => answer(parts, caller, name, reply).await?,
            Some(channel_request::Message::Open(_)) => {
                return Err(status::bad_field("message", "the channel is already open"));
            }
            None => return Err(status::bad_field("message", "an empty message")),
        };
        Ok(Some((Told::ReplyResult(result), state)))
    });
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

/// Sends a reply to the worker of its prompt.
async fn answer(parts: &Parts, caller: &OnBehalf, name: &str, reply: PromptReply) -> Result<PromptReplyResult, Status> {
    let found = parts
        .directory
        .find(&parts.registry, caller, Kind::Prompt, &reply.prompt_id)
        .await;
    let worker = match found {
        Ok(worker) => worker,
        // One of them says what becomes of a reply to a prompt that is not there.
        Err(status) if [Code::NotFound, Code::InvalidArgument].contains(&status.code()) => parts.any()?,
        Err(status) => return Err(status),
    };
    let question = ReplyPromptRequest {
        reply: Some(reply),
        name: name.to_owned(),
    };
    let path = "/toolgate.v1.PermissionService/ReplyPrompt";
    let answer: ReplyPromptResponse = worker.ask(path, question, Some(&caller.entry())).await?;
    Ok(answer.result.unwrap_or_default())
}

/// Watches the events of all workers. Each worker numbers its own, so the numbers here are those of this stream, and a stream of all
/// workers cannot be taken up again by number.
pub(crate) async fn events(
    parts: Arc<Parts>,
    caller: OnBehalf,
    question: WatchEventsRequest,
) -> Result<Response<Body>, Status> {
    if question.after_sequence.is_some_and(|after| after != 0) {
        let instead = "a stream over the workspaces of several workers is not taken up again by number: read what matters, and \
                       watch without after_sequence, or watch each workspace by its name";
        return Err(status::cursor_too_old(instead));
    }
    let awaited = parts.registry.workers().len();
    let (open, mut opened) = mpsc::channel::<()>(awaited.max(1));
    let shared = (parts.clone(), caller, question);
    let (receiver, tasks) = of_all(&parts, move |at, worker, heard| {
        let (parts, caller, question) = shared.clone();
        // Nobody waits for those that come later.
        let open = (at < awaited).then(|| open.clone());
        follow_events(parts, caller, question, (at, worker), (heard, open))
    });
    // A client that has an answer may rely on hearing of what happens from then on: all have been tried by then.
    let all = async {
        for _ in 0..awaited {
            opened.recv().await;
        }
    };
    let _ = tokio::time::timeout(SNAPSHOT_PATIENCE, all).await;
    let closing = parts.closing.clone();
    let events = stream::try_unfold((receiver, tasks, 0), move |(mut receiver, tasks, number)| {
        let closing = closing.clone();
        async move {
            let Some(heard) = closing.run_until_cancelled(receiver.recv()).await else {
                return Err(status::draining());
            };
            let (_, mut event): (usize, Event) = heard.unwrap_or_else(|| Err(status::draining()))?;
            let number = number + i64::from(!matches!(event.event, Some(event::Event::Heartbeat(_))));
            event.sequence = number;
            let message: Bytes = framed(&WatchEventsResponse { event: Some(event) });
            Ok(Some((message, (receiver, tasks, number))))
        }
    });
    Ok(streaming(events))
}

async fn follow_events(
    parts: Arc<Parts>,
    caller: OnBehalf,
    mut question: WatchEventsRequest,
    (at, worker): (usize, Arc<Worker>),
    (heard, mut open): (mpsc::Sender<News<Event>>, Option<mpsc::Sender<()>>),
) {
    let mut pause = PAUSES.0;
    loop {
        let began = Instant::now();
        let ended = follow_events_once(&parts, &caller, &mut question, (at, &worker), &heard, &mut open).await;
        tell_tried(&mut open);
        match ended {
            Ok(()) => return,
            Err(status) if may_come_back(&status) => {}
            Err(status) => {
                let _ = heard.send(Err(status)).await;
                return;
            }
        }
        pause = rest(began, pause).await;
    }
}

/// Says once that a worker has been tried.
fn tell_tried(open: &mut Option<mpsc::Sender<()>>) {
    if let Some(open) = open.take() {
        // There is room for one of each.
        let _ = open.try_send(());
    }
}

async fn follow_events_once(
    parts: &Parts,
    caller: &OnBehalf,
    question: &mut WatchEventsRequest,
    (at, worker): (usize, &Worker),
    heard: &mpsc::Sender<News<Event>>,
    open: &mut Option<mpsc::Sender<()>>,
) -> Result<(), Status> {
    let path = "/toolgate.v1.SessionService/WatchEvents";
    let asked = stream::iter([question.clone()]);
    let (mut stream, _kept) = worker
        .follow::<_, WatchEventsResponse>(path, asked, &caller.entry())
        .await?;
    tell_tried(open);
    while let Some(message) = stream.next().await {
        let Some(mut event) = message?.event else { continue };
        // From here it goes on if the connection breaks.
        question.after_sequence = Some(event.sequence);
        if let Some(event::Event::Heartbeat(heartbeat)) = &mut event.event {
            heartbeat.draining = false;
        } else if !parts.registry.counts(worker, &event.workspace) {
            continue;
        }
        if heard.send(Ok((at, event))).await.is_err() {
            return Ok(());
        }
    }
    Err(Status::unavailable("the worker has closed the stream"))
}
