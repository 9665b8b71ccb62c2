//! Hooks and tools that come and go, with hooks of this process: what plugins and hosts build on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use toolgate_engine::Engine;
use toolgate_model::{
    Ask, CallRecord, Claims, Definition, EndReason, Ending, Model, OnDisconnect, Outcome, OutputText, RawInput, Source,
    SourceState, ToolOutput,
};
use toolgate_tool::{
    Catalog, Contribution, Hook, HookError, HookPoint, Offer, Properties, Tool, ToolContext, ToolError,
};

use crate::support::*;

/// A tool with a schema of run time: it asks for `echo`, and returns its input and the variables for commands.
struct Echo(&'static str);

#[async_trait]
impl Tool for Echo {
    fn name(&self) -> &str {
        self.0
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
    }

    fn definition(&self, _: &Offer<'_>) -> Definition {
        Definition {
            name: self.0.to_owned(),
            title: String::new(),
            description: "says it again".to_owned(),
            input_schema: self.input_schema(),
            source: Source::Custom,
            effects: Vec::new(),
            permissions: Vec::new(),
            experimental: false,
            advertised: true,
            claims: Claims::default(),
        }
    }

    fn example(&self) -> &str {
        r#"{"text": "x"}"#
    }

    fn properties(&self) -> Properties {
        match self.0 {
            LOOK => Properties::ONLY_LOOKS,
            _ => Properties::NONE,
        }
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        ctx.permission
            .ask(Ask::new("doom_loop", vec!["echo".to_owned()]))
            .await?;
        let variables = ctx.hooks.shell_environment(Path::new("/")).await?;
        Ok(ToolOutput {
            output: OutputText::Text(format!("{input} {}", json!(variables))),
            ..ToolOutput::default()
        })
    }
}

/// One whose calls run before they are recorded.
const LOOK: &str = "look";

type Answer = Box<dyn Fn(&Value, Value) -> Result<Value, HookError> + Send + Sync>;

/// A hook made of functions; none for a point means that it is silent there for ever.
#[derive(Default)]
struct Made {
    answers: BTreeMap<&'static str, Option<Answer>>,
    seen: Mutex<Vec<(HookPoint, Value)>>,
}

impl Made {
    fn at(
        mut self,
        point: HookPoint,
        answer: impl Fn(&Value, Value) -> Result<Value, HookError> + Send + Sync + 'static,
    ) -> Self {
        self.answers.insert(point.as_str(), Some(Box::new(answer)));
        self
    }

    fn silent_at(mut self, point: HookPoint) -> Self {
        self.answers.insert(point.as_str(), None);
        self
    }
}

#[async_trait]
impl Hook for Made {
    fn name(&self) -> &str {
        "made"
    }

    fn handles(&self, point: HookPoint) -> bool {
        self.answers.contains_key(point.as_str())
    }

    async fn run(&self, point: HookPoint, input: Value, output: Value) -> Result<Value, HookError> {
        self.seen.lock().unwrap().push((point, input.clone()));
        match &self.answers[point.as_str()] {
            Some(answer) => answer(&input, output),
            None => std::future::pending().await,
        }
    }
}

fn refused(text: &str) -> Result<Value, HookError> {
    Err(HookError::Refused(text.to_owned()))
}

fn catalog(inside: &Inside) -> Arc<Catalog> {
    inside.engine.catalogs().all()[0].tools.clone()
}

fn offer(inside: &Inside, tools: &[&'static str], hooks: Vec<Made>) {
    let contribution = Contribution {
        tools: tools.iter().map(|name| Arc::new(Echo(name)) as Arc<dyn Tool>).collect(),
        hooks: hooks.into_iter().map(|hook| Arc::new(hook) as Arc<dyn Hook>).collect(),
    };
    assert!(catalog(inside).offer(Source::Custom, "test", contribution).is_empty());
}

async fn run(engine: &Arc<Engine>, id: &str, tool: &str, input: &str) -> CallRecord {
    let mut call = Inside::call(id, OnDisconnect::Keep);
    call.tool = tool.to_owned();
    call.id_is_new = tool == LOOK;
    call.input = RawInput::Json(input.to_owned());
    let started = engine.start(call).await.unwrap();
    for _ in 0..2000 {
        let record = engine.get(&started.id).await.unwrap().unwrap();
        if record.ending.is_some() {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the call {id} does not end");
}

fn text(record: &CallRecord) -> &str {
    match &record.ending.as_ref().unwrap().outcome {
        Outcome::Completed { output } => output,
        Outcome::Failed { error, .. } => error,
    }
}

fn failed(record: &CallRecord) -> Option<EndReason> {
    match record.ending.as_ref().unwrap().outcome {
        Outcome::Completed { .. } => None,
        Outcome::Failed { reason, .. } => Some(reason),
    }
}

fn allowing() -> Made {
    Made::default().at(HookPoint::PermissionAsk, |_, _| Ok(json!({"status": "allow"})))
}

#[test]
fn what_a_hook_makes_of_arguments_is_checked_shown_and_run() {
    test(async {
        let inside = Inside::new();
        let rewrite = allowing()
            .at(HookPoint::ExecuteBefore, |input, output| {
                match output["args"]["text"].as_str() {
                    Some("refuse") => refused("not this"),
                    Some("break") => Ok(json!({"args": {"text": 5, "more": null}})),
                    Some("keep") => Ok(json!("nothing that has arguments")),
                    _ => Ok(json!({"args": {"text": format!("{} by {}", output["args"]["text"], input["tool"])}})),
                }
            })
            .at(HookPoint::ShellEnvironment, |_, mut output| {
                output["env"]["NAME"] = json!("value");
                Ok(output)
            });
        let second = Made::default().at(HookPoint::ExecuteBefore, |_, mut output| {
            output["args"]["text"] = json!(format!("{}!", output["args"]["text"].as_str().unwrap_or("-")));
            Ok(output)
        });
        offer(&inside, &["echo"], vec![rewrite, second]);
        let engine = &inside.engine;
        let record = run(engine, "a", "echo", r#"{"text": "x"}"#).await;
        assert_eq!(record.input_json, r#"{"text":"\"x\" by \"echo\"!"}"#);
        assert_eq!(text(&record), r#"{"text":"\"x\" by \"echo\"!"} {"NAME":"value"}"#);
        let record = run(engine, "b", "echo", r#"{"text": "refuse"}"#).await;
        assert_eq!(
            (failed(&record), text(&record)),
            (Some(EndReason::ToolError), "not this")
        );
        let record = run(engine, "c", "echo", r#"{"text": "keep"}"#).await;
        assert_eq!(failed(&record), None, "{}", text(&record));
        assert!(text(&record).starts_with(r#"{"text":"keep!"}"#), "{}", text(&record));
        // The second hook makes a text of the number.
        let record = run(engine, "d", "echo", r#"{"text": "break"}"#).await;
        assert_eq!(failed(&record), None, "{}", text(&record));
        // What cannot be understood passes as well.
        let record = run(engine, "e", "nothing", "{}").await;
        assert_eq!(record.tool, "invalid");
    });
}

#[test]
fn arguments_that_do_not_fit_after_a_hook_never_run() {
    test(async {
        let inside = Inside::new();
        let breaking = allowing().at(HookPoint::ExecuteBefore, |_, _| Ok(json!({"args": {"text": ["no"]}})));
        offer(&inside, &["echo"], vec![breaking]);
        let record = run(&inside.engine, "a", "echo", r#"{"text": "x"}"#).await;
        assert_eq!(failed(&record), Some(EndReason::InvalidArguments), "{}", text(&record));
    });
}

#[test]
fn arguments_that_no_model_could_have_written_never_run() {
    test(async {
        let inside = Inside::new();
        let breaking = allowing().at(HookPoint::ExecuteBefore, |_, output| {
            let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
            match output["args"]["text"].as_str() {
                Some("deep") => Ok(json!({"args": {"text": "x", "more": deep}})),
                _ => Ok(json!({"args": {"text": "x".repeat(2000)}})),
            }
        });
        offer(&inside, &["echo"], vec![breaking]);
        for (id, why) in [("deep", "nested deeper"), ("large", "bytes")] {
            let record = run(&inside.engine, id, "echo", &json!({ "text": id }).to_string()).await;
            assert_eq!(failed(&record), Some(EndReason::ToolError));
            assert!(text(&record).contains(why), "{}", text(&record));
            assert_eq!(record.input_json, json!({ "text": id }).to_string());
        }
    });
}

#[test]
fn what_a_hook_makes_of_a_result_is_cut_like_any_other() {
    test(async {
        let inside = Inside::new();
        let longer = allowing().at(HookPoint::ExecuteAfter, |input, mut output| {
            assert_eq!(
                input["callID"].as_str().unwrap().split_once('-').unwrap().0,
                input["tool"]
            );
            match input["args"]["text"].as_str() {
                Some("long") => output["output"] = json!("line\n".repeat(5000)),
                Some("refuse") => return refused("not this result"),
                _ => output = json!({"title": "told", "output": "short", "metadata": {"a": 1}}),
            }
            Ok(output)
        });
        offer(&inside, &["echo", LOOK], vec![longer]);
        let engine = &inside.engine;
        for tool in ["echo", LOOK] {
            let id = |name: &str| format!("{tool}-{name}");
            let record = run(engine, &id("a"), tool, r#"{"text": "x"}"#).await;
            let Ending { title, metadata, .. } = record.ending.as_ref().unwrap();
            assert_eq!((text(&record), title.as_str()), ("short", "told"));
            assert_eq!(metadata["a"], json!(1));
            let record = run(engine, &id("b"), tool, r#"{"text": "long"}"#).await;
            let ending = record.ending.as_ref().unwrap();
            assert!(
                ending.truncation.truncated && text(&record).contains("truncated..."),
                "{}",
                text(&record)
            );
            let whole = inside.engine.get(&record.id).await.unwrap().unwrap();
            assert!(whole.ending.unwrap().truncation.path.is_some());
            let record = run(engine, &id("c"), tool, r#"{"text": "refuse"}"#).await;
            assert_eq!(
                (failed(&record), text(&record)),
                (Some(EndReason::ToolError), "not this result")
            );
        }
    });
}

#[test]
fn a_hook_answers_only_what_would_be_asked() {
    test(async {
        let inside = Inside::new();
        let deny = Made::default().at(HookPoint::PermissionAsk, |input, _| {
            assert_eq!(input["permission"], json!("doom_loop"));
            Ok(json!({"status": "deny"}))
        });
        let engine = &inside.engine;
        offer(&inside, &["echo"], vec![deny, allowing()]);
        let record = run(engine, "a", "echo", r#"{"text": "x"}"#).await;
        assert_eq!(failed(&record), Some(EndReason::Rejected), "{}", text(&record));
        assert!(text(&record).contains("made"), "{}", text(&record));
        // One that fails, or says nothing, counts as absent.
        let failing = Made::default().at(HookPoint::PermissionAsk, |_, _| refused("broken"));
        let silent = Made::default().at(HookPoint::PermissionAsk, |_, output| Ok(output));
        offer(&inside, &["echo"], vec![failing, silent, allowing()]);
        let record = run(engine, "b", "echo", r#"{"text": "x"}"#).await;
        assert_eq!(failed(&record), None, "{}", text(&record));
    });
}

#[test]
fn definitions_are_changed_for_the_list_only() {
    test(async {
        let inside = Inside::new();
        let loud = allowing()
            .at(HookPoint::Definition, |input, mut output| {
                match input["toolID"].as_str() {
                    Some("gate") => refused("not this one"),
                    _ => {
                        output["description"] = json!("LOUD");
                        output["jsonSchema"] = json!({"type": "object", "properties": {}});
                        Ok(output)
                    }
                }
            })
            .silent_at(HookPoint::ExecuteAfter);
        offer(&inside, &["echo"], vec![loud]);
        let place = &inside.engine.catalogs().all()[0];
        let offer = Offer {
            workspace: &place.workspace,
            agent: "build",
            model: &Model::default(),
            client: "cli",
            rights: None,
        };
        let agent = place.agent("build").unwrap();
        let listed = place.offered(&offer, &place.rights(&agent)).await;
        let of = |name: &str| listed.iter().find(|definition| definition.name == name).unwrap();
        assert_eq!(of("echo").description, "LOUD");
        assert_eq!(of("echo").input_schema, json!({"type": "object", "properties": {}}));
        assert_eq!(of("gate").description, "waits");
        let record = run(&inside.engine, "a", "echo", "{}").await;
        assert_eq!(failed(&record), Some(EndReason::InvalidArguments));
    });
}

#[test]
fn a_call_keeps_the_tools_that_it_was_admitted_with() {
    test(async {
        let inside = Inside::new();
        offer(&inside, &["echo", "gone"], vec![allowing()]);
        let mut changes = catalog(&inside).changes();
        let engine = &inside.engine;
        let started = engine.start(Inside::call("g", OnDisconnect::Keep)).await.unwrap();
        offer(&inside, &["echo"], vec![allowing()]);
        assert!(changes.has_changed().unwrap());
        let record = run(engine, "a", "gone", r#"{"text": "x"}"#).await;
        assert_eq!(record.tool, "invalid");
        catalog(&inside).report(Source::Custom, "test", SourceState::Failed, "broken");
        let sources = catalog(&inside).sources();
        assert_eq!(
            (sources[0].state, sources[0].problem.as_str()),
            (SourceState::Failed, "broken")
        );
        let record = run(engine, "b", "echo", r#"{"text": "x"}"#).await;
        assert_eq!(record.tool, "invalid");
        catalog(&inside).remove(Source::Custom, "test");
        assert!(catalog(&inside).sources().is_empty());
        // The running one goes on to its end.
        inside.gate.close();
        let ended = engine.get(&started.id).await.unwrap().unwrap();
        assert_eq!(ended.tool, "gate");
        changes.mark_unchanged();
    });
}
