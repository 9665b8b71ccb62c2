//! Commands in a terminal: what they see, what clients see of them, what reaches them, their end; and `toolgate attach`.

use serde_json::{Value, json};
use tonic::{Code, Status, Streaming};
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

/// A call whose command runs in a terminal of 80 columns and 24 rows.
fn terminal(command: &str) -> Value {
    json!({"command": command, "description": "a test", "terminal": {"columns": 80, "rows": 24}})
}

fn size(columns: i32, rows: i32) -> TerminalSize {
    TerminalSize { columns, rows }
}

/// Starts a command in a terminal and returns the id of its call.
async fn start(server: &Server, id: &str, command: &str) -> String {
    let request = kept(id, request("background", terminal(command)));
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    next_such(&mut stream, |event| matches!(event, Event::Running(_))).await;
    id.to_owned()
}

/// What a call has printed, as far as it was watched.
struct Printed {
    stream: Streaming<WatchCallResponse>,
    text: String,
}

impl Printed {
    async fn of(server: &Server, call: &str) -> Self {
        let request = watch_request(call, 0, OutputMode::Full);
        Self {
            stream: server.tools().watch_call(request).await.unwrap().into_inner(),
            text: String::new(),
        }
    }

    async fn shows(&mut self, wanted: &str) {
        while !self.text.contains(wanted) {
            let response = self.stream.message().await.unwrap();
            match response.map(|response| response.event.unwrap().event.unwrap()) {
                Some(Event::Output(output)) => self.text += &String::from_utf8_lossy(&output.data),
                Some(Event::Completed(_) | Event::Failed(_)) | None => panic!("{wanted:?} is not in {:?}", self.text),
                Some(_) => {}
            }
        }
    }

    async fn end(mut self) -> call::Ending {
        let mut events = Vec::new();
        while let Some(response) = self.stream.message().await.unwrap() {
            events.extend(response.event);
        }
        end_of(&events)
    }
}

fn exit_of(ending: &call::Ending) -> Value {
    match ending {
        call::Ending::Completed(result) => json_of(result.metadata.as_ref().unwrap())["exit"].clone(),
        call::Ending::Failed(failed) => panic!("{failed:?}"),
    }
}

async fn types(server: &Server, call: &str, keys: &str) {
    let asked = SendInputRequest {
        call_id: call.to_owned(),
        ..Default::default()
    };
    let offset = server.tools().send_input(asked).await.unwrap().into_inner().next_offset;
    let sent = SendInputRequest {
        call_id: call.to_owned(),
        offset,
        data: keys.as_bytes().to_vec().into(),
        close: false,
    };
    server.tools().send_input(sent).await.unwrap();
}

async fn resize(server: &Server, call: &str, size: TerminalSize) -> Result<(), Status> {
    let request = ResizeTerminalRequest {
        call_id: call.to_owned(),
        size: Some(size),
    };
    server.tools().resize_terminal(request).await.map(drop)
}

async fn signal(server: &Server, call: &str, signal: Signal) -> Result<(), Status> {
    let request = SignalCallRequest {
        call_id: call.to_owned(),
        signal: signal.into(),
    };
    server.tools().signal_call(request).await.map(drop)
}

async fn look(server: &Server, call: &str) -> Result<GetTerminalResponse, Status> {
    let request = GetTerminalRequest {
        call_id: call.to_owned(),
    };
    Ok(server.tools().get_terminal(request).await?.into_inner())
}

/// The rows that a terminal shows which is given these bytes, without what is blank at their ends.
fn drawn(size: TerminalSize, output: &[u8]) -> Vec<String> {
    let mut emulator = avt::Terminal::new(size.columns as usize, size.rows as usize).unwrap();
    emulator.feed(&*String::from_utf8_lossy(output));
    let lines = emulator.screen().visible_lines();
    lines.map(|line| line.text().trim_end().to_owned()).collect()
}

