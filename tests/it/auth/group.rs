//! The Unix socket of a group: who gets in, as whom, and what for. Only root can play other users; for anybody else
//! the tests are about the owner.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::process::{Child, Command};
use toolgate_contract::*;

use crate::support::{Approver, Server, Setup, reply, test};

/// The user and group of nobody, on most systems; and one that is in no group of that number.
const MEMBER: u32 = 65534;
const STRANGER: u32 = 65533;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Starts the program as a user in the group of the same number.
fn as_user(user: u32, server: &Server, args: &[&str]) -> Child {
    // A copy, since the folder in which it was built may be closed to others. Another process makes it: a file that this one
    // writes is open in what other tests start at that moment, and then cannot be run.
    let program = server.folder().join("toolgate");
    if !program.exists() {
        let copy = std::process::Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_toolgate"))
            .arg(&program)
            .status();
        assert!(copy.unwrap().success());
    }
    let url = format!("unix:{}", server.folder().join("s").display());
    Command::new(program)
        .args(args)
        .args(["--server", &url])
        .env_clear()
        .env("HOME", "/nowhere")
        .current_dir("/")
        .uid(user)
        .gid(user)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn ran(child: Child) -> (bool, String) {
    let output = child.wait_with_output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

async fn start(scopes: &str) -> Server {
    let group = if is_root() {
        MEMBER
    } else {
        rustix::process::getegid().as_raw()
    };
    let setup = Setup::permission(json!({ "bash": "ask" }))
        .env("TOOLGATE_AUTH_UNIX_GROUP", &group.to_string())
        .env("TOOLGATE_AUTH_UNIX_SCOPES", scopes);
    let server = Server::with(setup).await;
    fs::set_permissions(server.folder(), fs::Permissions::from_mode(0o711)).unwrap();
    let socket: &Path = &server.folder().join("s");
    let metadata = fs::metadata(socket).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.gid()), (0o660, group));
    server
}

#[test]
fn members_have_the_scopes_of_the_group() {
    test(async {
        let server = start("calls.execute,calls.read").await;
        let mut approver = Approver::open(server.connect().await, "owner").await.unwrap();
        if is_root() {
            let (listed, text) = ran(as_user(MEMBER, &server, &["tools"])).await;
            assert!(listed && text.contains("bash"), "{text}");
            let (listed, text) = ran(as_user(STRANGER, &server, &["tools"])).await;
            assert!(!listed && !text.contains("bash"), "{text}");
            let (revoked, text) = ran(as_user(MEMBER, &server, &["grants", "--revoke", "x"])).await;
            assert!(!revoked && text.contains("scope"), "{text}");

            let call = ["call", "--wait", "bash", "command=echo ran", "description=d"];
            let call = as_user(MEMBER, &server, &call);
            let prompt = approver.added().await;
            assert_eq!(prompt.requester, format!("user:{MEMBER}"));
            approver.send(reply(&prompt, PromptDecision::Once)).await;
            let (completed, text) = ran(call).await;
            assert!(completed && text.contains("ran"), "{text}");
        }
        // The owner is known as well, and may do everything.
        let request = crate::support::kept("own", crate::support::bash("true"));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        let prompt = crate::support::waiting(&mut stream).await;
        let owner = rustix::process::geteuid().as_raw();
        assert_eq!(prompt.requester, format!("unix:{owner}"));
        approver.send(reply(&prompt, PromptDecision::Once)).await;
        assert_eq!(approver.result().await.result(), ReplyResult::Accepted);
    });
}
