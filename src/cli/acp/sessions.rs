//! The sessions of the protocol, and the session of Toolgate that each is bound to.
//!
//! The agent chooses the id of a new session and tells it in its answer, when it may have started the tools already. So the
//! session of Toolgate has a name of its own, which is bound to the id when that is known.
//!
//! *Invariant:* of a message nothing changes but its list of MCP servers. The numbers of sessions and of answers that are waited
//! for are bounded.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::shown::Version;

/// Sessions that are bound; beyond that the oldest one is let go.
const MAX_SESSIONS: usize = 256;

/// Answers that are waited for.
const MAX_PENDING: usize = 1024;

/// The name of the server that is added.
pub(super) const SERVER: &str = "toolgate";

/// What matters of what an editor asks.
const INITIALIZE: &str = "initialize";
const NEW: &str = "session/new";
const LOAD: &str = "session/load";
const RESUME: &str = "session/resume";
const FORK: &str = "session/fork";
const CLOSE: &str = "session/close";
const DELETE: &str = "session/delete";

/// A session that is bound.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// Its name in Toolgate.
    pub(super) name: String,
    /// Its folder.
    pub(super) folder: String,
    /// Its id in the protocol, once that is known.
    acp: Option<String>,
    /// Counts how often its work was cancelled.
    pub(super) cancelled: watch::Sender<u64>,
    /// Cancelled when it is let go.
    pub(super) over: CancellationToken,
}

/// What an answer of the agent will say.
enum Pending {
    /// What was agreed on.
    Initialized,
    /// That the session of this name is there, under this id or another. If it was bound before, its folder then.
    Opened {
        name: String,
        known: Option<String>,
        earlier: Option<String>,
    },
    /// That the session of this id is no more.
    Closed(String),
}

/// What became of a request of the editor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passed {
    AsItIs,
    Changed(Value),
    /// As it is, because of this.
    Unbound(&'static str),
}

/// All of them.
#[derive(Default)]
pub(super) struct Sessions {
    pub(super) version: Version,
    /// Why the agent takes no server that is a program.
    refuses_programs: bool,
    pending: HashMap<String, Pending>,
    bound: Vec<Bound>,
}

impl Sessions {
    /// Says whether a request of the editor matters.
    pub(super) fn is_about(method: &str) -> bool {
        [INITIALIZE, NEW, LOAD, RESUME, FORK, CLOSE, DELETE].contains(&method)
    }

    /// Says whether the answer to this request is of interest.
    pub(super) fn waits_for(&self, id: &Value) -> bool {
        self.pending.contains_key(&id.to_string())
    }

    /// Returns the sessions that are bound.
    pub(super) fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// Returns the id of a session in the protocol.
    pub(super) fn id_of(&self, name: &str) -> Option<String> {
        self.bound.iter().find(|bound| bound.name == name)?.acp.clone()
    }

    /// Returns a session by its id in the protocol.
    pub(super) fn by_id(&self, acp: &str) -> Option<&Bound> {
        self.bound.iter().find(|bound| bound.acp.as_deref() == Some(acp))
    }

    /// Looks at a request of the editor. `server` makes the entry for a session of this name in this folder.
    pub(super) fn request(
        &mut self,
        (id, method): (&Value, &str),
        message: impl FnOnce() -> Option<Value>,
        server: impl FnOnce(&str, &str) -> Value,
    ) -> Passed {
        let text = |message: &Value, field: &str| message["params"][field].as_str().map(str::to_owned);
        match method {
            INITIALIZE => {
                self.expect(id, Pending::Initialized);
                Passed::AsItIs
            }
            CLOSE | DELETE => {
                if let Some(session) = message().and_then(|message| text(&message, "sessionId")) {
                    self.expect(id, Pending::Closed(session));
                }
                Passed::AsItIs
            }
            NEW | LOAD | RESUME | FORK => {
                let Some(mut message) = message() else {
                    return Passed::AsItIs;
                };
                let Some(folder) = text(&message, "cwd") else {
                    // The agent says what is wrong with it.
                    return Passed::AsItIs;
                };
                if self.refuses_programs {
                    return Passed::Unbound("the agent starts no programs as MCP servers (session.mcp.stdio)");
                }
                if self.pending.len() >= MAX_PENDING {
                    return Passed::Unbound("the agent has too many requests to answer");
                }
                // A fork is a session of its own.
                let known = text(&message, "sessionId").filter(|_| method != FORK);
                let earlier = known.as_deref().and_then(|acp| self.by_id(acp));
                let (name, earlier) = match earlier {
                    Some(bound) => (bound.name.clone(), Some(bound.folder.clone())),
                    None => (new_name(), None),
                };
                if !add_server(&mut message, server(&name, &folder)) {
                    return Passed::AsItIs;
                }
                self.bind(&name, known.as_deref(), &folder);
                self.expect(id, Pending::Opened { name, known, earlier });
                Passed::Changed(message)
            }
            _ => Passed::AsItIs,
        }
    }

