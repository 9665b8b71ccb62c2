//! Real programs, started, read and ended.

use std::io;
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;

mod groups;
mod listening;
mod terminals;

/// The variable by which a test finds its own processes, whoever their parents are.
const MARKER: &str = "PROBE_OF_A_TEST";

const LONG: Duration = Duration::from_secs(60);

struct Fixture {
    programs: Programs,
    marker: String,
    token: CancellationToken,
    folder: tempfile::TempDir,
}

/// Both ways of finding what belongs to a call: by its control group, where there are any, and by tags alone.
const WAYS: [bool; 2] = [false, true];

impl Fixture {
    fn new() -> Self {
        Self::with(false)
    }

    fn with(without_groups: bool) -> Self {
        static ADOPTING: Once = Once::new();
        ADOPTING.call_once(|| adopt_orphans().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().to_string_lossy().into_owned();
        let environment = [("PATH", "/usr/bin:/bin"), ("SHELL", "/bin/bash"), (MARKER, &marker)]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let settings = Settings {
            without_groups,
            ..Settings::default()
        };
        Self {
            programs: Programs::new(&environment, settings).unwrap(),
            marker,
            token: CancellationToken::new(),
            folder,
        }
    }

    async fn start(&self, command: &str) -> Running {
        self.programs.start(self.launch(command)).await.unwrap()
    }

    fn launch(&self, command: &str) -> Launch {
        Launch {
            call: "a call".to_owned(),
            program: self.programs.shell().unwrap().to_path_buf(),
            arguments: vec!["-c".into(), command.into()],
            directory: self.folder.path().to_path_buf(),
            shown_directory: self.folder.path().to_path_buf(),
            environment: Environment::new(),
            stdin: Stdin::Null,
            sandbox: None,
        }
    }

    /// Starts a command that reads from a pipe.
    async fn start_fed(&self, command: &str) -> (Running, Input) {
        let launch = Launch {
            stdin: Stdin::Pipe,
            ..self.launch(command)
        };
        let mut running = self.programs.start(launch).await.unwrap();
        let input = running.take_input().unwrap();
        (running, input)
    }

    /// Runs a command to its end.
    async fn run(&self, command: &str, limit: Duration) -> (Ending, Vec<u8>) {
        let mut running = self.start(command).await;
        let output = running.take_output().unwrap();
        tokio::join!(running.supervise(limit, &self.token), read_all(output))
    }

    /// Counts the processes, zombies included, that were started with this test's marker or on its folder.
    fn count(&self) -> usize {
        let folders = std::fs::read_dir("/proc").unwrap().flatten();
        folders
            .filter(|folder| folder.file_name().as_encoded_bytes()[0].is_ascii_digit())
            .filter(|folder| {
                ["environ", "cmdline"].iter().any(|file| {
                    let bytes = std::fs::read(folder.path().join(file)).unwrap_or_default();
                    String::from_utf8_lossy(&bytes).contains(&self.marker)
                })
            })
            .count()
    }

    /// Waits until at least so many processes of this test are seen: one that is about to run another program shows no
    /// variables for a moment.
    async fn started(&self, wanted: usize) {
        let started = async {
            while self.count() < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, started).await.unwrap();
    }

    /// Waits until nothing is known of any call: without control groups a call is looked at once more after its end.
    async fn forgotten(&self) {
        let forgotten = async {
            while !self.programs.0.reaper.calls().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, forgotten).await.unwrap();
    }

    /// Counts our children, zombies included, that bear a tag of this test's programs.
    fn children_left(&self) -> usize {
        let marked = |child: &rustix::process::Pid| {
            sys::mark_of(*child).is_some_and(|mark| self.programs.0.reaper.is_own_tag(mark))
        };
        tree::own_children().iter().filter(|child| marked(child)).count()
    }
}

async fn read_all(mut output: Output) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(chunk) = output.next().await {
        assert!(!chunk.is_empty());
        all.extend_from_slice(&chunk);
    }
    all
}

/// Reads until the text was printed; the rest is left.
async fn read_until(output: &mut Output, text: &str) {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(text) {
        all.extend_from_slice(&output.next().await.expect("the text comes before the end"));
    }
}

