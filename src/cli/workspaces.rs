//! `toolgate workspaces`: the folders in which tools work, listed, shown, opened, created and closed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use toolgate_client::{Client, Error};
use toolgate_contract::workspace_source::Source;
use toolgate_contract::{
    ArchiveSource, CreateWorkspaceRequest, EmptySource, GitSource, ListWorkspacesResponse, OpenWorkspaceRequest,
    ResumeWorkspaceRequest, WorkspaceInfo, WorkspaceSource, WorkspaceState,
};

use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::{Terminal, counted, visible};
use super::words;

/// Lists the workspaces, or opens, creates or closes one.
#[derive(Debug, Args)]
pub(super) struct WorkspacesArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the workspaces by name. The default.
    List,
    /// Show a workspace: its folder, its agents, where its tools come from, and what is wrong with it.
    Show {
        /// Its name; without one the default workspace.
        #[arg(value_name = "NAME")]
        workspace: Option<String>,
    },
    /// Open a folder below one that the operator allows (`workspace_roots`) as a workspace.
    Open {
        /// The name that calls say.
        #[arg(value_name = "NAME")]
        workspace: String,
        /// The folder, as the service sees it; a relative one is taken from the current folder.
        directory: PathBuf,
        /// Make the folder if it is not there.
        #[arg(long)]
        create: bool,
    },
    /// Close a workspace that was opened: its calls are cancelled. Its records stay.
    Close {
        /// Its name.
        #[arg(value_name = "NAME")]
        workspace: String,
    },
    /// Create a workspace with a folder of its own, where the operator allows that (`created_workspaces.directory` or, at gateways with a
    /// database, `cluster.provisioner`). It is empty unless an option says what to create it from.
    Create(CreateArgs),
    /// Suspend a workspace that was created: nothing runs in it, its files are kept, and its prompts can be answered.
    Suspend {
        /// Its name.
        #[arg(value_name = "NAME")]
        workspace: String,
    },
    /// Resume a workspace that is suspended.
    Resume {
        /// Its name.
        #[arg(value_name = "NAME")]
        workspace: String,
    },
    /// Delete a workspace that was created, with its files: its calls are cancelled. Its records stay.
    Delete {
        /// Its name.
        #[arg(value_name = "NAME")]
        workspace: String,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// The name that calls say.
    #[arg(value_name = "NAME")]
    workspace: String,
    /// Copy a template of the operator's.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["git", "archive"])]
    template: Option<String>,
    /// Clone a repository of git from an https address.
    #[arg(long, value_name = "URL", conflicts_with = "archive")]
    git: Option<String>,
    /// Take this branch or tag of the repository.
    #[arg(long = "ref", value_name = "NAME", requires = "git")]
    reference: Option<String>,
    /// Unpack a tar archive, perhaps compressed with gzip or zstd, from an https address.
    #[arg(long, value_name = "URL")]
    archive: Option<String>,
    /// Wait until it is ready or has failed.
    #[arg(long)]
    wait: bool,
}

/// How long a command waits for a workspace: as long as the service waits at most.
const WAIT: Duration = Duration::from_secs(600);

impl WorkspacesArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let client = connection::connect(globals, None, terminal).await?;
        match self.action.unwrap_or(Action::List) {
            Action::List => list(&client, terminal).await?,
            Action::Show { workspace } => show(&client, workspace.unwrap_or_default(), terminal).await?,
            Action::Open {
                workspace,
                directory,
                create,
            } => open(&client, (workspace, &directory, create), terminal).await?,
            Action::Close { workspace } => close(&client, workspace, terminal).await?,
            Action::Create(args) => return create(&client, args, terminal).await,
            Action::Suspend { workspace } => suspend(&client, workspace, terminal).await?,
            Action::Resume { workspace } => return resume(&client, workspace, terminal).await,
            Action::Delete { workspace } => delete(&client, workspace, terminal).await?,
        }
        Ok(Exit::Completed)
    }
}

