//! SIGTERM under load, many times over one data directory: nothing that was acknowledged is lost, nothing is invented,
//! and what waits for a person waits through it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use tonic::{Code, Status};
use toolgate_contract::call_event::Event;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::*;

use super::setup;
use crate::support::*;

const ROUNDS: usize = 20;
const CALLS: u64 = 12;

/// What a call does, and so what must be there when it says that it has succeeded.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Writes its line at once, then goes on for a moment.
    Short,
    /// Writes its line after a while.
    Late,
    /// Runs for longer than any stop takes; writes its line at the end.
    Long,
    Read,
    Write,
    Edit,
    /// Two commands that each write a line.
    Batch,
    /// Asks, then writes its line.
    Asking,
    /// Writes its line; its client waits for the answer to one request.
    Unary,
}

const KINDS: [Kind; 9] = [
    Kind::Short,
    Kind::Late,
    Kind::Long,
    Kind::Read,
    Kind::Write,
    Kind::Edit,
    Kind::Batch,
    Kind::Asking,
    Kind::Unary,
];

/// A call and how its client holds it.
#[derive(Clone)]
struct Plan {
    kind: Kind,
    request: ExecuteToolRequest,
    /// The client comes back by starting the call again, which ends with its clients.
    attached: bool,
    /// Somebody else watches it too.
    watched: bool,
}

/// What was seen of one call.
struct Seen {
    plan: Plan,
    /// By the client that started it, and by whoever watched it.
    logs: Vec<Vec<CallEvent>>,
    /// By the client of a unary call.
    answer: Option<Call>,
}

/// What clients know of the service.
#[derive(Clone)]
struct Clients {
    /// How often it was started, and how to reach it.
    server: watch::Receiver<(usize, Channel)>,
    told: mpsc::UnboundedSender<()>,
}

fn plan(work: &Path, id: &str, random: &mut Random) -> Plan {
    let kind = *random.pick(&KINDS);
    let own = work.join(id);
    let request = match kind {
        Kind::Short | Kind::Unary => bash(&format!("echo {id} >> effects; seq 1 300; sleep 0.05; echo did-{id}")),
        Kind::Late => bash(&format!("echo begun; sleep 0.3; echo {id} >> effects; echo did-{id}")),
        Kind::Long => bash(&format!("echo begun; sleep 6; echo {id} >> effects; echo did-{id}")),
        Kind::Read => request("read", json!({ "filePath": work.join("fixed") })),
        Kind::Write => request("write", json!({ "filePath": own, "content": format!("did-{id}") })),
        Kind::Edit => {
            fs::write(&own, format!("do-{id}")).unwrap();
            let edit = json!({ "filePath": own, "oldString": "do-", "newString": "did-" });
            in_session(id, request("edit", edit))
        }
        Kind::Batch => {
            let part = |n: u32| {
                let command = format!("echo {id} >> effects; echo did-{id}-{n}");
                json!({ "tool": "bash", "parameters": { "command": command, "description": "d" } })
            };
            request("batch", json!({ "tool_calls": [part(1), part(2)] }))
        }
        Kind::Asking => bash(&format!(": ask; echo {id} >> effects; echo did-{id}")),
    };
    let attached = random.below(3) == 0;
    let request = kept(id, request);
    Plan {
        kind,
        request: ExecuteToolRequest {
            on_disconnect: if attached {
                OnDisconnect::Cancel
            } else {
                OnDisconnect::Keep
            }
            .into(),
            ..request
        },
        attached,
        watched: random.below(3) == 0,
    }
}

/// Takes away what is a fact of the moment: how many approvers there are.
fn plain(mut event: CallEvent) -> CallEvent {
    if let Some(Event::Waiting(waiting)) = &mut event.event {
        waiting.approvers = 0;
    }
    event
}

/// Whether another attempt at the next server is right.
fn is_lost(status: &Status) -> bool {
    // A request that crosses the server's farewell on its way.
    let is_refused = status.code() == Code::Internal && status.message().contains("h2 protocol error");
    is_refused || matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}

impl Clients {
    /// Notes an event; what comes again must be what came before.
    fn note(&self, log: &mut Vec<CallEvent>, event: CallEvent) {
        if event.sequence == 0 {
            return;
        }
        let _ = self.told.send(());
        let event = plain(event);
        match log.get(event.sequence as usize - 1) {
            Some(before) => assert_eq!(*before, event, "told otherwise before"),
            None => {
                assert_eq!(event.sequence, log.len() as i64 + 1, "a hole in the log");
                log.push(event);
            }
        }
    }

    /// Reads one stream as far as it goes.
    async fn read(&self, channel: Channel, plan: &Plan, log: &mut Vec<CallEvent>, starts: bool) -> Result<(), Status> {
        let mut client = tools(channel);
        if starts && (log.is_empty() || plan.attached) {
            let mut stream = client.execute_tool(plan.request.clone()).await?.into_inner();
            while let Some(response) = stream.message().await? {
                self.note(log, response.event.unwrap());
            }
        } else {
            let watch = watch_request(&plan.request.call_id, log.len() as i64, OutputMode::Full);
            let mut stream = client.watch_call(watch).await?.into_inner();
            while let Some(response) = stream.message().await? {
                self.note(log, response.event.unwrap());
            }
        }
        Ok(())
    }

