//! Tools that run as tasks (revision 2025-11-25): the server says at once that it has begun, is asked how far it is, and gives
//! the result when it is done.
//!
//! rmcp 3.9 has the types of the extension that came after; those of this revision are a few fields, read here.
//!
//! *Invariant:* a task that nobody waits for any more is cancelled at the server. It is asked about no more often than the server
//! wants, and not at once again.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::{Asked, Attendant, Link, RequestError};
use super::dispatcher::shortened_line;
use super::message::{ErrorObject, Progress};

/// How long a task may take, as long as the server says that it works.
const MAX_TASK: Duration = Duration::from_secs(60 * 60);

/// The pause before a task is asked about, at least, unless the server says otherwise, and at most.
const PAUSE: (Duration, Duration, Duration) = (
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(30),
);

/// Bytes of the longest name of a task: it is sent each time.
const MAX_ID: usize = 4 << 10;

/// How long cancelling may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Working,
    /// The result is to be asked for: it waits for an answer in the midst of that, or is done in whatever way.
    Due,
    Cancelled,
}

/// A task, as a server describes it.
#[derive(Debug, PartialEq, Eq)]
struct Task {
    id: String,
    stand: Stand,
    message: Option<String>,
    pause: Duration,
}

impl Task {
    fn read(task: &Value) -> Option<Self> {
        let wanted = task["pollInterval"].as_u64().map(Duration::from_millis);
        Some(Self {
            id: task["taskId"].as_str().filter(|id| id.len() <= MAX_ID)?.to_owned(),
            stand: match task["status"].as_str()? {
                "working" | "submitted" => Stand::Working,
                "cancelled" => Stand::Cancelled,
                _ => Stand::Due,
            },
            message: task["statusMessage"].as_str().map(shortened_line),
            pause: wanted.unwrap_or(PAUSE.1).clamp(PAUSE.0, PAUSE.2),
        })
    }
}

/// Calls a tool as a task, and returns the raw result. `limit` is for each request; progress is what the server says of the
/// task.
pub(super) async fn run(
    link: &Link,
    mut params: Map<String, Value>,
    headers: &[(String, String)],
    limit: Duration,
    cancelled: &CancellationToken,
    attendant: &dyn Attendant,
) -> Result<Value, RequestError> {
    params.insert("task".to_owned(), json!({"ttl": MAX_TASK.as_millis()}));
    let asked = Asked {
        method: "tools/call",
        params: Value::Object(params),
        headers,
    };
    let begun = link.call(asked, limit, cancelled, attendant).await?;
    // A server may run it at once.
    let Some(task) = begun.get("task") else {
        return Ok(begun);
    };
    let mut task = Task::read(task).ok_or_else(unreadable)?;
    let ended = await_end(link, &mut task, limit, cancelled, attendant).await;
    if ended.is_err() && task.stand != Stand::Cancelled {
        // It may be over, or not to be stopped.
        let _ = link
            .request("tasks/cancel", json!({"taskId": task.id}), CANCEL_LIMIT)
            .await;
    }
    ended
}

async fn await_end(
    link: &Link,
    task: &mut Task,
    limit: Duration,
    cancelled: &CancellationToken,
    attendant: &dyn Attendant,
) -> Result<Value, RequestError> {
    let (deadline, mut told, mut steps) = (Instant::now() + MAX_TASK, None, 0.0);
    let about = json!({"taskId": task.id});
    while task.stand == Stand::Working {
        if task.message.is_some() && task.message != told {
            told.clone_from(&task.message);
            steps += 1.0;
            attendant.progressed(step(steps, task.message.take())).await;
        }
        let pause = tokio::time::sleep(task.pause);
        if cancelled.run_until_cancelled(pause).await.is_none() {
            return Err(RequestError::Cancelled);
        }
        if Instant::now() > deadline {
            return Err(RequestError::TimedOut);
        }
        let asked = cancelled.run_until_cancelled(link.request("tasks/get", about.clone(), limit));
        let found = asked.await.unwrap_or(Err(RequestError::Cancelled))?;
        let found = Task::read(&found).ok_or_else(unreadable)?;
        // What it is called was said when it began.
        *task = Task {
            id: std::mem::take(&mut task.id),
            ..found
        };
    }
    if task.stand == Stand::Cancelled {
        let why = task
            .message
            .take()
            .map(|message| format!(": {message}"))
            .unwrap_or_default();
        return Err(problem(format!("The server has cancelled the task{why}")));
    }
    let asked = Asked {
        method: "tasks/result",
        params: about,
        headers: &[],
    };
    let left = deadline.saturating_duration_since(Instant::now());
    link.call(asked, left, cancelled, attendant).await
}

fn step(steps: f64, message: Option<String>) -> Progress {
    Progress {
        progress_token: Value::Null,
        progress: steps,
        total: None,
        message,
    }
}

fn unreadable() -> RequestError {
    problem("The server says of the task what cannot be read".to_owned())
}

fn problem(message: String) -> RequestError {
    RequestError::Server(ErrorObject {
        code: -32603,
        message,
        data: Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read() {
        let check = |status: &str, poll: Value, stand: Stand, pause: u64| {
            let task = json!({"taskId": "t", "status": status, "pollInterval": poll, "statusMessage": "m"});
            let expected = Task {
                id: "t".to_owned(),
                stand,
                message: Some("m".to_owned()),
                pause: Duration::from_millis(pause),
            };
            assert_eq!(Task::read(&task), Some(expected), "{task}");
        };
        check("working", json!(500), Stand::Working, 500);
        check("working", json!(null), Stand::Working, 1000);
        check("working", json!(0), Stand::Working, 100);
        check("input_required", json!(86_400_000), Stand::Due, 30_000);
        check("completed", json!(1), Stand::Due, 100);
        check("failed", json!("x"), Stand::Due, 1000);
        check("cancelled", json!(null), Stand::Cancelled, 1000);
        assert_eq!(Task::read(&json!({"status": "working"})), None);
        assert_eq!(Task::read(&json!({"taskId": "t"})), None);
        let long = "t".repeat(MAX_ID + 1);
        assert_eq!(Task::read(&json!({"taskId": long, "status": "working"})), None);
    }
}
