//! A host in Python whose tool is called with grpcurl: neither knows of the other, or of any code of this repository.

use serde_json::{Value, json};
use tokio::process::Command;
use toolgate_contract::PromptDecision;

use super::offers;

use crate::support::*;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/hosts/host.py");
const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");

async fn run_tool(address: &str, word: &str) -> Value {
    let request = json!({"tool": "spell", "input": {"word": word}});
    let mut answers = grpcurl(address, "ToolService/RunTool", request).await;
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

#[test]
fn a_host_in_python_lends_a_tool_to_grpcurl() {
    test(async {
        let setup = Setup {
            tcp: true,
            ..Setup::permission(json!({"spell_long": "ask"}))
        };
        let mut server = Server::with(setup).await;
        let address = server.tcp.clone().unwrap();
        let mut host = Command::new("python3")
            .args([SCRIPT, PROTO, &address])
            .env("PYTHONPATH", installed("grpcio"))
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        eventually("the tool is there", async || offers(&server, "spell").await).await;
        let call = run_tool(&address, "cat").await;
        assert_eq!(call["call"]["completed"]["output"], "c-a-t", "{call}");
        let wrong = run_tool(&address, "").await;
        assert_eq!(wrong["call"]["completed"]["title"], Value::Null, "{wrong}");
        let mut approver = Approver::open(server.channel(), "somebody").await.unwrap();
        let (asked, answered) = tokio::join!(run_tool(&address, "hippopotamus"), async {
            let prompt = approver.added().await;
            assert!(format!("{prompt:?}").contains("spell_long"), "{prompt:?}");
            approver.send(reply(&prompt, PromptDecision::Once)).await
        });
        assert!(answered);
        let spelt = &asked["call"]["completed"]["output"];
        assert_eq!(spelt, "h-i-p-p-o-p-o-t-a-m-u-s", "{asked}");
        host.kill().await.unwrap();
        server.stop().await;
    });
}
