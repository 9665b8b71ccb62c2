//! Resources and prompts of servers by RPC, for front ends: `McpService`.

use tonic::transport::Channel;
use tonic::{Code, Status};
use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::mcp_prompt_message::Content;
use toolgate_contract::mcp_resource_contents::Content as Contents;
use toolgate_contract::mcp_service_client::McpServiceClient;
use toolgate_store::audit::{Kind, Record};

use super::web::{self, Reply, Request, Web};
use super::*;
use crate::gateway::setup::{ANNA, BEN, Shown, start_gateway, start_worker};

type Client = McpServiceClient<Channel>;

/// How many resources the own server has, beside the one that is secret.
const MANY: usize = 25;

fn problem(message: &Value, code: i64, text: &str) -> Reply {
    Reply::json(&json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}))
}

fn answer(request: &Request) -> Reply {
    let message = request.message();
    let params = &message["params"];
    let uri = params["uri"].as_str().unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"resources": {}, "prompts": {}, "completions": {}},
            "serverInfo": {"name": "own", "version": "1"},
        }),
        Some("resources/list") => {
            let own = (0..MANY).map(|at| json!({"uri": format!("own://{at}"), "name": format!("n{at}"), "size": at}));
            let secret = json!({"uri": "own://secret", "name": "secret"});
            json!({"resources": own.chain([secret]).collect::<Vec<_>>()})
        }
        Some("resources/templates/list") => {
            json!({"resourceTemplates": [{"uriTemplate": "own://{x}", "name": "x", "title": "Any"}]})
        }
        Some("prompts/list") => json!({"prompts": [
            {"name": "plain"},
            {"name": "asks", "arguments": [{"name": "who", "required": true}, {"name": "how"}, {"name": "why", "required": true}]},
            {"name": "secret"},
        ]}),
        Some("resources/read") if uri == "own://none" => return problem(&message, -32002, "no such thing"),
        Some("resources/read") if uri == "own://wrong" => return problem(&message, -32603, "it is out of order"),
        Some("resources/read") => json!({"contents": [
            {"uri": uri, "mimeType": "text/plain", "text": "x".repeat(100_000)},
            {"uri": format!("{uri}/zip"), "mimeType": "application/zip", "blob": "AAEC"},
        ]}),
        Some("prompts/get") if params["arguments"]["how"] == "badly" => return problem(&message, -32602, "not so"),
        Some("prompts/get") => json!({"description": "as told", "messages": [
            {"role": "user", "content": {"type": "text", "text": params["arguments"].to_string()}},
            {"role": "assistant", "content": {"type": "resource_link", "uri": "own://1", "name": "n1"}},
        ]}),
        Some("completion/complete") => json!({"completion": {
            "values": [format!("{}!", params["argument"]["value"].as_str().unwrap())], "total": 7, "hasMore": true,
        }}),
        Some(_) => return Reply::status(202),
        None => return Reply::status(405),
    };
    web::result(&message, &result)
}

fn list(server: &str) -> ListMcpResourcesRequest {
    ListMcpResourcesRequest {
        server: server.to_owned(),
        ..ListMcpResourcesRequest::default()
    }
}

fn read(uri: &str) -> ReadMcpResourceRequest {
    ReadMcpResourceRequest {
        server: "s".to_owned(),
        uri: uri.to_owned(),
        ..ReadMcpResourceRequest::default()
    }
}

fn prompt(name: &str, arguments: &[(&str, &str)]) -> GetMcpPromptRequest {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    GetMcpPromptRequest {
        server: "s".to_owned(),
        name: name.to_owned(),
        arguments: arguments.iter().map(owned).collect(),
        ..GetMcpPromptRequest::default()
    }
}

async fn uris(client: &mut Client, request: ListMcpResourcesRequest) -> Vec<String> {
    let listed = client.list_mcp_resources(request).await.unwrap().into_inner();
    assert_eq!(listed.omitted, []);
    listed.resources.into_iter().map(|resource| resource.uri).collect()
}

/// A service whose server `s` is ours, with these rules for `read`; beside it, one that has only tools.
async fn with_own(web: &Web, rules: Value) -> (Server, Client) {
    let config = json!({
        "mcp": {
            "s": {"type": "remote", "url": web.url("/mcp")},
            "t": faulty_server("good"),
            "off": {"type": "local", "command": ["true"], "enabled": false},
            "gone": {"type": "local", "command": ["false"]},
        },
        "permission": {"read": rules},
    });
    let server = Server::with(Setup {
        config: Some(config),
        ..Setup::default()
    })
    .await;
    ready(&server, "s").await;
    ready(&server, "t").await;
    let client = McpServiceClient::new(server.channel());
    (server, client)
}

