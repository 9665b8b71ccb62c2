//! What becomes of a workspace's calls, prompts, approvals and hosts when it is closed.

use super::*;

#[test]
fn its_calls_end_and_its_records_stay() {
    test(async {
        let mut server = service(&["roots/one", "roots/two"]).await;
        open(&server, "one", "roots/one").await;
        open(&server, "two", "roots/two").await;
        let marker = "86310";
        for (name, id) in [("one", "of-one"), ("two", "of-two")] {
            let request = within(name, kept(id, bash(&format!("echo begun; sleep {marker}"))));
            let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
            next_such(&mut stream, is_output).await;
        }
        // What a command left behind goes, too.
        let left = call(&server, "one", bash("sleep 86311 >/dev/null 2>&1 & echo left"))
            .await
            .unwrap();
        completed(&left);
        assert_eq!((processes(marker).len(), processes("86311").len()), (2, 1));

        assert_eq!(close(&server, "one").await.unwrap().cancelled_calls, 1);
        assert_eq!((processes(marker).len(), processes("86311").len()), (1, 0));
        let ended = server.get("of-one").await;
        assert_eq!(failed(&ended).reason(), FailureReason::Cancelled);
        assert_eq!(server.get("of-two").await.state(), CallState::Running);

        refused(call(&server, "one", bash("true")).await, Code::NotFound, "NOT_FOUND");
        refused(get(&server, "one").await, Code::NotFound, "NOT_FOUND");
        assert_eq!(names(&server, 0).await, ["default", "two"]);
        // By its name they can be listed as before; a name that never was is still unknown.
        let list = |workspace: &str| ListCallsRequest {
            workspace: workspace.to_owned(),
            ..Default::default()
        };
        let listed = server.tools().list_calls(list("one")).await.unwrap().into_inner().calls;
        assert_eq!(listed.len(), 2);
        refused(
            server.tools().list_calls(list("never")).await,
            Code::NotFound,
            "NOT_FOUND",
        );

        // The next one of that name begins anew.
        open(&server, "one", "roots/one").await;
        completed(&call(&server, "one", bash("true")).await.unwrap());
        server.cancel("of-two").await;
        server.stop().await;
    });
}

#[test]
fn its_prompts_are_withdrawn_and_its_approvals_taken_back() {
    test(async {
        let mut setup = setup(&["roots/one", "roots/two"]);
        setup.config = Some(json!({"permission": {"bash": "ask"}}));
        let mut server = Server::with(setup).await;
        open(&server, "one", "roots/one").await;
        let mut approver = Approver::open(server.channel(), "p").await.unwrap();
        let ask = async |id: &str, command: &str| {
            let request = within("one", kept(id, bash(command)));
            let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
            waiting(&mut stream).await
        };
        let first = ask("first", "echo x").await;
        assert_eq!(approver.added().await.prompt_id, first.prompt_id);
        let always = PromptReply {
            scope: Some(GrantScope {
                reach: GrantReach::Workspace.into(),
                ..Default::default()
            }),
            ..reply(&first, PromptDecision::Always)
        };
        assert!(approver.send(always).await);
        assert_eq!(approver.result().await.result(), ReplyResult::Accepted);
        completed(&call(&server, "one", bash("echo x")).await.unwrap());

        let second = ask("second", "make").await;
        close(&server, "one").await.unwrap();
        let prompt = server
            .permissions()
            .get_prompt(GetPromptRequest {
                prompt_id: second.prompt_id,
            })
            .await
            .unwrap()
            .into_inner()
            .prompt
            .unwrap();
        assert_eq!(prompt.state(), PromptState::Withdrawn);
        let all = ListGrantsRequest {
            workspace: "-".to_owned(),
            ..Default::default()
        };
        let grants = server.permissions().list_grants(all).await.unwrap().into_inner().grants;
        assert_eq!(grants, Vec::<Grant>::new());
        // Another folder of the same name has not what was approved for the first.
        open(&server, "one", "roots/two").await;
        ask("third", "echo x").await;
        server.stop().await;
    });
}

#[test]
fn its_hosts_are_let_go() {
    test(async {
        let mut server = service(&["roots/one"]).await;
        open(&server, "one", "roots/one").await;
        let hello = HostHello {
            workspace: "one".to_owned(),
            ..hello("ide", &["lent"])
        };
        let mut host = LendingHost::open(server.channel(), hello.clone()).await.unwrap();
        close(&server, "one").await.unwrap();
        eventually("the host's stream ends", async || host.next().await.is_err()).await;
        let refusal = LendingHost::open(server.channel(), hello).await;
        assert_eq!(refusal.err().map(|status| status.code()), Some(Code::NotFound));
        server.stop().await;
    });
}

#[test]
fn who_watches_its_files_is_told() {
    test(async {
        let mut server = service(&["roots/one"]).await;
        open(&server, "one", "roots/one").await;
        let request = WatchFilesRequest {
            context: Some(CallContext {
                workspace: "one".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut files = file_service_client::FileServiceClient::new(server.channel());
        let mut news = files.watch_files(request).await.unwrap().into_inner();
        assert!(news.message().await.unwrap().is_some());
        close(&server, "one").await.unwrap();
        refused(news.message().await, Code::NotFound, "NOT_FOUND");
        server.stop().await;
    });
}

#[test]
fn a_flood_of_calls_meets_the_closing() {
    test(async {
        let mut server = service(&["roots/one"]).await;
        for round in 0..5 {
            open(&server, "one", "roots/one").await;
            let calls = (0..30).map(|index| {
                let request = within("one", kept(&format!("r{round}-{index}"), bash("sleep 86312")));
                let mut tools = server.tools();
                async move {
                    match tools.execute_tool(request).await {
                        Ok(stream) => collect(stream.into_inner()).await.map(|events| end_of(&events)),
                        Err(status) => Err(status),
                    }
                }
            });
            let calls = futures_util::future::join_all(calls);
            let (ends, closed) = tokio::join!(calls, close(&server, "one"));
            closed.unwrap();
            // Each was refused, or has its end; none goes on.
            for end in ends {
                match end {
                    Ok(call::Ending::Failed(failure)) => assert_eq!(failure.reason(), FailureReason::Cancelled),
                    Ok(other) => panic!("{other:?}"),
                    Err(status) => assert_eq!(status.code(), Code::NotFound, "{status:?}"),
                }
            }
            gone("86312").await;
        }
        server.stop().await;
    });
}
