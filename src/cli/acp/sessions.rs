//! The sessions of the protocol, and the session of Toolgate that each is bound to.
//!
//! The agent chooses the id of a new session and tells it in its answer, when it may have started the tools already. So the
//! session of Toolgate has a name of its own, which is bound to the id when that is known.
//!
//! *Invariant:* of a message nothing changes but its list of MCP servers: every other byte is as it came. The numbers of sessions and
//! of answers that are waited for are bounded.

use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::lines::Id;
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
    Changed(Vec<u8>),
    /// As it is, because of this.
    Unbound(&'static str),
}

/// All of them.
#[derive(Default)]
pub(super) struct Sessions {
    pub(super) version: Version,
    /// Why the agent takes no server that is a program.
    refuses_programs: bool,
    pending: HashMap<Id, Pending>,
    bound: Vec<Bound>,
}

impl Sessions {
    /// Says whether a request of the editor matters.
    pub(super) fn is_about(method: &str) -> bool {
        [INITIALIZE, NEW, LOAD, RESUME, FORK, CLOSE, DELETE].contains(&method)
    }

    /// Says whether the answer to this request is of interest.
    pub(super) fn waits_for(&self, id: &Id) -> bool {
        self.pending.contains_key(id)
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
        (id, method): (&Id, &str),
        line: &[u8],
        server: impl FnOnce(&str, &str) -> Value,
    ) -> Passed {
        match method {
            INITIALIZE => {
                self.expect(id, Pending::Initialized);
                Passed::AsItIs
            }
            CLOSE | DELETE => {
                if let Some(session) = session_of(line) {
                    self.expect(id, Pending::Closed(session));
                }
                Passed::AsItIs
            }
            NEW | LOAD | RESUME | FORK => self.open(id, method == FORK, line, server),
            _ => Passed::AsItIs,
        }
    }

    fn open(&mut self, id: &Id, is_fork: bool, line: &[u8], server: impl FnOnce(&str, &str) -> Value) -> Passed {
        let Some(params) = params::<Opening<'_>>(line) else {
            return Passed::Unbound("the request of the editor cannot be read");
        };
        let Some(folder) = text(params.cwd) else {
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
        let known = text(params.session).filter(|_| !is_fork);
        let earlier = known.as_deref().and_then(|acp| self.by_id(acp));
        let (name, earlier) = match earlier {
            Some(bound) => (bound.name.clone(), Some(bound.folder.clone())),
            None => (new_name(), None),
        };
        let Some(changed) = with_server(line, &server(&name, &folder)) else {
            return Passed::Unbound("its list of MCP servers cannot be read");
        };
        self.bind(&name, known.as_deref(), &folder);
        self.expect(id, Pending::Opened { name, known, earlier });
        Passed::Changed(changed)
    }

    fn expect(&mut self, id: &Id, what: Pending) {
        if self.pending.len() < MAX_PENDING {
            self.pending.insert(id.clone(), what);
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
    pub(super) fn answer(&mut self, id: &Id, line: &[u8]) {
        let Some(pending) = self.pending.remove(id) else {
            return;
        };
        // What cannot be read is no error, and tells nothing.
        let answer = serde_json::from_slice::<Answer<'_>>(line).unwrap_or_default();
        let result = answer.error.is_none().then_some(answer.result);
        match (pending, result) {
            (Pending::Initialized, Some(result)) => {
                let agreed: Agreed<'_> = read(result).unwrap_or_default();
                self.version = Version::of(read(agreed.version).unwrap_or(1));
                self.refuses_programs = self.version == Version::V2 && !agreed.starts_programs();
            }
            (Pending::Opened { name, known, .. }, Some(result)) => {
                let told = read::<InSession<'_>>(result).and_then(|result| text(result.session));
                let acp = told.or(known);
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

// Only what matters is read, and only so far: what nobody looks at may be anything.

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    params: &'a RawValue,
}

/// What asks for a session.
#[derive(Deserialize)]
struct Opening<'a> {
    #[serde(default, borrow)]
    cwd: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "sessionId")]
    session: Option<&'a RawValue>,
}

/// What is about a session.
#[derive(Deserialize)]
struct InSession<'a> {
    #[serde(default, borrow, rename = "sessionId")]
    session: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WithServers<'a> {
    /// Where it is `null`, that is what it is.
    #[serde(default, borrow, rename = "mcpServers", deserialize_with = "as_it_is")]
    servers: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
struct Answer<'a> {
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// What editor and agent have agreed on.
#[derive(Default, Deserialize)]
struct Agreed<'a> {
    #[serde(default, borrow, rename = "protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(default, borrow)]
    capabilities: Option<&'a RawValue>,
}

impl Agreed<'_> {
    fn starts_programs(&self) -> bool {
        let capabilities: Option<Value> = read(self.capabilities);
        capabilities.is_some_and(|capabilities| capabilities["session"]["mcp"]["stdio"].is_object())
    }
}

