//! The first minute with the program, in an empty home: rules to begin with, what a service says first, services side by side,
//! mistakes, and help and lists at a terminal of 80 columns.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

/// Longer than any command here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A person with an empty home and some folders.
struct Person(TempDir);

impl Person {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "one", "two"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn prepared<C: Prepare>(&self, folder: &str, mut command: C) -> C {
        command.prepare(&self.path("home"), &self.path(folder));
        command
    }

    fn command(&self, folder: &str, args: &[&str]) -> Command {
        let mut command = self.prepared(folder, Command::new(PROGRAM));
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, folder: &str, args: &[&str]) -> (i32, String, String) {
        ended(self.command(folder, args)).await
    }

    /// Starts a service in a folder, and waits until it listens: the service, and the file with what it says.
    async fn serve(&self, folder: &str, args: &[&str], vars: &[(&str, &str)]) -> (Child, PathBuf) {
        let said = self.path(&format!("said-{folder}"));
        let file = File::create(&said).unwrap();
        let mut command = self.command(folder, &[&["serve"], args].concat());
        let service = command.envs(vars.iter().copied()).stderr(file).spawn().unwrap();
        let listens = async || fs::read_to_string(&said).unwrap().contains("listening on ");
        eventually("the service listens", listens).await;
        (service, said)
    }

    /// Starts the program at a terminal of 80 columns.
    fn terminal(&self, folder: &str, args: &[&str], vars: &[(&str, &str)]) -> Pty {
        let mut command = std::process::Command::new("sh");
        let line = args
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" ");
        command.args(["-c", &format!("stty cols 80 rows 24; exec '{PROGRAM}' {line}")]);
        let mut command = self.prepared(folder, command);
        command.envs(vars.iter().copied());
        Pty::of(command)
    }
}

trait Prepare {
    fn prepare(&mut self, home: &Path, folder: &Path);
}

impl Prepare for Command {
    fn prepare(&mut self, home: &Path, folder: &Path) {
        self.as_std_mut().prepare(home, folder);
    }
}

impl Prepare for std::process::Command {
    fn prepare(&mut self, home: &Path, folder: &Path) {
        self.env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("SHELL", "/bin/bash")
            .env("TZ", "XYZ-5")
            .current_dir(folder);
    }
}

async fn ended(mut command: Command) -> (i32, String, String) {
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let Output { status, stdout, stderr } = output.expect("it ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn longest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn rules_to_begin_with_are_shown_and_written_once() {
    test(async {
        let person = Person::new();
        let rules = person.path("one/opencode.json");
        // Nobody agrees where nobody is asked.
        let (code, out, err) = person.run("one", &["init"]).await;
        assert_eq!((code, rules.exists()), (2, false), "{err}");
        for part in [
            "folder",
            "git",
            "sandbox",
            "language servers",
            "runtimes",
            "MCP clients",
            "\"bash\": \"ask\"",
        ] {
            assert!(out.contains(part), "{part}: {out}");
        }
        assert!(err.contains("--yes agrees to the change"), "{err}");

        for (key, code, is_written) in [("n", 3, false), ("y", 0, true)] {
            let mut terminal = person.terminal("one", &["init"], &[]);
            terminal.shows("Write ").await;
            terminal.shows("[y/N]").await;
            terminal.line(key).await;
            assert_eq!(terminal.ended().await, code);
            assert_eq!(rules.exists(), is_written, "{key}");
        }
        let written: Value = serde_json::from_str(&fs::read_to_string(&rules).unwrap()).unwrap();
        assert_eq!(written["permission"]["webfetch"], "ask", "{written}");

        // What is there is never touched.
        fs::write(&rules, "{}").unwrap();
        let (code, _, err) = person.run("one", &["init", "--yes"]).await;
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("is there already, so nothing was written"), "{err}");
        assert_eq!(fs::read_to_string(&rules).unwrap(), "{}");
        let (code, out, _) = person.run("one", &["init", "--yes", "--json", "../two"]).await;
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &told["written"]), (0, &json!(true)), "{told}");
        assert!(person.path("two/opencode.json").exists(), "{told}");
    });
}

