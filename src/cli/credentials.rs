//! How a command says to a server who it is, and how it knows the server.
//!
//! *Invariant:* a token is never shown, and is read from a file or the environment so that other users do not see it in
//! the list of processes.

use std::path::{Path, PathBuf};

use clap::Args;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use toolgate_client::{Credentials, Error, Token};

use super::exit::Failure;

/// What a command needs to talk to a server that asks who calls.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct CredentialArgs {
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

impl CredentialArgs {
    /// Returns the same for the library.
    pub(super) fn to_credentials(&self) -> Credentials {
        let mut credentials = Credentials::default();
        if let Some(path) = &self.token_file {
            credentials = credentials.token_file(path);
        } else if let Some(token) = &self.token {
            credentials = credentials.token(token.clone());
        }
        if let Some(path) = &self.tls_ca {
            credentials = credentials.authorities_file(path);
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            credentials = credentials.identity_files(cert, key);
        }
        credentials
    }

    /// Makes a client of plain HTTP with the same credentials. With a socket, that is where it connects whatever the
    /// address says.
    pub(super) fn http_client(&self, socket: Option<&Path>, is_encrypted: bool) -> Result<reqwest::Client, Failure> {
        let wrong = |error: reqwest::Error| {
            let mut last: &dyn std::error::Error = &error;
            while let Some(cause) = last.source() {
                last = cause;
            }
            Failure::from(Error::Certificates(last.to_string()))
        };
        let credentials = self.to_credentials();
        let mut headers = HeaderMap::new();
        let wrong_token = || Failure::Usage("the token cannot be sent".to_owned());
        if let Some(token) = credentials.bearer()?.token().map_err(|_| wrong_token())? {
            let mut value = HeaderValue::from_bytes(token.authorization()).map_err(|_| wrong_token())?;
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
            let authorities = credentials.trusted_authorities()?;
            let authorities = reqwest::Certificate::from_pem_bundle(&authorities).map_err(wrong)?;
            builder = builder.tls_certs_only(authorities);
            if let Some((cert, key)) = credentials.client_identity()? {
                let both = [key, b"\n".to_vec(), cert].concat();
                builder = builder.identity(reqwest::Identity::from_pem(&both).map_err(wrong)?);
            }
        }
        builder.build().map_err(wrong)
    }
}
