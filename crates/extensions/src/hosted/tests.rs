//! Joining, leaving and reporting, with a shelf of this process: what no client can time.

use std::collections::BTreeMap;
use std::sync::mpsc;

use futures_util::FutureExt as _;
use serde_json::json;
use toolgate_model::{Ask, CallId, Model, Origin, SessionId};

use super::*;

/// Keeps what is offered. Of what is called `wait`, an offer takes effect when the test lets it.
#[derive(Default)]
struct Shown {
    tools: Mutex<BTreeMap<String, Vec<String>>>,
    entered: Mutex<Option<mpsc::Sender<()>>>,
    gate: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Shown {
    fn offered(&self) -> Vec<(String, Vec<String>)> {
        self.tools.lock().unwrap().clone().into_iter().collect()
    }
}

impl Shelf for Shown {
    fn is_taken(&self, _name: &str) -> bool {
        false
    }

    fn offer(&self, source: &str, tools: Vec<Arc<dyn Tool>>, _hooks: Vec<Arc<dyn Hook>>) -> Vec<(String, String)> {
        let names: Vec<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
        if names.contains(&"wait".to_owned())
            && let Some(gate) = self.gate.lock().unwrap().take()
        {
            self.entered.lock().unwrap().take().unwrap().send(()).unwrap();
            gate.recv().unwrap();
        }
        let (bad, good): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| name.starts_with("bad"));
        self.tools.lock().unwrap().insert(source.to_owned(), good);
        bad.into_iter().map(|name| (name, "broken".to_owned())).collect()
    }

    fn remove(&self, source: &str) {
        self.tools.lock().unwrap().remove(source);
    }

    fn runs_subagents(&self, _can: bool) {}
}

fn hello(name: &str, principal: &str, tools: &[&str], token: &str) -> Hello {
    let lent = |name: &&str| LentTool {
        name: (*name).to_owned(),
        description: String::new(),
        input_schema: json!({}),
        effects: Vec::new(),
    };
    Hello {
        name: name.to_owned(),
        workspace: "w".to_owned(),
        principal: principal.to_owned(),
        may_reply: true,
        may_hook: true,
        tools: tools.iter().map(lent).collect(),
        subagents: None,
        hooks: Vec::new(),
        token: token.to_owned(),
    }
}

/// The hosts of a service and what they offer.
#[derive(Default)]
struct Stage {
    hosts: Arc<Hosts>,
    shown: Arc<Shown>,
}

impl Stage {
    async fn welcome(&self, hello: Hello) -> Result<(Welcome, Arc<Seat>), HostError> {
        let welcomed = self.hosts.welcome(hello, self.shown.clone()).await;
        welcomed.map(|(welcome, seat)| (welcome, Arc::new(seat)))
    }

    fn check(&self, offered: &[(&str, &[&str])]) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let offered: Vec<(String, Vec<String>)> = offered
            .iter()
            .map(|(source, names)| ((*source).to_owned(), owned(names)))
            .collect();
        assert_eq!(self.shown.offered(), offered);
    }
}

#[tokio::test]
async fn an_earlier_stream_does_not_end_the_host() {
    let stage = Stage::default();
    let (welcome, first) = stage.welcome(hello("a", "p", &["one"], "")).await.unwrap();
    let (_, second) = stage.welcome(hello("a", "p", &["two"], &welcome.token)).await.unwrap();
    first.leave().await;
    stage.check(&[("a", &["two"])]);
    let late = first.update(hello("a", "p", &["late"], "")).await;
    assert!(matches!(late, Err(HostError::Gone)));
    stage.check(&[("a", &["two"])]);
    second.leave().await;
    stage.check(&[]);
}

#[tokio::test]
async fn who_has_left_lends_nothing() {
    let stage = Stage::default();
    let (welcome, seat) = stage.welcome(hello("a", "p", &["one"], "")).await.unwrap();
    let host = stage.hosts.find(&welcome.token, "p").unwrap();
    stage.hosts.leave(&host).await;
    let again = seat.update(hello("a", "p", &["two"], "")).await;
    assert!(matches!(again, Err(HostError::Gone)));
    stage.check(&[]);
    // The name is another one's by now.
    let (_, _seat) = stage.welcome(hello("a", "q", &["three"], "")).await.unwrap();
    stage.hosts.leave(&host).await;
    stage.check(&[("a", &["three"])]);
}

#[tokio::test]
async fn what_is_refused_is_free_for_others() {
    let stage = Stage::default();
    let (one, _one) = stage.welcome(hello("a", "p", &["bad", "good"], "")).await.unwrap();
    assert_eq!(one.refused, [("bad".to_owned(), "broken".to_owned())]);
    let (two, _two) = stage.welcome(hello("b", "p", &["bad", "good"], "")).await.unwrap();
    let reasons: Vec<&str> = two.refused.iter().map(|(_, reason)| reason.as_str()).collect();
    assert_eq!(reasons, ["the host a lends a tool of this name", "broken"]);
}

