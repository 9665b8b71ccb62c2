//! Servers that want a login: said so, used where OpenCode keeps it, renewed when its time is over.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::web::{self, Reply, Request, Web};
use super::*;

const CHALLENGE: &str = "Bearer error=\"invalid_token\"";

/// Who gives out tokens for a server, in the same place.
#[derive(Clone)]
struct Issuer {
    /// The token that the server takes.
    good: Arc<Mutex<String>>,
    /// The refresh token that is good for a new one.
    refresh: Arc<Mutex<String>>,
    /// What is said of it.
    about: fn(address: &str) -> Value,
    /// Whether nothing is said of it at the moment.
    is_away: Arc<AtomicBool>,
}

impl Issuer {
    fn new(about: fn(&str) -> Value) -> Self {
        Self {
            good: Arc::new(Mutex::new("token-1".to_owned())),
            refresh: Arc::new(Mutex::new("refresh-1".to_owned())),
            about,
            is_away: Arc::default(),
        }
    }

    async fn start(&self) -> Web {
        let issuer = self.clone();
        Web::start(move |request| issuer.answer(request)).await
    }

    fn answer(&self, request: &Request) -> Reply {
        let base = format!("http://{}", request.header("host"));
        match request.path.as_str() {
            path if path.starts_with("/.well-known/") && self.is_away.load(Ordering::Relaxed) => Reply::status(503),
            "/.well-known/oauth-protected-resource/mcp" => Reply::json(&json!({
                "resource": format!("{base}/mcp"), "authorization_servers": [format!("{base}/guard")],
            })),
            "/.well-known/oauth-authorization-server/guard" => Reply::json(&(self.about)(&base)),
            "/tokens" => self.grant(request),
            "/mcp" => {
                let good = format!("Bearer {}", self.good.lock().unwrap());
                if request.header("authorization") == good {
                    web::mcp(request, web::fine)
                } else {
                    Reply::status(401).header("www-authenticate", CHALLENGE)
                }
            }
            _ => Reply::status(404),
        }
    }

    fn grant(&self, request: &Request) -> Reply {
        let mut refresh = self.refresh.lock().unwrap();
        let is_good = request.field("grant_type").as_deref() == Some("refresh_token")
            && request.field("refresh_token").as_ref() == Some(&*refresh)
            && request.field("client_id").as_deref() == Some("client-1");
        if !is_good {
            let error = json!({"error": "invalid_grant", "error_description": "refresh-1 is no good"});
            return Reply::status(400).text("application/json", error.to_string());
        }
        let next = |text: &str| format!("{}-{}", text.split('-').next().unwrap(), number(text) + 1);
        let mut good = self.good.lock().unwrap();
        *good = next(&good);
        *refresh = next(&refresh);
        Reply::json(&json!({
            "access_token": *good, "refresh_token": *refresh, "token_type": "Bearer", "expires_in": 3600,
        }))
    }
}

fn number(text: &str) -> u32 {
    text.split('-').nth(1).unwrap().parse().unwrap()
}

fn open(base: &str) -> Value {
    json!({"issuer": format!("{base}/guard"), "token_endpoint": format!("{base}/tokens"),
           "registration_endpoint": format!("{base}/register")})
}

fn closed(base: &str) -> Value {
    json!({"issuer": format!("{base}/guard"), "token_endpoint": format!("{base}/tokens")})
}

fn seconds_from_now(seconds: f64) -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() + seconds
}

fn stored(url: &str, expires: f64) -> Value {
    json!({
        "serverUrl": url, "clientInfo": {"clientId": "client-1"},
        "tokens": {"accessToken": "token-1", "refreshToken": "refresh-1", "expiresAt": expires, "scope": "a"},
    })
}

fn file_of(server: &Server) -> PathBuf {
    server.folder().join("home/.local/share/opencode/mcp-auth.json")
}

/// A service with these servers that finds these logins.
async fn with_logins(servers: &[(&str, Value)], logins: &Value) -> Server {
    let mut server = service(servers).await;
    server.stop().await;
    let file = file_of(&server);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, logins.to_string()).unwrap();
    server.restart().await;
    server
}