    /// Follows a call to its end, from server to server.
    async fn follow(mut self, plan: Plan, starts: bool) -> Vec<CallEvent> {
        let mut log = Vec::new();
        loop {
            let (run, channel) = self.server.borrow_and_update().clone();
            let result = self.read(channel, &plan, &mut log, starts).await;
            if log.last().is_some_and(is_terminal) {
                return log;
            }
            let id = &plan.request.call_id;
            match result {
                Ok(()) => panic!("{id}: a stream that ends well without an end of its call"),
                // One that only watches may come before the call is recorded.
                Err(status) if !starts && log.is_empty() && status.code() == Code::NotFound => {
                    sleep(Duration::from_millis(20)).await;
                    continue;
                }
                Err(status) => assert!(is_lost(&status), "{id}: {status:?}"),
            }
            self.server.wait_for(|(now, _)| *now > run).await.unwrap();
        }
    }

    async fn run(mut self, plan: Plan) -> Call {
        loop {
            let (now, channel) = self.server.borrow_and_update().clone();
            match run(&mut tools(channel), run_request(plan.request.clone())).await {
                Ok(call) => return call,
                Err(status) => assert!(is_lost(&status), "{}: {status:?}", plan.request.call_id),
            }
            let _ = self.told.send(());
            self.server.wait_for(|(later, _)| *later > now).await.unwrap();
        }
    }

    /// Does everything that there is to do for one call.
    async fn make(self, plan: Plan) -> Seen {
        if plan.kind == Kind::Edit {
            let input = json!({ "filePath": plan_path(&plan) });
            let id = format!("{}-before", plan.request.call_id);
            let read = in_session(&plan.request.call_id, kept(&id, request("read", input)));
            let before = Plan {
                kind: Kind::Read,
                request: read,
                attached: false,
                watched: false,
            };
            self.clone().follow(before, true).await;
        }
        if plan.kind == Kind::Unary {
            let answer = Some(self.run(plan.clone()).await);
            return Seen {
                plan,
                logs: Vec::new(),
                answer,
            };
        }
        let mut logs = Vec::new();
        if plan.watched {
            let (own, other) = tokio::join!(
                self.clone().follow(plan.clone(), true),
                self.clone().follow(plan.clone(), false)
            );
            logs.extend([own, other]);
        } else {
            logs.push(self.follow(plan.clone(), true).await);
        }
        Seen {
            plan,
            logs,
            answer: None,
        }
    }
}

/// The file that an edit is about.
fn plan_path(plan: &Plan) -> String {
    use execute_tool_request::Arguments;
    let Some(Arguments::InputJson(text)) = &plan.request.arguments else {
        panic!()
    };
    let input: serde_json::Value = serde_json::from_str(text).unwrap();
    input["filePath"].as_str().unwrap().to_owned()
}

/// Answers the prompts that are open, sooner or later; `all` also those that have not waited through a stop.
async fn answer(channel: Channel, round: usize, all: bool, random: &mut Random) {
    let mut permissions = PermissionServiceClient::new(channel);
    let list = list_all();
    let Ok(prompts) = permissions.list_prompts(list).await else {
        return;
    };
    for prompt in prompts.into_inner().prompts {
        let is_new = prompt.call_id.starts_with(&format!("r{round}-"));
        if is_new && !all && random.below(3) > 0 {
            continue;
        }
        sleep(Duration::from_millis(random.below(60))).await;
        let request = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Once)),
            name: String::new(),
        };
        // A reply that the service did not answer may have counted.
        let Ok(replied) = permissions.reply_prompt(request).await else {
            return;
        };
        let result = replied.into_inner().result.unwrap().result();
        assert!(
            matches!(result, ReplyResult::Accepted | ReplyResult::AlreadyResolved),
            "{}: {result:?}",
            prompt.call_id
        );
    }
}

