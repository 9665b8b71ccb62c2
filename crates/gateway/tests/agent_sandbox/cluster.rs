//! The API server of a cluster that has agent-sandbox, as far as gateways ask it: over TLS, with tokens, a Role, and the answers of Kubernetes.
//!
//! *Invariant:* each request is held to the definitions of the release; one that breaks them, or asks for what nobody should ask for, is a
//! violation that ends the test, whatever the gateway makes of the answer.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, Uri};
use axum::serve::Listener;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::state::*;

pub(crate) const TOKEN: &str = "token-of-the-gateway";

pub(crate) struct Cluster {
    pub(crate) address: SocketAddr,
    folder: TempDir,
    state: Arc<Mutex<State>>,
    serving: JoinHandle<()>,
}

impl Cluster {
    pub(crate) async fn start(release: Release) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ca.crt"), cert.pem()).unwrap();
        fs::write(folder.path().join("token"), TOKEN).unwrap();
        let mut state = State::new(release);
        state.tokens.insert(TOKEN.to_owned());
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let routes = Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let state = shared.clone();
            async move { answer(&state, &method, &uri, &headers, &body).await }
        });
        let listener = Encrypted {
            tcp,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self {
            address,
            folder,
            state,
            serving,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns what was asked for since it was asked for last.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    /// Lets nobody answer any more.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }

    pub(crate) fn pass(&self) {
        self.state().pass();
    }

    pub(crate) fn passes(&self, count: usize) {
        self.state().passes(count);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.serving.abort();
        let violations = std::mem::take(&mut self.state().violations);
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "{violations:#?}");
        }
    }
}

struct Encrypted {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, from) = self.tcp.accept().await.unwrap();
            // Whoever does not trust the certificate hangs up.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

/// A status with a body.
type Said = (u16, Value);

async fn answer(state: &Mutex<State>, method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Response<Body> {
    let fault = state.lock().unwrap().faults.pop_front();
    let mut response = Response::builder().header("content-type", "application/json");
    let (status, body) = match fault {
        None => state.lock().unwrap().handle(method, uri, headers, body),
        Some(Fault::Slow(time)) => {
            tokio::time::sleep(time).await;
            state.lock().unwrap().handle(method, uri, headers, body)
        }
        Some(Fault::Lost) => {
            state.lock().unwrap().handle(method, uri, headers, body);
            problem(500, "InternalError", "lost", &json!({}))
        }
        Some(fault) => {
            state.lock().unwrap().log.push(format!("{method} in vain"));
            let ended = match fault {
                Fault::Status(status, pause) => {
                    if let Some(seconds) = pause {
                        response = response.header("retry-after", seconds.to_string());
                    }
                    return response
                        .status(status)
                        .body(Body::from(
                            problem(status, "Trouble", "trouble", &json!({})).1.to_string(),
                        ))
                        .unwrap();
                }
                Fault::Garbage => Body::from("<html>"),
                Fault::BreaksOff => {
                    let parts = [Ok("{\"metadata\":"), Err(std::io::Error::other("gone"))];
                    Body::from_stream(futures_util::stream::iter(parts))
                }
                Fault::Endless => {
                    let part = "[".repeat(1 << 16);
                    let parts = std::iter::repeat_with(move || Ok::<_, std::io::Error>(part.clone()));
                    Body::from_stream(futures_util::stream::iter(parts))
                }
                Fault::Redirect => {
                    let away = response.header("location", "https://127.0.0.1:1/away");
                    return away.status(307).body(Body::empty()).unwrap();
                }
                Fault::Slow(_) | Fault::Lost => Body::empty(),
            };
            return response.status(200).body(ended).unwrap();
        }
    };
    let body = body.as_str().map_or_else(|| body.to_string(), ToOwned::to_owned);
    response.status(status).body(Body::from(body)).unwrap()
}

fn problem(code: u16, reason: &str, message: &str, details: &Value) -> Said {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    });
    (code, status)
}