fn asked_for(web: &Web, word: &str) -> usize {
    web.seen("/mcp")
        .iter()
        .filter(|request| request.body.contains(word))
        .count()
}

#[test]
fn front_ends_list_and_read_what_a_real_server_has() {
    test(async {
        let server = service(&[("every thing", local(&["node", &npm("server-everything")]))]).await;
        ready(&server, "every thing").await;
        let mut client: Client = McpServiceClient::new(server.channel());
        let all = client.list_mcp_resources(list("")).await.unwrap().into_inner();
        assert_eq!(all.omitted, []);
        let document = &all.resources[0];
        assert_eq!(document.server, "every thing");
        assert!(
            !document.name.is_empty() && document.uri.contains("://"),
            "{document:?}"
        );
        let request = ListMcpResourceTemplatesRequest::default();
        let templates = client
            .list_mcp_resource_templates(request)
            .await
            .unwrap()
            .into_inner()
            .templates;
        assert!(
            templates.iter().any(|one| one.uri_template.contains("dynamic/text/{")),
            "{templates:?}"
        );
        let request = ListMcpPromptsRequest {
            server: "every thing".to_owned(),
            ..ListMcpPromptsRequest::default()
        };
        let prompts = client.list_mcp_prompts(request).await.unwrap().into_inner().prompts;
        let with_arguments = prompts.iter().find(|prompt| prompt.name == "args-prompt").unwrap();
        let arguments = with_arguments.arguments.iter().map(|one| (&*one.name, one.required));
        assert_eq!(arguments.collect::<Vec<_>>(), [("city", true), ("state", false)]);

        let of_it = |uri: &str| ReadMcpResourceRequest {
            server: "every thing".to_owned(),
            ..read(uri)
        };
        let text = client
            .read_mcp_resource(of_it("demo://resource/dynamic/text/1"))
            .await
            .unwrap()
            .into_inner();
        assert!(matches!(&text.contents[0].content, Some(Contents::Text(text)) if text.contains("Resource 1")));
        let call = server.get(&text.call_id).await;
        assert_eq!(call.tool, "mcp-read_every_thing");
        let blob = client
            .read_mcp_resource(of_it("demo://resource/dynamic/blob/1"))
            .await
            .unwrap()
            .into_inner();
        assert!(matches!(&blob.contents[0].content, Some(Contents::Blob(blob)) if blob.starts_with(b"Resource 1")));

        let of_it = |name: &str, arguments: &[(&str, &str)]| GetMcpPromptRequest {
            server: "every thing".to_owned(),
            ..prompt(name, arguments)
        };
        let got = client
            .get_mcp_prompt(of_it("args-prompt", &[("city", "Ulm")]))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(got.messages[0].role(), McpRole::User);
        assert_eq!(
            got.messages[0].content,
            Some(Content::Text("What's weather in Ulm?".to_owned()))
        );
        let missing = client.get_mcp_prompt(of_it("args-prompt", &[("state", "x")])).await;
        let details = refused(missing, Code::InvalidArgument, "MCP_ARGUMENT_MISSING");
        assert_eq!(details.error_info().unwrap().metadata["argument"], "city");

        let request = CompleteMcpArgumentRequest {
            server: "every thing".to_owned(),
            owner: Some(complete_mcp_argument_request::Owner::Prompt(
                "completable-prompt".to_owned(),
            )),
            argument: "name".to_owned(),
            value: "D".to_owned(),
            arguments: [("department".to_owned(), "Sales".to_owned())].into(),
            ..CompleteMcpArgumentRequest::default()
        };
        let completed = client.complete_mcp_argument(request).await.unwrap().into_inner();
        assert_eq!(completed.values, ["David"]);
    });
}

