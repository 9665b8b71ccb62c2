//! What a gateway refuses: who is no worker, and what is of a workspace that a worker may not have.

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use toolgate_contract::cluster::ledger_service_client::LedgerServiceClient;
use toolgate_contract::cluster::*;
use toolgate_ledger::LedgerStore;
use toolgate_ledger::wire;
use toolgate_model::{Decision, InstanceId, PromptOutcome, PromptState, Reply, SessionId, SessionKey};
use toolgate_store::ledger::{Hold, Note};
use toolgate_store::{
    CallFilter, OutputFilter, OutputOwner, Outputs as _, PageRequest, PromptFilter, Prompts as _, SessionFacts as _,
    SessionFilter, Settlement, Upkeep as _,
};

use crate::gateway::{LIMITED, PERSON, Running, WORKER, options};
use crate::postgres::{database, server};
use crate::store::{create, prompt, record};

/// Messages as bytes.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(into, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let length = bytes::Buf::remaining(from);
        Ok(Some(bytes::Buf::copy_to_bytes(from, length).to_vec()))
    }
}

/// The RPCs of the ledger: their names, what each is asked with, and whether it is answered with a stream.
fn rpcs() -> Vec<(String, DescriptorProto, bool)> {
    let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
    let file = files
        .iter()
        .find(|file| file.service.iter().any(|service| service.name() == "LedgerService"))
        .unwrap();
    let messages = &file.message_type;
    let service = file
        .service
        .iter()
        .find(|service| service.name() == "LedgerService")
        .unwrap();
    let rpc = |method: &prost_types::MethodDescriptorProto| {
        let input = method.input_type().rsplit('.').next().unwrap();
        let message = messages.iter().find(|message| message.name() == input).unwrap();
        (method.name().to_owned(), message.clone(), method.server_streaming())
    };
    service.method.iter().map(rpc).collect()
}

fn shown<Q>(token: &str, question: Q) -> Request<Q> {
    let mut request = Request::new(question);
    let token = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    request
}

/// Sends a message, and returns why it is refused.
async fn refusal(channel: &Channel, rpc: &str, is_stream: bool, token: &str, message: Vec<u8>) -> Option<Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path = format!("/toolgate.cluster.v1.LedgerService/{rpc}");
    let path: PathAndQuery = path.parse().unwrap();
    let request = shown(token, message);
    match is_stream {
        true => client.server_streaming(request, path, Raw).await.err(),
        false => client.unary(request, path, Raw).await.err(),
    }
}

/// Writes a field that has a length.
fn field(number: i32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = u32::try_from(number).unwrap();
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut bytes);
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend(content);
    bytes
}

/// What a worker has stored in `main`, and a hold of it.
struct Stored {
    gateway: Running,
    store: LedgerStore,
    run: InstanceId,
    channel: Channel,
    output: String,
    _folder: tempfile::TempDir,
}

impl Stored {
    async fn new() -> Self {
        let server = server().await;
        let gateway = Running::start(&server.address(&database(server).await)).await;
        let (folder, run) = (tempfile::tempdir().unwrap(), InstanceId::generate());
        let mut options = options(&[gateway.address()], &run, folder.path(), WORKER);
        options.workspaces = vec!["main".to_owned()];
        let store = LedgerStore::open(options).await.unwrap();
        let call = create(&store, record("call", &run)).await;
        store.open(prompt("pmt_1", "call", &run), None, None).await.unwrap();
        let mut writer = store.create_output(OutputOwner::from(&call)).await.unwrap();
        writer.append("secret".into()).await.unwrap();
        let output = writer.finish().await.unwrap().id.to_string();
        let session = SessionKey {
            workspace: "main".to_owned(),
            session: SessionId::from("ses_1"),
        };
        store.remember(&session, "key", "secret".into());
        Self {
            channel: Endpoint::from_shared(gateway.address())
                .unwrap()
                .connect()
                .await
                .unwrap(),
            gateway,
            store,
            run,
            output,
            _folder: folder,
        }
    }

