//! Telling plugins what happens: their hook `event` (`docs/spec/extensions.md` §2.2).
//!
//! *Invariant:* nobody waits for a plugin that hears of something. What a slow one does not take in time is left out for all of
//! its workspace, and said once.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use toolgate_tool::Hold;

use super::host::Conversation;
use super::script::Module;

/// Events that wait, and those that are being taken in; and what all of them may take.
const MAX_WAITING: usize = 1024;
const MAX_RUNNING: usize = 64;
const MAX_BYTES: u32 = 16 * 1024 * 1024;

/// How long a plugin may take for one, and how often in a row it may take longer before it is told nothing more.
const LIMIT: Duration = Duration::from_secs(30);
const MAX_LATE: u32 = 3;

/// Who hears of what happens, in all workspaces.
pub(super) struct Feeds {
    feeds: Mutex<HashMap<String, Feed>>,
    /// The workspaces in which somebody hears.
    listening: watch::Sender<BTreeSet<String>>,
    /// Those who wait until everything from then on is told; none if nothing ever is.
    waiting: Mutex<Option<Vec<Hold>>>,
}

struct Feed {
    events: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    /// Whether something was left out, and that has been said.
    is_late: AtomicBool,
}

/// An event, and the room that it takes until it was taken in.
type Waiting = (Value, OwnedSemaphorePermit);

impl Default for Feeds {
    fn default() -> Self {
        Self {
            feeds: Mutex::default(),
            listening: watch::Sender::new(BTreeSet::new()),
            waiting: Mutex::new(Some(Vec::new())),
        }
    }
}

impl Feeds {
    /// Says who hears of a workspace from now on. The feed of one that had none before is returned: somebody has
    /// to run it. `hold` goes when they are told of everything.
    pub(super) fn listen(
        &self,
        workspace: &str,
        listeners: &Arc<Listeners>,
        modules: Vec<Arc<Module>>,
        hold: Hold,
    ) -> Option<Running> {
        let is_heard = !modules.is_empty();
        if is_heard
            && !self.listening.borrow().contains(workspace)
            && let Some(waiting) = &mut *self.waiting.lock()
        {
            waiting.push(hold);
        }
        *listeners.0.lock() = modules;
        self.listening.send_if_modified(|listening| {
            if is_heard {
                listening.insert(workspace.to_owned())
            } else {
                listening.remove(workspace)
            }
        });
        let mut feeds = self.feeds.lock();
        if !is_heard || feeds.contains_key(workspace) {
            return None;
        }
        let (events, waiting) = mpsc::channel(MAX_WAITING);
        let is_late = AtomicBool::new(false);
        let room = Arc::new(Semaphore::new(MAX_BYTES as usize));
        feeds.insert(workspace.to_owned(), Feed { events, room, is_late });
        Some(Running {
            events: waiting,
            listeners: listeners.clone(),
        })
    }

    /// Lets those go on who wait: all that happens from now on is told.
    pub(super) fn begin(&self) {
        if let Some(waiting) = &mut *self.waiting.lock() {
            waiting.clear();
        }
    }

    /// Lets everybody go on, now and later: nothing is told.
    pub(super) fn never(&self) {
        *self.waiting.lock() = None;
    }

    /// Forgets a workspace.
    pub(super) fn end(&self, workspace: &str) {
        self.feeds.lock().remove(workspace);
        self.listening.send_if_modified(|listening| listening.remove(workspace));
    }

    /// Returns the workspaces in which somebody hears, now and later.
    pub(super) fn listening(&self) -> watch::Receiver<BTreeSet<String>> {
        self.listening.subscribe()
    }

