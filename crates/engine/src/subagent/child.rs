//! Calls that calls make: their admission, and what the maker may wait for.
//!
//! *Invariant:* such a call is an ordinary one, with every limit that others have. While its maker waits, a stop of the
//! maker is one of both; the maker's time stands still while a person is asked about the other.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use toolgate_model::{
    CallId, CallRecord, CallState, EndReason, Ending, JsonMap, OnDisconnect, Origin, Outcome, RawInput, ToolCall,
};
use toolgate_store::StoreError;
use toolgate_tool::{Child, ChildCall, ChildPort, ToolError};

use crate::admission::refusal::AdmitError;
use crate::admission::started::{Admitted, Maker, Started, Work};
use crate::live::{LiveCall, Progress, STOP_GRACE};
use crate::lookup;
use crate::parts::Parts;

/// How many calls may hang on each other, the first one included.
pub(crate) const MAX_DEPTH: usize = 8;

/// A call that was made by another one, as its maker holds it.
struct Handle {
    child: Arc<LiveCall>,
    parent: Arc<LiveCall>,
}

/// Admits calls and runs them in tasks of their own: what [`start`] needs of the admission.
#[async_trait]
pub(crate) trait ChildAdmission: Send + Sync + 'static {
    /// Admits a call that another one makes.
    async fn admit_child(&self, call: ToolCall, maker: Maker) -> Result<Admitted, AdmitError>;

    /// Runs `start` in a task of its own, and then the call that it started. None if it panicked.
    async fn in_own_task(&self, start: ChildStart) -> Option<Result<Child, ToolError>>;
}

/// Starting a call that another one makes, and what is to be done for it then.
pub(crate) type ChildStart = Pin<Box<dyn Future<Output = (Result<Child, ToolError>, Option<Work>)> + Send>>;

/// Starts a call that another one makes.
pub(crate) async fn start(
    parts: &Arc<Parts>,
    admission: &Arc<dyn ChildAdmission>,
    parent: &Arc<LiveCall>,
    call: ChildCall,
) -> Result<Child, ToolError> {
    let (parts, admitter, parent) = (parts.clone(), admission.clone(), parent.clone());
    // The maker may be dropped at any await. The task goes on, and a handle that nobody takes stops its call.
    let start = async move {
        match admit(&parts, &*admitter, parent, call).await {
            Ok((child, work)) => (Ok(child), work),
            Err(error) => (Err(error), None),
        }
    };
    let started = admission.in_own_task(Box::pin(start)).await;
    started.unwrap_or_else(|| Err(ToolError::Internal("the start of a call panicked".into())))
}

async fn admit(
    parts: &Parts,
    admission: &dyn ChildAdmission,
    maker: Arc<LiveCall>,
    call: ChildCall,
) -> Result<(Child, Option<Work>), ToolError> {
    let record = maker.record();
    let parent = &*record;
    let depth = depth_of(parts, parent).await;
    if depth.map_err(|error| ToolError::Internal(Box::new(error)))? >= MAX_DEPTH {
        return Err(ToolError::Quota(format!(
            "Calls that make calls may be nested {MAX_DEPTH} deep, and this one would be deeper. Do the work in this \
             call, or make the next one from outside."
        )));
    }
    if let Err(available) = parts.catalogs.may_call(parent, &call.tool) {
        return Err(ToolError::NoSuchTool {
            tool: call.tool,
            agent: parent.origin.agent.clone(),
            available,
        });
    }
    let made_by = if call.is_step { Maker::Bundle } else { Maker::Call };
    let call = ToolCall {
        id: CallId::generate(),
        id_is_new: true,
        origin: Origin {
            parent: Some(parent.id.clone()),
            ..parent.origin.clone()
        },
        tool: call.tool,
        input: RawInput::Value(call.input),
        timeout: None,
        on_disconnect: OnDisconnect::Keep,
    };
    let Admitted { started, work } = admission.admit_child(call, made_by).await.map_err(refused)?;
    let Started {
        id,
        attached: Some(attached),
    } = started
    else {
        return Err(ToolError::Internal("a new call was taken for an old one".into()));
    };
    let handle = Handle {
        child: attached.call().clone(),
        parent: maker,
    };
    Ok((Child::new(id, Box::new(handle)), work))
}

/// Returns how many calls hang on each other down to this one, as far as it matters.
async fn depth_of(parts: &Parts, record: &CallRecord) -> Result<usize, StoreError> {
    let mut depth = 1;
    let mut parent = record.origin.parent.clone();
    while let Some(id) = parent.filter(|_| depth < MAX_DEPTH) {
        depth += 1;
        parent = lookup::record(parts, &id)
            .await?
            .and_then(|record| record.origin.parent);
    }
    Ok(depth)
}

