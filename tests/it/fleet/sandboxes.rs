//! Workers in the pods of a cluster with agent-sandbox, as gateways ask for them.
//!
//! *Invariant:* the cluster is played; its pods are real workers that wait, each with a folder that outlives it, as a volume does.

#[allow(dead_code)] // the tests of the gateway use all of it
#[path = "../../../crates/gateway/tests/agent_sandbox/cluster.rs"]
mod cluster;
#[path = "../../../crates/gateway/tests/agent_sandbox/controllers.rs"]
mod controllers;
#[path = "../../../crates/gateway/tests/agent_sandbox/schema.rs"]
mod schema;
#[allow(dead_code)] // the tests of the gateway use all of it
#[path = "../../../crates/gateway/tests/agent_sandbox/state.rs"]
mod state;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use toolgate_contract::cluster::WorkerState;
use toolgate_gateway::agent_sandbox::{AgentSandbox, Settings};
use toolgate_model::WorkspaceSource;
use toolgate_server::provision::{Observed, Provisioner as _, Wanted};

use self::cluster::Cluster;
use self::state::{NAMESPACE, Phase, Release};
use super::agents::{ACCOUNTS, Agents, pod};
use crate::gateway::setup::Process;
use crate::support::test;

/// The workers in the pods that run, by the ids of these.
#[derive(Default)]
struct Kubelet(BTreeMap<String, Process>);

impl Kubelet {
    /// Lets the controllers work, and starts and ends what runs in pods.
    async fn pass(&mut self, agents: &Agents, cluster: &Cluster) {
        cluster.pass();
        let pods = cluster.state().pods.clone();
        let gone: Vec<String> = self
            .0
            .keys()
            .filter(|uid| !pods.values().any(|pod| pod.uid == **uid))
            .cloned()
            .collect();
        for uid in gone {
            self.0.remove(&uid).unwrap().signal(Signal::TERM).await;
        }
        for (name, new) in pods {
            if new.phase == Phase::Running && !self.0.contains_key(&new.uid) {
                // All but the volume is of the pod.
                let _ = fs::remove_dir_all(agents.path(&name).join("data"));
                let worker = agents.started(&name, pod("pool", &name), "").await;
                self.0.insert(new.uid, worker);
            }
        }
    }

    async fn until(&mut self, agents: &Agents, cluster: &Cluster, is_so: impl AsyncFn() -> bool) {
        for _ in 0..500 {
            if is_so().await {
                return;
            }
            self.pass(agents, cluster).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it does not come so far");
    }
}

#[test]
fn a_workspace_is_in_its_own_pod_also_after_a_rest() {
    test(async {
        // A pod is called after the pool, or after the claim.
        let rules = format!("[[workers]]\nsubject = \"{ACCOUNTS}pool\"\npool = true\nworkspaces = [\"acme/*\"]\n");
        let agents = Agents::start(2, &rules, "pool = \"first-call\"").await;
        let cluster = Cluster::start(Release::V0_5_6).await;
        cluster.state().add_pool("worker", 2);
        let settings = Settings {
            api: format!("https://localhost:{}", cluster.address.port()),
            namespace: Some(NAMESPACE.to_owned()),
            template: "worker".to_owned(),
            ca_file: Some(cluster.file("ca.crt")),
            token_file: cluster.file("token"),
        };
        let sandboxes = AgentSandbox::open(settings).await.unwrap();
        let wanted = Wanted {
            workspace: "acme/web".to_owned(),
            source: WorkspaceSource::Empty,
            by: "anna".to_owned(),
            request: "1".to_owned(),
        };
        let is = async |expected: Observed| sandboxes.observe(&wanted).await.unwrap() == expected;
        let mut kubelet = Kubelet::default();
        kubelet
            .until(&agents, &cluster, async || {
                let state = cluster.state();
                state.pods.values().filter(|pod| pod.phase == Phase::Running).count() == 2
            })
            .await;
        // They are called ready, too.
        kubelet.pass(&agents, &cluster).await;
        sandboxes.ensure(&wanted).await.unwrap();
        kubelet
            .until(&agents, &cluster, async || is(Observed::Ready).await)
            .await;
        let own = sandboxes.pod(&wanted).await.unwrap().unwrap();
        for gateway in 0..2 {
            agents.is_in(gateway, &own, WorkerState::Unbound).await;
        }
        // What the gateway does that has asked for the pod.
        let bound = format!(
            "INSERT INTO bindings (principal, worker, workspace) VALUES ('worker:{ACCOUNTS}pool/{own}', '', 'acme/web')"
        );
        agents.database.run("fleet", &bound).await;
        let folder = agents.printed(0, "acme/web", "echo kept >kept; echo $PWD").await;
        assert!(folder.contains(&format!("/{own}/")), "{folder}");

        sandboxes.suspend(&wanted).await.unwrap();
        kubelet
            .until(&agents, &cluster, async || is(Observed::Resting).await)
            .await;
        kubelet.pass(&agents, &cluster).await;
        assert!(!cluster.state().pods.contains_key(&own));
        sandboxes.resume(&wanted).await.unwrap();
        kubelet
            .until(&agents, &cluster, async || is(Observed::Ready).await)
            .await;
        kubelet.pass(&agents, &cluster).await;
        // It is known by its pod, so nobody has to bind it again.
        assert_eq!(
            agents.printed(1, "acme/web", "cat kept; echo $PWD").await,
            format!("kept\n{folder}")
        );

        // One that has failed comes again, too.
        cluster.state().pods.get_mut(&own).unwrap().phase = Phase::Failed;
        kubelet.pass(&agents, &cluster).await;
        assert_eq!(sandboxes.ensure(&wanted).await.unwrap(), Observed::Coming);
        kubelet
            .until(&agents, &cluster, async || {
                sandboxes.ensure(&wanted).await.unwrap() == Observed::Ready
            })
            .await;
        kubelet.pass(&agents, &cluster).await;
        assert_eq!(agents.printed(0, "acme/web", "cat kept").await, "kept");

        sandboxes.delete(&wanted).await.unwrap();
        kubelet
            .until(&agents, &cluster, async || is(Observed::Absent).await)
            .await;
        kubelet.pass(&agents, &cluster).await;
        let processes: Vec<&Process> = kubelet.0.values().collect();
        agents.assert_calm(&processes);
    });
}
