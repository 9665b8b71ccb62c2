//! Which calls run and which wait for their turn: the pure part.
//!
//! A call that runs holds a *slot*. A slot that comes free goes to the principal that has the fewest calls running, among
//! its sessions to the one that has the fewest, and there to the call that came first. Among equals, turns go
//! round robin, and a newcomer is last in the round, so that nobody waits for ever.
//!
//! Calls that other calls wait for would wait for their own makers: a batch would hold the last slot and its parts would
//! want it. Hence a call lends its slot to one call below it at a time, when that finds none of its own. In a tree of
//! calls somebody can always go on: who holds a slot or has been lent one either works or has lent it on. What was lent
//! counts where the slot counts.
//!
//! *Invariant:* no clock, no waiting, no locks. Nothing that may run waits after any operation ends; what has left is
//! forgotten. Every operation takes time logarithmic in the calls that wait, and linear only in the workspaces, the
//! depth of calls below calls, and the places where one session or principal waits.

mod order;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::order::Order;

/// Names a call here, in the order of arrival.
pub(crate) type Ticket = u64;

type Name = Arc<str>;

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
    Queued,
    QueuedBytes,
}

impl Limit {
    /// Returns the key of the configuration.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Running => "limits.max_running_calls",
            Self::Workspace => "limits.max_running_calls_per_workspace",
            Self::Session => "limits.max_running_calls_per_session",
            Self::Principal => "limits.max_running_calls_per_principal",
            Self::Queued => "limits.max_queued_calls",
            Self::QueuedBytes => "limits.max_queued_bytes",
        }
    }
}

impl RunLimits {
    /// Returns the value of a limit.
    pub(crate) fn most(&self, limit: Limit) -> usize {
        let own = match limit {
            Limit::Running => Some(self.max_running),
            Limit::Workspace => self.max_per_workspace,
            Limit::Session => self.max_per_session,
            Limit::Principal => self.max_per_principal,
            Limit::Queued => Some(self.max_queued),
            Limit::QueuedBytes => Some(self.max_queued_bytes),
        };
        own.unwrap_or(usize::MAX)
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
    /// The call that waits for this one.
    pub(crate) below: Option<Ticket>,
    /// Another call makes it and has been let in for that: it waits however many do.
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
    /// With a slot of its own.
    Runs,
    /// In the slot that this one has.
    RunsFor(Ticket),
}

#[derive(Debug)]
struct Entry {
    owner: SlotOwner,
    bytes: usize,
    state: SlotState,
    below: Option<Ticket>,
    /// Calls that wait and may have its slot.
    wanted_by: BTreeSet<Ticket>,
    /// The one that has its slot.
    lent_to: Option<Ticket>,
    /// It has ended, and the slot is still used.
    has_left: bool,
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
        let held = self.order.held(&request.owner);
        let lender = request.below.filter(|below| self.may_lend(*below));
        if let (Some(limit), None) = (held, lender)
            && !request.is_expected
            && let Some(limit) = self.too_full(limit, request.bytes)
        {
            return Err(Full { limit });
        }
        let ahead = self.waiting;
        let ticket = self.add(request, SlotState::Waits);
        let place = match (held, lender) {
            (None, _) => {
                self.take_slot(ticket);
                QueuePosition::Runs
            }
            (Some(_), Some(lender)) => {
                self.borrow(ticket, lender);
                QueuePosition::Runs
            }
            (Some(limit), None) => {
                self.queue(ticket);
                QueuePosition::Waits { limit, ahead }
            }
        };
        Ok((ticket, place))
    }

    /// Lets a call run whatever the limits say: it ran before the service was started again.
    pub(crate) fn enter_anyway(&mut self, owner: SlotOwner) -> Ticket {
        let request = SlotRequest {
            owner,
            bytes: 0,
            below: None,
            is_expected: true,
        };
        let ticket = self.add(request, SlotState::Waits);
        self.take_slot(ticket);
        ticket
    }

