//! What the service starts cannot use the service: every door traces its connections to the process behind them.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use toolgate_contract::*;

use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

fn rules() -> Setup {
    Setup::permission(json!({ "bash": "ask", "edit": "ask", "external_directory": "ask" }))
}

/// Has a person approve every command, and nothing else: what a person approves runs without walls.
async fn approved(setup: Setup) -> Server {
    let server = Server::with(setup).await;
    let mut approver = Approver::open(server.channel().clone(), "person").await.unwrap();
    tokio::spawn(async move {
        while let Ok(message) = approver.next().await {
            let channel_response::Message::PromptAdded(added) = message else {
                continue;
            };
            let prompt = added.prompt.unwrap();
            if prompt.tool == "bash" {
                approver.send(reply(&prompt, PromptDecision::Once)).await;
            }
        }
    });
    server
}

/// Runs a command to its end, and returns what it printed and the call's id.
async fn ran(server: &Server, id: &str, command: &str) -> String {
    let events = server.execute(kept(id, bash(command))).await.unwrap();
    String::from_utf8_lossy(&output_of(&events)).into_owned()
}

/// Asks for the audit and returns its text.
async fn audit(server: &Server) -> String {
    let output = client(server, &["audit", "export"]).await;
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn url(server: &Server) -> String {
    match &server.tcp {
        Some(address) => format!("http://{address}"),
        None => format!("unix:{}", server.folder().join("s").display()),
    }
}

async fn client(server: &Server, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .args(["--server", &url(server)])
        .env_clear()
        .env("HOME", "/nowhere");
    command
        .current_dir(server.folder())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap()
}

/// Ways to start a program that try to hide where it comes from. `{}` is the program; each waits for its end.
const DISGUISES: [&str; 4] = [
    "{}",
    "setsid -w {}",
    "(ulimit -R unlimited; ulimit -x unlimited) 2>/dev/null; env -i setsid -w {}",
    // An orphan that left its session.
    "mkfifo end; (setsid -f sh -c '{} ; echo >end' &) ; cat end; rm end",
];

async fn check_that_commands_decide_nothing(setup: Setup) {
    let server = approved(setup).await;
    for (index, disguise) in DISGUISES.iter().enumerate() {
        let target = server.folder().join(format!("outside{index}"));
        let call = format!(
            "timeout 3 {PROGRAM} --server {} call --yes write filePath={} content=x </dev/null 2>&1",
            url(&server),
            target.display()
        );
        let said = ran(&server, &format!("outer{index}"), &disguise.replace("{}", &call)).await;
        assert!(!target.exists(), "{disguise}: {said}");
        assert!(said.contains("prompts.reply"), "{disguise}: {said}");

        // What its call may do it may do, as what it is: in the session of that call, and on its behalf.
        let call = format!(
            "{PROGRAM} --server {} call bash command=\"echo from-within\" description=x </dev/null 2>&1",
            url(&server)
        );
        let said = ran(&server, &format!("free{index}"), &disguise.replace("{}", &call)).await;
        assert!(said.contains("from-within"), "{disguise}: {said}");
        let outer = server.get(&format!("free{index}")).await;
        let request = ListCallsRequest {
            page_size: 100,
            ..ListCallsRequest::default()
        };
        let calls = server.tools().list_calls(request).await.unwrap().into_inner().calls;
        let inner: Vec<&Call> = calls
            .iter()
            .filter(|call| {
                let context = call.context.as_ref().unwrap();
                context.parent_call_id == outer.call_id
            })
            .collect();
        assert_eq!(inner.len(), 1, "{disguise}");
        let session = |call: &Call| call.context.as_ref().unwrap().session_id.clone();
        assert_eq!(session(inner[0]), session(&outer), "{disguise}");
        let audit = audit(&server).await;
        assert!(audit.contains(&format!("call:free{index}")), "{disguise}: {audit}");

        for denied in ["approve --json", "audit export", "grants --revoke x"] {
            let said = ran(
                &server,
                &format!("denied{index}{}", denied.len()),
                &format!(
                    "timeout 20 {PROGRAM} --server {} {denied} </dev/null 2>&1; echo $?",
                    url(&server)
                ),
            )
            .await;
            assert!(
                !said.trim().ends_with("\n0") && said.contains("scope"),
                "{denied}: {said}"
            );
        }
    }
    // The person who started it keeps everything.
    let output = client(&server, &["audit", "export"]).await;
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_command_decides_nothing_over_the_unix_socket() {
    test(async { check_that_commands_decide_nothing(rules()).await });
}

#[test]
fn a_command_decides_nothing_over_tcp() {
    test(async {
        let setup = Setup { tcp: true, ..rules() };
        check_that_commands_decide_nothing(setup).await;
    });
}

#[test]
fn a_process_of_a_call_is_bound_to_the_rights_of_its_agent() {
    test(async {
        let config = json!({
            "permission": { "bash": "ask" },
            "agent": { "careful": { "mode": "all", "permission": { "bash": { "*": "ask", "rm *": "deny" } } } },
        });
        let setup = Setup {
            config: Some(config),
            ..Setup::default()
        };
        let server = approved(setup).await;
        fs::write(server.work().join("kept"), "x").unwrap();
        let command = format!(
            "{PROGRAM} --server {} call --agent build bash 'command=rm kept' description=x </dev/null 2>&1",
            url(&server)
        );
        let request = ExecuteToolRequest {
            context: Some(CallContext {
                session_id: "s".to_owned(),
                agent: "careful".to_owned(),
                ..CallContext::default()
            }),
            ..kept("outer", bash(&command))
        };
        server.execute(request).await.unwrap();
        assert!(server.work().join("kept").exists());
    });
}

/// Connects, hands the connection to another process and ends, while the service does not look; then somebody else uses it.
const HAND_OVER: &str = r#"
import os, signal, socket, sys
service, path = int(sys.argv[1]), sys.argv[2]
mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
os.kill(service, signal.SIGSTOP)
child = os.fork()
if child == 0:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    socket.send_fds(theirs, [b"x"], [connection.fileno()])
    os._exit(0)
os.waitpid(child, 0)
_, descriptors, _, _ = socket.recv_fds(mine, 1, 1)
os.kill(service, signal.SIGCONT)
connection = socket.socket(fileno=descriptors[0])
body = b"\0\0\0\0\0"
connection.sendall(b"POST /toolgate.v1.InfoService/GetServerInfo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/grpc-web+proto\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
answer = b""
while True:
    part = connection.recv(65536)
    if not part:
        break
    answer += part
print(answer.decode("latin-1"))
"#;

#[test]
fn a_connection_of_nobody_is_nobodys() {
    test(async {
        let server = Server::start().await;
        let output = Command::new("python3")
            .args(["-c", HAND_OVER, &server.pid().to_string()])
            .arg(server.folder().join("s"))
            .output()
            .await
            .unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).to_lowercase();
        assert!(answer.contains("grpc-status: 16"), "{answer} {output:?}");
        assert!(answer.contains("traced") || answer.contains("terminal"), "{answer}");
    });
}

#[test]
fn other_users_need_a_key_or_authentication() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can play another user");
        return;
    }
    test(async {
        for (local_users, gets_in) in [("same", false), ("any", true)] {
            let setup = Setup { tcp: true, ..rules() };
            let server = approved(setup.env("TOOLGATE_LISTEN_LOCAL_USERS", local_users)).await;
            // A copy, since the folder in which it was built may be closed to others.
            let program = server.folder().join("toolgate");
            fs::copy(PROGRAM, &program).unwrap();
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
            fs::set_permissions(server.folder(), open).unwrap();
            let output = Command::new(program)
                .args(["tools", "--server", &url(&server)])
                .env_clear()
                .env("HOME", "/nowhere")
                .current_dir("/")
                .uid(65534)
                .gid(65534)
                .stdin(Stdio::null())
                .output()
                .await
                .unwrap();
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_eq!(output.status.success(), gets_in, "{said}");
            assert_eq!(said.contains("listen.local_users"), !gets_in, "{said}");
            // Nobody needs a flag for what is their own.
            assert!(client(&server, &["tools"]).await.status.success());
            // Even then what a call starts is what it is.
            let said = ran(
                &server,
                "c",
                &format!("{PROGRAM} --server {} audit export 2>&1", url(&server)),
            )
            .await;
            assert!(said.contains("scope"), "{said}");
        }
    });
}

