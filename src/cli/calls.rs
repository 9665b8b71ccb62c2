//! `toolgate calls`, `watch` and `cancel`: calls that are already there.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use clap::{Args, ValueEnum};
use prost_types::Timestamp;
use tonic::Code;
use toolgate_client::{Client, Error, Follower};
use toolgate_contract::call_event::Event;
use toolgate_contract::{Call, CallFailed, CallState, FailureReason, ListCallsRequest, call};

use super::arguments;
use super::call::OutputChoice;
use super::connection;
use super::exit::{Exit, Failure};
use super::folder;
use super::globals::Globals;
use super::instances::Instance;
use super::interrupts::Interrupts;
use super::prompt;
use super::terminal::{Terminal, short};
use super::view::CallView;
use super::words;

const TITLE: usize = 60;
const WHOLE_TITLE: usize = 200;
const LARGEST_PAGE: u32 = 500;

/// A state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateChoice {
    Pending,
    Running,
    Waiting,
    Completed,
    Failed,
}

impl From<StateChoice> for CallState {
    fn from(choice: StateChoice) -> Self {
        match choice {
            StateChoice::Pending => Self::Pending,
            StateChoice::Running => Self::Running,
            StateChoice::Waiting => Self::Waiting,
            StateChoice::Completed => Self::Completed,
            StateChoice::Failed => Self::Failed,
        }
    }
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReasonChoice {
    InvalidArguments,
    Denied,
    Rejected,
    PromptExpired,
    Cancelled,
    TimedOut,
    ToolError,
    DoomLoop,
    Quota,
    Drained,
    Lost,
    Internal,
}

impl From<ReasonChoice> for FailureReason {
    fn from(choice: ReasonChoice) -> Self {
        match choice {
            ReasonChoice::InvalidArguments => Self::InvalidArguments,
            ReasonChoice::Denied => Self::Denied,
            ReasonChoice::Rejected => Self::Rejected,
            ReasonChoice::PromptExpired => Self::PromptExpired,
            ReasonChoice::Cancelled => Self::Cancelled,
            ReasonChoice::TimedOut => Self::TimedOut,
            ReasonChoice::ToolError => Self::ToolError,
            ReasonChoice::DoomLoop => Self::DoomLoop,
            ReasonChoice::Quota => Self::Quota,
            ReasonChoice::Drained => Self::Drained,
            ReasonChoice::Lost => Self::Lost,
            ReasonChoice::Internal => Self::Internal,
        }
    }
}

/// Which calls to list.
#[derive(Debug, Args)]
pub(super) struct CallsArgs {
    /// Only calls of this session.
    #[arg(long, env = "TOOLGATE_SESSION", hide_env_values = true)]
    session: Option<String>,
    /// Only calls in this state. May be given more than once.
    #[arg(long, value_enum)]
    state: Vec<StateChoice>,
    /// Only calls of this tool. May be given more than once.
    #[arg(long)]
    tool: Vec<String>,
    /// Only calls that failed for this reason. May be given more than once.
    #[arg(long, value_enum)]
    reason: Vec<ReasonChoice>,
    /// Only calls of this agent.
    #[arg(long)]
    agent: Option<String>,
    /// Only calls that this principal made, for instance token:alice.
    #[arg(long, value_name = "PRINCIPAL")]
    requester: Option<String>,
    /// Only calls that this call made.
    #[arg(long, value_name = "CALL")]
    parent: Option<String>,
    /// Only calls whose title, summary, tool or id contains this text, in whatever case.
    #[arg(long)]
    text: Option<String>,
    /// Only calls from this time on: RFC 3339, or how long ago (2h).
    #[arg(long, value_name = "TIME", value_parser = arguments::moment)]
    since: Option<Timestamp>,
    /// Only calls from before this time.
    #[arg(long, value_name = "TIME", value_parser = arguments::moment)]
    until: Option<Timestamp>,
    /// Only calls in this workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// At most this many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = arguments::at_least_one)]
    limit: u32,
    /// All there are.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl CallsArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let clients = connection::connect_all(globals).await?;
        let is_one = clients.len() == 1;
        let most = if self.all { u32::MAX } else { self.limit };
        let mut calls: Vec<(usize, Call)> = Vec::new();
        let mut known = HashSet::new();
        let mut problem = None;
        for (service, (_, client)) in clients.iter().enumerate() {
            let mut take = |call: Call| {
                if is_one && terminal.json {
                    return terminal.message(&call);
                }
                // Services that share their records tell of the same calls.
                if known.insert(call.call_id.clone()) {
                    calls.push((service, call));
                }
                Ok(())
            };
            match self.list(client, most, &mut take).await {
                Ok(()) => {}
                Err(failure) if is_one => return Err(failure),
                Err(failure) => problem = problem.or(Some(failure)),
            }
        }
        if let Some(failure) = problem.filter(|_| calls.is_empty()) {
            return Err(failure);
        }
        if !is_one {
            calls.sort_by_key(|(_, call)| Reverse(call.create_time.map(|time| (time.seconds, time.nanos))));
            calls.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        }
        if terminal.json {
            calls.iter().try_for_each(|(_, call)| terminal.message(call))?;
            return Ok(Exit::Completed);
        }
        let folders = folders_of(&clients, &calls).await;
        let calls: Vec<Call> = calls.into_iter().map(|(_, call)| call).collect();
        show(&calls, &folders, terminal)?;
        Ok(Exit::Completed)
    }

