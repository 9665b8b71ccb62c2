//! Hooks of hosts that answer in the place of people: who may, and for whom.

use serde_json::json;
use tonic::Streaming;
use tonic::transport::Channel;
use toolgate_contract::host_event::Event;
use toolgate_contract::host_report::Report;
use toolgate_contract::host_service_client::HostServiceClient;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{self, test};

/// A host that wants to answer what people would be asked in the workspace `a`.
struct Answering {
    client: HostServiceClient<Authorized>,
    events: Streaming<ServeToolsResponse>,
    welcome: HostWelcome,
}

impl Answering {
    async fn open(channel: &Channel, token: &'static str) -> Self {
        let mut client = HostServiceClient::with_interceptor(channel.clone(), Bearer(token));
        let hello = HostHello {
            name: "guard".to_owned(),
            workspace: "a".to_owned(),
            hooks: vec!["permission.ask".to_owned()],
            ..HostHello::default()
        };
        let request = ServeToolsRequest { hello: Some(hello) };
        let events = client.serve_tools(request).await.unwrap().into_inner();
        let mut host = Self {
            client,
            events,
            welcome: HostWelcome::default(),
        };
        match host.next().await {
            Event::Welcome(welcome) => host.welcome = welcome,
            other => panic!("{other:?}"),
        }
        host
    }

    async fn next(&mut self) -> Event {
        loop {
            let event = self.events.message().await.unwrap().unwrap().event.unwrap();
            match event.event.unwrap() {
                Event::Heartbeat(_) => {}
                other => return other,
            }
        }
    }

    /// Allows what it is asked next, which must be about this call.
    async fn allows(&mut self, call: &str) {
        let Event::Hook(hook) = self.next().await else {
            panic!("not a hook")
        };
        assert!(
            hook.input_json.contains(&json!(call).to_string()),
            "{}",
            hook.input_json
        );
        let result = HostHookResult {
            output_json: json!({"status": "allow"}).to_string(),
        };
        let request = ReportInvocationRequest {
            token: self.welcome.token.clone(),
            report: Some(HostReport {
                invocation_id: hook.invocation_id,
                report: Some(Report::HookResult(result)),
            }),
        };
        assert!(
            self.client
                .report_invocation(request)
                .await
                .unwrap()
                .into_inner()
                .accepted
        );
    }
}

/// Runs a command that is asked for, and lets the host answer.
async fn answered_by(host: &mut Answering, channel: &Channel, token: &'static str, id: &str) {
    let request = ExecuteToolRequest {
        context: Some(CallContext {
            workspace: "a".to_owned(),
            session_id: format!("session-{id}"),
            ..CallContext::default()
        }),
        ..support::kept(id, support::bash(&format!("echo {id}")))
    };
    let mut client = tools(channel, token);
    let running = tokio::spawn(async move { client.run_tool(support::run_request(request)).await });
    host.allows(id).await;
    let call = running.await.unwrap().unwrap().into_inner().call.unwrap();
    support::completed(&call);
}

#[test]
fn who_may_not_answer_answers_by_no_hook() {
    test(async {
        let folder = Folder::new();
        let settings = with_tokens(&folder);
        folder.put(
            "tokens",
            &format!("{TOKENS}lender lender-lender-lender-l tools.host,tools.hook a\n"),
        );
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let host = Answering::open(&channel, "lender-lender-lender-l").await;
        let refused: Vec<(&str, &str)> = host
            .welcome
            .refused
            .iter()
            .map(|it| (it.name.as_str(), it.reason.as_str()))
            .collect();
        assert_eq!(refused, [("permission.ask", "it takes the scope prompts.reply")]);
        // A person is asked, and nobody else.
        ask(&channel, ALICE, "a", "asked", "").await;
        drop(host);
        service.stop().await;
    });
}

#[test]
fn hooks_take_a_scope_of_their_own() {
    test(async {
        let folder = Folder::new();
        let settings = with_tokens(&folder);
        folder.put(
            "tokens",
            &format!("{TOKENS}lender lender-lender-lender-l tools.host,prompts.reply a\n"),
        );
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let host = Answering::open(&channel, "lender-lender-lender-l").await;
        let refused = &host.welcome.refused;
        assert_eq!((refused.len(), refused[0].name.as_str()), (1, "permission.ask"));
        assert_eq!(refused[0].reason, "it takes the scope tools.hook");
        // A person is asked, and nobody else.
        ask(&channel, ALICE, "a", "asked", "").await;
        drop(host);
        service.stop().await;
    });
}

#[test]
fn nobody_answers_for_themselves_by_a_hook() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        let mut host = Answering::open(&channel, CAROL).await;
        answered_by(&mut host, &channel, ALICE, "others").await;
        // Her own calls, and those below them, wait for a person.
        ask(&channel, CAROL, "a", "own", "").await;
        ask(&channel, BOB, "a", "below", "own").await;
        answered_by(&mut host, &channel, BOB, "later").await;
        service.stop().await;
    });
}

#[test]
fn a_hook_may_do_what_its_host_may() {
    test(async {
        let folder = Folder::new();
        let settings = format!(
            "{}\npermission.self_approval = true\npermission.second_approver = [\"edit\"]",
            with_tokens(&folder)
        );
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let mut host = Answering::open(&channel, CAROL).await;
        answered_by(&mut host, &channel, CAROL, "own").await;
        // It does not stand for one of two.
        let write = support::request("write", json!({"filePath": "x", "content": "y"}));
        ask_with(&channel, ALICE, "a", "two", "", write).await;
        answered_by(&mut host, &channel, ALICE, "later").await;
        service.stop().await;
    });
}
