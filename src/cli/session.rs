//! `toolgate sessions` and `session`: what sessions there are, what one keeps, and its end.

use clap::Args;
use prost_types::Timestamp;
use tonic::Status;
use toolgate_client::{Client, Error};
use toolgate_contract::{EndSessionRequest, GetSessionRequest, ListSessionsRequest, Session, SessionSummary};

use super::arguments;
use super::calls;
use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::grants;
use super::prompt;
use super::terminal::{Look, Terminal, counted, visible};
use super::words;

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
        let client = connection::connect(globals, self.workspace.as_deref(), terminal).await?;
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
        let time = words::time_in_list(terminal);
        let rows: Vec<_> = listed.iter().map(|session| session_row(session, time)).collect();
        let headings = ["SESSION", "WORKSPACE", "AGENTS", "BEGUN", "ACTIVE", "CALLS", "STATE"];
        terminal.table(&headings, &rows)?;
        Ok(Exit::Completed)
    }
}

fn session_row(session: &SessionSummary, time: fn(Timestamp) -> String) -> Vec<String> {
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
        session.create_time.map(time).unwrap_or_default(),
        session.last_activity_time.map(time).unwrap_or_default(),
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
    /// Only in this workspace: the same id in another one is another session. Without it, `--end` means the default
    /// workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
}

impl SessionArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let has = async |client: &Client| {
            let request = GetSessionRequest {
                session_id: self.session.clone(),
                workspace: connection::ALL_WORKSPACES.to_owned(),
            };
            get(client, request).await.is_ok_and(|session| !is_unknown(&session))
        };
        let client = connection::connect_where(globals, has).await?;
        let session_id = self.session;
        if self.end {
            let workspace = connection::workspace_name(&client, self.workspace.as_deref()).await?;
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
        let workspace = connection::workspace_filter(&client, self.workspace.as_deref()).await?;
        let unknown = format!("nothing is known of the session {session_id}");
        let session = get(&client, GetSessionRequest { session_id, workspace }).await?;
        if !terminal.json && is_unknown(&session) {
            return Err(Status::not_found(unknown).into());
        }
        show(&session, terminal)?;
        Ok(Exit::Completed)
    }
}

async fn get(client: &Client, request: GetSessionRequest) -> Result<Session, Failure> {
    let response = client.session_service().get_session(request).await?;
    Ok(response.into_inner().session.ok_or(Error::Protocol("session"))?)
}

/// Returns whether a session has left nothing: an id that nobody used has not, either.
fn is_unknown(session: &Session) -> bool {
    session.recent_calls.is_empty()
        && session.open_prompts.is_empty()
        && session.todos.is_empty()
        && session.grants.is_empty()
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
        calls::show(&session.recent_calls, &[], terminal)?;
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
        grants::show(&session.grants, terminal)
    }
}
