//! What renewing a login needs of OAuth: a new token for a refresh token, and whether a server lets clients register. (Making a
//! login is `authorization`.)
//!
//! Where tokens are given out is looked up at the server each time (RFC 9728, RFC 8414): who keeps logins keeps no such
//! address. Servers of the protocol's first revision with logins say nothing; theirs is `/token`.
//!
//! *Invariant:* an address that a server names is asked only over TLS, or at the host that was configured; one at another
//! host must be of the public internet, or listed: a server cannot make this client ask around in its network. A token is asked
//! for the server alone, or for a place that it is in: a server cannot have one made that is good elsewhere. A
//! refresh token goes back to who gave it, as far as that is known. Answers are bounded. No secret is in an error.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toolgate_model::{Login, OAuthClient};
use toolgate_web::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use toolgate_web::{Network, Reply, Request, RequestError, Url};

use super::dispatcher::with_causes;

/// Bytes of the largest answer that is taken.
const MAX_ANSWER: usize = 64 << 10;

/// Bytes of the longest scope that is kept, and how many are.
const MAX_SCOPE: usize = 256;
const MAX_SCOPES: usize = 32;

/// How long one lookup may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a new token may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(15);

/// New tokens.
pub(super) struct Tokens {
    pub(super) access: String,
    /// None if the old one stays.
    pub(super) refresh: Option<String>,
    pub(super) lasts: Option<Duration>,
}

/// Why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// The refresh token is no good.
    Refused,
    /// Whoever gives out tokens does not know this client.
    UnknownClient,
    /// Another time it may work; the text says why it did not.
    Failed(String),
}

/// What a server says of who guards it.
#[derive(Default, Deserialize)]
struct Resource {
    #[serde(default)]
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
}

/// What whoever gives out tokens says of itself.
#[derive(Deserialize)]
struct Issuer {
    #[serde(default)]
    issuer: Option<String>,
    token_endpoint: String,
    #[serde(default)]
    registration_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    expires_in: Option<f64>,
}

#[derive(Default, Deserialize)]
struct Denied {
    #[serde(default)]
    error: String,
}

/// Gets new tokens for a login that has a refresh token, from who gave it and nobody else.
pub(super) async fn renew(
    server: &Url,
    challenge: &str,
    (login, refresh): (&Login, &str),
    client: Option<&OAuthClient>,
    network: &Network,
) -> Result<Tokens, TokenError> {
    let Guarded {
        resource,
        guard,
        issuer,
    } = discover(server, challenge, network).await;
    if let Some(known) = &login.issuer {
        let named = issuer.as_ref().and_then(|issuer| issuer.issuer.as_ref());
        // Anybody can say that he is who gave it: he has to be found where that one is.
        let is_there = guard.is_some_and(|guard| same_place(guard.as_str(), known));
        match named {
            None => return Err(TokenError::Failed("who gave the login cannot be found".to_owned())),
            Some(named) if named != known || !is_there => return Err(TokenError::Refused),
            Some(_) => {}
        }
    }
    let (endpoint, methods) = match issuer {
        Some(issuer) => (issuer.token_endpoint, issuer.token_endpoint_auth_methods_supported),
        None => (at_root(server, "/token").into(), Vec::new()),
    };
    let endpoint = allowed(&endpoint, server)
        .ok_or_else(|| TokenError::Failed("the server names an address for tokens that is not asked".to_owned()))?;
    let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh)];
    if let Some(resource) = &resource {
        form.push(("resource", resource));
    }
    let mut headers = HeaderMap::new();
    if let Some(client) = client {
        identify(&mut headers, client, &methods, &mut form);
    }
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-www-form-urlencoded"),
    );
    let request = Request {
        body: Some(encoded(&form).into()),
        ..asking(endpoint, headers, RENEWAL_TIMEOUT)
    };
    let reply = ask(request, server, network)
        .await
        .map_err(|error| TokenError::Failed(with_causes(&error)))?;
    let status = reply.status();
    let is_success = reply.is_success();
    let body = reply
        .body(MAX_ANSWER)
        .await
        .map_err(|_| TokenError::Failed(format!("HTTP {status}, and no answer")))?;
    if !is_success {
        let denied: Denied = serde_json::from_slice(&body).unwrap_or_default();
        let may_pass = (500..600).contains(&status) || [408, 429].contains(&status);
        return Err(match denied.error.as_str() {
            "invalid_client" | "unauthorized_client" => TokenError::UnknownClient,
            _ if may_pass => TokenError::Failed(format!("HTTP {status}")),
            _ => TokenError::Refused,
        });
    }
    granted(&body)
}

