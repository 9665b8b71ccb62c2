//! The logins at servers of tools that OpenCode has stored (`docs/spec/extensions.md` §3.6), and keeping renewed ones
//! there.
//!
//! A server may take a refresh token only once. So a renewed login goes where OpenCode looks for it, or its user would
//! have to log in again.
//!
//! *Invariant:* what else is in the file stays; the file is replaced in one step, and only its owner may read it. No secret
//! is in a debug text or an error.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolgate_model::{Login, OAuthClient};

use super::environment::Environment;
use super::read;

/// The file with the logins.
#[derive(Debug)]
pub struct LoginFile {
    path: PathBuf,
    /// Held by whoever changes the file.
    writing: Mutex<()>,
}

/// Reads `clientId` and `clientSecret`.
pub(super) fn client(part: &Value) -> Option<OAuthClient> {
    let text = |key: &str| part.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    Some(OAuthClient {
        id: text("clientId")?.to_owned(),
        secret: text("clientSecret").map(str::to_owned),
    })
}

impl LoginFile {
    /// Returns where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns where OpenCode stores its logins, if there is a place for data.
    pub fn locate(env: &Environment) -> Option<Self> {
        Some(Self {
            path: env.data_home()?.join("opencode/mcp-auth.json"),
            writing: Mutex::default(),
        })
    }

    /// Returns the login stored for a server, if there is one for just this address. Blocking; a file that cannot be read
    /// holds no login.
    pub fn login(&self, name: &str, url: &str) -> Option<Login> {
        let text = read::text(&self.path).ok()??;
        let logins: Value = serde_json::from_str(&text).ok()?;
        login(logins.get(name)?, url)
    }

    /// Stores a login in the place of the one that it was made from; if that is not there any more, nothing happens.
    /// Blocking.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn renew(&self, name: &str, url: &str, old: &Login, new: &Login) -> io::Result<()> {
        let _alone = self.writing.lock();
        let text = read::text(&self.path).map_err(io::Error::other)?;
        // What is wrong with the text may quote a secret.
        let unreadable = |_| io::Error::other("the file of logins is not JSON");
        let mut logins: Value = serde_json::from_str(&text.unwrap_or_default()).map_err(unreadable)?;
        let entry = logins.get_mut(name);
        let Some(entry) = entry.filter(|entry| login(entry, url).is_some_and(|there| there.refresh == old.refresh))
        else {
            return Ok(());
        };
        if let Some(Value::Object(tokens)) = entry.get_mut("tokens") {
            put(tokens, new);
        }
        // A link stays one.
        let path = self.path.canonicalize()?;
        let folder = path.parent().unwrap_or(&path);
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut file, &logins)?;
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    }
}

fn login(entry: &Value, url: &str) -> Option<Login> {
    if entry.get("serverUrl").and_then(Value::as_str) != Some(url) {
        return None;
    }
    let tokens = entry.get("tokens")?;
    let text = |key: &str| tokens.get(key).and_then(Value::as_str).map(str::to_owned);
    let expires = tokens.get("expiresAt").and_then(Value::as_f64);
    let since = expires.map(|expires| Duration::try_from_secs_f64(expires).unwrap_or_default());
    Some(Login {
        token: text("accessToken")?,
        refresh: text("refreshToken"),
        expires: since.and_then(|since| UNIX_EPOCH.checked_add(since)),
        client: entry.get("clientInfo").and_then(client),
    })
}

fn put(tokens: &mut Map<String, Value>, new: &Login) {
    tokens.insert("accessToken".to_owned(), json!(new.token));
    if let Some(refresh) = &new.refresh {
        tokens.insert("refreshToken".to_owned(), json!(refresh));
    }
    let expires = new.expires.and_then(|expires| expires.duration_since(UNIX_EPOCH).ok());
    match expires {
        Some(since) => tokens.insert("expiresAt".to_owned(), json!(since.as_secs_f64())),
        None => tokens.shift_remove("expiresAt"),
    };
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_login_is_for_its_address() {
        let check = |entry: Value, expected: Option<Login>| {
            assert!(login(&entry, "https://a") == expected, "{entry}");
        };
        let token = |expires: Option<u64>| {
            Some(Login {
                token: "t".to_owned(),
                refresh: None,
                expires: expires.map(|expires| UNIX_EPOCH + Duration::from_secs(expires)),
                client: None,
            })
        };
        check(
            json!({"serverUrl": "https://a", "tokens": {"accessToken": "t"}}),
            token(None),
        );
        for (written, expected) in [(json!(101), 101), (json!(-1), 0), (json!(101.0), 101)] {
            check(
                json!({"serverUrl": "https://a", "tokens": {"accessToken": "t", "expiresAt": written}}),
                token(Some(expected)),
            );
        }
        check(json!({"serverUrl": "https://b", "tokens": {"accessToken": "t"}}), None);
        check(json!({"tokens": {"accessToken": "t"}}), None);
        check(json!({"serverUrl": "https://a"}), None);
        let full = json!({
            "serverUrl": "https://a", "tokens": {"accessToken": "t", "refreshToken": "r"},
            "clientInfo": {"clientId": "c", "clientSecret": "s"},
        });
        let found = login(&full, "https://a").unwrap();
        assert_eq!(found.refresh.as_deref(), Some("r"));
        assert!(
            found
                .client
                .as_ref()
                .is_some_and(|client| client.id == "c" && client.secret.as_deref() == Some("s"))
        );
        let shown = format!("{found:?}{:?}", found.client);
        assert!(
            !shown.contains("\"s\"") && !shown.contains("\"r\"") && !shown.contains("\"t\""),
            "{shown}"
        );
    }

    #[test]
    fn a_renewed_login_is_kept_and_nothing_else_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let file = LoginFile {
            path: folder.path().join("mcp-auth.json"),
            writing: Mutex::default(),
        };
        let entry = json!({
            "tokens": {"accessToken": "t", "refreshToken": "r", "expiresAt": 5, "scope": "a b"},
            "clientInfo": {"clientId": "c"}, "serverUrl": "https://a", "later": {"x": [1]},
        });
        let all = json!({"z": entry, "s": entry, "other": 1});
        std::fs::write(&file.path, all.to_string()).unwrap();
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let old = file.login("s", "https://a").unwrap();
        let new = Login {
            token: "t2".to_owned(),
            refresh: Some("r2".to_owned()),
            expires: Some(UNIX_EPOCH + Duration::from_secs(9)),
            ..old.clone()
        };
        file.renew("s", "https://a", &old, &new).unwrap();
        assert!(file.login("s", "https://a") == Some(new.clone()));
        let mut expected = all.clone();
        expected["s"]["tokens"] = json!({"accessToken": "t2", "refreshToken": "r2", "expiresAt": 9.0, "scope": "a b"});
        let found: Value = serde_json::from_str(&std::fs::read_to_string(&file.path).unwrap()).unwrap();
        assert_eq!(found, expected);
        assert_eq!(
            std::fs::metadata(&file.path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        // Somebody has logged in anew: that stays.
        file.renew("s", "https://a", &old, &old).unwrap();
        assert!(file.login("s", "https://a") == Some(new));
        std::fs::write(&file.path, "{").unwrap();
        assert!(file.renew("s", "https://a", &old, &old).is_err());
    }
}
