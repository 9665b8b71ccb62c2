//! The standing approvals that one run of the service knows, and those of them that answer a request.
//!
//! *Invariant:* pure, and no more than a copy: the store decides whether a grant is still there and counts its uses.

use toolgate_model::{Action, Always, Grant, GrantId, Rule, SessionId, Timestamp};
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

    /// Returns the grants of a workspace, or of all.
    pub(super) fn list(&self, workspace: Option<&str>, now: Timestamp) -> Vec<Grant> {
        self.0
            .iter()
            .filter(|grant| workspace.is_none_or(|name| grant.workspace == name) && !grant.is_over(now))
            .cloned()
            .collect()
    }

    /// Returns what holds for a session's requests. Grants without a limit come last, so that they spare the others.
    /// What somebody granted to themselves does not hold.
    pub(super) fn standing(
        &self,
        (workspace, session): (&str, &SessionId),
        rights: &Rights,
        approvals: &ApprovalPolicy,
        now: Timestamp,
    ) -> Standing {
        let mut holding: Vec<&Grant> = self
            .0
            .iter()
            .filter(|grant| grant.holds_for(workspace, session, now) && approvals.holds_for(grant, rights))
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
    let ReplyContext { prompt, ask, by, .. } = *from;
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
