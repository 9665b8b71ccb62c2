//! Ending what calls started: the ladder of signals, the search for what left its group, and the reaping of orphans.
//!
//! One thread does it for all calls, so that cancelling sixty of them is one walk and not sixty, and so that it works
//! when a call's future is dropped or the runtime is gone. It sleeps until a stop is asked for or an orphan dies.
//!
//! Where a call has a control group, one write kills what is in it, and it must be empty in the end; the walk goes on
//! beside it, for the polite signal, for the reaping, and for what has the right to leave its control group.
//!
//! *Invariants:*
//! - A signal goes to a process group only while its leader is not reaped, and to a single process only by descriptor,
//!   checked after opening: a reused number is never hit. Only when no descriptor is to be had it goes by number.
//! - However many processes a call has, a bounded number of descriptors is open.
//! - Strangers are reaped by number, never all at once: tokio's children are not ours to wait for.
//! - A child that belongs to no call has shed what told whose it is: in a program that starts nothing else it is ended.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use tokio::sync::oneshot;

use super::cgroup::{Group, Groups};
use super::sandbox::Confinement;
use super::sys::TagReading;
use super::{sys, tree};

/// How long killed processes may take to be gone before they are given up as survivors; on a busy machine each needs its turn to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// The least time between two walks.
const MIN_WALK_INTERVAL: Duration = Duration::from_millis(1);

/// The most time between two walks while a stop goes on and more is alive than is watched.
const MAX_WALK_INTERVAL: Duration = Duration::from_millis(20);

/// How many processes are watched for their end at a time.
const MAX_WATCHED: usize = 256;

/// Walks in a row that must find nothing. Two, because a list of children may skip one while another leaves it.
const CLEAN_WALKS: u8 = 2;

/// How long after the end of a program that seems to have left nothing one looks again: a process that was being
/// adopted at that moment is seen then.
const SECOND_LOOK_DELAY: Duration = Duration::from_millis(50);

/// Names the processes of one call: the value of the limit that all of them carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProcessTag(pub(super) u64);

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
    /// Its control group, if there are any.
    pub(super) group: Option<Arc<Group>>,
    /// Whether something of it was seen after the end of its root.
    pub(super) left: bool,
}

impl Entry {
    fn is_populated(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.is_populated())
    }
}

/// What the callers and the thread share.
pub(super) struct Reaper {
    /// The calls that run or left something running. The lock also orders group signals before the root's reaping.
    calls: Mutex<HashMap<ProcessTag, Entry>>,
    /// What is to be done next; one entry per call at most, since stops of one call are joined.
    inbox: Mutex<Inbox>,
    wake: OwnedFd,
    /// The upper half of every tag, so that a service inside a call of another is not mistaken for it.
    namespace: u64,
    next_tag: AtomicU32,
    groups: Option<Groups>,
    /// The children that belong to no call and are to be left alone; none if others may start programs in this process,
    /// and then every child may be such a one. Locked while one is started.
    kept: Option<Mutex<Vec<Pid>>>,
}

#[derive(Default)]
struct Inbox {
    stops: Vec<(ProcessTag, Duration, Option<oneshot::Sender<usize>>)>,
    sweep: bool,
    look_at: Option<Instant>,
    closing: bool,
}

