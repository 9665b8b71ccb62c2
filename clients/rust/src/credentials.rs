//! What a client shows to a service that asks who calls: a token, a certificate; and whom it trusts.
//!
//! *Invariant:* a token is never printed, and never goes to another host than the client's.

#![allow(clippy::disallowed_methods)] // files that the user names: tokens and certificates

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use crate::error::{BoxError, Error, innermost};

/// Where systems keep the authorities that they trust.
const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

const NOT_A_WORD: &str = "a token is one word of letters, digits and signs";

/// A bearer token. It is read with `parse`, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(MetadataValue<Ascii>);

impl Token {
    /// Returns the value of the header `authorization` that shows the token. It is a secret.
    pub fn authorization(&self) -> &[u8] {
        self.0.as_encoded_bytes()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let wrong = || Error::Token(NOT_A_WORD.to_owned());
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let mut value: MetadataValue<Ascii> = format!("Bearer {text}").parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

type Source = Arc<dyn Fn() -> Result<Token, BoxError> + Send + Sync>;

#[derive(Clone, Default)]
enum TokenFrom {
    #[default]
    Nowhere,
    Value(Token),
    File(PathBuf),
    Source(Source),
}

impl fmt::Debug for TokenFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("none"),
            Self::Value(_) | Self::Source(_) => f.write_str("[secret]"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Bytes in PEM, or the file that has them.
#[derive(Clone, Debug)]
enum Pem {
    File(PathBuf),
    Bytes(Vec<u8>),
}

impl Pem {
    fn read(&self) -> Result<Vec<u8>, Error> {
        match self {
            Self::File(path) => read(path),
            Self::Bytes(bytes) => Ok(bytes.clone()),
        }
    }
}

/// A certificate and its private key, both PEM.
pub type CertificateAndKey = (Vec<u8>, Vec<u8>);

/// A token and certificates. The default has neither, and trusts the authorities of the system.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    token: TokenFrom,
    authorities: Option<Pem>,
    identity: Option<(Pem, Pem)>,
}

impl Credentials {
    /// Takes them from the variables that the program `toolgate` reads as well: `TOOLGATE_TOKEN`, `TOOLGATE_TOKEN_FILE`,
    /// `TOOLGATE_TLS_CA`, `TOOLGATE_TLS_CERT` and `TOOLGATE_TLS_KEY`.
    pub fn from_env() -> Result<Self, Error> {
        let mut credentials = Self::default();
        if let Some(token) = variable("TOOLGATE_TOKEN") {
            let text = token.into_string().map_err(|_| Error::Token(NOT_A_WORD.to_owned()))?;
            credentials = credentials.token(text.parse()?);
        } else if let Some(path) = file_variable("TOOLGATE_TOKEN_FILE") {
            credentials = credentials.token_file(path);
        }
        if let Some(path) = file_variable("TOOLGATE_TLS_CA") {
            credentials = credentials.authorities_file(path);
        }
        match (file_variable("TOOLGATE_TLS_CERT"), file_variable("TOOLGATE_TLS_KEY")) {
            (Some(certificate), Some(key)) => Ok(credentials.identity_files(certificate, key)),
            (None, None) => Ok(credentials),
            _ => Err(Error::Certificates(
                "TOOLGATE_TLS_CERT and TOOLGATE_TLS_KEY belong together".to_owned(),
            )),
        }
    }

    /// BearerSource this token.
    pub fn token(mut self, token: Token) -> Self {
        self.token = TokenFrom::Value(token);
        self
    }

    /// BearerSource the token that this file has when the client connects.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token = TokenFrom::File(path.into());
        self
    }

    /// Asks for the token before each RPC, for tokens that expire. The function must return at once: let a task of your
    /// own renew the token, and return the current one here.
    pub fn token_source<F>(mut self, source: F) -> Self
    where
        F: Fn() -> Result<Token, BoxError> + Send + Sync + 'static,
    {
        self.token = TokenFrom::Source(Arc::new(source));
        self
    }

    /// Trusts the certificate authorities in this file (PEM), instead of those of the system.
    pub fn authorities_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.authorities = Some(Pem::File(path.into()));
        self
    }