#[test]
fn a_command_in_the_background_is_given_a_terminal() {
    test(async {
        let mut server = Server::start().await;
        let mut input = terminal("stty size; echo $TERM; test -t 0 && test -t 1 && test -t 2 && echo tty; cat; exit 3");
        input["background"] = json!(true);
        let events = server.execute(kept("maker", request("bash", input))).await.unwrap();
        let child = events.iter().find_map(|event| match &event.event {
            Some(Event::Child(child)) => Some(child.call_id.clone()),
            _ => None,
        });
        let id = child.unwrap();
        let mut printed = Printed::of(&server, &id).await;
        printed.shows("24 80\r\nxterm-256color\r\ntty\r\n").await;
        types(&server, &id, "typed\r").await;
        // Once as it is typed, once by the command.
        printed.shows("typed\r\ntyped\r\n").await;

        let record = server.get(&id).await;
        assert_eq!((record.terminal, record.accepts_input), (Some(size(80, 24)), true));
        let stored: Value = serde_json::from_str(&record.input_json).unwrap();
        assert_eq!(
            stored["terminal"],
            json!({"columns": 80, "rows": 24}),
            "it is part of what is digested"
        );
        types(&server, &id, "\x04").await;
        let end = printed.end().await;
        assert_eq!(exit_of(&end), 3.0);
        let record = server.get(&id).await;
        assert_eq!((record.terminal, record.accepts_input), (None, false));
        for refusal in [
            resize(&server, &id, size(80, 24)).await,
            signal(&server, &id, Signal::Int).await,
            look(&server, &id).await.map(drop),
        ] {
            refused(refusal, Code::FailedPrecondition, "CALL_ENDED");
        }
        server.stop().await;
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    test(async {
        let server = Server::start().await;
        let call = server.run("bash", terminal("true")).await;
        let failure = failed(&call);
        assert_eq!(failure.reason(), FailureReason::ToolError);
        assert!(failure.error.contains("add background: true"), "{}", failure.error);
        for (columns, rows) in [(0, 24), (501, 24), (80, 0), (80, 201), (-1, 5)] {
            let mut input = terminal("true");
            input["background"] = json!(true);
            input["terminal"] = json!({"columns": columns, "rows": rows});
            let call = server.run("bash", input).await;
            assert_eq!(
                failed(&call).reason(),
                FailureReason::InvalidArguments,
                "{columns} {rows}"
            );
        }
        // For front ends: models are not told.
        let tools = server.tools().list_tools(ListToolsRequest::default()).await.unwrap();
        let bash = tools.into_inner().tools.into_iter().find(|tool| tool.name == "bash");
        let schema = bash.unwrap().input_schema_json;
        assert!(
            schema.contains("background") && !schema.contains("terminal"),
            "{schema}"
        );

        let id = start(&server, "one", "cat").await;
        Printed::of(&server, &id).await;
        for (columns, rows) in [(0, 24), (501, 24), (80, 0), (80, 201), (-1, 5)] {
            let refusal = resize(&server, &id, size(columns, rows)).await;
            refused(refusal, Code::InvalidArgument, "INVALID_FIELD");
        }
        let refusal = signal(&server, &id, Signal::Unspecified).await;
        refused(refusal, Code::InvalidArgument, "INVALID_FIELD");
        for refusal in [
            resize(&server, "none", size(80, 24)).await,
            signal(&server, "none", Signal::Int).await,
            look(&server, "none").await.map(drop),
        ] {
            refused(refusal, Code::NotFound, "NOT_FOUND");
        }
        let mut stream = server
            .tools()
            .execute_tool(kept("plain", bash_sleeping()))
            .await
            .unwrap()
            .into_inner();
        next_such(&mut stream, is_output).await;
        for refusal in [
            resize(&server, "plain", size(80, 24)).await,
            look(&server, "plain").await.map(drop),
        ] {
            refused(refusal, Code::FailedPrecondition, "NO_TERMINAL");
        }
        refused(
            signal(&server, "plain", Signal::Int).await,
            Code::FailedPrecondition,
            "NO_PROGRAM",
        );
    });
}

fn bash_sleeping() -> ExecuteToolRequest {
    bash("echo ready; sleep 86421")
}

#[test]
fn a_size_reaches_the_programs_before_and_after_they_begin() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let command = "stty size; trap 'stty size' WINCH; echo ready; while read x; do :; done";
        let call = kept("asked", request("background", terminal(command)));
        let evaluated = EvaluateCallRequest {
            context: None,
            tool: "background".to_owned(),
            arguments: Some(evaluate_call_request::Arguments::InputJson(
                terminal(command).to_string(),
            )),
        };
        let mut stream = server.tools().execute_tool(call).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        let Some(prompt::Request::Permission(asked)) = &prompt.request else {
            panic!("{prompt:?}")
        };
        let shown = json_of(asked.metadata.as_ref().unwrap());
        assert_eq!(shown["terminal"], "80 x 24, input may follow");
        let foreseen = server
            .tools()
            .evaluate_call(evaluated)
            .await
            .unwrap()
            .into_inner()
            .evaluation
            .unwrap();
        let Some(evaluated_request::Request::Permission(foreseen)) = &foreseen.requests[0].request else {
            panic!("{foreseen:?}")
        };
        assert_eq!(foreseen.metadata, asked.metadata);

        refused(
            signal(&server, "asked", Signal::Int).await,
            Code::FailedPrecondition,
            "NO_PROGRAM",
        );
        assert_eq!(look(&server, "asked").await.unwrap().size, Some(size(80, 24)));
        resize(&server, "asked", size(100, 30)).await.unwrap();
        assert_eq!(server.get("asked").await.terminal, Some(size(100, 30)));
        let request = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Once)),
            name: String::new(),
        };
        server.permissions().reply_prompt(request).await.unwrap();
        let mut printed = Printed::of(&server, "asked").await;
        printed.shows("30 100\r\nready").await;
        resize(&server, "asked", size(7, 5)).await.unwrap();
        types(&server, "asked", "\r").await;
        printed.shows("5 7").await;
        assert_eq!(look(&server, "asked").await.unwrap().size, Some(size(7, 5)));
        types(&server, "asked", "\x04").await;
        printed.end().await;
    });
}

