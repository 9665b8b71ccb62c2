//! Every built-in tool: its example under rules that deny all, and its schema, description and example side by side.
//!
//! *Invariant:* a tool that is added is tested here without a line for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_config::{Config, Environment, RawConfig};
use toolgate_contract::*;
use toolgate_fs::Workspace;
use toolgate_model::{Definition, Effect, Model, Source};
use toolgate_server::app::App;
use toolgate_tool::{Offer, Tool};

use crate::support::*;

/// What makes every built-in tool available.
const EVERYTHING: [(&str, &str); 2] = [("OPENCODE_EXPERIMENTAL", "1"), ("OPENCODE_ENABLE_QUESTION_TOOL", "1")];

/// The built-in tools, with what models are told of them.
pub(crate) async fn builtins() -> Vec<(Arc<dyn Tool>, Definition)> {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("home")).unwrap();
    let home = folder.path().join("home").display().to_string();
    let vars = EVERYTHING.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let vars = vars.into_iter().chain([("HOME".to_owned(), home)]);
    let environment = Environment::new(vars, folder.path().to_path_buf());
    let file = folder.path().join("toolgate.toml");
    fs::write(
        &file,
        "data_dir = \"data\"\n[[workspaces]]\nname = \"w\"\ndirectory = \"home\"\n",
    )
    .unwrap();
    let config = Config::load(Some(&file), RawConfig::default(), &environment).unwrap();
    let app = App::build(&config, &environment, None).await.unwrap();
    let workspace = Workspace::open("w", &folder.path().join("home"), None).unwrap();
    let offer = Offer {
        workspace: &workspace,
        agent: "build",
        model: &Model::default(),
        client: "cli",
        rights: None,
    };
    let tools: Vec<(Arc<dyn Tool>, Definition)> = app
        .tools()
        .into_iter()
        .map(|tool| (tool.clone(), tool.definition(&offer)))
        .filter(|(_, definition)| definition.source == Source::Builtin)
        .collect();
    assert!(tools.len() >= 17, "{} tools", tools.len());
    tools
}

/// Every file below some folders, with its content.
fn files(folders: &[PathBuf]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = folders.to_vec();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            found.insert(path, Vec::new());
        } else {
            let content = fs::read(&path).unwrap_or_default();
            found.insert(path, content);
        }
    }
    found
}

/// A shell that leaves a mark when it is started.
fn marking_shell(folder: &Path) -> (String, PathBuf) {
    let (shell, mark) = (folder.join("bash"), folder.join("started"));
    let script = format!("#!/bin/bash\necho x >> {}\nexec /bin/bash \"$@\"\n", mark.display());
    fs::write(&shell, script).unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    (shell.display().to_string(), mark)
}

/// A server with these rules, where nobody waits for a person.
async fn server(permission: Value, shell: &str) -> Server {
    let setup = EVERYTHING
        .into_iter()
        .fold(Setup::permission(permission), |setup, (name, value)| {
            setup.env(name, value)
        })
        .env("TOOLGATE_PERMISSION_UNATTENDED", "refuse")
        .env("SHELL", shell);
    let server = Server::with(setup).await;
    fs::create_dir(server.work().join("src")).unwrap();
    fs::write(server.work().join("src/main.rs"), "fn main() {}\n").unwrap();
    server
}

fn example_of(tool: &Arc<dyn Tool>, session: &str) -> RunToolRequest {
    let input = serde_json::from_str(tool.example()).unwrap();
    run_request(in_session(session, request(tool.name(), input)))
}

#[test]
fn examples_do_nothing_that_is_denied() {
    test(async {
        let folder = TempDir::new().unwrap();
        let (shell, started) = marking_shell(folder.path());
        // A rule for everything would hide the tools; they are to come as far as asking.
        let denying = server(json!({ "*": { "*": "allow", "?*": "deny" } }), &shell).await;
        let hiding = server(json!({ "*": "deny" }), &shell).await;
        let tools = builtins().await;
        for server in [&denying, &hiding] {
            let watched = [server.work(), server.folder().join("home"), server.output_folder()];
            let before = files(&watched);
            for (tool, definition) in &tools {
                let name = tool.name();
                let session = format!("s-{name}");
                let call = run(&mut server.tools(), example_of(tool, &session)).await.unwrap();
                let is_harmless = definition.effects.iter().all(|effect| *effect == Effect::Reads);
                match &call.ending {
                    Some(call::Ending::Failed(failed)) => assert!(
                        matches!(
                            failed.reason(),
                            FailureReason::Denied | FailureReason::PromptExpired | FailureReason::ToolError
                        ),
                        "{name}: {failed:?}"
                    ),
                    Some(call::Ending::Completed(completed)) => {
                        let unavailable = completed.output.contains("unavailable tool");
                        assert!(is_harmless || unavailable, "{name}: {}", completed.output);
                    }
                    None => panic!("{name} has not ended"),
                }
                assert_eq!(files(&watched), before, "{name} writes");
                assert!(!started.exists(), "{name} starts something");
                let request = GetSessionRequest {
                    session_id: session,
                    ..Default::default()
                };
                let session = server.sessions().get_session(request).await.unwrap().into_inner();
                assert!(session.session.unwrap().todos.is_empty(), "{name} changes the todos");
            }
        }
    });
}

