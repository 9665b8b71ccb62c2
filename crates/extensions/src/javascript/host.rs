//! The JavaScript host of a workspace: one process, started when it is needed, spoken to over a socket.
//!
//! The socket lies in a folder that only this user can enter and is gone once the host has connected. Standard output and
//! standard error belong to the tools and go to the log, so whatever prints there, children included, disturbs nothing.
//!
//! *Invariant:* a conversation always ends: with an answer, or with the reason why there is none. Dropping it tells the
//! host to give up.

#![allow(clippy::disallowed_methods)] // makes and removes the folder of the socket

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolgate_fs::Workspace;
use toolgate_model::JsonMap;
use toolgate_process::{Exit, Launch, Programs, Stdin, StdioChild};

use super::runtime::{self, Runtime};
use super::world::{self, Notes, Request, World};

/// How long the host may take to connect.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long it may take to end by itself.
const END_LIMIT: Duration = Duration::from_millis(800);

/// How long it may say nothing; it says that it is there every few seconds.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// The longest message from the host.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// How many questions of one call may wait.
const MAX_QUESTIONS: usize = 256;

/// How much memory the host may use before it is ended. Long before that it ends the thread that fills it.
const MAX_MEMORY: u64 = 2 * 1024 * 1024 * 1024;
const MEMORY_INTERVAL: Duration = Duration::from_millis(250);

/// A host that ended this often in this time is not started again until the time is over.
const MAX_STARTS: usize = 5;
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// How long after a start that failed nobody tries again.
const START_PAUSE: Duration = Duration::from_secs(10);

/// How much of what the host printed last is told when it dies.
const MAX_TAIL_BYTES: usize = 1000;

/// What the host needs to know of its workspace.
pub(super) struct Settings {
    pub(super) programs: Programs,
    pub(super) workspace: Arc<Workspace>,
    /// Where the host's own files lie.
    pub(super) home: PathBuf,
    /// The folders whose files it runs.
    pub(super) directories: Vec<PathBuf>,
    /// The runtime that the configuration names.
    pub(super) runtime: Option<String>,
    /// What plugins may ask.
    pub(super) world: Arc<dyn World>,
}

/// Starts the host and keeps it.
pub(super) struct Hosts {
    settings: Settings,
    tasks: TaskTracker,
    stop: CancellationToken,
    numbers: AtomicU64,
    /// What was wanted of files and is not there.
    notes: Arc<Notes>,
    /// The connection to the host, also to one that has ended. Never held across an await.
    link: Mutex<Option<Arc<Link>>>,
    /// Held while a host is started.
    starts: tokio::sync::Mutex<Starts>,
}

/// How starting went lately.
#[derive(Default)]
struct Starts {
    begun: VecDeque<Instant>,
    /// When one failed last, and why.
    failed: Option<(Instant, String)>,
}

/// What comes back in a conversation.
#[derive(Debug)]
pub(super) enum Event {
    /// The answer; nothing follows.
    Done(Value),
    /// What the call has come to.
    Progress(Progress),
    /// A question for the permission rules.
    Ask(Value),
}

/// What a call has come to: all that there is to say of it.
#[derive(Debug, Deserialize)]
pub(super) struct Progress {
    pub(super) title: Option<String>,
    pub(super) metadata: JsonMap,
}

/// The connection to a running host.
struct Link {
    out: mpsc::UnboundedSender<String>,
    /// Takes what plugins ask of the service.
    wanted: mpsc::Sender<Request>,
    notes: Arc<Notes>,
    /// The conversations, and why there can be no more. Never held across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Inbox>,
    /// The files that the host has been told of.
    known: HashSet<u64>,
    ended: Option<String>,
}

/// What has come in a conversation and waits: bounded, however much the host says.
#[derive(Default)]
struct Inbox {
    /// The latest.
    progress: Option<Progress>,
    questions: VecDeque<Value>,
    /// The answer, or why it cannot be read.
    answer: Option<Result<Value, String>>,
    news: Arc<Notify>,
}

impl Inbox {
    fn add_progress(&mut self, progress: Progress) {
        let title = self.progress.take().and_then(|before| before.title);
        self.progress = Some(Progress {
            title: progress.title.or(title),
            ..progress
        });
    }

    fn add_question(&mut self, question: Value) {
        if self.questions.len() < MAX_QUESTIONS {
            self.questions.push_back(question);
        }
    }
}

/// One request and what belongs to it.
pub(super) struct Conversation {
    id: u64,
    link: Arc<Link>,
    news: Arc<Notify>,
    is_done: bool,
}

