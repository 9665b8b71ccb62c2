//! Ending what calls started: the ladder of signals, the search for what left its group, and the reaping of orphans.
//!
//! One thread does it for all calls, so that cancelling sixty of them is one walk and not sixty, and so that it works
//! when a call's future is dropped or the runtime is gone. It sleeps until a stop is asked for or an orphan dies.
//!
//! *Invariants:*
//! - A signal goes to a group only while its leader is not reaped, and to a single process only by descriptor, checked
//!   after opening: a reused number is never hit.
//! - Strangers are reaped by number, never all at once: tokio's children are not ours to wait for.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::sync::oneshot;

use super::sandbox::Confinement;
use super::{sys, tree};

/// How long killed processes may take to be gone before they are given up as survivors.
const GIVE_UP: Duration = Duration::from_millis(600);

/// The least time between two walks.
const SPACING: Duration = Duration::from_millis(1);

/// The most time between two walks while a stop goes on and more is alive than is watched.
const UNWATCHED: Duration = Duration::from_millis(20);

/// How many processes are watched for their end at a time.
const MAX_WATCHED: usize = 256;

/// Walks in a row that must find nothing. Two, because a list of children may skip one while another leaves it.
const CLEAN_WALKS: u8 = 2;

/// Names the processes of one call: the value of the limit that all of them carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mark(pub(super) u64);

/// What is known of a call's processes.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The call's id.
    pub(super) call: String,
    /// The program that was started; none until it has been.
    pub(super) root: Option<Pid>,
    /// Whether a guard holds the root, so that it is not reaped here.
    pub(super) held: bool,
    /// Kept until nothing of the call runs, because its temporary folder goes with it.
    #[allow(dead_code, reason = "held for its end")]
    pub(super) sandbox: Option<Arc<Confinement>>,
}

/// What the callers and the thread share.
pub(super) struct Undertaker {
    /// The calls that run or left something running. The lock also orders group signals before the root's reaping.
    calls: Mutex<HashMap<Mark, Entry>>,
    /// What is to be done next; one entry per call at most, since stops of one call are joined.
    inbox: Mutex<Inbox>,
    wake: OwnedFd,
    /// The upper half of every mark, so that a service inside a call of another is not mistaken for it.
    family: u64,
    next_mark: AtomicU32,
}

#[derive(Default)]
struct Inbox {
    stops: Vec<(Mark, Duration, Option<oneshot::Sender<usize>>)>,
    sweep: bool,
    closing: bool,
}

impl Undertaker {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(Self {
            calls: Mutex::default(),
            inbox: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            family: new_family(),
            next_mark: AtomicU32::new(0),
        });
        let rounds = Rounds {
            shared: Arc::clone(&shared),
            stops: HashMap::new(),
            left: HashMap::new(),
            last_walk: None,
            closing: false,
        };
        thread::Builder::new()
            .name("process-reaper".to_owned())
            .spawn(move || rounds.run())?;
        Ok(shared)
    }

    /// Makes a mark for a new call.
    pub(super) fn new_mark(&self) -> Mark {
        Mark(self.family | u64::from(self.next_mark.fetch_add(1, Ordering::Relaxed)))
    }

    /// Says whether a mark is one of ours.
    pub(super) fn is_own_mark(&self, mark: u64) -> bool {
        mark & !u64::from(u32::MAX) == self.family
    }

    /// Returns the calls. The lock is never held across an `.await`.
    pub(super) fn calls(&self) -> MutexGuard<'_, HashMap<Mark, Entry>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the marks of the calls that fit.
    pub(super) fn marks_of(&self, fits: impl Fn(&Entry) -> bool) -> Vec<Mark> {
        let calls = self.calls();
        calls
            .iter()
            .filter(|(_, entry)| fits(entry))
            .map(|(&mark, _)| mark)
            .collect()
    }

    /// Ends all processes of a call: the polite signal, `grace`, the kill. The receiver gets the number of survivors.
    pub(super) fn stop(&self, mark: Mark, grace: Duration) -> oneshot::Receiver<usize> {
        let (done, receiver) = oneshot::channel();
        self.post(|inbox| inbox.stops.push((mark, grace, Some(done))));
        receiver
    }

    /// Kills all processes of a call, without waiting for it.
    pub(super) fn kill(&self, mark: Mark) {
        self.post(|inbox| inbox.stops.push((mark, Duration::ZERO, None)));
    }

    /// Asks for a look at the orphans, if there can be any.
    pub(super) fn sweep(&self) {
        if !self.calls().is_empty() {
            self.post(|inbox| inbox.sweep = true);
        }
    }

    /// Kills everything and ends the thread.
    pub(super) fn close(&self) {
        self.post(|inbox| inbox.closing = true);
    }

    fn post(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner));
        // Fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Sends a signal to the group of a call while its leader is certainly not reaped.
    pub(super) fn signal_group(&self, mark: Mark, signals: &[Signal]) -> bool {
        let calls = self.calls();
        let Some(root) = calls.get(&mark).filter(|entry| entry.held).and_then(|entry| entry.root) else {
            return false;
        };
        for &signal in signals {
            // Fails when the group is empty.
            let _ = kill_process_group(root, signal);
        }
        true
    }
}

