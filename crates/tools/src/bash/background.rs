//! `background`: runs one command line beside everything else, for as long as it takes, and reads what clients send.
//!
//! It is what `bash` starts when its input says `background`, as a call of its own: listed, watched, read, written to and
//! cancelled like any other. Front ends may call it themselves; models are not told of it.
//!
//! *Invariant:* asks exactly what `bash` asks, and before anything runs. What clients send is held back until then.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_model::{CommandResult, OutputText, Signal, TerminalSize, ToolOutput, ToolResult, json_map};
use toolgate_process::{self as process, Control, Listeners, ProgramSignal, Programs, PtySize, Stdin};
use toolgate_tool::{About, ChildCall, Offer, Outline, ProgramControl, Properties, ToolContext, ToolError, TypedTool};

use super::input::{Input as BashInput, Limit, Terminal, check_command};
use super::report::Report;
use super::shell::{Shell, follow};
use crate::ports::listening;

/// How often it is looked what the programs listen on.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The `background` tool.
pub struct Background {
    shell: Shell,
}

impl Background {
    /// Makes the tool.
    pub fn new(shell: Shell) -> Self {
        Self { shell }
    }
}

/// The arguments of `background`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The command line to run
    command: String,
    /// Time limit in milliseconds; without one the command may run for ever
    timeout: Option<f64>,
    /// The directory to run the command in, absolute or relative to the default one
    workdir: Option<String>,
    /// What the command does, for people, in five to ten words
    description: String,
    /// The size of the terminal that the command runs in; without it the command has pipes
    terminal: Option<Terminal>,
}

#[async_trait]
impl TypedTool for Background {
    type Input = Input;

    const ABOUT: About = About {
        name: "background",
        advertised: false,
        // The call that made it is lost with the service, and nobody would know of a command that starts after that.
        properties: Properties {
            foreseeable: true,
            reads_input: true,
            ..Properties::NONE
        },
        example: r#"{"command": "npm run dev", "description": "Serves the site for development"}"#,
        ..super::Bash::ABOUT
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("background.md").to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["command"]).titled(input, "description")
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let ended = self.run_to_its_end(input, ctx).await;
        ctx.stdin.end();
        ended
    }
}

impl Background {
    async fn run_to_its_end(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let limit = input.timeout.map_or(Ok(Limit::NONE), Limit::given)?;
        check_command(&input.command)?;
        let input = BashInput {
            command: input.command,
            timeout: input.timeout,
            workdir: input.workdir,
            description: input.description,
            background: None,
            terminal: input.terminal,
        };
        let size = input.terminal.map(Terminal::size).transpose()?;
        if let Some(size) = size {
            // Before a person is asked: whoever is to type may look and change the size meanwhile.
            ctx.program.open_terminal(size);
        }
        let stdin = size.map_or(Stdin::Pipe, |size| Stdin::Terminal(pty_size(size)));
        let mut prepared = self.shell.prepare(&input, stdin, ctx).await?;
        let path = ctx.output.open().await?;
        if let Some(size) = ctx.program.terminal_size() {
            // It may have been changed while a person was asked: the program is to find it so from its first moment.
            prepared.give_terminal(pty_size(size));
        }
        let mut running = prepared.start().await?;
        let program_input = running.take_input();
        if let Some(control) = running.take_control() {
            ctx.program.attach(Arc::new(Program(control)));
        }
        let facts = json_map([("outputPath", json!(path)), ("pid", json!(running.pid()))]);
        ctx.output.progress(None, facts.clone()).await;
        ctx.children.report_launched(facts);
        let mut report = Report::new(input.description, ctx);
        let ending = tokio::select! {
            ending = follow(running, &mut report, limit, ctx) => ending?,
            never = feed(program_input, ctx) => match never {},
            never = tell_ports(self.shell.programs(), ctx) => match never {},
        };
        // It has read its input, so it cannot run again when the sandbox was in its way.
        prepared.finish(report, ending, limit).await
    }
}

