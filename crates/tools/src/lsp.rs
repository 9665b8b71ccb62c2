//! `lsp`: asks language servers about code (`docs/spec/skills-and-lsp.md` §B).
//!
//! *Invariant:* no server is started and no file looked at before the permission is given. Results are the servers' JSON as it
//! is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_fs::ResolvedPath;
use toolgate_fs::files::locate;
use toolgate_fs::open::Kind;
use toolgate_lsp::{Client, Document, Fitting, LanguageServers, MAX_WAIT, RequestError};
use toolgate_model::{Ask, Effect, JsonMap, OutputText, ToolOutput, json_map};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool};

const NO_SERVER: &str = "No LSP server available for this file type.";

/// What is kept of the symbols of a workspace: classes, enums, interfaces, functions, variables, constants, structs and
/// methods, so many of each server.
const SYMBOL_KINDS: [u64; 8] = [5, 6, 10, 11, 12, 13, 14, 23];
const MAX_SYMBOLS: usize = 10;

/// How long a server that is still reading the workspace is waited for when it knows of nothing.
const WARM_UP: Duration = Duration::from_secs(20);

/// Bytes of the results in the metadata; larger ones are in the output only.
const MAX_RESULT: usize = 256 << 10;

/// The tool, for one workspace.
pub struct AskServers {
    servers: LanguageServers,
}

/// What can be asked; what each means is in the tool's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Operation {
    GoToDefinition,
    FindReferences,
    Hover,
    DocumentSymbol,
    WorkspaceSymbol,
    GoToImplementation,
    PrepareCallHierarchy,
    IncomingCalls,
    OutgoingCalls,
}

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// What to ask
    operation: Operation,
    /// The path of the file, absolute or relative to the workspace
    file_path: String,
    /// The line, counting from 1
    #[schemars(range(min = 1))]
    line: u32,
    /// The character in the line, counting from 1
    #[schemars(range(min = 1))]
    character: u32,
    /// What to look for, for workspaceSymbol; everything if left out
    query: Option<String>,
}

impl AskServers {
    /// Makes the tool for the servers of a workspace.
    pub fn new(servers: LanguageServers) -> Self {
        Self { servers }
    }
}

#[async_trait]
impl TypedTool for AskServers {
    type Input = Input;

    const ABOUT: About = About {
        name: "lsp",
        effects: &[Effect::Reads, Effect::RunsPrograms],
        permissions: &["external_directory", "lsp"],
        advertised: true,
        properties: Properties::RESUMABLE,
        example: r#"{"operation": "hover", "filePath": "src/main.rs", "line": 1, "character": 4}"#,
    };

    const EXPERIMENTAL: bool = true;

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("lsp.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["operation", "filePath", "query"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let located = locate(&ctx.workspace, input.file_path.clone()).await?;
        let path = located.path;
        let operation = input.operation.name();
        let title = format!("{operation} {}:{}:{}", path.relative(), input.line, input.character);
        let ask = Ask {
            always: vec!["*".to_owned()],
            title: title.clone(),
            metadata: json_map([
                ("operation", json!(operation)),
                ("filePath", json!(path.display_path().to_string_lossy())),
                ("line", json!(input.line)),
                ("character", json!(input.character)),
            ]),
            ..Ask::new("lsp", vec!["*".to_owned()])
        };
        ctx.ask_outside(&path, false, vec![ask.clone()]).await?;
        ctx.permission.ask(ask).await?;
        if located.kind != Kind::Regular {
            return Err(ToolError::failed(format!(
                "File not found: {}",
                path.display_path().display()
            )));
        }
        let result = tokio::select! {
            result = self.ask(&input, &path) => result?,
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
        };
        let output = if result.is_empty() {
            format!("No results found for {operation}")
        } else {
            serde_json::to_string_pretty(&result).map_err(|error| ToolError::Internal(Box::new(error)))?
        };
        Ok(ToolOutput {
            title,
            metadata: metadata(result, output.len()),
            output: OutputText::Text(output),
            attachments: Vec::new(),
            result: None,
        })
    }
}

