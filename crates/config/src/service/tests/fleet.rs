//! What gateways and workers of a fleet say of each other: rules, pools, ports.

use super::*;

const GATEWAY: &str = "auth.tokens_file = \"tokens\"\ncluster.role = \"gateway\"\n";

const WORKER: &str =
    "[cluster]\ngateways = [\"https://10.0.0.1:50551\"]\nidentity = \"token\"\nadvertise = \"unix:/s\"\n";

fn load(file: &str) -> Result<Config, String> {
    super::load(file, &[], RawConfig::default()).map_err(|error| error.to_string())
}

#[test]
fn rules_and_tokens_of_workers_go_together() {
    let check = |text: &str, expected: &str| {
        let error = load(text).unwrap_err();
        assert!(error.contains(expected), "{expected:?} is not in {error:?}");
    };
    let tokens = "[cluster.jwt]\njwks_file = \"k\"\nissuer = \"https://cluster\"\naudience = \"gateway\"\n";
    let rules = format!("{GATEWAY}auth.workers_file = \"rules\"\n");
    let good = load(&format!("{rules}{tokens}")).unwrap();
    assert!(good.auth.takes_workers() && good.auth.workers.is_empty());
    let settings = good.auth.worker_jwt.unwrap();
    assert_eq!(
        (settings.issuer.as_str(), settings.name_claim.as_str()),
        ("https://cluster", "sub")
    );
    assert!(load(&rules).is_ok());
    check(
        &format!("{GATEWAY}auth.workers = [\"token:a\"]\n{tokens}"),
        "set auth.workers_file",
    );
    check(
        &format!("{rules}{}", tokens.replace("audience = \"gateway\"\n", "")),
        "cluster.jwt.audience is missing",
    );
    let of_people = "[auth.jwt]\njwks_file = \"p\"\nissuer = \"https://cluster\"\naudience = \"people\"\n";
    assert!(load(&format!("{rules}{of_people}{tokens}")).is_ok());
    check(
        &format!("{rules}{}{tokens}", of_people.replace("people", "gateway")),
        "an audience of their own",
    );
    check("auth.workers_file = \"rules\"", "only a gateway has workers");
}

#[test]
fn a_worker_that_waits_has_one_folder_without_a_name() {
    let waits = format!("{WORKER}role = \"worker\"\n[[workspaces]]\nname = \"\"\ndirectory = \"/w\"\n");
    let config = load(&waits).unwrap();
    assert!(config.workspaces.is_empty());
    assert_eq!(config.unbound.unwrap().directory, Path::new("/w"));
    let check = |text: &str, expected: &str| {
        let error = load(text).unwrap_err();
        assert!(error.contains(expected), "{expected:?} is not in {error:?}");
    };
    check(&waits.replace("role = \"worker\"\n", ""), "set cluster.role");
    check(
        &format!("{waits}[[workspaces]]\nname = \"a\"\ndirectory = \"/a\"\n"),
        "has one folder",
    );
    check(
        &format!("{waits}[[workspace_roots]]\ndirectory = \"/r\"\n"),
        "has one folder",
    );
    check(
        &format!("{waits}[created_workspaces]\ndirectory = \"/r\"\n"),
        "nor created_workspaces.directory",
    );
    check(&format!("{waits}self_approval = true\n"), "permission.self_approval");
    let gateway = format!("{GATEWAY}auth.workers = [\"token:a\"]\n");
    check(
        &format!("{gateway}cluster.pool = \"first-call\""),
        "a gateway with a database",
    );
}

#[test]
fn a_port_for_workers_is_encrypted_beyond_this_machine() {
    let gateway = format!("{GATEWAY}auth.workers = [\"token:a\"]\n");
    let check = |text: &str, expected: &str| {
        let error = load(text).unwrap_err();
        assert!(error.contains(expected), "{expected:?} is not in {error:?}");
    };
    assert!(load(&format!("{gateway}cluster.listen = \"127.0.0.1:1\"")).is_ok());
    let open = format!("{gateway}cluster.listen = \"0.0.0.0:1\"\n");
    check(&open, "not encrypted");
    let tls = "cluster.tls.certificate = \"/c\"\ncluster.tls.key = \"/k\"\n";
    let config = load(&format!("{open}{tls}")).unwrap();
    assert!(config.tls.is_none() && config.worker_tls.is_some());
    check(&format!("{gateway}{tls}"), "set cluster.listen");
    check(&format!("{WORKER}listen = \"127.0.0.1:1\""), "only a gateway");
}

#[test]
fn who_makes_workspaces_is_said_at_gateways_with_a_database() {
    let gateway = format!("{GATEWAY}auth.workers = [\"token:a\"]\n");
    let fleet = format!("{gateway}cluster.store = \"postgres://h/d\"\n");
    let webhook = "[cluster.provisioner]\nkind = \"webhook\"\nurl = \"https://m.example/t\"\ntoken_file = \"/t\"\n";
    let config = load(&format!("{fleet}{webhook}")).unwrap().provisioner;
    assert_eq!(config.kind, Some(ProvisionerKind::Webhook));
    assert_eq!(
        (config.on_first_call, config.idle_suspend),
        (false, std::time::Duration::ZERO)
    );
    assert_eq!(config.ca_file, None);
    let trusting = format!("{fleet}{webhook}ca_file = \"/ca\"\n");
    assert_eq!(
        load(&trusting).unwrap().provisioner.ca_file.as_deref(),
        Some(Path::new("/ca"))
    );
    let sandbox = "[cluster.provisioner]\nkind = \"agent-sandbox\"\ntemplate = \"worker\"\n";
    let config = load(&format!("{fleet}{sandbox}")).unwrap().provisioner;
    let account = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(config.token_file.as_deref(), Some(&*account.join("token")));
    assert_eq!(config.ca_file.as_deref(), Some(&*account.join("ca.crt")));
    assert_eq!(
        (config.api.as_str(), config.namespace),
        ("https://kubernetes.default.svc", None)
    );

    let check = |text: &str, expected: &str| {
        let error = load(text).unwrap_err();
        assert!(error.contains(expected), "{expected:?} is not in {error:?}");
    };
    for provisioner in [webhook, sandbox] {
        check(
            &format!("{fleet}cluster.pool = \"first-call\"\n{provisioner}"),
            "cluster.provisioner.on_first_call",
        );
    }
    check(&format!("{gateway}{webhook}"), "only a gateway with a database");
    check(webhook, "only a gateway with a database");
    check(
        &format!("{WORKER}[cluster.provisioner]\non_first_call = true\n"),
        "set cluster.provisioner.kind",
    );
    check(
        &format!("{fleet}{}", webhook.replace("url = \"https://m.example/t\"\n", "")),
        "set cluster.provisioner.url",
    );
    check(
        &format!("{fleet}{}", webhook.replace("token_file = \"/t\"\n", "")),
        "set cluster.provisioner.token_file",
    );
    check(&format!("{fleet}{webhook}template = \"a\"\n"), "means nothing");
    check(&format!("{fleet}{sandbox}url = \"https://a/\"\n"), "means nothing");
    check(
        &format!("{fleet}{}", webhook.replace("https://m", "http://m")),
        "not encrypted",
    );
    assert!(
        load(&format!(
            "{fleet}{}",
            webhook.replace("https://m.example", "http://127.0.0.1:1")
        ))
        .is_ok()
    );
}
