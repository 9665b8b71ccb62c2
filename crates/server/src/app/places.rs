//! The workspaces with their tools: the one list of what is built in, and where the others come from.
//!
//! *Invariant:* wiring only.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::Notify;
use toolgate_config::opencode::ToolOutputLimits;
use toolgate_config::service::ApiKey;
use toolgate_config::{Config, Environment, Flags, Seen, ToolsConfig};
use toolgate_engine::{Current, Gate, OpenedBy, WorkspaceRuntime, record_tool_changes, truncate};
use toolgate_extensions::hosted::Hosts;
use toolgate_fs::Workspace;
use toolgate_fs::files::Files;
use toolgate_fs::uploads::Uploads;
use toolgate_lsp::{EditDiagnostics, LanguageServers, ServerPool};
use toolgate_process::Programs;
use toolgate_process::sandbox::Sandbox;
use toolgate_store::Store;
use toolgate_store::local::{output_folder, workspace_folder};
use toolgate_tool::plan::Plans;
use toolgate_tool::{Catalog, Subagents, Tool};
use toolgate_tools::apply_patch::ApplyPatch;
use toolgate_tools::bash::background::Background;
use toolgate_tools::bash::{Bash, Shell};
use toolgate_tools::batch::Batch;
use toolgate_tools::edit::Edit;
use toolgate_tools::exa;
use toolgate_tools::exa::codesearch::CodeSearch;
use toolgate_tools::exa::websearch::WebSearch;
use toolgate_tools::files::Files as ChangeFiles;
use toolgate_tools::glob::Glob;
use toolgate_tools::grep::Grep;
use toolgate_tools::invalid::Invalid;
use toolgate_tools::list::List;
use toolgate_tools::lsp::AskServers;
use toolgate_tools::multiedit::MultiEdit;
use toolgate_tools::plan::PlanSwitch;
use toolgate_tools::port::Port;
use toolgate_tools::ports::OpenPorts;
use toolgate_tools::question::Question;
use toolgate_tools::read::Read;
use toolgate_tools::revert::Revert;
use toolgate_tools::skill::LoadSkill;
use toolgate_tools::skills;
use toolgate_tools::skills::remote::{Arrival, FirstFetch};
use toolgate_tools::task::Task;
use toolgate_tools::todoread::TodoRead;
use toolgate_tools::todowrite::TodoWrite;
use toolgate_tools::webfetch::WebFetch;
use toolgate_tools::write::Write;
use toolgate_web::Network;

use super::extensions::Extensions;
use super::plugins::Plugins;
use super::rules::{OfPlugins, OwnFolders, Skills, Watched};
use super::{extensions, languages, mcp, sandbox};

/// The directory of a workspace cannot be used.
#[derive(Debug)]
pub struct UnusableFolder(PathBuf);

impl UnusableFolder {
    pub(super) fn at(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }
}

impl fmt::Display for UnusableFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a folder that can be used", self.0.display())
    }
}

/// How long a command may run that says nothing about it.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

/// What the tools of all workspaces share.
pub(super) struct Common {
    flags: Flags,
    files: Arc<Files>,
    uploads: Uploads,
    programs: Programs,
    /// The ports that are open.
    pub(super) ports: OpenPorts,
    shell: Shell,
    webfetch: WebFetch,
    search: exa::Service,
    /// How long the result of an edit may wait for language servers.
    diagnostics_wait: Duration,
}

impl Common {
    pub(super) fn new(
        config: &Config,
        programs: &Programs,
        network: &Network,
        flags: Flags,
        data_dir: &Path,
        sandbox: &Arc<Sandbox>,
    ) -> Self {
        let confine = Some(Arc::new(sandbox::confine(config, data_dir, sandbox.clone())));
        Self {
            files: Arc::new(Files::new(!flags.disable_file_time_check)),
            uploads: uploads(data_dir, config.limits.min_free_bytes),
            programs: programs.clone(),
            ports: OpenPorts::default(),
            shell: Shell::new(programs.clone(), confine),
            webfetch: WebFetch::new(network.clone()),
            search: exa::Service::new(
                network.clone(),
                config.search.endpoint.clone(),
                config.search_key.as_ref().map(ApiKey::reveal),
                flags.exa,
            ),
            diagnostics_wait: config.lsp.diagnostics_wait,
            flags,
        }
    }
}

/// Returns where contents wait that clients send for calls.
pub(super) fn uploads(data_dir: &Path, min_free_bytes: u64) -> Uploads {
    Uploads::new(data_dir.join("uploads"), min_free_bytes)
}

