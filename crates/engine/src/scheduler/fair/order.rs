//! Whose turn it is: what runs and what waits, by workspace, principal and session.
//!
//! A workspace has its principals that wait in the order of their turns, and each of those its sessions. A limit of one of
//! them takes all that waits behind it out of the order at once, so that nobody has to be passed over.
//!
//! *Invariant:* in a `ready` set is exactly who waits and could run as far as that level is concerned, under its present rank.

use std::collections::{BTreeSet, HashMap};

use super::{Limit, Name, RunLimits, SlotOwner, Ticket};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Up,
    Down,
}

/// Fewest running first, then whose turn it is.
type Rank = (usize, u64, Name);

/// What a principal or a session has.
#[derive(Debug)]
pub(super) struct Share<L> {
    pub(super) running: usize,
    pub(super) turn: u64,
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
pub(super) struct Line {
    pub(super) running: usize,
    principals: HashMap<Name, Sessions>,
    /// Principals that may run another call, as far as they are concerned.
    ready: BTreeSet<Rank>,
}

/// The calls of one principal in one workspace that wait.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    waiting: HashMap<Name, BTreeSet<Ticket>>,
    /// Sessions that may run another call.
    ready: BTreeSet<Rank>,
}

/// Calls that have a slot, and calls that wait for one.
#[derive(Debug)]
pub(super) struct Order {
    limits: RunLimits,
    next_turn: u64,
    pub(super) running: usize,
    pub(super) workspaces: HashMap<Name, Line>,
    pub(super) principals: HashMap<Name, Share<Name>>,
    /// Lines of a session: workspace and principal.
    pub(super) sessions: HashMap<Name, Share<(Name, Name)>>,
}

impl Order {
    pub(super) fn new(limits: RunLimits) -> Self {
        Self {
            limits,
            next_turn: 0,
            running: 0,
            workspaces: HashMap::new(),
            principals: HashMap::new(),
            sessions: HashMap::new(),
        }
    }

