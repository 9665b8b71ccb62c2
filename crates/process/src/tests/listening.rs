//! What programs listen on: whose it is, and at which addresses nobody else does.

use std::net::{SocketAddr, TcpListener};

use super::*;

/// Listens at each address that it is given, prints the ports, and goes on until it is ended. A port of 0 is chosen by the
/// system; one after it that is 0 as well is the same.
const LISTEN: &str = r#"
import socket, sys, time
held, port = [], 0
for host in sys.argv[2:]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    one = socket.socket(family)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    one.bind((host, port or int(sys.argv[1])))
    one.listen()
    port = one.getsockname()[1]
    held.append(one)
print(port, flush=True)
time.sleep(1000)
"#;

/// A program that listens, for a call.
struct Listener {
    running: Running,
    port: u16,
}

impl Fixture {
    async fn listen(&self, call: &str, port: u16, hosts: &str) -> Listener {
        let script = self.folder.path().join("listen.py");
        std::fs::write(&script, LISTEN).unwrap();
        let launch = Launch {
            call: call.to_owned(),
            ..self.launch(&format!("python3 {} {port} {hosts}", script.display()))
        };
        let mut running = self.programs.start(launch).await.unwrap();
        let mut output = running.take_output().unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"\n") {
            text.extend(output.next().await.expect("it prints its port"));
        }
        Listener {
            running,
            port: String::from_utf8(text).unwrap().trim().parse().unwrap(),
        }
    }

    /// The addresses that a call listens at on a port.
    fn listens(&self, call: &str, port: u16) -> Vec<String> {
        let found = self.programs.listening(call, &Listeners::look().unwrap());
        let on_port = found.into_iter().filter(|one| one.address.port() == port);
        on_port
            .map(|one| {
                assert!(one.process.command.contains("listen.py"), "{one:?}");
                one.address.ip().to_string()
            })
            .collect()
    }

    /// The addresses at which a port of a call can be reached.
    fn reached(&self, call: &str, port: u16) -> Vec<String> {
        let found = self.programs.own_addresses(call, port).unwrap();
        found.iter().map(|one| one.address.ip().to_string()).collect()
    }
}

#[tokio::test]
async fn what_a_call_listens_on_is_its_own() {
    let fixture = Fixture::new();
    for (hosts, listens, reached) in [
        ("127.0.0.1", &["127.0.0.1"][..], &["127.0.0.1"][..]),
        ("0.0.0.0", &["0.0.0.0"], &["127.0.0.1"]),
        ("::1", &["::1"], &["::1"]),
        ("::", &["::"], &["::1", "127.0.0.1"]),
        ("127.0.0.1 ::1", &["127.0.0.1", "::1"], &["127.0.0.1", "::1"]),
        // Another address of this machine is seen, and not reached.
        ("127.0.0.2", &["127.0.0.2"], &[]),
    ] {
        let listener = fixture.listen("a call", 0, hosts).await;
        let port = listener.port;
        assert_eq!(fixture.listens("a call", port), listens);
        assert_eq!(fixture.reached("a call", port), reached);
        assert_eq!(fixture.listens("another call", port), [""; 0]);
        assert_eq!(fixture.reached("another call", port), [""; 0]);
        let pid = listener.running.pid();
        let seen = fixture.programs.listening("a call", &Listeners::look().unwrap());
        assert!(
            seen.iter().all(|one| i64::from(one.process.pid) == i64::from(pid)),
            "{seen:?}"
        );
        assert!(fixture.programs.runs_for("a call"));
        let own = fixture.programs.own_addresses("a call", port).unwrap();
        assert!(own.iter().all(|own| own.is_unchanged()));
        drop(listener);
        assert_eq!(fixture.programs.end_call("a call").await, 0);
        assert_eq!(fixture.reached("a call", port), [""; 0]);
        assert!(!own.iter().any(|own| own.is_unchanged()));
    }
}

