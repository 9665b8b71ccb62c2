//! Whose an opened port is.

use std::fs;

use tokio_stream::StreamExt as _;
use tonic::transport::Channel;
use tonic::{Code, Status};
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::port_service_client::PortServiceClient;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{eventually, refused, test};

const PEOPLE: &str = "\
alice alice-alice-alice-alice *
bob bob-bob-bob-bob-bob-bob *
ben ben-ben-ben-ben-ben * b
eve eve-eve-eve-eve-eve-eve calls.execute,calls.read
pat pat-pat-pat-pat-pat-pat ports.connect
";

const EVE: &str = "eve-eve-eve-eve-eve-eve";
const PAT: &str = "pat-pat-pat-pat-pat-pat";

fn ports(channel: &Channel, token: &'static str) -> PortServiceClient<Authorized> {
    PortServiceClient::with_interceptor(channel.clone(), Bearer(token))
}

async fn connect(channel: &Channel, token: &'static str, call: &str) -> Result<(), Status> {
    let first = ConnectPortRequest {
        call_id: call.to_owned(),
        ..Default::default()
    };
    let requests = tokio_stream::once(first).chain(tokio_stream::pending());
    let mut messages = ports(channel, token).connect_port(requests).await?.into_inner();
    messages.message().await?.expect("the connection is made");
    Ok(())
}

#[test]
fn a_port_is_for_whoever_opened_it() {
    test(async {
        let folder = Folder::new();
        folder.put("tokens", PEOPLE);
        // Without walls, so that the command may listen.
        for name in ["a", "home"] {
            fs::write(
                folder.path(name).join("opencode.json"),
                r#"{"permission": {"*": "allow"}}"#,
            )
            .unwrap();
        }
        let settings = format!("{ON_A_PORT}\nauth.tokens_file = \"tokens\"");
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let command = r#"{"command": "exec python3 -m http.server --bind 127.0.0.1 0", "description": "Serves"}"#;
        let serve = ExecuteToolRequest {
            call_id: "site".to_owned(),
            tool: "background".to_owned(),
            on_disconnect: OnDisconnect::Keep.into(),
            arguments: Some(Arguments::InputJson(command.to_owned())),
            ..Default::default()
        };
        let _stream = tools(&channel, ALICE).execute_tool(serve).await.unwrap();
        let site = || GetCallRequest {
            call_id: "site".to_owned(),
        };
        let mut port = 0;
        eventually("it listens", async || {
            let call = tools(&channel, ALICE).get_call(site()).await.unwrap().into_inner();
            port = call.call.unwrap().listening.first().map_or(0, |one| one.port);
            port != 0
        })
        .await;
        let open = || OpenPortRequest {
            call: Some(CallStart {
                call_id: "way".to_owned(),
                ..Default::default()
            }),
            call_id: "site".to_owned(),
            port,
        };
        let without = ports(&channel, EVE).open_port(open()).await;
        refused(without, Code::PermissionDenied, "SCOPE_MISSING");
        refused(
            connect(&channel, EVE, "way").await,
            Code::PermissionDenied,
            "SCOPE_MISSING",
        );
        // Of another workspace there is nothing.
        refused(
            ports(&channel, BEN).open_port(open()).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        ports(&channel, ALICE).open_port(open()).await.unwrap();
        connect(&channel, ALICE, "way").await.unwrap();
        for other in [BOB, BEN, PAT] {
            refused(connect(&channel, other, "way").await, Code::NotFound, "NOT_FOUND");
        }
        refused(
            ports(&channel, BOB).open_port(open()).await,
            Code::AlreadyExists,
            "CALL_ID_TAKEN",
        );
        // The scope is all that it takes.
        let own = OpenPortRequest { call: None, ..open() };
        let opened = ports(&channel, PAT).open_port(own).await.unwrap().into_inner();
        connect(&channel, PAT, &opened.call_id).await.unwrap();
        service.stop().await;
    });
}