pub(crate) fn group_of(kind: &str) -> &'static str {
    match kind {
        SANDBOXES => "agents.x-k8s.io",
        _ => "extensions.agents.x-k8s.io",
    }
}

impl State {
    fn handle(&mut self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Said {
        let shown = headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = shown.and_then(|shown| shown.strip_prefix("Bearer "));
        if !token.is_some_and(|token| self.tokens.contains(token)) {
            self.log.push(format!("{method} by nobody"));
            return problem(401, "Unauthorized", "Unauthorized", &json!({}));
        }
        let parts: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
        match parts[..] {
            ["apis", group] if *method == Method::GET => {
                self.log.push("GET versions".to_owned());
                self.versions(group)
            }
            ["apis", group, version, "namespaces", namespace, plural, ref name @ ..] if name.len() < 2 => {
                let kinds = [CLAIMS, SANDBOXES];
                let kind = kinds
                    .into_iter()
                    .find(|kind| *kind == plural && group_of(kind) == group);
                let Some(kind) = kind.filter(|_| self.is_installed && version == self.release.version()) else {
                    self.log.push(format!("{method} {plural} of {version}"));
                    return (404, json!("404 page not found\n"));
                };
                self.log.push(format!("{method} {plural}"));
                let asked = Asked {
                    method,
                    kind,
                    namespace,
                    name: name.first().copied(),
                    query: uri.query().unwrap_or_default(),
                    content: headers.get("content-type").map_or("", |value| value.to_str().unwrap()),
                    body: serde_json::from_slice(body).unwrap_or_default(),
                };
                self.of_object(&asked)
            }
            _ => {
                self.violations.push(format!("{method} {uri}"));
                (404, json!("404 page not found\n"))
            }
        }
    }

    fn versions(&self, group: &str) -> Said {
        let is_known = [CLAIMS, SANDBOXES].iter().any(|kind| group_of(kind) == group);
        if !self.is_installed || !is_known {
            return (404, json!("404 page not found\n"));
        }
        let version = |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
        let versions: Vec<Value> = self.release.served().iter().map(version).collect();
        let preferred = versions[0].clone();
        (
            200,
            json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions, "preferredVersion": preferred}),
        )
    }

    fn of_object(&mut self, asked: &Asked<'_>) -> Said {
        let (kind, group) = (asked.kind, group_of(asked.kind));
        let verb = match *asked.method {
            Method::GET => "get",
            Method::POST => "create",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => {
                self.violations.push(format!("{} {kind}", asked.method));
                return problem(405, "MethodNotAllowed", "not supported", &json!({}));
            }
        };
        if !self.role.contains(&(verb, kind)) {
            let text = format!(
                "{kind}.{group} is forbidden: User \"system:serviceaccount:{NAMESPACE}:gateway\" cannot {verb} resource \"{kind}\" \
                 in API group \"{group}\" in the namespace \"{}\"",
                asked.namespace
            );
            return problem(403, "Forbidden", &text, &json!({"group": group, "kind": kind}));
        }
        if verb != "get"
            && let Some(race) = self.race.take()
        {
            race(self);
        }
        match (verb, asked.name) {
            ("create", None) => self.post(asked),
            (_, Some(name)) => {
                let found = self.get(kind, name).filter(|_| asked.namespace == NAMESPACE).cloned();
                let Some(object) = found else {
                    let text = format!("{kind}.{group} {name:?} not found");
                    return problem(
                        404,
                        "NotFound",
                        &text,
                        &json!({"name": name, "group": group, "kind": kind}),
                    );
                };
                match verb {
                    "get" => (200, object),
                    "patch" => self.patch(asked, name, &object),
                    _ => self.remove(asked, name, &object),
                }
            }
            (_, None) => {
                self.violations.push(format!("{verb} of all {kind}"));
                problem(405, "MethodNotAllowed", "not supported", &json!({}))
            }
        }
    }

    /// Checks what is written as a cluster does that is asked to be strict.
    fn check(&mut self, asked: &Asked<'_>, object: &Value) -> Result<(), Said> {
        if !asked.query.contains("fieldValidation=Strict") || !asked.query.contains("fieldManager=toolgate") {
            self.violations.push(format!("{} {}", asked.method, asked.query));
        }
        let problems = self.schemas.problems(asked.kind, self.release.version(), object);
        if problems.is_empty() {
            return Ok(());
        }
        let text = format!("{} {} is invalid: {problems:?}", asked.method, asked.kind);
        self.violations.push(text.clone());
        Err(problem(422, "Invalid", &text, &json!({})))
    }

    fn post(&mut self, asked: &Asked<'_>) -> Said {
        let (kind, name) = (
            asked.kind,
            asked.body["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        );
        let details = json!({"name": name, "group": group_of(kind), "kind": kind});
        if asked.namespace != NAMESPACE {
            let text = format!("namespaces {:?} not found", asked.namespace);
            return problem(
                404,
                "NotFound",
                &text,
                &json!({"name": asked.namespace, "kind": "namespaces"}),
            );
        }
        let version = format!("{}/{}", group_of(kind), self.release.version());
        let is_whole = asked.body["apiVersion"] == version.as_str()
            && asked.body["kind"] == "SandboxClaim"
            && asked.body["metadata"]["namespace"] == NAMESPACE
            && asked.content == "application/json";
        if !is_whole {
            self.violations.push(format!("{} {}", asked.content, asked.body));
        }
        if let Err(refused) = self.check(asked, &asked.body) {
            return refused;
        }
        if self.get(kind, &name).is_some() {
            let text = format!("{kind}.{} {name:?} already exists", group_of(kind));
            return problem(409, "AlreadyExists", &text, &details);
        }
        (201, self.create(kind, asked.body.clone()))
    }

    fn patch(&mut self, asked: &Asked<'_>, name: &str, object: &Value) -> Said {
        if asked.content != "application/merge-patch+json" {
            self.violations.push(format!("a patch as {}", asked.content));
        }
        let given = &asked.body["metadata"]["resourceVersion"];
        if !given.is_string() {
            self.violations
                .push(format!("a patch of whatever is there: {}", asked.body));
        }
        if *given != object["metadata"]["resourceVersion"] {
            let text = format!(
                "Operation cannot be fulfilled on {} {name:?}: the object has been modified; please apply your changes to the latest \
                 version and try again",
                asked.kind
            );
            return problem(409, "Conflict", &text, &json!({"name": name, "kind": asked.kind}));
        }
        let mut patched = object.clone();
        merge(&mut patched, &asked.body);
        if let Err(refused) = self.check(asked, &patched) {
            return refused;
        }
        if patched == *object {
            self.violations
                .push(format!("a patch that changes nothing: {}", asked.body));
        }
        (200, self.change(asked.kind, name, |object| *object = patched))
    }

    fn remove(&mut self, asked: &Asked<'_>, name: &str, object: &Value) -> Said {
        let wanted = &asked.body["preconditions"]["uid"];
        if !wanted.is_string() || asked.body["propagationPolicy"] != "Foreground" {
            self.violations
                .push(format!("a deletion of whatever is there: {}", asked.body));
        }
        if object["metadata"]["deletionTimestamp"].is_string() {
            self.violations.push(format!("{name} is deleted twice"));
        }
        if *wanted != object["metadata"]["uid"] {
            let text = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: differs");
            return problem(409, "Conflict", &text, &json!({"name": name, "kind": asked.kind}));
        }
        (200, self.delete(asked.kind, name, true))
    }
}

struct Asked<'a> {
    method: &'a Method,
    kind: &'static str,
    namespace: &'a str,
    name: Option<&'a str>,
    query: &'a str,
    content: &'a str,
    body: Value,
}

/// Applies a patch (RFC 7386).
fn merge(into: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let fields = into.as_object_mut().unwrap();
    for (key, value) in changes {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Waits for something, for a while.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}")
}
