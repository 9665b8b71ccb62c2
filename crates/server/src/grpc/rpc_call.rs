//! The call by which an RPC does its work: FileService for a change, PortService to open a port, McpService to read. The door for SDKs
//! of agent-sandbox makes its calls so, too.
//!
//! *Invariant:* what becomes of a call is told by one status, whatever the RPC.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tonic::Status;
use toolgate_contract::call::Ending;
use toolgate_contract::{Call, CallCompleted, CallContext, CallOutcome, CallStart, ErrorReason, OnDisconnect};
use toolgate_model::{CallId, RawInput};

use super::Shared;
use super::auth::Caller;
use super::convert::{self, WireCall};
use super::status;
use super::tool_service::{Ran, Tools};

/// How long a call that its client has named outlives that one, who may have lost the connection and come back with the same
/// request.
const COME_BACK: Duration = Duration::from_secs(10);

/// A call that is to be made in the name of a caller.
pub(super) struct RpcCall<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) caller: &'a Caller,
    tool: String,
    workspace: String,
    options: CallStart,
    /// How long the call outlives its client.
    linger: Duration,
    deadline: Option<Instant>,
}

impl<'a> RpcCall<'a> {
    /// Prepares a call of a tool. Where the request names no workspace, the call gets the one that the caller sees first.
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        caller: &'a Caller,
        tool: impl Into<String>,
        options: Option<CallStart>,
        deadline: Option<Instant>,
    ) -> Result<Self, Status> {
        let mut options = options.unwrap_or_default();
        let named = options.context.as_ref().map_or("", |context| &context.workspace);
        let workspace = caller.place(&shared.engine, named)?.workspace.name().to_owned();
        // Only who has named the call can come back to it.
        let mut linger = COME_BACK;
        if options.call_id.is_empty() {
            options.call_id = CallId::generate().to_string();
            linger = Duration::ZERO;
        }
        convert::call_id("call.call_id", &options.call_id)?;
        Ok(Self {
            shared,
            caller,
            tool: tool.into(),
            workspace,
            options,
            linger,
            deadline,
        })
    }

    /// Returns the workspace.
    pub(super) fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Returns the id that the call gets.
    pub(super) fn id(&self) -> &str {
        &self.options.call_id
    }

    /// Returns in whose name the call is made.
    pub(super) fn context(&self) -> Option<CallContext> {
        self.options.context.clone()
    }

    /// Makes the call, and returns its id if it did what it is for.
    pub(super) async fn make(&self, input: Value) -> Result<String, Status> {
        let (id, _) = self.make_until(input, |_| pending::<()>()).await?;
        Ok(id)
    }

    /// Makes the call, and returns its id and its result.
    pub(super) async fn complete(&self, input: Value) -> Result<(String, CallCompleted), Status> {
        match self.run(input, |_| pending::<Infallible>()).await? {
            Ran::Ended(call) => self.completed(*call),
            Ran::Reached(_, never) => match never {},
        }
    }

    /// Makes the call, and returns its id: with what `reached` returns as soon as that does, from when on the call goes on
    /// without its client, or with nothing if the call did all that it is for before.
    pub(super) async fn make_until<T, F: Future<Output = T> + Send>(
        &self,
        input: Value,
        reached: impl FnOnce(CallId) -> F + Send,
    ) -> Result<(String, Option<T>), Status> {
        match self.run(input, reached).await? {
            Ran::Reached(id, what) => Ok((id.to_string(), Some(what))),
            Ran::Ended(call) => self.completed(*call).map(|(id, _)| (id, None)),
        }
    }

    async fn run<T, F: Future<Output = T> + Send>(
        &self,
        input: Value,
        reached: impl FnOnce(CallId) -> F + Send,
    ) -> Result<Ran<T>, Status> {
        let CallStart {
            context,
            call_id,
            unattended,
            wait_timeout,
        } = self.options.clone();
        let request = WireCall {
            context,
            id_field: "call.call_id",
            call_id,
            tool: self.tool.clone(),
            input: RawInput::Value(input),
            timeout: None,
            on_disconnect: OnDisconnect::Cancel.into(),
            unanswered: Some(convert::unanswered(unattended, wait_timeout.as_ref())?),
        };
        let tools = Tools(self.shared.clone());
        let waits = (self.deadline, self.linger);
        tools
            .run_until(self.caller, &self.workspace, request, waits, reached)
            .await
    }

    /// Returns the id and the result of a call that has ended, if it did what it is for.
    fn completed(&self, call: Call) -> Result<(String, CallCompleted), Status> {
        match call.ending {
            // What a rule denies whatever the pattern is no tool of the agent's.
            Some(Ending::Completed(result)) if result.outcome() == CallOutcome::Invalid => {
                let problem = format!("a rule denies the tool {} for this agent", self.tool);
                Err(status::refused(ErrorReason::DeniedByRule, problem))
            }
            Some(Ending::Completed(result)) => Ok((call.call_id, result)),
            Some(Ending::Failed(failed)) => Err(status::failed_call(&call.call_id, &failed)),
            None => Err(status::draining()),
        }
    }
}
