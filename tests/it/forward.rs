//! `toolgate ports` and `toolgate forward`.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout};
use toolgate_contract::*;

use crate::library::{listens, open_air};
use crate::support::*;

/// The command while it forwards.
struct Forwarding {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Forwarding {
    async fn start(server: &Server, args: &[&str]) -> Self {
        let url = server.url();
        let mut child = server
            .command(&[&["--server", &url, "forward"], args].concat())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let Some(line) = lines.next_line().await.unwrap() else {
            let output = child.wait_with_output().await.unwrap();
            panic!("it does not listen: {output:?}");
        };
        let address = line.strip_prefix("listening on ").unwrap_or(&line).to_owned();
        Self { child, lines, address }
    }

    /// Sends bytes and then their end, and returns what comes back.
    async fn exchange(&self, sent: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Waits for the end: the exit code and standard error.
    async fn ended(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn local_connections_reach_the_program_until_an_interrupt() {
    test(async {
        let mut server = Server::with(Setup {
            tcp: true,
            ..open_air("allow")
        })
        .await;
        let port = listens(&server, "c").await.to_string();
        let mut forwarding = Forwarding::start(&server, &["c", &port]).await;
        let local = forwarding.lines.next_line().await.unwrap().unwrap();
        assert_eq!(local, format!("HTTP: http://{}/", forwarding.address));
        let http = forwarding.lines.next_line().await.unwrap().unwrap();
        let expected = format!("HTTP through the service: {}/ports/", server.url());
        assert!(http.starts_with(&expected), "{http}");
        // One that stays open does not hold up others.
        let mut open = TcpStream::connect(&forwarding.address).await.unwrap();
        open.write_all(b"begun").await.unwrap();
        assert_eq!(forwarding.exchange("one").await, "3 bytes\none");
        assert_eq!(forwarding.exchange("other").await, "5 bytes\nother");
        open.write_all(b", ended").await.unwrap();
        open.shutdown().await.unwrap();
        let mut answer = String::new();
        open.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "12 bytes\nbegun, ended");

        let address = forwarding.address.clone();
        let pid = rustix::process::Pid::from_raw(i32::try_from(forwarding.child.id().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert_eq!(forwarding.ended().await, (Some(130), String::new()));
        assert!(TcpStream::connect(&address).await.is_err());
        let request = ListCallsRequest {
            tools: vec!["port".to_owned()],
            ..ListCallsRequest::default()
        };
        let calls = server.tools().list_calls(request).await.unwrap().into_inner().calls;
        assert_eq!(calls.len(), 1);
        assert!(calls[0].ending.is_some(), "the port is closed: {calls:?}");
        server.stop().await;
    });
}

#[test]
fn it_ends_with_the_program() {
    test(async {
        let server = Server::with(open_air("allow")).await;
        let port = listens(&server, "c").await.to_string();
        let mut forwarding = Forwarding::start(&server, &["c", &port, "--listen", "localhost:0"]).await;
        let local = forwarding.lines.next_line().await.unwrap().unwrap();
        assert_eq!(local, format!("HTTP: http://{}/", forwarding.address));
        let http = forwarding.lines.next_line().await.unwrap().unwrap();
        assert!(http.contains("/ports/") && http.contains("TCP address"), "{http}");
        assert_eq!(forwarding.exchange("x").await, "1 bytes\nx");
        server.cancel("c").await;
        let (code, told) = forwarding.ended().await;
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("the port was closed"), "{told}");
    });
}

#[test]
fn what_cannot_be_forwarded_to_has_an_exit_code() {
    test(async {
        let server = Server::with(open_air("ask")).await;
        let port = listens(&server, "c").await.to_string();
        let url = server.url();
        let check = async |args: &[&str], code: i32, part: &str| {
            let (ended, out, err) = server.cli(&[&["--server", &url, "forward"], args].concat()).await;
            assert_eq!(ended, code, "{args:?}: {out} {err}");
            assert!(err.contains(part), "{args:?}: {err}");
        };
        check(&["c", &port], 3, "no terminal to ask on").await;
        check(&["c", &port, "--no"], 3, "port").await;
        check(&["c", "1", "--yes"], 1, "listens on port 1").await;
        check(&["none", &port], 8, "none").await;
        check(&["c", "0"], 2, "0").await;
        let unusable = "write HOST:PORT, such as 127.0.0.1:18125";
        for address in ["18125", "nowhere", ":18125", "127.0.0.1:", "127.0.0.1:65536"] {
            check(&["c", &port, "--listen", address], 2, unusable).await;
        }
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap().to_string();
        check(
            &["c", &port, "--listen", &taken],
            1,
            &format!("cannot listen on {taken}"),
        )
        .await;
        check(&["c", &port, "--yes", "--agent", "nobody"], 2, "nobody").await;
        let asked = ["--server", &url, "forward", "c", &port];
        let mut person = Pty::start(&asked);
        person.shows("port asks for permission: port").await;
        person.shows("[o]nce").await;
        person.press('o').await;
        person.shows("listening on 127.0.0.1:").await;
        person.signal(rustix::process::Signal::TERM);
        assert_eq!(person.ended().await, 130);
    });
}

#[test]
fn what_calls_listen_on_is_listed() {
    test(async {
        let server = Server::with(open_air("allow")).await;
        let port = listens(&server, "c").await;
        let url = server.url();
        let run = async |args: &[&str]| {
            let (code, out, err) = server.cli(&[&["--server", &url], args].concat()).await;
            assert_eq!(code, 0, "{args:?}: {err}");
            out
        };
        for args in [&["ports"][..], &["ports", "c"]] {
            let listed = run(args).await;
            let mut lines = listed.lines();
            assert!(lines.next().unwrap().starts_with("CALL"), "{listed}");
            let cells: Vec<_> = lines.next().unwrap().split_whitespace().map(str::to_owned).collect();
            assert_eq!(cells[..3], ["c".to_owned(), port.to_string(), "127.0.0.1".to_owned()]);
            assert!(listed.contains("program.py"), "{listed}");
        }
        let told: Value = serde_json::from_str(&run(&["ports", "--json"]).await).unwrap();
        assert_eq!(
            (&told["callId"], &told["ports"][0]["port"]),
            (&"c".into(), &port.into())
        );

        // What an ended call left running counts, too.
        let left = server.run(
            "bash",
            serde_json::json!({"command": "python3 program.py & sleep 1", "description": "d"}),
        );
        let left = left.await.call_id;
        assert!(run(&["ports"]).await.contains(&left));
        server.cancel(&left).await;
        server.cancel("c").await;
        assert_eq!(run(&["ports", "--json"]).await, "");
    });
}
