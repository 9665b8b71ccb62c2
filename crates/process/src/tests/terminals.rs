//! Real programs in terminals: what they see of them, what reaches them, and their end.

use std::time::Duration;

use super::*;

const SIZE: PtySize = PtySize { columns: 91, rows: 17 };

/// A program in a terminal, and what it has printed.
struct Screen {
    input: Input,
    control: Control,
    output: Output,
    text: String,
    supervision: tokio::task::JoinHandle<Ending>,
}

impl Fixture {
    async fn open(&self, command: &str) -> Screen {
        let launch = Launch {
            stdin: Stdin::Terminal(SIZE),
            ..self.launch(command)
        };
        let mut running = self.programs.start(launch).await.unwrap();
        let token = self.token.clone();
        Screen {
            input: running.take_input().unwrap(),
            control: running.take_control().unwrap(),
            output: running.take_output().unwrap(),
            text: String::new(),
            supervision: tokio::spawn(async move { running.supervise(LONG, &token).await }),
        }
    }
}

impl Screen {
    /// Waits until a text is shown.
    async fn shows(&mut self, wanted: &str) {
        let shown = async {
            while !self.text.contains(wanted) {
                match self.output.next().await {
                    Some(chunk) => self.text += &String::from_utf8_lossy(&chunk),
                    None => panic!("{wanted:?} is not in {:?}", self.text),
                }
            }
        };
        tokio::time::timeout(LONG, shown).await.unwrap();
    }

    async fn types(&self, keys: &str) {
        self.input.write(keys.as_bytes()).await.unwrap();
    }

