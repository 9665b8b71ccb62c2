//! What the broker does with standing approvals: judging by them, counting their uses, taking them back.
//!
//! *Invariant:* a use is counted in the store, durably and in one transaction with the question whether the grant is still
//! there, before anything is done on the strength of it.

use std::sync::Arc;

use toolgate_model::{Ask, Grant, GrantId, GrantReach, Origin, SessionKey, Timestamp};
use toolgate_permission::Refusal;
use toolgate_permission::Rights;
use toolgate_permission::judgement::{self, Appraisal, Judgement};
use toolgate_store::StoreError;

use super::broker::{Broker, Question, Verdict};
use super::grants::Standing;

impl Broker {
    /// Takes up the grants that outlast a run of the service.
    ///
    /// # Errors
    /// The store failed.
    pub async fn load(&self) -> Result<(), StoreError> {
        let grants = self.store.grants(self.instance()).await?;
        self.state().grants.add(grants);
        Ok(())
    }

    fn standing(&self, origin: &Origin, rights: &Rights, now: Timestamp) -> Standing {
        let whose = (origin.workspace.as_str(), &origin.session);
        self.state().grants.standing(whose, rights, self.approvals(), now)
    }

    /// Judges a request and its parts for somebody who only wants to know. Returns the grants that allow it, too.
    pub(crate) fn appraise(&self, origin: &Origin, rights: &Rights, ask: &Ask) -> (Appraisal, Vec<GrantId>) {
        let standing = self.standing(origin, rights, Timestamp::now());
        let appraisal = judgement::appraise(ask, rights, &standing.rules);
        let grants = standing.ids(&appraisal.used);
        (appraisal, grants)
    }

    /// Judges a request without asking anybody.
    pub fn judge(&self, origin: &Origin, rights: &Rights, ask: &Ask) -> Judgement {
        let now = Timestamp::now();
        let standing = self.standing(origin, rights, now);
        judgement::judge(ask, rights, &standing.rules)
    }

    /// Judges a request and, where grants allow it, counts their use: durably, before anything is done on the strength of
    /// it.
    ///
    /// # Errors
    /// A rule denies it, or the store failed.
    pub async fn decide(self: &Arc<Self>, ask: &Ask, origin: &Origin, rights: &Rights) -> Result<Verdict, Refusal> {
        loop {
            let now = Timestamp::now();
            let standing = self.standing(origin, rights, now);
            match judgement::judge(ask, rights, &standing.rules) {
                Judgement::Allow { used } => {
                    let grants = standing.ids(&used);
                    match self.use_grants(&grants).await {
                        Ok(true) => return Ok(Verdict::Allowed { grants }),
                        // One grant is gone. Each round has one fewer, so the loop ends.
                        Ok(false) => {}
                        Err(error) => {
                            tracing::error!(
                                error = &error as &dyn std::error::Error,
                                "the use of a grant could not be counted"
                            );
                            return Err(Refusal::Unavailable);
                        }
                    }
                }
                Judgement::Deny { relevant } => return Err(Refusal::Denied { relevant }),
                Judgement::Ask { rule, verdicts } => return Ok(Verdict::Ask(Question { rule, verdicts })),
            }
        }
    }

    /// Counts a use of each grant, or of none: the store knows best whether they are still there.
    async fn use_grants(self: &Arc<Self>, ids: &[GrantId]) -> Result<bool, StoreError> {
        if ids.is_empty() {
            return Ok(true);
        }
        let (broker, ids) = (self.clone(), ids.to_vec());
        self.to_its_end(async move {
            let now = Timestamp::now();
            let gone = broker.store.use_grants(&ids, now).await?;
            let mut state = broker.state();
            if gone.is_empty() {
                state.grants.count(&ids, now);
            }
            for id in &gone {
                state.grants.remove(id);
            }
            Ok(gone.is_empty())
        })
        .await
    }

    /// Returns the standing approvals of a workspace, or of all, oldest first.
    pub fn grants(&self, workspace: Option<&str>) -> Vec<Grant> {
        self.state().grants.list(workspace, Timestamp::now())
    }

    /// Takes a standing approval back, in the name of a principal if one is known.
    ///
    /// # Errors
    /// The store failed; the approval stands.
    pub async fn revoke(self: &Arc<Self>, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
        let (id, by) = (id.clone(), by.to_owned());
        self.change(|broker| async move {
            let revoked = broker.store.revoke(&id, &by).await?;
            let known = broker.state().grants.remove(&id);
            Ok(revoked.or(known))
        })
        .await
    }

    /// Takes back every standing approval of a workspace: the next one of its name may be another folder.
    ///
    /// # Errors
    /// The store failed; some approvals may stand.
    pub async fn end_workspace(self: &Arc<Self>, workspace: &str, by: &str) -> Result<(), StoreError> {
        for grant in self.grants(Some(workspace)) {
            self.revoke(&grant.id, by).await?;
        }
        Ok(())
    }

    /// Takes back what was granted to a session only, because the session has ended.
    ///
    /// # Errors
    /// The store failed; some approvals may stand.
    pub async fn end_session(self: &Arc<Self>, session: &SessionKey) -> Result<(), StoreError> {
        for grant in self.grants(Some(&session.workspace)) {
            if grant.scope.reach == GrantReach::Session && grant.session == session.session {
                self.revoke(&grant.id, "").await?;
            }
        }
        Ok(())
    }
}
