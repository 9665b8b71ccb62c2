//! The logins at servers of tools: those that `toolgate mcp login` has made, and those that OpenCode has stored
//! (`docs/spec/extensions.md` §3.6).
//!
//! Toolgate's own are in a file of their own, and come first. OpenCode's file would do for both but for one thing: its clients
//! are registered with another address to come back to. A server may take a refresh token only once, so a renewed login goes
//! back into the file that it came from, or OpenCode's user would have to log in again.
//!
//! *Invariant:* what else is in a file stays; a file is replaced in one step, and only its owner may read it. Two processes that
//! change Toolgate's own file wait for each other. No secret is in a debug text or an error.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolgate_model::{Login, OAuthClient};

use super::environment::Environment;
use super::read;

/// The files with the logins.
#[derive(Debug)]
pub struct LoginFiles {
    /// Toolgate's own.
    own: PathBuf,
    of_opencode: PathBuf,
    /// Held by whoever changes a file.
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

/// Returns the key of a server in Toolgate's own file: workspaces may have different servers of one name.
fn key(name: &str, url: &str) -> String {
    format!("{name} {url}")
}

impl LoginFiles {
    /// Returns where both are: none of them is for programs that run within walls.
    pub fn paths(&self) -> [&Path; 2] {
        [&self.own, &self.of_opencode]
    }

    /// Returns where Toolgate and OpenCode store logins, if there is a place for data.
    pub fn locate(env: &Environment) -> Option<Self> {
        let data = env.data_home()?;
        Some(Self {
            own: data.join("toolgate/mcp-logins.json"),
            of_opencode: data.join("opencode/mcp-auth.json"),
            writing: Mutex::default(),
        })
    }

    /// Returns the login stored for a server, if there is one for just this address. Blocking; a file that cannot be read
    /// holds no login.
    pub fn login(&self, name: &str, url: &str) -> Option<Login> {
        self.own_login(name, url)
            .or_else(|| login(file(&self.of_opencode).ok()??.get(name)?, url))
    }

    /// Returns the login that `toolgate mcp login` has made. Blocking.
    pub fn own_login(&self, name: &str, url: &str) -> Option<Login> {
        login(file(&self.own).ok()??.get(key(name, url))?, url)
    }

    /// Stores a login in the place of the one that it was made from; if that is not there any more, nothing happens.
    /// Blocking.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn renew(&self, name: &str, url: &str, old: &Login, new: &Login) -> io::Result<()> {
        let is_old = |entry: &Value| login(entry, url).is_some_and(|there| there.refresh == old.refresh);
        let (own, theirs) = (key(name, url), name.to_owned());
        for (path, key) in [(&self.own, own), (&self.of_opencode, theirs)] {
            let holds = |all: &Value| all.get(&key).is_some_and(is_old);
            if !file(path)?.as_ref().is_some_and(holds) {
                continue;
            }
            return self.change(path, |all| {
                // Looked at once more: somebody may have logged in since.
                if let Some(entry) = all.get_mut(&key).filter(|entry| is_old(entry))
                    && let Some(Value::Object(tokens)) = entry.get_mut("tokens")
                {
                    put(tokens, new);
                }
            });
        }
        Ok(())
    }

    /// Stores a login that was made for a server. Blocking.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn store(&self, name: &str, url: &str, new: &Login) -> io::Result<()> {
        let mut tokens = Map::new();
        put(&mut tokens, new);
        tokens.insert("scope".to_owned(), json!(new.scopes.join(" ")));
        let mut entry = json!({"name": name, "serverUrl": url, "tokens": tokens});
        if let Some(issuer) = &new.issuer {
            entry["issuer"] = json!(issuer);
        }
        if let Some(client) = &new.client {
            entry["clientInfo"] = json!({"clientId": client.id});
            if let Some(secret) = &client.secret {
                entry["clientInfo"]["clientSecret"] = json!(secret);
            }
        }
        self.change(&self.own, |all| {
            all.insert(key(name, url), entry);
        })
    }

    /// Forgets what `toolgate mcp login` has made for a server, and says whether there was something. Blocking.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove(&self, name: &str, url: &str) -> io::Result<bool> {
        let key = key(name, url);
        let is_there = file(&self.own)?.is_some_and(|all| all.get(&key).is_some());
        if is_there {
            self.change(&self.own, |all| {
                all.shift_remove(&key);
            })?;
        }
        Ok(is_there)
    }

    /// Returns what the login at a server lacks. Blocking.
    pub fn lacking(&self, name: &str, url: &str) -> Vec<String> {
        let all = file(&self.own).ok().flatten().unwrap_or_default();
        words(all[&key(name, url)].get("lacks"))
    }

    /// Notes what the login at a server lacks, for the next one. Blocking.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn lacks(&self, name: &str, url: &str, scopes: &[String]) -> io::Result<()> {
        let mut all = self.lacking(name, url);
        let known = all.len();
        let new = scopes
            .iter()
            .filter(|scope| !all.contains(scope))
            .cloned()
            .collect::<Vec<_>>();
        all.extend(new);
        if all.len() == known {
            return Ok(());
        }
        let text = json!(all.join(" "));
        self.change(&self.own, |file| {
            let empty = json!({"name": name, "serverUrl": url});
            file.entry(key(name, url)).or_insert(empty)["lacks"] = text;
        })
    }

    fn change(&self, path: &Path, change: impl FnOnce(&mut Map<String, Value>)) -> io::Result<()> {
        let _alone = self.writing.lock();
        let is_own = path == self.own;
        // A link stays one.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let folder = path.parent().unwrap_or(&path);
        let _guard = match is_own {
            true => {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                Some(locked(&path.with_extension("lock"))?)
            }
            false => None,
        };
        let mut all = match file(&path)? {
            None => Map::new(),
            Some(Value::Object(all)) => all,
            Some(_) => return Err(unreadable()),
        };
        change(&mut all);
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut file, &all)?;
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Waits until nobody else changes the file. Other processes hold this for the time of a few lines.
fn locked(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    file.lock()?;
    Ok(file)
}

