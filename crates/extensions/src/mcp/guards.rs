//! Who guards a server: what it says of that (RFC 9728), what the guard says of itself (RFC 8414), and which addresses may be asked
//! on their word.
//!
//! *Invariant:* an address that a server names is asked over TLS, or where the server itself is: at its own origin, or at another
//! port if it is on the loopback of this machine. So no token goes over a network without TLS that the server's own requests do not
//! go over. Elsewhere than there it must be of the public internet, or listed: a server cannot make this client ask around in its
//! network, nor on its host. Answers and what is read of them are bounded.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toolgate_model::Login;
use toolgate_web::header::{ACCEPT, HeaderMap, HeaderValue};
use toolgate_web::{Network, Reply, Request, RequestError, Url, is_loopback};

/// Bytes of the largest answer that is taken.
pub(super) const MAX_ANSWER: usize = 64 << 10;

/// Bytes of the longest scope that is kept.
const MAX_SCOPE: usize = 256;

/// How long one lookup may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// What a server says of who guards it.
#[derive(Default, Deserialize)]
pub(super) struct Resource {
    #[serde(default)]
    pub(super) resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    /// As drafts of the standard had it, and some servers still do.
    #[serde(default)]
    authorization_server: Option<String>,
}

impl Resource {
    /// Returns who guards it, the first one first.
    fn guards(&self) -> impl Iterator<Item = &String> {
        self.authorization_servers.iter().chain(&self.authorization_server)
    }
}

/// What was found at some places.
pub(super) struct Looked<T> {
    pub(super) said: Option<T>,
    /// Whether all were asked that had to be: another time, one that is away at the moment may say something else.
    pub(super) is_sure: bool,
}

/// What whoever gives out tokens says of itself.
#[derive(Deserialize)]
pub(super) struct Issuer {
    #[serde(default)]
    pub(super) issuer: Option<String>,
    pub(super) token_endpoint: String,
    #[serde(default)]
    registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
}

/// Says whether the server is guarded by somebody who lets no client register.
pub(super) async fn refuses_registration(server: &Url, challenge: &str, network: &Network) -> bool {
    let found = discover(server, challenge, None, network).await;
    found
        .issuer
        .is_some_and(|issuer| issuer.registration_endpoint.is_none())
}

