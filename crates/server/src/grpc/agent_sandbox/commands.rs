//! Commands: each is a call of `bash`, whose output the client gets as a whole.
//!
//! *Invariant:* a refusal is no result: what did not run has no exit code.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;
use toolgate_contract::call_completed::Result as Typed;
use toolgate_contract::{CallCompleted, CommandResult};
use toolgate_model::OutputId;

use super::answers;
use super::asked::{Asked, within};
use crate::grpc::rpc_call::RpcCall;
use crate::grpc::shared::Shared;
use crate::grpc::status::{self, bad_field};

const TOOL: &str = "bash";

/// What people are told of such a command beside its text.
pub(super) const DESCRIPTION: &str = "A command of a client of agent-sandbox";

/// How long a command may run whose client says nothing of it: as long as in the runtime that the SDK was made for.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Bytes of output that a client gets: the SDKs take no more in one message of gRPC.
const MAX_OUTPUT: usize = 4 * 1024 * 1024 - 64 * 1024;

/// Bytes that are read of an output at once.
const PIECE: usize = 256 * 1024;

/// The exit code of a command that has taken too long, as the SDKs know it.
const TIMED_OUT: i32 = 124;

/// Comes on top of the number of a signal, as in a shell.
const BY_SIGNAL: i32 = 128;

/// The body of a request for a command.
#[derive(Deserialize)]
struct Execute {
    command: String,
    timeout_seconds: Option<f64>,
}

/// A command that is wanted.
pub(super) struct Command {
    pub(super) line: String,
    pub(super) directory: Option<String>,
    pub(super) timeout: Option<Duration>,
}

impl Command {
    /// Returns it as the input of a tool.
    pub(super) fn input(&self) -> Value {
        let mut input = json!({"command": self.line, "description": DESCRIPTION});
        if let Some(directory) = self.directory.as_deref().filter(|directory| !directory.is_empty()) {
            input["workdir"] = json!(within(directory));
        }
        input
    }
}

/// What became of a command.
pub(super) struct Ran {
    pub(super) exit_code: i32,
    pub(super) is_timed_out: bool,
    /// What it printed, to either of its outputs, in the order in which it did.
    pub(super) output: Bytes,
    /// What the service has to say.
    pub(super) note: String,
}

/// Runs the command of a request by HTTP, which is to be here in this time.
pub(super) async fn execute(
    shared: &Arc<Shared>,
    asked: &Asked,
    body: Body,
    patience: Duration,
) -> Result<Response<Body>, Status> {
    let body = Limited::new(body, shared.max_message_bytes).collect();
    let body = timeout(patience, body).await;
    let body = body.map_err(|_| status::message_too_late(patience))?;
    let body = body.map_err(|error| bad_field("body", error.to_string()))?;
    let wanted: Execute =
        serde_json::from_slice(&body.to_bytes()).map_err(|error| bad_field("body", error.to_string()))?;
    let longest = wanted.timeout_seconds.map(Duration::try_from_secs_f64).transpose();
    let longest = longest.map_err(|_| bad_field("timeout_seconds", "expected a time that is not negative"))?;
    let command = Command {
        line: wanted.command,
        directory: None,
        timeout: longest,
    };
    let ran = run(shared, asked, &command).await?;
    Ok(answers::json(&json!({
        "stdout": String::from_utf8_lossy(&ran.output),
        "stderr": ran.note,
        "exit_code": ran.exit_code,
        "timed_out": ran.is_timed_out,
    })))
}

/// Runs a command to its end.
pub(super) async fn run(shared: &Arc<Shared>, asked: &Asked, command: &Command) -> Result<Ran, Status> {
    let mut input = command.input();
    input["timeout"] = json!(command.timeout.unwrap_or(DEFAULT_TIMEOUT).as_secs_f64() * 1000.0);
    let start = asked.start(&input);
    let call = RpcCall::new(shared, &asked.caller, TOOL, Some(start), asked.deadline)?;
    let (id, completed) = call.complete(input).await?;
    let (output, note) = output(shared, &id, &completed).await;
    let result = result_of(&completed);
    Ok(Ran {
        exit_code: exit_code(&result),
        is_timed_out: result.timed_out,
        output,
        note,
    })
}

/// Returns what a call says of its program.
pub(super) fn result_of(completed: &CallCompleted) -> CommandResult {
    match &completed.result {
        Some(Typed::Command(result)) => result.clone(),
        Some(Typed::Files(_) | Typed::Search(_) | Typed::Read(_) | Typed::Fetch(_) | Typed::Children(_)) | None => {
            CommandResult::default()
        }
    }
}

/// Returns the exit code of a program as the SDKs know it.
pub(super) fn exit_code(result: &CommandResult) -> i32 {
    match (result.timed_out, result.exit_code) {
        (true, _) => TIMED_OUT,
        (false, Some(code)) => code,
        (false, None) => BY_SIGNAL + result.signal,
    }
}

/// Reads what a command printed, and says what is missing of it. It has run, so that nothing here may fail.
async fn output(shared: &Shared, call: &str, completed: &CallCompleted) -> (Bytes, String) {
    let stored = completed.truncation.clone().unwrap_or_default();
    if stored.output_id.is_empty() {
        return (Bytes::new(), String::new());
    }
    let id = OutputId::new(stored.output_id);
    let mut read = BytesMut::new();
    while read.len() < MAX_OUTPUT {
        let size = PIECE.min(MAX_OUTPUT - read.len());
        match shared.outputs.read(&id, read.len() as u64, size).await {
            Ok(piece) if piece.is_empty() => return (read.freeze(), String::new()),
            Ok(piece) => read.extend_from_slice(&piece),
            Err(error) => {
                let status = status::store(error);
                let note = format!(
                    "the command of the call {call} has run, and its output {id} could not be read: {}",
                    status.message()
                );
                return (read.freeze(), note);
            }
        }
    }
    let note = match u64::try_from(stored.total_bytes) {
        Ok(total) if total > read.len() as u64 => format!(
            "the output has {total} bytes, of which the first {} are here: `toolgate output {id}` has all of them",
            read.len()
        ),
        Ok(_) | Err(_) => String::new(),
    };
    (read.freeze(), note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let check = |exit_code: Option<i32>, signal: i32, timed_out: bool, expected: i32| {
            let result = CommandResult {
                exit_code,
                signal,
                timed_out,
                ..CommandResult::default()
            };
            assert_eq!(super::exit_code(&result), expected);
        };
        check(Some(0), 0, false, 0);
        check(Some(3), 0, false, 3);
        check(None, 9, false, 137);
        check(None, 15, true, 124);
    }
}
