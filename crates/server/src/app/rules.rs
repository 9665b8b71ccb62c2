//! The rules of the workspaces and their servers of tools, kept up to date: files that have changed are read again.
//!
//! A look is a few calls of the system for each workspace and second; files are read when one has changed. What cannot be
//! used changes nothing: the rules that were in force stay, and the log, `GetServerInfo` and the console say so. A file with
//! rules that is gone counts as that too, since nobody may have meant everything to be allowed; a branch that is checked out
//! or an editor takes files away as well.
//!
//! *Invariant:* wiring only. What is in force is replaced as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolgate_config::mcp::McpServerConfig;
use toolgate_config::seen::Stamps;
use toolgate_config::{Environment, Seen, ToolsConfig};
use toolgate_engine::{Engine, InForce, WorkspaceRuntime};
use toolgate_fs::Workspace;
use toolgate_model::{JsonMap, WorkspaceChange};
use toolgate_permission::agents::{Agents, Folders};
use toolgate_tool::{Hold, Subagents};
use toolgate_tools::skills;

use super::mcp;
use super::places::truncation;
use super::plugins::{Plugins, Taken};
use crate::grpc::ServeError;

/// How often the files are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The parts of the configuration that are read at the start only.
const AT_START: [&str; 4] = ["/plugin", "/lsp", "/skills", "/experimental/batch_tool"];

/// The folders that built-in rules speak of.
pub(super) struct OwnFolders {
    pub(super) outputs: PathBuf,
    pub(super) data: PathBuf,
    pub(super) skills: Vec<PathBuf>,
    /// The folders of skills that plugins bring in their own packages.
    pub(super) plugin_skills: Vec<PathBuf>,
}

impl OwnFolders {
    /// Makes what is in force of what the configuration says.
    pub(super) fn in_force(&self, tools: &ToolsConfig) -> InForce {
        let skills = [&self.skills[..], &self.plugin_skills].concat();
        let folders = Folders {
            output_dir: &self.outputs,
            data_dir: &self.data,
            skills: &skills,
        };
        let agents = match &tools.written {
            Some(written) => Agents::after_plugins(&tools.agents, written, folders),
            None => Agents::new(&tools.agents, folders),
        };
        InForce {
            agents: Arc::new(agents),
            primary_tools: tools.experimental.primary_tools.clone(),
            truncation: truncation(tools.tool_output),
            packages: tools.packages.clone(),
            warnings: tools.warnings.clone(),
            broken: None,
        }
    }
}

/// The rules of one workspace.
pub(super) struct Watched {
    pub(super) workspace: Arc<Workspace>,
    pub(super) folders: OwnFolders,
    /// Told of agents that change.
    pub(super) subagents: Subagents,
    /// The servers of tools, which come and go with the configuration; none before there was one that can be used.
    pub(super) servers: Option<mcp::Configured>,
    /// Those that the files name, and how long their calls may take.
    pub(super) named: (Vec<McpServerConfig>, Option<Duration>),
    /// Whether the code counts that the project brings.
    pub(super) trusted: bool,
    /// What the rules that are in force were read from, if any are.
    pub(super) tools: Option<ToolsConfig>,
    /// The whole configuration that the service started with.
    pub(super) at_start: JsonMap,
    /// What was looked for last.
    pub(super) seen: Seen,
    /// How that was; none if it is to be read again in any case.
    pub(super) stamps: Option<Stamps>,
    /// What plugins make of the configuration.
    pub(super) plugins: OfPlugins,
}

/// What plugins make of the configuration of a workspace.
pub(super) struct OfPlugins {
    pub(super) left: Arc<Plugins>,
    /// What of that is in force: how often they had left something.
    pub(super) generation: u64,
    pub(super) skills: Arc<skills::Catalog>,
    /// The servers of tools that they name and no file does.
    pub(super) added: Vec<McpServerConfig>,
}

impl Drop for OfPlugins {
    fn drop(&mut self) {
        self.left.give_up();
    }
}

