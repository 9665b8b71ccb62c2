//! `toolgate tools`: what an agent may use, and one tool with its schema.

use clap::Args;
use serde_json::Value;
use toolgate_client::Client;
use toolgate_contract::{CallContext, ListToolsRequest, ModelRef, ToolDefinition};
use toolgate_permission::hints::nearest;

use super::arguments;
use super::connection::Connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::{Look, Terminal, short};
use super::words;

const SENTENCE: usize = 100;

/// For whom tools are listed.
#[derive(Clone, Debug, Args)]
pub(super) struct Viewpoint {
    /// The agent whose permissions count; `build` if none is named.
    #[arg(long, env = "TOOLGATE_AGENT", hide_env_values = true)]
    pub(super) agent: Option<String>,
    /// The model, as provider/model; some tools and schemas depend on it.
    #[arg(long, value_name = "PROVIDER/MODEL", value_parser = arguments::model)]
    pub(super) model: Option<ModelRef>,
    /// The workspace: its name, or a folder (`.`, or anything with a slash).
    #[arg(long, value_name = "NAME|DIR", env = "TOOLGATE_WORKSPACE", hide_env_values = true)]
    pub(super) workspace: Option<String>,
}

impl Viewpoint {
    /// Returns the context of a call of this command line.
    pub(super) fn context(&self, workspace: &str, session: Option<&str>) -> CallContext {
        CallContext {
            workspace: workspace.to_owned(),
            session_id: session.unwrap_or_default().to_owned(),
            agent: self.agent.clone().unwrap_or_default(),
            model: self.model.clone(),
            client_kind: "cli".to_owned(),
            client_name: concat!("toolgate/", env!("CARGO_PKG_VERSION")).to_owned(),
            ..CallContext::default()
        }
    }
}

/// Which tools to show.
#[derive(Debug, Args)]
pub(super) struct ToolsArgs {
    /// Show this tool: its description and the schema of its input.
    name: Option<String>,
    #[command(flatten)]
    viewpoint: Viewpoint,
    /// The kind of client: cli, app, desktop or another.
    #[arg(long, default_value = "cli")]
    client: String,
}

impl ToolsArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let connection = Connection::open(globals, self.viewpoint.workspace.as_deref()).await?;
        let listed = list(&connection.client, &connection.workspace, &self.viewpoint, &self.client).await;
        connection.close().await;
        let tools = listed?;
        match &self.name {
            Some(name) => match find(&tools, name) {
                Some(tool) => show(tool, terminal)?,
                None => return Err(unknown(name, &tools)),
            },
            None => show_all(&tools, terminal)?,
        }
        Ok(Exit::Completed)
    }
}

/// Returns every tool that the viewpoint has.
pub(super) async fn list(
    client: &Client,
    workspace: &str,
    viewpoint: &Viewpoint,
    kind: &str,
) -> Result<Vec<ToolDefinition>, Failure> {
    let request = ListToolsRequest {
        workspace: workspace.to_owned(),
        agent: viewpoint.agent.clone().unwrap_or_default(),
        model: viewpoint.model.clone(),
        client_kind: kind.to_owned(),
        ..ListToolsRequest::default()
    };
    Ok(client.list_tools(request).await?)
}

/// Returns the tool of this name, in any case if not in this one.
pub(super) fn find<'a>(tools: &'a [ToolDefinition], name: &str) -> Option<&'a ToolDefinition> {
    let exact = tools.iter().find(|tool| tool.name == name);
    exact.or_else(|| tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(name)))
}

/// Says that there is no tool of this name, and which there are.
pub(super) fn unknown(name: &str, tools: &[ToolDefinition]) -> Failure {
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let hint = nearest(name, names.iter().copied()).map_or_else(
        || format!("it has {}", names.join(", ")),
        |meant| format!("did you mean `{meant}`?"),
    );
    Failure::NotFound(format!("this agent has no tool `{name}`; {hint}"))
}

fn show_all(tools: &[ToolDefinition], terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        return tools.iter().try_for_each(|tool| terminal.message(tool));
    }
    let rows = tools
        .iter()
        .map(|tool| vec![tool.name.clone(), effects(tool), first_sentence(&tool.description)]);
    terminal.table(&["TOOL", "EFFECTS", "DESCRIPTION"], &rows.collect::<Vec<_>>())
}

fn show(tool: &ToolDefinition, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        return terminal.message(tool);
    }
    let out = terminal.out;
    let experimental = if tool.experimental { ", experimental" } else { "" };
    terminal.line(&format!(
        "{} ({}{experimental})",
        out.text(Look::Bold, &tool.name),
        words::tool_source(tool.source)
    ))?;
    terminal.line(&format!("{} {}", out.text(Look::Bold, "effects:"), effects(tool)))?;
    terminal.line(&format!(
        "{} {}",
        out.text(Look::Bold, "permissions:"),
        tool.permissions.join(", ")
    ))?;
    terminal.line(&format!("\n{}\n", tool.description.trim()))?;
    let schema = serde_json::from_str::<Value>(&tool.input_schema_json);
    let pretty = schema.and_then(|schema| serde_json::to_string_pretty(&schema));
    terminal.line(&format!(
        "{}\n{}",
        out.text(Look::Bold, "input schema:"),
        pretty.unwrap_or(tool.input_schema_json.clone())
    ))
}

fn effects(tool: &ToolDefinition) -> String {
    let words: Vec<_> = tool.effects.iter().map(|effect| words::tool_effect(*effect)).collect();
    words.join(", ")
}

/// Returns the first sentence of a description, as one line.
fn first_sentence(description: &str) -> String {
    let line = description.split("\n\n").next().unwrap_or_default();
    let end = line
        .find(". ")
        .or_else(|| line.find(".\n"))
        .map_or(line.len(), |end| end + 1);
    short(&line[..end], SENTENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_cut_to_a_sentence() {
        fn check(description: &str, expected: &str) {
            assert_eq!(first_sentence(description), expected);
        }
        check("Reads a file. With lines.", "Reads a file.");
        check("Reads a\nfile\n\nMore", "Reads a file");
        check("Reads `a.b` files.", "Reads `a.b` files.");
        check("", "");
    }

    #[test]
    fn names_are_found_in_any_case() {
        let tool = |name: &str| ToolDefinition {
            name: name.into(),
            ..ToolDefinition::default()
        };
        let tools = [tool("Bash"), tool("bash")];
        assert_eq!(find(&tools, "bash").map(|tool| tool.name.as_str()), Some("bash"));
        assert_eq!(find(&tools, "BASH").map(|tool| tool.name.as_str()), Some("Bash"));
        assert!(find(&tools, "sh").is_none());
    }
}
