//! A fleet whose workers show signed tokens, as service accounts of Kubernetes do, and what rules of the gateways say of them.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Status;
use toolgate_contract::cluster::cluster_service_client::ClusterServiceClient;
use toolgate_contract::cluster::{ListWorkersRequest, Worker, WorkerState};
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;

use super::server::Server;
use super::setup::LEASE;
use crate::auth::Issuer;
use crate::gateway::setup::*;
use crate::support::{self, completed, connect_tcp, eventually, test};
use crate::telemetry;

/// The accounts of workers, as the subjects of their tokens have them.
pub(super) const ACCOUNTS: &str = "system:serviceaccount:agents:";

pub(super) struct Agents {
    folder: TempDir,
    pub(super) database: Server,
    issuer: Issuer,
    gateways: Vec<Process>,
}

impl Agents {
    /// Starts gateways with these rules, and more settings.
    pub(super) async fn start(gateways: usize, rules: &str, settings: &str) -> Self {
        let database = Server::start(false).await;
        database.run("postgres", "CREATE DATABASE fleet").await;
        let mut agents = Self {
            folder: TempDir::new().unwrap(),
            issuer: Issuer::new("cluster"),
            gateways: Vec::new(),
            database,
        };
        let keys = json!({"keys": [agents.issuer.jwk()]}).to_string();
        let address = agents.database.url("fleet");
        for number in 0..gateways {
            let place = agents.path(&format!("gateway-{number}"));
            fs::create_dir_all(&place).unwrap();
            put(
                &place.join("tokens"),
                &format!("anna {ANNA} *\nben {BEN} * wb,acme/b\n"),
            );
            put(&place.join("database"), &address);
            put(&place.join("keys"), &keys);
            put(&place.join("rules"), rules);
            let text = format!(
                "telemetry.admin = \"127.0.0.1:0\"\n[auth]\ntokens_file = \"tokens\"\nworkers_file = \"rules\"\n[cluster]\nrole = \"gateway\"\n\
                 store_file = \"database\"\nlease = \"{}s\"\nmigrate = \"start\"\n{settings}\n[cluster.jwt]\njwks_file = \"keys\"\n\
                 issuer = \"https://cluster\"\naudience = \"toolgate-gateway\"\n",
                LEASE.as_secs()
            );
            put(&place.join("toolgate.toml"), &text);
            let mut gateway = Process::at(&free_address().to_string(), place, "gateway");
            gateway.run(&home_in(agents.folder.path())).await;
            agents.gateways.push(gateway);
        }
        agents
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Replaces the rules of all gateways.
    fn rule(&self, rules: &str) {
        for number in 0..self.gateways.len() {
            put(&self.path(&format!("gateway-{number}")).join("rules"), rules);
        }
    }

    /// Returns a worker of an account that has a workspace, or waits for one if that has no name.
    fn worker(&self, name: &str, claims: Value, workspace: &str) -> Process {
        let place = self.path(name);
        let work = place.join("own");
        fs::create_dir_all(&work).unwrap();
        let mut all = json!({"iss": "https://cluster", "aud": ["toolgate-gateway"], "scope": null, "workspaces": null});
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        put(&place.join("identity"), self.issuer.sign(all));
        put(&work.join("opencode.json"), RULES);
        let gateways: Vec<String> = self
            .gateways
            .iter()
            .map(|one| format!("\"http://{}\"", one.address))
            .collect();
        let text = format!(
            "data_dir = \"data\"\nlisten.unix = \"s\"\n[cluster]\nrole = \"worker\"\ngateways = [{}]\nidentity = \"identity\"\n\
             name = \"{name}\"\nadvertise = \"unix:{}\"\n[[workspaces]]\nname = \"{workspace}\"\ndirectory = \"own\"\n",
            gateways.join(", "),
            place.join("s").display(),
        );
        put(&place.join("toolgate.toml"), &text);
        Process::at(&free_address().to_string(), place, "serve")
    }

    /// Starts a worker, and waits until it listens.
    pub(super) async fn started(&self, name: &str, claims: Value, workspace: &str) -> Process {
        let mut worker = self.worker(name, claims, workspace);
        worker.run(&home_in(self.folder.path())).await;
        worker
    }

    /// Starts a worker that ends by itself, and returns its status and what it said.
    async fn refused(&self, name: &str, claims: Value, workspace: &str) -> (Option<i32>, String) {
        let mut worker = self.worker(name, claims, workspace);
        worker.spawn(&home_in(self.folder.path()));
        let status = worker.ended().await;
        (status, worker.log())
    }

    async fn run(&self, gateway: usize, token: &'static str, workspace: &str, command: &str) -> Result<Call, Status> {
        let channel = connect_tcp(&self.gateways[gateway].address).await.unwrap();
        let mut tools = ToolServiceClient::with_interceptor(channel, Shown(token, None));
        let request = support::run_request(bash(workspace, command));
        Ok(tools.run_tool(request).await?.into_inner().call.unwrap())
    }

    /// Runs a command as soon as somebody has the workspace, and returns what it printed.
    pub(super) async fn printed(&self, gateway: usize, workspace: &str, command: &str) -> String {
        let mut call = None;
        eventually("the workspace is there", async || {
            call = self.run(gateway, ANNA, workspace, command).await.ok();
            call.is_some()
        })
        .await;
        completed(&call.unwrap()).output.trim().to_owned()
    }

    async fn workers(&self, gateway: usize) -> Vec<Worker> {
        let channel = connect_tcp(&self.gateways[gateway].address).await.unwrap();
        let mut cluster = ClusterServiceClient::with_interceptor(channel, Shown(ANNA, None));
        let listed = cluster.list_workers(ListWorkersRequest {}).await.unwrap();
        listed.into_inner().workers
    }

    /// Waits until a gateway has a worker in a state.
    pub(super) async fn is_in(&self, gateway: usize, name: &str, state: WorkerState) {
        eventually("the worker is in that state", async || {
            let workers = self.workers(gateway).await;
            workers.iter().any(|one| one.name == name && one.state() == state)
        })
        .await;
    }

    pub(super) fn assert_calm(&self, workers: &[&Process]) {
        for process in self.gateways.iter().chain(workers.iter().copied()) {
            let log = process.log();
            assert!(!log.contains("panicked"), "{log}");
            assert!(!log.contains("toolgate-registration-"), "{log}");
        }
    }
}

fn account(name: &str) -> Value {
    json!({"sub": format!("{ACCOUNTS}{name}")})
}

/// What Kubernetes says of the pod that a token was made for.
pub(super) fn pod(account: &str, name: &str) -> Value {
    let of_kubernetes = json!({"namespace": "agents", "pod": {"name": name}, "serviceaccount": {"name": account}});
    json!({"sub": format!("{ACCOUNTS}{account}"), "kubernetes.io": of_kubernetes})
}

#[test]
fn an_account_says_which_workspace_a_worker_may_have() {
    test(async {
        let own = format!("[[workers]]\nsubject = \"{ACCOUNTS}worker-*\"\nworkspaces = [\"acme/{{subject}}\"]\n");
        let mut agents = Agents::start(2, &own, "").await;
        let mut a = agents.started("a", account("worker-a"), "acme/a").await;
        for gateway in 0..2 {
            assert_eq!(agents.printed(gateway, "acme/a", "echo $((6 * 7))").await, "42");
        }
        // Nobody gets what is another one's, is nobody's account, or is meant for somebody else.
        for (claims, workspace, expected) in [
            (account("worker-b"), "acme/a", "may not have the workspace acme/a"),
            (
                account("other"),
                "acme/other",
                "no rule says what a worker with this token may have",
            ),
            (
                json!({"sub": format!("{ACCOUNTS}worker-c"), "aud": "toolgate"}),
                "acme/c",
                "somebody else",
            ),
            (
                json!({"sub": format!("{ACCOUNTS}worker-c"), "iss": "https://issuer"}),
                "acme/c",
                "issuer",
            ),
        ] {
            let (status, log) = agents.refused("refused", claims, workspace).await;
            assert!(status.is_some_and(|status| status > 0), "{expected}: {status:?}");
            assert!(log.contains(expected), "{expected:?} is not in {log}");
        }
        // The token of a worker is none of a person.
        let token = agents
            .issuer
            .sign(json!({"iss": "https://cluster", "aud": "toolgate-gateway", "sub": format!("{ACCOUNTS}worker-a")}));
        let refused = agents.run(0, token, "acme/a", "true").await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused:?}");

        // A rule that comes later needs no gateway to start again.
        let more = format!(
            "{own}[[workers]]\nsubject = \"{ACCOUNTS}many\"\npod = \"many-*-0\"\nworkspaces = [\"pods/{{pod}}\"]\n"
        );
        agents.rule(&more);
        eventually("the rules are read again", async || {
            agents
                .gateways
                .iter()
                .all(|gateway| gateway.log().contains("read again"))
        })
        .await;
        let x = agents.started("x", pod("many", "many-x-0"), "pods/x").await;
        assert_eq!(agents.printed(1, "pods/x", "echo x").await, "x");
        let (_, log) = agents.refused("y", pod("many", "many-y-0"), "pods/x").await;
        assert!(log.contains("may not have the workspace pods/x"), "{log}");

        // A worker whose rule is taken away is one no more.
        agents.rule(&more.replace("worker-*", "nobody-*"));
        eventually("the worker is let in no more", async || {
            a.log().contains("no rule says")
        })
        .await;
        eventually("nothing runs there", async || {
            agents.run(0, ANNA, "acme/a", "true").await.is_err()
        })
        .await;
        a.kill9().await;
        agents.gateways[0].kill9().await;
        agents.assert_calm(&[&a, &x]);
    });
}

