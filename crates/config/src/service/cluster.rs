//! The part `cluster` of the configuration: the workers of a gateway, the gateways of a worker, and tenants.
//!
//! *Invariant:* a gateway works in no folder, and speaks in the clear with workers on this machine only.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;
use toolgate_model::WorkspaceSet;
use toolgate_web::{Allowed, Url};

use super::addresses::{is_local, is_server};
use super::keys::ClusterConfig;
use super::kinds::{Context, Kind, MAX_COUNT, Malformed, Shape, joined};
use super::values::{TenantConfig, WorkerConfig};

/// Bytes of the longest name of a worker.
const MAX_NAME_BYTES: usize = 63;

/// One entry of `cluster.workers`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorker {
    address: Spanned<String>,
    token_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    ca: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
}

impl RawWorker {
    fn check(self, name: &str, context: &Context<'_>) -> Result<WorkerConfig, Malformed> {
        let path = |path: Option<PathBuf>| path.map(|path| context.path(&path.to_string_lossy())).transpose();
        let at_address = Some(self.address.span().start);
        let worker = WorkerConfig {
            name: name.to_owned(),
            token_file: path(self.token_file)?,
            certificate: path(self.certificate)?,
            key: path(self.key)?,
            ca: path(self.ca)?,
            address: self.address.into_inner(),
        };
        let checked = check_address(&worker.address, self.insecure);
        checked.map_err(|message| Malformed {
            offset: at_address,
            message,
        })?;
        let is_encrypted = worker.address.starts_with("https://");
        let wrong = |message: &str| Err(message.to_owned().into());
        if worker.certificate.is_some() != worker.key.is_some() {
            return wrong("expected both certificate and key, or neither");
        }
        if !is_encrypted && (worker.certificate.is_some() || worker.ca.is_some()) {
            return wrong("certificate, key and ca need an address that begins with https://");
        }
        if worker.token_file.is_none() && worker.certificate.is_none() {
            return wrong("the gateway must say who it is: set token_file, or certificate and key");
        }
        Ok(worker)
    }
}

/// Checks where a gateway or a worker is.
fn check_address(address: &str, insecure: bool) -> Result<(), String> {
    if let Some(socket) = address.strip_prefix("unix:") {
        return match socket.starts_with('/') {
            true => Ok(()),
            false => Err("expected unix:/PATH with a whole path".to_owned()),
        };
    }
    if !is_server(address) {
        return Err(
            "expected an address such as https://10.0.0.5:50551, http://127.0.0.1:50551 or unix:/PATH".to_owned(),
        );
    }
    if !address.starts_with("https://") && !insecure && !is_local(address) {
        return Err(
            "the line to this address is not encrypted: write https://, or `insecure = true` in the table of a worker if \
             something in between encrypts"
                .to_owned(),
        );
    }
    Ok(())
}

/// Reads where a gateway or a worker is.
pub(super) fn address(text: &str) -> Result<String, String> {
    check_address(text, false).map(|()| text.to_owned())
}

/// Reads the name of a worker or a tenant.
///
/// # Errors
/// What was expected.
pub fn worker_name(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(plain) {
        true => Ok(name.to_owned()),
        false => {
            let shown: String = name.chars().take(MAX_NAME_BYTES).collect();
            Err(format!(
                "expected a name of 1 to {MAX_NAME_BYTES} small letters, digits or '-', found {shown:?}"
            ))
        }
    }
}

impl ClusterConfig {
    /// Says whether a gateway may call a worker where that one says to be. `from` is the address that it registers from; none if it
    /// is a process of this machine that came by a Unix socket. `hosts` are names that are its own.
    ///
    /// # Errors
    /// It may not; the text says what to do.
    pub fn permits(&self, advertised: &str, from: Option<IpAddr>, hosts: &[String]) -> Result<(), String> {
        check_address(advertised, false)?;
        let from = from.map(|address| address.to_canonical());
        let is_here = from.is_none_or(|address| address.is_loopback());
        let wrong = || {
            let from = from.map_or_else(|| "this machine".to_owned(), |from| from.to_string());
            format!(
                "the worker says that it is at {advertised} and registers from {from}: the gateway calls it there only if \
                 cluster.reach of the gateway's configuration, or the rule for the worker, names that host or network"
            )
        };
        if advertised.starts_with("unix:") {
            return if is_here { Ok(()) } else { Err(wrong()) };
        }
        let url = Url::parse(advertised).map_err(|_| wrong())?;
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let is_local = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        let is_named = self.reach.iter().any(|allowed| match allowed {
            Allowed::Host { name, port } => {
                name == host && port.is_none_or(|port| url.port_or_known_default() == Some(port))
            }
            Allowed::Network { .. } => address.is_some_and(|address| allowed.holds(address)),
        });
        let is_its_own = address.is_some() && address == from;
        let is_said = hosts.iter().any(|said| said == host);
        if is_named || is_said || is_its_own || (is_here && is_local) {
            return Ok(());
        }
        Err(wrong())
    }
}