#[test]
fn every_door_wants_its_own_name() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let address = server.tcp.clone().unwrap();
        let port = address.rsplit(':').next().unwrap();
        let ask = async |host: &str, kind: &str| {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let request = format!(
                "POST /toolgate.v1.InfoService/GetServerInfo HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
                 Content-Type: {kind}\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            String::from_utf8_lossy(&answer).to_lowercase()
        };
        for host in ["localhost", &format!("127.0.0.1:{port}")] {
            let answer = ask(host, "application/grpc-web+proto").await;
            assert!(
                answer.contains("grpc-status:0") || answer.contains("grpc-status: 0"),
                "{answer}"
            );
        }
        for host in ["evil.example", &format!("127.0.0.1.evil.example:{port}"), ""] {
            let answer = ask(host, "application/grpc-web+proto").await;
            assert!(!answer.contains("grpc-status:0"), "{host}: {answer}");
            assert!(
                answer.contains("grpc-status: 7") && answer.contains("localhost"),
                "{host}: {answer}"
            );
        }
        // gRPC proper: the name is in the authority.
        let endpoint = tonic::transport::Endpoint::try_from(format!("http://{address}"))
            .unwrap()
            .origin("http://evil.example".parse().unwrap());
        let channel = endpoint.connect().await.unwrap();
        let mut info = info_service_client::InfoServiceClient::new(channel);
        let answer = info.get_server_info(GetServerInfoRequest::default()).await;
        refused(answer, tonic::Code::PermissionDenied, "FOREIGN_HOST");
    });
}

