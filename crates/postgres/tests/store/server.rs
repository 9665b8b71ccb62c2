//! A PostgreSQL server of the tests' own: in a temporary folder, on a socket there, as an unprivileged user.
//!
//! It ends with the process that started it, however that ends: a shell stands between, which stops the server when its
//! standard input is closed.

use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::NoTls;

/// `initdb` and `postgres` refuse to run as root.
const NOBODY: u32 = 65_534;

const PATIENCE: Duration = Duration::from_secs(60);

/// Stops the server at once, as a crash would; removes its folder where it is told to.
const KEEPER: &str = r#""$1" -D "$2/data" -k "$2" & server=$!
read -r _
kill -QUIT "$server"
wait "$server"
[ "$3" != remove ] || rm -rf "$2""#;

/// A server, running or stopped.
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    /// Removes the folder, unless the shell does: what is static is never dropped.
    _folder: Option<TempDir>,
    keeper: Mutex<Option<Child>>,
}

/// Returns the folder with PostgreSQL's programs: the one that `TOOLGATE_POSTGRES` names, or what is found.
fn programs() -> PathBuf {
    if let Some(named) = std::env::var_os("TOOLGATE_POSTGRES") {
        return named.into();
    }
    let own = std::env::current_exe().unwrap();
    // The test's own file is in target/PROFILE/deps.
    let tools = own.ancestors().nth(3).map(|target| target.join("tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = tools.into_iter().chain(std::env::split_paths(&path));
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    debian.sort();
    let found = named.chain(debian).find_map(|folder| {
        let program = folder.join("initdb").canonicalize().ok()?;
        program.parent().map(Path::to_owned)
    });
    found.expect("PostgreSQL is not installed: run tests/setup/tools.sh")
}

/// Returns an address at which nobody listens. Its port is below those that the kernel gives away by itself: no connection of another test
/// takes it before it is used.
pub(crate) fn free_address() -> SocketAddr {
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    let random = || 12_000 + (RandomState::new().hash_one(()) % 20_000) as u16;
    let mut addresses = std::iter::repeat_with(|| SocketAddr::from((Ipv4Addr::LOCALHOST, random())));
    addresses.find(is_free).unwrap()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

impl Server {
    /// Makes and starts a server. With `is_shared` it is for the whole run, and need not survive the loss of power.
    pub(crate) async fn start(is_shared: bool) -> Self {
        let server = Self::make(is_shared);
        server.resume().await;
        server
    }

    /// Starts a server that listens on loopback with TLS as well, where it wants the password `secret`.
    pub(crate) async fn start_with_tls(certificate: &str, key: &str) -> Self {
        let mut server = Self::make(false);
        server.port = free_address().port();
        let write = |name: &str, text: &str| {
            let path = server.folder.join("data").join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        };
        write("server.crt", certificate);
        write("server.key", key);
        write(
            "pg_hba.conf",
            "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
        );
        let settings = format!("listen_addresses = '127.0.0.1'\nport = {}\nssl = on\n", server.port);
        write("postgresql.auto.conf", &settings);
        server.resume().await;
        server.run("postgres", "ALTER ROLE toolgate PASSWORD 'secret'").await;
        server
    }

    /// Returns the address of a database over TLS, by the name of a host.
    pub(crate) fn address_with_tls(&self, host: &str, database: &str) -> String {
        let port = self.port;
        format!("postgres://toolgate:secret@{host}:{port}/{database}?sslmode=require&channel_binding=require")
    }

    fn make(is_shared: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("toolgate-pg-").tempdir().unwrap();
        let path = folder.path().to_owned();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        if is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let server = Self {
            programs: programs(),
            folder: path,
            port: 5432,
            _folder: match is_shared {
                true => {
                    let _ = folder.keep();
                    None
                }
                false => Some(folder),
            },
            keeper: Mutex::default(),
        };
        server.initialize(is_shared);
        server
    }

    /// A program that runs in the server's folder, as the server's user.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env("LC_ALL", "C");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn initialize(&self, is_shared: bool) {
        let mut command = self.command(self.programs.join("initdb"));
        command.args([
            "-D",
            "data",
            "-U",
            "toolgate",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        ]);
        let made = command.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let durability = match is_shared {
            true => "fsync = off\nfull_page_writes = off\n",
            false => "",
        };
        let settings = format!("listen_addresses = ''\nmax_connections = 400\nshared_buffers = '64MB'\n{durability}");
        let file = self.folder.join("data/postgresql.auto.conf");
        fs::write(file, settings).unwrap();
    }

    /// Starts the server, unless it runs, and waits until it answers.
    pub(crate) async fn resume(&self) {
        {
            let mut keeper = self.keeper.lock().unwrap();
            if keeper.is_none() {
                let log = fs::File::create(self.folder.join("log")).unwrap();
                let mut command = self.command("sh");
                command.args(["-c", KEEPER, "sh"]);
                command.arg(self.programs.join("postgres")).arg(&self.folder);
                command.arg(if self._folder.is_none() { "remove" } else { "keep" });
                command
                    .stdin(Stdio::piped())
                    .stdout(log.try_clone().unwrap())
                    .stderr(log);
                *keeper = Some(command.spawn().unwrap());
            }
        }
        let begun = Instant::now();
        loop {
            match self.connect("postgres").await {
                Ok(_) => return,
                Err(_) if begun.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}: {}", fs::read_to_string(self.folder.join("log")).unwrap()),
            }
        }
    }

    /// Stops the server as a crash would: nothing is finished, nothing written back.
    pub(crate) fn crash(&self) {
        let keeper = self.keeper.lock().unwrap().take();
        let mut keeper = keeper.expect("it runs");
        drop(keeper.stdin.take());
        keeper.wait().unwrap();
    }

    /// Stops all processes of the server until what is returned is dropped: meanwhile it neither answers nor refuses.
    #[allow(dead_code)] // for tests of the program
    pub(crate) fn freeze(&self) -> Frozen<'_> {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        let first = file.lines().next().unwrap().to_owned();
        // The first one before the others, which it makes.
        signal("-STOP", &[first.as_str()]);
        let others = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        signal("-STOP", &others.split_whitespace().collect::<Vec<_>>());
        let processes = others.split_whitespace().map(str::to_owned).chain([first]);
        Frozen {
            processes: processes.collect(),
            _server: self,
        }
    }

    /// Returns the file that the server listens on.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// Returns the address of a database.
    pub(crate) fn address(&self, database: &str) -> String {
        let (folder, port) = (self.folder.display(), self.port);
        format!("host={folder} port={port} user=toolgate dbname={database}")
    }

    /// The same, as a URL.
    #[allow(dead_code)] // for tests of the program
    pub(crate) fn url(&self, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://toolgate@{folder}:{}/{database}", self.port)
    }

    /// Connects beside the store.
    pub(crate) async fn connect(&self, database: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.address(database), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Runs statements in a database.
    pub(crate) async fn run(&self, database: &str, sql: &str) {
        self.connect(database).await.unwrap().batch_execute(sql).await.unwrap();
    }
}

/// A server that is stopped.
pub(crate) struct Frozen<'a> {
    processes: Vec<String>,
    /// One that ends while it is stopped would be waited for in vain.
    _server: &'a Server,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        signal("-CONT", &self.processes.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

fn signal(signal: &str, processes: &[&str]) {
    // One that has ended by itself meanwhile is none that is missed.
    let _ = Command::new("kill").arg(signal).args(processes).status().unwrap();
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.keeper.lock().unwrap().is_some() {
            self.crash();
        }
    }
}
