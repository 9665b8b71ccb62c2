//! Who may use `/mcp`: the same as over gRPC, and whoever asks does not answer.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use toolgate_contract::*;

use super::jwt::{Issuer, start_with};
use super::setup::*;
use super::tls::{Authority, TLS, install};
use crate::support;
use crate::support::list_all;

fn post(service: &Service, query: &str, token: &str, body: &Value) -> RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client
        .post(format!("http://{}/mcp{query}", service.address))
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(body.to_string());
    match token {
        "" => request,
        token => request.header("authorization", format!("Bearer {token}")),
    }
}

fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "t", "version": "1"},
        },
    })
}

/// Opens a session and returns its id.
async fn open(service: &Service, token: &str) -> String {
    let response = post(service, "", token, &initialize()).send().await.unwrap();
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let request = post(service, "", token, &initialized).header("mcp-session-id", &id);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::ACCEPTED);
    id
}

#[test]
fn the_gate_is_the_same() {
    support::test(async {
        let folder = Folder::new();
        let settings = with_tokens(&folder);
        folder.put(
            "tokens",
            &format!("{TOKENS}reader reader-reader-reader calls.read,prompts.reply\n"),
        );
        let service = folder.start(&settings).await.unwrap();
        let check = async |query: &str, token: &str, expected: u16| {
            let response = post(&service, query, token, &initialize()).send().await.unwrap();
            assert_eq!(response.status().as_u16(), expected, "{query} {token}");
            let asks = response.headers().contains_key("www-authenticate");
            assert_eq!(asks, expected == 401, "{query} {token}");
        };
        check("", "", 401).await;
        check("", "wrong-wrong-wrong-wrong", 401).await;
        check("", "reader-reader-reader", 403).await;
        check("", ALICE, 200).await;
        check("?workspace=b", ALICE, 200).await;
        check("?workspace=a", ANNA, 200).await;
        check("?workspace=b", ANNA, 404).await;
        check("?workspace=c", ANNA, 404).await;

        // A session is of no use to anybody else, whatever they hold.
        let id = open(&service, ALICE).await;
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        for (token, expected) in [(ALICE, 200), (BOB, 404), ("", 401)] {
            let request = post(&service, "", token, &list).header("mcp-session-id", &id);
            assert_eq!(request.send().await.unwrap().status().as_u16(), expected, "{token}");
        }
        service.stop().await;
    });
}

