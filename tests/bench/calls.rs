//! What one call costs: a small read, a command that does nothing, a question to a person.
//!
//! *Invariant:* inputs alternate, so that the question after three identical calls never comes.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Streaming};
use toolgate_contract::call_event::Event;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::{
    ChannelOpen, ChannelRequest, ChannelResponse, ExecuteToolResponse, GetCallRequest, PromptDecision, PromptFilter,
    PromptReply, channel_request, channel_response,
};
use toolgate_process::{Cause, Launch, Programs, Settings};

use crate::cost::Meter;
use crate::gateway::Fleet;
use crate::measure::{Samples, in_turns, turns};
use crate::service::{
    self, Connection, SHELL, Service, Serving, Tools, environment, execute, folder, recorded, request,
};
use crate::table::Row;
use crate::{Plan, bare, crowd};

pub(crate) const SESSION: &str = "bench";

/// What inputs alternate between.
pub(crate) const FILES: [&str; 2] = ["a.txt", "b.txt"];

/// How long many clients work at each side.
fn crowded(plan: Plan) -> Duration {
    Duration::from_secs(plan.samples(12, 2) as u64)
}

/// Writes the two files of 2 KB.
pub(crate) fn write_files(workspace: &Path) -> Result<()> {
    for name in FILES {
        let text = format!("{name}, {}\n", "x".repeat(32)).repeat(50);
        fs::write(workspace.join(name), text)?;
    }
    Ok(())
}

/// A service, and a bare one that answers with what a read of the first has answered.
async fn beside_bare(workspace: &Path) -> Result<(Service, Serving, Vec<ExecuteToolResponse>)> {
    let service = Service::start(workspace).await?;
    let read = request(SESSION, "read", json!({"filePath": FILES[0]}));
    let messages = recorded(&mut service.tools().await?, read).await?;
    ensure!(messages.len() == 3, "a read has {} events instead of 3", messages.len());
    let bare = bare::start(&messages, workspace).await?;
    Ok((service, bare, messages))
}

/// `ExecuteTool` of `read` on 2 KB against a bare stream of the same messages, by one client and by many.
pub(crate) async fn read(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    write_files(workspace.path())?;
    let of = |session: &str, round: usize| request(session, "read", json!({"filePath": FILES[round % 2]}));
    let (service, bare, messages) = beside_bare(workspace.path()).await?;
    let result: usize = messages.iter().map(prost::Message::encoded_len).sum();
    let mut client = service.tools().await?;
    let mut bare_client = service::tools(bare.connect().await?);
    let rounds = plan.samples(4000, 400);
    let data = service.data_dir();
    let meters = (
        Meter::start(service.pid()?, Some(&data))?,
        Meter::start(bare.pid()?, None)?,
    );
    let (ours, floor) = in_turns(
        rounds,
        async |round| {
            execute(&mut client, of(SESSION, round + 1))
                .await
                .map(|(time, ..)| time)
        },
        async |round| {
            execute(&mut bare_client, of(SESSION, round + 1))
                .await
                .map(|(time, ..)| time)
        },
    )
    .await?;
    let (cost, least) = (meters.0.each_of(turns(rounds))?, meters.1.each_of(turns(rounds))?);
    let least = least.with_disk(result as u64);
    let work = move |mut client: Tools, number: usize, round: usize| async move {
        execute(&mut client, of(&format!("many-{number}"), round))
            .await
            .map(drop)
    };
    let many = crowd::both((service.serving(), &data), &bare, 64, crowded(plan), work).await?;
    let ((rate, of_many), (bare_rate, least_of_many)) = many;
    let least_of_many = least_of_many.with_disk(result as u64);
    service.stop().await?;
    let name = "bare tonic stream";
    let micros = Duration::from_micros;
    Ok(vec![
        Row::ratio("read of 2 KB, whole stream", &ours, (name, &floor), Some(1.8)).costing(cost, Some(least)),
        Row::processor("read of 2 KB, processor time", &cost, (name, &least), micros(300)),
        Row::rate(
            "read of 2 KB by 64 clients, a second",
            rate.a_second(),
            (name, bare_rate.a_second()),
            Some(10_000.0),
        )
        .costing(of_many, Some(least_of_many)),
        Row::processor(
            "read of 2 KB by 64 clients, processor time",
            &of_many,
            (name, &least_of_many),
            micros(150),
        ),
    ])
}

/// `GetCall` against a bare unary answer.
pub(crate) async fn get(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    write_files(workspace.path())?;
    let (service, bare, messages) = beside_bare(workspace.path()).await?;
    let id = messages[0].event.as_ref().context("an event")?.call_id.clone();
    let (mut client, mut bare_client) = (service.tools().await?, service::tools(bare.connect().await?));
    let rounds = plan.samples(4000, 400);
    let name = "bare tonic unary";
    let mut rows = Vec::new();
    for (what, id) in [
        ("an unknown call", "nobody-has-made-it"),
        ("a call that has ended", &*id),
    ] {
        let meters = (Meter::start(service.pid()?, None)?, Meter::start(bare.pid()?, None)?);
        let (ours, floor) = in_turns(
            rounds,
            async |_| time_of_get(&mut client, id).await,
            async |_| time_of_get(&mut bare_client, id).await,
        )
        .await?;
        let (cost, least) = (meters.0.each_of(turns(rounds))?, meters.1.each_of(turns(rounds))?);
        let row = Row::ratio(&format!("GetCall of {what}"), &ours, (name, &floor), None);
        rows.push(row.costing(cost, Some(least)));
        let what = format!("GetCall of {what}, processor time");
        rows.push(Row::processor_ratio(&what, &cost, (name, &least), 1.5));
    }
    let work = move |mut client: Tools, _: usize, _: usize| {
        let id = id.clone();
        async move { time_of_get(&mut client, &id).await.map(drop) }
    };
    let data = service.data_dir();
    let ((rate, cost), (bare_rate, least)) =
        crowd::both((service.serving(), &data), &bare, 64, crowded(plan), work).await?;
    service.stop().await?;
    let what = "GetCall of a call that has ended by 64 clients, a second";
    let row = Row::rate(what, rate.a_second(), (name, bare_rate.a_second()), None);
    rows.push(row.costing(cost, Some(least)));
    Ok(rows)
}