    /// Returns whether nothing is remembered of anybody.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.running == 0 && self.workspaces.is_empty() && self.principals.is_empty() && self.sessions.is_empty()
    }

    /// Returns the limit that keeps a call of these from a slot of its own.
    pub(super) fn held(&self, owner: &SlotOwner) -> Option<Limit> {
        let limits = &self.limits;
        let in_workspace = self.workspaces.get(&owner.workspace).map_or(0, |line| line.running);
        let in_session = self.sessions.get(&owner.session).map_or(0, |share| share.running);
        let of_principal = self.principals.get(&owner.principal).map_or(0, |share| share.running);
        let counts = [
            (Limit::Running, self.running),
            (Limit::Workspace, in_workspace),
            (Limit::Principal, of_principal),
            (Limit::Session, in_session),
        ];
        counts
            .into_iter()
            .find(|(limit, count)| *count >= limits.value(*limit))
            .map(|(limit, _)| limit)
    }

    /// Returns whose turn it is.
    pub(super) fn next(&self) -> Option<Ticket> {
        if self.running >= self.limits.max_running {
            return None;
        }
        let most = self.limits.value(Limit::Workspace);
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

    /// Notes that a call of these runs.
    pub(super) fn start(&mut self, owner: &SlotOwner) {
        self.running += 1;
        self.workspaces.entry(owner.workspace.clone()).or_default().running += 1;
        self.count(owner, Count::Up);
    }

    /// Notes that a call of these runs no more.
    pub(super) fn stop(&mut self, owner: &SlotOwner) {
        self.running -= 1;
        if let Some(line) = self.workspaces.get_mut(&owner.workspace) {
            line.running -= 1;
        }
        self.count(owner, Count::Down);
        self.forget(owner);
    }

    /// Notes that a call of these waits.
    pub(super) fn add(&mut self, owner: &SlotOwner, ticket: Ticket) {
        // Whoever did not wait comes last in the ring.
        let turn = self.turn();
        self.unrank(owner);
        let line = self.workspaces.entry(owner.workspace.clone()).or_default();
        let sessions = line.principals.entry(owner.principal.clone()).or_default();
        sessions
            .waiting
            .entry(owner.session.clone())
            .or_default()
            .insert(ticket);
        let principal = self.principals.entry(owner.principal.clone()).or_default();
        if principal.lines.is_empty() {
            principal.turn = turn;
        }
        principal.lines.insert(owner.workspace.clone());
        let session = self.sessions.entry(owner.session.clone()).or_default();
        if session.lines.is_empty() {
            session.turn = turn;
        }
        session.lines.insert((owner.workspace.clone(), owner.principal.clone()));
        self.rank(owner);
    }

    /// Notes that a call waits no more.
    pub(super) fn remove(&mut self, owner: &SlotOwner, ticket: Ticket) {
        self.unrank(owner);
        self.take_out(owner, ticket);
        self.rank(owner);
        self.forget(owner);
    }

    fn take_out(&mut self, owner: &SlotOwner, ticket: Ticket) {
        let Some(line) = self.workspaces.get_mut(&owner.workspace) else {
            return;
        };
        let Some(sessions) = line.principals.get_mut(&owner.principal) else {
            return;
        };
        let Some(waiting) = sessions.waiting.get_mut(&owner.session) else {
            return;
        };
        waiting.remove(&ticket);
        if !waiting.is_empty() {
            return;
        }
        sessions.waiting.remove(&owner.session);
        let is_empty = sessions.waiting.is_empty();
        if is_empty {
            line.principals.remove(&owner.principal);
        }
        if let Some(share) = self.sessions.get_mut(&owner.session) {
            share.lines.remove(&(owner.workspace.clone(), owner.principal.clone()));
        }
        if let Some(share) = self.principals.get_mut(&owner.principal).filter(|_| is_empty) {
            share.lines.remove(&owner.workspace);
        }
    }

    fn turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }

    /// Counts a call that runs, or runs no more, for its principal and session. Whoever runs another has had a turn.
    fn count(&mut self, owner: &SlotOwner, count: Count) {
        let turn = self.turn();
        self.unrank(owner);
        self.principals
            .entry(owner.principal.clone())
            .or_default()
            .count(count, turn);
        self.sessions
            .entry(owner.session.clone())
            .or_default()
            .count(count, turn);
        self.rank(owner);
    }

    /// Takes the ranks away that depend on a session and a principal.
    fn unrank(&mut self, owner: &SlotOwner) {
        if let Some(share) = self.sessions.get(&owner.session) {
            let rank = share.rank(&owner.session);
            for (workspace, principal) in &share.lines {
                let line = self.workspaces.get_mut(workspace);
                let sessions = line.and_then(|line| line.principals.get_mut(principal));
                sessions.map(|sessions| sessions.ready.remove(&rank));
            }
        }
        for (workspace, principal) in self.lines_of(owner) {
            let rank = self.principals.get(&principal).map(|share| share.rank(&principal));
            if let (Some(line), Some(rank)) = (self.workspaces.get_mut(&workspace), rank) {
                line.ready.remove(&rank);
            }
        }
    }

    /// Gives the ranks anew that depend on a session and a principal.
    fn rank(&mut self, owner: &SlotOwner) {
        let most = self.limits.value(Limit::Session);
        if let Some(share) = self.sessions.get(&owner.session).filter(|share| share.running < most) {
            let rank = share.rank(&owner.session);
            for (workspace, principal) in &share.lines {
                let line = self.workspaces.get_mut(workspace);
                let sessions = line.and_then(|line| line.principals.get_mut(principal));
                sessions.map(|sessions| sessions.ready.insert(rank.clone()));
            }
        }
        let most = self.limits.value(Limit::Principal);
        for (workspace, principal) in self.lines_of(owner) {
            let share = self.principals.get(&principal).filter(|share| share.running < most);
            let rank = share.map(|share| share.rank(&principal));
            let Some(line) = self.workspaces.get_mut(&workspace) else {
                continue;
            };
            let sessions = line.principals.get(&principal);
            if let (Some(rank), Some(true)) = (rank, sessions.map(|sessions| !sessions.ready.is_empty())) {
                line.ready.insert(rank);
            }
        }
    }

    /// Returns every workspace and principal whose rank depends on a session and a principal.
    fn lines_of(&self, owner: &SlotOwner) -> Vec<(Name, Name)> {
        let of_session = self
            .sessions
            .get(&owner.session)
            .into_iter()
            .flat_map(|share| share.lines.iter().cloned());
        let of_principal = self.principals.get(&owner.principal).into_iter();
        let of_principal = of_principal.flat_map(|share| share.lines.iter());
        let of_principal = of_principal.map(|workspace| (workspace.clone(), owner.principal.clone()));
        of_session.chain(of_principal).collect()
    }

    /// Drops what says nothing any more.
    fn forget(&mut self, owner: &SlotOwner) {
        if self.sessions.get(&owner.session).is_some_and(Share::is_idle) {
            self.sessions.remove(&owner.session);
        }
        if self.principals.get(&owner.principal).is_some_and(Share::is_idle) {
            self.principals.remove(&owner.principal);
        }
        let line = self.workspaces.get(&owner.workspace);
        if line.is_some_and(|line| line.running == 0 && line.principals.is_empty()) {
            self.workspaces.remove(&owner.workspace);
        }
    }
}
