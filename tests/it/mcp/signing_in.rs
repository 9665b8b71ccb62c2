//! `toolgate mcp login`: a person logs in at a server while the service runs, and it works.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use reqwest::Url;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::web::{self, Reply, Request, Web};
use super::*;

/// A server, and who guards it, in one place.
#[derive(Clone, Default)]
struct Guarded {
    /// What each token is good for, the last one being the newest.
    given: Arc<Mutex<Vec<String>>>,
    /// What the next token is good for.
    scope: Arc<Mutex<String>>,
    /// Whether clients may register.
    is_closed: bool,
    /// What the guard says of itself in the place of what is true.
    lies: Arc<Mutex<serde_json::Map<String, Value>>>,
}

impl Guarded {
    async fn start(&self) -> Web {
        let guarded = self.clone();
        Web::start(move |request| guarded.answer(request)).await
    }

    fn answer(&self, request: &Request) -> Reply {
        let base = format!("http://{}", request.header("host"));
        match request.path.as_str() {
            "/.well-known/oauth-protected-resource/mcp" => Reply::json(&json!({
                "resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["basic", "more"],
            })),
            "/.well-known/oauth-authorization-server" => {
                let mut about = json!({
                    "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
                    "token_endpoint": format!("{base}/tokens"), "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"], "scopes_supported": ["basic", "write"],
                    "token_endpoint_auth_methods_supported": ["none"],
                });
                if !self.is_closed {
                    about["registration_endpoint"] = json!(format!("{base}/register"));
                }
                for (key, lie) in self.lies.lock().unwrap().iter() {
                    about[key] = lie.clone();
                }
                Reply::json(&about)
            }
            "/register" => {
                let mut client = request.message();
                client["client_id"] = json!("client-1");
                Reply::json(&client)
            }
            "/tokens" => self.grant(request),
            "/mcp" => self.serve(request, &base),
            _ => Reply::status(404),
        }
    }

    fn grant(&self, request: &Request) -> Reply {
        let is_good = request.field("grant_type").as_deref() == Some("authorization_code")
            && request.field("code").as_deref() == Some("code-1")
            && request.field("client_id").as_deref() == Some("client-1")
            && request
                .field("code_verifier")
                .is_some_and(|verifier| verifier.len() >= 43);
        if !is_good {
            return Reply::status(400).text("application/json", r#"{"error": "invalid_grant"}"#);
        }
        let mut given = self.given.lock().unwrap();
        let scope = self.scope.lock().unwrap().clone();
        given.push(scope.clone());
        let number = given.len();
        Reply::json(&json!({
            "access_token": format!("token-{number}"), "refresh_token": format!("refresh-{number}"),
            "token_type": "Bearer", "expires_in": 3600, "scope": scope,
        }))
    }

    fn serve(&self, request: &Request, base: &str) -> Reply {
        let token = request.header("authorization").strip_prefix("Bearer token-");
        let number = token.and_then(|number| number.parse::<usize>().ok());
        let given = self.given.lock().unwrap();
        let place = format!("resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
        let Some(scope) = number.and_then(|number| given.get(number - 1)) else {
            return Reply::status(401).header("www-authenticate", format!("Bearer {place}, scope=\"basic\""));
        };
        if request.message()["method"] == "tools/call" && !scope.contains("write") {
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"write\", {place}");
            return Reply::status(403).header("www-authenticate", challenge);
        }
        web::mcp(request, web::fine)
    }
}

/// The command while it waits for the browser.
struct LoggingIn {
    child: tokio::process::Child,
    page: Url,
}

impl LoggingIn {
    async fn start(server: &Server, name: &str) -> Self {
        let mut child = server.command(&["mcp", "login", name]).spawn().unwrap();
        let line = BufReader::new(child.stdout.as_mut().unwrap())
            .lines()
            .next_line()
            .await
            .unwrap();
        let Some(line) = line else {
            panic!("no page: {:?}", child.wait_with_output().await.unwrap());
        };
        Self {
            child,
            page: line.parse().unwrap(),
        }
    }

