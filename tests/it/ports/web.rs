//! `/ports/SECRET/`: requests, answers, WebSockets, and what a page cannot do.

use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const SANDBOX: &str = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

pub(crate) fn client() -> reqwest::Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy();
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// A program that speaks HTTP, and its address at the service.
struct Web {
    place: Place,
    target: Target,
    opened: OpenPortResponse,
    base: String,
    client: reqwest::Client,
}

impl Web {
    async fn new() -> Self {
        let place = Place::new().await;
        let target = place.serve("web").await;
        let opened = place.opened(&target).await;
        let base = format!("http://{}{}", place.server.tcp.as_ref().unwrap(), opened.http_path);
        Self {
            place,
            target,
            opened,
            base,
            client: client(),
        }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    async fn get(&self, path: &str) -> reqwest::Response {
        self.request(Method::GET, path).send().await.unwrap()
    }
}

fn all(answer: &reqwest::Response, name: &str) -> Vec<String> {
    let values = answer.headers().get_all(name).iter();
    values.map(|value| value.to_str().unwrap().to_owned()).collect()
}

fn assert_guarded(answer: &reqwest::Response) {
    assert!(
        all(answer, "content-security-policy")
            .iter()
            .any(|policy| policy == SANDBOX),
        "{answer:?}"
    );
    assert_eq!(all(answer, "referrer-policy"), ["no-referrer"]);
    assert_eq!(all(answer, "access-control-allow-origin"), ["*"]);
    assert_eq!(all(answer, "set-cookie"), [""; 0]);
}

#[test]
fn requests_reach_the_program_without_what_is_not_for_it() {
    test(async {
        let web = Web::new().await;
        let request = web.request(Method::GET, "headers?a=b/c");
        let request = request
            .header("authorization", "Bearer x")
            .header("cookie", "a=b")
            .header("referer", &web.base);
        let answer = request
            .header("x-own", "1")
            .header("origin", "null")
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_guarded(&answer);
        let seen: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(seen["path"], "/headers?a=b/c");
        let names: Vec<String> = seen["headers"]
            .as_object()
            .unwrap()
            .keys()
            .map(|name| name.to_lowercase())
            .collect();
        for name in ["authorization", "cookie", "referer"] {
            assert!(!names.iter().any(|one| one == name), "{seen}");
        }
        let header = |name: &str| {
            let mut all = seen["headers"].as_object().unwrap().iter();
            all.find(|(one, _)| one.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str().unwrap().to_owned())
        };
        let port = web.target.port;
        assert_eq!(header("host"), Some(format!("localhost:{port}")));
        assert_eq!(header("origin"), Some(format!("http://localhost:{port}")));
        assert_eq!(header("x-own"), Some("1".to_owned()));
        // By HTTP/2, too.
        let client = reqwest::Client::builder()
            .no_proxy()
            .http2_prior_knowledge()
            .build()
            .unwrap();
        let answer = client.get(format!("{}headers", web.base)).send().await.unwrap();
        assert_eq!(
            (answer.version(), answer.status()),
            (reqwest::Version::HTTP_2, StatusCode::OK)
        );
        assert!(answer.text().await.unwrap().contains("\"path\": \"/headers\""));
        // Bodies of both kinds.
        let body: Vec<u8> = (0..3 * 1024 * 1024_u32).map(|at| (at % 251) as u8).collect();
        let whole = web
            .request(Method::POST, "x")
            .body(body.clone())
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
            body.chunks(100_000).map(|piece| Ok(piece.to_vec())).collect();
        let stream = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
        let chunked = web
            .request(Method::POST, "x")
            .body(stream)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        assert_eq!((whole.len(), &whole), (64, &chunked));
        web.place.server.assert_calm();
    });
}

#[test]
fn a_page_gets_nothing_of_the_address() {
    test(async {
        let web = Web::new().await;
        let answer = web.get("bold").await;
        assert_guarded(&answer);
        assert_eq!(all(&answer, "content-security-policy"), ["default-src 'self'", SANDBOX]);
        assert_eq!(all(&answer, "x-own"), ["kept"]);
        for name in [
            "service-worker-allowed",
            "clear-site-data",
            "strict-transport-security",
            "access-control-allow-credentials",
        ] {
            assert_eq!(all(&answer, name), [""; 0], "{name}");
        }
        let answer = web.get("moved").await;
        assert_eq!(answer.status(), StatusCode::FOUND);
        assert_eq!(
            all(&answer, "location"),
            [format!("{}headers?moved", web.opened.http_path)]
        );
        // Without the last slash, names that a page has for its own files would lead elsewhere.
        let answer = web.client.get(web.base.trim_end_matches('/')).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(all(&answer, "location"), [web.opened.http_path.as_str()]);
        let asked = web.request(Method::OPTIONS, "x").header("origin", "null");
        let asked = asked
            .header("access-control-request-method", "PUT")
            .header("access-control-request-headers", "x-own");
        let answer = asked.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        assert_guarded(&answer);
        assert_eq!(all(&answer, "access-control-allow-methods"), ["PUT"]);
        assert_eq!(all(&answer, "access-control-allow-headers"), ["x-own"]);
        // The same page may not call the service.
        let url = format!(
            "http://{}/toolgate.v1.InfoService/GetServerInfo",
            web.place.server.tcp.as_ref().unwrap()
        );
        let call = web
            .client
            .post(url)
            .header("origin", "null")
            .header("content-type", "application/grpc-web+proto");
        assert_eq!(call.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    });
}

#[test]
fn answers_come_as_they_are_made() {
    test(async {
        let web = Web::new().await;
        let mut answer = web.get("pieces").await;
        // The program waits with the rest until it is asked to go on.
        assert_eq!(answer.chunk().await.unwrap().unwrap(), "one");
        web.get("go-on").await;
        let mut rest = Vec::new();
        while let Some(piece) = answer.chunk().await.unwrap() {
            rest.extend_from_slice(&piece);
        }
        assert_eq!(rest, b"two");
    });
}

#[test]
fn websockets_are_tunnelled() {
    test(async {
        let web = Web::new().await;
        let request = web
            .request(Method::GET, "socket")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket");
        let request = request.header("sec-websocket-version", "13");
        let answer = request
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(all(&answer, "sec-websocket-accept"), ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]);
        let mut socket = answer.upgrade().await.unwrap();
        for size in [1, 1000, 1024 * 1024] {
            let sent = vec![b'x'; size];
            let (mut reads, mut writes) = tokio::io::split(&mut socket);
            let mut received = vec![0; size];
            let (read, written) = tokio::join!(reads.read_exact(&mut received), writes.write_all(&sent));
            read.unwrap();
            written.unwrap();
            assert!(received == sent);
        }
        // With the port goes the tunnel.
        web.place.server.cancel(&web.opened.call_id).await;
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_secs(20), socket.read(&mut byte))
            .await
            .unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        let call = ended(&web.place.server, &web.opened.call_id).await;
        assert!(completed(&call).output.contains("Connections: 1"), "{call:?}");
        web.place.server.assert_calm();
    });
}