/// Reads what holds tokens.
pub(super) fn granted(body: &[u8]) -> Result<Tokens, TokenError> {
    // What cannot be read may hold the token.
    let granted: Granted =
        serde_json::from_slice(body).map_err(|_| TokenError::Failed("the answer holds no token".to_owned()))?;
    if granted
        .token_type
        .is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer"))
    {
        return Err(TokenError::Failed(
            "the token is of a kind that is not known".to_owned(),
        ));
    }
    // Whatever cannot be a header is no token.
    if granted.access_token.is_empty() || HeaderValue::from_str(&granted.access_token).is_err() {
        return Err(TokenError::Failed("the answer holds no token".to_owned()));
    }
    Ok(Tokens {
        access: granted.access_token,
        refresh: granted.refresh_token.filter(|refresh| !refresh.is_empty()),
        lasts: granted
            .expires_in
            .and_then(|lasts| Duration::try_from_secs_f64(lasts).ok()),
    })
}

/// Says whether the server is guarded by somebody who lets no client register.
pub(super) async fn refuses_registration(server: &Url, challenge: &str, network: &Network) -> bool {
    let found = discover(server, challenge, network).await;
    found
        .issuer
        .is_some_and(|issuer| issuer.registration_endpoint.is_none())
}

/// Says whether two addresses are one but for a slash at the end.
fn same_place(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Who guards a server.
struct Guarded {
    /// What the server is called there.
    resource: Option<String>,
    /// Where the guard is; none if it must not be asked.
    guard: Option<Url>,
    /// What it says of itself.
    issuer: Option<Issuer>,
}

/// Finds out who guards a server.
async fn discover(server: &Url, challenge: &str, network: &Network) -> Guarded {
    let path = server.path().trim_end_matches('/');
    let known = "/.well-known/oauth-protected-resource";
    let named = named_in(challenge, "resource_metadata").and_then(|named| allowed(&named, server));
    let places = [
        named,
        Some(at_root(server, &format!("{known}{path}"))),
        Some(at_root(server, known)),
    ];
    // What speaks of another server says nothing of this one: a token would be asked for that one, and handed to this one.
    let is_of_it = |said: &Resource| said.resource.as_ref().is_none_or(|named| covers(named, server));
    let resource = first(places.into_iter().flatten(), is_of_it, server, network).await;
    let resource = resource.unwrap_or_default();
    let guard = match resource.authorization_servers.first() {
        Some(guard) => allowed(guard, server),
        None => Some(at_root(server, "/")),
    };
    let Some(guard) = guard else {
        return Guarded {
            resource: resource.resource,
            guard: None,
            issuer: None,
        };
    };
    let path = guard.path().trim_end_matches('/');
    let oauth = "/.well-known/oauth-authorization-server";
    let openid = "/.well-known/openid-configuration";
    let places = [
        format!("{oauth}{path}"),
        format!("{openid}{path}"),
        format!("{path}{openid}"),
    ];
    let places = places.iter().map(|place| at_root(&guard, place));
    let issuer = first(places, |_| true, server, network).await;
    Guarded {
        resource: resource.resource,
        guard: Some(guard),
        issuer,
    }
}

/// Says whether what is named as a resource is the server, or all of a place that the server is in (RFC 9728, 3.3).
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else {
        return false;
    };
    let rest = server.path().strip_prefix(resource.path().trim_end_matches('/'));
    resource.scheme() == server.scheme()
        && resource.host() == server.host()
        && resource.port_or_known_default() == server.port_or_known_default()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns what the first of some places says that says something of use.
async fn first<T: DeserializeOwned>(
    places: impl Iterator<Item = Url>,
    is_of_use: impl Fn(&T) -> bool,
    server: &Url,
    network: &Network,
) -> Option<T> {
    let mut asked: Vec<Url> = Vec::new();
    for place in places {
        if asked.contains(&place) {
            continue;
        }
        let request = asking(place.clone(), HeaderMap::new(), LOOKUP_TIMEOUT);
        asked.push(place);
        let Ok(reply) = ask(request, server, network).await else {
            continue;
        };
        if reply.is_success()
            && let Ok(body) = reply.body(MAX_ANSWER).await
            && let Ok(said) = serde_json::from_slice(&body)
            && is_of_use(&said)
        {
            return Some(said);
        }
    }
    None
}

fn asking(url: Url, mut headers: HeaderMap, limit: Duration) -> Request {
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    Request::within(limit, url, headers)
}

/// Asks at the host that was configured, wherever that is, or at another one of the public internet.
async fn ask(request: Request, server: &Url, network: &Network) -> Result<Reply, RequestError> {
    if request.url.host() == server.host() {
        network.request_named_itself(request).await
    } else {
        network.request(request).await
    }
}

/// Returns a parameter of a challenge.
fn named_in(challenge: &str, parameter: &str) -> Option<String> {
    let mut parts = challenge.match_indices(parameter);
    let rest = parts.find_map(|(at, _)| {
        let is_whole = challenge[..at].ends_with([' ', ',']);
        let rest = challenge[at + parameter.len()..].strip_prefix('=');
        rest.filter(|_| is_whole)
    })?;
    let named = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split([',', ' ']).next()?,
    };
    Some(named.to_owned())
}

