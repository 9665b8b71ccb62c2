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

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Up,
    Down,
}

/// Fewest running first, then whose turn it is.
type Rank = (usize, u64, Name);

/// What a principal or a session has.
#[derive(Debug)]
struct Share<L> {
    running: usize,
    turn: u64,
    /// Where it waits.
    lines: BTreeSet<L>,
}

impl<L> Default for Share<L> {
    fn default() -> Self {
        Self {
            running: 0,
            turn: 0,
            lines: BTreeSet::new(),
        }
    }
}

impl<L> Share<L> {
    fn rank(&self, name: &Name) -> Rank {
        (self.running, self.turn, name.clone())
    }

    fn count(&mut self, count: Count, turn: u64) {
        match count {
            Count::Up => (self.running, self.turn) = (self.running + 1, turn),
            Count::Down => self.running -= 1,
        }
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.lines.is_empty()
    }
}

/// The calls of one workspace that wait.
#[derive(Debug, Default)]
struct Line {
    running: usize,
    principals: HashMap<Name, Sessions>,
    /// Principals that may run another call, as far as they are concerned.
    ready: BTreeSet<Rank>,
}

/// The calls of one principal in one workspace that wait.
#[derive(Debug, Default)]
struct Sessions {
    waiting: HashMap<Name, BTreeSet<Ticket>>,
    /// Sessions that may run another call.
    ready: BTreeSet<Rank>,
}

/// Calls that run and calls that wait.
#[derive(Debug)]
pub(super) struct Queue {
    limits: RunLimits,
    next_ticket: Ticket,
    next_turn: u64,
    running: usize,
    waiting: usize,
    waiting_bytes: usize,
    entries: HashMap<Ticket, Entry>,
    workspaces: HashMap<Name, Line>,
    principals: HashMap<Name, Share<Name>>,
    /// Lines of a session: workspace and principal.
    sessions: HashMap<Name, Share<(Name, Name)>>,
}