impl Reaper {
    /// Starts the thread. `alone` says that all children of this process from now on are of its calls.
    pub(super) fn start(groups: Option<Groups>, alone: bool) -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(Self {
            kept: alone.then(|| Mutex::new(tree::own_children())),
            calls: Mutex::default(),
            inbox: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            namespace: new_namespace(),
            next_tag: AtomicU32::new(0),
            groups,
        });
        let rounds = Rounds {
            shared: Arc::clone(&shared),
            stops: HashMap::new(),
            left: HashMap::new(),
            strays: 0,
            last_walk: None,
            look_at: None,
            closing: false,
        };
        thread::Builder::new()
            .name("process-reaper".to_owned())
            .spawn(move || rounds.run())?;
        Ok(shared)
    }

    /// Makes a tag for a new call.
    pub(super) fn new_tag(&self) -> ProcessTag {
        ProcessTag(self.namespace | u64::from(self.next_tag.fetch_add(1, Ordering::Relaxed)))
    }

    /// Says whether a tag is one of ours.
    pub(super) fn is_own_tag(&self, mark: u64) -> bool {
        is_in_namespace(mark, self.namespace)
    }

    /// Returns what all tags have in common.
    pub(super) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// Returns the control groups, if they can be used.
    pub(super) fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    /// Forgets a call, of which nothing is left.
    pub(super) fn forget(&self, calls: &mut HashMap<ProcessTag, Entry>, mark: ProcessTag) {
        let group = calls.remove(&mark).and_then(|entry| entry.group);
        if let (Some(groups), Some(group)) = (&self.groups, group) {
            groups.give_back(group);
        }
    }

    /// Returns what calls that fit left running: processes and their command lines, bounded in number and length.
    /// Blocking.
    pub(super) fn left_by(&self, fits: impl Fn(&Entry) -> bool, most: usize, most_bytes: usize) -> Vec<(Pid, String)> {
        let found = self.processes_of(|entry| !entry.held && entry.left && fits(entry));
        let shown = found
            .into_iter()
            .filter_map(|pid| Some((pid, tree::command_of(pid, most_bytes)?)));
        shown.take(most).collect()
    }

    /// Returns the processes of calls that fit, in the order of their numbers. Blocking.
    pub(super) fn processes_of(&self, fits: impl Fn(&Entry) -> bool) -> Vec<Pid> {
        let mut calls = self.calls().clone();
        calls.retain(|_, entry| fits(entry));
        let mut found: Vec<Pid> = Vec::new();
        if calls.is_empty() {
            return found;
        }
        for child in tree::own_children() {
            if owner_of(child, &calls).is_some() {
                found.push(child);
                found.extend(tree::descendants(child).into_iter().map(|(process, _)| process));
            }
        }
        let groups = calls.values().filter_map(|entry| entry.group.as_ref());
        found.extend(groups.flat_map(|group| group.processes()));
        found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        found.dedup();
        found
    }

    /// Returns the calls. The lock is never held across an `.await`.
    pub(super) fn calls(&self) -> MutexGuard<'_, HashMap<ProcessTag, Entry>> {
        self.calls.lock()
    }

    /// Returns the tags of the calls that fit.
    pub(super) fn tags_of(&self, fits: impl Fn(&Entry) -> bool) -> Vec<ProcessTag> {
        let calls = self.calls();
        calls
            .iter()
            .filter(|(_, entry)| fits(entry))
            .map(|(&mark, _)| mark)
            .collect()
    }

    /// Ends all processes of a call: the polite signal, `grace`, the kill. The receiver gets the number of survivors.
    pub(super) fn stop(&self, mark: ProcessTag, grace: Duration) -> oneshot::Receiver<usize> {
        let (done, receiver) = oneshot::channel();
        self.post(|inbox| inbox.stops.push((mark, grace, Some(done))));
        receiver
    }

    /// Kills all processes of a call, without waiting for it.
    pub(super) fn kill(&self, mark: ProcessTag) {
        self.post(|inbox| inbox.stops.push((mark, Duration::ZERO, None)));
    }

    /// Starts a child that is of no call and to be left alone.
    pub(super) fn keep<T, E>(&self, start: impl FnOnce() -> Result<T, E>, pid: impl FnOnce(&T) -> u32) -> Result<T, E> {
        let kept = self.kept.as_ref().map(Mutex::lock);
        let started = start()?;
        let pid = i32::try_from(pid(&started)).ok().and_then(Pid::from_raw);
        if let (Some(mut kept), Some(pid)) = (kept, pid) {
            kept.push(pid);
        }
        Ok(started)
    }

    /// Ends what is among our children and belongs to no call, with all that descends from it, and reaps the dead of it.
    /// Returns how much of it lives.
    fn end_strays(&self, children: &[Pid], calls: &HashMap<ProcessTag, Entry>) -> usize {
        let strays = children.iter().filter(|&&child| self.is_stray(child, calls));
        strays
            .filter(|&&child| !reap(child))
            .map(|&child| end_tree(child))
            .sum()
    }

    /// Says whether a child has lost what told whose it is. `calls` was read after the child was seen.
    fn is_stray(&self, child: Pid, calls: &HashMap<ProcessTag, Entry>) -> bool {
        // One that is being started gets its tag in a moment.
        let is_starting = || calls.values().any(|entry| entry.root.is_none());
        match sys::tag_of(child) {
            Some(TagReading::Whole(mark)) if self.is_own_tag(mark) => {
                !calls.contains_key(&ProcessTag(mark)) && owner_by(mark, child, calls).is_none()
            }
            // Orphans of all the container come to its first process.
            Some(TagReading::None) if std::process::id() == 1 => false,
            Some(tag) => {
                let is_kept = self.kept.as_ref().is_none_or(|kept| kept.lock().contains(&child));
                !is_kept && !is_starting() && owner_by(tag.remains().unwrap_or(0), child, calls).is_none()
            }
            None => false,
        }
    }

    /// Ends what belongs to no call, until nothing of it is left or `limit` is over. Returns how much lives then. Blocking.
    pub(super) fn end_all_strays(&self, limit: Duration) -> usize {
        let until = Instant::now() + limit;
        let mut clean = 0;
        loop {
            let children = tree::own_children();
            let calls = self.calls().clone();
            let alive = self.end_strays(&children, &calls);
            clean = if alive == 0 { clean + 1 } else { 0 };
            if clean >= CLEAN_WALKS || Instant::now() > until {
                return alive;
            }
            thread::sleep(MIN_WALK_INTERVAL);
        }
    }

    /// Says whether a child may have shed what tells whose it is.
    pub(super) fn has_strays(&self, children: &[Pid], calls: &HashMap<ProcessTag, Entry>) -> bool {
        children.iter().any(|&child| self.is_stray(child, calls))
    }

    /// Says whether certainly nothing runs that the service started, but what is kept.
    pub(super) fn has_no_programs(&self) -> bool {
        let Some(kept) = &self.kept else { return false };
        // In this order: what is started in between is seen by its entry.
        let children = tree::own_children();
        self.calls().is_empty() && children.iter().all(|child| kept.lock().contains(child))
    }

    /// Asks for a look at the orphans, if there can be any.
    pub(super) fn sweep(&self) {
        if self.kept.is_some() || !self.calls().is_empty() {
            self.post(|inbox| inbox.sweep = true);
        }
    }

    /// Asks for a look at a call that seems to have left nothing, a little later, together with others.
    pub(super) fn look_later(&self) {
        let at = Instant::now() + SECOND_LOOK_DELAY;
        self.post(|inbox| inbox.look_at = Some(inbox.look_at.map_or(at, |earlier| earlier.min(at))));
    }

    /// Kills everything and ends the thread.
    pub(super) fn close(&self) {
        self.post(|inbox| inbox.closing = true);
    }

    fn post(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut self.inbox.lock());
        // Fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Sends signals to the process group of a call while its leader is certainly not reaped, and returns the group.
    pub(super) fn signal_group(&self, mark: ProcessTag, signals: &[Signal]) -> Option<Pid> {
        let calls = self.calls();
        let root = calls
            .get(&mark)
            .filter(|entry| entry.held)
            .and_then(|entry| entry.root)?;
        for &signal in signals {
            // Fails when the group is empty.
            let _ = kill_process_group(root, signal);
        }
        Some(root)
    }
}

