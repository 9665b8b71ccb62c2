//! `toolgate store`: the database that gateways share, brought up to date and looked at.
//!
//! *Invariant:* what is printed has no password in it. Nothing is changed but by `migrate`.

use clap::{Args, Subcommand};
use serde_json::json;
use toolgate_config::Config;
use toolgate_gateway::store::{self, SchemaState};

use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::service::{self, Flags};
use super::terminal::Terminal;

/// What to do with the database of the gateways (`cluster.store`).
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Bring the tables up to date, or make them. It only adds: gateways of the release before go on meanwhile.
    Migrate,
    /// Say whether a gateway of this release can use the database. Exit code 0 if it can, 1 if the tables must be migrated first,
    /// 5 if it cannot be reached or used.
    Check,
}

impl StoreArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let flags = Flags {
            config: globals.config.clone(),
            ..Flags::default()
        };
        let config = service::gateway_config(&flags)?;
        let Some(database) = config.cluster.database() else {
            let problem = "the configuration names no database: set cluster.store, or cluster.store_file";
            return Err(Failure::Configuration(problem.to_owned()));
        };
        let place = database.shown();
        match self.command {
            StoreCommand::Migrate => migrate(&config, &place, terminal).await,
            StoreCommand::Check => check(&config, &place, terminal).await,
        }
    }
}

async fn migrate(config: &Config, place: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let before = store::check(config).await.map_err(|error| unusable(place, &error))?;
    store::migrate(config).await.map_err(|error| unusable(place, &error))?;
    let (was, text) = match before {
        SchemaState::Older { version: 0 } => (0, "the tables are made".to_owned()),
        SchemaState::Older { version } => (
            version,
            format!("the tables are brought up to date, from version {version}"),
        ),
        SchemaState::Equal | SchemaState::Newer { .. } => (0, "the tables were up to date".to_owned()),
    };
    if terminal.json {
        terminal.record(
            &json!({ "database": place, "migrated": matches!(before, SchemaState::Older { .. }), "was": was }),
        )?;
    } else {
        terminal.line(&format!("{place}: {text}"))?;
    }
    Ok(Exit::Completed)
}

async fn check(config: &Config, place: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let state = store::check(config).await.map_err(|error| unusable(place, &error))?;
    let (tables, exit) = match state {
        SchemaState::Older { version: 0 } => ("there are none: run `toolgate store migrate`".to_owned(), Exit::Failed),
        SchemaState::Older { version } => {
            let text = format!("of version {version}, an earlier one: run `toolgate store migrate`");
            (text, Exit::Failed)
        }
        SchemaState::Equal => ("up to date".to_owned(), Exit::Completed),
        SchemaState::Newer { version } => {
            let text = format!("of version {version}, of a later release, which this one goes on with");
            (text, Exit::Completed)
        }
    };
    if exit == Exit::Completed {
        // As a gateway does: what it needs beside the tables is looked at by the way.
        store::try_out(config).await.map_err(|error| unusable(place, &error))?;
    }
    let is_usable = exit == Exit::Completed;
    if terminal.json {
        terminal.record(&json!({ "database": place, "usable": is_usable, "tables": tables }))?;
        return Ok(exit);
    }
    terminal.line(&format!("database    {place}, reachable"))?;
    terminal.line(&format!("tables      {tables}"))?;
    if is_usable {
        terminal.line("durability  what is committed is on its disk")?;
        terminal.line("partitions  made ahead")?;
    }
    Ok(exit)
}

fn unusable(place: &str, error: &anyhow::Error) -> Failure {
    Failure::Database(format!("{place}: {error:#}"))
}
