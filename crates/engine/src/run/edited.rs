//! "Run this instead": a person answers a permission prompt with another input.
//!
//! *Invariant:* the new input is checked and frozen like a model's before the reply counts, and the call's log has it before
//! it runs. The tool is then started anew with exactly that input; the rules still deny what they deny.

use std::sync::Arc;

use toolgate_model::{CallRecord, Ending, InputEdit, Outcome, PromptState, RawInput, Reply};
use toolgate_store::StoreError;

use crate::admission::arguments;
use crate::input::{self, Frozen};
use crate::lookup;
use crate::parts::Parts;
use crate::prompts::exchange::{ApproverReply, ReplyOutcome};

/// How much of the input that ran the model sees.
const SHOWN_BYTES: usize = 4096;

/// Replies to a prompt. Of an edited reply only the text counts; its digest is made here.
pub(crate) async fn reply(parts: &Parts, mut given: ApproverReply) -> Result<ReplyOutcome, StoreError> {
    if let Reply::Instead(edit) = &given.reply
        && let Some(prompt) = parts.inbox.get(&given.prompt).await?
        && prompt.state == PromptState::Open
        && prompt.input_json.is_some()
    {
        let frozen = match lookup::record(parts, &prompt.call).await? {
            Some(record) => freeze_edit(parts, &record, &edit.input_json),
            None => Err("the call is not stored any more".to_owned()),
        };
        match frozen {
            Ok(edit) => given.reply = Reply::Instead(edit),
            Err(problem) => {
                let prompt = Arc::new(prompt);
                return Ok(ReplyOutcome::BadEdit { prompt, problem });
            }
        }
    }
    let (principal, name) = (given.principal.id(), given.by.clone());
    let replied = parts.inbox.reply(given).await?;
    parts.refusals.record_reply(&replied, (&principal, &name));
    Ok(replied)
}

fn freeze_edit(parts: &Parts, record: &CallRecord, text: &str) -> Result<InputEdit, String> {
    let limit = parts.limits.max_input_bytes;
    if text.len() > limit {
        return Err(format!(
            "the input has {} bytes; at most {limit} are allowed",
            text.len()
        ));
    }
    if !parts.redactor.is_shown(text) {
        return Err("the input contains a secret that is not to be shown (redact.* of the configuration)".to_owned());
    }
    let value = input::parse(&RawInput::Json(text.to_owned())).map_err(|(_, problem)| problem)?;
    if parts.elsewhere.runs_calls() {
        // The tool is where the call runs, and says there what it makes of this.
        let frozen = Frozen::new(&value, &record.origin);
        return Ok(InputEdit {
            input_json: frozen.json,
            input_digest: frozen.digest,
            ..InputEdit::default()
        });
    }
    let gone = || format!("the tool {} is not available any more", record.tool);
    let place = parts.catalogs.find(&record.origin.workspace).ok_or_else(gone)?;
    let rights = parts.catalogs.rights_of(&place, record);
    let offer = place.offer_for(&record.origin);
    let registry = place.tools.current();
    let entry = registry.resolve(&record.tool, &offer, &rights).ok_or_else(gone)?;
    let checked = arguments::checked(entry, value, &record.origin);
    match checked.problem {
        Some((_, problem)) => Err(problem),
        None => {
            let (frozen, outline) = (checked.frozen, checked.outline.shown(&parts.redactor));
            Ok(InputEdit {
                input_json: frozen.json,
                input_digest: frozen.digest,
                title: outline.title,
                summary: outline.summary,
            })
        }
    }
}

/// Tells the model in the end of a call whose input a person replaced what it was that ran.
pub(crate) fn mention(mut ending: Ending, record: &CallRecord) -> Ending {
    if record.original.is_none() {
        return ending;
    }
    let input = &record.input_json;
    let end = input.floor_char_boundary(SHOWN_BYTES);
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