#[tokio::test]
async fn nobody_takes_all_the_seats() {
    let stage = Stage::default();
    let mut seats = Vec::new();
    for _ in 0..MAX_OF_ONE {
        seats.push(stage.welcome(hello("a", "p", &[], "")).await.unwrap());
    }
    let more = stage.welcome(hello("a", "p", &[], "")).await;
    assert!(matches!(more, Err(HostError::TooMany { limit: MAX_OF_ONE, .. })));
    assert!(stage.welcome(hello("a", "q", &[], "")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_closes_waits_for_nobody() {
    let stage = Stage::default();
    let (_, seat) = stage.welcome(hello("a", "p", &["one"], "")).await.unwrap();
    let before = tokio::time::Instant::now();
    drop(seat);
    stage.hosts.close().await;
    assert!(before.elapsed() < GRACE);
    assert!(stage.hosts.tasks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_host_is_lost_after_its_grace() {
    let stage = Stage::default();
    let (welcome, seat) = stage.welcome(hello("a", "p", &["one"], "")).await.unwrap();
    drop(seat);
    tokio::time::sleep(GRACE / 2).await;
    stage.check(&[("a", &["one"])]);
    let (again, seat) = stage.welcome(hello("a", "p", &["one"], &welcome.token)).await.unwrap();
    assert!(again.resumed);
    // The timer of the earlier stream is not this one's.
    tokio::time::sleep(GRACE).await;
    stage.check(&[("a", &["one"])]);
    drop(seat);
    tokio::time::sleep(2 * GRACE).await;
    stage.check(&[]);
}

#[tokio::test]
async fn a_welcome_that_nobody_waits_for_leaves_nothing_behind() {
    let stage = Stage::default();
    let (enter, entered) = mpsc::channel();
    let (open, gate) = mpsc::channel();
    *stage.shown.entered.lock().unwrap() = Some(enter);
    *stage.shown.gate.lock().unwrap() = Some(gate);
    let mut first = Box::pin(stage.hosts.welcome(hello("a", "p", &["wait"], ""), stage.shown.clone()));
    assert!((&mut first).now_or_never().is_none());
    tokio::task::spawn_blocking(move || entered.recv().unwrap())
        .await
        .unwrap();
    drop(first);
    // The same program comes again while the first offer is still under way.
    let second = stage.welcome(hello("a", "p", &["again"], ""));
    tokio::pin!(second);
    assert!((&mut second).now_or_never().is_none());
    open.send(()).unwrap();
    let (_, _seat) = second.await.unwrap();
    stage.check(&[("a", &["again"])]);
    stage.hosts.close().await;
    stage.check(&[("a", &["again"])]);
}

fn work() -> Work {
    Work::Tool {
        call: CallId::from("c"),
        origin: Arc::new(Origin {
            workspace: "w".to_owned(),
            session: SessionId::from("s"),
            message_id: String::new(),
            agent: "build".to_owned(),
            model: Model::default(),
            client: String::new(),
            parent: None,
            requester: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            extra: Default::default(),
        }),
        tool: "one".to_owned(),
        input: json!({}),
    }
}

fn ask(id: &str) -> Report {
    Report::Ask {
        id: id.to_owned(),
        ask: Box::new(Ask::default()),
    }
}

#[tokio::test]
async fn an_answer_waits_once_for_who_does_not_read() {
    let stage = Stage::default();
    let (_, seat) = stage.welcome(hello("a", "p", &["one"], "")).await.unwrap();
    let mut invocation = seat.host.invoke(work()).unwrap();
    let id = format!("i{}", invocation.id);
    assert_eq!(seat.host.report(&id, ask("x")).await, Reported::Accepted);
    assert!(matches!(invocation.next().await, Ok(Report::Ask { .. })));
    seat.host.answer(invocation.id, "x", Ok(()));
    for _ in 0..100 {
        assert_eq!(seat.host.report(&id, ask("x")).await, Reported::Accepted);
    }
    assert!(matches!(seat.next().await, Next::Tell(Told::Invoke { .. })));
    assert!(matches!(seat.next().await, Next::Tell(Told::AskResult { .. })));
    assert!(seat.next().now_or_never().is_none());
    // Who did read gets it again.
    assert_eq!(seat.host.report(&id, ask("x")).await, Reported::Accepted);
    assert!(matches!(seat.next().await, Next::Tell(Told::AskResult { .. })));
}

#[tokio::test]
async fn the_same_request_is_put_once() {
    let stage = Stage::default();
    let (_, seat) = stage.welcome(hello("a", "p", &["one"], "")).await.unwrap();
    let mut invocation = seat.host.invoke(work()).unwrap();
    let id = format!("i{}", invocation.id);
    // Until there is no room, so that both requests wait.
    while seat
        .host
        .report(&id, Report::Output("x".into()))
        .now_or_never()
        .is_some()
    {}
    let reports = futures_util::future::join(seat.host.report(&id, ask("x")), seat.host.report(&id, ask("x")));
    let reading = async {
        for _ in 0..2 {
            assert!(matches!(invocation.next().await, Ok(Report::Output(_))));
        }
    };
    let (reported, ()) = tokio::join!(reports, reading);
    assert_eq!(reported, (Reported::Accepted, Reported::Accepted));
    let rest = std::iter::from_fn(|| invocation.reports.try_recv().ok());
    assert_eq!(rest.filter(|report| matches!(report, Report::Ask { .. })).count(), 1);
}
