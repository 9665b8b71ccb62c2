//! Where a browser comes back to after a login: one address of this machine, for as long as somebody waits there.
//!
//! *Invariant:* listens on the loopback interface alone. What arrives is handed on as it is, and nothing of it is in the page
//! that is shown.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolgate_config::mcp::Callback;
use toolgate_web::Url;

const PAGE: &str = "<!doctype html><meta charset=\"utf-8\"><title>Toolgate</title><p>Toolgate has the answer. You may close this \
                    page; the terminal says whether you are logged in.";

/// Connections that are served at a time.
const MAX_CONNECTIONS: usize = 16;

/// How long one may last: a browser connects before it has something to ask.
const MAX_CONNECTION: Duration = Duration::from_secs(5);

/// How long the page may take that the browser is shown.
const LAST_PAGE: Duration = Duration::from_secs(2);

/// Somebody who waits for a browser.
pub(super) struct Loopback {
    listener: TcpListener,
    address: SocketAddr,
    path: String,
}

impl Loopback {
    /// Begins to listen.
    pub(super) async fn listen(callback: &Callback) -> anyhow::Result<Self> {
        let host = if callback.host == "[::1]" { "::1" } else { "127.0.0.1" };
        let listener = TcpListener::bind((host, callback.port)).await;
        let listener = listener.with_context(|| {
            format!(
                "cannot listen on port {} for the browser to come back to: free it, or name another one by --port",
                callback.port
            )
        })?;
        Ok(Self {
            address: listener.local_addr().context("cannot find out the port")?,
            listener,
            path: callback.path.clone(),
        })
    }

    /// Returns where that is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the port.
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Waits for the browser, and returns the address that it came back to, whole. What has another state is none of its
    /// answers: any page can send a browser here.
    pub(super) async fn arrived(&self, state: &str) -> anyhow::Result<String> {
        let (arrived, mut arrivals) = mpsc::channel(1);
        let mut connections = JoinSet::new();
        let found = loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    let (stream, _) = accepted.context("cannot listen for the browser")?;
                    let (expected, arrived) = (self.expected(state), arrived.clone());
                    let service = service_fn(move |request| {
                        let answered = answer(&request, &expected, &arrived);
                        async move { Ok::<_, Infallible>(answered) }
                    });
                    let mut server = hyper::server::conn::http1::Builder::new();
                    server.keep_alive(false);
                    connections.spawn(async move {
                        // One that breaks off is tried again by the person; one that says nothing makes room.
                        let served = server.serve_connection(TokioIo::new(stream), service);
                        let _ = tokio::time::timeout(MAX_CONNECTION, served).await;
                    });
                }
                Some(_) = connections.join_next() => {}
                Some(address) = arrivals.recv() => break address,
            }
        };
        // The page is still on its way.
        let shown = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_PAGE, shown).await;
        Ok(found)
    }

    fn expected(&self, state: &str) -> Expected {
        Expected {
            base: self.address,
            path: self.path.clone(),
            state: state.to_owned(),
        }
    }
}

/// What the answer is recognised by.
struct Expected {
    base: SocketAddr,
    path: String,
    state: String,
}

impl Expected {
    /// Returns the address that was asked for, if it is the answer.
    fn address(&self, method: &Method, uri: &Uri) -> Option<String> {
        let query = uri.query()?;
        let address = format!("http://{}{}?{query}", self.base, self.path);
        let url = Url::parse(&address).ok()?;
        let has_state = url
            .query_pairs()
            .any(|(name, value)| name == "state" && value == self.state);
        (method == Method::GET && uri.path() == self.path && has_state).then_some(address)
    }
}

fn answer(request: &Request<Incoming>, expected: &Expected, arrived: &mpsc::Sender<String>) -> Response<Full<Bytes>> {
    let Some(address) = expected.address(request.method(), request.uri()) else {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    // A second one changes nothing.
    let _ = arrived.try_send(address);
    let mut response = Response::new(Full::from(PAGE));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_path_and_the_state() {
        let expected = Expected {
            base: ([127, 0, 0, 1], 7).into(),
            path: "/back".to_owned(),
            state: "s 1".to_owned(),
        };
        let check = |uri: &str, is_answer: bool| {
            let found = expected.address(&Method::GET, &uri.parse().unwrap());
            let whole = is_answer.then(|| format!("http://127.0.0.1:7{uri}"));
            assert_eq!(found, whole, "{uri}");
        };
        check("/back?code=c&state=s+1", true);
        check("/back?error=access_denied&state=s%201", true);
        check("/back?code=c&state=other", false);
        check("/back?code=c", false);
        check("/back", false);
        check("/favicon.ico?state=s+1", false);
        assert_eq!(
            expected.address(&Method::POST, &"/back?state=s+1".parse().unwrap()),
            None
        );
    }
}
