//! Tokens, scopes and the Unix socket.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use prost_types::FileDescriptorSet;
use rustix::process::Signal;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use toolgate_contract::*;

use prost::Message as _;

use super::setup::*;
use crate::support::{self, Server, Setup, refused, test, watch_all};

const SCOPES: [&str; 10] = [
    "calls.execute",
    "calls.read",
    "prompts.reply",
    "tools.host",
    "outputs.read",
    "files.read",
    "files.write",
    "workspaces.manage",
    "ports.connect",
    "admin",
];

#[test]
fn without_a_token_there_is_nothing_but_health() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        let list = || ListToolsRequest::default();
        refused(
            tools(&channel, "").list_tools(list()).await,
            Code::Unauthenticated,
            "NO_CREDENTIALS",
        );
        let wrong = tools(&channel, "nobody-nobody-nobody").list_tools(list()).await;
        refused(wrong, Code::Unauthenticated, "BAD_CREDENTIALS");
        assert!(
            !tools(&channel, ALICE)
                .list_tools(list())
                .await
                .unwrap()
                .into_inner()
                .tools
                .is_empty()
        );
        let mut basic = Request::new(list());
        basic
            .metadata_mut()
            .insert("authorization", "Basic YWxpY2U6".parse().unwrap());
        refused(
            tools(&channel, "").list_tools(basic).await,
            Code::Unauthenticated,
            "BAD_CREDENTIALS",
        );
        let mut twice = Request::new(list());
        twice
            .metadata_mut()
            .append("authorization", "Bearer x".parse().unwrap());
        twice
            .metadata_mut()
            .append("authorization", format!("Bearer {ALICE}").parse().unwrap());
        refused(
            tools(&channel, "").list_tools(twice).await,
            Code::Unauthenticated,
            "BAD_CREDENTIALS",
        );
        let health = HealthClient::new(channel.clone())
            .check(HealthCheckRequest::default())
            .await;
        assert!(health.is_ok());
        let reflection = raw(
            &channel,
            "",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        )
        .await;
        assert_eq!(reflection, Code::Unauthenticated);
        // The owner of the process, on its socket.
        let socket = format!("unix:{}", folder.path("s").display());
        let channel = tonic::transport::Endpoint::from_shared(socket)
            .unwrap()
            .connect()
            .await
            .unwrap();
        assert!(tools(&channel, "").list_tools(list()).await.is_ok());
        let wrong = tools(&channel, "nobody-nobody-nobody").list_tools(list()).await;
        refused(wrong, Code::Unauthenticated, "BAD_CREDENTIALS");
        service.stop().await;
    });
}

/// Calls an RPC with an empty message and returns how it begins.
async fn raw(channel: &tonic::transport::Channel, token: &'static str, path: &str) -> Code {
    let mut client = Grpc::new(tonic::service::interceptor::InterceptedService::new(
        channel.clone(),
        Bearer(token),
    ));
    client.ready().await.unwrap();
    let path: PathAndQuery = path.parse().unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let requests = tokio_stream::once(());
    let response = client.streaming(Request::new(requests), path, codec);
    match timeout(Duration::from_secs(20), response).await.expect("it begins") {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

/// Every RPC of the contract by its path.
fn rpcs() -> Vec<String> {
    let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
    let ours = files.iter().filter(|file| file.package() == "toolgate.v1");
    let services = ours.flat_map(|file| &file.service);
    services
        .flat_map(|service| {
            let methods = service.method.iter();
            methods.map(|method| format!("/toolgate.v1.{}/{}", service.name(), method.name()))
        })
        .collect()
}

#[test]
fn every_rpc_needs_its_scope_and_no_other() {
    test(async {
        let folder = Folder::new();
        let mut lines = String::new();
        let mut with = BTreeMap::new();
        let mut without = BTreeMap::new();
        for scope in SCOPES {
            let only: &'static str = format!("only-only-only-{scope}").leak();
            let all_but: &'static str = format!("all-but-all-but-{scope}").leak();
            let others: Vec<&str> = SCOPES.into_iter().filter(|other| *other != scope).collect();
            lines += &format!(
                "{scope}-only {only} {scope}\n{scope}-not {all_but} {}\n",
                others.join(",")
            );
            with.insert(scope, only);
            without.insert(scope, all_but);
        }
        folder.put("tokens", &lines);
        let settings = format!("{ON_A_PORT}\nauth.tokens_file = \"tokens\"");
        let service = folder.start(&settings).await.unwrap();
        let channel = service.connect().await;
        let rpcs = rpcs();
        assert!(rpcs.len() > 20);
        for path in rpcs {
            let mut needed = Vec::new();
            for scope in SCOPES {
                let code = raw(&channel, without[scope], &path).await;
                assert_ne!(code, Code::Unauthenticated, "{path}");
                if code == Code::PermissionDenied {
                    needed.push(scope);
                }
            }
            assert_eq!(needed.len(), 1, "{path} needs {needed:?}");
            for scope in SCOPES {
                let code = raw(&channel, with[scope], &path).await;
                assert_eq!(
                    code == Code::PermissionDenied,
                    scope != needed[0],
                    "{path} with {scope}: {code:?}"
                );
            }
        }
        let denied = tools(&channel, with["admin"])
            .list_tools(ListToolsRequest::default())
            .await;
        let details = refused(denied, Code::PermissionDenied, "SCOPE_MISSING");
        assert_eq!(details.error_info().unwrap().metadata["scope"], "calls.read");
        service.stop().await;
    });
}

#[test]
fn a_token_that_is_taken_back_ends_its_streams() {
    test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        let watch = |token| {
            let mut client = prompts(&channel, token);
            async move {
                let stream = client.watch_prompts(watch_all()).await;
                let mut stream = stream.unwrap().into_inner();
                stream.message().await.unwrap();
                stream.message().await.unwrap();
                stream
            }
        };
        let (mut alices, mut bobs) = (watch(ALICE).await, watch(BOB).await);
        // What nobody understands changes nothing.
        folder.put("tokens", "bob");
        support::eventually("the broken file was looked at", async || {
            tokio::time::sleep(Duration::from_millis(2500)).await;
            true
        })
        .await;
        assert!(
            tools(&channel, ALICE)
                .list_tools(ListToolsRequest::default())
                .await
                .is_ok()
        );
        folder.put(
            "tokens",
            &TOKENS.replace("alice-alice-alice-alice", "other-other-other-other"),
        );
        let end = timeout(Duration::from_secs(20), alices.message())
            .await
            .expect("it ends");
        refused(end, Code::Unauthenticated, "CREDENTIALS_REVOKED");
        let again = tools(&channel, ALICE).list_tools(ListToolsRequest::default()).await;
        refused(again, Code::Unauthenticated, "BAD_CREDENTIALS");
        // Bob's goes on.
        let prompt = ask(&channel, BOB, "a", "goes-on", "").await;
        let told = bobs.message().await.unwrap().unwrap();
        let shown = match told.message {
            Some(watch_prompts_response::Message::PromptAdded(added)) => added.prompt.unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown.prompt_id, prompt.prompt_id);
        assert_eq!(shown.requester, "token:bob");
        service.stop().await;
    });
}

