//! Workspaces that clients create at gateways, with a server that makes a real worker for each.

use tonic::{Code, Status};
use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::*;

use super::machines::{Made, Mood};
use crate::gateway::setup::*;
use crate::support::{collect_watch, completed, end_of, eventually, refused, test, waiting, watch_request};
use crate::telemetry;

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn create(name: &str) -> CreateWorkspaceRequest {
    CreateWorkspaceRequest {
        workspace: name.to_owned(),
        wait: seconds(60),
        ..CreateWorkspaceRequest::default()
    }
}

impl Made {
    async fn workspaces(&self, gateway: usize, token: &'static str) -> WorkspaceServiceClient<Authorized> {
        WorkspaceServiceClient::with_interceptor(self.fleet.channel(gateway).await, Shown(token, None))
    }

    async fn create(&self, gateway: usize, name: &str) -> Result<CreateWorkspaceResponse, Status> {
        let created = self
            .workspaces(gateway, ANNA)
            .await
            .create_workspace(create(name))
            .await?;
        Ok(created.into_inner())
    }

    async fn get(&self, gateway: usize, name: &str) -> Result<WorkspaceInfo, Status> {
        let request = GetWorkspaceRequest {
            workspace: name.to_owned(),
        };
        let got = self.workspaces(gateway, ANNA).await.get_workspace(request).await?;
        Ok(got.into_inner().workspace.unwrap())
    }

    async fn suspend(&self, gateway: usize, name: &str) -> Result<SuspendWorkspaceResponse, Status> {
        let request = SuspendWorkspaceRequest {
            workspace: name.to_owned(),
        };
        let done = self.workspaces(gateway, ANNA).await.suspend_workspace(request).await?;
        Ok(done.into_inner())
    }

    async fn delete(&self, gateway: usize, name: &str) -> Result<DeleteWorkspaceResponse, Status> {
        let request = DeleteWorkspaceRequest {
            workspace: name.to_owned(),
        };
        let done = self.workspaces(gateway, ANNA).await.delete_workspace(request).await?;
        Ok(done.into_inner())
    }

    /// Runs a command as a client does: what is to be tried again is.
    async fn printed(&self, gateway: usize, workspace: &str, command: &str) -> String {
        let mut last = None;
        eventually("the command runs", async || {
            last = Some(self.fleet.run(gateway, workspace, command).await);
            let called = last.as_ref().unwrap();
            !matches!(called, Err(error) if error.code() == Code::Unavailable)
        })
        .await;
        completed(&last.unwrap().unwrap()).output.trim().to_owned()
    }

    async fn audited(&self, kind: &str) -> usize {
        let mut audit = AuditServiceClient::with_interceptor(self.fleet.channel(0).await, Shown(ANNA, None));
        let export = audit.export_audit(ExportAuditRequest::default()).await.unwrap();
        let mut export = export.into_inner();
        let mut found = 0;
        while let Ok(Some(part)) = export.message().await {
            found += format!("{part:?}").matches(kind).count();
        }
        found
    }

    async fn assert_calm(&self) {
        self.fleet.assert_calm();
        self.machines.assert_calm().await;
    }
}