/// Says whether two addresses are one but for a slash at the end.
pub(super) fn same_place(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Who guards a server.
pub(super) struct Guarded {
    /// What the server is called there.
    pub(super) resource: Option<String>,
    /// Where the guard is; none if it must not be asked.
    pub(super) guard: Option<Url>,
    /// What it says of itself.
    pub(super) issuer: Option<Issuer>,
    /// Whether that is all that there is to say, also another time.
    pub(super) is_sure: bool,
}

/// Finds out who guards a server. Of several that it names, the one that is known counts.
pub(super) async fn discover(server: &Url, challenge: &str, known: Option<&str>, network: &Network) -> Guarded {
    let resource = resource(server, challenge, network).await;
    let mut is_sure = resource.is_sure;
    let resource = resource.said.unwrap_or_default();
    let is_known = |guard: &&String| known.is_some_and(|known| same_place(guard, known));
    let guard = match resource.guards().find(is_known).or(resource.guards().next()) {
        Some(guard) => allowed(guard, server),
        // It is where the server is, at the root or below.
        None => {
            let known = known.and_then(|known| allowed(known, server));
            let known = known.filter(|known| known.origin() == server.origin());
            Some(known.unwrap_or_else(|| at_root(server, "/")))
        }
    };
    let mut issuer = None;
    if let Some(guard) = &guard {
        let about = about(guard, server, network).await;
        is_sure &= about.is_sure;
        issuer = about.said;
    }
    Guarded {
        resource: resource.resource,
        guard,
        issuer,
        is_sure,
    }
}

/// Finds out what a server says of who guards it (RFC 9728).
pub(super) async fn resource(server: &Url, challenge: &str, network: &Network) -> Looked<Resource> {
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
    first(places.into_iter().flatten(), is_of_it, server, network).await
}

/// Finds out what whoever gives out tokens says of itself (RFC 8414); `home` has named it.
pub(super) async fn about(guard: &Url, home: &Url, network: &Network) -> Looked<Issuer> {
    let path = guard.path().trim_end_matches('/');
    let oauth = "/.well-known/oauth-authorization-server";
    let openid = "/.well-known/openid-configuration";
    let places = [
        format!("{oauth}{path}"),
        format!("{openid}{path}"),
        format!("{path}{openid}"),
        oauth.to_owned(),
    ];
    let places = places.iter().map(|place| at_root(guard, place));
    first(places, |_| true, home, network).await
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
) -> Looked<T> {
    let mut asked: Vec<Url> = Vec::new();
    let mut is_sure = true;
    for place in places {
        if asked.contains(&place) {
            continue;
        }
        let request = asking(place.clone(), HeaderMap::new(), LOOKUP_TIMEOUT);
        asked.push(place);
        let Ok(reply) = ask(request, server, network).await else {
            is_sure = false;
            continue;
        };
        // A plain 500 is what some servers say of a path that they do not know.
        is_sure &= ![408, 429, 502, 503, 504].contains(&reply.status());
        if reply.is_success()
            && let Ok(body) = reply.body(MAX_ANSWER).await
            && let Ok(said) = serde_json::from_slice(&body)
            && is_of_use(&said)
        {
            return Looked {
                said: Some(said),
                is_sure,
            };
        }
    }
    Looked { said: None, is_sure }
}

pub(super) fn asking(url: Url, mut headers: HeaderMap, limit: Duration) -> Request {
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    Request::within(limit, url, headers)
}

/// Asks where the server is that was configured, wherever that is, or elsewhere by the rules of the network.
pub(super) async fn ask(request: Request, server: &Url, network: &Network) -> Result<Reply, RequestError> {
    if is_at_home(&request.url, server) {
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
    (named_in(challenge, "error").as_deref() == Some("insufficient_scope")).then(|| asked_for(challenge))
}

/// Returns what a server says that a token has to be good for.
pub(super) fn asked_for(challenge: &str) -> Vec<String> {
    let scopes = named_in(challenge, "scope").unwrap_or_default();
    bounded(scopes.split_whitespace().map(str::to_owned))
}

/// Returns the scopes that may be asked for: each once, of the form that RFC 6749 (3.3) gives them, and not too many.
pub(super) fn bounded(scopes: impl IntoIterator<Item = String>) -> Vec<String> {
    let is_fine = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    let mut kept: Vec<String> = Vec::new();
    for scope in scopes {
        let is_scope = (1..=MAX_SCOPE).contains(&scope.len()) && scope.bytes().all(is_fine);
        if is_scope && kept.len() < Login::MAX_SCOPES && !kept.contains(&scope) {
            kept.push(scope);
        }
    }
    kept
}

/// Reads an address that a server names, if it may be asked.
pub(super) fn allowed(named: &str, server: &Url) -> Option<Url> {
    let named = Url::parse(named).ok()?;
    let is_plain_at_home = named.scheme() == "http" && is_at_home(&named, server);
    (named.scheme() == "https" || is_plain_at_home).then_some(named)
}

/// Says whether an address is where a server is: at its own origin, or anywhere on the loopback host that it is on.
fn is_at_home(named: &Url, server: &Url) -> bool {
    named.host() == server.host() && (named.origin() == server.origin() || is_loopback(server))
}

pub(super) fn at_root(of: &Url, path: &str) -> Url {
    let mut url = of.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_server_names_addresses_over_tls_or_where_it_is_itself() {
        let check = |server: &str, named: &str, expected: (bool, bool)| {
            let server = url(server);
            let found = allowed(named, &server);
            let by_name = found.as_ref().is_some_and(|found| is_at_home(found, &server));
            assert_eq!((found.is_some(), by_name), expected, "{named} of {server}");
        };
        // Asked at all, and as one that the configuration names.
        let (never, by_rules, as_configured) = ((false, false), (true, false), (true, true));
        for (named, expected) in [
            ("https://login.example/", by_rules),
            ("http://tools.internal:8080/token", as_configured),
            ("http://tools.internal:9000/token", never),
            ("http://tools.internal/token", never),
            ("https://tools.internal/token", by_rules),
            ("https://tools.internal:8080/token", by_rules),
            ("http://169.254.169.254/latest", never),
            ("http://127.0.0.1/", never),
            ("https://127.0.0.1/", by_rules),
            ("http://tools.internal.example/", never),
            ("file:///etc/passwd", never),
            ("/token", never),
            ("", never),
        ] {
            check("http://tools.internal:8080/mcp", named, expected);
        }
        for (named, expected) in [
            ("https://tools.example/token", as_configured),
            ("https://tools.example:443/token", as_configured),
            ("https://tools.example:8443/token", by_rules),
            ("http://tools.example/token", never),
            ("http://tools.example:443/token", never),
        ] {
            check("https://tools.example/mcp", named, expected);
        }
        check("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token", as_configured);
        check("http://127.0.0.1:1/mcp", "http://127.0.0.2:1/token", never);
        check("http://[::1]:1/mcp", "http://[::1]:2/token", as_configured);
        check("http://localhost:1/mcp", "http://localhost:2/token", as_configured);
        check("http://localhost:1/mcp", "http://127.0.0.1:2/token", never);
        check(
            "http://localhost.example:1/mcp",
            "http://localhost.example:2/token",
            never,
        );
    }

    #[test]
    fn who_guards_a_server_is_read_in_both_forms() {
        let check = |said: &str, expected: &[&str]| {
            let said: Resource = serde_json::from_str(said).unwrap();
            assert_eq!(said.guards().collect::<Vec<_>>(), expected);
        };
        check(r#"{"authorization_servers": ["a", "b"]}"#, &["a", "b"]);
        check(r#"{"authorization_server": "c"}"#, &["c"]);
        check(
            r#"{"authorization_servers": ["a"], "authorization_server": "c"}"#,
            &["a", "c"],
        );
        check("{}", &[]);
    }

    #[test]
    fn scopes_that_are_asked_for_are_bounded() {
        let many = (0..1000).map(|at| format!("scope-{at}"));
        assert_eq!(bounded(many).len(), Login::MAX_SCOPES);
        let odd = [
            "a",
            "a",
            "",
            "b c",
            "d\u{1b}[2J",
            "e\"",
            "\u{e4}",
            "f:g/h.i",
            &"x".repeat(257),
        ];
        assert_eq!(bounded(odd.map(str::to_owned)), ["a", "f:g/h.i"]);
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
}