async fn time_of_get(client: &mut Tools, id: &str) -> Result<Duration> {
    let call_id = id.to_owned();
    let begin = Instant::now();
    match client.get_call(GetCallRequest { call_id }).await {
        Ok(_) => Ok(begin.elapsed()),
        Err(status) if status.code() == Code::NotFound => Ok(begin.elapsed()),
        Err(status) => Err(status.into()),
    }
}

/// What a read of 50 KB leaves on the disk, against its result as a compressor leaves it.
pub(crate) async fn disk(plan: Plan) -> Result<Vec<Row>> {
    const BYTES: usize = 48_000;
    let workspace = folder()?;
    // Files as people have them, each another part of it: what was stored once would be stored for all of them.
    let text = [
        include_str!("calls.rs"),
        include_str!("service.rs"),
        include_str!("scale.rs"),
    ]
    .concat();
    let lines: Vec<&str> = text.lines().collect();
    let files = plan.samples(200, 40);
    for number in 0..files {
        let from = number * 37 % lines.len();
        let mut part: String = lines
            .iter()
            .cycle()
            .skip(from)
            .take(2 * lines.len())
            .flat_map(|line| [*line, "\n"])
            .collect();
        part.truncate((0..=BYTES).rev().find(|&end| part.is_char_boundary(end)).unwrap_or(0));
        fs::write(workspace.path().join(format!("{number}.rs")), part)?;
    }
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    let data = service.data_dir();
    let meter = Meter::start(service.pid()?, Some(&data))?;
    let (mut whole, mut compressed) = (0, 0);
    for number in 0..files {
        let input = json!({"filePath": format!("{number}.rs")});
        let (_, completed, _) = execute(&mut client, request(SESSION, "read", input)).await?;
        let bytes = completed.encode_to_vec();
        whole += bytes.len() as u64;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&bytes)?;
        compressed += gzip.finish()?.len() as u64;
    }
    let cost = meter.each_of(files)?;
    service.stop().await?;
    let (whole, compressed) = (whole / files as u64, compressed / files as u64);
    let bytes = cost.disk.context("a data directory")?;
    let compressed = ("its result, compressed", compressed);
    Ok(vec![
        Row::disk("disk for a read of 50 KB", bytes, compressed, 1.1).costing(cost, None),
        Row::disk("the same, over the result as it is", bytes, ("its result", whole), 1.1),
    ])
}

/// `bash` with `true` against a bare service that spawns the same shell, by one client and by some.
pub(crate) async fn bash(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    let variables = environment(&service.home());
    let programs = Programs::new(&variables.iter().cloned().collect(), Settings::default())?;
    let directory = workspace.path().to_path_buf();
    let alone = async |_| {
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
    let bare = bare::start(&[], workspace.path()).await?;
    let mut bare_client = service::tools(bare.connect().await?);
    let of = |session: &str, round: usize| {
        let input = json!({"command": "true", "description": FILES[round % 2]});
        request(session, bare::BASH, input)
    };
    let data = service.data_dir();
    let meters = (
        Meter::start(service.pid()?, Some(&data))?,
        Meter::start(bare.pid()?, None)?,
    );
    let (ours, floor) = in_turns(
        rounds,
        async |round| execute(&mut client, of(SESSION, round)).await.map(|(time, ..)| time),
        async |round| {
            execute(&mut bare_client, of(SESSION, round))
                .await
                .map(|(time, ..)| time)
        },
    )
    .await?;
    let (cost, least) = (meters.0.each_of(turns(rounds))?, meters.1.each_of(turns(rounds))?);
    let work = move |mut client: Tools, number: usize, round: usize| async move {
        execute(&mut client, of(&format!("some-{number}"), round))
            .await
            .map(drop)
    };
    let some = crowd::both((service.serving(), &data), &bare, 16, crowded(plan), work).await?;
    let ((rate, of_some), (bare_rate, least_of_some)) = some;
    service.stop().await?;
    let least_alone = async |round| {
        execute(&mut bare_client, of(SESSION, round))
            .await
            .map(|(time, ..)| time)
    };
    let (spawning, spawned) = in_turns(rounds / 2, least_alone, alone).await?;
    let (module, module_floor) = in_turns(rounds / 2, async |_| run_true(&programs, &directory).await, alone).await?;
    programs.shutdown().await;
    let (name, process) = ("bare tonic service that spawns", "spawn and wait");
    Ok(vec![
        Row::ratio("bash `true`, whole stream", &ours, (name, &floor), Some(1.3)).costing(cost, Some(least)),
        Row::rate(
            "bash `true` by 16 clients, a second",
            rate.a_second(),
            (name, bare_rate.a_second()),
            None,
        )
        .costing(of_some, Some(least_of_some)),
        Row::processor(
            "bash `true` by 16 clients, processor time",
            &of_some,
            (name, &least_of_some),
            Duration::from_micros(700),
        ),
        Row::ratio("a bare tonic service that spawns", &spawning, (process, &spawned), None),
        Row::ratio("the process module alone", &module, (process, &module_floor), None),
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
    write_files(workspace.path())?;
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
