//! Encrypted connections: certificates that may change while the service runs, and handshakes that do not wait for each
//! other.
//!
//! *Invariant:* a connection keeps what it was made with; new ones get what is in force. A client that is slow to shake
//! hands holds up nobody, unless there are [`MAX_HANDSHAKES`] of them, and none for longer than [`HANDSHAKE_TIMEOUT`].

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls::{RootCertStore, crypto};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use toolgate_config::service::{ClientAuth, TlsConfig};

use super::error::AuthError;
use super::files::{Readers, Reloading, Source, wrong};

/// How long a handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many handshakes may be under way; more connections wait in the system's queue.
pub(super) const MAX_HANDSHAKES: usize = 512;

/// How long to wait when the system has no more to give, file descriptors for instance.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The certificates in force.
pub struct Tls {
    files: Reloading<ServerConfig>,
}

impl Tls {
    /// Reads the certificates. Blocking.
    ///
    /// # Errors
    /// A file cannot be read or understood, or the key does not belong to the certificate.
    pub fn load(tls: TlsConfig) -> Result<Arc<Self>, AuthError> {
        let source = |path: &PathBuf, readers| Source {
            path: path.clone(),
            readers,
        };
        let mut sources = vec![
            source(&tls.certificate, Readers::Anybody),
            source(&tls.key, Readers::Group),
        ];
        sources.extend(tls.client_ca.iter().map(|path| source(path, Readers::Anybody)));
        let files = Reloading::load(sources, move |contents| server_config(&tls, contents))?;
        Ok(Arc::new(Self { files }))
    }

    /// Reads the files again. Blocking.
    pub(super) fn refresh(&self) {
        self.files.refresh();
    }
}

fn server_config(tls: &TlsConfig, contents: &[Vec<u8>]) -> Result<ServerConfig, AuthError> {
    let [certificate, key, client_ca @ ..] = contents else {
        return Err(wrong(&tls.certificate, "it was not read"));
    };
    let chain = certificates(&tls.certificate, certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| wrong(&tls.key, "it holds no private key in PEM form"))?;
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&tls.certificate, error.to_string()))?;
    let builder = match (&tls.client_ca, client_ca.first()) {
        (Some(path), Some(pem)) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path, pem)? {
                roots.add(authority).map_err(|error| wrong(path, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            let verifier = match tls.client_auth {
                ClientAuth::Required => verifier,
                ClientAuth::Optional => verifier.allow_unauthenticated(),
            };
            let verifier = verifier.build().map_err(|error| wrong(path, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
        (None | Some(_), _) => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&tls.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &std::path::Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, AuthError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(wrong(path, "it holds no certificate in PEM form")),
    }
}

struct Incoming {
    listener: TcpListener,
    tls: Arc<Tls>,
    handshakes: JoinSet<io::Result<TlsStream<TcpStream>>>,
}

/// Accepts connections and shakes hands with their clients, with many at a time.
pub(crate) fn incoming(listener: TcpListener, tls: Arc<Tls>) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    let incoming = Incoming {
        listener,
        tls,
        handshakes: JoinSet::new(),
    };
    stream::unfold(incoming, |mut incoming| async move {
        let connection = incoming.next().await;
        Some((Ok(connection), incoming))
    })
}

impl Incoming {
    async fn next(&mut self) -> TlsStream<TcpStream> {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Ok(connection)) => return connection,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(error) => tracing::error!(%error, "a TLS handshake did not come to its end"),
                },
                accepted = self.listener.accept(), if self.handshakes.len() < MAX_HANDSHAKES => match accepted {
                    Ok((connection, _)) => {
                        let acceptor = TlsAcceptor::from(self.tls.files.current());
                        self.handshakes.spawn(shake_hands(acceptor, connection));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    }
                },
            }
        }
    }
}

async fn shake_hands(acceptor: TlsAcceptor, connection: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    connection.set_nodelay(true)?;
    tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(connection)).await?
}
