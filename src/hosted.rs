//! What front ends lend: tools, subagents and hooks, adapted to [`Tool`], [`crate::tool::SubagentRunner`] and [`Hook`].
//!
//! A *host* is a front end that has said hello. It outlives its stream by a grace, in which it can come back and go on.
//! What it is to do is an [`Invocation`](invocation::Invocation), which a call, a task or a hook waits for; streams take
//! what is new from the host's queue, and reports find their invocation by its id.
//!
//! *Invariant:* imports `call` and `tool` only. Whoever waits is never held up by a host: giving up takes effect at once,
//! and what waits for a slow host is bounded by the calls that wait. Joining and leaving are one after the other.

mod host;
mod invocation;
mod lent;
mod subagents;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::TaskTracker;

pub use host::{Host, Next, Reported};
pub use invocation::{HostResult, Report, Told, Work};
pub use lent::{LentTool, MAX_TOOLS};

use crate::tool::{Hook, HookPoint, SubagentRunner as _, Tool};

/// How long a host whose stream is lost may take to come back.
pub const GRACE: Duration = Duration::from_secs(10);

/// The most hosts at once.
const MAX_HOSTS: usize = 256;

/// Where what hosts lend is offered: the tools of one workspace.
pub trait Shelf: Send + Sync + 'static {
    /// Says whether something else than a host has a tool of this name, whatever the case of its letters.
    fn is_taken(&self, name: &str) -> bool;

    /// Replaces what a host offers. Returns the tools that cannot be offered, each with the reason.
    fn offer(&self, source: &str, tools: Vec<Arc<dyn Tool>>, hooks: Vec<Arc<dyn Hook>>) -> Vec<(String, String)>;

    /// Takes away what a host offered.
    fn remove(&self, source: &str);

    /// Announces that subagents can be run from now on, or not any more.
    fn runs_subagents(&self, can: bool);
}

/// What a host says of itself.
pub struct Hello {
    /// How it is called.
    pub name: String,
    /// To which workspace it lends.
    pub workspace: String,
    /// Who it is.
    pub principal: String,
    /// Whether that principal may answer prompts.
    pub may_reply: bool,
    /// Its tools.
    pub tools: Vec<LentTool>,
    /// The agents that it can run, an empty list for all; none if it runs no subagents.
    pub subagents: Option<Vec<String>>,
    /// The names of the hooks that it wants.
    pub hooks: Vec<String>,
    /// Its token from before, or empty.
    pub token: String,
}

/// What became of a hello.
pub struct Welcome {
    /// Names the host.
    pub token: String,
    /// Whether it was known by its token.
    pub resumed: bool,
    /// What is not used, and why.
    pub refused: Vec<(String, String)>,
}

/// As many hosts are connected as can be.
#[derive(Debug, thiserror::Error)]
#[error("{MAX_HOSTS} hosts are connected, which is as many as the service allows")]
pub struct TooManyHosts;

/// One stream of a host. Dropping it begins the host's grace.
pub struct Seat {
    /// The host.
    pub host: Arc<Host>,
    number: u64,
    hosts: Arc<Hosts>,
}

impl Seat {
    /// Waits for what the host is to be told next.
    pub async fn next(&self) -> Next {
        self.host.next(self.number).await
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.host.detach(self.number) {
            return;
        }
        // Without a runtime the service is ending, and nobody is left to wait for.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (hosts, host, number) = (self.hosts.clone(), self.host.clone(), self.number);
        let waiting = async move {
            tokio::time::sleep(GRACE).await;
            hosts.end_if_away(&host, number).await;
        };
        self.hosts.tasks.spawn_on(waiting, &runtime);
    }
}

/// The hosts of a service.
pub struct Hosts {
    /// In the order in which they came. Never held across an await.
    hosts: Mutex<Vec<Arc<Host>>>,
    /// Serializes joining and leaving, so that names are given once and nothing is offered for who has left.
    joining: tokio::sync::Mutex<()>,
    /// Counts joins and leaves.
    changes: watch::Sender<u64>,
    /// Those who wait for a grace to be over.
    tasks: TaskTracker,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            hosts: Mutex::default(),
            joining: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
            tasks: TaskTracker::new(),
        }
    }
}

impl Hosts {
    /// Takes a host in, or back if it shows its token, and gives it a seat.
    ///
    /// # Errors
    /// There are too many.
    pub async fn welcome(
        self: &Arc<Self>,
        hello: Hello,
        shelf: Arc<dyn Shelf>,
    ) -> Result<(Welcome, Seat), TooManyHosts> {
        let _joining = self.joining.lock().await;
        let known = self
            .find(&hello.token, &hello.principal)
            .filter(|host| host.workspace == hello.workspace);
        let resumed = known.is_some();
        let host = match known {
            Some(host) => host,
            None => self.join(&hello, shelf)?,
        };
        let seat = Seat {
            number: host.attach(),
            host: host.clone(),
            hosts: self.clone(),
        };
        let welcome = self.lend(host, hello, resumed).await;
        Ok((welcome, seat))
    }

    /// Replaces what a host lends.
    pub async fn update(self: &Arc<Self>, seat: &Seat, hello: Hello) -> Welcome {
        let _joining = self.joining.lock().await;
        self.lend(seat.host.clone(), hello, true).await
    }

    /// Finds a host by its token, if it is this principal's.
    pub fn find(&self, token: &str, principal: &str) -> Option<Arc<Host>> {
        let hosts = self.hosts();
        let is_it = |host: &&Arc<Host>| !token.is_empty() && host.token == token && host.principal == principal;
        hosts.iter().find(is_it).cloned()
    }