/// Returns what a login lacks, by what a server said when it refused; none if that is not why.
pub(super) fn lacking(challenge: &str) -> Option<Vec<String>> {
    (named_in(challenge, "error").as_deref() == Some("insufficient_scope")).then(|| {
        let scopes = named_in(challenge, "scope").unwrap_or_default();
        let short = scopes.split_whitespace().filter(|scope| scope.len() <= MAX_SCOPE);
        short.take(MAX_SCOPES).map(str::to_owned).collect()
    })
}

/// Reads an address that a server names, if it may be asked.
pub(super) fn allowed(named: &str, server: &Url) -> Option<Url> {
    let named = Url::parse(named).ok()?;
    let is_at_home = named.scheme() == "http" && named.host() == server.host();
    (named.scheme() == "https" || is_at_home).then_some(named)
}

fn at_root(of: &Url, path: &str) -> Url {
    let mut url = of.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Says who asks, in the way that is wanted.
fn identify<'f>(
    headers: &mut HeaderMap,
    client: &'f OAuthClient,
    methods: &[String],
    form: &mut Vec<(&'f str, &'f str)>,
) {
    let knows = |method: &str| methods.iter().any(|known| known == method);
    match &client.secret {
        Some(secret) if knows("client_secret_basic") => {
            headers.insert(AUTHORIZATION, basic(&client.id, secret));
        }
        Some(secret) if methods.is_empty() || knows("client_secret_post") || !knows("none") => {
            form.extend([("client_id", client.id.as_str()), ("client_secret", secret.as_str())]);
        }
        Some(_) | None => {
            form.push(("client_id", client.id.as_str()));
        }
    }
}

/// Both parts are encoded first (RFC 6749, 2.3.1).
fn basic(id: &str, secret: &str) -> HeaderValue {
    use base64::Engine as _;
    let part = |text: &str| encoded(&[("", text)]).trim_start_matches('=').to_owned();
    let pair = format!("{}:{}", part(id), part(secret));
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    let header = HeaderValue::from_str(&format!("Basic {pair}"));
    let mut header = header.expect("the alphabet of base64 is one of headers");
    header.set_sensitive(true);
    header
}

