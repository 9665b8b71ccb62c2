//! How far a standing approval reaches: as a person chooses it, as a program writes it, and in words.
//!
//! *Invariant:* what is said here of a scope is all that the contract says of it.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use toolgate_contract::{Grant, GrantReach, GrantScope};

use super::arguments;
use super::terminal::counted;

/// A scope as a program writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawScope {
    reach: RawReach,
    /// A moment as RFC 3339 writes it.
    expire_time: Option<String>,
    max_uses: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawReach {
    #[default]
    Unspecified,
    Run,
    Session,
    Workspace,
}

impl RawScope {
    /// Returns the scope on the wire.
    pub(super) fn parse(self) -> Result<GrantScope, String> {
        let reach = match self.reach {
            RawReach::Unspecified => GrantReach::Unspecified,
            RawReach::Run => GrantReach::Run,
            RawReach::Session => GrantReach::Session,
            RawReach::Workspace => GrantReach::Workspace,
        };
        let moment = |text: String| {
            text.parse::<prost_types::Timestamp>()
                .map_err(|error| format!("expire_time {text:?} is not a time such as 2030-01-31T12:00:00Z: {error}"))
        };
        Ok(GrantScope {
            reach: reach.into(),
            expire_time: self.expire_time.map(moment).transpose()?,
            max_uses: self.max_uses,
        })
    }
}

/// Returns the scope of a reach without a limit.
pub(super) fn unlimited(reach: GrantReach) -> GrantScope {
    GrantScope {
        reach: reach.into(),
        ..GrantScope::default()
    }
}

/// Reads how long a grant is to hold.
pub(super) fn lasting(text: &str) -> Option<GrantScope> {
    let duration: Duration = arguments::duration(text).ok().filter(|duration| !duration.is_zero())?;
    let end = SystemTime::now().checked_add(duration)?;
    Some(GrantScope {
        expire_time: Some(end.into()),
        // What has an end of its own need not end with the service.
        ..unlimited(GrantReach::Workspace)
    })
}

/// Reads how many requests a grant is to let through.
pub(super) fn times(text: &str) -> Option<GrantScope> {
    let max_uses = text.parse().ok().filter(|&uses: &i32| uses > 0)?;
    Some(GrantScope {
        max_uses,
        ..unlimited(GrantReach::Workspace)
    })
}

/// Says how far a scope reaches.
pub(super) fn words(scope: &GrantScope) -> String {
    let mut text = match GrantReach::try_from(scope.reach).unwrap_or_default() {
        GrantReach::Unspecified | GrantReach::Run => "while the service runs".to_owned(),
        GrantReach::Session => "this session".to_owned(),
        GrantReach::Workspace if scope.expire_time.is_some() || scope.max_uses > 0 => String::new(),
        GrantReach::Workspace => "for good".to_owned(),
    };
    let separator = |text: &String| if text.is_empty() { "" } else { ", " };
    if let Some(time) = &scope.expire_time {
        let end = prost_types::Timestamp { nanos: 0, ..*time };
        let before = separator(&text);
        let _ = write!(text, "{before}until {end}");
    }
    if scope.max_uses > 0 {
        let before = separator(&text);
        let _ = write!(text, "{before}{}", counted(scope.max_uses, "use"));
    }
    text
}

/// Says how often a grant was used, and how often it may be.
pub(super) fn uses(grant: &Grant) -> String {
    match grant.scope.as_ref().map_or(0, |scope| scope.max_uses) {
        0 => grant.use_count.to_string(),
        most => format!("{} of {most}", grant.use_count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_in_words() {
        let end = prost_types::Timestamp {
            seconds: 3600,
            nanos: 5,
        };
        let check = |reach: GrantReach, expire_time: Option<prost_types::Timestamp>, max_uses: i32, expected: &str| {
            let scope = GrantScope {
                reach: reach.into(),
                expire_time,
                max_uses,
            };
            assert_eq!(words(&scope), expected);
        };
        check(GrantReach::Run, None, 0, "while the service runs");
        check(GrantReach::Session, None, 3, "this session, 3 uses");
        check(GrantReach::Workspace, None, 0, "for good");
        check(GrantReach::Workspace, Some(end), 0, "until 1970-01-01T01:00:00Z");
        check(
            GrantReach::Workspace,
            Some(end),
            2,
            "until 1970-01-01T01:00:00Z, 2 uses",
        );
    }

    #[test]
    fn limits_are_read() {
        assert_eq!(times("3").map(|scope| words(&scope)).as_deref(), Some("3 uses"));
        for text in ["0", "-1", "x", ""] {
            assert_eq!(times(text), None, "{text}");
        }
        assert!(lasting("30m").is_some_and(|scope| words(&scope).starts_with("until ")));
        for text in ["0s", "", "soon", "1e300h"] {
            assert_eq!(lasting(text), None, "{text}");
        }
    }

    #[test]
    fn scopes_from_programs() {
        let check = |text: &str, expected: Option<(GrantReach, i32, bool)>| {
            let scope = serde_json::from_str::<RawScope>(text)
                .ok()
                .and_then(|raw| raw.parse().ok());
            let found = scope.map(|scope| (scope.reach(), scope.max_uses, scope.expire_time.is_some()));
            assert_eq!(found, expected, "{text}");
        };
        check("{}", Some((GrantReach::Unspecified, 0, false)));
        check(
            r#"{"reach": "session", "max_uses": 2}"#,
            Some((GrantReach::Session, 2, false)),
        );
        check(
            r#"{"expire_time": "2030-01-31T12:00:00Z"}"#,
            Some((GrantReach::Unspecified, 0, true)),
        );
        check(r#"{"expire_time": "tomorrow"}"#, None);
        check(r#"{"reach": "world"}"#, None);
        check(r#"{"uses": 2}"#, None);
    }
}
