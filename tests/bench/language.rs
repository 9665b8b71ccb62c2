//! `edit` with a language server attached, as whole calls, beside the same edit without one; and the server: this program,
//! started again.
//!
//! *Invariant:* the server is told of every edit and reports an error in it, after a time that the measurement chooses.

use std::fs;
use std::io::{BufRead, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::Plan;
use crate::measure::{Samples, in_turns};
use crate::service::{Service, Tools, execute, folder, request};
use crate::table::Row;

/// As noise goes between two services on one machine.
const NOISE: f64 = 1.1;

/// How long a server takes that checks a whole program, and one that looks at the file only.
const SLOW: u64 = 2000;
const PROMPT: u64 = 10;

/// How long a server may take until it has been told of the first file.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Measures both kinds of server.
pub(crate) async fn language(plan: Plan) -> Result<Vec<Row>> {
    let (slow, without) = measure(SLOW, plan.samples(200, 20)).await?;
    let (prompt, beside) = measure(PROMPT, plan.samples(20, 4)).await?;
    Ok(vec![
        Row::ratio(
            "edit, a language server takes 2 s",
            &slow,
            ("no language server", &without),
            Some(NOISE),
        ),
        Row::ratio(
            "edit, errors reported in 10 ms are in its result",
            &prompt,
            ("no language server", &beside),
            None,
        ),
    ])
}

async fn measure(delay: u64, rounds: usize) -> Result<(Samples, Samples)> {
    let (with, without) = (folder()?, folder()?);
    let seen = with.path().join("seen");
    let program = std::env::current_exe()?;
    let command = json!([program, "--language-server", delay.to_string(), "--seen", seen]);
    let config = json!({"lsp": {"bench": {"command": command, "extensions": [".bench"]}}});
    for folder in [&with, &without] {
        fs::write(folder.path().join("a.bench"), "version 0\n")?;
    }
    let attached = Service::configured(with.path(), &config).await?;
    let alone = Service::configured(without.path(), &json!({"lsp": false})).await?;
    let (mut one, mut other) = (attached.tools().await?, alone.tools().await?);
    for client in [&mut one, &mut other] {
        execute(client, request("bench", "read", json!({"filePath": "a.bench"}))).await?;
    }
    edit(&mut one, 0).await?;
    edit(&mut other, 0).await?;
    is_there(&seen).await?;
    // What is known of a server that was just started is not what is measured: it has reported once when this is over.
    tokio::time::sleep(Duration::from_millis(delay + 500)).await;
    for round in 1..3 {
        edit(&mut one, round).await?;
        edit(&mut other, round).await?;
    }
    let measured = in_turns(
        rounds,
        async |round| edit(&mut one, round + 3).await,
        async |round| edit(&mut other, round + 3).await,
    )
    .await?;
    drop((one, other));
    attached.stop().await?;
    alone.stop().await?;
    Ok(measured)
}

async fn edit(client: &mut Tools, round: usize) -> Result<Duration> {
    let (old, new) = (format!("version {round}\n"), format!("version {}\n", round + 1));
    let input = json!({"filePath": "a.bench", "oldString": old, "newString": new});
    Ok(execute(client, request("bench", "edit", input)).await?.0)
}

async fn is_there(path: &Path) -> Result<()> {
    let begin = Instant::now();
    while !path.exists() {
        ensure!(begin.elapsed() < START_LIMIT, "the language server was told nothing");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Is the language server; `seen` comes into being with the first file that it is told of.
pub(crate) fn serve(delay: u64, seen: &Path) -> Result<()> {
    let mut input = std::io::stdin().lock();
    while let Some(message) = read(&mut input)? {
        match (message["method"].as_str(), message.get("id")) {
            (Some("exit"), _) => break,
            (Some("initialize"), Some(id)) => {
                let result = json!({"capabilities": {"textDocumentSync": 1}});
                write(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
            }
            (Some(_), Some(id)) => write(&json!({"jsonrpc": "2.0", "id": id, "result": null}))?,
            (Some("textDocument/didOpen" | "textDocument/didChange"), None) => {
                fs::write(seen, "")?;
                report(message["params"]["textDocument"]["uri"].clone(), delay);
            }
            _ => {}
        }
    }
    Ok(())
}

fn report(uri: Value, delay: u64) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(delay));
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 7}});
        let error = json!({"range": range, "severity": 1, "message": "this is an error"});
        let params = json!({"uri": uri, "diagnostics": [error]});
        write(&json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}))
    });
}

fn read(input: &mut impl BufRead) -> Result<Option<Value>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("Content-Length:") {
            length = value.trim().parse()?;
        }
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
