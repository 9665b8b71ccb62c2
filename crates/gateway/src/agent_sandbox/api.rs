//! Requests to the API of a Kubernetes cluster.
//!
//! *Invariant:* who asks is read anew for each request, since the kubelet exchanges it, and so is who may answer. An answer takes bounded
//! time and bytes. A cluster that asks to be left alone is. Whatever goes wrong is told in words of what somebody can do about it, without the token.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use toolgate_server::app::outgoing;
use toolgate_server::provision::ProvisionError;
use toolgate_web::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use toolgate_web::{Method, Request, Server, Url};

use super::objects::{Resource, Version};
use crate::trusted::Trusted;

/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Bytes of an answer: a sandbox has all of its pod's template in it, and the cluster stores less than 2 MiB of any object.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// How long the cluster is left alone at most, whatever it asks for, and where it asks and does not say how long.
const MAX_PAUSE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);

/// The longest pause that a request waits for; it fails at once in a longer one.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Bytes that are repeated of what the cluster says.
const MAX_TOLD_BYTES: usize = 500;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Create,
    Patch,
    Delete,
}

impl Verb {
    /// Returns what a Role calls it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Create => Method::POST,
            Self::Patch => Method::PATCH,
            Self::Delete => Method::DELETE,
        }
    }
}

/// One request about an object.
pub(super) struct Ask<'a> {
    pub(super) verb: Verb,
    pub(super) resource: Resource,
    pub(super) version: Version,
    pub(super) name: &'a str,
    pub(super) body: Option<Value>,
}

/// What there was to say to it.
#[derive(Debug)]
pub(super) enum Answer {
    /// The object, as it is now.
    Object(Value),
    /// There is none of this name.
    Absent,
    /// There is one of this name already.
    Taken,
    /// It is not the one any more that was meant.
    Changed,
    /// The cluster has no such kind of objects in this version.
    Unserved,
}

/// What the cluster says where it has no object to show.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    reason: String,
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    name: String,
    kind: String,
}

/// An answer, whole.
struct Said {
    status: u16,
    retry_after: Option<Duration>,
    body: Bytes,
}

/// The way to the API.
pub(super) struct Api {
    trusted: Trusted,
    namespace: String,
    token_file: PathBuf,
    /// The cluster is left alone until then. Never held across an await.
    not_before: Mutex<Option<Instant>>,
}

impl Api {
    pub(super) fn new(base: Url, namespace: String, ca_file: Option<PathBuf>, token_file: PathBuf) -> Self {
        Self {
            trusted: Trusted::new(base, ca_file),
            namespace,
            token_file,
            not_before: Mutex::default(),
        }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads who asks and who may answer.
    pub(super) async fn credentials(&self) -> anyhow::Result<(HeaderValue, Server)> {
        let server = self.trusted.server().await?;
        let token_file = self.token_file.clone();
        let token = tokio::task::spawn_blocking(move || outgoing::token(&token_file)).await??;
        Ok((token, server))
    }

    /// Asks about an object.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<Answer, ProvisionError> {
        let (group, plural) = (ask.resource.group(), ask.resource.plural());
        let mut path = vec![
            "apis",
            group,
            ask.version.as_str(),
            "namespaces",
            &self.namespace,
            plural,
        ];
        if ask.verb != Verb::Create {
            path.push(ask.name);
        }
        let said = self.request(ask.verb, &path, ask.body.as_ref()).await?;
        let object = || serde_json::from_slice::<Value>(&said.body).ok();
        let status: Status = serde_json::from_slice(&said.body).unwrap_or_default();
        match said.status {
            200..=299 => match object().filter(Value::is_object) {
                Some(object) => Ok(Answer::Object(object)),
                None => Err(failed(
                    "something else than an object of Kubernetes answers at the API of the cluster",
                )),
            },
            404 if status.details.kind == "namespaces" => Err(failed(&format!(
                "the cluster has no namespace {}: set cluster.provisioner.namespace",
                self.namespace
            ))),
            404 if status.details.name.is_empty() => Ok(Answer::Unserved),
            404 => Ok(Answer::Absent),
            409 if status.reason == "AlreadyExists" => Ok(Answer::Taken),
            409 => Ok(Answer::Changed),
            403 => Err(failed(&format!(
                "the cluster forbids to {verb} {plural}: {}. Unless a quota or a policy says so, the Role of the gateway's service \
                 account lacks the verb {verb:?} for {plural} of the group {group:?} in the namespace {}",
                told(&status.message),
                self.namespace,
                verb = ask.verb.as_str(),
            ))),
            400 | 405 | 413 | 415 | 422 => Err(ProvisionError::Refused(format!(
                "the cluster does not take what is asked of it ({}): {}",
                said.status,
                told(&status.message)
            ))),
            _ => Err(self.trouble(&said, &status)),
        }
    }

