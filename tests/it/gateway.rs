//! A gateway before three workers: every RPC through it as at a worker, on behalf of the one who calls.

mod chaos;
mod created;
mod doors;
mod encrypted;
mod lists;
mod lost;
mod operators;
pub(crate) mod people;
mod register;
mod registered;
pub(crate) mod setup;
mod streams;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::codegen::http::{HeaderMap, Request};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::file_service_client::FileServiceClient;
use toolgate_contract::info_service_client::InfoServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::*;
use tower::ServiceExt as _;

use self::setup::*;
use crate::support::{collect, completed, connect_tcp, refused, test};

/// Where a call was made, as it printed.
async fn place_of(fleet: &Fleet, token: &'static str, workspace: &str) -> String {
    let call = fleet.run(token, workspace, "pwd").await.unwrap();
    completed(&call).output.trim().to_owned()
}

#[test]
fn requests_go_where_their_workspace_is() {
    test(async {
        let fleet = Fleet::start().await;
        for (token, named, folder) in [
            (ANNA, "", "a/own"),
            (ANNA, "wa", "a/own"),
            (ANNA, "wb", "b/own"),
            (ANNA, "wc", "c/own"),
            // The default is the first that one may see.
            (BEN, "", "b/own"),
        ] {
            let place = place_of(&fleet, token, named).await;
            assert_eq!(place, fleet.path(folder).display().to_string(), "{named:?}");
        }
        refused(fleet.run(BEN, "wa", "pwd").await, Code::NotFound, "NOT_FOUND");
        refused(fleet.run(ANNA, "wd", "pwd").await, Code::NotFound, "NOT_FOUND");

        let mut files = FileServiceClient::with_interceptor(fleet.channel.clone(), Shown(ANNA, None));
        let context = Some(CallContext {
            workspace: "wc".to_owned(),
            ..CallContext::default()
        });
        let write = WriteFileRequest {
            call: Some(CallStart {
                context: context.clone(),
                ..CallStart::default()
            }),
            target: Some(WriteTarget {
                path: "new.txt".to_owned(),
                ..WriteTarget::default()
            }),
            content: b"text".to_vec().into(),
        };
        files.write_file(write).await.unwrap();
        assert_eq!(std::fs::read_to_string(fleet.path("c/own/new.txt")).unwrap(), "text");
        let read = ReadFileRequest {
            context,
            path: "new.txt".to_owned(),
            ..ReadFileRequest::default()
        };
        let mut parts = files.read_file(read).await.unwrap().into_inner();
        let mut data = Vec::new();
        while let Some(part) = parts.message().await.unwrap() {
            data.extend(part.data);
        }
        assert_eq!(data, b"text");

        let mut workspaces = WorkspaceServiceClient::with_interceptor(fleet.channel.clone(), Shown(ANNA, None));
        let folder = fleet.path("b/roots/more");
        std::fs::create_dir(&folder).unwrap();
        let open = OpenWorkspaceRequest {
            workspace: "more".to_owned(),
            directory: folder.display().to_string(),
            ..OpenWorkspaceRequest::default()
        };
        assert!(workspaces.open_workspace(open).await.unwrap().into_inner().opened);
        assert_eq!(place_of(&fleet, ANNA, "more").await, folder.display().to_string());
        let close = CloseWorkspaceRequest {
            workspace: "more".to_owned(),
        };
        workspaces.close_workspace(close).await.unwrap();
        fleet.assert_calm();
    });
}