impl Watched {
    /// Reads the files again if one has changed.
    fn look(&mut self, engine: &Engine, environment: &Environment) {
        let before = self.seen.stamps();
        let has_news = self.plugins.left.has_news(self.plugins.generation);
        if self.stamps.as_ref() == Some(&before) && !has_news {
            return;
        }
        let mut seen = Seen::default();
        let read = ToolsConfig::load_and_note(
            self.workspace.directory(),
            self.workspace.worktree(),
            environment,
            &mut seen,
        );
        let after = seen.stamps();
        // Otherwise somebody may be writing: what was read is used, and read again with the next look.
        let is_settled = seen == self.seen && after == before && !after.are_recent(SystemTime::now());
        self.stamps = is_settled.then_some(after);
        self.seen = seen;
        if let (Ok(tools), true) = (&read, is_settled) {
            // A file that is half written names no servers.
            self.named = (tools.mcp_servers(self.trusted), tools.experimental.mcp_timeout);
        }
        self.apply(engine, environment, read.map_err(anyhow::Error::from));
    }

    /// Returns the configuration as plugins leave it, and begins what that wants begun. Those who wait for it do so until
    /// what is returned beside it is dropped.
    fn after_plugins(&mut self, tools: &ToolsConfig, environment: &Environment) -> (ToolsConfig, Vec<Hold>) {
        let Taken {
            generation,
            left,
            packages,
            holds,
        } = self.plugins.left.take();
        let is_news = self.plugins.generation != generation;
        self.plugins.generation = generation;
        let where_it_is = (self.workspace.directory(), self.workspace.worktree());
        let after = match left.is_empty() {
            true => tools.clone(),
            false => tools.after_plugins(&left, where_it_is, environment),
        };
        if is_news {
            self.take_skills(tools, &after, &packages);
        }
        self.plugins.added = after.added_mcp_servers(tools);
        (after, holds)
    }

    /// Looks for skills where plugins say as well. What lies beside those of a plugin's own package may be read, as it may
    /// beside the skills of files.
    fn take_skills(&mut self, before: &ToolsConfig, after: &ToolsConfig, packages: &[PathBuf]) {
        let skills = &self.plugins.skills;
        skills.look_in(after.skills.clone());
        skills.refresh();
        let added = after.skills.iter().filter(|root| !before.skills.contains(root));
        let added: Vec<PathBuf> = added
            .flat_map(|root| [Some(root.path.clone()), root.path.canonicalize().ok()])
            .flatten()
            .collect();
        let mut folders = skills.folders_outside(self.workspace.worktree());
        folders.retain(|folder| {
            let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            added.iter().any(|root| folder.starts_with(root))
                && packages.iter().any(|package| real.starts_with(package))
        });
        self.folders.plugin_skills = folders;
    }

    /// Returns the workspace, if it is still open.
    fn place(&self, engine: &Engine) -> Option<Arc<WorkspaceRuntime>> {
        let place = engine.catalogs().find(self.workspace.name());
        place.filter(|place| Arc::ptr_eq(&place.workspace, &self.workspace))
    }

    fn apply(&mut self, engine: &Engine, environment: &Environment, read: anyhow::Result<ToolsConfig>) {
        let Some(place) = self.place(engine) else { return };
        let now = place.now();
        let workspace = self.workspace.clone();
        let name = workspace.name();
        let problem = match &read {
            Ok(tools) => self.gone(tools).map(|gone| {
                format!(
                    "{} is gone: its rules stay in force until it is back or the service is started again",
                    gone.display()
                )
            }),
            Err(error) => Some(match &self.tools {
                Some(_) => format!("a changed file cannot be used, and the rules from before stay in force: {error:#}"),
                None => format!("{error:#}"),
            }),
        };
        let (usable, problem) = match (read, problem) {
            (Ok(tools), None) => (Some(tools), None),
            (_, problem) => (self.tools.take(), problem),
        };
        // Those who wait do until what is made of it is in force. What plugins left counts while files are of no use, too.
        let (next, waiting) = match usable {
            Some(tools) => {
                let (after, holds) = self.after_plugins(&tools, environment);
                let mut next = self.folders.in_force(&after);
                next.warnings.extend(self.later(&tools));
                next.warnings.extend(problem);
                self.plugins.left.note_agents(next.agents.clone());
                self.subagents.replace(next.agents.clone(), tools.subagent_depth);
                self.tools = Some(tools);
                (next, holds)
            }
            None => {
                let next = InForce {
                    broken: problem,
                    ..(*now).clone()
                };
                (next, self.plugins.left.take().holds)
            }
        };
        if self.place(engine).is_none() {
            // It was closed meanwhile, and its servers were ended.
            return;
        }
        // Those who wait are to see the tools of these, too.
        self.apply_servers();
        if next == *now {
            return drop(waiting);
        }
        // While the files are of no use, what is refused has not changed; and warnings are no rules.
        let has_changed = next.broken.is_none()
            && InForce {
                warnings: now.warnings.clone(),
                ..next.clone()
            } != *now;
        for warning in next.warnings.iter().filter(|warning| !now.warnings.contains(warning)) {
            tracing::warn!(workspace = %name, "{warning}");
        }
        if let Some(problem) = next.broken.as_ref().filter(|_| next.broken != now.broken) {
            tracing::error!("workspace {name} refuses calls: {problem}");
        }
        let is_news = has_changed || next.broken != now.broken;
        place.in_force.put(next);
        drop(waiting);
        if is_news {
            engine.announce_workspace(name, WorkspaceChange::Changed);
        }
        if has_changed {
            tracing::info!(workspace = %name, "the rules have changed and are in force for calls from now on");
        }
    }

