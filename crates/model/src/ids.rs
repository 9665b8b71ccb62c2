//! Ids: texts that cannot be taken for one another.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        text_id!($(#[$doc])* $name (|id: &$name| id.as_str()));
    };
    ($(#[$doc:meta])* $name:ident ($shown:expr)) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text that is already known to be a valid id.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let shown: fn(&Self) -> &str = $shown;
                f.write_str(shown(self))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
    };
}

text_id! {
    /// Names one tool call: chosen by the client, or a UUIDv7 made by the service.
    ///
    /// The text is unique. Shown, an id is what its client calls it: see [`CallId::within`].
    CallId (|id: &CallId| id.name())
}
text_id! {
    /// Names one conversation of an agent.
    SessionId
}
text_id! {
    /// Names one prompt: `per_`, or `que_` if it asks questions, and a UUIDv7.
    PromptId
}
text_id! {
    /// Names one standing grant, `grant_` and a UUIDv7.
    GrantId
}
text_id! {
    /// Names one stored output: `tool_`, 12 hexadecimal digits, 14 letters or digits (`docs/spec/framework.md` §5.3).
    OutputId
}
text_id! {
    /// Names one run of the service; the owner of the calls that it runs.
    InstanceId
}

impl CallId {
    /// Makes a new id that sorts by time.
    pub fn generate() -> Self {
        Self::new(uuid::Uuid::now_v7().to_string())
    }
}

impl SessionId {
    /// Makes a session for a call that names none: nobody else shares it.
    pub fn generate() -> Self {
        Self::new(format!("ses_{}", uuid::Uuid::now_v7().simple()))
    }
}

impl GrantId {
    /// Makes a new id that sorts by time.
    pub fn generate() -> Self {
        Self::new(format!("grant_{}", uuid::Uuid::now_v7().simple()))
    }
}

impl InstanceId {
    /// Makes a new id that sorts by time.
    pub fn generate() -> Self {
        Self::new(uuid::Uuid::now_v7().simple().to_string())
    }
}
