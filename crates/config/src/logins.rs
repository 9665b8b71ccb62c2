//! The logins at servers of tools: those that `toolgate mcp login` has made, and those that OpenCode has stored
//! (`docs/spec/extensions.md` §3.6).
//!
//! Toolgate's own are in a file of their own, and come first. OpenCode's file would do for both but for one thing: its clients
//! are registered with another address to come back to. A server may take a refresh token only once, so a renewed login goes
//! back into the file that it came from, or OpenCode's user would have to log in again.
//!
//! Toolgate's file has a folder to itself, which is there before a command is confined: what is hidden from a command is decided
//! when it starts, so a file that is made later must be in a folder that was hidden then. Unfinished files are made there, too.
//!
//! *Invariant:* what else is in a file stays; a file is replaced in one step, and only its owner may read it. A file that could
//! not be read again is not written. Two processes that change Toolgate's own file wait for each other. No secret is in a debug
//! text or an error.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;
use toolgate_model::{Login, OAuthClient};

use super::environment::Environment;
use super::read::{self, MAX_BYTES};

/// The files with the logins.
#[derive(Debug)]
pub struct LoginFiles {
    /// Holds nothing but Toolgate's own file and what belongs to it.
    folder: PathBuf,
    own: PathBuf,
    /// Where earlier versions had their file.
    old: PathBuf,
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
    /// Returns what is not for confined programs: the folder, its file, which may be a link to elsewhere, the file of earlier
    /// versions, which is still there if it cannot be taken over, and OpenCode's file.
    pub fn hidden(&self) -> [&Path; 4] {
        [&self.folder, &self.own, &self.old, &self.of_opencode]
    }

    /// Returns Toolgate's own file.
    pub fn own(&self) -> &Path {
        &self.own
    }

    /// Returns where Toolgate and OpenCode store logins, if there is a place for data.
    pub fn locate(env: &Environment) -> Option<Self> {
        let data = env.data_home()?;
        let folder = data.join("toolgate/mcp-logins");
        Some(Self {
            own: folder.join("logins.json"),
            folder,
            old: data.join("toolgate/mcp-logins.json"),
            of_opencode: data.join("opencode/mcp-auth.json"),
            writing: Mutex::default(),
        })
    }

    /// Makes the folder, and takes over the file that earlier versions had beside other files. To be called before a program is
    /// confined, and before logins are used. Blocking.
    ///
    /// # Errors
    /// The folder cannot be made, or the old file cannot be taken over.
    pub fn prepare(&self) -> io::Result<()> {
        self.make_folder()?;
        let Some(old) = file(&self.old)? else {
            return Ok(());
        };
        let Value::Object(old) = old else {
            return Err(unreadable());
        };
        self.change(&self.own, |all| {
            for (key, entry) in old {
                all.entry(key).or_insert(entry);
            }
        })?;
        for path in [&self.old, &self.old.with_extension("lock")] {
            match fs::remove_file(path) {
                // Another process may have been faster.
                Err(error) if !read::is_absent(&error) => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Makes the folder, which nobody else may enter.
    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        if fs::metadata(&self.folder)?.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(&self.folder, Permissions::from_mode(0o700))?;
        }
        Ok(())
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

    /// Notes what the login at a server lacks, for the next one: at most [`Login::MAX_SCOPES`] scopes in all. Blocking.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn lacks(&self, name: &str, url: &str, scopes: &[String]) -> io::Result<()> {
        let mut all = self.lacking(name, url);
        let known = all.len();
        for scope in scopes {
            if all.len() < Login::MAX_SCOPES && !all.contains(scope) {
                all.push(scope.clone());
            }
        }
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
        self.make_folder()?;
        let _guard = match path == self.own {
            true => Some(locked(&self.folder.join("lock"))?),
            false => None,
        };
        // A link stays one.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let mut all = match file(&path)? {
            None => Map::new(),
            Some(Value::Object(all)) => all,
            Some(_) => return Err(unreadable()),
        };
        change(&mut all);
        let text = serde_json::to_vec_pretty(&all)?;
        if text.len() > MAX_BYTES {
            return Err(io::Error::other(format!(
                "the file of logins would be larger than {} KiB: forget logins that are not needed (`toolgate mcp logout NAME`)",
                MAX_BYTES >> 10
            )));
        }
        let Err(failed) = written(&self.folder, &text)?.persist(&path) else {
            return Ok(());
        };
        if failed.error.kind() != io::ErrorKind::CrossesDevices {
            return Err(failed.error);
        }
        // From one disk to another there is no single step.
        let beside = written(path.parent().unwrap_or(&path), &text)?;
        beside.persist(&path).map_err(|failed| failed.error)?;
        Ok(())
    }
}