    /// Tells of something.
    pub(super) fn tell(&self, workspace: &str, event: Value) {
        let size = u32::try_from(event.to_string().len())
            .unwrap_or(MAX_BYTES)
            .min(MAX_BYTES);
        let feeds = self.feeds.lock();
        let Some(feed) = feeds.get(workspace) else { return };
        let room = feed.room.clone().try_acquire_many_owned(size).ok();
        match room
            .ok_or(())
            .and_then(|room| feed.events.try_send((event, room)).map_err(drop))
        {
            Ok(()) => feed.is_late.store(false, Ordering::Relaxed),
            Err(_) if feed.is_late.swap(true, Ordering::Relaxed) => {}
            Err(_) => tracing::warn!(
                workspace,
                "plugins are too slow for what happens: some events are left out"
            ),
        }
    }
}

/// The plugins of one workspace that hear.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<Arc<Module>>>);

/// Hands events on to those who hear, until it is dropped or its workspace is forgotten.
pub(super) struct Running {
    events: mpsc::Receiver<Waiting>,
    listeners: Arc<Listeners>,
}

impl Running {
    pub(super) async fn run(mut self) {
        let mut taking_in = FuturesUnordered::new();
        let mut late = Late::default();
        loop {
            tokio::select! {
                Some((module, is_late)) = taking_in.next(), if !taking_in.is_empty() => late.count(&module, is_late),
                event = self.events.recv(), if taking_in.len() < MAX_RUNNING => {
                    let Some((event, room)) = event else { return };
                    let room = Arc::new(room);
                    let listeners = self.listeners.0.lock().clone();
                    for module in listeners {
                        if late.is_given_up(&module) {
                            continue;
                        }
                        let request = json!({
                            "op": "hook",
                            "point": "event",
                            "input": { "event": event },
                            "output": {},
                        });
                        match module.request(request).await {
                            Ok(conversation) => taking_in.push(take_in(module, conversation, room.clone())),
                            Err(problem) => tracing::debug!(plugin = module.shown(), problem, "nobody hears"),
                        }
                    }
                }
            }
        }
    }
}

/// Waits until a plugin has taken an event in. Says whether it took too long.
async fn take_in(
    module: Arc<Module>,
    conversation: Conversation,
    _room: Arc<OwnedSemaphorePermit>,
) -> (Arc<Module>, bool) {
    let answer = tokio::time::timeout(LIMIT, conversation.answer()).await;
    let is_late = answer.is_err();
    let failed = match answer {
        Ok(Ok(answer)) => answer["error"]["message"].as_str().map(str::to_owned),
        Ok(Err(problem)) => Some(problem),
        Err(_) => Some(format!("it took longer than {} s", LIMIT.as_secs())),
    };
    if let Some(problem) = failed {
        tracing::warn!(plugin = module.shown(), problem, "the hook `event` failed");
    }
    (module, is_late)
}

/// Those that took too long, and how often in a row. One that has changed is another one.
#[derive(Default)]
struct Late(Vec<(Weak<Module>, u32)>);

impl Late {
    fn count(&mut self, module: &Arc<Module>, is_late: bool) {
        self.0.retain(|(other, _)| other.strong_count() > 0);
        let known = self.0.iter().position(|(other, _)| is_same(other, module));
        match (is_late, known) {
            (false, None) => {}
            (false, Some(at)) => drop(self.0.swap_remove(at)),
            (true, None) => self.0.push((Arc::downgrade(module), 1)),
            (true, Some(at)) => {
                let times = &mut self.0[at].1;
                *times = times.saturating_add(1);
                if *times == MAX_LATE {
                    tracing::warn!(
                        plugin = module.shown(),
                        "the hook `event` took too long {MAX_LATE} times in a row: it is called again when the plugin has changed"
                    );
                }
            }
        }
    }

    fn is_given_up(&self, module: &Arc<Module>) -> bool {
        let is_given_up = |(other, times): &(Weak<Module>, u32)| *times >= MAX_LATE && is_same(other, module);
        self.0.iter().any(is_given_up)
    }
}

fn is_same(one: &Weak<Module>, other: &Arc<Module>) -> bool {
    std::ptr::eq(one.as_ptr(), Arc::as_ptr(other))
}
