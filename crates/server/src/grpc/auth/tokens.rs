//! Bearer tokens from a file.
//!
//! Two forms: TOML with `[[tokens]]` tables (`name`, `sha256` or `token`, `scopes`, `workspaces`), or lines of
//! `NAME TOKEN SCOPES [WORKSPACES]`, lists separated by commas and a hash written `sha256:HEX`. `#` begins a comment line.
//!
//! *Invariant:* only hashes are kept and compared, all of them, in constant time. Problems name a line, never its text.

use std::path::Path;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use toolgate_model::{Principal, PrincipalKind};

use super::caller::{self, Caller, Scopes};
use super::error::AuthError;
use super::files::wrong;

/// Letters of the shortest token: one that can be guessed is none.
const MIN_TOKEN_LETTERS: usize = 16;

/// The tokens of a file.
#[derive(Debug, Default)]
pub(super) struct Tokens(Vec<Token>);

#[derive(Debug)]
struct Token {
    hash: [u8; 32],
    caller: Caller,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    tokens: Vec<RawToken>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawToken {
    name: String,
    sha256: Option<String>,
    token: Option<String>,
    scopes: Vec<String>,
    workspaces: Option<Vec<String>>,
}

impl Tokens {
    /// Reads the content of a file.
    pub(super) fn parse(path: &Path, content: &[u8]) -> Result<Self, AuthError> {
        let text = std::str::from_utf8(content).map_err(|_| wrong(path, "it is not UTF-8"))?;
        let meant = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let first = text.lines().find(meant).unwrap_or_default();
        let raw = if first.trim_start().starts_with('[') {
            toml::from_str::<RawFile>(text)
                .map(|file| file.tokens)
                .map_err(|error| {
                    // The error itself would show the line.
                    let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
                    wrong(path, format!("line {line} or the table that begins there is no token"))
                })?
        } else {
            let lines = text.lines().enumerate().filter(|(_, line)| meant(line));
            lines
                .map(|(at, line)| {
                    line_token(line).ok_or_else(|| {
                        wrong(
                            path,
                            format!("line {}: expected NAME TOKEN SCOPES [WORKSPACES]", at + 1),
                        )
                    })
                })
                .collect::<Result<_, _>>()?
        };
        let mut tokens = Self::default();
        for (at, raw) in raw.into_iter().enumerate() {
            tokens
                .add(raw)
                .map_err(|problem| wrong(path, format!("token {}: {problem}", at + 1)))?;
        }
        Ok(tokens)
    }

    fn add(&mut self, raw: RawToken) -> Result<(), String> {
        let hash = match (&raw.sha256, &raw.token) {
            (Some(hex), None) => from_hex(hex).ok_or("its sha256 is not 64 hexadecimal digits")?,
            (None, Some(token)) if token.len() < MIN_TOKEN_LETTERS => {
                return Err(format!("its token has fewer than {MIN_TOKEN_LETTERS} letters"));
            }
            (None, Some(token)) => Sha256::digest(token.as_bytes()).into(),
            (None, None) | (Some(_), Some(_)) => return Err("it needs either sha256 or token".to_owned()),
        };
        if raw.name.is_empty() || raw.name.len() > 128 || raw.name.chars().any(char::is_control) {
            return Err("it has no proper name".to_owned());
        }
        if self.0.iter().any(|other| other.hash == hash) {
            return Err("an earlier one is the same".to_owned());
        }
        let principal = Principal::new(PrincipalKind::Token, raw.name);
        let scopes = Scopes::parse(raw.scopes.iter().map(String::as_str))?;
        let workspaces = caller::workspaces(raw.workspaces.as_deref())?;
        let caller = Caller::new(principal, scopes, workspaces);
        self.0.push(Token { hash, caller });
        Ok(())
    }

    /// Returns the number of tokens.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Finds a token by its owner's name. Of several the first one speaks.
    pub(super) fn named(&self, name: &str) -> Option<&Caller> {
        let mut callers = self.0.iter().map(|token| &token.caller);
        callers.find(|caller| caller.principal().name() == name)
    }

    /// Finds the owner of a token. Takes the same time whichever it is, and if it is none.
    pub(super) fn find(&self, token: &str) -> Option<&Caller> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let mut found = u64::MAX;
        for (at, token) in (0u64..).zip(&self.0) {
            let same = token.hash.ct_eq(&hash);
            found.conditional_assign(&at, same);
        }
        let at = usize::try_from(found).ok()?;
        self.0.get(at).map(|token| &token.caller)
    }
}

