//! A server that the operator named together with the authorities that sign its certificate.
//!
//! *Invariant:* the file of authorities is read anew for each request, since it may be exchanged: whoever they do not vouch for is told nothing.

use std::path::PathBuf;

use anyhow::Context as _;
use parking_lot::Mutex;
use toolgate_server::app::outgoing;
use toolgate_web::{Server, Url};

/// The server.
pub(crate) struct Trusted {
    base: Url,
    /// None for those of the system.
    ca_file: Option<PathBuf>,
    /// The client, and the authorities that it was made for. Never held across an await.
    made: Mutex<Option<(Vec<u8>, Server)>>,
}

impl Trusted {
    pub(crate) fn new(base: Url, ca_file: Option<PathBuf>) -> Self {
        Self {
            base,
            ca_file,
            made: Mutex::default(),
        }
    }

    /// Returns where it is.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Reads who may answer, and makes the client if that is another one than before.
    pub(crate) async fn server(&self) -> anyhow::Result<Server> {
        let authorities = match self.base.scheme() {
            "https" => {
                let ca_file = self.ca_file.clone();
                tokio::task::spawn_blocking(move || outgoing::authorities(ca_file.as_deref())).await??
            }
            // It has no certificate.
            _ => Vec::new(),
        };
        let known = self.made.lock().clone();
        if let Some((_, server)) = known.filter(|(known, _)| *known == authorities) {
            return Ok(server);
        }
        let (base, of) = (self.base.clone(), authorities.clone());
        let made = tokio::task::spawn_blocking(move || Server::new(&base, &of)).await?;
        let made = made.context("the authorities of the server (cluster.provisioner.ca_file)")?;
        *self.made.lock() = Some((authorities, made.clone()));
        Ok(made)
    }
}