#[tokio::test]
async fn ends_with_the_code_or_the_signal() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        for (command, expected) in [
            ("true", Exit::Code(0)),
            ("exit 3", Exit::Code(3)),
            ("no-such-command-here", Exit::Code(127)),
            ("kill -TERM $$", Exit::Signal(15)),
            ("kill -KILL $$", Exit::Signal(9)),
        ] {
            let (ending, _) = fixture.run(command, LONG).await;
            assert_eq!((ending.cause, ending.exit), (Cause::Ended, Some(expected)), "{command}");
        }
        assert_eq!(fixture.count(), 0);
        assert_eq!(fixture.children_left(), 0);
        fixture.forgotten().await;
    }
}

#[tokio::test]
async fn a_program_starts_clean() {
    let fixture = Fixture::new();
    let check = async |command: &str, expected: &str| {
        let (_, output) = fixture.run(command, LONG).await;
        assert_eq!(String::from_utf8_lossy(&output), expected, "{command}");
    };
    check("cat; echo after", "after\n").await;
    check("echo out; echo err >&2", "out\nerr\n").await;
    check("pwd", &format!("{}\n", fixture.marker)).await;
    check("ls /proc/self/fd", "0\n1\n2\n3\n").await;
    check(
        "grep -E '^Sig(Blk|Ign)' /proc/self/status",
        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n",
    )
    .await;
    check(
        "[ $$ = $(ps -o sid= -p $$) ] && [ $$ = $(ps -o pgid= -p $$) ] && echo leads",
        "leads\n",
    )
    .await;
    check("env | grep -c TOOLGATE", "0\n").await;
}

#[tokio::test]
async fn reads_what_it_is_given_to_the_end() {
    let fixture = Fixture::new();
    let (mut running, input) = fixture.start_fed("wc -c").await;
    let output = running.take_output().unwrap();
    let write = async move {
        // More than a pipe holds: the writer waits for the reader.
        input.write(&[b'x'; 300_000]).await.unwrap();
    };
    let (ending, output, ()) = tokio::join!(running.supervise(LONG, &fixture.token), read_all(output), write);
    assert_eq!(
        (ending.exit, output.as_slice()),
        (Some(Exit::Code(0)), b"300000\n".as_slice())
    );
}

#[tokio::test]
async fn a_reader_that_is_gone_is_noticed() {
    let fixture = Fixture::new();
    let (running, input) = fixture.start_fed("exec <&-; exec sleep 60").await;
    let abandoned = tokio::time::timeout(LONG, input.abandoned()).await;
    assert!(abandoned.is_ok());
    assert_eq!(input.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    // One that reads nothing makes only the writer wait.
    let (reader, input) = fixture.start_fed("exec sleep 60").await;
    let written = tokio::time::timeout(Duration::from_millis(50), input.write(&[b'x'; 300_000])).await;
    assert!(written.is_err());
    drop((running, reader));
    assert_eq!(fixture.programs.shutdown().await, 0);
}

#[tokio::test]
async fn says_why_it_cannot_start() {
    let fixture = Fixture::new();
    let mut launch = fixture.launch("true");
    launch.directory = fixture.folder.path().join("gone");
    assert!(matches!(
        fixture.programs.start(launch).await,
        Err(StartError::Directory { .. })
    ));
    let mut launch = fixture.launch("true");
    launch.program = "/no/such/program".into();
    assert!(matches!(
        fixture.programs.start(launch).await,
        Err(StartError::Program { .. })
    ));
    let launch = fixture.launch("a\0b");
    assert!(matches!(
        fixture.programs.start(launch).await,
        Err(StartError::NulByte { .. })
    ));
    assert_eq!(fixture.children_left(), 0);
    assert!(fixture.programs.0.reaper.calls().is_empty());
}

#[tokio::test]
async fn a_start_that_hangs_holds_nobody_else_up() {
    let fixture = Fixture::new();
    let (held, until) = std::sync::mpsc::channel();
    fixture.programs.0.launcher.occupy(until).await;
    let begin = std::time::Instant::now();
    let (ending, _) = fixture.run("true", LONG).await;
    assert_eq!(ending.exit, Some(Exit::Code(0)));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    drop(held);
    let (ending, _) = fixture.run("sleep 0.2", LONG).await;
    assert_eq!(ending.exit, Some(Exit::Code(0)));
}

#[tokio::test]
async fn what_a_call_left_is_told() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        fixture.run("true", LONG).await;
        assert_eq!(fixture.programs.left_by("a call").await, []);
        fixture
            .run(
                "(env -i setsid sleep 1001 >/dev/null 2>&1 &) ; nohup sleep 1002 >/dev/null 2>&1 &",
                LONG,
            )
            .await;
        let told = async {
            loop {
                let left = fixture.programs.left_by("a call").await;
                let mut commands: Vec<String> = left.into_iter().map(|process| process.command).collect();
                commands.sort_unstable();
                if commands == ["sleep 1001", "sleep 1002"] {
                    break;
                }
            }
        };
        tokio::time::timeout(LONG, told).await.unwrap();
        assert_eq!(fixture.programs.left_by("another call").await, []);
        assert_eq!(fixture.programs.calls_with_left(), ["a call"]);
        assert_eq!(fixture.programs.end_call("a call").await, 0);
        assert_eq!(fixture.programs.left_by("a call").await, []);
        assert!(fixture.programs.calls_with_left().is_empty());
    }
}