/// Makes the built-in tools of a workspace, in the order in which models are told of them
/// (`docs/spec/framework.md` §6).
fn builtin(
    common: &Common,
    config: &ToolsConfig,
    (skills, arrival): (Arc<skills::Catalog>, Arrival),
    (servers, feedback): (LanguageServers, EditDiagnostics),
    task: Task,
    plans: &Arc<Plans>,
) -> Vec<Arc<dyn Tool>> {
    let Common {
        flags,
        files,
        uploads,
        programs,
        ports,
        shell,
        webfetch,
        search,
        diagnostics_wait: _,
    } = common;
    let limits = truncation(config.tool_output);
    let shown = (limits.max_lines, limits.max_bytes);
    let command_timeout = flags.bash_timeout.unwrap_or(COMMAND_TIMEOUT);
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Question::new(flags.question)),
        Arc::new(Bash::new(shell.clone(), command_timeout, shown)),
        Arc::new(Read::new(feedback.clone())),
        Arc::new(Glob),
        Arc::new(Grep),
        Arc::new(Edit::new(files.clone(), feedback.clone())),
        Arc::new(Write::new(files.clone(), feedback.clone())),
        Arc::new(task),
        Arc::new(webfetch.clone()),
        Arc::new(TodoWrite),
        Arc::new(TodoRead),
        Arc::new(WebSearch::new(search.clone())),
        Arc::new(CodeSearch::new(search.clone())),
        Arc::new(LoadSkill::new(skills, arrival)),
        Arc::new(List),
        Arc::new(MultiEdit::new(files.clone(), feedback.clone())),
        Arc::new(Revert::new(files.clone(), feedback.clone())),
        Arc::new(ChangeFiles::new(files.clone(), uploads.clone(), feedback.clone())),
        Arc::new(Background::new(shell.clone())),
        Arc::new(Port::new(programs.clone(), ports.clone())),
        Arc::new(ApplyPatch::new(files.clone(), feedback)),
    ];
    if flags.lsp && languages::IS_BUILT {
        tools.push(Arc::new(AskServers::new(servers)));
    }
    if config.experimental.batch_tool {
        tools.push(Arc::new(Batch));
    }
    if flags.plan_mode {
        tools.push(Arc::new(PlanSwitch::exit(plans.clone())));
        tools.push(Arc::new(PlanSwitch::enter(plans.clone())));
    }
    tools
}

/// Where tools come from that are not built in.
pub(super) struct Sources {
    pub(super) hosts: Arc<Hosts>,
    pub(super) mcp: Arc<mcp::Servers>,
    pub(super) languages: Arc<ServerPool>,
    pub(super) extensions: Arc<Extensions>,
    pub(super) programs: Programs,
}

/// Opens workspaces.
pub(super) struct Opener {
    pub(super) config: Config,
    pub(super) data_dir: PathBuf,
    pub(super) environment: Environment,
    pub(super) store: Arc<dyn Store>,
    pub(super) common: Common,
    pub(super) sources: Sources,
    pub(super) sandbox: Arc<Sandbox>,
    /// Notified when plugins have left something of a configuration.
    pub(super) news: Arc<Notify>,
}

/// A folder that is to be a workspace.
pub(super) struct Wanted {
    pub(super) workspace: Workspace,
    /// Whether code that the project brings is run.
    pub(super) trusted: bool,
    /// Since when it is open, and by whom; none if the configuration names it.
    pub(super) opened: Option<OpenedBy>,
    /// Why it cannot be used, if that is known: nothing is looked for in it then.
    pub(super) problem: Option<String>,
}

/// A workspace that was opened, the skills that it wants fetched, and what looks after its rules.
pub(super) struct Opened {
    pub(super) place: WorkspaceRuntime,
    pub(super) fetch: FirstFetch,
    pub(super) watched: Option<Watched>,
    /// Why its configuration cannot be used.
    problem: Option<anyhow::Error>,
}

impl Opener {
    /// Opens the workspaces of the configuration. One with a configuration that cannot be used takes no calls; if there is no
    /// other, the service does not start.
    pub(super) fn open_configured(&self) -> anyhow::Result<Vec<Opened>> {
        let mut opened = Vec::new();
        for named in &self.config.workspaces {
            let home = self.environment.home().map(Path::to_path_buf);
            let workspace = Workspace::open(&named.name, &named.directory, home)
                .with_context(|| format!("cannot open the workspace {:?}", named.name))
                .with_context(|| UnusableFolder(named.directory.clone()))?;
            opened.push(self.open(Wanted {
                workspace,
                trusted: named.trust,
                opened: None,
                problem: None,
            })?);
        }
        let is_usable = opened.iter().any(|one| one.problem.is_none());
        for one in &mut opened {
            if is_usable && let Some(problem) = &one.problem {
                let name = one.place.workspace.name();
                tracing::error!("workspace {name} refuses calls: {problem:#}");
            } else if let Some(problem) = one.problem.take() {
                return Err(problem);
            }
        }
        Ok(opened)
    }