fn refused(error: AdmitError) -> ToolError {
    match error {
        AdmitError::Draining => ToolError::Child {
            reason: EndReason::Drained,
            error: "The service is stopping and starts no more calls.".to_owned(),
        },
        AdmitError::ClosedWorkspace(_) => ToolError::Cancelled,
        AdmitError::TooManyCalls { .. } | AdmitError::InputTooLarge { .. } => {
            ToolError::Quota(format!("The call could not be started: {error}."))
        }
        AdmitError::UnknownWorkspace { .. }
        | AdmitError::BadDirectory(_)
        | AdmitError::HeldWorkspace { .. }
        | AdmitError::BrokenWorkspace { .. }
        | AdmitError::UnknownAgent { .. }
        | AdmitError::UnknownParent(_)
        | AdmitError::TaskEnded(_)
        | AdmitError::IdTaken(_)
        | AdmitError::Store(_) => ToolError::Internal(Box::new(error)),
    }
}

impl Handle {
    /// Waits until the child's log has come so far. If the parent is stopped first, so is the child, and its end is
    /// waited for.
    async fn until(&self, reached: impl Fn(&Progress) -> bool + Send) -> Result<(), ToolError> {
        let mut progress = self.child.watch();
        let mut pause = None;
        loop {
            if reached(&progress.borrow_and_update()) {
                return Ok(());
            }
            let asks = self.child.record().state == CallState::Waiting;
            pause = asks.then(|| pause.take().unwrap_or_else(|| self.parent.clock.pause()));
            tokio::select! {
                biased;
                () = self.parent.stopping().cancelled() => break,
                changed = progress.changed() => {
                    // The sender lives in `child`.
                    if changed.is_err() {
                        break;
                    }
                }
            }
        }
        self.cancel();
        let _below = StoppingBelow::new(&self.parent);
        let _ = progress.wait_for(|progress| progress.ended).await;
        Err(ToolError::Cancelled)
    }
}

/// A call that another one has stopped and waits for, while this lives.
struct StoppingBelow<'a>(&'a LiveCall);

impl<'a> StoppingBelow<'a> {
    fn new(parent: &'a LiveCall) -> Self {
        parent.stopping_below.send_modify(|count| *count += 1);
        Self(parent)
    }
}

impl Drop for StoppingBelow<'_> {
    fn drop(&mut self) {
        self.0.stopping_below.send_modify(|count| *count -= 1);
    }
}

/// Returns when the tool of a call that is stopped has had its grace. It begins when the calls have ended that it waits
/// for: each of them has a grace of its own, and when this one's end is seen, theirs have been stored.
pub(crate) async fn grace_is_over(call: &LiveCall) {
    let mut below = call.stopping_below.subscribe();
    let most = STOP_GRACE * u32::try_from(MAX_DEPTH).unwrap_or(u32::MAX);
    let has_passed = async {
        loop {
            // The sender lives in the call.
            let _ = below.wait_for(|count| *count == 0).await;
            tokio::select! {
                () = tokio::time::sleep(STOP_GRACE) => return,
                _ = below.wait_for(|count| *count > 0) => {}
            }
        }
    };
    // Over or not: a tool that goes on to make calls is not waited for either.
    let _ = tokio::time::timeout(most, has_passed).await;
}

#[async_trait]
impl ChildPort for Handle {
    async fn launched(&self) -> Result<JsonMap, ToolError> {
        self.until(|progress| progress.launched || progress.ended).await?;
        if let Some(facts) = self.child.launched.lock().clone() {
            return Ok(facts);
        }
        match self.child.record().ending.as_ref().map(|ending| &ending.outcome) {
            Some(Outcome::Completed { .. }) | None => Ok(JsonMap::new()),
            Some(Outcome::Failed { reason, error }) => Err(ToolError::Child {
                reason: *reason,
                error: error.clone(),
            }),
        }
    }

    async fn ended(&self) -> Result<Ending, ToolError> {
        self.until(|progress| progress.ended).await?;
        let ending = self.child.record().ending.clone();
        ending.ok_or_else(|| ToolError::Internal("a call ended without an ending".into()))
    }

    fn cancel(&self) {
        let reason = match self.parent.stop_reason() {
            Some(EndReason::Drained) => EndReason::Drained,
            Some(_) | None => EndReason::Cancelled,
        };
        self.child.stop(reason);
    }
}
