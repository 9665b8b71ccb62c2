//! One host: its queue, its open invocations, the stream that it has at the moment.
//!
//! *Invariant:* nothing here waits for the host but whoever takes from its queue. The queue holds ids; what they stand for
//! lives with the invocation and goes with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, watch};
use toolgate_model::JsonMap;
use toolgate_tool::Catalog;

use super::adapters::ToolAdapter;
use super::invocation::Invocation;
use super::messages::{Hello, HostMessage, HostRequest, HostedTool, Report};

/// Reports that may wait for a call to take them; a host that sends more waits.
const MAX_WAITING_REPORTS: usize = 64;

/// Requests for permission in one invocation.
const MAX_ASKS: usize = 64;

/// Bytes of interim metadata that wait to be shown.
const MAX_PROGRESS: usize = 256 * 1024;

/// A front end that lends something.
pub struct Host {
    /// How it is called.
    pub name: String,
    /// Its name among the sources of tools: its own, or with a number if another host has that.
    pub source: String,
    /// To which workspace it lends.
    pub workspace: String,
    /// Who it is.
    pub principal: String,
    pub(super) token: String,
    pub(super) catalog: Arc<Catalog>,
    /// Never held across an await.
    state: Mutex<State>,
    /// Counts what is new for the stream.
    news: watch::Sender<u64>,
    /// Reports on invocations that were not open.
    ignored: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The number of the last stream.
    seat: u64,
    is_here: bool,
    /// Why it is gone for good.
    ended: Option<String>,
    last_id: u64,
    open: BTreeMap<u64, Open>,
    queue: VecDeque<Entry>,
    tools: Vec<Arc<ToolAdapter>>,
    subagents: Option<Vec<String>>,
    /// It left a hook without an answer and has said nothing since.
    is_unresponsive: bool,
}

struct Open {
    work: Arc<HostRequest>,
    was_sent: bool,
    /// Its last report has come.
    is_done: bool,
    reports: mpsc::Sender<Report>,
    progress: Option<(Option<String>, JsonMap)>,
    has_progress: Arc<Notify>,
    /// The requests so far, with their answers.
    asks: BTreeMap<String, Option<Result<(), String>>>,
}

#[derive(PartialEq, Eq)]
enum Entry {
    Invoke(u64),
    Cancel(u64),
    Answer(u64, String),
}

impl Entry {
    fn id(&self) -> u64 {
        match self {
            Self::Invoke(id) | Self::Cancel(id) | Self::Answer(id, _) => *id,
        }
    }
}

/// What a stream has to do next.
pub enum Next {
    /// To tell this.
    Tell(HostMessage),
    /// To end: another stream has come.
    Replaced,
    /// To end: the host has left.
    Ended,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It counts.
    Accepted,
    /// The invocation is not open.
    NotOpen,
    /// The invocation takes no such report.
    Misfit,
    /// The invocation asks for too much.
    TooMany,
}

fn text_of(id: u64) -> String {
    format!("i{id}")
}

fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix('i')?.parse().ok()
}

