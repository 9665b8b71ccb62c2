//! Workspaces that are created through a gateway, at a worker that creates some.

use tonic::Code;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::*;

use super::registered::*;
use super::setup::*;
use crate::support::{completed, refused, test};

#[test]
fn a_workspace_is_created_at_a_worker_and_passed_on_to() {
    test(async {
        let tenant = "[tenants.acme]\nworkspaces = [\"acme/*\"]\nmax_workspaces = 2\n";
        let door = Door::open(tenant).await;
        let a = door.worker("a", &["wa", "acme/one"]).await;
        door.ready(&[("a", &["wa", "acme/one"])]).await;
        let mut workspaces = WorkspaceServiceClient::with_interceptor(door.channel.clone(), Shown(ANNA, None));
        let create = |name: &str| CreateWorkspaceRequest {
            workspace: name.to_owned(),
            wait: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
            ..CreateWorkspaceRequest::default()
        };
        let made = workspaces
            .create_workspace(create("acme/two"))
            .await
            .unwrap()
            .into_inner();
        assert!(made.created && made.workspace.unwrap().state() == WorkspaceState::Ready);
        let again = workspaces
            .create_workspace(create("acme/two"))
            .await
            .unwrap()
            .into_inner();
        assert!(!again.created);
        refused(
            workspaces.create_workspace(create("acme/three")).await,
            Code::ResourceExhausted,
            "TOO_MANY_WORKSPACES",
        );
        let told = door.run("acme/two", "pwd").await.unwrap();
        assert!(completed(&told).output.ends_with("/a/made/acme/two\n"), "{told:?}");

        let suspend = SuspendWorkspaceRequest {
            workspace: "acme/two".to_owned(),
        };
        workspaces.suspend_workspace(suspend).await.unwrap();
        let listed = workspaces.list_workspaces(ListWorkspacesRequest::default()).await;
        let listed = listed.unwrap().into_inner().workspaces;
        let states = listed.iter().map(|one| (one.name.as_str(), one.state()));
        let expected = [
            ("acme/one", WorkspaceState::Ready),
            ("acme/two", WorkspaceState::Suspended),
            ("wa", WorkspaceState::Ready),
        ];
        assert_eq!(states.collect::<Vec<_>>(), expected);
        door.run("acme/two", "true").await.unwrap();
        let delete = || DeleteWorkspaceRequest {
            workspace: "acme/two".to_owned(),
        };
        workspaces.delete_workspace(delete()).await.unwrap();
        refused(workspaces.delete_workspace(delete()).await, Code::NotFound, "NOT_FOUND");
        assert!(!door.path("a/made/acme").exists());
        assert_calm(&[&door.gateway, &a]);
    });
}