#[test]
fn what_is_not_there_is_said() {
    test(async {
        let web = Web::new().await;
        let at = |path: &str| format!("http://{}{path}", web.place.server.tcp.as_ref().unwrap());
        let wrong = format!("/ports/{}/", "0".repeat(64));
        for path in ["/ports/", "/ports/x", "/ports/x/y", &wrong] {
            let answer = web.client.get(at(path)).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
            assert_guarded(&answer);
            assert!(answer.text().await.unwrap().contains("no such port"));
        }
        // Something that does not speak HTTP.
        let talking = web.place.serve("talk").await;
        let opened = web.place.opened(&talking).await;
        let answer = web.client.get(at(&opened.http_path)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
        // The call runs, and its program listens no more.
        let script = web.place.server.work().join("serve.py");
        let command = format!("timeout 2 python3 {} web; echo over; sleep 600", script.display());
        let mut stream = {
            let request = kept("over", request_of(&command));
            web.place
                .server
                .tools()
                .execute_tool(request)
                .await
                .unwrap()
                .into_inner()
        };
        next_such(&mut stream, is_output).await;
        let target = Target {
            call: "over".to_owned(),
            port: listening(&web.place.server, "over").await[0].port,
        };
        let opened = web.place.opened(&target).await;
        next_such(&mut stream, is_output).await;
        let answer = web.client.get(at(&opened.http_path)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
        refused(
            web.place.connect(&opened.call_id, b"").await.map(drop),
            Code::FailedPrecondition,
            "NOT_LISTENING",
        );
        // Closed.
        web.place.server.cancel(&web.opened.call_id).await;
        assert_eq!(web.get("headers").await.status(), StatusCode::NOT_FOUND);
    });
}

#[test]
fn the_secret_is_told_to_whoever_opens_and_nowhere_else() {
    test(async {
        let place = Place::ruled(json!({"*": "allow", "port": "ask"})).await;
        let target = place.serve("web").await;
        let mut approver = Approver::open(place.server.connect().await, "ann").await.unwrap();
        let request = OpenPortRequest {
            call: Some(CallStart {
                unattended: Unattended::Wait.into(),
                ..Default::default()
            }),
            ..open(&target)
        };
        let (opened, ()) = tokio::join!(place.open(request), async {
            let prompt = approver.added().await;
            approver.send(reply(&prompt, PromptDecision::Once)).await;
        });
        let opened = opened.unwrap();
        let secret = opened.http_path.split('/').nth(2).unwrap().to_owned();
        let url = format!(
            "http://{}{}headers",
            place.server.tcp.as_ref().unwrap(),
            opened.http_path
        );
        let answer = client().get(url).send().await.unwrap().text().await.unwrap();
        assert!(
            answer.contains("\"path\": \"/headers\"") && !answer.contains(&secret),
            "{answer}"
        );
        place.server.cancel(&opened.call_id).await;
        let call = ended(&place.server, &opened.call_id).await;
        assert!(!format!("{call:?}").contains(&secret));
        let log = place.server.watch(&opened.call_id, 0).await.unwrap();
        assert!(!format!("{log:?}").contains(&secret));
        assert!(!place.server.log().contains(&secret));
        tokio::time::sleep(Duration::from_millis(200)).await;
        // Records, logs, events and the audit: all that is stored.
        let folder = place.server.folder().join("data");
        let found = std::process::Command::new("grep")
            .arg("-rlF")
            .arg(&secret)
            .arg(&folder)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
        let known = std::process::Command::new("grep")
            .arg("-rlF")
            .arg(&opened.call_id)
            .arg(&folder)
            .output()
            .unwrap();
        assert_ne!(
            String::from_utf8_lossy(&known.stdout),
            "",
            "what is stored can be searched so"
        );
        let entries = place
            .server
            .prompts(ListPromptsRequest {
                call_id: opened.call_id.clone(),
                states: vec![PromptState::Resolved.into()],
                ..Default::default()
            })
            .await;
        assert_eq!(entries.len(), 1);
    });
}
