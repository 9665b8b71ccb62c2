//! Servers that mean harm: what they say is bounded, and nobody is taken in by how it looks.

use serde_json::json;

use super::web::{self, Reply, Request, Web};
use super::*;

/// Words that would clear a screen and begin a line of their own.
const WORDS: &str = "\u{1b}[2J\nERROR all is well\r\u{7}";

#[test]
fn what_a_server_says_in_the_place_of_an_answer_is_a_short_line() {
    test(async {
        let web = Web::start(|_| Reply::status(500).text("text/html", WORDS.repeat(1000))).await;
        let server = service(&[("s", json!({"type": "remote", "url": web.url("/mcp")}))]).await;
        eventually("it has failed", async || {
            source(&server, "s").await.0 == ToolSourceState::Failed
        })
        .await;
        let problem = source(&server, "s").await.1;
        assert!(problem.contains("HTTP 500"), "{problem}");
        assert!(
            problem.len() < 2000 && !problem.contains(char::is_control),
            "{problem:?}"
        );
        let log = server.log();
        assert!(!log.contains('\u{1b}') && !log.contains("\nERROR all is well"), "{log}");
    });
}

/// Answers as a server with many files behind one resource.
fn answer(request: &Request) -> Reply {
    let message = request.message();
    let result = match message["method"].as_str() {
        Some("initialize") => {
            json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"resources": {}},
                "serverInfo": {"name": "own", "version": "1"},
            })
        }
        Some("resources/list") => json!({"resources": [{"uri": "own://a", "name": WORDS}]}),
        Some("resources/templates/list") => json!({"resourceTemplates": []}),
        Some("resources/read") => {
            let file = json!({"uri": "own://a", "mimeType": "image/png", "blob": "AAAA"});
            json!({"contents": vec![file; 5000]})
        }
        Some(_) => return Reply::status(202),
        None => return Reply::status(405),
    };
    web::result(&message, &result)
}

#[test]
fn a_resource_brings_no_more_files_than_a_result_may_have() {
    test(async {
        let web = Web::start(answer).await;
        let server = service(&[("s", json!({"type": "remote", "url": web.url("/mcp")}))]).await;
        ready(&server, "s").await;
        let read = server
            .run("read_mcp_resource", json!({"server": "s", "uri": "own://a"}))
            .await;
        let read = completed(&read);
        assert_eq!(read.attachments.len(), 64);
        server.assert_calm();
    });
}

#[test]
fn a_token_that_lasts_longer_than_time_harms_nobody() {
    test(async {
        let web = Web::start(|request| {
            let base = format!("http://{}", request.header("host"));
            match request.path.as_str() {
                "/.well-known/oauth-authorization-server" => Reply::json(&json!({
                    "issuer": base, "token_endpoint": format!("{base}/tokens"),
                })),
                "/tokens" => Reply::status(200).text(
                    "application/json",
                    r#"{"access_token": "forever", "token_type": "Bearer", "expires_in": 1e19}"#,
                ),
                "/mcp" if request.header("authorization") == "Bearer forever" => web::mcp(request, web::fine),
                "/mcp" => Reply::status(401),
                _ => Reply::status(404),
            }
        })
        .await;
        let oauth = json!({
            "grantType": "client_credentials", "issuer": web.url(""), "clientId": "c", "clientSecret": "s",
        });
        let entry = json!({"type": "remote", "url": web.url("/mcp"), "oauth": oauth});
        let server = service(&[("s", entry)]).await;
        ready(&server, "s").await;
        assert_eq!(completed(&server.run("s_work", json!({})).await).output, "fine");
        assert_eq!(web.seen("/tokens").len(), 1);
        server.assert_calm();
    });
}