impl Hosts {
    pub(super) fn new(settings: Settings, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self {
            settings,
            tasks,
            stop,
            numbers: AtomicU64::new(1),
            notes: Arc::default(),
            link: Mutex::default(),
            starts: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn workspace(&self) -> &Arc<Workspace> {
        &self.settings.workspace
    }

    /// Returns a number that this service has not used for this workspace.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request about a file, to a host that is started if none runs. `spec` says all about the file, and is sent to
    /// a host that does not know it. The request is an object; the rest is put in.
    pub(super) async fn request(&self, module: u64, spec: &Value, mut request: Value) -> Result<Conversation, String> {
        let link = self.link().await?;
        let id = self.number();
        request["id"] = json!(id);
        request["module"] = json!(module);
        let news = Arc::<Notify>::default();
        {
            let mut state = link.state();
            if let Some(reason) = &state.ended {
                return Err(reason.clone());
            }
            if state.known.insert(module) {
                request["spec"] = spec.clone();
            }
            let inbox = Inbox {
                news: news.clone(),
                ..Inbox::default()
            };
            state.open.insert(id, inbox);
            // Within the lock, so that nobody speaks of a file before the host has been told of it.
            link.send(&request);
        }
        Ok(Conversation {
            id,
            link,
            news,
            is_done: false,
        })
    }

    /// Returns what was wanted of a file and is not there.
    pub(super) fn notes(&self, module: u64) -> BTreeSet<String> {
        self.notes.of(module)
    }

    /// Forgets a file, once its last call has ended.
    pub(super) fn unload(&self, module: u64) {
        self.notes.forget(module);
        if let Some(link) = self.live()
            && link.state().known.remove(&module)
        {
            link.send(&json!({ "op": "unload", "module": module }));
        }
    }

    /// Returns the connection to a host that has not ended.
    fn live(&self) -> Option<Arc<Link>> {
        let link = self.link.lock().clone();
        link.filter(|link| link.state().ended.is_none())
    }

    async fn link(&self) -> Result<Arc<Link>, String> {
        if let Some(link) = self.live() {
            return Ok(link);
        }
        let mut starts = self.starts.lock().await;
        if let Some(link) = self.live() {
            return Ok(link);
        }
        if let Some((when, why)) = &starts.failed
            && when.elapsed() < START_PAUSE
        {
            return Err(why.clone());
        }
        starts.begun.retain(|start| start.elapsed() < STARTS_WITHIN);
        if starts.begun.len() >= MAX_STARTS {
            return Err(format!(
                "The JavaScript host has ended {MAX_STARTS} times within a minute and is started again later."
            ));
        }
        let started = self.start(&mut starts.begun).await;
        starts.failed = started.as_ref().err().map(|why| (Instant::now(), why.clone()));
        let link = started?;
        *self.link.lock() = Some(link.clone());
        Ok(link)
    }

    async fn start(&self, starts: &mut VecDeque<Instant>) -> Result<Arc<Link>, String> {
        let Settings {
            programs,
            workspace,
            home,
            directories,
            runtime,
            world,
        } = &self.settings;
        let folder = home.clone();
        let installed = tokio::task::spawn_blocking(move || runtime::install(&folder)).await;
        installed
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        let runtime: Runtime = runtime::choose(programs, runtime.as_deref(), home)
            .await
            .map_err(|error| error.to_string())?;
        let (program, mut arguments, environment) =
            runtime.launch(home, directories).map_err(|error| error.to_string())?;
        let (folder, listener) =
            listen().map_err(|error| format!("cannot make a socket for the JavaScript host: {error}"))?;
        arguments.push(folder.path().join("s").into());
        arguments.push(workspace.directory().into());
        let launch = Launch {
            call: format!("extensions of {}", workspace.name()),
            program,
            arguments,
            // Not the workspace: a runtime reads settings where it starts, and they may name code.
            directory: home.clone(),
            shown_directory: workspace.directory().to_path_buf(),
            environment,
            stdin: Stdin::Null,
            sandbox: None,
        };
        starts.push_back(Instant::now());
        let mut peer = programs.spawn_piped(launch).await.map_err(|error| error.to_string())?;
        drop(peer.take_input());
        let printed = Arc::new(Mutex::new(String::new()));
        let over = self.stop.child_token();
        for pipe in [peer.take_output(), peer.take_errors()].into_iter().flatten() {
            let (printed, name) = (printed.clone(), workspace.name().to_owned());
            let logging = log_lines(pipe, name, printed);
            self.tasks.spawn(over.clone().run_until_cancelled_owned(logging));
        }
        // What the host leaves behind may hold the pipes; nobody reads them any longer than it lives.
        let over = over.drop_guard();
        let accepted = tokio::select! {
            accepted = timeout(START_LIMIT, listener.accept()) => accepted,
            exit = peer.ended() => return Err(death(exit, &printed)),
        };
        let stream = match accepted {
            Ok(Ok((stream, _))) => stream,
            Ok(Err(error)) => return Err(format!("the JavaScript host cannot be reached: {error}")),
            Err(_) => {
                return Err(format!(
                    "the JavaScript host did not start within {} s",
                    START_LIMIT.as_secs()
                ));
            }
        };
        drop(folder);
        let (out, lines) = mpsc::unbounded_channel();
        let (wanted, requests) = world::way();
        let link = Arc::new(Link {
            out: out.clone(),
            wanted,
            notes: self.notes.clone(),
            state: Mutex::default(),
        });
        // Whatever is under way is of no use to a host that has ended.
        let answering = world::answer_all(requests, world.clone(), move |answer| {
            drop(out.send(format!("{answer}\n")))
        });
        self.tasks
            .spawn(over.token().clone().run_until_cancelled_owned(answering));
        let run = Run {
            peer,
            printed,
            stop: self.stop.clone(),
            _over: over,
        };
        self.tasks.spawn(run.serve(link.clone(), stream, lines));
        Ok(link)
    }
}

/// Binds a socket in a folder of its own, which nobody else can enter.
fn listen() -> io::Result<(tempfile::TempDir, UnixListener)> {
    let in_folder = |folder: PathBuf| {
        let folder = tempfile::Builder::new().prefix(".tg-").tempdir_in(folder)?;
        let listener = UnixListener::bind(folder.path().join("s"))?;
        Ok((folder, listener))
    };
    // The path of a socket is short, and the usual folder's may be long.
    in_folder(std::env::temp_dir()).or_else(|_: io::Error| in_folder(PathBuf::from("/tmp")))
}

/// A running host.
struct Run {
    peer: StdioChild,
    printed: Arc<Mutex<String>>,
    stop: CancellationToken,
    /// Ends what reads its pipes.
    _over: DropGuard,
}

impl Run {
    /// Looks after a host until it ends or is to end.
    async fn serve(self, link: Arc<Link>, stream: UnixStream, mut lines: mpsc::UnboundedReceiver<String>) {
        let Self {
            peer, printed, stop, ..
        } = &self;
        let (from, mut to) = stream.into_split();
        let reading = read_lines(&link, BufReader::new(from));
        let writing = async {
            while let Some(line) = lines.recv().await {
                if to.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let growing = async {
            let mut ticks = interval(MEMORY_INTERVAL);
            loop {
                ticks.tick().await;
                if peer.resident_bytes().is_some_and(|bytes| bytes > MAX_MEMORY) {
                    return;
                }
            }
        };
        let reason = tokio::select! {
            exit = peer.ended() => death(exit, printed),
            reason = reading => match timeout(END_LIMIT, peer.ended()).await {
                Ok(exit) => death(exit, printed),
                Err(_) => reason,
            },
            () = writing => "The JavaScript host cannot be reached any more.".to_owned(),
            () = growing => format!("The JavaScript host was ended, because it used more than {} MiB of memory.", MAX_MEMORY >> 20),
            () = stop.cancelled() => "The service is stopping.".to_owned(),
        };
        tracing::debug!(reason, "the JavaScript host ends");
        link.end(reason);
        drop(to);
        // Told by the end of the connection; plugins may tidy up.
        let _ = timeout(END_LIMIT, peer.ended()).await;
        self.peer.stop().await;
    }
}

/// Hands on what the host says, until it ends or says what it must not. Returns why.
async fn read_lines(link: &Link, mut from: impl tokio::io::AsyncBufRead + Unpin) -> String {
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut from).take(MAX_LINE);
        match timeout(MAX_SILENCE, limited.read_until(b'\n', &mut line)).await {
            Err(_) => return format!("The JavaScript host said nothing for {} s.", MAX_SILENCE.as_secs()),
            Ok(Ok(_)) if line.ends_with(b"\n") => {}
            Ok(Ok(_)) if line.len() as u64 >= MAX_LINE => {
                return "The JavaScript host sent too long a message.".to_owned();
            }
            Ok(Ok(_) | Err(_)) => return "The JavaScript host closed its connection.".to_owned(),
        }
        if link.deliver(&line).is_none() {
            return "The JavaScript host sent something else than messages.".to_owned();
        }
    }
}

/// Logs what tools print, and keeps the last of it.
async fn log_lines(pipe: impl AsyncRead + Unpin, workspace: String, printed: Arc<Mutex<String>>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut pipe).take(64 * 1024).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        tracing::debug!(workspace, "{}", text.trim_end());
        let mut printed = printed.lock();
        printed.push_str(&text);
        let excess = printed.len().saturating_sub(MAX_TAIL_BYTES);
        let cut = (excess..=printed.len()).find(|at| printed.is_char_boundary(*at));
        printed.drain(..cut.unwrap_or(0));
    }
}