/// The workers, in the order of their names.
pub(super) fn workers() -> Kind<BTreeMap<String, Spanned<RawWorker>>, Vec<WorkerConfig>> {
    let parse = |workers: BTreeMap<String, Spanned<RawWorker>>, context: &Context<'_>| {
        let checked = workers.into_iter().map(|(name, worker)| {
            let start = worker.span().start;
            let checked = worker_name(&name).map_err(Malformed::from);
            let checked = checked.and_then(|name| worker.into_inner().check(&name, context));
            checked.map_err(|wrong| Malformed {
                offset: wrong.offset.or(Some(start)),
                message: format!("worker {name:?}: {}", wrong.message),
            })
        });
        checked.collect::<Result<Vec<_>, Malformed>>()
    };
    let show = |worker: &WorkerConfig| format!("{}={}", worker.name, worker.address);
    Kind::placed(Shape::Tables, parse, move |workers: &Vec<WorkerConfig>| {
        joined(workers, show)
    })
}

/// One entry of `tenants`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTenant {
    workspaces: Vec<String>,
    max_workspaces: Option<i64>,
    max_running_calls: Option<i64>,
}

impl RawTenant {
    fn check(self, name: &str) -> Result<TenantConfig, String> {
        let count = |key: &str, count: Option<i64>| {
            let fits = |count: i64| u32::try_from(count).ok().filter(|count| *count <= MAX_COUNT);
            let read = count.map(|count| {
                fits(count).ok_or_else(|| format!("{key}: expected a number from 0 to {MAX_COUNT}, found {count}"))
            });
            read.transpose()
        };
        let workspaces = WorkspaceSet::parse(self.workspaces.iter().map(String::as_str));
        Ok(TenantConfig {
            name: worker_name(name)?,
            workspaces: workspaces.map_err(|problem| format!("workspaces: {problem}"))?,
            max_workspaces: count("max_workspaces", self.max_workspaces)?,
            max_running_calls: count("max_running_calls", self.max_running_calls)?,
        })
    }
}

/// The tenants, in the order of their names.
pub(super) fn tenants() -> Kind<BTreeMap<String, Spanned<RawTenant>>, Vec<TenantConfig>> {
    let parse = |tenants: BTreeMap<String, Spanned<RawTenant>>, _: &Context<'_>| {
        let checked = tenants.into_iter().map(|(name, tenant)| {
            let start = tenant.span().start;
            tenant.into_inner().check(&name).map_err(|message| Malformed {
                offset: Some(start),
                message: format!("tenant {name:?}: {message}"),
            })
        });
        checked.collect::<Result<Vec<_>, Malformed>>()
    };
    let show = |tenant: &TenantConfig| {
        let workspaces = tenant.workspaces.entries().unwrap_or_else(|| vec!["*".to_owned()]);
        format!("{}={}", tenant.name, workspaces.join("+"))
    };
    Kind::placed(Shape::Tables, parse, move |tenants: &Vec<TenantConfig>| {
        joined(tenants, show)
    })
}

/// The ids of principals that may say on whose behalf they call, as the audit shows them.
pub(super) fn gateway(id: &str) -> Result<String, String> {
    principal(id, "gateway")
}

/// The ids of principals that may register as workers.
pub(super) fn worker(id: &str) -> Result<String, String> {
    principal(id, "worker-a")
}

