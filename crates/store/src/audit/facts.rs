//! What is recorded of calls, prompts, decisions and refusals, and how many refusals at the door are.
//!
//! *Invariant:* no clock but the one that is handed in, no store.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use toolgate_model::{
    Approval, Ask, CallRecord, Decision, Grant, GrantId, Origin, Outcome, Prompt, PromptOutcome, PromptRequest, Reply,
    Rule, Timestamp, ToolCall,
};

use super::{Fact, Kind};

impl Fact {
    /// Makes a fact that says nothing but its kind.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            instance: None,
            workspace: String::new(),
            session: None,
            call: None,
            parent: None,
            tool: String::new(),
            agent: String::new(),
            requester: String::new(),
            by: String::new(),
            input_digest: String::new(),
            prompt: None,
            because_of: None,
            permission: String::new(),
            patterns: Vec::new(),
            decision: String::new(),
            rules: Vec::new(),
            reason: String::new(),
            grants: Vec::new(),
            count: None,
            chain: String::new(),
            removed: None,
            removed_hash: String::new(),
        }
    }

    fn from_origin(kind: Kind, origin: &Origin) -> Self {
        Self {
            workspace: origin.workspace.clone(),
            session: Some(origin.session.clone()),
            parent: origin.parent.clone(),
            agent: origin.agent.clone(),
            requester: origin.requester.clone(),
            ..Self::new(kind)
        }
    }

    fn from_call(kind: Kind, record: &CallRecord) -> Self {
        Self {
            instance: Some(record.owner.clone()),
            call: Some(record.id.clone()),
            tool: record.tool.clone(),
            input_digest: record.input_digest.clone(),
            ..Self::from_origin(kind, &record.origin)
        }
    }

    fn from_prompt(kind: Kind, prompt: &Prompt) -> Self {
        let mut fact = Self {
            instance: Some(prompt.owner.clone()),
            workspace: prompt.workspace.clone(),
            session: Some(prompt.session.clone()),
            call: Some(prompt.call.clone()),
            tool: prompt.tool.clone(),
            agent: prompt.agent.clone(),
            requester: prompt.requester.clone(),
            input_digest: prompt.input_digest.clone(),
            prompt: Some(prompt.id.clone()),
            ..Self::new(kind)
        };
        match &prompt.request {
            PromptRequest::Permission { ask, rule, .. } => {
                fact.permission.clone_from(&ask.permission);
                fact.patterns.clone_from(&ask.patterns);
                fact.rules.extend(rule.clone());
            }
            PromptRequest::Questions(questions) => {
                fact.patterns = questions.iter().map(|question| question.header.clone()).collect();
            }
        }
        fact
    }

    /// A call was admitted.
    pub fn admitted(record: &CallRecord) -> Self {
        Self::from_call(Kind::Admitted, record)
    }

    /// A call ended.
    pub fn ended(record: &CallRecord) -> Self {
        let (decision, reason) = match record.ending.as_ref().map(|ending| &ending.outcome) {
            Some(Outcome::Failed { reason, .. }) => ("failed", reason.as_str()),
            Some(Outcome::Completed { .. }) | None => ("completed", ""),
        };
        Self {
            decision: decision.to_owned(),
            reason: reason.to_owned(),
            ..Self::from_call(Kind::Ended, record)
        }
    }

    /// A request made no call; `reason` is a word.
    pub fn not_admitted(call: &ToolCall, reason: &'static str) -> Self {
        Self {
            call: Some(call.id.clone()),
            tool: call.tool.clone(),
            reason: reason.to_owned(),
            ..Self::from_origin(Kind::Refused, &call.origin)
        }
    }

    /// A reply to a prompt was not taken; `reason` is a word.
    pub fn not_taken(prompt: &Prompt, (principal, own_words): (&str, &str), reason: &'static str) -> Self {
        Self {
            by: who(principal, own_words),
            reason: reason.to_owned(),
            ..Self::from_prompt(Kind::Refused, prompt)
        }
    }

    /// Rules and grants allowed what a call asked for.
    pub fn allowed(record: &CallRecord, ask: &Ask, rules: Vec<Rule>, grants: Vec<GrantId>) -> Self {
        Self {
            permission: ask.permission.clone(),
            patterns: ask.patterns.clone(),
            rules,
            grants,
            ..Self::from_call(Kind::Allowed, record)
        }
    }

    /// What a call asked for was refused without a prompt.
    pub fn denied(record: &CallRecord, ask: &Ask, rules: Vec<Rule>, reason: &'static str) -> Self {
        Self {
            permission: ask.permission.clone(),
            patterns: ask.patterns.clone(),
            rules,
            reason: reason.to_owned(),
            ..Self::from_call(Kind::Denied, record)
        }
    }

    /// Somebody looked at something without making a call; `what` names it in the place of a tool.
    pub fn glanced(kind: Kind, origin: &Origin, what: &str, ask: &Ask) -> Self {
        Self {
            tool: what.to_owned(),
            permission: ask.permission.clone(),
            patterns: ask.patterns.clone(),
            ..Self::from_origin(kind, origin)
        }
    }

    /// A person was asked.
    pub fn prompted(prompt: &Prompt) -> Self {
        Self::from_prompt(Kind::Prompted, prompt)
    }

    /// Somebody approved a prompt that takes two.
    pub fn approved(prompt: &Prompt, approval: &Approval) -> Self {
        Self {
            by: who(&approval.principal, &approval.by),
            ..Self::from_prompt(Kind::Approved, prompt)
        }
    }

    /// A prompt ended, making or using these grants.
    pub fn decided(prompt: &Prompt, grants: Vec<GrantId>) -> Self {
        let mut fact = Self {
            grants,
            ..Self::from_prompt(Kind::Decided, prompt)
        };
        if let Some(decision) = &prompt.decision {
            fact.decide(decision);
        }
        fact
    }

    fn decide(&mut self, decision: &Decision) {
        self.by = who(&decision.principal, &decision.by);
        self.because_of.clone_from(&decision.because_of);
        let (word, reason) = match &decision.outcome {
            PromptOutcome::Replied(Reply::Once) => ("once", ""),
            PromptOutcome::Replied(Reply::Always(_)) => ("always", ""),
            PromptOutcome::Replied(Reply::Instead(edit)) => ("instead", edit.input_digest.as_str()),
            PromptOutcome::Replied(Reply::Answers(_)) => ("answers", ""),
            PromptOutcome::Replied(Reply::Reject { message }) => ("reject", message.as_str()),
            PromptOutcome::Expired => ("expired", ""),
            PromptOutcome::Withdrawn(why) => ("withdrawn", why.as_str()),
        };
        self.decision = word.to_owned();
        self.reason = reason.to_owned();
    }

    /// A workspace was opened while the service ran.
    pub fn workspace_opened(name: &str, directory: &str, by: &str) -> Self {
        Self {
            by: by.to_owned(),
            workspace: name.to_owned(),
            patterns: Some(directory.to_owned())
                .filter(|directory| !directory.is_empty())
                .into_iter()
                .collect(),
            ..Self::new(Kind::WorkspaceOpened)
        }
    }

    /// It was closed, by a principal if one is known.
    pub fn workspace_closed(name: &str, by: &str) -> Self {
        Self {
            by: by.to_owned(),
            workspace: name.to_owned(),
            ..Self::new(Kind::WorkspaceClosed)
        }
    }

    /// A created workspace was suspended, by a principal, or by itself.
    pub fn workspace_suspended(name: &str, by: &str) -> Self {
        Self {
            by: by.to_owned(),
            workspace: name.to_owned(),
            ..Self::new(Kind::WorkspaceSuspended)
        }
    }

    /// It was resumed, by a principal, or by itself.
    pub fn workspace_resumed(name: &str, by: &str) -> Self {
        Self {
            by: by.to_owned(),
            workspace: name.to_owned(),
            ..Self::new(Kind::WorkspaceResumed)
        }
    }

    /// A grant was taken back, by a principal if one is known.
    pub fn revoked(grant: &Grant, by: &str) -> Self {
        Self {
            by: by.to_owned(),
            instance: Some(grant.owner.clone()),
            workspace: grant.workspace.clone(),
            prompt: Some(grant.prompt.clone()),
            permission: grant.permission.clone(),
            patterns: vec![grant.pattern.clone()],
            grants: vec![grant.id.clone()],
            ..Self::new(Kind::Revoked)
        }
    }
}

