//! Calls that a tool makes: what it asks for, and the handle of the call that it gets.
//!
//! *Invariant:* a call whose maker is gone without having let it go is asked to stop.

use async_trait::async_trait;
use serde_json::Value;
use toolgate_model::{CallId, Ending, JsonMap};

use super::ToolError;

/// A call that a tool makes: in the same session, workspace and name, with the permissions of the same agent.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildCall {
    /// The tool's name, exactly.
    pub tool: String,
    /// The arguments.
    pub input: Value,
    /// Whether the model made it, and this call only hands it on: it counts in the row of identical calls as if it had
    /// come by itself.
    pub is_step: bool,
}

/// What the engine does for a tool that made another call.
#[async_trait]
pub trait ChildPort: Send + Sync + 'static {
    /// Waits until the other call says that it is under way, or has ended with a result.
    async fn launched(&self) -> Result<JsonMap, ToolError>;

    /// Waits for the end of the other call.
    async fn ended(&self) -> Result<Ending, ToolError>;

    /// Asks the other call to stop.
    fn cancel(&self);
}

/// Another call that this one made. Dropping it cancels that call, unless it has ended or was [let go](Self::detach).
pub struct Child {
    /// The other call's id.
    pub call: CallId,
    port: Box<dyn ChildPort>,
    detached: bool,
}

impl Child {
    /// Makes the handle of a call.
    pub fn new(call: CallId, port: Box<dyn ChildPort>) -> Self {
        Self {
            call,
            port,
            detached: false,
        }
    }

    /// Waits until the other call [says](super::ChildrenHandle::report_launched) that it is under way, or has ended with a result.
    /// Returns what it said.
    ///
    /// # Errors
    /// The other call failed before that: its reason and text. Or this call was cancelled; the other one has ended then.
    pub async fn launched(&self) -> Result<JsonMap, ToolError> {
        self.port.launched().await
    }

    /// Waits for the end of the other call and returns it, whatever it is.
    ///
    /// # Errors
    /// This call was cancelled; the other one has ended then.
    pub async fn ended(&self) -> Result<Ending, ToolError> {
        self.port.ended().await
    }

    /// Lets the other call go on by itself, also when this one has ended.
    pub fn detach(mut self) -> CallId {
        self.detached = true;
        self.call.clone()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.detached {
            self.port.cancel();
        }
    }
}