    /// Asks in which versions the cluster has a group of objects. None: it does not have it.
    pub(super) async fn versions(&self, group: &str) -> Result<Option<Vec<String>>, ProvisionError> {
        let said = self.request(Verb::Get, &["apis", group], None).await?;
        let status: Status = serde_json::from_slice(&said.body).unwrap_or_default();
        match said.status {
            200 => {
                let group: Group = serde_json::from_slice(&said.body)
                    .map_err(|error| failed(&format!("the API of the cluster does not say what it has: {error}")))?;
                Ok(Some(group.versions.into_iter().map(|one| one.version).collect()))
            }
            404 => Ok(None),
            403 => Err(failed(&format!(
                "the cluster forbids to ask what it has: {}. The gateway's service account lacks the ClusterRole system:discovery",
                told(&status.message)
            ))),
            _ => Err(self.trouble(&said, &status)),
        }
    }

    /// Says what is wrong with an answer whatever was asked for.
    fn trouble(&self, said: &Said, status: &Status) -> ProvisionError {
        match said.status {
            401 => failed(&format!(
                "the cluster does not accept the token in {}: it has expired, or is for something else",
                self.token_file.display()
            )),
            status_code => failed(&format!(
                "the API of the cluster answers with {status_code}: {}",
                told(&status.message)
            )),
        }
    }

    async fn request(&self, verb: Verb, path: &[&str], body: Option<&Value>) -> Result<Said, ProvisionError> {
        self.wait_for_turn().await?;
        let (token, server) = self
            .credentials()
            .await
            .map_err(|error| failed(&format!("{error:#}")))?;
        let mut url = self.trusted.base().clone();
        match url.path_segments_mut() {
            Ok(mut segments) => segments.pop_if_empty().extend(path),
            Err(()) => return Err(failed("cluster.provisioner.api is no address")),
        };
        if matches!(verb, Verb::Create | Verb::Patch) {
            // What the cluster would leave out, because its schema does not have it, it refuses instead.
            url.query_pairs_mut()
                .append_pair("fieldManager", "toolgate")
                .append_pair("fieldValidation", "Strict");
        }
        let kind = match verb {
            Verb::Patch => "application/merge-patch+json",
            Verb::Get | Verb::Create | Verb::Delete => "application/json",
        };
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, token);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        let mut request = Request::within(ANSWER_LIMIT, url, headers);
        request.body = body.map(|body| Bytes::from(body.to_string()));
        let unanswered = |error| failed(&format!("the API of the cluster: {error}"));
        let reply = server.send(verb.method(), request).await.map_err(unanswered)?;
        let said = Said {
            status: reply.status(),
            retry_after: retry_after(reply.headers()),
            body: reply.body(MAX_ANSWER_BYTES).await.map_err(unanswered)?,
        };
        // Also with other answers than 429, such as 503.
        if said.status == 429 || said.retry_after.is_some() {
            let pause = said.retry_after.unwrap_or(PAUSE).min(MAX_PAUSE);
            *self.not_before.lock() = Some(Instant::now() + pause);
        }
        Ok(said)
    }

    async fn wait_for_turn(&self) -> Result<(), ProvisionError> {
        let now = Instant::now();
        let until = self.not_before.lock().filter(|until| *until > now);
        let Some(until) = until else { return Ok(()) };
        let left = until - now;
        if left > MAX_WAIT {
            let seconds = left.as_secs() + 1;
            return Err(failed(&format!(
                "the API of the cluster wants to be left alone for {seconds} s more"
            )));
        }
        sleep_until(until).await;
        Ok(())
    }
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    versions: Vec<OfGroup>,
}

#[derive(Deserialize)]
struct OfGroup {
    version: String,
}

fn failed(problem: &str) -> ProvisionError {
    ProvisionError::Failed(problem.to_owned())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Shortens what the cluster says.
fn told(message: &str) -> &str {
    match message.trim() {
        "" => "it does not say why",
        message => &message[..message.floor_char_boundary(MAX_TOLD_BYTES)],
    }
}
