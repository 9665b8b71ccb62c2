//! What one call costs: a small read, a command that does nothing, a question to a person.
//!
//! *Invariant:* inputs alternate, so that the question after three identical calls never comes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use toolgate_contract::call_event::Event;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::{
    ChannelOpen, ChannelRequest, ChannelResponse, PromptDecision, PromptFilter, PromptReply, channel_request,
    channel_response,
};
use toolgate_process::{Cause, Launch, Programs, Settings};

use crate::gateway::Fleet;
use crate::measure::{Samples, in_turns};
use crate::service::{self, Connection, SHELL, Service, environment, execute, folder, recorded, request};
use crate::table::Row;
use crate::{Plan, bare};

pub(crate) const SESSION: &str = "bench";

/// What inputs alternate between.
pub(crate) const FILES: [&str; 2] = ["a.txt", "b.txt"];

/// `ExecuteTool` of `read` on 2 KB against a bare stream of the same messages.
pub(crate) async fn read(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    for name in FILES {
        fs::write(
            workspace.path().join(name),
            format!("{name}, {}\n", "x".repeat(32)).repeat(50),
        )?;
    }
    let of = |round: usize| request(SESSION, "read", json!({"filePath": FILES[round % 2]}));
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    let messages = recorded(&mut client, of(0)).await?;
    ensure!(messages.len() == 3, "a read has {} events instead of 3", messages.len());

    let bare = bare::start(&messages, workspace.path()).await?;
    let mut bare_client = service::tools(bare.connect().await?);
    let (ours, floor) = in_turns(
        plan.samples(4000, 400),
        async |round| execute(&mut client, of(round + 1)).await.map(|(time, ..)| time),
        async |round| execute(&mut bare_client, of(round + 1)).await.map(|(time, ..)| time),
    )
    .await?;
    service.stop().await?;
    let floor = ("bare tonic stream", &floor);
    Ok(vec![Row::ratio("read of 2 KB, whole stream", &ours, floor, Some(1.5))])
}

/// `bash` with `true` against a bare spawn of the same shell.
pub(crate) async fn bash(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    let variables = environment(&service.home());
    let programs = Programs::new(&variables.iter().cloned().collect(), Settings::default())?;
    let directory = workspace.path().to_path_buf();
    let bare = async |_| {
        let mut command = Command::new(SHELL);
        command.args(["-c", "true"]).env_clear().envs(variables.iter().cloned());
        command.current_dir(&directory).stdin(Stdio::null());
        let begin = Instant::now();
        let status = command.status()?;
        let time = begin.elapsed();
        ensure!(status.success(), "the shell ended with {status}");
        Ok(time)
    };
    let rounds = plan.samples(1000, 100);
    let (ours, floor) = in_turns(
        rounds,
        async |round| {
            let input = json!({"command": "true", "description": FILES[round % 2]});
            let (time, ..) = execute(&mut client, request(SESSION, "bash", input)).await?;
            Ok(time)
        },
        bare,
    )
    .await?;
    let (module, module_floor) = in_turns(rounds / 2, async |_| run_true(&programs, &directory).await, bare).await?;
    service.stop().await?;
    programs.shutdown().await;
    let peer = bare::start(&[], workspace.path()).await?;
    let mut peer_client = service::tools(peer.connect().await?);
    let least = async |_| {
        let input = json!({"command": "true"});
        let (time, ..) = execute(&mut peer_client, request(SESSION, bare::BASH, input)).await?;
        Ok(time)
    };
    let (least, least_floor) = in_turns(rounds / 2, least, bare).await?;
    let name = "spawn and wait";
    Ok(vec![
        Row::ratio("bash `true`, whole stream", &ours, (name, &floor), Some(1.25)),
        Row::ratio("a bare tonic service that spawns", &least, (name, &least_floor), None),
        Row::ratio("the process module alone", &module, (name, &module_floor), None),
    ])
}

