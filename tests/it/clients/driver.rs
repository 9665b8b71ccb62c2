//! A driver: the program beside a client library that does with the library what it is told (`clients/DRIVER.md`).
//!
//! *Invariant:* every command has one last report. A driver that ends, or that says something which is no report, fails
//! all commands that are under way; it never outlives its [`Driver`].

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

/// How long a driver may take for a command that waits for nobody.
const LIMIT: Duration = Duration::from_secs(60);

/// What is under way, or why nothing is any more.
type Running = Arc<Mutex<Result<HashMap<u64, UnboundedSender<Value>>, String>>>;

/// A driver that runs.
#[derive(Clone)]
pub(crate) struct Driver {
    lines: UnboundedSender<String>,
    running: Running,
    next: Arc<AtomicU64>,
    _child: Arc<Child>,
}

impl Driver {
    /// Starts the driver of a language.
    pub(crate) fn start(language: &str) -> Result<Self> {
        let script = format!("{}/clients/{language}/run.sh", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(&script);
        command
            .arg("driver")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("starting {script}"))?;
        let mut input = child.stdin.take().context("the driver's input")?;
        let output = child.stdout.take().context("the driver's output")?;
        let (lines, mut waiting) = unbounded_channel::<String>();
        tokio::spawn(async move {
            while let Some(line) = waiting.recv().await {
                if input.write_all(line.as_bytes()).await.is_err() {
                    break;
                }
            }
        });
        let running = Running::new(Mutex::new(Ok(HashMap::new())));
        let known = Arc::clone(&running);
        let name = language.to_owned();
        tokio::spawn(async move {
            let mut reports = BufReader::new(output).lines();
            let why = loop {
                match reports.next_line().await {
                    Ok(Some(line)) => {
                        if let Err(problem) = deliver(&known, &line) {
                            break format!("the driver of {name} said {line:?}: {problem}");
                        }
                    }
                    Ok(None) => break format!("the driver of {name} has ended"),
                    Err(error) => break format!("the driver of {name}: {error}"),
                }
            };
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            let running = std::mem::replace(&mut *known, Err(why.clone()));
            for sender in running.unwrap_or_default().values() {
                let _ = sender.send(broken(&why));
            }
        });
        Ok(Self {
            lines,
            running,
            next: Arc::default(),
            _child: Arc::new(child),
        })
    }

    /// Gives a command; what it has of `id` is made here.
    pub(crate) fn begin(&self, what: &str, mut command: Value) -> Reports {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        command["id"] = json!(id);
        command["do"] = json!(what);
        let (sender, incoming) = unbounded_channel();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *running {
            Ok(running) => {
                running.insert(id, sender);
                // The end of a driver is reported by its reader.
                let _ = self.lines.send(format!("{command}\n"));
            }
            Err(why) => {
                let _ = sender.send(broken(why));
            }
        }
        Reports { id, incoming }
    }

    /// Gives a command and waits for its last report, which is returned without the rest.
    pub(crate) async fn ask(&self, what: &str, command: Value) -> Result<Value> {
        let mut reports = self.begin(what, command);
        let done = timeout(LIMIT, reports.done()).await;
        let done = done.unwrap_or_else(|_| Err(anyhow!("no answer after {LIMIT:?}")));
        done.with_context(|| format!("the driver's `{what}`"))
    }

    /// Makes a client of the library.
    pub(crate) async fn connect(&self, client: &str, target: &str, token: Option<&str>) -> Result<()> {
        let mut command = json!({"client": client, "target": target});
        if let Some(token) = token {
            command["token"] = token.into();
        }
        self.ask("connect", command).await?;
        Ok(())
    }
}

fn broken(why: &str) -> Value {
    json!({"error": {"code": "UNKNOWN", "reason": "", "message": why}})
}

fn deliver(running: &Running, line: &str) -> Result<()> {
    let report: Value = serde_json::from_str(line)?;
    let id = report["id"].as_u64().context("a report without an id")?;
    let is_last = report.get("done").is_some() || report.get("error").is_some();
    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
    let running = running.as_mut().map_err(|why| anyhow!("{why}"))?;
    let sender = running.get(&id).context("no such command is under way")?;
    // Whoever gave the command may have lost interest.
    let _ = sender.send(report);
    if is_last {
        running.remove(&id);
    }
    Ok(())
}

/// What is reported about one command.
pub(crate) struct Reports {
    pub(crate) id: u64,
    incoming: UnboundedReceiver<Value>,
}

impl Reports {
    /// Returns the next report, the last one included; `None` after it.
    ///
    /// # Errors
    /// The command ended with an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>> {
        let Some(report) = self.incoming.recv().await else {
            return Ok(None);
        };
        let Some(error) = report.get("error") else {
            return Ok(Some(report));
        };
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        Err(DriverError {
            code: text("code"),
            reason: text("reason"),
            message: text("message"),
        }
        .into())
    }

    /// Passes over reports up to one that has the key.
    pub(crate) async fn until(&mut self, key: &str) -> Result<Value> {
        while let Some(mut report) = self.next().await? {
            if let Some(value) = report.get_mut(key) {
                return Ok(value.take());
            }
            if report.get("done").is_some() {
                break;
            }
        }
        bail!("the command ended without {key:?}")
    }

    /// Waits for the end.
    pub(crate) async fn done(&mut self) -> Result<Value> {
        self.until("done").await
    }
}

/// A command that ended with an error.
#[derive(Debug)]
pub(crate) struct DriverError {
    pub(crate) code: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for DriverError {}

/// Writes a message as commands have it.
pub(crate) fn pack(message: &impl Message) -> Value {
    Value::String(STANDARD.encode(message.encode_to_vec()))
}

/// Reads a message as reports have it.
pub(crate) fn unpack<M: Message + Default>(value: &Value) -> Result<M> {
    Ok(M::decode(bytes(value)?.as_slice())?)
}

/// Reads bytes as reports have them.
pub(crate) fn bytes(value: &Value) -> Result<Vec<u8>> {
    let text = value.as_str().with_context(|| format!("{value} is not in Base64"))?;
    Ok(STANDARD.decode(text)?)
}