    /// Opens a workspace: reads its configuration and begins to get its tools. One that cannot be used takes no calls.
    pub(super) fn open(&self, wanted: Wanted) -> anyhow::Result<Opened> {
        let Wanted {
            workspace,
            trusted,
            opened,
            problem,
        } = wanted;
        let (workspace, environment, sources) = (Arc::new(workspace), &self.environment, &self.sources);
        let name = workspace.name();
        let mut seen = Seen::default();
        let is_there = problem.is_none();
        let (tools, problem, broken) = match problem {
            Some(problem) => (ToolsConfig::default(), None, Some(problem)),
            None => {
                let (directory, worktree) = (workspace.directory(), workspace.worktree());
                match ToolsConfig::load_and_note(directory, worktree, environment, &mut seen) {
                    Ok(tools) => (tools, None, None),
                    Err(problem) => {
                        let problem = anyhow::Error::from(problem);
                        let told = format!("{problem:#}");
                        (ToolsConfig::default(), Some(problem), Some(told))
                    }
                }
            }
        };
        let plugins = tools.plugin_files();
        workspace.note_configuration(seen.paths().chain(plugins.iter().map(PathBuf::as_path)));
        let warnings = tools.warnings_alone();
        for warning in &warnings {
            tracing::warn!(workspace = %name, "{warning}");
        }
        sandbox::warn_of_hidden(&self.sandbox, name, workspace.directory());
        let skills = Arc::new(skills::Catalog::new(tools.skills.clone()));
        skills.refresh();
        let remote = tools.remote_skills(trusted, environment);
        let fetch = FirstFetch::new(remote.clone());
        let mut readable = skills.folders_outside(workspace.worktree());
        readable.extend(fetch.wanted.iter().map(|remote| remote.folder.clone()));
        let own_folder = workspace_folder(&self.data_dir, name);
        let folders = OwnFolders {
            outputs: output_folder(&self.data_dir, name),
            data: own_folder.clone(),
            skills: readable,
            plugin_skills: Vec::new(),
        };
        let mut in_force = folders.in_force(&tools);
        in_force.warnings = warnings;
        if broken.is_some() {
            // Nobody may do anything by rules that nobody wrote.
            in_force.agents = Arc::default();
            in_force.broken = broken;
        }
        let is_usable = in_force.broken.is_none();
        let subagents = Subagents::new(in_force.agents.clone(), tools.subagent_depth);
        let task = Task::new(subagents.clone(), sources.hosts.clone());
        let servers = languages::servers(&sources.languages, &workspace, trusted, &tools, environment);
        let feedback = EditDiagnostics::new(servers.clone(), workspace.clone(), self.common.diagnostics_wait);
        let plans = Arc::new(Plans::new(&own_folder));
        let mut builtin = builtin(
            &self.common,
            &tools,
            (skills.clone(), fetch.arrival()),
            (servers, feedback),
            task,
            &plans,
        );
        builtin.extend(mcp::resource_tools(&sources.mcp, name));
        let announce = record_tool_changes(name, self.store.clone());
        let catalog = Catalog::new(announce, Arc::new(Invalid), builtin)?;
        let named = (tools.mcp_servers(trusted), tools.experimental.mcp_timeout);
        let place = WorkspaceRuntime {
            workspace: workspace.clone(),
            tools: Arc::new(catalog),
            default_client: self.common.flags.client.clone(),
            trusted,
            in_force: Current::new(in_force),
            gate: Gate::default(),
            opened,
        };
        // What is not known of the configuration may be what forbids all code.
        let (store, news) = (self.store.clone(), self.news.clone());
        let left = Arc::new(Plugins::new(workspace.clone(), store, tools.merged.clone(), news));
        left.note_agents(place.now().agents.clone());
        let servers = is_usable.then(|| {
            let cache = environment.cache_home();
            let of_plugins = (left.clone(), cache.as_deref());
            let (programs, data_dir) = (&sources.programs, &self.data_dir);
            let settings = extensions::settings(&self.config, &place, &tools, programs, data_dir, of_plugins);
            sources.extensions.watch(settings, place.tools.clone());
            mcp::Configured::start(&sources.mcp, &place, named.clone(), environment)
        });
        let watched = is_there.then(|| Watched {
            workspace,
            folders,
            subagents,
            servers,
            named,
            trusted,
            at_start: tools.merged.clone(),
            skills: Skills {
                catalog: skills,
                roots: tools.skills.clone(),
                remote,
            },
            notes: Vec::new(),
            names: Vec::new(),
            plugin_files: plugins,
            tools: is_usable.then_some(tools),
            seen,
            // It may have changed since.
            stamps: None,
            plugins: OfPlugins {
                left,
                generation: 0,
                added: Vec::new(),
            },
        });
        Ok(Opened {
            place,
            fetch,
            watched,
            problem,
        })
    }

    /// Ends what runs for a workspace besides its calls.
    pub(super) async fn close(&self, name: &str) {
        let sources = &self.sources;
        sources.hosts.end_workspace(name).await;
        tokio::join!(
            sources.mcp.end(name),
            sources.extensions.end(name),
            sources.languages.end(name)
        );
    }
}

pub(super) fn truncation(limits: ToolOutputLimits) -> truncate::Limits {
    let default = truncate::Limits::default();
    let or = |limit: Option<u64>, default: usize| {
        limit.map_or(default, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    };
    truncate::Limits {
        max_lines: or(limits.max_lines, default.max_lines),
        max_bytes: or(limits.max_bytes, default.max_bytes),
    }
}