fn encoded(form: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form/").expect("this address is one");
    url.query_pairs_mut().extend_pairs(form);
    url.query().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_server_names_addresses_over_tls_or_at_its_host() {
        let server = url("http://tools.internal:8080/mcp");
        for (named, expected) in [
            ("https://login.example/", true),
            ("http://tools.internal:9000/token", true),
            ("http://169.254.169.254/latest", false),
            ("http://127.0.0.1/", false),
            ("http://tools.internal.example/", false),
            ("file:///etc/passwd", false),
            ("/token", false),
            ("", false),
        ] {
            assert_eq!(allowed(named, &server).is_some(), expected, "{named}");
        }
    }

    #[test]
    fn a_server_is_no_other_resource() {
        let check = |resource: &str, server: &str, expected: bool| {
            assert_eq!(covers(resource, &url(server)), expected, "{resource} for {server}");
        };
        for (resource, expected) in [
            ("https://a.example/x/mcp", true),
            ("https://A.example:443/x/mcp/", true),
            ("https://a.example:443/x/", true),
            ("https://a.example/x", true),
            ("https://a.example", true),
            ("https://a.example/x/m", false),
            ("https://a.example/x/mcp/more", false),
            ("https://a.example/other", false),
            ("https://a.example:8443/x/mcp", false),
            ("http://a.example/x/mcp", false),
            ("https://b.example/x/mcp", false),
            ("https://bank.example/", false),
            ("a.example", false),
            ("", false),
        ] {
            check(resource, "https://a.example/x/mcp", expected);
        }
        check("http://localhost:8080/", "http://localhost:8080", true);
        check("http://localhost/", "http://localhost:8080", false);
    }

    #[test]
    fn a_challenge_names_an_address() {
        let check = |challenge: &str, expected: Option<&str>| {
            assert_eq!(
                named_in(challenge, "resource_metadata").as_deref(),
                expected,
                "{challenge}"
            );
        };
        check(
            "Bearer resource_metadata=\"https://a/b,c\", scope=\"x\"",
            Some("https://a/b,c"),
        );
        check(
            "Bearer scope=x, resource_metadata=https://a/b, realm=y",
            Some("https://a/b"),
        );
        check("Bearer", None);
        check("Bearer x_resource_metadata=https://a", None);
        check("", None);
    }

    #[test]
    fn a_refusal_says_what_a_login_lacks() {
        let check = |challenge: &str, expected: Option<&[&str]>| {
            let expected = expected.map(|scopes| scopes.iter().map(ToString::to_string).collect());
            assert_eq!(lacking(challenge), expected, "{challenge}");
        };
        check(
            "Bearer scope=\"a b\", resource_metadata=\"https://a\", error=\"insufficient_scope\"",
            Some(&["a", "b"]),
        );
        check("Bearer error=insufficient_scope", Some(&[]));
        check("Bearer error=\"invalid_token\", scope=\"a\"", None);
        check("", None);
    }

    #[test]
    fn a_grant_holds_a_token() {
        let check = |body: &str, expected: Option<(&str, Option<&str>, Option<u64>)>| {
            let found = granted(body.as_bytes());
            let found = found.as_ref().ok().map(|tokens| {
                let lasts = tokens.lasts.map(|lasts| lasts.as_secs());
                (tokens.access.as_str(), tokens.refresh.as_deref(), lasts)
            });
            assert_eq!(found, expected, "{body}");
        };
        check(r#"{"access_token": "a"}"#, Some(("a", None, None)));
        check(
            r#"{"access_token": "a", "token_type": "bearer", "expires_in": 60, "refresh_token": "r"}"#,
            Some(("a", Some("r"), Some(60))),
        );
        check(r#"{"access_token": "a", "expires_in": -1}"#, Some(("a", None, None)));
        check(r#"{"access_token": "a", "token_type": "mac"}"#, None);
        check(r#"{"access_token": "a\r\nX: y"}"#, None);
        check(r#"{"access_token": ""}"#, None);
        check("{}", None);
        check("secret", None);
    }

    #[test]
    fn a_client_says_who_it_is_as_it_is_wanted() {
        let secret = OAuthClient {
            id: "me".to_owned(),
            secret: Some("a:b c".to_owned()),
        };
        let public = OAuthClient {
            secret: None,
            ..secret.clone()
        };
        let check = |client: &OAuthClient, methods: &[&str], expected: (Option<&str>, &str)| {
            let methods: Vec<String> = methods.iter().map(ToString::to_string).collect();
            let (mut headers, mut form) = (HeaderMap::new(), Vec::new());
            identify(&mut headers, client, &methods, &mut form);
            let header = headers.get(AUTHORIZATION).map(|header| header.to_str().unwrap());
            assert_eq!((header, encoded(&form).as_str()), expected, "{methods:?}");
        };
        check(&public, &["client_secret_basic"], (None, "client_id=me"));
        check(&secret, &[], (None, "client_id=me&client_secret=a%3Ab+c"));
        check(
            &secret,
            &["client_secret_post"],
            (None, "client_id=me&client_secret=a%3Ab+c"),
        );
        check(&secret, &["none"], (None, "client_id=me"));
        check(
            &secret,
            &["client_secret_post", "client_secret_basic"],
            (Some("Basic bWU6YSUzQWIrYw=="), ""),
        );
    }
}
