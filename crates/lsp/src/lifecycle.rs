//! The life of one server: started, spoken with, ended, and when it may be started again.
//!
//! *Invariant:* whatever a server does, its life ends with its program and everything that this started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_process::stderr_log::{self, LastLine};
use toolgate_process::{Exit, Filter, Launch, Programs, Stdin, StdioChild};
use tracing::Instrument as _;

use super::client::{Client, ClientParts, Outgoing, Uses};
use super::limits::Limits;
use super::reports::Published;
use super::server::{Server, Start};
use super::wire::{self, WireError};

/// The pause before a server that failed is started again; four times as long after each further failure.
const FIRST_RESTART_DELAY: Duration = Duration::from_secs(5);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(300);

/// A server that has worked for this long is not one that keeps failing.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// How often a server's memory and use are looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// How long the end of a program whose streams have ended is waited for.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// What the tools of languages are found by, besides what all servers get. No keys.
const INHERITED: &[&str] = &[
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "CABAL_DIR",
    "CARGO_HOME",
    "CC",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CXX",
    "C_INCLUDE_PATH",
    "DENO_DIR",
    "DOTNET_CLI_HOME",
    "DOTNET_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "GHCUP_INSTALL_BASE_PREFIX",
    "GO111MODULE",
    "GOCACHE",
    "GOENV",
    "GOFLAGS",
    "GOMODCACHE",
    "GOPATH",
    "GOPRIVATE",
    "GOROOT",
    "GOSUMDB",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "JULIA_DEPOT_PATH",
    "LD_LIBRARY_PATH",
    "MISE_DATA_DIR",
    "NIX_PATH",
    "NODE_PATH",
    "OPAMROOT",
    "OPAM_SWITCH_PREFIX",
    "PKG_CONFIG_PATH",
    "PYTHONPATH",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SDKROOT",
    "STACK_ROOT",
    "VIRTUAL_ENV",
];

/// Where a server stands.
#[derive(Clone)]
pub(super) enum State {
    /// It does not run, and nothing is wrong with it.
    Idle,
    Starting,
    Ready(Arc<Client>),
    /// It failed, and is not to be started before `again`.
    Down {
        problem: String,
        again: Instant,
    },
}

impl State {
    /// Says whether there is something to be done about it now.
    pub(super) fn is_settled(&self) -> bool {
        match self {
            Self::Starting => false,
            // Its life is about to say what has become of it.
            Self::Ready(client) => !client.has_ended(),
            Self::Idle | Self::Down { .. } => true,
        }
    }
}

/// A server for one root, running or not.
pub(super) struct Slot {
    pub(super) server: Arc<Server>,
    root: PathBuf,
    pub(super) state: watch::Sender<State>,
    /// How it is started, and how often it has failed since it last worked well.
    plan: Mutex<(Option<Start>, u32)>,
}

impl Slot {
    pub(super) fn new(server: Arc<Server>, root: PathBuf) -> Self {
        Self {
            server,
            root,
            state: watch::Sender::new(State::Idle),
            plan: Mutex::default(),
        }
    }

    /// Says whether it runs, or begins to.
    pub(super) fn is_alive(&self) -> bool {
        matches!(*self.state.borrow(), State::Starting | State::Ready(_))
    }

    pub(super) fn running(&self) -> Option<Arc<Client>> {
        match &*self.state.borrow() {
            State::Ready(client) if !client.has_ended() => Some(Arc::clone(client)),
            State::Ready(_) | State::Idle | State::Starting | State::Down { .. } => None,
        }
    }

    pub(super) fn set_start(&self, start: Start) {
        self.plan.lock().0 = Some(start);
    }

    /// Says whether the caller is to start it now: it does not run, and has been left alone for long enough.
    pub(super) fn begins_to_start(&self) -> bool {
        self.state.send_if_modified(|state| {
            let begins = match state {
                State::Idle => true,
                State::Down { again, .. } => *again <= Instant::now(),
                State::Starting | State::Ready(_) => false,
            };
            if begins {
                *state = State::Starting;
            }
            begins
        })
    }

    fn start(&self) -> Option<Start> {
        self.plan.lock().0.clone()
    }

    /// Counts a failure, and returns how long the server is to be left alone.
    fn failed(&self, worked: Option<Duration>) -> Duration {
        let mut plan = self.plan.lock();
        if worked.is_some_and(|worked| worked > HEALTHY_AFTER) {
            plan.1 = 0;
        }
        plan.1 = plan.1.saturating_add(1);
        pause_after(plan.1, worked.is_some())
    }
}

/// One that crashed while it worked is started again at once, but only the first time.
fn pause_after(failures: u32, has_worked: bool) -> Duration {
    if failures == 1 && has_worked {
        return Duration::ZERO;
    }
    let factor = 4_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_RESTART_DELAY.saturating_mul(factor).min(MAX_RESTART_DELAY)
}

