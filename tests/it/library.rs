//! What the Rust library has beyond the libraries of other languages' drivers, against the real program.

mod background;
mod files;
mod places;
mod ports;
mod repeats;

use serde_json::json;
use toolgate_client::{Client, Error};
use toolgate_contract::call_event;

use crate::support::*;

/// Answers each connection when its end has come: how many bytes came, and then they themselves. `break` breaks it.
const PROGRAM: &str = r#"
import socket, struct, threading
listening = socket.create_server(("127.0.0.1", 0))
def serve(connection):
    came = b""
    while True:
        piece = connection.recv(65536)
        if piece == b"break":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return connection.close()
        if not piece:
            break
        came += piece
    connection.sendall(b"%d bytes\n" % len(came) + came)
    connection.close()
while True:
    threading.Thread(target=serve, args=listening.accept()[:1], daemon=True).start()
"#;

/// A client of a server.
async fn connected(server: &Server) -> Client {
    Client::connect(&server.url()).await.unwrap()
}

/// Checks the reason of a refusal.
#[track_caller]
fn refused_for<T: std::fmt::Debug>(result: Result<T, Error>, reason: &str) -> Error {
    let error = result.expect_err("a refusal");
    assert_eq!(error.reason().as_deref(), Some(reason), "{error:?}");
    error
}

/// Settings for a service whose commands have no walls, which would keep them from listening; `port` is what a rule says of
/// ports.
pub(crate) fn open_air(port: &str) -> Setup {
    Setup::permission(json!({"*": "allow", "port": port}))
}

/// Starts the program in the background, and returns the port that it listens on.
pub(crate) async fn listens(server: &Server, id: &str) -> u16 {
    std::fs::write(server.work().join("program.py"), PROGRAM).unwrap();
    let input = json!({"command": "python3 program.py", "description": "Listens"});
    let request = kept(id, request("background", input));
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    next_such(&mut stream, |event| matches!(event, call_event::Event::Running(_))).await;
    let mut port = 0;
    eventually("the program listens", async || {
        port = server
            .get(id)
            .await
            .listening
            .first()
            .map_or(0, |listening| listening.port);
        port != 0
    })
    .await;
    u16::try_from(port).unwrap()
}
