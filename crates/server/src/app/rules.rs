//! The rules of the workspaces, their servers of tools and their skills, kept up to date: files that have changed are read
//! again.
//!
//! A look is a few calls of the system for each workspace and second; files are read when one has changed. What cannot be
//! used changes nothing: the rules that were in force stay, and the log, `GetServerInfo` and the console say so. What files said
//! of rules that are gone stays too.
//!
//! *Invariant:* wiring only. What is in force is replaced as a whole. Where the rules are read from is noted before they are in
//! force, so that no command may write there.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_config::mcp::McpServerConfig;
use toolgate_config::seen::Stamps;
use toolgate_config::{Environment, Seen, ToolsConfig};
use toolgate_engine::{Engine, InForce, WorkspaceRuntime};
use toolgate_fs::Workspace;
use toolgate_model::skills::{SkillFolder, SkillSource};
use toolgate_model::{JsonMap, Source, SourceState, WorkspaceChange};
use toolgate_permission::agents::{Agents, Folders};
use toolgate_permission::hints::AddedName;
use toolgate_tool::{Hold, SourceInfo, Subagents};
use toolgate_tools::skills;
use toolgate_tools::skills::remote::FirstFetch;
use toolgate_web::Network;

use super::mcp;
use super::places::truncation;
use super::plugins::{Plugins, Taken};
use super::upkeep::fetch_skills;
use crate::grpc::ServeError;

/// How often the files are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The parts of the configuration that are read at the start only.
const AT_START: [&str; 3] = ["/plugin", "/lsp", "/experimental/batch_tool"];

/// Files that are gone and named in one warning.
const MAX_NAMED: usize = 4;

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
            outdated: None,
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
    pub(super) skills: Skills,
    /// The permissions in the rules in force that only added tools can ask for.
    pub(super) names: Vec<AddedName>,
    /// What a person was told last that depends on more than files.
    pub(super) notes: Vec<String>,
    /// The plugins that are loaded, if they are named by their path: they are those of the start.
    pub(super) plugin_files: Vec<PathBuf>,
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
    /// The servers of tools that they name and no file does.
    pub(super) added: Vec<McpServerConfig>,
}

/// The skills of a workspace.
pub(super) struct Skills {
    pub(super) catalog: Arc<skills::Catalog>,
    /// Where files say that they are.
    pub(super) roots: Vec<SkillFolder>,
    /// What of that is fetched.
    pub(super) remote: Vec<SkillSource>,
}

impl Drop for OfPlugins {
    fn drop(&mut self) {
        self.left.give_up();
    }
}

impl Watched {
    /// Reads the files again if one has changed, and returns the skills that are to be fetched now.
    fn look(&mut self, engine: &Engine, environment: &Environment) -> Vec<SkillSource> {
        let Some(place) = self.place(engine) else {
            return Vec::new();
        };
        let before = self.seen.stamps();
        let has_news = self.plugins.left.has_news(self.plugins.generation);
        let is_same = self.stamps.as_ref() == Some(&before) && !has_news;
        if is_same && self.notes(&place) == self.notes {
            return Vec::new();
        }
        let mut seen = Seen::default();
        let (directory, worktree) = (self.workspace.directory(), self.workspace.worktree());
        let read = match &self.tools {
            Some(in_force) => ToolsConfig::load_again(directory, worktree, environment, &mut seen, in_force),
            None => {
                ToolsConfig::load_and_note(directory, worktree, environment, &mut seen).map(|tools| (tools, Vec::new()))
            }
        };
        let mut others = self.plugin_files.clone();
        match &read {
            Ok((tools, gone)) => {
                others.extend(tools.plugin_files());
                if !gone.is_empty() {
                    // They may come back, and then what they name counts again.
                    others.extend_from_slice(&self.workspace.configuration());
                }
            }
            // What cannot be used ends the search, and what lies behind it stays safe.
            Err(_) => others.extend_from_slice(&self.workspace.configuration()),
        }
        let others = others.iter().map(PathBuf::as_path);
        self.workspace.note_configuration(seen.paths().chain(others));
        let after = seen.stamps();
        // Otherwise somebody may be writing: what was read is used, and read again with the next look.
        let is_settled = seen == self.seen && after == before && !after.are_recent(SystemTime::now());
        self.stamps = is_settled.then_some(after);
        self.seen = seen;
        if let Ok((tools, _)) = &read {
            if !is_settled && !tools.unfinished.is_empty() && self.tools.is_some() {
                // What is missing may be what holds back.
                return Vec::new();
            }
            if is_settled {
                // A file that is half written names no servers.
                self.named = (tools.mcp_servers(self.trusted), tools.experimental.mcp_timeout);
            }
        }
        self.apply(&place, engine, environment, read.map_err(anyhow::Error::from))
    }