impl AskServers {
    async fn ask(&self, input: &Input, path: &ResolvedPath) -> Result<Vec<Value>, ToolError> {
        let fitting = self.servers.for_file(path).await;
        if fitting.clients.is_empty() {
            return Err(ToolError::Failed(no_server(&fitting)));
        }
        let opened = fitting.clients.iter().map(|client| opened(client, path));
        let mut documents = Vec::new();
        for opened in join_all(opened).await {
            documents.push(opened?);
        }
        let known = fitting.clients.iter().zip(&documents);
        let answers: Vec<Result<Vec<Value>, RequestError>> = if input.operation == Operation::WorkspaceSymbol {
            let running = self.servers.running();
            join_all(running.iter().map(|client| patiently(client, input, path, ""))).await
        } else {
            join_all(known.map(|(client, document)| patiently(client, input, path, &document.text))).await
        };
        gathered(answers)
    }
}

/// Joins what the servers have answered. That none of them could answer is an error.
fn gathered(answers: Vec<Result<Vec<Value>, RequestError>>) -> Result<Vec<Value>, ToolError> {
    let (mut results, mut problems, mut answered) = (Vec::new(), Vec::new(), false);
    for answer in answers {
        match answer {
            Ok(list) => {
                answered = true;
                results.extend(list);
            }
            Err(problem) => problems.push(problem.to_string()),
        }
    }
    if !answered && !problems.is_empty() {
        let problems = problems.join("; ");
        return Err(ToolError::failed(format!(
            "There is no answer: {problems}. Try again, or use grep."
        )));
    }
    Ok(results)
}

fn no_server(fitting: &Fitting) -> String {
    let mut text = NO_SERVER.to_owned();
    for unavailable in &fitting.unavailable {
        text.push_str(&format!("\n{unavailable}"));
    }
    text
}

/// Tells a server of the file, and waits for what it thinks of it: then it has read the file.
async fn opened(client: &Client, path: &ResolvedPath) -> Result<Document, ToolError> {
    let document = client.open(path).await?;
    let document =
        document.ok_or_else(|| ToolError::failed(format!("File not found: {}", path.display_path().display())))?;
    if document.is_new {
        client.findings(&document, MAX_WAIT).await;
    }
    Ok(document)
}

/// Asks a server; asks it again if it knew of nothing while it was still reading the workspace.
async fn patiently(
    client: &Arc<Client>,
    input: &Input,
    path: &ResolvedPath,
    text: &str,
) -> Result<Vec<Value>, RequestError> {
    let answer = asked(client, input, path, text).await?;
    if !answer.iter().all(Value::is_null) || !client.is_busy() {
        return Ok(answer);
    }
    client.calm(WARM_UP).await;
    asked(client, input, path, text).await
}

async fn asked(client: &Client, input: &Input, path: &ResolvedPath, text: &str) -> Result<Vec<Value>, RequestError> {
    let place = || client.place(path.display_path(), text, input.line, input.character);
    let document = || json!({"textDocument": place()["textDocument"]});
    Ok(match input.operation {
        Operation::GoToDefinition => flat(request(client, "textDocument/definition", place()).await?),
        Operation::GoToImplementation => flat(request(client, "textDocument/implementation", place()).await?),
        Operation::FindReferences => {
            let mut place = place();
            place["context"] = json!({"includeDeclaration": true});
            flat(request(client, "textDocument/references", place).await?)
        }
        Operation::Hover => vec![request(client, "textDocument/hover", place()).await?],
        Operation::DocumentSymbol => flat(request(client, "textDocument/documentSymbol", document()).await?),
        Operation::WorkspaceSymbol => {
            let query = json!({"query": input.query.as_deref().unwrap_or_default()});
            let mut symbols = flat(request(client, "workspace/symbol", query).await?);
            symbols.retain(|symbol| symbol["kind"].as_u64().is_some_and(|kind| SYMBOL_KINDS.contains(&kind)));
            symbols.truncate(MAX_SYMBOLS);
            symbols
        }
        Operation::PrepareCallHierarchy => flat(request(client, "textDocument/prepareCallHierarchy", place()).await?),
        Operation::IncomingCalls => calls(client, "callHierarchy/incomingCalls", place()).await?,
        Operation::OutgoingCalls => calls(client, "callHierarchy/outgoingCalls", place()).await?,
    })
}

