//! What a request of an SDK says beside its body: who asks, in which workspace and session, until when, and whether it is
//! one that was sent before.
//!
//! *Invariant:* names of callers cannot meet: a session and a call are named after the principal, too.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderName, Request};
use toolgate_contract::{CallContext, CallStart, Unattended};
use toolgate_engine::digest_of;

use crate::grpc::auth::Caller;
use crate::grpc::events;
use crate::grpc::mcp::named;
use crate::grpc::status::{self, bad_field};
use crate::grpc::tool_service::early;

/// The kind of client that these are.
const CLIENT: &str = "agent-sandbox";

/// Names the sandbox, as the SDKs know it.
const SANDBOX: HeaderName = HeaderName::from_static("x-sandbox-id");
const NAMESPACE: HeaderName = HeaderName::from_static("x-sandbox-namespace");

/// Seconds that the SDK waits.
const TIMEOUT: HeaderName = HeaderName::from_static("x-sandbox-timeout");

/// The same for all attempts of one request.
pub(super) const REQUEST: HeaderName = HeaderName::from_static("x-request-id");

/// The longest wait that is understood.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest part of a sandbox's name in the name of its session.
const MAX_SHOWN: usize = 40;

/// Who asks, and how.
pub(super) struct Asked {
    pub(super) caller: Arc<Caller>,
    context: CallContext,
    pub(super) deadline: Option<Instant>,
    /// What all attempts of this request have in common, if the SDK says so.
    id: Option<Value>,
}

impl Asked {
    /// Reads a request by HTTP.
    pub(super) fn read(request: &Request<Body>) -> Result<Self, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let headers = request.headers();
        let seconds = text(headers, &TIMEOUT)?;
        let wait = match seconds {
            "" => None,
            seconds => {
                let wait = seconds.parse().ok();
                let wait = wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                Some(wait.ok_or_else(|| bad_field("X-Sandbox-Timeout", "expected seconds"))?)
            }
        };
        // A moment before: one that has hung up may send the request again, which would be another one.
        let deadline = wait.map(|wait| early(Instant::now() + wait.min(MAX_WAIT)));
        Self::new(caller, headers, request.uri().query().unwrap_or_default(), deadline)
    }

    /// Reads a request by gRPC.
    pub(super) fn of_grpc<T>(request: &tonic::Request<T>) -> Result<Self, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let deadline = events::deadline(request.metadata());
        let headers = request.metadata().clone().into_headers();
        Self::new(caller, &headers, "", deadline)
    }

    fn new(caller: Arc<Caller>, headers: &HeaderMap, query: &str, deadline: Option<Instant>) -> Result<Self, Status> {
        let named = |name: &str| named(name, query, headers).map_err(|problem| bad_field("header", problem));
        let (sandbox, namespace) = (text(headers, &SANDBOX)?, text(headers, &NAMESPACE)?);
        let owner = json!([caller.principal().id(), namespace, sandbox]);
        let session_id = match named("session")? {
            session if !session.is_empty() => session,
            _ => session(sandbox, &owner),
        };
        let context = CallContext {
            workspace: named("workspace")?,
            agent: named("agent")?,
            session_id,
            client_kind: CLIENT.to_owned(),
            ..CallContext::default()
        };
        let id = text(headers, &REQUEST)?;
        let id = (!id.is_empty()).then(|| json!([owner, id]));
        Ok(Self {
            caller,
            context,
            deadline,
            id,
        })
    }

    /// Returns in whose name something is done.
    pub(super) fn context(&self) -> CallContext {
        self.context.clone()
    }

    /// Sets the variables of commands.
    pub(super) fn set_environment(&mut self, variables: HashMap<String, String>) {
        self.context.environment = variables;
    }

    /// Returns how a call is made. All attempts of one request to do the same are one call.
    pub(super) fn start(&self, what: &Value) -> CallStart {
        let call_id = self.id.as_ref().map(|id| {
            let digest = digest_of(&json!([id, what]));
            format!("agent-sandbox-{}", &digest[..32])
        });
        CallStart {
            context: Some(self.context()),
            call_id: call_id.unwrap_or_default(),
            // Whoever answers may not be there yet: the client waits as long as it wants to.
            unattended: Unattended::Wait.into(),
            wait_timeout: None,
        }
    }

    /// Returns a message to a service of the contract, in the name of the caller.
    pub(super) fn to<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.extensions_mut().insert(self.caller.clone());
        request
    }

    /// Ends with the wait of the SDK.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        match self.deadline {
            Some(deadline) => match tokio::time::timeout_at(deadline, work).await {
                Ok(done) => done,
                Err(_) => Err(status::deadline()),
            },
            None => work.await,
        }
    }
}

/// Returns the name of the session in which a principal works with a sandbox.
fn session(sandbox: &str, owner: &Value) -> String {
    let shown = sandbox.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let shown: String = shown.take(MAX_SHOWN).collect();
    format!("agent-sandbox-{shown}-{}", &digest_of(owner)[..12])
}

/// Returns a header; empty if it is not there.
fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<&'h str, Status> {
    match headers.get(name) {
        None => Ok(""),
        Some(value) => value.to_str().map_err(|_| bad_field(name.as_str(), "expected text")),
    }
}

/// Decodes the path of a file in the path of a request.
pub(super) fn decoded(path: &str) -> Result<String, Status> {
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8();
    let decoded = decoded.map_err(|_| bad_field("path", "not UTF-8"))?;
    Ok(decoded.into_owned())
}

/// Returns a path as the contract takes it: what the SDKs call absolute begins at the workspace's folder.
pub(super) fn within(path: &str) -> String {
    match path.trim_start_matches('/') {
        "" => ".".to_owned(),
        path => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_the_workspace() {
        for (given, expected) in [
            ("a/b", "a/b"),
            ("/a/b", "a/b"),
            ("//a", "a"),
            ("", "."),
            ("/", "."),
            (".", "."),
            ("../a", "../a"),
        ] {
            assert_eq!(within(given), expected, "{given}");
        }
        assert_eq!(decoded("a%2Fb%20c").unwrap(), "a/b c");
        assert_eq!(decoded("%252F").unwrap(), "%2F");
        assert!(decoded("%ff").is_err());
    }

    #[test]
    fn a_session_is_of_one_principal_and_sandbox() {
        let of = |principal: &str, sandbox: &str| session(sandbox, &json!([principal, "default", sandbox]));
        assert!(of("token:a", "box.1").starts_with("agent-sandbox-box-1-"));
        assert_ne!(of("token:a", "box"), of("token:b", "box"));
        assert_ne!(of("token:a", "box.1"), of("token:a", "box-1"));
        assert_eq!(of("token:a", "box"), of("token:a", "box"));
    }
}