    /// Trusts these certificate authorities (PEM), instead of those of the system.
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(Pem::Bytes(pem.into()));
        self
    }

    /// BearerSource this certificate to the server, from files in PEM.
    pub fn identity_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((Pem::File(certificate.into()), Pem::File(key.into())));
        self
    }

    /// BearerSource this certificate (PEM) to the server.
    pub fn identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some((Pem::Bytes(certificate.into()), Pem::Bytes(key.into())));
        self
    }

    /// Returns what shows the token with each RPC. A token file is read now.
    pub fn bearer(&self) -> Result<Bearer, Error> {
        Ok(Bearer(match &self.token {
            TokenFrom::Nowhere => BearerSource::Nothing,
            TokenFrom::Value(token) => BearerSource::Token(token.clone()),
            TokenFrom::Source(source) => BearerSource::Source(Arc::clone(source)),
            TokenFrom::File(path) => {
                let wrong = |problem: &str| Error::Token(format!("{} holds no token: {problem}", path.display()));
                let text = String::from_utf8(read(path)?).map_err(|_| wrong("it is not UTF-8"))?;
                BearerSource::Token(text.parse().map_err(|error: Error| wrong(&error.to_string()))?)
            }
        }))
    }

    /// Returns the certificate authorities that are trusted (PEM).
    pub fn trusted_authorities(&self) -> Result<Vec<u8>, Error> {
        match &self.authorities {
            Some(pem) => pem.read(),
            None => system_authorities(),
        }
    }

    /// Returns the certificate to show and its key (PEM), if there is one.
    pub fn client_identity(&self) -> Result<Option<CertificateAndKey>, Error> {
        match &self.identity {
            Some((certificate, key)) => Ok(Some((certificate.read()?, key.read()?))),
            None => Ok(None),
        }
    }

    /// Prepares an encrypted endpoint.
    pub(crate) fn encrypt(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(self.trusted_authorities()?));
        if let Some((certificate, key)) = self.client_identity()? {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        let endpoint = endpoint.tls_config(config);
        endpoint.map_err(|error| Error::Certificates(innermost(&error)))
    }
}

#[derive(Clone, Default)]
enum BearerSource {
    #[default]
    Nothing,
    Token(Token),
    Source(Source),
}

/// BearerSource a token with each RPC, if there is one.
#[derive(Clone, Default)]
pub struct Bearer(BearerSource);

impl Bearer {
    /// Returns the token that is shown now, if there is one.
    pub fn token(&self) -> Result<Option<Token>, BoxError> {
        match &self.0 {
            BearerSource::Nothing => Ok(None),
            BearerSource::Token(token) => Ok(Some(token.clone())),
            BearerSource::Source(source) => source().map(Some),
        }
    }

    /// Returns whether no token is shown.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, BearerSource::Nothing)
    }

    /// Returns whether another token may be shown with the next RPC.
    pub(crate) fn renews(&self) -> bool {
        matches!(self.0, BearerSource::Source(_))
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "none" } else { "[secret]" })
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let token = self.token();
        let token = token.map_err(|error| Status::unauthenticated(format!("there is no token to show: {error}")))?;
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", token.0);
        }
        Ok(request)
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn file_variable(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

fn system_authorities() -> Result<Vec<u8>, Error> {
    let variable = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let files = SYSTEM_AUTHORITIES.map(PathBuf::from);
    let found = variable.into_iter().chain(files).find(|path| path.is_file());
    read(&found.ok_or(Error::NoAuthorities)?)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_and_never_printed() {
        let token: Token = " secret-word\n".parse().unwrap();
        assert_eq!(token.authorization(), b"Bearer secret-word");
        let credentials = Credentials::default().token(token.clone());
        let bearer = credentials.bearer().unwrap();
        assert!(!format!("{token:?} {credentials:?} {bearer:?}").contains("secret-word"));
        for wrong in ["", " ", "two words", "line\nbreak", "\u{7f}"] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_source_is_asked_each_time() {
        let count = std::sync::atomic::AtomicU32::new(0);
        let credentials = Credentials::default().token_source(move || {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(format!("token-{number}").parse()?)
        });
        let mut bearer = credentials.bearer().unwrap();
        for number in 0..2 {
            let request = bearer.call(Request::new(())).unwrap();
            let expected = format!("Bearer token-{number}");
            assert_eq!(request.metadata().get("authorization").unwrap(), expected.as_str());
        }
    }
}
