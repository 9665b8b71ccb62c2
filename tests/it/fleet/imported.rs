//! A fleet that goes on with what a single service has kept: what was there is read at each gateway, and what waited goes on.

use std::fs;
use std::path::PathBuf;

use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;

use super::setup::Fleet;
use crate::gateway::setup::*;
use crate::support::{completed, connect_tcp, eventually, run_request, test, waiting};

/// What was seen at the single service.
struct Before {
    ended: Call,
    prompt: Prompt,
    head: AuditHead,
}

/// Has a single service keep a history in the workspace of the first worker, and returns its data directory.
async fn keep(fleet: &Fleet) -> (PathBuf, Before) {
    let (place, work) = (fleet.path("alone"), fleet.path("worker-a").join("own"));
    fs::create_dir_all(&place).unwrap();
    fs::create_dir_all(&work).unwrap();
    put(&work.join("opencode.json"), RULES);
    put(&place.join("tokens"), &fleet.tokens());
    let text = format!(
        "data_dir = \"data\"\n[auth]\ntokens_file = \"tokens\"\n[[workspaces]]\nname = \"wa\"\ndirectory = \"{}\"\n",
        work.display()
    );
    put(&place.join("toolgate.toml"), &text);
    let mut service = Process::start(place.clone(), "serve", &fleet.home()).await;
    let channel = connect_tcp(&service.address).await.unwrap();
    let mut tools = ToolServiceClient::with_interceptor(channel.clone(), Shown(ANNA, None));
    let ended = tools.run_tool(run_request(bash("wa", "seq 30000"))).await;
    let ended = ended.unwrap().into_inner().call.unwrap();
    let request = ExecuteToolRequest {
        call_id: "waits".to_owned(),
        on_disconnect: OnDisconnect::Keep.into(),
        ..bash("wa", "echo ask 1 >answered")
    };
    let mut asking = tools.execute_tool(request).await.unwrap().into_inner();
    let prompt = waiting(&mut asking).await;
    let mut audit = AuditServiceClient::with_interceptor(channel, Shown(ANNA, None));
    let head = audit.get_audit_head(GetAuditHeadRequest {}).await.unwrap().into_inner();
    service.kill9().await;
    let head = head.head.unwrap();
    (place.join("data"), Before { ended, prompt, head })
}

async fn read(fleet: &Fleet, gateway: usize, output: &str) -> String {
    let mut outputs = OutputServiceClient::with_interceptor(fleet.channel(gateway).await, Shown(ANNA, None));
    let request = ReadOutputRequest {
        output_id: output.to_owned(),
        range: None,
    };
    let (mut stream, mut data) = (outputs.read_output(request).await.unwrap().into_inner(), Vec::new());
    while let Some(part) = stream.message().await.unwrap() {
        data.extend_from_slice(&part.data);
    }
    String::from_utf8(data).unwrap()
}

/// Returns the records of the audit up to a number, with their hashes.
async fn audited(fleet: &Fleet, gateway: usize, head: &AuditHead) -> Vec<String> {
    let mut audit = AuditServiceClient::with_interceptor(fleet.channel(gateway).await, Shown(ANNA, None));
    let request = ExportAuditRequest::default();
    let (mut stream, mut lines) = (audit.export_audit(request).await.unwrap().into_inner(), Vec::new());
    while let Some(part) = stream.message().await.unwrap() {
        lines.extend(part.records);
    }
    lines.truncate(head.sequence as usize);
    lines
}

#[test]
fn a_fleet_goes_on_with_the_history_of_one_machine() {
    test(async {
        let mut before = None;
        let fleet = Fleet::importing(async |fleet| {
            let (data, seen) = keep(fleet).await;
            before = Some(seen);
            data
        })
        .await;
        let Before { ended, prompt, head } = before.unwrap();
        let output = completed(&ended).truncation.as_ref().unwrap().output_id.clone();
        let expected: String = (1..=30_000).map(|number| format!("{number}\n")).collect();
        for gateway in 0..2 {
            let found = fleet.get(gateway, &ended.call_id).await.unwrap();
            assert_eq!(completed(&found).output, completed(&ended).output);
            assert_eq!((found.create_time, found.end_time), (ended.create_time, ended.end_time));
            assert!(read(&fleet, gateway, &output).await == expected);
            // The chain is the same one up to where it was.
            let lines = audited(&fleet, gateway, &head).await;
            assert_eq!(lines.len() as i64, head.sequence);
            assert!(lines.last().unwrap().contains(&head.hash), "{:?}", lines.last());
        }
        // What waited there goes on here.
        let taken = fleet.allow(1, &prompt).await.unwrap();
        assert_eq!(taken.result(), ReplyResult::Accepted);
        eventually("the call that waited has ended", async || {
            fleet.get(0, "waits").await.unwrap().ending.is_some()
        })
        .await;
        completed(&fleet.get(0, "waits").await.unwrap());
        assert!(fleet.path("worker-a/own/answered").exists());
        completed(&fleet.run(1, "wa", "true").await.unwrap());
        fleet.assert_calm();
    });
}