fn as_it_is<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads the parameters of a message.
fn params<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    let request: Request<'a> = serde_json::from_slice(line).ok()?;
    read(Some(request.params))
}

fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    read(raw)
}

/// Returns the id of the session that a message is about.
pub(super) fn session_of(line: &[u8]) -> Option<String> {
    text(params::<InSession<'_>>(line)?.session)
}

/// Returns a request with one more server, in the place of one of the same name; none if its list of servers cannot be read.
fn with_server(line: &[u8], server: &Value) -> Option<Vec<u8>> {
    let params: &RawValue = serde_json::from_slice::<Request<'_>>(line).ok()?.params;
    let (at, length, text) = match read::<WithServers<'_>>(Some(params))?.servers {
        // The parameters are an object, which has a folder at least.
        None => (offset(line, params) + 1, 0, format!("\"mcpServers\":[{server}],")),
        Some(list) => {
            let others: Option<Vec<&RawValue>> = serde_json::from_str(list.get()).ok()?;
            let is_other = |other: &&RawValue| read::<Named>(Some(*other)).is_none_or(|other| other.name != SERVER);
            let others = others.into_iter().flatten().filter(is_other).map(RawValue::get);
            let server = server.to_string();
            let all: Vec<&str> = others.chain([server.as_str()]).collect();
            (offset(line, list), list.get().len(), format!("[{}]", all.join(",")))
        }
    };
    Some([line.get(..at)?, text.as_bytes(), line.get(at + length..)?].concat())
}

