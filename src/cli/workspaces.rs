//! `toolgate workspaces`: the folders in which tools work, listed, shown, opened and closed.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use toolgate_client::{Client, Error};
use toolgate_contract::{ListWorkspacesResponse, OpenWorkspaceRequest, WorkspaceInfo};

use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::{Terminal, counted, visible};
use super::words;

/// Lists the workspaces, or opens or closes one.
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
}

impl WorkspacesArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let client = connection::connect(globals).await?;
        match self.action.unwrap_or(Action::List) {
            Action::List => list(&client, terminal).await?,
            Action::Show { workspace } => show(&client, workspace.unwrap_or_default(), terminal).await?,
            Action::Open {
                workspace,
                directory,
                create,
            } => open(&client, (workspace, &directory, create), terminal).await?,
            Action::Close { workspace } => close(&client, workspace, terminal).await?,
        }
        Ok(Exit::Completed)
    }
}

async fn list(client: &Client, terminal: &Terminal) -> Result<(), Failure> {
    let ListWorkspacesResponse { workspaces, roots, .. } = client.list_workspaces().await?;
    if terminal.json {
        return workspaces.iter().try_for_each(|workspace| terminal.message(workspace));
    }
    let rows: Vec<Vec<String>> = workspaces.iter().map(row).collect();
    terminal.table(&["WORKSPACE", "FOLDER", "OPENED", "CODE", "STATE"], &rows)?;
    for workspace in workspaces.iter().filter(|workspace| !workspace.problem.is_empty()) {
        terminal.inform(&format!("{}: {}", workspace.name, visible(&workspace.problem)));
    }
    if !roots.is_empty() {
        let roots: Vec<_> = roots.iter().map(|root| visible(root)).collect();
        terminal.inform(&format!("others can be opened below {}", roots.join(", ")));
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
        if workspace.problem.is_empty() { "ok" } else { "broken" }.to_owned(),
    ]
}

async fn show(client: &Client, workspace: String, terminal: &Terminal) -> Result<(), Failure> {
    let workspace = client.get_workspace(workspace).await?;
    if terminal.json {
        return terminal.message(&workspace);
    }
    terminal.table(&["WORKSPACE", "FOLDER", "OPENED", "CODE", "STATE"], &[row(&workspace)])?;
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

async fn open(
    client: &Client,
    (workspace, directory, create): (String, &Path, bool),
    terminal: &Terminal,
) -> Result<(), Failure> {
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
    let Some(directory) = directory.to_str() else {
        return Err(Failure::Usage(format!("{} is no text", directory.display())));
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

fn tell_problems(workspace: &WorkspaceInfo, terminal: &Terminal) {
    if !workspace.problem.is_empty() {
        terminal.inform(&format!("its calls are refused: {}", visible(&workspace.problem)));
    }
    for warning in &workspace.warnings {
        terminal.inform(&visible(warning));
    }
}
