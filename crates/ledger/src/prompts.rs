//! Prompts as whoever asks has them, and grants as they are used. Replies are taken by the gateways.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Notify;
use toolgate_contract::cluster::{
    EndPromptRequest, GetGrantRequest, GetPromptRequest, JudgedBy, ListAskedPromptsRequest, ListGrantsRequest,
    ListInterestsRequest, ListOpenPromptsRequest, ListPromptsRequest, OpenPromptRequest, ReplaceAskerRequest,
    RevokeGrantRequest, UseGrantsRequest,
};
use toolgate_model::{Approval, Grant, GrantId, InstanceId, Prompt, PromptId, PromptOutcome, SessionKey, Timestamp};
use toolgate_store::{AskedPrompt, Interest, PromptFilter, Prompts, Settled, Settlement, StoreError};

use crate::doubts::{Doubtful, Key};
use crate::follow::APPROVERS_ARE_GOOD;
use crate::store::LedgerStore;
use crate::wire;

fn not_here() -> StoreError {
    StoreError::Conflict("a worker decides nothing: replies are taken by the gateways".to_owned())
}

/// Returns grants that end when the database says so, which is asked at each use: the clock of this machine may be another one.
fn timeless(mut grants: Vec<Grant>) -> Vec<Grant> {
    for grant in &mut grants {
        grant.scope.until = None;
    }
    grants
}

impl LedgerStore {
    /// Returns the workspace of a prompt; none if it is not there.
    async fn place_of_prompt(&self, id: &PromptId) -> Result<Option<String>, StoreError> {
        match self.places.of_prompt(id) {
            Some(workspace) => Ok(Some(workspace)),
            None => Ok(self.prompt(id).await?.map(|prompt| prompt.workspace)),
        }
    }

    /// Returns the workspace of a grant; none if it is not there.
    async fn place_of_grant(&self, id: &GrantId) -> Result<Option<String>, StoreError> {
        match self.places.of_grant(id) {
            Some(workspace) => Ok(Some(workspace)),
            None => Ok(self.grant(id).await?.map(|grant| grant.workspace)),
        }
    }

    async fn end_one(&self, end: &Settlement) -> Result<Settled, StoreError> {
        let Some(workspace) = self.place_of_prompt(&end.prompt).await? else {
            return Ok(Settled::Unknown);
        };
        let hold = self.holds.of(&workspace).await?;
        let question = EndPromptRequest {
            holding: Some(wire::holding(&hold)),
            settlement: wire::json("the end of a prompt", end)?,
        };
        let answer = self.holds.change(question).await;
        self.news.come();
        let settled: Settled = wire::of_json("the end of a prompt", &answer?.settled)?;
        match &settled {
            Settled::Now { prompts } => prompts.iter().for_each(|prompt| self.told.saw(prompt)),
            Settled::Before(prompt) => self.told.saw(prompt),
            Settled::Unknown | Settled::Overtaken => {}
        }
        Ok(settled)
    }

