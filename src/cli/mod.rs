//! The command line: a client of the contract like any other, and the way to start the service.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | completed |
//! | 1 | the call failed |
//! | 2 | invalid: the command line, the configuration, or the arguments of a tool |
//! | 3 | denied by a rule, rejected by a person, or nobody was there to allow it |
//! | 4 | cancelled or timed out |
//! | 5 | the server cannot be reached or started |
//! | 6 | a person would be asked (`call --dry-run`) |
//! | 7 | a worker ended because another run may have its workspaces |
//! | 8 | not found: a tool, a call, a session, an output, or a path given to `files` |
//! | 9 | the server refused the request, or failed at it |
//! | 130 | interrupted |
//!
//! *Invariant:* what a command knows of a running service, it knows through the library `toolgate-client`; only `service`
//! starts one. Nothing here ends the process: `main` does.

mod acp;
mod answers;
mod approve;
mod arguments;
mod attach;
mod audit;
mod call;
mod calls;
mod completions;
mod config;
mod connection;
mod consent;
mod credentials;
mod diff;
mod dry_run;
mod events;
mod exit;
mod files;
mod folder;
mod forward;
mod gateway;
mod globals;
mod grants;
mod greeting;
mod health;
mod help;
mod init;
mod install;
mod instances;
mod interrupts;
mod keyboard;
mod log;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(not(feature = "mcp"))]
#[path = "mcp_absent.rs"]
mod mcp;
mod output;
mod ports;
mod prompt;
mod revert;
mod rule;
mod scope;
mod send;
mod serve;
mod service;
mod session;
mod setup;
mod store;
mod taken;
mod terminal;
mod tools;
mod user;
mod view;
mod words;
mod workers;
mod workspaces;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use toolgate_config::service::LogFormat;

pub(crate) use exit::Exit;
use exit::Failure;
use globals::Globals;
pub(crate) use log::LogWriter;
pub(crate) use terminal::Colour;
use terminal::Terminal;

const EXIT_CODES: &str = "\
Exit codes:
  0    completed
  1    the call failed
  2    invalid: the command line, the configuration, or the arguments of a tool
  3    denied by a rule, rejected by a person, or nobody was there to allow it
  4    cancelled or timed out
  5    the server cannot be reached or started
  6    a person would be asked (call --dry-run)
  7    a worker ended because another run may have its workspaces (serve)
  8    not found: a tool, a call, a session, an output, or a path given to `files`
  9    the server refused the request, or failed at it
  130  interrupted

Results go to standard output, everything else to standard error. TOOLGATE_LOG filters the log
(for instance TOOLGATE_LOG=toolgate=debug).";

