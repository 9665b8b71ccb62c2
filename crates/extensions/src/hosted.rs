//! What front ends lend: tools, subagents and hooks, adapted to [`Tool`], [`toolgate_tool::SubagentRunner`] and [`Hook`].
//!
//! A *host* is a front end that has said hello. It outlives its stream by a grace, in which it can come back and go on.
//! What it is to do is an [`Invocation`](invocation::Invocation), which a call, a task or a hook waits for; streams take
//! what is new from the host's queue, and reports find their invocation by its id.
//!
//! *Invariant:* imports `call` and `tool` only. Whoever waits is never held up by a host: giving up takes effect at once,
//! and what waits for a slow host is bounded by the calls that wait. Joining and leaving are one after the other, each
//! comes to its end though whoever asked for it is gone, and nothing is offered for who has left.

mod adapters;
mod host;
mod invocation;
mod messages;
mod subagents;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::Source;
use toolgate_tool::{
    Catalog, Contribution, Hook, HookPoint, SchemaError, SubagentRunner as _, Tool, ToolError, blocking,
};

pub use host::{Host, Next, Reported};
pub use messages::{Hello, HostError, HostMessage, HostRequest, HostResult, HostedTool, MAX_TOOLS, Report, Welcome};

use self::adapters::{HookAdapter, ToolAdapter};

/// How long a host whose stream is lost may take to come back.
pub const GRACE: Duration = Duration::from_secs(10);

/// The most hosts at once, and of one principal: nobody takes all the seats.
const MAX_HOSTS: usize = 256;
const MAX_OF_ONE: usize = 64;

/// One stream of a host. Dropping it begins the host's grace.
pub struct HostStream {
    /// The host.
    pub host: Arc<Host>,
    number: u64,
    hosts: Arc<Hosts>,
}

impl HostStream {
    /// Waits for what the host is to be told next.
    pub async fn next(&self) -> Next {
        self.host.next(self.number).await
    }

    /// Replaces what the host lends.
    ///
    /// # Errors
    /// Another stream has taken the seat, or the host has left.
    pub async fn update(self: &Arc<Self>, hello: Hello) -> Result<Welcome, HostError> {
        let seat = self.clone();
        let update = async move {
            let _joining = seat.hosts.joining.lock().await;
            if !seat.host.is_current(seat.number) {
                return Err(HostError::Gone);
            }
            Ok(seat.hosts.lend(seat.host.clone(), hello, true).await)
        };
        self.hosts.to_its_end(update).await
    }

    /// Lets the host go, unless another stream has taken the seat: that one goes on.
    pub async fn leave(&self) {
        let _joining = self.hosts.joining.lock().await;
        if self.host.is_current(self.number) {
            self.hosts.end(&self.host, HAS_LEFT);
        }
    }
}

impl Drop for HostStream {
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
            let closing = hosts.closing.clone();
            // Once the service closes, its end is that of the host as well.
            if closing.run_until_cancelled(tokio::time::sleep(GRACE)).await.is_some() {
                hosts.end_if_away(&host, number).await;
            }
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
    /// Joins, and those who wait for a grace to be over.
    tasks: TaskTracker,
    /// Ends the waiting.
    closing: CancellationToken,
}

/// Why a host is gone that said so.
const HAS_LEFT: &str = "it has left";

impl Default for Hosts {
    fn default() -> Self {
        Self {
            hosts: Mutex::default(),
            joining: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
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
        catalog: Arc<Catalog>,
    ) -> Result<(Welcome, HostStream), HostError> {
        let hosts = self.clone();
        let joining = async move {
            let _joining = hosts.joining.lock().await;
            let known = hosts
                .find(&hello.token, &hello.principal)
                // A workspace that was closed and opened again is another one.
                .filter(|host| host.workspace == hello.workspace && Arc::ptr_eq(&host.catalog, &catalog));
            let resumed = known.is_some();
            let host = match known {
                Some(host) => host,
                None => hosts.join(&hello, catalog)?,
            };
            let seat = HostStream {
                number: host.attach(),
                host: host.clone(),
                hosts: hosts.clone(),
            };
            Ok((hosts.lend(host, hello, resumed).await, seat))
        };
        self.to_its_end(joining).await
    }

    /// Stops waiting for hosts to come back, and waits for what is under way. To be called when no stream is left.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Lets the hosts of a workspace go, because it is closed.
    pub async fn end_workspace(&self, workspace: &str) {
        let _joining = self.joining.lock().await;
        for host in self.of_workspace(workspace) {
            self.end(&host, "its workspace was closed");
        }
    }

    /// Does what must not be left half done when whoever asked for it is gone.
    async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, HostError>> + Send + 'static,
    ) -> Result<T, HostError> {
        self.tasks.spawn(work).await.map_err(HostError::Fault)?
    }

    /// Finds a host by its token, if it is this principal's.
    pub fn find(&self, token: &str, principal: &str) -> Option<Arc<Host>> {
        let hosts = self.hosts();
        hosts
            .iter()
            .find(|host| !token.is_empty() && host.token == token && host.principal == principal)
            .cloned()
    }

