//! What plugins on a worker hear of what happens in its workspace, whoever answers its prompts.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use tonic::Streaming;
use toolgate_contract::*;

use super::setup::Fleet;
use crate::gateway::setup::*;
use crate::support::{self, collect, eventually, in_session, installed, run_request, test, waiting};

const HEARS: &str = r#"import fs from "node:fs"
export default async ({ directory }) => ({
  event: async ({ event }) => fs.appendFileSync(directory + "/heard.log", JSON.stringify(event) + "\n"),
})
"#;

/// Returns what the plugin of the first worker has heard of one kind.
fn heard(fleet: &Fleet, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(fleet.path("worker-a/own/heard.log")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_kind = events.filter(|event| event["type"] == kind);
    of_kind.map(|mut event| event["properties"].take()).collect()
}

fn request(tool: &str, input: Value) -> ExecuteToolRequest {
    let request = support::request(tool, input);
    let context = bash("wa", "").context;
    in_session("ses_one", ExecuteToolRequest { context, ..request })
}

/// Has a command asked about; returns its stream and its prompt.
async fn asks(fleet: &Fleet, command: &str) -> (Streaming<ExecuteToolResponse>, Prompt) {
    let mut tools = fleet.tools(0, ANNA).await;
    let asking = tools.execute_tool(in_session("ses_one", bash("wa", command))).await;
    let mut asking = asking.unwrap().into_inner();
    let prompt = waiting(&mut asking).await;
    (asking, prompt)
}

#[test]
fn plugins_on_a_worker_hear_what_happens() {
    test(async {
        let mut fleet = Fleet::start().await;
        let home = fleet.home();
        let place = fleet.path("worker-a");
        let folder = place.join("own/.opencode/plugin");
        fs::create_dir_all(&folder).unwrap();
        put(&folder.join("hears.js"), HEARS);
        let (config, runtime) = (place.join("toolgate.toml"), installed("bin/node-22"));
        let text = fs::read_to_string(&config).unwrap() + "trust = true\n";
        put(&config, &format!("extensions.runtime = \"{runtime}\"\n{text}"));
        fleet.workers[0].signal(Signal::TERM).await;
        fleet.workers[0].run(&home).await;
        fleet.ready().await;

        let run = async |request: ExecuteToolRequest| {
            let ran = fleet.tools(0, ANNA).await.run_tool(run_request(request)).await;
            ran.unwrap().into_inner().call.unwrap()
        };
        let path = place.join("own/made.txt");
        run(request("write", json!({"filePath": path, "content": "hi"}))).await;
        let todo = json!({"content": "a", "status": "pending", "priority": "high"});
        run(request("todowrite", json!({"todos": [todo]}))).await;
        // One is answered at the other gateway, one by nobody.
        let (asking, answered) = asks(&fleet, "echo ask 1").await;
        fleet.allow(1, &answered).await.unwrap();
        collect(asking).await.unwrap();
        let (asking, left) = asks(&fleet, "echo ask 2").await;
        let call_id = left.call_id.clone();
        let mut tools = fleet.tools(1, ANNA).await;
        tools.cancel_call(CancelCallRequest { call_id }).await.unwrap();
        collect(asking).await.unwrap();
        eventually("the session counts as idle", async || {
            !heard(&fleet, "session.idle").is_empty()
        })
        .await;

        let of = |kind: &str, key: &str| -> Vec<Value> {
            let all = heard(&fleet, kind).into_iter();
            all.map(|mut one| one[key].take()).collect()
        };
        assert_eq!(of("session.created", "sessionID"), ["ses_one"]);
        assert_eq!(of("session.idle", "sessionID"), ["ses_one"]);
        assert_eq!(of("file.edited", "file"), [json!(path)]);
        assert_eq!(of("todo.updated", "todos").len(), 1);
        let both = [json!(answered.prompt_id), json!(left.prompt_id)];
        assert_eq!(of("permission.asked", "id"), both);
        assert_eq!(of("permission.replied", "requestID"), both);
        assert_eq!(of("permission.replied", "reply"), ["once", "reject"]);
        let parts = of("message.part.updated", "part");
        let is_end = |part: &&Value| part["tool"] == "write" && part["state"]["status"] == "completed";
        assert_eq!(parts.iter().filter(is_end).count(), 1, "{parts:?}");

        // One that an earlier run has opened.
        let (asking, prompt) = asks(&fleet, "echo ask 3").await;
        fleet.workers[0].kill9().await;
        fleet.workers[0].run(&home).await;
        // Behind this the new run has its plugins.
        fleet.ready().await;
        fleet.run(0, "wa", "true").await.unwrap();
        fleet.allow(1, &prompt).await.unwrap();
        collect(asking).await.unwrap();
        let replied = || heard(&fleet, "permission.replied").into_iter().skip(2);
        eventually("its end is heard", async || replied().next().is_some()).await;
        let replied: Vec<Value> = replied().map(|one| one["requestID"].clone()).collect();
        assert_eq!(replied, [json!(prompt.prompt_id)]);
        fleet.assert_calm();
    });
}
