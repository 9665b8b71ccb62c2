//! What getting tokens without a person needs of OAuth: a new token for a refresh token, or one for a client's own secret. (Making a
//! login is `authorization`.)
//!
//! Where tokens are given out is looked up each time (`guards`): who keeps logins keeps no such address. Servers of the protocol's
//! first revision with logins say nothing; theirs is `/token`. Who takes the secret of a client is not for the server to say: that
//! is configured.
//!
//! *Invariant:* a token is asked for the server alone, or for a place that it is in: a server cannot have one made that is good
//! elsewhere. A refresh token goes back to who gave it, as far as that is known. Answers are bounded. No secret is in an error.

use std::time::{Duration, SystemTime};

use serde::Deserialize;
use toolgate_model::{Login, OAuthClient};
use toolgate_web::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use toolgate_web::{Network, Request, Url};

use super::dispatcher::{shortened_line, with_causes};
use super::guards::{
    Guarded, MAX_ANSWER, about, allowed, ask, asked_for, asking, at_root, discover, resource, same_place,
};

/// How long a new token may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(15);

/// New tokens.
pub(super) struct Tokens {
    pub(super) access: String,
    /// None if the old one stays.
    pub(super) refresh: Option<String>,
    lasts: Option<Duration>,
}

impl Tokens {
    /// Returns when the token is no good any more; none if that is not known, or further away than a time can be.
    pub(super) fn expires(&self) -> Option<SystemTime> {
        SystemTime::now().checked_add(self.lasts?)
    }
}

/// Why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// The refresh token is no good, or the client gets no token; with the reason, if one was given.
    Refused(String),
    /// Whoever gives out tokens does not know this client.
    UnknownClient,
    /// Another time it may work; the text says why it did not.
    Failed(String),
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

/// Gets new tokens for a login that has a refresh token, from who gave it and nobody else. Where that one is may not be known for
/// the moment, which is not the end of the login.
pub(super) async fn renew(
    server: &Url,
    challenge: &str,
    (login, refresh): (&Login, &str),
    client: Option<&OAuthClient>,
    network: &Network,
) -> Result<Tokens, TokenError> {
    let guarded = discover(server, challenge, login.issuer.as_deref(), network).await;
    let is_sure = guarded.is_sure;
    let renewed = renew_at(guarded, server, (login, refresh), client, network).await;
    renewed.map_err(|error| match error {
        TokenError::Refused(_) | TokenError::UnknownClient if !is_sure => unsure(),
        error @ (TokenError::Refused(_) | TokenError::UnknownClient | TokenError::Failed(_)) => error,
    })
}

fn unsure() -> TokenError {
    TokenError::Failed("what the server says of its logins cannot be had at the moment".to_owned())
}

async fn renew_at(
    Guarded {
        resource,
        guard,
        issuer,
        is_sure,
    }: Guarded,
    server: &Url,
    (login, refresh): (&Login, &str),
    client: Option<&OAuthClient>,
    network: &Network,
) -> Result<Tokens, TokenError> {
    if let Some(known) = &login.issuer {
        let named = issuer.as_ref().and_then(|issuer| issuer.issuer.as_ref());
        // Anybody can say that he is who gave it: he has to be found where that one is.
        let is_there = guard.is_some_and(|guard| same_place(guard.as_str(), known));
        match named {
            None => return Err(TokenError::Failed("who gave the login cannot be found".to_owned())),
            Some(named) if named != known || !is_there => return Err(TokenError::Refused(String::new())),
            Some(_) => {}
        }
    }
    let (endpoint, methods) = match issuer {
        Some(issuer) => (issuer.token_endpoint, issuer.token_endpoint_auth_methods_supported),
        None if !is_sure => return Err(unsure()),
        None => (at_root(server, "/token").into(), Vec::new()),
    };
    let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh)];
    if let Some(resource) = &resource {
        form.push(("resource", resource));
    }
    tokens((&endpoint, &methods), form, client, server, network).await
}

/// Gets a token for a client that logs in by itself (RFC 6749, 4.4), from the configured issuer and nobody else. `challenge` is
/// what the server said when it refused; what the token is to be good for may be said there.
pub(super) async fn for_client(
    server: &Url,
    challenge: &str,
    (issuer, scopes): (&Url, &[String]),
    client: &OAuthClient,
    network: &Network,
) -> Result<Tokens, TokenError> {
    let failed = |problem: &str| TokenError::Failed(problem.to_owned());
    let about = about(issuer, issuer, network).await.said;
    let about = about.ok_or_else(|| failed("`oauth.issuer` does not say where tokens are given out (RFC 8414)"))?;
    // It must speak of itself (RFC 8414, 3.3), or the secret would go where somebody else's metadata says.
    if !about.issuer.is_some_and(|named| same_place(&named, issuer.as_str())) {
        return Err(failed("what is found at `oauth.issuer` speaks of another issuer"));
    }
    let resource = resource(server, challenge, network).await.said;
    let resource = resource.and_then(|said| said.resource);
    let resource = resource.unwrap_or_else(|| server.to_string());
    let wanted = match scopes.is_empty() {
        true => asked_for(challenge).join(" "),
        false => scopes.join(" "),
    };
    let mut form = vec![("grant_type", "client_credentials"), ("resource", &resource)];
    if !wanted.is_empty() {
        form.push(("scope", &wanted));
    }
    let endpoint = (
        about.token_endpoint.as_str(),
        &*about.token_endpoint_auth_methods_supported,
    );
    tokens(endpoint, form, Some(client), issuer, network).await
}

/// Asks for tokens at an address that `home`, or its guard, has named with the ways in which a client may say who it is.
async fn tokens(
    (endpoint, methods): (&str, &[String]),
    mut form: Vec<(&str, &str)>,
    client: Option<&OAuthClient>,
    home: &Url,
    network: &Network,
) -> Result<Tokens, TokenError> {
    let endpoint = allowed(endpoint, home)
        .ok_or_else(|| TokenError::Failed("the server names an address for tokens that is not asked".to_owned()))?;
    let mut headers = HeaderMap::new();
    if let Some(client) = client {
        identify(&mut headers, client, methods, &mut form);
    }
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-www-form-urlencoded"),
    );
    let request = Request {
        body: Some(encoded(&form).into()),
        ..asking(endpoint, headers, RENEWAL_TIMEOUT)
    };
    let reply = ask(request, home, network)
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
            _ => TokenError::Refused(shortened_line(&denied.error)),
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
        for lasts in ["1e18", "1e19", "1e300"] {
            let body = format!(r#"{{"access_token": "a", "expires_in": {lasts}}}"#);
            // What no clock will show is no time, and nothing to stumble over.
            let tokens = granted(body.as_bytes()).ok().unwrap();
            assert!(
                tokens.expires().is_none_or(|expires| expires > SystemTime::now()),
                "{lasts}"
            );
        }
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
