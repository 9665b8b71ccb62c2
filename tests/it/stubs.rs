//! Clients without a library of this repository: plain stubs, and tools that know the service by its reflection only.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::*;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stubs.py");
const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");

#[test]
fn stubs_of_the_c_core_use_the_unix_socket() {
    test(async {
        let server = Server::start().await;
        std::fs::write(server.work().join("a"), "found").unwrap();
        // The stubs name the socket in every request, percent-encoded.
        let socket = format!("unix:{}", server.folder().join("s").display());
        let output = Command::new("python3")
            .args([SCRIPT, PROTO, &socket])
            .env("PYTHONPATH", installed("grpcio"))
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let tools: Vec<&str> = lines.iter().map(|line| line["tool"].as_str().unwrap()).collect();
        assert_eq!(tools, ["read", "invalid", "read"]);
        assert!(lines[2]["output"].as_str().unwrap().contains("found"), "{lines:?}");
    });
}

#[test]
fn error_details_are_text_to_grpcurl() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let output = Command::new(installed("bin/grpcurl"))
            .args(["-plaintext", "-d", &json!({"call_id": "nobody"}).to_string()])
            .args([server.tcp.as_ref().unwrap(), "toolgate.v1.ToolService/GetCall"])
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("google.rpc.ErrorInfo") && errors.contains("\"reason\": \"NOT_FOUND\""),
            "{errors}"
        );
    });
}