#[test]
fn a_workspace_is_made_suspended_resumed_and_deleted() {
    test(async {
        let tenant = "[tenants.made]\nworkspaces = [\"made/*\"]\nmax_workspaces = 2\n";
        let made = Made::start("", tenant).await;
        let created = made.create(0, "made/a").await.unwrap();
        let workspace = created.workspace.unwrap();
        assert!(
            created.created && workspace.state() == WorkspaceState::Ready,
            "{workspace:?}"
        );
        assert_eq!(workspace.opened_by, "token:anna");
        // The other gateway knows it, and no second place is made.
        let again = made.create(1, "made/a").await.unwrap();
        assert!(!again.created);
        let template = CreateWorkspaceRequest {
            source: Some(WorkspaceSource {
                source: Some(workspace_source::Source::Template("web".to_owned())),
            }),
            ..create("made/a")
        };
        let otherwise = made.workspaces(1, ANNA).await.create_workspace(template).await;
        refused(otherwise, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        let not_seen = made.workspaces(0, BEN).await.create_workspace(create("made/b")).await;
        refused(not_seen, Code::PermissionDenied, "WORKSPACES_LIMITED");
        assert_eq!(made.printed(1, "made/a", "echo kept >file; echo done").await, "done");

        // Those under way count, at any gateway.
        let mut slow = create("made/b");
        slow.wait = None;
        made.machines.is(Mood::Slow).await;
        let coming = made.workspaces(0, ANNA).await.create_workspace(slow).await.unwrap();
        assert_eq!(coming.into_inner().workspace.unwrap().state(), WorkspaceState::Creating);
        refused(
            made.create(1, "made/c").await,
            Code::ResourceExhausted,
            "TOO_MANY_WORKSPACES",
        );
        let list = ListWorkspacesRequest {
            page_size: 1,
            ..ListWorkspacesRequest::default()
        };
        let first = made
            .workspaces(1, ANNA)
            .await
            .list_workspaces(list.clone())
            .await
            .unwrap()
            .into_inner();
        let next = ListWorkspacesRequest {
            page_token: first.next_page_token.clone(),
            ..list
        };
        let second = made
            .workspaces(0, ANNA)
            .await
            .list_workspaces(next)
            .await
            .unwrap()
            .into_inner();
        let listed: Vec<(String, WorkspaceState)> = first
            .workspaces
            .iter()
            .chain(&second.workspaces)
            .map(|one| (one.name.clone(), one.state()))
            .collect();
        let expected = [("made/a", WorkspaceState::Ready), ("made/b", WorkspaceState::Creating)];
        assert_eq!(listed, expected.map(|(name, state)| (name.to_owned(), state)));
        assert!(second.next_page_token.is_empty());
        let waits = made.fleet.run(0, "made/b", "true").await;
        refused(waits, Code::Unavailable, "WORKSPACE_NOT_READY");
        made.machines.is(Mood::Well).await;
        made.delete(1, "made/b").await.unwrap();
        refused(made.get(0, "made/b").await, Code::NotFound, "NOT_FOUND");

        // What runs is cancelled, and what is stored stays.
        let (running, _) = made.fleet.begin(0, "made/a").await;
        let suspended = made.suspend(1, "made/a").await.unwrap();
        assert_eq!((suspended.cancelled_calls, suspended.waiting_calls), (1, 0));
        assert_eq!(suspended.workspace.unwrap().state(), WorkspaceState::Suspended);
        let events = crate::support::collect(running).await.unwrap();
        assert!(
            matches!(end_of(&events), call::Ending::Failed(failed) if failed.reason() == FailureReason::Cancelled),
            "{events:?}"
        );
        assert_eq!(made.machines.runs("made/a").await, Some(false));
        let again = made.suspend(0, "made/a").await.unwrap();
        assert_eq!(again.cancelled_calls, 0);
        // The first call resumes it.
        assert_eq!(made.printed(0, "made/a", "cat file").await, "kept");
        made.suspend(0, "made/a").await.unwrap();
        let resume = ResumeWorkspaceRequest {
            workspace: "made/a".to_owned(),
            wait: seconds(60),
        };
        let resumed = made
            .workspaces(1, ANNA)
            .await
            .resume_workspace(resume)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(resumed.workspace.unwrap().state(), WorkspaceState::Ready);

        let call = made.fleet.run(1, "made/a", "echo last").await.unwrap();
        assert_eq!(made.delete(0, "made/a").await.unwrap().cancelled_calls, 0);
        refused(made.delete(1, "made/a").await, Code::NotFound, "NOT_FOUND");
        // The worker that is gone with it holds up no list, and nobody misses it.
        for gateway in 0..2 {
            let request = ListWorkspacesRequest::default;
            let mut workspaces = made.workspaces(gateway, ANNA).await;
            eventually("nothing is listed", async || {
                let listed = workspaces.list_workspaces(request()).await.unwrap().into_inner();
                listed.workspaces.is_empty()
            })
            .await;
        }
        // What is kept of it can be read.
        assert_eq!(made.fleet.get(0, &call.call_id).await.unwrap(), call);
        let admin = made.fleet.gateways[0].admin.clone().unwrap();
        eventually("the metrics count none", async || {
            let text = telemetry::get(&admin, "/metrics").await.unwrap().1;
            let lines = text
                .lines()
                .filter(|line| line.starts_with("toolgate_gateway_workspaces_created{"));
            let zero = lines.clone().filter(|line| line.ends_with(" 0")).count();
            zero == 7 && lines.count() == 7
        })
        .await;
        for (kind, times) in [
            ("workspace_opened", 1),
            ("workspace_suspended", 2),
            ("workspace_resumed", 2),
            ("workspace_closed", 2),
        ] {
            eventually(kind, async || made.audited(kind).await == times).await;
        }
        let asked = made.machines.asked("made/a").await;
        assert_eq!(
            asked.iter().filter(|action| *action == "ensure").count(),
            1,
            "{asked:?}"
        );
        assert_eq!(made.machines.keys("made/a").await, 1);
        // The name is free again.
        assert!(made.create(1, "made/a").await.unwrap().created);
        assert_eq!(made.printed(0, "made/a", "ls").await, "opencode.json");
        made.assert_calm().await;
    });
}

#[test]
fn another_gateway_goes_on_where_one_was_killed() {
    test(async {
        let mut made = Made::start("", "").await;
        made.machines.is(Mood::Slow).await;
        let mut slow = create("made/a");
        slow.wait = None;
        made.workspaces(0, ANNA).await.create_workspace(slow).await.unwrap();
        eventually("it is at it", async || !made.machines.asked("made/a").await.is_empty()).await;
        made.fleet.gateways[0].kill9().await;
        made.machines.is(Mood::Well).await;
        let created = made.create(1, "made/a").await.unwrap();
        assert!(!created.created);
        assert_eq!(created.workspace.unwrap().state(), WorkspaceState::Ready);
        assert_eq!(made.printed(1, "made/a", "echo here").await, "here");
        assert_eq!(made.machines.made().await, 1);
        made.assert_calm().await;
    });
}

#[test]
fn of_the_same_request_at_two_gateways_comes_one_workspace() {
    test(async {
        let made = Made::start("", "").await;
        let ask = |gateway: usize| made.create(gateway, "made/a");
        let (a, b, c, d) = tokio::join!(ask(0), ask(1), ask(0), ask(1));
        let all = [a.unwrap(), b.unwrap(), c.unwrap(), d.unwrap()];
        assert_eq!(all.iter().filter(|one| one.created).count(), 1);
        for one in &all {
            assert_eq!(one.workspace.as_ref().unwrap().state(), WorkspaceState::Ready);
        }
        assert_eq!(made.machines.made().await, 1);
        made.assert_calm().await;
    });
}

#[test]
fn a_server_that_fails_is_asked_again_and_one_that_refuses_is_not() {
    test(async {
        let made = Made::start("", "").await;
        for (name, mood) in [
            ("made/a", Mood::Status(500)),
            ("made/b", Mood::Status(401)),
            ("made/c", Mood::Garbage),
            ("made/d", Mood::Hangs),
        ] {
            made.machines.is(mood).await;
            let mut soon = create(name);
            soon.wait = None;
            made.workspaces(0, ANNA).await.create_workspace(soon).await.unwrap();
            if mood == Mood::Hangs {
                eventually("it is asked", async || !made.machines.asked(name).await.is_empty()).await;
                // Whoever wants something else need not wait for the answer.
                let gateway = &made;
                made.machines.is(Mood::Well).await;
                gateway.delete(1, name).await.unwrap();
                continue;
            }
            eventually("it is asked again", async || made.machines.asked(name).await.len() > 1).await;
            let info = made.get(1, name).await.unwrap();
            assert_eq!(info.state(), WorkspaceState::Creating);
            assert!(info.problem.contains("the server that makes workspaces"), "{info:?}");
            if mood == Mood::Status(401) {
                let waits = made.fleet.run(0, name, "true").await.unwrap_err();
                let why = "is being created, which does not succeed yet: the server that makes workspaces";
                assert!(waits.message().contains(why), "{waits:?}");
            }
            made.machines.is(Mood::Well).await;
            assert_eq!(
                made.create(1, name).await.unwrap().workspace.unwrap().state(),
                WorkspaceState::Ready
            );
        }
        made.machines.is(Mood::Status(500)).await;
        let still = made.suspend(1, "made/a").await.unwrap_err();
        let why = "is being suspended, which does not succeed yet: the server that makes workspaces";
        assert!(still.message().contains(why), "{still:?}");
        made.machines.is(Mood::Status(400)).await;
        let failed = made.create(0, "made/e").await.unwrap().workspace.unwrap();
        assert_eq!(failed.state(), WorkspaceState::Failed);
        assert!(
            failed.problem.contains("it answers 400: there is no room"),
            "{failed:?}"
        );
        refused(
            made.fleet.run(1, "made/e", "true").await,
            Code::FailedPrecondition,
            "WORKSPACE_BROKEN",
        );
        refused(
            made.suspend(1, "made/e").await,
            Code::FailedPrecondition,
            "WORKSPACE_BROKEN",
        );
        assert_eq!(made.machines.asked("made/e").await, ["ensure"]);
        // The same request tries again.
        made.machines.is(Mood::Well).await;
        let again = made.create(1, "made/e").await.unwrap();
        assert!(again.created && again.workspace.unwrap().state() == WorkspaceState::Ready);
        made.assert_calm().await;
    });
}

#[test]
fn what_is_asked_is_answered_while_the_workspace_rests_and_goes_on() {
    test(async {
        let made = Made::start("", "").await;
        made.create(0, "made/a").await.unwrap();
        let mut tools = made.fleet.tools(0, ANNA).await;
        let request = ExecuteToolRequest {
            on_disconnect: OnDisconnect::Keep.into(),
            ..bash("made/a", "echo ask 1")
        };
        let mut asking = tools.execute_tool(request).await.unwrap().into_inner();
        let prompt = waiting(&mut asking).await;
        drop(asking);
        let suspended = made.suspend(1, "made/a").await.unwrap();
        assert_eq!((suspended.cancelled_calls, suspended.waiting_calls), (0, 1));
        assert_eq!(made.machines.runs("made/a").await, Some(false));
        // Nobody resumes it as long as nobody has answered.
        let open = made.fleet.get(1, &prompt.call_id).await.unwrap();
        assert_eq!(open.state(), CallState::Waiting);
        let taken = made.fleet.allow(1, &prompt).await.unwrap();
        assert_eq!(taken.result(), ReplyResult::Accepted);
        eventually("the call has ended", async || {
            let call = made.fleet.get(0, &prompt.call_id).await.unwrap();
            call.state() == CallState::Completed
        })
        .await;
        let mut tools = made.fleet.tools(1, ANNA).await;
        let watched = tools
            .watch_call(watch_request(&prompt.call_id, 0, OutputMode::None))
            .await;
        let watched = collect_watch(watched.unwrap().into_inner()).await.unwrap();
        assert!(matches!(end_of(&watched), call::Ending::Completed(_)), "{watched:?}");
        assert_eq!(made.get(1, "made/a").await.unwrap().state(), WorkspaceState::Ready);

        // With the workspace what is asked there goes.
        let mut asking = made.fleet.tools(0, ANNA).await;
        let mut asking = asking
            .execute_tool(bash("made/a", "echo ask 2"))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut asking).await;
        made.suspend(0, "made/a").await.unwrap();
        assert_eq!(made.delete(1, "made/a").await.unwrap().cancelled_calls, 1);
        let late = made.fleet.allow(0, &prompt).await.unwrap();
        assert_eq!(late.result(), ReplyResult::Withdrawn);
        let call = made.fleet.get(0, &prompt.call_id).await.unwrap();
        assert_eq!(call.state(), CallState::Failed);
        made.assert_calm().await;
    });
}

