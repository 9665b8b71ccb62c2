//! Does what the tests of the repository tell it, through the library's public functions: see `clients/DRIVER.md`.

mod calls;
mod people;
mod raw;

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Code, Status};
use toolgate_client::{Client, Decision, Error, v1};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let driver = Arc::new(Driver::default());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if line.trim().is_empty() {
            continue;
        }
        let Some(command) = driver.begin(&line) else { continue };
        if command.what() == "connect" {
            // The next commands already need the client.
            command.run().await;
        } else {
            driver.tasks.spawn(async move { command.run().await });
        }
    }
    for command in lock(&driver.running).values() {
        command.stop();
    }
    let clients: Vec<Client> = lock(&driver.clients).drain().map(|(_, client)| client).collect();
    for client in clients {
        client.close().await;
    }
    driver.tasks.close();
    driver.tasks.wait().await;
    Ok(())
}

/// The clients and the commands that run.
#[derive(Default)]
struct Driver {
    clients: Mutex<HashMap<String, Client>>,
    running: Mutex<HashMap<u64, Arc<Command>>>,
    tasks: TaskTracker,
}

/// What a lent function is told to do, and where it says what came of it.
type Act = (v1::HostReport, oneshot::Sender<Result<Value, Failure>>);

/// One command.
struct Command {
    driver: Arc<Driver>,
    id: u64,
    line: Value,
    cancelled: CancellationToken,
    ended: CancellationToken,
    /// Set by `stop`: the end is a good one then.
    is_stopped: AtomicBool,
    /// The call that it executes, once it is known.
    call: watch::Sender<Option<(Client, String)>>,
    /// The handlers that wait for a reply, by their prompts.
    replies: Mutex<HashMap<String, oneshot::Sender<Decision>>>,
    /// The lent functions that wait for something to do, by their invocations.
    acts: Mutex<HashMap<String, mpsc::Sender<Act>>>,
}

/// Why a command ends with an error.
#[derive(Debug)]
struct Failure {
    code: Code,
    reason: Option<String>,
    message: String,
}

impl Failure {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: None,
            message: message.into(),
        }
    }

    fn invalid(message: impl ToString) -> Self {
        Self::new(Code::InvalidArgument, message.to_string())
    }

    fn to_json(&self) -> Value {
        let mut report = json!({"code": Error::from(Status::new(self.code, "")).code_name(), "message": self.message});
        if let Some(reason) = &self.reason {
            report["reason"] = json!(reason);
        }
        report
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: error.code(),
            reason: error.reason(),
            message: error.message(),
        }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        Error::from(status).into()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn encode(message: &impl Message) -> String {
    STANDARD.encode(message.encode_to_vec())
}

fn decode<M: Message + Default>(text: &Value) -> Result<M, Failure> {
    let text = text.as_str().unwrap_or_default();
    let bytes = STANDARD.decode(text).map_err(Failure::invalid)?;
    M::decode(bytes.as_slice()).map_err(Failure::invalid)
}

fn report(id: u64, mut what: Value) {
    what["id"] = json!(id);
    let mut out = std::io::stdout().lock();
    // Nobody is left to tell where this fails.
    let _ = writeln!(out, "{what}").and_then(|()| out.flush());
}

impl Driver {
    fn begin(self: &Arc<Self>, line: &str) -> Option<Arc<Command>> {
        let line: Value = match serde_json::from_str(line) {
            Ok(line) => line,
            Err(error) => {
                report(0, json!({"error": Failure::invalid(error).to_json()}));
                return None;
            }
        };
        let command = Arc::new(Command {
            driver: Arc::clone(self),
            id: line["id"].as_u64().unwrap_or_default(),
            line,
            cancelled: CancellationToken::new(),
            ended: CancellationToken::new(),
            is_stopped: AtomicBool::new(false),
            call: watch::Sender::new(None),
            replies: Mutex::default(),
            acts: Mutex::default(),
        });
        lock(&self.running).insert(command.id, Arc::clone(&command));
        Some(command)
    }
}

impl Command {
    fn what(&self) -> &str {
        self.line["do"].as_str().unwrap_or_default()
    }

    fn report(&self, what: Value) {
        report(self.id, what);
    }

    /// Ends it in the way of the language: its future is dropped.
    fn stop(&self) {
        self.cancelled.cancel();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    async fn run(self: Arc<Self>) {
        let done = tokio::select! {
            done = self.perform() => done,
            () = self.cancelled.cancelled() => Err(Failure::new(Code::Cancelled, "the command was cancelled")),
        };
        lock(&self.driver.running).remove(&self.id);
        self.report(match done {
            Ok(done) => json!({"done": done}),
            Err(_) if self.is_stopped() => json!({"done": {}}),
            Err(failure) => json!({"error": failure.to_json()}),
        });
        self.ended.cancel();
    }

    async fn perform(self: &Arc<Self>) -> Result<Value, Failure> {
        match self.what() {
            "connect" => calls::connect(self),
            "close" => calls::close(self).await,
            "tools" => calls::tools(self).await,
            "formats" => calls::formats(self).await,
            "forms" => calls::forms(self),
            "execute" => calls::execute(self).await,
            "cancel" => calls::cancel(self).await,
            "interrupt" => calls::interrupt(self).await,
            "stop" => calls::stop(self),
            "read" => calls::read(self).await,
            "search" => calls::search(self).await,
            "save" => calls::save(self).await,
            "events" => calls::events(self).await,
            "unary" => raw::unary(self).await,
            "approvals" => people::approvals(self).await,
            "reply" => people::reply(self),
            "host" => people::host(self).await,
            "greeter" => people::greeter(self).await,
            "report" => people::report(self).await,
            other => Err(Failure::invalid(format!("no such command: {other}"))),
        }
    }

    fn text(&self, field: &str) -> String {
        self.line[field].as_str().unwrap_or_default().to_owned()
    }

    fn client(&self) -> Result<Client, Failure> {
        let name = self.text("client");
        let client = lock(&self.driver.clients).get(&name).cloned();
        client.ok_or_else(|| Failure::invalid(format!("no such client: {name}")))
    }

    /// Returns the command that a field names.
    fn other(&self, field: &str) -> Result<Arc<Self>, Failure> {
        let id = self.line[field].as_u64().unwrap_or_default();
        let other = lock(&self.driver.running).get(&id).cloned();
        other.ok_or_else(|| Failure::new(Code::NotFound, format!("command {id} does not run")))
    }
}