fn death(exit: Option<Exit>, printed: &Mutex<String>) -> String {
    let how = match exit {
        Some(Exit::Code(code)) => format!("with exit code {code}"),
        Some(Exit::Signal(signal)) => format!("by signal {signal}"),
        None => "unexpectedly".to_owned(),
    };
    let printed = printed.lock();
    let tail = printed.trim();
    let tail = if tail.is_empty() {
        String::new()
    } else {
        format!(" The last that it printed: {tail}")
    };
    format!("The JavaScript host ended {how}.{tail}")
}

impl Link {
    fn send(&self, message: &Value) {
        // Nobody listens to a host that has ended; its conversations have been told.
        let _ = self.out.send(format!("{message}\n"));
    }

    /// Hands on one line, `WORD ID JSON`; nothing if it is none. What stands in it concerns its conversation only.
    fn deliver(&self, line: &[u8]) -> Option<()> {
        let mut parts = line.splitn(3, |byte| *byte == b' ');
        let (word, id, json) = (parts.next()?, parts.next()?, parts.next()?);
        let id: u64 = std::str::from_utf8(id).ok()?.parse().ok()?;
        let add: Box<dyn FnOnce(&mut Inbox)> = match word {
            b"alive" => return Some(()),
            b"client" => {
                let wanted = serde_json::from_slice(json).ok()?;
                if let Err(refused) = self.wanted.try_send((id, wanted)) {
                    self.send(&world::too_many(refused.into_inner()));
                }
                return Some(());
            }
            b"note" => {
                self.notes.add(id, serde_json::from_slice(json).ok()?);
                return Some(());
            }
            b"done" => {
                let answer = serde_json::from_slice(json);
                let answer = answer.map_err(|error| format!("What it returned cannot be read: {error}."));
                Box::new(|inbox| inbox.answer = Some(answer))
            }
            b"metadata" => match serde_json::from_slice::<Progress>(json) {
                Ok(progress) => Box::new(|inbox| inbox.add_progress(progress)),
                Err(_) => return Some(()),
            },
            b"ask" => match serde_json::from_slice(json) {
                Ok(question) => Box::new(|inbox| inbox.add_question(question)),
                Err(_) => return Some(()),
            },
            _ => return None,
        };
        // Whoever is gone has told the host to give up.
        if let Some(inbox) = self.state().open.get_mut(&id) {
            add(inbox);
            inbox.news.notify_one();
        }
        Some(())
    }