    fn expect(&mut self, id: &Value, what: Pending) {
        if self.pending.len() < MAX_PENDING {
            self.pending.insert(id.to_string(), what);
        }
    }

    /// Binds a session, in the place of one of this name.
    fn bind(&mut self, name: &str, known: Option<&str>, folder: &str) {
        self.let_go(|bound| bound.name == name);
        if self.bound.len() >= MAX_SESSIONS {
            self.bound.remove(0).over.cancel();
        }
        self.bound.push(Bound {
            name: name.to_owned(),
            folder: folder.to_owned(),
            acp: known.map(str::to_owned),
            cancelled: watch::Sender::new(0),
            over: CancellationToken::new(),
        });
    }

    fn let_go(&mut self, which: impl Fn(&Bound) -> bool) {
        self.bound.retain(|bound| {
            let goes = which(bound);
            if goes {
                bound.over.cancel();
            }
            !goes
        });
    }

    /// Looks at an answer of the agent that is waited for.
    pub(super) fn answer(&mut self, id: &Value, message: &Value) {
        let Some(pending) = self.pending.remove(&id.to_string()) else {
            return;
        };
        let result = message.get("result").filter(|_| message.get("error").is_none());
        match (pending, result) {
            (Pending::Initialized, Some(result)) => {
                self.version = Version::of(result["protocolVersion"].as_u64().unwrap_or(1));
                let stdio = &result["capabilities"]["session"]["mcp"]["stdio"];
                self.refuses_programs = self.version == Version::V2 && !stdio.is_object();
            }
            (Pending::Opened { name, known, .. }, Some(result)) => {
                let acp = result["sessionId"].as_str().map(str::to_owned).or(known);
                if let Some(bound) = self.bound.iter_mut().find(|bound| bound.name == name) {
                    bound.acp = acp;
                }
            }
            (Pending::Opened { name, known, earlier }, None) => match earlier {
                None => self.let_go(|bound| bound.name == name),
                // It goes on as it was.
                Some(folder) => {
                    if self
                        .bound
                        .iter()
                        .any(|bound| bound.name == name && bound.folder != folder)
                    {
                        self.bind(&name, known.as_deref(), &folder);
                    }
                }
            },
            (Pending::Closed(acp), Some(_)) => self.let_go(|bound| bound.acp.as_deref() == Some(acp.as_str())),
            (Pending::Initialized | Pending::Closed(_), None) => {}
        }
    }

    /// Notes that the work of a session was cancelled.
    pub(super) fn cancel(&self, acp: &str) {
        if let Some(bound) = self.by_id(acp) {
            bound.cancelled.send_modify(|count| *count += 1);
        }
    }
}

/// Returns a name for a session in Toolgate. It never returns: what is granted to a session ends with this run, and is not for
/// another window that has the same one open.
fn new_name() -> String {
    format!("acp-{}", uuid::Uuid::now_v7().simple())
}