    /// Lets a host go that said so.
    pub async fn leave(&self, host: &Arc<Host>) {
        let _joining = self.joining.lock().await;
        self.end(host, "it has left");
    }

    async fn end_if_away(&self, host: &Arc<Host>, seat: u64) {
        let _joining = self.joining.lock().await;
        if host.is_away_since(seat) {
            self.end(
                host,
                &format!("it was lost and did not come back within {} s", GRACE.as_secs()),
            );
        }
    }

    /// Makes a host. One of the same name that is away and whose program did not keep the token is replaced.
    fn join(&self, hello: &Hello, shelf: Arc<dyn Shelf>) -> Result<Arc<Host>, TooManyHosts> {
        let of_workspace = self.of(&hello.workspace);
        let is_same = |host: &&Arc<Host>| host.name == hello.name && host.principal == hello.principal;
        for old in of_workspace.iter().filter(is_same).filter(|host| host.is_away()) {
            self.end(old, "it was started again and did not go on");
        }
        let mut hosts = self.hosts();
        if hosts.len() >= MAX_HOSTS {
            return Err(TooManyHosts);
        }
        let is_used = |source: &str| {
            let mut others = hosts.iter();
            others.any(|host| host.workspace == hello.workspace && host.source == source)
        };
        let numbered = (2..).map(|number| format!("{} ({number})", hello.name));
        let source = std::iter::once(hello.name.clone())
            .chain(numbered)
            .find(|source| !is_used(source));
        let host = Arc::new(Host::new(hello, source.unwrap_or_default(), shelf));
        hosts.push(host.clone());
        Ok(host)
    }

    async fn lend(self: &Arc<Self>, host: Arc<Host>, hello: Hello, resumed: bool) -> Welcome {
        let could = self.is_there(&host.workspace);
        let (tools, hooks, mut refused) = self.sort_out(&host, hello.tools, &hello.hooks, hello.may_reply);
        host.lends(tools.clone(), hello.subagents);
        let offered = tools.iter().map(|tool| tool.clone() as Arc<dyn Tool>).collect();
        let (shelf, source) = (host.shelf.clone(), host.source.clone());
        // Schemas are compiled there, and come from outside.
        let offering = tokio::task::spawn_blocking(move || shelf.offer(&source, offered, hooks));
        refused.extend(offering.await.unwrap_or_default());
        self.changed(&host, could);
        Welcome {
            token: host.token.clone(),
            resumed,
            refused,
        }
    }

    /// Splits what a host wants to lend into what can be used and what cannot.
    #[allow(clippy::type_complexity)] // two lists for the shelf, one for the host
    fn sort_out(
        &self,
        host: &Arc<Host>,
        tools: Vec<LentTool>,
        hooks: &[String],
        may_reply: bool,
    ) -> (Vec<Arc<lent::HostedTool>>, Vec<Arc<dyn Hook>>, Vec<(String, String)>) {
        let mut refused = Vec::new();
        let others: Vec<Arc<Host>> = self.of(&host.workspace);
        let mut usable: Vec<Arc<lent::HostedTool>> = Vec::new();
        for tool in tools {
            let others = others.iter().filter(|other| !Arc::ptr_eq(other, host));
            let mut taken = others.filter(|other| other.has(&tool.name));
            let problem = if usable.len() >= MAX_TOOLS {
                Some(format!("a host lends at most {MAX_TOOLS} tools"))
            } else if let Some(other) = taken.next() {
                Some(format!("the host {} lends a tool of this name", other.source))
            } else if host.shelf.is_taken(&tool.name) {
                Some("the workspace has a tool of this name".to_owned())
            } else if usable.iter().any(|other| other.is_called(&tool.name)) {
                Some("the host names it twice".to_owned())
            } else {
                tool.problem()
            };
            match problem {
                Some(problem) => refused.push((tool.name, problem)),
                None => usable.push(host.adapt(tool)),
            }
        }
        let mut points = Vec::new();
        for name in hooks {
            match HookPoint::from_name(name) {
                None => refused.push((name.clone(), "there is no hook of this name".to_owned())),
                Some(HookPoint::PermissionAsk) if !may_reply => {
                    refused.push((name.clone(), "it takes the scope prompts.reply".to_owned()));
                }
                Some(point) => points.push(point),
            }
        }
        let hook = (!points.is_empty()).then(|| Arc::new(lent::HostedHook::new(host.clone(), points)) as Arc<dyn Hook>);
        (usable, hook.into_iter().collect(), refused)
    }

    fn end(&self, host: &Arc<Host>, why: &str) {
        let could = self.is_there(&host.workspace);
        self.hosts().retain(|other| !Arc::ptr_eq(other, host));
        // First, so that whoever learns of the end does not find the tools.
        host.shelf.remove(&host.source);
        host.end(why);
        self.changed(host, could);
    }

    fn changed(&self, host: &Host, could_run_subagents: bool) {
        let can = self.is_there(&host.workspace);
        if can != could_run_subagents {
            host.shelf.runs_subagents(can);
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns the hosts of a workspace, in the order in which they came.
    fn of(&self, workspace: &str) -> Vec<Arc<Host>> {
        let hosts = self.hosts();
        hosts
            .iter()
            .filter(|host| host.workspace == workspace)
            .cloned()
            .collect()
    }

    fn hosts(&self) -> MutexGuard<'_, Vec<Arc<Host>>> {
        // Nothing panics while it is held.
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
