//! What lists and events tell of calls and sessions before anything has a result, and how they are found.

use serde_json::{Value, json};
use tonic::Code;
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

#[test]
fn a_call_says_what_it_touches_before_it_has_a_result() {
    test(async {
        let server = Server::with(Setup::permission(
            json!({"*": "allow", "edit": {"*": "allow", "f.txt": "deny"}, "webfetch": "ask"}),
        ))
        .await;
        let check = async |id: &str, tool: &str, input: Value, title: &str, summary: &str| {
            let mut events = server
                .tools()
                .execute_tool(kept(id, request(tool, input)))
                .await
                .unwrap()
                .into_inner();
            let first = events.message().await.unwrap().unwrap().event.unwrap();
            let Some(Event::Pending(pending)) = first.event else {
                panic!("{first:?}")
            };
            assert_eq!(
                (pending.title.as_str(), pending.summary.as_str()),
                (title, summary),
                "{id}"
            );
            assert_eq!(server.get(id).await.summary, summary, "{id}");
        };
        let command = json!({"command": "sleep 600\n# \u{1b}[2J", "description": "Waits"});
        check("runs", "bash", command, "Waits", "sleep 600⏎# \\u{1b}[2J").await;
        assert_eq!(server.get("runs").await.title, "Waits");
        let url = json!({"url": "http://localhost:1/x", "format": "text"});
        check("waits", "webfetch", url, "http://localhost:1/x", "http://localhost:1/x").await;
        let file = json!({"filePath": "f.txt", "content": "x"});
        check("denied", "write", file, "f.txt", "f.txt").await;
        check("misfits", "read", json!({"filePath": 7}), "", "").await;
        let starts = json!({"command": "sleep 601", "description": "Goes on", "background": true});
        check("starts", "bash", starts, "Goes on", "sleep 601").await;
        let pattern = json!({"pattern": "needle", "path": "src"});
        check("greps", "grep", pattern, "needle src", "needle src").await;
        let long = json!({"command": format!("true {}", "x".repeat(500)), "description": "Long"});
        let cut = format!("true {}…", "x".repeat(194));
        check("long", "bash", long, "Long", &cut).await;

        let find = async |filter: ListCallsRequest| {
            let listed = server.tools().list_calls(filter).await.unwrap().into_inner().calls;
            listed.into_iter().map(|call| call.call_id).collect::<Vec<_>>()
        };
        let text = |text: &str| ListCallsRequest {
            text: text.to_owned(),
            ..Default::default()
        };
        assert_eq!(find(text("NEEDLE")).await, ["greps"]);
        assert_eq!(find(text("sleep 600")).await, ["runs"]);
        assert_eq!(find(text("denie")).await, ["denied"]);
        assert_eq!(find(text("100%_")).await, [""; 0]);
        let of = |parent: &str| ListCallsRequest {
            parent_call_id: parent.to_owned(),
            ..Default::default()
        };
        let denied = ListCallsRequest {
            reasons: vec![FailureReason::Denied.into(), FailureReason::Quota.into()],
            ..Default::default()
        };
        eventually("it is listed", async || find(denied.clone()).await == ["denied"]).await;
        eventually("it is listed", async || find(of("starts")).await.len() == 1).await;
        let made = server.get("denied").await.create_time;
        let from = |from_time, until_time| ListCallsRequest {
            from_time,
            until_time,
            text: "denied".to_owned(),
            ..Default::default()
        };
        assert_eq!(find(from(made, None)).await, ["denied"]);
        assert_eq!(find(from(None, made)).await, [""; 0]);
        let by = |agent: &str, requester: &str| ListCallsRequest {
            agent: agent.to_owned(),
            requester: requester.to_owned(),
            ..text("denied")
        };
        assert_eq!(find(by("build", "")).await, ["denied"]);
        assert_eq!(find(by("plan", "")).await, [""; 0]);
        assert_eq!(find(by("", "token:nobody")).await, [""; 0]);
        let unknown = ListCallsRequest {
            reasons: vec![99],
            ..Default::default()
        };
        refused(
            server.tools().list_calls(unknown).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
    });
}

#[test]
fn sessions_are_listed_by_their_latest_call() {
    test(async {
        let server = Server::start().await;
        let list =
            async |request: ListSessionsRequest| server.sessions().list_sessions(request).await.unwrap().into_inner();
        assert_eq!(
            list(ListSessionsRequest::default()).await,
            ListSessionsResponse::default()
        );
        for (session, id) in [("one", "a"), ("two", "b"), ("one", "c"), ("three", "d")] {
            server
                .execute(in_session(session, kept(id, bash("true"))))
                .await
                .unwrap();
        }
        let waits = in_session("two", kept("e", bash("sleep 600")));
        let _running = server.tools().execute_tool(waits).await.unwrap();
        let end = EndSessionRequest {
            session_id: "three".to_owned(),
            ..Default::default()
        };
        server.sessions().end_session(end).await.unwrap();
        let listed = list(ListSessionsRequest::default()).await.sessions;
        let seen: Vec<_> = listed
            .iter()
            .map(|one| (one.session_id.as_str(), one.calls, one.unfinished_calls, one.ended))
            .collect();
        assert_eq!(
            seen,
            [("two", 2, 1, false), ("three", 1, 0, true), ("one", 2, 0, false)]
        );
        assert!(
            listed
                .iter()
                .all(|one| one.agents == ["build"] && one.workspace == "default")
        );
        let begun = |one: &SessionSummary| one.create_time.map(|time| (time.seconds, time.nanos));
        let active = |one: &SessionSummary| one.last_activity_time.map(|time| (time.seconds, time.nanos));
        assert!(listed.iter().all(|one| begun(one) <= active(one)));
        let (mut paged, mut page_token) = (Vec::new(), String::new());
        loop {
            let page = list(ListSessionsRequest {
                page_size: 1,
                page_token,
                ..Default::default()
            })
            .await;
            paged.extend(page.sessions);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(paged, listed);
        let late = ListSessionsRequest {
            from_time: listed[1].create_time,
            ..Default::default()
        };
        assert!(list(late).await.sessions.iter().all(|one| one.session_id != "one"));
        let early = ListSessionsRequest {
            until_time: listed[2].create_time,
            ..Default::default()
        };
        assert!(list(early).await.sessions.is_empty());
        server
            .execute(in_session("three", kept("f", bash("true"))))
            .await
            .unwrap();
        let listed = list(ListSessionsRequest::default()).await.sessions;
        assert_eq!((listed[0].session_id.as_str(), listed[0].ended), ("three", false));
    });
}

#[test]
fn grants_are_listed_by_pages_and_the_service_says_what_it_can() {
    test(async {
        let server = Server::start().await;
        let request = GetServerInfoRequest {};
        let info = server.info().get_server_info(request).await.unwrap().into_inner();
        assert!(info.features().any(|feature| feature == Feature::Lsp));
        assert_eq!(info.api_revision, toolgate_contract::API_REVISION);
        let all = ListGrantsRequest {
            workspace: "-".to_owned(),
            page_size: 1,
            ..Default::default()
        };
        let listed = server.permissions().list_grants(all).await.unwrap().into_inner();
        assert_eq!(listed, ListGrantsResponse::default());
    });
}
