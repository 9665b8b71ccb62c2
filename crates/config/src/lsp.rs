//! The part `lsp` of the tools' configuration: which language servers there are (`docs/spec/skills-and-lsp.md` §B.4).
//!
//! *Invariant:* pure. What a project that is not trusted says can take servers away and name none.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toolgate_lsp::{Command, Server};
use toolgate_model::JsonMap;
use toolgate_permission::rules::ConfigProblem;

use super::flags::Flags;
use super::jsonc::escape;

/// The servers of which one takes the place of the other.
const PYTHON: (&str, &str) = ("pyright", "ty");

/// Returns the language servers that may be used: those that are known, as the configuration changes them, and its own.
/// `all` is the part `lsp` of everybody, `allowed` that of those who are trusted.
pub(super) fn servers(all: Option<&Value>, allowed: Option<&Value>, flags: &Flags) -> Vec<Server> {
    if [all, allowed].contains(&Some(&Value::Bool(false))) {
        return Vec::new();
    }
    let allowed = allowed.and_then(Value::as_object);
    let unwanted = if flags.lsp_ty { PYTHON.0 } else { PYTHON.1 };
    let mut servers = Server::builtins();
    servers.retain(|server| server.id != unwanted);
    for (id, entry) in all.and_then(Value::as_object).into_iter().flatten() {
        let known = servers.iter().position(|server| server.id == *id);
        let said = [Some(entry), allowed.and_then(|part| part.get(id))];
        if said.into_iter().flatten().any(is_disabled) {
            servers.retain(|server| server.id != *id);
            continue;
        }
        let Some(server) = server(id, entry, allowed, known.map(|at| &servers[at])) else {
            continue;
        };
        match known {
            Some(at) => servers[at] = server,
            None => servers.push(server),
        }
    }
    servers
}

fn is_disabled(entry: &Value) -> bool {
    entry.get("disabled") == Some(&Value::Bool(true))
}

/// What an entry may say; its values were checked layer by layer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    command: Option<Vec<String>>,
    extensions: Option<Vec<String>>,
    env: BTreeMap<String, String>,
    initialization: Option<Value>,
}

/// Returns a server as an entry leaves it; none if the entry says nothing of use.
fn server(id: &str, all: &Value, allowed: Option<&JsonMap>, known: Option<&Server>) -> Option<Server> {
    let trusted = allowed.and_then(|part| part.get(id));
    if trusted.is_none() && known.is_some() {
        // It is used as if the project said nothing of it.
        return known.cloned();
    }
    let entry = Entry::deserialize(trusted.unwrap_or(all)).ok()?;
    let new = || Server {
        id: id.to_owned(),
        extensions: Vec::new(),
        command: Command::Untrusted,
        environment: BTreeMap::new(),
        initialization: None,
    };
    // One that only switches names nothing.
    let base = known.cloned().or_else(|| entry.command.is_some().then(new))?;
    let extensions = entry.extensions.unwrap_or(base.extensions);
    if trusted.is_none() {
        return Some(Server { extensions, ..base });
    }
    Some(Server {
        id: base.id,
        extensions,
        command: entry.command.map_or(base.command, Command::Line),
        environment: entry.env,
        initialization: entry.initialization,
    })
}

/// Returns what is wrong with the entries of a layer beyond their shapes, each with its JSON pointer.
pub(super) fn problems(layer: &JsonMap) -> Vec<ConfigProblem> {
    let entries = layer.get("lsp").and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(id, entry)| problem(id, entry)).collect()
}