/// Workers of the account `pool` wait, and get what is below `acme/`.
fn pool() -> String {
    format!("[[workers]]\nsubject = \"{ACCOUNTS}pool\"\npool = true\nworkspaces = [\"acme/*\"]\n")
}

#[test]
fn a_worker_that_waits_gets_the_workspace_of_the_first_call() {
    test(async {
        let agents = Agents::start(2, &pool(), "pool = \"first-call\"").await;
        // Nobody has come yet.
        let refused = agents.run(0, ANNA, "acme/a", "true").await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");
        assert!(refused.message().contains("no worker waits"), "{refused:?}");
        let refused = agents.run(0, ANNA, "other/a", "true").await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::NotFound, "{refused:?}");
        let mut one = agents.started("one", pod("pool", "pool-1"), "").await;
        let two = agents.started("two", pod("pool", "pool-2"), "").await;
        for gateway in 0..2 {
            for name in ["one", "two"] {
                agents.is_in(gateway, name, WorkerState::Unbound).await;
            }
        }
        // Nobody is bound for a caller that does not see the workspace, or to what the rule does not say.
        for (token, workspace) in [(BEN, "acme/a"), (ANNA, "other/a"), (ANNA, "acme/..")] {
            let refused = agents.run(0, token, workspace, "true").await.unwrap_err();
            assert_ne!(refused.code(), tonic::Code::Unavailable, "{workspace}: {refused:?}");
        }
        // Of several calls at once at both gateways each gets the same worker.
        let run = |gateway: usize| agents.run(gateway, ANNA, "acme/a", "echo $PWD");
        let all = tokio::join!(run(0), run(1), run(0), run(1));
        let all = [all.0.unwrap(), all.1.unwrap(), all.2.unwrap(), all.3.unwrap()];
        let printed: Vec<String> = all
            .iter()
            .map(|call| completed(call).output.trim().to_owned())
            .collect();
        assert!(printed.iter().all(|one| *one == printed[0]), "{printed:?}");
        let other = completed(&agents.run(1, BEN, "acme/b", "echo $PWD").await.unwrap())
            .output
            .trim()
            .to_owned();
        assert_ne!(other, printed[0]);

        // Nobody waits any more, as operators see.
        let admin = agents.gateways[0].admin.clone().unwrap();
        eventually("the metrics say so", async || {
            let text = telemetry::get(&admin, "/metrics").await.unwrap().1;
            let value = |name: &str| telemetry::value(&text, &format!("toolgate_gateway_{name}"));
            value("workers_unbound") == 0.0
                && value("sequencer_lag_seconds") < 5.0
                && value("leases_expired_total") + value("calls_lost_total") == 0.0
        })
        .await;
        let refused = agents.run(0, ANNA, "acme/c", "true").await.unwrap_err();
        assert!(refused.message().contains("no worker waits"), "{refused:?}");

        // Nor does one that comes under another name with the token of a pod that is bound.
        let mut again = agents.started("again", pod("pool", "pool-1"), "").await;
        for gateway in 0..2 {
            agents.is_in(gateway, "again", WorkerState::Ready).await;
            let refused = agents.run(gateway, ANNA, "acme/c", "true").await.unwrap_err();
            assert!(refused.message().contains("no worker waits"), "{refused:?}");
        }
        again.kill9().await;

        // Once bound it stays so, whether or not it remembers.
        let is_first = printed[0].contains("/one/");
        let workspace = if is_first { "acme/a" } else { "acme/b" };
        for forgets in [false, true] {
            one.signal(rustix::process::Signal::TERM).await;
            if forgets {
                fs::remove_dir_all(agents.path("one").join("data")).unwrap();
            }
            one.run(&home_in(agents.folder.path())).await;
            assert!(agents.printed(1, workspace, "echo $PWD").await.contains("/one/"));
        }
        // Another worker of the pool may not have it, whatever it says.
        let (_, log) = agents.refused("three", pod("pool", "pool-3"), "acme/a").await;
        assert!(log.contains("is not bound to it"), "{log}");
        agents.assert_calm(&[&one, &two]);
    });
}

