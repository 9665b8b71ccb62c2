//! What plugins want of the service that runs them: what it knows of sessions, and that it takes in what they make of the
//! configuration.
//!
//! *Invariant:* whatever plugins ask for, the answers that are under way are bounded, and a plugin that asks for what is not
//! there is told so.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolgate_model::JsonMap;
use toolgate_tool::Hold;

/// Answers that are looked for at the same time, and requests that may wait.
const MAX_ANSWERING: usize = 8;
const MAX_WAITING: usize = 256;

/// Names of one file that are kept.
const MAX_NOTES: usize = 50;

/// What a plugin left of the configuration that it was shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// The plugin, as people know it.
    pub plugin: String,
    /// Its file or the folder of its package.
    pub path: PathBuf,
    /// The configuration as it left it.
    pub config: JsonMap,
}

/// What the service answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What was asked for.
    Data(Value),
    /// There is no such thing; a sentence says so.
    Missing(String),
}

/// The service, as plugins of one workspace see it.
#[async_trait]
pub trait World: Send + Sync + 'static {
    /// Answers what a plugin asks OpenCode's client, `session.get` for instance.
    ///
    /// # Errors
    /// It cannot be answered now; the text is for the plugin.
    async fn answer(&self, name: &str, params: &Value) -> Result<Answer, String>;

    /// Takes in what all plugins left of the configuration, in the order in which they are loaded. Nobody lists or calls
    /// tools before the hold is dropped, or not for long.
    fn take_config(&self, left: Vec<Left>, hold: Hold);
}

/// What was wanted of files and is not there.
#[derive(Default)]
pub(super) struct Notes(Mutex<HashMap<u64, BTreeSet<String>>>);

impl Notes {
    /// Notes what a file wanted.
    pub(super) fn add(&self, module: u64, name: String) {
        let mut notes = self.0.lock();
        let of_module = notes.entry(module).or_default();
        if of_module.len() < MAX_NOTES {
            of_module.insert(name);
        }
    }

    /// Returns what a file has wanted so far.
    pub(super) fn of(&self, module: u64) -> BTreeSet<String> {
        self.0.lock().get(&module).cloned().unwrap_or_default()
    }

    /// Forgets a file.
    pub(super) fn forget(&self, module: u64) {
        self.0.lock().remove(&module);
    }
}

/// One request of a plugin: `number` is the plugin's own.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    number: Value,
    name: String,
    #[serde(default)]
    params: Value,
}

/// A request with the number by which the host knows it.
pub(super) type Request = (u64, Wanted);

/// Makes the way on which requests wait.
pub(super) fn way() -> (mpsc::Sender<Request>, mpsc::Receiver<Request>) {
    mpsc::channel(MAX_WAITING)
}

/// Answers until no more can come; `send` takes each answer to the host.
pub(super) async fn answer_all(
    mut requests: mpsc::Receiver<Request>,
    world: Arc<dyn World>,
    send: impl Fn(Value) + Send + Sync,
) {
    let (world, send) = (&world, &send);
    futures_util::stream::poll_fn(|ctx| requests.poll_recv(ctx))
        .for_each_concurrent(MAX_ANSWERING, |(id, wanted)| async move {
            let answer = world.answer(&wanted.name, &wanted.params).await;
            send(served(id, &wanted, answer));
        })
        .await;
}

/// Returns the message that answers a request.
pub(super) fn served(id: u64, wanted: &Wanted, answer: Result<Answer, String>) -> Value {
    let number = &wanted.number;
    let answer = match answer {
        Ok(Answer::Data(data)) => json!({ "number": number, "data": data }),
        Ok(Answer::Missing(text)) => json!({ "number": number, "missing": text }),
        Err(text) => json!({ "number": number, "error": text }),
    };
    json!({ "op": "served", "id": id, "answer": answer })
}

/// Returns the message that nobody can answer a request: too many wait.
pub(super) fn too_many((id, wanted): Request) -> Value {
    served(id, &wanted, Err("too many requests wait for the service".to_owned()))
}
