//! "Run this instead": a person answers a permission prompt with another input.
//!
//! *Invariant:* the new input is checked and frozen like a model's before the reply counts, and the call's log has it before
//! it runs. The tool is then started anew with exactly that input; the rules still deny what they deny.

use std::sync::Arc;

use toolgate_model::{CallRecord, Ending, InputEdit, Outcome, PromptState, RawInput, Reply};
use toolgate_store::StoreError;

use super::Engine;
use super::admit;
use super::input::{self, Frozen};
use super::lineage;
use crate::prompts::broker::{ApproverReply, ReplyOutcome};

/// How much of the input that ran the model is told.
const TOLD: usize = 4096;

impl Engine {
    /// Replies to a prompt. Of an edited reply only the text counts; its digest is made here.
    ///
    /// # Errors
    /// The store failed; nothing is decided.
    pub async fn reply(&self, mut given: ApproverReply) -> Result<ReplyOutcome, StoreError> {
        if let Reply::Instead(edit) = &given.reply
            && let Some(prompt) = self.broker.get(&given.prompt).await?
            && prompt.state == PromptState::Open
            && prompt.input_json.is_some()
            && let Some(record) = self.get(&prompt.call).await?
        {
            match self.freeze_edit(&record, &edit.input_json) {
                Ok(frozen) => {
                    given.reply = Reply::Instead(InputEdit {
                        input_json: frozen.json,
                        input_digest: frozen.digest,
                    });
                }
                Err(problem) => {
                    let prompt = Arc::new(prompt);
                    return Ok(ReplyOutcome::BadEdit { prompt, problem });
                }
            }
        }
        let (principal, own_words) = (given.principal.id(), given.by.clone());
        let replied = self.broker.reply(given).await?;
        self.record_reply(&replied, (&principal, &own_words));
        Ok(replied)
    }

    fn freeze_edit(&self, record: &CallRecord, text: &str) -> Result<Frozen, String> {
        let limit = self.limits.max_input_bytes;
        if text.len() > limit {
            return Err(format!(
                "the input has {} bytes; at most {limit} are allowed",
                text.len()
            ));
        }
        if !self.redactor.is_shown(text) {
            return Err(
                "the input contains a secret that is not to be shown (redact.* of the configuration)".to_owned(),
            );
        }
        let gone = || format!("the tool {} is not available any more", record.tool);
        let place = self.place(&record.origin.workspace).ok_or_else(gone)?;
        let rights = self.rights_of(place, &lineage::own(record), &record.ancestors);
        let offer = admit::offer(place, &record.origin);
        let registry = place.tools.current();
        let entry = registry.resolve(&record.tool, &offer, &rights).ok_or_else(gone)?;
        let value = input::parse(&RawInput::Json(text.to_owned())).map_err(|(_, problem)| problem)?;
        let checked = admit::checked(entry, value);
        match checked.problem {
            Some((_, problem)) => Err(problem),
            None => Ok(checked.frozen),
        }
    }
}

/// Tells the model in the end of a call whose input a person replaced what it was that ran.
pub(super) fn tell(mut ending: Ending, record: &CallRecord) -> Ending {
    if record.original.is_none() {
        return ending;
    }
    let input = &record.input_json;
    let end = input.floor_char_boundary(TOLD);
    let more = if end < input.len() { " …" } else { "" };
    let note = format!(
        "\n\nThe user replaced the input of this call before allowing it. What ran instead: {}{more}",
        &input[..end]
    );
    match &mut ending.outcome {
        Outcome::Completed { output: text } | Outcome::Failed { error: text, .. } => text.push_str(&note),
    }
    ending.metadata.insert("edited".to_owned(), true.into());
    ending
}
