//! `toolgate grants`: standing approvals, listed, shown and taken back.

use clap::Args;
use tonic::{Code, Status};
use toolgate_client::{Client, Error};
use toolgate_contract::{GetPromptRequest, Grant, ListGrantsRequest, RevokeGrantRequest};

use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::prompt;
use super::scope;
use super::terminal::{Terminal, visible};
use super::words;

/// Which grants to list or to take back.
#[derive(Debug, Args)]
pub(super) struct GrantsArgs {
    /// Only grants of this workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// Revoke this grant: what it covered is asked about again. May be given more than once.
    #[arg(long, value_name = "ID", conflicts_with = "workspace")]
    revoke: Vec<String>,
    /// Show all that is known of this grant, with the prompt that made it.
    #[arg(value_name = "ID", conflicts_with_all = ["workspace", "revoke"])]
    grant: Option<String>,
}

impl GrantsArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let wanted: Vec<&String> = self.grant.iter().chain(&self.revoke).collect();
        let client = if wanted.is_empty() {
            connection::connect(globals, self.workspace.as_deref(), terminal).await?
        } else {
            let has = async |client: &Client| {
                let grants = list_grants(client, connection::ALL_WORKSPACES.to_owned())
                    .await
                    .unwrap_or_default();
                grants.iter().any(|grant| wanted.contains(&&grant.grant_id))
            };
            connection::connect_where(globals, has).await?
        };
        if let Some(id) = &self.grant {
            return show_grant(&client, id, terminal).await;
        }
        if self.revoke.is_empty() {
            let workspace = connection::workspace_filter(&client, self.workspace.as_deref()).await?;
            show(&list_grants(&client, workspace).await?, terminal)?;
            return Ok(Exit::Completed);
        }
        for grant_id in self.revoke {
            let response = client
                .permission_service()
                .revoke_grant(RevokeGrantRequest { grant_id })
                .await?;
            let grant = response.into_inner().grant.ok_or(Error::Protocol("grant"))?;
            if terminal.json {
                terminal.message(&grant)?;
            } else {
                let what = format!("{} {}", grant.permission, grant.pattern);
                terminal.line(&format!("revoked {}: {}", grant.grant_id, visible(&what)))?;
            }
        }
        Ok(Exit::Completed)
    }
}

async fn list_grants(client: &Client, workspace: String) -> Result<Vec<Grant>, Failure> {
    let mut request = ListGrantsRequest {
        workspace,
        ..ListGrantsRequest::default()
    };
    let mut grants = Vec::new();
    loop {
        let page = client
            .permission_service()
            .list_grants(request.clone())
            .await?
            .into_inner();
        grants.extend(page.grants);
        if page.next_page_token.is_empty() {
            return Ok(grants);
        }
        request.page_token = page.next_page_token;
    }
}

pub(super) fn show(grants: &[Grant], terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        return grants.iter().try_for_each(|grant| terminal.message(grant));
    }
    let time = words::time_in_list(terminal);
    let rows = grants.iter().map(|grant| {
        let last_use = grant.last_use_time.map(time);
        vec![
            grant.grant_id.clone(),
            grant.scope.as_ref().map(scope::describe).unwrap_or_default(),
            scope::uses(grant),
            grant.create_time.map(time).unwrap_or_default(),
            last_use.unwrap_or_else(|| "never".to_owned()),
            grant.workspace.clone(),
            visible(&grant.prompt_title).into_owned(),
            visible(&format!("{} {}", grant.permission, grant.pattern)).into_owned(),
        ]
    });
    // What matters least goes below its row first.
    let headings = [
        "GRANT",
        "HOLDS",
        "USES",
        "GIVEN",
        "LAST USE",
        "WORKSPACE",
        "PROMPT",
        "ALLOWS",
    ];
    terminal.table(&headings, &rows.collect::<Vec<_>>())
}

async fn show_grant(client: &Client, id: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut grants = list_grants(client, connection::ALL_WORKSPACES.to_owned())
        .await?
        .into_iter();
    let Some(grant) = grants.find(|grant| grant.grant_id == id) else {
        return Err(Status::not_found(format!("there is no grant {id}, or it has ended")).into());
    };
    let request = GetPromptRequest {
        prompt_id: grant.prompt_id.clone(),
    };
    let prompt = match client.permission_service().get_prompt(request).await {
        Ok(response) => response.into_inner().prompt,
        Err(status) if status.code() == Code::NotFound => None,
        Err(status) => return Err(status.into()),
    };
    if terminal.json {
        terminal.message(&grant)?;
        if let Some(prompt) = &prompt {
            terminal.message(prompt)?;
        }
        return Ok(Exit::Completed);
    }
    show(std::slice::from_ref(&grant), terminal)?;
    terminal.line("")?;
    let by = if grant.granted_by.is_empty() {
        "somebody".to_owned()
    } else {
        visible(&grant.granted_by).into_owned()
    };
    terminal.line(&format!("given by {by} in the session {}", visible(&grant.session_id)))?;
    match prompt {
        Some(shown) => terminal.line(&prompt::render(&shown, terminal.out))?,
        None => terminal.line(&format!("the prompt {} is no longer stored", grant.prompt_id))?,
    }
    Ok(Exit::Completed)
}