/// A server that runs, for those who must find room for another.
pub(super) struct Running {
    uses: Arc<Uses>,
    leave: CancellationToken,
}

/// What the servers of one workspace share.
pub(super) struct Shared {
    pub(super) programs: Programs,
    pub(super) limits: Limits,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    /// The servers of all workspaces that run. Never held across an await.
    pub(super) running: Arc<Mutex<Vec<Arc<Running>>>>,
}

impl Shared {
    /// Returns what the servers of another workspace share, which is ended by itself or with this one's.
    pub(super) fn of_workspace(&self) -> Self {
        Self {
            programs: self.programs.clone(),
            limits: self.limits,
            tasks: TaskTracker::new(),
            stop: self.stop.child_token(),
            running: Arc::clone(&self.running),
        }
    }

    /// Ends the servers, and returns when they are gone.
    pub(super) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Shared {
    /// Makes room for another server, by ending the one that was not used for longest.
    fn admit(&self) -> Result<Arc<Running>, String> {
        let mut running = self.running.lock();
        if running.len() >= self.limits.servers {
            let idle = running.iter().enumerate();
            let idle = idle.filter_map(|(at, server)| Some((server.uses.idle_since()?, at)));
            let Some((_, at)) = idle.min() else {
                let most = self.limits.servers;
                return Err(format!(
                    "{most} language servers are at work, and no more may run at once"
                ));
            };
            running.swap_remove(at).leave.cancel();
        }
        let admitted = Arc::new(Running {
            uses: Arc::new(Uses::new()),
            leave: CancellationToken::new(),
        });
        running.push(Arc::clone(&admitted));
        Ok(admitted)
    }

    fn remove(&self, gone: &Arc<Running>) {
        let mut running = self.running.lock();
        running.retain(|server| !Arc::ptr_eq(server, gone));
    }
}

/// Why a server's life came to its end.
enum End {
    /// Nobody needs it any more.
    NotNeeded,
    /// Something is wrong with it.
    Failed(String),
    /// Its program or a stream of it ended, as the text says; how the program ended says more.
    Gone(String),
}

/// What a life needs.
pub(super) struct Lifecycle {
    pub(super) shared: Arc<Shared>,
    pub(super) slot: Arc<Slot>,
    pub(super) published: broadcast::Sender<Published>,
}

/// The program of a server, and the ends of its pipes.
struct Program {
    peer: StdioChild,
    input: Sender,
    output: Receiver,
    errors: Errors,
}

/// What a program complains of.
struct Errors {
    last: LastLine,
    logging: JoinHandle<Option<()>>,
}

impl Lifecycle {
    /// Lives until the server is gone.
    pub(super) async fn run(self) {
        let (server, root) = (&self.slot.server.id, self.slot.root.display());
        let span = tracing::info_span!("lsp", server, %root);
        async {
            let mut worked = None;
            let problem = match self.shared.admit() {
                Ok(running) => {
                    let problem = self.live(&running, &mut worked).await;
                    self.shared.remove(&running);
                    problem
                }
                Err(problem) => Some(problem),
            };
            let next = match problem {
                None => State::Idle,
                Some(problem) => {
                    let pause = self.slot.failed(worked);
                    tracing::warn!(problem, ?pause, "the language server does not work");
                    let again = Instant::now() + pause;
                    State::Down { problem, again }
                }
            };
            self.slot.state.send_replace(next);
        }
        .instrument(span)
        .await;
    }

    /// Returns what went wrong, if something did, and says in `worked` for how long the server was of use.
    async fn live(&self, running: &Running, worked: &mut Option<Duration>) -> Option<String> {
        let start = self.slot.start()?;
        let settings = start.settings.clone();
        let program = match self.launch(start).await {
            Ok(program) => program,
            Err(problem) => return Some(problem),
        };
        let (client, outgoing) = Client::new(ClientParts {
            id: self.slot.server.id.clone(),
            root: self.slot.root.clone(),
            settings,
            limits: self.shared.limits,
            uses: Arc::clone(&running.uses),
            published: self.published.clone(),
        });
        let client = Arc::new(client);
        let Program {
            peer,
            input,
            output,
            errors,
        } = program;
        let end = {
            let attending = self.attend(&client, running, &peer, (input, outgoing), output);
            let mut attending = std::pin::pin!(attending);
            let begun = tokio::select! {
                end = &mut attending => Err(end),
                begun = client.initialize() => begun.map_err(|error| End::Failed(error.to_string())),
            };
            match begun {
                Ok(()) => {
                    tracing::info!(pid = peer.pid(), "a language server runs");
                    let since = Instant::now();
                    self.slot.state.send_replace(State::Ready(Arc::clone(&client)));
                    let end = attending.await;
                    *worked = Some(since.elapsed());
                    end
                }
                Err(end) => end,
            }
        };
        let problem = match end {
            End::NotNeeded => None,
            End::Failed(problem) => Some(problem),
            End::Gone(problem) => Some(explain(problem, &peer, errors).await),
        };
        client.end(problem.as_deref().unwrap_or("it is not needed any more"));
        peer.stop().await;
        problem
    }

