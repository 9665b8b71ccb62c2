//! How a command says to a server who it is, and how it knows the server.
//!
//! *Invariant:* a token is never shown, and is read from a file or the environment so that other users do not see it in
//! the list of processes.

use std::path::PathBuf;

use clap::Args;
use toolgate_client::{Credentials, Token};

use super::exit::Failure;
use super::globals::SERVER_HEADING;

/// What a command needs to talk to a server that asks who calls.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = SERVER_HEADING)]
pub(super) struct CredentialArgs {
    /// The token to send to the server. Other users can see it in the process list: prefer --token-file or the variable.
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "TOOLGATE_TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    token: Option<Token>,
    /// A file with the token to send to the server.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TOOLGATE_TOKEN_FILE",
        hide_env_values = true
    )]
    token_file: Option<PathBuf>,
    /// The certificate authorities to trust for the server, PEM. Default: the system's.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TOOLGATE_TLS_CA",
        hide_env_values = true
    )]
    tls_ca: Option<PathBuf>,
    /// The client certificate to present to the server, PEM.
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

    /// Returns the options with which another program names the same files.
    ///
    /// # Errors
    /// A token that would have to be written down.
    pub(super) fn for_others(&self) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
        if self.token.is_some() {
            let why = "a token is not written to the settings of another program; put it in a file, and name the file with --token-file";
            return Err(Failure::Usage(why.to_owned()));
        }
        let named = [
            ("--token-file", &self.token_file),
            ("--tls-ca", &self.tls_ca),
            ("--cert", &self.cert),
            ("--key", &self.key),
        ];
        let given = named
            .into_iter()
            .filter_map(|(option, path)| Some((option, path.clone()?)));
        Ok(given.collect())
    }
}
