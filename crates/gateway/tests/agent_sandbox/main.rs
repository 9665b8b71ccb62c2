//! Pods for workspaces: what is asked of a cluster with agent-sandbox, and what is made of its answers.
//!
//! *Invariant:* the cluster is played, over TLS, and held to the definitions of two releases of agent-sandbox; no real one is needed.

#![allow(clippy::disallowed_methods)] // tests make the files and tasks they work with
#![allow(clippy::unwrap_used)] // what a test needs is there, or the test fails
#![allow(clippy::panic)] // so does what does not come

mod cluster;
mod controllers;
mod life;
mod schema;
mod state;
mod trouble;

use toolgate_gateway::agent_sandbox::{AgentSandbox, Settings};
use toolgate_model::WorkspaceSource;
use toolgate_server::provision::{Observed, Provisioner as _, Wanted};

use self::cluster::Cluster;
use self::state::*;

/// A workspace of acme.
fn wanted(name: &str) -> Wanted {
    Wanted {
        workspace: format!("acme/{name}"),
        source: WorkspaceSource::Empty,
        by: "anna".to_owned(),
        request: format!("request-of-{name}"),
    }
}

fn settings(cluster: &Cluster) -> Settings {
    Settings {
        api: format!("https://localhost:{}", cluster.address.port()),
        namespace: Some(NAMESPACE.to_owned()),
        template: "worker".to_owned(),
        ca_file: Some(cluster.file("ca.crt")),
        token_file: cluster.file("token"),
    }
}

async fn provisioner(cluster: &Cluster) -> AgentSandbox {
    AgentSandbox::open(settings(cluster)).await.unwrap()
}

/// A cluster with a pool of so many warm sandboxes, which are ready.
async fn cluster(release: Release, warm: u64) -> Cluster {
    let cluster = Cluster::start(release).await;
    cluster.state().add_pool("worker", warm);
    cluster.passes(4);
    cluster
}

/// Lets the controllers work until a workspace is as expected.
async fn until(cluster: &Cluster, sandboxes: &AgentSandbox, wanted: &Wanted, expected: &Observed) {
    for _ in 0..20 {
        let observed = sandboxes.observe(wanted).await.unwrap();
        if observed == *expected {
            return;
        }
        assert!(
            matches!(observed, Observed::Coming),
            "{observed:?} on the way to {expected:?}"
        );
        cluster.pass();
    }
    panic!("{expected:?} does not come")
}

#[test]
fn the_role_of_the_guide_is_what_is_asked_for() {
    let page = include_str!("../../../../docs/operate/agent-sandbox.md");
    let begin = page.find("    apiVersion: rbac").unwrap();
    let lines = page[begin..]
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("    "));
    let text: String = lines
        .map(|line| format!("{}\n", line.get(4..).unwrap_or_default()))
        .collect();
    let role: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let mut found = std::collections::BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let kind = rule["resources"][0].as_str().unwrap();
        let kind = [CLAIMS, SANDBOXES].into_iter().find(|known| *known == kind).unwrap();
        assert_eq!(rule["apiGroups"][0], cluster::group_of(kind));
        found.extend(
            rule["verbs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|verb| (verb.as_str().unwrap().to_owned(), kind)),
        );
    }
    // That each of them is needed is shown where they are taken away.
    let role = State::new(Release::V0_5_6).role;
    let role: std::collections::BTreeSet<_> = role.into_iter().map(|(verb, kind)| (verb.to_owned(), kind)).collect();
    assert_eq!(found, role);
}
