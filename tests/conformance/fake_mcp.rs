//! The fake MCP servers of cases: this program, started again with [`COMMAND`].
//!
//! *Invariant:* does what the case says and nothing else; it declares tools only, and ends with its input.

use std::fs::OpenOptions;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// What makes this program a fake server. Its name, its part of the case and the file for the calls follow.
pub(crate) const COMMAND: &str = "fake-mcp-server";

/// Says whether this program was started as a fake server, and is one then.
pub(crate) fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    let [name, case, calls] = [(); 3].map(|()| arguments.next().unwrap_or_default());
    Some(match serve(&name, &case, &calls) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the fake server: {error:#}");
            ExitCode::FAILURE
        }
    })
}

fn serve(name: &str, case: &str, calls: &str) -> Result<()> {
    let server: Value = serde_json::from_str(&std::fs::read_to_string(case).context("reading the case")?)?;
    let behave = server["behave"].as_str().unwrap_or_default();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?).context("a line that is no message")?;
        let (Some(method), id) = (request["method"].as_str(), &request["id"]) else {
            continue;
        };
        match method {
            "initialize" if behave != "hang_initialize" => reply(
                id,
                &json!({"result": {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": name, "version": "1"},
                }}),
            )?,
            "tools/list" if behave != "hang_list" => reply(id, &list(&server, &request["params"]["cursor"], behave))?,
            "tools/call" => call(name, &server, &request, calls)?,
            "ping" => reply(id, &json!({"result": {}}))?,
            "initialize" | "tools/list" => {}
            _ if id.is_null() => {}
            _ => reply(id, &json!({"error": {"code": -32601, "message": "Method not found"}}))?,
        }
    }
    Ok(())
}

fn tools(server: &Value) -> &[Value] {
    server["tools"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn list(server: &Value, cursor: &Value, behave: &str) -> Value {
    let describe = |tool: &Value| {
        let keys = ["name", "description", "inputSchema"];
        let known = keys
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), tool.get(key)?.clone())));
        known.collect::<serde_json::Map<_, _>>()
    };
    let all = tools(server);
    if behave != "paged" {
        return json!({"result": {"tools": all.iter().map(describe).collect::<Vec<_>>()}});
    }
    let at: usize = cursor.as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let mut result = json!({"tools": all.iter().skip(at).take(1).map(describe).collect::<Vec<_>>()});
    if at + 1 < all.len() {
        result["nextCursor"] = json!((at + 1).to_string());
    }
    json!({ "result": result })
}

fn call(name: &str, server: &Value, request: &Value, calls: &str) -> Result<()> {
    let (id, params) = (request["id"].clone(), &request["params"]);
    let seen = json!({"server": name, "tool": params["name"], "arguments": params["arguments"]});
    let mut file = OpenOptions::new().append(true).create(true).open(calls)?;
    file.write_all(format!("{seen}\n").as_bytes())?;
    let Some(tool) = tools(server)
        .iter()
        .find(|tool| tool["name"] == params["name"])
        .cloned()
    else {
        return reply(&id, &json!({"error": {"code": -32602, "message": "Unknown tool"}}));
    };
    let delay = Duration::from_millis(tool["delay_ms"].as_u64().unwrap_or(0));
    // Beside the others: a slow tool holds up no other request.
    std::thread::spawn(move || {
        std::thread::sleep(delay);
        if let Some(code) = tool["exit"].as_i64() {
            std::process::exit(i32::try_from(code).unwrap_or(1));
        }
        let answer = match tool.get("error") {
            Some(error) => json!({ "error": error }),
            None => json!({"result": tool["result"]}),
        };
        reply(&id, &answer)
    });
    Ok(())
}

fn reply(id: &Value, answer: &Value) -> Result<()> {
    let mut message = json!({"jsonrpc": "2.0", "id": id});
    for (key, value) in answer.as_object().into_iter().flatten() {
        message[key] = value.clone();
    }
    let mut output = std::io::stdout().lock();
    writeln!(output, "{message}")?;
    Ok(output.flush()?)
}