#[test]
fn what_was_bound_and_not_told_is_told_by_the_next_call() {
    test(async {
        let agents = Agents::start(1, &pool(), "pool = \"first-call\"").await;
        let first = agents.started("first", pod("pool", "pool-1"), "").await;
        let second = agents.started("second", pod("pool", "pool-2"), "").await;
        for name in ["first", "second"] {
            agents.is_in(0, name, WorkerState::Unbound).await;
        }
        // As by a gateway that dies right after.
        let bound = format!(
            "INSERT INTO bindings (principal, worker, workspace) VALUES ('worker:{ACCOUNTS}pool/pool-2', '', 'acme/a')"
        );
        agents.database.run("fleet", &bound).await;
        let call = agents.run(0, ANNA, "acme/a", "echo $PWD").await.unwrap();
        assert!(
            completed(&call).output.contains("/second/"),
            "{}",
            completed(&call).output
        );
        // The other one still waits.
        let call = agents.run(0, ANNA, "acme/b", "echo $PWD").await.unwrap();
        assert!(
            completed(&call).output.contains("/first/"),
            "{}",
            completed(&call).output
        );
        agents.assert_calm(&[&first, &second]);
    });
}

#[test]
fn a_worker_waits_only_where_it_is_one_of_a_pool() {
    test(async {
        let rules = pool() + &format!("[[workers]]\nsubject = \"{ACCOUNTS}worker-a\"\nworkspaces = [\"acme/a\"]\n");
        let agents = Agents::start(1, &rules, "").await;
        let a = agents.started("a", account("worker-a"), "").await;
        eventually("it is refused", async || a.log().contains("none of a pool")).await;
        // Where it is not said that a call may take one, none does.
        let waits = agents.started("waits", pod("pool", "pool-1"), "").await;
        agents.is_in(0, "waits", WorkerState::Unbound).await;
        let refused = agents.run(0, ANNA, "acme/x", "true").await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::NotFound, "{refused:?}");
        agents.assert_calm(&[&a, &waits]);
    });
}

