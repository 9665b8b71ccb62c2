//! Logins at servers that are reached by HTTP: looked up where they are kept, renewed when their time is over. A client that logs
//! in by itself gets its tokens here, and they are kept nowhere else.
//!
//! *Invariant:* a login is renewed by one at a time and to the end, since a server may take a refresh token only once. No
//! token is in an error, a log or a debug text.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;
use toolgate_model::{Login, OAuthClient};
use toolgate_web::{Network, Url};
use tracing::Instrument as _;

use super::oauth::{self, TokenError};

/// A token is renewed when it has less time left.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);

/// How long renewing may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(15);

/// How often it is looked whether somebody has logged in.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Where the login at one server is kept.
pub trait Logins: Send + Sync + 'static {
    /// Returns the login that is kept. Blocking.
    fn load(&self) -> Option<Login>;

    /// Keeps a login in the place of the one that it was made from. Blocking.
    ///
    /// # Errors
    /// It cannot be written.
    fn keep(&self, old: &Login, new: &Login) -> io::Result<()>;

    /// Returns the client that is configured for this server, whatever client the kept login has.
    fn client(&self) -> Option<OAuthClient>;

    /// Returns how the client logs in by itself; none if a person does it.
    fn by_itself(&self) -> Option<ByItself>;

    /// Says whether a document describes a client, for servers that take that in the place of a registration.
    fn has_document(&self) -> bool;

    /// Notes what the login lacks: the next one is to have it. Blocking.
    ///
    /// # Errors
    /// It cannot be written.
    fn lacks(&self, scopes: &[String]) -> io::Result<()>;
}

/// How a client logs in without a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByItself {
    /// Who gives it tokens, and alone is sent its secret.
    pub issuer: Url,
    /// The client, with its secret.
    pub client: OAuthClient,
    /// What the token is to be good for; none for what the server says.
    pub scopes: Vec<String>,
}

fn is_good(login: &Login) -> bool {
    login
        .expires
        .is_none_or(|expires| expires > SystemTime::now() + RENEWAL_MARGIN)
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginError {
    #[error("the login is over")]
    Over,
    #[error("this client is not registered any more")]
    Unregistered,
    #[error("the login cannot be renewed: {0}")]
    Failed(String),
    #[error("there is no token for this client: {0}")]
    NoToken(String),
}

impl From<TokenError> for LoginError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Refused(_) => Self::Over,
            TokenError::UnknownClient => Self::Unregistered,
            TokenError::Failed(problem) => Self::Failed(problem),
        }
    }
}

/// The login at one server.
pub(super) struct Credentials {
    url: Url,
    /// As the configuration has it at the moment. Never held across an await.
    logins: Mutex<Arc<dyn Logins>>,
    renewing: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    /// Never held across an await.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// What was kept when it was looked up last.
    kept: Option<Login>,
    /// What is used.
    used: Option<Login>,
    /// Whether it was looked up at all.
    is_looked_up: bool,
    /// A refresh token that is no good, and why.
    over: Option<(String, TokenError)>,
}

impl Credentials {
    pub(super) fn new(url: Url, logins: Arc<dyn Logins>, tasks: TaskTracker) -> Self {
        Self {
            url,
            logins: Mutex::new(logins),
            renewing: tokio::sync::Mutex::default(),
            tasks,
            known: Mutex::default(),
        }
    }

    /// Changes how one logs in there. What is known stays, and who renews the login: two would use one refresh token.
    pub(super) fn change(&self, logins: Arc<dyn Logins>) {
        let now = logins.by_itself();
        let before = std::mem::replace(&mut *self.logins.lock(), logins).by_itself();
        let mut known = self.state();
        match now == before {
            // For another client it may be good.
            true => known.over = None,
            false => *known = Known::default(),
        }
    }

    /// Says whether the client logs in by itself.
    pub(super) fn by_itself(&self) -> bool {
        self.logins().by_itself().is_some()
    }

    fn logins(&self) -> Arc<dyn Logins> {
        Arc::clone(&self.logins.lock())
    }

    /// Says whether a client is known to this server.
    pub(super) fn has_client(&self) -> bool {
        self.logins().client().is_some()
            || self.logins().has_document()
            || self.state().kept.as_ref().is_some_and(|kept| kept.client.is_some())
    }