/// Writes an unfinished file into a folder.
fn written(folder: &Path, text: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    Ok(file)
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
    use super::*;

    fn files(data: &Path) -> LoginFiles {
        let data = ("XDG_DATA_HOME".to_owned(), data.display().to_string());
        LoginFiles::locate(&Environment::new([data], "/")).unwrap()
    }

    fn with_token(token: &str) -> Login {
        Login {
            token: token.to_owned(),
            refresh: None,
            expires: None,
            client: None,
            issuer: None,
            scopes: Vec::new(),
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_file_has_a_folder_to_itself_and_the_old_one_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        fs::create_dir_all(&files.folder).unwrap();
        fs::set_permissions(&files.folder, Permissions::from_mode(0o755)).unwrap();
        let entry = |token: &str| json!({"serverUrl": "https://a", "tokens": {"accessToken": token}});
        let old = json!({"s https://a": entry("old"), "t https://a": entry("kept")});
        fs::write(&files.old, old.to_string()).unwrap();
        files.store("s", "https://a", &with_token("new")).unwrap();
        files.prepare().unwrap();
        let token = |name: &str| files.own_login(name, "https://a").map(|login| login.token);
        assert_eq!(
            (token("s").as_deref(), token("t").as_deref()),
            (Some("new"), Some("kept"))
        );
        assert!(!files.old.exists());
        assert_eq!((mode(&files.folder), mode(&files.own)), (0o700, 0o600));
        files.prepare().unwrap();
        assert!(token("t").is_some());
        // What cannot be read stays where it is.
        fs::write(&files.old, "{").unwrap();
        assert!(files.prepare().is_err() && files.old.exists());
        assert!(files.hidden().contains(&files.old.as_path()));
        // Nothing is made beside it.
        let beside = fs::read_dir(files.folder.parent().unwrap()).unwrap();
        assert_eq!(beside.count(), 2);
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        files.store("s", "https://a", &with_token("small")).unwrap();
        let large = with_token(&"x".repeat(MAX_BYTES));
        let refused = files.store("t", "https://a", &large).unwrap_err().to_string();
        assert!(
            refused.contains("toolgate mcp logout") && !refused.contains("xxx"),
            "{refused}"
        );
        assert!(files.own_login("s", "https://a").is_some());
        assert_eq!(fs::read_dir(&files.folder).unwrap().count(), 2, "the file and its lock");
    }

    #[test]
    fn what_a_login_lacks_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        for part in 0..10 {
            let scopes: Vec<String> = (0..32).map(|at| format!("scope-{part}-{at}")).collect();
            files.lacks("s", "https://a", &scopes).unwrap();
        }
        let noted = files.lacking("s", "https://a");
        assert_eq!(noted.len(), Login::MAX_SCOPES);
        assert_eq!(noted[0], "scope-0-0");
    }

    #[test]
    fn a_login_is_for_its_address() {
        let check = |entry: Value, expected: Option<Login>| {
            assert!(login(&entry, "https://a") == expected, "{entry}");
        };
        let token = |expires: Option<u64>| {
            Some(Login {
                expires: expires.map(|expires| UNIX_EPOCH + Duration::from_secs(expires)),
                ..with_token("t")
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
        let file = files(folder.path());
        fs::create_dir(folder.path().join("opencode")).unwrap();
        let entry = json!({
            "tokens": {"accessToken": "t", "refreshToken": "r", "expiresAt": 5, "scope": "a b"},
            "clientInfo": {"clientId": "c"}, "serverUrl": "https://a", "later": {"x": [1]},
        });
        let all = json!({"z": entry, "s": entry, "other": 1});
        fs::write(&file.of_opencode, all.to_string()).unwrap();
        fs::set_permissions(&file.of_opencode, Permissions::from_mode(0o644)).unwrap();
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
        let found: Value = serde_json::from_str(&fs::read_to_string(&file.of_opencode).unwrap()).unwrap();
        assert_eq!(found, expected);
        assert_eq!(mode(&file.of_opencode), 0o600);
        let beside = fs::read_dir(file.of_opencode.parent().unwrap()).unwrap();
        assert_eq!(beside.count(), 1);
        // Somebody has logged in anew: that stays.
        file.renew("s", "https://a", &old, &old).unwrap();
        assert!(file.login("s", "https://a") == Some(new));
        fs::write(&file.of_opencode, "{").unwrap();
        assert!(file.renew("s", "https://a", &old, &old).is_err());
    }

    #[test]
    fn an_own_login_comes_first_and_is_for_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let theirs = json!({"s": {"serverUrl": "https://a", "tokens": {"accessToken": "theirs"}}});
        fs::create_dir_all(folder.path().join("opencode")).unwrap();
        fs::write(&files.of_opencode, theirs.to_string()).unwrap();
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
        assert_eq!((mode(&files.own), mode(&files.folder)), (0o600, 0o700));
        assert!(files.remove("s", "https://a").unwrap());
        assert!(!files.remove("s", "https://a").unwrap());
        assert_eq!(token("s", "https://a").as_deref(), Some("theirs"));
    }
}
