//! Workspaces that clients create, suspend, resume and delete.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use toolgate_contract::workspace_source::Source;

use super::*;

pub(super) const CONFIG: &str = "[created_workspaces]\ndirectory = \"made\"\ntemplates = \"templates\"\n";

pub(super) fn setup_with(config: &str) -> Setup {
    let setup = Setup {
        folders: vec!["templates/web/src", "templates/empty"],
        files: vec![
            ("toolgate.toml", config.to_owned()),
            ("templates/web/src/main", "hello\n".to_owned()),
        ],
        ..Setup::default()
    };
    setup.env("TOOLGATE_CONFIG", "toolgate.toml")
}

async fn service_with(config: &str) -> Server {
    Server::with(setup_with(config)).await
}

pub(super) fn template(name: &str) -> Source {
    Source::Template(name.to_owned())
}

pub(super) async fn create(server: &Server, name: &str, source: Source) -> Result<CreateWorkspaceResponse, Status> {
    create_and_wait(server, name, source, Duration::from_secs(30)).await
}

async fn create_and_wait(
    server: &Server,
    name: &str,
    source: Source,
    wait: Duration,
) -> Result<CreateWorkspaceResponse, Status> {
    let request = CreateWorkspaceRequest {
        workspace: name.to_owned(),
        source: Some(WorkspaceSource { source: Some(source) }),
        wait: Some(prost_types::Duration::try_from(wait).unwrap()),
    };
    Ok(workspaces(server).create_workspace(request).await?.into_inner())
}

pub(super) async fn suspend(server: &Server, name: &str) -> Result<SuspendWorkspaceResponse, Status> {
    let workspace = name.to_owned();
    let request = SuspendWorkspaceRequest { workspace };
    Ok(workspaces(server).suspend_workspace(request).await?.into_inner())
}

pub(super) async fn resume(server: &Server, name: &str) -> Result<WorkspaceInfo, Status> {
    let request = ResumeWorkspaceRequest {
        workspace: name.to_owned(),
        wait: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
    };
    let response = workspaces(server).resume_workspace(request).await?.into_inner();
    Ok(response.workspace.unwrap())
}

pub(super) async fn delete(server: &Server, name: &str) -> Result<DeleteWorkspaceResponse, Status> {
    let workspace = name.to_owned();
    let request = DeleteWorkspaceRequest { workspace };
    Ok(workspaces(server).delete_workspace(request).await?.into_inner())
}

pub(super) async fn state(server: &Server, name: &str) -> WorkspaceState {
    get(server, name).await.unwrap().state()
}

