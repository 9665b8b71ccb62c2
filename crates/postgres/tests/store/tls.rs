//! TLS: the server is verified, and the password is bound to the connection.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use toolgate_model::InstanceId;
use toolgate_postgres::{PostgresOptions, PostgresStore, check, migrate};
use toolgate_store::Upkeep as _;

use crate::server::Server;
use crate::store::{create, record};

/// A server's certificate, and what a client that trusts it and nobody else connects with.
fn certificate() -> (String, String, ClientConfig) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (cert.pem(), signing_key.serialize_pem(), config)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_verified() {
    let (pem, key, trusting) = certificate();
    let (.., distrusting) = certificate();
    let server = Server::start_with_tls(&pem, &key).await;
    let options = |host: &str, tls: &ClientConfig| PostgresOptions {
        tls: Some(tls.clone()),
        ..PostgresOptions::new(server.address_with_tls(host, "postgres"))
    };
    migrate(&options("localhost", &trusting)).await.unwrap();
    let instance = InstanceId::generate();
    let store = PostgresStore::open(options("localhost", &trusting), instance.clone())
        .await
        .unwrap();
    create(&store, record("c", &instance)).await;
    store.close().await.unwrap();
    for (host, tls) in [("127.0.0.1", &trusting), ("localhost", &distrusting)] {
        assert!(check(&options(host, tls)).await.is_err(), "{host}");
    }
}
