//! Judging by standing approvals, and counting their uses.
//!
//! *Invariant:* a use is counted in the store, durably and in one transaction with the question whether the grant is still
//! there, before anything is done on the strength of it.

use toolgate_model::{Ask, GrantId, Origin, Timestamp};
use toolgate_permission::Refusal;
use toolgate_permission::Rights;
use toolgate_permission::judgement::{self, Appraisal, Judgement};
use toolgate_store::StoreError;

use super::super::grants::{Place, Standing};
use super::{Asking, Question, Verdict};

impl Asking {
    fn standing(&self, origin: &Origin, rights: &Rights, now: Timestamp) -> Standing {
        let place = Place {
            owner: self.board.instance(),
            workspace: &origin.workspace,
            session: &origin.session,
        };
        self.board.state().grants.standing(&place, rights, &self.approvals, now)
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
    pub async fn decide(&self, ask: &Ask, origin: &Origin, rights: &Rights) -> Result<Verdict, Refusal> {
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
    async fn use_grants(&self, ids: &[GrantId]) -> Result<bool, StoreError> {
        if ids.is_empty() {
            return Ok(true);
        }
        let (board, ids) = (self.board.clone(), ids.to_vec());
        let counting = async move {
            let now = Timestamp::now();
            let gone = board.store.use_grants(&ids, now).await?;
            let mut state = board.state();
            if gone.is_empty() {
                state.grants.count(&ids, now);
            }
            for id in &gone {
                state.grants.remove(id);
            }
            Ok(gone.is_empty())
        };
        self.board.to_its_end(counting).await
    }
}