#[test]
fn ids_are_found_at_whichever_worker() {
    test(async {
        let fleet = Fleet::start().await;
        let made = fleet.run(ANNA, "wb", "seq 3000").await.unwrap();
        let get = |id: &str| GetCallRequest { call_id: id.to_owned() };
        let found = fleet
            .tools(BEN)
            .get_call(get(&made.call_id))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(found.call.unwrap().context.unwrap().workspace, "wb");
        let end = completed(&made);
        let mut outputs = OutputServiceClient::with_interceptor(fleet.channel.clone(), Shown(ANNA, None));
        let output_id = end.truncation.as_ref().unwrap().output_id.clone();
        let output = outputs
            .get_output(GetOutputRequest { output_id })
            .await
            .unwrap()
            .into_inner()
            .output
            .unwrap();
        assert_eq!(
            (output.workspace.as_str(), output.call_id),
            ("wb", made.call_id.clone())
        );

        // What one may not see is not there, whether it was found for somebody else or not.
        let theirs = fleet.run(ANNA, "wa", "true").await.unwrap().call_id;
        fleet.tools(ANNA).get_call(get(&theirs)).await.unwrap();
        refused(
            fleet.tools(BEN).get_call(get(&theirs)).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        refused(
            fleet.tools(ANNA).get_call(get("nowhere")).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        refused(
            fleet.tools(ANNA).get_call(get("")).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );

        // What is found is not forgotten because somebody tries to take its id, and is not guessed when somebody has it.
        let take = |directory: &str| {
            let mut request = ExecuteToolRequest {
                call_id: theirs.clone(),
                ..bash("wb", "true")
            };
            request.context.as_mut().unwrap().directory = directory.to_owned();
            let mut tools = fleet.tools(BEN);
            async move { collect(tools.execute_tool(request).await?.into_inner()).await }
        };
        take("nowhere").await.unwrap_err();
        fleet.tools(ANNA).get_call(get(&theirs)).await.unwrap();
        take("").await.unwrap();
        let several = fleet.tools(ANNA).get_call(get(&theirs)).await;
        refused(several, Code::FailedPrecondition, "AMBIGUOUS_CALL_ID");

        // Clients choose the ids of calls, and two may choose the same one.
        for workspace in ["wa", "wb"] {
            let request = ExecuteToolRequest {
                call_id: "mine".to_owned(),
                ..bash(workspace, "true")
            };
            collect(fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner())
                .await
                .unwrap();
        }
        let several = fleet.tools(ANNA).get_call(get("mine")).await;
        refused(several, Code::FailedPrecondition, "AMBIGUOUS_CALL_ID");
        let named = fleet
            .tools(ANNA)
            .get_call(get("mine~wb"))
            .await
            .unwrap()
            .into_inner()
            .call
            .unwrap();
        assert_eq!(named.context.unwrap().workspace, "wb");
        let only = fleet
            .tools(BEN)
            .get_call(get("mine"))
            .await
            .unwrap()
            .into_inner()
            .call
            .unwrap();
        assert_eq!(only.context.unwrap().workspace, "wb");
        fleet.assert_calm();
    });
}

/// The lines of a worker's audit.
async fn audit(fleet: &Fleet, worker: usize) -> String {
    let channel = connect_tcp(&fleet.workers[worker].address).await.unwrap();
    let mut audit = AuditServiceClient::with_interceptor(channel, Shown(LOCAL, None));
    let mut parts = audit
        .export_audit(ExportAuditRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut lines = String::new();
    while let Some(part) = parts.message().await.unwrap() {
        lines += &part.records.join("\n");
    }
    lines
}

#[test]
fn the_requester_stays_the_person_and_nobody_else_may_say_so() {
    test(async {
        let fleet = Fleet::start().await;
        fleet.run(BEN, "wb", "true").await.unwrap();
        let lines = audit(&fleet, 1).await;
        assert!(lines.contains("\"requester\":\"token:ben\""), "{lines}");
        assert!(!lines.contains("\"requester\":\"token:gateway\""), "{lines}");

        const ENTRY: &str = r#"{"principal":"token:anna","scopes":["calls.read"],"workspaces":null,"expires_in_ms":null,"looks":false}"#;
        let direct = connect_tcp(&fleet.workers[0].address).await.unwrap();
        let info = |channel: &Channel, token, entry| {
            let mut client = InfoServiceClient::with_interceptor(channel.clone(), Shown(token, entry));
            async move { client.get_server_info(GetServerInfoRequest {}).await }
        };
        // The gateway itself may.
        info(&direct, GATEWAY, Some(ENTRY)).await.unwrap();
        info(&direct, LOCAL, None).await.unwrap();
        for (channel, token) in [(&direct, LOCAL), (&fleet.channel, ANNA)] {
            let forged = info(channel, token, Some(ENTRY)).await;
            let status = forged.as_ref().unwrap_err();
            assert!(status.message().contains("auth.gateways"), "{status:?}");
            refused(forged, Code::PermissionDenied, "SCOPE_MISSING");
        }
        let strange = info(
            &direct,
            GATEWAY,
            Some(r#"{"principal":"unix:0","scopes":[],"workspaces":null,"expires_in_ms":null}"#),
        );
        refused(strange.await, Code::PermissionDenied, "SCOPE_MISSING");
        // A scope that the entry leaves out is missing.
        let mut tools = tool_service_client::ToolServiceClient::with_interceptor(direct, Shown(GATEWAY, Some(ENTRY)));
        let run = tools.run_tool(crate::support::run_request(bash("wa", "true"))).await;
        refused(run, Code::PermissionDenied, "SCOPE_MISSING");
    });
}

#[test]
fn a_process_of_a_call_keeps_the_rights_of_the_person() {
    test(async {
        let fleet = Fleet::start().await;
        let program = env!("CARGO_BIN_EXE_toolgate");
        let socket = fleet.path("c/s").display().to_string();
        // What it may is what the person may, and no more than a process may.
        let command = format!(
            "{program} --server unix:{socket} calls 2>&1; {program} --server unix:{socket} audit export 2>&1; true"
        );
        let call = fleet.run(ANNA, "wc", &command).await.unwrap();
        let output = &completed(&call).output;
        assert!(output.contains(&call.call_id), "{output}");
        assert!(
            output.contains("a process that was started for a call has not"),
            "{output}"
        );
    });
}

/// The names of all RPCs.
fn rpcs() -> Vec<String> {
    let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
    let ours = files.iter().filter(|file| file.package() == "toolgate.v1");
    let named = ours.flat_map(|file| &file.service).flat_map(|service| {
        let name =
            |method: &prost_types::MethodDescriptorProto| format!("/toolgate.v1.{}/{}", service.name(), method.name());
        service.method.iter().map(name).collect::<Vec<_>>()
    });
    named.collect()
}

/// How an RPC begins to answer an empty message: its status if it fails at once.
async fn begins(channel: &Channel, rpc: &str, token: &str) -> Option<(Code, String)> {
    let body = "\0\0\0\0\0".to_owned();
    let request = Request::post(rpc)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {token}"))
        .body(tonic::body::Body::new(body))
        .unwrap();
    let response = channel.clone().oneshot(request).await.unwrap();
    let headers: &HeaderMap = response.headers();
    let status = Status::from_header_map(headers)?;
    let reason = status
        .get_details_error_info()
        .map(|info| info.reason)
        .unwrap_or_default();
    Some((status.code(), reason))
}

#[test]
fn every_rpc_begins_as_at_a_worker() {
    test(async {
        let fleet = Fleet::start().await;
        let direct = connect_tcp(&fleet.workers[0].address).await.unwrap();
        let rpcs = rpcs();
        assert!(rpcs.len() > 40);
        for rpc in rpcs {
            let through = begins(&fleet.channel, &rpc, ANNA).await;
            if rpc.contains("AuditService") {
                let expected = (Code::FailedPrecondition, "SEVERAL_WORKERS".to_owned());
                assert_eq!(through, Some(expected), "{rpc}");
                continue;
            }
            assert_eq!(through, begins(&direct, &rpc, LOCAL).await, "{rpc}");
        }
        let stranger = begins(&fleet.channel, "/toolgate.v1.ToolService/GetCall", "nobody").await;
        assert_eq!(stranger, Some((Code::Unauthenticated, "BAD_CREDENTIALS".to_owned())));
        fleet.assert_calm();
    });
}

#[test]
fn it_tells_of_all_workers_and_stops_in_order() {
    test(async {
        let mut fleet = Fleet::start().await;
        let mut info = InfoServiceClient::with_interceptor(fleet.channel.clone(), Shown(ANNA, None));
        let told = info
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap()
            .into_inner();
        let names: Vec<&str> = told.workspaces.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["wa", "wb", "wc"]);
        assert!(told.limits.unwrap().max_input_bytes > 0 && !told.instance_id.is_empty());
        let mut health = tonic_health::pb::health_client::HealthClient::new(fleet.channel.clone());
        let check = tonic_health::pb::HealthCheckRequest::default();
        let status = health.check(check).await.unwrap().into_inner().status;
        assert_eq!(
            status,
            i32::from(tonic_health::pb::health_check_response::ServingStatus::Serving)
        );
        fleet.workers[2].kill9().await;
        let told = info
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(told.workspaces.len(), 2);
        assert!(
            told.warnings
                .iter()
                .any(|warning| warning.contains("the worker c cannot be reached"))
        );
        let mut workspaces = WorkspaceServiceClient::with_interceptor(fleet.channel.clone(), Shown(ANNA, None));
        let listed = workspaces
            .list_workspaces(ListWorkspacesRequest::default())
            .await
            .unwrap()
            .into_inner();
        let problems: Vec<bool> = listed.workspaces.iter().map(|one| one.problem.is_empty()).collect();
        assert_eq!(problems, [true, true, false]);
        assert_eq!(
            fleet.gateway.signal(rustix::process::Signal::TERM).await,
            Some(0),
            "{}",
            fleet.gateway.log()
        );
        fleet.assert_calm();
    });
}

#[test]
fn a_configuration_is_for_its_own_command() {
    test(async {
        let folder = tempfile::TempDir::new().unwrap();
        let run = async |command: &str, text: &str| {
            let file = folder.path().join("toolgate.toml");
            std::fs::write(&file, text).unwrap();
            let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_toolgate"))
                .args(["--config", &file.display().to_string(), command])
                .env_clear()
                .env("HOME", folder.path())
                .output()
                .await
                .unwrap();
            assert!(!output.status.success());
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let gateway = "auth.tokens_file = \"t\"\ncluster.role = \"gateway\"\n[cluster.workers.a]\naddress = \"unix:/a\"\n\
                       token_file = \"own\"\n";
        let error = run("serve", gateway).await;
        assert!(error.contains("toolgate gateway"), "{error}");
        let error = run("gateway", "").await;
        assert!(error.contains("cluster.role"), "{error}");
        let error = run(
            "gateway",
            &format!("{gateway}[[workspaces]]\nname = \"a\"\ndirectory = \"/\"\n"),
        )
        .await;
        assert!(error.contains("works in no folder"), "{error}");
    });
}

#[test]
fn web_pages_of_the_gateways_origins_may_call() {
    test(async {
        let fleet = Fleet::with("listen.origins = [\"http://page.example\"]").await;
        let made = fleet.run(ANNA, "wb", "true").await.unwrap().call_id;
        let message = GetCallRequest { call_id: made.clone() }.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0], &length[..], &message].concat();
        for (origin, is_allowed) in [("http://page.example", true), ("http://evil.example", false)] {
            let head = format!(
                "POST /toolgate.v1.ToolService/GetCall HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nOrigin: {origin}\r\n\
                 Authorization: Bearer {ANNA}\r\nContent-Type: application/grpc-web+proto\r\nContent-Length: {}\r\n\r\n",
                fleet.gateway.address,
                body.len()
            );
            let mut page = TcpStream::connect(&fleet.gateway.address).await.unwrap();
            page.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
            let mut answer = Vec::new();
            page.read_to_end(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer);
            assert_eq!(answer.starts_with("HTTP/1.1 200"), is_allowed, "{origin}: {answer}");
            let allowed = answer
                .matches("access-control-allow-origin: http://page.example")
                .count();
            assert_eq!(allowed, usize::from(is_allowed), "{origin}: {answer}");
            assert_eq!(answer.contains(&made), is_allowed, "{origin}: {answer}");
        }
        fleet.assert_calm();
    });
}