#[test]
fn a_worker_of_a_pool_is_called_after_its_pod_where_a_rule_says_so() {
    test(async {
        let rules = pool().replace("pool = true", "pool = true\npod = \"pool-*\"");
        let agents = Agents::start(1, &rules, "").await;
        let other = agents.started("pool-2", pod("pool", "pool-1"), "").await;
        eventually("it is refused", async || {
            other.log().contains("is called \\\"pool-1\\\"")
        })
        .await;
        let own = agents.started("pool-1", pod("pool", "pool-1"), "").await;
        agents.is_in(0, "pool-1", WorkerState::Unbound).await;
        agents.assert_calm(&[&other, &own]);
    });
}

#[test]
fn a_token_that_is_meant_for_people_and_workers_is_nobodys() {
    test(async {
        let own = format!("[[workers]]\nsubject = \"{ACCOUNTS}worker-*\"\nworkspaces = [\"acme/{{subject}}\"]\n");
        let people = "[auth.jwt]\njwks_file = \"keys\"\nissuer = \"https://cluster\"\naudience = \"toolgate\"\n";
        let agents = Agents::start(1, &own, people).await;
        let a = agents.started("a", account("worker-a"), "acme/a").await;
        assert_eq!(agents.printed(0, "acme/a", "echo a").await, "a");
        let both = json!({"sub": format!("{ACCOUNTS}worker-b"), "aud": ["toolgate", "toolgate-gateway"]});
        let (_, log) = agents.refused("b", both, "acme/b").await;
        assert!(log.contains("meant for people and for workers"), "{log}");
        let claims = json!({"iss": "https://cluster", "sub": "anna"});
        for (audience, expected) in [
            (json!("toolgate"), false),
            (json!(["toolgate", "toolgate-gateway"]), true),
        ] {
            let mut claims = claims.clone();
            claims["aud"] = audience;
            let refused = agents.run(0, agents.issuer.sign(claims), "acme/a", "true").await.err();
            let is_of_both = |refused: Status| refused.message().contains("meant for people and for workers");
            assert_eq!(refused.is_some_and(is_of_both), expected);
        }
        agents.assert_calm(&[&a]);
    });
}