#[test]
fn a_client_learns_where_tokens_are_issued() {
    support::test(async {
        let (folder, issuer) = (Folder::new(), Issuer::new("one"));
        let service = start_with(&folder, &[issuer.jwk()], "").await;
        let base = format!("http://{}", service.address);
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for (about, token, error) in [
            ("", "", false),
            ("", "no-token", true),
            ("?workspace=a", issuer.sign(json!({"iss": "https://other"})), true),
        ] {
            let response = post(&service, about, token, &initialize()).send().await.unwrap();
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{token}");
            let challenge = response.headers()["www-authenticate"].to_str().unwrap();
            let metadata = format!("resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
            assert!(
                challenge.starts_with("Bearer ") && challenge.contains(&metadata),
                "{challenge}"
            );
            assert_eq!(challenge.contains("error=\"invalid_token\""), error, "{challenge}");
        }
        for about in ["", "/mcp"] {
            let at = format!("{base}/.well-known/oauth-protected-resource{about}");
            let read = client.get(&at).send().await.unwrap();
            assert_eq!(
                (read.status(), &read.headers()["content-type"]),
                (StatusCode::OK, &"application/json".parse().unwrap())
            );
            let read: Value = serde_json::from_str(&read.text().await.unwrap()).unwrap();
            assert_eq!(read["resource"], format!("{base}{about}"), "{read}");
            assert_eq!(read["authorization_servers"], json!(["https://issuer"]), "{read}");
            assert_eq!(
                client.post(&at).send().await.unwrap().status(),
                StatusCode::METHOD_NOT_ALLOWED
            );
        }
        let opened = post(&service, "", issuer.sign(json!({})), &initialize())
            .send()
            .await
            .unwrap();
        assert_eq!(opened.status(), StatusCode::OK);
        service.stop().await;

        // Other tokens are issued by nobody.
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let at = format!("http://{}/.well-known/oauth-protected-resource/mcp", service.address);
        assert_eq!(client.get(&at).send().await.unwrap().status(), StatusCode::NOT_FOUND);
        let refused = post(&service, "", "", &initialize()).send().await.unwrap();
        assert_eq!(refused.headers()["www-authenticate"], "Bearer realm=\"toolgate\"");
        service.stop().await;
    });
}

#[test]
fn whoever_asks_does_not_answer() {
    support::test(async {
        let folder = Folder::new();
        let service = folder.start(&with_tokens(&folder)).await.unwrap();
        let channel = service.connect().await;
        let id = open(&service, ALICE).await;
        let call = json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {
                "name": "bash", "arguments": {"command": "echo hi", "description": "Tests"},
                "_meta": {"progressToken": 1},
            },
        });
        let request = post(&service, "?workspace=a", ALICE, &call).header("mcp-session-id", &id);
        let response = request.send().await.unwrap();
        let prompt = loop {
            let listed = prompts(&channel, BOB).list_prompts(list_all()).await.unwrap();
            if let Some(prompt) = listed.into_inner().prompts.into_iter().next() {
                break prompt;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(prompt.requester, "token:alice");
        answer(&channel, BOB, &prompt, PromptDecision::Once).await.unwrap();
        let body = response.text().await.unwrap();
        assert!(body.contains("waits for an approver"), "{body}");
        assert!(!body.contains("elicitation/create"), "{body}");
        assert!(body.contains("hi\\n"), "{body}");
        service.stop().await;
    });
}

#[test]
fn certificates_are_shown_here_too() {
    support::test(async {
        let (folder, authority) = (Folder::new(), Authority::new());
        install(&folder, &authority.server());
        folder.put("client-ca.pem", &authority.pem());
        let settings = format!(
            "{}\n{TLS}\nlisten.tls.client_ca = \"client-ca.pem\"\nlisten.tls.client_auth = \"required\"\n\
             [[auth.certificates]]\nsubject = \"dora\"\nname = \"dora\"\nscopes = [\"calls.read\"]\nworkspaces = [\"a\"]\n\
             [[auth.certificates]]\nsan = \"spiffe://x/ci\"\nname = \"ci\"\nscopes = [\"*\"]\nworkspaces = [\"a\"]",
            with_tokens(&folder)
        );
        let service = folder.start(&settings).await.unwrap();
        let url = |query: &str| format!("https://localhost:{}/mcp{query}", service.address.port());
        let post = async |who: Option<&str>, query: &str, token: &str, session: &str, body: &Value| {
            let ca = reqwest::Certificate::from_pem(authority.pem().as_bytes()).unwrap();
            let mut client = reqwest::Client::builder().no_proxy().tls_certs_only([ca]);
            if let Some(name) = who {
                let (certificate, key) = authority.client(name, |_| {});
                let identity = reqwest::Identity::from_pem(format!("{certificate}{key}").as_bytes());
                client = client.identity(identity.unwrap());
            }
            let mut request = client
                .build()
                .unwrap()
                .post(url(query))
                .header("accept", "application/json, text/event-stream")
                .header("content-type", "application/json")
                .body(body.to_string());
            if !token.is_empty() {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            if !session.is_empty() {
                request = request.header("mcp-session-id", session);
            }
            request.send().await
        };
        let status = async |who: &str, query: &str, token: &str| {
            let response = post(Some(who), query, token, "", &initialize()).await.unwrap();
            response.status().as_u16()
        };
        assert!(
            post(None, "", ALICE, "", &initialize()).await.is_err(),
            "no certificate, no connection"
        );
        assert_eq!(status("eve", "", "").await, 401);
        assert_eq!(status("dora", "", "").await, 403);
        assert_eq!(status("ci", "?workspace=b", "").await, 404);
        // A token says it stronger.
        assert_eq!(status("dora", "", ALICE).await, 200);

        let opened = post(Some("ci"), "", "", "", &initialize()).await.unwrap();
        assert_eq!(opened.status(), StatusCode::OK);
        let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        for (who, token, expected) in [("ci", "", 200), ("ci", BOB, 404), ("eve", "", 401)] {
            let response = post(Some(who), "", token, &id, &list).await.unwrap();
            assert_eq!(response.status().as_u16(), expected, "{who} {token}");
        }
        service.stop().await;
    });
}