    /// Hands the calls of one service to `take`, newest first.
    async fn list(
        &self,
        client: &Client,
        most: u32,
        take: &mut (dyn FnMut(Call) -> Result<(), Failure> + Send),
    ) -> Result<(), Failure> {
        let states = self.state.iter().map(|state| CallState::from(*state).into());
        let request = ListCallsRequest {
            workspace: connection::workspace_filter(client, self.workspace.as_deref()).await?,
            session_id: self.session.clone().unwrap_or_default(),
            states: states.collect(),
            tools: self.tool.clone(),
            reasons: self
                .reason
                .iter()
                .map(|reason| FailureReason::from(*reason).into())
                .collect(),
            agent: self.agent.clone().unwrap_or_default(),
            requester: self.requester.clone().unwrap_or_default(),
            parent_call_id: self.parent.clone().unwrap_or_default(),
            text: self.text.clone().unwrap_or_default(),
            from_time: self.since,
            until_time: self.until,
            ..ListCallsRequest::default()
        };
        each(client, request, most, usize::MAX, take).await
    }
}

/// Hands the calls that a request names to `take`, newest first, `most` at most, from `pages` pages at most: a page of a
/// gateway may be empty without being the last.
pub(super) async fn each(
    client: &Client,
    mut request: ListCallsRequest,
    most: u32,
    pages: usize,
    take: &mut (dyn FnMut(Call) -> Result<(), Failure> + Send),
) -> Result<(), Failure> {
    let mut left = most;
    for _ in 0..pages {
        if left == 0 {
            break;
        }
        request.page_size = i32::try_from(left.min(LARGEST_PAGE)).unwrap_or(i32::MAX);
        let page = client.tool_service().list_calls(request.clone()).await?.into_inner();
        left = left.saturating_sub(u32::try_from(page.calls.len()).unwrap_or(u32::MAX));
        page.calls.into_iter().try_for_each(&mut *take)?;
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    Ok(())
}

/// Returns the folder that each call works in; nothing where all of them work in the same one.
async fn folders_of(clients: &[(Instance, Client)], calls: &[(usize, Call)]) -> Vec<String> {
    let workspace = |call: &Call| {
        call.context
            .as_ref()
            .map_or(String::new(), |context| context.workspace.clone())
    };
    let places: HashSet<_> = calls
        .iter()
        .map(|(service, call)| (*service, workspace(call)))
        .collect();
    if places.len() < 2 {
        return Vec::new();
    }
    let mut known = HashMap::new();
    for (service, (_, client)) in clients.iter().enumerate() {
        // A service that is gone meanwhile leaves the names.
        for found in client.server_info().await.map_or(Vec::new(), |info| info.workspaces) {
            known.insert((service, found.name), found.directory);
        }
    }
    let folder = |(service, call): &(usize, Call)| {
        let place = (*service, workspace(call));
        let folder = known.get(&place).map_or(place.1.as_str(), String::as_str);
        folder::shown(Path::new(folder))
    };
    calls.iter().map(folder).collect()
}

/// Shows calls as a table: their folders if they are given, and their sessions unless each call has its own.
pub(super) fn show(calls: &[Call], folders: &[String], terminal: &Terminal) -> Result<(), Failure> {
    let session = |call: &Call| {
        call.context
            .as_ref()
            .map_or(String::new(), |context| context.session_id.clone())
    };
    let has_sessions = calls
        .iter()
        .any(|call| session(call) != format!("ses_{}", call.call_id));
    let mut headings = vec!["CALL", "TOOL", "STATE", "BEGUN", "TOOK"];
    headings.extend((!folders.is_empty()).then_some("FOLDER"));
    headings.extend(has_sessions.then_some("SESSION"));
    headings.push("TITLE");
    let time = words::time_in_list(terminal);
    let rows = calls.iter().enumerate().map(|(index, call)| {
        let mut row = vec![
            call.call_id.clone(),
            call.tool.clone(),
            state(call),
            call.create_time.map(time).unwrap_or_default(),
            took(call).unwrap_or_default(),
        ];
        row.extend(folders.get(index).cloned());
        row.extend(has_sessions.then(|| session(call)));
        row.push(short(&about(call), WHOLE_TITLE));
        row
    });
    terminal.table(&headings, &rows.collect::<Vec<_>>())
}

/// Returns how long a call took that has ended, with its waiting.
fn took(call: &Call) -> Option<String> {
    let time = words::between(call.create_time?, call.end_time?)?;
    Some(words::duration(time))
}

/// Says where a call is, or how it has ended.
fn state(call: &Call) -> String {
    let state = match &call.ending {
        Some(call::Ending::Failed(end)) => words::failure_reason(end.reason),
        Some(call::Ending::Completed(end)) => words::outcome(end),
        None => words::call_state(call.state),
    };
    let state = match call.waiting_for.as_str() {
        "" => state,
        what => format!("{state} for {}", short(what, TITLE)),
    };
    match call.background_processes.len() {
        0 => state,
        count => format!("{state}, {count} in background"),
    }
}

/// Says what a call is about: its title, and what it touches unless the title says that.
fn about(call: &Call) -> String {
    match (call.title.as_str(), call.summary.as_str()) {
        ("", summary) => summary.to_owned(),
        (title, summary) if title.contains(summary) => title.to_owned(),
        (title, summary) => format!("{title} · {summary}"),
    }
}

/// Which call to watch.
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// The call's id.
    call: String,
    /// Begin after this event; 0 for the call's beginning.
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    after: i64,
    /// How much of the running output to show.
    #[arg(long, value_enum, default_value_t)]
    output: OutputChoice,
}

