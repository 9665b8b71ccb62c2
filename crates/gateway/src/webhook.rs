//! A server of the operator's that makes the places of workspaces, asked by HTTP: `docs/operate/workspaces.md` has what is said.
//!
//! *Invariant:* all that is said of one workspace has the same key, which another one of its name has not. An answer is bounded in time and size, a redirect is none,
//! and what is not understood is as good as no answer. The token is read for each request, and is in no error.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use toolgate_model::WorkspaceSource;
use toolgate_server::app::outgoing;
use toolgate_server::provision::{Observed, ProvisionError, Provisioner, Wanted};
use toolgate_web::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use toolgate_web::{Method, Network, Reply, Request, Url};

use crate::trusted::Trusted;

/// How long it may take to answer.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Bytes of an answer.
const MAX_BYTES: usize = 64 << 10;

/// Letters of a text that it says, and that is shown to people.
const MAX_TEXT: usize = 1_000;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What does not say that it will not be done: whoever asks, or the way to who is asked, is not right yet (a token that was exchanged, a proxy, an
/// address where nothing listens yet); there was no time, something else is being done, it is too early, or too much.
const PASSING: [u16; 8] = [401, 403, 404, 407, 408, 409, 425, 429];

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Ensure,
    Suspend,
    Resume,
    Delete,
    Observe,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ensure => "ensure",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Delete => "delete",
            Self::Observe => "observe",
        }
    }
}

/// What a workspace is made from, as it is said.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Source<'a> {
    Empty {},
    Template { name: &'a str },
    Git { url: &'a str, reference: &'a str },
    Archive { url: &'a str },
}

impl<'a> Source<'a> {
    fn of(source: &'a WorkspaceSource) -> Self {
        match source {
            WorkspaceSource::Empty => Self::Empty {},
            WorkspaceSource::Template(name) => Self::Template { name },
            WorkspaceSource::Git { url, reference } => Self::Git { url, reference },
            WorkspaceSource::Archive { url } => Self::Archive { url },
        }
    }
}

/// What is sent.
#[derive(Serialize)]
struct Question<'a> {
    action: Action,
    workspace: &'a str,
    source: Source<'a>,
    by: &'a str,
    request: &'a str,
}

/// How a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Absent,
    Coming,
    Ready,
    Resting,
    Broken,
}

/// What is answered. More than that is passed over: it may be for others.
#[derive(Debug, Deserialize)]
struct Answer {
    state: State,
    #[serde(default)]
    problem: Option<String>,
    #[serde(default)]
    pod: Option<String>,
}

/// What an answer that refuses may say.
#[derive(Deserialize)]
struct Refusal {
    problem: String,
}

impl Answer {
    fn observed(self) -> Observed {
        match self.state {
            State::Absent => Observed::Absent,
            State::Coming => Observed::Coming,
            State::Ready => Observed::Ready,
            State::Resting => Observed::Resting,
            State::Broken => {
                let problem = self
                    .problem
                    .map(|problem| shown(&problem))
                    .filter(|text| !text.is_empty());
                Observed::Broken(
                    problem.unwrap_or_else(|| "the server that makes workspaces says that it is broken".to_owned()),
                )
            }
        }
    }
}

/// Returns a text of somebody else's as people see it: short, on one line.
fn shown(text: &str) -> String {
    let plain = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MAX_TEXT).collect()
}

/// How it is reached.
pub(crate) enum Way {
    /// As all that the operator named.
    Network(Network, Url),
    /// By the authorities that the operator named for it, and directly.
    Trusted(Trusted),
}

impl Way {
    fn url(&self) -> &Url {
        match self {
            Self::Network(_, url) => url,
            Self::Trusted(trusted) => trusted.base(),
        }
    }

    async fn send(&self, request: Request) -> anyhow::Result<Reply> {
        Ok(match self {
            Self::Network(network, _) => network.request_named_itself(request).await?,
            Self::Trusted(trusted) => trusted.server().await?.send(Method::POST, request).await?,
        })
    }
}