#[tokio::test]
async fn a_port_that_somebody_else_has_too_is_not_reached() {
    let fixture = Fixture::new();
    // More exactly, less exactly, and the very same address.
    for (hosts, others) in [
        ("0.0.0.0", "127.0.0.1"),
        ("127.0.0.1", "::"),
        ("127.0.0.1", "127.0.0.1"),
    ] {
        let own = fixture.listen("a call", 0, hosts).await;
        assert_eq!(fixture.reached("a call", own.port), ["127.0.0.1"]);
        let before = fixture.programs.own_addresses("a call", own.port).unwrap();
        let other = fixture.listen("another call", own.port, others).await;
        assert_eq!(fixture.listens("a call", own.port), [hosts]);
        assert_eq!(fixture.reached("a call", own.port), [""; 0], "{hosts} and {others}");
        assert!(!before[0].is_unchanged());
        drop((own, other));
        fixture.programs.end_call("a call").await;
        fixture.programs.end_call("another call").await;
    }
    // What no call has started: this very process.
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    let SocketAddr::V4(address) = own.local_addr().unwrap() else {
        unreachable!("it was bound to an address of IPv4")
    };
    let listener = fixture.listen("a call", 0, "127.0.0.1").await;
    assert_ne!(listener.port, address.port());
    assert_eq!(fixture.reached("a call", address.port()), [""; 0]);
    assert_eq!(fixture.listens("a call", address.port()), [""; 0]);
}

#[tokio::test]
async fn what_a_call_left_running_listens_too() {
    for without_groups in WAYS {
        let fixture = Fixture::with(without_groups);
        let script = fixture.folder.path().join("listen.py");
        std::fs::write(&script, LISTEN).unwrap();
        let command = format!("setsid -f python3 {} 0 127.0.0.1 > port", script.display());
        let (ending, _) = fixture.run(&command, LONG).await;
        assert_eq!(ending.exit, Some(Exit::Code(0)));
        let port = async {
            loop {
                let text = std::fs::read_to_string(fixture.folder.path().join("port")).unwrap_or_default();
                if let Ok(port) = text.trim().parse() {
                    break port;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let port = tokio::time::timeout(LONG, port).await.unwrap();
        assert_eq!(fixture.listens("a call", port), ["127.0.0.1"]);
        assert_eq!(fixture.reached("a call", port), ["127.0.0.1"]);
        assert_eq!(fixture.programs.end_call("a call").await, 0);
        assert_eq!(fixture.listens("a call", port), [""; 0]);
        assert!(!fixture.programs.runs_for("a call"));
    }
}

#[tokio::test]
async fn a_connection_leads_to_the_call_or_nowhere() {
    let fixture = Fixture::new();
    for hosts in ["127.0.0.1", "::", "::1"] {
        let own = fixture.listen("a call", 0, hosts).await;
        let port = CallPort::new(fixture.programs.clone(), "a call", own.port);
        assert!(port.is_of_running_call());
        let listening = port.listening().await.unwrap();
        assert_eq!(listening.address.ip().to_string(), hosts);
        let connection = port.connect().await.unwrap();
        assert_eq!(connection.peer_addr().unwrap().port(), own.port);
        assert!(
            CallPort::new(fixture.programs.clone(), "another call", own.port)
                .connect()
                .await
                .is_none()
        );
        // Somebody else comes, and goes: the first look is a moment ago.
        let other = fixture.listen("another call", own.port, hosts).await;
        assert!(port.connect().await.is_none());
        drop(other);
        fixture.programs.end_call("another call").await;
        assert!(port.connect().await.is_some());
        // The program has moved on, and another one has taken its place.
        drop(own.running);
        fixture.programs.end_call("a call").await;
        assert!(port.connect().await.is_none());
        assert!(!port.is_of_running_call());
        let _other = fixture.listen("another call", own.port, hosts).await;
        assert!(port.connect().await.is_none());
        fixture.programs.end_call("another call").await;
    }
}