    /// Has the servers of tools be those that files and plugins name now.
    fn apply_servers(&mut self) {
        let Some(servers) = &mut self.servers else { return };
        let (named, call_limit) = self.named.clone();
        let all = named.into_iter().chain(self.plugins.added.iter().cloned()).collect();
        let changed = servers.apply((all, call_limit));
        if !changed.is_empty() {
            let (workspace, servers) = (self.workspace.name(), changed.join(", "));
            tracing::info!(
                workspace,
                servers,
                "MCP servers have come, gone or changed, as the configuration has them now"
            );
        }
    }

    /// Returns a file that said something of rules and is there no more.
    fn gone(&self, tools: &ToolsConfig) -> Option<PathBuf> {
        let there: Vec<&Path> = tools.rule_files().collect();
        let mut before = self.tools.iter().flat_map(ToolsConfig::rule_files);
        let gone = before.find(|path| !there.contains(path) && !path.exists());
        gone.map(Path::to_path_buf)
    }

    /// Says which parts have changed that are read at the start only.
    fn later(&self, tools: &ToolsConfig) -> Option<String> {
        let (before, after) = (
            Value::Object(self.at_start.clone()),
            Value::Object(tools.merged.clone()),
        );
        let changed = AT_START
            .iter()
            .filter(|part| before.pointer(part) != after.pointer(part));
        let changed: Vec<String> = changed.map(|part| part[1..].replace('/', ".")).collect();
        (!changed.is_empty()).then(|| {
            format!(
                "what has changed in {} takes effect when the service is started again",
                changed.join(", ")
            )
        })
    }
}

/// The rules of all workspaces.
#[derive(Default)]
pub(super) struct Rules {
    watched: Mutex<Vec<Watched>>,
    /// Whether nobody looks any more. Changed under the lock of the list.
    is_over: AtomicBool,
    /// Notified when plugins have left something of the configuration.
    pub(super) news: Arc<Notify>,
}

impl Rules {
    /// Begins to look after the rules of a workspace, which is open.
    pub(super) fn add(&self, watched: Watched) {
        let mut all = self.watched.lock();
        if self.is_over.load(Ordering::Acquire) {
            watched.plugins.left.give_up();
        }
        all.push(watched);
        drop(all);
        // Its plugins may have been faster.
        self.news.notify_one();
    }

    /// Has nobody wait for what plugins leave.
    fn give_up(&self) {
        let all = self.watched.lock();
        self.is_over.store(true, Ordering::Release);
        all.iter().for_each(|watched| watched.plugins.left.give_up());
    }

    fn look(&self, engine: &Engine, environment: &Environment) {
        // Nobody who opens a workspace waits for files to be read.
        let mut watched = std::mem::take(&mut *self.watched.lock());
        for one in &mut watched {
            one.look(engine, environment);
        }
        watched.retain(|one| one.place(engine).is_some());
        let mut new = self.watched.lock();
        watched.append(&mut new);
        *new = watched;
    }
}

/// Looks after the rules until `stop`.
pub(super) async fn watch(
    engine: Arc<Engine>,
    environment: Environment,
    rules: Arc<Rules>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let environment = Arc::new(environment);
    let news = rules.news.clone();
    // Whether the interval is over or not, plugins hold everybody back.
    let due = || tokio::time::timeout(CHECK_INTERVAL, news.notified());
    while stop.run_until_cancelled(due()).await.is_some() {
        let (engine, environment, all) = (engine.clone(), environment.clone(), rules.clone());
        let looking = tokio::task::spawn_blocking(move || all.look(&engine, &environment));
        if let Err(error) = looking.await {
            tracing::error!(%error, "changed rules are not read any more: start the service again");
            rules.give_up();
            break;
        }
    }
    Ok(())
}
