//! Notices when a session makes the same call again and again (`docs/spec/framework.md` §10
//! and §16 F4).
//!
//! What clients make stands in one row. In another one, a call that hands on calls of the model is replaced by them: the
//! same command three times is noticed whether it came by itself or in a batch, and so is the same batch. What a batch
//! holds several times counts once: it was asked for at once, before anything came back.
//!
//! *Invariant:* [`LoopDetector`] is pure. What is forgotten of a session is read again from the store.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use toolgate_model::{CONNECTION, CallId, CallRecord, SessionKey, WorkspaceSet};
use toolgate_store::{CallFilter, PageRequest, Store};

/// Sessions whose last calls are remembered; beyond that they are read from the store.
const SESSIONS_REMEMBERED: usize = 4096;

/// How far back the last calls of a session are looked for.
const LAST_CALLS: usize = 32;

/// The last two, and a call that may turn out to hand on others.
const REMEMBERED: usize = 3;

/// One call of a row.
#[derive(Clone, Debug)]
struct Step {
    id: CallId,
    tool: String,
    digest: String,
    handed_on_by: Option<CallId>,
    /// The connection of its client, where sessions outlive those.
    connection: Option<String>,
}

impl Step {
    /// Returns the step that a call is, if it is one.
    fn from_record(record: &CallRecord) -> Option<Self> {
        let is_step = !record.made_by_call || record.is_step;
        is_step.then(|| Self {
            id: record.id.clone(),
            tool: record.tool.clone(),
            digest: record.input_digest.clone(),
            handed_on_by: record.origin.parent.clone().filter(|_| record.made_by_call),
            connection: record
                .origin
                .extra
                .get(CONNECTION)
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }

    fn is_same_as(&self, other: &Self) -> bool {
        let call = (&self.tool, &self.digest, &self.connection);
        call == (&other.tool, &other.digest, &other.connection)
    }
}

/// The last calls of a session, newest last.
#[derive(Clone, Debug, Default)]
struct LoopDetector {
    made: Vec<Step>,
    unpacked: Vec<Step>,
    /// The last call that was reported as a repetition: what it hands on is not reported once more.
    reported: Option<CallId>,
}

impl LoopDetector {
    /// Adds a call and says whether it is the third identical one in a row.
    fn push(&mut self, step: Step) -> bool {
        if let Some(bundle) = &step.handed_on_by {
            self.unpacked.retain(|step| step.id != *bundle);
            let mut unpacked = self.unpacked.iter();
            if unpacked.any(|other| other.handed_on_by == step.handed_on_by && other.is_same_as(&step)) {
                return false;
            }
            let is_reported = self.reported.as_ref() == Some(bundle);
            return add(&mut self.unpacked, step) && !is_reported;
        }
        let id = step.id.clone();
        let again = add(&mut self.made, step.clone());
        let is_repeated = add(&mut self.unpacked, step) || again;
        self.reported = is_repeated.then_some(id);
        is_repeated
    }
}

/// Adds a step and says whether the two before it are identical.
fn add(row: &mut Vec<Step>, step: Step) -> bool {
    let in_a_row = row.iter().rev().take(2).filter(|other| other.is_same_as(&step)).count() == 2;
    row.push(step);
    if row.len() > REMEMBERED {
        row.remove(0);
    }
    in_a_row
}

/// Notices, for every session, calls that are made again and again.
pub(crate) struct LoopGuard {
    store: Arc<dyn Store>,
    sessions: Mutex<HashMap<SessionKey, LoopDetector>>,
}

impl LoopGuard {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            sessions: Mutex::default(),
        }
    }

    /// Returns whether this call is the third identical one in a row of its session, and remembers the call.
    pub(crate) async fn is_repeated(&self, record: &CallRecord) -> bool {
        let Some(step) = Step::from_record(record) else {
            return false;
        };
        let session = record.origin.session_key();
        let is_remembered = self.sessions.lock().contains_key(&session);
        let stored = if is_remembered {
            LoopDetector::default()
        } else {
            self.last_calls(&session).await
        };
        let mut sessions = self.sessions.lock();
        if sessions.len() >= SESSIONS_REMEMBERED && !is_remembered {
            // Any session can be read again from the store.
            if let Some(any) = sessions.keys().next().cloned() {
                sessions.remove(&any);
            }
        }
        sessions.entry(session).or_insert(stored).push(step)
    }

    /// Forgets the calls of a session: it has ended, or the store has them.
    pub(crate) fn forget(&self, session: &SessionKey) {
        self.sessions.lock().remove(session);
    }

    async fn last_calls(&self, session: &SessionKey) -> LoopDetector {
        let filter = CallFilter {
            workspaces: WorkspaceSet::one(&session.workspace),
            session: Some(session.session.clone()),
            ..Default::default()
        };
        let page = PageRequest {
            size: LAST_CALLS,
            after: None,
        };
        let mut row = LoopDetector::default();
        match self.store.list_calls(&filter, &page).await {
            Ok(page) => {
                for step in page.items.iter().rev().filter_map(Step::from_record) {
                    row.push(step);
                }
            }
            Err(error) => {
                tracing::error!(session = %session.session, error = &error as &dyn std::error::Error, "the last calls of a session could not be read");
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each call is its tool, in brackets what it hands on; `!` says that the call before it is the third in a row.
    fn check(calls: &str) {
        let mut row = LoopDetector::default();
        let mut shown = String::new();
        let mut bundle: Option<CallId> = None;
        for (at, tool) in calls.chars().filter(|c| *c != '!').enumerate() {
            shown.push(tool);
            if tool == ']' {
                bundle = None;
                continue;
            }
            let id = CallId::from(format!("call-{at}").as_str());
            let step = Step {
                id: id.clone(),
                tool: tool.to_string(),
                digest: String::new(),
                handed_on_by: bundle.clone(),
                connection: None,
            };
            if row.push(step) {
                shown.push('!');
            }
            if tool == '[' {
                bundle = Some(id);
            }
        }
        assert_eq!(shown, calls);
    }

    #[test]
    fn the_third_in_a_row_is_noticed() {
        check("aaa!a!");
        check("aabaa");
        check("ababab");
    }

    #[test]
    fn what_is_handed_on_stands_where_it_was_handed_on() {
        check("[aaaa]");
        check("[aa]aa!");
        check("[aa]a[a!a]");
        check("aa[a!ba]");
        check("a[a]a!");
        check("[ab][ab][!ab]");
        check("[a][a][!a]");
        check("a[]a[]a");
    }
}
