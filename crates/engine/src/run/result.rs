//! The end of a call: what the model reads of a result, a failure, a refusal or a stop.
//!
//! *Invariant:* a text that is cut is stored whole first, and the model is told where.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use toolgate_model::{EndReason, Ending, JsonMap, Outcome, OutputText, Timestamp, Timing, Truncation};
use toolgate_permission::{Refusal, agents};
use toolgate_store::{OutputInfo, OutputOwner, StoreError};
use toolgate_tool::hooks::HookedCall;
use toolgate_tool::{HookPoint, Offer, ToolError};

use super::truncate::{self, Direction, Totals};
use super::{Returned, Run};
use crate::live::STOP_GRACE;
use crate::log::writer::Finished;
use crate::lossy::{self, Decoded};
use crate::outcome::{internal, stopped};

/// What is added when its turn had not come.
const NOT_DONE: &str = "; it was still waiting for its turn, and nothing was done";

/// What is added when a question ends with the service.
const NOT_KEPT: &str =
    ", and this call cannot go on waiting for an answer when the service is back; call it again then";

/// Which end of a long output the model sees.
const DIRECTION: Direction = Direction::Head;

impl Run {
    /// Makes the end of the call from how its tool came back and what its log holds.
    pub(super) async fn ending(&self, returned: Returned, finished: Finished) -> Ending {
        let Finished {
            output: stored,
            output_lost,
            title,
            mut metadata,
            ..
        } = finished;
        let timing = self.timing();
        let resources = *self.live.resources.lock();
        let failed = |outcome: Outcome, mut metadata: JsonMap| {
            if self.live.stop_reason().is_some() {
                metadata.insert("interrupted".to_owned(), json!(true));
            }
            let truncation = stored.as_ref().map_or_else(Truncation::default, describe);
            Ending {
                outcome,
                title: title.clone(),
                metadata,
                attachments: Vec::new(),
                result: None,
                truncation,
                timing,
                resources,
            }
        };
        match returned {
            Returned::Output(output) if output_lost && output.output == OutputText::Stored => {
                failed(internal(), metadata)
            }
            Returned::Output(output) => {
                // Not a patch: a null is what the tool says of a key, such as the exit code of a shell that a signal ended.
                metadata.extend(output.metadata);
                let part = self.live.part("truncate");
                let (text, truncation) = self.truncate(output.output, stored, &mut metadata).await;
                drop(part);
                Ending {
                    outcome: Outcome::Completed { output: text },
                    title: output.title,
                    metadata,
                    attachments: output.attachments,
                    result: output.result,
                    truncation,
                    timing,
                    resources,
                }
            }
            Returned::Error(ToolError::Quota(text)) if self.live.stop_reason().is_none() => {
                failed_by_quota(text, stored.as_ref(), failed, metadata)
            }
            Returned::Error(error) => failed(self.explain(error), metadata),
            Returned::DoomLoop(refusal) => failed(self.explain_loop(refusal), metadata),
            Returned::NotStarted => {
                metadata.insert("started".to_owned(), json!(false));
                failed(self.stopped_and(NOT_DONE), metadata)
            }
            // A call that is left gets no end here; this is only for completeness.
            Returned::Dropped | Returned::Left => failed(self.stopped(), metadata),
            Returned::Panicked => {
                tracing::error!("the tool panicked");
                failed(internal(), metadata)
            }
        }
    }

