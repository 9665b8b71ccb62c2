//! Whoever is limited to `PREFIX/*` sees all workspaces below the prefix and nothing of others, whatever says so: a token of
//! the file, a certificate or a signed token.

use serde_json::json;
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;
use tonic::{Code, Status};
use toolgate_contract::file_service_client::FileServiceClient;
use toolgate_contract::info_service_client::InfoServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::*;

use super::jwt::{self, Issuer};
use super::setup::*;
use super::tls::{Authority, TLS, install};
use crate::support::{self, refused, test};

const TOKENS: &str = "\
alice alice-alice-alice-alice *
bob bob-bob-bob-bob-bob-bob *
anna anna-anna-anna-anna * acme/*
ben ben-ben-ben-ben-ben * acme,acme/web/*
carol carol-carol-carol-carol * beta/*
";

/// The workspaces beside `a` and `b`, and where they are.
const WORKSPACES: [(&str, &str); 5] = [
    ("acme", "roots/1"),
    ("acme/web", "roots/2"),
    ("acme/web/17", "roots/3"),
    ("acme-b/web", "roots/4"),
    ("beta/web", "roots/5"),
];

/// A folder with these workspaces, and settings that name them.
fn prepare() -> (Folder, String) {
    let folder = Folder::new();
    folder.put("tokens", TOKENS);
    let mut settings = String::new();
    for (name, directory) in WORKSPACES {
        let directory = folder.path(directory);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::copy(folder.path("a/opencode.json"), directory.join("opencode.json")).unwrap();
        std::fs::write(directory.join("file"), name).unwrap();
        let directory = directory.display();
        settings.push_str(&format!(
            "[[workspaces]]\nname = \"{name}\"\ndirectory = \"{directory}\"\n"
        ));
    }
    std::fs::create_dir_all(folder.path("roots/new")).unwrap();
    std::fs::copy(folder.path("a/opencode.json"), folder.path("roots/new/opencode.json")).unwrap();
    let roots = "[[workspace_roots]]\ndirectory = \"roots\"\n";
    (folder, format!("{roots}{settings}"))
}

async fn start(folder: &Folder, settings: &str) -> Service {
    let settings = format!("{ON_A_PORT}\nauth.tokens_file = \"tokens\"\n{settings}");
    folder.start(&settings).await.unwrap()
}

fn all() -> String {
    "-".to_owned()
}

async fn names(channel: &Channel, token: &'static str) -> Vec<String> {
    let mut info = InfoServiceClient::with_interceptor(channel.clone(), Bearer(token));
    let info = info
        .get_server_info(GetServerInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    let mut names: Vec<String> = info.workspaces.into_iter().map(|one| one.name).collect();
    names.sort();
    names
}

async fn calls(channel: &Channel, token: &'static str, workspace: &str) -> Result<Vec<String>, Status> {
    let request = ListCallsRequest {
        workspace: workspace.to_owned(),
        ..Default::default()
    };
    let listed = tools(channel, token).list_calls(request).await?.into_inner().calls;
    let places = listed.into_iter().map(|call| call.context.unwrap().workspace);
    Ok(places.collect())
}

/// Asks for a command in each workspace and returns the prompts in this order.
async fn ask_everywhere(channel: &Channel) -> Vec<Prompt> {
    let mut asked = Vec::new();
    for (number, (workspace, _)) in WORKSPACES.into_iter().enumerate() {
        asked.push(ask(channel, ALICE, workspace, &format!("call-{number}"), "").await);
    }
    asked
}

#[test]
fn lists_are_of_the_prefix() {
    test(async {
        let (folder, settings) = prepare();
        let service = start(&folder, &settings).await;
        let channel = service.connect().await;
        ask_everywhere(&channel).await;
        assert_eq!(names(&channel, ANNA).await, ["acme/web", "acme/web/17"]);
        assert_eq!(names(&channel, BEN).await, ["acme", "acme/web/17"]);
        let listed = async |token, workspace: &str| calls(&channel, token, workspace).await.unwrap();
        assert_eq!(listed(ANNA, "-").await, ["acme/web/17", "acme/web"]);
        assert_eq!(listed(ANNA, "").await, ["acme/web"], "the first that she may see");
        assert_eq!(listed(ANNA, "acme/web/17").await, ["acme/web/17"]);
        assert_eq!(listed(BEN, "-").await, ["acme/web/17", "acme"]);
        // Filters name prefixes as well; of what is below only what the caller sees is meant.
        assert_eq!(listed(ALICE, "acme/*").await, ["acme/web/17", "acme/web"]);
        assert_eq!(listed(ALICE, "acme/web/*").await, ["acme/web/17"]);
        assert_eq!(listed(ANNA, "acme/*").await, ["acme/web/17", "acme/web"]);
        assert_eq!(listed(BEN, "acme/*").await, ["acme/web/17"]);
        assert!(listed(ANNA, "beta/*").await.is_empty());
        assert!(listed(ALICE, "gamma/*").await.is_empty());
        for hidden in ["acme", "acme-b/web", "beta/web", "a", "acme/gone", "ACME/web"] {
            refused(calls(&channel, ANNA, hidden).await, Code::NotFound, "NOT_FOUND");
        }
        for bad in ["*", "acme*", "acme/*/17", "*/web", "acme/**", "/*", "acme//*", "../*"] {
            refused(
                calls(&channel, ALICE, bad).await,
                Code::InvalidArgument,
                "INVALID_FIELD",
            );
        }

        let mut sessions = SessionServiceClient::with_interceptor(channel.clone(), Bearer(ANNA));
        let request = ListSessionsRequest {
            workspace: all(),
            ..Default::default()
        };
        let listed = sessions.list_sessions(request).await.unwrap().into_inner().sessions;
        let listed: Vec<String> = listed.into_iter().map(|one| one.workspace).collect();
        assert_eq!(listed, ["acme/web/17", "acme/web"]);
        let of_all = |session_id: &str| GetSessionRequest {
            session_id: session_id.to_owned(),
            workspace: all(),
        };
        let session = sessions
            .get_session(of_all("session-call-1"))
            .await
            .unwrap()
            .into_inner()
            .session;
        assert_eq!(session.unwrap().recent_calls.len(), 1);
        let session = sessions
            .get_session(of_all("session-call-4"))
            .await
            .unwrap()
            .into_inner()
            .session;
        let session = session.unwrap();
        assert!(session.recent_calls.is_empty() && session.open_prompts.is_empty());
        let several = EndSessionRequest {
            session_id: "session-call-1".to_owned(),
            workspace: "acme/*".to_owned(),
        };
        refused(
            sessions.end_session(several).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );

        let mut workspaces = WorkspaceServiceClient::with_interceptor(channel.clone(), Bearer(ANNA));
        let first = ListWorkspacesRequest {
            page_size: 1,
            ..Default::default()
        };
        let first = workspaces.list_workspaces(first).await.unwrap().into_inner();
        assert_eq!(
            (first.workspaces[0].name.as_str(), first.next_page_token.as_str()),
            ("acme/web", "acme/web")
        );
        let second = ListWorkspacesRequest {
            page_token: first.next_page_token,
            ..Default::default()
        };
        let second = workspaces.list_workspaces(second).await.unwrap().into_inner();
        assert_eq!(
            (second.workspaces[0].name.as_str(), second.next_page_token.as_str()),
            ("acme/web/17", "")
        );
        service.stop().await;
    });
}

#[test]
fn prompts_and_events_are_of_the_prefix() {
    test(async {
        let (folder, settings) = prepare();
        let service = start(&folder, &settings).await;
        let channel = service.connect().await;
        let asked = ask_everywhere(&channel).await;
        let listed = async |token, workspace: &str| {
            let filter = PromptFilter {
                workspace: workspace.to_owned(),
                all: true,
                ..Default::default()
            };
            let request = ListPromptsRequest {
                filter: Some(filter),
                ..Default::default()
            };
            let listed = prompts(&channel, token).list_prompts(request).await.unwrap();
            let listed = listed.into_inner().prompts.into_iter();
            listed.map(|prompt| prompt.workspace).collect::<Vec<_>>()
        };
        assert_eq!(listed(ANNA, "-").await, ["acme/web", "acme/web/17"]);
        assert_eq!(listed(ALICE, "beta/*").await, ["beta/web"]);
        assert_eq!(listed(BEN, "acme/*").await, ["acme/web/17"]);
        let watch = WatchPromptsRequest {
            filter: Some(PromptFilter {
                workspace: "acme/*".to_owned(),
                all: true,
                ..Default::default()
            }),
        };
        let mut watch = prompts(&channel, ALICE)
            .watch_prompts(watch)
            .await
            .unwrap()
            .into_inner();
        let mut next = async || loop {
            match watch.message().await.unwrap().unwrap().message.unwrap() {
                watch_prompts_response::Message::PromptAdded(added) => return added.prompt.unwrap().workspace,
                watch_prompts_response::Message::Opened(_)
                | watch_prompts_response::Message::SnapshotEnd(_)
                | watch_prompts_response::Message::Heartbeat(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            (next().await.as_str(), next().await.as_str()),
            ("acme/web", "acme/web/17")
        );
        ask(&channel, ALICE, "beta/web", "later-outside", "").await;
        ask(&channel, ALICE, "acme", "later-beside", "").await;
        ask(&channel, ALICE, "acme/web", "later-inside", "").await;
        assert_eq!(next().await, "acme/web", "what is outside is not shown before it");

        let outside = answer(&channel, ANNA, &asked[4], PromptDecision::Once).await.unwrap();
        assert_eq!((outside.result(), outside.prompt), (ReplyResult::NotFound, None));
        let inside = answer(&channel, ANNA, &asked[2], PromptDecision::Always).await.unwrap();
        assert_eq!(inside.result(), ReplyResult::Accepted);
        answer(&channel, BOB, &asked[4], PromptDecision::Always).await.unwrap();
        let grants = async |token, workspace: &str| {
            let request = ListGrantsRequest {
                workspace: workspace.to_owned(),
                ..Default::default()
            };
            let listed = prompts(&channel, token)
                .list_grants(request)
                .await
                .unwrap()
                .into_inner()
                .grants;
            let mut places: Vec<String> = listed.into_iter().map(|grant| grant.workspace).collect();
            places.dedup();
            places
        };
        assert_eq!(grants(ANNA, "-").await, ["acme/web/17"]);
        assert_eq!(grants(ALICE, "beta/*").await, ["beta/web"]);
        assert_eq!(grants(ALICE, "-").await, ["acme/web/17", "beta/web"]);

        let events = WatchEventsRequest {
            after_sequence: Some(0),
            workspace: all(),
            ..Default::default()
        };
        let mut sessions = SessionServiceClient::with_interceptor(channel.clone(), Bearer(ANNA));
        let events = sessions.watch_events(events).await.unwrap().into_inner();
        let mut events = events.map(|event| event.unwrap().event.unwrap());
        let mut seen = Vec::new();
        loop {
            let event = events.next().await.unwrap();
            let is_last = format!("{event:?}").contains("later-inside");
            seen.push(event.workspace);
            if is_last {
                break;
            }
        }
        seen.retain(|workspace| !workspace.is_empty());
        assert!(seen.iter().all(|workspace| workspace.starts_with("acme/")), "{seen:?}");
        assert!(seen.iter().any(|workspace| workspace == "acme/web/17"), "{seen:?}");
        service.stop().await;
    });
}

#[test]
fn files_outputs_and_ids_are_of_the_prefix() {
    test(async {
        let (folder, settings) = prepare();
        let service = start(&folder, &settings).await;
        let channel = service.connect().await;
        let context = |workspace: &str| {
            Some(CallContext {
                workspace: workspace.to_owned(),
                ..Default::default()
            })
        };
        let read = async |token, workspace: &str| {
            let request = ReadFileRequest {
                context: context(workspace),
                path: "file".to_owned(),
                ..Default::default()
            };
            let mut files = FileServiceClient::with_interceptor(channel.clone(), Bearer(token));
            let mut stream = files.read_file(request).await?.into_inner();
            let mut text = Vec::new();
            while let Some(part) = stream.message().await? {
                text.extend(part.data);
            }
            Ok::<_, Status>(String::from_utf8(text).unwrap())
        };
        for (workspace, _) in WORKSPACES {
            assert_eq!(read(ALICE, workspace).await.unwrap(), workspace);
            if workspace.starts_with("acme/") {
                assert_eq!(read(ANNA, workspace).await.unwrap(), workspace);
            } else {
                refused(read(ANNA, workspace).await, Code::NotFound, "NOT_FOUND");
            }
        }
        let run = ExecuteToolRequest {
            context: context("beta/web"),
            ..support::bash("true")
        };
        refused(
            tools(&channel, ANNA).execute_tool(run).await,
            Code::NotFound,
            "NOT_FOUND",
        );

        // The same id in several: the name of the workspace tells them apart, whatever is in it.
        let inside = ask_for(&channel, ANNA, "acme/web/17", "same", "", "seq 1 3").await;
        let outside = ask_for(&channel, CAROL, "beta/web", "same", "", "seq 1 4").await;
        assert_eq!((inside.call_id.as_str(), outside.call_id.as_str()), ("same", "same"));
        let seen = async |token, id: &str| {
            let request = GetCallRequest { call_id: id.to_owned() };
            let call = tools(&channel, token)
                .get_call(request)
                .await?
                .into_inner()
                .call
                .unwrap();
            Ok::<_, Status>(call.context.unwrap().workspace)
        };
        assert_eq!(seen(ANNA, "same").await.unwrap(), "acme/web/17");
        refused(seen(ALICE, "same").await, Code::FailedPrecondition, "AMBIGUOUS_CALL_ID");
        assert_eq!(seen(ALICE, "same~acme/web/17").await.unwrap(), "acme/web/17");
        assert_eq!(seen(ALICE, "same~beta/web").await.unwrap(), "beta/web");
        refused(seen(ANNA, "same~beta/web").await, Code::NotFound, "NOT_FOUND");
        refused(seen(ALICE, "same~acme/web").await, Code::NotFound, "NOT_FOUND");

        for prompt in [&inside, &outside] {
            answer(&channel, BOB, prompt, PromptDecision::Once).await.unwrap();
            let id = format!("same~{}", prompt.workspace);
            let watch = support::watch_request(&id, 0, OutputMode::Full);
            let ended = tools(&channel, ALICE).watch_call(watch).await.unwrap().into_inner();
            support::collect_watch(ended).await.unwrap();
        }
        let outputs = async |token, workspace: &str| {
            let request = ListOutputsRequest {
                workspace: workspace.to_owned(),
                ..Default::default()
            };
            let mut client = OutputServiceClient::with_interceptor(channel.clone(), Bearer(token));
            client.list_outputs(request).await.unwrap().into_inner().outputs
        };
        let of_anna = outputs(ANNA, "-").await;
        assert_eq!((of_anna.len(), outputs(ALICE, "-").await.len()), (1, 2));
        assert_eq!(outputs(ALICE, "acme/*").await, of_anna);
        let foreign = GetOutputRequest {
            output_id: outputs(ALICE, "beta/*").await[0].output_id.clone(),
        };
        let mut client = OutputServiceClient::with_interceptor(channel.clone(), Bearer(ANNA));
        refused(client.get_output(foreign).await, Code::NotFound, "NOT_FOUND");
        // Each has a folder of its own below that of the data, and none is in another one.
        let mut folders: Vec<String> = std::fs::read_dir(folder.path("data/workspaces"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        folders.sort();
        assert_eq!(
            folders,
            [
                "a",
                "acme",
                "acme%2fweb",
                "acme%2fweb%2f17",
                "acme-b%2fweb",
                "b",
                "beta%2fweb"
            ]
        );

        let mcp = async |workspace: &str| {
            let initialize = json!({
                "jsonrpc": "2.0", "id": 1, "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
                },
            });
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let request = client
                .post(format!("http://{}/mcp", service.address))
                .header("accept", "application/json, text/event-stream")
                .header("content-type", "application/json")
                .header("authorization", format!("Bearer {ANNA}"))
                .header("toolgate-workspace", workspace)
                .body(initialize.to_string());
            request.send().await.unwrap().status().as_u16()
        };
        assert_eq!((mcp("acme/web").await, mcp("acme/web/17").await), (200, 200));
        assert_eq!(
            (mcp("beta/web").await, mcp("acme").await, mcp("acme/*").await),
            (404, 404, 404)
        );
        service.stop().await;
    });
}

#[test]
fn workspaces_are_opened_below_the_prefix() {
    test(async {
        let (folder, settings) = prepare();
        let service = start(&folder, &settings).await;
        let channel = service.connect().await;
        let mut anna = WorkspaceServiceClient::with_interceptor(channel.clone(), Bearer(ANNA));
        let wanted = |name: &str| OpenWorkspaceRequest {
            workspace: name.to_owned(),
            directory: folder.path("roots/new").display().to_string(),
            create: false,
        };
        for outside in ["acme", "beta/new", "new", "acmeb"] {
            refused(
                anna.open_workspace(wanted(outside)).await,
                Code::PermissionDenied,
                "WORKSPACES_LIMITED",
            );
        }
        for bad in [
            "acme/",
            "acme//new",
            "acme/..",
            "acme/./new",
            "acme/*",
            "acme/-",
            "acme/a b",
            "acme/new~x",
        ] {
            refused(
                anna.open_workspace(wanted(bad)).await,
                Code::InvalidArgument,
                "INVALID_FIELD",
            );
        }
        anna.open_workspace(wanted("acme/new")).await.unwrap();
        assert_eq!(names(&channel, ANNA).await, ["acme/new", "acme/web", "acme/web/17"]);
        assert_eq!(
            ask(&channel, ANNA, "acme/new", "in-new", "").await.workspace,
            "acme/new"
        );
        let close = |name: &str| CloseWorkspaceRequest {
            workspace: name.to_owned(),
        };
        anna.close_workspace(close("acme/new")).await.unwrap();
        // Its records stay.
        assert_eq!(calls(&channel, ANNA, "acme/new").await.unwrap(), ["acme/new"]);
        assert_eq!(calls(&channel, ANNA, "-").await.unwrap(), ["acme/new"]);
        service.stop().await;
    });
}

#[test]
fn certificates_name_prefixes() {
    test(async {
        let (folder, settings) = prepare();
        let authority = Authority::new();
        install(&folder, &authority.server());
        folder.put("client-ca.pem", &authority.pem());
        let with_rule = |workspace: &str| {
            format!(
                "{ON_A_PORT}\n{TLS}\nlisten.tls.client_ca = \"client-ca.pem\"\nlisten.tls.client_auth = \"required\"\n\
                 [[auth.certificates]]\nsubject = \"dora\"\nname = \"dora\"\nscopes = [\"calls.read\"]\n\
                 workspaces = [\"{workspace}\"]\n{settings}"
            )
        };
        let service = folder.start(&with_rule("acme/*")).await.unwrap();
        let (certificate, key) = authority.client("dora", |_| {});
        let identity = Some((certificate.as_str(), key.as_str()));
        let channel = service.connect_tls(&authority.pem(), identity).await.unwrap();
        assert_eq!(names(&channel, "").await, ["acme/web", "acme/web/17"]);
        refused(calls(&channel, "", "beta/web").await, Code::NotFound, "NOT_FOUND");
        service.stop().await;
        let problem = folder.start(&with_rule("acme*")).await.err().expect("it is refused");
        assert!(
            problem.contains("PREFIX/*") && problem.contains("acme*") && problem.contains("dora"),
            "{problem}"
        );
    });
}

#[test]
fn signed_tokens_name_prefixes() {
    test(async {
        let (folder, settings) = prepare();
        let issuer = Issuer::new("one");
        let service = jwt::start_with(&folder, &[issuer.jwk()], &settings).await;
        let channel = service.connect().await;
        let of = |claim: serde_json::Value| issuer.sign(json!({ "workspaces": claim }));
        assert_eq!(
            names(&channel, of(json!(["acme/*"]))).await,
            ["acme/web", "acme/web/17"]
        );
        assert_eq!(
            names(&channel, of(json!("acme/web/* beta/web"))).await,
            ["acme/web/17", "beta/web"]
        );
        assert_eq!(names(&channel, of(json!(["*"]))).await.len(), 7);
        // Names of groups that are none of workspaces are for somebody else.
        assert_eq!(
            names(&channel, of(json!(["/staff", "all people", "acme/*"]))).await,
            ["acme/web", "acme/web/17"]
        );
        for bad in [json!(["acme*"]), json!("acme/* */web"), json!(["a", "acme/*/17"])] {
            refused(
                calls(&channel, of(bad), "").await,
                Code::Unauthenticated,
                "BAD_CREDENTIALS",
            );
        }
        let nobody = calls(&channel, of(json!(["/staff", ""])), "").await;
        refused(nobody, Code::Unauthenticated, "BAD_CREDENTIALS");
        let outside = calls(&channel, of(json!(["acme/*"])), "beta/web").await;
        refused(outside, Code::NotFound, "NOT_FOUND");
        service.stop().await;
    });
}
