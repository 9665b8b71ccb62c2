//! The official SDKs for TypeScript and Python as clients, over both transports. `tests/setup/tools.sh` installs them.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::*;

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp_server/client.py");

const SCRIPT: &str = include_str!("client.mjs");

/// Where npm puts the clients.
const PACKAGES: &str = "npm/node_modules/@modelcontextprotocol";

/// Runs a client; returns what it says it saw.
async fn run(command: &mut Command, folder: &Path) -> Value {
    let home = folder.join("home-of-client");
    std::fs::create_dir_all(&home).unwrap();
    let output = command
        .env("HOME", home)
        .current_dir(folder)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(100), output)
        .await
        .unwrap()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// Lets a client see a running server and the program as its own; `command` begins its command line.
async fn sees_the_tools(command: impl Fn(&Path) -> Command) {
    let setup = Setup {
        tcp: true,
        ..Setup::permission(json!({"bash": "ask"}))
    };
    let server = Server::with(setup).await;
    let url = format!("http://{}/mcp", server.tcp.as_ref().unwrap());
    let own = tempfile::tempdir().unwrap();
    std::fs::write(own.path().join("opencode.json"), r#"{"permission": {"bash": "ask"}}"#).unwrap();
    let program = env!("CARGO_BIN_EXE_toolgate");
    for args in [vec!["http", &url], vec!["stdio", program, "mcp"]] {
        let seen = run(command(own.path()).args(&args), own.path()).await;
        let names = seen["tools"].as_array().unwrap();
        assert!(
            names.contains(&json!("bash")) && names.contains(&json!("question")),
            "{seen}"
        );
        assert_eq!(seen["text"], "from the sdk\n", "{args:?}: {seen}");
        assert_eq!(seen["forms"], 1, "{seen}");
        // A client without sessions is told in the answer what its call needs, and brings that with the next request.
        let is_sessionless = seen["version"] == "2026-07-28";
        let waits = |note: &Value| note.as_str().is_some_and(|note| note.contains("waits for an answer"));
        let told = seen["progress"].as_array().unwrap().iter().any(waits);
        assert_eq!(told, !is_sessionless, "{seen}");
        assert_eq!(seen["failed"], true, "{seen}");
        assert!(seen["resource"].as_str().unwrap().starts_with("from the sdk"), "{seen}");
        assert!(
            seen["version"].is_null() || is_sessionless || seen["version"] == "2025-11-25",
            "{seen}"
        );
    }
    server.assert_calm();
}

#[test]
fn the_typescript_sdk_is_a_client() {
    if std::env::var_os("TOOLGATE_TEST_WITHOUT_MCP_SDK").is_some() {
        return;
    }
    test(sees_the_tools(|folder| {
        let script = folder.join("client.mjs");
        std::fs::write(&script, SCRIPT).unwrap();
        let mut command = Command::new("node");
        command.arg(script).arg(installed(&format!("{PACKAGES}/sdk/dist/esm")));
        command
    }));
}

#[test]
fn the_python_sdk_is_a_client() {
    test(sees_the_tools(|_| {
        let mut command = Command::new("python3");
        command.arg(PYTHON).env("PYTHONPATH", installed("mcp"));
        command
    }));
}

/// Runs the command line of the MCP Inspector on `toolgate mcp` in a folder; returns what it prints.
async fn inspect(folder: &Path, args: &[&str]) -> Value {
    let output = Command::new("node")
        .arg(installed(&format!("{PACKAGES}/inspector-cli/build/cli.js")))
        .args(["--cli", env!("CARGO_BIN_EXE_toolgate"), "mcp"])
        .args(args)
        .current_dir(folder)
        .env("HOME", folder)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(60), output)
        .await
        .unwrap()
        .unwrap();
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}{errors}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"))
}

#[test]
fn the_inspector_sees_and_calls_the_tools() {
    if std::env::var_os("TOOLGATE_TEST_WITHOUT_MCP_SDK").is_some() {
        return;
    }
    test(async {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "for the inspector\n").unwrap();
        let listed = inspect(folder.path(), &["--method", "tools/list"]).await;
        let tools = listed["tools"].as_array().unwrap();
        let read = tools.iter().find(|tool| tool["name"] == "read").unwrap();
        assert_eq!(read["annotations"]["readOnlyHint"], json!(true), "{read}");
        let call = ["--method", "tools/call", "--tool-name", "read", "--tool-arg"];
        let called = inspect(folder.path(), &[&call[..], &["filePath=a.txt"]].concat()).await;
        assert!(
            called["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("1: for the inspector"),
            "{called}"
        );
        let missing = inspect(folder.path(), &[&call[..], &["filePath=b.txt"]].concat()).await;
        assert_eq!(missing["isError"], json!(true), "{missing}");
    });
}
