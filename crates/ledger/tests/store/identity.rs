//! A worker's identity in wrong hands: what it can do with what it was given for its own workspace, at a real S3 server, and with what
//! it is not given at all.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tonic::codegen::http::Method;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use toolgate_contract::cluster::ledger_service_client::LedgerServiceClient;
use toolgate_contract::cluster::*;
use toolgate_ledger::wire;
use toolgate_model::{CallRecord, Decision, InstanceId, OutputId, PromptOutcome, PromptState, Reply};
use toolgate_postgres::{Bucket, BucketOptions};
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::ledger::{FIRST_PART, Note, PART_BYTES};
use toolgate_store::{OutputFilter, Outputs as _, PageRequest, Prompts as _, Settlement};
use toolgate_web::{Network, Settings, Url};

use crate::content::content;
use crate::gateway::LIMITED;
use crate::store::{event, prompt, record};
use crate::uploads::{MIB, SEED, Scene, check, grow, shown, until};

/// A worker that has `other`, in wrong hands.
struct Attacker {
    client: LedgerServiceClient<Channel>,
    network: Network,
    hold: Holding,
    call: CallRecord,
    output: OutputId,
    /// Keeps its lease.
    _renewing: JoinSet<()>,
}

/// What is put: a part of the attacker's own output.
struct Own {
    bytes: Vec<u8>,
    sha256: String,
    upload: PartUpload,
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(<sha2::Sha256 as sha2::Digest>::digest(bytes))
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

impl Attacker {
    async fn new(scene: &Scene) -> Self {
        let channel = Endpoint::from_shared(scene.gateway.address()).unwrap();
        let mut client = LedgerServiceClient::new(channel.connect().await.unwrap());
        let asked = BindRequest {
            run: "limited".to_owned(),
            noted: 0,
            address: String::new(),
            workspaces: vec!["other".to_owned()],
        };
        let bound = client.bind(shown(LIMITED, asked)).await.unwrap().into_inner();
        let hold = bound.holdings[0].clone();
        let (mut renewing, mut renewer, holding) = (JoinSet::new(), client.clone(), hold.clone());
        renewing.spawn(async move {
            loop {
                let asked = RenewLeaseRequest {
                    holding: Some(holding.clone()),
                    holdings: Vec::new(),
                };
                // At the end of the test nobody is there any more.
                let _ = renewer.renew_lease(shown(LIMITED, asked)).await;
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        let mut call = record("mine", &InstanceId::from("limited"));
        call.origin.workspace = "other".to_owned();
        call.last_sequence = 1;
        let this = Self {
            client,
            network: Network::new(Settings::default()),
            hold,
            call,
            output: OutputId::from("tool_0123456789abABCDEFGHIJKLMN"),
            _renewing: renewing,
        };
        let asked = CreateCallRequest {
            holding: this.holding(),
            record: json(&this.call),
            events: json(&[event(1)]),
            again: false,
            ..CreateCallRequest::default()
        };
        this.client().create_call(shown(LIMITED, asked)).await.unwrap();
        let asked = BeginOutputRequest {
            holding: this.holding(),
            id: this.output.to_string(),
            call: "mine".to_owned(),
            session: this.call.origin.session.to_string(),
            created_millis: 0,
        };
        this.client().begin_output(shown(LIMITED, asked)).await.unwrap();
        let asked = this.appending(this.output.as_str(), content(SEED, 0, FIRST_PART).to_vec());
        this.client().append_output(shown(LIMITED, asked)).await.unwrap();
        this
    }

    fn client(&self) -> LedgerServiceClient<Channel> {
        self.client.clone()
    }

    fn holding(&self) -> Option<Holding> {
        Some(self.hold.clone())
    }

    fn appending(&self, id: &str, data: Vec<u8>) -> AppendOutputRequest {
        AppendOutputRequest {
            holding: self.holding(),
            id: id.to_owned(),
            offset: 0,
            data: data.into(),
        }
    }

    /// Is given leave to put a part.
    async fn presigned(&self) -> Own {
        self.presigned_for(content(SEED, FIRST_PART, PART_BYTES).to_vec()).await
    }

    async fn presigned_for(&self, bytes: Vec<u8>) -> Own {
        let sha256 = digest(&bytes);
        let asked = PresignPartRequest {
            holding: self.holding(),
            id: self.output.to_string(),
            start: FIRST_PART,
            sha256: sha256.clone(),
        };
        let answer = self.client().presign_part(shown(LIMITED, asked)).await.unwrap();
        let upload = answer.into_inner().upload.unwrap();
        Own { bytes, sha256, upload }
    }

    fn recording(&self, id: &str, own: &Own, object: &str) -> RecordPartRequest {
        RecordPartRequest {
            holding: self.holding(),
            id: id.to_owned(),
            start: FIRST_PART,
            sha256: own.sha256.clone(),
            object: object.to_owned(),
        }
    }

    /// Returns what the server says, 0 if it hangs up.
    async fn send(&self, method: Method, url: &str, headers: &[(String, String)], body: Vec<u8>) -> u16 {
        let url: Url = url.parse().unwrap();
        let client = self.network.client_to(&url).await.unwrap();
        let mut request = client.request(method, url).timeout(Duration::from_secs(60)).body(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send().await.map_or(0, |answer| answer.status().as_u16())
    }
}

fn headers(upload: &PartUpload) -> Vec<(String, String)> {
    let headers = upload.headers.iter();
    headers.map(|one| (one.name.clone(), one.value.clone())).collect()
}

fn refused(what: &str, status: u16) {
    assert!(status == 0 || (400..500).contains(&status), "{what}: {status}");
}

fn refusal<T: std::fmt::Debug>(what: &str, answer: Result<T, Status>, codes: &[Code]) {
    let status = answer.map(|answer| panic!("{what}: {answer:?}")).unwrap_err();
    assert!(codes.contains(&status.code()), "{what}: {status:?}");
    // Of what the caller has not named itself nothing is said.
    assert!(
        !status.message().contains("main")
            || what.ends_with("says what it was told")
            || codes == [Code::PermissionDenied],
        "{what}: {status:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leave_to_put_a_part_is_leave_for_nothing_else() {
    let scene = Scene::new().await;
    // What is there of somebody else.
    let mut writer = scene.writer().await;
    let theirs = writer.id().clone();
    grow(&mut *writer, 0, 10 * MIB).await;
    writer.finish().await.unwrap();
    until("it is in the bucket", async || scene.s3.names("a").len() == 2).await;
    let before = scene.s3.names("a");
    let victim = format!("a/outputs/{}", before[0].trim_start_matches("outputs/"));
    let attacker = Attacker::new(&scene).await;
    let own = attacker.presigned().await;
    let (url, right) = (own.upload.url.as_str(), headers(&own.upload));
    let parsed: Url = url.parse().unwrap();
    let query = parsed.query().unwrap();
    let at = |path: &str| format!("{}/{path}?{query}", parsed.origin().ascii_serialization());
    let full_key = parsed.path().trim_start_matches('/').to_owned();
    assert!(full_key.starts_with("outputs/a/"), "{full_key}");
    let victim = format!("outputs/{victim}");
    let mut other = own.bytes.clone();
    other[5] ^= 1;
    let mut longer = own.bytes.clone();
    longer.push(0);
    let of_other = headers(&attacker.presigned_for(other.clone()).await.upload);
    let mut copying = right.clone();
    copying.push(("x-amz-copy-source".to_owned(), format!("/{victim}")));
    let longer_lived = url.replace("X-Amz-Expires=", "X-Amz-Expires=9");
    assert_ne!(longer_lived, url);
    let none = Vec::new;
    for (what, method, url, headers, body) in [
        ("get", Method::GET, url.to_owned(), none(), Vec::new()),
        ("head", Method::HEAD, url.to_owned(), none(), Vec::new()),
        ("delete", Method::DELETE, url.to_owned(), none(), Vec::new()),
        ("post", Method::POST, url.to_owned(), right.clone(), own.bytes.clone()),
        ("list", Method::GET, at("outputs"), none(), Vec::new()),
        (
            "list behind a prefix",
            Method::GET,
            at("outputs/") + "&list-type=2&prefix=a",
            none(),
            Vec::new(),
        ),
        ("list buckets", Method::GET, at(""), none(), Vec::new()),
        ("get another one's", Method::GET, at(&victim), none(), Vec::new()),
        ("delete another one's", Method::DELETE, at(&victim), none(), Vec::new()),
        (
            "put another one's",
            Method::PUT,
            at(&victim),
            right.clone(),
            own.bytes.clone(),
        ),
        (
            "put beside it",
            Method::PUT,
            at(&format!("{full_key}0")),
            right.clone(),
            own.bytes.clone(),
        ),
        (
            "put other bytes",
            Method::PUT,
            url.to_owned(),
            right.clone(),
            other.clone(),
        ),
        (
            "put other bytes by their digest",
            Method::PUT,
            url.to_owned(),
            of_other,
            other.clone(),
        ),
        (
            "put fewer",
            Method::PUT,
            url.to_owned(),
            right.clone(),
            own.bytes[1..].to_vec(),
        ),
        ("put more", Method::PUT, url.to_owned(), right.clone(), longer),
        (
            "put without a digest",
            Method::PUT,
            url.to_owned(),
            none(),
            own.bytes.clone(),
        ),
        (
            "put tags",
            Method::PUT,
            format!("{url}&tagging"),
            right.clone(),
            own.bytes.clone(),
        ),
        (
            "put rights",
            Method::PUT,
            format!("{url}&acl"),
            right.clone(),
            own.bytes.clone(),
        ),
        (
            "begin parts",
            Method::POST,
            format!("{url}&uploads"),
            right.clone(),
            Vec::new(),
        ),
        (
            "put for longer",
            Method::PUT,
            longer_lived,
            right.clone(),
            own.bytes.clone(),
        ),
        ("copy another one's", Method::PUT, url.to_owned(), copying, Vec::new()),
    ] {
        refused(what, attacker.send(method, &url, &headers, body).await);
        assert_eq!(scene.s3.names("a"), before, "{what}");
    }
    check(&scene.gateway.store, &theirs, 0, 10 * MIB).await;

    // Nothing of all this is a part; what was allowed is.
    let asked = || attacker.recording(attacker.output.as_str(), &own, &own.upload.object);
    let answer = attacker.client().record_part(shown(LIMITED, asked())).await;
    refusal("record what is not there", answer, &[Code::Aborted]);
    let put = async |bytes: &[u8]| attacker.send(Method::PUT, url, &right, bytes.to_vec()).await;
    assert_eq!(put(&own.bytes).await, 200);
    attacker.client().record_part(shown(LIMITED, asked())).await.unwrap();
    refused("put other bytes where a part is", put(&other).await);
    // The same bytes are no others.
    put(&own.bytes).await;
    check(&scene.gateway.store, &attacker.output, 0, FIRST_PART + PART_BYTES).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leave_to_put_a_part_ends() {
    let short = |options: BucketOptions| {
        let upload_limit = Duration::from_secs(2);
        Bucket::new(BucketOptions {
            upload_limit,
            ..options
        })
        .unwrap()
    };
    let scene = Scene::with_bucket(short).await;
    let attacker = Attacker::new(&scene).await;
    let begun = Instant::now();
    let own = attacker.presigned().await;
    // A part that is put in time is one, and once more it is the same.
    let right = headers(&own.upload);
    loop {
        let status = attacker.send(Method::PUT, &own.upload.url, &right, own.bytes.clone());
        match status.await {
            200 => assert!(begun.elapsed() < Duration::from_secs(60), "it does not end"),
            status => break refused("put too late", status),
        }
    }
    assert!(begun.elapsed() >= Duration::from_secs(1));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_another_workspace_is_neither_read_nor_written_nor_decided() {
    let scene = Scene::new().await;
    let mut writer = scene.writer().await;
    let theirs = writer.id().clone();
    grow(&mut *writer, 0, 10 * MIB).await;
    writer.finish().await.unwrap();
    until("it is in the bucket", async || scene.s3.names("a").len() == 2).await;
    let object = scene.s3.names("a")[0].clone();
    scene
        .worker
        .open(prompt("pmt_1", "call", &scene.run), None, None)
        .await
        .unwrap();
    let attacker = Attacker::new(&scene).await;
    let own = attacker.presigned().await;
    let mut client = attacker.client();
    let main = Some(Holding {
        workspace: "main".to_owned(),
        run: scene.run.to_string(),
        epoch: 1,
    });
    let workspaces = || vec!["main".to_owned(), "other".to_owned()];

    // Its metadata and its bytes.
    let asked = GetOutputRequest {
        id: theirs.to_string(),
        whole: true,
        workspaces: workspaces(),
    };
    let answer = client.get_output(shown(LIMITED, asked)).await.unwrap().into_inner();
    assert!(answer.info.is_empty());
    let asked = ReadOutputRequest {
        id: theirs.to_string(),
        offset: 0,
        max: 100,
        workspaces: workspaces(),
    };
    refusal(
        "read",
        client.read_output(shown(LIMITED, asked)).await,
        &[Code::NotFound],
    );
    let asked = ListOutputsRequest {
        filter: json(&OutputFilter::default()),
        workspaces: workspaces(),
        page: Some(wire::page(&PageRequest { size: 10, after: None })),
    };
    let answer = client.list_outputs(shown(LIMITED, asked)).await.unwrap().into_inner();
    let listed: serde_json::Value = serde_json::from_slice(&answer.outputs).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");

    // Its outputs, by their names.
    let asked = attacker.appending(theirs.as_str(), content(SEED, 0, 100).to_vec());
    refusal(
        "append",
        client.append_output(shown(LIMITED, asked)).await,
        &[Code::NotFound],
    );
    let asked = attacker.recording(theirs.as_str(), &own, &own.upload.object);
    refusal(
        "record",
        client.record_part(shown(LIMITED, asked)).await,
        &[Code::Aborted, Code::NotFound],
    );
    let asked = attacker.recording(attacker.output.as_str(), &own, &object);
    refusal(
        "record theirs",
        client.record_part(shown(LIMITED, asked)).await,
        &[Code::Aborted],
    );
    let asked = FinishOutputRequest {
        holding: attacker.holding(),
        id: theirs.to_string(),
        lines: 1,
    };
    refusal(
        "finish",
        client.finish_output(shown(LIMITED, asked)).await,
        &[Code::NotFound],
    );

    // The workspace itself: by its holding, by what a record says, by the id of a call.
    let mut call = record("new", &scene.run);
    call.last_sequence = 1;
    let creation = |holding: Option<Holding>, call: &CallRecord| CreateCallRequest {
        holding,
        record: json(call),
        events: json(&[event(1)]),
        again: false,
        ..CreateCallRequest::default()
    };
    let answer = client.create_call(shown(LIMITED, creation(main.clone(), &call))).await;
    refusal("create there", answer, &[Code::PermissionDenied]);
    let answer = client
        .create_call(shown(LIMITED, creation(attacker.holding(), &call)))
        .await;
    refusal("create as if here: says what it was told", answer, &[Code::Aborted]);
    let mut taken = attacker.call.clone();
    taken.id = "call".into();
    let answer = client
        .create_call(shown(LIMITED, creation(attacker.holding(), &taken)))
        .await;
    let answer = answer.unwrap().into_inner();
    let told: CallRecord = serde_json::from_slice(&answer.taken).unwrap();
    assert_eq!((told.id.as_str(), told.origin.workspace.as_str()), ("call", ""));
    assert!(!String::from_utf8(answer.taken).unwrap().contains("main"));

    // A decision: of the other one's prompt, and of its own.
    let allowed = |prompt: &str| EndPromptRequest {
        holding: attacker.holding(),
        settlement: json(&Settlement {
            prompt: prompt.into(),
            state: PromptState::Resolved,
            decision: Decision::new(PromptOutcome::Replied(Reply::Once)),
            uses: Vec::new(),
        }),
    };
    let answer = client.end_prompt(shown(LIMITED, allowed("pmt_1"))).await;
    refusal("decide theirs", answer, &[Code::NotFound]);
    let mut mine = prompt("pmt_2", "mine", &InstanceId::from("limited"));
    mine.workspace = "other".to_owned();
    let asked = OpenPromptRequest {
        holding: attacker.holding(),
        prompt: json(&mine),
        ..OpenPromptRequest::default()
    };
    client.open_prompt(shown(LIMITED, asked)).await.unwrap();
    let answer = client.end_prompt(shown(LIMITED, allowed("pmt_2"))).await;
    refusal("decide its own", answer, &[Code::Aborted]);
    // One that has the id of the other one's.
    mine.id = "pmt_1".into();
    let asked = OpenPromptRequest {
        holding: attacker.holding(),
        prompt: json(&mine),
        ..OpenPromptRequest::default()
    };
    let answer = client.open_prompt(shown(LIMITED, asked)).await;
    refusal("open theirs", answer, &[Code::Aborted]);

    // The audit.
    let note = |fact: Fact| StoreNotesRequest {
        holding: attacker.holding(),
        first: 1,
        notes: json(&[Note::Audit(Box::new(fact))]),
    };
    for kind in [
        Kind::Genesis,
        Kind::Approved,
        Kind::Decided,
        Kind::Ended,
        Kind::Checkpoint,
        Kind::Revoked,
    ] {
        let fact = Fact {
            workspace: "other".to_owned(),
            ..Fact::new(kind)
        };
        let answer = client.store_notes(shown(LIMITED, note(fact))).await;
        refusal("write what was not", answer, &[Code::Aborted]);
    }
    let fact = Fact {
        workspace: "main".to_owned(),
        ..Fact::new(Kind::Allowed)
    };
    let answer = client.store_notes(shown(LIMITED, note(fact))).await;
    refusal(
        "write of another workspace: says what it was told",
        answer,
        &[Code::Aborted],
    );
    let fact = Fact {
        workspace: "other".to_owned(),
        call: Some("call".into()),
        ..Fact::new(Kind::Allowed)
    };
    let answer = client.store_notes(shown(LIMITED, note(fact))).await;
    refusal("write of another one's call", answer, &[Code::NotFound]);

    check(&scene.gateway.store, &theirs, 0, 10 * MIB).await;
    assert!(scene.gateway.store.look(&theirs).await.unwrap().unwrap().complete);
    let open = scene.gateway.store.prompt(&"pmt_1".into()).await.unwrap().unwrap();
    assert_eq!((open.state, open.decision), (PromptState::Open, None));
    scene.end().await;
}
