//! `toolgate mcp resources`, `read`, `prompts` and `prompt`: what MCP servers of a workspace have beside tools.
//!
//! *Invariant:* a reading is a call, whose prompts are answered here as those of `toolgate call`. What a server says cannot fool a
//! terminal.

use clap::Args;
use toolgate_client::Client;
use toolgate_contract::mcp_prompt_message::Content;
use toolgate_contract::mcp_resource_contents::Content as Contents;
use toolgate_contract::{
    CallContext, ListMcpPromptsRequest, ListMcpResourceTemplatesRequest, ListMcpResourcesRequest, McpMedia,
    McpOmission, McpPrompt, McpResourceContents, McpRole,
};

use super::super::answers::PromptArgs;
use super::super::arguments;
use super::super::connection::Connection;
use super::super::exit::{Exit, Failure};
use super::super::globals::Globals;
use super::super::interrupts::Interrupts;
use super::super::terminal::{Look, Terminal, bytes, on_one_line, visible};
use super::super::tools::Viewpoint;

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 it could not be done, 2 invalid, 3 denied or rejected, 4 cancelled, 5 no server, 8 there is none,
9 the server refused, 130 interrupted.";

/// Whose servers are meant, and in whose name.
#[derive(Debug, Args)]
pub(super) struct Place {
    #[command(flatten)]
    viewpoint: Viewpoint,
    /// The session; standing approvals may hold for one session alone
    #[arg(long, env = "TOOLGATE_SESSION", hide_env_values = true)]
    session: Option<String>,
}

/// Which lists to show.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// The server's name in `opencode.json`, below `mcp`; without it, all servers
    #[arg(value_name = "NAME")]
    of: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Which resource to read.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ReadArgs {
    /// The server's name
    #[arg(value_name = "NAME")]
    of: String,
    /// The address of the resource
    uri: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    prompts: PromptArgs,
}

/// Which prompt to get.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct PromptOfServer {
    /// The server's name
    #[arg(value_name = "NAME")]
    of: String,
    /// The prompt's name
    prompt: String,
    /// An argument of the prompt
    #[arg(value_name = "KEY=VALUE", value_parser = arguments::variable)]
    arguments: Vec<(String, String)>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    prompts: PromptArgs,
}

/// Something that is done at a service, in a context.
async fn at(
    place: &Place,
    prompts: Option<&PromptArgs>,
    (globals, terminal): (&Globals, &Terminal),
    what: impl AsyncFnOnce(Client, CallContext) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let workspace = place.viewpoint.workspace.as_deref();
    if prompts.is_some_and(PromptArgs::leaves) {
        Connection::must_outlive(globals, workspace).await?;
    }
    let mut interrupts = Interrupts::listen()?;
    let connection = Connection::attach(globals, workspace, terminal).await?;
    let context = place.viewpoint.context(&connection.workspace, place.session.as_deref());
    let done = tokio::select! {
        done = what(connection.client.clone(), context) => done.map(|()| Exit::Completed).map_err(Failure::into_refusal),
        () = interrupts.next() => Ok(Exit::Interrupted),
    };
    connection.end(done).await
}

impl ListArgs {
    pub(super) async fn resources(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let server = self.of.unwrap_or_default();
        at(&self.place, None, (globals, terminal), async |client, context| {
            let listed = client.list_mcp_resources(ListMcpResourcesRequest {
                context: Some(context.clone()),
                server: server.clone(),
                ..ListMcpResourcesRequest::default()
            });
            let listed = listed.await?;
            let templates = client.list_mcp_resource_templates(ListMcpResourceTemplatesRequest {
                context: Some(context),
                server,
                ..ListMcpResourceTemplatesRequest::default()
            });
            let templates = templates.await?;
            if terminal.json {
                listed.resources.iter().try_for_each(|one| terminal.message(one))?;
                templates.templates.iter().try_for_each(|one| terminal.message(one))?;
            } else {
                let resources = listed.resources.iter().map(|one| {
                    let name = [&one.title, &one.name];
                    [&one.server, &one.uri, &one.mime_type, named(name), &one.description]
                });
                let templates = templates.templates.iter().map(|one| {
                    let name = [&one.title, &one.name];
                    [
                        &one.server,
                        &one.uri_template,
                        &one.mime_type,
                        named(name),
                        &one.description,
                    ]
                });
                let rows = resources.chain(templates);
                let rows: Vec<_> = rows.map(|row| row.map(|cell| on_one_line(cell)).to_vec()).collect();
                terminal.table(&["SERVER", "ADDRESS", "TYPE", "NAME", "DESCRIPTION"], &rows)?;
            }
            tell(&listed.omitted, terminal);
            Ok(())
        })
        .await
    }

