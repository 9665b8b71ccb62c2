//! How a call ended.
//!
//! *Invariant:* it says what the terminal event said.

use serde_json::Value;
use toolgate_contract::call_completed::Result as Typed;
use toolgate_contract::call_event::Event;
use toolgate_contract::json::struct_to_json;
use toolgate_contract::{
    Attachment, Call, CallCompleted, CallEvent, CallFailed, CallOutcome, FailureReason, Truncation, call,
};

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call.
    pub call_id: String,
    /// Its result, or why it has none.
    pub ending: call::Ending,
}

/// A call that did not succeed, as an error: [`CallResult::into_completed`] makes it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("call {} failed ({}): {}", .0.call_id, .0.reason().unwrap_or_default().as_str_name(), .0.text())]
pub struct CallError(Box<CallResult>);

impl CallError {
    /// Returns how the call ended.
    pub fn result(&self) -> &CallResult {
        &self.0
    }
}

impl CallResult {
    pub(crate) fn from_event(event: &CallEvent) -> Option<Self> {
        let ending = match &event.event {
            Some(Event::Completed(completed)) => call::Ending::Completed(completed.clone()),
            Some(Event::Failed(failed)) => call::Ending::Failed(failed.clone()),
            _ => return None,
        };
        Some(Self {
            call_id: event.call_id.clone(),
            ending,
        })
    }

    /// Returns the result of a record; `None` while the call runs.
    pub fn from_call(call: &Call) -> Option<Self> {
        Some(Self {
            call_id: call.call_id.clone(),
            ending: call.ending.clone()?,
        })
    }

    /// Returns whether the tool did what it was called for. A call whose tool is unknown, or whose JSON is malformed, has a
    /// text for the model and still did not succeed.
    pub fn is_ok(&self) -> bool {
        self.reason().is_none()
    }

    /// Returns what the call left if it succeeded, for those who want an error if it did not.
    ///
    /// # Errors
    ///
    /// The call failed, or its tool is unknown or its JSON malformed.
    pub fn into_completed(self) -> Result<CallCompleted, CallError> {
        match self.ending {
            call::Ending::Completed(completed) if completed.outcome() != CallOutcome::Invalid => Ok(completed),
            call::Ending::Completed(_) | call::Ending::Failed(_) => Err(CallError(Box::new(self))),
        }
    }

    /// Returns why the call failed, for programs.
    pub fn reason(&self) -> Option<FailureReason> {
        match &self.ending {
            call::Ending::Failed(failed) => Some(failed.reason()),
            call::Ending::Completed(completed) => {
                let is_invalid = completed.outcome() == CallOutcome::Invalid;
                is_invalid.then_some(FailureReason::InvalidArguments)
            }
        }
    }

    /// Returns how the result is to be read: a command may have ended with another exit code than 0, for instance; `None` if the
    /// call failed.
    pub fn outcome(&self) -> Option<CallOutcome> {
        match &self.ending {
            call::Ending::Completed(completed) => Some(completed.outcome()),
            call::Ending::Failed(_) => None,
        }
    }

    /// Returns the exit code of the command that the call ran; `None` if it ran none, or if a signal ended it.
    pub fn exit_code(&self) -> Option<i32> {
        let call::Ending::Completed(completed) = &self.ending else {
            return None;
        };
        match &completed.result {
            Some(Typed::Command(command)) => command.exit_code,
            _ => None,
        }
    }

    /// Returns the text for the model: the output, or why the call failed.
    pub fn text(&self) -> &str {
        match &self.ending {
            call::Ending::Completed(completed) => &completed.output,
            call::Ending::Failed(failed) => &failed.error,
        }
    }

    /// Returns all metadata, for drawing.
    pub fn metadata(&self) -> Value {
        let metadata = match &self.ending {
            call::Ending::Completed(completed) => &completed.metadata,
            call::Ending::Failed(failed) => &failed.metadata,
        };
        metadata
            .clone()
            .map_or(Value::Null, |metadata| Value::Object(struct_to_json(metadata)))
    }

    /// Returns the short text for people.
    pub fn title(&self) -> &str {
        match &self.ending {
            call::Ending::Completed(completed) => &completed.title,
            call::Ending::Failed(failed) => &failed.title,
        }
    }

    /// Returns the files that belong to the result.
    pub fn attachments(&self) -> &[Attachment] {
        match &self.ending {
            call::Ending::Completed(completed) => &completed.attachments,
            call::Ending::Failed(failed) => &failed.attachments,
        }
    }

    /// Returns what the model sees of the output, and which stored output has the whole.
    pub fn truncation(&self) -> Option<&Truncation> {
        match &self.ending {
            call::Ending::Completed(completed) => completed.truncation.as_ref(),
            call::Ending::Failed(failed) => failed.truncation.as_ref(),
        }
    }

    /// Returns the id of the stored output, if the call has one.
    pub fn output_id(&self) -> Option<&str> {
        let id = self.truncation()?.output_id.as_str();
        (!id.is_empty()).then_some(id)
    }

    /// Returns the result, if the call has one.
    pub fn completed(&self) -> Option<&CallCompleted> {
        match &self.ending {
            call::Ending::Completed(completed) => Some(completed),
            call::Ending::Failed(_) => None,
        }
    }

    /// Returns the failure, if there is one.
    pub fn failed(&self) -> Option<&CallFailed> {
        match &self.ending {
            call::Ending::Failed(failed) => Some(failed),
            call::Ending::Completed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_succeed_is_an_error_if_wanted() {
        let result = |ending| CallResult {
            call_id: "c".to_owned(),
            ending,
        };
        let completed = CallCompleted {
            output: "done".to_owned(),
            ..CallCompleted::default()
        };
        let done = result(call::Ending::Completed(completed.clone())).into_completed();
        assert_eq!(done, Ok(completed.clone()));
        let failed = CallFailed {
            reason: FailureReason::Denied.into(),
            error: "a rule forbids it".to_owned(),
            ..CallFailed::default()
        };
        let error = result(call::Ending::Failed(failed)).into_completed().unwrap_err();
        assert_eq!(
            error.to_string(),
            "call c failed (FAILURE_REASON_DENIED): a rule forbids it"
        );
        let invalid = CallCompleted {
            outcome: CallOutcome::Invalid.into(),
            ..completed
        };
        let error = result(call::Ending::Completed(invalid)).into_completed().unwrap_err();
        assert_eq!(error.result().reason(), Some(FailureReason::InvalidArguments));
    }
}
