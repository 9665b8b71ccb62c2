//! The part `cluster` of the configuration: the workers of a gateway, and what one must not be configured with.
//!
//! *Invariant:* a gateway works in no folder, and speaks in the clear with workers on this machine only.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;
use toolgate_web::Url;

use super::kinds::{Context, Kind, Shape, joined};
use super::values::WorkerConfig;

/// Bytes of the longest name of a worker.
const MAX_NAME_BYTES: usize = 63;

/// One entry of `cluster.workers`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorker {
    address: String,
    token_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    ca: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
}

impl RawWorker {
    fn check(self, name: &str, context: &Context<'_>) -> Result<WorkerConfig, String> {
        let path = |path: Option<PathBuf>| path.map(|path| context.path(&path.to_string_lossy())).transpose();
        let worker = WorkerConfig {
            name: name.to_owned(),
            token_file: path(self.token_file)?,
            certificate: path(self.certificate)?,
            key: path(self.key)?,
            ca: path(self.ca)?,
            address: self.address,
        };
        let is_encrypted = worker.address.starts_with("https://");
        if let Some(socket) = worker.address.strip_prefix("unix:") {
            if !socket.starts_with('/') {
                return Err("expected unix:/PATH with a whole path".to_owned());
            }
        } else if !is_server(&worker.address) {
            return Err(
                "expected an address such as https://10.0.0.5:50551, http://127.0.0.1:50551 or unix:/PATH".to_owned(),
            );
        } else if !is_encrypted && !self.insecure && !is_local(&worker.address) {
            return Err(
                "the line to this worker is not encrypted: write https://, or `insecure = true` if something in between encrypts"
                    .to_owned(),
            );
        }
        if worker.certificate.is_some() != worker.key.is_some() {
            return Err("expected both certificate and key, or neither".to_owned());
        }
        if !is_encrypted && (worker.certificate.is_some() || worker.ca.is_some()) {
            return Err("certificate, key and ca need an address that begins with https://".to_owned());
        }
        if worker.token_file.is_none() && worker.certificate.is_none() {
            return Err("the gateway must say who it is: set token_file, or certificate and key".to_owned());
        }
        Ok(worker)
    }
}

/// Says whether an address is that of a server, without a path and a user.
fn is_server(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| {
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host() && url.path() == "/";
        is_web && url.query().is_none() && url.fragment().is_none() && url.username().is_empty()
    })
}

fn is_local(address: &str) -> bool {
    let url = Url::parse(address).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The workers, in the order of their names.
pub(super) fn workers() -> Kind<BTreeMap<String, RawWorker>, Vec<WorkerConfig>> {
    let parse = |workers: BTreeMap<String, RawWorker>, context: &Context<'_>| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let checked = workers.into_iter().map(|(name, worker)| {
            if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(plain) {
                return Err(format!(
                    "expected a name of 1 to {MAX_NAME_BYTES} small letters, digits or '-', found {name:?}"
                ));
            }
            worker
                .check(&name, context)
                .map_err(|message| format!("worker {name:?}: {message}"))
        });
        checked.collect()
    };
    let show = |worker: &WorkerConfig| format!("{}={}", worker.name, worker.address);
    Kind::new(Shape::Tables, parse, move |workers: &Vec<WorkerConfig>| {
        joined(workers, show)
    })
}

