//! Workers that register themselves: what they may, what is refused, and what becomes of those that go away.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use rustix::process::Signal;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status, Streaming};
use toolgate_contract::cluster::cluster_service_server::{ClusterService, ClusterServiceServer};
use toolgate_contract::cluster::register_request::Message as Said;
use toolgate_contract::cluster::register_response::Message as Told;
use toolgate_contract::cluster::*;
use toolgate_contract::info_service_client::InfoServiceClient;
use toolgate_contract::info_service_server::{InfoService, InfoServiceServer};
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::workspace_service_server::{WorkspaceService, WorkspaceServiceServer};
use toolgate_contract::{GetCallRequest, ListCallsRequest, *};

use super::registered::*;
use super::setup::*;
use crate::support::{completed, connect_tcp, eventually, everybody, refused, test, waiting};

#[test]
fn workers_come_go_and_come_back() {
    test(async {
        let door = Door::open("").await;
        refused(door.run("wa", "pwd").await, Code::NotFound, "NOT_FOUND");
        let mut a = door.worker("a", &["wa", "acme/web"]).await;
        let b = door.worker("b", &["wb"]).await;
        let c = door.worker("c", &["wc"]).await;
        door.ready(&[("a", &["wa", "acme/web"]), ("b", &["wb"]), ("c", &["wc"])])
            .await;
        for (workspace, folder) in [
            ("wa", "a/wa"),
            ("acme/web", "a/acme-web"),
            ("wb", "b/wb"),
            ("wc", "c/wc"),
        ] {
            let call = door.run(workspace, "pwd").await.unwrap();
            let place = completed(&call).output.trim().to_owned();
            assert_eq!(place, door.path(folder).display().to_string());
        }
        let made = door.run("wa", "true").await.unwrap().call_id;
        let printed = door.print(&["workers"]).await;
        for text in ["registered", "unix:", "ready", env!("CARGO_PKG_VERSION")] {
            assert!(printed.contains(text), "{printed}");
        }
        let printed = door.print(&["--json", "workers"]).await;
        assert!(printed.contains(r#""workspaces":["wa","acme/web"]"#), "{printed}");

        a.kill9().await;
        let get = GetCallRequest { call_id: made };
        eventually("it is away", async || {
            let workers = door.workers().await;
            workers[0].state() == WorkerState::Away && workers[0].away_since.is_some()
        })
        .await;
        refused(door.run("wa", "true").await, Code::Unavailable, "WORKER_GONE");
        let away = door.tools(ANNA).get_call(get.clone()).await;
        refused(away, Code::Unavailable, "WORKER_GONE");
        door.run("wb", "true").await.unwrap();
        a.run(&door.home()).await;
        door.ready(&[("a", &["wa", "acme/web"])]).await;
        door.tools(ANNA).get_call(get).await.unwrap();

        // Workspaces that are opened later are there at once.
        let folder = door.path("a/roots/more");
        std::fs::create_dir(&folder).unwrap();
        let mut workspaces = WorkspaceServiceClient::new(connect_tcp(&a.address).await.unwrap());
        let open = |name: &str| OpenWorkspaceRequest {
            workspace: name.to_owned(),
            directory: folder.display().to_string(),
            ..OpenWorkspaceRequest::default()
        };
        // Nobody but the gateway and the owner of the socket is let in.
        let stranger = workspaces.open_workspace(open("acme/more")).await;
        refused(stranger, Code::Unauthenticated, "NO_CREDENTIALS");
        let socket = format!("unix:{}", door.path("a/s").display());
        let channel = tonic::transport::Endpoint::from_shared(socket)
            .unwrap()
            .connect()
            .await
            .unwrap();
        WorkspaceServiceClient::new(channel)
            .open_workspace(open("acme/more"))
            .await
            .unwrap();
        door.ready(&[("a", &["wa", "acme/more", "acme/web"])]).await;
        door.run("acme/more", "true").await.unwrap();

        // The gateway is replaced, and the workers find the next one.
        let mut door = door;
        door.gateway.kill9().await;
        let home = door.home();
        door.gateway.run(&home).await;
        door.ready(&[("a", &["wa", "acme/more", "acme/web"]), ("b", &["wb"]), ("c", &["wc"])])
            .await;
        door.run("wc", "true").await.unwrap();
        assert_calm(&[&door.gateway, &a, &b, &c]);
    });
}

#[test]
fn a_worker_gets_only_what_is_its_own() {
    test(async {
        let door = Door::open("").await;
        let mut b = door.worker("b", &["wb", "wa"]).await;
        door.ready(&[("b", &["wb"])]).await;
        // The liar.
        refused(door.run("wa", "true").await, Code::NotFound, "NOT_FOUND");
        for process in [&b, &door.gateway] {
            eventually("it is reported", async || process.log().contains("may not have it")).await;
        }
        let printed = door.print(&["workers"]).await;
        assert!(printed.contains("b: the workspace wa is not served"), "{printed}");
        // The twin.
        let c = door.worker("c", &["wc", "wb"]).await;
        door.ready(&[("b", &["wb"]), ("c", &["wc"])]).await;
        for process in [&c, &door.gateway] {
            let reported = async || process.log().contains("the worker b has a workspace of this name");
            eventually("it is reported", reported).await;
        }
        let place = completed(&door.run("wb", "pwd").await.unwrap()).output.clone();
        assert_eq!(place.trim(), door.path("b/wb").display().to_string());
        // One of the same name.
        let mut second = door.cluster(WORKERS[2].1);
        let twin = second.register(tokio_stream::iter([said(hello("c"))])).await;
        let twin = twin.err().unwrap();
        assert!(
            twin.code() == Code::AlreadyExists && twin.message().contains("the name c"),
            "{twin:?}"
        );
        // When the first one is gone for a while, the second one has it.
        b.kill9().await;
        let is_served = async || {
            let workers = door.workers().await;
            workers
                .iter()
                .any(|one| one.name == "c" && one.workspaces.contains(&"wb".to_owned()))
        };
        timeout(Duration::from_secs(40), eventually("the second one has it", is_served))
            .await
            .unwrap();
        eventually("it is told", async || c.log().contains("all workspaces are served")).await;
        let place = completed(&door.run("wb", "pwd").await.unwrap()).output.clone();
        assert_eq!(place.trim(), door.path("c/wb").display().to_string());
        assert_calm(&[&door.gateway, &b, &c]);
    });
}

#[test]
fn a_worker_that_serves_a_caller_nothing_is_not_asked_for_that_one() {
    test(async {
        let door = Door::open("").await;
        let (a, b) = (door.worker("a", &["wa"]).await, door.worker("b", &["wb"]).await);
        door.ready(&[("a", &["wa"]), ("b", &["wb"])]).await;
        a.send(Signal::STOP);
        let list = ListCallsRequest {
            workspace: "-".to_owned(),
            ..ListCallsRequest::default()
        };
        // Anna sees the workspace of the worker that hangs, Ben does not.
        let annas = door.tools(ANNA).list_calls(list.clone()).await;
        refused(annas, Code::Unavailable, "WORKER_GONE");
        door.tools(BEN).list_calls(list).await.unwrap();
        let missing = GetCallRequest {
            call_id: "call_none".to_owned(),
        };
        refused(door.tools(BEN).get_call(missing).await, Code::NotFound, "NOT_FOUND");
        a.send(Signal::CONT);
        assert_calm(&[&door.gateway, &a, &b]);
    });
}

#[test]
fn a_stream_has_the_prompts_of_workers_that_come_later() {
    test(async {
        let door = Door::open("").await;
        let mut prompts = PermissionServiceClient::with_interceptor(door.channel.clone(), Shown(ANNA, None));
        let request = WatchPromptsRequest {
            filter: Some(everybody()),
        };
        let mut watched = prompts.watch_prompts(request).await.unwrap().into_inner();
        let a = door.worker("a", &["wa"]).await;
        door.ready(&[("a", &["wa"])]).await;
        let mut asking = door
            .tools(ANNA)
            .execute_tool(bash("wa", "echo ask 1"))
            .await
            .unwrap()
            .into_inner();
        let waits = waiting(&mut asking).await;
        let told = loop {
            match watched.message().await.unwrap().unwrap().message.unwrap() {
                watch_prompts_response::Message::PromptAdded(added) => break added.prompt.unwrap().prompt_id,
                watch_prompts_response::Message::Opened(_)
                | watch_prompts_response::Message::SnapshotEnd(_)
                | watch_prompts_response::Message::PromptUpdated(_)
                | watch_prompts_response::Message::PromptResolved(_)
                | watch_prompts_response::Message::Heartbeat(_) => {}
            }
        };
        assert_eq!(told, waits.prompt_id);
        assert_calm(&[&door.gateway, &a]);
    });
}

fn hello(name: &str) -> WorkerHello {
    WorkerHello {
        name: name.to_owned(),
        address: "unix:/nowhere".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        lowest_protocol: 1,
        highest_protocol: 1,
        workspaces: Vec::new(),
        secret: "s".repeat(40),
        run: "run".to_owned(),
        unbound: false,
    }
}

fn said(hello: WorkerHello) -> RegisterRequest {
    RegisterRequest {
        message: Some(Said::Hello(hello)),
    }
}

#[test]
fn what_does_not_fit_is_refused_at_registration() {
    test(async {
        let door = Door::open("[cluster.workers.listed]\naddress = \"unix:/nowhere\"\ntoken_file = \"own\"\n").await;
        let check = async |token: &'static str, hello: WorkerHello, code: Code, texts: &[&str]| {
            let answer = door.cluster(token).register(tokio_stream::iter([said(hello)])).await;
            let status = answer.err().unwrap();
            assert_eq!(status.code(), code, "{status:?}");
            for text in texts {
                assert!(status.message().contains(text), "{text:?} is not in {status:?}");
                assert!(door.gateway.log().contains(text), "{text:?} is not in the log");
            }
        };
        let own = env!("CARGO_PKG_VERSION");
        let a = WORKERS[0].1;
        check(
            ANNA,
            hello("a"),
            Code::PermissionDenied,
            &["token:anna may not register", "auth.workers"],
        )
        .await;
        let newer = WorkerHello {
            version: "9.9.0".to_owned(),
            ..hello("a")
        };
        check(
            a,
            newer,
            Code::FailedPrecondition,
            &["9.9.0", own, "upgrade the gateways first"],
        )
        .await;
        let other = WorkerHello {
            lowest_protocol: 7,
            highest_protocol: 9,
            ..hello("a")
        };
        check(a, other, Code::FailedPrecondition, &["the versions 7 to 9", own]).await;
        for address in [
            "https://169.254.169.254",
            "https://10.0.0.1:1",
            "https://metadata.example",
            "http://10.0.0.1:1",
        ] {
            let elsewhere = WorkerHello {
                address: address.to_owned(),
                ..hello("a")
            };
            check(a, elsewhere, Code::PermissionDenied, &[]).await;
        }
        check(
            a,
            hello("listed"),
            Code::AlreadyExists,
            &["in the configuration of the gateway"],
        )
        .await;
        check(a, hello("A b"), Code::InvalidArgument, &["small letters"]).await;
        let short = WorkerHello {
            secret: "x".to_owned(),
            ..hello("a")
        };
        check(a, short, Code::InvalidArgument, &["hello.secret"]).await;
        let first = door
            .cluster(a)
            .register(tokio_stream::iter([RegisterRequest::default()]))
            .await;
        assert_eq!(first.err().unwrap().code(), Code::InvalidArgument);
        // A worker may nothing else.
        let listed = door.cluster(a).list_workers(ListWorkersRequest {}).await;
        refused(listed, Code::PermissionDenied, "SCOPE_MISSING");
        // One that is limited to some workspaces sees no others.
        let listed = door.cluster(BEN).list_workers(ListWorkersRequest {}).await;
        assert!(listed.unwrap().into_inner().workers.is_empty());
        assert_calm(&[&door.gateway]);
    });
}

/// A gateway that keeps what workers say.
struct Listening {
    said: mpsc::Sender<WorkerHello>,
    open: TaskTracker,
}

#[tonic::async_trait]
impl ClusterService for Listening {
    type RegisterStream = Pin<Box<dyn Stream<Item = Result<RegisterResponse, Status>> + Send>>;

    async fn register(
        &self,
        request: Request<Streaming<RegisterRequest>>,
    ) -> Result<Response<Self::RegisterStream>, Status> {
        let mut incoming = request.into_inner();
        if let Some(Said::Hello(hello)) = incoming.message().await?.and_then(|first| first.message) {
            self.said.send(hello).await.unwrap();
        }
        let (sender, receiver) = mpsc::channel(1);
        let registered = Told::Registered(Registered {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: 1,
        });
        let registered = RegisterResponse {
            message: Some(registered),
        };
        sender.send(Ok(registered)).await.unwrap();
        self.open.spawn(async move {
            // Open for as long as the worker is there.
            while let Ok(Some(_)) = incoming.message().await {}
            drop(sender);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list_workers(&self, _: Request<ListWorkersRequest>) -> Result<Response<ListWorkersResponse>, Status> {
        Err(Status::unimplemented("it only listens"))
    }
}

#[test]
fn a_secret_is_good_at_its_own_worker_only() {
    test(async {
        let door = Door::open("").await;
        let (sender, mut said) = mpsc::channel(4);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let open = TaskTracker::new();
        let listening = Listening {
            said: sender,
            open: open.clone(),
        };
        let server = tonic::transport::Server::builder().add_service(ClusterServiceServer::new(listening));
        open.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let a = door.worker_of(&address, "a", &["wa"]).await;
        let of_a = said.recv().await.unwrap();
        let b = door.worker_of(&address, "b", &["wb"]).await;
        let of_b = said.recv().await.unwrap();
        assert!(of_a.name == "a" && of_b.name == "b" && of_a.secret != of_b.secret);
        assert_eq!(
            (of_a.workspaces.as_slice(), of_a.version.as_str()),
            (&["wa".to_owned()][..], env!("CARGO_PKG_VERSION"))
        );
        const ENTRY: &str = r#"{"principal":"token:anna","scopes":["calls.read"],"workspaces":null,"expires_in_ms":null,"looks":false}"#;
        let ask = async |worker: &Process, secret: &str, entry: Option<&'static str>| {
            let channel = connect_tcp(&worker.address).await.unwrap();
            // A test leaks what it shows.
            let secret: &'static str = Box::leak(secret.to_owned().into_boxed_str());
            let mut info = InfoServiceClient::with_interceptor(channel, Shown(secret, entry));
            info.get_server_info(GetServerInfoRequest {}).await
        };
        eventually("the gateway is let in", async || {
            ask(&a, &of_a.secret, Some(ENTRY)).await.is_ok()
        })
        .await;
        eventually("the gateway is let in", async || {
            ask(&b, &of_b.secret, None).await.is_ok()
        })
        .await;
        for (worker, secret) in [(&b, &of_a.secret), (&a, &of_b.secret)] {
            let elsewhere = ask(worker, secret, Some(ENTRY)).await;
            refused(elsewhere, Code::Unauthenticated, "CREDENTIALS_REVOKED");
        }
        refused(
            ask(&a, WORKERS[0].1, None).await,
            Code::Unauthenticated,
            "BAD_CREDENTIALS",
        );
        assert_calm(&[&a, &b]);
    });
}

#[test]
fn a_worker_that_stops_takes_no_more_calls() {
    test(async {
        let door = Door::open("").await;
        let a = door.worker("a", &["wa"]).await;
        door.ready(&[("a", &["wa"])]).await;
        let mut running = door
            .tools(ANNA)
            .execute_tool(bash("wa", "echo begun; sleep 8"))
            .await
            .unwrap()
            .into_inner();
        running.message().await.unwrap();
        a.send(Signal::TERM);
        eventually("it says so", async || {
            door.workers().await[0].state() == WorkerState::Draining
        })
        .await;
        refused(door.run("wa", "true").await, Code::Unavailable, "DRAINING");
        // What runs may come to its end.
        let mut is_over = false;
        while let Ok(Some(message)) = running.message().await {
            let event = message.event.and_then(|event| event.event);
            is_over |= matches!(event, Some(call_event::Event::Completed(_)));
        }
        assert!(is_over, "{}", a.log());
        assert_calm(&[&door.gateway, &a]);
    });
}

#[test]
fn tenants_have_limits_of_their_own() {
    test(async {
        let tenant = "[tenants.acme]\nworkspaces = [\"acme/*\"]\nmax_workspaces = 2\nmax_running_calls = 1\n";
        let door = Door::open(tenant).await;
        let a = door.worker("a", &["wa", "acme/one"]).await;
        door.ready(&[("a", &["wa", "acme/one"])]).await;
        let running = door
            .tools(ANNA)
            .execute_tool(bash("acme/one", "sleep 100"))
            .await
            .unwrap()
            .into_inner();
        let more = door.run("acme/one", "true").await;
        let details = refused(more, Code::ResourceExhausted, "TOO_MANY_CALLS");
        assert!(details.retry_info().unwrap().retry_delay.is_some());
        assert_eq!(
            details.quota_failure().unwrap().violations[0].subject,
            "tenants.acme.max_running_calls"
        );
        door.run("wa", "true").await.unwrap();
        drop(running);
        eventually("there is room again", async || {
            door.run("acme/one", "true").await.is_ok()
        })
        .await;

        let mut workspaces = WorkspaceServiceClient::with_interceptor(door.channel.clone(), Shown(ANNA, None));
        let mut open = async |name: &str| {
            let folder = door.path("a/roots").join(name.replace('/', "-"));
            std::fs::create_dir(&folder).unwrap();
            let request = OpenWorkspaceRequest {
                workspace: name.to_owned(),
                directory: folder.display().to_string(),
                ..OpenWorkspaceRequest::default()
            };
            workspaces.open_workspace(request).await
        };
        open("acme/two").await.unwrap();
        let third = open("acme/three").await;
        assert!(
            third
                .as_ref()
                .unwrap_err()
                .message()
                .contains("tenants.acme.max_workspaces is 2"),
            "{third:?}"
        );
        refused(third, Code::ResourceExhausted, "TOO_MANY_WORKSPACES");
        assert_calm(&[&door.gateway, &a]);
    });
}

/// A worker of another version.
#[derive(Clone)]
struct Older;

#[tonic::async_trait]
impl InfoService for Older {
    async fn get_server_info(
        &self,
        _: Request<GetServerInfoRequest>,
    ) -> Result<Response<GetServerInfoResponse>, Status> {
        Ok(Response::new(GetServerInfoResponse {
            version: "7.3.1".to_owned(),
            ..GetServerInfoResponse::default()
        }))
    }
}

#[tonic::async_trait]
impl WorkspaceService for Older {
    async fn open_workspace(
        &self,
        _: Request<OpenWorkspaceRequest>,
    ) -> Result<Response<OpenWorkspaceResponse>, Status> {
        Err(Status::unimplemented("it only says what it is"))
    }

    async fn close_workspace(
        &self,
        _: Request<CloseWorkspaceRequest>,
    ) -> Result<Response<CloseWorkspaceResponse>, Status> {
        Err(Status::unimplemented("it only says what it is"))
    }

    async fn create_workspace(
        &self,
        _: Request<CreateWorkspaceRequest>,
    ) -> Result<Response<CreateWorkspaceResponse>, Status> {
        Err(Status::unimplemented("it only says what it is"))
    }

    async fn suspend_workspace(
        &self,
        _: Request<SuspendWorkspaceRequest>,
    ) -> Result<Response<SuspendWorkspaceResponse>, Status> {
        Err(Status::unimplemented("it only says what it is"))
    }

    async fn resume_workspace(
        &self,
        _: Request<ResumeWorkspaceRequest>,
    ) -> Result<Response<ResumeWorkspaceResponse>, Status> {
        Err(Status::unimplemented("it only says what it is"))
    }

    async fn delete_workspace(
        &self,
        _: Request<DeleteWorkspaceRequest>,
    ) -> Result<Response<DeleteWorkspaceResponse>, Status> {
        Err(Status::unimplemented("it only says what it is"))
    }

    async fn get_workspace(&self, _: Request<GetWorkspaceRequest>) -> Result<Response<GetWorkspaceResponse>, Status> {
        Err(Status::unimplemented("it only says what it is"))
    }

    async fn list_workspaces(
        &self,
        _: Request<ListWorkspacesRequest>,
    ) -> Result<Response<ListWorkspacesResponse>, Status> {
        let workspaces = vec![WorkspaceInfo {
            name: "old".to_owned(),
            ..WorkspaceInfo::default()
        }];
        Ok(Response::new(ListWorkspacesResponse {
            workspaces,
            ..ListWorkspacesResponse::default()
        }))
    }
}

#[test]
fn a_listed_worker_of_another_version_is_shown_and_not_used() {
    test(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(InfoServiceServer::new(Older))
            .add_service(WorkspaceServiceServer::new(Older));
        let tasks = TaskTracker::new();
        tasks.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let listed = format!("[cluster.workers.older]\naddress = \"http://{address}\"\ntoken_file = \"own\"\n");
        let door = Door::open(&listed).await;
        let a = door.worker("a", &["wa"]).await;
        door.ready(&[("a", &["wa"])]).await;
        let workers = door.workers().await;
        let older = workers.iter().find(|one| one.name == "older").unwrap();
        assert_eq!(
            (older.state(), older.kind()),
            (WorkerState::Refused, WorkerKind::Listed)
        );
        let refusal = door.run("old", "true").await;
        for text in ["7.3.1", env!("CARGO_PKG_VERSION"), "upgrade the gateways first"] {
            assert!(refusal.as_ref().unwrap_err().message().contains(text), "{refusal:?}");
            assert!(older.problem.contains(text), "{older:?}");
            assert!(door.gateway.log().contains(text), "{}", door.gateway.log());
        }
        refused(refusal, Code::Unavailable, "WORKER_GONE");
        // The others are used.
        door.run("wa", "true").await.unwrap();
        assert_calm(&[&door.gateway, &a]);
    });
}