#[test]
fn one_is_created_from_a_template_and_deleted_with_its_files() {
    test(async {
        let mut server = service_with(CONFIG).await;
        symlink("src/main", server.folder().join("templates/web/link")).unwrap();
        let made = create(&server, "acme/one", template("web")).await.unwrap();
        let info = made.workspace.unwrap();
        assert!(
            made.created && info.state() == WorkspaceState::Ready && info.problem.is_empty(),
            "{info:?}"
        );
        assert_eq!(info.directory, real(&server, "made/acme/one").display().to_string());
        assert_eq!(info.source.unwrap().source, Some(template("web")));
        let told = call(&server, "acme/one", bash("cat link; echo x > new")).await.unwrap();
        assert_eq!(completed(&told).output, "hello\n");

        // The same again is what is there; from something else it is not.
        let again = create(&server, "acme/one", template("web")).await.unwrap();
        assert!(!again.created && again.workspace.unwrap().open_time == info.open_time);
        assert!(server.folder().join("made/acme/one/new").exists());
        let other = create(&server, "acme/one", template("empty")).await;
        refused(other, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        let other = create(&server, "default", template("web")).await;
        refused(other, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        let around = create(&server, "acme", template("web")).await;
        refused(around, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        let inside = create(&server, "acme/one/src", template("web")).await;
        refused(inside, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        let inside = create(&server, "acme/one/deep", template("web")).await;
        refused(inside, Code::FailedPrecondition, "WORKSPACES_OVERLAP");

        refused(
            close(&server, "acme/one").await,
            Code::FailedPrecondition,
            "WORKSPACE_CREATED",
        );
        let request = within("acme/one", kept("runs", bash("echo begun; sleep 86320")));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut stream, is_output).await;
        assert_eq!(delete(&server, "acme/one").await.unwrap().cancelled_calls, 1);
        assert_eq!(processes("86320"), Vec::<u32>::new());
        assert!(!server.folder().join("made/acme").exists());
        assert!(server.folder().join("templates/web/src/main").exists());
        assert_eq!(names(&server, 0).await, ["default"]);
        refused(delete(&server, "acme/one").await, Code::NotFound, "NOT_FOUND");
        assert_eq!(failed(&server.get("runs").await).reason(), FailureReason::Cancelled);
        // The name is free, for anything.
        let anew = create(&server, "acme/one", Source::Empty(EmptySource {}))
            .await
            .unwrap();
        assert!(anew.created && !server.folder().join("made/acme/one/src").exists());
        server.stop().await;
    });
}

#[test]
fn what_may_not_be_created_is_refused_in_words() {
    test(async {
        let mut server = service_with(&format!("{CONFIG}[limits]\nmax_workspaces = 2\n")).await;
        symlink("/etc/passwd", server.folder().join("templates/empty/out")).unwrap();
        let git = |url: &str| {
            Source::Git(GitSource {
                url: url.to_owned(),
                reference: String::new(),
            })
        };
        refused(
            create(&server, "a", template("none")).await,
            Code::NotFound,
            "TEMPLATE_MISSING",
        );
        for bad in ["../web", "", ".", "web/src"] {
            refused(
                create(&server, "a", template(bad)).await,
                Code::NotFound,
                "TEMPLATE_MISSING",
            );
        }
        for url in ["http://git.example/a", "ext::sh", "https://u:p@git.example/a"] {
            let refusal = create(&server, "a", git(url)).await;
            refused(refusal, Code::InvalidArgument, "INVALID_FIELD");
        }
        for name in ["a//b", "+making", ".."] {
            let refusal = create(&server, name, template("web")).await;
            refused(refusal, Code::InvalidArgument, "INVALID_FIELD");
        }
        // What cannot be made is there with its problem, and can be tried again or deleted.
        let bad = create(&server, "bad", template("empty"))
            .await
            .unwrap()
            .workspace
            .unwrap();
        assert_eq!(bad.state(), WorkspaceState::Failed);
        assert!(bad.problem.contains("leads out of the template"), "{bad:?}");
        refused(
            call(&server, "bad", bash("true")).await,
            Code::FailedPrecondition,
            "WORKSPACE_BROKEN",
        );
        refused(
            suspend(&server, "bad").await,
            Code::FailedPrecondition,
            "WORKSPACE_BROKEN",
        );
        refused(
            create(&server, "more", template("web")).await,
            Code::ResourceExhausted,
            "TOO_MANY_WORKSPACES",
        );
        // A server of a network of its own is not reached.
        delete(&server, "bad").await.unwrap();
        let private = create(&server, "bad", git("https://127.0.0.1:8443/a.git"))
            .await
            .unwrap();
        let private = private.workspace.unwrap();
        assert_eq!(private.state(), WorkspaceState::Failed);
        assert!(private.problem.contains("network.allow"), "{private:?}");
        delete(&server, "bad").await.unwrap();
        fs::remove_file(server.folder().join("templates/empty/out")).unwrap();
        let mended = create(&server, "bad", template("empty")).await.unwrap();
        assert_eq!(mended.workspace.unwrap().state(), WorkspaceState::Ready);
        for name in ["default", "none"] {
            let (code, reason) = match name {
                "default" => (Code::FailedPrecondition, "WORKSPACE_NOT_CREATED"),
                _ => (Code::NotFound, "NOT_FOUND"),
            };
            refused(suspend(&server, name).await, code, reason);
            refused(resume(&server, name).await, code, reason);
            refused(delete(&server, name).await, code, reason);
        }
        server.stop().await;
        let mut fixed = Server::start().await;
        let refusal = create(&fixed, "a", template("web")).await;
        refused(refusal, Code::FailedPrecondition, "WORKSPACES_FIXED");
        fixed.stop().await;
    });
}

#[test]
fn one_that_is_suspended_keeps_what_waits_and_is_resumed_by_calls() {
    test(async {
        let mut setup = setup_with(CONFIG);
        setup.config = Some(json!({"permission": {"bash": {"*": "allow", "make *": "ask"}}}));
        let mut server = Server::with(setup).await;
        create(&server, "one", template("web")).await.unwrap();
        let begin = async |server: &Server, id: &str, command: &str| {
            let request = within("one", kept(id, bash(command)));
            server.tools().execute_tool(request).await.unwrap().into_inner()
        };
        let mut running = begin(&server, "runs", "echo begun; sleep 86330").await;
        next_such(&mut running, is_output).await;
        let mut asks = begin(&server, "asks", "make it || echo made").await;
        let prompt = waiting(&mut asks).await;
        let suspended = suspend(&server, "one").await.unwrap();
        assert_eq!((suspended.cancelled_calls, suspended.waiting_calls), (1, 1));
        assert_eq!(suspended.workspace.unwrap().state(), WorkspaceState::Suspended);
        assert_eq!(processes("86330"), Vec::<u32>::new());
        assert_eq!(suspend(&server, "one").await.unwrap().waiting_calls, 0);
        assert_eq!(failed(&server.get("runs").await).reason(), FailureReason::Cancelled);
        assert_eq!(server.get("asks").await.state(), CallState::Waiting);
        // Its stream has ended, and who comes back to the call waits on.
        let broken = async {
            while asks.message().await?.is_some() {}
            Ok::<(), Status>(())
        };
        refused(broken.await, Code::Unavailable, "WORKSPACE_NOT_READY");
        let mut again = begin(&server, "asks", "make it || echo made").await;
        assert_eq!(waiting(&mut again).await.prompt_id, prompt.prompt_id);
        assert_eq!(state(&server, "one").await, WorkspaceState::Suspended);
        assert_eq!(names(&server, 0).await, ["default", "one"]);

        // A restart changes nothing of that.
        server.kill9().await;
        server.restart().await;
        assert_eq!(state(&server, "one").await, WorkspaceState::Suspended);
        assert_eq!(server.get("asks").await.state(), CallState::Waiting);

        // The reply resumes it, and the call goes on.
        let request = ReplyPromptRequest {
            name: "p".to_owned(),
            reply: Some(reply(&prompt, PromptDecision::Once)),
        };
        server.permissions().reply_prompt(request).await.unwrap();
        eventually("the call that waited goes on to its end", async || {
            server.get("asks").await.state() == CallState::Completed
        })
        .await;
        assert!(completed(&server.get("asks").await).output.contains("made"));
        assert_eq!(state(&server, "one").await, WorkspaceState::Ready);

        // So does a call, and a look at its files.
        suspend(&server, "one").await.unwrap();
        let told = call(&server, "one", bash("cat src/main")).await.unwrap();
        assert_eq!(completed(&told).output, "hello\n");
        suspend(&server, "one").await.unwrap();
        let tools = ListToolsRequest {
            workspace: "one".to_owned(),
            ..Default::default()
        };
        assert!(
            !server
                .tools()
                .list_tools(tools)
                .await
                .unwrap()
                .into_inner()
                .tools
                .is_empty()
        );

        // What waits can be cancelled there.
        let mut asks = begin(&server, "asks-no-more", "make nothing").await;
        waiting(&mut asks).await;
        suspend(&server, "one").await.unwrap();
        let cancelled = server.cancel("asks-no-more").await;
        assert_eq!(failed(&cancelled).reason(), FailureReason::Cancelled);
        assert_eq!(state(&server, "one").await, WorkspaceState::Suspended);

        // What waits in one that is deleted ends.
        let mut asks = begin(&server, "asks-too", "make that").await;
        let prompt = waiting(&mut asks).await;
        suspend(&server, "one").await.unwrap();
        assert_eq!(delete(&server, "one").await.unwrap().cancelled_calls, 1);
        assert_eq!(failed(&server.get("asks-too").await).reason(), FailureReason::Cancelled);
        let request = GetPromptRequest {
            prompt_id: prompt.prompt_id,
        };
        let prompt = server.permissions().get_prompt(request).await.unwrap().into_inner();
        assert_eq!(prompt.prompt.unwrap().state(), PromptState::Withdrawn);
        server.stop().await;
    });
}

#[test]
fn where_calls_do_not_resume_it_a_request_does() {
    test(async {
        let mut server = service_with(&format!("{CONFIG}resume = \"requests\"\n")).await;
        create(&server, "one", template("web")).await.unwrap();
        suspend(&server, "one").await.unwrap();
        let refusal = call(&server, "one", bash("true")).await;
        refused(refusal, Code::FailedPrecondition, "WORKSPACE_SUSPENDED");
        assert_eq!(resume(&server, "one").await.unwrap().state(), WorkspaceState::Ready);
        completed(&call(&server, "one", bash("true")).await.unwrap());
        // One whose folder is gone says so, until it is back.
        suspend(&server, "one").await.unwrap();
        let (made, away) = (server.folder().join("made/one"), server.folder().join("away"));
        fs::rename(&made, &away).unwrap();
        let refusal = resume(&server, "one").await;
        refused(refusal, Code::FailedPrecondition, "WORKSPACE_BROKEN");
        fs::rename(&away, &made).unwrap();
        assert_eq!(resume(&server, "one").await.unwrap().state(), WorkspaceState::Ready);
        server.stop().await;
    });
}

/// Serves the files of a folder over TLS at this machine, by a certificate in `authority`; what lies in `slow` never comes.
async fn serve(folder: PathBuf, authority: &Path) -> Site {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(authority, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Site::with(move |stream: TcpStream| {
        let (acceptor, folder) = (acceptor.clone(), folder.clone());
        async move {
            let mut stream = acceptor.accept(stream).await?;
            let head = request_head(&mut stream).await?;
            let path = head.split(' ').nth(1).unwrap_or_default();
            let path = path.split('?').next().unwrap_or_default();
            if path.starts_with("/slow") {
                return std::future::pending().await;
            }
            let (status, content) = match fs::read(folder.join(path.trim_start_matches('/'))) {
                Ok(content) => ("200 OK", content),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let length = content.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&content).await?;
            stream.shutdown().await
        }
    })
    .await
}

fn run_git(folder: &Path, arguments: &[&str]) {
    let status = std::process::Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .unwrap();
    assert!(status.success(), "{arguments:?}");
}

/// Makes a repository that is served as files, and archives.
fn fill(site: &Path) {
    let source = site.join("source");
    fs::create_dir_all(source.join(".opencode")).unwrap();
    fs::write(source.join("file"), "from git\n").unwrap();
    fs::write(source.join(".opencode/opencode.json"), "{}").unwrap();
    run_git(&source, &["init", "--quiet", "--initial-branch=main"]);
    run_git(&source, &["add", "."]);
    run_git(&source, &["commit", "--quiet", "-m", "one"]);
    run_git(&source, &["tag", "v1"]);
    fs::write(source.join("file"), "later\n").unwrap();
    run_git(&source, &["commit", "--quiet", "-a", "-m", "two"]);
    run_git(site, &["clone", "--quiet", "--bare", "source", "a.git"]);
    run_git(&site.join("a.git"), &["update-server-info"]);
    fs::create_dir(site.join("inner")).unwrap();
    fs::copy(source.join("file"), site.join("inner/file")).unwrap();
    let packed = std::process::Command::new("tar")
        .args(["-czf", "a.tar.gz", "inner"])
        .current_dir(site)
        .status();
    assert!(packed.unwrap().success());
    fs::write(site.join("bad.tar.gz"), "no archive").unwrap();
}

#[test]
fn one_is_created_from_a_repository_and_from_an_archive() {
    test(async {
        let site_folder = tempfile::tempdir().unwrap();
        let authority = site_folder.path().join("authority.pem");
        fill(site_folder.path());
        let site = serve(site_folder.path().to_path_buf(), &authority).await;
        let config = format!(
            "{CONFIG}timeout = \"20s\"\n[network]\nallow = [\"localhost:{}\"]\n",
            site.port
        );
        let setup = setup_with(&config).env("SSL_CERT_FILE", &authority.display().to_string());
        let mut server = Server::with(setup).await;
        let url = |path: &str| format!("https://localhost:{}/{path}", site.port);
        let git = |path: &str, reference: &str| {
            Source::Git(GitSource {
                url: url(path),
                reference: reference.to_owned(),
            })
        };
        let archive = |path: &str| Source::Archive(ArchiveSource { url: url(path) });
        let made = async |name: &str, source: Source| {
            let made = create(&server, name, source).await.unwrap().workspace.unwrap();
            (made.state(), made.problem)
        };
        let ready = (WorkspaceState::Ready, String::new());
        assert_eq!(made("git", git("a.git", "")).await, ready);
        let read = |name: &str| fs::read_to_string(server.folder().join("made").join(name)).unwrap();
        assert_eq!(read("git/file"), "later\n");
        assert!(!server.folder().join("made/git/.git/hooks").exists());
        assert_eq!(made("tag", git("a.git", "v1")).await, ready);
        assert_eq!(read("tag/file"), "from git\n");
        assert_eq!(made("archive", archive("a.tar.gz")).await, ready);
        assert_eq!(read("archive/inner/file"), "later\n");
        // The same by another signature is the same, and no signature is shown.
        assert_eq!(made("signed", archive("a.tar.gz?signature=1")).await, ready);
        let again = create(&server, "signed", archive("a.tar.gz?signature=2"))
            .await
            .unwrap();
        let shown = again.workspace.unwrap().source.unwrap().source;
        assert_eq!((again.created, shown), (false, Some(archive("a.tar.gz"))));
        let kept = fs::read_to_string(server.folder().join("data/created_workspaces.json")).unwrap();
        assert!(!kept.contains("signature"), "{kept}");

        let (state, problem) = made("none", git("none.git", "")).await;
        assert!(
            state == WorkspaceState::Failed && problem.contains("git could not clone"),
            "{problem}"
        );
        let (state, problem) = made("no-tag", git("a.git", "v2")).await;
        assert!(state == WorkspaceState::Failed && problem.contains("v2"), "{problem}");
        let (state, problem) = made("bad", archive("bad.tar.gz")).await;
        assert!(
            state == WorkspaceState::Failed && problem.contains("cannot be used"),
            "{problem}"
        );
        // Nothing is left of what failed.
        let making = server.folder().join("made/+making");
        assert_eq!(fs::read_dir(&making).unwrap().count(), 0);

        // While one is being made it can be seen, and deleted.
        let slow = git("slow/a.git", "");
        let begun = create_and_wait(&server, "slow", slow.clone(), Duration::ZERO)
            .await
            .unwrap();
        assert_eq!(begun.workspace.unwrap().state(), WorkspaceState::Creating);
        refused(suspend(&server, "slow").await, Code::Unavailable, "WORKSPACE_NOT_READY");
        eventually("git runs", async || !processes("slow/a.git").is_empty()).await;
        delete(&server, "slow").await.unwrap();
        eventually("git is gone", async || processes("slow/a.git").is_empty()).await;
        refused(get(&server, "slow").await, Code::NotFound, "NOT_FOUND");

        // The next run of the service goes on with it.
        create_and_wait(&server, "slow", slow, Duration::ZERO).await.unwrap();
        eventually("git runs", async || !processes("slow/a.git").is_empty()).await;
        server.kill9().await;
        server.restart().await;
        assert!(matches!(
            state_of(&server, "slow").await,
            WorkspaceState::Creating | WorkspaceState::Failed
        ));
        assert_eq!(state_of(&server, "git").await, WorkspaceState::Ready);
        delete(&server, "slow").await.unwrap();
        assert_eq!(fs::read_dir(&making).unwrap().count(), 0);
        server.stop().await;
    });
}

async fn state_of(server: &Server, name: &str) -> WorkspaceState {
    state(server, name).await
}

#[test]
fn commands_create_suspend_resume_and_delete() {
    test(async {
        let mut server = service_with(CONFIG).await;
        let check = async |arguments: &[&str], expected: i32, part: &str| {
            let (code, out, err) = server.cli(&[&["workspaces"], arguments].concat()).await;
            assert!(
                code == expected && format!("{out}{err}").contains(part),
                "{arguments:?}: {out}{err}"
            );
        };
        check(&["create", "one", "--template", "web", "--wait"], 0, "created one at").await;
        check(&["create", "one", "--template", "web"], 0, "there already: one").await;
        check(&["create", "two", "--template", "none"], 8, "there is no template").await;
        check(&["list"], 0, "others can be created from empty, web").await;
        check(&["suspend", "one"], 0, "suspended one; cancelled 0 calls").await;
        check(&["list"], 0, "suspended").await;
        check(&["resume", "one"], 0, "resumed one; ok").await;
        check(&["close", "one"], 9, "delete it").await;
        check(&["delete", "one"], 0, "deleted one with its files").await;
        assert!(!server.folder().join("made/one").exists());
        server.stop().await;
    });
}