    fn asked(&self, name: &str) -> String {
        let found = self.page.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned()).unwrap_or_default()
    }

    /// Comes back as the browser does, and returns the first line of the answer.
    async fn come_back(&self, query: &[(&str, &str)]) -> String {
        let mut back: Url = self.asked("redirect_uri").parse().unwrap();
        back.query_pairs_mut().extend_pairs(query);
        let address = (back.host_str().unwrap().to_owned(), back.port().unwrap());
        let mut stream = TcpStream::connect(address).await.unwrap();
        let target = format!("{}?{}", back.path(), back.query().unwrap());
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// Waits for the end: the exit code and standard error.
    async fn ended(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// The person agrees.
    async fn agree(self) -> String {
        let state = self.asked("state");
        let answer = self.come_back(&[("code", "code-1"), ("state", &state)]).await;
        assert!(answer.contains("200"), "{answer}");
        let (code, told) = self.ended().await;
        assert_eq!(code, Some(0), "{told}");
        told
    }
}

fn own_file(server: &Server) -> PathBuf {
    server
        .folder()
        .join("home/.local/share/toolgate/mcp-logins/logins.json")
}

fn kept(server: &Server) -> Value {
    serde_json::from_str(&fs::read_to_string(own_file(server)).unwrap_or_default()).unwrap_or_default()
}

#[test]
fn a_person_logs_in_while_the_service_runs() {
    test(async {
        let guarded = Guarded::default();
        *guarded.scope.lock().unwrap() = "basic".to_owned();
        let web = guarded.start().await;
        let url = web.url("/mcp");
        let server = service(&[("s", json!({"type": "remote", "url": url}))]).await;
        eventually("it wants a login", async || {
            source(&server, "s").await.0 == ToolSourceState::NeedsAuth
        })
        .await;
        let problem = source(&server, "s").await.1;
        assert!(problem.contains("toolgate mcp login s"), "{problem}");

        let login = LoggingIn::start(&server, "s").await;
        assert_eq!(login.page.path(), "/authorize");
        assert_eq!(login.asked("client_id"), "client-1");
        assert_eq!(login.asked("scope"), "basic");
        assert_eq!(login.asked("resource"), url);
        assert_eq!(login.asked("code_challenge_method"), "S256");
        let back = login.asked("redirect_uri");
        assert!(back.starts_with("http://127.0.0.1:"), "{back}");
        // Whatever a page of somebody else sends here is not the answer.
        let forged = login.come_back(&[("code", "code-2"), ("state", "other")]).await;
        assert!(forged.contains("404"), "{forged}");
        let told = login.agree().await;
        assert!(told.contains("logged in at s, which has 1 tool"), "{told}");
        assert!(told.contains("asks for these scopes: basic\n"), "{told}");
        assert!(!told.contains("token-1") && !told.contains("code-1"), "{told}");
        ready(&server, "s").await;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = own_file(&server);
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        let entry = &kept(&server)[format!("s {url}")];
        assert_eq!(entry["tokens"]["accessToken"], "token-1");
        assert_eq!(entry["issuer"], web.url(""));

        // What it lacks is told, and the next one has it.
        let call = server.run("s_work", json!({})).await;
        let error = &failed(&call).error;
        assert!(
            error.contains("write") && error.contains("toolgate mcp login s"),
            "{error}"
        );
        let login = LoggingIn::start(&server, "s").await;
        assert_eq!(login.asked("scope"), "basic write");
        *guarded.scope.lock().unwrap() = "basic write".to_owned();
        login.agree().await;
        assert_eq!(completed(&server.run("s_work", json!({})).await).output, "fine");

        let log = server.log();
        for secret in ["token-1", "token-2", "refresh-", "code-1"] {
            assert!(!log.contains(secret), "{log}");
        }
        let (code, _, told) = server.cli(&["mcp", "logout", "s"]).await;
        assert_eq!(code, 0, "{told}");
        assert_eq!(kept(&server), json!({}));
    });
}

#[test]
fn a_login_that_cannot_be_had_says_why() {
    test(async {
        let guarded = Guarded {
            is_closed: true,
            ..Guarded::default()
        };
        let web = guarded.start().await;
        let other = Web::start(|_| Reply::status(404)).await;
        let server = service(&[
            ("s", json!({"type": "remote", "url": web.url("/mcp")})),
            (
                "known",
                json!({"type": "remote", "url": web.url("/mcp"), "oauth": {"clientId": "client-1"}}),
            ),
            ("gone", json!({"type": "remote", "url": other.url("/mcp")})),
            ("off", json!({"type": "remote", "url": web.url("/mcp"), "oauth": false})),
            ("program", faulty_server("good")),
        ])
        .await;
        let check = async |name: &str, code: i32, words: &str| {
            let (found, out, told) = server.cli(&["mcp", "login", name]).await;
            assert_eq!((found, out.as_str()), (code, ""), "{name}: {told}");
            assert!(told.contains(words), "{name}: {told}");
        };
        check("s", 1, "oauth.clientId").await;
        check("gone", 1, "HTTP 404").await;
        check("off", 2, "no login is used").await;
        check("program", 2, "needs no login").await;
        check("nobody", 2, "there are: s, known").await;

        // Refused by the person.
        let login = LoggingIn::start(&server, "known").await;
        let state = login.asked("state");
        login.come_back(&[("error", "access_denied"), ("state", &state)]).await;
        let (code, told) = login.ended().await;
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("access_denied"), "{told}");
        assert!(!own_file(&server).exists());
    });
}