/// Hands the program what clients send, until it reads no more or nothing follows.
async fn feed(input: Option<process::Input>, ctx: &ToolContext) -> Infallible {
    if let Some(input) = input {
        loop {
            let piece = tokio::select! {
                piece = ctx.stdin.next() => piece,
                () = input.abandoned() => break,
            };
            let Some(piece) = piece else {
                // If it fails, nobody is left to be told of the end.
                let _ = input.end().await;
                break;
            };
            if input.write(&piece).await.is_err() {
                break;
            }
        }
    }
    ctx.stdin.end();
    pending().await
}

/// Says what the programs of the call listen on, whenever that has changed.
async fn tell_ports(programs: &Programs, ctx: &ToolContext) -> Infallible {
    let (mut seen, mut told, mut looks) = (Listeners::default(), Vec::new(), 0);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Ok(now) = Listeners::look() else { continue };
        if now != seen {
            // Twice: whoever has begun to listen may be on its way from process to process.
            (seen, looks) = (now, 2);
        }
        if looks == 0 {
            continue;
        }
        looks -= 1;
        let ports = listening(programs, &ctx.call, seen.clone()).await;
        if ports != told {
            ctx.program.listens(ports.clone()).await;
            told = ports;
        }
    }
}

/// The program, as the engine reaches it.
struct Program(Control);

impl ProgramControl for Program {
    fn resize(&self, size: TerminalSize) -> io::Result<()> {
        self.0.resize(pty_size(size))
    }

    fn signal(&self, signal: Signal) -> bool {
        self.0.signal(match signal {
            Signal::Int => ProgramSignal::Int,
            Signal::Term => ProgramSignal::Term,
            Signal::Hup => ProgramSignal::Hup,
            Signal::Quit => ProgramSignal::Quit,
            Signal::Usr1 => ProgramSignal::Usr1,
            Signal::Usr2 => ProgramSignal::Usr2,
        })
    }
}

fn pty_size(size: TerminalSize) -> PtySize {
    PtySize {
        columns: size.columns(),
        rows: size.rows(),
    }
}

/// Starts a command line as a call of its own, and returns what the model should know when it runs.
pub(super) async fn start(input: BashInput, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let mut arguments = json_map([
        ("command", json!(input.command)),
        ("description", json!(input.description)),
    ]);
    // What is absent must stay absent: the schema takes no null.
    arguments.extend(input.timeout.map(|timeout| ("timeout".to_owned(), json!(timeout))));
    arguments.extend(input.workdir.map(|workdir| ("workdir".to_owned(), json!(workdir))));
    let terminal = input.terminal.map(Terminal::as_input);
    arguments.extend(terminal.map(|terminal| ("terminal".to_owned(), terminal)));
    let child = ctx
        .children
        .start(ChildCall {
            tool: Background::ABOUT.name.to_owned(),
            input: Value::Object(arguments),
            is_step: false,
        })
        .await?;
    let facts = child.launched().await?;
    let call = child.detach();
    let path = facts.get("outputPath").and_then(Value::as_str).unwrap_or_default();
    let pid = facts.get("pid").and_then(Value::as_i64).unwrap_or_default();
    let text = format!(
        "The command was started in the background as call {call}, and goes on by itself.\n\
         What it prints is written to {path} as it appears; read that file to see how far it is.\n\
         It ends with the session at the latest. To stop it before that, run: kill -- -{pid}"
    );
    let mut metadata = json_map([
        ("output", json!("")),
        ("description", json!(input.description)),
        ("background", json!(true)),
        ("call", json!(call.as_str())),
    ]);
    metadata.extend(facts);
    Ok(ToolOutput {
        title: input.description,
        output: OutputText::Text(text),
        metadata,
        attachments: Vec::new(),
        result: Some(ToolResult::Command(CommandResult {
            background: Some(call),
            ..CommandResult::default()
        })),
    })
}
