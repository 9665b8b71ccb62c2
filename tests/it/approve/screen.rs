//! `toolgate approve` on a whole screen: what a person sees of it, and what their keys do.
//!
//! Pictures of the screen are kept in `pictures`; `TOOLGATE_UPDATE_DOCS=1` writes them anew.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use regex::Regex;
use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;
use toolgate_contract::*;

use super::{ask, asks, decided, grants, ran};
use crate::support::*;

/// Somebody who looks at the screen.
struct Person {
    pty: Pty,
    columns: u16,
    rows: u16,
}

const ENTER: char = '\r';
const ESCAPE: char = '\x1b';

impl Person {
    fn at(server: &Server, name: &str) -> Self {
        Self::with(server, name, &[])
    }

    /// Sits down with these variables in their environment.
    fn with(server: &Server, name: &str, variables: &[(&str, &str)]) -> Self {
        let url = format!("unix:{}", server.folder().join("s").display());
        Self::started(&["approve", "--server", &url, "--name", name], variables)
    }

    /// Starts the program with these arguments and variables.
    fn started(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command
            .args(args)
            .env_clear()
            .env("HOME", "/nowhere")
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(variables.iter().copied());
        let (columns, rows) = (80, 24);
        Self {
            pty: Pty::sized(command, columns, rows),
            columns,
            rows,
        }
    }