#[test]
fn nothing_of_the_service_is_shown_to_its_commands() {
    test(async {
        let setup = rules()
            .env("TOOLGATE_TOKEN", "hush-hush-hush-hush")
            .env("API_SECRET", "whisper-whisper")
            .env("TOOLGATE_SHELL_ENVIRONMENT_DENY", "API_SECRET");
        let mut server = approved(setup).await;
        let said = ran(
            &server,
            "c",
            "for p in $PPID $(cat /proc/$PPID/task/*/children); do [ $p = $$ ] || tr '\\0' '\\n' </proc/$p/environ; done; echo end",
        )
        .await;
        assert!(said.contains("end"), "{said}");
        for secret in ["hush", "whisper", "TOOLGATE"] {
            assert!(!said.contains(secret), "{said}");
        }
        let shown = fs::read(format!("/proc/{}/environ", server.pid())).unwrap_or_default();
        assert!(shown.iter().all(|&byte| byte == 0));
        // A process that is not root cannot trace it, whoever's it is.
        let said = ran(&server, "d", "stat -c %u /proc/$PPID/mem").await;
        assert_eq!(said, "0\n");
        server.stop().await;
    });
}

/// Commands that try to lose the mark of their call and leave a process behind that sleeps for so long.
const SHEDDING: [&str; 4] = [
    "ulimit -R unlimited; ulimit -x unlimited; setsid -f sleep {}",
    "prlimit --pid $$ --rttime=unlimited --locks=unlimited; setsid -f sleep {}",
    "ulimit -R 5; ulimit -x 5; setsid -f sleep {}; setsid sleep {} &",
    "(ulimit -R 1; ulimit -x 1; setsid -f setsid -f env -i sleep {})",
];

#[test]
fn nothing_outlives_its_call_by_changing_its_limits() {
    test(async {
        let mut server = Server::with(Setup::default().env("TOOLGATE_DRAIN_GRACE", "200ms")).await;
        for (index, shedding) in SHEDDING.iter().enumerate() {
            let marker = format!("{}", 87_100 + index);
            let command = format!(
                "({}) 2>/dev/null; echo ready; sleep {marker}",
                shedding.replace("{}", &marker)
            );
            for end in ["cancel", "session", "stop", "kill"] {
                let id = format!("{end}{index}");
                let request = in_session(&id, kept(&id, bash(&command)));
                let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
                next_such(&mut stream, is_output).await;
                match end {
                    "cancel" => {
                        server.cancel(&id).await;
                    }
                    "session" => {
                        let request = EndSessionRequest {
                            session_id: id,
                            ..EndSessionRequest::default()
                        };
                        server.sessions().end_session(request).await.unwrap();
                    }
                    "stop" => {
                        server.stop().await;
                        server.restart().await;
                    }
                    _ => {
                        server.kill9().await;
                        server.restart().await;
                    }
                }
                eventually(&format!("{end} ends {shedding}"), async || {
                    processes(&marker).is_empty()
                })
                .await;
            }
        }
        // Nothing dead is left either.
        let children = |pid: u32| {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
            let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
            lists
                .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
                .count()
        };
        ran(&server, "orphans", "for i in $(seq 20); do setsid -f true; done").await;
        eventually("only the watchdog is left", async || children(server.pid()) <= 1).await;
        server.stop().await;
    });
}

#[test]
fn a_background_process_keeps_its_calls_rights() {
    test(async {
        let server = approved(rules()).await;
        let out = server.work().join("said");
        let line = format!(
            "{PROGRAM} --server {} call bash command=\"echo later\" description=x </dev/null >said.part 2>&1; mv said.part said",
            url(&server)
        );
        ran(
            &server,
            "starts",
            &format!("setsid -f sh -c 'sleep 0.5; {line}' >/dev/null 2>&1"),
        )
        .await;
        eventually("it has called", async || out.exists()).await;
        let said = fs::read_to_string(out).unwrap();
        assert!(said.contains("later"), "{said}");
        let value: Value = json!(audit(&server).await);
        assert!(value.as_str().unwrap().contains("call:starts"));
    });
}