#[tokio::test]
async fn no_command_sheds_its_mark() {
    for change in [
        "ulimit -R unlimited",
        "ulimit -x unlimited",
        "ulimit -R 5; ulimit -x 5",
        "prlimit --pid $$ --rttime=unlimited --locks=unlimited",
        "prlimit --pid $$ --rttime=7:7 --locks=7:7",
    ] {
        let fixture = Fixture::with(true);
        let command = format!(
            "({change}) 2>/dev/null; {change}; setsid -f sleep 1003 {}",
            fixture.marker
        );
        let command = command.replace("sleep 1003", "sh -c 'exec sleep 1003'");
        let (ending, _) = fixture.run(&command, LONG).await;
        assert_eq!(ending.exit, Some(Exit::Code(0)), "{change}");
        // Known by its tag, unless it may change its limits; then it is nobody's, and ended by the program that is alone.
        if rustix::process::geteuid().is_root() {
            assert_eq!(fixture.programs.left_by("a call").await.len(), 1, "{change}");
            assert_eq!(fixture.programs.end_call("a call").await, 0);
            assert_eq!(fixture.count(), 0, "{change}");
        }
        fixture.programs.shutdown().await;
    }
}

#[tokio::test]
async fn a_deleted_directory_is_no_harm() {
    let fixture = Fixture::new();
    let (ending, output) = fixture.run("mkdir x && cd x && rmdir ../x && echo ok", LONG).await;
    assert_eq!((ending.exit, &*output), (Some(Exit::Code(0)), &b"ok\n"[..]));
}

#[tokio::test]
async fn bytes_of_both_streams_are_in_the_order_written() {
    let fixture = Fixture::new();
    let command = r"printf '\xe2\x82'; printf '\xac\xf0\x9f' >&2; printf '\x98\x80'; printf '\xc3'";
    let (_, output) = fixture.run(command, LONG).await;
    assert_eq!(&*output, b"\xe2\x82\xac\xf0\x9f\x98\x80\xc3");
}

#[tokio::test]
async fn a_flood_waits_for_a_slow_reader() {
    let fixture = Fixture::new();
    let mut running = fixture.start("head -c 50000000 /dev/zero; echo done >&2").await;
    let mut output = running.take_output().unwrap();
    let (mut total, mut largest) = (0, 0);
    let read = async {
        while let Some(chunk) = output.next().await {
            (total, largest) = (total + chunk.len(), largest.max(chunk.len()));
            tokio::task::yield_now().await;
        }
    };
    let (ending, ()) = tokio::join!(running.supervise(LONG, &fixture.token), read);
    assert_eq!(ending.exit, Some(Exit::Code(0)));
    assert_eq!(total, 50_000_005);
    assert!(largest <= 512 * 1024, "{largest}");
}