#[test]
fn lists_have_pages_and_say_what_is_left_out() {
    test(async {
        let web = Web::start(answer).await;
        let (_server, mut client) = with_own(&web, json!({"*": "allow", "mcp:s:own://secret": "deny"})).await;
        let request = ListMcpResourcesRequest {
            page_size: 20,
            ..list("s")
        };
        let first = client.list_mcp_resources(request.clone()).await.unwrap().into_inner();
        assert_eq!(first.resources.len(), 20);
        assert_eq!(first.resources[3].size_bytes, Some(3));
        let page_token = first.next_page_token.clone();
        let request = ListMcpResourcesRequest { page_token, ..request };
        let second = client.list_mcp_resources(request).await.unwrap().into_inner();
        // What a rule denies to read is not there.
        let names = [first.resources, second.resources].concat();
        let names: Vec<String> = names.into_iter().map(|resource| resource.name).collect();
        assert_eq!(names, (0..MANY).map(|at| format!("n{at}")).collect::<Vec<_>>());
        assert_eq!(second.next_page_token, "");
        let odd = ListMcpResourcesRequest {
            page_token: first.next_page_token.replace('.', "x."),
            ..list("s")
        };
        refused(
            client.list_mcp_resources(odd).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );

        let all = client.list_mcp_resources(list("")).await.unwrap().into_inner();
        assert_eq!(all.resources.len(), MANY);
        // One that is off is meant to be; one that has no such list has nothing to leave out.
        let omitted: Vec<_> = all.omitted.iter().map(|left| (&*left.server, left.reason())).collect();
        assert_eq!(omitted, [("gone", ErrorReason::McpServerNotReady)]);
        assert!(
            all.omitted[0].problem.contains("ended with code 1"),
            "{:?}",
            all.omitted
        );

        for (server, code, reason) in [
            ("gone", Code::FailedPrecondition, "MCP_SERVER_NOT_READY"),
            ("off", Code::FailedPrecondition, "MCP_SERVER_NOT_READY"),
            ("nobody", Code::NotFound, "NOT_FOUND"),
        ] {
            refused(client.list_mcp_resources(list(server)).await, code, reason);
            let read = ReadMcpResourceRequest {
                server: server.to_owned(),
                ..read("own://1")
            };
            refused(client.read_mcp_resource(read).await, code, reason);
        }
        assert_eq!(uris(&mut client, list("t")).await, [""; 0]);
        let of_tools = ReadMcpResourceRequest {
            server: "t".to_owned(),
            ..read("own://1")
        };
        refused(client.read_mcp_resource(of_tools).await, Code::NotFound, "NOT_FOUND");
    });
}

#[test]
fn nothing_that_the_rules_deny_is_read_and_people_are_asked_about_the_rest() {
    test(async {
        let web = Web::start(answer).await;
        let rules = json!({
            "*": "allow", "mcp:s:own://secret": "deny", "mcp:s:prompt:secret": "deny", "mcp:s:own://ask": "ask",
            "mcp:s:prompt:asks": "ask",
        });
        let (server, mut client) = with_own(&web, rules).await;
        let denied = client.read_mcp_resource(read("own://secret")).await;
        let details = refused(denied, Code::PermissionDenied, "DENIED_BY_RULE");
        let call = &details.error_info().unwrap().metadata["call_id"];
        assert_eq!(failed(&server.get(call).await).reason(), FailureReason::Denied);
        let denied = client.get_mcp_prompt(prompt("secret", &[])).await;
        refused(denied, Code::PermissionDenied, "DENIED_BY_RULE");
        let hint = |owner, argument: &str| CompleteMcpArgumentRequest {
            server: "s".to_owned(),
            owner: Some(owner),
            argument: argument.to_owned(),
            value: "a".to_owned(),
            ..CompleteMcpArgumentRequest::default()
        };
        let of_prompt = |name: &str| complete_mcp_argument_request::Owner::Prompt(name.to_owned());
        let denied = client.complete_mcp_argument(hint(of_prompt("secret"), "x")).await;
        refused(denied, Code::PermissionDenied, "DENIED_BY_RULE");
        let asks = client.complete_mcp_argument(hint(of_prompt("asks"), "who")).await;
        refused(asks, Code::PermissionDenied, "PERMISSION_NEEDED");
        let of_template = complete_mcp_argument_request::Owner::UriTemplate("own://{x}".to_owned());
        let completed = client
            .complete_mcp_argument(hint(of_template, "x"))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            (completed.values, completed.total, completed.has_more),
            (vec!["a!".to_owned()], Some(7), true)
        );

        // Nobody is there to ask.
        refused(
            client.read_mcp_resource(read("own://ask")).await,
            Code::PermissionDenied,
            "PERMISSION_NEEDED",
        );
        assert_eq!(asked_for(&web, "own://ask"), 0);
        let mut approver = Approver::open(server.channel(), "a person").await.unwrap();
        let waits = CallStart {
            call_id: "reading".to_owned(),
            unattended: Unattended::Wait.into(),
            ..CallStart::default()
        };
        let request = ReadMcpResourceRequest {
            call: Some(waits),
            ..read("own://ask")
        };
        let reading = {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.read_mcp_resource(request).await }
        };
        let answering = async {
            let asked = approver.added().await;
            assert_eq!(asked.tool, "mcp-read_s");
            assert!(approver.send(reply(&asked, PromptDecision::Once)).await);
        };
        let (answered, ()) = tokio::join!(reading, answering);
        let answered = answered.unwrap().into_inner();
        assert_eq!(answered.call_id, "reading");
        // All of it, also what a model would be shown only a part of, or nothing.
        assert!(matches!(&answered.contents[0].content, Some(Contents::Text(text)) if text.len() == 100_000));
        assert_eq!(answered.contents[1].content, Some(Contents::Blob(vec![0, 1, 2].into())));
        // It was handed out once.
        let again = client.read_mcp_resource(request).await;
        refused(again, Code::FailedPrecondition, "CONTENT_MISSING");
        assert_eq!(asked_for(&web, "own://ask"), 1);
        assert_eq!(asked_for(&web, "own://secret"), 0);
        assert_eq!(asked_for(&web, "\"secret\""), 0);

        let read_by = async |kind: Kind, pattern: &str| {
            let mut audit = AuditServiceClient::new(server.channel());
            let mut parts = audit
                .export_audit(ExportAuditRequest::default())
                .await
                .unwrap()
                .into_inner();
            let mut lines = Vec::new();
            while let Some(part) = parts.message().await.unwrap() {
                lines.extend(part.records);
            }
            let facts = lines
                .iter()
                .map(|line| serde_json::from_str::<Record>(line).unwrap().fact);
            facts
                .filter(|fact| fact.kind == kind && fact.patterns.iter().any(|one| one == pattern))
                .count()
        };
        eventually("the audit has what was refused", async || {
            read_by(Kind::Denied, "mcp:s:own://secret").await == 1
                && read_by(Kind::Denied, "mcp:s:prompt:secret").await == 1
                && read_by(Kind::Refused, "mcp:s:prompt:secret").await == 1
        })
        .await;
        assert_eq!(read_by(Kind::Prompted, "mcp:s:own://ask").await, 1);
    });
}