#[test]
fn a_name_stands_for_all_gateways_that_it_has_addresses_of() {
    test(async {
        let own = format!("[[workers]]\nsubject = \"{ACCOUNTS}worker-*\"\nworkspaces = [\"acme/{{subject}}\"]\n");
        let agents = Agents::start(1, &own, "").await;
        let mut a = agents.worker("a", account("worker-a"), "acme/a");
        let file = agents.path("a").join("toolgate.toml");
        let text = fs::read_to_string(&file)
            .unwrap()
            .replace("http://127.0.0.1:", "http://localhost:");
        put(&file, &text.replace("[cluster]\n", "[cluster]\nresolve = true\n"));
        a.run(&home_in(agents.folder.path())).await;
        assert_eq!(agents.printed(0, "acme/a", "echo a").await, "a");
        let port = agents.gateways[0].address.rsplit(':').next().unwrap();
        let told = format!("http://localhost:{port} at 127.0.0.1:{port}");
        assert!(a.log().contains(&told), "{told} is not in {}", a.log());
        agents.assert_calm(&[&a]);
    });
}

#[test]
fn workers_come_to_a_port_of_their_own() {
    test(async {
        let port = free_address();
        let own = format!("[[workers]]\nsubject = \"{ACCOUNTS}worker-*\"\nworkspaces = [\"acme/{{subject}}\"]\n");
        let agents = Agents::start(1, &own, &format!("listen = \"{port}\"")).await;
        // Where others call nobody registers.
        let (status, log) = agents.refused("a", account("worker-a"), "acme/a").await;
        assert_eq!(status, Some(2), "{log}");
        assert!(log.contains("cluster.listen"), "{log}");
        let file = agents.path("a").join("toolgate.toml");
        let text = fs::read_to_string(&file).unwrap();
        put(&file, &text.replace(&agents.gateways[0].address, &port.to_string()));
        let mut a = Process::at(&free_address().to_string(), agents.path("a"), "serve");
        a.run(&home_in(agents.folder.path())).await;
        assert_eq!(agents.printed(0, "acme/a", "echo a").await, "a");
        // Nobody else gets anything where workers come.
        let channel = connect_tcp(&port.to_string()).await.unwrap();
        let mut tools = ToolServiceClient::with_interceptor(channel.clone(), Shown(ANNA, None));
        let refused = tools.list_tools(ListToolsRequest::default()).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unimplemented, "{refused:?}");
        let mut cluster = ClusterServiceClient::with_interceptor(channel, Shown(ANNA, None));
        let refused = cluster.list_workers(ListWorkersRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unimplemented, "{refused:?}");
        agents.assert_calm(&[&a]);
    });
}
