//! Which calls run and which wait for their turn: the pure part.
//!
//! A call that runs holds a *slot*. A slot that comes free goes to the principal that has the fewest calls running, among
//! its sessions to the one that has the fewest, and there to the call that came first. Among equals, turns go
//! round robin, and a newcomer is last in the round, so that nobody waits for ever.
//!
//! A call below a running call takes no slot: its parent has one already, or runs below one that has, and would hold it
//! while the child waited. Instead at most [`MAX_RUNNING_PER_CALL`] run below each call, and no more than may run at all; the
//! others wait for those. When the parent ends first, what runs below it takes a slot of its own, beyond the limits if need
//! be, and what waits below it takes its turn like any other.
//!
//! *Invariant:* no clock, no waiting, no locks. Nothing that may run waits after any operation ends; what has left is
//! forgotten. Every operation takes time logarithmic in the calls that wait, and linear only in the workspaces, the
//! calls that start or lose their parent, and the places where one session or principal waits.

mod order;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::order::Order;

/// Names a call here, in the order of arrival.
pub(crate) type Ticket = u64;

type Name = Arc<str>;

/// How many calls run below one call: as many as a `batch` makes (`docs/spec/framework.md` §11), and no more for a subagent or
/// a hosted tool, since the limits do not count them.
const MAX_RUNNING_PER_CALL: usize = 25;

/// How many calls may run at once, and how many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Calls that run, all together.
    pub max_running: usize,
    /// Those of one workspace.
    pub max_per_workspace: Option<usize>,
    /// Those of one session.
    pub max_per_session: Option<usize>,
    /// Those of one principal.
    pub max_per_principal: Option<usize>,
    /// Calls that wait for their turn.
    pub max_queued: usize,
    /// Bytes of their inputs.
    pub max_queued_bytes: usize,
}

/// What holds a call back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Running,
    Workspace,
    Session,
    Principal,
    /// Of the calls below one call.
    Call,
    Queued,
    QueuedBytes,
}

impl Limit {
    /// Returns the key of the configuration, or the name of what cannot be configured.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Running => "limits.max_running_calls",
            Self::Workspace => "limits.max_running_calls_per_workspace",
            Self::Session => "limits.max_running_calls_per_session",
            Self::Principal => "limits.max_running_calls_per_principal",
            Self::Call => "max_running_calls_per_call",
            Self::Queued => "limits.max_queued_calls",
            Self::QueuedBytes => "limits.max_queued_bytes",
        }
    }
}

impl RunLimits {
    /// Returns the value of a limit.
    pub(crate) fn value(&self, limit: Limit) -> usize {
        let value = match limit {
            Limit::Running => Some(self.max_running),
            Limit::Workspace => self.max_per_workspace,
            Limit::Session => self.max_per_session,
            Limit::Principal => self.max_per_principal,
            Limit::Call => Some(MAX_RUNNING_PER_CALL),
            Limit::Queued => Some(self.max_queued),
            Limit::QueuedBytes => Some(self.max_queued_bytes),
        };
        value.unwrap_or(usize::MAX)
    }

    /// Returns the limit on the calls that run below one call: the tightest of all on running calls.
    fn below_call(&self) -> Limit {
        let limits = [Limit::Running, Limit::Workspace, Limit::Principal, Limit::Session];
        let tightest = limits.into_iter().min_by_key(|limit| self.value(*limit));
        tightest
            .filter(|limit| self.value(*limit) < MAX_RUNNING_PER_CALL)
            .unwrap_or(Limit::Call)
    }
}

/// Whose limits a call counts towards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotOwner {
    pub(crate) workspace: Name,
    pub(crate) session: Name,
    pub(crate) principal: Name,
}

/// A call that asks for a slot.
#[derive(Clone, Debug)]
pub(crate) struct SlotRequest {
    pub(crate) owner: SlotOwner,
    /// Bytes of its input.
    pub(crate) bytes: usize,
    /// The call below which it runs.
    pub(crate) parent: Option<Ticket>,
    /// Its parent makes it and was admitted for that: it waits however many do.
    pub(crate) is_expected: bool,
}

/// Whether a new call runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePosition {
    Runs,
    /// It waits, for this limit, and so many waited already.
    Waits {
        limit: Limit,
        ahead: usize,
    },
}

/// Why a call cannot even wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Waits,
    /// With a slot.
    Runs,
    /// Without one, below its parent.
    RunsBelow,
}

#[derive(Debug)]
struct Entry {
    owner: SlotOwner,
    bytes: usize,
    state: SlotState,
    /// None once that one has ended.
    parent: Option<Ticket>,
    running_below: BTreeSet<Ticket>,
    waiting_below: BTreeSet<Ticket>,
}

/// Calls that run and calls that wait.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: RunLimits,
    next_ticket: Ticket,
    waiting: usize,
    waiting_bytes: usize,
    entries: HashMap<Ticket, Entry>,
    order: Order,
}