impl Host {
    pub(super) fn new(hello: &Hello, source: String, catalog: Arc<Catalog>) -> Self {
        // Two of them, since one alone has little more than 64 bits that nobody can guess.
        let half = || uuid::Uuid::now_v7().simple().to_string();
        Self {
            name: hello.name.clone(),
            source,
            workspace: hello.workspace.clone(),
            principal: hello.principal.clone(),
            token: format!("host_{}{}", half(), half()),
            catalog,
            state: Mutex::default(),
            news: watch::Sender::new(0),
            ignored: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn bump(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    // ------------------------------------------------------------------------------------------------------ streams

    /// Gives a stream its number; the one before loses it. What is open is to be told again.
    pub(super) fn attach(&self) -> u64 {
        let mut state = self.state();
        state.seat += 1;
        state.is_here = true;
        state.is_unresponsive = false;
        state.queue.clear();
        let State { open, queue, .. } = &mut *state;
        for (id, open) in open.iter().filter(|(_, open)| !open.is_done) {
            queue.push_back(Entry::Invoke(*id));
            let answered = open.asks.iter().filter(|(_, answer)| answer.is_some());
            queue.extend(answered.map(|(ask, _)| Entry::Answer(*id, ask.clone())));
        }
        let seat = state.seat;
        drop(state);
        self.bump();
        seat
    }

    /// Notes that a stream is gone; true if the host is away now.
    pub(super) fn detach(&self, seat: u64) -> bool {
        let mut state = self.state();
        let was_last = state.seat == seat && state.ended.is_none();
        if was_last {
            state.is_here = false;
        }
        was_last
    }

    pub(super) fn is_away(&self) -> bool {
        !self.state().is_here
    }

    /// Says whether a stream is the host's last one.
    pub(super) fn is_current(&self, seat: u64) -> bool {
        let state = self.state();
        state.seat == seat && state.ended.is_none()
    }

    pub(super) fn is_away_since(&self, seat: u64) -> bool {
        let state = self.state();
        !state.is_here && state.seat == seat && state.ended.is_none()
    }

    /// Ends everything that is open.
    pub(super) fn end(&self, why: &str) {
        let mut state = self.state();
        state.ended.get_or_insert_with(|| why.to_owned());
        state.is_here = false;
        state.queue.clear();
        // Their ends of the channels tell those who wait.
        state.open.clear();
        drop(state);
        self.bump();
    }

    pub(super) fn why_ended(&self) -> String {
        self.state().ended.clone().unwrap_or_default()
    }

    pub(super) async fn next(&self, seat: u64) -> Next {
        let mut news = self.news.subscribe();
        loop {
            news.borrow_and_update();
            if let Some(next) = self.take(seat) {
                return next;
            }
            // The sender lives in `self`.
            let _ = news.changed().await;
        }
    }

    fn take(&self, seat: u64) -> Option<Next> {
        let mut state = self.state();
        if state.ended.is_some() {
            return Some(Next::Ended);
        }
        if state.seat != seat {
            return Some(Next::Replaced);
        }
        let State { open, queue, .. } = &mut *state;
        while let Some(entry) = queue.pop_front() {
            let number = entry.id();
            let id = text_of(number);
            match (entry, open.get_mut(&number)) {
                (Entry::Invoke(_), Some(open)) => {
                    let resent = std::mem::replace(&mut open.was_sent, true);
                    let work = open.work.clone();
                    return Some(Next::Tell(HostMessage::Invoke { id, work, resent }));
                }
                (Entry::Answer(_, ask), Some(open)) => {
                    if let Some(Some(result)) = open.asks.get(&ask).cloned() {
                        return Some(Next::Tell(HostMessage::AskResult { id, ask, result }));
                    }
                }
                (Entry::Cancel(_), _) => return Some(Next::Tell(HostMessage::Cancel { id })),
                // Closed before it was told.
                (Entry::Invoke(_) | Entry::Answer(..), None) => {}
            }
        }
        None
    }

    // ------------------------------------------------------------------------------------------------------ lending

    /// Returns the tool as the registry will hold it: the one that it holds already if nothing about it is new.
    pub(super) fn adapt(self: &Arc<Self>, tool: HostedTool) -> Arc<ToolAdapter> {
        let known = self.state().tools.iter().find(|known| known.tool == tool).cloned();
        known.unwrap_or_else(|| {
            Arc::new(ToolAdapter {
                host: self.clone(),
                tool,
            })
        })
    }

    pub(super) fn lends(&self, tools: Vec<Arc<ToolAdapter>>, subagents: Option<Vec<String>>) {
        let mut state = self.state();
        state.tools = tools;
        state.subagents = subagents;
    }

    /// Says whether it lends a tool of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.state().tools.iter().any(|tool| tool.is_called(name))
    }

    pub(super) fn runs_subagents(&self) -> bool {
        self.state().subagents.is_some()
    }

    pub(super) fn runs(&self, agent: &str) -> bool {
        let state = self.state();
        let agents = state.subagents.as_ref();
        agents.is_some_and(|agents| agents.is_empty() || agents.iter().any(|one| one == agent))
    }

    // -------------------------------------------------------------------------------------------------- invocations

    /// Opens an invocation.
    ///
    /// # Errors
    /// The host is gone: why.
    pub(super) fn invoke(self: &Arc<Self>, work: HostRequest) -> Result<Invocation, String> {
        let (sender, reports) = mpsc::channel(MAX_WAITING_REPORTS);
        let progress = Arc::new(Notify::new());
        let mut state = self.state();
        if let Some(why) = &state.ended {
            return Err(why.clone());
        }
        state.last_id += 1;
        let id = state.last_id;
        let open = Open {
            work: Arc::new(work),
            was_sent: false,
            is_done: false,
            reports: sender,
            progress: None,
            has_progress: progress.clone(),
            asks: BTreeMap::new(),
        };
        state.open.insert(id, open);
        state.queue.push_back(Entry::Invoke(id));
        drop(state);
        self.bump();
        Ok(Invocation {
            host: self.clone(),
            id,
            reports,
            progress,
        })
    }

    /// Closes an invocation that nobody waits for any more.
    pub(super) fn close(&self, id: u64) {
        let mut state = self.state();
        let Some(open) = state.open.remove(&id) else { return };
        state.queue.retain(|entry| entry.id() != id);
        if open.was_sent && !open.is_done {
            state.queue.push_back(Entry::Cancel(id));
        }
        drop(state);
        self.bump();
    }

    pub(super) fn answer(&self, id: u64, ask: &str, result: Result<(), String>) {
        let mut state = self.state();
        let Some(open) = state.open.get_mut(&id) else { return };
        open.asks.insert(ask.to_owned(), Some(result));
        state.queue.push_back(Entry::Answer(id, ask.to_owned()));
        drop(state);
        self.bump();
    }

    pub(super) fn take_progress(&self, id: u64) -> Option<(Option<String>, JsonMap)> {
        self.state().open.get_mut(&id)?.progress.take()
    }

    /// Takes a report. Waits while the call that it is for takes no more.
    pub async fn report(&self, id: &str, report: Report) -> Reported {
        let number = number_of(id).unwrap_or_default();
        let reported = self.accept(number, report).await;
        // Perhaps an answer is to be told again.
        self.bump();
        if reported == Reported::NotOpen {
            let ignored = self.ignored.fetch_add(1, Ordering::Relaxed) + 1;
            if ignored.is_power_of_two() {
                tracing::warn!(host = %self.source, ignored, "a host reports on invocations that are not open");
            }
        }
        reported
    }

    async fn accept(&self, id: u64, report: Report) -> Reported {
        let found = {
            let mut state = self.state();
            state.is_unresponsive = false;
            state.accept(id, report)
        };
        let (sender, report) = match found {
            Ok(found) => found,
            Err(reported) => return reported,
        };
        let Ok(room) = sender.reserve_owned().await else {
            return Reported::NotOpen;
        };
        // Noted only when there is room: this future may be dropped while it waits.
        if let Err(reported) = self.state().accept_now(id, &report) {
            return reported;
        }
        room.send(report);
        Reported::Accepted
    }

    /// Returns how many reports were on invocations that were not open.
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    pub(super) fn mark_unresponsive(&self) {
        self.state().is_unresponsive = true;
    }

    pub(super) fn is_unresponsive(&self) -> bool {
        self.state().is_unresponsive
    }
}

impl State {
    /// Returns a report with the way to whoever waits for it; otherwise what became of it, which may be that it counts.
    fn accept(&mut self, id: u64, report: Report) -> Result<(mpsc::Sender<Report>, Report), Reported> {
        let open = self.open.get_mut(&id).filter(|open| !open.is_done);
        let open = open.ok_or(Reported::NotOpen)?;
        if !open.work.takes(&report) {
            return Err(Reported::Misfit);
        }
        match report {
            Report::Progress { title, patch } => {
                open.merge(title, patch);
                Err(Reported::Accepted)
            }
            Report::Ask { .. }
            | Report::Output(_)
            | Report::Completed(_)
            | Report::Failed(_)
            | Report::HookResult(_) => {
                let sender = open.reports.clone();
                match self.repeats(id, &report) {
                    Some(reported) => Err(reported),
                    None => Ok((sender, report)),
                }
            }
        }
    }

    /// Notes that a report is on its way to whoever waits for it, or says why it is not: the invocation has ended meanwhile,
    /// or the same request came at the same time.
    fn accept_now(&mut self, id: u64, report: &Report) -> Result<(), Reported> {
        if let Some(reported) = self.repeats(id, report) {
            return Err(reported);
        }
        let open = self.open.get_mut(&id).filter(|open| !open.is_done);
        let open = open.ok_or(Reported::NotOpen)?;
        if let Report::Ask { id: ask, .. } = report {
            open.asks.insert(ask.clone(), None);
        }
        open.is_done = report.is_last();
        Ok(())
    }

    /// Says what becomes of a request for permission that is not put: it was before, or there are too many.
    fn repeats(&mut self, id: u64, report: &Report) -> Option<Reported> {
        let Report::Ask { id: ask, .. } = report else {
            return None;
        };
        let asks = &self.open.get(&id)?.asks;
        let is_answered = match asks.get(ask) {
            Some(answer) => answer.is_some(),
            None => return (asks.len() >= MAX_ASKS).then_some(Reported::TooMany),
        };
        let answer = Entry::Answer(id, ask.clone());
        // Once: a host that does not read may ask as often as it likes.
        if is_answered && !self.queue.contains(&answer) {
            self.queue.push_back(answer);
        }
        Some(Reported::Accepted)
    }
}

impl Open {
    /// Merges interim title and metadata into what waits to be shown. If that is too much, the latest is what is shown.
    fn merge(&mut self, title: Option<String>, patch: JsonMap) {
        let (old_title, waiting) = self.progress.get_or_insert_default();
        if title.is_some() {
            *old_title = title;
        }
        let latest = patch.clone();
        waiting.extend(patch);
        if size_of(waiting) > MAX_PROGRESS {
            *waiting = latest;
        }
        self.has_progress.notify_one();
    }
}

fn size_of(metadata: &JsonMap) -> usize {
    let sizes = metadata.iter().map(|(key, value)| key.len() + value.to_string().len());
    sizes.sum()
}
