//! `toolgate ports`: what the programs of calls listen on.

use clap::Args;
use toolgate_client::Client;
use toolgate_contract::{Call, CallState, ListCallsRequest, ListeningChanged};

use super::calls;
use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::{Terminal, on_one_line, visible};

/// How many of the newest calls are looked at, beside those that run.
const NEWEST: u32 = 500;

/// Pages in which they are looked for: one may have fewer than were asked for.
const PAGES: usize = 50;

/// Whose ports to list.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a call: every running call, and those of the newest 500 that left programs running.
`toolgate forward CALL PORT` reaches a port.")]
pub(super) struct PortsArgs {
    /// The call's id.
    call: Option<String>,
}

impl PortsArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut found = Vec::new();
        match self.call {
            Some(id) => {
                let client = connection::connect_for(globals, &id).await?;
                found.push(client.get_call(id).await?);
            }
            None => {
                for (_, client) in connection::connect_all(globals).await? {
                    found.extend(with_programs(&client).await?);
                }
            }
        }
        found.retain(|call| !call.listening.is_empty());
        if terminal.json {
            found.into_iter().try_for_each(|call| {
                terminal.message(&ListeningChanged {
                    call_id: call.call_id,
                    ports: call.listening,
                })
            })?;
            return Ok(Exit::Completed);
        }
        let ports = found
            .iter()
            .flat_map(|call| call.listening.iter().map(move |port| (call, port)));
        let rows = ports.map(|(call, port)| {
            vec![
                call.call_id.clone(),
                port.port.to_string(),
                visible(&port.address).into_owned(),
                port.pid.to_string(),
                on_one_line(&port.command),
            ]
        });
        let headings = ["CALL", "PORT", "ADDRESS", "PID", "COMMAND"];
        terminal.table(&headings, &rows.collect::<Vec<_>>())?;
        Ok(Exit::Completed)
    }
}

/// Returns the calls of a service whose programs may listen.
async fn with_programs(client: &Client) -> Result<Vec<Call>, Failure> {
    let running = ListCallsRequest {
        workspace: connection::ALL_WORKSPACES.to_owned(),
        states: vec![CallState::Running.into(), CallState::Waiting.into()],
        ..ListCallsRequest::default()
    };
    let ended = ListCallsRequest {
        states: vec![CallState::Completed.into(), CallState::Failed.into()],
        ..running.clone()
    };
    let mut listed = client.list_calls(running).await?;
    calls::each(client, ended, NEWEST, PAGES, &mut |call| {
        if !call.background_processes.is_empty() {
            listed.push(call);
        }
        Ok(())
    })
    .await?;
    let mut found = Vec::with_capacity(listed.len());
    for call in listed {
        // Only the record of one call has its ports.
        found.push(client.get_call(call.call_id).await?);
    }
    Ok(found)
}