    async fn launch(&self, start: Start) -> Result<Program, String> {
        let slot = &self.slot;
        let variables: &BTreeMap<String, String> = &slot.server.environment;
        let launch = Launch {
            call: format!("lsp:{}", slot.server.id),
            program: start.program,
            arguments: start.arguments.iter().map(Into::into).collect(),
            directory: slot.root.clone(),
            shown_directory: slot.root.clone(),
            environment: variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            stdin: Stdin::Pipe,
            sandbox: None,
        };
        let inherits = Some(Filter::of_servers(INHERITED));
        let started = self.shared.programs.spawn_piped_with(launch, inherits).await;
        let mut peer = started.map_err(|error| error.to_string())?;
        let (Some(input), Some(output), Some(errors)) = (peer.take_input(), peer.take_output(), peer.take_errors())
        else {
            return Err("its program has no streams".to_owned());
        };
        let last = LastLine::default();
        let logging = stderr_log::log(errors, last.clone());
        let stop = self.shared.stop.clone();
        let logging = stop.run_until_cancelled_owned(logging);
        let logging = self.shared.tasks.spawn(logging.in_current_span());
        Ok(Program {
            peer,
            input,
            output,
            errors: Errors { last, logging },
        })
    }

    /// Carries messages in both directions until the server ends or is to end.
    async fn attend(
        &self,
        client: &Client,
        running: &Running,
        peer: &StdioChild,
        input: (Sender, Outgoing),
        output: Receiver,
    ) -> End {
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => End::NotNeeded,
            () = running.leave.cancelled() => End::NotNeeded,
            end = read(client, output) => end,
            () = write(input) => End::Gone("it closed its input".to_owned()),
            () = client.ended() => End::Failed(client.problem()),
            _ = peer.ended() => End::Gone("its program ended".to_owned()),
            end = self.watch(running, peer) => end,
        }
    }

    /// Returns when the server is not used any more, or uses too much memory.
    async fn watch(&self, running: &Running, peer: &StdioChild) -> End {
        let limits = self.shared.limits;
        let mut looks = interval(WATCH_INTERVAL.min(limits.idle));
        loop {
            looks.tick().await;
            if running
                .uses
                .idle_since()
                .is_some_and(|since| since.elapsed() >= limits.idle)
            {
                return End::NotNeeded;
            }
            if peer.resident_bytes_of_all() > limits.memory {
                return End::Failed(format!("it used more than {} MiB of memory", limits.memory >> 20));
            }
        }
    }
}

async fn read(client: &Client, output: Receiver) -> End {
    let mut output = BufReader::new(output);
    loop {
        match wire::read(&mut output).await {
            Ok(Some(message)) => client.take(message),
            Ok(None) => return End::Gone("it closed its output".to_owned()),
            Err(error @ (WireError::Cut | WireError::Unreadable(_))) => return End::Gone(error.to_string()),
            Err(error @ (WireError::TooLong | WireError::NoMessage)) => return End::Failed(error.to_string()),
        }
    }
}

async fn write((mut input, mut outgoing): (Sender, Outgoing)) {
    while let Some(message) = outgoing.next().await {
        if input.write_all(&message).await.is_err() {
            return;
        }
        outgoing.written(message.len());
    }
}

/// Says what can be said of the end of a program that went wrong.
async fn explain(problem: String, peer: &StdioChild, errors: Errors) -> String {
    let exit = timeout(EXIT_TIMEOUT, peer.ended()).await.ok().flatten();
    let ended = match exit {
        Some(Exit::Code(code)) => format!("its program ended with code {code}"),
        Some(Exit::Signal(signal)) => format!("its program was ended by signal {signal}"),
        None => problem,
    };
    if exit.is_none() {
        return ended;
    }
    // What it said last may still be on its way; something that it has started may keep the way open.
    let _ = timeout(EXIT_TIMEOUT, errors.logging).await;
    let last = errors.last.get();
    if last.is_empty() {
        ended
    } else {
        format!("{ended}: {last}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow() {
        let check = |failures: u32, has_worked: bool, seconds: u64| {
            assert_eq!(
                pause_after(failures, has_worked),
                Duration::from_secs(seconds),
                "{failures}"
            );
        };
        check(1, true, 0);
        check(1, false, 5);
        check(2, true, 20);
        check(2, false, 20);
        check(3, false, 80);
        check(4, false, 300);
        check(u32::MAX, true, 300);
    }
}
