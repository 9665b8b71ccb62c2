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
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_config::seen::Stamps;
use toolgate_config::{Environment, Seen, ToolsConfig};
use toolgate_engine::{Engine, InForce, WorkspaceRuntime};
use toolgate_fs::Workspace;
use toolgate_model::{JsonMap, WorkspaceChange};
use toolgate_permission::agents::{Agents, Folders};
use toolgate_tool::Subagents;

use super::mcp;
use super::places::truncation;
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
}

impl OwnFolders {
    /// Makes what is in force of what the configuration says.
    pub(super) fn in_force(&self, tools: &ToolsConfig) -> InForce {
        let folders = Folders {
            output_dir: &self.outputs,
            data_dir: &self.data,
            skills: &self.skills,
        };
        InForce {
            agents: Arc::new(Agents::new(&tools.agents, folders)),
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
}

impl Watched {
    /// Reads the files again if one has changed.
    fn look(&mut self, engine: &Engine, environment: &Environment) {
        let before = self.seen.stamps();
        if self.stamps.as_ref() == Some(&before) {
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
        // In a workspace that is closed nothing is started any more.
        if let (Ok(tools), true, Some(_)) = (&read, is_settled, self.place(engine)) {
            self.apply_servers(tools);
        }
        self.apply(engine, read.map_err(anyhow::Error::from));
    }

    /// Returns the workspace, if it is still open.
    fn place(&self, engine: &Engine) -> Option<Arc<WorkspaceRuntime>> {
        let place = engine.catalogs().find(self.workspace.name());
        place.filter(|place| Arc::ptr_eq(&place.workspace, &self.workspace))
    }

    fn apply(&mut self, engine: &Engine, read: anyhow::Result<ToolsConfig>) {
        let Some(place) = self.place(engine) else { return };
        let now = place.now();
        let name = self.workspace.name();
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
        let next = match (read, problem) {
            (Ok(tools), None) => {
                let mut next = self.folders.in_force(&tools);
                next.warnings.extend(self.later(&tools));
                self.subagents.replace(next.agents.clone(), tools.subagent_depth);
                self.tools = Some(tools);
                next
            }
            (_, problem) => match &self.tools {
                Some(tools) => {
                    let mut warnings = tools.warnings.clone();
                    warnings.extend(self.later(tools));
                    warnings.extend(problem);
                    InForce {
                        warnings,
                        ..(*now).clone()
                    }
                }
                None => InForce {
                    broken: problem,
                    ..(*now).clone()
                },
            },
        };
        if next == *now {
            return;
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
        if is_news {
            engine.announce_workspace(name, WorkspaceChange::Changed);
        }
        if has_changed {
            tracing::info!(workspace = %name, "the rules have changed and are in force for calls from now on");
        }
    }

    /// Has the servers of tools be those that are named now. A file that is half written names none.
    fn apply_servers(&mut self, tools: &ToolsConfig) {
        let Some(servers) = &mut self.servers else { return };
        let changed = servers.apply((tools.mcp_servers(self.trusted), tools.experimental.mcp_timeout));
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
pub(super) struct Rules(Mutex<Vec<Watched>>);

impl Rules {
    /// Begins to look after the rules of a workspace, which is open.
    pub(super) fn add(&self, watched: Watched) {
        self.0.lock().push(watched);
    }

    fn look(&self, engine: &Engine, environment: &Environment) {
        // Nobody who opens a workspace waits for files to be read.
        let mut watched = std::mem::take(&mut *self.0.lock());
        for one in &mut watched {
            one.look(engine, environment);
        }
        watched.retain(|one| one.place(engine).is_some());
        let mut new = self.0.lock();
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
    while stop
        .run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL))
        .await
        .is_some()
    {
        let (engine, environment, rules) = (engine.clone(), environment.clone(), rules.clone());
        let looking = tokio::task::spawn_blocking(move || rules.look(&engine, &environment));
        if let Err(error) = looking.await {
            tracing::error!(%error, "changed rules are not read any more: start the service again");
            break;
        }
    }
    Ok(())
}
