//! How far a standing approval reaches: as a person chooses it, and in words.
//!
//! *Invariant:* what is said here of a scope is all that the contract says of it.

use std::time::{Duration, SystemTime};

use toolgate_contract::{Grant, GrantReach, GrantScope};

use super::arguments;
use super::terminal::counted;
use super::words;

/// Returns the scope of a reach without a limit.
pub(super) fn unlimited(reach: GrantReach) -> GrantScope {
    GrantScope {
        reach: reach.into(),
        ..GrantScope::default()
    }
}

/// Reads how long a grant is to hold. Here a number needs its unit: nobody means seconds.
///
/// # Errors
/// What would have been right.
pub(super) fn lasting(text: &str) -> Result<GrantScope, String> {
    let duration = arguments::duration(text).ok().filter(|duration| !duration.is_zero());
    let duration: Option<Duration> = duration.filter(|_| text.ends_with(|letter: char| letter.is_ascii_alphabetic()));
    let end = duration.and_then(|duration| SystemTime::now().checked_add(duration));
    let end = end.ok_or_else(|| format!("`{text}` is not a duration; write 30m or 2h"))?;
    Ok(GrantScope {
        expire_time: Some(end.into()),
        // What has an end of its own need not end with the service.
        ..unlimited(GrantReach::Workspace)
    })
}

/// Reads how many requests a grant is to let through.
///
/// # Errors
/// What would have been right.
pub(super) fn times(text: &str) -> Result<GrantScope, String> {
    let max_uses = text.parse().ok().filter(|&uses: &i32| uses > 0);
    let max_uses =
        max_uses.ok_or_else(|| format!("`{text}` is not a number of times; write a whole number, at least 1"))?;
    Ok(GrantScope {
        max_uses,
        ..unlimited(GrantReach::Workspace)
    })
}

/// Says how far a scope reaches.
pub(super) fn describe(scope: &GrantScope) -> String {
    let reach = match GrantReach::try_from(scope.reach).unwrap_or_default() {
        GrantReach::Unspecified | GrantReach::Run => Some("while the service runs"),
        GrantReach::Session => Some("this session"),
        GrantReach::Workspace if scope.expire_time.is_some() || scope.max_uses > 0 => None,
        GrantReach::Workspace => Some("for good"),
    };
    let mut parts: Vec<String> = reach.map(str::to_owned).into_iter().collect();
    parts.extend(scope.expire_time.map(|end| format!("until {}", words::time(end))));
    parts.extend((scope.max_uses > 0).then(|| counted(scope.max_uses, "use")));
    parts.join(", ")
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
            assert_eq!(describe(&scope), expected);
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
        assert_eq!(times("3").map(|scope| describe(&scope)).as_deref(), Ok("3 uses"));
        for text in ["0", "-1", "x", ""] {
            assert!(times(text).is_err_and(|why| why.contains("at least 1")), "{text}");
        }
        assert!(lasting("30m").is_ok_and(|scope| describe(&scope).starts_with("until ")));
        for text in ["0s", "", "soon", "5", "1e300h"] {
            assert!(
                lasting(text).is_err_and(|why| why.contains("write 30m or 2h")),
                "{text}"
            );
        }
    }
}
