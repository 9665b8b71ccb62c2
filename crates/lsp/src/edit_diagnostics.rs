//! What language servers say of files that tools have changed: in time for the result, or later.
//!
//! *Invariant:* a change waits for servers no longer than it may, and only for those that keep pace. What is found later is
//! told in patches of metadata until the file changes again. Everything that is told is bounded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use toolgate_fs::{ResolvedPath, Workspace};
use toolgate_model::{JsonMap, json_map};

use super::diagnostic::Diagnostic;
use super::diagnostics::Diagnostics;
use super::pool::LanguageServers;
use super::refresh::Refresh;
use super::reports::{Published, QUIET_PERIOD};
use super::wait_policy::{PendingEdit, WaitPolicy};

/// Files of one change whose findings are told of; servers are told of all.
const MAX_WATCHED: usize = 50;

/// How often the time in which news are gathered is doubled: each later patch comes after a longer one.
const MAX_DOUBLED: u32 = 8;

/// What language servers say of the files that tools change. By default there are no servers. Cheap to clone.
#[derive(Clone, Default)]
pub struct EditDiagnostics(Option<Arc<Inner>>);

struct Inner {
    servers: LanguageServers,
    workspace: Arc<Workspace>,
    wait_policy: WaitPolicy,
}

impl fmt::Debug for EditDiagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EditDiagnostics").field(&self.0.is_some()).finish()
    }
}

impl EditDiagnostics {
    /// Makes it for the tools of a workspace; `wait` is how long the result of a change may wait.
    pub fn new(servers: LanguageServers, workspace: Arc<Workspace>, wait: Duration) -> Self {
        Self(Some(Arc::new(Inner {
            servers,
            workspace,
            wait_policy: WaitPolicy::new(wait),
        })))
    }

    /// Tells the servers what files hold now, starts those that do not run, and does not wait for anything.
    pub fn tell(&self, changed: &[&ResolvedPath]) {
        let Some(inner) = &self.0 else { return };
        for path in changed {
            // What comes of it is of no interest here.
            drop(inner.servers.touch(path));
        }
    }

    /// Tells the servers that files changed, and returns what they find in time. `leave` gets what may come later; a caller
    /// that is cancelled does not wait.
    pub async fn on(
        &self,
        changed: &[&ResolvedPath],
        cancelled: &CancellationToken,
        leave: impl FnOnce(BoxStream<'static, JsonMap>),
    ) -> Diagnostics {
        let Some(inner) = &self.0 else {
            return Diagnostics::default();
        };
        // From before the servers hear of the change: no report is missed.
        let published = inner.servers.subscribe();
        let served: Vec<&ResolvedPath> = changed
            .iter()
            .copied()
            .filter(|path| inner.servers.serves(path))
            .collect();
        let (watched, rest) = served.split_at(served.len().min(MAX_WATCHED));
        self.tell(rest);
        if watched.is_empty() {
            return Diagnostics::default();
        }
        let mut change = Change {
            inner: Arc::clone(inner),
            watched: watched.iter().map(|path| inner.watch(path)).collect(),
            published,
            last: Value::Null,
            patches: 0,
            is_settled: false,
        };
        change.wait(cancelled).await;
        let diagnostics = change.diagnostics();
        change.last = diagnostics.to_json();
        leave(stream::unfold(change, Change::next).boxed());
        diagnostics
    }
}

impl Inner {
    fn watch(&self, path: &ResolvedPath) -> Watched {
        let ready = self.servers.is_up_for(path);
        let edit = self.wait_policy.begin(path.display_path(), ready);
        Watched {
            refresh: self.servers.touch(path),
            edit,
            is_heard: false,
            has_servers: true,
        }
    }

    /// Returns what was last reported of every file in the workspace.
    fn reported(&self) -> Vec<(PathBuf, Arc<[Diagnostic]>)> {
        let mut all: Vec<(PathBuf, Arc<[Diagnostic]>)> = Vec::new();
        for client in self.servers.running() {
            let reports = client.reports.all().into_iter();
            all.extend(reports.filter(|(path, _)| self.workspace.contains(path)));
        }
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        // A file that several servers report of.
        all.dedup_by(|(later, more), (path, found)| {
            if later != path {
                return false;
            }
            *found = found.iter().chain(more.iter()).cloned().collect();
            true
        });
        all
    }
}

/// A file that was changed.
struct Watched {
    edit: PendingEdit,
    refresh: Refresh,
    /// Some server has reported of it since.
    is_heard: bool,
    /// Some server was told of it.
    has_servers: bool,
}

impl Watched {
    /// Waits until the servers have had their say, or the file has changed again.
    async fn settle(&mut self) {
        tokio::select! {
            seen = self.refresh.seen() => {
                self.has_servers = seen.servers > 0;
                if seen.answered {
                    self.hear();
                }
            }
            () = self.edit.over() => {}
        }
    }

