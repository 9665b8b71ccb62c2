//! The environment of programs: that of the service, less what is the service's own and what its settings keep back.
//!
//! *Invariant:* pure.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Names and values of environment variables.
pub type Environment = BTreeMap<OsString, OsString>;

/// What the service's own variables begin with: settings, tokens among them.
const OWN: &[u8] = b"TOOLGATE_";

/// What servers get, which live long and are written by others: where things are, how to talk to people, how to reach the
/// network. Keys are in no variable of these.
const OF_SERVERS: &[&str] = &[
    "ALL_PROXY",
    "BUN_INSTALL",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "NVM_DIR",
    "PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VOLTA_HOME",
    "XDG_*",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Which variables programs get. In a pattern `*` stands for any characters; upper and lower case differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Names that are passed on; none at all means every name.
    pub allow: Vec<String>,
    /// Names that are not, whatever is allowed.
    pub deny: Vec<String>,
}

impl Filter {
    /// Returns what servers get: a few variables of all, and those that are named.
    pub fn of_servers(more: &[&str]) -> Self {
        Self {
            allow: OF_SERVERS.iter().chain(more).map(ToString::to_string).collect(),
            deny: Vec::new(),
        }
    }

    /// Says whether a variable is passed on. The service's own, `TOOLGATE_*`, never are.
    pub fn passes(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        let fits = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern.as_bytes(), name));
        !name.starts_with(OWN) && (self.allow.is_empty() || fits(&self.allow)) && !fits(&self.deny)
    }

    /// Returns the environment of programs, without what each start sets.
    pub(super) fn apply(&self, environment: &Environment) -> Vec<CString> {
        environment
            .iter()
            .filter(|(name, _)| *name != "PWD" && self.passes(name))
            .filter_map(|(name, value)| {
                let mut text: OsString = name.clone();
                text.push("=");
                text.push(value);
                CString::new(text.into_vec()).ok()
            })
            .collect()
    }
}

/// Matches greedily from the left, with one place to go back to: linear but for repetitions of the last part.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, read));
            at += 1;
        } else if pattern.get(at) == Some(&name[read]) {
            (at, read) = (at + 1, read + 1);
        } else if let Some((star_at, taken)) = star {
            star = Some((star_at, taken + 1));
            (at, read) = (star_at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        };
        check("PATH", "PATH", true);
        check("PATH", "PATHS", false);
        check("PATH", "path", false);
        check("LC_*", "LC_ALL", true);
        check("LC_*", "LC_", true);
        check("LC_*", "XLC_ALL", false);
        check("*_TOKEN", "GITHUB_TOKEN", true);
        check("*_TOKEN", "TOKEN", false);
        check("*TOKEN*", "A_TOKEN_TOKEN_B", true);
        check("A*B*C", "AxBxBxC", true);
        check("A*B*C", "AxBxBx", false);
        check("*", "", true);
        check("", "", true);
        check("", "A", false);
        check("**", "A", true);
    }

    #[test]
    fn the_services_own_settings_stay_with_it() {
        let environment = [
            ("A", "1"),
            ("TOOLGATE_TOKEN", "x"),
            ("PWD", "/x"),
            ("TOOLGATE", "kept"),
            ("B", "2"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        let check = |allow: &[&str], deny: &[&str], expected: &[&str]| {
            let filter = Filter {
                allow: allow.iter().map(ToString::to_string).collect(),
                deny: deny.iter().map(ToString::to_string).collect(),
            };
            let passed = filter
                .apply(&environment)
                .into_iter()
                .map(|text| text.into_string().unwrap());
            assert_eq!(passed.collect::<Vec<_>>(), expected, "{allow:?} {deny:?}");
        };
        check(&[], &[], &["A=1", "B=2", "TOOLGATE=kept"]);
        check(&["A", "TOOLGATE*"], &[], &["A=1", "TOOLGATE=kept"]);
        check(&["TOOLGATE_TOKEN"], &[], &[]);
        check(&["*"], &["B", "T*"], &["A=1"]);
    }

    proptest! {
        #[test]
        fn agrees_with_a_regular_expression(pattern in "[ab*]{0,8}", name in "[ab]{0,10}") {
            let regex = regex::Regex::new(&format!("^{}$", pattern.replace('*', ".*"))).unwrap();
            prop_assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), regex.is_match(&name));
        }
    }
}
