//! What the service says of itself to a server, and what it answers when a server asks.
//!
//! *Invariant:* pure. A server is told what it needs for its work and changes nothing here.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_fs::path::file_url;

/// How many settings a server may ask for at once.
const MAX_ITEMS: usize = 100;

/// Bytes of a server's sentence that are handed on.
const MAX_SENTENCE: usize = 500;

/// Returns the parameters of `initialize`.
pub(super) fn initialize(root: &Path, settings: &Value) -> Value {
    json!({
        // A server may watch this process and end with it.
        "processId": std::process::id(),
        "clientInfo": {"name": "toolgate", "version": env!("CARGO_PKG_VERSION")},
        "rootUri": file_url(root),
        "workspaceFolders": [folder(root)],
        "initializationOptions": settings,
        "capabilities": {
            "general": {"positionEncodings": ["utf-16"]},
            "window": {"workDoneProgress": true},
            "workspace": {
                "configuration": true,
                "didChangeWatchedFiles": {"dynamicRegistration": true},
            },
            "textDocument": {
                "synchronization": {"didOpen": true, "didChange": true},
                "publishDiagnostics": {"versionSupport": true},
            },
        },
    })
}

fn folder(root: &Path) -> Value {
    json!({"name": "workspace", "uri": file_url(root)})
}

/// Returns the result of a server's request; none for a method that means nothing here.
pub(super) fn answer(method: &str, params: Option<&RawValue>, settings: &Value, root: &Path) -> Option<Value> {
    match method {
        "workspace/configuration" => Some(configuration(params, settings)),
        "workspace/workspaceFolders" => Some(json!([folder(root)])),
        "workspace/applyEdit" => Some(json!({
            "applied": false,
            "failureReason": "Files are changed by the tools for it only.",
        })),
        "window/showDocument" => Some(json!({"success": false})),
        "window/workDoneProgress/create"
        | "window/showMessageRequest"
        | "client/registerCapability"
        | "client/unregisterCapability" => Some(Value::Null),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Wanted {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    section: Option<String>,
}

fn configuration(params: Option<&RawValue>, settings: &Value) -> Value {
    let wanted = params.and_then(|params| serde_json::from_str::<Wanted>(params.get()).ok());
    let items = wanted.map(|wanted| wanted.items).unwrap_or_default();
    items
        .into_iter()
        .take(MAX_ITEMS)
        .map(|item| match item.section.as_deref() {
            Some(section) if !section.is_empty() => {
                let part = section.split('.').try_fold(settings, |part, name| part.get(name));
                part.cloned().unwrap_or_default()
            }
            Some(_) | None => settings.clone(),
        })
        .collect()
}

#[derive(Deserialize)]
struct Progress {
    token: Value,
    value: Step,
}

#[derive(Deserialize)]
struct Step {
    kind: String,
}

/// Returns what a message of progress is about, and whether it is a beginning; none if it is neither that nor an end.
pub(super) fn progress(params: &RawValue) -> Option<(String, bool)> {
    let Progress { token, value } = serde_json::from_str(params.get()).ok()?;
    let begins = match value.kind.as_str() {
        "begin" => true,
        "end" => false,
        _ => return None,
    };
    Some((cut(&token.to_string()), begins))
}

/// Returns a sentence of a server on one line of bounded length.
pub(super) fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_SENTENCE);
    let clean = text[..end].chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    #[test]
    fn servers_are_answered() {
        let settings = json!({"a": {"b": 1}, "c": null});
        let check = |method: &str, params: Value, expected: Option<Value>| {
            let found = answer(method, Some(&raw(&params)), &settings, Path::new("/w"));
            assert_eq!(found, expected, "{method}");
        };
        let items =
            json!({"items": [{"section": "a.b"}, {"section": "a.x"}, {}, {"section": "", "scopeUri": "file:///"}]});
        check(
            "workspace/configuration",
            items,
            Some(json!([1, null, settings, settings])),
        );
        check("workspace/configuration", json!([1]), Some(json!([])));
        check(
            "workspace/workspaceFolders",
            json!({}),
            Some(json!([{"name": "workspace", "uri": "file:///w"}])),
        );
        check("client/registerCapability", json!({}), Some(Value::Null));
        check("window/workDoneProgress/create", json!({}), Some(Value::Null));
        check("window/showDocument", json!({}), Some(json!({"success": false})));
        check("some/thing", json!({}), None);
    }

    #[test]
    fn progress_begins_and_ends() {
        let check = |params: Value, expected: Option<(&str, bool)>| {
            let expected = expected.map(|(token, begins)| (token.to_owned(), begins));
            assert_eq!(progress(&raw(&params)), expected, "{params}");
        };
        check(
            json!({"token": "t", "value": {"kind": "begin", "title": "x"}}),
            Some(("\"t\"", true)),
        );
        check(json!({"token": 7, "value": {"kind": "end"}}), Some(("7", false)));
        check(json!({"token": 7, "value": {"kind": "report"}}), None);
        check(json!({"value": 5}), None);
    }
}