    pub(super) async fn prompts(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let server = self.of.unwrap_or_default();
        at(&self.place, None, (globals, terminal), async |client, context| {
            let listed = client.list_mcp_prompts(ListMcpPromptsRequest {
                context: Some(context),
                server,
                ..ListMcpPromptsRequest::default()
            });
            let listed = listed.await?;
            if terminal.json {
                listed.prompts.iter().try_for_each(|one| terminal.message(one))?;
            } else {
                let rows = listed.prompts.iter().map(|one| {
                    let taken = taken(one);
                    [&one.server, &one.name, &taken, &one.description]
                        .map(|cell| on_one_line(cell))
                        .to_vec()
                });
                terminal.table(
                    &["SERVER", "PROMPT", "ARGUMENTS", "DESCRIPTION"],
                    &rows.collect::<Vec<_>>(),
                )?;
            }
            tell(&listed.omitted, terminal);
            Ok(())
        })
        .await
    }
}

impl ReadArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        at(
            &self.place,
            Some(&self.prompts),
            (globals, terminal),
            async |client, context| {
                let request = client.read_mcp_resource(&self.of, &self.uri).context(context);
                let read = self
                    .prompts
                    .run((&client, terminal), request, |request| request.run())
                    .await?;
                if terminal.json {
                    return terminal.message(&read);
                }
                read.contents.iter().try_for_each(|one| print(one, terminal))
            },
        )
        .await
    }
}

impl PromptOfServer {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        at(
            &self.place,
            Some(&self.prompts),
            (globals, terminal),
            async |client, context| {
                let mut request = client.get_mcp_prompt(&self.of, &self.prompt).context(context);
                for (name, value) in &self.arguments {
                    request = request.argument(name, value);
                }
                let got = self
                    .prompts
                    .run((&client, terminal), request, |request| request.run())
                    .await?;
                if terminal.json {
                    return terminal.message(&got);
                }
                for message in &got.messages {
                    let role = match message.role() {
                        McpRole::User => "user:",
                        McpRole::Assistant => "assistant:",
                        McpRole::Unspecified => "message:",
                    };
                    terminal.line(&terminal.out.text(Look::Bold, role))?;
                    let media = |what: &str, media: &McpMedia| attached(what, &media.mime_type, media.data.len());
                    match &message.content {
                        Some(Content::Text(text)) => terminal.line(&visible(text))?,
                        Some(Content::Image(image)) => terminal.line(&media("image", image))?,
                        Some(Content::Audio(audio)) => terminal.line(&media("audio", audio))?,
                        Some(Content::Link(link)) => {
                            terminal.line(&format!("[resource {}]", on_one_line(&link.uri)))?
                        }
                        Some(Content::OtherJson(json)) => terminal.line(&visible(json))?,
                        Some(Content::Resource(resource)) => match &resource.content {
                            Some(Contents::Text(text)) => terminal.line(&visible(text))?,
                            Some(Contents::Blob(blob)) => {
                                terminal.line(&attached("resource", &resource.mime_type, blob.len()))?;
                            }
                            None => {}
                        },
                        None => {}
                    }
                }
                Ok(())
            },
        )
        .await
    }
}

/// Returns the first that is not empty.
fn named(names: [&String; 2]) -> &String {
    if names[0].is_empty() { names[1] } else { names[0] }
}

/// Returns what a prompt takes; what it need not be given is in brackets.
fn taken(prompt: &McpPrompt) -> String {
    let arguments = prompt.arguments.iter().map(|argument| match argument.required {
        true => argument.name.clone(),
        false => format!("[{}]", argument.name),
    });
    arguments.collect::<Vec<_>>().join(" ")
}

/// Says that something is there that a terminal does not show.
fn attached(what: &str, mime_type: &str, size: usize) -> String {
    let size = bytes(i64::try_from(size).unwrap_or(i64::MAX));
    match mime_type {
        "" => format!("[{what}, {size}]"),
        mime_type => format!("[{what}, {}, {size}]", on_one_line(mime_type)),
    }
}

/// Prints a content as it is, but for what could fool a person.
fn print(contents: &McpResourceContents, terminal: &Terminal) -> Result<(), Failure> {
    let is_seen = terminal.shows_output;
    match &contents.content {
        Some(Contents::Text(text)) if is_seen => terminal.line(&visible(text)),
        Some(Contents::Text(text)) => terminal.bytes(text.as_bytes()),
        Some(Contents::Blob(blob)) if is_seen => terminal.line(&attached(
            "bytes, which a file or a pipe would get",
            &contents.mime_type,
            blob.len(),
        )),
        Some(Contents::Blob(blob)) => terminal.bytes(blob),
        None => Ok(()),
    }
}

/// Says which servers are left out.
fn tell(omitted: &[McpOmission], terminal: &Terminal) {
    for left in omitted {
        let problem = format!(
            "{} is left out: {}",
            on_one_line(&left.server),
            on_one_line(&left.problem)
        );
        let mark = terminal.err.text(Look::Yellow, "warning:");
        terminal.inform(&format!("{mark} {problem}"));
    }
}