/// What is wrong with the text may quote a secret.
fn unreadable() -> io::Error {
    io::Error::other("the file of logins is not JSON")
}

/// Reads a file of logins; none if it is not there.
fn file(path: &Path) -> io::Result<Option<Value>> {
    match read::text(path).map_err(io::Error::other)? {
        Some(text) => serde_json::from_str(&text).map(Some).map_err(|_| unreadable()),
        None => Ok(None),
    }
}

fn words(value: Option<&Value>) -> Vec<String> {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
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
        issuer: entry.get("issuer").and_then(Value::as_str).map(str::to_owned),
        scopes: words(tokens.get("scope")),
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
                issuer: None,
                scopes: Vec::new(),
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
        let file = LoginFiles {
            own: folder.path().join("toolgate/mcp-logins.json"),
            of_opencode: folder.path().join("mcp-auth.json"),
            writing: Mutex::default(),
        };
        let entry = json!({
            "tokens": {"accessToken": "t", "refreshToken": "r", "expiresAt": 5, "scope": "a b"},
            "clientInfo": {"clientId": "c"}, "serverUrl": "https://a", "later": {"x": [1]},
        });
        let all = json!({"z": entry, "s": entry, "other": 1});
        std::fs::write(&file.of_opencode, all.to_string()).unwrap();
        std::fs::set_permissions(&file.of_opencode, std::fs::Permissions::from_mode(0o644)).unwrap();
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
        let found: Value = serde_json::from_str(&std::fs::read_to_string(&file.of_opencode).unwrap()).unwrap();
        assert_eq!(found, expected);
        assert_eq!(
            std::fs::metadata(&file.of_opencode).unwrap().permissions().mode() & 0o777,
            0o600
        );
        // Somebody has logged in anew: that stays.
        file.renew("s", "https://a", &old, &old).unwrap();
        assert!(file.login("s", "https://a") == Some(new));
        std::fs::write(&file.of_opencode, "{").unwrap();
        assert!(file.renew("s", "https://a", &old, &old).is_err());
    }

    #[test]
    fn an_own_login_comes_first_and_is_for_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let data = ("XDG_DATA_HOME".to_owned(), folder.path().display().to_string());
        let files = LoginFiles::locate(&Environment::new([data], "/")).unwrap();
        let theirs = json!({"s": {"serverUrl": "https://a", "tokens": {"accessToken": "theirs"}}});
        std::fs::create_dir_all(folder.path().join("opencode")).unwrap();
        std::fs::write(&files.of_opencode, theirs.to_string()).unwrap();
        let token = |name: &str, url: &str| files.login(name, url).map(|login| login.token);
        files.lacks("s", "https://a", &["write".to_owned()]).unwrap();
        files
            .lacks("s", "https://a", &["write".to_owned(), "read".to_owned()])
            .unwrap();
        assert_eq!(files.lacking("s", "https://a"), ["write", "read"]);
        assert_eq!(token("s", "https://a").as_deref(), Some("theirs"));
        let own = Login {
            token: "own".to_owned(),
            refresh: Some("r".to_owned()),
            expires: Some(UNIX_EPOCH + Duration::from_secs(9)),
            client: Some(OAuthClient {
                id: "c".to_owned(),
                secret: Some("s".to_owned()),
            }),
            issuer: Some("https://guard".to_owned()),
            scopes: vec!["write".to_owned(), "read".to_owned()],
        };
        files.store("s", "https://a", &own).unwrap();
        assert!(files.login("s", "https://a") == Some(own.clone()));
        assert!(files.lacking("s", "https://a").is_empty());
        let new = Login {
            token: "renewed".to_owned(),
            refresh: Some("r2".to_owned()),
            ..own.clone()
        };
        files.renew("s", "https://a", &own, &new).unwrap();
        assert!(files.login("s", "https://a") == Some(new));
        // Another server of that name, and another name for the same one.
        assert_eq!(token("s", "https://b"), None);
        assert_eq!(token("t", "https://a"), None);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&files.own), mode(files.own.parent().unwrap())), (0o600, 0o700));
        assert!(files.remove("s", "https://a").unwrap());
        assert!(!files.remove("s", "https://a").unwrap());
        assert_eq!(token("s", "https://a").as_deref(), Some("theirs"));
    }
}
