//! The tool, run with a real shell and a person who is played.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_model::{Ask, JsonMap, Model, OutputText};
use toolgate_permission::Refusal;
use toolgate_process::{Environment, Programs, Settings};
use toolgate_tool::Tool;
use toolgate_tool::testing::Fakes;

use super::input::MAX_COMMAND_BYTES;
use super::report::Preview;
use super::*;

struct Fixture {
    tool: Bash,
    fakes: Fakes,
    ctx: ToolContext,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fakes = Fakes::default();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work/src")).unwrap();
        std::fs::write(folder.path().join("work/file"), "x").unwrap();
        let environment: Environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let programs = Programs::new(&environment, Settings::default()).unwrap();
        let workspace = Workspace::open("main", &folder.path().join("work"), None).unwrap();
        let ctx = fakes.context(Arc::new(workspace), CancellationToken::new());
        Self {
            tool: Bash::new(Shell::new(programs, None), Duration::from_secs(120), (2000, 51_200)),
            fakes,
            ctx,
            folder,
        }
    }

    /// Makes one where the person refuses everything.
    fn refusing() -> Self {
        let fixture = Self::new();
        *fixture.fakes.permission.refused.lock() = Some("*".to_owned());
        fixture
    }

    async fn call(&self, mut input: Value) -> Result<ToolOutput, ToolError> {
        input["description"] = json!("Says hi");
        self.tool.call(input, &self.ctx).await
    }

    fn asks(&self) -> Vec<Ask> {
        self.fakes.permission.asks.lock().clone()
    }

    fn progress(&self) -> Vec<JsonMap> {
        self.fakes.output.progress.lock().clone()
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&self.fakes.output.written.lock()).into_owned()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.fakes.has_only_asked_for_permissions());
        }
    }
}

#[tokio::test]
async fn runs_a_command() {
    let fixture = Fixture::new();
    let result = fixture.call(json!({"command": "echo hi; exit 3"})).await.unwrap();
    assert_eq!((&*result.title, &result.output), ("Says hi", &OutputText::Stored));
    assert_eq!(
        Value::Object(result.metadata),
        json!({"output": "hi\n", "exit": 3, "description": "Says hi", "sandbox": {"mode": "off"}})
    );
    assert_eq!(fixture.output(), "hi\n");
    let asks = fixture.asks();
    let progress = fixture.progress();
    assert_eq!(
        Value::Object(progress[0].clone()),
        json!({"output": "", "description": "Says hi"})
    );
    assert_eq!(asks.len(), 1);
    assert_eq!(asks[0].permission, "bash");
    assert_eq!(asks[0].patterns, ["echo hi", "exit 3"]);
    assert_eq!(asks[0].always, ["echo *", "exit *"]);
    let parts: Vec<&str> = asks[0].parts.iter().map(|part| &*part.text).collect();
    assert_eq!(parts, ["echo hi", "exit 3"]);
}

#[tokio::test]
async fn silence_and_signals() {
    let fixture = Fixture::new();
    let result = fixture.call(json!({"command": "kill -9 $$"})).await.unwrap();
    assert_eq!(result.output, OutputText::default());
    assert_eq!(result.metadata["exit"], Value::Null);
}