#[test]
fn signals_arrive_by_name() {
    test(async {
        let server = Server::start().await;
        let command = "for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo <$s>\" $s; done; echo ready; \
                       while :; do sleep 0.02; done";
        let signals = [
            (Signal::Int, "<INT>"),
            (Signal::Term, "<TERM>"),
            (Signal::Hup, "<HUP>"),
            (Signal::Quit, "<QUIT>"),
            (Signal::Usr1, "<USR1>"),
            (Signal::Usr2, "<USR2>"),
        ];
        let mut piped = terminal(command);
        piped.as_object_mut().unwrap().remove("terminal");
        for (id, input) in [("terminal", terminal(command)), ("pipes", piped)] {
            let request = kept(id, request("background", input));
            let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
            next_such(&mut stream, |event| matches!(event, Event::Running(_))).await;
            let mut printed = Printed::of(&server, id).await;
            printed.shows("ready").await;
            for (which, shown) in signals {
                signal(&server, id, which).await.unwrap();
                printed.shows(shown).await;
            }
        }
        refused(
            resize(&server, "pipes", size(80, 24)).await,
            Code::FailedPrecondition,
            "NO_TERMINAL",
        );
    });
}

#[test]
fn who_comes_back_sees_the_same_screen() {
    test(async {
        let secret = "something-long-and-secret";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, secret).unwrap();
        let server = Server::with(Setup::default().env("TOOLGATE_REDACT_FILES", &file.display().to_string())).await;
        let program = "
import curses, sys
def main(screen):
    curses.start_color()
    curses.init_pair(1, curses.COLOR_RED, curses.COLOR_BLUE)
    screen.addstr(3, 10, 'coloured', curses.color_pair(1) | curses.A_BOLD)
    screen.addstr(7, 20, 'wide \\u65e5\\u672c')
    screen.addstr(9, 2, 'something-long-' + 'and-secret')
    screen.border()
    screen.move(5, 6)
    screen.refresh()
    while True:
        key = screen.getkey()
        screen.addstr(12, 12, 'key ' + key)
        screen.refresh()
        if key == 'q':
            break
curses.wrapper(main)
";
        std::fs::write(server.work().join("draw.py"), program).unwrap();
        let command =
            "printf 'before\\r\\n\\033]0;A title\\007'; export LANG=C.UTF-8; python3 draw.py; echo after; cat";
        let id = start(&server, "drawn", command).await;
        let mut printed = Printed::of(&server, &id).await;
        let mut picture = GetTerminalResponse::default();
        eventually("it is drawn", async || {
            picture = look(&server, &id).await.unwrap();
            let rows = drawn(size(80, 24), &picture.contents);
            rows.iter().any(|row| row.contains("[redacted]")) && (picture.cursor_column, picture.cursor_row) == (6, 5)
        })
        .await;
        assert_eq!((picture.title.as_str(), picture.size), ("A title", Some(size(80, 24))));
        let contents = String::from_utf8_lossy(&picture.contents).into_owned();
        assert!(!contents.contains(secret));

        // From here on two see the same: who has watched from the beginning, and who begins with the picture.
        types(&server, &id, "x").await;
        printed.shows("key ").await;
        let follow = async |picture: &GetTerminalResponse, wanted: &str| {
            let request = watch_request(&id, picture.last_sequence, OutputMode::Full);
            let mut stream = server.tools().watch_call(request).await.unwrap().into_inner();
            let mut all = picture.contents.to_vec();
            let mut at = picture.output_offset;
            while !String::from_utf8_lossy(&all[picture.contents.len()..]).contains(wanted) {
                let event = stream.message().await.unwrap().unwrap().event.unwrap().event.unwrap();
                if let Event::Output(output) = event {
                    let known = usize::try_from(at - output.offset).unwrap_or(0);
                    all.extend_from_slice(output.data.get(known..).unwrap_or_default());
                    at = at.max(output.offset + output.data.len() as i64);
                }
            }
            all
        };
        let late = follow(&picture, "key ").await;
        let early = drawn(size(80, 24), printed.text.as_bytes());
        assert_eq!(drawn(size(80, 24), &late), early);
        assert!(early.iter().any(|row| row.contains("key x")), "{early:#?}");
        assert!(early[7].contains("\u{65e5}\u{672c}"), "{early:#?}");

        // The screen behind it comes back for both.
        let picture = look(&server, &id).await.unwrap();
        types(&server, &id, "q").await;
        printed.shows("after").await;
        let late = drawn(size(80, 24), &follow(&picture, "after").await);
        assert_eq!(late, drawn(size(80, 24), printed.text.as_bytes()));
        assert_eq!((late[0].as_str(), late[1].as_str()), ("before", "after"), "{late:#?}");
        types(&server, &id, "\x04").await;
        printed.end().await;
    });
}