    /// Lets hooks change the end of a call that succeeded; what they make of it is cut as any other result is.
    pub(super) async fn after_hooks(&self, mut ending: Ending) -> Ending {
        let hooks = self.registry.hooks();
        let Outcome::Completed { output } = &ending.outcome else {
            return ending;
        };
        if self.hooks_are_done() || !hooks.handle(HookPoint::ExecuteAfter) {
            return ending;
        }
        let before = output.clone();
        // Hooks are asked about calls that there are.
        if !self.is_recorded().await {
            return ending;
        }
        let record = self.live.record();
        let about = HookedCall {
            tool: &record.tool,
            session: &record.origin.session,
            call: &record.id,
        };
        // Frozen as JSON text.
        let args = serde_json::from_str(&record.input_json).unwrap_or_default();
        let stopped = async {
            self.live.stopping().cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        let changed = tokio::select! {
            biased;
            changed = hooks.after_ending(about, &args, &mut ending) => changed.map_err(|refusal| Outcome::Failed {
                reason: EndReason::ToolError,
                error: refusal.to_string(),
            }),
            // What the hooks have not seen is not shown.
            () = stopped => Err(self.stopped()),
        };
        match (&mut ending.outcome, changed) {
            (outcome, Err(failed)) => {
                *outcome = failed;
                ending.attachments.clear();
                if self.live.stop_reason().is_some() {
                    ending.metadata.insert("interrupted".to_owned(), json!(true));
                }
            }
            (Outcome::Completed { output }, Ok(())) => {
                self.parts.redactor.string(output);
                let totals = Totals::measure(output.as_bytes());
                // What was cut is a little longer than the limits, by its notice; the whole of it is stored already.
                if *output != before && !totals.fit(&self.truncation) {
                    let whole = self.store_whole(output).await;
                    let (text, truncation) = self.cut(output, totals, whole);
                    *output = text;
                    ending.metadata.insert("truncated".to_owned(), json!(true));
                    if let Some(path) = &truncation.path {
                        ending.metadata.insert("outputPath".to_owned(), json!(path));
                    }
                    ending.truncation = truncation;
                }
            }
            (Outcome::Failed { .. }, Ok(())) => {}
        }
        self.parts.redactor.string(&mut ending.title);
        self.parts.redactor.map(&mut ending.metadata);
        ending
    }

    fn timing(&self) -> Timing {
        let (ran, waited) = self.live.clock.read();
        let record = self.live.record();
        // A call that never started was queued until now, unless it was a person that it waited for.
        let started = record.started.unwrap_or_else(Timestamp::now);
        let queued = started.since(record.created).saturating_sub(match record.started {
            Some(_) => Duration::ZERO,
            None => waited + ran,
        });
        Timing { queued, waited, ran }
    }

    fn explain(&self, error: ToolError) -> Outcome {
        let failed = |reason, error: String| Outcome::Failed { reason, error };
        match error {
            ToolError::Refused(refusal) => self.explain_refusal(refusal),
            ToolError::Cancelled => self.stopped(),
            ToolError::Failed(_) | ToolError::Quota(_) | ToolError::NoSuchTool { .. } | ToolError::Child { .. }
                if self.live.stop_reason().is_some() =>
            {
                self.stopped()
            }
            ToolError::Failed(text) => failed(EndReason::ToolError, text),
            ToolError::Quota(text) => failed(EndReason::Quota, text),
            error @ ToolError::NoSuchTool { .. } => failed(EndReason::ToolError, error.to_string()),
            ToolError::Child { reason, error } => failed(reason, error),
            ToolError::Internal(cause) => {
                tracing::error!(
                    error = &*cause as &dyn std::error::Error,
                    "the tool failed by a fault of the service"
                );
                internal()
            }
        }
    }

    fn explain_refusal(&self, refusal: Refusal) -> Outcome {
        let reason = match &refusal {
            Refusal::Denied { .. } => EndReason::Denied,
            Refusal::Rejected | Refusal::Corrected { .. } | Refusal::Dismissed { .. } => EndReason::Rejected,
            Refusal::Expired { .. } | Refusal::Unattended { .. } => EndReason::PromptExpired,
            Refusal::TooManyPrompts { .. } => EndReason::Quota,
            Refusal::Withdrawn => return self.withdrawn(),
            Refusal::Unavailable | Refusal::Edited => EndReason::Internal,
        };
        Outcome::Failed {
            reason,
            error: refusal.to_string(),
        }
    }

    fn explain_loop(&self, refusal: Refusal) -> Outcome {
        match self.explain_refusal(refusal) {
            Outcome::Failed {
                reason: EndReason::Denied | EndReason::Rejected,
                error,
            } => Outcome::Failed {
                reason: EndReason::DoomLoop,
                error,
            },
            outcome @ (Outcome::Completed { .. } | Outcome::Failed { .. }) => outcome,
        }
    }

    /// The end of a call that somebody stopped.
    fn stopped(&self) -> Outcome {
        let (reason, error) = stopped(self.live.stop_reason(), self.record.timeout);
        Outcome::Failed { reason, error }
    }

    /// The end of a call that somebody stopped while it waited for a person.
    fn withdrawn(&self) -> Outcome {
        let is_drained = self.live.stop_reason() == Some(EndReason::Drained);
        self.stopped_and(if is_drained { NOT_KEPT } else { "" })
    }

    /// The end of a call that was stopped, with a text added.
    fn stopped_and(&self, more: &str) -> Outcome {
        let mut outcome = self.stopped();
        if let Outcome::Failed { error, .. } = &mut outcome {
            error.push_str(more);
        }
        outcome
    }

    /// Cuts the text for the model, unless the tool pages its own, and stores the whole of what was cut.
    async fn truncate(
        &self,
        output: OutputText,
        stored: Option<OutputInfo>,
        metadata: &mut JsonMap,
    ) -> (String, Truncation) {
        let pages_itself = metadata.contains_key("truncated");
        let (text, cut) = match output {
            OutputText::Text(text) => {
                let totals = Totals::measure(text.as_bytes());
                if pages_itself || totals.fit(&self.truncation) {
                    let truncation = Truncation {
                        bytes: totals.bytes,
                        lines: totals.lines,
                        ..stored.as_ref().map(describe).unwrap_or_default()
                    };
                    (text, truncation)
                } else {
                    let whole = self.store_whole(&text).await;
                    self.cut(&text, totals, whole)
                }
            }
            OutputText::Stored => match stored {
                None => (String::new(), Truncation::default()),
                Some(info) => self.cut_stored(info, metadata).await,
            },
        };
        if !pages_itself {
            metadata.insert("truncated".to_owned(), json!(cut.truncated));
            if let (true, Some(path)) = (cut.truncated, &cut.path) {
                metadata.insert("outputPath".to_owned(), json!(path));
            }
        }
        (text, cut)
    }

    async fn cut_stored(&self, info: OutputInfo, metadata: &mut JsonMap) -> (String, Truncation) {
        let window = match self
            .parts
            .store
            .read(&info.id, 0, truncate::window_bytes(&self.truncation))
            .await
        {
            Ok(window) => window,
            Err(error) => {
                tracing::error!(output = %info.id, error = &error as &dyn std::error::Error, "an output could not be read back");
                let text = format!("The output could not be read back; it is kept in {}.", info.path);
                return (text, describe(&info));
            }
        };
        let totals = Totals {
            bytes: info.bytes,
            lines: info.lines,
            pieces: info.lines + u64::from(!self.has_open_end(&info).await),
        };
        // What is not UTF-8 grows when it is replaced, so the text may be over the limit though the bytes are not.
        let decoded = Decoded::new(&window);
        let shown = Totals {
            bytes: totals.bytes.max(decoded.text.len() as u64),
            ..totals
        };
        let fits = shown.fit(&self.truncation);
        let kept = if fits {
            decoded.text.len()
        } else {
            self.preview(&decoded.text, shown).kept.len()
        };
        let replaced = decoded.replaced_in(kept);
        if replaced > 0 {
            metadata.insert(lossy::KEY.to_owned(), lossy::label(replaced));
        }
        if fits {
            return (decoded.text, describe(&info));
        }
        self.cut(&decoded.text, shown, Ok(info))
    }

    /// Says whether the last line of a stored output has no line feed.
    async fn has_open_end(&self, info: &OutputInfo) -> bool {
        let Some(last) = info.bytes.checked_sub(1) else {
            return false;
        };
        let byte = self.parts.store.read(&info.id, last, 1).await;
        byte.is_ok_and(|byte| byte.as_ref() != b"\n")
    }

    fn preview<'a>(&self, window: &'a str, totals: Totals) -> truncate::Preview<'a> {
        truncate::preview(window.as_bytes(), totals, &self.truncation, DIRECTION)
    }

    fn cut(&self, window: &str, totals: Totals, whole: Result<OutputInfo, StoreError>) -> (String, Truncation) {
        let preview = self.preview(window, totals);
        let origin = &self.record.origin;
        let offer = Offer {
            workspace: &self.workspace,
            agent: &origin.agent,
            model: &origin.model,
            client: &origin.client,
            rights: Some(&self.rights),
        };
        let may_delegate =
            self.rights.layers().all(agents::may_use_task) && self.registry.offers_subagents(&offer, &self.rights);
        match whole {
            Ok(info) => {
                let text = truncate::render(&preview, DIRECTION, &info.path, may_delegate);
                (
                    text,
                    Truncation {
                        truncated: true,
                        ..describe(&info)
                    },
                )
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a long output could not be stored"
                );
                let kept = String::from_utf8_lossy(preview.kept);
                let text =
                    format!("{kept}\n\nThe rest of the output is lost, because it could not be stored: {error}.");
                let lost = Truncation {
                    truncated: true,
                    bytes: totals.bytes,
                    lines: totals.lines,
                    ..Default::default()
                };
                (text, lost)
            }
        }
    }

    /// Waits until the call is recorded; false if it is not.
    async fn is_recorded(&self) -> bool {
        match self.context.as_ref().filter(|context| context.may_be_unrecorded) {
            Some(context) => context.is_recorded().await,
            None => true,
        }
    }

    async fn store_whole(&self, text: &str) -> Result<OutputInfo, StoreError> {
        if !self.is_recorded().await {
            return Err(StoreError::Unavailable("the call could not be recorded".to_owned()));
        }
        let owner = OutputOwner::from(&self.record);
        let mut writer = self.parts.store.create_output(owner).await?;
        writer.append(Bytes::copy_from_slice(text.as_bytes())).await?;
        writer.finish().await
    }
}

/// Makes the end of a call whose output was too large: what was stored is kept, and the model reads where.
fn failed_by_quota(
    mut error: String,
    stored: Option<&OutputInfo>,
    failed: impl FnOnce(Outcome, JsonMap) -> Ending,
    mut metadata: JsonMap,
) -> Ending {
    let kept = stored.map_or(0, |info| info.bytes);
    if let Some(info) = stored {
        error += &format!(
            " The first {kept} bytes are kept in {}: look there with Grep or Read before you run it again, with less \
             output.",
            info.path
        );
        metadata.insert("outputPath".to_owned(), json!(info.path));
    }
    metadata.insert("quota".to_owned(), json!({ "kept_bytes": kept }));
    let reason = EndReason::Quota;
    let mut ending = failed(Outcome::Failed { reason, error }, metadata);
    ending.truncation.truncated = true;
    ending
}

fn describe(info: &OutputInfo) -> Truncation {
    Truncation {
        truncated: false,
        output: Some(info.id.clone()),
        path: Some(info.path.clone()),
        bytes: info.bytes,
        lines: info.lines,
    }
}