/// The server.
pub(crate) struct Webhook {
    way: Way,
    token_file: PathBuf,
    time_limit: Duration,
}

impl Webhook {
    pub(crate) fn new(way: Way, token_file: PathBuf) -> Self {
        Self {
            way,
            token_file,
            time_limit: TIME_LIMIT,
        }
    }

    async fn ask(&self, action: Action, wanted: &Wanted) -> Result<Answer, ProvisionError> {
        let failed = |problem: String| {
            ProvisionError::Failed(format!(
                "the server that makes workspaces could not be asked to {}: {problem}",
                action.as_str()
            ))
        };
        let question = Question {
            action,
            workspace: &wanted.workspace,
            source: Source::of(&wanted.source),
            by: &wanted.by,
            request: &wanted.request,
        };
        let body = serde_json::to_vec(&question).map_err(|error| failed(error.to_string()))?;
        let path = self.token_file.clone();
        let token = tokio::task::spawn_blocking(move || outgoing::token(&path)).await;
        let token = token.map_err(std::io::Error::from).and_then(|token| token);
        let token = token.map_err(|error| failed(format!("cluster.provisioner.token_file cannot be read: {error}")))?;
        let key = HeaderValue::try_from(wanted.request.as_str());
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, token);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(IDEMPOTENCY_KEY, key.map_err(|error| failed(error.to_string()))?);
        let request = Request {
            body: Some(body.into()),
            deadline: Instant::now() + self.time_limit,
            ..Request::within(self.time_limit, self.way.url().clone(), headers)
        };
        let reply = self.way.send(request).await;
        let reply = reply.map_err(|error| failed(format!("{error:#}")))?;
        let (status, is_success) = (reply.status(), reply.is_success());
        let body = reply.body(MAX_BYTES).await.map_err(|error| failed(error.to_string()));
        if is_success {
            return serde_json::from_slice(&body?)
                .map_err(|error| failed(format!("its answer is not understood: {error}")));
        }
        let text = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
        let text = serde_json::from_str(&text).map_or(text, |refusal: Refusal| refusal.problem);
        let text = match shown(&text) {
            text if text.is_empty() => format!("it answers {status}"),
            text => format!("it answers {status}: {text}"),
        };
        match (400..500).contains(&status) && !PASSING.contains(&status) {
            true => Err(ProvisionError::Refused(format!(
                "the server that makes workspaces refuses to {}: {text}",
                action.as_str()
            ))),
            false => Err(failed(text)),
        }
    }
}

#[async_trait]
impl Provisioner for Webhook {
    async fn ensure(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.ask(Action::Ensure, wanted).await.map(Answer::observed)
    }

    async fn suspend(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.ask(Action::Suspend, wanted).await.map(Answer::observed)
    }

    async fn resume(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.ask(Action::Resume, wanted).await.map(Answer::observed)
    }

    async fn delete(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.ask(Action::Delete, wanted).await.map(Answer::observed)
    }

    async fn observe(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.ask(Action::Observe, wanted).await.map(Answer::observed)
    }

    async fn pod(&self, wanted: &Wanted) -> Result<Option<String>, ProvisionError> {
        let answer = self.ask(Action::Observe, wanted).await?;
        Ok(answer.pod.filter(|pod| !pod.is_empty()))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // the tests make the file of the token
mod tests {
    use std::sync::Arc;

    use rcgen::generate_simple_self_signed;
    use rustls::ServerConfig;
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use toolgate_web::Settings;

    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            workspace: "acme/a".to_owned(),
            source: WorkspaceSource::Template("web".to_owned()),
            by: "token:anna".to_owned(),
            request: "r-1".to_owned(),
        }
    }