/// Runs an AI agent's tools behind one gRPC contract, with a person in the loop.
#[derive(Debug, Parser)]
#[command(name = "toolgate", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a first, safe set of rules for a project, and report what was found in it.
    Init(init::InitArgs),
    /// Run the service until SIGTERM or SIGINT; a second signal exits at once.
    Serve(serve::ServeArgs),
    /// Run a gateway in the foreground: many workspaces behind one address.
    Gateway(gateway::GatewayArgs),
    /// List the tools that an agent may use, or show one with its schema.
    Tools(tools::ToolsArgs),
    /// Execute a tool, show what it does, and ask for permission in the terminal.
    Call(Box<call::CallArgs>),
    /// Serve the tools to an MCP client on standard input and output.
    Mcp(mcp::McpArgs),
    /// Start an agent for an editor (Agent Client Protocol), with Toolgate's tools and prompts.
    Acp(acp::AcpArgs),
    /// Add Toolgate to the settings of an MCP client, or remove it.
    Setup(setup::SetupArgs),
    /// Answer the prompts of a running server in the terminal.
    Approve(approve::ApproveArgs),
    /// List calls, newest first.
    Calls(calls::CallsArgs),
    /// Watch a call, running or ended. Leaving does not affect it.
    Watch(calls::WatchArgs),
    /// Cancel a call and wait for its end.
    Cancel(calls::CancelArgs),
    /// Send input to a command that runs in the background.
    Send(send::SendArgs),
    /// Connect this terminal to a background command that has a terminal.
    Attach(attach::AttachArgs),
    /// Undo what a call did to files.
    Revert(revert::RevertArgs),
    /// Read, search or delete the whole output of a call.
    Output(output::OutputArgs),
    /// Show, watch and change the files of a workspace.
    Files(files::FilesArgs),
    /// List the ports that commands listen on.
    Ports(ports::PortsArgs),
    /// Forward a local port to one that a command listens on, until interrupted.
    Forward(forward::ForwardArgs),
    /// List standing approvals, or revoke them.
    Grants(grants::GrantsArgs),
    /// List sessions, the one with the latest call first.
    Sessions(session::SessionsArgs),
    /// Show a session, or end it.
    Session(session::SessionArgs),
    /// List the workspaces, or open or close one.
    Workspaces(workspaces::WorkspacesArgs),
    /// List the workers of a gateway.
    Workers(workers::WorkersArgs),
    /// Create, update, check or fill the database of the gateways.
    Store(store::StoreArgs),
    /// Stream what happens in the workspaces.
    Events(events::EventsArgs),
    /// Export or verify the record of who did what, by which rule.
    Audit(audit::AuditArgs),
    /// Print the configuration in force and where each value comes from.
    Config(config::ConfigArgs),
    /// Ask a running server whether it takes calls, for probes that run a command.
    Health(health::HealthArgs),
    /// Copy this program to a file, for images without `cp`.
    Install(install::InstallArgs),
    /// Print the completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Write the manual pages to a directory.
    Man(man::ManArgs),
}

impl Cli {
    /// Reads the command line. Help, the version and mistakes end the program here.
    pub(crate) fn read() -> Self {
        let mut command = help::arranged(Self::command());
        let matches = command.get_matches_mut();
        let read = help::check(&mut command, &matches).and_then(|()| Self::from_arg_matches(&matches));
        read.unwrap_or_else(|error| error.format(&mut command).exit())
    }

    /// Runs the command and reports its failure; what is left to do is to exit.
    pub(crate) async fn run(self) -> Exit {
        words::show_times_in_utc(self.globals.utc);
        let terminal = Terminal {
            logs_messages: self.log().0 == LogFormat::Json,
            serves: matches!(self.command, Command::Serve(_) | Command::Gateway(_)),
            ..Terminal::new(self.globals.json, self.globals.color, self.globals.verbose)
        };
        if self.command.uses_servers() {
            for warning in service::unknown_variables() {
                terminal.warning(&warning);
            }
        }
        match self.command.run(&self.globals, &terminal).await {
            Ok(exit) => exit,
            Err(Failure::BrokenPipe) => Exit::Completed,
            Err(failure) => {
                terminal.error(&failure.describe(terminal.verbose));
                failure.exit()
            }
        }
    }

    /// Returns when colour was asked for.
    pub(crate) fn colour(&self) -> Colour {
        self.globals.color
    }

    /// Returns how and what to log: what the configuration of the service says for `serve`, otherwise lines for people.
    /// `-v` is stronger than both; `TOOLGATE_LOG` is stronger still.
    pub(crate) fn log(&self) -> (LogFormat, String) {
        let serves = matches!(self.command, Command::Serve(_) | Command::Gateway(_));
        let configured = serves
            .then(|| service::log_settings(self.globals.config.clone()))
            .flatten();
        let format = configured.as_ref().map_or(LogFormat::Text, |log| log.format);
        let filter = match (self.globals.verbose, configured) {
            (0, Some(log)) => log.filter,
            _ => self.default_filter().to_owned(),
        };
        (format, filter)
    }