#[tokio::test]
async fn asks_by_commands() {
    let check = async |command: &str, patterns: &[&str], always: &[&str], unclear: usize| {
        let fixture = Fixture::new();
        fixture.call(json!({"command": command})).await.unwrap();
        let asks = fixture.asks();
        let asks: Vec<&Ask> = asks.iter().filter(|ask| ask.permission == "bash").collect();
        assert_eq!(asks.len(), usize::from(!patterns.is_empty()), "{command:?}");
        for ask in asks {
            assert_eq!(ask.patterns, patterns, "{command:?}");
            assert_eq!(ask.always, always, "{command:?}");
            let doubts = ask.parts.iter().filter(|part| part.unclear.is_some());
            assert_eq!(doubts.count(), unclear, "{command:?}");
        }
    };
    check("true", &["true"], &["true *"], 0).await;
    check("echo *", &["echo *"], &["echo *"], 0).await;
    check("./fil?", &["./fil?"], &[], 1).await;
    check("  ", &[], &[], 0).await;
    check("# nothing", &[], &[], 0).await;
    check("cd src", &[], &[], 0).await;
    check("cd src && pwd", &["pwd"], &["pwd *"], 0).await;
    check("cd src && pwd &&", &["pwd"], &["pwd *"], 1).await;
    check("eval true", &["eval true"], &[], 1).await;
    check("cd \"$(true)", &["true"], &["true *"], 1).await;
}

#[tokio::test]
async fn asks_once_for_all_outside_directories() {
    let check = async |command: &str, workdir: &str, expected: &[&str]| {
        let fixture = Fixture::refusing();
        let root = fixture.folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("out/deep")).unwrap();
        std::os::unix::fs::symlink("../out", root.join("work/link")).unwrap();
        let command = command.replace("OUT", &root.join("out").to_string_lossy());
        let result = fixture.call(json!({"command": command, "workdir": workdir})).await;
        assert!(result.is_err(), "{command}");
        let asks = fixture.asks();
        let expected: Vec<String> = expected
            .iter()
            .map(|folder| format!("{}/{folder}", root.display()))
            .collect();
        let outside = asks.iter().find(|ask| ask.permission == "external_directory");
        assert_eq!(
            outside.map(|ask| ask.patterns.clone()).unwrap_or_default(),
            expected,
            "{command}"
        );
        assert_eq!(
            outside.map(|ask| ask.always.clone()).unwrap_or_default(),
            expected,
            "{command}"
        );
    };
    check("ls; rm file", "", &[]).await;
    check("rm OUT/x", "", &["out/*"]).await;
    check("cp OUT/x OUT/deep/", "", &["out/*", "out/deep/*"]).await;
    check("rm OUT/x", "..", &["out/*", "*"]).await;
    check("touch link/new", "", &["out/*"]).await;
    check("echo > link/new", "", &["out/*"]).await;
    check("cd link && rm x", "", &["out/*"]).await;
    check("cd .. ; cat out/x", "", &["*", "out/*"]).await;
    check("ls OUT 2>/dev/null", "", &[]).await;
    check("echo x | tee OUT/f", "", &["out/*"]).await;
    check("rm link/../x", "", &["*"]).await;
    check("rm link/deep/../x", "", &["out/*"]).await;
    check("rm src/../x gone/../x", "", &[]).await;
    check("cd link && rm ../x", "", &["out/*", "*"]).await;
    check("rm ../x", "link", &["*", "out/*"]).await;
    check("echo > link/../made", "", &["*"]).await;
    check("cat <> OUT/new", "", &["out/*"]).await;
    check("> OUT/new rm OUT/deep/x", "", &["out/*", "out/deep/*"]).await;
    check("{ cat OUT/deep/x; } > OUT/new", "", &["out/deep/*", "out/*"]).await;
    check("rm OUT/x", "../out/deep", &["out/*", "out/deep/*"]).await;
}