#[test]
fn nothing_is_left_of_it() {
    test(async {
        let mut server = Server::with(Setup::default().env("TOOLGATE_DRAIN_GRACE", "200ms")).await;
        let id = start(&server, "shell", "exec bash --norc --noprofile -i").await;
        let mut printed = Printed::of(&server, &id).await;
        types(
            &server,
            &id,
            "sleep 86422 & (trap '' HUP TERM; sleep 86422; sleep 86422) & echo rea''dy\r",
        )
        .await;
        printed.shows("ready").await;
        let ended = server.cancel(&id).await;
        assert_eq!(failed(&ended).reason(), FailureReason::Cancelled);
        assert_eq!(processes("86422"), Vec::<u32>::new());

        let id = start(&server, "last", "sleep 86423").await;
        Printed::of(&server, &id).await;
        server.stop().await;
        assert_eq!(processes("86423"), Vec::<u32>::new());
    });
}

#[test]
fn a_terminal_is_confined_as_any_command_is() {
    test(async {
        let setup = Setup::permission(json!("allow")).env("TOOLGATE_SANDBOX_MODE", "workspace-write");
        let server = Server::with(setup).await;
        let command = "echo to-stderr > /dev/stderr; echo to-tty > /dev/tty; stty size < /dev/tty; \
                       echo x > $(tty) && echo own; echo inside > f && cat f; \
                       python3 -c 'open(\"/etc/outside\", \"w\")' || echo refused; \
                       python3 -c 'import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b\"x\")' || echo no-typing";
        let id = start(&server, "confined", command).await;
        let mut printed = Printed::of(&server, &id).await;
        for wanted in ["to-stderr", "to-tty", "24 80", "own", "inside", "refused", "no-typing"] {
            printed.shows(wanted).await;
        }
        printed.end().await;
    });
}