    /// Returns where the log goes: to standard error, without the secrets that the configuration names.
    pub(crate) fn log_writer(&self) -> LogWriter {
        // Only commands that run a service have anything to hide; what is wrong with the settings they report themselves.
        let runs_service = matches!(
            self.command,
            Command::Serve(_)
                | Command::Gateway(_)
                | Command::Call(_)
                | Command::Files(_)
                | Command::Tools(_)
                | Command::Revert(_)
                | Command::Mcp(_)
        );
        let redactor = runs_service.then(|| service::redactor(self.globals.config.clone()));
        LogWriter::new(redactor.flatten().unwrap_or_default())
    }

    fn default_filter(&self) -> &'static str {
        match (self.globals.verbose, &self.command) {
            (0, Command::Serve(_) | Command::Gateway(_)) => "info",
            // They may start a service: what its rules do not mean, and which of its tools are left out. A client keeps what
            // `mcp` says.
            (0, Command::Mcp(_) | Command::Call(_) | Command::Files(_) | Command::Tools(_) | Command::Revert(_)) => {
                "warn"
            }
            // Services of its sessions come and go.
            (0, Command::Acp(_)) => "error",
            // Why a command waits.
            (0, _) => "error,toolgate_client::retry=warn",
            (1, Command::Serve(_) | Command::Gateway(_)) => "toolgate=debug,info",
            (1, _) => "warn",
            (2.., _) => "toolgate=debug,info",
        }
    }
}

impl Command {
    /// Says whether it is a client, which tells itself of variables that are most likely misspelt. The others report on the whole
    /// configuration, or read none.
    fn uses_servers(&self) -> bool {
        !matches!(
            self,
            Self::Init(_)
                | Self::Serve(_)
                | Self::Gateway(_)
                | Self::Store(_)
                | Self::Config(_)
                | Self::Install(_)
                | Self::Completions(_)
                | Self::Man(_)
        )
    }

    async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Init(args) => args.run(terminal).await,
            Self::Serve(args) => args.run(globals, terminal).await,
            Self::Gateway(args) => args.run(globals, terminal).await,
            Self::Tools(args) => args.run(globals, terminal).await,
            Self::Call(args) => args.run(globals, terminal).await,
            Self::Mcp(args) => args.run(globals, terminal).await,
            Self::Acp(args) => args.run(globals, terminal).await,
            Self::Setup(args) => args.run(globals, terminal).await,
            Self::Approve(args) => args.run(globals, terminal).await,
            Self::Calls(args) => args.run(globals, terminal).await,
            Self::Watch(args) => args.run(globals, terminal).await,
            Self::Cancel(args) => args.run(globals, terminal).await,
            Self::Send(args) => args.run(globals, terminal).await,
            Self::Attach(args) => args.run(globals, terminal).await,
            Self::Revert(args) => args.run(globals, terminal).await,
            Self::Output(args) => args.run(globals, terminal).await,
            Self::Files(args) => args.run(globals, terminal).await,
            Self::Ports(args) => args.run(globals, terminal).await,
            Self::Forward(args) => args.run(globals, terminal).await,
            Self::Grants(args) => args.run(globals, terminal).await,
            Self::Sessions(args) => args.run(globals, terminal).await,
            Self::Session(args) => args.run(globals, terminal).await,
            Self::Workspaces(args) => args.run(globals, terminal).await,
            Self::Workers(args) => args.run(globals, terminal).await,
            Self::Store(args) => args.run(globals, terminal).await,
            Self::Events(args) => args.run(globals, terminal).await,
            Self::Audit(args) => args.run(globals, terminal).await,
            Self::Config(args) => args.run(globals, terminal),
            Self::Health(args) => args.run(globals, terminal).await,
            Self::Install(args) => args.run(terminal),
            Self::Completions(args) => args.run(Cli::command(), terminal),
            Self::Man(args) => args.run(Cli::command(), terminal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