#[test]
fn nobody_is_sent_to_where_a_login_could_be_read() {
    test(async {
        // What is on this machine, but not where the server is, is as far away as any place without TLS.
        let thief = Web::at("127.0.0.2:0", |_| Reply::json(&json!({"client_id": "client-1"}))).await;
        let guarded = Guarded::default();
        let web = guarded.start().await;
        let server = service(&[("s", json!({"type": "remote", "url": web.url("/mcp")}))]).await;
        for key in ["authorization_endpoint", "registration_endpoint"] {
            let lie = [(key.to_owned(), json!(thief.url("/taken")))];
            *guarded.lies.lock().unwrap() = lie.into_iter().collect();
            let (code, out, told) = server.cli(&["mcp", "login", "s"]).await;
            assert_eq!((code, out.as_str()), (1, ""), "{key}: {told}");
        }
        let lie = [("token_endpoint".to_owned(), json!(thief.url("/taken")))];
        *guarded.lies.lock().unwrap() = lie.into_iter().collect();
        let login = LoggingIn::start(&server, "s").await;
        let state = login.asked("state");
        login.come_back(&[("code", "code-1"), ("state", &state)]).await;
        let (code, told) = login.ended().await;
        assert_eq!(code, Some(1), "{told}");
        assert!(thief.seen("/taken").is_empty());
        assert!(!own_file(&server).exists());
    });
}

#[test]
fn no_more_is_asked_for_than_a_person_can_read() {
    test(async {
        let guarded = Guarded::default();
        let web = guarded.start().await;
        let many: Vec<String> = (0..1000).map(|at| format!("scope-{at}")).collect();
        let entry = json!({"type": "remote", "url": web.url("/mcp"), "oauth": {"scope": many.join(" ")}});
        let server = service(&[("s", entry)]).await;
        let login = LoggingIn::start(&server, "s").await;
        let asked = login.asked("scope");
        assert_eq!(asked.split(' ').count(), 128);
        let told = login.agree().await;
        assert!(told.contains(&format!("asks for these scopes: {asked}\n")), "{told}");
    });
}

/// Starts a service that has a login at a server, whose time is over.
async fn with_login_over(web: &Web, issuer: &str) -> Server {
    let url = web.url("/mcp");
    let mut server = service(&[("s", json!({"type": "remote", "url": url}))]).await;
    server.stop().await;
    let entry = json!({
        "serverUrl": url, "issuer": issuer, "clientInfo": {"clientId": "client-1"},
        "tokens": {"accessToken": "token-1", "refreshToken": "refresh-1", "expiresAt": 1},
    });
    let file = own_file(&server);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, json!({ format!("s {url}"): entry }).to_string()).unwrap();
    server.restart().await;
    server
}

#[test]
fn who_gave_a_login_is_found_behind_others_and_where_nobody_is_named() {
    test(async {
        for is_named in [true, false] {
            let web = Web::start(move |request| {
                let base = format!("http://{}", request.header("host"));
                match request.path.as_str() {
                    "/.well-known/oauth-protected-resource/mcp" if is_named => Reply::json(&json!({
                        "resource": format!("{base}/mcp"),
                        "authorization_servers": [format!("{base}/away"), format!("{base}/mcp")],
                    })),
                    "/.well-known/oauth-authorization-server/mcp" => Reply::json(&json!({
                        "issuer": format!("{base}/mcp"), "token_endpoint": format!("{base}/tokens"),
                    })),
                    "/tokens" if request.field("refresh_token").as_deref() == Some("refresh-1") => {
                        Reply::json(&json!({
                            "access_token": "token-2", "token_type": "Bearer", "expires_in": 3600,
                        }))
                    }
                    "/mcp" if request.header("authorization") == "Bearer token-2" => web::mcp(request, web::fine),
                    "/mcp" => Reply::status(401),
                    _ => Reply::status(404),
                }
            })
            .await;
            let server = with_login_over(&web, &web.url("/mcp")).await;
            ready(&server, "s").await;
            assert_eq!(web.seen("/tokens").len(), 1, "named: {is_named}");
            server.assert_calm();
        }
    });
}

#[test]
fn a_refresh_token_goes_back_to_who_gave_it_and_nobody_else() {
    test(async {
        let web = Guarded::default().start().await;
        let server = with_login_over(&web, "https://elsewhere.example").await;
        eventually("it wants a login", async || {
            source(&server, "s").await.0 == ToolSourceState::NeedsAuth
        })
        .await;
        assert!(web.seen("/tokens").is_empty());
    });
}
