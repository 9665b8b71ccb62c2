//! A front end that lends tools over one stream.

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use toolgate_contract::host_event::Event;
use toolgate_contract::host_report::Report;
use toolgate_contract::host_request::Message;
use toolgate_contract::host_service_client::HostServiceClient;
use toolgate_contract::*;

use super::{Proxy, Server, connect_tcp};

/// An open stream that was welcomed.
pub(crate) struct LendingHost {
    pub(crate) requests: mpsc::Sender<HostRequest>,
    events: Streaming<HostResponse>,
    pub(crate) welcome: HostWelcome,
    /// What its connection goes through, if it can be cut.
    proxy: Option<Proxy>,
}

/// A tool that takes one text.
fn lent(name: &str) -> LentTool {
    LentTool {
        name: name.to_owned(),
        description: format!("Does {name}"),
        input_schema_json: r#"{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}"#
            .to_owned(),
        effects: vec![ToolEffect::Network.into()],
    }
}

/// What a host of these tools says first.
pub(crate) fn hello(name: &str, tools: &[&str]) -> HostHello {
    HostHello {
        name: name.to_owned(),
        tools: tools.iter().map(|name| lent(name)).collect(),
        ..HostHello::default()
    }
}

impl LendingHost {
    pub(crate) async fn open(channel: Channel, hello: HostHello) -> Result<Self, Status> {
        let (requests, outgoing) = mpsc::channel(1024);
        let first = Message::Hello(hello);
        requests.send(HostRequest { message: Some(first) }).await.unwrap();
        let response = HostServiceClient::new(channel)
            .host(ReceiverStream::new(outgoing))
            .await?;
        let mut host = Self {
            requests,
            events: response.into_inner(),
            welcome: HostWelcome::default(),
            proxy: None,
        };
        match host.next().await? {
            Event::Welcome(welcome) => host.welcome = welcome,
            other => panic!("not a welcome: {other:?}"),
        }
        Ok(host)
    }

    /// Opens it over a connection of its own, to a server on TCP.
    pub(crate) async fn losable(server: &Server, hello: HostHello) -> Self {
        let proxy = Proxy::cutting_after(server.tcp.as_ref().unwrap(), usize::MAX).await;
        let channel = connect_tcp(&proxy.address.to_string()).await.unwrap();
        Self {
            proxy: Some(proxy),
            ..Self::open(channel, hello).await.unwrap()
        }
    }

    /// The next event but heartbeats; the end of the stream is an error too.
    pub(crate) async fn next(&mut self) -> Result<Event, Status> {
        loop {
            let Some(response) = self.events.message().await? else {
                return Err(Status::ok("the stream has ended"));
            };
            match response.event.unwrap().event.unwrap() {
                Event::Heartbeat(_) => {}
                other => return Ok(other),
            }
        }
    }

    pub(crate) async fn say(&self, message: Message) {
        // A stream that was ended by the server takes no more.
        let _ = self.requests.send(HostRequest { message: Some(message) }).await;
    }

    pub(crate) async fn report(&self, id: &str, report: Report) {
        self.say(Message::Report(HostReport {
            invocation_id: id.to_owned(),
            report: Some(report),
        }))
        .await;
    }

    pub(crate) async fn complete(&self, id: &str, output: &str) {
        let completed = HostCompleted {
            output: Some(output.to_owned()),
            ..HostCompleted::default()
        };
        self.report(id, Report::Completed(completed)).await;
    }

    /// The next invocation of a tool.
    pub(crate) async fn invoked(&mut self) -> HostInvoke {
        match self.next().await.unwrap() {
            Event::Invoke(invoke) => invoke,
            other => panic!("not an invocation: {other:?}"),
        }
    }

    /// The next run of a subagent.
    pub(crate) async fn subagent(&mut self) -> HostRunSubagent {
        match self.next().await.unwrap() {
            Event::RunSubagent(run) => run,
            other => panic!("not a run: {other:?}"),
        }
    }

    /// The next hook, which must be for this point: its id, its input and its output.
    pub(crate) async fn hook(&mut self, point: &str) -> (String, Value, Value) {
        match self.next().await.unwrap() {
            Event::Hook(hook) => {
                assert_eq!(hook.point, point);
                let read = |text: &str| serde_json::from_str(text).unwrap();
                (hook.invocation_id, read(&hook.input_json), read(&hook.output_json))
            }
            other => panic!("not a hook: {other:?}"),
        }
    }

    /// Answers a hook.
    pub(crate) async fn leaves(&self, id: &str, output: Value) {
        let output_json = output.to_string();
        self.report(id, Report::HookResult(HostHookResult { output_json }))
            .await;
    }

    pub(crate) async fn cancelled(&mut self) -> String {
        match self.next().await.unwrap() {
            Event::Cancel(cancel) => cancel.invocation_id,
            other => panic!("not a cancellation: {other:?}"),
        }
    }

    /// Cuts the connection.
    pub(crate) fn lose(self) -> HostWelcome {
        drop(self.proxy.expect("a connection of its own"));
        self.welcome
    }
}
