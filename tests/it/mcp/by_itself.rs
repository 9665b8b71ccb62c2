//! Clients that log in by themselves (`client_credentials`): no person is needed, and the secret goes to one place only.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::web::{self, Reply, Request, Web};
use super::*;

/// Who gives out tokens, at an address of its own.
#[derive(Clone, Default)]
struct Issuer {
    /// How many tokens it has given.
    given: Arc<Mutex<usize>>,
    /// The tokens up to this one are no good any more.
    over: Arc<Mutex<usize>>,
}

impl Issuer {
    async fn start(&self) -> Web {
        let issuer = self.clone();
        Web::start(move |request| issuer.answer(request)).await
    }

    fn answer(&self, request: &Request) -> Reply {
        let base = format!("http://{}/realm", request.header("host"));
        match request.path.as_str() {
            "/.well-known/oauth-authorization-server/realm" => Reply::json(&json!({
                "issuer": base, "token_endpoint": format!("{base}/tokens"),
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            })),
            "/realm/tokens" => {
                let field = |name: &str| request.field(name).unwrap_or_default();
                let (id, secret) = (field("client_id"), field("client_secret"));
                if (id.as_str(), secret.as_str()) != ("service", "its-secret") {
                    return Reply::status(401).text("application/json", r#"{"error": "invalid_client"}"#);
                }
                if field("scope") == "unheard-of" {
                    return Reply::status(400).text("application/json", r#"{"error": "invalid_scope"}"#);
                }
                let mut given = self.given.lock().unwrap();
                *given += 1;
                Reply::json(
                    &json!({"access_token": format!("token-{given}"), "token_type": "Bearer", "expires_in": 3600}),
                )
            }
            _ => Reply::status(404),
        }
    }

    /// Starts a server that takes the tokens. It says that somebody else gives them out.
    async fn server(&self, elsewhere: &str) -> Web {
        let (issuer, elsewhere) = (self.clone(), elsewhere.to_owned());
        Web::start(move |request| {
            let base = format!("http://{}", request.header("host"));
            let about = "/.well-known/oauth-protected-resource/mcp";
            if request.path == about {
                return Reply::json(&json!({
                    "resource": format!("{base}/mcp"), "authorization_servers": [elsewhere], "scopes_supported": ["all"],
                }));
            }
            let token = request.header("authorization").strip_prefix("Bearer token-");
            let number = token.and_then(|number| number.parse::<usize>().ok());
            let is_good = |number: usize| {
                number > *issuer.over.lock().unwrap() && number <= *issuer.given.lock().unwrap()
            };
            match number.is_some_and(is_good) {
                true => web::mcp(request, web::fine),
                false => Reply::status(401)
                    .header("www-authenticate", format!("Bearer resource_metadata=\"{base}{about}\"")),
            }
        })
        .await
    }
}

fn entry(url: &str, issuer: &str, more: Value) -> Value {
    let mut oauth = json!({
        "grantType": "client_credentials", "issuer": issuer, "clientId": "service", "clientSecret": "its-secret",
    });
    for (key, value) in more.as_object().unwrap() {
        oauth[key] = value.clone();
    }
    json!({"type": "remote", "url": url, "oauth": oauth})
}

#[test]
fn a_client_logs_in_by_itself_and_again_when_its_token_is_over() {
    test(async {
        let (issuer, thief) = (Issuer::default(), Web::start(|_| Reply::status(404)).await);
        let guard = issuer.start().await;
        let web = issuer.server(&thief.url("")).await;
        let (url, realm) = (web.url("/mcp"), guard.url("/realm"));
        let server = service(&[
            ("s", entry(&url, &realm, json!({"scope": "read write"}))),
            ("wrong", entry(&url, &realm, json!({"clientSecret": "guessed"}))),
            ("odd", entry(&url, &realm, json!({"scope": "unheard-of"}))),
            ("elsewhere", entry(&url, &guard.url("/other"), json!({}))),
        ])
        .await;
        ready(&server, "s").await;
        assert_eq!(completed(&server.run("s_work", json!({})).await).output, "fine");
        let asked = guard.seen("/realm/tokens");
        let good = |request: &&Request| request.field("scope").as_deref() == Some("read write");
        let good = asked.iter().find(good).unwrap();
        assert_eq!(good.field("grant_type").as_deref(), Some("client_credentials"));
        assert_eq!(good.field("resource"), Some(url.clone()));

        // What the server refuses is replaced, without anybody noticing.
        *issuer.over.lock().unwrap() = *issuer.given.lock().unwrap();
        let calls = (0..4).map(|_| server.run("s_work", json!({})));
        for call in futures_util::future::join_all(calls).await {
            assert_eq!(completed(&call).output, "fine");
        }
        assert_eq!(*issuer.given.lock().unwrap(), 2, "one token for all");

        let check = async |name: &str, words: &str| {
            eventually(name, async || source(&server, name).await.1.contains(words)).await;
            assert_eq!(source(&server, name).await.0, ToolSourceState::Failed);
        };
        check("wrong", "`oauth.clientSecret`").await;
        check("odd", "invalid_scope").await;
        check("elsewhere", "`oauth.issuer` does not say").await;
        assert!(thief.seen("/tokens").is_empty() && thief.seen("/.well-known/oauth-authorization-server").is_empty());
        let (code, _, told) = server.cli(&["mcp", "login", "s"]).await;
        assert_eq!(code, 2, "{told}");
        assert!(told.contains("client itself"), "{told}");
        let log = server.log();
        assert!(!log.contains("its-secret") && !log.contains("token-"), "{log}");
        let kept = server
            .folder()
            .join("home/.local/share/toolgate/mcp-logins/logins.json");
        assert!(!kept.exists(), "such tokens are kept nowhere");
        server.assert_calm();
    });
}

#[test]
fn a_server_that_refuses_every_token_is_said_to_do_so() {
    test(async {
        let issuer = Issuer::default();
        *issuer.over.lock().unwrap() = 1000;
        let guard = issuer.start().await;
        let web = issuer.server("https://elsewhere.example").await;
        let server = service(&[("s", entry(&web.url("/mcp"), &guard.url("/realm"), json!({})))]).await;
        eventually("it is said", async || {
            let (state, problem) = source(&server, "s").await;
            state == ToolSourceState::Failed && problem.contains("refuses the token that this client was given")
        })
        .await;
        server.assert_calm();
    });
}