/// The ids of principals that may say on whose behalf they call, as the audit shows them.
pub(super) fn gateway(id: &str) -> Result<String, String> {
    let name = id
        .split_once(':')
        .filter(|(kind, _)| matches!(*kind, "token" | "jwt" | "certificate"));
    match name {
        Some((_, name)) if !name.is_empty() => Ok(id.to_owned()),
        Some(_) | None => Err(format!(
            "expected the id of a principal such as \"token:gateway\" or \"certificate:gateway\", found {id:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{ClusterRole, Config, RawConfig};
    use crate::environment::Environment;

    const GATEWAY: &str = "auth.tokens_file = \"tokens\"\ncluster.role = \"gateway\"\n";

    fn load(file: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolgate.toml");
        std::fs::write(&path, file).unwrap();
        let environment = Environment::new([("HOME".to_owned(), "/nowhere/u".to_owned())], "/nowhere/w");
        Config::load(Some(&path), RawConfig::default(), &environment).map_err(|error| error.to_string())
    }

    fn worker(settings: &str) -> String {
        format!("{GATEWAY}[cluster.workers.a]\n{settings}\n")
    }

    #[test]
    fn a_gateway_has_workers_and_no_folder() {
        let text = format!(
            "{}[cluster.workers.b]\naddress = \"unix:/b\"\ntoken_file = \"/t\"\n",
            worker("address = \"https://10.0.0.5:50551\"\ncertificate = \"/c\"\nkey = \"/k\"\nca = \"/ca\"")
        );
        let config = load(&text).unwrap();
        let names: Vec<&str> = config
            .cluster
            .workers
            .iter()
            .map(|worker| worker.name.as_str())
            .collect();
        assert_eq!((config.cluster.role, names), (ClusterRole::Gateway, vec!["a", "b"]));
        assert!(config.workspaces.is_empty() && config.listen.unix.is_none());
        assert_eq!(config.cluster.workers[0].key.as_deref(), Some(Path::new("/k")));
        let config = load("").unwrap();
        assert_eq!(config.cluster.role, ClusterRole::All);
        assert_eq!(config.workspaces.len(), 1);
    }

    #[test]
    fn what_is_no_gateway_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = load(text).unwrap_err();
            assert!(error.contains(expected), "{expected:?} is not in {error:?}");
        };
        let good = worker("address = \"unix:/a\"\ntoken_file = \"/t\"");
        check(GATEWAY, "needs workers");
        check(
            &format!("{good}[[workspaces]]\nname = \"a\"\ndirectory = \"/a\""),
            "works in no folder",
        );
        check(
            &format!("{good}[[workspace_roots]]\ndirectory = \"/a\""),
            "works in no folder",
        );
        check(
            &good.replace("cluster.role = \"gateway\"\n", ""),
            "only a gateway has workers",
        );
        check(&good.replace("auth.tokens_file = \"tokens\"\n", ""), "on whose behalf");
        check(&good.replace("workers.a", "workers.A"), "small letters");
        check(
            &format!("{good}[auth.unix]\ngroup = \"g\"\nscopes = [\"admin\"]\n[listen]\nunix = \"/s\""),
            "asks everybody",
        );
        check(&worker("address = \"unix:/a\""), "must say who it is");
        check(
            &worker("address = \"http://10.0.0.5:1\"\ntoken_file = \"/t\""),
            "not encrypted",
        );
        assert!(
            load(&worker(
                "address = \"http://10.0.0.5:1\"\ntoken_file = \"/t\"\ninsecure = true"
            ))
            .is_ok()
        );
        assert!(load(&worker("address = \"http://[::1]:1\"\ntoken_file = \"/t\"")).is_ok());
        for address in [
            "unix:a",
            "10.0.0.5:1",
            "https://",
            "https://u@a",
            "https://a/b",
            "ftp://a",
        ] {
            check(
                &worker(&format!("address = \"{address}\"\ntoken_file = \"/t\"")),
                "expected",
            );
        }
        check(
            &worker("address = \"https://a\"\ncertificate = \"/c\""),
            "both certificate and key",
        );
        check(
            &worker("address = \"unix:/a\"\ntoken_file = \"/t\"\nca = \"/c\""),
            "https://",
        );
        check("auth.gateways = [\"token:gw\"]", "nobody could show");
        check(
            "auth.tokens_file = \"t\"\nauth.gateways = [\"gw\"]",
            "the id of a principal",
        );
        check(
            "auth.tokens_file = \"t\"\nauth.gateways = [\"unix:0\"]",
            "the id of a principal",
        );
        assert_eq!(
            load("auth.tokens_file = \"t\"\nauth.gateways = [\"token:gw\"]")
                .unwrap()
                .auth
                .gateways,
            ["token:gw"]
        );
    }
}