/// Returns where a part of a line, read from it, begins.
fn offset(line: &[u8], part: &RawValue) -> usize {
    part.get().as_ptr().addr() - line.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::lines::{Message, read as read_line};
    use super::*;

    fn entry(name: &str, folder: &str) -> Value {
        json!({"name": SERVER, "args": [name, folder]})
    }

    fn id(number: u64) -> Id {
        match read_line(format!("{{\"id\":{number}}}").as_bytes()) {
            Some(Message::Answer(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn open(sessions: &mut Sessions, number: u64, method: &str, params: Value) -> Passed {
        let message = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
        sessions.request((&id(number), method), message.to_string().as_bytes(), entry)
    }

    fn answer(sessions: &mut Sessions, number: u64, message: &Value) {
        sessions.answer(&id(number), message.to_string().as_bytes());
    }

    fn changed(passed: &Passed) -> Value {
        match passed {
            Passed::Changed(message) => serde_json::from_slice(message).unwrap(),
            other @ (Passed::AsItIs | Passed::Unbound(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_session_gets_the_server_and_is_bound_by_the_answer() {
        let mut sessions = Sessions::default();
        let others = json!([{"name": "other"}, {"name": "toolgate", "command": "old"}]);
        let params = json!({"cwd": "/w", "mcpServers": others, "_meta": {"x": 1.50}});
        let message = changed(&open(&mut sessions, 1, "session/new", params));
        let servers = message["params"]["mcpServers"].as_array().unwrap();
        let name = servers[1]["args"][0].as_str().unwrap().to_owned();
        assert_eq!(
            (servers.len(), &servers[0]["name"], &servers[1]["args"][1]),
            (2, &json!("other"), &json!("/w"))
        );
        assert_eq!(message["params"]["_meta"]["x"], 1.5);
        assert_eq!(sessions.id_of(&name), None);
        assert!(sessions.waits_for(&id(1)) && !sessions.waits_for(&id(2)));
        answer(&mut sessions, 1, &json!({"id": 1, "result": {"sessionId": "s 1"}}));
        assert_eq!(sessions.id_of(&name).as_deref(), Some("s 1"));

        // Loaded again it is the same.
        let loaded = open(
            &mut sessions,
            2,
            "session/load",
            json!({"cwd": "/w", "sessionId": "s 1"}),
        );
        assert_eq!(changed(&loaded)["params"]["mcpServers"][0]["args"][0], name.as_str());
        answer(&mut sessions, 2, &json!({"id": 2, "result": null}));
        assert_eq!(
            (sessions.id_of(&name).as_deref(), sessions.bound().len()),
            (Some("s 1"), 1)
        );

        let over = sessions.by_id("s 1").unwrap().over.clone();
        open(&mut sessions, 3, "session/close", json!({"sessionId": "s 1"}));
        assert!(!over.is_cancelled());
        answer(&mut sessions, 3, &json!({"id": 3, "result": {}}));
        assert!(over.is_cancelled() && sessions.bound().is_empty());
    }

    #[test]
    fn nothing_changes_but_the_list_of_servers() {
        let check = |before: &str, after: &str| {
            let passed =
                Sessions::default().request((&id(1), "session/new"), before.as_bytes(), |_, _| json!({"n": 1}));
            let Passed::Changed(changed) = passed else {
                panic!("{passed:?}");
            };
            assert_eq!(String::from_utf8(changed).unwrap(), after);
        };
        check(
            r#" {"id":1.0,"params" : { "cwd":"\u002fw", "_meta":{"n":1.50,"big":12345678901234567890123,"n":1e999,"s":"\ud800"}},"x":[ 1 ]} "#,
            r#" {"id":1.0,"params" : {"mcpServers":[{"n":1}], "cwd":"\u002fw", "_meta":{"n":1.50,"big":12345678901234567890123,"n":1e999,"s":"\ud800"}},"x":[ 1 ]} "#,
        );
        check(
            r#"{"params":{"mcpServers": null ,"cwd":"/w"}}"#,
            r#"{"params":{"mcpServers": [{"n":1}] ,"cwd":"/w"}}"#,
        );
        check(
            r#"{"params":{"cwd":"/w","mcpServers":[ {"name":"a","b":1.0}, {"name":"toolgate","b":2}, 7 ]}}"#,
            r#"{"params":{"cwd":"/w","mcpServers":[{"name":"a","b":1.0},7,{"n":1}]}}"#,
        );
        let mut sessions = Sessions::default();
        let mut twice = |line: &str| sessions.request((&id(1), "session/new"), line.as_bytes(), entry);
        for line in [
            r#"{"params":{"cwd":"/w","mcpServers":[],"mcpServers":[]}}"#,
            r#"{"params":{"cwd":"/v","cwd":"/w"}}"#,
        ] {
            let passed = twice(line);
            assert!(matches!(passed, Passed::Unbound(_)), "{line}: {passed:?}");
        }
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
        answer(
            &mut sessions,
            1,
            &json!({"id": 1, "error": {"code": -32002, "message": "none"}}),
        );
        assert!(sessions.bound().is_empty());
        assert_eq!(
            open(&mut sessions, 2, "session/new", json!({"mcpServers": []})),
            Passed::AsItIs
        );
        let unread = open(&mut sessions, 3, "session/new", json!({"cwd": "/w", "mcpServers": 7}));
        assert!(matches!(unread, Passed::Unbound(_)), "{unread:?}");
        assert!(sessions.bound().is_empty() && !sessions.waits_for(&id(3)));
    }

    #[test]
    fn what_was_bound_before_outlives_a_failure() {
        let mut sessions = Sessions::default();
        let load = |sessions: &mut Sessions, id: u64, folder: &str| {
            open(sessions, id, "session/load", json!({"cwd": folder, "sessionId": "s-1"}))
        };
        load(&mut sessions, 1, "/w");
        answer(&mut sessions, 1, &json!({"id": 1, "result": {}}));
        let name = sessions.bound()[0].name.clone();
        load(&mut sessions, 2, "/other");
        answer(
            &mut sessions,
            2,
            &json!({"id": 2, "error": {"code": -32603, "message": "busy"}}),
        );
        let bound = sessions.by_id("s-1").unwrap();
        assert_eq!((&bound.name, bound.folder.as_str()), (&name, "/w"));
        let params = json!({"cwd": "/w", "sessionId": "s-1", "mcpServers": 7});
        let unread = open(&mut sessions, 3, "session/resume", params);
        assert!(matches!(unread, Passed::Unbound(_)), "{unread:?}");
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
            answer(&mut sessions, 1, &json!({"id": 1, "result": result}));
            assert_eq!(sessions.version, Version::V2);
            let passed = open(&mut sessions, 2, "session/new", json!({"cwd": "/w"}));
            assert_eq!(matches!(passed, Passed::Changed(_)), is_bound, "{passed:?}");
        }
        open(&mut sessions, 3, "initialize", json!({"protocolVersion": 2}));
        answer(&mut sessions, 3, &json!({"id": 3, "result": {"protocolVersion": 1}}));
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
            answer(
                &mut sessions,
                id,
                &json!({"id": id, "result": {"sessionId": id.to_string()}}),
            );
        }
        assert_eq!(sessions.bound().len(), MAX_SESSIONS);
        assert!(sessions.by_id("0").is_none() && sessions.by_id("511").is_some());
    }
}