/// Kills a child of ours and all that descends from it. Returns how many lived.
fn end_tree(child: Pid) -> usize {
    let all = std::iter::once((child, getpid())).chain(tree::descendants(child));
    all.filter(|&(process, parent)| {
        let Ok(descriptor) = pidfd_open(process, PidfdFlags::empty()) else {
            return false;
        };
        let is_meant = tree::parent_of(process) == Some(parent) && !is_readable(&descriptor);
        // Fails when it has ended.
        is_meant && pidfd_send_signal(&descriptor, Signal::KILL).is_ok()
    })
    .count()
}

/// Draws the upper half of the tags: large, so that the limits which carry them never bite, and below those of this
/// process, which may run inside a call of another service.
fn new_namespace() -> u64 {
    let random = RandomState::new().build_hasher().finish();
    namespace_below(sys::own_limits().into_iter().min().unwrap_or(u64::MAX), random)
}

fn namespace_below(limit: u64, random: u64) -> u64 {
    let half = (limit / 2).min(1 << 62);
    let spread = half.saturating_sub(1 << 33).max(1);
    (half + random % spread) & !u64::from(u32::MAX)
}

/// Says whether a tag was given by the service whose tags have this in common.
pub(super) fn is_in_namespace(mark: u64, namespace: u64) -> bool {
    mark & !u64::from(u32::MAX) == namespace
}

