//! `toolgate mcp login` and `logout`: logging in at a server of tools that the configuration names.
//!
//! *Invariant:* no token is shown. No service is asked: one that runs sees the login where it is stored.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use toolgate_server::app::mcp_login::{LoginPlace, Wanted};

use super::super::exit::{Exit, Failure};
use super::super::globals::Globals;
use super::super::interrupts::Interrupts;
use super::super::service;
use super::super::terminal::{Terminal, counted, visible};
use super::offers::{ListArgs, PromptOfServer, ReadArgs};

/// What to do about servers of tools, in the place of serving tools.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Log in at an MCP server of the configuration (OAuth), in a browser.
    Login(LoginArgs),
    /// Forget the login at an MCP server.
    Logout(LogoutArgs),
    /// List the resources of MCP servers, and the templates of addresses.
    Resources(ListArgs),
    /// Read a resource of an MCP server.
    Read(ReadArgs),
    /// List the prompts of MCP servers.
    Prompts(ListArgs),
    /// Get a prompt of an MCP server with its arguments.
    Prompt(PromptOfServer),
}

/// Where to log in.
#[derive(Debug, Args)]
#[command(after_help = "\
The page to log in on is printed; the browser that visits it has to reach this machine. From elsewhere, forward a port
(`ssh -L 8123:127.0.0.1:8123 …`) and name it by --port. A service that runs as the same user sees the login within a second.")]
pub(super) struct LoginArgs {
    /// The server's name in `opencode.json`, below `mcp`
    name: String,
    /// The folder whose configuration names it; otherwise the current folder, and then the workspaces of toolgate.toml
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The port of this machine that the browser comes back to; otherwise `oauth.callbackPort`, or any
    #[arg(long)]
    port: Option<u16>,
}

/// Where to log out.
#[derive(Debug, Args)]
pub(super) struct LogoutArgs {
    /// The server's name in `opencode.json`, below `mcp`
    name: String,
    /// The folder whose configuration names it; otherwise the current folder, and then the workspaces of toolgate.toml
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl Action {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Login(args) => args.run(globals, terminal).await,
            Self::Logout(args) => args.run(globals, terminal),
            Self::Resources(args) => args.resources(globals, terminal).await,
            Self::Read(args) => args.run(globals, terminal).await,
            Self::Prompts(args) => args.prompts(globals, terminal).await,
            Self::Prompt(args) => args.run(globals, terminal).await,
        }
    }
}

impl LoginArgs {
    async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::listen()?;
        let place = service::login_place(globals.config.clone(), self.workspace.clone(), &self.name)?;
        tokio::select! {
            done = self.log_in(&place, terminal) => done,
            () = interrupts.next() => Ok(Exit::Interrupted),
        }
    }

    async fn log_in(&self, place: &LoginPlace, terminal: &Terminal) -> Result<Exit, Failure> {
        let name = visible(&self.name);
        let visit = match place.begin(self.port).await.map_err(failed)? {
            Wanted::Visit(visit) => visit,
            Wanted::Nothing(tools) => {
                terminal.inform(&format!("{name} needs no login, and has {}", counted(tools, "tool")));
                return Ok(Exit::Completed);
            }
        };
        let scopes = visit.scopes();
        let asked = match scopes.is_empty() {
            true => "the login asks for no specific scopes".to_owned(),
            false => format!("the login asks for these scopes: {}", visible(&scopes.join(" "))),
        };
        terminal.inform(&asked);
        terminal.inform(&format!("to log in at {}, visit this page:", visible(place.url())));
        if terminal.json {
            terminal.record(&json!({"visit": visit.address(), "scopes": scopes}))?;
        } else {
            terminal.line(&visible(visit.address()))?;
        }
        terminal.inform(&format!(
            "waiting for the browser to be redirected to {} …",
            visit.listens()
        ));
        let tools = place.complete(&visit).await.map_err(failed)?;
        let file = place.file().display();
        let tools = counted(tools, "tool");
        terminal.inform(&format!(
            "logged in at {name}, which has {tools}; the login is in {file}"
        ));
        Ok(Exit::Completed)
    }
}

impl LogoutArgs {
    fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let name = visible(&self.name);
        let place = service::login_place(globals.config.clone(), self.workspace.clone(), &self.name)?;
        let was_there = place.forget().map_err(failed)?;
        let what = if was_there { "forgotten" } else { "not there" };
        terminal.inform(&format!(
            "the login at {name} is {what}; a service that uses it does so until it expires"
        ));
        if place.is_known_to_opencode() {
            terminal.inform("OpenCode has a login there, which is used: `opencode mcp logout` forgets that");
        }
        Ok(Exit::Completed)
    }
}

fn failed(error: anyhow::Error) -> Failure {
    Failure::Login(format!("{error:#}"))
}