/// Draws the upper half of the marks: large, so that the limit which carries them never bites, and below infinity.
fn new_family() -> u64 {
    let random = RandomState::new().build_hasher().finish();
    (1 << 62) | ((random & 0x3fff_ffff) << 32)
}

/// Returns the call that a process belongs to: by its mark or, where marks are refused, by its session.
pub(super) fn owner_of(pid: Pid, calls: &HashMap<Mark, Entry>) -> Option<Mark> {
    let mark = Mark(sys::mark_of(pid)?);
    if calls.contains_key(&mark) {
        return Some(mark);
    }
    let session = tree::session_of(pid)?;
    let by_session = |(mark, entry): (&Mark, &Entry)| (entry.root == Some(session)).then_some(*mark);
    calls.iter().find_map(by_session)
}

/// A stop in progress.
struct Stop {
    grace: Duration,
    kill_at: Instant,
    polite: bool,
    clean: u8,
    root_gone: bool,
    waiters: Vec<oneshot::Sender<usize>>,
}

impl Stop {
    fn new(grace: Duration) -> Self {
        Self {
            grace,
            kill_at: Instant::now() + grace,
            polite: false,
            clean: 0,
            root_gone: false,
            waiters: Vec::new(),
        }
    }

    fn give_up_at(&self) -> Instant {
        self.kill_at + GIVE_UP
    }
}

/// What one walk found of one call.
#[derive(Default)]
struct Found {
    /// Processes of any kind: a dead one may have handed us a child after the list was read.
    seen: usize,
    /// How many of these were reaped just now.
    reaped: usize,
    alive: Vec<OwnedFd>,
}

/// The thread's own state.
struct Rounds {
    shared: Arc<Undertaker>,
    stops: HashMap<Mark, Stop>,
    /// Clean walks of calls that ended and left something running.
    left: HashMap<Mark, u8>,
    last_walk: Option<Instant>,
    closing: bool,
}

impl Rounds {
    fn run(mut self) {
        let mut watched: Vec<OwnedFd> = Vec::new();
        let mut timeout = None;
        loop {
            self.wait(&watched, timeout);
            self.take_inbox();
            watched.clear();
            if self.stops.is_empty() && self.closing {
                return;
            }
            let found = self.walk();
            timeout = self.advance(found, &mut watched);
        }
    }

