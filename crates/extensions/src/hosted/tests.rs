//! Joining, leaving and reporting, with a catalog of this process: what no client can time.

use std::sync::mpsc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use toolgate_model::{Ask, CallId, Definition, Model, Origin, ServiceEventKind, SessionId, ToolOutput};
use toolgate_tool::{Offer, ToolContext};

use super::*;

/// The tool that every catalog needs.
struct Invalid;

#[async_trait]
impl Tool for Invalid {
    fn name(&self) -> &str {
        "invalid"
    }

    fn input_schema(&self) -> Value {
        json!({})
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        Definition::foreign("invalid", "", &json!({}), Source::Builtin, &[])
    }

    async fn call(&self, _input: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Err(ToolError::Cancelled)
    }
}

/// Holds an offer of a tool called `wait` up until the test lets it go on.
#[derive(Default)]
struct Gate {
    entered: Mutex<Option<mpsc::Sender<()>>>,
    open: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Gate {
    fn pass(&self, change: &ServiceEventKind) {
        if let ServiceEventKind::ToolsChanged { added, .. } = change
            && added.contains(&"wait".to_owned())
            && let Some(open) = self.open.lock().take()
        {
            self.entered.lock().take().unwrap().send(()).unwrap();
            open.recv().unwrap();
        }
    }
}

fn hello(name: &str, principal: &str, tools: &[&str], token: &str) -> Hello {
    let lent = |name: &&str| HostedTool {
        name: (*name).to_owned(),
        description: String::new(),
        // One that cannot be used belongs to a tool that is called `bad`.
        input_schema: if *name == "bad" { json!({"type": 7}) } else { json!({}) },
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
struct Stage {
    hosts: Arc<Hosts>,
    catalog: Arc<Catalog>,
    gate: Arc<Gate>,
}

impl Default for Stage {
    fn default() -> Self {
        let gate = Arc::<Gate>::default();
        let passed = gate.clone();
        let catalog = Catalog::new(move |change| passed.pass(&change), Arc::new(Invalid), []).unwrap();
        Self {
            hosts: Arc::default(),
            catalog: Arc::new(catalog),
            gate,
        }
    }
}

impl Stage {
    async fn welcome(&self, hello: Hello) -> Result<(Welcome, Arc<HostStream>), HostError> {
        let welcomed = self.hosts.welcome(hello, self.catalog.clone()).await;
        welcomed.map(|(welcome, seat)| (welcome, Arc::new(seat)))
    }

    fn check(&self, offered: &[(&str, &[&str])]) {
        let sources = self.catalog.sources().into_iter();
        let sources: Vec<(String, usize)> = sources.map(|source| (source.name, source.tools)).collect();
        let expected: Vec<(String, usize)> = offered
            .iter()
            .map(|(source, names)| ((*source).to_owned(), names.len()))
            .collect();
        assert_eq!(sources, expected);
        let registry = self.catalog.current();
        let tools: Vec<&str> = registry.tools().skip(1).map(|tool| tool.name()).collect();
        let expected: Vec<&str> = offered.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(tools, expected);
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
    let [(name, reason)] = &one.refused[..] else {
        panic!("{:?}", one.refused);
    };
    assert_eq!(name, "bad");
    assert!(reason.starts_with("the schema is not valid: "), "{reason}");
    let (two, _two) = stage.welcome(hello("b", "p", &["bad", "good"], "")).await.unwrap();
    let reasons: Vec<&str> = two.refused.iter().map(|(_, reason)| reason.as_str()).collect();
    assert_eq!(reasons, ["the host a lends a tool of this name", reason.as_str()]);
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
    *stage.gate.entered.lock() = Some(enter);
    *stage.gate.open.lock() = Some(gate);
    let mut first = Box::pin(
        stage
            .hosts
            .welcome(hello("a", "p", &["wait"], ""), stage.catalog.clone()),
    );
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

fn work() -> HostRequest {
    HostRequest::Tool {
        call: CallId::from("c"),
        origin: Arc::new(Origin {
            workspace: "w".to_owned(),
            session: SessionId::from("s"),
            directory: String::new(),
            message_id: String::new(),
            agent: "build".to_owned(),
            model: Model::default(),
            client: String::new(),
            client_name: String::new(),
            unanswered: None,
            parent: None,
            requester: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            extra: Default::default(),
            environment: Default::default(),
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
    assert!(matches!(seat.next().await, Next::Tell(HostMessage::Invoke { .. })));
    assert!(matches!(seat.next().await, Next::Tell(HostMessage::AskResult { .. })));
    assert!(seat.next().now_or_never().is_none());
    // Who did read gets it again.
    assert_eq!(seat.host.report(&id, ask("x")).await, Reported::Accepted);
    assert!(matches!(seat.next().await, Next::Tell(HostMessage::AskResult { .. })));
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