#[test]
fn prompts_and_resources_that_are_not_there_are_told_apart_from_failures() {
    test(async {
        let web = Web::start(answer).await;
        let (_server, mut client) = with_own(&web, json!({"*": "allow"})).await;
        let missing = client.get_mcp_prompt(prompt("asks", &[("how", "well")])).await;
        let details = refused(missing, Code::InvalidArgument, "MCP_ARGUMENT_MISSING");
        assert_eq!(details.error_info().unwrap().metadata["argument"], "who");
        let fields = &details.bad_request().unwrap().field_violations;
        assert_eq!(
            fields.iter().map(|one| &*one.field).collect::<Vec<_>>(),
            ["arguments.who", "arguments.why"]
        );
        assert_eq!(asked_for(&web, "prompts/get"), 0);
        let given = [("who", "me"), ("why", "so")];
        let got = client
            .get_mcp_prompt(prompt("asks", &given))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(got.description, "as told");
        let told: Value = match &got.messages[0].content {
            Some(Content::Text(text)) => serde_json::from_str(text).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(told, json!({"who": "me", "why": "so"}));
        assert!(matches!(&got.messages[1].content, Some(Content::Link(link)) if link.uri == "own://1"));
        let badly = [("who", "me"), ("why", "so"), ("how", "badly")];
        let refusal = client.get_mcp_prompt(prompt("asks", &badly)).await;
        assert!(
            refusal.as_ref().unwrap_err().message().contains("not so"),
            "{refusal:?}"
        );
        refused(refusal, Code::InvalidArgument, "INVALID_FIELD");
        refused(
            client.get_mcp_prompt(prompt("none", &[])).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        refused(
            client.read_mcp_resource(read("own://none")).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        let wrong = client.read_mcp_resource(read("own://wrong")).await;
        assert!(
            wrong.as_ref().unwrap_err().message().contains("out of order"),
            "{wrong:?}"
        );
        refused(wrong, Code::FailedPrecondition, "NOT_DONE");
        refused(
            client.read_mcp_resource(read("")).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
    });
}

#[test]
fn a_list_that_would_have_to_be_asked_about_is_refused() {
    test(async {
        let web = Web::start(answer).await;
        let (_server, mut client) = with_own(&web, json!({"*": "allow", "mcp:s:*": "ask"})).await;
        let named = client.list_mcp_resources(list("s")).await;
        refused(named, Code::PermissionDenied, "PERMISSION_NEEDED");
        let all = client.list_mcp_resources(list("")).await.unwrap().into_inner();
        assert!(all.resources.is_empty());
        let left = all.omitted.iter().find(|left| left.server == "s").unwrap();
        assert_eq!(left.reason(), ErrorReason::PermissionNeeded);
        assert_eq!(asked_for(&web, "resources/list"), 0);
    });
}

#[test]
fn a_command_shows_them() {
    test(async {
        let web = Web::start(answer).await;
        let (server, _) = with_own(&web, json!({"*": "allow", "mcp:s:own://secret": "deny"})).await;
        let (code, out, err) = server.cli(&["mcp", "resources", "s"]).await;
        assert_eq!(code, 0, "{err}");
        assert!(
            out.contains("own://24") && out.contains("own://{x}") && !out.contains("secret"),
            "{out}"
        );
        let (code, out, err) = server.cli(&["mcp", "prompts"]).await;
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("who [how] why"), "{out}");
        assert!(err.contains("gone is left out"), "{err}");
        let (code, out, err) = server.cli(&["mcp", "prompt", "s", "asks", "who=me", "why=so"]).await;
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("user:\n") && out.contains(r#""who":"me""#), "{out}");
        assert!(out.contains("[resource own://1]"), "{out}");
        let (code, out, err) = server.cli(&["mcp", "read", "s", "own://1", "--json"]).await;
        assert_eq!(code, 0, "{err}");
        let read: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(read["contents"][1]["blob"], "AAEC");
        for (arguments, expected) in [
            (&["mcp", "read", "s", "own://secret"][..], 3),
            (&["mcp", "read", "s", "own://none"], 8),
            (&["mcp", "prompt", "s", "asks"], 2),
            (&["mcp", "resources", "gone"], 1),
        ] {
            let (code, _, err) = server.cli(arguments).await;
            assert_eq!(code, expected, "{arguments:?}: {err}");
        }
    });
}

#[test]
fn a_gateway_passes_them_to_the_worker_of_their_workspace() {
    test(async {
        let web = Web::start(answer).await;
        let folder = tempfile::tempdir().unwrap();
        let rules = json!({
            "mcp": {"s": {"type": "remote", "url": web.url("/mcp")}},
            "permission": {"read": {"*": "allow", "mcp:s:own://secret": "deny"}},
        });
        let with = start_worker(folder.path(), "a", "trust = true", &rules.to_string()).await;
        let without = start_worker(folder.path(), "b", "", "{}").await;
        let named = with.named("a") + &without.named("b");
        let gateway = start_gateway(folder.path(), "gateway", "", &named).await;
        let channel = connect_tcp(&gateway.address).await.unwrap();
        let client = |token| McpServiceClient::with_interceptor(channel.clone(), Shown(token, None));
        let at = |workspace: &str| CallContext {
            workspace: workspace.to_owned(),
            ..CallContext::default()
        };
        let list = |workspace: &str| ListMcpResourcesRequest {
            context: Some(at(workspace)),
            ..ListMcpResourcesRequest::default()
        };
        eventually("the server is ready", async || {
            let listed = client(ANNA).list_mcp_resources(list("wa")).await.unwrap().into_inner();
            listed.resources.len() == MANY
        })
        .await;
        let read = |workspace: &str, uri: &str| ReadMcpResourceRequest {
            call: Some(CallStart {
                context: Some(at(workspace)),
                ..CallStart::default()
            }),
            ..read(uri)
        };
        let answered = client(ANNA)
            .read_mcp_resource(read("wa", "own://1"))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(answered.contents.len(), 2);
        let denied = client(ANNA).read_mcp_resource(read("wa", "own://secret")).await;
        refused(denied, Code::PermissionDenied, "DENIED_BY_RULE");
        let elsewhere = client(ANNA).read_mcp_resource(read("wb", "own://1")).await;
        refused(elsewhere, Code::NotFound, "NOT_FOUND");
        let request = GetMcpPromptRequest {
            call: read("wa", "").call,
            ..prompt("plain", &[])
        };
        assert_eq!(
            client(ANNA)
                .get_mcp_prompt(request)
                .await
                .unwrap()
                .into_inner()
                .description,
            "as told"
        );
        // Ben sees another workspace only.
        let foreign: Result<_, Status> = client(BEN).list_mcp_resources(list("wa")).await;
        refused(foreign, Code::NotFound, "NOT_FOUND");
        refused(
            client(BEN).read_mcp_resource(read("wa", "own://1")).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        let own = client(BEN).list_mcp_resources(list("")).await.unwrap().into_inner();
        assert!(own.resources.is_empty());
    });
}
