//! TLS: the server is verified, and the password is bound to the connection.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
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

/// A server that says that it has no TLS. Returns its port, and whether it was sent anything after that.
async fn without_tls() -> (u16, tokio::task::JoinHandle<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_sent_more = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 8];
        stream.read_exact(&mut asked).await.unwrap();
        stream.write_all(b"N").await.unwrap();
        stream.read_u8().await.is_ok()
    });
    (port, is_sent_more)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_logs_in_without_tls_who_has_configured_it() {
    let (.., tls) = certificate();
    for mode in [
        "",
        "?sslmode=prefer",
        "?sslmode=verify-full",
        "?sslmode=verify-ca",
        "?sslmode=require",
    ] {
        let (port, is_sent_more) = without_tls().await;
        let address = format!("postgres://toolgate:secret@127.0.0.1:{port}/postgres{mode}");
        let options = PostgresOptions {
            tls: Some(tls.clone()),
            ..PostgresOptions::new(address.clone())
        };
        assert!(check(&options).await.is_err(), "{mode}");
        assert!(!is_sent_more.await.unwrap(), "{mode}: a login in plain text");
        if !mode.is_empty() && mode != "?sslmode=prefer" {
            let refused = check(&PostgresOptions::new(address)).await.unwrap_err();
            let why = std::error::Error::source(&refused).unwrap().to_string();
            assert_eq!(why, "it asks for TLS, and none is configured");
        }
    }
}