impl Queue {
    pub(super) fn new(limits: RunLimits) -> Self {
        Self {
            limits,
            next_ticket: 0,
            next_turn: 0,
            running: 0,
            waiting: 0,
            waiting_bytes: 0,
            entries: HashMap::new(),
            workspaces: HashMap::new(),
            principals: HashMap::new(),
            sessions: HashMap::new(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Says whether nothing is remembered of anybody.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        (self.running, self.waiting, self.waiting_bytes) == (0, 0, 0)
            && self.entries.is_empty()
            && self.workspaces.is_empty()
            && self.principals.is_empty()
            && self.sessions.is_empty()
    }

    /// Lets a call run, or wait.
    pub(super) fn enter(&mut self, comer: Comer) -> Result<(Ticket, Place), Full> {
        let held = self.held(&comer.who);
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

    /// Returns the limit that keeps a call of these from a slot of its own.
    fn held(&self, who: &Who) -> Option<Limit> {
        let limits = &self.limits;
        let in_workspace = self.workspaces.get(&who.workspace).map_or(0, |line| line.running);
        let in_session = self.sessions.get(&who.session).map_or(0, |share| share.running);
        let of_principal = self.principals.get(&who.principal).map_or(0, |share| share.running);
        let counts = [
            (Limit::Running, self.running),
            (Limit::Workspace, in_workspace),
            (Limit::Principal, of_principal),
            (Limit::Session, in_session),
        ];
        let reached = |(limit, count): &(Limit, usize)| *count >= limits.most(*limit);
        counts.into_iter().find(reached).map(|(limit, _)| limit)
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
        let who = entry.who.clone();
        self.running += 1;
        self.workspaces.entry(who.workspace.clone()).or_default().running += 1;
        self.count(&who, Count::Up);
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
                Stand::Runs => {
                    self.running -= 1;
                    if let Some(line) = self.workspaces.get_mut(&entry.who.workspace) {
                        line.running -= 1;
                    }
                    self.count(&entry.who, Count::Down);
                    self.forget(&entry.who);
                }
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
        while let Some(ticket) = self.next() {
            self.unqueue(ticket);
            self.take_slot(ticket);
            started.push(ticket);
            self.lend(ticket, started);
        }
    }

    /// Returns whose turn it is.
    fn next(&self) -> Option<Ticket> {
        if self.running >= self.limits.max_running {
            return None;
        }
        let most = self.limits.most(Limit::Workspace);
        let lines = self.workspaces.values().filter(|line| line.running < most);
        let firsts = lines.filter_map(|line| {
            let (running, turn, principal) = line.ready.first()?;
            let sessions = line.principals.get(principal)?;
            let (_, _, session) = sessions.ready.first()?;
            let ticket = sessions.waiting.get(session)?.first()?;
            Some((running, turn, ticket))
        });
        firsts.min().map(|(_, _, ticket)| *ticket)
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
        // Whoever did not wait comes last in the ring.
        let turn = self.turn();
        self.unrank(&who);
        let line = self.workspaces.entry(who.workspace.clone()).or_default();
        let sessions = line.principals.entry(who.principal.clone()).or_default();
        sessions.waiting.entry(who.session.clone()).or_default().insert(ticket);
        let principal = self.principals.entry(who.principal.clone()).or_default();
        if principal.lines.is_empty() {
            principal.turn = turn;
        }
        principal.lines.insert(who.workspace.clone());
        let session = self.sessions.entry(who.session.clone()).or_default();
        if session.lines.is_empty() {
            session.turn = turn;
        }
        session.lines.insert((who.workspace.clone(), who.principal.clone()));
        self.rank(&who);
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
        self.unrank(&who);
        self.take_out(&who, ticket);
        self.rank(&who);
        self.forget(&who);
    }

    fn take_out(&mut self, who: &Who, ticket: Ticket) {
        let Some(line) = self.workspaces.get_mut(&who.workspace) else {
            return;
        };
        let Some(sessions) = line.principals.get_mut(&who.principal) else {
            return;
        };
        let Some(waiting) = sessions.waiting.get_mut(&who.session) else {
            return;
        };
        waiting.remove(&ticket);
        if !waiting.is_empty() {
            return;
        }
        sessions.waiting.remove(&who.session);
        let is_empty = sessions.waiting.is_empty();
        if is_empty {
            line.principals.remove(&who.principal);
        }
        if let Some(share) = self.sessions.get_mut(&who.session) {
            share.lines.remove(&(who.workspace.clone(), who.principal.clone()));
        }
        if let Some(share) = self.principals.get_mut(&who.principal).filter(|_| is_empty) {
            share.lines.remove(&who.workspace);
        }
    }

    fn turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }

    /// Counts a call that runs, or runs no more, for its principal and session. Whoever runs another has had a turn.
    fn count(&mut self, who: &Who, count: Count) {
        let turn = self.turn();
        self.unrank(who);
        self.principals
            .entry(who.principal.clone())
            .or_default()
            .count(count, turn);
        self.sessions.entry(who.session.clone()).or_default().count(count, turn);
        self.rank(who);
    }

    /// Takes the ranks away that depend on a session and a principal.
    fn unrank(&mut self, who: &Who) {
        if let Some(share) = self.sessions.get(&who.session) {
            let rank = share.rank(&who.session);
            for (workspace, principal) in &share.lines {
                let line = self.workspaces.get_mut(workspace);
                let sessions = line.and_then(|line| line.principals.get_mut(principal));
                sessions.map(|sessions| sessions.ready.remove(&rank));
            }
        }
        for (workspace, principal) in self.lines_of(who) {
            let rank = self.principals.get(&principal).map(|share| share.rank(&principal));
            if let (Some(line), Some(rank)) = (self.workspaces.get_mut(&workspace), rank) {
                line.ready.remove(&rank);
            }
        }
    }

    /// Gives the ranks anew that depend on a session and a principal.
    fn rank(&mut self, who: &Who) {
        let most = self.limits.most(Limit::Session);
        if let Some(share) = self.sessions.get(&who.session).filter(|share| share.running < most) {
            let rank = share.rank(&who.session);
            for (workspace, principal) in &share.lines {
                let line = self.workspaces.get_mut(workspace);
                let sessions = line.and_then(|line| line.principals.get_mut(principal));
                sessions.map(|sessions| sessions.ready.insert(rank.clone()));
            }
        }
        let most = self.limits.most(Limit::Principal);
        for (workspace, principal) in self.lines_of(who) {
            let share = self.principals.get(&principal).filter(|share| share.running < most);
            let rank = share.map(|share| share.rank(&principal));
            let Some(line) = self.workspaces.get_mut(&workspace) else {
                continue;
            };
            let is_ready = |sessions: &Sessions| !sessions.ready.is_empty();
            if let Some(rank) = rank.filter(|_| line.principals.get(&principal).is_some_and(is_ready)) {
                line.ready.insert(rank);
            }
        }
    }

    /// Returns every workspace and principal whose rank depends on a session and a principal.
    fn lines_of(&self, who: &Who) -> Vec<(Name, Name)> {
        let of_session = self
            .sessions
            .get(&who.session)
            .into_iter()
            .flat_map(|share| share.lines.iter().cloned());
        let of_principal = self.principals.get(&who.principal).into_iter();
        let of_principal = of_principal.flat_map(|share| share.lines.iter());
        let of_principal = of_principal.map(|workspace| (workspace.clone(), who.principal.clone()));
        of_session.chain(of_principal).collect()
    }

    /// Drops what says nothing any more.
    fn forget(&mut self, who: &Who) {
        if self.sessions.get(&who.session).is_some_and(Share::is_idle) {
            self.sessions.remove(&who.session);
        }
        if self.principals.get(&who.principal).is_some_and(Share::is_idle) {
            self.principals.remove(&who.principal);
        }
        let is_idle = |line: &Line| line.running == 0 && line.principals.is_empty();
        if self.workspaces.get(&who.workspace).is_some_and(is_idle) {
            self.workspaces.remove(&who.workspace);
        }
    }
}

#[cfg(test)]
mod tests;
