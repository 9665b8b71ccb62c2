//! Which approvers are there, and which were until a moment ago.
//!
//! A client that shows each prompt as a form has shown it once: when the form is dismissed, the prompt is still open, but
//! nobody sees it there any more.
//!
//! *Invariant:* pure but for the clock that it is told. Who left is remembered by what they listened to, and only so many;
//! dismissals are forgotten with their prompts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use toolgate_model::{Prompt, PromptId};
use toolgate_store::Interest;

use super::exchange::Subscription;

/// Interests of approvers who left that are remembered; beyond that the earliest to leave are forgotten.
const REMEMBERED: usize = 256;

/// The approvers at one run of the service, and those at others that share its store.
#[derive(Debug)]
pub(super) struct Presence {
    here: Vec<(u64, Subscription)>,
    /// Those at other processes that share the store, as they were last looked for.
    elsewhere: Vec<Subscription>,
    /// Prompts whose form was dismissed, and when.
    dismissed: BTreeMap<PromptId, Instant>,
    /// In the order in which they left.
    left: Vec<(Subscription, Instant)>,
    next: u64,
    /// A prompt of an earlier run is not abandoned before anybody could come back.
    begun: Instant,
}

impl Presence {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            here: Vec::new(),
            elsewhere: Vec::new(),
            dismissed: BTreeMap::new(),
            left: Vec::new(),
            next: 0,
            begun: now,
        }
    }

    /// Notes that an approver came; the number is for the end of the visit. Who may not answer is no approver.
    pub(super) fn enter(&mut self, interest: Subscription) -> u64 {
        self.next += 1;
        if !interest.only_watches {
            self.here.push((self.next, interest));
        }
        self.next
    }

    pub(super) fn leave(&mut self, visit: u64, now: Instant) {
        let Some(place) = self.here.iter().position(|(id, _)| *id == visit) else {
            return;
        };
        let (_, interest) = self.here.remove(place);
        self.remember(interest, now);
    }

    fn remember(&mut self, interest: Subscription, now: Instant) {
        self.left.retain(|(before, _)| *before != interest);
        if self.left.len() >= REMEMBERED {
            self.left.remove(0);
        }
        self.left.push((interest, now));
    }

    /// Returns what those listen to who are here.
    pub(super) fn interests(&self) -> Vec<Interest> {
        self.here.iter().map(|(_, interest)| interest.into()).collect()
    }

    /// Notes who is at other processes; says whether that is new.
    pub(super) fn found_elsewhere(&mut self, interests: Vec<Interest>, now: Instant) -> bool {
        let found: Vec<Subscription> = interests.into_iter().map(Subscription::from).collect();
        if found == self.elsewhere {
            return false;
        }
        for before in std::mem::replace(&mut self.elsewhere, found) {
            if !self.elsewhere.contains(&before) {
                self.remember(before, now);
            }
        }
        true
    }

    /// Notes that the form of a prompt was dismissed without an answer.
    pub(super) fn dismiss(&mut self, prompt: &PromptId, now: Instant) {
        self.dismissed.insert(prompt.clone(), now);
    }

    /// Forgets a prompt that has ended.
    pub(super) fn forget(&mut self, prompt: &PromptId) {
        self.dismissed.remove(prompt);
    }

    /// Returns how many approvers see this prompt.
    pub(super) fn count(&self, prompt: &Prompt) -> usize {
        // A form is shown for the calls of its own client only, so no other client's form shows this prompt either.
        let by_form = !self.dismissed.contains_key(&prompt.id);
        let here = self.here.iter().map(|(_, interest)| interest);
        here.chain(&self.elsewhere)
            .filter(|interest| (by_form || !interest.forms) && interest.covers(prompt))
            .count()
    }

    /// Returns whether a prompt was dismissed and nobody else sees it.
    pub(super) fn is_dismissed(&self, prompt: &Prompt) -> bool {
        self.dismissed.contains_key(&prompt.id) && self.count(prompt) == 0
    }

    /// Returns whether one who sees this prompt is there, or was within this time.
    pub(super) fn was_here(&self, prompt: &Prompt, within: Duration, now: Instant) -> bool {
        self.count(prompt) > 0
            || self
                .left
                .iter()
                .any(|(interest, left)| interest.covers(prompt) && now.saturating_duration_since(*left) < within)
    }

    /// Returns after how long a waiting prompt is abandoned, if nobody comes; none as long as somebody is there.
    pub(super) fn abandoned_in(&self, prompt: &Prompt, within: Duration, now: Instant) -> Option<Duration> {
        if self.count(prompt) > 0 {
            return None;
        }
        let seen = self.left.iter().filter(|(interest, _)| interest.covers(prompt));
        let left = seen
            .map(|&(_, left)| left)
            .chain(self.dismissed.get(&prompt.id).copied());
        let last = left.max().unwrap_or(self.begun).max(self.begun);
        Some(within.saturating_sub(now.saturating_duration_since(last)))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_model::{
        Ask, CallId, InstanceId, PromptId, PromptRequest, PromptState, SessionId, Timestamp, WorkspaceSet,
    };

    use super::*;

    fn prompt(session: &str) -> Prompt {
        Prompt {
            directory: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            approvals: Vec::new(),
            id: PromptId::from("p"),
            call: CallId::from("c"),
            owner: InstanceId::from("i"),
            session: SessionId::from(session),
            workspace: "w".to_owned(),
            agent: String::new(),
            tool: String::new(),
            requester: String::new(),
            created: Timestamp(0),
            expires: None,
            state: PromptState::Open,
            input_digest: String::new(),
            input_json: None,
            request: PromptRequest::Permission {
                ask: Box::new(Ask::default()),
                rule: None,
                verdicts: Vec::new(),
            },
            decision: None,
            environment: Default::default(),
        }
    }

    #[test]
    fn who_left_counts_for_a_while() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let within = Duration::from_secs(10);
        let mut presence = Presence::new(begun);
        let (mine, other) = (prompt("mine"), prompt("other"));
        assert!(!presence.was_here(&mine, within, at(1)), "a start is no visit");
        assert_eq!(
            presence.abandoned_in(&mine, within, at(4)),
            Some(Duration::from_secs(6)),
            "but time to come back"
        );
        let visit = presence.enter(Subscription {
            workspaces: WorkspaceSet::ALL,
            sessions: vec![SessionId::from("mine")],
            forms: false,
            clients: Vec::new(),
            only_watches: false,
        });
        let watching = presence.enter(Subscription {
            only_watches: true,
            ..Subscription::default()
        });
        assert_eq!((presence.count(&mine), presence.count(&other)), (1, 0));
        assert_eq!(presence.abandoned_in(&mine, within, at(100)), None);
        presence.leave(visit, at(100));
        presence.leave(visit, at(200));
        presence.leave(watching, at(200));
        assert!(presence.was_here(&mine, within, at(109)));
        assert!(!presence.was_here(&mine, within, at(110)));
        assert!(!presence.was_here(&other, within, at(101)));
        assert_eq!(
            presence.abandoned_in(&mine, within, at(107)),
            Some(Duration::from_secs(3))
        );
        assert_eq!(presence.abandoned_in(&mine, within, at(300)), Some(Duration::ZERO));
        for _ in 0..2 * REMEMBERED {
            let visit = presence.enter(Subscription::default());
            presence.leave(visit, at(400));
        }
        assert_eq!(presence.left.len(), 2, "each interest is remembered once");
    }

    #[test]
    fn approvers_elsewhere_count_as_those_here() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let within = Duration::from_secs(10);
        let mut presence = Presence::new(begun);
        let prompt = prompt("mine");
        let of_session = |session: &str| {
            Interest::from(&Subscription {
                sessions: vec![SessionId::from(session)],
                ..Subscription::default()
            })
        };
        assert!(presence.found_elsewhere(vec![of_session("mine"), of_session("other")], at(1)));
        assert_eq!((presence.count(&prompt), presence.interests()), (1, Vec::new()));
        assert!(!presence.found_elsewhere(vec![of_session("mine"), of_session("other")], at(2)));
        assert!(presence.found_elsewhere(vec![of_session("other")], at(20)));
        assert_eq!(presence.count(&prompt), 0);
        assert!(presence.was_here(&prompt, within, at(29)) && !presence.was_here(&prompt, within, at(30)));
    }

    #[test]
    fn a_dismissed_form_is_no_approver() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut presence = Presence::new(begun);
        let prompt = prompt("mine");
        let form = Subscription {
            forms: true,
            ..Subscription::default()
        };
        presence.enter(form.clone());
        presence.enter(form);
        assert_eq!((presence.count(&prompt), presence.is_dismissed(&prompt)), (2, false));
        presence.dismiss(&prompt.id, at(5));
        assert_eq!((presence.count(&prompt), presence.is_dismissed(&prompt)), (0, true));
        let within = Duration::from_secs(10);
        assert_eq!(
            presence.abandoned_in(&prompt, within, at(7)),
            Some(Duration::from_secs(8))
        );
        let visit = presence.enter(Subscription::default());
        assert_eq!((presence.count(&prompt), presence.is_dismissed(&prompt)), (1, false));
        presence.leave(visit, at(8));
        assert!(presence.is_dismissed(&prompt));
        presence.forget(&prompt.id);
        assert_eq!(presence.count(&prompt), 2);
    }
}
