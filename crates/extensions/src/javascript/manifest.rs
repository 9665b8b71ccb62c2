//! Executables as tools: a manifest says what a program takes, the program does it.
//!
//! The arguments are the program's standard input, as one JSON object; what it prints is the result. It is run anew for
//! every call, in the workspace's folder.
//!
//! *Invariant:* what runs is what the manifest named when it was read; a program that is cancelled or takes too long is
//! ended with everything that it started.

#![allow(clippy::disallowed_methods)] // reads manifests, which lie in configuration folders

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::Sender;
use toolgate_model::{Definition, JsonMap, OutputText, Source, ToolOutput};
use toolgate_process::{Environment, Exit, Launch, Programs, Stdin, StdioChild};
use toolgate_tool::{Offer, Tool, ToolContext, ToolError};

use crate::asking::ask_to_run;

use super::script::ANYTHING;

/// Larger manifests are refused.
const MAX_MANIFEST: u64 = 256 * 1024;

/// How long a program may run whose manifest does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How much a program may print.
const MAX_OUTPUT: usize = 32 * 1024 * 1024;

/// How much of what it complains of is told.
const MAX_ERRORS: usize = 4 * 1024;

/// How long the pipes of a program that has ended may still be held by others.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// How the result is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResultForm {
    /// What is printed is the output.
    #[default]
    Text,
    /// What is printed is an object with `output` and, if wanted, `title` and `metadata`.
    Json,
}

/// A manifest as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    name: Option<String>,
    description: String,
    #[serde(default = "no_parameters")]
    parameters: Value,
    /// The program and its arguments; without it the executable of the same name beside the manifest.
    command: Option<Vec<String>>,
    #[serde(default)]
    environment: std::collections::BTreeMap<String, String>,
    /// Seconds.
    timeout: Option<f64>,
    #[serde(default)]
    result: ResultForm,
}

fn no_parameters() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// A program as a tool.
pub(super) struct ManifestTool {
    name: String,
    description: String,
    parameters: Value,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Environment,
    timeout: Duration,
    result: ResultForm,
    programs: Programs,
}