#[tokio::test]
async fn what_programs_use_now_is_seen() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        let command = "text=$(head -c 30000000 /dev/zero | tr '\\0' x); for i in {1..300000}; do :; done; sleep 1000 & echo up; wait";
        let mut running = fixture.start(command).await;
        let mut output = running.take_output().unwrap();
        read_until(&mut output, "up").await;
        let call = ["a call".to_owned()];
        let usage = fixture.programs.usage_of(&call);
        assert_eq!(usage.processes, 2, "{usage:?}");
        assert!(
            usage.memory_bytes > 30_000_000 && usage.user > Duration::ZERO,
            "{usage:?}"
        );
        assert_eq!(fixture.programs.usage_of(&["another".to_owned()]), UsageNow::default());
        fixture.token.cancel();
        running.supervise(LONG, &fixture.token).await;
        assert_eq!(fixture.programs.usage_of(&call), UsageNow::default());
    }
}

#[tokio::test]
async fn a_background_job_does_not_hold_the_call_and_ends_with_the_service() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        let (ending, output) = fixture.run("sleep 1000 & setsid sleep 1000 & echo started", LONG).await;
        assert_eq!(
            (ending.cause, ending.exit, &*output),
            (Cause::Ended, Some(Exit::Code(0)), &b"started\n"[..])
        );
        fixture.started(2).await;
        assert_eq!(fixture.programs.shutdown().await, 0);
        assert_eq!((fixture.count(), fixture.children_left()), (0, 0));
        assert!(fixture.programs.0.reaper.calls().is_empty());
        assert!(matches!(
            fixture.programs.start(fixture.launch("true")).await,
            Err(StartError::Closed)
        ));
    }
}

#[tokio::test]
async fn a_background_job_may_go_on_printing() {
    let fixture = Fixture::new();
    let command = "(for i in $(seq 40); do echo noise; sleep 0.02; done; echo all > printed) & echo started";
    let begin = std::time::Instant::now();
    let (ending, output) = fixture.run(command, LONG).await;
    assert_eq!(ending.exit, Some(Exit::Code(0)));
    assert!(String::from_utf8_lossy(&output).contains("started\n"));
    // A noisy holder is listened to for half a second, never to its end.
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    fixture.forgotten().await;
    let printed = std::fs::read_to_string(fixture.folder.path().join("printed")).unwrap();
    assert_eq!(printed, "all\n");
}

#[tokio::test]
async fn a_silent_holder_costs_a_tenth_of_a_second() {
    let fixture = Fixture::new();
    // The best of some, since the machine may be busy.
    let mut best = LONG;
    for _ in 0..8 {
        let begin = std::time::Instant::now();
        fixture.run("sleep 1000 &", LONG).await;
        best = best.min(begin.elapsed());
    }
    assert!(
        best >= Duration::from_millis(100) && best < Duration::from_millis(300),
        "{best:?}"
    );
}

#[tokio::test]
async fn a_background_job_can_be_ended_by_its_call() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        fixture.run("(env -i setsid sleep 1000 >/dev/null 2>&1 &)", LONG).await;
        assert_eq!(fixture.programs.end_call("another call").await, 0);
        assert_eq!(fixture.children_left(), 1);
        assert_eq!(fixture.programs.end_call("a call").await, 0);
        assert_eq!(fixture.children_left(), 0);
    }
}

#[tokio::test]
async fn the_time_limit_ends_everything() {
    for without_groups in WAYS {
        let cases = [
            "sleep 1000",
            "trap '' TERM; sleep 1000 & sleep 1000; sleep 1000",
            "setsid sleep 1000 & sleep 1000",
            "(setsid bash -c \"trap '' TERM HUP; sleep 1000 & sleep 1000; sleep 1000\" &) ; sleep 1000",
            "(env -i setsid sleep 1000 >/dev/null 2>&1 </dev/null &) ; sleep 1000",
            "sleep 1000 & kill -STOP $!; kill -STOP $$",
            "trap '' TERM; for i in $(seq 100); do (sleep 1000 &) ; setsid sleep 1000 & done; wait",
            "bash -c 'trap \"\" TERM; sleep 1000; sleep 1000' & wait",
        ];
        for command in cases {
            let fixture = Fixture::with(without_groups);
            let begin = std::time::Instant::now();
            let (ending, _) = fixture
                .run(&format!("echo {MARKER}; {command}"), Duration::from_millis(300))
                .await;
            assert_eq!((ending.cause, ending.survivors), (Cause::TimedOut, 0), "{command}");
            let took = begin.elapsed();
            assert!(took < Duration::from_secs(15), "{command}: {took:?}");
            assert_eq!((fixture.count(), fixture.children_left()), (0, 0), "{command}");
            fixture.forgotten().await;
        }
    }
}

