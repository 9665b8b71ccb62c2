//! Taking back what a call did, through the whole service: contract, engine, store and files.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use toolgate_config::{Config, Environment, RawConfig};
use toolgate_contract::call::Ending;
use toolgate_contract::call_event::Event;
use toolgate_contract::run_tool_request::Arguments;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::{
    Call, CallContext, CallEvent, FailureReason, GetCallRequest, RevertCallRequest, RunToolRequest,
};
use toolgate_server::app::{App, Running};

const RULES: &str = r#"{"agent": {"careful": {"permission": {"edit": {"*": "allow", "kept.txt": "deny"}}}}}"#;

/// A service over a folder that outlives it.
struct Service {
    running: Running,
    client: ToolServiceClient<Channel>,
}

fn work(folder: &TempDir) -> PathBuf {
    folder.path().canonicalize().unwrap().join("work")
}

impl Service {
    async fn start(folder: &TempDir) -> Self {
        Self::with_limits(folder, RawConfig::default()).await
    }

    async fn with_limits(folder: &TempDir, limits: RawConfig) -> Self {
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("work")).unwrap();
        fs::write(base.join("work/opencode.json"), RULES).unwrap();
        let text = |name: &str| base.join(name).display().to_string();
        let environment = Environment::new([("HOME".to_owned(), text("home"))], &base);
        let flags = limits
            .with("data_dir", text("data"))
            .with("listen.tcp", "none")
            .with("listen.unix", text("socket"))
            .with_workspaces(&[("main", text("work"))]);
        let config = Config::load(None, flags, &environment).unwrap();
        let running = App::build(&config, &environment, None).await.unwrap();
        let running = running.start().await.unwrap();
        let endpoint = Endpoint::from_shared(format!("unix:{}", text("socket"))).unwrap();
        let client = ToolServiceClient::new(endpoint.connect().await.unwrap());
        Self { running, client }
    }

    async fn stop(self) {
        drop(self.client);
        self.running.drain().await;
    }

    async fn write(&self, name: &str, content: &str) -> Call {
        let input = serde_json::json!({"filePath": name, "content": content}).to_string();
        let request = RunToolRequest {
            tool: "write".to_owned(),
            arguments: Some(Arguments::InputJson(input)),
            context: Some(CallContext {
                session_id: "writer".to_owned(),
                ..CallContext::default()
            }),
            ..RunToolRequest::default()
        };
        let call = self
            .client
            .clone()
            .run_tool(request)
            .await
            .unwrap()
            .into_inner()
            .call
            .unwrap();
        assert!(matches!(call.ending, Some(Ending::Completed(_))), "{call:?}");
        call
    }

    async fn get(&self, call_id: &str) -> Call {
        let call_id = call_id.to_owned();
        let call = self.client.clone().get_call(GetCallRequest { call_id }).await.unwrap();
        call.into_inner().call.unwrap()
    }

    /// Returns the id of the new call and its last event.
    async fn revert(&self, request: RevertCallRequest) -> Result<(String, Event), Status> {
        let stream = self.client.clone().revert_call(request).await?.into_inner();
        let events: Vec<CallEvent> = stream.map(|next| next.unwrap().event.unwrap()).collect().await;
        let last = events.into_iter().next_back().unwrap();
        Ok((last.call_id, last.event.unwrap()))
    }
}

