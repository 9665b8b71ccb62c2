//! Calls to make: the tool, its input, and in whose name.
//!
//! *Invariant:* every call has an id before it is sent, so sending it again starts nothing twice.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::{
    CallContext, ExecuteToolRequest, OnDisconnect as WireOnDisconnect, OutputMode, RevertCallRequest,
};

use crate::client::{Client, new_id};
use crate::context::context_setters;
use crate::error::Error;
use crate::execution::Execution;
use crate::follow::Start;
use crate::result::CallResult;

/// The input of a call as JSON text. Text is sent exactly as a model wrote it: malformed JSON is answered to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input(String);

impl Input {
    /// Writes a value, such as a struct of your own, as JSON.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self, Error> {
        Ok(Self(serde_json::to_string(value)?))
    }

    /// Returns the JSON text.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<Value> for Input {
    fn from(value: Value) -> Self {
        Self(value.to_string())
    }
}

/// What ends a call before it has finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// The library cancels the call when its [`Execution`] is dropped, or the client is closed. A lost connection leaves
    /// the call alone, and so does a program that is killed: such a call runs on.
    #[default]
    CancelByClient,
    /// The service cancels the call as well when the connection is lost.
    CancelByServer,
    /// Nothing cancels it: dropping the execution only ends the watching.
    Keep,
}

impl OnDisconnect {
    fn to_wire(self) -> i32 {
        match self {
            Self::CancelByServer => WireOnDisconnect::Cancel.into(),
            Self::CancelByClient | Self::Keep => WireOnDisconnect::Keep.into(),
        }
    }
}

impl From<WireOnDisconnect> for OnDisconnect {
    fn from(wire: WireOnDisconnect) -> Self {
        match wire {
            WireOnDisconnect::Unspecified => Self::CancelByClient,
            WireOnDisconnect::Cancel => Self::CancelByServer,
            WireOnDisconnect::Keep => Self::Keep,
        }
    }
}

fn or(value: String, base: &str) -> String {
    if value.is_empty() { base.to_owned() } else { value }
}

/// Fills what a context leaves out with the client's.
pub(crate) fn completed(context: CallContext, client: &Client) -> CallContext {
    let base = client.context();
    CallContext {
        // A folder of one workspace is none of another.
        directory: match context.workspace.is_empty() {
            true => or(context.directory, &base.directory),
            false => context.directory,
        },
        workspace: or(context.workspace, &base.workspace),
        session_id: or(context.session_id, &base.session_id),
        message_id: or(context.message_id, &base.message_id),
        agent: or(context.agent, &base.agent),
        model: context.model.or_else(|| base.model.clone()),
        client_kind: or(context.client_kind, &base.client_kind),
        client_name: or(context.client_name, &base.client_name),
        parent_call_id: or(context.parent_call_id, &base.parent_call_id),
        extra: context.extra.or_else(|| base.extra.clone()),
        client_ids: if context.client_ids.is_empty() {
            base.client_ids.clone()
        } else {
            context.client_ids
        },
        environment: if context.environment.is_empty() {
            base.environment.clone()
        } else {
            context.environment
        },
    }
}

/// A tool to execute. It is sent by [`Self::start`] or [`Self::run`].
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is started"]
pub struct ExecuteRequest {
    client: Client,
    context: CallContext,
    request: ExecuteToolRequest,
    on_disconnect: OnDisconnect,
}

/// A call whose changes are to be taken back. It is sent by [`Self::start`] or [`Self::run`].
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is started"]
pub struct RevertRequest {
    client: Client,
    context: CallContext,
    request: RevertCallRequest,
    on_disconnect: OnDisconnect,
}

impl Client {
    /// Prepares to execute a tool. The input is the JSON text exactly as a model wrote it, or a JSON value; see also
    /// [`Input::from_serialize`].
    pub fn execute(&self, tool: impl Into<String>, input: impl Into<Input>) -> ExecuteRequest {
        self.execute_request(ExecuteToolRequest {
            tool: tool.into(),
            arguments: Some(Arguments::InputJson(input.into().into_text())),
            ..ExecuteToolRequest::default()
        })
    }

    /// Prepares to execute a tool by the message of the contract. What the message leaves out is filled in.
    pub fn execute_request(&self, mut request: ExecuteToolRequest) -> ExecuteRequest {
        ExecuteRequest {
            client: self.clone(),
            context: request.context.take().unwrap_or_default(),
            on_disconnect: request.on_disconnect().into(),
            request,
        }
    }

    /// Prepares to take back what an ended call did to files. That is a call of its own, which asks for permission like any
    /// edit.
    pub fn revert(&self, call_id: impl Into<String>) -> RevertRequest {
        RevertRequest {
            client: self.clone(),
            context: CallContext::default(),
            request: RevertCallRequest {
                call_id: call_id.into(),
                ..RevertCallRequest::default()
            },
            on_disconnect: OnDisconnect::default(),
        }
    }
}

impl ExecuteRequest {
    context_setters!(context);

    /// Chooses the call's id: 1 to 128 letters, digits and `-_.:`. The same id with the same request attaches to the call
    /// that is there, so a program that keeps the id can be started again.
    pub fn call_id(mut self, id: impl Into<String>) -> Self {
        self.request.call_id = id.into();
        self
    }

    /// Limits how long the tool may run. Waiting for people does not count.
    pub fn timeout(mut self, limit: Duration) -> Self {
        // What is longer than the wire can say is no limit.
        self.request.timeout = limit.try_into().ok();
        self
    }

    /// Says how much of the running output is streamed. The result is the same in every mode.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.request.output = mode.into();
        self
    }

    /// Says what ends the call before it has finished.
    pub fn on_disconnect(mut self, policy: OnDisconnect) -> Self {
        self.on_disconnect = policy;
        self
    }

    /// Starts the call, and returns once the service has admitted it.
    pub async fn start(self) -> Result<Execution, Error> {
        let mut request = self.request;
        request.context = Some(completed(self.context, &self.client));
        request.on_disconnect = self.on_disconnect.to_wire();
        if request.call_id.is_empty() {
            request.call_id = new_id();
        }
        Execution::start(self.client, Start::Execute(Box::new(request)), self.on_disconnect).await
    }

    /// Starts the call and waits for its result. A call that failed is a result, not an error.
    pub async fn run(self) -> Result<CallResult, Error> {
        self.start().await?.result().await
    }
}

impl RevertRequest {
    context_setters!(context);

    /// Chooses the id of the call that takes the changes back.
    pub fn revert_call_id(mut self, id: impl Into<String>) -> Self {
        self.request.revert_call_id = id.into();
        self
    }

    /// Keeps what was changed since in other places of the same files, instead of refusing.
    pub fn merge(mut self) -> Self {
        self.request.merge = true;
        self
    }

    /// Says what ends the call before it has finished.
    pub fn on_disconnect(mut self, policy: OnDisconnect) -> Self {
        self.on_disconnect = policy;
        self
    }

    /// Starts the call, and returns once the service has admitted it.
    pub async fn start(self) -> Result<Execution, Error> {
        let mut request = self.request;
        request.context = Some(completed(self.context, &self.client));
        request.on_disconnect = self.on_disconnect.to_wire();
        if request.revert_call_id.is_empty() {
            request.revert_call_id = new_id();
        }
        Execution::start(self.client, Start::Revert(Box::new(request)), self.on_disconnect).await
    }

    /// Starts the call and waits for its result. A call that failed is a result, not an error.
    pub async fn run(self) -> Result<CallResult, Error> {
        self.start().await?.result().await
    }
}
