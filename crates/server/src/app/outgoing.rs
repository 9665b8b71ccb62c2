//! Connections that a gateway and a worker make to each other.
//!
//! *Invariant:* whoever is at the other end of an encrypted line has shown a certificate that the named authorities have signed.

#![allow(clippy::disallowed_methods)] // reads its own credentials

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tonic::codegen::http::HeaderValue;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// Where systems keep the authorities that they trust.
const AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a token.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The files, PEM, by which both ends of an encrypted line know each other.
#[derive(Clone, Copy)]
pub struct Pems<'a> {
    /// The authorities of the other end; none for those of the system.
    pub ca: Option<&'a Path>,
    /// The own certificate and its key.
    pub identity: Option<(&'a Path, &'a Path)>,
}

/// Makes the way to an address. Blocking.
///
/// # Errors
/// The address means nothing, or a file cannot be read.
pub fn endpoint(address: &str, pems: Pems<'_>) -> anyhow::Result<Endpoint> {
    endpoint_as(address, None, pems)
}

/// As [`endpoint`], to one that shows a certificate for another name than its address. Blocking.
///
/// # Errors
/// As [`endpoint`].
pub fn endpoint_as(address: &str, name: Option<&str>, pems: Pems<'_>) -> anyhow::Result<Endpoint> {
    let endpoint = Endpoint::from_shared(address.to_owned())?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    if !address.starts_with("https://") {
        return Ok(endpoint);
    }
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities(pems.ca)?));
    if let Some(name) = name {
        tls = tls.domain_name(name);
    }
    if let Some((certificate, key)) = pems.identity {
        tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(endpoint.tls_config(tls)?)
}

/// Reads the authorities of a file, PEM, or those that the system trusts. Blocking.
///
/// # Errors
/// The file cannot be read, or the system has none.
pub fn authorities(ca: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    match ca {
        Some(path) => read(path),
        None => {
            let found = AUTHORITIES.iter().find_map(|path| std::fs::read(path).ok());
            found.context("the system has no file of trusted authorities: set `ca`")
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads the file of a token. Blocking.
///
/// # Errors
/// It cannot be read, or is no token.
pub fn token(path: &Path) -> io::Result<HeaderValue> {
    let wrong = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
    let token = text.trim();
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
        return Err(wrong("expected a token, and nothing else"));
    }
    bearer(token).ok_or_else(|| wrong("it has characters that no token has"))
}

/// Writes a token as a header has it; none if it has characters that no token has.
pub fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Says why a connection is not there, by the innermost cause of an error: the outer ones only say that there was one.
pub fn cause(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let innermost = std::iter::successors(Some(error), |error| error.source()).last()?;
    let said = innermost.to_string();
    // What rustls says of a server that answers without TLS.
    Some(match said.contains("InvalidContentType") {
        true => "this address answers without TLS: turn it on there, or, on this machine only, write http:// here"
            .to_owned(),
        false => said,
    })
}