    fn hear(&mut self) {
        self.is_heard = true;
        self.edit.answered();
    }
}

/// The files of one change.
struct Change {
    inner: Arc<Inner>,
    watched: Vec<Watched>,
    published: broadcast::Receiver<Published>,
    /// What was told last.
    last: Value,
    patches: u32,
    /// The servers have had their say once.
    is_settled: bool,
}

impl Change {
    /// Waits for the servers that keep pace.
    async fn wait(&mut self, cancelled: &CancellationToken) {
        let Some(until) = self
            .watched
            .iter()
            .filter_map(|watched| watched.edit.waits_until())
            .max()
        else {
            return;
        };
        let answers = join_all(
            self.watched
                .iter_mut()
                .filter(|watched| watched.edit.waits_until().is_some())
                .map(Watched::settle),
        );
        tokio::select! {
            // What came in time is told in either case.
            _ = timeout_at(until, answers) => {}
            () = cancelled.cancelled() => return,
        }
        let silent = self
            .watched
            .iter()
            .filter(|watched| !watched.is_heard && watched.has_servers);
        for watched in silent.filter(|watched| watched.edit.waits_until().is_some() && watched.edit.is_current()) {
            watched.edit.given_up();
        }
    }

    /// Returns what is known by now: of the changed files that servers have looked at, and of others.
    fn diagnostics(&self) -> Diagnostics {
        if !self.watched.iter().any(|watched| watched.is_heard) {
            return Diagnostics::default();
        }
        let mut others = self.inner.reported();
        let heard = self.watched.iter().filter(|watched| watched.is_heard);
        let changed = heard.map(|watched| {
            let path = watched.edit.path();
            let at = others.iter().position(|(other, _)| other == path);
            at.map_or_else(|| (path.to_path_buf(), Arc::from([])), |at| others.remove(at))
        });
        let changed = changed.collect();
        let is_changed = |path: &Path| self.watched.iter().any(|watched| watched.edit.path() == path);
        others.retain(|(path, found)| !found.is_empty() && !is_changed(path));
        Diagnostics { changed, others }
    }

    /// Returns the next patch; none when nothing more is to be expected.
    async fn next(mut self) -> Option<(JsonMap, Self)> {
        while self.has_news().await {
            let diagnostics = self.diagnostics().to_json();
            if diagnostics != self.last {
                self.last = diagnostics.clone();
                self.patches += 1;
                return Some((json_map([("diagnostics", diagnostics)]), self));
            }
        }
        None
    }

    /// Waits for news; false if there will be none.
    async fn has_news(&mut self) -> bool {
        if !self.is_settled {
            let late = self.watched.iter_mut().filter(|watched| !watched.is_heard);
            join_all(late.map(Watched::settle)).await;
            self.is_settled = true;
            self.watched
                .retain(|watched| watched.has_servers && watched.edit.is_current());
            return !self.watched.is_empty();
        }
        while !self.watched.is_empty() {
            let over = select_all(self.watched.iter().map(|watched| Box::pin(watched.edit.over())));
            let published = tokio::select! {
                published = self.published.recv() => Some(published),
                _ = over => None,
            };
            match published {
                Some(Ok(Published { path, .. })) if self.inner.workspace.contains(&path) => {
                    self.gather(Some(path)).await;
                    return true;
                }
                Some(Ok(_)) => {}
                Some(Err(RecvError::Lagged(_))) => {
                    self.gather(None).await;
                    return true;
                }
                Some(Err(RecvError::Closed)) => return false,
                None => self.watched.retain(|watched| watched.edit.is_current()),
            }
        }
        false
    }

    /// Lets more news come, so that they are told together.
    async fn gather(&mut self, first: Option<PathBuf>) {
        sleep(QUIET_PERIOD * 2u32.pow(self.patches.min(MAX_DOUBLED))).await;
        let mut paths: Vec<PathBuf> = first.into_iter().collect();
        loop {
            match self.published.try_recv() {
                Ok(published) => paths.push(published.path),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        for watched in &mut self.watched {
            if paths.iter().any(|path| path == watched.edit.path()) {
                watched.hear();
            }
        }
    }
}