/// Returns who did something: the principal, or what it calls itself where nobody need be known.
fn who(principal: &str, own_words: &str) -> String {
    if principal.is_empty() { own_words } else { principal }.to_owned()
}

/// Of each reason, this many refusals are recorded one by one in each window.
const MAX_SINGLE_REFUSALS: u64 = 20;

/// The window after which the others are recorded, as one record with their number.
const REFUSAL_WINDOW: Duration = Duration::from_secs(60);

/// Keeps a flood of refusals from filling the disk: beyond some they are only counted.
#[derive(Debug, Default)]
pub struct RefusalSampler {
    /// The window of each reason; reasons are words of the service, so there are few.
    windows: Mutex<HashMap<String, Window>>,
}

#[derive(Debug)]
struct Window {
    begun: Timestamp,
    recorded: u64,
    counted: u64,
}

impl RefusalSampler {
    /// Takes a refusal in; returns what is to be recorded now.
    pub fn refuse(&self, now: Timestamp, fact: Fact) -> Vec<Fact> {
        let mut windows = self.windows.lock();
        let mut facts = Vec::new();
        if windows
            .get(&fact.reason)
            .is_some_and(|window| now.since(window.begun) >= REFUSAL_WINDOW)
        {
            facts.extend(
                windows
                    .remove(&fact.reason)
                    .and_then(|window| summary(&fact.reason, &window)),
            );
        }
        let window = windows.entry(fact.reason.clone()).or_insert(Window {
            begun: now,
            recorded: 0,
            counted: 0,
        });
        if window.recorded < MAX_SINGLE_REFUSALS {
            window.recorded += 1;
            facts.push(fact);
        } else {
            window.counted += 1;
        }
        facts
    }

    /// Returns what was only counted in windows that are over; in all of them if the service stops.
    pub fn flush(&self, now: Timestamp, stops: bool) -> Vec<Fact> {
        let mut windows = self.windows.lock();
        let mut facts = Vec::new();
        windows.retain(|reason, window| {
            let over = stops || now.since(window.begun) >= REFUSAL_WINDOW;
            if over {
                facts.extend(summary(reason, window));
            }
            !over
        });
        facts
    }
}

fn summary(reason: &str, window: &Window) -> Option<Fact> {
    (window.counted > 0).then(|| Fact {
        reason: reason.to_owned(),
        count: Some(window.counted),
        ..Fact::new(Kind::Refused)
    })
}
