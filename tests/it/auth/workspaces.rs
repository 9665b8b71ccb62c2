//! Who may open and close workspaces.

use tonic::Code;
use tonic::transport::Channel;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{refused, test};

const PEOPLE: &str = "\
alice alice-alice-alice-alice *
dora dora-dora-dora-dora * mine,other
eve eve-eve-eve-eve-eve-eve calls.execute,calls.read,prompts.reply
finn finn-finn-finn-finn-finn workspaces.manage
";

const DORA: &str = "dora-dora-dora-dora";
const EVE: &str = "eve-eve-eve-eve-eve-eve";
const FINN: &str = "finn-finn-finn-finn-finn";

fn workspaces(channel: &Channel, token: &'static str) -> WorkspaceServiceClient<Authorized> {
    WorkspaceServiceClient::with_interceptor(channel.clone(), Bearer(token))
}

async fn names(channel: &Channel, token: &'static str) -> Vec<String> {
    let listed = workspaces(channel, token)
        .list_workspaces(ListWorkspacesRequest::default())
        .await
        .unwrap();
    listed.into_inner().workspaces.into_iter().map(|one| one.name).collect()
}

#[test]
fn opening_takes_a_scope_of_its_own_and_a_name_that_one_sees() {
    test(async {
        let folder = Folder::new();
        folder.put("tokens", PEOPLE);
        for name in ["one", "two"] {
            std::fs::create_dir_all(folder.path("roots").join(name)).unwrap();
        }
        let settings =
            format!("{ON_A_PORT}\nauth.tokens_file = \"tokens\"\n[[workspace_roots]]\ndirectory = \"roots\"");
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let wanted = |name: &str, directory: &str| OpenWorkspaceRequest {
            workspace: name.to_owned(),
            directory: folder.path("roots").join(directory).display().to_string(),
            create: false,
        };
        let close = |name: &str| CloseWorkspaceRequest {
            workspace: name.to_owned(),
        };
        // To run calls is not to choose where.
        let refusal = workspaces(&channel, EVE).open_workspace(wanted("mine", "one")).await;
        refused(refusal, Code::PermissionDenied, "SCOPE_MISSING");
        let refusal = workspaces(&channel, EVE).close_workspace(close("mine")).await;
        refused(refusal, Code::PermissionDenied, "SCOPE_MISSING");
        // And to choose is not to see.
        let mut finn = workspaces(&channel, FINN);
        refused(
            finn.list_workspaces(ListWorkspacesRequest::default()).await,
            Code::PermissionDenied,
            "SCOPE_MISSING",
        );

        let mut dora = workspaces(&channel, DORA);
        for name in ["a", "unknown"] {
            refused(
                dora.open_workspace(wanted(name, "one")).await,
                Code::PermissionDenied,
                "WORKSPACES_LIMITED",
            );
            refused(
                dora.close_workspace(close(name)).await,
                Code::PermissionDenied,
                "WORKSPACES_LIMITED",
            );
        }
        let mine = dora.open_workspace(wanted("mine", "one")).await.unwrap().into_inner();
        assert_eq!(mine.workspace.unwrap().opened_by, "token:dora");
        finn.open_workspace(wanted("theirs", "two")).await.unwrap();
        assert_eq!(names(&channel, DORA).await, ["mine"]);
        assert_eq!(names(&channel, ALICE).await, ["a", "b", "mine", "theirs"]);
        let hidden = GetWorkspaceRequest {
            workspace: "theirs".to_owned(),
        };
        refused(dora.get_workspace(hidden).await, Code::NotFound, "NOT_FOUND");
        dora.close_workspace(close("mine")).await.unwrap();
        assert_eq!(names(&channel, DORA).await, Vec::<String>::new());
        service.stop().await;
    });
}
