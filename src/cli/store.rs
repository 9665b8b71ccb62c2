//! `toolgate store`: the database that gateways share, brought up to date, looked at, and given the history of one machine.
//!
//! *Invariant:* what is printed has no password in it. Nothing is changed but by `migrate` and `import`, and no data directory is.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use toolgate_config::Config;
use toolgate_gateway::store::{self, Imported, SchemaState};
use toolgate_store::local::export::Export;

use super::audit;
use super::exit::{Exit, Failure, with_causes};
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
    /// Create the tables, or bring them up to date. It only adds to them, so gateways of the previous release keep working meanwhile.
    Migrate,
    /// Say whether a gateway of this release can use the database. Exit code 0 if it can, 1 if the tables must be migrated first,
    /// 5 if it cannot be reached or used.
    Check,
    /// Import the history of a single service into the database, which must be empty: calls with their logs and outputs, prompts,
    /// permanent grants, the journal and the audit. Stop the service first. Calls that had not ended are recorded as lost, except those
    /// that wait for a person. Everything is imported and verified, or nothing is. The data directory is not changed. Exit code 5 if
    /// the import fails.
    Import(ImportArgs),
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// The data directory of the service (`data_dir`).
    #[arg(value_name = "DATA_DIR")]
    data_dir: PathBuf,
    /// Only report what would be imported.
    #[arg(long)]
    dry_run: bool,
    /// An earlier key of the audit, to verify the chain with in addition to the configured one. May be given more than once.
    #[arg(long, value_name = "FILE")]
    key_file: Vec<PathBuf>,
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
            StoreCommand::Import(args) => args.run(&config, &place, terminal).await,
        }
    }
}

impl ImportArgs {
    async fn run(self, config: &Config, place: &str, terminal: &Terminal) -> Result<Exit, Failure> {
        let keys = self.key_file.iter().map(|path| audit::key(path));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let mut export = Export::open(&self.data_dir).map_err(|error| Failure::Usage(with_causes(&error)))?;
        let imported = match self.dry_run {
            true => store::look(config, &mut export).await,
            false => store::import(config, &mut export, keys).await,
        };
        let imported = imported.map_err(|error| unusable(place, &error))?;
        tell(&imported, place, &self.data_dir, self.dry_run, terminal)?;
        Ok(Exit::Completed)
    }
}

/// Says what was imported, or would be.
fn tell(imported: &Imported, place: &str, data_dir: &Path, is_tried: bool, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        let brought = serde_json::to_value(imported).map_err(Failure::Json)?;
        let record = json!({ "database": place, "data_dir": data_dir, "dry_run": is_tried, "brought": brought });
        return terminal.record(&record);
    }
    let Imported {
        counts,
        output_bytes,
        outputs_without_file,
        lost,
        waiting,
        head,
    } = imported;
    let what = if is_tried { "would be imported" } else { "imported" };
    terminal.line(&format!("{place}: {what} from {}", data_dir.display()))?;
    terminal.line(&format!(
        "calls     {}, with {} events and {} changes of files; {lost} had not ended and are lost, {waiting} wait for a person",
        counts.calls, counts.events, counts.changes
    ))?;
    terminal.line(&format!("prompts   {}", counts.prompts))?;
    terminal.line(&format!("grants    {}", counts.grants))?;
    terminal.line(&format!("sessions  {} facts", counts.facts))?;
    terminal.line(&format!(
        "outputs   {}, of {output_bytes} bytes; {outputs_without_file} more have no file any more",
        counts.outputs
    ))?;
    terminal.line(&format!("journal   {} events", counts.journal))?;
    let end = head
        .as_ref()
        .map(|head| format!(", to {} {}", head.sequence, head.hash));
    terminal.line(&format!(
        "audit     {} records{}",
        counts.audit,
        end.unwrap_or_default()
    ))
}

async fn migrate(config: &Config, place: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let before = store::check(config).await.map_err(|error| unusable(place, &error))?;
    store::migrate(config).await.map_err(|error| unusable(place, &error))?;
    let (was, text) = match before {
        SchemaState::Older { version: 0 } => (0, "created the tables".to_owned()),
        SchemaState::Older { version } => (
            version,
            format!("brought the tables up to date, from version {version}"),
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
            let text = format!("of version {version}, which is out of date: run `toolgate store migrate`");
            (text, Exit::Failed)
        }
        SchemaState::Equal => ("up to date".to_owned(), Exit::Completed),
        SchemaState::Newer { version } => {
            let text = format!("of version {version}, of a later release, which this release can use");
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