fn of(call: &str) -> RevertCallRequest {
    RevertCallRequest {
        call_id: call.to_owned(),
        ..RevertCallRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reverts_a_call_of_an_earlier_run() {
    let folder = TempDir::new().unwrap();
    let service = Service::start(&folder).await;
    let file = work(&folder).join("new/a.txt");
    let written = service.write("new/a.txt", "text").await;
    let [change] = &written.changes[..] else {
        panic!("{:?}", written.changes)
    };
    let after = change.after.as_ref().unwrap();
    assert_eq!((change.path.as_str(), &change.before), (file.to_str().unwrap(), &None));
    assert_eq!((after.sha256.len(), after.size_bytes, after.mode), (64, 4, None));
    service.stop().await;

    let service = Service::start(&folder).await;
    assert_eq!(service.get(&written.call_id).await.changes, written.changes);
    let (reverted, end) = service.revert(of(&written.call_id)).await.unwrap();
    let Event::Completed(end) = end else { panic!("{end:?}") };
    assert_eq!(
        end.output,
        format!("Reverted the call {}.\ndeleted new/a.txt", written.call_id)
    );
    assert!(!file.exists());
    let record = service.get(&reverted).await;
    assert_eq!((record.tool.as_str(), record.changes.len()), ("revert", 1));
    assert_eq!(record.context.unwrap().workspace, "main");

    service.revert(of(&reverted)).await.unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revert_is_started_once() {
    let folder = TempDir::new().unwrap();
    let service = Service::start(&folder).await;
    let written = service.write("a.txt", "text").await;
    let request = RevertCallRequest {
        revert_call_id: "undo".to_owned(),
        ..of(&written.call_id)
    };
    let first = service.revert(request.clone()).await.unwrap();
    assert_eq!(first.0, "undo");
    assert_eq!(service.revert(request.clone()).await.unwrap(), first);
    let check = async |request: RevertCallRequest, expected: Code| {
        let status = service.revert(request).await.unwrap_err();
        assert_eq!(status.code(), expected, "{status:?}");
    };
    let merge = true;
    check(RevertCallRequest { merge, ..request }, Code::AlreadyExists).await;
    check(of("unknown"), Code::NotFound).await;
    check(of("no id"), Code::InvalidArgument).await;
    let bad = RevertCallRequest {
        revert_call_id: "no id".to_owned(),
        ..of(&written.call_id)
    };
    check(bad, Code::InvalidArgument).await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_and_other_writers_stop_a_revert() {
    let folder = TempDir::new().unwrap();
    let service = Service::start(&folder).await;
    let kept = service.write("kept.txt", "text").await;
    let careful = RevertCallRequest {
        context: Some(CallContext {
            agent: "careful".to_owned(),
            ..CallContext::default()
        }),
        ..of(&kept.call_id)
    };
    let check = async |request: RevertCallRequest, reason: FailureReason, expected: &str| {
        let (_, end) = service.revert(request).await.unwrap();
        let Event::Failed(end) = end else { panic!("{end:?}") };
        assert_eq!(end.reason(), reason, "{end:?}");
        assert!(end.error.contains(expected), "{}", end.error);
    };
    check(careful, FailureReason::Denied, "kept.txt").await;
    fs::write(work(&folder).join("kept.txt"), "theirs").unwrap();
    let theirs = "the call created it, and someone else has changed it since";
    check(of(&kept.call_id), FailureReason::ToolError, theirs).await;
    assert_eq!(fs::read_to_string(work(&folder).join("kept.txt")).unwrap(), "theirs");
    let (failed, _) = service.revert(of(&kept.call_id)).await.unwrap();
    check(of(&failed), FailureReason::ToolError, "changed no files").await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_to_be_kept_says_so() {
    let folder = TempDir::new().unwrap();
    let limits = RawConfig::default().with("limits.max_undo_bytes", 64);
    let service = Service::with_limits(&folder, limits).await;
    let (small, large) = ("s".repeat(70), "l".repeat(71));
    let created = service.write("a.txt", &small).await;
    let replaced = service.write("a.txt", &large).await;
    assert_eq!(replaced.changes.len(), 1, "what it did is known all the same");
    let says = |call: &Call| {
        let text = format!("{call:?}");
        text.contains("This call cannot be reverted: its files have 141 bytes")
    };
    assert!(says(&replaced) && !says(&created));
    let (_, end) = service.revert(of(&replaced.call_id)).await.unwrap();
    let Event::Failed(end) = end else { panic!("{end:?}") };
    assert!(
        end.error
            .ends_with("what it was before is not kept: it was too large, or it is too long ago")
    );
    let file = work(&folder).join("a.txt");
    assert_eq!(fs::read_to_string(&file).unwrap(), large);

    // A file that a call only created is deleted again, whatever its size.
    let created = service.write("b.txt", &"b".repeat(100)).await;
    assert!(!says(&created));
    service.revert(of(&created.call_id)).await.unwrap();
    assert!(!work(&folder).join("b.txt").exists());
    service.stop().await;
}
