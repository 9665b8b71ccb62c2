//! One request and its answer: what is sent, what comes back, and why nothing does.
//!
//! *Invariant:* one deadline is for all of it, the body included; no more than asked for is ever kept of a body.

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout_at};

use super::ClientError;
use super::resolve::Misled;

/// A request: `GET`, or `POST` if it has a body, unless it says otherwise how it is sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where to; `http` or `https`, without a user name and a password.
    pub url: Url,
    /// What is said beside that.
    pub headers: HeaderMap,
    /// What is sent.
    pub body: Option<Bytes>,
    /// When the answer must be there, whole.
    pub deadline: Instant,
}

impl Request {
    /// Makes a request that may take some time from now on.
    pub fn within(time: Duration, url: Url, headers: HeaderMap) -> Self {
        Self {
            url,
            headers,
            body: None,
            deadline: Instant::now() + time,
        }
    }
}

/// Why there is no answer. No text repeats the URL: it may hold a secret.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// It took longer than it may.
    #[error("the time was up")]
    TimedOut,
    /// The URL is not one of HTTP.
    #[error("only http:// and https:// are spoken")]
    Scheme,
    /// The URL logs in.
    #[error("a URL with a user name or a password is not asked for")]
    Credentials,
    /// Something else than HTTP is spoken at this port.
    #[error("port {0} is not allowed")]
    Port(u16),
    /// It is not of the public internet.
    #[error("{host} leads to {kind}; the service reaches that only if its configuration lists it (`network.allow`)")]
    Refused {
        /// The host of the URL.
        host: String,
        /// What is there.
        kind: &'static str,
    },
    /// The machine's root certificates cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is no connection, or no answer on it.
    #[error("{host} cannot be reached: {cause}")]
    Unreachable {
        /// The host of the URL.
        host: String,
        /// Why.
        cause: String,
    },
    /// The body ended too early or cannot be decoded.
    #[error("the answer of {host} broke off: {cause}")]
    Broken {
        /// The host of the URL.
        host: String,
        /// Why.
        cause: String,
    },
    /// The body has more bytes than it may.
    #[error("the answer has more than {most} bytes")]
    TooLarge {
        /// How many it may have.
        most: usize,
    },
    /// The answer redirects to something that is no URL.
    #[error("{host} redirects to something that is no URL")]
    BadRedirect {
        /// The host that does so.
        host: String,
    },
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub struct Reply {
    response: Response,
    deadline: Instant,
}

impl Reply {
    pub(super) fn new(response: Response, deadline: Instant) -> Self {
        Self { response, deadline }
    }

    /// Returns the address that has answered.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        self.response.remote_addr().map(|address| address.ip())
    }

    /// Returns the host of the URL for people.
    pub(super) fn host(&self) -> String {
        host(self.response.url())
    }

    /// Returns the status code.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Says whether the status code is one of success.
    pub fn is_success(&self) -> bool {
        self.response.status().is_success()
    }

    /// Returns the headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns where the answer redirects to, if it does. Nothing is sent there before somebody asks for it.
    ///
    /// # Errors
    /// That is no URL.
    pub fn redirect(&self) -> Result<Option<Url>, RequestError> {
        let Some(location) = self.headers().get(LOCATION) else {
            return Ok(None);
        };
        if !matches!(self.status(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let location = String::from_utf8_lossy(location.as_bytes());
        let target = self.response.url().join(&location);
        let mut target = target.map_err(|_| RequestError::BadRedirect { host: self.host() })?;
        target.set_fragment(None);
        Ok(Some(target))
    }

    /// Reads the body, decompressed, and stops as soon as it has more bytes than `most`.
    ///
    /// # Errors
    /// It is larger, it breaks off, or it takes too long.
    pub async fn body(mut self, most: usize) -> Result<Bytes, RequestError> {
        let too_large = RequestError::TooLarge { most };
        if self
            .response
            .content_length()
            .is_some_and(|length| length > most as u64)
        {
            return Err(too_large);
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > most - body.len() {
                return Err(too_large);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// Reads the next bytes of the body, decompressed; none at its end. How many that are in all is for the caller to bound.
    ///
    /// # Errors
    /// It breaks off, or it takes too long.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, RequestError> {
        let chunk = timeout_at(self.deadline, self.response.chunk()).await;
        chunk
            .map_err(|_| RequestError::TimedOut)?
            .map_err(|error| RequestError::Broken {
                host: self.host(),
                cause: innermost(&error),
            })
    }
}

/// Returns the host of a URL for people.
fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// Says why a request brought no answer.
pub(super) fn failed(url: &Url, error: &reqwest::Error) -> RequestError {
    let mut causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    match causes.find_map(|cause| cause.downcast_ref::<Misled>()) {
        Some(Misled { kind }) => RequestError::Refused { host: host(url), kind },
        None => RequestError::Unreachable {
            host: host(url),
            cause: innermost(error),
        },
    }
}

/// Returns the text of what lies at the root of an error.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}
