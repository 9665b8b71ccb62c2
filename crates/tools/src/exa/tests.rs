//! What is read of an answer, and that the key is shown to nobody.

use futures_util::FutureExt as _;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use toolgate_permission::Refusal;
use toolgate_web::Settings;

use super::codesearch::CodeSearch;
use super::websearch::WebSearch;
use super::*;
use crate::testing::Bench;

/// Reads an answer that comes in pieces of a size.
fn read(answer: &str, piece: usize) -> Result<Option<String>, String> {
    let mut reader = Answer::default();
    for piece in answer.as_bytes().chunks(piece) {
        if let Some(text) = reader.add(piece) {
            return Ok(Some(text));
        }
    }
    reader.end().map_err(|failure| failure.text("Search"))
}

const GOOD: &str = r#"{"result":{"content":[{"type":"text","text":"hit"}]},"jsonrpc":"2.0","id":1}"#;

#[test]
fn the_first_text_counts() {
    let check = |answer: String, expected: Result<Option<&str>, &str>| {
        for piece in [1, 7, usize::MAX] {
            let found = read(&answer, piece.min(answer.len().max(1)));
            let found = found.as_ref().map(Option::as_deref).map_err(String::as_str);
            assert_eq!(found, expected, "{answer:?} in pieces of {piece}");
        }
    };
    let data = |json: &str| format!("event: message\ndata: {json}\n\n");
    let content = |items: &str| format!(r#"{{"result":{{"content":[{items}]}}}}"#);
    check(data(GOOD), Ok(Some("hit")));
    check(format!("data: {GOOD}"), Ok(Some("hit")));
    check(format!("data: {GOOD}\r\n\r\n"), Ok(Some("hit")));
    check(format!("data:{GOOD}\n\n"), Ok(None));
    check(format!("{{oops\n{}", data(GOOD)), Ok(Some("hit")));
    check(format!("\n {GOOD}\n"), Ok(Some("hit")));
    check(GOOD.replace(',', ",\n "), Ok(Some("hit")));
    check(
        data("{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}") + &data(GOOD),
        Ok(Some("hit")),
    );
    check(data(&content("")) + &data(GOOD), Ok(Some("hit")));
    check(
        data(&content(r#"{"type":"image"},{"text":""},{"text":"x"},{"text":"y"}"#)),
        Ok(Some("x")),
    );
    check(data(&content("")), Ok(None));
    check(data(&content(r#"{"text":7}"#)), Ok(None));
    check(String::new(), Ok(None));
    check("<html>".to_owned(), Ok(None));
    check("data: [DONE]\n\n: comment\n".to_owned(), Ok(None));
    check(format!(" data: {GOOD}\n"), Ok(None));
    check(data("{oops") + &data(GOOD), Ok(Some("hit")));
    check(
        data("{oops"),
        Err("Search error: the answer of the service cannot be read"),
    );
    check("{\"result\":".to_owned(), Ok(None));
    check(
        r#"{"error":{"code":1,"message":"no"}}"#.to_owned(),
        Err("Search error: no"),
    );
    check(
        data(r#"{"error":{"code":-32602,"message":"no such tool"}}"#),
        Err("Search error: no such tool"),
    );
}

#[test]
fn a_service_that_says_why_it_has_no_answer_has_found_nothing() {
    let endpoint = "https://mcp.exa.example/mcp".parse().unwrap();
    let service = Service::new(Network::new(Settings::default()), endpoint, Some("secret-key"), true);
    let found = |answer| service.found("Search", answer).map_err(|error| error.to_string());
    assert_eq!(found(Err(Failure::Refused("no such tool".to_owned()))), Ok(None));
    assert_eq!(found(Ok(None)), Ok(None));
    assert_eq!(
        found(Ok(Some("a secret-key".to_owned()))),
        Ok(Some("a [redacted]".to_owned()))
    );
    let text = "secret-key".to_owned();
    let refused = found(Err(Failure::Status { status: 401, text }));
    assert_eq!(refused, Err("Search error (401): [redacted]".to_owned()));
    let broken = found(Err(Failure::Malformed));
    assert_eq!(
        broken,
        Err("Search error: the answer of the service cannot be read".to_owned())
    );
}

#[test]
fn a_refusal_is_shown_as_it_is_or_says_that_it_is_cut() {
    assert_eq!(excerpt(b"  boom\n".to_vec()), "  boom\n");
    let long = |bytes: usize| "x".repeat(bytes);
    assert_eq!(excerpt(long(MOST_SHOWN).into_bytes()), long(MOST_SHOWN));
    let cut = format!("{}… (cut after 16384 bytes)", long(MOST_SHOWN));
    assert_eq!(excerpt(long(MOST_SHOWN + 1).into_bytes()), cut);
}

#[test]
fn the_key_is_shown_to_nobody() {
    let service = |key: &str| {
        let endpoint = "https://mcp.exa.example/mcp?tools=web".parse().unwrap();
        Service::new(Network::new(Settings::default()), endpoint, Some(key), true)
    };
    let plain = service("k+y of mine/1");
    let sent = plain.0.url.query().unwrap();
    assert_eq!(sent, "tools=web&exaApiKey=k%2By+of+mine%2F1");
    assert_eq!(
        plain.hide(&format!("no k+y of mine/1 at ?{sent}")),
        "no [redacted] at ?tools=web&exaApiKey=[redacted]"
    );
    // What would be found everywhere hides nothing.
    assert_eq!(service("a").hide("a b"), "a b");
}

proptest! {
    #[test]
    fn any_answer_is_read(answer in prop::collection::vec(any::<u8>(), 0..200), piece in 1_usize..50) {
        let mut reader = Answer::default();
        let found = answer.chunks(piece).any(|piece| reader.add(piece).is_some());
        let holds_an_object = memchr::memchr(b'{', &answer).is_some();
        prop_assert!(found || reader.end().is_ok() || holds_an_object);
    }
}

/// What a service does that never comes to an end.
#[derive(Clone, Copy, Debug)]
enum Slow {
    /// It takes no connection.
    Unreachable,
    /// It says nothing.
    Silent,
    /// It answers, and says nothing more.
    Headers,
    /// It sends what is no answer, again and again.
    Endless,
    /// It refuses, and never says why.
    Refusal,
}

async fn serve(listener: TcpListener, slow: Slow) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let head = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\n\r\n");
    // An answer that comes before the question is none.
    let asked = stream.read(&mut [0; 4096]).await.unwrap();
    assert!(asked > 0, "a connection without a question");
    match slow {
        Slow::Unreachable | Slow::Silent => {}
        Slow::Headers | Slow::Endless => stream.write_all(head("200 OK").as_bytes()).await.unwrap(),
        Slow::Refusal => stream.write_all(head("500 No").as_bytes()).await.unwrap(),
    }
    while matches!(slow, Slow::Endless) && stream.write_all(b"data: {}\n\n").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn the_time_is_for_all_of_it() {
    for slow in [
        Slow::Unreachable,
        Slow::Silent,
        Slow::Headers,
        Slow::Endless,
        Slow::Refusal,
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/mcp", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        match slow {
            Slow::Unreachable => drop(listener),
            Slow::Silent | Slow::Headers | Slow::Endless | Slow::Refusal => {
                serving.spawn(serve(listener, slow));
            }
        }
        let service = Service::new(Network::new(Settings::default()), endpoint.parse().unwrap(), None, true);
        let bench = Bench::new();
        let start = Instant::now();
        let error = bench
            .run(&CodeSearch::new(service), json!({"query": "q"}))
            .await
            .unwrap_err();
        match slow {
            Slow::Unreachable => assert!(
                error.starts_with("Code search error: 127.0.0.1 cannot be reached"),
                "{error}"
            ),
            Slow::Silent | Slow::Headers | Slow::Endless | Slow::Refusal => {
                assert_eq!(error, "Code search request timed out", "{slow:?}");
                assert_eq!(start.elapsed().as_secs(), 30, "{slow:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_refused_is_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service = Service::new(Network::new(Settings::default()), endpoint.parse().unwrap(), None, true);
    let bench = Bench::new();
    bench.answer(Err(Refusal::Rejected));
    let error = bench
        .run(&WebSearch::new(service), json!({"query": "q"}))
        .await
        .unwrap_err();
    assert_eq!(error, Refusal::Rejected.to_string());
    assert_eq!(bench.asked(), [("websearch".to_owned(), vec!["q".to_owned()])]);
    assert!(listener.accept().now_or_never().is_none());
}