    /// Lets a host go that said so.
    pub async fn leave(&self, host: &Arc<Host>) {
        let _joining = self.joining.lock().await;
        self.end(host, HAS_LEFT);
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
    fn join(&self, hello: &Hello, catalog: Arc<Catalog>) -> Result<Arc<Host>, HostError> {
        let of_workspace = self.of_workspace(&hello.workspace);
        for old in of_workspace
            .iter()
            .filter(|host| host.name == hello.name && host.principal == hello.principal)
            .filter(|host| host.is_away())
        {
            self.end(old, "it was started again and did not go on");
        }
        let mut hosts = self.hosts();
        let own = hosts.iter().filter(|host| host.principal == hello.principal).count();
        for (count, limit, of) in [
            (hosts.len(), MAX_HOSTS, "in all"),
            (own, MAX_OF_ONE, "of one principal"),
        ] {
            if count >= limit {
                return Err(HostError::TooMany { limit, of });
            }
        }
        let is_used = |source: &str| {
            let mut others = hosts.iter();
            others.any(|host| host.workspace == hello.workspace && host.source == source)
        };
        let numbered = (2..).map(|number| format!("{} ({number})", hello.name));
        let source = std::iter::once(hello.name.clone())
            .chain(numbered)
            .find(|source| !is_used(source));
        let host = Arc::new(Host::new(hello, source.unwrap_or_default(), catalog));
        hosts.push(host.clone());
        Ok(host)
    }

    async fn lend(&self, host: Arc<Host>, hello: Hello, resumed: bool) -> Welcome {
        let could = self.is_there(&host.workspace);
        let (mut tools, mut refused) = self.usable(&host, hello.tools);
        let hooks = hooks_of(&host, &hello.hooks, (hello.may_hook, hello.may_reply), &mut refused);
        let contribution = Contribution {
            tools: tools.iter().map(|tool| tool.clone() as Arc<dyn Tool>).collect(),
            hooks,
        };
        let (catalog, source) = (host.catalog.clone(), host.source.clone());
        // Schemas are compiled there, and come from outside.
        match blocking(move || catalog.offer(Source::Hosted, &source, contribution)).await {
            Ok(problems) => {
                tools.retain(|tool| !problems.iter().any(|problem| tool.is_called(&problem.tool)));
                refused.extend(problems.into_iter().map(with_reason));
            }
            Err(error) => refused.extend(not_offered(&host, tools.drain(..), &error)),
        }
        host.lends(tools, hello.subagents);
        self.changed(&host, could);
        Welcome {
            token: host.token.clone(),
            resumed,
            refused,
        }
    }

    /// Splits the tools that a host wants to lend into those that can be used and those that cannot, each with the reason.
    fn usable(&self, host: &Arc<Host>, tools: Vec<HostedTool>) -> (Vec<Arc<ToolAdapter>>, Vec<(String, String)>) {
        let mut others = self.of_workspace(&host.workspace);
        others.retain(|other| !Arc::ptr_eq(other, host));
        let (mut usable, mut refused) = (Vec::<Arc<ToolAdapter>>::new(), Vec::new());
        for tool in tools {
            let problem = if usable.len() >= MAX_TOOLS {
                Some(format!("a host lends at most {MAX_TOOLS} tools"))
            } else if let Some(other) = others.iter().find(|other| other.has(&tool.name)) {
                Some(format!("the host {} lends a tool of this name", other.source))
            } else if host.catalog.has_from_elsewhere(&tool.name, Source::Hosted) {
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
        (usable, refused)
    }

    fn end(&self, host: &Arc<Host>, why: &str) {
        let could = self.is_there(&host.workspace);
        let Some(at) = self.hosts().iter().position(|other| Arc::ptr_eq(other, host)) else {
            // It ended while this one waited, and its name may be another one's by now.
            return;
        };
        self.hosts().remove(at);
        // First, so that whoever learns of the end does not find the tools.
        host.catalog.remove(Source::Hosted, &host.source);
        host.end(why);
        self.changed(host, could);
    }

    fn changed(&self, host: &Host, could_run_subagents: bool) {
        let can = self.is_there(&host.workspace);
        if can != could_run_subagents {
            host.catalog.announce_subagents(can);
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns the hosts of a workspace, in the order in which they came.
    fn of_workspace(&self, workspace: &str) -> Vec<Arc<Host>> {
        let hosts = self.hosts();
        hosts
            .iter()
            .filter(|host| host.workspace == workspace)
            .cloned()
            .collect()
    }

    fn hosts(&self) -> MutexGuard<'_, Vec<Arc<Host>>> {
        // Nothing panics while it is held.
        self.hosts.lock()
    }
}

/// Returns the hooks of a host that wants those of these names; what it cannot have is added to what is refused.
fn hooks_of(
    host: &Arc<Host>,
    names: &[String],
    (may_hook, may_reply): (bool, bool),
    refused: &mut Vec<(String, String)>,
) -> Vec<Arc<dyn Hook>> {
    let mut points = Vec::new();
    for name in names {
        match HookPoint::from_name(name) {
            None => refused.push((name.clone(), "there is no hook of this name".to_owned())),
            Some(_) if !may_hook => refused.push((name.clone(), "it takes the scope tools.hook".to_owned())),
            Some(HookPoint::PermissionAsk) if !may_reply => {
                refused.push((name.clone(), "it takes the scope prompts.reply".to_owned()));
            }
            Some(point) => points.push(point),
        }
    }
    let hook = (!points.is_empty()).then(|| Arc::new(HookAdapter::new(host.clone(), points)) as Arc<dyn Hook>);
    hook.into_iter().collect()
}

fn with_reason(SchemaError { tool, message }: SchemaError) -> (String, String) {
    (tool, format!("the schema is not valid: {message}"))
}

fn not_offered<'t>(
    host: &Host,
    tools: impl Iterator<Item = Arc<ToolAdapter>> + 't,
    error: &ToolError,
) -> impl Iterator<Item = (String, String)> + 't {
    tracing::error!(
        host = %host.source,
        error = error as &dyn std::error::Error,
        "what a host lends could not be offered"
    );
    tools.map(|tool| (tool.tool.name.clone(), "internal error".to_owned()))
}
