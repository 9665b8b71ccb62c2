//! The only HTTP client: which servers may be reached, and what every request of the service has in common.
//!
//! There are two kinds of servers. What a model or a page names is reached if it is of the public internet, or if the
//! operator lists it ([`Settings::allow`]). What the operator named in the configuration is reached wherever it is, by a client that
//! reaches nothing else ([`Network::client_to`]).
//!
//! *Invariants:* a leaf. An address in a URL is judged before anything is sent, the addresses of a name when the
//! connection to one of them is made, and the other end of the connection once more when it has answered. No redirect
//! leads to another server unless somebody asks for it, and then it is judged like any request. No proxy is used unless
//! the operator says so; where one is, it resolves the names. No connection is kept for later, and connecting takes
//! bounded time. How long an answer may take and how large it may be is for whoever asks: a stream of events has no end.
//! It knows neither tools nor permissions, and nothing of what is fetched.
//!
//! The files, in reading order:
//!
//! - `address`, `allow`: which addresses are of the public internet, and which others the operator lists.
//! - `resolve`, `proxy`: the addresses of a name, judged as they are used; the proxy that requests go through.
//! - `exchange`: one request and its answer, redirects included.
//! - `server`: the client of one server that has authorities of its own.
//! - [`html`]: HTML as Markdown or as text; pure.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod address;
mod allow;
mod exchange;
pub mod html;
mod proxy;
mod resolve;
mod server;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder};
use tokio::sync::OnceCell;
use tokio::time::timeout_at;

pub use reqwest::{Method, Url, header};

pub use self::allow::{Allowed, is_loopback};
pub use self::exchange::{Reply, Request, RequestError};
pub use self::proxy::Proxy;
pub use self::server::Server;

use self::allow::{Allow, host_of};
use self::proxy::{Gate, is_local_name};
use self::resolve::{Lookup, Resolver, Scope};

/// How long a connection may take to come about.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How often a silent connection is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

const MAX_REDIRECTS: usize = 5;

/// Bytes of the headers of an answer. Those of HTTP/1.1 are bounded in a similar way already.
const MAX_HEADER_BYTES: u32 = 256 << 10;

/// Ports at which other things than HTTP are spoken, to which a request could look like commands: those that browsers
/// refuse as well.
const NOT_OF_THE_WEB: [u16; 40] = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 53, 69, 79, 110, 111, 119, 123, 135, 137, 139, 143, 161,
    179, 389, 445, 465, 514, 515, 587, 636, 993, 995, 2049, 5060, 6667,
];

/// What the operator says of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What may be reached although it is not of the public internet.
    pub allow: Vec<Allowed>,
    /// What requests go through.
    pub proxy: Proxy,
}

/// Why there is no client.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot set up HTTP: {0}")]
pub struct ClientError(String);

/// The way to other servers.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    allow: Arc<Allow>,
    proxy: Proxy,
    gate: Gate,
    lookup: Lookup,
    /// Clients are made when they are needed first: each reads the machine's certificates.
    public: OnceCell<Client>,
    listed: OnceCell<Client>,
    proxied: OnceCell<Client>,
    /// By the origin of their server. Never held across an await.
    named: Mutex<BTreeMap<(String, Redirects), Client>>,
}

/// What becomes of a redirect that stays at the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Redirects {
    /// It is followed.
    Follow,
    /// It is an answer like others.
    Answer,
}

/// By which client a URL is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Its name must lead to what is public.
    Public,
    /// Its name is listed.
    Listed,
    /// A proxy resolves its name.
    Proxied,
}

/// How a program that brings a client of its own may reach one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// At these addresses, and at no others that the name of the server may lead to.
    Direct(Vec<IpAddr>),
    /// By way of this proxy, which resolves the name. The address may hold a password.
    Proxy(Url),
}

impl Network {
    /// Makes the way to other servers; nothing is connected to yet.
    pub fn new(settings: Settings) -> Self {
        Self::with_lookup(settings, resolve::system())
    }

    fn with_lookup(settings: Settings, lookup: Lookup) -> Self {
        Self(Arc::new(Inner {
            allow: Arc::new(Allow::new(settings.allow)),
            gate: Gate::new(&settings.proxy),
            proxy: settings.proxy,
            lookup,
            public: OnceCell::new(),
            listed: OnceCell::new(),
            proxied: OnceCell::new(),
            named: Mutex::default(),
        }))
    }