async fn calls(client: &Client, method: &str, place: Value) -> Result<Vec<Value>, RequestError> {
    let items = flat(request(client, "textDocument/prepareCallHierarchy", place).await?);
    let Some(item) = items.into_iter().next() else {
        return Ok(Vec::new());
    };
    Ok(flat(request(client, method, json!({ "item": item })).await?))
}

/// Asks a server. That it refuses counts as no result: many refuse what they have nothing to say to.
async fn request(client: &Client, method: &str, params: Value) -> Result<Value, RequestError> {
    match client.request(method, params).await {
        Err(RequestError::Refused { .. }) => Ok(Value::Null),
        Err(error @ (RequestError::TimedOut { .. } | RequestError::Ended { .. })) => Err(error),
        Ok(result) => Ok(result),
    }
}

/// Returns what an answer lists; one that is no list is the only entry.
fn flat(answer: Value) -> Vec<Value> {
    match answer {
        Value::Array(list) => list.into_iter().filter(|entry| !entry.is_null()).collect(),
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => vec![answer],
    }
}

fn metadata(result: Vec<Value>, bytes: usize) -> JsonMap {
    if bytes <= MAX_RESULT {
        return json_map([("result", Value::Array(result))]);
    }
    json_map([("result", Value::Null), ("results", json!(result.len()))])
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::GoToDefinition => "goToDefinition",
            Self::FindReferences => "findReferences",
            Self::Hover => "hover",
            Self::DocumentSymbol => "documentSymbol",
            Self::WorkspaceSymbol => "workspaceSymbol",
            Self::GoToImplementation => "goToImplementation",
            Self::PrepareCallHierarchy => "prepareCallHierarchy",
            Self::IncomingCalls => "incomingCalls",
            Self::OutgoingCalls => "outgoingCalls",
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_lsp::Unavailable;

    use super::*;

    #[test]
    fn answers_are_lists() {
        let check = |answer: Value, expected: Vec<Value>| assert_eq!(flat(answer), expected);
        check(Value::Null, vec![]);
        check(json!([]), vec![]);
        check(json!([null, {"a": 1}, null]), vec![json!({"a": 1})]);
        check(json!({"uri": "x"}), vec![json!({"uri": "x"})]);
    }

    #[test]
    fn one_answer_is_enough() {
        let lost = || {
            Err(RequestError::TimedOut {
                server: "s".to_owned(),
                method: "m".to_owned(),
                limit: Duration::from_secs(10),
            })
        };
        let found = gathered(vec![lost(), Ok(vec![json!(1)]), Ok(vec![json!(2)])]);
        assert_eq!(found.unwrap(), [json!(1), json!(2)]);
        assert!(gathered(vec![lost(), Ok(vec![])]).unwrap().is_empty());
        assert!(gathered(vec![]).unwrap().is_empty());
        let error = gathered(vec![lost(), lost()]).unwrap_err().to_string();
        let each = "the language server s did not answer m within 10 s";
        assert_eq!(
            error,
            format!("There is no answer: {each}; {each}. Try again, or use grep.")
        );
    }

    #[test]
    fn says_how_to_get_a_server() {
        let mut fitting = Fitting::default();
        assert_eq!(no_server(&fitting), NO_SERVER);
        fitting.unavailable.push(Unavailable {
            server: "rust".to_owned(),
            problem: "it is not there".to_owned(),
        });
        assert_eq!(no_server(&fitting), format!("{NO_SERVER}\nrust: it is not there"));
    }

    #[test]
    fn operations_are_named_as_models_write_them() {
        for name in [
            "goToDefinition",
            "findReferences",
            "hover",
            "documentSymbol",
            "workspaceSymbol",
            "goToImplementation",
            "prepareCallHierarchy",
            "incomingCalls",
            "outgoingCalls",
        ] {
            let operation: Operation = serde_json::from_value(json!(name)).unwrap();
            assert_eq!(operation.name(), name);
            assert!(include_str!("lsp.md").contains(&format!("- {name}: ")), "{name}");
        }
    }

    #[test]
    fn large_results_are_in_the_output_only() {
        assert_eq!(metadata(vec![json!(1)], 10), json_map([("result", json!([1]))]));
        let large = metadata(vec![json!(1)], MAX_RESULT + 1);
        assert_eq!(large, json_map([("result", Value::Null), ("results", json!(1))]));
    }
}
