//! A gateway and workers beyond one machine: encrypted lines, and certificates of both sides in both directions.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use toolgate_contract::tool_service_client::ToolServiceClient;

use super::setup::*;
use crate::auth::Authority;
use crate::support::{self, completed, eventually, test};

/// Writes what one side shows as a server and as a client, and whom it trusts.
fn equip(place: &Path, authority: &Authority, client: &(String, String)) {
    fs::create_dir_all(place.join("work")).unwrap();
    put(&place.join("work/opencode.json"), r#"{"permission": "allow"}"#);
    let server = authority.server();
    for (name, text) in [
        ("ca", &authority.pem()),
        ("server.crt", &server.0),
        ("server.key", &server.1),
        ("client.crt", &client.0),
        ("client.key", &client.1),
    ] {
        put(&place.join(name), text);
    }
}

const TLS: &str = "[listen.tls]\ncertificate = \"server.crt\"\nkey = \"server.key\"\nclient_ca = \"ca\"\n";

/// Returns the settings of a worker that registers.
fn worker(gateway: &str, own: &str) -> String {
    format!(
        "data_dir = \"data\"\nlisten.unix = \"s\"\n[[workspaces]]\nname = \"wa\"\ndirectory = \"work\"\n[cluster]\n\
         gateways = [\"{gateway}\"]\nname = \"a\"\nadvertise = \"{own}\"\nca = \"ca\"\ncertificate = \"client.crt\"\n\
         key = \"client.key\"\n{TLS}"
    )
}

fn on_localhost(address: &str) -> String {
    format!("https://localhost:{}", address.rsplit(':').next().unwrap())
}

#[test]
fn certificates_say_who_both_sides_are() {
    test(async {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = TempDir::new().unwrap();
        let (home, authority, other) = (folder.path().join("home"), Authority::new(), Authority::new());
        fs::create_dir_all(&home).unwrap();
        let place = folder.path().join("gateway");
        equip(&place, &authority, &authority.client("gateway", |_| {}));
        put(&place.join("tokens"), &format!("anna {ANNA} *\n"));
        let text = format!(
            "auth.tokens_file = \"tokens\"\nauth.workers = [\"certificate:worker-a\"]\n[[auth.certificates]]\nsubject = \"a\"\n\
             name = \"worker-a\"\nscopes = []\nworkspaces = [\"wa\"]\n[cluster]\nrole = \"gateway\"\nca = \"ca\"\n\
             reach = [\"localhost\"]\ncertificate = \"client.crt\"\nkey = \"client.key\"\n{TLS}client_auth = \"optional\"\n"
        );
        put(&place.join("toolgate.toml"), &text);
        let gateway = Process::start(place, "gateway", &home).await;
        let address = on_localhost(&gateway.address);

        // A worker that another authority knows, and one that does not know the gateway.
        let stranger = folder.path().join("stranger");
        equip(&stranger, &authority, &other.client("a", |_| {}));
        put(
            &stranger.join("toolgate.toml"),
            &worker(&address, "https://localhost:1"),
        );
        let stranger = Process::start(stranger, "serve", &home).await;
        let wary = folder.path().join("wary");
        equip(&wary, &authority, &authority.client("a", |_| {}));
        put(&wary.join("ca"), &other.pem());
        put(&wary.join("toolgate.toml"), &worker(&address, "https://localhost:1"));
        let wary = Process::start(wary, "serve", &home).await;
        for process in [&stranger, &wary] {
            let told = async || process.log().contains("not registered at a gateway");
            eventually("it is not registered", told).await;
        }
        assert!(!gateway.log().contains("a worker has registered"), "{}", gateway.log());

        // The port is free until the worker takes it.
        let port = free_address();
        let place = folder.path().join("a");
        equip(&place, &authority, &authority.client("a", |_| {}));
        let text = worker(&address, &on_localhost(&port.to_string()));
        put(&place.join("toolgate.toml"), &text);
        let a = Process::start_at(&port.to_string(), place, "serve", &home).await;
        let config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(authority.pem()))
            .domain_name("localhost");
        let endpoint = Endpoint::from_shared(address).unwrap().tls_config(config).unwrap();
        let channel: Channel = endpoint.connect().await.unwrap();
        let mut tools = ToolServiceClient::with_interceptor(channel, Shown(ANNA, None));
        let mut call = None;
        eventually("the worker has registered", async || {
            let request = support::run_request(bash("wa", "echo $((6 * 7))"));
            call = tools.run_tool(request).await.ok().and_then(|run| run.into_inner().call);
            call.is_some()
        })
        .await;
        assert_eq!(completed(&call.unwrap()).output.trim(), "42");
        for process in [&gateway, &a, &stranger, &wary] {
            let log = process.log();
            assert!(
                !log.contains("panicked") && !log.contains("toolgate-registration-"),
                "{log}"
            );
        }
    });
}

#[test]
fn a_worker_shows_the_certificate_that_it_has_now() {
    test(async {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = TempDir::new().unwrap();
        let (home, authority, next) = (folder.path().join("home"), Authority::new(), Authority::new());
        fs::create_dir_all(&home).unwrap();
        let place = folder.path().join("gateway");
        equip(&place, &authority, &authority.client("gateway", |_| {}));
        put(&place.join("tokens"), &format!("anna {ANNA} *\n"));
        put(&place.join("clients"), &authority.pem());
        let text = format!(
            "auth.tokens_file = \"tokens\"\nauth.workers = [\"certificate:worker-a\"]\n[[auth.certificates]]\nsubject = \"a\"\n\
             name = \"worker-a\"\nscopes = []\nworkspaces = [\"wa\"]\n[cluster]\nrole = \"gateway\"\nca = \"ca\"\n\
             reach = [\"localhost\"]\ncertificate = \"client.crt\"\nkey = \"client.key\"\n{}client_auth = \"optional\"\n",
            TLS.replace("client_ca = \"ca\"", "client_ca = \"clients\"")
        );
        put(&place.join("toolgate.toml"), &text);
        let mut gateway = Process::start(place.clone(), "gateway", &home).await;
        let port = free_address();
        let of_worker = folder.path().join("a");
        equip(&of_worker, &authority, &authority.client("a", |_| {}));
        let text = worker(&on_localhost(&gateway.address), &on_localhost(&port.to_string()));
        put(&of_worker.join("toolgate.toml"), &text);
        let a = Process::start_at(&port.to_string(), of_worker.clone(), "serve", &home).await;
        let registered = |times: usize| {
            let log = gateway.log();
            log.matches("a worker has registered").count() >= times
        };
        eventually("the worker has registered", async || registered(1)).await;

        // From now on the gateway knows the clients of another authority, and the worker is one of them.
        let (certificate, key) = next.client("a", |_| {});
        put(&of_worker.join("client.crt"), &certificate);
        put(&of_worker.join("client.key"), &key);
        put(&place.join("clients"), &next.pem());
        gateway.kill9().await;
        gateway.run(&home).await;
        let registered = || gateway.log().matches("a worker has registered").count();
        eventually("the worker has registered again", async || registered() >= 2).await;
        assert!(!a.log().contains("panicked"), "{}", a.log());
    });
}
