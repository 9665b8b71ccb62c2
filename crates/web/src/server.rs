//! One server that the operator named, whose certificate authorities of its own have signed.
//!
//! *Invariant:* nothing else is reached: a redirect is an answer, no other name is resolved, and no proxy stands in between. Whoever
//! shows a certificate that other authorities have signed is not the server.

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Method, Url};

use super::allow::host_of;
use super::exchange::{self, Reply, Request, RequestError};
use super::resolve::{self, Resolver, Scope};
use super::{ClientError, check_form, common, send};

/// The client of one server.
#[derive(Clone)]
pub struct Server {
    client: Client,
    origin: String,
}

impl Server {
    /// Makes it; nothing is connected to yet. `authorities` are PEM. Blocks for a moment.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn new(url: &Url, authorities: &[u8]) -> Result<Self, ClientError> {
        let certificates = Certificate::from_pem_bundle(authorities);
        let certificates = certificates.map_err(|error| ClientError(exchange::innermost(&error)))?;
        if certificates.is_empty() && url.scheme() == "https" {
            return Err(ClientError("no certificate is in the file of authorities".to_owned()));
        }
        let names = host_of(url).into_iter().collect();
        let client = common()
            .redirect(Policy::none())
            .dns_resolver(Resolver::new(resolve::system(), Scope::Names(names)))
            .tls_certs_only(certificates)
            .build();
        Ok(Self {
            client: client.map_err(|error| ClientError(exchange::innermost(&error)))?,
            origin: url.origin().ascii_serialization(),
        })
    }

    /// Asks the server.
    ///
    /// # Errors
    /// It cannot be reached, does not answer in time, or the URL is another server's.
    pub async fn send(&self, method: Method, request: Request) -> Result<Reply, RequestError> {
        check_form(&request.url)?;
        if request.url.origin().ascii_serialization() != self.origin {
            let host = request.url.host_str().unwrap_or_default().to_owned();
            let kind = "a server that the configuration does not name";
            return Err(RequestError::Refused { host, kind });
        }
        send(&self.client, method, request).await
    }
}