impl WatchArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::listen()?;
        let client = connection::connect_for(globals, &self.call).await?;
        let mut view = CallView::new(terminal.clone(), "", true);
        let mut follower = Follower::watch(client, self.call, self.after, self.output.mode());
        loop {
            let event = tokio::select! {
                event = follower.next() => event?,
                () = interrupts.next() => return Ok(Exit::Interrupted),
            };
            // There is nothing to show of a call that ended before the event to begin with.
            let Some(event) = event else {
                return Ok(Exit::Completed);
            };
            if let Some(exit) = view.show(&event)? {
                return Ok(exit);
            }
            if let (false, Some(Event::Waiting(waiting))) = (terminal.json, &event.event) {
                let prompt = waiting.prompt.iter().map(|prompt| prompt::brief(prompt, terminal.err));
                prompt.for_each(|prompt| view.inform(&prompt));
            }
        }
    }
}

/// Which call to cancel.
#[derive(Debug, Args)]
pub(super) struct CancelArgs {
    /// The call's id.
    call: String,
}

impl CancelArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut problem: Option<Error> = None;
        for (_, client) in connection::connect_all(globals).await? {
            match client.cancel_call(&self.call).await {
                Ok(call) if terminal.json => return terminal.message(&call).map(|()| Exit::Completed),
                Ok(call) => {
                    terminal.line(&format!("{} {}", call.call_id, ending(&call)))?;
                    return Ok(Exit::Completed);
                }
                // One that knows the call and does not run it says more than one that does not know it.
                Err(error) if problem.is_none() || error.code() != Code::NotFound => problem = Some(error),
                Err(_) => {}
            }
        }
        Err(problem.unwrap_or(Error::Protocol("call")).into())
    }
}

fn ending(call: &Call) -> String {
    match &call.ending {
        Some(call::Ending::Completed(_)) => "had already completed".to_owned(),
        Some(call::Ending::Failed(CallFailed { reason, .. })) => {
            if FailureReason::try_from(*reason) == Ok(FailureReason::Cancelled) {
                "is cancelled".to_owned()
            } else {
                format!("had already failed: {}", words::failure_reason(*reason))
            }
        }
        None => format!("is still {}", words::call_state(call.state)),
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::CallCompleted;

    use super::*;

    #[test]
    fn endings_are_told() {
        fn check(ending_: Option<call::Ending>, expected: &str) {
            let call = Call {
                state: CallState::Running.into(),
                ending: ending_,
                ..Call::default()
            };
            assert_eq!(ending(&call), expected);
        }
        let failed = |reason: FailureReason| {
            Some(call::Ending::Failed(CallFailed {
                reason: reason.into(),
                ..CallFailed::default()
            }))
        };
        check(None, "is still running");
        check(
            Some(call::Ending::Completed(CallCompleted::default())),
            "had already completed",
        );
        check(failed(FailureReason::Cancelled), "is cancelled");
        check(failed(FailureReason::TimedOut), "had already failed: timed out");
    }
}