/// Returns the call that a process belongs to: by its tag or, where tags are refused, by its session.
pub(super) fn owner_of(pid: Pid, calls: &HashMap<ProcessTag, Entry>) -> Option<ProcessTag> {
    owner_by(sys::mark_of(pid).unwrap_or(0), pid, calls)
}

/// Does the same for a process whose tag is known.
fn owner_by(mark: u64, pid: Pid, calls: &HashMap<ProcessTag, Entry>) -> Option<ProcessTag> {
    let mark = ProcessTag(mark);
    if calls.contains_key(&mark) {
        return Some(mark);
    }
    let session = tree::session_of(pid)?;
    let by_session = |(mark, entry): (&ProcessTag, &Entry)| (entry.root == Some(session)).then_some(*mark);
    calls.iter().find_map(by_session)
}

/// A stop in progress.
struct Stop {
    grace: Duration,
    kill_at: Instant,
    /// When a round had sent the kill signal to all that it found, for the first time.
    killed: Option<Instant>,
    polite: bool,
    clean: u8,
    root_gone: bool,
    /// What each process is sent in this round.
    signals: &'static [Signal],
    /// The process group that was sent it already, as a whole.
    signalled: Option<Pid>,
    waiters: Vec<oneshot::Sender<usize>>,
}

impl Stop {
    fn new(grace: Duration) -> Self {
        Self {
            grace,
            kill_at: Instant::now() + grace,
            killed: None,
            polite: false,
            clean: 0,
            root_gone: false,
            signals: &[],
            signalled: None,
            waiters: Vec::new(),
        }
    }

    /// Returns when it goes on though nothing ends: with the kill signal, and then by giving up.
    fn next_step(&self) -> Instant {
        self.killed.map_or(self.kill_at, |killed| killed + KILL_TIMEOUT)
    }

    /// Says whether what is left outlives everything.
    fn is_in_vain(&self, now: Instant) -> bool {
        self.killed.is_some() && now >= self.next_step()
    }

    /// Decides what is sent in this round: the polite signal once, the kill in every round from its time on.
    fn begin_round(&mut self, now: Instant) {
        self.signalled = None;
        self.signals = if now >= self.kill_at {
            &[Signal::KILL]
        } else if !self.polite && !self.grace.is_zero() {
            self.polite = true;
            // A stopped process acts on a polite signal only when it is continued.
            &[Signal::TERM, Signal::CONT]
        } else {
            &[]
        };
    }
}

/// What one walk found of one call.
#[derive(Default)]
struct Found {
    /// Processes of any kind: a dead one may have handed us a child after the list was read.
    seen: usize,
    /// How many of these were reaped just now.
    reaped: usize,
    alive: usize,
}

/// The thread's own state.
struct Rounds {
    shared: Arc<Reaper>,
    stops: HashMap<ProcessTag, Stop>,
    /// Clean walks of calls that ended and left something running.
    left: HashMap<ProcessTag, u8>,
    /// How many children of no call the last walk found alive.
    strays: usize,
    last_walk: Option<Instant>,
    look_at: Option<Instant>,
    closing: bool,
}

impl Rounds {
    fn run(mut self) {
        if let Some(groups) = self.shared.groups() {
            groups.sweep_dead();
        }
        let mut watched: Vec<OwnedFd> = Vec::new();
        let mut next: Option<Instant> = None;
        loop {
            let wake_at = [next, self.look_at].into_iter().flatten().min();
            self.wait(&watched, wake_at);
            let asked = self.take_inbox();
            if self.stops.is_empty() && self.closing {
                return;
            }
            let is_due = wake_at.is_some_and(|at| at <= Instant::now());
            if !asked && !is_due && self.stops.is_empty() {
                continue;
            }
            self.look_at = self.look_at.filter(|&at| at > Instant::now());
            watched.clear();
            self.begin_round();
            let found = self.walk(&mut watched);
            next = self.advance(found, watched.len());
        }
    }

