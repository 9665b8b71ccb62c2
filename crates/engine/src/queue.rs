//! Which calls run and which wait for their turn: the pure part.
//!
//! A call that runs holds a *slot*. A slot that comes free goes to the principal that has the fewest calls running, among
//! its sessions to the one that has the fewest, and there to the call that came first. Of equals each has a turn before
//! one has two, and whoever comes anew is the last in the ring, so that nobody waits for ever.
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
pub(super) type Ticket = u64;

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
pub(super) enum Limit {
    Running,
    Workspace,
    Session,
    Principal,
    Queued,
    QueuedBytes,
}

impl Limit {
    /// Returns the key of the configuration.
    pub(super) fn key(self) -> &'static str {
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
    pub(super) fn most(&self, limit: Limit) -> usize {
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

/// Where a call counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Who {
    pub(super) workspace: Name,
    pub(super) session: Name,
    pub(super) principal: Name,
}

/// A call that comes.
#[derive(Clone, Debug)]
pub(super) struct Comer {
    pub(super) who: Who,
    /// Bytes of its input.
    pub(super) bytes: usize,
    /// The call that waits for this one.
    pub(super) below: Option<Ticket>,
    /// Another call makes it and has been let in for that: it waits however many do.
    pub(super) is_expected: bool,
}

/// What became of a call that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Runs,
    /// It waits, for this limit, and so many waited already.
    Waits {
        limit: Limit,
        ahead: usize,
    },
}

/// Why a call cannot even wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full {
    pub(super) limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Waits,
    /// With a slot of its own.
    Runs,
    /// In the slot that this one has.
    RunsFor(Ticket),
}

#[derive(Debug)]
struct Entry {
    who: Who,
    bytes: usize,
    stand: Stand,
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
pub(super) struct Queue {
    limits: RunLimits,
    next_ticket: Ticket,
    waiting: usize,
    waiting_bytes: usize,
    entries: HashMap<Ticket, Entry>,
    order: Order,
}

impl Queue {
    pub(super) fn new(limits: RunLimits) -> Self {
        Self {
            limits,
            next_ticket: 0,
            waiting: 0,
            waiting_bytes: 0,
            entries: HashMap::new(),
            order: Order::new(limits),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Says whether nothing is remembered of anybody.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        (self.waiting, self.waiting_bytes) == (0, 0) && self.entries.is_empty() && self.order.is_empty()
    }

    /// Lets a call run, or wait.
    pub(super) fn enter(&mut self, comer: Comer) -> Result<(Ticket, Place), Full> {
        let held = self.order.held(&comer.who);
        let lender = comer.below.filter(|below| self.may_lend(*below));
        if let (Some(limit), None) = (held, lender)
            && !comer.is_expected
            && let Some(limit) = self.too_full(limit, comer.bytes)
        {
            return Err(Full { limit });
        }
        let ahead = self.waiting;
        let ticket = self.add(comer, Stand::Waits);
        let place = match (held, lender) {
            (None, _) => {
                self.take_slot(ticket);
                Place::Runs
            }
            (Some(_), Some(lender)) => {
                self.borrow(ticket, lender);
                Place::Runs
            }
            (Some(limit), None) => {
                self.queue(ticket);
                Place::Waits { limit, ahead }
            }
        };
        Ok((ticket, place))
    }

    /// Lets a call run whatever the limits say: it ran before the service was started again.
    pub(super) fn enter_anyway(&mut self, who: Who) -> Ticket {
        let comer = Comer {
            who,
            bytes: 0,
            below: None,
            is_expected: true,
        };
        let ticket = self.add(comer, Stand::Waits);
        self.take_slot(ticket);
        ticket
    }

    /// Forgets a call, whether it runs or waits. Returns the calls that run from now on in its place.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let mut started = Vec::new();
        let Some(entry) = self.entries.get_mut(&ticket) else {
            return started;
        };
        // Nobody lends any more what is not there.
        let orphans = std::mem::take(&mut entry.wanted_by);
        entry.has_left = true;
        let (stand, is_lent) = (entry.stand, entry.lent_to.is_some());
        for orphan in orphans {
            self.entry(orphan, |orphan| orphan.below = None);
        }
        match stand {
            Stand::Waits => {
                self.unqueue(ticket);
                self.entries.remove(&ticket);
            }
            // Whoever it was lent to keeps it until its own end.
            Stand::Runs | Stand::RunsFor(_) if is_lent => {}
            Stand::Runs | Stand::RunsFor(_) => self.release(ticket, &mut started),
        }
        self.fill(&mut started);
        started
    }

    fn add(&mut self, comer: Comer, stand: Stand) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let entry = Entry {
            who: comer.who,
            bytes: comer.bytes,
            stand,
            below: comer.below,
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
        entry.is_some_and(|entry| entry.stand != Stand::Waits && entry.lent_to.is_none() && !entry.has_left)
    }

    fn take_slot(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get_mut(&ticket) else {
            return;
        };
        entry.stand = Stand::Runs;
        self.order.start(&entry.who);
    }

    fn borrow(&mut self, ticket: Ticket, lender: Ticket) {
        self.entry(ticket, |entry| entry.stand = Stand::RunsFor(lender));
        self.entry(lender, |entry| {
            entry.wanted_by.remove(&ticket);
            entry.lent_to = Some(ticket);
        });
    }

    /// Gives a slot back that nobody uses any more.
    fn release(&mut self, ticket: Ticket, started: &mut Vec<Ticket>) {
        let mut ends = Some(ticket);
        while let Some(entry) = ends.take().and_then(|ticket| self.entries.remove(&ticket)) {
            match entry.stand {
                Stand::Waits => {}
                Stand::Runs => self.order.stop(&entry.who),
                Stand::RunsFor(lender) => {
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
        let (who, bytes, below) = (entry.who.clone(), entry.bytes, entry.below);
        if let Some(below) = below {
            self.entry(below, |entry| {
                entry.wanted_by.insert(ticket);
            });
        }
        self.waiting += 1;
        self.waiting_bytes += bytes;
        self.order.add(&who, ticket);
    }

    fn unqueue(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get(&ticket) else { return };
        let (who, bytes, below) = (entry.who.clone(), entry.bytes, entry.below);
        if let Some(below) = below {
            self.entry(below, |entry| {
                entry.wanted_by.remove(&ticket);
            });
        }
        self.waiting -= 1;
        self.waiting_bytes -= bytes;
        self.order.remove(&who, ticket);
    }
}

#[cfg(test)]
mod tests;