/// A small read and a command that does nothing, with and without waiting for the disk.
pub(crate) async fn durability(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    for name in FILES {
        fs::write(workspace.path().join(name), "text\n")?;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_toolgate"));
    let power = [("TOOLGATE_STATE_DURABILITY", "power".to_owned())];
    let waits = Service::of(program, workspace.path(), &json!({}), &power).await?;
    let usual = Service::start(workspace.path()).await?;
    let (mut waiting, mut client) = (waits.tools().await?, usual.tools().await?);
    let mut rows = Vec::new();
    for (what, tool) in [
        ("durability: read, `power` over `process`", "read"),
        ("durability: bash `true`, `power` over `process`", "bash"),
    ] {
        let of = |round: usize| match tool {
            "read" => request(SESSION, tool, json!({"filePath": FILES[round % 2]})),
            _ => request(
                SESSION,
                tool,
                json!({"command": "true", "description": FILES[round % 2]}),
            ),
        };
        let (ours, floor) = in_turns(
            plan.samples(1000, 100),
            async |round| execute(&mut waiting, of(round)).await.map(|(time, ..)| time),
            async |round| execute(&mut client, of(round)).await.map(|(time, ..)| time),
        )
        .await?;
        rows.push(Row::ratio(what, &ours, ("the default", &floor), None));
    }
    waits.stop().await?;
    usual.stop().await?;
    Ok(rows)
}

/// A small read and a command that does nothing, through a gateway and without one.
pub(crate) async fn through_gateway(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    for name in FILES {
        fs::write(
            workspace.path().join(name),
            format!("{name}, {}\n", "x".repeat(32)).repeat(50),
        )?;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_toolgate"));
    let fleet = Fleet::start(program, workspace.path(), &[]).await?;
    let mut through = service::tools(fleet.gateway.connect().await?);
    let mut direct = fleet.service.tools().await?;
    let mut rows = Vec::new();
    for (what, tool, rounds) in [
        ("gateway: read of 2 KB, whole stream", "read", plan.samples(4000, 400)),
        ("gateway: bash `true`, whole stream", "bash", plan.samples(1000, 100)),
    ] {
        let of = |round: usize| match tool {
            "read" => request(SESSION, tool, json!({"filePath": FILES[round % 2]})),
            _ => request(
                "gateway",
                tool,
                json!({"command": "true", "description": FILES[round % 2]}),
            ),
        };
        let (ours, floor) = in_turns(
            rounds,
            async |round| execute(&mut through, of(round)).await.map(|(time, ..)| time),
            async |round| execute(&mut direct, of(round)).await.map(|(time, ..)| time),
        )
        .await?;
        rows.push(Row::more(
            what,
            50,
            &ours,
            ("direct", &floor),
            Duration::from_micros(500),
        ));
    }
    fleet.stop().await?;
    Ok(rows)
}

async fn run_true(programs: &Programs, directory: &Path) -> Result<Duration> {
    let begin = Instant::now();
    let launch = Launch {
        sandbox: None,
        call: "bench".to_owned(),
        program: SHELL.into(),
        arguments: vec!["-c".into(), "true".into()],
        directory: directory.to_path_buf(),
        shown_directory: directory.to_path_buf(),
        environment: Default::default(),
        stdin: toolgate_process::Stdin::Null,
    };
    let mut running = programs.start(launch).await?;
    let mut output = running.take_output().context("a program without output")?;
    let token = CancellationToken::new();
    let read = async { while output.next().await.is_some() {} };
    let (ending, ()) = tokio::join!(running.supervise(Duration::from_secs(10), &token), read);
    ensure!(ending.cause == Cause::Ended, "the shell ended as {ending:?}");
    Ok(begin.elapsed())
}

/// From the start of a call that asks, over an approver that answers at once, to the call's `resumed`.
pub(crate) async fn prompt(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    fs::write(
        workspace.path().join("opencode.json"),
        r#"{"permission": {"read": "ask"}}"#,
    )?;
    for name in FILES {
        fs::write(workspace.path().join(name), "text\n")?;
    }
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    let mut approver = Approver::open(service.connect().await?).await?;
    let rounds = plan.samples(500, 50);
    let (mut whole, mut seen, mut taken, mut resumes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds + 10 {
        let input = json!({"filePath": FILES[round % 2]});
        let begin = Instant::now();
        let call = async {
            let mut stream = client.execute_tool(request(SESSION, "read", input)).await?.into_inner();
            let mut resumed = None;
            while let Some(event) = service::next(&mut stream).await? {
                if matches!(event, Event::Resumed(_)) {
                    resumed = Some(begin.elapsed());
                }
            }
            resumed.context("the call was not resumed")
        };
        let (resumed, approval) = tokio::try_join!(call, approver.approve(begin))?;
        if round >= 10 {
            whole.push(resumed);
            seen.push(approval.seen);
            taken.push(approval.taken.saturating_sub(approval.seen));
            resumes.push(resumed.saturating_sub(approval.seen));
        }
    }
    service.stop().await?;
    let limit = Duration::from_millis(5);
    let stages = [
        ("call, prompt, approver, reply, call resumes", whole),
        ("asked: from the call until the approver sees it", seen),
        ("answered: from then until its reply is taken", taken),
        ("resumed: from the same moment until the call goes on", resumes),
    ];
    let row = |(what, times)| {
        let times = Samples::new(times)?;
        Ok(Row::time(what, &times, times.median(), limit))
    };
    stages.into_iter().map(row).collect()
}

/// When an approver saw a prompt, and when its reply was taken.
pub(crate) struct Approval {
    pub(crate) seen: Duration,
    taken: Duration,
}

/// Somebody who allows everything at once.
pub(crate) struct Approver {
    incoming: Streaming<ChannelResponse>,
    outgoing: mpsc::Sender<ChannelRequest>,
}

impl Approver {
    pub(crate) async fn open(connection: Connection) -> Result<Self> {
        let (outgoing, requests) = mpsc::channel(4);
        let open = ChannelOpen {
            name: "bench".to_owned(),
            filter: Some(PromptFilter {
                all: true,
                ..PromptFilter::default()
            }),
        };
        let message = Some(channel_request::Message::Open(open));
        outgoing.send(ChannelRequest { message }).await?;
        let mut client = PermissionServiceClient::new(connection);
        let incoming = client.channel(ReceiverStream::new(requests)).await?.into_inner();
        Ok(Self { incoming, outgoing })
    }

    /// Allows the next prompt and waits until that is taken.
    pub(crate) async fn approve(&mut self, begin: Instant) -> Result<Approval> {
        let mut seen = Duration::ZERO;
        loop {
            let message = self.incoming.message().await?.and_then(|message| message.message);
            match message.context("the channel has ended")? {
                channel_response::Message::PromptAdded(added) => {
                    seen = begin.elapsed();
                    let prompt = added.prompt.context("a prompt")?;
                    let reply = PromptReply {
                        reply_id: prompt.prompt_id.clone(),
                        prompt_id: prompt.prompt_id,
                        decision: PromptDecision::Once.into(),
                        input_digest: prompt.input_digest,
                        ..PromptReply::default()
                    };
                    let message = Some(channel_request::Message::Reply(reply));
                    self.outgoing.send(ChannelRequest { message }).await?;
                }
                channel_response::Message::ReplyResult(result) => {
                    if seen.is_zero() {
                        bail!("a reply was answered that was not given: {}", result.message);
                    }
                    return Ok(Approval {
                        seen,
                        taken: begin.elapsed(),
                    });
                }
                channel_response::Message::Opened(_)
                | channel_response::Message::SnapshotEnd(_)
                | channel_response::Message::PromptUpdated(_)
                | channel_response::Message::PromptResolved(_)
                | channel_response::Message::Heartbeat(_) => {}
            }
        }
    }
}

/// From a command's write to the client's event, a line every 30 ms; the command tells when it wrote.
pub(crate) async fn latency(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    let lines = plan.samples(500, 100);
    // `read` with a time limit waits without a process of its own, which would be measured too.
    let command = format!(
        "exec {{fd}}<> <(:); for ((i = 0; i < {lines}; i++)); do echo $EPOCHREALTIME; read -t 0.03 -u $fd; done; true"
    );
    let input = json!({"command": command, "description": "tells the time"});
    let mut stream = client.execute_tool(request(SESSION, "bash", input)).await?.into_inner();
    let mut times = Vec::new();
    while let Some(event) = service::next(&mut stream).await? {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let Event::Output(output) = event else { continue };
        for line in String::from_utf8_lossy(&output.data).lines() {
            let written: f64 = line.parse().with_context(|| format!("the command says {line:?}"))?;
            times.push(now.saturating_sub(Duration::from_secs_f64(written)));
        }
    }
    service.stop().await?;
    ensure!(times.len() == lines, "{} of {lines} lines came", times.len());
    let times = Samples::new(times)?;
    let p99 = times.percentile(99);
    let target = Duration::from_millis(5);
    Ok(vec![Row::time("write to event, p99", &times, p99, target)])
}