    fn end(&self, reason: String) {
        let mut state = self.state();
        state.ended = Some(reason);
        for inbox in state.open.values() {
            inbox.news.notify_one();
        }
    }

    /// Takes what comes next in a conversation, if it is there.
    fn take(&self, id: u64) -> Option<Result<Event, String>> {
        let mut state = self.state();
        if let Some(inbox) = state.open.get_mut(&id) {
            if let Some(progress) = inbox.progress.take() {
                return Some(Ok(Event::Progress(progress)));
            }
            if let Some(question) = inbox.questions.pop_front() {
                return Some(Ok(Event::Ask(question)));
            }
            if let Some(answer) = inbox.answer.take() {
                return Some(answer.map(Event::Done));
            }
        }
        state.ended.clone().map(Err)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Conversation {
    /// Returns what comes next; an error is why nothing does. Nothing is lost if it is dropped.
    pub(super) async fn next(&mut self) -> Result<Event, String> {
        loop {
            if let Some(next) = self.link.take(self.id) {
                self.is_done = matches!(next, Ok(Event::Done(_)) | Err(_));
                if self.is_done {
                    self.link.state().open.remove(&self.id);
                }
                return next;
            }
            self.news.notified().await;
        }
    }

    /// Waits for the answer.
    pub(super) async fn answer(mut self) -> Result<Value, String> {
        loop {
            if let Event::Done(answer) = self.next().await? {
                return Ok(answer);
            }
        }
    }

    /// Asks the host to give up. The answer still comes.
    pub(super) fn abort(&self) {
        self.link.send(&json!({ "op": "abort", "id": self.id }));
    }

    /// Answers a question: nothing, or why it is refused.
    pub(super) fn reply(&self, number: &Value, refused: Option<&str>) {
        let answer = json!({ "op": "answer", "id": self.id, "number": number, "refused": refused });
        self.link.send(&answer);
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if !self.is_done {
            self.abort();
            self.link.state().open.remove(&self.id);
        }
    }
}
