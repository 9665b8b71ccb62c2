//! What is asked and refused before anything is sent.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use toolgate_permission::Refusal;
use toolgate_tool::Tool;
use toolgate_web::Settings;

use super::*;
use crate::testing::{Bench, output_text};

fn tool() -> WebFetch {
    WebFetch::new(Network::new(Settings::default()))
}

#[tokio::test]
async fn the_question_shows_what_will_be_asked_for() {
    let bench = Bench::new();
    bench.answer(Err(Refusal::Rejected));
    let url = "https://EXAMPLE.com/a b";
    bench.run(&tool(), json!({"url": url, "timeout": 5})).await.unwrap_err();
    let ask = bench.last_ask();
    assert_eq!(
        (ask.permission.as_str(), ask.patterns, ask.always),
        (NAME, vec![url.to_owned()], vec!["*".to_owned()])
    );
    assert_eq!(
        Value::Object(ask.metadata.into_iter().collect()),
        json!({"url": url, "format": "markdown", "timeout": 5.0})
    );
    assert_eq!(ask.title, "Fetch https://example.com/a%20b");
}

#[tokio::test]
async fn what_is_not_of_the_web_is_refused_before_anybody_is_asked() {
    let bench = Bench::new();
    for url in [
        "",
        "ftp://a/",
        "HTTP://a/",
        " http://a/",
        "file:///a",
        "http:/a",
        "//a/",
        "a",
    ] {
        let error = bench.run(&tool(), json!({ "url": url })).await.unwrap_err();
        assert_eq!(error, "URL must start with http:// or https://", "{url}");
    }
    assert!(bench.asked().is_empty());
}

#[tokio::test]
async fn what_is_no_url_is_asked_for_as_it_is_and_fails() {
    for url in [
        "http://",
        "http://[::1/",
        "https://a:99999/",
        "http://a b/",
        "https://u:secret@a:x/",
    ] {
        let bench = Bench::new();
        let error = bench.run(&tool(), json!({ "url": url })).await.unwrap_err();
        assert!(error.contains("is not a URL"), "{url}: {error}");
        let ask = bench.last_ask();
        assert_eq!((ask.permission.as_str(), ask.patterns), (NAME, vec![url.to_owned()]));
        assert_eq!(ask.title, "Fetch what is not a URL");
        bench.answer(Err(Refusal::Rejected));
        let error = bench.run(&tool(), json!({ "url": url })).await.unwrap_err();
        assert_eq!(error, Refusal::Rejected.to_string());
    }
}

#[tokio::test]
async fn a_login_is_shown_to_nobody() {
    let bench = Bench::new();
    let error = bench
        .run(&tool(), json!({"url": "https://u:secret@a.example/"}))
        .await
        .unwrap_err();
    assert_eq!(
        error,
        "Cannot fetch https://a.example/: a URL with a user name or a password is not asked for"
    );
    assert!(!bench.last_ask().title.contains("secret"));
}

/// Answers one request with a body that is compressed; returns what was asked.
async fn serve_gzip(listener: TcpListener, body: &[u8]) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert!(stream.read_buf(&mut request).await.unwrap() > 0, "half a request");
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    let body = encoder.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // Who has read enough goes.
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
    String::from_utf8(request).unwrap().to_lowercase()
}

#[tokio::test]
async fn bodies_may_be_compressed_and_are_bounded_as_they_are_read() {
    let settings = || Settings {
        allow: vec!["127.0.0.1".parse().unwrap()],
        ..Settings::default()
    };
    for (body, expected) in [
        (b"fine".to_vec(), Ok("fine")),
        (vec![b'x'; MOST_BYTES + 1], Err(TOO_LARGE)),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (bench, tool) = (Bench::new(), WebFetch::new(Network::new(settings())));
        let fetch = bench.run(&tool, json!({ "url": url }));
        let (fetched, request) = tokio::join!(fetch, serve_gzip(listener, &body));
        let fetched = fetched.as_ref().map(output_text).map_err(String::as_str);
        assert_eq!(fetched, expected);
        let encodings = request.lines().filter(|line| line.starts_with("accept-encoding"));
        assert_eq!(
            encodings.collect::<Vec<_>>(),
            ["accept-encoding: gzip, deflate, br, zstd"]
        );
    }
}

#[test]
fn the_schema_is_what_models_know() {
    let schema = tool().input_schema();
    assert_eq!(schema["required"], json!(["url"]));
    assert_eq!(schema["properties"]["format"]["default"], "markdown");
    assert_eq!(
        schema["properties"]["format"]["enum"],
        json!(["text", "markdown", "html"])
    );
    assert_eq!(schema["properties"]["timeout"]["type"], "number");
}

#[test]
fn limits() {
    let check = |timeout: Option<f64>, expected: f64| assert_eq!(limit(timeout).as_secs_f64(), expected);
    check(None, 30.0);
    check(Some(0.5), 0.5);
    check(Some(120.0), 120.0);
    check(Some(1e300), 120.0);
    check(Some(0.0), 0.0);
    check(Some(-1.0), 0.0);
}

#[test]
fn pictures() {
    let check = |content_type: &str, expected: Option<&str>| {
        assert_eq!(picture(content_type).as_deref(), expected, "{content_type}");
    };
    check("image/png", Some("image/png"));
    check(" Image/PNG ; q=1", Some("image/png"));
    check("image/svg+xml", None);
    check("image/vnd.fastbidsheet", None);
    check("text/html", None);
    check("", None);
}
