//! Skills that somebody publishes: fetched once, and kept in the user's cache.
//!
//! At the URL there is an `index.json` with `{"skills": [{"name": …, "files": [path, …]}]}`, and beside it each file as
//! `name/path`. Another version is fetched when the folder of the first one has been deleted.
//!
//! *Invariant:* all of it is there or nothing. Everything that is fetched was written by somebody else: number, sizes and
//! time are bounded, and no name leads out of the folder.

#![allow(clippy::disallowed_methods)] // writes into the user's cache, which is no workspace

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
pub use toolgate_model::skills::SkillSource;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_web::header::HeaderMap;
use toolgate_web::{Network, Request, RequestError, Url};

use super::FILE_NAME;

/// How long fetching may take, all files together.
const FETCH_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_REDIRECTS: usize = 5;

const MOST_FILES: usize = 500;
const MOST_FILE_BYTES: usize = 1 << 20;
const MOST_BYTES: usize = 16 << 20;
const MOST_DEPTH: usize = 8;
const MOST_NAME_BYTES: usize = 100;

/// How long lists and calls wait for the first fetch, from the first one on that does.
const MAX_FIRST_WAIT: Duration = Duration::from_secs(5);

/// The first fetch of what one workspace names. It is over when this is dropped, however it went.
#[derive(Debug)]
pub struct FirstFetch {
    /// What is to be fetched.
    pub wanted: Vec<SkillSource>,
    over: DropGuard,
}

impl FirstFetch {
    /// Makes a fetch that has not begun.
    pub fn new(wanted: Vec<SkillSource>) -> Self {
        Self {
            wanted,
            over: CancellationToken::new().drop_guard(),
        }
    }

    /// Returns what waits for it.
    pub fn arrival(&self) -> Arrival {
        Arrival {
            over: self.over.token().clone(),
            until: OnceLock::new(),
        }
    }
}

/// Waits for a first fetch.
#[derive(Debug)]
pub struct Arrival {
    over: CancellationToken,
    /// Who comes later waits no longer: a server that never answers holds up nobody for ever.
    until: OnceLock<Instant>,
}

impl Arrival {
    /// Waits until the fetch is over, but not for long.
    pub async fn wait(&self) {
        if self.over.is_cancelled() {
            return;
        }
        let until = *self.until.get_or_init(|| Instant::now() + MAX_FIRST_WAIT);
        // What comes later is found by whoever asks then.
        let _ = tokio::time::timeout_at(until, self.over.cancelled()).await;
    }
}

/// Why skills could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL means nothing.
    #[error("it is not a URL of the web")]
    Url,
    /// A file did not come.
    #[error("{path}: {source}")]
    Request {
        /// Which.
        path: String,
        /// Why.
        source: RequestError,
    },
    /// A file is not there.
    #[error("{path}: the server answers with status {status}")]
    Status {
        /// Which.
        path: String,
        /// What the server says.
        status: u16,
    },
    /// A file is somewhere else, and that is somewhere else again, and so on.
    #[error("{path}: the server redirects more than {MAX_REDIRECTS} times")]
    Redirects {
        /// Which.
        path: String,
    },
    /// The index is not one.
    #[error("index.json: {0}")]
    Index(#[from] serde_json::Error),
    /// A name could lead anywhere.
    #[error("index.json: {0:?} is not a name for a file")]
    Name(String),
    /// It is too much.
    #[error("there are more than {MOST_FILES} files, or more than {MOST_BYTES} bytes")]
    TooMuch,
    /// It cannot be kept.
    #[error("it cannot be written: {0}")]
    Io(io::Error),
}

#[derive(Deserialize)]
struct Index {
    skills: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    files: Vec<String>,
}

/// Fetches the skills unless they are there, and says whether they were not.
///
/// # Errors
/// Something is missing, too large or not to be trusted. Nothing is kept then.
pub async fn fetch(remote: &SkillSource, network: &Network) -> Result<bool, RemoteError> {
    let folder = remote.folder.clone();
    if blocking(move || Ok(folder.exists())).await? {
        return Ok(false);
    }
    let base = Url::parse(&remote.url).map_err(|_| RemoteError::Url)?;
    let source = Source {
        network,
        base,
        deadline: Instant::now() + FETCH_TIMEOUT,
    };
    let index = source.file(&["index.json"]).await?;
    let mut files: Vec<(Vec<String>, Bytes)> = Vec::new();
    let mut bytes = 0;
    for path in paths(serde_json::from_slice(&index)?)? {
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        let content = source.file(&parts).await?;
        bytes += content.len();
        if bytes > MOST_BYTES {
            return Err(RemoteError::TooMuch);
        }
        files.push((path, content));
    }
    let folder = remote.folder.clone();
    blocking(move || keep(&folder, &files)).await?;
    Ok(true)
}

/// Returns the files of an index, each as the names that lead to it.
fn paths(index: Index) -> Result<Vec<Vec<String>>, RemoteError> {
    let mut paths = Vec::new();
    for Listed { name, files } in index.skills {
        // What has no such file is no skill.
        if !files.iter().any(|file| file == FILE_NAME) {
            continue;
        }
        for file in files {
            let path: Vec<String> = [name.as_str()]
                .into_iter()
                .chain(file.split('/'))
                .map(str::to_owned)
                .collect();
            if let Some(wrong) = path.iter().find(|name| !is_plain(name)) {
                return Err(RemoteError::Name(wrong.clone()));
            }
            if path.len() > MOST_DEPTH {
                return Err(RemoteError::Name(file));
            }
            paths.push(path);
            if paths.len() > MOST_FILES {
                return Err(RemoteError::TooMuch);
            }
        }
    }
    Ok(paths)
}