impl Queue {
    pub(crate) fn new(limits: RunLimits) -> Self {
        Self {
            limits,
            next_ticket: 0,
            waiting: 0,
            waiting_bytes: 0,
            entries: HashMap::new(),
            order: Order::new(limits),
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether nothing is remembered of anybody.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        (self.waiting, self.waiting_bytes) == (0, 0) && self.entries.is_empty() && self.order.is_empty()
    }

    /// Lets a call run, or wait.
    pub(crate) fn enter(&mut self, request: SlotRequest) -> Result<(Ticket, QueuePosition), Full> {
        let parent = request.parent.and_then(|parent| self.entries.get(&parent));
        let held = match parent {
            Some(parent) => self.held_below(parent),
            None => self.order.held(&request.owner),
        };
        let parent = request.parent.filter(|_| parent.is_some());
        if let Some(limit) = held
            && !request.is_expected
            && let Some(limit) = self.too_full(limit, request.bytes)
        {
            return Err(Full { limit });
        }
        let ahead = self.waiting;
        let ticket = self.add(request.owner, request.bytes, parent);
        let position = match held {
            None => {
                self.start(ticket);
                QueuePosition::Runs
            }
            Some(limit) => {
                self.queue(ticket);
                QueuePosition::Waits { limit, ahead }
            }
        };
        Ok((ticket, position))
    }

    /// Lets a call run whatever the limits say: it ran before the service was started again.
    pub(crate) fn enter_anyway(&mut self, owner: SlotOwner) -> Ticket {
        let ticket = self.add(owner, 0, None);
        self.start(ticket);
        ticket
    }

    /// Forgets a call, whether it runs or waits. Returns the calls that run from now on in its place.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let mut started = Vec::new();
        self.remove(ticket, &mut started);
        while let Some(next) = self.order.next() {
            self.start_waiting(next, &mut started);
        }
        started
    }

    /// Takes a call out, and lets those start that waited for it below its parent.
    fn remove(&mut self, ticket: Ticket, started: &mut Vec<Ticket>) {
        if self.state(ticket) == Some(SlotState::Waits) {
            self.unqueue(ticket);
        }
        let Some(entry) = self.entries.remove(&ticket) else {
            return;
        };
        if entry.state == SlotState::Runs {
            self.order.stop(&entry.owner);
        }
        for child in entry.running_below.into_iter().chain(entry.waiting_below) {
            self.release_child(child);
        }
        if let Some(parent) = entry.parent {
            self.change(parent, |parent| {
                parent.running_below.remove(&ticket);
            });
            self.start_below(parent, started);
        }
    }

    /// Lets a call count for itself, since its parent has ended.
    fn release_child(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get_mut(&ticket) else {
            return;
        };
        entry.parent = None;
        if entry.state == SlotState::Waits {
            self.order.add(&entry.owner, ticket);
        } else {
            entry.state = SlotState::Runs;
            self.order.start(&entry.owner);
        }
    }

    fn add(&mut self, owner: SlotOwner, bytes: usize, parent: Option<Ticket>) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let entry = Entry {
            owner,
            bytes,
            state: SlotState::Waits,
            parent,
            running_below: BTreeSet::new(),
            waiting_below: BTreeSet::new(),
        };
        self.entries.insert(ticket, entry);
        ticket
    }

    fn change(&mut self, ticket: Ticket, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            change(entry);
        }
    }

    fn state(&self, ticket: Ticket) -> Option<SlotState> {
        self.entries.get(&ticket).map(|entry| entry.state)
    }

    /// Returns the limit that keeps another call from running below this one.
    fn held_below(&self, parent: &Entry) -> Option<Limit> {
        let limit = self.limits.below_call();
        if parent.state == SlotState::Waits {
            return Some(self.order.held(&parent.owner).unwrap_or(limit));
        }
        (parent.running_below.len() >= self.limits.value(limit)).then_some(limit)
    }

    /// Returns the limit that keeps a call from waiting: where none may wait, the one that it would wait for.
    fn too_full(&self, held: Limit, bytes: usize) -> Option<Limit> {
        if self.limits.max_queued == 0 {
            return Some(held);
        }
        if self.waiting >= self.limits.max_queued {
            return Some(Limit::Queued);
        }
        let bytes = self.waiting_bytes.saturating_add(bytes);
        (bytes > self.limits.max_queued_bytes).then_some(Limit::QueuedBytes)
    }

    /// Lets a call run that does not wait.
    fn start(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get_mut(&ticket) else {
            return;
        };
        if let Some(parent) = entry.parent {
            entry.state = SlotState::RunsBelow;
            self.change(parent, |parent| {
                parent.running_below.insert(ticket);
            });
        } else {
            entry.state = SlotState::Runs;
            self.order.start(&entry.owner);
        }
    }

    /// Lets a call run that waits, and what waits below it.
    fn start_waiting(&mut self, ticket: Ticket, started: &mut Vec<Ticket>) {
        self.unqueue(ticket);
        self.start(ticket);
        started.push(ticket);
        self.start_below(ticket, started);
    }

    /// Lets calls run that wait below one that runs.
    fn start_below(&mut self, parent: Ticket, started: &mut Vec<Ticket>) {
        // Not by recursion: clients choose how deep calls hang below each other.
        let mut parents = vec![parent];
        while let Some(parent) = parents.pop() {
            while let Some(child) = self.next_below(parent) {
                self.unqueue(child);
                self.start(child);
                started.push(child);
                parents.push(child);
            }
        }
    }

    fn next_below(&self, parent: Ticket) -> Option<Ticket> {
        let parent = self.entries.get(&parent)?;
        let first = parent.waiting_below.first()?;
        self.held_below(parent).is_none().then_some(*first)
    }

    fn queue(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get(&ticket) else { return };
        self.waiting += 1;
        self.waiting_bytes += entry.bytes;
        match entry.parent {
            None => self.order.add(&entry.owner, ticket),
            Some(parent) => self.change(parent, |parent| {
                parent.waiting_below.insert(ticket);
            }),
        }
    }

    fn unqueue(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get(&ticket) else { return };
        self.waiting -= 1;
        self.waiting_bytes -= entry.bytes;
        match entry.parent {
            None => self.order.remove(&entry.owner, ticket),
            Some(parent) => self.change(parent, |parent| {
                parent.waiting_below.remove(&ticket);
            }),
        }
    }
}

#[cfg(test)]
mod tests;