#[test]
fn a_hangup_reads_the_files_at_once() {
    test(async {
        let folder = Folder::new();
        folder.put("tokens", TOKENS);
        let tokens = folder.path("tokens").display().to_string();
        let mut server = Server::with(Setup::default().env("TOOLGATE_AUTH_TOKENS_FILE", &tokens)).await;
        let channel = server.channel();
        let is_known = async |token| {
            let listed = tools(&channel, token).list_tools(ListToolsRequest::default()).await;
            listed.is_ok()
        };
        let mut times = Vec::new();
        for round in 0..6 {
            let is_in = round % 2 == 1;
            let text = if is_in {
                TOKENS.to_owned()
            } else {
                TOKENS.replace(ALICE, "nobody-nobody-nobody")
            };
            folder.put("tokens", &text);
            let begin = Instant::now();
            server.signal(Signal::HUP);
            support::eventually("the file was read", async || is_known(ALICE).await == is_in).await;
            times.push(begin.elapsed());
            assert!(is_known(BOB).await);
        }
        // The files are looked at by themselves as well: that takes longer than this in most of so many rounds.
        times.sort();
        assert!(times[3] < Duration::from_millis(250), "{times:?}");
        server.stop().await;
    });
}

#[test]
fn what_lets_strangers_in_is_refused_at_the_start() {
    test(async {
        let folder = Folder::new();
        let settings = with_tokens(&folder);
        fs::set_permissions(folder.path("tokens"), fs::Permissions::from_mode(0o644)).unwrap();
        let check = async |settings: &str, part: &str| {
            let error = folder.start(settings).await.err().expect(part);
            assert!(error.contains(part), "{part} is not in {error}");
            assert!(!error.contains(ALICE), "{error}");
        };
        check(&settings, "chmod 600").await;
        let beyond = "listen.tcp = \"0.0.0.0:0\"";
        check(beyond, "neither TLS nor authentication").await;
        check(&format!("{beyond}\nlisten.insecure = true"), "who they are").await;
        check(&format!("{beyond}\nauth.tokens_file = \"tokens\""), "not encrypted").await;
        check(&settings.replace("\"tokens\"", "\"missing\""), "cannot read").await;
        folder.put("tokens", "alice alice-alice-alice-alice root");
        check(&settings, "there is no scope").await;
        folder.put("keys", "{\"keys\": []}");
        let jwt = "auth.jwt = {jwks_file = \"keys\", issuer = \"i\", audience = \"a\"";
        check(&format!("{ON_A_PORT}\n{jwt}}}"), "no public key").await;
        check(
            &format!("{ON_A_PORT}\n{jwt}, algorithms = [\"HS256\"]}}"),
            "shared secret",
        )
        .await;
        folder.put("key", "x");
        let tls = "listen.tls = {certificate = \"key\", key = \"key\"}";
        check(&format!("{ON_A_PORT}\n{tls}"), "certificate in PEM form").await;
    });
}