fn attach(server: &Server, call: &str) -> Pty {
    let url = format!("unix:{}", server.folder().join("s").display());
    Pty::start(&["attach", "--server", &url, call])
}

#[test]
fn attach_shows_types_resizes_and_leaves() {
    test(async {
        let server = Server::start().await;
        let command =
            "echo early; trap 'stty size' WINCH; while read -r line; do echo \"<$line>\"; done; echo over; exit 4";
        let id = start(&server, "shell", command).await;
        Printed::of(&server, &id).await.shows("early").await;
        let mut person = attach(&server, &id);
        person.shows("early").await;
        eventually("every key is read", async || person.waits_for_key()).await;
        person.press_now_all("one\r");
        person.shows("<one>").await;
        person.resize(66, 11);
        eventually("the size has arrived", async || {
            server.get(&id).await.terminal == Some(size(66, 11))
        })
        .await;
        person.press_now_all("\r");
        person.shows("11 66").await;
        // Somebody else types in between.
        types(&server, &id, "other\r").await;
        person.shows("<other>").await;
        person.press_now_all("two\r\x1d");
        person.shows("detached; the command keeps running: shell").await;
        assert_eq!(person.ended().await, 0);
        assert!(!person.waits_for_key(), "the terminal is as it was");

        let mut again = attach(&server, &id);
        again.shows("<two>").await;
        eventually("every key is read", async || again.waits_for_key()).await;
        again.press_now_all("\x04");
        again.shows("over").await;
        again.shows("the command has ended: shell").await;
        assert_eq!(again.ended().await, 0);
        assert!(!again.waits_for_key());
        let mut late = attach(&server, &id);
        late.shows("has ended").await;
        assert_eq!(late.ended().await, 9);
        let (code, _, told) = server.cli(&["attach", &id]).await;
        assert_eq!((code, told.contains("attach needs a terminal")), (2, true), "{told}");
    });
}

#[test]
fn attach_puts_the_terminal_back_however_it_ends() {
    test(async {
        let mut server = Server::with(Setup::default().env("TOOLGATE_DRAIN_GRACE", "200ms")).await;
        let id = start(&server, "shell", "echo ready; cat").await;
        let mut person = attach(&server, &id);
        person.shows("ready").await;
        eventually("every key is read", async || person.waits_for_key()).await;
        person.signal(rustix::process::Signal::TERM);
        person.shows("interrupted; the command keeps running").await;
        assert_eq!(person.ended().await, 130);
        assert!(!person.waits_for_key());

        let mut person = attach(&server, &id);
        person.shows("ready").await;
        server.stop().await;
        person.shows("the call failed (").await;
        assert_eq!(person.ended().await, 4);
        assert!(!person.waits_for_key());
    });
}