async fn list(client: &Client, terminal: &Terminal) -> Result<(), Failure> {
    let listed = client.list_workspaces().await?;
    let ListWorkspacesResponse {
        workspaces,
        roots,
        templates,
        ..
    } = listed;
    if terminal.json {
        return workspaces.iter().try_for_each(|workspace| terminal.message(workspace));
    }
    let rows: Vec<Vec<String>> = workspaces.iter().map(row).collect();
    terminal.table(&["WORKSPACE", "FOLDER", "OPENED", "CODE", "STATE"], &rows)?;
    for workspace in &workspaces {
        if let Some(notice) = words::workspace_notice(workspace) {
            terminal.inform(&format!("{}: {notice}", workspace.name));
        }
    }
    if !roots.is_empty() {
        let roots: Vec<_> = roots.iter().map(|root| visible(root)).collect();
        terminal.inform(&format!("others can be opened below {}", roots.join(", ")));
    }
    if !templates.is_empty() {
        let templates: Vec<_> = templates.iter().map(|name| visible(name)).collect();
        terminal.inform(&format!("others can be created from {}", templates.join(", ")));
    }
    Ok(())
}

fn row(workspace: &WorkspaceInfo) -> Vec<String> {
    let opened = workspace.open_time.map(words::time);
    vec![
        workspace.name.clone(),
        visible(&workspace.directory).into_owned(),
        opened.unwrap_or_else(|| "configured".to_owned()),
        if workspace.trusted { "trusted" } else { "not run" }.to_owned(),
        state(workspace),
    ]
}

fn state(workspace: &WorkspaceInfo) -> String {
    match workspace.state() {
        WorkspaceState::Unspecified | WorkspaceState::Ready if !workspace.problem.is_empty() => "broken".to_owned(),
        WorkspaceState::Unspecified | WorkspaceState::Ready => match workspace.warnings.len() {
            0 => "ok".to_owned(),
            count => counted(count, "warning"),
        },
        WorkspaceState::Creating | WorkspaceState::Suspended | WorkspaceState::Failed | WorkspaceState::Deleting => {
            words::workspace_state(workspace.state)
        }
    }
}

async fn show(client: &Client, workspace: String, terminal: &Terminal) -> Result<(), Failure> {
    let workspace = client.get_workspace(workspace).await?;
    if terminal.json {
        return terminal.message(&workspace);
    }
    terminal.table(&["WORKSPACE", "FOLDER", "OPENED", "CODE", "STATE"], &[row(&workspace)])?;
    if let Some(source) = workspace.source.as_ref().and_then(|source| source.source.as_ref()) {
        terminal.line(&format!("created from {}", visible(&origin(source))))?;
    }
    let agents: Vec<_> = workspace.agents.iter().map(|agent| visible(&agent.name)).collect();
    terminal.line(&format!("agents: {}", agents.join(", ")))?;
    for source in &workspace.tool_sources {
        let state = words::tool_source_state(source.state);
        let kind = words::tool_source(source.source);
        terminal.line(&format!("{kind} {}: {state}", visible(&source.name)))?;
    }
    tell_problems(&workspace, terminal);
    Ok(())
}

/// Says what a workspace was created from.
fn origin(source: &Source) -> String {
    match source {
        Source::Empty(_) => "nothing".to_owned(),
        Source::Template(name) => format!("the template {name}"),
        Source::Git(git) if git.reference.is_empty() => git.url.clone(),
        Source::Git(git) => format!("{} ({})", git.url, git.reference),
        Source::Archive(archive) => archive.url.clone(),
    }
}

async fn open(
    client: &Client,
    (workspace, directory, create): (String, &Path, bool),
    terminal: &Terminal,
) -> Result<(), Failure> {
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
    let Some(directory) = directory.to_str() else {
        return Err(Failure::Usage(format!("{} is not valid UTF-8", directory.display())));
    };
    let request = OpenWorkspaceRequest {
        workspace,
        directory: directory.to_owned(),
        create,
    };
    let response = client.open_workspace(request).await?;
    if terminal.json {
        return terminal.message(&response);
    }
    let opened = if response.opened { "opened" } else { "open already:" };
    let workspace = response.workspace.ok_or(Error::Protocol("workspace"))?;
    terminal.line(&format!(
        "{opened} {} at {}",
        workspace.name,
        visible(&workspace.directory)
    ))?;
    tell_problems(&workspace, terminal);
    Ok(())
}