    /// Asks a server that a model or a page named, and returns when it begins to answer. A redirect is an answer.
    ///
    /// # Errors
    /// The server may not be reached, cannot be, or does not answer in time.
    pub async fn request(&self, request: Request) -> Result<Reply, RequestError> {
        let route = self.route(&request.url)?;
        let client = self.client(route).await?;
        let reply = send(&client, method_of(&request), request).await?;
        if route == Route::Public {
            self.check_peer(&reply)?;
        }
        Ok(reply)
    }

    /// Says how a server that a client of the service has named may be reached by a program that is given the addresses: it must not
    /// look for others, and must follow no redirects.
    ///
    /// # Errors
    /// The server may not be reached, or its name leads nowhere.
    pub async fn way_to(&self, url: &Url) -> Result<Way, RequestError> {
        let route = self.route(url)?;
        let host = host_of(url).ok_or(RequestError::Scheme)?;
        if route == Route::Proxied
            && let Some(proxy) = self.0.proxy.of(url)
        {
            return Ok(Way::Proxy(proxy));
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Way::Direct(vec![address]));
        }
        let unreachable = |cause: String| RequestError::Unreachable {
            host: host.clone(),
            cause,
        };
        let found = tokio::time::timeout(CONNECT_LIMIT, (self.0.lookup)(host.clone())).await;
        let found = found.map_err(|_| RequestError::TimedOut)?;
        let found = found.map_err(|error| unreachable(error.to_string()))?;
        let kept = match route {
            Route::Public => resolve::public(&self.0.allow, found).map_err(|misled| RequestError::Refused {
                host: host.clone(),
                kind: misled.kind,
            })?,
            Route::Listed | Route::Proxied => found,
        };
        match kept.is_empty() {
            true => Err(unreachable("the name leads nowhere".to_owned())),
            false => Ok(Way::Direct(kept)),
        }
    }

    /// Asks a server that the operator named in the configuration. A redirect is an answer, too.
    ///
    /// # Errors
    /// The server cannot be reached, or does not answer in time.
    pub async fn request_named(&self, request: Request) -> Result<Reply, RequestError> {
        check_form(&request.url)?;
        let client = self.client_to(&request.url).await?;
        send(&client, method_of(&request), request).await
    }

    /// As [`Self::request_named`], of a server that must answer itself: no redirect is followed, also not to the same server.
    ///
    /// # Errors
    /// As [`Self::request_named`].
    pub async fn request_named_itself(&self, request: Request) -> Result<Reply, RequestError> {
        check_form(&request.url)?;
        let client = self.named_client(&request.url, Redirects::Answer).await?;
        send(&client, method_of(&request), request).await
    }

    /// As [`Self::request_named`], by PUT: for bytes that have their place at a server which the operator named, or who the operator named
    /// did. A URL with a permission in it is no more than that: it is repeated in no error.
    ///
    /// # Errors
    /// As [`Self::request_named`]. A server that refuses may hang up before it has read all, which is `Unreachable`.
    pub async fn put_named(&self, request: Request) -> Result<Reply, RequestError> {
        check_form(&request.url)?;
        let client = self.client_to(&request.url).await?;
        send(&client, Method::PUT, request).await
    }

    /// Returns the client for a server that the operator named in the configuration, wherever that is. It reaches this
    /// server only: it follows redirects that stay there, and resolves no other name.
    ///
    /// # Errors
    /// The machine's root certificates cannot be used.
    pub async fn client_to(&self, server: &Url) -> Result<Client, ClientError> {
        self.named_client(server, Redirects::Follow).await
    }

    async fn named_client(&self, server: &Url, redirects: Redirects) -> Result<Client, ClientError> {
        let origin = (server.origin().ascii_serialization(), redirects);
        let made_before = self.0.named.lock().get(&origin).cloned();
        if let Some(client) = made_before {
            return Ok(client);
        }
        let is_proxied = self.0.gate.takes(server);
        let scope = match host_of(server) {
            Some(_) if is_proxied => Scope::Everything,
            Some(host) => Scope::Names(vec![host]),
            None => Scope::Names(Vec::new()),
        };
        let policy = match redirects {
            Redirects::Follow => Policy::custom(follow),
            Redirects::Answer => Policy::none(),
        };
        let client = self.build(scope, is_proxied, policy).await?;
        let mut named = self.0.named.lock();
        Ok(named.entry(origin).or_insert(client).clone())
    }

    /// Says how a URL may be asked for.
    fn route(&self, url: &Url) -> Result<Route, RequestError> {
        check_form(url)?;
        let inner = &self.0;
        let host = host_of(url).ok_or(RequestError::Scheme)?;
        let port = url.port_or_known_default();
        if inner.allow.names(&host, port) {
            let is_proxied = inner.gate.takes(url);
            return Ok(if is_proxied { Route::Proxied } else { Route::Listed });
        }
        if let Some(port) = port.filter(|port| NOT_OF_THE_WEB.contains(port)) {
            return Err(RequestError::Port(port));
        }
        let is_proxied = inner.gate.takes(url);
        // A resolver is not asked about an address, and a proxy tells nobody where a name leads.
        let refused = match host.parse::<IpAddr>() {
            Ok(address) => inner.allow.refuses(address),
            Err(_) if is_proxied && is_local_name(&host) => Some("a network of its own"),
            Err(_) => None,
        };
        match refused {
            Some(kind) => Err(RequestError::Refused { host, kind }),
            None if is_proxied => Ok(Route::Proxied),
            None => Ok(Route::Public),
        }
    }

    async fn client(&self, route: Route) -> Result<Client, ClientError> {
        let inner = &self.0;
        let (made, scope) = match route {
            Route::Public => (&inner.public, Scope::Public(Arc::clone(&inner.allow))),
            Route::Listed => (&inner.listed, Scope::Everything),
            Route::Proxied => (&inner.proxied, Scope::Everything),
        };
        let make = || self.build(scope, route == Route::Proxied, Policy::none());
        made.get_or_try_init(make).await.cloned()
    }

    async fn build(&self, scope: Scope, is_proxied: bool, redirects: Policy) -> Result<Client, ClientError> {
        let mut builder = common().redirect(redirects);
        if is_proxied {
            let rules = self.0.proxy.client_rules();
            for proxy in rules.map_err(|error| ClientError(error.to_string()))? {
                builder = builder.proxy(proxy);
            }
        }
        let resolver = Resolver::new(Arc::clone(&self.0.lookup), scope);
        let builder = builder.dns_resolver(resolver);
        // The machine's certificates are read from files.
        let built = tokio::task::spawn_blocking(move || builder.build()).await;
        let built = built.map_err(|error| ClientError(error.to_string()))?;
        built.map_err(|error| ClientError(exchange::innermost(&error)))
    }

    /// Looks at the other end of the connection, in case a way was found around the checks before it.
    fn check_peer(&self, reply: &Reply) -> Result<(), RequestError> {
        let peer = reply.peer().ok_or_else(|| RequestError::Unreachable {
            host: reply.host(),
            cause: "it is not known where the answer comes from".to_owned(),
        })?;
        match self.0.allow.refuses(peer) {
            Some(kind) => Err(RequestError::Refused {
                host: reply.host(),
                kind,
            }),
            None => Ok(()),
        }
    }
}

