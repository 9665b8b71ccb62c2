//! An S3 server of the tests' own, over a temporary folder, on loopback; and a door in front of it that can be shut.
//!
//! It ends with the process that started it, however that ends: a shell stands between, which stops the server when its standard input
//! is closed.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, watch};

use super::server::free_address;

const PATIENCE: Duration = Duration::from_secs(60);

const KEEPER: &str = r#""$1" --port "$2" --access key --secret secret --quiet posix --sidecar "$3/facts" "$3/buckets" & server=$!
read -r _
kill -KILL "$server"
wait "$server"
[ "$4" != remove ] || rm -rf "$3""#;

/// A server with one bucket, `outputs`, for who has the key `key` with the secret `secret`.
pub(crate) struct S3 {
    address: SocketAddr,
    folder: PathBuf,
    /// Removes the folder, unless the shell does: what is static is never dropped.
    _folder: Option<TempDir>,
    keeper: Option<Child>,
}

/// Finds the server's program.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    // The test's own file is in target/PROFILE/deps.
    let tools = own.ancestors().nth(3).map(|target| target.join("tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = tools.into_iter().chain(std::env::split_paths(&path));
    let found = named.map(|folder| folder.join("versitygw")).find(|file| file.exists());
    found.expect("versitygw is not installed: run tests/setup/tools.sh")
}

/// The server of all tests but those that look at all of a bucket, or shut it.
pub(crate) async fn shared() -> &'static S3 {
    static SERVER: OnceCell<S3> = OnceCell::const_new();
    SERVER.get_or_init(|| S3::start(true)).await
}

impl S3 {
    /// Starts a server; with `is_shared` for the whole run.
    pub(crate) async fn start(is_shared: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("buckets/outputs")).unwrap();
        fs::create_dir_all(folder.path().join("facts")).unwrap();
        let address = free_address();
        let (path, kept) = match is_shared {
            true => (folder.keep(), None),
            false => (folder.path().to_owned(), Some(folder)),
        };
        let log = fs::File::create(path.join("log")).unwrap();
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(program())
            .arg(address.to_string())
            .arg(&path)
            .arg(if is_shared { "remove" } else { "keep" })
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while let Err(error) = TcpStream::connect(address).await {
            let log = || fs::read_to_string(path.join("log")).unwrap();
            assert!(begun.elapsed() < PATIENCE, "{error}: {}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self {
            address,
            folder: path,
            _folder: kept,
            keeper: Some(keeper),
        }
    }

    /// Returns where it listens, or where a door in front of it does.
    pub(crate) fn endpoint(&self, door: Option<&Door>) -> String {
        let address = door.map_or(self.address, |door| door.address);
        format!("http://{address}")
    }

    /// Returns the names of all objects behind a prefix and `outputs`, without those, sorted: read from the server's folder.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        let folder = self.folder.join("buckets/outputs").join(prefix);
        let mut names = Vec::new();
        walk(&folder, &folder, &mut names);
        names.sort();
        names
    }
}

fn walk(root: &Path, folder: &Path, names: &mut Vec<String>) {
    // A folder may go while it is looked at.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(root, &path, names);
        } else if let Some(name) = path.strip_prefix(root).unwrap().to_str() {
            names.push(name.to_owned());
        }
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            keeper.wait().unwrap();
        }
    }
}

/// A door in front of a server: shut, nobody is let in and those inside are put out.
pub(crate) struct Door {
    address: SocketAddr,
    is_open: Arc<watch::Sender<bool>>,
    /// Whether a request was refused since it was shut.
    was_tried: Arc<AtomicBool>,
}

impl Door {
    pub(crate) async fn of(server: &S3) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, inside) = (listener.local_addr().unwrap(), server.address);
        let is_open = Arc::new(watch::Sender::new(true));
        let was_tried = Arc::new(AtomicBool::new(false));
        let (of_task, tried) = (Arc::clone(&is_open), Arc::clone(&was_tried));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut shut = of_task.subscribe();
                if !*shut.borrow() {
                    tried.store(true, Ordering::Release);
                    continue;
                }
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(inside).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = shut.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Self {
            address,
            is_open,
            was_tried,
        }
    }

    pub(crate) fn shut(&self) {
        self.was_tried.store(false, Ordering::Release);
        self.is_open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Says whether somebody found it shut.
    pub(crate) fn was_tried(&self) -> bool {
        self.was_tried.load(Ordering::Acquire)
    }
}
