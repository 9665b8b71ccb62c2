//! The audit: who did what, by which rule, in records that are chained by their digests.
//!
//! A record is one line of canonical JSON (RFC 8785). Its `hash` is the SHA-256 of the line without that member, and
//! `previous` is the hash of the record before it, so a change of one record shows in it and in all that follow. With a
//! key, it is the HMAC-SHA256 instead, and `key` names which. The *head* (number and hash of the last record) is kept
//! apart and closes every export, so a missing end shows too; with a key it is sealed as well.
//!
//! What verification cannot find: somebody who may write to the records and the head, and has the key if there is one,
//! can write another history. Somebody without the key can still put back an earlier copy of all of it. Whoever has noted
//! a hash elsewhere finds both by expecting it; the service writes the head to its log when it starts and stops.
//!
//! *Invariant:* it uses the crate `model` only, and touches no store. Texts in records are redacted and bounded,
//! whatever a client sends.

mod facts;
mod line;
mod verify;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolgate_model::audit_key::Key;
use toolgate_model::redact::Redactor;
use toolgate_model::{CallId, GrantId, InstanceId, PromptId, Rule, SessionId, Timestamp};

pub use facts::RefusalSampler;
pub use verify::{Finding, Problem, Verified, Verifier};

/// Characters of a text in a record, at most.
pub const MAX_TEXT_CHARS: usize = 256;

/// Entries of a list in a record, at most.
pub const MAX_LIST_ENTRIES: usize = 16;

/// What the first record has in place of a hash.
pub const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The chain begins.
    Genesis,
    /// A call was admitted.
    Admitted,
    /// Something was refused at the door: no call came into being, or no reply was taken.
    Refused,
    /// Rules or grants allowed what a call asked for.
    Allowed,
    /// A rule denied it, or nobody could be asked.
    Denied,
    /// A person was asked.
    Prompted,
    /// Somebody approved, and somebody else has to as well.
    Approved,
    /// A prompt ended: by a reply, by time, or because its call was gone.
    Decided,
    /// A grant was taken back.
    Revoked,
    /// A call ended.
    Ended,
    /// A workspace was opened while the service ran.
    WorkspaceOpened,
    /// It was closed.
    WorkspaceClosed,
    /// Nothing of one that was created runs any more, and its files are kept.
    WorkspaceSuspended,
    /// One that was suspended takes calls again.
    WorkspaceResumed,
    /// Old records were removed; the rest goes on from the hash that is named.
    Checkpoint,
}

impl Kind {
    /// Returns the word for the kind, as records have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Genesis => "genesis",
            Self::Admitted => "admitted",
            Self::Refused => "refused",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Prompted => "prompted",
            Self::Approved => "approved",
            Self::Decided => "decided",
            Self::Revoked => "revoked",
            Self::Ended => "ended",
            Self::WorkspaceOpened => "workspace_opened",
            Self::WorkspaceClosed => "workspace_closed",
            Self::WorkspaceSuspended => "workspace_suspended",
            Self::WorkspaceResumed => "workspace_resumed",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// What is recorded. Which members are filled follows from the kind; empty ones are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// About what.
    pub kind: Kind,
    /// The run of the service that did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceId>,
    /// The workspace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The call that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// The tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Who made the call: the principal, or empty without authentication.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requester: String,
    /// Who decided or took back: the principal, or what it calls itself without authentication; empty if it was nobody.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// SHA-256 of the frozen input, hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input_digest: String,
    /// The prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptId>,
    /// The prompt whose reply settled this one too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because_of: Option<PromptId>,
    /// The permission that was asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub permission: String,
    /// For what; of a workspace its folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// What was decided: `once`, `always`, `instead`, `answers`, `reject`, `expired`, `withdrawn`; how a call ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decision: String,
    /// The rules that decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Why, in a word or a sentence; of `instead` the digest of what runs in place of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The grants that it made, used or ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<GrantId>,
    /// For how many of the same kind this record stands, if for more than itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The chain's name, where it begins and at checkpoints.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chain: String,
    /// Of a checkpoint: the last record that was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
    /// Of a checkpoint: the hash of that record.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub removed_hash: String,
}

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Counts from 1 without gaps.
    pub sequence: u64,
    /// When it was recorded; milliseconds since 1970.
    pub time: Timestamp,
    /// The hash of the record before.
    pub previous: String,
    /// Which key its hash is made with; none without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// What it says.
    #[serde(flatten)]
    pub fact: Fact,
    /// Of all the rest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// The end of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The chain's name.
    pub chain: String,
    /// The number of the last record.
    pub sequence: u64,
    /// Its hash.
    pub hash: String,
    /// The key that it was made with; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The HMAC of the head itself; empty without a key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seal: String,
}

/// The last line of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeadLine {
    kind: HeadKind,
    /// The records above.
    count: u64,
    #[serde(flatten)]
    head: Head,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum HeadKind {
    #[serde(rename = "head")]
    Head,
}

impl Head {
    /// Returns the last line of an export of `count` records, without its line feed.
    pub fn line(&self, count: u64) -> String {
        canonical(&HeadLine {
            kind: HeadKind::Head,
            count,
            head: self.clone(),
        })
    }