    /// Sleeps until something is asked, a watched process ends, or the time is over.
    fn wait(&mut self, watched: &[OwnedFd], timeout: Option<Duration>) {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: time.subsec_nanos().into(),
        });
        let wake = PollFd::new(&self.shared.wake, PollFlags::IN);
        let mut sources: Vec<PollFd<'_>> = std::iter::once(wake)
            .chain(watched.iter().map(|process| PollFd::new(process, PollFlags::IN)))
            .collect();
        // Interrupted or failed, the walk that follows is harmless, and the spacing keeps it from spinning.
        let _ = poll(&mut sources, timeout.as_ref());
        if let Some(rest) = self.last_walk.and_then(|last| SPACING.checked_sub(last.elapsed())) {
            thread::sleep(rest);
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
    }

    fn take_inbox(&mut self) {
        let mut inbox = std::mem::take(&mut *self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner));
        if inbox.closing {
            self.closing = true;
            let marks = self.shared.marks_of(|_| true);
            inbox
                .stops
                .extend(marks.into_iter().map(|mark| (mark, Duration::ZERO, None)));
        }
        for (mark, grace, done) in inbox.stops {
            let stop = self.stops.entry(mark).or_insert_with(|| Stop::new(grace));
            stop.kill_at = stop.kill_at.min(Instant::now() + grace);
            stop.waiters.extend(done);
        }
    }

    /// Looks at our children and, for the calls that are stopped or left something, at their descendants.
    fn walk(&mut self) -> HashMap<Mark, Found> {
        self.last_walk = Some(Instant::now());
        // The list comes first: what is in it and belongs to no call then is what an ended call left, and not the
        // root of a call that has just begun.
        let children = tree::own_children();
        let calls = self.shared.calls().clone();
        self.left = calls
            .iter()
            .filter(|(mark, entry)| !entry.held && !self.stops.contains_key(*mark))
            .map(|(&mark, _)| (mark, self.left.get(&mark).copied().unwrap_or(0)))
            .collect();
        let mut found: HashMap<Mark, Found> = HashMap::new();
        for child in children {
            let Some(mark) = owner_of(child, &calls) else {
                if sys::mark_of(child).is_some_and(|mark| self.shared.is_own_mark(mark)) {
                    reap(child);
                }
                continue;
            };
            let entry = &calls[&mark];
            let is_held = entry.held && entry.root.is_none_or(|root| root == child);
            if !is_held && reap(child) {
                let found = found.entry(mark).or_default();
                found.seen += 1;
                found.reaped += 1;
                continue;
            }
            let known_gone = self.stops.get_mut(&mark).is_some_and(|stop| {
                let known = stop.root_gone;
                stop.root_gone = is_held && has_ended(child);
                known && stop.root_gone
            });
            if known_gone || !(self.stops.contains_key(&mark) || self.left.contains_key(&mark)) {
                continue;
            }
            let found = found.entry(mark).or_default();
            self.note(found, mark, child, None);
            for (process, parent) in tree::descendants(child) {
                self.note(found, mark, process, Some(parent));
            }
        }
        found
    }

    /// Counts a process and opens it, if it is still the one that was found.
    fn note(&self, found: &mut Found, mark: Mark, process: Pid, parent: Option<Pid>) {
        found.seen += 1;
        if !self.stops.contains_key(&mark) {
            return;
        }
        let Ok(descriptor) = pidfd_open(process, PidfdFlags::empty()) else {
            return;
        };
        let is_ours = parent.is_none()
            || sys::mark_of(process) == Some(mark.0)
            || parent.is_some_and(|parent| tree::parent_of(process) == Some(parent));
        if is_ours && !is_readable(&descriptor) {
            found.alive.push(descriptor);
        }
    }

    /// Takes each stop one step further. Returns how long nothing need be done unless something happens.
    fn advance(&mut self, mut found: HashMap<Mark, Found>, watched: &mut Vec<OwnedFd>) -> Option<Duration> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut due = |at: Instant| next = Some(next.map_or(at, |next| next.min(at)));
        let shared = Arc::clone(&self.shared);
        self.stops.retain(|&mark, stop| {
            let found = found.remove(&mark).unwrap_or_default();
            stop.clean = if found.seen == 0 { stop.clean + 1 } else { 0 };
            if stop.clean >= CLEAN_WALKS || now >= stop.give_up_at() {
                conclude(&shared, mark, stop, found.alive.len());
                return false;
            }
            signal(&shared, mark, stop, &found.alive, now);
            due(match found.alive.len() {
                0 => now,
                count if count + watched.len() > MAX_WATCHED => now + UNWATCHED,
                _ if now < stop.kill_at => stop.kill_at,
                _ => stop.give_up_at(),
            });
            let room = MAX_WATCHED.saturating_sub(watched.len());
            watched.extend(found.alive.into_iter().take(room));
            true
        });
        for (mark, clean) in &mut self.left {
            let found = found.get(mark);
            *clean = if found.is_some() { 0 } else { *clean + 1 };
            if *clean >= CLEAN_WALKS {
                shared.calls().remove(mark);
            } else if found.is_none_or(|found| found.seen == found.reaped) {
                // Nothing will tell of the end when the last one has been reaped.
                due(now);
            }
        }
        next.map(|at| at.saturating_duration_since(now))
    }
}

/// Sends what is due: the polite signal once, the kill at every walk from its time on.
fn signal(shared: &Undertaker, mark: Mark, stop: &mut Stop, alive: &[OwnedFd], now: Instant) {
    // A stopped process acts on a polite signal only when it is continued.
    let signals: &[Signal] = if now >= stop.kill_at {
        &[Signal::KILL]
    } else if !stop.polite && !stop.grace.is_zero() {
        stop.polite = true;
        &[Signal::TERM, Signal::CONT]
    } else {
        return;
    };
    let has_group = shared.signal_group(mark, signals);
    if has_group && now < stop.kill_at {
        return;
    }
    for process in alive {
        for &signal in signals {
            // Fails when it has ended, or has become somebody else's.
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

fn conclude(shared: &Undertaker, mark: Mark, stop: &mut Stop, survivors: usize) {
    {
        let mut calls = shared.calls();
        // Survivors stay known, so that the end of the service tries again.
        if survivors == 0 && calls.get(&mark).is_some_and(|entry| !entry.held) {
            calls.remove(&mark);
        }
    }
    if survivors > 0 {
        tracing::warn!(survivors, "processes of a call outlived their kill signal");
    }
    for waiter in stop.waiters.drain(..) {
        // Nobody waits any more when the call was dropped.
        let _ = waiter.send(survivors);
    }
}

/// Reaps a child if it has ended.
fn reap(child: Pid) -> bool {
    waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).is_ok_and(|status| status.is_some())
}

/// Says whether a child has ended, and leaves it to be reaped.
fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), options).is_ok_and(|status| status.is_some())
}

fn is_readable(process: &OwnedFd) -> bool {
    let mut sources = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    poll(&mut sources, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}
