//! What the engine does for a task: the subagent's session, its tools, and the end of what it left running.
//!
//! *Invariant:* the calls of a subagent are ordinary ones that name the task as their parent. None of them outlives it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admit::offer;
use super::live::{LiveCall, lock};
use super::registry::Registry;
use super::{Engine, Place, lineage};
use crate::call::{CallId, CallRecord, EndReason, Model, Origin, SessionId};
use crate::permission::agents::Agent;
use crate::permission::broker::Rights;
use crate::store::StoreError;
use crate::tool::{Delegated, dialect};

/// The session fact that makes a session a subagent's; it holds the workspace.
const SUBAGENT: &str = "subagent";

/// How far up tasks are counted; no configuration allows more.
const MAX_LINKS: usize = 256;

impl Engine {
    /// Returns the rights of an agent that works on behalf of a call, or by itself. None if there is no such call.
    ///
    /// # Errors
    /// The store failed.
    pub async fn rights_below(
        &self,
        place: &Place,
        agent: &Agent,
        parent: Option<&CallId>,
    ) -> Result<Option<Rights>, StoreError> {
        let Some(parent) = parent else {
            return Ok(Some(place.rights(agent)));
        };
        let parent = self.get(parent).await?;
        Ok(parent.map(|parent| self.rights_under(place, &agent.name, &parent)))
    }

    fn rights_under(&self, place: &Place, agent: &str, parent: &CallRecord) -> Rights {
        let (own, ancestors) = lineage::descend(place.workspace.name(), agent, Some(parent));
        self.rights_of(place, &own, &ancestors)
    }

    /// Counts the tasks above a call.
    pub(super) async fn tasks_above(&self, record: &CallRecord) -> Result<usize, StoreError> {
        let mut tasks = 0;
        let mut next = record.origin.parent.clone();
        for _ in 0..MAX_LINKS {
            let Some(id) = next else { break };
            let Some(parent) = self.get(&id).await? else { break };
            tasks += usize::from(parent.tool == lineage::TASK);
            next = parent.origin.parent;
        }
        Ok(tasks)
    }

    /// Finds or makes the session of a subagent, and says which tools it has on its model, which may not be the call's.
    pub(super) async fn delegate(
        &self,
        record: &CallRecord,
        registry: &Registry,
        (agent, mut model): (&str, Model),
        resumed: Option<&str>,
    ) -> Result<Delegated, StoreError> {
        let workspace = &record.origin.workspace;
        let known = match resumed {
            Some(id) => {
                let session = SessionId::from(id);
                let fact = self.store.fact(&session, SUBAGENT).await?;
                (fact.as_ref().and_then(Value::as_str) == Some(workspace)).then_some(session)
            }
            None => None,
        };
        let resumed = known.is_some();
        let session = known.unwrap_or_else(SessionId::generate);
        if !resumed {
            self.store.remember(&session, SUBAGENT, json!(workspace));
        }
        let (mut allowed, mut denied) = (Vec::new(), Vec::new());
        if let Some(place) = self.place(workspace) {
            dialect::complete(&mut model, &place.packages);
            let origin = Origin {
                agent: agent.to_owned(),
                model: model.clone(),
                ..record.origin.clone()
            };
            let rights = self.rights_under(place, agent, record);
            let offered = registry.offered(&offer(place, &origin), &rights);
            allowed.extend(offered.into_iter().map(|definition| definition.name));
            // What answers calls that cannot be understood is never denied.
            let others = registry.tools().map(|tool| tool.name()).skip(1);
            denied.extend(
                others
                    .filter(|name| !allowed.iter().any(|one| one == name))
                    .map(str::to_owned),
            );
        }
        Ok(Delegated {
            session,
            resumed,
            model,
            allowed,
            denied,
        })
    }

    /// Stops the calls that were made on behalf of one that has come to its end, and waits until they have ended.
    pub(super) async fn stop_below(&self, parent: &LiveCall) {
        let below: Vec<Arc<LiveCall>> = {
            let calls = lock(&self.live);
            // Under the lock: a call is either here now, or refused.
            parent.make_childless();
            let is_below = |call: &&Arc<LiveCall>| call.record().origin.parent.as_ref() == Some(&parent.id);
            calls.values().filter(is_below).cloned().collect()
        };
        let reason = match parent.stop_reason() {
            Some(EndReason::Drained) => EndReason::Drained,
            Some(_) | None => EndReason::Cancelled,
        };
        for call in &below {
            call.stop(reason);
        }
        for call in &below {
            let _ = call.watch().wait_for(|progress| progress.ended).await;
        }
    }
}