#[tokio::test]
async fn a_path_that_moves_while_a_person_is_asked_stops_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (folder.path().to_path_buf(), folder.path().join("elsewhere"));
    std::fs::create_dir(&elsewhere).unwrap();
    let check = async |input: Value| {
        let work = Arc::new(Mutex::new(None::<std::path::PathBuf>));
        let (known, target) = (Arc::clone(&work), elsewhere.clone());
        let fixture = Fixture::new();
        *fixture.fakes.permission.on_ask.lock() = Some(Box::new(move |ask| {
            let work = known.lock().clone().unwrap();
            if ask.permission == "bash" && std::fs::remove_dir(work.join("target")).is_ok() {
                std::os::unix::fs::symlink(&target, work.join("target")).unwrap();
            }
        }));
        let root = fixture.ctx.workspace.directory().to_path_buf();
        std::fs::create_dir(root.join("target")).unwrap();
        *work.lock() = Some(root);
        let error = fixture.call(input.clone()).await.unwrap_err().to_string();
        assert!(error.contains("nothing was run"), "{input}: {error}");
    };
    check(json!({"command": "touch target/made"})).await;
    check(json!({"command": "touch made", "workdir": "target"})).await;
    check(json!({"command": "echo > target/made"})).await;
    assert_eq!(std::fs::read_dir(root.join("elsewhere")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_refused_command_does_not_run() {
    let fixture = Fixture::refusing();
    let result = fixture.call(json!({"command": "touch made"})).await;
    assert!(matches!(result, Err(ToolError::Refused(Refusal::Rejected))));
    assert!(!fixture.folder.path().join("work/made").exists());
    assert!(fixture.fakes.output.progress.lock().is_empty());
}

#[tokio::test]
async fn refuses_bad_arguments_before_asking() {
    let check = async |input: Value, expected: &str| {
        let fixture = Fixture::new();
        let text = fixture.call(input.clone()).await.unwrap_err().to_string();
        assert!(text.contains(expected), "{input}: {text}");
        assert!(fixture.fakes.permission.asks.lock().is_empty(), "{input}");
    };
    check(
        json!({"command": "a", "timeout": -5}),
        "Invalid timeout value: -5. Timeout must be a positive number.",
    )
    .await;
    check(json!({"command": "a", "timeout": -0.5}), "Invalid timeout value: -0.5.").await;
    check(json!({"command": ""}), "empty").await;
    check(json!({"command": "a\0b"}), "NUL byte").await;
    check(json!({"command": "a".repeat(MAX_COMMAND_BYTES + 1)}), "131072 bytes").await;
    check(json!({"command": "a", "workdir": "nope"}), "nope").await;
    check(json!({"command": "a", "workdir": "file"}), "not a directory").await;
    check(json!({"command": "a", "workdir": "~"}), "~").await;
}

#[tokio::test]
async fn runs_the_longest_command() {
    let fixture = Fixture::new();
    let command = format!("exit 4{}", " ".repeat(MAX_COMMAND_BYTES - "exit 4".len()));
    assert_eq!(
        fixture.call(json!({"command": command})).await.unwrap().metadata["exit"],
        4
    );
}

#[tokio::test]
async fn works_in_the_given_directory() {
    let fixture = Fixture::new();
    let root = fixture.folder.path().join("work");
    for (workdir, expected) in [
        (json!(""), root.clone()),
        (json!("src"), root.join("src")),
        (json!(root.join("src/../src")), root.join("src")),
    ] {
        fixture.fakes.output.written.lock().clear();
        fixture
            .call(json!({"command": "pwd", "workdir": workdir}))
            .await
            .unwrap();
        assert_eq!(fixture.output(), format!("{}\n", expected.display()));
    }
}

#[tokio::test]
async fn asks_for_an_outside_directory_first() {
    let fixture = Fixture::new();
    fixture.call(json!({"command": "pwd", "workdir": ".."})).await.unwrap();
    let asks = fixture.asks();
    let asked: Vec<&str> = asks.iter().map(|ask| &*ask.permission).collect();
    assert_eq!(asked, ["external_directory", "bash"]);
}

#[tokio::test]
async fn the_time_limit_is_told() {
    let fixture = Fixture::new();
    let result = fixture
        .call(json!({"command": "echo start; sleep 1000; echo end", "timeout": 3000}))
        .await
        .unwrap();
    let expected = "start\n\n\n<bash_metadata>\n\
                    bash tool terminated command after exceeding timeout 3000 ms\n</bash_metadata>";
    assert_eq!(fixture.output(), expected);
    assert_eq!(result.metadata["output"], expected);
    assert_eq!(result.metadata["exit"], Value::Null);
}

#[tokio::test]
async fn closed_pipes_do_not_end_a_command() {
    let fixture = Fixture::new();
    let result = fixture
        .call(json!({"command": "exec >&- 2>&-; sleep 0.2; exit 7"}))
        .await
        .unwrap();
    assert_eq!(result.metadata["exit"], 7);
}

#[tokio::test]
async fn a_cancelled_command_keeps_its_output() {
    let fixture = Fixture::new();
    let cancel = async {
        fixture.fakes.output.appeared.notified().await;
        fixture.ctx.cancelled.cancel();
    };
    let (result, ()) = tokio::join!(fixture.call(json!({"command": "echo start; sleep 1000"})), cancel);
    assert!(matches!(result, Err(ToolError::Cancelled)));
    let expected = "start\n\n\n<bash_metadata>\nUser aborted the command\n</bash_metadata>";
    assert_eq!(fixture.output(), expected);
    let progress = fixture.progress();
    assert_eq!(progress.last().unwrap()["output"], "start\n");
}

#[tokio::test]
async fn a_flood_is_stored_whole_and_seldom_announced() {
    let fixture = Fixture::new();
    let result = fixture.call(json!({"command": "seq 1 300000"})).await.unwrap();
    let text = fixture.output();
    assert!(text.starts_with("1\n2\n") && text.ends_with("299999\n300000\n"));
    let shown = result.metadata["output"].as_str().unwrap();
    assert_eq!(shown.len(), 30_000 + "\n\n...".len());
    assert!(shown.ends_with("\n\n..."));
    assert!(fixture.fakes.output.progress.lock().len() <= 3);
}

#[test]
fn a_preview_counts_utf16_and_is_announced_with_measure() {
    let start = Instant::now();
    let mut preview = Preview::new(start);
    assert_eq!(preview.due(), None);
    preview.push(b"ab\xff");
    assert_eq!(preview.due(), Some(start + Preview::MIN_INTERVAL));
    assert_eq!(preview.publish(start), "ab\u{fffd}");
    preview.push(&[b'x'; 100]);
    preview.publish(start);
    preview.push(b"y");
    assert_eq!(preview.due(), Some(start + Preview::MAX_DELAY));
    preview.push("😀".repeat(20_000).as_bytes());
    assert_eq!(preview.units, 30_000);
    assert_eq!(preview.due(), Some(start + Preview::MIN_INTERVAL));
    assert!(preview.publish(start).ends_with("😀\n\n..."));
    preview.push(b"more");
    assert_eq!(preview.due(), None);
}

#[test]
fn limits_are_bounded() {
    let check = |given: Option<f64>, expected: Option<Duration>| {
        let limit = Limit::new(given, Duration::from_secs(120));
        assert_eq!(limit.ok().map(|limit| limit.time), expected, "{given:?}");
    };
    check(None, Some(Duration::from_millis(120_100)));
    check(Some(0.0), Some(Duration::from_millis(100)));
    check(Some(0.5), Some(Duration::from_micros(100_500)));
    check(Some(1e300), Some(Duration::from_millis(2_147_483_647)));
    check(Some(-1.0), None);
}

#[test]
fn describes_itself() {
    let fixture = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(async { Fixture::new() });
    let model = Model::default();
    let offer = Offer {
        workspace: &fixture.ctx.workspace,
        agent: "build",
        model: &model,
        client: "cli",
        rights: None,
    };
    let definition = fixture.tool.definition(&offer);
    for part in [
        "2000 lines",
        "51200 bytes",
        "120000",
        &*fixture.folder.path().to_string_lossy(),
    ] {
        assert!(definition.description.contains(part), "{part}");
    }
    assert!(!definition.description.contains('{'));
    assert_eq!(definition.input_schema["required"], json!(["command", "description"]));
    assert_eq!(definition.input_schema["properties"]["timeout"]["type"], "number");
}