#[test]
fn examples_are_what_they_say() {
    test(async {
        let folder = TempDir::new().unwrap();
        let (shell, started) = marking_shell(folder.path());
        let server = server(json!({ "*": "allow" }), &shell).await;
        let mut starting = 0;
        let is_local = |definition: &Definition| {
            let has = |effect| definition.effects.contains(&effect);
            !has(Effect::Network) || has(Effect::RunsPrograms)
        };
        let tools = builtins().await;
        for (tool, definition) in tools.iter().filter(|(_, definition)| is_local(definition)) {
            let name = tool.name();
            let call = run(&mut server.tools(), example_of(tool, &format!("s-{name}")))
                .await
                .unwrap();
            if let Some(call::Ending::Failed(failed)) = &call.ending {
                assert!(
                    matches!(failed.reason(), FailureReason::PromptExpired | FailureReason::ToolError),
                    "{name}: {failed:?}"
                );
            }
            assert_eq!(call.tool, name);
            if started.exists() {
                assert!(definition.effects.contains(&Effect::RunsPrograms), "{name}");
                fs::remove_file(&started).unwrap();
                starting += 1;
            }
        }
        assert!(starting > 0, "the shell leaves its mark");
        assert!(
            server.work().join("notes.txt").exists(),
            "the examples that write do it"
        );
    });
}

/// Every property of a schema and of those inside it; each says what it is.
fn properties(tool: &str, schema: &Value, found: &mut BTreeSet<String>) {
    let inner = schema["properties"].as_object();
    for (name, property) in inner.into_iter().flatten() {
        let described = property["description"]
            .as_str()
            .is_some_and(|text| !text.trim().is_empty());
        assert!(described, "{tool}: {name} has no description");
        found.insert(name.clone());
        properties(tool, property, found);
    }
    if schema["items"].is_object() {
        properties(tool, &schema["items"], found);
    }
    for variant in schema["anyOf"].as_array().into_iter().flatten() {
        properties(tool, variant, found);
    }
}

#[test]
fn schemas_descriptions_and_examples_agree() {
    test(async {
        let parameter = Regex::new(r"`([a-z]+(?:[A-Z][a-z]+)+)`").unwrap();
        let mut names = BTreeSet::new();
        for (tool, definition) in &builtins().await {
            let name = tool.name();
            let is_word = name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
            assert!(is_word && names.insert(name.to_owned()), "{name}");
            let mut told = tool.input_schema();
            if name == "bash" {
                // Front ends alone give commands a terminal.
                told["properties"].as_object_mut().unwrap().remove("terminal").unwrap();
            }
            assert_eq!((definition.name.as_str(), &definition.input_schema), (name, &told));

            let schema = tool.input_schema();
            assert_eq!(schema["type"], "object", "{name}");
            let mut known = BTreeSet::new();
            properties(name, &schema, &mut known);
            for required in schema["required"].as_array().into_iter().flatten() {
                let required = required.as_str().unwrap();
                assert!(schema["properties"].get(required).is_some(), "{name}: {required}");
            }
            // Unlike a model's input, an example has nothing that the tool does not know.
            let mut strict = schema.clone();
            strict["additionalProperties"] = json!(false);
            let example: Value = serde_json::from_str(tool.example()).unwrap();
            let validator = jsonschema::validator_for(&strict).unwrap();
            let errors: Vec<String> = validator.iter_errors(&example).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{name}: {errors:?}");

            let description = definition.description.trim();
            assert!(
                description.len() > 20 && !description.contains("{{"),
                "{name}: {description}"
            );
            for mentioned in parameter.captures_iter(description) {
                assert!(
                    known.contains(&mentioned[1]),
                    "{name} speaks of {}, which it has not",
                    &mentioned[1]
                );
            }
            let acts = [Effect::Writes, Effect::RunsPrograms, Effect::Network];
            let acts = definition.effects.iter().any(|effect| acts.contains(effect));
            assert!(
                !acts || !definition.permissions.is_empty(),
                "{name} acts without asking"
            );
        }
    });
}
