//! Commands that try to hang, to hide, to flood and to stay, through the real server: each ends in time, and nothing of
//! it is left.

mod cases;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use toolgate_contract::*;

use self::cases::{CASES, Case, End, Left, Prints};
use crate::support::*;

/// The longest that any of them may take on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

/// Cases that run at a time.
const AT_ONCE: usize = 6;

const CANCELS: u64 = 1_000;

/// By which the processes of a case are found, in their environment or their command line.
const VARIABLE: &str = "CASE_OF_A_TEST";

/// The living processes with this number in their command line or environment.
fn alive(number: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Whole words: the digits alone may stand in the hash of any program that is being compiled meanwhile.
    let is_number = |word: &str| word.starts_with(number) && word.bytes().all(|byte| byte.is_ascii_digit());
    let text = |id: &u32, file: &str| {
        let bytes = fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    ids.filter(|id| {
        let line = text(id, "cmdline");
        line.split(|letter: char| !letter.is_alphanumeric()).any(is_number)
            || text(id, "environ").contains(&format!("{VARIABLE}={number}"))
    })
    .collect()
}

/// Children of a process: number, state and command line.
fn children(parent: u32) -> Vec<(u32, String, String)> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| {
        let stat = fs::read(format!("/proc/{id}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat).into_owned();
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let (state, of) = (fields.next()?.to_owned(), fields.next()?.parse::<u32>().ok()?);
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        (of == parent).then(|| (id, state, String::from_utf8_lossy(&line).replace('\0', " ")))
    })
    .collect()
}

fn guardian_of(server: u32) -> u32 {
    let found = children(server)
        .into_iter()
        .find(|(.., line)| line.contains("__guardian"));
    found.expect("the server has a watchdog").0
}

fn cancel_request(id: &str) -> CancelCallRequest {
    CancelCallRequest { call_id: id.to_owned() }
}

fn metadata(end: &CallCompleted, key: &str) -> Option<f64> {
    match end.metadata.as_ref()?.fields.get(key)?.kind.as_ref()? {
        prost_types::value::Kind::NumberValue(number) => Some(*number),
        _ => None,
    }
}

async fn play(server: &Server, number: &str, &(command, end, prints): &Case) {
    let line = format!("export {VARIABLE}={number}; {}", command.replace('@', number));
    let mut input = json!({"command": line, "description": "a test"});
    if end == End::Limit {
        input["timeout"] = Value::from(400);
    }
    let begin = Instant::now();
    let mut tools = server.tools();
    let running = run(&mut tools, run_request(kept(number, request("bash", input))));
    let ended = tokio::time::timeout(2 * BOUND, running).await;
    let call = ended.unwrap_or_else(|_| panic!("{command}: hangs")).unwrap();
    let took = begin.elapsed();
    assert!(took < BOUND, "{command}: {took:?}");
    let done = completed(&call);
    let output = &done.output;
    let exit = metadata(done, "exit");
    if let End::Exit(code, _) = end {
        assert_eq!(exit, Some(code as f64), "{command}: {output:.300}");
    }
    match prints {
        Prints::Just(text) => assert_eq!(*output, text.replace('@', number), "{command}"),
        Prints::With(text) => assert!(output.contains(&text.replace('@', number)), "{command}: {output:.300}"),
        Prints::Any => {}
    }
    let left = call.background_processes.len();
    match end {
        End::Exit(_, expected) => match expected {
            Left::Count(count) => {
                assert_eq!(left, count, "{command}: {:?}", call.background_processes);
                let told = metadata(done, "background").unwrap_or(0.0);
                assert_eq!(told, count as f64, "{command}");
            }
            Left::Some => assert!(left > 0, "{command}"),
            Left::Any => {}
        },
        End::Signal => assert_eq!((exit, left), (None, 0), "{command}"),
        End::Limit => {
            // The model sees the beginning of a long output, and then not the block at its end.
            let is_cut = done.truncation.as_ref().is_some_and(|truncation| truncation.truncated);
            let is_told = output.contains("exceeding timeout 400 ms");
            assert!(is_cut || is_told, "{command}: {output:.300}");
            assert_eq!(alive(number), Vec::<u32>::new(), "{command}: gone when the call ends");
        }
    }
    server.tools().cancel_call(cancel_request(number)).await.unwrap();
    assert_eq!(
        alive(number),
        Vec::<u32>::new(),
        "{command}: gone when CancelCall returns"
    );
    assert_eq!(server.get(number).await.background_processes, [], "{command}");
}

#[test]
fn hostile_commands_end_and_leave_nothing() {
    assert!(CASES.len() >= 60);
    test(async {
        let mut server = Arc::new(Server::with(Setup::permission(json!({"external_directory": "allow"}))).await);
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut playing = JoinSet::new();
        for (index, case) in CASES.iter().enumerate() {
            let (server, room) = (server.clone(), room.clone());
            playing.spawn(async move {
                let _place = room.acquire().await.unwrap();
                play(&server, &format!("{}", 8_640_100 + index), case).await;
            });
        }
        while let Some(played) = playing.join_next().await {
            played.unwrap();
        }
        Arc::get_mut(&mut server).unwrap().stop().await;
    });
}

#[test]
fn a_flood_ends_with_its_last_line() {
    test(async {
        let mut server = Server::start().await;
        let call = server
            .run(
                "bash",
                json!({"command": "head -c 200000000 /dev/zero | tr '\\0' '\\n'; echo the tail", "description": "a test"}),
            )
            .await;
        let truncation = completed(&call).truncation.clone().unwrap();
        assert_eq!(truncation.total_bytes, 200_000_009);
        server.stop().await;
    });
}

#[test]
fn a_thousand_calls_cancelled_at_any_moment() {
    const COMMANDS: [&str; 6] = [
        "sleep @",
        "sleep @ & setsid sleep @ & echo up; wait",
        "(env -i setsid sleep @ >/dev/null 2>&1 &) ; sleep @",
        "trap '' TERM; sleep @ & sleep @",
        "nohup sleep @ >/dev/null 2>&1 & echo left",
        "while :; do echo @; sleep 0.01; done",
    ];
    async fn round(server: &Arc<Server>, random: &mut Random, from: u64, count: u64) {
        let room = Arc::new(Semaphore::new(32));
        let mut calls = JoinSet::new();
        for number in from..from + count {
            let (server, room, number) = (server.clone(), room.clone(), format!("8650{number:04}"));
            let line = format!(
                "export {VARIABLE}={number}; {}",
                random.pick(&COMMANDS).replace('@', &number)
            );
            let wait = Duration::from_millis(random.below(60));
            calls.spawn(async move {
                let _place = room.acquire().await.unwrap();
                let start = kept(&number, bash(&line));
                let stream = server.tools().execute_tool(start).await.unwrap().into_inner();
                // The moment of the cancellation is what is tested.
                tokio::time::sleep(wait).await;
                server.tools().cancel_call(cancel_request(&number)).await.unwrap();
                let events = collect(stream).await.unwrap();
                assert!(events.last().is_some_and(is_terminal));
            });
        }
        while let Some(call) = calls.join_next().await {
            call.unwrap();
        }
    }
    test(async {
        let mut server = Arc::new(Server::start().await);
        let mut random = Random::new(4);
        let pid = server.pid();
        let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        // What is made once and kept: connections to the store, idle groups.
        round(&server, &mut random, 0, 64).await;
        eventually("the first round is forgotten", async || children(pid).len() == 1).await;
        let before = descriptors();
        round(&server, &mut random, 1_000, CANCELS).await;
        let survivors: Vec<u32> = alive("8650")
            .into_iter()
            .filter(|&id| id != std::process::id())
            .collect();
        assert_eq!(survivors, Vec::<u32>::new());
        eventually("only the watchdog is left, and no zombie", async || {
            let left = children(pid);
            left.len() == 1 && left[0].2.contains("__guardian")
        })
        .await;
        // Up to eight empty control groups are kept open for the next calls.
        assert!(!server.log().contains("cannot be waited for"), "{}", server.log());
        eventually("no descriptor is leaked", async || descriptors() <= before + 8).await;
        Arc::get_mut(&mut server).unwrap().stop().await;
    });
}

/// A job in the background that nothing but its mark or its control group ties to its call.
const DAEMON: &str = "(env -i setsid sleep @ >/dev/null 2>&1 </dev/null &) ; nohup sleep @ >/dev/null 2>&1 & setsid sleep @ & \
                      echo ready";

#[test]
fn nothing_outlives_a_server_that_is_killed() {
    test(async {
        let mut server = Server::start().await;
        let line = DAEMON.replace('@', "8660001");
        completed(
            &server
                .run("bash", json!({"command": line, "description": "a test"}))
                .await,
        );
        let running = bash("setsid sleep 8660001 & (trap '' TERM; sleep 8660001) & echo ready; exec sleep 8660001");
        let mut stream = server
            .tools()
            .execute_tool(kept("r", running))
            .await
            .unwrap()
            .into_inner();
        next_such(&mut stream, is_output).await;
        eventually("all of them run", async || alive("8660001").len() >= 6).await;
        let watchdog = guardian_of(server.pid());
        // The terminal's and a manager's signals are for the service, which then ends in order.
        let id = rustix::process::Pid::from_raw(i32::try_from(watchdog).unwrap()).unwrap();
        for signal in [
            rustix::process::Signal::TERM,
            rustix::process::Signal::INT,
            rustix::process::Signal::HUP,
        ] {
            rustix::process::kill_process(id, signal).unwrap();
        }
        server.kill9().await;
        let killed = Instant::now();
        eventually("nothing is left", async || alive("8660001").is_empty()).await;
        assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
        eventually("the watchdog is gone", async || {
            let line = fs::read(format!("/proc/{watchdog}/cmdline")).unwrap_or_default();
            !String::from_utf8_lossy(&line).contains("__guardian")
        })
        .await;
    });
}

#[test]
fn a_killed_guardian_is_replaced_and_a_clean_stop_takes_it_along() {
    test(async {
        let mut server = Server::start().await;
        let first = guardian_of(server.pid());
        let id = rustix::process::Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        let pid = server.pid();
        eventually("another watchdog is there", async || {
            children(pid)
                .iter()
                .any(|(id, state, line)| *id != first && state != "Z" && line.contains("__guardian"))
        })
        .await;
        let second = guardian_of(pid);
        let status = fs::read_to_string(format!("/proc/{second}/status")).unwrap();
        let size = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
        let kib: u64 = size.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        // Nothing of the service's memory: what the program itself has to relocate, which is most in a debug build.
        assert!(kib < 6 * 1024, "{size}");
        server.stop().await;
        assert!(!fs::exists(format!("/proc/{second}")).unwrap());
    });
}

#[test]
fn jobs_left_behind_are_shown_and_end_with_their_call_or_session() {
    test(async {
        let mut server = Server::start().await;
        for (id, number) in [("a", "8670001"), ("b", "8670002")] {
            let line = DAEMON.replace('@', number);
            let start = in_session("mine", kept(id, bash(&line)));
            let call = run(&mut server.tools(), run_request(start)).await.unwrap();
            assert_eq!(metadata(completed(&call), "background"), Some(3.0));
        }
        let shown = server.get("a").await.background_processes;
        assert_eq!(shown.len(), 3);
        assert!(
            shown
                .iter()
                .all(|process| process.command == "sleep 8670001" && process.pid > 1),
            "{shown:?}"
        );
        let listed = server
            .tools()
            .list_calls(ListCallsRequest::default())
            .await
            .unwrap()
            .into_inner()
            .calls;
        assert!(listed.iter().all(|call| call.background_processes.len() == 3));
        let before = server.get("a").await.ending;
        server.tools().cancel_call(cancel_request("a")).await.unwrap();
        assert_eq!(alive("8670001"), Vec::<u32>::new());
        assert_eq!(server.get("a").await.ending, before, "an ended call stays as it was");
        assert_eq!(alive("8670002").len(), 3, "another call's jobs go on");
        let end = |session: &str| EndSessionRequest {
            session_id: session.to_owned(),
            ..Default::default()
        };
        server.sessions().end_session(end("other")).await.unwrap();
        assert_eq!(alive("8670002").len(), 3, "another session's jobs go on");
        server.sessions().end_session(end("mine")).await.unwrap();
        assert_eq!(alive("8670002"), Vec::<u32>::new());
        let line = DAEMON.replace('@', "8670003");
        completed(
            &server
                .run("bash", json!({"command": line, "description": "a test"}))
                .await,
        );
        server.stop().await;
        assert_eq!(
            alive("8670003"),
            Vec::<u32>::new(),
            "a stop of the service ends the rest"
        );
    });
}

#[test]
fn the_environment_is_what_the_settings_let_through() {
    let run_env = |setup: Setup| async move {
        let server = Server::with(setup).await;
        let call = server
            .run("bash", json!({"command": "env", "description": "a test"}))
            .await;
        let output = completed(&call).output.clone();
        output
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name.to_owned())
            .collect::<Vec<_>>()
    };
    test(async move {
        let base = || {
            Setup::default()
                .env("AWS_SECRET_ACCESS_KEY", "secret")
                .env("GITHUB_TOKEN", "secret")
                .env("LC_ALL", "C.UTF-8")
                .env("TOOLGATE_LOG", "info")
        };
        let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
        let names = run_env(base()).await;
        assert!(has(&names, "AWS_SECRET_ACCESS_KEY") && has(&names, "HOME") && has(&names, "PWD"));
        assert!(!names.iter().any(|name| name.starts_with("TOOLGATE_")), "{names:?}");
        let names = run_env(base().env("TOOLGATE_SHELL_ENVIRONMENT_DENY", "AWS_*, *_TOKEN")).await;
        assert!(!has(&names, "AWS_SECRET_ACCESS_KEY") && !has(&names, "GITHUB_TOKEN") && has(&names, "LC_ALL"));
        let names = run_env(base().env("TOOLGATE_SHELL_ENVIRONMENT_ALLOW", "PATH,LC_*,TOOLGATE_LOG")).await;
        assert!(has(&names, "PATH") && has(&names, "LC_ALL") && has(&names, "PWD"));
        assert!(
            !has(&names, "HOME") && !has(&names, "GITHUB_TOKEN") && !has(&names, "TOOLGATE_LOG"),
            "{names:?}"
        );
    });
}