    /// Forgets a call, whether it runs or waits. Returns the calls that run from now on in its place.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let mut started = Vec::new();
        let Some(entry) = self.entries.get_mut(&ticket) else {
            return started;
        };
        // Nobody lends any more what is not there.
        let orphans = std::mem::take(&mut entry.wanted_by);
        entry.has_left = true;
        let (state, is_lent) = (entry.state, entry.lent_to.is_some());
        for orphan in orphans {
            self.entry(orphan, |orphan| orphan.below = None);
        }
        match state {
            SlotState::Waits => {
                self.unqueue(ticket);
                self.entries.remove(&ticket);
            }
            // Whoever it was lent to keeps it until its own end.
            SlotState::Runs | SlotState::RunsFor(_) if is_lent => {}
            SlotState::Runs | SlotState::RunsFor(_) => self.release(ticket, &mut started),
        }
        self.fill(&mut started);
        started
    }

    fn add(&mut self, request: SlotRequest, state: SlotState) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let entry = Entry {
            owner: request.owner,
            bytes: request.bytes,
            state,
            below: request.below,
            wanted_by: BTreeSet::new(),
            lent_to: None,
            has_left: false,
        };
        self.entries.insert(ticket, entry);
        ticket
    }

    fn entry(&mut self, ticket: Ticket, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            change(entry);
        }
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

    fn may_lend(&self, ticket: Ticket) -> bool {
        let entry = self.entries.get(&ticket);
        entry.is_some_and(|entry| entry.state != SlotState::Waits && entry.lent_to.is_none() && !entry.has_left)
    }

    fn take_slot(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get_mut(&ticket) else {
            return;
        };
        entry.state = SlotState::Runs;
        self.order.start(&entry.owner);
    }

    fn borrow(&mut self, ticket: Ticket, lender: Ticket) {
        self.entry(ticket, |entry| entry.state = SlotState::RunsFor(lender));
        self.entry(lender, |entry| {
            entry.wanted_by.remove(&ticket);
            entry.lent_to = Some(ticket);
        });
    }

    /// Gives back a slot that is no longer used.
    fn release(&mut self, ticket: Ticket, started: &mut Vec<Ticket>) {
        let mut ends = Some(ticket);
        while let Some(entry) = ends.take().and_then(|ticket| self.entries.remove(&ticket)) {
            match entry.state {
                SlotState::Waits => {}
                SlotState::Runs => self.order.stop(&entry.owner),
                SlotState::RunsFor(lender) => {
                    self.entry(lender, |lender| lender.lent_to = None);
                    if self.entries.get(&lender).is_some_and(|lender| lender.has_left) {
                        ends = Some(lender);
                    } else {
                        self.lend(lender, started);
                    }
                }
            }
        }
    }

    /// Lends a slot to the first call that wants it, and so on below that.
    fn lend(&mut self, lender: Ticket, started: &mut Vec<Ticket>) {
        let mut lender = lender;
        while self.may_lend(lender) {
            let Some(first) = self
                .entries
                .get(&lender)
                .and_then(|entry| entry.wanted_by.first().copied())
            else {
                return;
            };
            self.unqueue(first);
            self.borrow(first, lender);
            started.push(first);
            lender = first;
        }
    }

    /// Gives the slots that are free to those whose turn it is.
    fn fill(&mut self, started: &mut Vec<Ticket>) {
        while let Some(ticket) = self.order.next() {
            self.unqueue(ticket);
            self.take_slot(ticket);
            started.push(ticket);
            self.lend(ticket, started);
        }
    }

    fn queue(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get(&ticket) else { return };
        let (owner, bytes, below) = (entry.owner.clone(), entry.bytes, entry.below);
        if let Some(below) = below {
            self.entry(below, |entry| {
                entry.wanted_by.insert(ticket);
            });
        }
        self.waiting += 1;
        self.waiting_bytes += bytes;
        self.order.add(&owner, ticket);
    }

    fn unqueue(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get(&ticket) else { return };
        let (owner, bytes, below) = (entry.owner.clone(), entry.bytes, entry.below);
        if let Some(below) = below {
            self.entry(below, |entry| {
                entry.wanted_by.remove(&ticket);
            });
        }
        self.waiting -= 1;
        self.waiting_bytes -= bytes;
        self.order.remove(&owner, ticket);
    }
}

#[cfg(test)]
mod tests;
