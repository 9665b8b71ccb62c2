//! A record written as canonical JSON (RFC 8785) straight away: every call writes some, and a general writer first gathers and
//! sorts the members of each.
//!
//! *Invariant:* the text is the one that the general writer makes of the record, which verification goes on to use. It holds
//! because the members stand here in the order of their names, numbers are whole and below 2^53, and texts are escaped alike.

use serde::Serialize;
use toolgate_model::{Action, CallId, GrantId, InstanceId, PromptId, Rule, SessionId, Timestamp};

use super::{Fact, Kind, Record};

/// The members of a record, in the order of their names.
#[derive(Serialize)]
struct Line<'r> {
    #[serde(skip_serializing_if = "str::is_empty")]
    agent: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    because_of: Option<&'r PromptId>,
    #[serde(skip_serializing_if = "str::is_empty")]
    by: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<&'r CallId>,
    #[serde(skip_serializing_if = "str::is_empty")]
    chain: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    decision: &'r str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    grants: &'r [GrantId],
    #[serde(skip_serializing_if = "str::is_empty")]
    hash: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    input_digest: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'r InstanceId>,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'r str,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'r CallId>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    patterns: &'r [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    permission: &'r str,
    previous: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'r PromptId>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    removed_hash: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    requester: &'r str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<RuleMembers<'r>>,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'r SessionId>,
    time: Timestamp,
    #[serde(skip_serializing_if = "str::is_empty")]
    tool: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    workspace: &'r str,
}

/// The members of a rule, in the order of their names.
#[derive(Serialize)]
struct RuleMembers<'r> {
    action: Action,
    pattern: &'r str,
    permission: &'r str,
}

impl Record {
    /// Returns the record as it is stored and exported: canonical JSON, one line without its line feed.
    pub fn line(&self) -> String {
        let Record {
            sequence,
            time,
            previous,
            key,
            fact,
            hash,
        } = self;
        let Fact {
            kind,
            instance,
            workspace,
            session,
            call,
            parent,
            tool,
            agent,
            requester,
            by,
            input_digest,
            prompt,
            because_of,
            permission,
            patterns,
            decision,
            rules,
            reason,
            grants,
            count,
            chain,
            removed,
            removed_hash,
        } = fact;
        let line = Line {
            agent,
            because_of: because_of.as_ref(),
            by,
            call: call.as_ref(),
            chain,
            count: *count,
            decision,
            grants,
            hash,
            input_digest,
            instance: instance.as_ref(),
            key,
            kind: *kind,
            parent: parent.as_ref(),
            patterns,
            permission,
            previous,
            prompt: prompt.as_ref(),
            reason,
            removed: *removed,
            removed_hash,
            requester,
            rules: rules.iter().map(members).collect(),
            sequence: *sequence,
            session: session.as_ref(),
            time: *time,
            tool,
            workspace,
        };
        serde_json::to_string(&line).expect("plain data with text keys and whole numbers has a JSON")
    }
}

fn members(rule: &Rule) -> RuleMembers<'_> {
    let Rule {
        permission,
        pattern,
        action,
    } = rule;
    RuleMembers {
        action: *action,
        pattern,
        permission,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::audit::canonical;

    fn full(text: &str, number: u64) -> Record {
        let own = || text.to_owned();
        let rule = |action| Rule {
            permission: own(),
            pattern: own(),
            action,
        };
        Record {
            sequence: number,
            time: Timestamp(i64::try_from(number).unwrap_or(i64::MAX)),
            previous: own(),
            key: own(),
            fact: Fact {
                kind: Kind::Decided,
                instance: Some(InstanceId::new(own())),
                workspace: own(),
                session: Some(SessionId::new(own())),
                call: Some(CallId::new(own())),
                parent: Some(CallId::new(own())),
                tool: own(),
                agent: own(),
                requester: own(),
                by: own(),
                input_digest: own(),
                prompt: Some(PromptId::new(own())),
                because_of: Some(PromptId::new(own())),
                permission: own(),
                patterns: vec![own(), own()],
                decision: own(),
                rules: vec![rule(Action::Allow), rule(Action::Deny)],
                reason: own(),
                grants: vec![GrantId::new(own())],
                count: Some(number),
                chain: own(),
                removed: Some(number),
                removed_hash: own(),
            },
            hash: own(),
        }
    }

    proptest! {
        #[test]
        fn it_is_what_the_general_writer_makes_of_it(text in any::<String>(), number in 0..1u64 << 53) {
            let record = full(&text, number);
            prop_assert_eq!(record.line(), canonical(&record));
        }
    }

    #[test]
    fn what_is_empty_and_what_is_escaped() {
        for text in ["", "\"\\/\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}\u{80}\u{2028}é𝄞"] {
            let record = full(text, 1);
            assert_eq!(record.line(), canonical(&record), "{text:?}");
        }
        let bare = Record {
            fact: Fact::new(Kind::Genesis),
            ..full("", 1)
        };
        assert_eq!(bare.line(), canonical(&bare));
    }
}