    async fn end(mut self) -> (Ending, String) {
        while let Some(chunk) = self.output.next().await {
            self.text += &String::from_utf8_lossy(&chunk);
        }
        (self.supervision.await.unwrap(), self.text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_sees_a_terminal() {
    let fixture = Fixture::new();
    let command = "test -t 0 -a -t 1 -a -t 2 && stty size && echo $TERM && tty && echo direct > /dev/tty && \
                   stty -a | grep -o ' iutf8' && ls /proc/self/fd | wc -l";
    let (ending, text) = fixture.open(command).await.end().await;
    assert_eq!(ending.exit, Some(Exit::Code(0)), "{text}");
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!((lines[0], lines[1]), ("17 91", "xterm-256color"), "{text}");
    assert!(lines[2].starts_with("/dev/pts/"), "{text}");
    // The standard streams and the folder that is listed.
    assert_eq!(lines[3..], ["direct", " iutf8", "4", ""], "{text}");
    assert_eq!(fixture.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_input_or_signals() {
    let fixture = Fixture::new();
    let mut screen = fixture
        .open("trap 'echo caught' INT; echo ready; cat; echo \"after $?\"; read x; echo \"<$x>\"")
        .await;
    screen.shows("ready").await;
    screen.types("line\r").await;
    screen.shows("line\r\nline\r\n").await;
    // Ctrl-C ends `cat`, and the shell's trap runs.
    screen.types("\x03").await;
    screen.shows("after 130").await;
    screen.types("ab\u{e9}\x7f\x7fc\r").await;
    screen.shows("<ac>").await;
    let (ending, text) = screen.end().await;
    assert_eq!(ending.exit, Some(Exit::Code(0)), "{text}");
    assert!(text.contains("caught"), "{text}");

    let mut screen = fixture.open("cat; echo over").await;
    screen.types("x\r").await;
    screen.shows("x\r\nx\r\n").await;
    let Screen {
        input,
        mut output,
        supervision,
        ..
    } = screen;
    input.end().await.unwrap();
    let mut rest = Vec::new();
    while let Some(chunk) = output.next().await {
        rest.extend_from_slice(&chunk);
    }
    assert!(String::from_utf8_lossy(&rest).ends_with("over\r\n"), "{rest:?}");
    assert_eq!(supervision.await.unwrap().exit, Some(Exit::Code(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_size_is_seen() {
    let fixture = Fixture::new();
    let mut screen = fixture
        .open("trap 'stty size' WINCH; echo ready; while read line; do echo \"got $line\"; done")
        .await;
    screen.shows("ready").await;
    screen.control.resize(PtySize { columns: 30, rows: 5 }).unwrap();
    screen.types("go\r").await;
    screen.shows("5 30").await;
    screen.types("\x04").await;
    assert_eq!(screen.end().await.0.exit, Some(Exit::Code(0)));

    let mut running = fixture.start("true").await;
    let control = running.take_control().unwrap();
    assert!(control.resize(SIZE).is_err(), "it has no terminal");
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_go_to_the_foreground() {
    let fixture = Fixture::new();
    let interactive = "exec bash --norc --noprofile -i";
    let mut screen = fixture.open(interactive).await;
    let traps = "trap 'echo shell-usr1' USR1; PS1=; echo rea''dy\r";
    screen.types(traps).await;
    screen.shows("ready").await;
    // Nothing runs in the foreground but the shell.
    assert!(screen.control.signal(ProgramSignal::Usr1));
    screen.types("\r").await;
    screen.shows("shell-usr1").await;
    let job = "sh -c 'trap \"echo job-term; exit 3\" TERM; echo job-rea''dy; while :; do sleep 0.01; done'; echo \"code $?\"\r";
    screen.types(job).await;
    screen.shows("job-ready").await;
    assert!(screen.control.signal(ProgramSignal::Term));
    screen.shows("job-term").await;
    screen.shows("code 3").await;
    screen.types("exit 7\r").await;
    let (ending, text) = screen.end().await;
    assert_eq!(ending.exit, Some(Exit::Code(7)), "{text}");

    let mut running = fixture
        .start("trap 'echo hup; exit 4' HUP; echo ready; while :; do :; done")
        .await;
    let control = running.take_control().unwrap();
    let mut output = running.take_output().unwrap();
    assert_eq!(output.next().await.unwrap(), "ready\n");
    assert!(control.signal(ProgramSignal::Hup));
    let ending = running.supervise(LONG, &fixture.token).await;
    assert_eq!(ending.exit, Some(Exit::Code(4)));
    assert_eq!(read_all(output).await, b"hup\n");
    assert!(!control.signal(ProgramSignal::Hup), "it has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_printed_before_the_end_is_read() {
    let fixture = Fixture::new();
    let (ending, text) = fixture.open("seq 30000").await.end().await;
    assert_eq!(ending.exit, Some(Exit::Code(0)));
    let expected: String = (1..=30000).map(|number| format!("{number}\r\n")).collect();
    assert!(text == expected, "{} of {} bytes", text.len(), expected.len());
    // Read slowly, and only after the end.
    let mut screen = fixture.open("stty -onlcr; printf 'x%.0s' {1..3000}; exit 2").await;
    let supervised = &mut screen.supervision;
    let ending = tokio::time::timeout(LONG, supervised).await.unwrap().unwrap();
    assert_eq!(ending.exit, Some(Exit::Code(2)));
    assert_eq!(read_all(screen.output).await, vec![b'x'; 3000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_a_cancelled_terminal() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        let mut screen = fixture.open("exec bash --norc --noprofile -i").await;
        let jobs = format!(
            "M={}; sleep 300 & setsid sleep 301 & trap '' HUP TERM INT; (sleep 302; echo $M) & echo rea''dy\r",
            fixture.marker
        );
        screen.types(&jobs).await;
        screen.shows("ready").await;
        fixture.started(5).await;
        fixture.token.cancel();
        let (ending, _) = tokio::time::timeout(LONG, screen.end()).await.unwrap();
        assert_eq!((ending.cause, ending.survivors), (Cause::Cancelled, 0));
        assert_eq!(fixture.count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_shell_ends_the_terminal() {
    let fixture = Fixture::new();
    // The job holds the terminal and ignores that it is gone.
    let mut screen = fixture
        .open("(trap '' HUP; echo started; exec sleep 300) & read line; echo leaving")
        .await;
    screen.shows("started").await;
    screen.types("\r").await;
    let ended = tokio::time::timeout(Duration::from_secs(20), screen.end())
        .await
        .unwrap();
    assert_eq!(ended.0.exit, Some(Exit::Code(0)));
    assert_eq!(fixture.programs.left_by("a call").await.len(), 1);
    assert_eq!(fixture.programs.end_call("a call").await, 0);
    assert_eq!(fixture.count(), 0);
}