fn principal(id: &str, example: &str) -> Result<String, String> {
    let name = id
        .split_once(':')
        .filter(|(kind, _)| matches!(*kind, "token" | "jwt" | "certificate"));
    match name {
        Some((_, name)) if !name.is_empty() => Ok(id.to_owned()),
        Some(_) | None => Err(format!(
            "expected the id of a principal such as \"token:{example}\" or \"certificate:{example}\", found {id:?}"
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

    const WORKER: &str =
        "[cluster]\ngateways = [\"https://10.0.0.1:50551\"]\nidentity = \"token\"\nadvertise = \"unix:/s\"\n";

    #[test]
    fn a_worker_says_who_and_where_it_is() {
        let config = load(WORKER).unwrap();
        assert_eq!(config.cluster.gateways, ["https://10.0.0.1:50551"]);
        assert!(config.private_files.iter().any(|path| path.ends_with("token")));
        // Nobody else is let in without credentials, so that it may listen for its gateways.
        assert!(config.auth.has_credentials());
        let certificate = "certificate = \"c\"\nkey = \"k\"";
        assert!(load(&WORKER.replace("identity = \"token\"", certificate)).is_ok());
        let check = |text: &str, expected: &str| {
            let error = load(text).unwrap_err();
            assert!(error.contains(expected), "{expected:?} is not in {error:?}");
        };
        check(
            &WORKER.replace("identity = \"token\"\n", ""),
            "who it is: set cluster.identity",
        );
        check(
            &WORKER.replace("advertise = \"unix:/s\"\n", ""),
            "set cluster.advertise",
        );
        check(
            &WORKER.replace("gateways = [\"https://10.0.0.1:50551\"]\n", ""),
            "set cluster.gateways",
        );
        check(&WORKER.replace("https://10", "http://10"), "not encrypted");
        check(&format!("{WORKER}name = \"A\""), "small letters");
        check(&format!("{WORKER}certificate = \"c\""), "set both");
        check(
            &format!("{WORKER}reach = [\"10.0.0.0/8\"]"),
            "only a gateway has workers",
        );
        check(
            &format!("{WORKER}[tenants.a]\nworkspaces = [\"a\"]"),
            "only a gateway has tenants",
        );
        let by_certificate = WORKER.replace("identity = \"token\"", certificate);
        check(
            &by_certificate.replace("https://10.0.0.1", "http://127.0.0.1"),
            "with https:// only",
        );
        let gateway = format!("{GATEWAY}auth.workers = [\"token:a\"]\n");
        assert!(load(&gateway).is_ok());
        check(&format!("{gateway}cluster.name = \"a\""), "registers nowhere");
        check(&gateway.replace("token:a", "a"), "the id of a principal");
    }

    #[test]
    fn a_gateway_calls_a_worker_only_where_that_is_permitted() {
        let reach = "cluster.reach = [\"10.1.0.0/16\", \"worker.example:443\", \"localhost:7\"]\n";
        let config = load(&format!("{GATEWAY}auth.workers = [\"token:a\"]\n{reach}")).unwrap();
        let check = |advertised: &str, from: Option<&str>, expected: bool| {
            let from_address = from.map(|from| from.parse().unwrap());
            let own = ["own.example".to_owned()];
            let permitted = config.cluster.permits(advertised, from_address, &own);
            assert_eq!(permitted.is_ok(), expected, "{advertised} from {from:?}: {permitted:?}");
        };
        for (advertised, from) in [
            ("https://192.0.2.7:1", "192.0.2.7"),
            ("https://192.0.2.7:1", "::ffff:192.0.2.7"),
            ("https://[2001:db8::1]:1", "2001:db8::1"),
            ("https://10.1.2.3:1", "192.0.2.7"),
            ("https://worker.example", "192.0.2.7"),
            ("https://own.example:7", "192.0.2.7"),
            ("http://127.0.0.1:1", "127.0.0.1"),
            ("https://localhost:1", "::1"),
            ("https://localhost:7", "192.0.2.7"),
            ("unix:/s", "127.0.0.1"),
        ] {
            check(advertised, Some(from), true);
        }
        check("unix:/s", None, true);
        check("http://[::1]:1", None, true);
        check("https://192.0.2.7", None, false);
        for advertised in [
            "https://192.0.2.8:1",
            "https://169.254.169.254",
            "https://127.0.0.1:1",
            "https://[::1]:1",
            "https://[::ffff:127.0.0.1]:1",
            "https://localhost:1",
            "https://0.0.0.0:1",
            "https://worker.example:444",
            "https://other.example",
            "https://10.2.0.1",
            "http://192.0.2.7:1",
            "unix:/s",
            "nonsense",
            "https://u@192.0.2.7",
            "",
        ] {
            check(advertised, Some("192.0.2.7"), false);
        }
    }

    const WITH_STORE: &str =
        "auth.workers = [\"token:a\"]\ncluster.store = \"postgres://u:hunter2@db:5432/t?sslmode=verify-full\"\n";

    #[test]
    fn a_gateway_may_have_a_database() {
        let good = format!("{GATEWAY}{WITH_STORE}");
        let config = load(&good).unwrap();
        let store = config.cluster.database().unwrap();
        assert!(store.reveal().contains("hunter2") && !store.is_local());
        assert_eq!(store.tls_mode(), Some("verify-full"));
        assert!(!format!("{config:?}").contains("hunter2"), "a password is never shown");
        let shown = config
            .explain()
            .iter()
            .find(|setting| setting.key == "cluster.store")
            .unwrap();
        assert_eq!(shown.value, "postgres://db:5432/t");
        for local in ["localhost", "127.0.0.1:5", "[::1]:5", "%2Frun%2Fpg", ""] {
            let config = load(&good.replace("db:5432", local)).unwrap();
            assert!(config.cluster.database().unwrap().is_local(), "{local}");
        }
        let check = |text: &str, expected: &str| {
            let error = load(text).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("hunter2"),
                "{expected:?} is not in {error:?}"
            );
        };
        let bucket = "cluster.outputs = \"s3://outputs/a\"\ncluster.outputs_path_style = true\n";
        let config = load(&format!("{good}{bucket}")).unwrap();
        assert_eq!(config.cluster.outputs.as_deref(), Some("s3://outputs/a"));
        check(
            &format!("{good}cluster.outputs_region = \"eu\""),
            "set cluster.outputs to",
        );
        check(
            &format!("{GATEWAY}auth.workers = [\"token:a\"]\n{bucket}"),
            "with a database",
        );
        check(&good.replace("auth.workers = [\"token:a\"]", ""), "needs workers");
        check(
            &good.replace("postgres://u", "mysql://u"),
            "expected the address of a PostgreSQL database",
        );
        check(&good.replace("verify-full", "maybe"), "sslmode is none of");
        check(&good.replace("hunter2", "hunter?2"), "write these as %40, %3F and %23");
        check(
            &format!("{good}cluster.store_file = \"toolgate.toml\""),
            "others may read or change it",
        );
        check(&format!("{good}cluster.lease = \"1s\""), "expected 3s to 10m");
        check(
            &format!("{good}[cluster.workers.a]\naddress = \"unix:/a\"\ntoken_file = \"/t\""),
            "register themselves",
        );
        check("cluster.store = \"postgres://h/d\"", "only a gateway has a database");
        let bare = format!("{GATEWAY}auth.workers = [\"token:a\"]\n");
        check(&format!("{bare}cluster.lease = \"5s\""), "set cluster.store");
    }

    #[test]
    fn a_worker_keeps_nothing() {
        let worker = format!("{WORKER}role = \"worker\"\n");
        assert_eq!(load(&worker).unwrap().cluster.role, ClusterRole::Worker);
        let check = |text: &str, expected: &str| {
            let error = load(text).unwrap_err();
            assert!(error.contains(expected), "{expected:?} is not in {error:?}");
        };
        check("cluster.role = \"worker\"", "set cluster.gateways");
        check(
            &format!("{worker}store = \"postgres://h/d\""),
            "only a gateway has a database",
        );
        check(&format!("{worker}[audit]\nretention = \"1d\""), "keeps nothing");
        check(&format!("{worker}[state]\ndurability = \"power\""), "keeps nothing");
        check(
            &worker.replace("advertise = \"unix:/s\"\n", ""),
            "set cluster.advertise",
        );
    }

    #[test]
    fn an_error_names_the_line() {
        let text = worker("token_file = \"/t\"\naddress = \"nonsense\"");
        let error = load(&text).unwrap_err();
        let line = text.lines().position(|line| line.starts_with("address")).unwrap() + 1;
        assert!(
            error.contains(&format!("{line}:")) || error.contains(&format!("line {line}")),
            "{error}"
        );
    }

    #[test]
    fn tenants_are_read() {
        let gateway = format!("{GATEWAY}auth.workers = [\"token:a\"]\n");
        let config = load(&format!(
            "{gateway}[tenants.acme]\nworkspaces = [\"acme/*\"]\nmax_workspaces = 2\n"
        ))
        .unwrap();
        let tenant = &config.tenants[0];
        assert!(tenant.workspaces.contains("acme/a") && !tenant.workspaces.contains("acme"));
        assert_eq!((tenant.max_workspaces, tenant.max_running_calls), (Some(2), None));
        for (wrong, expected) in [
            ("workspaces = []", "at least one"),
            ("max_workspaces = 2", "workspaces"),
            ("workspaces = [\"a\"]\nmax_workspaces = -1", "max_workspaces"),
            ("workspaces = [\"a\"]\nmax_calls = 1", "max_calls"),
        ] {
            let error = load(&format!("{gateway}[tenants.acme]\n{wrong}\n")).unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }
}