    /// Sleeps until something is asked, a watched process ends, or the time has come.
    fn wait(&mut self, watched: &[OwnedFd], until: Option<Instant>) {
        let timeout = until.map(|at| {
            let time = at.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: time.as_secs().cast_signed(),
                tv_nsec: time.subsec_nanos().into(),
            }
        });
        let wake = PollFd::new(&self.shared.wake, PollFlags::IN);
        let mut sources: Vec<PollFd<'_>> = std::iter::once(wake)
            .chain(watched.iter().map(|process| PollFd::new(process, PollFlags::IN)))
            .collect();
        // Interrupted or failed, the walk that follows is harmless, and the spacing keeps it from spinning.
        let _ = poll(&mut sources, timeout.as_ref());
        if let Some(rest) = self
            .last_walk
            .and_then(|last| MIN_WALK_INTERVAL.checked_sub(last.elapsed()))
        {
            thread::sleep(rest);
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
    }

    /// Takes what was asked. Returns whether that calls for a walk now.
    fn take_inbox(&mut self) -> bool {
        let mut inbox = std::mem::take(&mut *self.shared.inbox.lock());
        if inbox.closing {
            self.closing = true;
            let marks = self.shared.tags_of(|_| true);
            inbox
                .stops
                .extend(marks.into_iter().map(|mark| (mark, Duration::ZERO, None)));
        }
        let asked = inbox.sweep || !inbox.stops.is_empty();
        for (mark, grace, done) in inbox.stops {
            let stop = self.stops.entry(mark).or_insert_with(|| Stop::new(grace));
            stop.kill_at = stop.kill_at.min(Instant::now() + grace);
            stop.waiters.extend(done);
        }
        self.look_at = [self.look_at, inbox.look_at].into_iter().flatten().min();
        asked
    }

    /// Signals what can be signalled as a whole; the walk signals the rest one by one.
    fn begin_round(&mut self) {
        let now = Instant::now();
        for (&mark, stop) in &mut self.stops {
            stop.begin_round(now);
            if stop.signals.is_empty() {
                continue;
            }
            stop.signalled = self.shared.signal_group(mark, stop.signals);
            if now >= stop.kill_at {
                // Under the lock: the group cannot have been handed to another call meanwhile.
                let calls = self.shared.calls();
                if let Some(group) = calls.get(&mark).and_then(|entry| entry.group.as_ref()) {
                    group.kill();
                }
            }
        }
    }