    /// Serves one request, and returns what was asked and what came of it.
    async fn asked(
        answer: &'static str,
        limit: Duration,
        way: impl FnOnce(Url) -> Way,
    ) -> (String, Result<Observed, ProvisionError>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "the-token\n").unwrap();
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut said = Vec::new();
            while !String::from_utf8_lossy(&said).ends_with("\"r-1\"}") {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                said.extend_from_slice(&buffer[..read]);
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            if answer.is_empty() {
                // It hangs until whoever asked goes away.
                let _ = stream.read(&mut [0; 1]).await;
            }
            String::from_utf8(said).unwrap()
        };
        let webhook = Webhook {
            time_limit: limit,
            ..Webhook::new(
                way(Url::parse(&format!("http://{address}/toolgate")).unwrap()),
                token_file,
            )
        };
        let wanted = wanted();
        tokio::join!(serving, webhook.ensure(&wanted))
    }

    #[tokio::test]
    async fn answers_are_told_apart() {
        let asked = |answer, limit| {
            asked(answer, limit, |url| {
                Way::Network(Network::new(Settings::default()), url)
            })
        };
        let long = Duration::from_secs(20);
        let ready = "HTTP/1.1 200 OK\r\ncontent-length: 32\r\n\r\n{\"state\": \"ready\", \"more\": true}";
        let (said, found) = asked(ready, long).await;
        assert_eq!(found.unwrap(), Observed::Ready);
        assert!(said.starts_with("POST /toolgate HTTP/1.1\r\n"), "{said}");
        let head = said.to_lowercase();
        assert!(head.contains("authorization: bearer the-token\r\n"), "{said}");
        assert!(head.contains("idempotency-key: r-1\r\n"), "{said}");
        let body = r#"{"action":"ensure","workspace":"acme/a","source":{"template":{"name":"web"}},"by":"token:anna","request":"r-1"}"#;
        assert!(said.ends_with(body), "{said}");

        let refused = "HTTP/1.1 400 Bad Request\r\ncontent-length: 22\r\n\r\n{\"problem\": \"no room\"}";
        let (_, found) = asked(refused, long).await;
        assert!(
            matches!(&found, Err(ProvisionError::Refused(text)) if text.ends_with("it answers 400: no room")),
            "{found:?}"
        );
        for passing in [
            "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\ngarbage",
            "HTTP/1.1 307 There\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
        ] {
            let (_, found) = asked(passing, long).await;
            assert!(matches!(found, Err(ProvisionError::Failed(_))), "{passing}: {found:?}");
        }
        let (_, found) = asked("", Duration::from_millis(300)).await;
        assert!(
            matches!(&found, Err(ProvisionError::Failed(text)) if text.ends_with("the time was up")),
            "{found:?}"
        );
    }
    #[tokio::test]
    async fn only_whom_the_named_authorities_vouch_for_is_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let [own, other] = [(); 2].map(|()| generate_simple_self_signed(["localhost".to_owned()]).unwrap());
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // Whoever does not trust it hangs up.
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let _ = stream.read(&mut [0; 4096]).await.unwrap();
                let ready = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 18\r\n\r\n{\"state\": \"ready\"}";
                stream.write_all(ready).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let [ca_file, token_file] = ["ca", "token"].map(|name| folder.path().join(name));
        std::fs::write(&token_file, "the-token").unwrap();
        let url = Url::parse(&format!("https://localhost:{port}/toolgate")).unwrap();
        let webhook = Webhook::new(Way::Trusted(Trusted::new(url, Some(ca_file.clone()))), token_file);
        let missing = webhook.ensure(&wanted()).await;
        assert!(
            matches!(&missing, Err(ProvisionError::Failed(text)) if text.contains("/ca")),
            "{missing:?}"
        );
        for (certificate, is_own) in [(&own, true), (&other, false), (&own, true)] {
            std::fs::write(&ca_file, certificate.cert.pem()).unwrap();
            let found = webhook.ensure(&wanted()).await;
            assert_eq!(found.ok(), is_own.then_some(Observed::Ready));
        }
        serving.abort();
    }
}
