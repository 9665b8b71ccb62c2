//! The arguments of a call: parsed, given to the right tool, converted and checked against its schema.
//!
//! *Invariant:* nothing here decides whether a call is admitted; what is wrong with its arguments is for the model to read.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_fs::marks;
use toolgate_model::{EndReason, Origin, RawInput, ToolCall};
use toolgate_permission::Rights;
use toolgate_store::StoreError;
use toolgate_tool::registry::{Entry, Registry};
use toolgate_tool::{InputProblem, Offer, Outline};

use super::refusal::AdmitError;
use crate::catalogs::WorkspaceRuntime;
use crate::input::{self, Frozen};
use crate::live::LiveCall;

/// Bytes of an input from which parsing and checking it moves to a thread for blocking work.
const LARGE_INPUT: usize = 64 * 1024;

/// A request that was understood, as far as it can be.
pub(crate) struct Understood {
    /// The tools of the moment: the call goes on with them whatever comes or goes.
    pub(crate) registry: Arc<Registry>,
    pub(crate) entry: Entry,
    pub(crate) args: Value,
}

/// Arguments as the tool gets them.
pub(crate) struct Checked {
    pub(crate) frozen: Frozen,
    /// What is shown of the call before it has a result.
    pub(crate) outline: Outline,
    /// Why and with which text the call ends before it starts, if it does.
    pub(crate) problem: Option<(EndReason, String)>,
}

/// Does work that takes as long as an input is large, on a thread for such work if it is.
pub(crate) async fn off_runtime<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AdmitError> {
    if size < LARGE_INPUT {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|panicked| {
        AdmitError::Store(StoreError::Failed {
            context: "the input of a call could not be looked at".to_owned(),
            source: Box::new(panicked),
        })
    })
}

/// Parses the arguments of a call; the error is the text for the model.
pub(crate) fn parsed(input: &RawInput, tool: &str) -> Result<Value, String> {
    input::parse(input).map_err(|(text, parser)| {
        format!("Invalid input for tool {tool}: JSON parsing failed: Text: {text}.\nError message: {parser}")
    })
}

/// Waits for tools that are about to come, and finds the one of the call; `live` is the call if it is to run.
pub(crate) async fn understand(
    place: &WorkspaceRuntime,
    call: &ToolCall,
    parsed: Result<Value, String>,
    rights: &Rights,
    live: Option<&LiveCall>,
) -> Understood {
    let offer = place.offer_for(&call.origin);
    let wait = async {
        place.tools.loaded().await;
        if place.tools.current().resolve(&call.tool, &offer, rights).is_none() {
            // Perhaps of a source that is still being connected to.
            place.tools.settled().await;
        }
    };
    match live {
        // Whoever stops the call need not wait for them.
        Some(live) => live.stopping().run_until_cancelled(wait).await.unwrap_or_default(),
        None => wait.await,
    }
    let registry = place.tools.current();
    let (entry, args) = understood(&registry, call, parsed, &offer, rights);
    if let Some(live) = live.filter(|_| entry.tool.properties().reads_input) {
        live.take_input();
    }
    Understood { registry, entry, args }
}

/// Returns the tool of a call and its arguments, or the tool that tells the model what it did wrong, and that.
fn understood(
    registry: &Registry,
    call: &ToolCall,
    parsed: Result<Value, String>,
    offer: &Offer<'_>,
    rights: &Rights,
) -> (Entry, Value) {
    let repaired = |error: String| {
        let args = json!({ "tool": call.tool, "error": error });
        (registry.invalid().clone(), args)
    };
    let Some(entry) = registry.resolve(&call.tool, offer, rights) else {
        let names = registry.callable_names(offer, rights).join(", ");
        return repaired(format!(
            "Model tried to call unavailable tool '{}'. Available tools: {names}.",
            call.tool
        ));
    };
    match parsed {
        Ok(value) => (entry.clone(), value),
        Err(problem) => repaired(problem),
    }
}

/// Converts arguments to what the schema wants, checks them and freezes them.
pub(crate) fn checked(entry: &Entry, mut value: Value, origin: &Origin) -> Checked {
    let check = |value: &Value| input::problems(&entry.validator, value);
    let mut problems = check(&value);
    if !problems.is_empty() {
        input::convert(&mut value, &entry.schema);
        problems = check(&value);
    }
    let misfit = |problems: &[InputProblem]| (EndReason::InvalidArguments, entry.tool.misfit(problems));
    let problem = (!problems.is_empty()).then(|| misfit(&problems));
    Checked {
        frozen: Frozen::new(&value, origin),
        outline: entry.tool.outline(&value),
        problem,
    }
}

/// Returns the digest of everything that makes two starts the same start.
pub(crate) fn request_digest(call: &ToolCall) -> String {
    // A client that was started anew calls itself otherwise, and repeats the same request.
    let origin = Origin {
        clients: Vec::new(),
        client_name: String::new(),
        ..call.origin.clone()
    };
    let request = json!({
        "origin": origin,
        "tool": call.tool,
        "input": call.input,
        "timeout": call.timeout.map(|timeout| timeout.as_millis().to_string()),
    });
    marks::sha256(input::canonical(&request).as_bytes())
}