    /// Looks at our children and, for the calls that are stopped or left something, at their descendants.
    fn walk(&mut self, watched: &mut Vec<OwnedFd>) -> HashMap<ProcessTag, Found> {
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
        let mut found: HashMap<ProcessTag, Found> = HashMap::new();
        self.strays = self.shared.end_strays(&children, &calls);
        for child in children {
            // Read once: a child that is being born gets its tag at some moment, and one that had none yet when its
            // owner was looked for must not pass for a stranger's a moment later.
            let Some(tag) = sys::tag_of(child) else { continue };
            let value = if let TagReading::Whole(mark) = tag { mark } else { 0 };
            let Some(mark) = owner_by(value, child, &calls) else {
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
            self.count_and_signal(found, mark, (child, getpid()), watched);
            for process in tree::descendants(child) {
                self.count_and_signal(found, mark, process, watched);
            }
        }
        found
    }

    /// Counts a process, given with its parent, and signals it if it is still the one that was found.
    fn count_and_signal(
        &self,
        found: &mut Found,
        mark: ProcessTag,
        (process, parent): (Pid, Pid),
        watched: &mut Vec<OwnedFd>,
    ) {
        found.seen += 1;
        let Some(stop) = self.stops.get(&mark) else { return };
        let descriptor = match pidfd_open(process, PidfdFlags::empty()) {
            Ok(descriptor) => Some(descriptor),
            Err(rustix::io::Errno::SRCH) => return,
            Err(_) => None,
        };
        let is_ours = sys::mark_of(process) == Some(mark.0) || tree::parent_of(process) == Some(parent);
        let has_ended = match &descriptor {
            Some(descriptor) => is_readable(descriptor),
            None => !tree::is_alive(process),
        };
        if !is_ours || has_ended {
            return;
        }
        found.alive += 1;
        let was_signalled = || stop.signalled.is_some() && tree::group_of(process) == stop.signalled;
        if !stop.signals.is_empty() && !was_signalled() {
            for &signal in stop.signals {
                // Fails when it has ended, or has become somebody else's.
                let _ = match &descriptor {
                    Some(descriptor) => pidfd_send_signal(descriptor, signal),
                    None => kill_process(process, signal),
                };
            }
        }
        watched.extend(descriptor.filter(|_| watched.len() < MAX_WATCHED));
    }

    /// Takes each stop one step further. Returns when the next walk is due if nothing happens before.
    fn advance(&mut self, mut found: HashMap<ProcessTag, Found>, watched: usize) -> Option<Instant> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut due = |at: Instant| next = Some(next.map_or(at, |next| next.min(at)));
        if self.strays > 0 {
            due(now + MAX_WALK_INTERVAL);
        }
        let shared = Arc::clone(&self.shared);
        let populated: Vec<ProcessTag> = {
            let calls = shared.calls().clone();
            let looked_at = |mark: &ProcessTag| self.stops.contains_key(mark) || self.left.contains_key(mark);
            let entries = calls
                .iter()
                .filter(|(mark, entry)| looked_at(mark) && entry.is_populated());
            entries.map(|(&mark, _)| mark).collect()
        };
        let all_watched = watched >= found.values().map(|found| found.alive).sum();
        self.stops.retain(|&mark, stop| {
            let mut found = found.remove(&mark).unwrap_or_default();
            let is_watched = all_watched && found.alive > 0;
            if populated.contains(&mark) {
                found = Found {
                    seen: found.seen.max(1),
                    alive: found.alive.max(1),
                    reaped: found.reaped,
                };
            }
            stop.clean = if found.seen == 0 { stop.clean + 1 } else { 0 };
            if stop.clean >= CLEAN_WALKS || stop.is_in_vain(now) {
                conclude(&shared, mark, stop, found.alive);
                return false;
            }
            if stop.signals.contains(&Signal::KILL) {
                stop.killed.get_or_insert(now);
            }
            due(stop.next_step());
            if found.alive == 0 {
                due(now);
            } else if !is_watched {
                // Not all of it can be seen to end.
                due(now + MAX_WALK_INTERVAL);
            }
            true
        });
        for (&mark, clean) in &mut self.left {
            let found = found.get(&mark);
            let is_there = found.is_some() || populated.contains(&mark);
            let reaped_all = found.is_none_or(|found| found.seen == found.reaped);
            *clean = if is_there { 0 } else { *clean + 1 };
            let mut calls = shared.calls();
            if *clean >= CLEAN_WALKS {
                shared.forget(&mut calls, mark);
            } else if reaped_all && !populated.contains(&mark) {
                // Nothing will tell of the end when the last one has been reaped.
                due(now);
            } else if let Some(entry) = calls.get_mut(&mark) {
                entry.left = true;
            }
        }
        next
    }
}

fn conclude(shared: &Reaper, mark: ProcessTag, stop: &mut Stop, survivors: usize) {
    {
        let mut calls = shared.calls();
        // Survivors stay known, so that the end of the service tries again.
        if survivors == 0 && calls.get(&mark).is_some_and(|entry| !entry.held) {
            shared.forget(&mut calls, mark);
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

pub(super) fn is_readable(process: &OwnedFd) -> bool {
    let mut sources = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    poll(&mut sources, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_fit_below_the_limits_of_the_service() {
        for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let mut limit = u64::MAX;
            for depth in 0..12 {
                let namespace = namespace_below(limit, random);
                assert_eq!(namespace & u64::from(u32::MAX), 0, "{depth}");
                assert!(
                    namespace >= sys::LEAST_MARK && namespace | u64::from(u32::MAX) < limit,
                    "{depth}: {namespace:x}"
                );
                assert!(is_in_namespace(namespace | 9, namespace));
                limit = namespace | 9;
            }
        }
    }
}
