//! `toolgate grants`, `sessions` and `session`: what outlasts a single call.

use clap::Args;
use prost_types::Timestamp;
use tonic::{Code, Status};
use toolgate_client::{Client, Error};
use toolgate_contract::{
    EndSessionRequest, GetPromptRequest, GetSessionRequest, Grant, ListGrantsRequest, ListSessionsRequest,
    RevokeGrantRequest, Session, SessionSummary,
};

use super::arguments;
use super::calls::{self, CALL_HEADINGS};
use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::prompt;
use super::scope;
use super::terminal::{Look, Terminal, counted, visible};
use super::words;

/// Which grants to list or to take back.
#[derive(Debug, Args)]
pub(super) struct GrantsArgs {
    /// Only grants of this workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// Take this grant back: what it covered is asked again. May be given more than once.
    #[arg(long, value_name = "ID", conflicts_with = "workspace")]
    revoke: Vec<String>,
    /// Show all that is known of this grant, with the prompt that made it.
    #[arg(value_name = "ID", conflicts_with_all = ["workspace", "revoke"])]
    grant: Option<String>,
}

impl GrantsArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let client = connection::connect(globals).await?;
        if let Some(id) = &self.grant {
            return show_grant(&client, id, terminal).await;
        }
        if self.revoke.is_empty() {
            let workspace = connection::workspace_filter(&client, self.workspace.as_deref()).await?;
            show_grants(&list_grants(&client, workspace).await?, terminal)?;
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

fn show_grants(grants: &[Grant], terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        return grants.iter().try_for_each(|grant| terminal.message(grant));
    }
    let rows = grants.iter().map(|grant| {
        let last_use = grant.last_use_time.map(words::time);
        vec![
            grant.grant_id.clone(),
            grant.workspace.clone(),
            grant.create_time.map(words::time).unwrap_or_default(),
            grant.scope.as_ref().map(scope::describe).unwrap_or_default(),
            scope::uses(grant),
            last_use.unwrap_or_else(|| "never".to_owned()),
            visible(&grant.prompt_title).into_owned(),
            grant.permission.clone(),
            visible(&grant.pattern).into_owned(),
        ]
    });
    let headings = [
        "GRANT",
        "WORKSPACE",
        "GIVEN",
        "HOLDS",
        "USES",
        "LAST USE",
        "PROMPT",
        "PERMISSION",
        "PATTERN",
    ];
    terminal.table(&headings, &rows.collect::<Vec<_>>())
}

async fn show_grant(client: &Client, id: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut grants = list_grants(client, connection::workspace_filter(client, None).await?)
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
    show_grants(std::slice::from_ref(&grant), terminal)?;
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

/// Which sessions to list.
#[derive(Debug, Args)]
pub(super) struct SessionsArgs {
    /// Only sessions that were active from this time on: RFC 3339, or how long ago (2h).
    #[arg(long, value_name = "TIME", value_parser = arguments::moment)]
    since: Option<Timestamp>,
    /// Only sessions that began before this time.
    #[arg(long, value_name = "TIME", value_parser = arguments::moment)]
    until: Option<Timestamp>,
    /// Only sessions in this workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// At most this many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
}

impl SessionsArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let client = connection::connect(globals).await?;
        let request = ListSessionsRequest {
            workspace: connection::workspace_filter(&client, self.workspace.as_deref()).await?,
            from_time: self.since,
            until_time: self.until,
            page_size: i32::try_from(self.limit).unwrap_or(i32::MAX),
            page_token: String::new(),
        };
        let listed = client
            .session_service()
            .list_sessions(request)
            .await?
            .into_inner()
            .sessions;
        if terminal.json {
            listed.iter().try_for_each(|session| terminal.message(session))?;
            return Ok(Exit::Completed);
        }
        let rows: Vec<_> = listed.iter().map(session_row).collect();
        let headings = ["SESSION", "WORKSPACE", "AGENTS", "BEGUN", "ACTIVE", "CALLS", "STATE"];
        terminal.table(&headings, &rows)?;
        Ok(Exit::Completed)
    }
}

fn session_row(session: &SessionSummary) -> Vec<String> {
    let state = match (session.unfinished_calls, session.waiting_calls) {
        (0, _) if session.ended => "ended".to_owned(),
        (0, _) => "idle".to_owned(),
        (open, 0) => format!("{open} running"),
        (open, waiting) => format!("{} running, {waiting} waiting", open - waiting),
    };
    vec![
        visible(&session.session_id).into_owned(),
        session.workspace.clone(),
        session.agents.join(", "),
        session.create_time.map(words::time).unwrap_or_default(),
        session.last_activity_time.map(words::time).unwrap_or_default(),
        session.calls.to_string(),
        state,
    ]
}

/// Which session to show or to end.
#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    /// The session's id.
    session: String,
    /// End it: cancel its calls, withdraw its prompts, forget what it has read and its todos. Records stay.
    #[arg(long)]
    end: bool,
    /// Only in this workspace: the same id in another one is another session.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
}

impl SessionArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let client = connection::connect(globals).await?;
        let session_id = self.session;
        let workspace = connection::workspace_filter(&client, self.workspace.as_deref()).await?;
        if self.end {
            let request = EndSessionRequest {
                session_id: session_id.clone(),
                workspace,
            };
            let ended = client.session_service().end_session(request).await?.into_inner();
            if terminal.json {
                terminal.message(&ended)?;
            } else {
                let calls = counted(ended.cancelled_calls, "call");
                terminal.line(&format!("ended {session_id}; cancelled {calls}"))?;
            }
            return Ok(Exit::Completed);
        }
        let request = GetSessionRequest { session_id, workspace };
        let response = client.session_service().get_session(request).await?;
        let session = response.into_inner().session.ok_or(Error::Protocol("session"))?;
        show(&session, terminal)?;
        Ok(Exit::Completed)
    }
}

fn show(session: &Session, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        return terminal.message(session);
    }
    let title = |text: &str| terminal.line(&terminal.out.text(Look::Bold, text));
    title(&format!(
        "{}, newest first",
        counted(session.recent_calls.len(), "call")
    ))?;
    if !session.recent_calls.is_empty() {
        let rows: Vec<_> = session.recent_calls.iter().map(calls::row).collect();
        terminal.table(&CALL_HEADINGS, &rows)?;
    }
    title(&format!("\n{}", counted(session.open_prompts.len(), "open prompt")))?;
    for prompt in &session.open_prompts {
        terminal.line(&format!(
            "{} {}",
            prompt.prompt_id,
            prompt::render(prompt, terminal.out)
        ))?;
    }
    title(&format!("\n{}", counted(session.todos.len(), "todo")))?;
    if !session.todos.is_empty() {
        let cells = session
            .todos
            .iter()
            .map(|todo| [&todo.status, &todo.priority, &todo.content]);
        let rows = cells.map(|cells| cells.map(|text| visible(text).into_owned()).to_vec());
        terminal.table(&["STATUS", "PRIORITY", "TODO"], &rows.collect::<Vec<_>>())?;
    }
    title(&format!("\n{}", counted(session.grants.len(), "grant")))?;
    if session.grants.is_empty() {
        Ok(())
    } else {
        show_grants(&session.grants, terminal)
    }
}