async fn is_in_state(server: &Server, name: &str, state: ToolSourceState) {
    eventually(name, async || source(server, name).await.0 == state).await;
}

fn has_no_secrets(server: &Server) {
    let log = server.log();
    assert!(!log.contains("token-") && !log.contains("refresh-"), "{log}");
}

#[test]
fn a_server_that_wants_a_login_says_so() {
    test(async {
        for challenge in [Some(CHALLENGE), None] {
            let web = Web::start(move |request| {
                let refused = Reply::status(401);
                match (request.header("authorization"), challenge) {
                    ("Bearer good", _) => web::mcp(request, web::fine),
                    (_, Some(challenge)) => refused.header("www-authenticate", challenge),
                    (_, None) => refused,
                }
            })
            .await;
            let url = web.url("/mcp");
            let with = |token: &str| json!({"type": "remote", "url": url, "headers": {"Authorization": format!("Bearer {token}")}});
            let server = service(&[
                ("without", json!({"type": "remote", "url": url})),
                ("wrong", with("bad")),
                ("right", with("good")),
            ])
            .await;
            ready(&server, "right").await;
            assert_eq!(completed(&server.run("right_work", json!({})).await).output, "fine");
            for name in ["without", "wrong"] {
                is_in_state(&server, name, ToolSourceState::NeedsAuth).await;
                assert!(
                    source(&server, name)
                        .await
                        .1
                        .contains(&format!("toolgate mcp login {name}"))
                );
            }
        }
    });
}

#[test]
fn a_login_that_is_over_is_renewed_and_kept() {
    test(async {
        let issuer = Issuer::new(open);
        *issuer.good.lock().unwrap() = "token-1-is-over".to_owned();
        let web = issuer.start().await;
        let url = web.url("/mcp");
        let entry = json!({"type": "remote", "url": url});
        let mut off = entry.clone();
        off["oauth"] = json!(false);
        let logins = json!({
            "s": stored(&url, seconds_from_now(-60.0)), "off": stored(&url, seconds_from_now(-60.0)),
            "elsewhere": {"serverUrl": "https://example.com"},
        });
        let server = with_logins(&[("s", entry), ("off", off)], &logins).await;
        ready(&server, "s").await;
        assert_eq!(completed(&server.run("s_work", json!({})).await).output, "fine");
        is_in_state(&server, "off", ToolSourceState::NeedsAuth).await;

        let asked = web.seen("/tokens");
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0].field("resource"), Some(url.clone()));
        let kept: Value = serde_json::from_str(&fs::read_to_string(file_of(&server)).unwrap()).unwrap();
        let tokens = &kept["s"]["tokens"];
        assert_eq!(tokens["accessToken"], "token-2");
        assert_eq!(tokens["refreshToken"], "refresh-2");
        assert_eq!(tokens["scope"], "a");
        let expires = tokens["expiresAt"].as_f64().unwrap();
        assert!(
            (seconds_from_now(3500.0)..seconds_from_now(3700.0)).contains(&expires),
            "{kept}"
        );
        assert_eq!(kept["off"], logins["off"]);
        assert_eq!(kept["elsewhere"], logins["elsewhere"]);
        let mode = fs::metadata(file_of(&server)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        has_no_secrets(&server);
        server.assert_calm();
    });
}

#[test]
fn a_login_is_not_over_because_it_cannot_be_asked_who_renews_it() {
    test(async {
        let issuer = Issuer::new(open);
        issuer.is_away.store(true, Ordering::Relaxed);
        let web = issuer.start().await;
        let url = web.url("/mcp");
        let logins = json!({ "s": stored(&url, seconds_from_now(-60.0)) });
        let server = with_logins(&[("s", json!({"type": "remote", "url": url}))], &logins).await;
        is_in_state(&server, "s", ToolSourceState::Failed).await;
        let (_, problem) = source(&server, "s").await;
        assert!(problem.contains("cannot be had at the moment"), "{problem}");
        assert!(web.seen("/token").is_empty() && web.seen("/tokens").is_empty());
        issuer.is_away.store(false, Ordering::Relaxed);
        ready(&server, "s").await;
        assert_eq!(completed(&server.run("s_work", json!({})).await).output, "fine");
    });
}

