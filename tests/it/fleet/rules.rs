//! Rules of a workspace that change on its worker.

use std::fs;

use toolgate_contract::info_service_client::InfoServiceClient;
use toolgate_contract::*;

use super::setup::Fleet;
use crate::gateway::setup::*;
use crate::support::{completed, eventually, failed, test};

async fn workspace(fleet: &Fleet, gateway: usize, name: &str) -> WorkspaceInfo {
    let mut info = InfoServiceClient::with_interceptor(fleet.channel(gateway).await, Shown(ANNA, None));
    let info = info
        .get_server_info(GetServerInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    info.workspaces.into_iter().find(|one| one.name == name).unwrap()
}

async fn told(fleet: &Fleet, part: &str) {
    for gateway in 0..2 {
        eventually(&format!("gateway {gateway} says {part:?}"), async || {
            let there = workspace(fleet, gateway, "wa").await;
            assert_eq!(there.problem, "");
            there.warnings.iter().any(|text| text.contains(part))
        })
        .await;
    }
}

#[test]
fn changed_rules_of_a_worker_hold_at_every_gateway() {
    test(async {
        let fleet = Fleet::start().await;
        let file = fleet.path("worker-a/own/opencode.json");
        completed(&fleet.run(0, "wa", "echo x").await.unwrap());
        let denies = r#"{"permission": {"bash": {"*": "allow", "echo *": "deny"}, "bahs": "deny"}}"#;
        fs::write(&file, denies).unwrap();
        let is_denied = async |gateway: usize| {
            let call = fleet.run(gateway, "wa", "echo x").await.unwrap();
            matches!(&call.ending, Some(call::Ending::Failed(failed)) if failed.reason() == FailureReason::Denied)
        };
        eventually("the new rules are in force", async || is_denied(0).await).await;
        assert!(is_denied(1).await);
        told(&fleet, "did you mean \"bash\"?").await;
        completed(&fleet.run(1, "wb", "echo x").await.unwrap());
        assert!(workspace(&fleet, 0, "wb").await.warnings.is_empty());

        fs::write(&file, "{").unwrap();
        told(&fleet, "the rules from before stay in force").await;
        assert!(is_denied(0).await && is_denied(1).await);
        fs::remove_file(&file).unwrap();
        told(&fleet, "is gone or empty: its rules stay in force").await;
        let call = fleet.run(1, "wa", "echo x").await.unwrap();
        assert_eq!(failed(&call).reason(), FailureReason::Denied);
        fs::write(&file, RULES).unwrap();
        eventually("the old rules are back", async || !is_denied(0).await).await;
        fleet.assert_calm();
    });
}
