//! The fake language servers of cases: this program, started again with [`COMMAND`].
//!
//! *Invariant:* does what the case says and nothing else; every message is noted before it is answered.

use std::fs::OpenOptions;
use std::io::{BufRead, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// What makes this program a fake server. Its part of the case and the file for the messages follow.
pub(crate) const COMMAND: &str = "fake-language-server";

/// How long after an open or a change diagnostics are published.
const DELAY: Duration = Duration::from_millis(50);

/// The largest message that is taken.
const MESSAGE_LIMIT: usize = 64 << 20;

/// Says whether this program was started as a fake server, and is one then.
pub(crate) fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    let [case, messages] = [(); 2].map(|()| arguments.next().unwrap_or_default());
    Some(match serve(&case, &messages) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the fake language server: {error:#}");
            ExitCode::FAILURE
        }
    })
}

fn serve(case: &str, messages: &str) -> Result<()> {
    let server: Value = serde_json::from_str(&std::fs::read_to_string(case).context("reading the case")?)?;
    let mut input = std::io::stdin().lock();
    while let Some(message) = read(&mut input)? {
        // Answers to requests: this server makes none.
        let Some(method) = message["method"].as_str() else {
            continue;
        };
        note(&message, messages)?;
        match (method, message.get("id")) {
            ("exit", _) => break,
            ("initialize", Some(id)) => {
                let result = json!({"capabilities": {"textDocumentSync": 1}, "serverInfo": {"name": "fake"}});
                write(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
            }
            (_, Some(id)) => write(&answer(&server, method, id))?,
            ("textDocument/didOpen" | "textDocument/didChange", None) if server["behave"] != "no_diagnostics" => {
                publish(message["params"]["textDocument"]["uri"].clone());
            }
            (_, None) => {}
        }
    }
    Ok(())
}

fn answer(server: &Value, method: &str, id: &Value) -> Value {
    let refused = json!({"code": -32601, "message": format!("Unhandled method {method}")});
    let response = server["responses"].get(method);
    match response.map(|response| (response, response.get("$error"))) {
        Some((_, Some(error))) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        Some((result, None)) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        None => json!({"jsonrpc": "2.0", "id": id, "error": refused}),
    }
}

/// Publishes beside whatever else goes on. If nobody listens any more, the server is about to end.
fn publish(uri: Value) {
    std::thread::spawn(move || {
        std::thread::sleep(DELAY);
        let params = json!({"uri": uri, "diagnostics": []});
        write(&json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}))
    });
}

fn note(message: &Value, messages: &str) -> Result<()> {
    let seen = json!({"method": message["method"], "params": message["params"]});
    let mut file = OpenOptions::new().append(true).create(true).open(messages)?;
    Ok(file.write_all(format!("{seen}\n").as_bytes())?)
}

/// Reads a message; none at the end of the input.
fn read(input: &mut impl BufRead) -> Result<Option<Value>> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(("content-length", value)) = line.to_ascii_lowercase().split_once(':') {
            length = Some(value.trim().parse::<usize>().context("a length that is no number")?);
        }
    }
    let length = length.context("a message without a length")?;
    if length > MESSAGE_LIMIT {
        bail!("a message of {length} bytes");
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    serde_json::from_slice(&body)
        .map(Some)
        .context("a message that is no JSON")
}

fn write(message: &Value) -> Result<()> {
    let body = message.to_string();
    let mut output = std::io::stdout().lock();
    write!(output, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    Ok(output.flush()?)
}