/// Reads a manifest; nothing if the file is none. Blocking.
pub(super) fn read(path: &Path, programs: &Programs) -> Result<Option<ManifestTool>, String> {
    let beside = executable_beside(path);
    let is_large = fs::metadata(path).is_ok_and(|about| about.len() > MAX_MANIFEST);
    if is_large {
        return beside.map_or(Ok(None), |_| Err(format!("it has more than {MAX_MANIFEST} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let value: Result<Value, String> = if path.extension().is_some_and(|ending| ending == "toml") {
        toml::from_str(&text).map_err(|error: toml::de::Error| error.to_string())
    } else {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let is_manifest = |value: &Value| value.get("command").is_some() && value.get("description").is_some();
    match &value {
        // Data that a tool reads, such as a `package.json`.
        Err(_) if beside.is_none() => return Ok(None),
        Ok(value) if beside.is_none() && !is_manifest(value) => return Ok(None),
        Err(_) | Ok(_) => {}
    }
    let raw: RawManifest = serde_json::from_value(value?).map_err(|error| error.to_string())?;
    tool(path, raw, beside, programs).map(Some)
}

fn tool(path: &Path, raw: RawManifest, beside: Option<PathBuf>, programs: &Programs) -> Result<ManifestTool, String> {
    let folder = path.parent().unwrap_or(path);
    let (program, arguments) = match raw.command {
        Some(command) => {
            let (first, rest) = command.split_first().ok_or("`command` is empty")?;
            let program = programs
                .find(first.as_ref(), folder)
                .ok_or_else(|| format!("`command` names {first:?}, which is not an executable file"))?;
            (program, rest.iter().map(OsString::from).collect())
        }
        None => (
            beside.ok_or("no executable of the same name lies beside it")?,
            Vec::new(),
        ),
    };
    let timeout = match raw.timeout {
        None => DEFAULT_TIMEOUT,
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|timeout| !timeout.is_zero())
            .ok_or("`timeout` is not a positive number of seconds")?,
    };
    if raw.parameters.get("type").is_none_or(|kind| kind != "object") {
        return Err("`parameters` is not a JSON Schema of type \"object\"".to_owned());
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(ManifestTool {
        name: raw.name.filter(|name| !name.is_empty()).unwrap_or(stem),
        description: raw.description,
        parameters: raw.parameters,
        program,
        arguments,
        environment: raw
            .environment
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        timeout,
        result: raw.result,
        programs: programs.clone(),
    })
}

/// Finds the executable that has the name of a manifest, whatever its ending.
fn executable_beside(manifest: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(manifest.parent()?).ok()?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path != manifest && path.file_stem() == manifest.file_stem() && is_executable(path))
        .collect();
    found.sort();
    found.into_iter().next()
}

fn is_executable(path: &Path) -> bool {
    // Scripts for the JavaScript host are loaded, not run, whatever their mode.
    let is_script = path.extension().is_some_and(|ending| ending == "js" || ending == "ts");
    !is_script && fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[async_trait]
impl Tool for ManifestTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn input_schema(&self) -> Value {
        self.parameters.clone()
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        Definition::foreign(
            &self.name,
            &self.description,
            &self.parameters,
            Source::Custom,
            &ANYTHING,
        )
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        ask_to_run(&self.name, self.name.clone(), &input, ctx).await?;
        let launch = self.launch(ctx);
        let started = self.programs.spawn_piped(launch).await;
        let mut peer =
            started.map_err(|error| ToolError::failed(format!("The tool {} cannot be run: {error}.", self.name)))?;
        let ran = tokio::select! {
            ran = run(&mut peer, input) => Ok(ran),
            () = ctx.cancelled.cancelled() => Err(ToolError::Cancelled),
            () = tokio::time::sleep(self.timeout) => Err(ToolError::failed(format!(
                "The tool {} was ended, because it ran longer than {} s.",
                self.name,
                self.timeout.as_secs_f64()
            ))),
        };
        peer.stop().await;
        self.result(ran?)
    }
}

impl ManifestTool {
    fn launch(&self, ctx: &ToolContext) -> Launch {
        let mut environment = self.environment.clone();
        for (name, value) in [
            ("TOOL_CALL_ID", ctx.call.as_str()),
            ("TOOL_SESSION_ID", ctx.session_id().as_str()),
            ("TOOL_AGENT", &ctx.origin.agent),
        ] {
            environment.insert(name.into(), value.into());
        }
        environment.insert("TOOL_WORKTREE".into(), ctx.workspace.worktree().into());
        let directory = ctx.workspace.directory().to_path_buf();
        Launch {
            call: ctx.call.as_str().to_owned(),
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            shown_directory: directory.clone(),
            directory,
            environment,
            stdin: Stdin::Pipe,
            sandbox: None,
        }
    }

    fn result(&self, ran: Ran) -> Result<ToolOutput, ToolError> {
        let name = &self.name;
        let how = match ran.exit {
            Some(Exit::Code(0)) => None,
            Some(Exit::Code(code)) => Some(format!("exit code {code}")),
            Some(Exit::Signal(signal)) => Some(format!("signal {signal}")),
            None => Some("no exit code".to_owned()),
        };
        if let Some(how) = how {
            let errors = String::from_utf8_lossy(&ran.errors);
            let said = if errors.trim().is_empty() {
                String::from_utf8_lossy(tail(&ran.output))
            } else {
                errors
            };
            let said = said.trim();
            let said = if said.is_empty() { "It printed nothing." } else { said };
            return Err(ToolError::failed(format!("The tool {name} ended with {how}.\n{said}")));
        }
        if ran.output.len() > MAX_OUTPUT {
            return Err(ToolError::failed(format!(
                "The tool {name} printed more than {MAX_OUTPUT} bytes. Ask it for less."
            )));
        }
        match self.result {
            ResultForm::Text => Ok(ToolOutput {
                output: OutputText::Text(String::from_utf8_lossy(&ran.output).into_owned()),
                ..ToolOutput::default()
            }),
            ResultForm::Json => {
                let printed: Result<Printed, _> = serde_json::from_slice(&ran.output);
                let printed = printed.map_err(|error| {
                    ToolError::failed(format!(
                        "The tool {name} printed something else than an object with a text `output`: {error}."
                    ))
                })?;
                let mut metadata = printed.metadata;
                metadata.shift_remove("truncated");
                Ok(ToolOutput {
                    title: printed.title,
                    output: OutputText::Text(printed.output),
                    metadata,
                    attachments: Vec::new(),
                    result: None,
                })
            }
        }
    }
}

#[derive(Deserialize)]
struct Printed {
    #[serde(default)]
    title: String,
    output: String,
    #[serde(default)]
    metadata: JsonMap,
}

/// What a program left behind.
struct Ran {
    exit: Option<Exit>,
    output: Vec<u8>,
    errors: Vec<u8>,
}

/// Talks to a program until it has ended.
async fn run(peer: &mut StdioChild, input: Value) -> Ran {
    let (stdin, stdout, stderr) = (peer.take_input(), peer.take_output(), peer.take_errors());
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let exit = {
        let talking = async {
            tokio::join!(
                feed(stdin, input.to_string()),
                collect(stdout, &mut output, Keep::First(MAX_OUTPUT + 1)),
                collect(stderr, &mut errors, Keep::Last(MAX_ERRORS)),
            );
        };
        tokio::pin!(talking);
        tokio::select! {
            () = &mut talking => peer.ended().await,
            exit = peer.ended() => {
                // What it left running may hold the pipes for ever.
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, talking).await;
                exit
            }
        }
    };
    Ran { exit, output, errors }
}

async fn feed(stdin: Option<Sender>, text: String) {
    if let Some(mut stdin) = stdin {
        // A program need not read its arguments.
        let _ = stdin.write_all(text.as_bytes()).await;
    }
}

#[derive(Clone, Copy)]
enum Keep {
    First(usize),
    Last(usize),
}

/// Reads a pipe to its end; a program that prints more than is kept is not held up.
async fn collect(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>, keep: Keep) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        match keep {
            Keep::First(most) => kept.extend_from_slice(&buffer[..count.min(most - kept.len())]),
            Keep::Last(most) => {
                kept.extend_from_slice(&buffer[..count]);
                kept.drain(..kept.len().saturating_sub(most));
            }
        }
    }
}

fn tail(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(MAX_ERRORS)..]
}