#[test]
fn a_token_that_is_refused_is_renewed_once_for_all_calls() {
    test(async {
        let issuer = Issuer::new(open);
        let web = issuer.start().await;
        let url = web.url("/mcp");
        let logins = json!({ "s": stored(&url, seconds_from_now(3600.0)) });
        let server = with_logins(&[("s", json!({"type": "remote", "url": url}))], &logins).await;
        ready(&server, "s").await;
        assert_eq!(completed(&server.run("s_work", json!({})).await).output, "fine");
        assert_eq!(web.seen("/tokens").len(), 0);
        // The server forgets the token; the connection and its calls go on with another one.
        *issuer.good.lock().unwrap() = "token-5".to_owned();
        let calls = (0..5).map(|_| server.run("s_work", json!({})));
        for call in futures_util::future::join_all(calls).await {
            assert_eq!(completed(&call).output, "fine");
        }
        assert_eq!(web.seen("/tokens").len(), 1);
        assert_eq!(source(&server, "s").await.0, ToolSourceState::Ready);

        // Nobody renews any more: somebody has to log in, and when he has, it works again.
        *issuer.good.lock().unwrap() = "token-9".to_owned();
        *issuer.refresh.lock().unwrap() = "refresh-9".to_owned();
        let call = server.run("s_work", json!({})).await;
        assert!(failed(&call).error.contains("wants a login"), "{call:?}");
        is_in_state(&server, "s", ToolSourceState::NeedsAuth).await;
        let asked = web.seen("/tokens").len();
        let mut login = stored(&url, seconds_from_now(3600.0));
        login["tokens"]["accessToken"] = json!("token-9");
        fs::write(file_of(&server), json!({ "s": login }).to_string()).unwrap();
        ready(&server, "s").await;
        assert_eq!(completed(&server.run("s_work", json!({})).await).output, "fine");
        assert_eq!(
            (asked, web.seen("/tokens").len()),
            (2, 2),
            "a dead refresh token is tried once"
        );
        has_no_secrets(&server);
    });
}

#[test]
fn a_client_that_nobody_registers_is_said_to_be_missing() {
    test(async {
        let issuer = Issuer::new(closed);
        let web = issuer.start().await;
        let entry = json!({"type": "remote", "url": web.url("/mcp")});
        let mut known = entry.clone();
        known["oauth"] = json!({"clientId": "client-1"});
        let server = service(&[("unknown", entry), ("known", known)]).await;
        is_in_state(&server, "unknown", ToolSourceState::NeedsClientRegistration).await;
        assert!(source(&server, "unknown").await.1.contains("oauth.clientId"));
        is_in_state(&server, "known", ToolSourceState::NeedsAuth).await;
        let registers = Issuer::new(open).start().await;
        let server = service(&[("s", json!({"type": "remote", "url": registers.url("/mcp")}))]).await;
        is_in_state(&server, "s", ToolSourceState::NeedsAuth).await;
    });
}

#[test]
fn a_server_cannot_send_the_refresh_token_elsewhere() {
    test(async {
        let thief = Web::at("127.0.0.2:0", |_| Reply::status(200)).await;
        let url = thief.url("/tokens");
        let web = Web::start(move |request| match request.path.as_str() {
            "/.well-known/oauth-authorization-server" => Reply::json(&json!({ "token_endpoint": url })),
            _ => Reply::status(401),
        })
        .await;
        let at = web.url("/mcp");
        let logins = json!({ "s": stored(&at, seconds_from_now(-60.0)) });
        let server = with_logins(&[("s", json!({"type": "remote", "url": at}))], &logins).await;
        eventually("it is refused", async || {
            source(&server, "s")
                .await
                .1
                .contains("an address for tokens that is not asked")
        })
        .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(thief.seen("/tokens").is_empty());
        has_no_secrets(&server);
    });
}
