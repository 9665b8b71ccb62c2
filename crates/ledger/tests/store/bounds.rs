//! What a gateway does not take of a worker in wrong hands, however it is asked: names that nobody could have, messages that are too long,
//! more at once than there is room for.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use toolgate_contract::cluster::ledger_service_client::LedgerServiceClient;
use toolgate_contract::cluster::*;
use toolgate_ledger::wire;

use crate::gateway::{LIMITED, PERSON, Running, WORKER};
use crate::postgres::{database, server};

type Client = LedgerServiceClient<Channel>;

fn shown<Q>(token: &str, question: Q) -> Request<Q> {
    let mut request = Request::new(question);
    let token = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    request
}

async fn client(gateway: &Running) -> Client {
    let channel = Endpoint::from_shared(gateway.address()).unwrap().connect().await;
    LedgerServiceClient::new(channel.unwrap()).max_encoding_message_size(wire::MAX_MESSAGE_BYTES)
}

fn binding(run: &str, workspace: &str) -> BindRequest {
    BindRequest {
        run: run.to_owned(),
        address: String::new(),
        workspaces: vec![workspace.to_owned()],
        noted: 0,
    }
}

async fn bound(client: &mut Client, token: &str, run: &str, workspace: &str) -> Holding {
    let bound = client.bind(shown(token, binding(run, workspace))).await.unwrap();
    bound.into_inner().holdings[0].clone()
}

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Code {
    answer.unwrap_err().code()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_makes_a_workspace_that_no_configuration_could_have() {
    let server = server().await;
    let name = database(server).await;
    let gateway = Running::start(&server.address(&name)).await;
    let mut client = client(&gateway).await;
    let long = "x".repeat(129);
    for workspace in [
        "", "-", "..", "a b", "a//b", "a/", "/a", "a/../b", "*", "a/*", "\u{e4}", "a\nb", &long,
    ] {
        let refused = client.bind(shown(WORKER, binding("run", workspace))).await;
        assert_eq!(code(refused), Code::InvalidArgument, "{workspace:?}");
    }
    let many = BindRequest {
        workspaces: vec!["fine".to_owned(), "a b".to_owned()],
        ..binding("run", "")
    };
    assert_eq!(code(client.bind(shown(WORKER, many)).await), Code::InvalidArgument);
    let database = server.connect(&name).await.unwrap();
    let rows = database.query_typed("SELECT FROM workspaces", &[]).await.unwrap();
    assert_eq!(rows.len(), 0);
    bound(&mut client, WORKER, "run", "acme/web-17").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_is_not_read_of_who_holds_nothing() {
    let server = server().await;
    let gateway = Running::start(&server.address(&database(server).await)).await;
    let mut client = client(&gateway).await;
    let held = bound(&mut client, WORKER, "run", "main").await;
    let made_up = Holding {
        epoch: 7,
        ..held.clone()
    };
    // Whether it was read is seen by what is said of it.
    let nonsense = || vec![b'['; 1 << 20];
    for (holding, expected) in [(&held, Code::InvalidArgument), (&made_up, Code::FailedPrecondition)] {
        let holding = Some(holding.clone());
        let asked = CreateCallRequest {
            holding: holding.clone(),
            record: b"{}".to_vec(),
            events: nonsense(),
            again: false,
            ..CreateCallRequest::default()
        };
        assert_eq!(code(client.create_call(shown(WORKER, asked)).await), expected);
        let asked = AppendEventsRequest {
            holding: holding.clone(),
            record: nonsense(),
            events: Vec::new(),
            ..AppendEventsRequest::default()
        };
        assert_eq!(code(client.append_events(shown(WORKER, asked)).await), expected);
        let asked = OpenPromptRequest {
            holding: holding.clone(),
            asker: nonsense(),
            ..OpenPromptRequest::default()
        };
        assert_eq!(code(client.open_prompt(shown(WORKER, asked)).await), expected);
        let asked = ReplaceAskerRequest {
            holding: holding.clone(),
            id: "p".to_owned(),
            asker: nonsense(),
        };
        assert_eq!(code(client.replace_asker(shown(WORKER, asked)).await), expected);
        let asked = EndPromptRequest {
            holding: holding.clone(),
            settlement: nonsense(),
        };
        assert_eq!(code(client.end_prompt(shown(WORKER, asked)).await), expected);
        let asked = StoreNotesRequest {
            holding,
            first: 1,
            notes: nonsense(),
        };
        assert_eq!(code(client.store_notes(shown(WORKER, asked)).await), expected);
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_has_its_length() {
    let server = server().await;
    let gateway = Running::start(&server.address(&database(server).await)).await;
    let mut client = client(&gateway).await;
    let holding = Some(bound(&mut client, WORKER, "run", "main").await);
    // Who is no worker is refused before it is read: of what is too long nothing is said.
    let asked = || AppendOutputRequest {
        holding: holding.clone(),
        id: "o".to_owned(),
        offset: 0,
        data: vec![0; 5 << 20].into(),
    };
    assert_eq!(
        code(client.append_output(shown(PERSON, asked())).await),
        Code::PermissionDenied
    );
    assert_eq!(
        code(client.append_output(shown(WORKER, asked())).await),
        Code::ResourceExhausted
    );
    let asked = FollowRequest {
        workspaces: (0..400_000).map(|number| format!("workspace-{number}")).collect(),
    };
    assert_eq!(code(client.follow(shown(WORKER, asked)).await), Code::ResourceExhausted);
    let asked = StoreNotesRequest {
        holding: holding.clone(),
        first: 1,
        notes: vec![b' '; 18 << 20],
    };
    assert_eq!(
        code(client.store_notes(shown(WORKER, asked)).await),
        Code::ResourceExhausted
    );
    let note = r#"{"fact":{"session":{"workspace":"main","session":"s"},"key":"k","value":1}}"#;
    let notes = |count: usize| StoreNotesRequest {
        holding: holding.clone(),
        first: 1,
        notes: format!("[{}]", vec![note; count].join(",")).into_bytes(),
    };
    let refused = client
        .store_notes(shown(WORKER, notes(wire::MAX_NOTES + 1)))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().contains("1001 notes"), "{refused:?}");
    client.store_notes(shown(WORKER, notes(wire::MAX_NOTES))).await.unwrap();
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_for_much_at_once_leaves_room_for_the_others() {
    let server = server().await;
    let name = database(server).await;
    let gateway = Running::start(&server.address(&name)).await;
    let mut calm = client(&gateway).await;
    let main = bound(&mut calm, WORKER, "run", "main").await;
    let other = bound(&mut calm, LIMITED, "limited", "other").await;
    let forgetting = |holding: &Holding| ForgetSessionRequest {
        holding: Some(holding.clone()),
        session: "s".to_owned(),
    };
    // Whatever writes for `other` waits, as if it was much.
    let lock = server.connect(&name).await.unwrap();
    lock.batch_execute("BEGIN; SELECT FROM workspaces WHERE id = 'other' FOR UPDATE")
        .await
        .unwrap();
    let mut flood = JoinSet::new();
    for _ in 0..4 {
        let client = client(&gateway).await;
        for _ in 0..50 {
            let (mut client, asked) = (client.clone(), forgetting(&other));
            flood.spawn(async move { client.forget_session(shown(LIMITED, asked)).await.unwrap_err() });
        }
    }
    let (mut refused, mut answered) = (Vec::new(), 0);
    while !flood.is_empty() {
        // What others store is stored, and the lease of who asks for too much is renewed.
        calm.forget_session(shown(WORKER, forgetting(&main))).await.unwrap();
        let renewal = RenewLeaseRequest {
            holding: Some(other.clone()),
            holdings: Vec::new(),
        };
        assert!(
            calm.renew_lease(shown(LIMITED, renewal))
                .await
                .unwrap()
                .into_inner()
                .renewed
        );
        answered += 1;
        while let Some(one) = flood.try_join_next() {
            refused.push(one.unwrap());
        }
    }
    assert!(answered > 10, "{answered}");
    let too_many = |status: &&Status| status.code() == Code::ResourceExhausted;
    let status = refused.iter().find(too_many).expect("they were too many at once");
    assert!(status.message().contains("token:limited are under way"), "{status:?}");
    assert!(wire::of_refusal(status).is_some_and(|error| matches!(error, toolgate_store::StoreError::Unavailable(_))));
    lock.batch_execute("COMMIT").await.unwrap();
    let begun = Instant::now();
    while let Err(error) = calm.forget_session(shown(LIMITED, forgetting(&other))).await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{error:?}");
    }
    gateway.stop().await;
}