    /// Asks what approvers listen to that concerns the calls which go on now.
    async fn interests(&self, workspaces: &[String]) -> Result<Vec<Interest>, StoreError> {
        let question = ListInterestsRequest {
            workspaces: workspaces.to_vec(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        wire::of_json("what approvers listen to", &answer.interests)
    }

    fn saw(&self, grants: &[Grant]) {
        for grant in grants {
            self.places.saw_grant(&grant.id, &grant.workspace);
        }
    }
}

#[async_trait]
impl Prompts for LedgerStore {
    async fn open(
        &self,
        prompt: Prompt,
        asker: Option<Value>,
        judged_by: Option<BTreeSet<GrantId>>,
    ) -> Result<Vec<Grant>, StoreError> {
        self.open_still()?;
        let hold = self.holds.of(&prompt.workspace).await?;
        // The decision may come a moment later.
        self.news.want();
        let again = self.doubts.take(&Key::Prompt(prompt.id.clone())).await;
        let question = OpenPromptRequest {
            holding: Some(wire::holding(&hold)),
            prompt: wire::json("a prompt", &prompt)?,
            asker: wire::optional("whoever asks", asker.as_ref())?,
            judged_by: judged_by.map(|grants| JudgedBy {
                grants: grants.iter().map(ToString::to_string).collect(),
            }),
            again,
        };
        let doubt = self.doubts.begin(Doubtful::Prompt(question.clone(), prompt.id.clone()));
        let answer = self.holds.change(question).await;
        doubt.end(&answer);
        self.news.is_unseen();
        let answer = answer?;
        self.places.saw_prompt(&prompt.id, &prompt.workspace);
        let grants: Vec<Grant> = wire::of_json("grants", &answer.grants)?;
        self.saw(&grants);
        if grants.is_empty() {
            self.told.opened(&prompt);
        }
        Ok(timeless(grants))
    }

    async fn replace_asker(&self, id: &PromptId, asker: Option<Value>) -> Result<(), StoreError> {
        let Some(workspace) = self.place_of_prompt(id).await? else {
            return Ok(());
        };
        let hold = self.holds.of(&workspace).await?;
        let question = ReplaceAskerRequest {
            holding: Some(wire::holding(&hold)),
            id: id.to_string(),
            asker: wire::optional("whoever asks", asker.as_ref())?,
        };
        let replaced = self.holds.change(question).await;
        self.news.come();
        replaced.map(drop)
    }

    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        Ok(self.asked(id).await?.map(|asked| asked.prompt))
    }

    async fn asked(&self, id: &PromptId) -> Result<Option<AskedPrompt>, StoreError> {
        let question = GetPromptRequest {
            id: id.to_string(),
            workspaces: self.holds.names(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        let asked: Option<AskedPrompt> = wire::of_optional("a prompt", &answer.asked)?;
        if let Some(asked) = &asked {
            self.places.saw_prompt(&asked.prompt.id, &asked.prompt.workspace);
            self.told.saw(&asked.prompt);
        }
        Ok(asked)
    }

    async fn asked_in(&self, session: &SessionKey) -> Result<Vec<AskedPrompt>, StoreError> {
        let question = ListAskedPromptsRequest {
            workspace: session.workspace.clone(),
            session: session.session.to_string(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        wire::of_json("prompts", &answer.asked)
    }

    async fn open_prompts(&self) -> Result<Vec<(PromptId, u64)>, StoreError> {
        self.news.want();
        let workspaces = self.holds.names();
        let question = ListOpenPromptsRequest {
            workspaces: workspaces.clone(),
        };
        let read = async {
            let answer = self.holds.gateways.ask(question).await?;
            let prompts = answer.prompts.into_iter();
            Ok(prompts.map(|one| (PromptId::new(one.id), one.revision)).collect())
        };
        let good = (&*self.news, self.news.prompts_are_good());
        self.read_prompts.or_else(good, &workspaces, read).await
    }

    async fn attended_elsewhere(&self) -> Result<Vec<Interest>, StoreError> {
        let workspaces = self.holds.names();
        let read = self.interests(&workspaces);
        self.read_interests.anew(&self.news, &workspaces, read).await
    }

    async fn attended_lately(&self) -> Result<Vec<Interest>, StoreError> {
        let workspaces = self.holds.names();
        let read = self.interests(&workspaces);
        let good = (&*self.news, APPROVERS_ARE_GOOD);
        self.read_interests.or_else(good, &workspaces, read).await
    }

    async fn prompts(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        let question = ListPromptsRequest {
            filter: wire::json("a filter", filter)?,
            workspaces: self.holds.among(&filter.workspaces),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
        };
        let answer = self.holds.gateways.ask(question).await?;
        wire::of_json("prompts", &answer.prompts)
    }

    async fn approve(&self, _: &PromptId, _: Approval) -> Result<Option<Prompt>, StoreError> {
        Err(not_here())
    }

    /// Ends prompts that nobody has decided.
    async fn settle(
        &self,
        first: Settlement,
        also: Vec<Settlement>,
        grants: Vec<Grant>,
        _: Option<BTreeSet<PromptId>>,
    ) -> Result<Settled, StoreError> {
        let decides = |end: &Settlement| match end.decision.outcome {
            PromptOutcome::Replied(_) => true,
            PromptOutcome::Expired | PromptOutcome::Withdrawn(_) => false,
        };
        if !grants.is_empty() || decides(&first) || also.iter().any(decides) {
            return Err(not_here());
        }
        let settled = self.end_one(&first).await?;
        let Settled::Now { mut prompts } = settled else {
            return Ok(settled);
        };
        // Each ends for itself: none of them follows from a decision.
        for end in &also {
            if let Settled::Now { prompts: more } = self.end_one(end).await? {
                prompts.extend(more);
            }
        }
        Ok(Settled::Now { prompts })
    }

    async fn use_grants(&self, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError> {
        let mut place = None;
        for id in ids {
            place = self.place_of_grant(id).await?;
            if place.is_some() {
                break;
            }
        }
        let Some(workspace) = place else {
            return Ok(ids.to_vec());
        };
        let hold = self.holds.of(&workspace).await?;
        let question = UseGrantsRequest {
            holding: Some(wire::holding(&hold)),
            ids: ids.iter().map(ToString::to_string).collect(),
            now_millis: now.millis(),
        };
        let answer = self.holds.change(question).await?;
        Ok(answer.missing.into_iter().map(GrantId::new).collect())
    }

    async fn grants(&self, owner: &InstanceId) -> Result<Vec<Grant>, StoreError> {
        let question = ListGrantsRequest {
            run: owner.to_string(),
            workspaces: self.holds.names(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        let grants: Vec<Grant> = wire::of_json("grants", &answer.grants)?;
        self.saw(&grants);
        Ok(timeless(grants))
    }

    async fn grant(&self, id: &GrantId) -> Result<Option<Grant>, StoreError> {
        let question = GetGrantRequest {
            id: id.to_string(),
            workspaces: self.holds.names(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        let grant: Option<Grant> = wire::of_optional("a grant", &answer.grant)?;
        self.saw(grant.as_slice());
        Ok(grant)
    }

    async fn revoke(&self, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
        let Some(workspace) = self.place_of_grant(id).await? else {
            return Ok(None);
        };
        let hold = self.holds.of(&workspace).await?;
        let question = RevokeGrantRequest {
            holding: Some(wire::holding(&hold)),
            id: id.to_string(),
            by: by.to_owned(),
        };
        let answer = self.holds.change(question).await?;
        wire::of_optional("a grant", &answer.grant)
    }

    fn changed_elsewhere(&self) -> Option<Arc<Notify>> {
        Some(Arc::clone(&self.changed))
    }
}