    /// Returns what a person should know of the rules in force that depends on the tools that there are now, and of skills.
    fn notes(&self, place: &WorkspaceRuntime) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.names.is_empty() {
            let added = place.tools.added();
            // Code asks for what it likes, and what does not work may have any tools.
            let brings_unknown = |source: &SourceInfo| match source.source {
                Source::Custom | Source::Plugin => true,
                Source::Builtin | Source::Hosted | Source::Mcp => source.state != SourceState::Ready,
            };
            let may_come = place.tools.is_loading() || place.tools.sources().iter().any(brings_unknown);
            let unused = self
                .names
                .iter()
                .filter(|name| !added.iter().any(|tool| name.stands_for(tool)));
            notes.extend(unused.filter_map(|name| name.oddity(may_come)));
        }
        notes.extend(self.skills.catalog.warnings());
        notes
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
        let remote = tools.remote_skills(self.trusted, environment);
        let is_changed = self.skills.roots != tools.skills || self.skills.remote != remote;
        if is_news || is_changed {
            self.take_skills(tools, &after, &packages, is_changed.then_some(remote));
        }
        self.plugins.added = after.added_mcp_servers(tools);
        (after, holds)
    }

    /// Looks for skills where files and plugins say. What lies beside those outside may be read: of files, what is there when a
    /// person names the folder, and of plugins, what is in their own packages. `remote` is what is to be fetched, if files have
    /// changed.
    fn take_skills(
        &mut self,
        before: &ToolsConfig,
        after: &ToolsConfig,
        packages: &[PathBuf],
        remote: Option<Vec<SkillSource>>,
    ) {
        let skills = &self.skills.catalog;
        skills.look_in(after.skills.clone());
        skills.refresh();
        let added = after.skills.iter().filter(|root| !before.skills.contains(root));
        let added: Vec<PathBuf> = added
            .flat_map(|root| [Some(root.path.clone()), root.path.canonicalize().ok()])
            .flatten()
            .collect();
        let outside = skills.folders_outside(self.workspace.worktree());
        let (mut of_plugins, mut of_files): (Vec<PathBuf>, Vec<PathBuf>) = outside
            .into_iter()
            .partition(|folder| added.iter().any(|root| folder.starts_with(root)));
        of_plugins.retain(|folder| {
            let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            packages.iter().any(|package| real.starts_with(package))
        });
        self.folders.plugin_skills = of_plugins;
        if let Some(remote) = remote {
            of_files.extend(remote.iter().map(|remote| remote.folder.clone()));
            self.folders.skills = of_files;
            self.skills.roots.clone_from(&before.skills);
            self.skills.remote = remote;
        }
    }

    /// Returns the workspace, if it is still open.
    fn place(&self, engine: &Engine) -> Option<Arc<WorkspaceRuntime>> {
        let place = engine.catalogs().find(self.workspace.name());
        place.filter(|place| Arc::ptr_eq(&place.workspace, &self.workspace))
    }

    /// Puts in force what was read, with the files that are gone. Returns the skills that are to be fetched now.
    fn apply(
        &mut self,
        place: &WorkspaceRuntime,
        engine: &Engine,
        environment: &Environment,
        read: anyhow::Result<(ToolsConfig, Vec<PathBuf>)>,
    ) -> Vec<SkillSource> {
        let now = place.now();
        let workspace = self.workspace.clone();
        let name = workspace.name();
        let fetched = self.skills.remote.clone();
        let (usable, problem) = match read {
            Ok((tools, gone)) => (Some(tools), told_gone(&gone)),
            Err(error) => {
                let problem = match &self.tools {
                    Some(_) => {
                        format!("a changed file cannot be used, and the rules from before stay in force: {error:#}")
                    }
                    None => format!("{error:#}"),
                };
                (self.tools.take(), Some(problem))
            }
        };
        // Those who wait do until what is made of it is in force. What plugins left counts while files are of no use, too.
        let (next, waiting) = match usable {
            Some(tools) => {
                let (after, holds) = self.after_plugins(&tools, environment);
                let mut next = self.folders.in_force(&after);
                self.names = after.added_names;
                self.notes = self.notes(place);
                let told = problem
                    .iter()
                    .cloned()
                    .chain(self.later(&tools))
                    .chain(self.notes.clone());
                next.warnings.splice(..0, told);
                next.outdated = problem;
                self.plugins.left.note_agents(next.agents.clone());
                self.subagents.replace(next.agents.clone(), tools.subagent_depth);
                self.tools = Some(tools);
                (next, holds)
            }
            None => {
                self.notes = self.notes(place);
                let next = InForce {
                    broken: problem,
                    ..(*now).clone()
                };
                (next, self.plugins.left.take().holds)
            }
        };
        if self.place(engine).is_none() {
            // It was closed meanwhile, and its servers were ended.
            return Vec::new();
        }
        // Those who wait are to see the tools of these, too.
        self.apply_servers();
        let to_fetch = match self.skills.remote == fetched {
            true => Vec::new(),
            false => self.skills.remote.clone(),
        };
        if next == *now {
            drop(waiting);
            return to_fetch;
        }
        // While the files are of no use, what is refused has not changed; and warnings are no rules.
        let has_changed = next.broken.is_none()
            && InForce {
                warnings: now.warnings.clone(),
                outdated: now.outdated.clone(),
                ..next.clone()
            } != *now;
        // Those of skills are logged where they are found.
        let logged = [now.warnings.clone(), self.skills.catalog.warnings()].concat();
        for warning in next.warnings.iter().filter(|warning| !logged.contains(warning)) {
            tracing::warn!(workspace = %name, "{warning}");
        }
        if let Some(problem) = next.broken.as_ref().filter(|_| next.broken != now.broken) {
            tracing::error!("workspace {name} refuses calls: {problem}");
        }
        place.in_force.put(next);
        drop(waiting);
        // What people are told of it is shown to them as well.
        engine.announce_workspace(name, WorkspaceChange::Changed);
        if has_changed {
            tracing::info!(workspace = %name, "the rules have changed and are in force for calls from now on");
        }
        to_fetch
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

/// Says what stays of files that are gone, if any are.
fn told_gone(gone: &[PathBuf]) -> Option<String> {
    let names: Vec<String> = gone
        .iter()
        .take(MAX_NAMED)
        .map(|path| path.display().to_string())
        .collect();
    let more = match gone.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = names.join(", ");
    match gone.len() {
        0 => None,
        1 => Some(format!(
            "{names} is gone or empty: its rules stay in force until it says what counts now ({{}} for nothing), or the service is \
             started again"
        )),
        _ => Some(format!(
            "{names}{more} are gone or empty: their rules stay in force until they say what counts now ({{}} for nothing), or the \
             service is started again"
        )),
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

    /// Looks after all workspaces, and returns the skills that are to be fetched now.
    fn look(&self, engine: &Engine, environment: &Environment) -> Vec<SkillSource> {
        // Nobody who opens a workspace waits for files to be read.
        let mut watched = std::mem::take(&mut *self.watched.lock());
        let to_fetch = watched
            .iter_mut()
            .flat_map(|one| one.look(engine, environment))
            .collect();
        watched.retain(|one| one.place(engine).is_some());
        let mut new = self.watched.lock();
        watched.append(&mut new);
        *new = watched;
        to_fetch
    }
}

/// Looks after the rules until `stop`.
pub(super) async fn watch(
    engine: Arc<Engine>,
    environment: Environment,
    rules: Arc<Rules>,
    network: Network,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let environment = Arc::new(environment);
    let news = rules.news.clone();
    let fetching = TaskTracker::new();
    // Whether the interval is over or not, plugins hold everybody back.
    let due = || tokio::time::timeout(CHECK_INTERVAL, news.notified());
    while stop.run_until_cancelled(due()).await.is_some() {
        let (engine, environment, all) = (engine.clone(), environment.clone(), rules.clone());
        let looking = tokio::task::spawn_blocking(move || all.look(&engine, &environment));
        match looking.await {
            Ok(wanted) if wanted.is_empty() => {}
            Ok(wanted) => {
                // Rules do not wait for what comes from far away.
                let first = vec![FirstFetch::new(wanted)];
                fetching.spawn(fetch_skills(network.clone(), first, stop.clone()));
            }
            Err(error) => {
                tracing::error!(%error, "changed rules are not read any more: start the service again");
                rules.give_up();
                break;
            }
        }
    }
    fetching.close();
    fetching.wait().await;
    Ok(())
}
