//! The standing approvals that are known, and those of them that answer a request.
//!
//! *Invariant:* pure, and no more than a copy: the store decides whether a grant is still there and counts its uses.

use std::collections::BTreeSet;
use std::path::Path;

use toolgate_model::{Action, Always, Grant, GrantId, InstanceId, Rule, SessionId, Timestamp};
use toolgate_permission::Rights;

use super::approvals::ApprovalPolicy;
use super::exchange::ReplyContext;

/// Known grants, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants(Vec<Grant>);

/// The grants that hold for the requests of one session at one moment.
#[derive(Debug, Default)]
pub(super) struct Standing {
    ids: Vec<GrantId>,
    /// What they allow, as a ruleset. Of two that match the later one is used.
    pub(super) rules: Vec<Rule>,
}

/// Where a request is made.
pub(super) struct Place<'a> {
    /// The run of the service that asks.
    pub(super) owner: &'a InstanceId,
    pub(super) workspace: &'a str,
    pub(super) session: &'a SessionId,
}

impl Place<'_> {
    fn is_reached_by(&self, grant: &Grant, now: Timestamp) -> bool {
        let holds_in_run = grant.scope.reach.outlasts_the_run() || grant.owner == *self.owner;
        holds_in_run && grant.holds_for(self.workspace, self.session, now)
    }
}

impl Standing {
    /// Returns the grants at these places of the ruleset.
    pub(super) fn ids(&self, places: &[usize]) -> Vec<GrantId> {
        places
            .iter()
            .filter_map(|&place| self.ids.get(place).cloned())
            .collect()
    }
}

impl Grants {
    pub(super) fn add(&mut self, grants: impl IntoIterator<Item = Grant>) {
        for grant in grants {
            if self.0.iter().all(|known| known.id != grant.id) {
                self.0.push(grant);
            }
        }
    }

    /// Takes these in the place of those known so far.
    pub(super) fn replace(&mut self, grants: Vec<Grant>) {
        self.0 = grants;
    }

    pub(super) fn ids(&self) -> BTreeSet<GrantId> {
        self.0.iter().map(|grant| grant.id.clone()).collect()
    }

    pub(super) fn remove(&mut self, id: &GrantId) -> Option<Grant> {
        let place = self.0.iter().position(|grant| grant.id == *id)?;
        Some(self.0.remove(place))
    }

    /// Counts a use of each; those that ended with it, or by time, are forgotten.
    pub(super) fn count(&mut self, ids: &[GrantId], now: Timestamp) {
        for grant in self.0.iter_mut().filter(|grant| ids.contains(&grant.id)) {
            grant.count(now);
        }
        self.0.retain(|grant| !grant.is_over(now));
    }

    /// Returns what holds for a session's requests. Grants without a limit come last, so that they spare the others.
    /// What somebody granted to themselves does not hold.
    pub(super) fn standing(
        &self,
        place: &Place<'_>,
        rights: &Rights,
        approvals: &ApprovalPolicy,
        now: Timestamp,
    ) -> Standing {
        let mut holding: Vec<&Grant> = self
            .0
            .iter()
            .filter(|grant| place.is_reached_by(grant, now) && approvals.holds_for(grant, rights))
            // Workspaces of two processes may have one name and lie in different folders.
            .filter(|grant| grant.worktree.is_empty() || Path::new(&grant.worktree) == &*rights.worktree)
            .collect();
        holding.sort_by_key(|grant| grant.scope.uses.is_none());
        Standing {
            ids: holding.iter().map(|grant| grant.id.clone()).collect(),
            rules: holding.into_iter().map(as_rule).collect(),
        }
    }
}

/// Makes the grants that an `always` reply leaves behind: word for word what the prompt listed, or what was chosen of it.
pub(super) fn make_grants(from: &ReplyContext<'_>, always: &Always) -> Vec<Grant> {
    let ReplyContext {
        prompt,
        ask,
        by,
        worktree,
        ..
    } = *from;
    let chosen = if always.patterns.is_empty() {
        &ask.always
    } else {
        &always.patterns
    };
    let mut patterns: Vec<&String> = Vec::new();
    for pattern in chosen {
        if ask.always.contains(pattern) && !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    let grant = |pattern: &String| Grant {
        id: GrantId::generate(),
        owner: prompt.owner.clone(),
        workspace: prompt.workspace.clone(),
        worktree: worktree.to_owned(),
        session: prompt.session.clone(),
        scope: always.scope,
        permission: ask.permission.clone(),
        pattern: pattern.clone(),
        prompt: prompt.id.clone(),
        title: ask.title.clone(),
        by: by.to_owned(),
        approvers: from.approvers.clone(),
        created: Timestamp::now(),
        uses: 0,
        last_used: None,
    };
    patterns.into_iter().map(grant).collect()
}

fn as_rule(grant: &Grant) -> Rule {
    Rule {
        permission: grant.permission.clone(),
        pattern: grant.pattern.clone(),
        action: Action::Allow,
    }
}
