//! What is asked and refused before anything is sent.

use serde_json::{Value, json};

use super::*;
use crate::net::Settings;
use crate::permission::Refusal;
use crate::tool::Tool;
use crate::tools::testing::Bench;

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
async fn what_is_no_url_is_refused_before_anybody_is_asked() {
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
    for url in ["http://", "http://[::1/", "https://a:99999/", "http://a b/"] {
        let error = bench.run(&tool(), json!({ "url": url })).await.unwrap_err();
        assert!(error.contains("is not a URL"), "{url}: {error}");
    }
    assert!(bench.asked().is_empty());
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