/// What the effect of a call looks like on disk: how often it is there.
fn effects(work: &Path, lines: &BTreeMap<String, usize>, plan: &Plan) -> usize {
    let id = &plan.request.call_id;
    match plan.kind {
        Kind::Read => 1,
        Kind::Write | Kind::Edit => {
            let text = fs::read_to_string(work.join(id)).unwrap_or_default();
            usize::from(text == format!("did-{id}"))
        }
        Kind::Short | Kind::Late | Kind::Long | Kind::Batch | Kind::Asking | Kind::Unary => {
            lines.get(id).copied().unwrap_or_default()
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    completed: usize,
    drained: usize,
    waited_through: usize,
}

/// The record after all the stops is what was seen, and says what happened.
async fn check(server: &Server, seen: &Seen, effects: usize, tally: &mut Tally) {
    let (kind, id) = (seen.plan.kind, seen.plan.request.call_id.as_str());
    let log: Vec<CallEvent> = server.watch(id, 0).await.unwrap().into_iter().map(plain).collect();
    check_log(0, &log);
    let record = server.get(id).await;
    assert_eq!(record.ending, Some(end_of(&log)), "{id}");
    for seen in &seen.logs {
        assert_eq!(*seen, log, "{id}: what was told is what is recorded");
    }
    if let Some(answer) = &seen.answer {
        assert_eq!(answer.ending, record.ending, "{id}");
    }
    let whole = if kind == Kind::Batch { 2 } else { 1 };
    let waits = log
        .iter()
        .filter(|event| matches!(event.event, Some(Event::Waiting(_))))
        .count();
    match end_of(&log) {
        call::Ending::Completed(completed) => {
            // A batch says how many of its calls have.
            let parts = json_of(completed.metadata.as_ref().unwrap())["successful"].as_f64();
            let told = parts.map_or(whole, |parts| parts as usize);
            assert_eq!(effects, told, "{id}, {kind:?}: it says that it has succeeded");
            let has_token = completed.output.contains(&format!("did-{id}"));
            assert!(
                has_token || matches!(kind, Kind::Read | Kind::Write | Kind::Edit | Kind::Batch),
                "{completed:?}"
            );
            tally.completed += 1;
            tally.waited_through += usize::from(waits > 1);
        }
        call::Ending::Failed(failed) => {
            assert_eq!(failed.reason(), FailureReason::Drained, "{id}, {kind:?}: {failed:?}");
            let has_run = log.iter().any(|event| matches!(event.event, Some(Event::Running(_))));
            assert!(has_run || effects == 0 || kind == Kind::Read, "{id}: it never ran");
            let was_allowed = log.iter().any(|event| {
                matches!(&event.event, Some(Event::Resumed(resumed))
                if resumed.state() == PromptState::Resolved)
            });
            // One that waits is left; one that came to its end here was stopped after the reply, or before it asked.
            assert!(waits == 0 || was_allowed, "{id}: the stop ended a call that waited");
            assert!(effects <= whole, "{id}");
            tally.drained += 1;
        }
    }
}

#[test]
fn twenty_stops_lose_and_invent_nothing() {
    test(async {
        let mut random = Random::new(9);
        let mut config = setup("400ms");
        config.config.as_mut().unwrap()["experimental"] = json!({ "batch_tool": true });
        let mut server = Server::with(config).await;
        fs::write(server.work().join("fixed"), "some lines\n".repeat(50)).unwrap();
        let (switch, reached) = watch::channel((0, server.channel()));
        let (told, mut events) = mpsc::unbounded_channel();
        let clients = Clients { server: reached, told };
        let mut calls = JoinSet::new();
        let mut drains = Vec::new();
        for round in 0..ROUNDS {
            while events.try_recv().is_ok() {}
            for number in 0..CALLS {
                let plan = plan(&server.work(), &format!("r{round}-{number}"), &mut random);
                calls.spawn(clients.clone().make(plan));
            }
            let (channel, mut choices) = (server.channel(), random.fork());
            let approver = tokio::spawn(async move {
                for _ in 0..3 {
                    answer(channel.clone(), round, false, &mut choices).await;
                    sleep(Duration::from_millis(choices.below(150))).await;
                }
            });
            for _ in 0..1 + random.below(3 * CALLS) {
                events.recv().await.unwrap();
            }
            let from = Instant::now();
            server.signal(Signal::TERM);
            let status = server.ended().await;
            drains.push(from.elapsed());
            assert_eq!(status.code(), Some(0), "{}", server.log());
            server.assert_calm();
            approver.await.unwrap();
            server.restart().await;
            switch.send((round + 1, server.channel())).unwrap();
        }

        let mut all = Vec::new();
        while !calls.is_empty() {
            answer(server.channel(), ROUNDS, true, &mut random).await;
            if let Ok(Some(seen)) = tokio::time::timeout(Duration::from_millis(50), calls.join_next()).await {
                all.push(seen.unwrap());
            }
        }
        assert_eq!(all.len() as u64, ROUNDS as u64 * CALLS);
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        for line in fs::read_to_string(server.work().join("effects")).unwrap().lines() {
            *lines.entry(line.to_owned()).or_default() += 1;
        }
        let mut tally = Tally::default();
        for seen in &all {
            let effects = effects(&server.work(), &lines, &seen.plan);
            check(&server, seen, effects, &mut tally).await;
        }
        assert!(
            tally.completed > 0 && tally.drained > 0 && tally.waited_through > 0,
            "{tally:?}"
        );
        drains.sort_unstable();
        eprintln!(
            "{ROUNDS} stops under load: {:?} half of them, {:?} at most; {} calls: {tally:?}",
            drains[ROUNDS / 2],
            drains[ROUNDS - 1],
            all.len(),
        );
        server.stop().await;
    });
}
