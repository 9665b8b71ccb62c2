//! Who uses the service.
//!
//! *Invariant:* two principals are the same exactly when their ids are. The name that a client gives itself is no part
//! of one.

use std::fmt;

use super::Origin;

/// How the service knows a principal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PrincipalKind {
    /// It does not: authentication is not configured.
    #[default]
    Anonymous,
    /// By the user that the system names as the peer of a Unix socket.
    Owner,
    /// In the same way; but it is one of the group that may use the socket as well.
    Member,
    /// By a bearer token of the tokens file.
    Token,
    /// By a signed token of an issuer.
    Jwt,
    /// By a client certificate.
    Certificate,
    /// A process that was started for a call, which the name says.
    Call,
    /// A gateway that the service has registered at, by the secret of this run for it.
    Gateway,
    /// By a rule for workers that fits its signed token or its certificate.
    Worker,
}

/// Names of clients that a call may have, those of the calls above it included.
const MAX_CLIENTS: usize = 64;

/// What the ids of processes of calls begin with.
const CALL: &str = "call:";

/// Somebody, or some program, that the service deals with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    kind: PrincipalKind,
    name: String,
}

impl Principal {
    /// Returns the one that nobody asked who it is.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Makes a principal; an anonymous one has no name.
    pub fn new(kind: PrincipalKind, name: impl Into<String>) -> Self {
        match kind {
            PrincipalKind::Anonymous => Self::anonymous(),
            PrincipalKind::Owner
            | PrincipalKind::Member
            | PrincipalKind::Token
            | PrincipalKind::Jwt
            | PrincipalKind::Certificate
            | PrincipalKind::Call
            | PrincipalKind::Gateway
            | PrincipalKind::Worker => Self {
                kind,
                name: name.into(),
            },
        }
    }

    /// Returns how the service knows it.
    pub fn kind(&self) -> PrincipalKind {
        self.kind
    }

    /// Returns its name; empty if it is anonymous.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what identifies it, in records too: the kind and the name, or nothing if it is anonymous.
    pub fn id(&self) -> String {
        match self.kind {
            PrincipalKind::Anonymous => String::new(),
            PrincipalKind::Owner => format!("unix:{}", self.name),
            PrincipalKind::Member => format!("user:{}", self.name),
            PrincipalKind::Token => format!("token:{}", self.name),
            PrincipalKind::Jwt => format!("jwt:{}", self.name),
            PrincipalKind::Certificate => format!("certificate:{}", self.name),
            PrincipalKind::Call => format!("{CALL}{}", self.name),
            PrincipalKind::Gateway => format!("gateway:{}", self.name),
            PrincipalKind::Worker => format!("worker:{}", self.name),
        }
    }

    /// Returns how it is called beside a decision: by its name, and by what it calls itself if that says more.
    pub fn display_name(&self, own_words: &str) -> String {
        match (self.name.as_str(), own_words) {
            ("", words) => words.to_owned(),
            (name, "") => name.to_owned(),
            (name, words) if name == words => name.to_owned(),
            (name, words) => format!("{name} ({words})"),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            PrincipalKind::Anonymous => f.write_str("anonymous"),
            PrincipalKind::Owner
            | PrincipalKind::Member
            | PrincipalKind::Token
            | PrincipalKind::Jwt
            | PrincipalKind::Certificate
            | PrincipalKind::Call
            | PrincipalKind::Gateway
            | PrincipalKind::Worker => f.write_str(&self.id()),
        }
    }
}

impl Origin {
    /// Says that the call is made on behalf of another one: of everybody in whose name that was made, too, and where that
    /// one works, with its variables and with what it says of unanswered prompts, unless it says so itself.
    pub fn inherit(&mut self, parent: &Self) {
        if self.environment.is_empty() {
            self.environment.clone_from(&parent.environment);
        }
        if self.directory.is_empty() && self.workspace == parent.workspace {
            self.directory.clone_from(&parent.directory);
        }
        if self.unanswered.is_none() {
            self.unanswered = parent.unanswered;
        }
        self.on_behalf_of = parent.requesters();
        self.on_behalf_of.retain(|id| *id != self.requester);
        for client in &parent.clients {
            if self.clients.len() < MAX_CLIENTS && !self.clients.contains(client) {
                self.clients.push(client.clone());
            }
        }
    }

    /// Returns who answers for the cost of the call: not the process of another call, but who made that one.
    pub fn payer(&self) -> &str {
        let mut all = std::iter::once(&self.requester).chain(&self.on_behalf_of);
        all.find(|id| !id.starts_with(CALL)).unwrap_or(&self.requester)
    }

    /// Returns everybody in whose name the call is made: who made it, and who made the calls above it.
    pub fn requesters(&self) -> Vec<String> {
        let mut all = vec![self.requester.clone()];
        all.extend(self.on_behalf_of.iter().filter(|id| **id != self.requester).cloned());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_of_another_kind_is_somebody_else() {
        let token = Principal::new(PrincipalKind::Token, "alice");
        let jwt = Principal::new(PrincipalKind::Jwt, "alice");
        assert_ne!(token.id(), jwt.id());
        assert_eq!(Principal::new(PrincipalKind::Anonymous, "alice").id(), "");
    }

    #[test]
    fn a_call_on_behalf_of_another_is_made_as_that_one() {
        let origin = |more: serde_json::Value| -> Origin {
            let mut fields = serde_json::json!({"workspace": "main", "session": "s", "agent": "build"});
            fields
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            serde_json::from_value(fields).unwrap()
        };
        let parent = serde_json::json!({"directory": "a", "environment": {"A": "1"}, "unanswered": "refuse"});
        let mut child = origin(serde_json::json!({}));
        child.inherit(&origin(parent.clone()));
        assert_eq!((&*child.directory, child.environment["A"].as_str()), ("a", "1"));
        assert_eq!(child.unanswered, Some(crate::Unanswered::Refuse));
        let own = serde_json::json!({"directory": "b", "environment": {"B": "2"}, "unanswered": {"wait": null}});
        let mut child = origin(own.clone());
        child.inherit(&origin(parent));
        assert_eq!(child, origin(own));
    }

    #[test]
    fn a_client_cannot_take_a_name_away() {
        let alice = Principal::new(PrincipalKind::Token, "alice");
        assert_eq!(alice.display_name("bob"), "alice (bob)");
        assert_eq!(alice.display_name(""), "alice");
        assert_eq!(alice.display_name("alice"), "alice");
        assert_eq!(Principal::anonymous().display_name("bob"), "bob");
    }
}
