//! Making a login: finding out who guards a server, telling him of this client, sending a person there, and taking the tokens
//! that he gives for what the person brings back.
//!
//! The protocol is rmcp's: authorization code with PKCE, discovery (RFC 9728, RFC 8414), registration (RFC 7591) or a document
//! that describes the client, and the checks of who has answered (RFC 9207). What it asks for is sent from here.
//!
//! *Invariant:* an address that a server names is asked by the rules of `guards`, and the page that a person is sent to is one by
//! these rules, too. Redirects are answers, which rmcp follows as new requests, by the same rules. What is asked for is bounded.
//! rmcp's own words about it reach no log: there are codes and tokens in them.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, OAuthClientConfig, OAuthHttpClient, OAuthHttpClientError,
    OAuthHttpClientFuture, OAuthHttpRequest,
};
use tokio::time::Instant;
use toolgate_model::{Login, OAuthClient};
use toolgate_web::{Network, Request, Url};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::dispatcher::{shortened_line, with_causes};
use super::guards;
use super::oauth::{self, TokenError};

/// Bytes of the largest answer that is taken.
const MAX_ANSWER: usize = 256 << 10;

/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// What a client is called where it registers.
const NAME: &str = "Toolgate";

/// What a login is made with.
#[derive(Clone, Default)]
pub struct Wish {
    /// The server's address.
    pub url: String,
    /// What it said when it refused.
    pub challenge: String,
    /// The client that is registered there.
    pub client: Option<OAuthClient>,
    /// The address of a document that describes the client.
    pub document: Option<String>,
    /// What the login is to be good for; none for what the server says.
    pub scopes: Vec<String>,
    /// Where the browser is to come back to.
    pub callback: String,
}

/// Why there is no login.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// There is no client, and none can be registered.
    #[error(
        "the server lets no client register by itself: register one there and set `oauth.clientId` in its entry of the configuration"
    )]
    NeedsRegistration,
    /// Whoever gives out logins refused, or the person did.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// Something is not as it has to be.
    #[error("{0}")]
    Failed(String),
}

impl From<AuthError> for AuthorizationError {
    fn from(error: AuthError) -> Self {
        Self::Failed(with_causes(&error))
    }
}

/// A login that a person is to agree to.
pub struct Authorization {
    manager: AuthorizationManager,
    client: OAuthClient,
    issuer: Option<String>,
    address: String,
    state: String,
    scopes: Vec<String>,
}

impl Authorization {
    /// Finds out where a person has to go.
    ///
    /// # Errors
    /// Nobody can log in there in a way that is known here; the text says why.
    pub async fn begin(wish: Wish, network: &Network) -> Result<Self, AuthorizationError> {
        let begun = Self::begin_aloud(wish, network.clone());
        begun.with_subscriber(NoSubscriber::default()).await
    }