#[test]
fn rules_to_begin_with_hold() {
    test(async {
        let person = Person::new();
        let (code, ..) = person.run("one", &["init", "--yes"]).await;
        assert_eq!(code, 0);
        for (file, text) in [(".env", "TOKEN=secret"), ("README.md", "hello")] {
            fs::write(person.path("one").join(file), text).unwrap();
        }
        let call = async |args: &[&str]| person.run("one", &[&["call"], args].concat()).await;
        let (code, out, err) = call(&["read", "filePath=.env"]).await;
        assert_eq!(code, 3, "{out} {err}");
        assert!(!out.contains("secret"), "{out}");
        let (code, out, err) = call(&["read", "filePath=README.md"]).await;
        assert!(code == 0 && out.contains("hello"), "{out} {err}");
        for asked in [
            &["bash", "command=touch made", "description=d"][..],
            &["write", "filePath=made", "content=x"],
        ] {
            let (code, _, err) = call(asked).await;
            assert_eq!(code, 3, "{asked:?}: {err}");
            assert!(err.contains("there is no terminal to ask on"), "{asked:?}: {err}");
        }
        assert!(!person.path("one/made").exists());
    });
}

#[test]
fn a_service_says_first_what_it_does_for_whom() {
    test(async {
        let person = Person::new();
        let (_service, said) = person.serve("one", &["--no-tcp"], &[]).await;
        let (code, _, err) = person.run("one", &["call", "glob", "pattern=*"]).await;
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("run by the service that already has this folder"), "{err}");
        let told = async || fs::read_to_string(&said).unwrap();
        eventually("the call is told of", async || {
            told().await.contains("the call has ended")
        })
        .await;
        let told = told().await;
        let mut rest = told.as_str();
        for part in [
            "workspace   default = ",
            "/one",
            "rules       only the built-in ones, which ask about .env files",
            "who         you alone, on this machine",
            "sandbox ",
            "console     off",
            "listening on unix:",
            "call{id=",
            "tool=glob",
            "outcome=\"completed\"",
        ] {
            let at = rest
                .find(part)
                .unwrap_or_else(|| panic!("{part:?} is not told, or too early:\n{told}"));
            rest = &rest[at..];
        }

        assert!(!told.contains("audit") && !told.contains("hash="), "{told}");

        // What is wrong is told below that.
        fs::write(
            person.path("two/opencode.json"),
            r#"{"permission": {"bash": {"*": "ask", "rm *": "deny"}}, "permision": {}}"#,
        )
        .unwrap();
        let data = person.path("data").display().to_string();
        let args = ["--listen", "127.0.0.1:0", "--console", "--data-dir", &data];
        let vars = [("TOOLGATE_LISTEN_TPC", "none")];
        let (_other, said) = person.serve("two", &args, &vars).await;
        let mut told = String::new();
        eventually("what is wrong is told", async || {
            told = fs::read_to_string(&said).unwrap();
            told.contains("permision") && told.contains("TOOLGATE_LISTEN_TPC")
        })
        .await;
        assert!(told.starts_with("workspace   default = "), "{told}");
        let console = told.find("the console is at").expect("it is told");
        assert!(told.find("WARN").is_some_and(|warning| console < warning), "{told}");
        assert!(told.contains("rules       bash ask, rm * deny\n"), "{told}");
        assert!(told.contains("the console is at http://127.0.0.1:"), "{told}");
    });
}

