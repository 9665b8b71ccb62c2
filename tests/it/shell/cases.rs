//! The hostile commands: what each is to end with. `@` stands for the case's own number, a very long time in seconds.

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    /// By itself with this code, leaving this many processes.
    Exit(i64, Left),
    /// By a signal, leaving nothing.
    Signal,
    /// By its time limit, leaving nothing.
    Limit,
}

/// What goes on in the background.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    Count(usize),
    Some,
    Any,
}

/// What a command prints.
#[derive(Clone, Copy, Debug)]
pub(super) enum Prints {
    Just(&'static str),
    With(&'static str),
    Any,
}

pub(super) type Case = (&'static str, End, Prints);

use End::{Exit, Limit, Signal};
use Left::Count;
use Prints::{Just, With};

const OK: End = Exit(0, Count(0));
const LEAVES_ONE: End = Exit(0, Count(1));

pub(super) const CASES: &[Case] = &[
    // Plain ends.
    ("true", OK, Just("")),
    ("exit 77", Exit(77, Count(0)), Just("")),
    ("no-such-command-@", Exit(127, Count(0)), With("not found")),
    ("if", Exit(2, Count(0)), With("syntax error")),
    ("set -e; false; echo never", Exit(1, Count(0)), Just("")),
    ("kill -KILL $$", Signal, Just("")),
    ("kill -TERM $$", Signal, Just("")),
    ("exec echo replaced", OK, Just("replaced\n")),
    (
        "[ $$ = $(ps -o sid= -p $$) ] && [ $$ = $(ps -o pgid= -p $$) ]",
        OK,
        Just(""),
    ),
    // Left in the background.
    ("sleep @ & echo started", LEAVES_ONE, Just("started\n")),
    ("sleep @ & exit", LEAVES_ONE, Just("")),
    ("nohup sleep @ >/dev/null 2>&1 & echo ok", LEAVES_ONE, Just("ok\n")),
    ("setsid sleep @ & echo ok", LEAVES_ONE, Just("ok\n")),
    ("sleep @ & disown; echo ok", LEAVES_ONE, Just("ok\n")),
    ("(sleep @ &) ; echo ok", LEAVES_ONE, Just("ok\n")),
    ("(setsid sleep @ >/dev/null 2>&1 &) ; echo ok", LEAVES_ONE, Just("ok\n")),
    (
        "env -i setsid sleep @ >/dev/null 2>&1 </dev/null & echo ok",
        LEAVES_ONE,
        Just("ok\n"),
    ),
    (
        "(trap '' TERM HUP INT; sleep @; true) & echo ok",
        Exit(0, Left::Some),
        Just("ok\n"),
    ),
    // It goes on, although nobody listens to it any more.
    (
        "(while :; do echo noise; sleep 0.02; done) & echo first",
        Exit(0, Left::Some),
        With("first\n"),
    ),
    (
        "(while :; do echo @; done) & sleep 0.1; exit 3",
        Exit(3, Left::Some),
        With("@\n"),
    ),
    ("sleep @ >&2 & kill -STOP $!; echo ok", LEAVES_ONE, Just("ok\n")),
    (
        "for i in $(seq 100); do sleep @ & done; echo made",
        Exit(0, Count(64)),
        Just("made\n"),
    ),
    (
        "(sleep 0.3; echo late >> late-@) & echo early",
        Exit(0, Left::Any),
        Just("early\n"),
    ),
    ("coproc sleep @; echo ok", LEAVES_ONE, Just("ok\n")),
    (
        "unshare -pf sleep @ >/dev/null 2>&1 & echo ok",
        Exit(0, Left::Any),
        Just("ok\n"),
    ),
    (
        "python3 -c 'import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nos.closerange(0, 99)\n\
         os.execve(\"/bin/sleep\", [\"sleep\", \"@\"], {})'; sleep 0.3; echo ok",
        LEAVES_ONE,
        Just("ok\n"),
    ),
    // Standard input.
    ("cat", OK, Just("")),
    ("read x; echo \"[$x] $?\"", OK, Just("[] 1\n")),
    ("tty; test -t 0 || echo none", OK, Just("not a tty\nnone\n")),
    ("python3 -c 'print(input())'", Exit(1, Count(0)), With("EOFError")),
    // What is printed.
    ("printf 'a\\0b'", OK, Just("a\0b")),
    ("printf '\\xff\\xfe|'", OK, Just("\u{fffd}\u{fffd}|")),
    ("printf '\\xe2\\x82'; sleep 0.05; printf '\\xac'", OK, Just("€")),
    ("printf 'no newline'", OK, Just("no newline")),
    ("echo err >&2", OK, Just("err\n")),
    (
        "echo 1; sleep 0.05; echo 2 >&2; sleep 0.05; echo 3",
        OK,
        Just("1\n2\n3\n"),
    ),
    (
        "printf 'a\\rb\\033[31mred\\033[0m\\n'",
        OK,
        Just("a\rb\u{1b}[31mred\u{1b}[0m\n"),
    ),
    ("LC_ALL=C printf '%s' ü", OK, Just("ü")),
    ("yes | head -n 2", OK, Just("y\ny\n")),
    (
        "set -o pipefail; yes | head -n 1 >/dev/null; echo $?",
        OK,
        Just("141\n"),
    ),
    (
        "head -c 1000000 /dev/zero | tr '\\0' x",
        OK,
        With("1000000 bytes truncated"),
    ),
    ("seq 200000; echo tail-@", OK, With("1\n2\n3\n")),
    ("exec >&- 2>&-; sleep 0.2; exit 4", Exit(4, Count(0)), Just("")),
    // Descriptors, limits, sizes.
    ("ls /proc/self/fd | tr '\\n' ' '", OK, Just("0 1 2 3 ")),
    ("exec 3<>/dev/null; echo ok >&3; echo done", OK, Just("done\n")),
    ("ulimit -n 64; ulimit -n", OK, Just("64\n")),
    ("printf '%.0sx' $(seq 100000) | wc -c", OK, Just("100000\n")),
    (
        "export BIG=$(printf '%.0sx' $(seq 100000)); /bin/true; echo $?",
        OK,
        Just("0\n"),
    ),
    (
        "python3 -c 'x = bytearray(50_000_000); print(len(x))'",
        OK,
        Just("50000000\n"),
    ),
    ("mkdir d-@ && cd d-@ && rmdir ../d-@ && echo alive", OK, Just("alive\n")),
    // Signals and jobs.
    ("trap 'echo bye' EXIT; echo hi", OK, Just("hi\nbye\n")),
    (
        "trap 'echo term' TERM; kill -TERM $$; echo after",
        OK,
        Just("term\nafter\n"),
    ),
    ("trap '' HUP; kill -HUP $$; echo after", OK, Just("after\n")),
    ("trap 'exit 9' INT; kill -INT $$; sleep 1", Exit(9, Count(0)), Just("")),
    ("sleep 0.1 & wait; echo waited", OK, Just("waited\n")),
    ("(exit 5) & wait $!; echo $?", OK, Just("5\n")),
    (
        "coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo got $x",
        Exit(0, Left::Any),
        Just("got hi\n"),
    ),
    ("cat <(echo one) <(echo two)", OK, Just("one\ntwo\n")),
    ("echo x > >(cat); sleep 0.2", OK, Just("x\n")),
    ("for i in $(seq 500); do true & done; wait; echo all", OK, Just("all\n")),
    ("timeout 0.1 sleep @", Exit(124, Count(0)), Just("")),
    (
        "python3 -c 'import pty; pty.spawn([\"echo\", \"in a pty\"])'",
        OK,
        With("in a pty"),
    ),
    (
        "python3 -c 'import os,time\nfor i in range(50):\n if os.fork() == 0: os._exit(0)\nprint(\"made\")'",
        OK,
        Just("made\n"),
    ),
    (
        "python3 -c 'import threading,time\nfor i in range(20): threading.Thread(target=time.sleep, args=(0.1,)).start()'",
        OK,
        Just(""),
    ),
    // Ended by the time limit.
    ("sleep @", Limit, Prints::Any),
    ("exec sleep @", Limit, Prints::Any),
    ("trap '' TERM; sleep @; sleep @", Limit, Prints::Any),
    ("trap '' TERM INT HUP; while :; do sleep 0.01; done", Limit, Prints::Any),
    ("while :; do :; done", Limit, Prints::Any),
    ("while :; do echo @; done", Limit, With("@\n")),
    ("sleep @ & kill -STOP $!; sleep @", Limit, Prints::Any),
    ("kill -STOP $$", Limit, Prints::Any),
    ("sleep @ & kill -STOP $$", Limit, Prints::Any),
    (
        "setsid bash -c \"trap '' TERM; sleep @; sleep @\" & sleep @",
        Limit,
        Prints::Any,
    ),
    (
        "(env -i setsid sleep @ >/dev/null 2>&1 &) ; sleep @",
        Limit,
        Prints::Any,
    ),
    ("mkfifo f-@; cat f-@", Limit, Prints::Any),
    ("sleep @ | sleep @ | sleep @", Limit, Prints::Any),
    ("bash -c 'sleep @ & sleep @ & wait' & wait", Limit, Prints::Any),
    ("coproc sleep @; wait", Limit, Prints::Any),
    ("tail -f /dev/null", Limit, Prints::Any),
    ("while :; do setsid sleep 0.05 & sleep 0.01; done", Limit, Prints::Any),
    (
        "trap 'sleep @ & exit 3' TERM; while :; do sleep 0.01; done",
        Limit,
        Prints::Any,
    ),
    (
        "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep @; }; f 6",
        Limit,
        Prints::Any,
    ),
    (
        "python3 -c 'import signal,time; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(@)'",
        Limit,
        Prints::Any,
    ),
    (
        "python3 -c 'import pty; pty.spawn([\"sleep\", \"@\"])'",
        Limit,
        Prints::Any,
    ),
];
