//! How a command says to a server who it is, and how it knows the server.
//!
//! *Invariant:* a token is never shown, and is read from a file or the environment so that other users do not see it in
//! the list of processes.

#![allow(clippy::disallowed_methods)] // the user's own tokens and certificates, not files of a workspace

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderMap, HeaderValue};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use super::exit::Failure;

/// Where systems keep the authorities that they trust.
const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// What a command needs to talk to a server that asks who calls.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Credentials {
    /// The token to show to the server. Others can see it in the list of processes: rather use --token-file or the
    /// variable.
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "TOOLGATE_TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    token: Option<Token>,
    /// A file with the token to show to the server.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TOOLGATE_TOKEN_FILE",
        hide_env_values = true
    )]
    token_file: Option<PathBuf>,
    /// The authorities that may have signed the server's certificate, PEM. Without it those that the system trusts.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TOOLGATE_TLS_CA",
        hide_env_values = true
    )]
    tls_ca: Option<PathBuf>,
    /// The certificate to show to the server, PEM.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TOOLGATE_TLS_CERT",
        hide_env_values = true,
        requires = "key"
    )]
    cert: Option<PathBuf>,
    /// The private key of --cert, PEM.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TOOLGATE_TLS_KEY",
        hide_env_values = true,
        requires = "cert"
    )]
    key: Option<PathBuf>,
}

/// A token as it is given.
#[derive(Clone, PartialEq, Eq)]
struct Token(MetadataValue<Ascii>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl FromStr for Token {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let wrong = "a token is one word of letters, digits and signs";
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err(wrong);
        }
        let mut value: MetadataValue<Ascii> = format!("Bearer {text}").parse().map_err(|_| wrong)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// Shows a token with each request, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Bearer(Option<Token>);

impl Bearer {
    /// Says whether it shows none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.0.clone());
        }
        Ok(request)
    }
}

impl Credentials {
    /// Returns what shows the token.
    pub(super) fn bearer(&self) -> Result<Bearer, Failure> {
        let Some(path) = &self.token_file else {
            return Ok(Bearer(self.token.clone()));
        };
        let text = String::from_utf8(read(path)?).map_err(|_| Failure::Usage(not_a_token(path, "it is not UTF-8")))?;
        let token = text
            .parse()
            .map_err(|problem| Failure::Usage(not_a_token(path, problem)))?;
        Ok(Bearer(Some(token)))
    }

    /// Makes a client of plain HTTP with the same credentials. With a socket, that is where it connects whatever the
    /// address says.
    pub(super) fn http_client(&self, socket: Option<&Path>, is_encrypted: bool) -> Result<reqwest::Client, Failure> {
        let wrong = |error: reqwest::Error| {
            Failure::Usage(format!(
                "the certificates cannot be used: {}",
                super::client::innermost(&error)
            ))
        };
        let mut headers = HeaderMap::new();
        if let Bearer(Some(token)) = self.bearer()? {
            let mut value = HeaderValue::from_bytes(token.0.as_encoded_bytes())
                .map_err(|_| Failure::Usage("the token cannot be sent".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // A redirect would take the token elsewhere, and a proxy has no business between a client and its own machine.
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(0);
        if let Some(socket) = socket {
            builder = builder.unix_socket(socket);
        }
        if is_encrypted {
            let authorities = match &self.tls_ca {
                Some(path) => read(path)?,
                None => system_authorities()?,
            };
            let authorities = reqwest::Certificate::from_pem_bundle(&authorities).map_err(wrong)?;
            builder = builder.tls_certs_only(authorities);
            if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
                let both = [read(key)?, b"\n".to_vec(), read(cert)?].concat();
                builder = builder.identity(reqwest::Identity::from_pem(&both).map_err(wrong)?);
            }
        }
        builder.build().map_err(wrong)
    }

    /// Prepares an endpoint of the form `https:` to know the server and to show a certificate.
    pub(super) fn encrypt(&self, endpoint: Endpoint) -> Result<Endpoint, Failure> {
        let authorities = match &self.tls_ca {
            Some(path) => read(path)?,
            None => system_authorities()?,
        };
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        endpoint.tls_config(config).map_err(|error| {
            Failure::Usage(format!(
                "the certificates cannot be used: {}",
                super::client::innermost(&error)
            ))
        })
    }
}

fn not_a_token(path: &Path, problem: &str) -> String {
    format!("{} holds no token: {problem}", path.display())
}

fn system_authorities() -> Result<Vec<u8>, Failure> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = SYSTEM_AUTHORITIES.map(PathBuf::from);
    let found = named.into_iter().chain(known).find(|path| path.is_file());
    let path = found.ok_or_else(|| Failure::Usage("name the authority of the server with --tls-ca FILE".to_owned()))?;
    read(&path)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|source| Failure::Read {
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_and_not_shown() {
        let token: Token = " secret-word\n".parse().unwrap();
        assert_eq!(token.0.to_str().unwrap(), "Bearer secret-word");
        assert!(!format!("{:?} {:?}", token, Bearer(Some(token.clone()))).contains("secret-word"));
        for wrong in ["", " ", "two words", "line\nbreak", "\u{7f}"] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong:?}");
        }
    }
}
