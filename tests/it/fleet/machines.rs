//! A server that makes places for workspaces as `docs/operate/workspaces.md` says it: each place is a folder with a real worker.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::setup::{Fleet, MACHINES, MACHINES_TOKEN, PODS, Plan, token_of};
use crate::gateway::setup::*;

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// As it should.
    Well,
    /// It says that a place is coming, and lets none come.
    Slow,
    /// With this status.
    Status(u16),
    /// Never.
    Hangs,
    /// With what is no answer.
    Garbage,
}

/// What it was asked: the action, the workspace, and the key.
pub(super) type Question = (String, String, String);

#[derive(Default)]
struct Inner {
    places: HashMap<String, Place>,
    mood: Option<Mood>,
    asked: Vec<Question>,
    gateways: Vec<String>,
    folder: PathBuf,
    home: PathBuf,
    count: usize,
    /// How often a worker was started.
    started: usize,
}

struct Place {
    folder: PathBuf,
    worker: Process,
    runs: bool,
    /// What the worker is called that waits there.
    pod: Option<String>,
}

/// The server.
#[derive(Clone)]
pub(super) struct Machines(Arc<Mutex<Inner>>);

/// A fleet whose gateways have workspaces made.
pub(super) struct Made {
    pub(super) fleet: Fleet,
    pub(super) machines: Machines,
    serving: JoinHandle<()>,
}

impl Drop for Made {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Made {
    /// Starts it, with more keys of the provisioner, and more tables.
    pub(super) async fn start(settings: &str, more: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let machines = Machines(Arc::default());
        let server = machines.clone();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        let provisioner = format!(
            "[cluster.provisioner]\nkind = \"webhook\"\nurl = \"http://{address}/toolgate\"\ntoken_file = \"machines\"\n{settings}\n{more}\n"
        );
        let fleet = Fleet::of(Plan {
            workers: Vec::new(),
            provisioner: Some(provisioner),
            ..Plan::default()
        })
        .await;
        {
            let mut inner = machines.0.lock().await;
            inner.gateways = fleet.gateway_addresses();
            inner.folder = fleet.path("places");
            inner.home = fleet.home();
        }
        Self {
            fleet,
            machines,
            serving,
        }
    }
}

impl Machines {
    pub(super) async fn is(&self, mood: Mood) {
        self.0.lock().await.mood = Some(mood);
    }

    /// Returns what it was asked for a workspace, beside how it is.
    pub(super) async fn asked(&self, workspace: &str) -> Vec<String> {
        let inner = self.0.lock().await;
        let asked = inner
            .asked
            .iter()
            .filter(|(action, of, _)| of == workspace && action != "observe");
        asked.map(|(action, ..)| action.clone()).collect()
    }

    /// Returns the different keys that came with questions about a workspace.
    pub(super) async fn keys(&self, workspace: &str) -> usize {
        let inner = self.0.lock().await;
        let keys = inner
            .asked
            .iter()
            .filter(|(_, of, _)| of == workspace)
            .map(|(.., key)| key);
        keys.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Returns how many places were made.
    pub(super) async fn made(&self) -> usize {
        self.0.lock().await.count
    }

    pub(super) async fn runs(&self, workspace: &str) -> Option<bool> {
        self.0.lock().await.places.get(workspace).map(|place| place.runs)
    }

    /// Kills the worker of a workspace; `whole` takes its place away as well.
    pub(super) async fn kill(&self, workspace: &str, whole: bool) {
        let mut inner = self.0.lock().await;
        inner.places.get_mut(workspace).unwrap().worker.kill9().await;
        if whole {
            let place = inner.places.remove(workspace).unwrap();
            fs::remove_dir_all(place.folder).unwrap();
        } else {
            inner.places.get_mut(workspace).unwrap().runs = false;
        }
    }

    /// Says what the workers have logged.
    pub(super) async fn assert_calm(&self) {
        let inner = self.0.lock().await;
        for place in inner.places.values() {
            let log = place.worker.log();
            assert!(!log.contains("panicked"), "{log}");
        }
    }

    async fn serve(&self, mut stream: TcpStream) {
        let Some((head, body)) = question(&mut stream).await else {
            return;
        };
        let is_known = head.contains(&format!("authorization: bearer {MACHINES_TOKEN}\r\n"));
        assert!(is_known && head.starts_with("post /toolgate http/1.1\r\n"), "{head}");
        let key = head.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        let (action, workspace) = (text("action"), text("workspace"));
        let mood = {
            let mut inner = self.0.lock().await;
            inner
                .asked
                .push((action.clone(), workspace.clone(), key.unwrap_or_default().to_owned()));
            inner.mood.unwrap_or(Mood::Well)
        };
        let (status, answer) = match mood {
            Mood::Hangs => {
                let _ = stream.read(&mut [0; 1]).await;
                return;
            }
            Mood::Garbage => (200, "garbage".to_owned()),
            Mood::Status(status) => (status, json!({"problem": "there is no room"}).to_string()),
            Mood::Slow => (200, json!({"state": "coming"}).to_string()),
            Mood::Well => {
                let state = self.act(&action, &workspace).await;
                let pod = self
                    .0
                    .lock()
                    .await
                    .places
                    .get(&workspace)
                    .and_then(|place| place.pod.clone());
                (200, json!({"state": state, "pod": pod}).to_string())
            }
        };
        let head = format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            answer.len()
        );
        // Whoever asked may have gone.
        let _ = stream.write_all((head + &answer).as_bytes()).await;
    }