async fn close(client: &Client, workspace: String, terminal: &Terminal) -> Result<(), Failure> {
    let closed = client.close_workspace(&workspace).await?;
    if terminal.json {
        return terminal.message(&closed);
    }
    let calls = counted(closed.cancelled_calls, "call");
    terminal.line(&format!("closed {workspace}; cancelled {calls}"))
}

async fn create(client: &Client, args: CreateArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let CreateArgs {
        workspace,
        template,
        git,
        reference,
        archive,
        wait,
    } = args;
    let source = match (template, git, archive) {
        (Some(template), ..) => Source::Template(template),
        (None, Some(url), _) => Source::Git(GitSource {
            url,
            reference: reference.unwrap_or_default(),
        }),
        (None, None, Some(url)) => Source::Archive(ArchiveSource { url }),
        (None, None, None) => Source::Empty(EmptySource {}),
    };
    let request = CreateWorkspaceRequest {
        workspace,
        source: Some(WorkspaceSource { source: Some(source) }),
        wait: Some(waiting(wait)),
    };
    let response = client.create_workspace(request).await?;
    if terminal.json {
        terminal.message(&response)?;
    }
    let workspace = response.workspace.ok_or(Error::Protocol("workspace"))?;
    if !terminal.json {
        let what = match (workspace.state(), response.created) {
            (WorkspaceState::Ready, true) => "created",
            (WorkspaceState::Creating, true) => "creating",
            (WorkspaceState::Failed, _) => "could not create",
            (_, _) => "there already:",
        };
        // Where it is, is known once its worker has it.
        let folder = match visible(&workspace.directory) {
            folder if folder.is_empty() => String::new(),
            folder => format!(" at {folder}"),
        };
        terminal.line(&format!("{what} {}{folder}; {}", workspace.name, state(&workspace)))?;
        tell_problems(&workspace, terminal);
    }
    Ok(exit_of(&workspace))
}

fn waiting(waits: bool) -> prost_types::Duration {
    let wait = if waits { WAIT } else { Duration::ZERO };
    prost_types::Duration::try_from(wait).unwrap_or_default()
}

fn exit_of(workspace: &WorkspaceInfo) -> Exit {
    match workspace.state() {
        WorkspaceState::Failed => Exit::Failed,
        WorkspaceState::Unspecified
        | WorkspaceState::Ready
        | WorkspaceState::Creating
        | WorkspaceState::Suspended
        | WorkspaceState::Deleting => Exit::Completed,
    }
}

async fn suspend(client: &Client, workspace: String, terminal: &Terminal) -> Result<(), Failure> {
    let suspended = client.suspend_workspace(&workspace).await?;
    if terminal.json {
        return terminal.message(&suspended);
    }
    let calls = counted(suspended.cancelled_calls, "call");
    let waiting = match suspended.waiting_calls {
        0 => String::new(),
        count => format!("; {} for a person", counted(count, "waiting call")),
    };
    terminal.line(&format!("suspended {workspace}; cancelled {calls}{waiting}"))
}

async fn resume(client: &Client, workspace: String, terminal: &Terminal) -> Result<Exit, Failure> {
    let request = ResumeWorkspaceRequest {
        workspace,
        wait: Some(waiting(true)),
    };
    let resumed = client.resume_workspace(request).await?;
    if terminal.json {
        terminal.message(&resumed)?;
    } else {
        terminal.line(&format!("resumed {}; {}", resumed.name, state(&resumed)))?;
        tell_problems(&resumed, terminal);
    }
    Ok(exit_of(&resumed))
}

async fn delete(client: &Client, workspace: String, terminal: &Terminal) -> Result<(), Failure> {
    let deleted = client.delete_workspace(&workspace).await?;
    if terminal.json {
        return terminal.message(&deleted);
    }
    let calls = counted(deleted.cancelled_calls, "call");
    terminal.line(&format!("deleted {workspace} with its files; cancelled {calls}"))
}

fn tell_problems(workspace: &WorkspaceInfo, terminal: &Terminal) {
    if !workspace.problem.is_empty() {
        terminal.inform(&format!("its calls are refused: {}", visible(&workspace.problem)));
    }
    for warning in &workspace.warnings {
        terminal.inform(&visible(warning));
    }
}