#[test]
fn services_side_by_side_are_told_apart() {
    test(async {
        let person = Person::new();
        let runtime = person.path("run");
        fs::create_dir(&runtime).unwrap();
        let vars = [("XDG_RUNTIME_DIR", runtime.to_str().unwrap())];
        let (first, said) = person.serve("one", &["--listen", "127.0.0.1:0"], &vars).await;
        let told = fs::read_to_string(said).unwrap();
        let address = told
            .split("listening on http://")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .to_owned();
        assert!(runtime.join("toolgate.sock").exists(), "{told}");

        let data = person.path("data").display().to_string();
        let refused = async |args: &[&str], parts: &[&str]| {
            let mut command = person.command("two", &[&["serve"], args].concat());
            command.envs(vars);
            let (code, _, err) = ended(command).await;
            assert_eq!(code, 5, "{err}");
            for part in parts {
                assert!(err.contains(part), "{part}: {err}");
            }
        };
        let pid = format!("process {}", first.id().unwrap());
        let folder = person.path("one").display().to_string();
        refused(
            &["--listen", "127.0.0.1:0"],
            &[&pid, &folder, "--data-dir DIR --listen 127.0.0.1:0"],
        )
        .await;
        let taken = ["--data-dir", &data, "--listen", &address];
        refused(
            &taken,
            &[&pid, &folder, &format!("cannot listen on {address}"), "--no-tcp"],
        )
        .await;
        let socket = runtime.join("toolgate.sock").display().to_string();
        let taken = ["--data-dir", &data, "--no-tcp", "--socket", &socket];
        refused(&taken, &[&pid, &folder, "--socket PATH"]).await;

        // With a data directory of its own, it has a socket of its own.
        let (_second, said) = person.serve("two", &["--no-tcp", "--data-dir", &data], &vars).await;
        let told = fs::read_to_string(said).unwrap();
        assert!(
            told.contains(&format!("listening on unix:{data}/toolgate.sock")),
            "{told}"
        );
        for name in ["one", "two"] {
            let mut command = person.command(name, &["call", "glob", "pattern=*"]);
            let (code, _, err) = ended({
                command.envs(vars);
                command
            })
            .await;
            assert_eq!(code, 0, "{err}");
            assert!(err.contains("run by the service that already has this folder"), "{err}");
        }
        let mut command = person.command("home", &["calls"]);
        command.envs(vars);
        let (code, out, err) = ended(command).await;
        assert_eq!(code, 0, "{err}");
        for part in ["FOLDER", "/one", "/two"] {
            assert!(out.contains(part), "{part}: {out}");
        }
        // A list is of the service of the folder, though the other one has the usual socket.
        let usual = format!("unix:{socket}");
        let other = format!("unix:{data}/toolgate.sock");
        for (folder, args, asked) in [
            ("one", &["workspaces"][..], &usual),
            ("two", &["workspaces"], &other),
            ("home", &["workspaces"], &usual),
            ("two", &["sessions"], &other),
            ("home", &["sessions", "--workspace", "../two"], &other),
            ("two", &["grants"], &other),
            ("two", &["health"], &other),
        ] {
            let mut command = person.command(folder, args);
            command.envs(vars);
            let (code, _, err) = ended(command).await;
            assert_eq!(code, 0, "{folder} {args:?}: {err}");
            let told = format!("{asked} is asked; --server names another");
            assert!(err.contains(&told), "{folder} {args:?}: {err}");
        }
        // Which one is meant cannot be guessed.
        let (code, _, err) = person.run("home", &["sessions"]).await;
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("/one") && err.contains("/two"), "{err}");
    });
}

#[test]
fn rules_that_cannot_be_used_are_told_of_where_they_matter() {
    test(async {
        let person = Person::new();
        let rules = person.path("one/opencode.json");
        fs::write(&rules, "{}").unwrap();
        let (_service, _) = person.serve("one", &["--no-tcp"], &[]).await;
        let (code, out, err) = person.run("one", &["workspaces"]).await;
        assert_eq!((code, out.matches(" ok\n").count()), (0, 1), "{out} {err}");
        fs::write(&rules, "{").unwrap();
        let told = "a changed file cannot be used, and the rules from before stay in force";
        eventually("the list tells of it", async || {
            let (code, out, err) = person.run("one", &["workspaces"]).await;
            code == 0 && out.contains("1 warning") && err.contains(&format!("default: {told}"))
        })
        .await;
        let (code, _, err) = person.run("one", &["call", "glob", "pattern=*"]).await;
        assert_eq!(code, 0, "{err}");
        assert!(err.contains(&format!("warning: {told}")), "{err}");
    });
}