/// Says whether a name is one for a file or a folder, on every system, and hides nothing.
fn is_plain(name: &str) -> bool {
    let is_wrong =
        |letter: char| letter.is_control() || matches!(letter, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    !name.is_empty() && name.len() <= MOST_NAME_BYTES && !name.starts_with('.') && !name.chars().any(is_wrong)
}

struct Source<'a> {
    network: &'a Network,
    base: Url,
    deadline: Instant,
}

impl Source<'_> {
    async fn file(&self, names: &[&str]) -> Result<Bytes, RemoteError> {
        let path = names.join("/");
        let mut url = self.base.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.path_segments_mut()
            .map_err(|()| RemoteError::Url)?
            .pop_if_empty()
            .extend(names);
        let failed = |source| RemoteError::Request {
            path: path.clone(),
            source,
        };
        for _ in 0..=MAX_REDIRECTS {
            let request = Request {
                url,
                headers: HeaderMap::new(),
                body: None,
                deadline: self.deadline,
            };
            // Wherever it is: what a project names is not what an operator names.
            let reply = self.network.request(request).await.map_err(&failed)?;
            match reply.redirect().map_err(&failed)? {
                Some(next) => url = next,
                None if reply.is_success() => return reply.body(MOST_FILE_BYTES).await.map_err(&failed),
                None => {
                    let status = reply.status();
                    return Err(RemoteError::Status { path, status });
                }
            }
        }
        Err(RemoteError::Redirects { path })
    }
}

/// Writes all files beside the place and moves them there at once.
fn keep(folder: &std::path::Path, files: &[(Vec<String>, Bytes)]) -> Result<(), RemoteError> {
    match write_all(folder, files) {
        // Another service was faster.
        Err(_) if folder.exists() => Ok(()),
        result => result.map_err(RemoteError::Io),
    }
}

fn write_all(folder: &std::path::Path, files: &[(Vec<String>, Bytes)]) -> std::io::Result<()> {
    let place = folder.parent().unwrap_or(folder);
    fs::create_dir_all(place)?;
    let staged = tempfile::Builder::new().prefix(".fetching-").tempdir_in(place)?;
    for (path, content) in files {
        let path = staged.path().join(path.iter().collect::<PathBuf>());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    fs::rename(staged.path(), folder)?;
    // It is not there any more to be deleted.
    let _ = staged.keep();
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RemoteError> + Send + 'static,
) -> Result<T, RemoteError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(RemoteError::Io(io::Error::other(error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        let check = |name: &str, files: &[&str], expected: Result<&[&str], &str>| {
            let files = files.iter().map(|file| (*file).to_owned()).collect();
            let listed = Listed {
                name: name.to_owned(),
                files,
            };
            let found = paths(Index { skills: vec![listed] });
            match expected {
                Ok(expected) => {
                    let found: Vec<String> = found.unwrap().iter().map(|path| path.join("/")).collect();
                    assert_eq!(found, expected);
                }
                Err(part) => assert!(
                    found.unwrap_err().to_string().contains(part),
                    "{name} {files:?}",
                    files = part
                ),
            }
        };
        check(
            "a",
            &["SKILL.md", "scripts/x.sh"],
            Ok(&["a/SKILL.md", "a/scripts/x.sh"]),
        );
        check("a", &["README.md"], Ok(&[]));
        check("..", &["SKILL.md"], Err("\"..\""));
        check("a/b", &["SKILL.md"], Err("a/b"));
        check("", &["SKILL.md"], Err("\"\""));
        check(".hidden", &["SKILL.md"], Err(".hidden"));
        for wrong in [
            "../x",
            "/etc/passwd",
            "x/../../y",
            "a//b",
            "x\\..\\y",
            "c:x",
            "a\0b",
            ".env",
            "",
            "a/1/2/3/4/5/6/7",
        ] {
            check("a", &["SKILL.md", wrong], Err("is not a name"));
        }
        let many: Vec<String> = (0..MOST_FILES)
            .map(|at| at.to_string())
            .chain([FILE_NAME.to_owned()])
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check("a", &many, Err("more than"));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let took = async |arrival: &Arrival| {
            let start = Instant::now();
            arrival.wait().await;
            start.elapsed()
        };
        let fetch = FirstFetch::new(Vec::new());
        let (arrival, other) = (fetch.arrival(), fetch.arrival());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(took(&arrival).await, MAX_FIRST_WAIT);
        assert_eq!(took(&arrival).await, Duration::ZERO);
        let fetched = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(fetch);
        };
        assert_eq!(tokio::join!(took(&other), fetched).0, Duration::from_secs(1));
        assert_eq!(took(&other).await, Duration::ZERO);
    }

    #[test]
    fn it_is_kept_whole_or_not_at_all() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("toolgate/skills/x");
        let file = |path: &[&str]| {
            (
                path.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
                Bytes::from("text"),
            )
        };
        // A file cannot be a folder as well.
        keep(&folder, &[file(&["a", "b"]), file(&["a", "b", "c"])]).unwrap_err();
        assert!(!folder.exists());
        keep(&folder, &[file(&["a", "b"]), file(&["a", "c", "d"])]).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a/c/d")).unwrap(), "text");
        keep(&folder, &[file(&["z", "z"])]).unwrap();
        assert!(!folder.join("z").exists(), "it is fetched once");
        let left = fs::read_dir(folder.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
    }
}