fn line_token(line: &str) -> Option<RawToken> {
    let mut words = line.split_whitespace();
    let (name, secret, scopes) = (words.next()?, words.next()?, words.next()?);
    let list = |text: &str| text.split(',').map(str::to_owned).collect();
    let workspaces = words.next().map(list);
    if words.next().is_some() {
        return None;
    }
    let hash = secret.strip_prefix("sha256:");
    Some(RawToken {
        name: name.to_owned(),
        sha256: hash.map(str::to_owned),
        token: hash.is_none().then(|| secret.to_owned()),
        scopes: list(scopes),
        workspaces,
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    hex::decode_to_slice(text, &mut hash).ok().map(|()| hash)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "correct horse battery";

    fn parse(text: &str) -> Result<Tokens, String> {
        Tokens::parse(Path::new("tokens"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn both_forms_say_the_same() {
        let hash = hex::encode(Sha256::digest(SECRET.as_bytes()));
        let toml = format!(
            "# ours\n[[tokens]]\nname = \"a\"\nsha256 = \"{hash}\"\nscopes = [\"calls.read\"]\nworkspaces = [\"m\"]"
        );
        let lines = format!("# ours\n\na sha256:{hash} calls.read m\nb another-long-token * \n");
        for text in [&toml, &lines] {
            let tokens = parse(text).unwrap();
            let caller = tokens.find(SECRET).unwrap();
            assert_eq!(caller.principal.id(), "token:a");
            assert!(caller.sees("m") && !caller.sees("n"));
            assert_eq!(caller.scopes, Scopes::parse(["calls.read"]).unwrap());
            assert!(tokens.find("correct horse batterY").is_none());
            assert!(tokens.find("").is_none());
            assert!(tokens.find(&hash).is_none());
        }
        let tokens = parse(&lines).unwrap();
        assert_eq!(
            (
                tokens.len(),
                tokens.find("another-long-token").unwrap().principal.name()
            ),
            (2, "b")
        );
    }

    #[test]
    fn problems_show_no_secret() {
        fn check(text: &str, problem: &str) {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
            assert!(!error.contains("hunter2hunter2"), "{error}");
        }
        check("a hunter2hunter2hunter2", "line 1");
        check("# c\na hunter2hunter2hunter2 admin m n", "line 2");
        check("a short admin", "fewer than");
        check("a hunter2hunter2hunter2 root", "no scope");
        check("a sha256:zz admin", "64 hexadecimal");
        check(
            "a hunter2hunter2hunter2 admin\nb hunter2hunter2hunter2 admin",
            "token 2: an earlier one",
        );
        check(
            "[[tokens]]\nname = \"a\"\ntoken = \"hunter2hunter2\"\nscope = 1",
            "line",
        );
        check("[[tokens]]\nname = 1\ntoken = \"hunter2hunter2", "line");
        check("[[tokens]]\nname = \"a\"\nscopes = []", "either");
        check(
            "[[tokens]]\nname = \"\"\ntoken = \"hunter2hunter2xx\"\nscopes = []",
            "proper name",
        );
        check(
            "[[tokens]]\nname = \"a\"\ntoken = \"hunter2hunter2xx\"\nscopes = []\nworkspaces = []",
            "at least one",
        );
        check(
            "a hunter2hunter2hunter2 admin m,a*",
            "`PREFIX/*` for all below a prefix",
        );
        check("a hunter2hunter2hunter2 admin m,", "token 1: expected a name");
        check("a hunter2hunter2hunter2 admin -", "token 1: expected a name");
    }

    #[test]
    fn workspaces_are_names_or_prefixes() {
        let tokens = parse("a hunter2hunter2hunter2 admin acme/*,main").unwrap();
        let caller = tokens.find("hunter2hunter2hunter2").unwrap();
        assert!(caller.sees("acme/web") && caller.sees("acme/web/17") && caller.sees("main"));
        assert!(!caller.sees("acme") && !caller.sees("acme-b/web") && !caller.sees("main/web"));
        assert!(caller.is_limited());
    }

    #[test]
    fn debug_shows_no_token() {
        let tokens = parse(&format!("a {} admin", SECRET.replace(' ', "-"))).unwrap();
        assert!(!format!("{tokens:?}").contains("horse"));
    }

    proptest! {
        #[test]
        fn no_content_panics(content in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Tokens::parse(Path::new("t"), &content);
        }

        #[test]
        fn no_text_panics(text in "(\\[\\[tokens\\]\\]|name|=|\"|[a-z\n é])*") {
            let _ = Tokens::parse(Path::new("t"), text.as_bytes());
        }
    }
}