/// Adds a server to those of a request, in the place of one of the same name. Says whether there is a place for it.
fn add_server(message: &mut Value, server: Value) -> bool {
    let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) else {
        return false;
    };
    let servers = params.entry("mcpServers").or_insert(Value::Null);
    if servers.is_null() {
        *servers = json!([]);
    }
    let Some(servers) = servers.as_array_mut() else {
        return false;
    };
    servers.retain(|other| other["name"] != server["name"]);
    servers.push(server);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, folder: &str) -> Value {
        json!({"name": SERVER, "args": [name, folder]})
    }

    fn open(sessions: &mut Sessions, id: u64, method: &str, params: Value) -> Passed {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        sessions.request((&json!(id), method), || Some(message), entry)
    }

    #[test]
    fn a_session_gets_the_server_and_is_bound_by_the_answer() {
        let mut sessions = Sessions::default();
        let others = json!([{"name": "other"}, {"name": "toolgate", "command": "old"}]);
        let params = json!({"cwd": "/w", "mcpServers": others, "_meta": {"x": 1.50}});
        let Passed::Changed(message) = open(&mut sessions, 1, "session/new", params) else {
            panic!("the server is added");
        };
        let servers = message["params"]["mcpServers"].as_array().unwrap();
        let name = servers[1]["args"][0].as_str().unwrap().to_owned();
        assert_eq!(
            (servers.len(), &servers[0]["name"], &servers[1]["args"][1]),
            (2, &json!("other"), &json!("/w"))
        );
        assert_eq!(message["params"]["_meta"]["x"], 1.5);
        assert_eq!(sessions.id_of(&name), None);
        assert!(sessions.waits_for(&json!(1)) && !sessions.waits_for(&json!("1")));
        sessions.answer(&json!(1), &json!({"id": 1, "result": {"sessionId": "s 1"}}));
        assert_eq!(sessions.id_of(&name).as_deref(), Some("s 1"));

        // Loaded again it is the same.
        let loaded = open(
            &mut sessions,
            2,
            "session/load",
            json!({"cwd": "/w", "sessionId": "s 1"}),
        );
        assert!(matches!(&loaded, Passed::Changed(message) if message["params"]["mcpServers"][0]["args"][0] == name));
        sessions.answer(&json!(2), &json!({"id": 2, "result": null}));
        assert_eq!(
            (sessions.id_of(&name).as_deref(), sessions.bound().len()),
            (Some("s 1"), 1)
        );

        let over = sessions.by_id("s 1").unwrap().over.clone();
        open(&mut sessions, 3, "session/close", json!({"sessionId": "s 1"}));
        assert!(!over.is_cancelled());
        sessions.answer(&json!(3), &json!({"id": 3, "result": {}}));
        assert!(over.is_cancelled() && sessions.bound().is_empty());
    }

    #[test]
    fn what_fails_is_not_bound() {
        let mut sessions = Sessions::default();
        open(
            &mut sessions,
            1,
            "session/load",
            json!({"cwd": "/w", "sessionId": "s-1", "mcpServers": []}),
        );
        let name = sessions.bound()[0].name.clone();
        assert!(name.starts_with("acp-") && !name.contains("s-1"), "{name}");
        let mut other = Sessions::default();
        open(&mut other, 1, "session/load", json!({"cwd": "/w", "sessionId": "s-1"}));
        assert_ne!(other.bound()[0].name, name);
        sessions.answer(
            &json!(1),
            &json!({"id": 1, "error": {"code": -32002, "message": "none"}}),
        );
        assert!(sessions.bound().is_empty());
        assert_eq!(
            open(&mut sessions, 2, "session/new", json!({"mcpServers": []})),
            Passed::AsItIs
        );
        assert_eq!(
            open(&mut sessions, 3, "session/new", json!({"cwd": "/w", "mcpServers": 7})),
            Passed::AsItIs
        );
        assert!(sessions.bound().is_empty() && !sessions.waits_for(&json!(3)));
    }

    #[test]
    fn what_was_bound_before_outlives_a_failure() {
        let mut sessions = Sessions::default();
        let load = |sessions: &mut Sessions, id: u64, folder: &str| {
            open(sessions, id, "session/load", json!({"cwd": folder, "sessionId": "s-1"}))
        };
        load(&mut sessions, 1, "/w");
        sessions.answer(&json!(1), &json!({"id": 1, "result": {}}));
        let name = sessions.bound()[0].name.clone();
        load(&mut sessions, 2, "/other");
        sessions.answer(
            &json!(2),
            &json!({"id": 2, "error": {"code": -32603, "message": "busy"}}),
        );
        let bound = sessions.by_id("s-1").unwrap();
        assert_eq!((&bound.name, bound.folder.as_str()), (&name, "/w"));
        let params = json!({"cwd": "/w", "sessionId": "s-1", "mcpServers": 7});
        assert_eq!(open(&mut sessions, 3, "session/resume", params), Passed::AsItIs);
        assert_eq!(sessions.id_of(&name).as_deref(), Some("s-1"));
    }

    #[test]
    fn an_agent_of_the_second_version_says_whether_it_starts_programs() {
        let mut sessions = Sessions::default();
        for (mcp, is_bound) in [
            (json!({"stdio": {}}), true),
            (json!({"http": {}}), false),
            (json!(null), false),
        ] {
            open(&mut sessions, 1, "initialize", json!({"protocolVersion": 2}));
            let result = json!({"protocolVersion": 2, "capabilities": {"session": {"mcp": mcp}}});
            sessions.answer(&json!(1), &json!({"id": 1, "result": result}));
            assert_eq!(sessions.version, Version::V2);
            let passed = open(&mut sessions, 2, "session/new", json!({"cwd": "/w"}));
            assert_eq!(matches!(passed, Passed::Changed(_)), is_bound, "{passed:?}");
        }
        open(&mut sessions, 3, "initialize", json!({"protocolVersion": 2}));
        sessions.answer(&json!(3), &json!({"id": 3, "result": {"protocolVersion": 1}}));
        assert_eq!(sessions.version, Version::V1);
        assert!(matches!(
            open(&mut sessions, 4, "session/new", json!({"cwd": "/w"})),
            Passed::Changed(_)
        ));
    }

    #[test]
    fn their_number_is_bounded() {
        let mut sessions = Sessions::default();
        for id in 0..2 * MAX_SESSIONS as u64 {
            open(&mut sessions, id, "session/new", json!({"cwd": "/w", "mcpServers": []}));
            sessions.answer(&json!(id), &json!({"id": id, "result": {"sessionId": id.to_string()}}));
        }
        assert_eq!(sessions.bound().len(), MAX_SESSIONS);
        assert!(sessions.by_id("0").is_none() && sessions.by_id("511").is_some());
    }
}