    fn picture(&self) -> String {
        let emulator = self.pty.emulated(self.columns, self.rows);
        let lines = emulator.screen().visible_lines();
        let rows: Vec<String> = lines.map(|line| line.text().trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Says whether what was drawn last is there to its end, where the cursor is hidden or has its place.
    fn is_whole(&self) -> bool {
        let end = Regex::new("\x1b\\[\\?25(l|h\x1b\\[[0-9;]*H)$").unwrap();
        end.is_match(&self.pty.raw())
    }

    async fn sees(&self, text: &str) {
        let what = format!("{text:?} on the screen");
        let found = async {
            eventually(&what, async || self.is_whole() && self.picture().contains(text)).await;
        };
        found.await;
    }

    async fn no_longer_sees(&self, text: &str) {
        eventually("it is gone from the screen", async || !self.picture().contains(text)).await;
    }

    /// Waits until the keys at the foot are alight: what is shown takes keys.
    async fn may_press(&self) {
        eventually("the prompt takes keys", async || {
            if !self.is_whole() {
                return false;
            }
            let emulator = self.pty.emulated(self.columns, self.rows);
            let lines: Vec<_> = emulator.screen().visible_lines().collect();
            let last = lines.iter().rposition(|line| !line.text().trim().is_empty());
            let key = last.and_then(|last| lines[last].cells().first().map(|cell| cell.pen().is_bold()));
            key == Some(true)
        })
        .await;
    }

    async fn presses(&mut self, keys: &str) {
        self.may_press().await;
        self.pty.press_now_all(keys);
    }

    /// Makes the terminal another size, and waits until all of it is drawn anew.
    async fn resize(&mut self, columns: u16, rows: u16) {
        let before = self.pty.raw().len();
        (self.columns, self.rows) = (columns, rows);
        self.pty.resize(columns, rows);
        eventually("the screen is drawn anew", async || {
            let raw = self.pty.raw();
            raw[before..].contains("\x1b[2J") && self.is_whole() && self.picture().contains("q leave")
        })
        .await;
    }

    /// Returns what is shown when nothing changes any more.
    async fn settled(&self) -> String {
        let mut last = self.picture();
        eventually("the screen stands still", async || {
            sleep(Duration::from_millis(50)).await;
            let now = self.picture();
            let is_still = now == last;
            last = now;
            is_still
        })
        .await;
        last
    }

    /// Compares what is shown with the picture that is kept.
    async fn check(&self, name: &str, server: &Server) {
        let picture = self.settled().await;
        let work = fs::canonicalize(server.work()).unwrap();
        let picture = picture.replace(work.to_str().unwrap(), "/w");
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/it/approve/pictures")
            .join(name);
        let file = file.with_extension("txt");
        if std::env::var_os("TOOLGATE_UPDATE_DOCS").is_some() {
            fs::write(&file, format!("{picture}\n")).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            picture,
            kept.trim_end(),
            "{name}: TOOLGATE_UPDATE_DOCS=1 writes it anew\n{picture}"
        );
    }

    /// Waits for the end of the program; the terminal is as it was before.
    async fn left(mut self) -> i32 {
        let code = self.pty.ended().await;
        assert!(
            !self.pty.raw().contains("\x1b[6n"),
            "not every terminal says where the cursor is"
        );
        assert!(!self.pty.waits_for_key(), "the terminal reads lines again");
        eventually("the other page is left", async || {
            let raw = self.pty.raw();
            ["\x1b[?1049l", "\x1b[?2004l", "\x1b[?25h"]
                .iter()
                .all(|off| raw.contains(off))
        })
        .await;
        code
    }
}

#[test]
fn a_prompt_fills_the_screen_and_is_answered() {
    test(async {
        let server = Server::with(asks()).await;
        let mut ann = Person::at(&server, "ann");
        ann.sees("No open prompts").await;
        let (stream, prompt) = ask(&server, "one", bash("ls && echo one")).await;
        ann.sees("$ ls && echo one").await;
        ann.may_press().await;
        ann.check("command", &server).await;
        ann.resize(40, 24).await;
        ann.sees("$ ls && echo one").await;
        ann.check("command-40", &server).await;
        ann.resize(80, 24).await;
        ann.presses("o").await;
        ann.sees("allowed once: bash").await;
        match end_of(&collect(stream).await.unwrap()) {
            call::Ending::Completed(end) => assert!(end.output.contains("one"), "{}", end.output),
            other => panic!("{other:?}"),
        }
        assert_eq!(
            decided(&server, &prompt).await,
            (PromptDecision::Once, "ann".to_owned())
        );
        ann.pty.press_now('h');
        ann.sees("allowed once by ann").await;
        ann.pty.press_now('q');
        assert_eq!(ann.left().await, 0);
    });
}

#[test]
fn an_edit_is_rejected_with_a_message() {
    test(async {
        let server = Server::with(asks()).await;
        let mut ann = Person::at(&server, "ann");
        fs::write(server.work().join("f"), "one\ntwo\n").unwrap();
        let read = in_session("s-edit", request("read", json!({ "filePath": "f" })));
        server.execute(read).await.unwrap();
        let edit = json!({ "filePath": "f", "oldString": "two", "newString": "three" });
        let (stream, _) = ask(&server, "edit", request("edit", edit)).await;
        ann.sees("+three").await;
        ann.may_press().await;
        ann.check("edit", &server).await;
        ann.presses("m").await;
        ann.sees("What should the model be told?").await;
        ann.pty.press_now_all("use four");
        ann.sees("> use four").await;
        ann.pty.press_now(ENTER);
        match end_of(&collect(stream).await.unwrap()) {
            call::Ending::Failed(failed) => assert!(failed.error.contains("use four"), "{}", failed.error),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn always_is_unfolded_and_takes_a_second_key_for_good() {
    test(async {
        let server = Server::with(asks()).await;
        let mut ann = Person::at(&server, "ann");
        let (stream, _) = ask(&server, "a", bash("printf a; git push origin main")).await;
        ann.sees("git push origin main").await;
        ann.presses("a").await;
        ann.sees("from now on what matches").await;
        ann.check("always", &server).await;
        ann.pty.press_now('f');
        ann.sees("For good means").await;
        assert_eq!(grants(&server).await, []);
        ann.pty.press_now('y');
        collect(stream).await.unwrap();
        let made = grants(&server).await;
        let made: Vec<_> = made
            .iter()
            .map(|grant| (grant.pattern.as_str(), grant.scope.unwrap().reach()))
            .collect();
        assert_eq!(
            made,
            [("git push *", GrantReach::Workspace)],
            "the broad one was not chosen"
        );
    });
}

#[test]
fn two_people_see_what_the_other_decides() {
    test(async {
        let server = Server::with(asks()).await;
        let (mut ann, mut bob) = (Person::at(&server, "ann"), Person::at(&server, "bob"));
        let (_, _) = ask(&server, "one", bash("echo one")).await;
        let (_, _) = ask(&server, "two", bash("echo two")).await;
        for person in [&ann, &bob] {
            person.sees("1 of 2").await;
        }
        // What Ann has begun is void when Bob decides.
        ann.presses("m").await;
        ann.sees("What should the model be told?").await;
        ann.pty.press_now_all("no, o");
        ann.sees("> no, o").await;
        bob.presses("o").await;
        ann.sees("allowed once by bob").await;
        ann.sees("What you had begun was not sent.").await;
        ann.pty.press_now_all("ooo");
        ann.presses("\r").await;
        ann.no_longer_sees("What you had begun").await;
        ann.sees("$ echo two").await;
        ann.presses("r").await;
        bob.sees("rejected by ann").await;
        bob.sees("No open prompts").await;
        bob.pty.press_now('h');
        bob.sees("the last decisions").await;
        for decision in ["bash echo one: allowed once by bob", "bash echo two: rejected by ann"] {
            bob.sees(decision).await;
        }
    });
}

#[test]
fn questions_have_numbers() {
    test(async {
        let server = Server::with(asks()).await;
        let mut ann = Person::at(&server, "ann");
        let options = [("tabs", "one byte"), ("spaces", "many")];
        let options = options.map(|(label, description)| json!({"label": label, "description": description}));
        let question = json!({"questions": [
            {"header": "Indent", "question": "Tabs or spaces?", "options": options},
            {"header": "Name", "question": "What is it called?", "options": []},
        ]});
        let (stream, prompt) = ask(&server, "question", request("question", question)).await;
        ann.sees("Tabs or spaces?").await;
        ann.may_press().await;
        ann.check("question", &server).await;
        ann.presses("2\r").await;
        ann.sees("What is it called?").await;
        ann.pty.press_now_all("Toolgate");
        ann.sees("> Toolgate").await;
        ann.pty.press_now(ENTER);
        assert_eq!(decided(&server, &prompt).await.0, PromptDecision::Answer);
        match end_of(&collect(stream).await.unwrap()) {
            call::Ending::Completed(end) => {
                assert!(
                    end.output.contains("spaces") && end.output.contains("Toolgate"),
                    "{}",
                    end.output
                );
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_command_is_edited_in_place_and_in_an_editor() {
    test(async {
        let server = Server::with(asks()).await;
        let editor = server.folder().join("editor");
        fs::write(&editor, "#!/bin/sh\nprintf 'echo edited >> ran\\n' > \"$2\"\n").unwrap();
        let named = format!("sh {} --wait", editor.display());
        let mut ann = Person::with(&server, "ann", &[("EDITOR", &named)]);
        let (stream, _) = ask(&server, "one", bash("echo one >> ran")).await;
        ann.sees("$ echo one >> ran").await;
        ann.presses("e").await;
        ann.sees("What runs instead").await;
        ann.pty.press_now_all("; echo two >> ran");
        ann.sees("> echo one >> ran; echo two >> ran").await;
        ann.pty.press_now(ENTER);
        collect(stream).await.unwrap();
        assert_eq!(ran(&server), ["one", "two"]);

        let (stream, _) = ask(&server, "two", bash("echo three >> ran")).await;
        ann.sees("$ echo three >> ran").await;
        ann.presses("E").await;
        ann.sees("> echo edited >> ran").await;
        ann.presses("\r").await;
        collect(stream).await.unwrap();
        assert_eq!(ran(&server), ["edited", "one", "two"]);
    });
}

#[test]
fn nothing_that_is_asked_moves_the_cursor() {
    test(async {
        let server = Server::with(asks()).await;
        let ann = Person::at(&server, "ann");
        let command = "echo \u{1b}]0;title\u{7} \u{1b}[2J \u{202e}txet \u{9b}31m; echo \u{e0041}end";
        let (_, _) = ask(&server, "one", bash(command)).await;
        ann.sees("\\u{1b}]0;title\\u{7}").await;
        ann.sees("\\u{e0041}end").await;
        let raw = ann.pty.raw();
        for sequence in ["\u{1b}]0;", "\u{7}", "\u{202e}", "\u{9b}", "\u{e0041}"] {
            assert!(!raw.contains(sequence), "{sequence:?}");
        }
    });
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    test(async {
        let server = Server::with(asks()).await;
        let (_, _) = ask(&server, "one", bash("echo one")).await;
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let ann = Person::at(&server, "ann");
            ann.sees("$ echo one").await;
            ann.pty.signal(signal);
            assert_eq!(ann.left().await, 130, "{signal:?}");
        }
        let mut ann = Person::at(&server, "ann");
        ann.sees("$ echo one").await;
        ann.presses("m").await;
        ann.sees("What should the model be told?").await;
        ann.pty.press_now('\x03');
        assert_eq!(ann.left().await, 130);
        let mut ann = Person::at(&server, "ann");
        ann.sees("$ echo one").await;
        ann.presses("?").await;
        ann.sees("what the keys do").await;
        ann.pty.press_now(ESCAPE);
        ann.sees("$ echo one").await;
        ann.presses("q").await;
        assert_eq!(ann.left().await, 0);
    });
}

#[test]
fn a_service_that_was_lost_comes_back() {
    test(async {
        let mut server = Server::with(asks()).await;
        let mut ann = Person::at(&server, "ann");
        let (_, _) = ask(&server, "one", bash("echo one >> ran")).await;
        ann.sees("$ echo one >> ran").await;
        server.kill9().await;
        ann.sees("reconnecting").await;
        ann.no_longer_sees("$ echo one").await;
        server.restart().await;
        ann.sees("connected again as ann").await;
        ann.sees("$ echo one >> ran").await;
        ann.presses("o").await;
        eventually("it has run", async || ran(&server) == ["one"]).await;
        // The log is told below the screen, not over it.
        ann.pty.press_now('q');
        assert_eq!(ann.left().await, 0);
    });
}

#[test]
fn rules_that_cannot_be_used_are_told_as_long_as_it_is_so() {
    test(async {
        let server = Server::with(asks()).await;
        let ann = Person::at(&server, "ann");
        ann.sees("No open prompts").await;
        let rules = server.work().join("opencode.json");
        fs::write(&rules, "{").unwrap();
        ann.sees("! default: a changed file cannot be used, and the rules from before")
            .await;
        ann.sees("opencode.json").await;
        fs::write(&rules, "{}").unwrap();
        ann.no_longer_sees("! default").await;
    });
}

#[test]
fn several_services_are_answered_on_one_screen() {
    test(async {
        let first = Server::with(asks()).await;
        let home = first.folder().join("home").display().to_string();
        let mut second = Server::with(asks().env("HOME", &home)).await;
        let mut ann = Person::started(&["approve", "--name", "ann"], &[("HOME", &home)]);
        ann.sees("2 services").await;
        let (_, one) = ask(&first, "one", bash("echo one >> ran")).await;
        let (_, two) = ask(&second, "two", bash("echo two >> ran")).await;
        ann.sees("1 of 2").await;
        ann.presses("o").await;
        ann.sees(" 1 open prompt").await;
        ann.presses("o").await;
        for (server, prompt) in [(&first, &one), (&second, &two)] {
            assert_eq!(decided(server, prompt).await, (PromptDecision::Once, "ann".to_owned()));
        }
        // One that is started meanwhile is found, and one that is gone is not waited for.
        let third = Server::with(asks().env("HOME", &home)).await;
        ann.sees("3 services").await;
        second.kill9().await;
        ann.sees("· 2 services").await;
        let (_, three) = ask(&third, "three", bash("echo three >> ran")).await;
        ann.sees("$ echo three").await;
        ann.presses("r").await;
        assert_eq!(decided(&third, &three).await.0, PromptDecision::Reject);
        ann.pty.press_now('q');
        assert_eq!(ann.left().await, 0);
    });
}

#[test]
fn who_leaves_at_once_has_decided() {
    test(async {
        let server = Server::with(asks()).await;
        let mut ann = Person::at(&server, "ann");
        let (stream, prompt) = ask(&server, "one", bash("echo one >> ran")).await;
        ann.sees("$ echo one").await;
        ann.presses("oq").await;
        assert_eq!(ann.left().await, 0);
        collect(stream).await.unwrap();
        assert_eq!(decided(&server, &prompt).await.0, PromptDecision::Once);
    });
}

#[test]
fn without_colours_and_without_a_screen() {
    test(async {
        let server = Server::with(asks()).await;
        let ann = Person::with(&server, "ann", &[("NO_COLOR", "1")]);
        let (_, _) = ask(&server, "one", bash("ls; git push")).await;
        ann.sees("$ ls; git push").await;
        ann.may_press().await;
        let raw = ann.pty.raw();
        let colour = Regex::new("\x1b\\[([34]8[;:][0-9;:]*|[34][0-7])m").unwrap();
        assert!(!colour.is_match(&raw), "{raw:?}");
        // A terminal that says nothing of its size is asked line by line, and so is one whose output goes elsewhere.
        let url = format!("unix:{}", server.folder().join("s").display());
        let mut bob = Pty::start(&["approve", "--server", &url, "--name", "bob"]);
        bob.shows("[o]nce").await;
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!(
                "{} approve --server {url} --name cat | cat",
                env!("CARGO_BIN_EXE_toolgate")
            ),
        ]);
        let mut piped = Pty::sized(command, 80, 24);
        piped.shows("[o]nce").await;
    });
}