fn problem(id: &str, entry: &Value) -> Option<ConfigProblem> {
    let is_off = is_disabled(entry);
    let entry = entry.as_object()?;
    let at = |key: &str, message: &str| ConfigProblem {
        pointer: format!("/lsp/{}{key}", escape(id)),
        message: message.to_owned(),
    };
    let is_switch = entry.keys().all(|key| key == "disabled") && !entry.is_empty();
    if is_switch || is_off {
        return None;
    }
    let command = entry.get("command").and_then(Value::as_array);
    if let Some(words) = command
        && words.first().and_then(Value::as_str).is_none_or(str::is_empty)
    {
        return Some(at("/command", "expected a list that begins with a program"));
    }
    if Server::is_known(id) {
        return None;
    }
    if !entry.contains_key("extensions") {
        return Some(at("", "For custom LSP servers, 'extensions' array is required."));
    }
    command
        .is_none()
        .then(|| at("", "For custom LSP servers, 'command' array is required."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ConfigError, Environment, ToolsConfig};

    fn entry_of(entry: &Value, allowed: bool, known: &str) -> Option<Server> {
        let part = toolgate_model::json_map([("s", entry.clone())]);
        let base = Server::builtins().into_iter().find(|server| server.id == known);
        server("s", entry, allowed.then_some(&part), base.as_ref())
    }

    #[test]
    fn an_entry_is_a_server() {
        let entry = json!({
            "command": ["a", "b"], "extensions": [".x"], "env": {"K": "v"}, "initialization": {"i": 1},
        });
        let full = Server {
            id: "s".to_owned(),
            extensions: vec![".x".to_owned()],
            command: Command::Line(vec!["a".to_owned(), "b".to_owned()]),
            environment: [("K".to_owned(), "v".to_owned())].into(),
            initialization: Some(json!({"i": 1})),
        };
        assert_eq!(entry_of(&entry, true, ""), Some(full.clone()));
        let changed = entry_of(&entry, true, "rust").unwrap();
        assert_eq!(
            changed,
            Server {
                id: "rust".to_owned(),
                ..full
            }
        );
        let kept = entry_of(&json!({"env": {"K": "v"}}), true, "rust").unwrap();
        assert_eq!(
            (kept.command, kept.extensions),
            (Command::Known, vec![".rs".to_owned()])
        );
        assert_eq!(entry_of(&json!({"disabled": false}), true, ""), None);
    }

    #[test]
    fn a_project_that_is_not_trusted_names_none() {
        let entry = json!({"command": ["evil"], "extensions": [".x"], "env": {"K": "v"}, "initialization": {"i": 1}});
        let named = entry_of(&entry, false, "").unwrap();
        assert_eq!((named.command, named.environment.len()), (Command::Untrusted, 0));
        let known = Server::builtins().into_iter().find(|server| server.id == "rust");
        assert_eq!(entry_of(&entry, false, "rust"), known);
    }

    /// Loads what a user and a project say, and returns the servers of both degrees of trust.
    fn servers(user: &str, project: &str, vars: &[(&str, &str)]) -> Result<[Vec<Server>; 2], ConfigError> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (home, work) = (folder.path().join("home"), folder.path().join("w"));
        let settings = home.join(".config/opencode");
        for folder in [&settings, &work.join(".git")] {
            std::fs::create_dir_all(folder).expect("the folder is ours");
        }
        for (folder, text) in [(&settings, user), (&work, project)] {
            std::fs::write(folder.join("opencode.json"), text).expect("the folder is ours");
        }
        let vars = vars.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let vars = vars.chain([("HOME".to_owned(), home.display().to_string())]);
        let env = Environment::new(vars, &work).with_system_dir(folder.path().join("etc"));
        let config = ToolsConfig::load(&work, &work, &env)?;
        Ok([false, true].map(|trusted| config.language_servers(trusted)))
    }

    #[test]
    fn layers_count_as_far_as_they_are_trusted() {
        let check = |user: &str, project: &str, id: &str, expected: [Option<&str>; 2]| {
            let found = servers(user, project, &[])
                .expect("the configuration is valid")
                .map(|servers| {
                    let server = servers.into_iter().find(|server| server.id == id)?;
                    Some(match server.command {
                        Command::Known => "known".to_owned(),
                        Command::Untrusted => "untrusted".to_owned(),
                        Command::Line(words) => words.join(" "),
                    })
                });
            let found = found.each_ref().map(Option::as_deref);
            assert_eq!(found, expected, "{user} {project}");
        };
        let own = r#"{"lsp": {"x": {"command": ["own"], "extensions": [".x"]}}}"#;
        let theirs = r#"{"lsp": {"x": {"command": ["theirs"], "extensions": [".x"]}}}"#;
        let off = r#"{"lsp": {"x": {"disabled": true}, "rust": {"disabled": true}}}"#;
        let on = r#"{"lsp": {"x": {"disabled": false}, "rust": {"disabled": false}}}"#;
        let none = r#"{"lsp": false}"#;
        check("{}", "{}", "rust", [Some("known"); 2]);
        check("{}", "{}", "x", [None; 2]);
        check(own, "{}", "x", [Some("own"); 2]);
        check("{}", theirs, "x", [Some("untrusted"), Some("theirs")]);
        check(own, theirs, "x", [Some("own"), Some("theirs")]);
        check(own, off, "x", [None; 2]);
        check("{}", off, "rust", [None; 2]);
        check(off, on, "rust", [None, Some("known")]);
        check(none, "{}", "rust", [None; 2]);
        check("{}", none, "rust", [None; 2]);
        check(none, theirs, "x", [None, Some("theirs")]);
        check(r#"{"lsp": true}"#, "{}", "rust", [Some("known"); 2]);
        let rust = r#"{"lsp": {"rust": {"command": ["evil"], "env": {"A": "b"}}}}"#;
        check("{}", rust, "rust", [Some("known"), Some("evil")]);
    }

    #[test]
    fn one_server_for_python() {
        for (vars, expected) in [
            (&[][..], "pyright"),
            (&[("OPENCODE_EXPERIMENTAL_LSP_TY", "1")][..], "ty"),
        ] {
            let [servers, _] = servers("{}", "{}", vars).expect("the configuration is valid");
            let ids = servers.iter().map(|server| server.id.as_str());
            let python: Vec<&str> = ids.filter(|id| ["pyright", "ty"].contains(id)).collect();
            assert_eq!(python, [expected]);
        }
    }

    #[test]
    fn an_error_names_file_line_and_key() {
        let text = "{\n  \"lsp\": {\n    \"x\": {\"command\": [\"a\"]}\n  }\n}";
        let error = servers("{}", text, &[])
            .expect_err("an extension is missing")
            .to_string();
        for part in [
            "w/opencode.json",
            "line 3",
            "lsp.x: For custom LSP servers, 'extensions' array is required.",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn wrong_entries_are_named() {
        let check = |entry: Value, id: &str, expected: Option<(&str, &str)>| {
            let layer = toolgate_model::json_map([("lsp", json!({id: entry}))]);
            let found = problems(&layer);
            let found = found
                .first()
                .map(|problem| (problem.pointer.as_str(), problem.message.as_str()));
            assert_eq!(found, expected, "{entry}");
        };
        let missing = "For custom LSP servers, 'extensions' array is required.";
        check(json!({"command": ["a"]}), "a/b", Some(("/lsp/a~1b", missing)));
        check(json!({}), "x", Some(("/lsp/x", missing)));
        check(
            json!({"extensions": [".x"]}),
            "x",
            Some(("/lsp/x", "For custom LSP servers, 'command' array is required.")),
        );
        check(
            json!({"command": [], "extensions": [".x"]}),
            "x",
            Some(("/lsp/x/command", "expected a list that begins with a program")),
        );
        check(
            json!({"command": [""]}),
            "rust",
            Some(("/lsp/rust/command", "expected a list that begins with a program")),
        );
        check(json!({"command": ["a"], "extensions": []}), "x", None);
        check(json!({"command": ["a"]}), "rust", None);
        check(json!({"initialization": {}}), "rust", None);
        check(json!({"disabled": true}), "x", None);
        check(json!({"disabled": false}), "x", None);
        check(json!({"disabled": true, "command": []}), "x", None);
    }
}