#[test]
fn a_service_with_other_rules_is_not_used() {
    test(async {
        let person = Person::new();
        let (_service, _) = person.serve("one", &["--no-tcp"], &[]).await;
        let denies = [("OPENCODE_PERMISSION", r#"{"bash": {"touch *": "deny"}}"#)];
        let line = ["bash", "command=touch made", "description=d"];
        let mut command = person.command("one", &[&["call"], &line[..]].concat());
        command.envs(denies);
        let (code, _, err) = ended(command).await;
        assert_eq!(code, 3, "{err}");
        assert!(err.contains("was started with another OPENCODE_PERMISSION"), "{err}");
        assert!(!person.path("one/made").exists());
        for option in ["--wait", "--keep"] {
            let mut command = person.command("one", &[&["call", option], &line[..]].concat());
            command.envs(denies);
            let (code, _, err) = ended(command).await;
            assert_eq!(code, 2, "{err}");
            assert!(
                err.contains("OPENCODE_PERMISSION") && err.contains("--server unix:"),
                "{err}"
            );
        }
        let (code, _, err) = person.run("one", &[&["call", "--keep"], &line[..]].concat()).await;
        assert_eq!(code, 0, "{err}");
        assert!(person.path("one/made").exists());
    });
}

#[test]
fn mistakes_have_words_and_exit_codes() {
    test(async {
        let person = Person::new();
        let check = async |args: &[&str], expected: i32, part: &str| {
            let (code, out, err) = person.run("one", args).await;
            assert_eq!(code, expected, "{args:?}: {out} {err}");
            assert!(err.contains(part), "{args:?}: {err}");
            assert_eq!(err.matches("error:").count(), 1, "it is told once: {err}");
            assert_eq!(out, "", "{args:?}");
        };
        check(&["call", "gerp", "pattern=x"], 8, "did you mean `grep`?").await;
        check(&["tools", "gerp"], 8, "did you mean `grep`?").await;
        check(
            &["call", "grep", "patern=x"],
            2,
            "`patern` is unknown; `pattern` is required",
        )
        .await;
        check(&["call", "grep"], 2, "grep: `pattern` is required").await;
        check(&["call", "bash", "--input", "{}"], 2, "bash: `command` is required").await;
        check(&["call", "grep", "pattern"], 2, "write key=value").await;
        check(&["--server", "http://127.0.0.1:1", "calls"], 5, "toolgate serve").await;
        check(
            &["config", "--server", "http://127.0.0.1:1"],
            2,
            "cannot be used with `config`",
        )
        .await;
        let (_service, _) = person.serve("one", &["--no-tcp"], &[]).await;
        check(&["watch", "nothing"], 8, "nothing").await;
        check(&["cancel", "nothing"], 8, "nothing").await;
        check(&["grants", "nothing"], 8, "nothing").await;
        check(&["revert", "--server", "unix:/nowhere/s", "nothing"], 5, "/nowhere/s").await;
        check(&["send", "nothing", "x"], 8, "nothing").await;
    });
}

#[test]
fn help_fits_the_terminal_and_is_in_groups() {
    test(async {
        let person = Person::new();
        let shown = async |args: &[&str]| {
            let mut terminal = person.terminal("one", args, &[("NO_COLOR", "1")]);
            assert_eq!(terminal.ended().await, 0);
            let mut text = String::new();
            // The last of it may still be on its way.
            eventually("all is shown", async || {
                let now = terminal.screen();
                let is_all = now == text && now.contains("--help");
                text = now;
                is_all
            })
            .await;
            assert!(longest(&text) <= 80, "{text}");
            text
        };
        let help = shown(&["--help"]).await;
        for part in [
            "\nBegin:\n",
            "\nCalls:\n",
            "\nApprovals:\n",
            "\nOptions of every command:\n",
            "\nThe server:\n",
        ] {
            assert!(help.contains(part), "{part:?}: {help}");
        }
        for words in [&["call", "--help"][..], &["serve", "--help"], &["-h"]] {
            shown(words).await;
        }
        let (_, out, _) = person.run("one", &["config", "--help"]).await;
        assert!(out.contains("--config <FILE>") && !out.contains("--token"), "{out}");
        let (_, out, _) = person.run("one", &["calls", "--help"]).await;
        assert!(out.contains("--token-file"), "{out}");
    });
}

#[test]
fn lists_fit_the_terminal_and_tell_local_times() {
    test(async {
        let person = Person::new();
        let (_service, _) = person.serve("one", &["--no-tcp"], &[]).await;
        let title =
            "a title that is much longer than what is left of a line on such a terminal, whatever else is on it";
        let line = ["bash", "command=exit 7", &format!("description={title}")];
        let (code, _, err) = person
            .run("one", &[&["call", "--session", "s"], &line[..]].concat())
            .await;
        assert_eq!(code, 0, "{err}");
        let (_, out, _) = person.run("one", &["calls"]).await;
        for part in ["TOOK", "SESSION", "exit 7", title] {
            assert!(out.contains(part), "{part}: {out}");
        }
        let (_, in_utc, _) = person.run("one", &["calls", "--utc"]).await;
        let (_, json, _) = person.run("one", &["calls", "--json"]).await;
        let call: Value = serde_json::from_str(&json).unwrap();
        let created = call["createTime"].as_str().unwrap();
        assert!(in_utc.contains(&format!("{}Z", &created[..19])), "{in_utc}");
        let time: prost_types::Timestamp = created.parse().unwrap();
        let local = prost_types::Timestamp {
            seconds: time.seconds + 5 * 3600,
            nanos: 0,
        };
        let local = local.to_string().replace('T', " ").replace('Z', "");
        assert!(out.contains(&local), "{local}: {out}");

        let mut terminal = person.terminal("one", &["calls"], &[("NO_COLOR", "1")]);
        terminal.shows(call["callId"].as_str().unwrap()).await;
        assert_eq!(terminal.ended().await, 0);
        terminal.shows("…").await;
        assert!(longest(&terminal.screen()) <= 80, "{}", terminal.screen());
    });
}

#[test]
fn a_service_whose_log_nobody_reads_goes_on() {
    test(async {
        let person = Person::new();
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
        let socket = person.path("s");
        let args = ["serve", "--json", "--no-tcp", "--socket", socket.to_str().unwrap()];
        let mut command = person.command("one", &args);
        let mut service = command.stderr(writer).spawn().unwrap();
        // What is left open here would be a reader that might come.
        drop(command);
        eventually("it listens", async || socket.exists()).await;
        let url = format!("unix:{}", socket.display());
        for _ in 0..20 {
            let (code, _, err) = person
                .run("one", &["--server", &url, "call", "glob", "pattern=*"])
                .await;
            assert_eq!(code, 0, "{err}");
        }
        let calls = person.run("one", &["--server", &url, "--json", "calls"]).await;
        assert_eq!(calls.1.lines().count(), 20, "{calls:?}");
        // Once somebody reads, it says what is missing.
        let reading = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut { reader }, &mut text).map(|_| text)
        });
        let (code, ..) = person
            .run("one", &["--server", &url, "call", "glob", "pattern=*"])
            .await;
        assert_eq!(code, 0);
        let pid = i32::try_from(service.id().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(service.wait().await.unwrap().code(), Some(0));
        let said = reading.await.unwrap().unwrap();
        assert!(
            said.contains("messages of the log were dropped, because nobody took them"),
            "{said}"
        );
    });
}
