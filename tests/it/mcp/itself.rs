//! Entries that lead back to the service: it never starts itself and never connects to itself, and says so.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

/// An address that is known before the server is that it leads to.
struct Relay {
    address: SocketAddr,
    server: Arc<OnceLock<String>>,
    _tasks: JoinSet<()>,
}

impl Relay {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, server) = (listener.local_addr().unwrap(), Arc::<OnceLock<String>>::default());
        let (known, mut tasks) = (server.clone(), JoinSet::new());
        tasks.spawn(async move {
            let mut carried = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let Some(server) = known.get().cloned() else { continue };
                carried.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self {
            address,
            server,
            _tasks: tasks,
        }
    }

    fn entry(&self) -> Value {
        json!({"type": "remote", "url": format!("http://{}/mcp", self.address)})
    }

    /// Starts the server that it leads to.
    async fn serve(&self, servers: Value) -> Server {
        let setup = Setup {
            config: Some(json!({ "mcp": servers })),
            ..Setup::tcp()
        };
        let server = Server::with(setup).await;
        self.server.set(server.tcp.clone().unwrap()).unwrap();
        server
    }
}

async fn refused(server: &Server, name: &str, words: &str) {
    eventually(&format!("{name} is refused in words"), async || {
        let (state, problem) = source(server, name).await;
        state == ToolSourceState::Failed && problem.contains(words)
    })
    .await;
}

#[test]
fn the_service_does_not_start_itself() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().display().to_string();
        let link = folder.path().join("other-name");
        std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
        // A copy under another path is another file: what it inherits tells it.
        let copy = folder.path().join("copy");
        fs::copy(PROGRAM, &copy).unwrap();
        let (link, copy) = (link.to_str().unwrap(), copy.to_str().unwrap());
        let shell = |line: &str, program: &str| local(&["sh", "-c", line, program, &marker]);
        let server = service(&[
            ("direct", local(&[PROGRAM, "mcp", "--workspace", &marker])),
            ("linked", local(&[link, "mcp", "--workspace", &marker])),
            ("copied", local(&[copy, "mcp", "--workspace", &marker])),
            ("wrapped", shell("exec \"$0\" mcp --workspace \"$1\"", PROGRAM)),
            (
                "cleaned",
                shell(
                    "exec env -i HOME=\"$HOME\" PATH=\"$PATH\" TMPDIR=\"$1\" \"$0\" mcp --workspace \"$1\"",
                    PROGRAM,
                ),
            ),
            ("fine", faulty_server("fine")),
        ])
        .await;
        for name in ["direct", "linked", "copied", "wrapped", "cleaned"] {
            refused(&server, name, "Toolgate does not start itself").await;
        }
        ready(&server, "fine").await;
        gone(&marker).await;
        let names = names(&server).await;
        let foreign: Vec<&String> = names.iter().filter(|name| name.ends_with("_bash")).collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        // It is not tried again.
        let log = server.log();
        // What those that were started log stands there too, as what they printed.
        let own = log.lines().filter(|line| !line.contains("stderr="));
        assert_eq!(
            own.filter(|line| line.contains("the server is left alone")).count(),
            5,
            "{log}"
        );
    });
}

#[test]
fn the_service_does_not_connect_to_itself() {
    test(async {
        let relay = Relay::new().await;
        let server = relay.serve(json!({"me": relay.entry()})).await;
        refused(&server, "me", "This server is the service itself").await;
        let names = names(&server).await;
        assert!(names.iter().all(|name| !name.starts_with("me_")), "{names:?}");
    });
}

#[test]
fn services_that_have_each_other_do_not_hand_tools_round() {
    test(async {
        let (one, two) = (Relay::new().await, Relay::new().await);
        let first = one.serve(json!({"two": two.entry()})).await;
        let second = two
            .serve(json!({"one": one.entry(), "fine": faulty_server("fine")}))
            .await;
        ready(&second, "one").await;
        ready(&second, "fine").await;
        ready(&first, "two").await;
        let listed = names(&first).await;
        assert!(listed.contains(&"two_bash".to_owned()), "{listed:?}");
        let listed = [listed, names(&second).await].concat();
        let round: Vec<&String> = listed
            .iter()
            .filter(|name| name.starts_with("two_one") || name.starts_with("one_two") || name.starts_with("two_fine"))
            .collect();
        assert!(round.is_empty(), "{round:?}");
    });
}