    async fn act(&self, action: &str, workspace: &str) -> &'static str {
        let mut inner = self.0.lock().await;
        let inner = &mut *inner;
        let state = |place: &Place| if place.runs { "ready" } else { "resting" };
        match action {
            "ensure" if !inner.places.contains_key(workspace) => {
                inner.count += 1;
                inner.started += 1;
                let place = place(inner, workspace);
                inner.places.insert(workspace.to_owned(), place);
                "coming"
            }
            "resume" => match inner.places.remove(workspace) {
                Some(mut place) => {
                    let was_there = place.runs;
                    if !was_there {
                        inner.started += 1;
                        place.start(inner, workspace);
                    }
                    inner.places.insert(workspace.to_owned(), place);
                    if was_there { "ready" } else { "coming" }
                }
                None => "absent",
            },
            "suspend" => match inner.places.get_mut(workspace) {
                Some(place) => {
                    if std::mem::take(&mut place.runs) {
                        // It may have ended by itself.
                        if !place.worker.has_ended() {
                            place.worker.signal(Signal::TERM).await;
                        }
                    }
                    "resting"
                }
                None => "absent",
            },
            "delete" => {
                if let Some(mut place) = inner.places.remove(workspace) {
                    if place.runs && !place.worker.has_ended() {
                        place.worker.kill9().await;
                    }
                    fs::remove_dir_all(&place.folder).unwrap();
                }
                "absent"
            }
            "ensure" | "observe" => inner.places.get(workspace).map_or("absent", state),
            other => panic!("nobody asks to {other}"),
        }
    }
}

/// Makes the place of a workspace, whose worker is started and not waited for.
fn place(inner: &Inner, workspace: &str) -> Place {
    let folder = inner.folder.join(format!("m{}", inner.count));
    fs::create_dir_all(folder.join("own")).unwrap();
    put(&folder.join("own/opencode.json"), RULES);
    let mut place = Place {
        worker: Process::at(&free_address().to_string(), folder.clone(), "serve"),
        folder,
        runs: false,
        pod: None,
    };
    place.start(inner, workspace);
    place
}

impl Place {
    /// Starts its worker. That of a pod waits for its workspace, and is another one each time.
    fn start(&mut self, inner: &Inner, workspace: &str) {
        let is_pod = workspace.starts_with("pods/");
        let (name, principal, workspace) = match is_pod {
            true => (format!("pod-{}", inner.started), PODS, ""),
            false => (
                self.folder.file_name().unwrap().to_str().unwrap().to_owned(),
                MACHINES,
                workspace,
            ),
        };
        put(&self.folder.join("identity"), &token_of(principal));
        let gateways: Vec<String> = inner
            .gateways
            .iter()
            .map(|address| format!("\"http://{address}\""))
            .collect();
        let text = format!(
            "data_dir = \"data-{name}\"\nlisten.unix = \"s\"\n[cluster]\nrole = \"worker\"\ngateways = [{}]\nidentity = \"identity\"\n\
             name = \"{name}\"\nadvertise = \"unix:{}\"\n[[workspaces]]\nname = \"{workspace}\"\ndirectory = \"own\"\n",
            gateways.join(", "),
            self.folder.join("s").display()
        );
        put(&self.folder.join("toolgate.toml"), &text);
        self.worker.spawn(&inner.home);
        self.runs = true;
        self.pod = is_pod.then_some(name);
    }
}

/// Reads a request: its head in small letters, and its body.
async fn question(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut said = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer)).await;
        let read = read.ok()?.ok().filter(|read| *read > 0)?;
        said.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&said);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return Some((format!("{head}\r\n").to_lowercase(), body));
        }
    }
}