    /// Returns the token of the moment; none if there is no login.
    ///
    /// # Errors
    /// There is one, and it is over.
    pub(super) async fn token(self: &Arc<Self>, network: &Network) -> Result<Option<String>, LoginError> {
        let (used, is_looked_up) = {
            let known = self.state();
            (known.used.clone(), known.is_looked_up)
        };
        match used {
            // A server that wants one will say so.
            None if is_looked_up && !self.by_itself() => Ok(None),
            Some(login) if is_good(&login) => Ok(Some(login.token)),
            Some(_) | None => self.instead_of(None, "", network).await,
        }
    }

    /// Returns another token than the one, or none, that the server refused with a challenge; none if there is no login.
    ///
    /// # Errors
    /// There is no other one.
    pub(super) async fn instead_of(
        self: &Arc<Self>,
        refused: Option<&str>,
        challenge: &str,
        network: &Network,
    ) -> Result<Option<String>, LoginError> {
        let (refused, challenge) = (refused.map(str::to_owned), challenge.to_owned());
        let renewal = Arc::clone(self).renewed(refused, challenge, network.clone());
        // Not given up with the request that wants it: the refresh token may be used up already.
        let renewed = self.tasks.spawn(renewal.in_current_span()).await;
        renewed.unwrap_or_else(|_| Err(LoginError::Failed("the service stops".to_owned())))
    }

    async fn renewed(
        self: Arc<Self>,
        refused: Option<String>,
        challenge: String,
        network: Network,
    ) -> Result<Option<String>, LoginError> {
        let _alone = self.renewing.lock().await;
        if let Some(client) = self.logins().by_itself() {
            let token = self.for_client(&client, refused.as_ref(), &challenge, &network);
            return token.await.map(Some);
        }
        // Somebody may have logged in, or renewed it, in the meantime.
        let Some(login) = self.look().await else {
            return Ok(None);
        };
        if is_good(&login) && refused.as_ref() != Some(&login.token) {
            return Ok(Some(login.token));
        }
        let Some(refresh) = login.refresh.clone() else {
            return Err(LoginError::Over);
        };
        let over = self.state().over.clone().filter(|(over, _)| *over == refresh);
        if let Some((_, why)) = over {
            return Err(why.into());
        }
        let client = self.logins().client().or_else(|| login.client.clone());
        let renewal = oauth::renew(&self.url, &challenge, (&login, &refresh), client.as_ref(), &network);
        let renewed = tokio::time::timeout(RENEWAL_TIMEOUT, renewal).await;
        let tokens = match renewed.unwrap_or_else(|_| Err(TokenError::Failed("it takes too long".to_owned()))) {
            Ok(tokens) => tokens,
            Err(why) => {
                if !matches!(why, TokenError::Failed(_)) {
                    self.state().over = Some((refresh, why.clone()));
                }
                return Err(why.into());
            }
        };
        let new = Login {
            expires: tokens.expires(),
            token: tokens.access,
            refresh: Some(tokens.refresh.unwrap_or(refresh)),
            client: login.client.clone(),
            issuer: login.issuer.clone(),
            scopes: login.scopes.clone(),
        };
        let token = new.token.clone();
        self.keep(login, new).await;
        Ok(Some(token))
    }

    /// Returns a token for a client that logs in by itself: the one that there is, unless it is the one that was refused.
    async fn for_client(
        &self,
        client: &ByItself,
        refused: Option<&String>,
        challenge: &str,
        network: &Network,
    ) -> Result<String, LoginError> {
        let used = self.state().used.clone();
        if let Some(login) = used.filter(|login| is_good(login) && refused != Some(&login.token)) {
            return Ok(login.token);
        }
        let wanted = (&client.issuer, &*client.scopes);
        let given = oauth::for_client(&self.url, challenge, wanted, &client.client, network);
        let given = tokio::time::timeout(RENEWAL_TIMEOUT, given).await;
        let given = given.unwrap_or_else(|_| Err(TokenError::Failed("it takes too long".to_owned())));
        let tokens = given.map_err(|error| {
            LoginError::NoToken(match error {
                TokenError::Refused(why) => format!("it was refused ({why})"),
                TokenError::UnknownClient => {
                    "the client is not known there, or its secret is wrong (`oauth.clientId`, `oauth.clientSecret`)"
                        .to_owned()
                }
                TokenError::Failed(problem) => problem,
            })
        })?;
        let token = tokens.access.clone();
        let mut known = self.state();
        // If the configuration has changed meanwhile, it is the token of another client.
        if self.logins().by_itself().as_ref() == Some(client) {
            known.used = Some(Login {
                expires: tokens.expires(),
                token: tokens.access,
                // The secret does for it.
                refresh: None,
                client: None,
                issuer: None,
                scopes: Vec::new(),
            });
        }
        Ok(token)
    }