    async fn begin_aloud(wish: Wish, network: Network) -> Result<Self, AuthorizationError> {
        let server = Url::parse(&wish.url).map_err(|error| AuthorizationError::Failed(with_causes(&error)))?;
        let sender = Arc::new(Sender {
            server: server.clone(),
            network,
        });
        let mut manager = AuthorizationManager::new_with_oauth_http_client(server.clone(), sender).await?;
        let challenge = Some(wish.challenge.as_str()).filter(|challenge| !challenge.is_empty());
        let found = manager.resolve_metadata_from_challenge(challenge).await?.metadata;
        let issuer = found.issuer.clone();
        let registers = found.registration_endpoint.is_some();
        let document_key = "client_id_metadata_document_supported";
        let takes_documents = found
            .additional_fields
            .get(document_key)
            .is_some_and(|takes| *takes == true);
        manager.set_metadata(found);
        let scopes = match wish.scopes.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => wish.scopes,
        };
        let scopes = guards::bounded(scopes);
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let document = wish.document.filter(|_| takes_documents);
        let known = wish.client.or(document.map(|id| OAuthClient { id, secret: None }));
        let client = match known {
            Some(client) => {
                let mut config = OAuthClientConfig::new(client.id.clone(), wish.callback);
                config.client_secret.clone_from(&client.secret);
                manager.configure_client(config)?;
                client
            }
            None if !registers => return Err(AuthorizationError::NeedsRegistration),
            None => {
                let registered = manager.register_client(NAME, &wish.callback, &scopes).await?;
                OAuthClient {
                    id: registered.client_id,
                    secret: registered.client_secret,
                }
            }
        };
        let address = manager.get_authorization_url(&scopes).await?;
        let Some(page) = guards::allowed(&address, &server) else {
            let text =
                "the server names no page where people could log in safely: neither over TLS nor where it is itself";
            return Err(AuthorizationError::Failed(text.to_owned()));
        };
        let text = |key: &str| {
            let found = page.query_pairs().find(|(name, _)| name == key);
            found.map(|(_, text)| text.into_owned()).unwrap_or_default()
        };
        Ok(Self {
            manager,
            client,
            issuer,
            state: text("state"),
            scopes: text("scope").split_whitespace().map(str::to_owned).collect(),
            address,
        })
    }

    /// Returns what the login is asked for; nothing if that is left to who gives it.
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Returns the page that the person has to visit.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns what the answer is recognised by.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Takes what the person's browser came back with, the whole address, and returns the login.
    ///
    /// # Errors
    /// It is not the answer to this, or there is no login for it.
    pub async fn complete(&self, arrived: &str) -> Result<Login, AuthorizationError> {
        let completed = self.complete_aloud(arrived);
        completed.with_subscriber(NoSubscriber::default()).await
    }

    async fn complete_aloud(&self, arrived: &str) -> Result<Login, AuthorizationError> {
        let url = Url::parse(arrived).map_err(|error| AuthorizationError::Failed(with_causes(&error)))?;
        let text = |key: &str| url.query_pairs().find(|(name, _)| name == key).map(|(_, text)| text);
        if let Some(error) = text("error") {
            let more = text("error_description").map(|more| format!(" ({more})"));
            let told = format!("{error}{}", more.unwrap_or_default());
            return Err(AuthorizationError::Refused(shortened_line(&told)));
        }
        let callback = AuthorizationCallback::from_redirect_url(arrived)?;
        let (code, state, issuer) = (callback.code, callback.csrf_token, callback.issuer);
        let exchanged = self
            .manager
            .exchange_code_for_token_with_issuer(&code, &state, issuer.as_deref())
            .await?;
        // The same is read of it as when it is renewed.
        let written = serde_json::to_vec(&exchanged).unwrap_or_default();
        let tokens = oauth::granted(&written).map_err(|error| match error {
            TokenError::Failed(problem) => AuthorizationError::Failed(problem),
            TokenError::Refused(_) | TokenError::UnknownClient => {
                AuthorizationError::Failed("the answer holds no token".to_owned())
            }
        })?;
        Ok(Login {
            expires: tokens.expires(),
            token: tokens.access,
            refresh: tokens.refresh,
            client: Some(self.client.clone()),
            issuer: self.issuer.clone(),
            scopes: guards::bounded(self.manager.get_current_scopes().await),
        })
    }
}

/// Sends what rmcp asks for.
struct Sender {
    server: Url,
    network: Network,
}

impl Sender {
    async fn send(&self, request: OAuthHttpRequest) -> Result<oauth2::HttpResponse, OAuthHttpClientError> {
        let (parts, body) = request.request.into_parts();
        let url = guards::allowed(&parts.uri.to_string(), &self.server);
        let url =
            url.ok_or("the server names an address that is not asked: neither over TLS nor where it is itself")?;
        let request = Request {
            url,
            headers: parts.headers,
            body: (parts.method == Method::POST).then(|| body.into()),
            deadline: Instant::now() + REQUEST_LIMIT,
        };
        let reply = guards::ask(request, &self.server, &self.network).await?;
        let mut response = oauth2::http::Response::builder().status(reply.status());
        for (name, value) in reply.headers() {
            response = response.header(name, value);
        }
        let body = reply.body(MAX_ANSWER).await?;
        Ok(response.body(body.to_vec())?)
    }
}

impl OAuthHttpClient for Sender {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.send(request))
    }
}