    fn holding(&self) -> Holding {
        wire::holding(&Hold {
            workspace: "main".to_owned(),
            run: self.run.clone(),
            principal: String::new(),
            epoch: 1,
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_no_worker_may_nothing() {
    let stored = Stored::new().await;
    let rpcs = rpcs();
    assert!(rpcs.len() > 30);
    for (rpc, _, is_stream) in &rpcs {
        let refused = refusal(&stored.channel, rpc, *is_stream, PERSON, Vec::new()).await;
        assert_eq!(
            refused.as_ref().map(Status::code),
            Some(Code::PermissionDenied),
            "{rpc}: {refused:?}"
        );
        let unknown = refusal(&stored.channel, rpc, *is_stream, "nobody-nobody-nobody", Vec::new()).await;
        assert_eq!(
            unknown.as_ref().map(Status::code),
            Some(Code::Unauthenticated),
            "{rpc}: {unknown:?}"
        );
    }
    stored.store.close().await.unwrap();
    stored.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_another_workspace_is_neither_changed_nor_read() {
    let stored = Stored::new().await;
    let mut reads = Vec::new();
    for (rpc, message, is_stream) in rpcs() {
        let named = |name: &str| message.field.iter().find(|field| field.name() == name);
        let asked = if let Some(holding) = named("holding") {
            field(holding.number(), &stored.holding().encode_to_vec())
        } else if let Some(workspace) = named("workspace") {
            field(workspace.number(), b"main")
        } else if rpc == "Bind" {
            BindRequest {
                run: "run".to_owned(),
                address: String::new(),
                workspaces: vec!["main".to_owned()],
                noted: 0,
            }
            .encode_to_vec()
        } else {
            let workspaces = named("workspaces").unwrap_or_else(|| panic!("{rpc} says nothing of workspaces"));
            assert!(workspaces.label() == Label::Repeated && workspaces.r#type() == Type::String);
            reads.push(rpc);
            continue;
        };
        let refused = refusal(&stored.channel, &rpc, is_stream, LIMITED, asked).await;
        assert_eq!(
            refused.as_ref().map(Status::code),
            Some(Code::PermissionDenied),
            "{rpc}: {refused:?}"
        );
    }
    // Each of these is asked below: what is of `main` is not there for who may have `other` only.
    let expected = [
        "GetCall",
        "FindNamesakes",
        "ReadEvents",
        "ListCalls",
        "ListSessions",
        "GetPrompt",
        "ListOpenPrompts",
        "ListInterests",
        "ListPrompts",
        "ListGrants",
        "GetGrant",
        "ListChanges",
        "GetOutput",
        "ReadOutput",
        "ListOutputs",
        "Follow",
    ];
    assert_eq!(reads, expected);
    for (token, is_seen) in [(WORKER, true), (LIMITED, false)] {
        look(&stored, token, is_seen).await;
    }
    stored.store.close().await.unwrap();
    stored.gateway.stop().await;
}

async fn look(stored: &Stored, token: &str, is_seen: bool) {
    let mut client = LedgerServiceClient::new(stored.channel.clone());
    let workspaces = || vec!["main".to_owned(), "other".to_owned()];
    let page = || Some(wire::page(&PageRequest { size: 10, after: None }));
    let filter = |json: serde_json::Result<Vec<u8>>| json.unwrap();
    let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    let has_items = |bytes: &[u8]| !json(bytes).as_array().unwrap().is_empty();
    let call = || "call".to_owned();

    let asked = GetCallRequest {
        id: call(),
        workspaces: workspaces(),
    };
    let answer = client.get_call(shown(token, asked)).await.unwrap().into_inner();
    assert_eq!(!answer.record.is_empty(), is_seen);
    let asked = ReadEventsRequest {
        id: call(),
        after: 0,
        limit: 10,
        workspaces: workspaces(),
    };
    let answer = client.read_events(shown(token, asked)).await.unwrap().into_inner();
    assert_eq!(has_items(&answer.events), is_seen);
    let asked = ListCallsRequest {
        filter: filter(serde_json::to_vec(&CallFilter::default())),
        workspaces: workspaces(),
        page: page(),
    };
    let answer = client.list_calls(shown(token, asked)).await.unwrap().into_inner();
    assert_eq!(has_items(&answer.records), is_seen);
    let asked = ListSessionsRequest {
        filter: filter(serde_json::to_vec(&SessionFilter::default())),
        workspaces: workspaces(),
        page: page(),
    };
    let answer = client.list_sessions(shown(token, asked)).await.unwrap().into_inner();
    assert_eq!(has_items(&answer.sessions), is_seen);
    let asked = GetPromptRequest {
        id: "pmt_1".to_owned(),
        workspaces: workspaces(),
    };
    let answer = client.get_prompt(shown(token, asked)).await.unwrap().into_inner();
    assert_eq!(!answer.asked.is_empty(), is_seen);
    let asked = ListOpenPromptsRequest {
        workspaces: workspaces(),
    };
    let answer = client
        .list_open_prompts(shown(token, asked))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(!answer.prompts.is_empty(), is_seen);
    let asked = ListPromptsRequest {
        filter: filter(serde_json::to_vec(&PromptFilter::default())),
        workspaces: workspaces(),
        limit: 10,
    };
    let answer = client.list_prompts(shown(token, asked)).await.unwrap().into_inner();
    assert_eq!(has_items(&answer.prompts), is_seen);
    let asked = GetOutputRequest {
        id: stored.output.clone(),
        whole: true,
        workspaces: workspaces(),
    };
    let answer = client.get_output(shown(token, asked)).await.unwrap().into_inner();
    assert_eq!(!answer.info.is_empty(), is_seen);
    let asked = ReadOutputRequest {
        id: stored.output.clone(),
        offset: 0,
        max: 100,
        workspaces: workspaces(),
    };
    let answer = client.read_output(shown(token, asked)).await;
    assert_eq!(
        answer
            .map_err(|status| status.code())
            .is_ok_and(|answer| answer.into_inner().data == "secret"),
        is_seen
    );
    let asked = ListOutputsRequest {
        filter: filter(serde_json::to_vec(&OutputFilter::default())),
        workspaces: workspaces(),
        page: page(),
    };
    let answer = client.list_outputs(shown(token, asked)).await.unwrap().into_inner();
    assert_eq!(has_items(&answer.outputs), is_seen);
    // What nobody may see who does not name it.
    let asked = GetCallRequest {
        id: call(),
        workspaces: vec!["other".to_owned()],
    };
    let answer = client.get_call(shown(token, asked)).await.unwrap().into_inner();
    assert!(answer.record.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_decides_nothing_and_writes_for_nobody_else() {
    let stored = Stored::new().await;
    let mut client = LedgerServiceClient::new(stored.channel.clone());
    let allowed = Settlement {
        prompt: "pmt_1".into(),
        state: PromptState::Resolved,
        decision: Decision::new(PromptOutcome::Replied(Reply::Once)),
        uses: Vec::new(),
    };
    let asked = EndPromptRequest {
        holding: Some(stored.holding()),
        settlement: serde_json::to_vec(&allowed).unwrap(),
    };
    let refused = client.end_prompt(shown(WORKER, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted, "{refused:?}");

    // A call of another workspace than the one that is held.
    let mut call = record("foreign", &stored.run);
    call.origin.workspace = "other".to_owned();
    call.last_sequence = 1;
    let asked = CreateCallRequest {
        holding: Some(stored.holding()),
        record: serde_json::to_vec(&call).unwrap(),
        events: serde_json::to_vec(&[crate::store::event(1)]).unwrap(),
        again: false,
        ..CreateCallRequest::default()
    };
    let refused = client.create_call(shown(WORKER, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted, "{refused:?}");
    let session = SessionKey {
        workspace: "other".to_owned(),
        session: SessionId::from("ses_1"),
    };
    let note = Note::Fact {
        session,
        key: "key".to_owned(),
        value: 1.into(),
    };
    let asked = StoreNotesRequest {
        holding: Some(stored.holding()),
        first: 1_000,
        notes: serde_json::to_vec(&[note]).unwrap(),
    };
    let refused = client.store_notes(shown(WORKER, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted, "{refused:?}");

    // A worker that may have `other` does not end the run of another one by a hold of its own.
    let asked = BindRequest {
        run: stored.run.to_string(),
        address: String::new(),
        workspaces: vec!["other".to_owned()],
        noted: 0,
    };
    let refused = client.bind(shown(LIMITED, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted, "{refused:?}");
    let made_up = Holding {
        workspace: "other".to_owned(),
        run: "made-up".to_owned(),
        epoch: 1,
    };
    let asked = ReleaseRequest { holding: Some(made_up) };
    let refused = client.release(shown(LIMITED, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    stored.store.close().await.unwrap();
    stored.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whose_a_run_is_the_store_knows() {
    let stored = Stored::new().await;
    let mut client = LedgerServiceClient::new(stored.channel.clone());
    // Both may have `other`; what the first one has is not the other one's, whatever it says of it.
    let taken = BindRequest {
        run: "first".to_owned(),
        address: String::new(),
        workspaces: vec!["other".to_owned()],
        noted: 0,
    };
    let bound = client.bind(shown(WORKER, taken)).await.unwrap().into_inner();
    let holding = bound.holdings.into_iter().next();
    let renewal = RenewLeaseRequest {
        holding: holding.clone(),
        holdings: Vec::new(),
    };
    let refused = client.renew_lease(shown(LIMITED, renewal.clone())).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    let release = ReleaseRequest {
        holding: holding.clone(),
    };
    let refused = client.release(shown(LIMITED, release.clone())).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    let asked = AdoptCallsRequest { holding };
    let refused = client.adopt_calls(shown(LIMITED, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    // Who waits learns for how long, and not for whom.
    let wanted = BindRequest {
        run: "second".to_owned(),
        address: String::new(),
        workspaces: vec!["other".to_owned()],
        noted: 0,
    };
    let waits = client.bind(shown(LIMITED, wanted)).await.unwrap().into_inner();
    let held = waits.held.unwrap();
    assert_eq!(held.workspace, "other");
    assert!(held.retry_millis > 0);
    assert!(!format!("{held:?}").contains("first"), "{held:?}");
    let renewed = client.renew_lease(shown(WORKER, renewal)).await.unwrap().into_inner();
    assert!(renewed.renewed);
    client.release(shown(WORKER, release)).await.unwrap();
    stored.store.close().await.unwrap();
    stored.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_is_refused_at_the_door() {
    let stored = Stored::new().await;
    let mut client =
        LedgerServiceClient::new(stored.channel.clone()).max_encoding_message_size(wire::MAX_MESSAGE_BYTES);
    let holding = Some(stored.holding());
    let long = || vec![b' '; (16 << 20) + 1];
    let asked = CreateCallRequest {
        holding: holding.clone(),
        record: long(),
        events: b"[]".to_vec(),
        again: false,
        ..CreateCallRequest::default()
    };
    let refused = client.create_call(shown(WORKER, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let asked = OpenPromptRequest {
        holding: holding.clone(),
        prompt: long(),
        ..OpenPromptRequest::default()
    };
    let refused = client.open_prompt(shown(WORKER, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let session = SessionKey {
        workspace: "main".to_owned(),
        session: SessionId::from("ses_1"),
    };
    let note = Note::Fact {
        session,
        key: "key".to_owned(),
        value: "x".repeat(16 << 20).into(),
    };
    let asked = StoreNotesRequest {
        holding,
        first: 1_000,
        notes: serde_json::to_vec(&[note]).unwrap(),
    };
    let refused = client.store_notes(shown(WORKER, asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    stored.store.close().await.unwrap();
    stored.gateway.stop().await;
}