#[test]
fn what_another_service_started_is_nobody_to_an_idle_one() {
    test(async {
        let idle = Server::with(Setup { tcp: true, ..rules() }).await;
        let other = approved(rules()).await;
        let call = format!(
            "{PROGRAM} --server {} call bash command=\"echo inside\" description=x </dev/null 2>&1",
            url(&idle)
        );
        for (index, disguise) in DISGUISES.iter().enumerate() {
            let said = ran(&other, &format!("c{index}"), &disguise.replace("{}", &call)).await;
            assert!(
                said.contains("connect from a terminal of your own"),
                "{disguise}: {said}"
            );
        }
        // A person still comes in.
        let output = client(&idle, &["calls"]).await;
        assert!(output.status.success(), "{output:?}");
    });
}

/// Starts programs of a user who is not root, with a folder in `PATH` that only root may enter.
struct Ordinary {
    folder: tempfile::TempDir,
}

impl Ordinary {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        // The one that was built may be where other users have no way to.
        fs::copy(PROGRAM, folder.path().join("toolgate")).unwrap();
        for name in ["home/.config/opencode", "work", "data", "locked"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::set_permissions(folder.path(), mode(0o755)).unwrap();
        fs::set_permissions(folder.path().join("locked"), mode(0)).unwrap();
        if rustix::process::geteuid().is_root() {
            for name in ["home", "home/.config", "home/.config/opencode", "work", "data"] {
                std::os::unix::fs::chown(folder.path().join(name), Some(ORDINARY), Some(ORDINARY)).unwrap();
            }
        }
        Self { folder }
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let root = self.folder.path();
        let mut command = Command::new(root.join("toolgate"));
        command
            .env_clear()
            .env(
                "PATH",
                format!("{}/locked/bin:/usr/local/bin:/usr/bin:/bin", root.display()),
            )
            .env("HOME", root.join("home"))
            .env("TMPDIR", root.join("home"))
            .env("SHELL", "/bin/bash")
            .current_dir(root.join("work"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if rustix::process::geteuid().is_root() {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        command
    }

    async fn said(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments).output().await.unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

/// A user who has nothing.
const ORDINARY: u32 = 65534;

#[test]
fn the_service_of_an_ordinary_user_traces_its_connections_too() {
    test(async {
        let user = Ordinary::new();
        // Within walls, which name what is in PATH.
        let said = user
            .said(&["call", "bash", "command=echo within; id -u", "description=x"])
            .await;
        assert!(said.contains("within") && !said.contains("\n0\n"), "{said}");

        let rules = json!({ "permission": { "bash": "allow" } }).to_string();
        fs::write(user.folder.path().join("work/opencode.json"), rules).unwrap();
        let mut service = user
            .program(&[
                "serve",
                "--json",
                "--no-socket",
                "--listen",
                "127.0.0.1:0",
                "--data-dir",
                "../data",
            ])
            .spawn()
            .unwrap();
        let mut said = tokio::io::BufReader::new(service.stdout.take().unwrap());
        let mut line = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut said, &mut line)
            .await
            .unwrap();
        let announced: Value = serde_json::from_str(&line).unwrap();
        let url = announced["listening"]["tcp"].as_str().unwrap().to_owned();

        // While a program of the service runs, whoever connects must be seen.
        let call = ["--server", &url, "call", "bash", "description=x"];
        let mut running = user
            .program(
                &[
                    &call[..],
                    &["command=touch here; while [ -e here ]; do sleep 0.05; done"],
                ]
                .concat(),
            )
            .spawn()
            .unwrap();
        let here = user.folder.path().join("work/here");
        eventually("the command runs", async || here.exists()).await;
        let said = user.said(&[&call[..], &["command=echo second"]].concat()).await;
        assert!(said.contains("second"), "{said}");

        // And what the service started is known for that.
        let program = user.folder.path().join("toolgate");
        let inner = format!(
            "command=timeout 20 {} --server {url} approve --json </dev/null 2>&1; echo $?",
            program.display()
        );
        let said = user.said(&[&call[..], &[&inner]].concat()).await;
        assert!(
            said.contains("prompts.reply") || said.contains("prompts.read"),
            "{said}"
        );
        fs::remove_file(here).unwrap();
        assert!(running.wait().await.unwrap().success());
        service.kill().await.unwrap();
    });
}
