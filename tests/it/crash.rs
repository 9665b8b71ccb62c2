//! The server killed at random moments: what it acknowledged is kept, what it cannot account for is lost, nothing runs twice.

use std::collections::HashMap;
use std::fs;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Code;
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

const ROUNDS: usize = 20;
const CALLS: u64 = 10;

/// What the clients of a round saw of one call.
type Seen = HashMap<String, Vec<CallEvent>>;

fn setup() -> Setup {
    Setup::permission(json!({ "bash": { "*": "allow", ": ask*": "ask" } }))
}

fn some_request(server: &Server, id: &str, random: &mut Random) -> ExecuteToolRequest {
    let work = server.work();
    let request = match random.below(6) {
        0 => request("read", json!({ "filePath": work.join("fixed") })),
        1 => request(
            "write",
            json!({ "filePath": work.join(id), "content": format!("content of {id}") }),
        ),
        2 => bash(&format!("echo {id} >> effects")),
        3 => bash(&format!("echo {id} >> effects; seq 1 3000; sleep 0.05; echo end")),
        4 => bash(&format!(": ask; echo {id} >> effects")),
        _ => bash(&format!("echo {id} >> effects; sleep 30")),
    };
    kept(id, request)
}

/// Executes calls until the server has told of `enough` events, and kills it then.
async fn round(server: &mut Server, requests: &[ExecuteToolRequest], enough: u64) -> Seen {
    let (told, mut events) = mpsc::channel(1);
    let mut clients = JoinSet::new();
    for request in requests {
        let (mut tools, request, told) = (server.tools(), request.clone(), told.clone());
        clients.spawn(async move {
            let Ok(stream) = tools.execute_tool(request).await else {
                return;
            };
            let mut stream = stream.into_inner();
            while let Ok(Some(response)) = stream.message().await {
                let event = response.event.unwrap();
                if event.sequence != 0 && told.send(event).await.is_err() {
                    return;
                }
            }
        });
    }
    drop(told);
    let mut seen = Seen::new();
    let mut count = 0;
    while count < enough {
        let Some(event) = events.recv().await else { break };
        seen.entry(event.call_id.clone()).or_default().push(event);
        count += 1;
    }
    server.kill9().await;
    // What was on its way was acknowledged too.
    while let Some(event) = events.recv().await {
        seen.entry(event.call_id.clone()).or_default().push(event);
    }
    seen
}

/// The server's word after the restart agrees with what was acknowledged.
async fn check(server: &Server, id: &str, seen: &[CallEvent]) {
    let record = server.get(id).await;
    if record.state() == CallState::Waiting {
        let list = ListPromptsRequest {
            call_id: id.to_owned(),
            ..Default::default()
        };
        eventually("the prompt is there", async || {
            let prompts = server.permissions().list_prompts(list.clone()).await.unwrap();
            prompts.into_inner().prompts.len() == 1
        })
        .await;
        let prompts = server.prompts(list).await;
        let asked: Vec<&str> = seen
            .iter()
            .filter_map(|event| match &event.event {
                Some(Event::Waiting(waiting)) => Some(waiting.prompt.as_ref()?.prompt_id.as_str()),
                _ => None,
            })
            .collect();
        assert!(
            asked.iter().all(|asked| *asked == prompts[0].prompt_id),
            "{id}: the same prompt"
        );
        let reply = ReplyPromptRequest {
            reply: Some(reply(&prompts[0], PromptDecision::Once)),
            name: String::new(),
        };
        let replied = server
            .permissions()
            .reply_prompt(reply)
            .await
            .unwrap()
            .into_inner()
            .result
            .unwrap();
        assert_eq!(replied.result(), ReplyResult::Accepted, "{id}");
    }
    let log = server.watch(id, 0).await.unwrap();
    check_log(0, &log);
    assert!(log.len() >= seen.len());
    for (now, then) in log.iter().zip(seen) {
        let (mut now, mut then) = (now.clone(), then.clone());
        for event in [&mut now, &mut then] {
            // How many approvers are there is a fact of the moment.
            if let Some(Event::Waiting(waiting)) = &mut event.event {
                waiting.approvers = 0;
            }
        }
        assert_eq!(now, then, "{id}: the log is what was told");
    }
    let record = server.get(id).await;
    assert_eq!(record.ending, Some(end_of(&log)), "{id}");
    assert_eq!(record.last_sequence, log.len() as i64, "{id}");
}

#[test]
fn killed_at_random_moments() {
    test(async {
        let mut random = Random::new(2);
        let mut server = Server::with(setup()).await;
        fs::write(server.work().join("fixed"), "some lines\n".repeat(50)).unwrap();
        let mut all = Vec::new();
        let (mut lost, mut finished) = (0, 0);
        for number in 0..ROUNDS {
            let requests: Vec<_> = (0..CALLS)
                .map(|call| some_request(&server, &format!("r{number}-{call}"), &mut random))
                .collect();
            // Every call has three events at least, even one that waits or sleeps.
            let enough = 1 + random.below(3 * CALLS);
            let seen = round(&mut server, &requests, enough).await;
            server.restart().await;
            for request in requests {
                let id = request.call_id.clone();
                if let Some(seen) = seen.get(&id) {
                    check(&server, &id, seen).await;
                    let again = server.execute(request.clone()).await.unwrap();
                    assert_eq!(
                        again,
                        server.watch(&id, 0).await.unwrap(),
                        "{id}: the same start attaches"
                    );
                    let lost_now = matches!(end_of(&again), call::Ending::Failed(failed)
                        if failed.reason() == FailureReason::Lost);
                    if lost_now {
                        lost += 1;
                    } else {
                        finished += 1;
                    }
                }
                all.push((id, request));
            }
        }
        eprintln!("{finished} finished, {lost} lost");
        assert!(lost > 0 && finished > 0);
        let effects = fs::read_to_string(server.work().join("effects")).unwrap_or_default();
        for (id, request) in &all {
            let count = effects.lines().filter(|line| line == id).count();
            assert!(count <= 1, "{id} ran {count} times");
            let record = server.tools().get_call(GetCallRequest { call_id: id.clone() }).await;
            let record = match record {
                Ok(record) => record.into_inner().call.unwrap(),
                Err(status) => {
                    assert_eq!((status.code(), count), (Code::NotFound, 0), "{id}");
                    continue;
                }
            };
            if let Some(call::Ending::Completed(_)) = record.ending {
                if request.tool == "bash" {
                    assert_eq!(count, 1, "{id}");
                } else if request.tool == "write" {
                    let text = fs::read_to_string(server.work().join(id)).unwrap();
                    assert_eq!(text, format!("content of {id}"));
                }
            }
        }
        let unfinished = ListCallsRequest {
            states: vec![CallState::Pending.into(), CallState::Running.into()],
            ..Default::default()
        };
        let unfinished = server.tools().list_calls(unfinished).await.unwrap().into_inner().calls;
        assert!(unfinished.is_empty(), "{unfinished:?}");
        server.stop().await;
    });
}

#[test]
fn a_killed_server_takes_its_programs_along() {
    test(async {
        let mut server = Server::start().await;
        let request = kept("p", bash("sleep 86113 & echo ready; exec sleep 86112"));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut stream, is_output).await;
        server.kill9().await;
        gone("86112").await;
        server.restart().await;
        let log = server.watch("p", 0).await.unwrap();
        check_log(0, &log);
        match end_of(&log) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Lost),
            other => panic!("{other:?}"),
        }
        gone("86113").await;
    });
}