#[tokio::test]
async fn a_handler_has_its_grace() {
    let fixture = Fixture::new();
    let command = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let (ending, output) = fixture.run(command, Duration::from_secs(3)).await;
    assert_eq!((ending.cause, ending.exit), (Cause::TimedOut, Some(Exit::Code(5))));
    // The shell also says that its `sleep` was terminated.
    let output = String::from_utf8_lossy(&output);
    assert!(output.starts_with("ready\n") && output.contains("bye\n"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_calls_are_cancelled_at_once() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        let mut calls = Vec::new();
        for _ in 0..60 {
            let mut running = fixture
                .start("sleep 1000 & setsid sleep 1000 & echo up; trap '' TERM; wait; wait")
                .await;
            let mut output = running.take_output().unwrap();
            read_until(&mut output, "up").await;
            let token = fixture.token.clone();
            calls.push(async move { tokio::join!(running.supervise(LONG, &token), read_all(output)).0 });
        }
        assert!(fixture.count() >= 60);
        let begin = std::time::Instant::now();
        fixture.token.cancel();
        let tracker = TaskTracker::new();
        let calls: Vec<_> = calls.into_iter().map(|call| tracker.spawn(call)).collect();
        for call in calls {
            let ending = call.await.unwrap();
            assert_eq!((ending.cause, ending.survivors), (Cause::Cancelled, 0));
        }
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
        assert_eq!((fixture.count(), fixture.children_left()), (0, 0));
    }
}

#[tokio::test]
async fn a_dropped_program_leaves_nothing() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        let mut running = fixture
            .start("sleep 1000 & (env -i setsid sleep 1000 &) ; echo up; sleep 1000")
            .await;
        let mut output = running.take_output().unwrap();
        read_until(&mut output, "up").await;
        drop(running);
        // Joins the stop that the guard began.
        assert_eq!(fixture.programs.end_call("a call").await, 0);
        assert_eq!((fixture.count(), fixture.children_left()), (0, 0));
    }
}

#[tokio::test]
async fn orphans_that_end_are_reaped_meanwhile() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        let mut running = fixture
            .start("for i in 1 2 3; do (setsid true &); done; echo up; sleep 1000")
            .await;
        let mut output = running.take_output().unwrap();
        read_until(&mut output, "up").await;
        let reaped = async {
            while fixture.children_left() > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, reaped).await.unwrap();
        drop(running);
    }
}

#[tokio::test]
async fn the_last_handle_takes_everything_along() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        fixture
            .run("(env -i setsid sleep 1000 >/dev/null 2>&1 &) ; sleep 1000 &", LONG)
            .await;
        let reaper = Arc::clone(&fixture.programs.0.reaper);
        assert_eq!(reaper.calls().len(), 1);
        drop(fixture);
        let emptied = async {
            while !reaper.calls().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, emptied).await.unwrap();
        let is_ours = |child: &rustix::process::Pid| sys::mark_of(*child).is_some_and(|mark| reaper.is_own_tag(mark));
        assert!(!tree::own_children().iter().any(is_ours));
    }
}

#[tokio::test]
async fn both_streams_are_in_the_order_written() {
    let fixture = Fixture::new();
    let command = "for i in {1..10000}; do echo out $i; echo err $i >&2; done";
    let (_, output) = fixture.run(command, LONG).await;
    let expected: String = (1..=10_000).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert!(output == expected.as_bytes(), "{} bytes", output.len());
}

#[tokio::test]
async fn lines_are_never_cut_into_each_other() {
    let fixture = Fixture::new();
    let command = "line() { for i in {1..1000}; do echo $1$1$1$1$1$1$1$1$1$1; done; }
                   line aaaaaaaaaaaaaaaa & line bbbbbbbbbbbbbbbb >&2 & line cccccccccccccccc & line dddddddddddddddd >&2 & wait";
    let (_, output) = fixture.run(command, LONG).await;
    let output = String::from_utf8(output.to_vec()).unwrap();
    let is_whole = |line: &str| line.len() == 160 && line.bytes().all(|byte| byte == line.as_bytes()[0]);
    assert_eq!(output.lines().filter(|line| is_whole(line)).count(), 4_000);
    assert_eq!(output.lines().count(), 4_000);
}