#[test]
fn the_first_call_makes_a_workspace_and_an_idle_one_rests() {
    test(async {
        let tenant = "[tenants.made]\nworkspaces = [\"made/*\"]\nmax_workspaces = 1\n";
        let made = Made::start("on_first_call = true\nidle_suspend = \"3s\"\n", tenant).await;
        assert_eq!(made.printed(0, "made/a", "echo first >file; echo made").await, "made");
        let info = made.get(1, "made/a").await.unwrap();
        assert_eq!(
            (info.state(), info.opened_by.as_str()),
            (WorkspaceState::Ready, "token:anna")
        );
        assert!(matches!(
            info.source.unwrap().source,
            Some(workspace_source::Source::Empty(_))
        ));
        // Nobody makes what it does not see, what a tenant has no room for, or what has no name.
        let mut of_ben = made.fleet.tools(0, BEN).await;
        let request = crate::support::run_request(bash("made/b", "true"));
        refused(of_ben.run_tool(request).await, Code::NotFound, "NOT_FOUND");
        let full = made.fleet.run(0, "made/b", "true").await;
        refused(full, Code::ResourceExhausted, "TOO_MANY_WORKSPACES");
        assert!(made.fleet.run(0, "made/..", "true").await.is_err());
        assert_eq!(made.machines.made().await, 1);

        // While something runs it is not idle.
        let mut tools = made.fleet.tools(0, ANNA).await;
        let running = tools
            .execute_tool(bash("made/a", "sleep 6; echo slept"))
            .await
            .unwrap()
            .into_inner();
        let events = crate::support::collect(running).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Completed(_)), "{events:?}");
        eventually("it rests", async || {
            made.get(0, "made/a").await.unwrap().state() == WorkspaceState::Suspended
        })
        .await;
        eventually("its worker is gone", async || {
            made.machines.runs("made/a").await == Some(false)
        })
        .await;
        assert_eq!(made.printed(1, "made/a", "cat file").await, "first");
        // What only waits lets it rest, too.
        let mut tools = made.fleet.tools(1, ANNA).await;
        let mut asking = tools
            .execute_tool(bash("made/a", "echo ask 1"))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut asking).await;
        eventually("it rests again", async || {
            made.machines.runs("made/a").await == Some(false)
        })
        .await;
        made.fleet.allow(0, &prompt).await.unwrap();
        eventually("the call has ended", async || {
            let call = made.fleet.get(0, &prompt.call_id).await.unwrap();
            call.state() == CallState::Completed
        })
        .await;
        made.assert_calm().await;
    });
}