/// Begins a client: what all have in common.
fn common() -> ClientBuilder {
    // An error says that there is a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("toolgate/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .connect_timeout(CONNECT_LIMIT)
        .tcp_keepalive(KEEPALIVE)
        // A connection taken up again costs a stall of 40 ms with servers that delay their acknowledgements.
        .pool_max_idle_per_host(0)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .referer(false)
}

/// Checks what no server and no configuration makes good.
fn check_form(url: &Url) -> Result<(), RequestError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(RequestError::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(RequestError::Credentials);
    }
    Ok(())
}

fn method_of(request: &Request) -> Method {
    if request.body.is_some() {
        Method::POST
    } else {
        Method::GET
    }
}

async fn send(client: &Client, method: Method, request: Request) -> Result<Reply, RequestError> {
    let Request {
        url,
        headers,
        body,
        deadline,
    } = request;
    let mut builder = client.request(method, url.clone());
    if let Some(body) = body {
        builder = builder.body(body);
    }
    let sent = timeout_at(deadline, builder.headers(headers).send()).await;
    match sent.map_err(|_| RequestError::TimedOut)? {
        Ok(response) => Ok(Reply::new(response, deadline)),
        Err(error) => Err(exchange::failed(&url, &error)),
    }
}

/// Headers of a configuration hold secrets under any name, so they must not follow to another server.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let same = attempt.previous().first().map(reqwest::Url::origin) == Some(attempt.url().origin());
    if same && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

#[cfg(test)]
mod tests;