    fn seal(&self, key: &Key) -> String {
        let unsealed = Self {
            seal: String::new(),
            ..self.clone()
        };
        key.sign(&canonical(&unsealed))
    }
}

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The chain has been going on under a key, and there is none.
    #[error("the audit is kept with the key {key}, and the service has no key: set audit.key_file")]
    NoKey {
        /// Which.
        key: String,
    },
}

/// Makes records of facts.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// What the hashes are made with.
    pub key: Option<Key>,
    /// What keeps secrets out of the texts.
    pub redactor: Redactor,
}

impl Recorder {
    /// Makes the first record of a new chain.
    pub fn begin(&self, instance: &InstanceId, chain: &str, time: Timestamp) -> (Record, Head) {
        let nothing = Head {
            chain: chain.to_owned(),
            sequence: 0,
            hash: NO_HASH.to_owned(),
            key: String::new(),
            seal: String::new(),
        };
        let fact = Fact {
            instance: Some(instance.clone()),
            chain: chain.to_owned(),
            ..Fact::new(Kind::Genesis)
        };
        let record = self.link(&nothing, time, fact);
        let head = self.head_at(&nothing, &record);
        (record, head)
    }

    /// Makes the next records after a head, and the new head.
    ///
    /// # Errors
    /// The chain is kept with a key, and there is none here.
    pub fn chain(
        &self,
        mut head: Head,
        time: Timestamp,
        facts: impl IntoIterator<Item = Fact>,
    ) -> Result<(Vec<Record>, Head), RecordError> {
        self.check(&head)?;
        let mut records: Vec<Record> = Vec::new();
        for fact in facts {
            let record = self.link(&head, time, fact);
            (head.sequence, head.hash) = (record.sequence, record.hash.clone());
            records.push(record);
        }
        if let Some(last) = records.last() {
            head = self.head_at(&head, last);
        }
        Ok((records, head))
    }

    /// Says whether this recorder may go on from a head.
    ///
    /// # Errors
    /// The chain is kept with a key, and there is none here.
    pub fn check(&self, head: &Head) -> Result<(), RecordError> {
        if self.key.is_none() && !head.key.is_empty() {
            return Err(RecordError::NoKey { key: head.key.clone() });
        }
        Ok(())
    }

    fn link(&self, after: &Head, time: Timestamp, fact: Fact) -> Record {
        let key = self.key.as_ref();
        let mut record = Record {
            sequence: after.sequence + 1,
            time,
            previous: after.hash.clone(),
            key: key.map(|key| key.id().to_owned()).unwrap_or_default(),
            fact: self.bounded(fact),
            hash: String::new(),
        };
        record.hash = hash(&record.line(), key);
        record
    }

    /// Returns the head of a chain whose last record is this one.
    fn head_at(&self, before: &Head, last: &Record) -> Head {
        let mut head = Head {
            chain: before.chain.clone(),
            sequence: last.sequence,
            hash: last.hash.clone(),
            key: last.key.clone(),
            seal: String::new(),
        };
        if let Some(key) = &self.key {
            head.seal = head.seal(key);
        }
        head
    }

    /// Redacts and cuts every text that can come from outside.
    fn bounded(&self, mut fact: Fact) -> Fact {
        for text in [
            &mut fact.workspace,
            &mut fact.tool,
            &mut fact.agent,
            &mut fact.requester,
            &mut fact.by,
            &mut fact.permission,
            &mut fact.reason,
        ] {
            self.shorten(text);
        }
        self.list(&mut fact.patterns, |this, text| this.shorten(text));
        self.list(&mut fact.rules, |this, rule| {
            this.shorten(&mut rule.permission);
            this.shorten(&mut rule.pattern);
        });
        fact.grants.truncate(MAX_LIST_ENTRIES);
        fact.session = fact.session.map(|id| SessionId::new(self.id(id.as_str())));
        fact.call = fact.call.map(|id| CallId::new(self.id(id.as_str())));
        fact.parent = fact.parent.map(|id| CallId::new(self.id(id.as_str())));
        fact.prompt = fact.prompt.map(|id| PromptId::new(self.id(id.as_str())));
        fact
    }

    fn list<T>(&self, list: &mut Vec<T>, shorten: impl Fn(&Self, &mut T)) {
        list.truncate(MAX_LIST_ENTRIES);
        list.iter_mut().for_each(|item| shorten(self, item));
    }

    fn shorten(&self, text: &mut String) {
        self.redactor.string(text);
        if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
            text.truncate(end);
            text.push('…');
        }
    }

    fn id(&self, id: &str) -> String {
        let mut text = id.to_owned();
        self.shorten(&mut text);
        text
    }
}

/// Returns the hash of a record, as it is without its hash.
fn hash(unhashed: &str, key: Option<&Key>) -> String {
    match key {
        Some(key) => key.sign(unhashed),
        None => hex::encode(Sha256::digest(unhashed.as_bytes())),
    }
}

fn canonical(value: &impl Serialize) -> String {
    serde_json_canonicalizer::to_string(value)
        .expect("plain data with text keys and whole numbers has a canonical form")
}

/// Returns how a text of a finding is shown: it may be anything, and long.
fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(80) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests;