#[test]
fn a_place_that_is_gone_is_told_and_one_that_rests_is_resumed() {
    test(async {
        let made = Made::start("", "").await;
        made.create(0, "made/a").await.unwrap();
        // Its worker has ended, and its place is kept: a call brings it back.
        made.machines.kill("made/a", false).await;
        assert_eq!(made.printed(1, "made/a", "echo back").await, "back");
        made.machines.kill("made/a", true).await;
        eventually("it has failed", async || {
            let _ = made.fleet.run(0, "made/a", "true").await;
            let info = made.get(1, "made/a").await.unwrap();
            info.state() == WorkspaceState::Failed && info.problem.contains("its place is gone")
        })
        .await;
        let again = made.create(1, "made/a").await.unwrap();
        assert!(again.created && again.workspace.unwrap().state() == WorkspaceState::Ready);
        made.delete(0, "made/a").await.unwrap();
        made.assert_calm().await;
    });
}

#[test]
fn the_worker_of_each_pod_is_bound() {
    test(async {
        let made = Made::start("", "").await;
        let created = made.create(0, "pods/a").await.unwrap().workspace.unwrap();
        assert_eq!(created.state(), WorkspaceState::Ready, "{created:?}");
        assert_eq!(made.printed(1, "pods/a", "echo kept >file; echo done").await, "done");
        // The pod that comes after it is another one, with what was kept.
        made.suspend(1, "pods/a").await.unwrap();
        assert_eq!(made.printed(0, "pods/a", "cat file").await, "kept");
        made.delete(1, "pods/a").await.unwrap();
        assert!(made.create(0, "pods/a").await.unwrap().created);
        assert_eq!(made.printed(1, "pods/a", "ls").await, "opencode.json");
        made.assert_calm().await;
    });
}
