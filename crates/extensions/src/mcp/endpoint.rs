//! A server that is reached by HTTP, of either kind, and the login there.
//!
//! *Invariant:* headers and tokens are sent to the configured server only. A login is renewed when it has to be, and a
//! server that is gone is noticed.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use toolgate_web::Network;

use super::dispatcher::{Disconnect, Dispatcher, log_in, shortened_line, with_causes};
use super::guards;
use super::login::{Credentials, LoginError};

/// Returns headers as they are sent.
///
/// # Errors
/// The first one that cannot be a header.
pub(super) fn headers(configured: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in configured {
        let parsed = name.parse::<HeaderName>().ok().zip(value.parse::<HeaderValue>().ok());
        let (name, mut value) =
            parsed.ok_or_else(|| format!("The header {name:?} of the configuration cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// A server that is reached by HTTP.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) client: Client,
    /// The way to who gives out tokens.
    pub(super) network: Network,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// The stored login, unless the headers have one.
    pub(super) credentials: Option<Arc<Credentials>>,
    pub(super) dispatcher: Arc<Dispatcher>,
}

impl Endpoint {
    /// Begins a request to the server.
    pub(super) fn request(&self, method: Method) -> RequestBuilder {
        self.request_to(method, self.url.clone())
    }

    /// Begins a request to an address of the server.
    pub(super) fn request_to(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url).headers(self.headers.clone())
    }

    /// Sends a request with the login of the moment, and once more if the server wants another one.
    ///
    /// # Errors
    /// It cannot be sent, or there is no login; the text says why.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, String> {
        let mut token = match &self.credentials {
            Some(credentials) => {
                let token = credentials.token(&self.network).await;
                token.map_err(|error| self.lose_login(error))?
            }
            None => None,
        };
        let mut is_renewed = false;
        loop {
            let mut attempt = request.try_clone().ok_or("the message cannot be sent twice")?;
            if let Some(token) = &token {
                attempt = attempt.bearer_auth(token);
            }
            let response = attempt.send().await.map_err(|error| self.not_sent(&error))?;
            let challenge = response.headers().get(WWW_AUTHENTICATE);
            let challenge = challenge
                .and_then(|challenge| challenge.to_str().ok())
                .unwrap_or_default()
                .to_owned();
            match response.status() {
                StatusCode::UNAUTHORIZED => {}
                StatusCode::FORBIDDEN if token.is_some() => {
                    let Some(lacking) = guards::lacking(&challenge) else {
                        return Ok(response);
                    };
                    let other = match (&self.credentials, is_renewed) {
                        (Some(credentials), false) => credentials.other_than(token.as_deref()).await,
                        (Some(_), true) | (None, _) => None,
                    };
                    if other.is_none() {
                        return Err(self.note_lack(lacking).await);
                    }
                    (token, is_renewed) = (other, true);
                    continue;
                }
                _ => return Ok(response),
            }
            if let (Some(credentials), false) = (&self.credentials, is_renewed) {
                let other = credentials
                    .instead_of(token.as_deref(), &challenge, &self.network)
                    .await;
                token = other.map_err(|error| self.lose_login(error))?;
                is_renewed = true;
                if token.is_some() {
                    continue;
                }
            }
            if self.logs_in_by_itself() {
                let problem = "The server refuses the token that this client was given";
                return Err(self.lose(Disconnect::Failed(problem.to_owned())));
            }
            return Err(self.lose(Disconnect::NeedsAuth { challenge }));
        }
    }

    /// Keeps what a login lacks, so that the next one has it, and returns what is wrong.
    async fn note_lack(&self, scopes: Vec<String>) -> String {
        let lacking = shortened_line(&scopes.join(" "));
        if self.logs_in_by_itself() {
            return format!(
                "The token of this client is not good for this (it lacks: {lacking}). Add that to `oauth.scope` in the \
                 server's entry of the configuration."
            );
        }
        if let Some(credentials) = &self.credentials {
            credentials.lacks(scopes).await;
        }
        let again = log_in(&self.dispatcher.about.server);
        format!("The login at the server is not good for this (it lacks: {lacking}). {again}")
    }

    /// A server that nobody can connect to is gone, and with it what it was asked.
    fn not_sent(&self, error: &reqwest::Error) -> String {
        let problem = with_causes(error);
        match error.is_connect() {
            true => self.lose(Disconnect::Failed(problem)),
            false => problem,
        }
    }

    fn lose_login(&self, error: LoginError) -> String {
        let text = error.to_string();
        self.lose(match error {
            LoginError::Over => Disconnect::NeedsAuth {
                challenge: String::new(),
            },
            LoginError::Unregistered => Disconnect::NeedsRegistration,
            LoginError::Failed(_) | LoginError::NoToken(_) => Disconnect::Failed(text),
        })
    }

    /// Gives the connection up, and returns what is wrong.
    fn lose(&self, loss: Disconnect) -> String {
        self.dispatcher.lose(loss);
        self.dispatcher.problem().unwrap_or_default()
    }

    /// Returns whether no person is needed for a login.
    fn logs_in_by_itself(&self) -> bool {
        self.credentials
            .as_ref()
            .is_some_and(|credentials| credentials.by_itself())
    }

    /// Returns whether the configuration logs in by itself.
    pub(super) fn logs_in(headers: &HeaderMap) -> bool {
        headers.contains_key(AUTHORIZATION)
    }
}
