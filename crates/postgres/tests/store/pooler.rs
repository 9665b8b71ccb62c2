//! The store behind PgBouncer, which gives each transaction a connection of its choice: what the generic suite has that could notice.
//!
//! *Invariant:* there are fewer connections to the server than stores want to have, so that they do share them.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;
use toolgate_postgres::{PostgresOptions, SchemaState};

use crate::fixture::{PostgresFixture, database, server};
use crate::server::Server;

/// The port that names its socket, which is in the server's folder.
const PORT: u16 = 6_432;

/// Connections to each database.
const CONNECTIONS: usize = 3;

const PATIENCE: Duration = Duration::from_secs(60);

/// It ends with the process that started it, however that ends.
const KEEPER: &str = r#"PATH="$PATH:/usr/sbin:/usr/local/sbin" "$1" -q pooler.ini & pooler=$!
read -r _
kill -KILL "$pooler"
wait "$pooler""#;

/// A pooler in front of the server of all tests.
struct Pooler {
    _keeper: Child,
}

/// Returns the name of the program, or where `tests/setup/tools.sh` has linked it.
fn program() -> String {
    let own = std::env::current_exe().unwrap();
    // The test's own file is in target/PROFILE/deps.
    let linked = own.ancestors().nth(3).map(|target| target.join("tools/bin/pgbouncer"));
    linked
        .filter(|file| file.exists())
        .map_or_else(|| "pgbouncer".to_owned(), |file| file.display().to_string())
}

/// Returns the server that it stands before, once it is there.
async fn pooled() -> &'static Server {
    static POOLER: OnceCell<Pooler> = OnceCell::const_new();
    let server = server().await;
    POOLER.get_or_init(|| Pooler::start(server)).await;
    server
}

impl Pooler {
    async fn start(server: &Server) -> Self {
        let socket = server.socket();
        let folder = socket.parent().unwrap().to_owned();
        let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
        write("users", "\"toolgate\" \"\"\n".to_owned());
        let place = folder.display();
        let text = format!(
            "[databases]\n* = host={place} port=5432\n[pgbouncer]\nlisten_port = {PORT}\nunix_socket_dir = {place}\n\
             auth_type = trust\nauth_file = users\npool_mode = transaction\ndefault_pool_size = {CONNECTIONS}\n\
             max_client_conn = 400\nadmin_users = toolgate\n"
        );
        write("pooler.ini", text);
        let log = fs::File::create(folder.join("pooler.log")).unwrap();
        let keeper = server
            .command("sh")
            .args(["-c", KEEPER, "sh", &program()])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let (address, begun) = (address(server, "postgres"), Instant::now());
        while let Err(error) = tokio_postgres::connect(&address, tokio_postgres::NoTls).await {
            let log = || fs::read_to_string(folder.join("pooler.log")).unwrap();
            assert!(
                begun.elapsed() < PATIENCE,
                "{error}: is pgbouncer installed? tests/setup/tools.sh does it. {}",
                log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { _keeper: keeper }
    }
}

fn address(server: &Server, database: &str) -> String {
    let socket = server.socket();
    let folder = socket.parent().map(Path::display).unwrap();
    format!("host={folder} port={PORT} user=toolgate dbname={database}")
}

/// Stores that share one database behind the pooler.
pub(crate) async fn fixture() -> PostgresFixture {
    let server = pooled().await;
    PostgresFixture::at(address(server, &database(server).await))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_and_looked_at() {
    let server = pooled().await;
    server.run("postgres", "CREATE DATABASE behind_a_pooler").await;
    let options = PostgresOptions::new(address(server, "behind_a_pooler"));
    assert_eq!(
        toolgate_postgres::migrate(&options).await.unwrap(),
        SchemaState::Older { version: 0 }
    );
    assert_eq!(toolgate_postgres::check(&options).await.unwrap(), SchemaState::Equal);
}

/// Otherwise the others would show nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_anybodys_after_each_transaction() {
    let server = pooled().await;
    let address = address(server, &database(server).await);
    let mut backends = std::collections::BTreeSet::new();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS * 4 {
        let (client, connection) = tokio_postgres::connect(&address, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let rows = client.query_typed("SELECT pg_backend_pid()", &[]).await.unwrap();
        backends.insert(rows[0].get::<_, i32>(0));
        clients.push(client);
    }
    assert!(backends.len() <= CONNECTIONS, "{backends:?}");
}