    /// Returns the token of a login that somebody has made since.
    pub(super) async fn other_than(&self, token: Option<&str>) -> Option<String> {
        if self.by_itself() {
            return None;
        }
        let _alone = self.renewing.lock().await;
        let login = self.look().await?;
        (is_good(&login) && token != Some(&login.token)).then_some(login.token)
    }

    /// Notes what the server has said that the login lacks, for the person who logs in next.
    pub(super) async fn lacks(&self, scopes: Vec<String>) {
        let logins = self.logins();
        let noted = tokio::task::spawn_blocking(move || logins.lacks(&scopes)).await;
        if let Ok(Err(error)) = noted {
            tracing::warn!(%error, "what the login lacks cannot be noted");
        }
    }

    /// Returns when another login is kept than the one that was looked up last; never if none was looked up, since none is used
    /// then.
    pub(super) async fn replaced(&self) {
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            let logins = self.logins();
            let kept = tokio::task::spawn_blocking(move || logins.load()).await.unwrap_or(None);
            let is_other = {
                let known = self.state();
                known.is_looked_up && kept.is_some() && kept != known.kept
            };
            if is_other {
                // Known from now on, or it would be told of again.
                let _alone = self.renewing.lock().await;
                self.look().await;
                return;
            }
        }
    }

    /// Looks the login up; what is kept counts only if it is another one than before.
    async fn look(&self) -> Option<Login> {
        let logins = self.logins();
        let kept = tokio::task::spawn_blocking(move || logins.load()).await.unwrap_or(None);
        let mut known = self.state();
        known.is_looked_up = true;
        if known.kept != kept || kept.is_none() {
            known.kept.clone_from(&kept);
            known.used = kept;
        }
        known.used.clone()
    }

    async fn keep(&self, old: Login, new: Login) {
        tracing::info!("the login at the server was renewed");
        self.state().used = Some(new.clone());
        let logins = self.logins();
        let kept = tokio::task::spawn_blocking(move || {
            let kept = logins.keep(&old, &new);
            (kept, logins.load())
        });
        match kept.await {
            Ok((Ok(()), kept)) => self.state().kept = kept,
            Ok((Err(error), _)) => {
                tracing::warn!(%error, "a renewed login cannot be kept: it is good until the service ends")
            }
            Err(_) => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Configured(&'static str, Option<ByItself>);

    impl Logins for Configured {
        fn load(&self) -> Option<Login> {
            None
        }

        fn keep(&self, _old: &Login, _new: &Login) -> io::Result<()> {
            Ok(())
        }

        fn client(&self) -> Option<OAuthClient> {
            Some(OAuthClient {
                id: self.0.to_owned(),
                secret: None,
            })
        }

        fn by_itself(&self) -> Option<ByItself> {
            self.1.clone()
        }

        fn has_document(&self) -> bool {
            false
        }

        fn lacks(&self, _scopes: &[String]) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_changed_client_is_used_by_those_who_have_the_login_already() {
        let url = Url::parse("https://a.example").unwrap();
        let one = Arc::new(Credentials::new(
            url,
            Arc::new(Configured("old", None)),
            TaskTracker::new(),
        ));
        let other = Arc::clone(&one);
        one.state().over = Some(("r".to_owned(), TokenError::UnknownClient));
        one.change(Arc::new(Configured("new", None)));
        assert!(other.logins().client().is_some_and(|client| client.id == "new"));
        assert!(other.state().over.is_none());
    }

    #[test]
    fn a_token_is_not_used_for_another_client() {
        let url = Url::parse("https://a.example").unwrap();
        let client = |id: &str| {
            let client = OAuthClient {
                id: id.to_owned(),
                secret: Some("s".to_owned()),
            };
            let issuer = url.clone();
            let scopes = Vec::new();
            Some(ByItself { issuer, client, scopes })
        };
        let logins = |id: &str| Arc::new(Configured("c", client(id)));
        let credentials = Credentials::new(url.clone(), logins("one"), TaskTracker::new());
        let with_token = |credentials: &Credentials| {
            credentials.state().used = Some(Login {
                token: "t".to_owned(),
                refresh: None,
                expires: None,
                client: None,
                issuer: None,
                scopes: Vec::new(),
            });
        };
        with_token(&credentials);
        credentials.change(logins("one"));
        assert!(credentials.state().used.is_some());
        credentials.change(logins("two"));
        assert!(credentials.state().used.is_none());
        with_token(&credentials);
        credentials.change(Arc::new(Configured("c", None)));
        assert!(credentials.state().used.is_none());
    }
}
