//! Pods for workspaces, made by the controllers of agent-sandbox in a Kubernetes cluster (`kubernetes-sigs/agent-sandbox`).
//!
//! A workspace is a SandboxClaim. The controllers give it a Sandbox: a warm one of the pool, or a new one of the template. Its pod is
//! called after it, also when it is made again, so the worker in it is bound to the workspace for good. Suspended, the sandbox has no
//! pod and keeps its volumes; with the claim all goes. Sources other than a template are refused: nothing can be given to a pod that is
//! there already, and variables in a claim, which agent-sandbox has for that, take the warm ones away. What a repository has to be
//! filled with can be got by calls, with the rights and the prompts that calls have.
//!
//! It is asked again, not watched: a watch would be about all claims of the namespace in each gateway, with a Role that lists them, and
//! would remember what it heard; whoever asks here comes again anyway.
//!
//! In reading order, in `agent_sandbox/`: `names`; `objects`, what is read and written; `state`, what they say and what is to be changed;
//! `api`, requests; `versions`, which one the cluster has.
//!
//! *Invariant:* nothing is remembered of a workspace: what there is, is looked at, so any gateway goes on where another one died. Nothing is
//! written that is so already. A claim that was not made for this very creation is neither used nor deleted, and a sandbox
//! that is not the claim's is not touched.

mod api;
mod names;
mod objects;
mod state;
mod versions;

use std::path::PathBuf;

use anyhow::Context as _;
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolgate_server::provision::{Observed, ProvisionError, Provisioner, Wanted};
use toolgate_web::Url;

use self::api::{Answer, Api, Ask, Verb};
use self::objects::{Claim, Resource, Sandbox, Version};
use self::state::{Found, Want};
use self::versions::Versions;

/// Where a pod reads in which namespace it is.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// How often something is looked at and changed in one request, while others change it at the same time.
const ATTEMPTS: usize = 5;

/// Where the cluster is, and what in it is for workspaces.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of its API.
    pub api: String,
    /// The namespace of all objects; none for that of this pod.
    pub namespace: Option<String>,
    /// The name of the SandboxTemplate and of the SandboxWarmPool.
    pub template: String,
    /// The authorities that sign its certificate, PEM; none for those of the system.
    pub ca_file: Option<PathBuf>,
    /// The token of the gateway.
    pub token_file: PathBuf,
}

/// Makes sandboxes.
pub struct AgentSandbox {
    api: Api,
    versions: Versions,
    template: String,
}

impl AgentSandbox {
    /// Makes it. The cluster is not asked yet: it may be away.
    ///
    /// # Errors
    /// A file cannot be used; the text names it.
    pub async fn open(settings: Settings) -> anyhow::Result<Self> {
        let base = Url::parse(&settings.api).context("cluster.provisioner.api")?;
        let namespace = match settings.namespace {
            Some(namespace) => namespace,
            None => own_namespace().await?,
        };
        let api = Api::new(base, namespace, settings.ca_file, settings.token_file);
        api.credentials().await.context("cluster.provisioner")?;
        Ok(Self {
            api,
            versions: Versions::default(),
            template: settings.template,
        })
    }

    /// Asks about an object, or nothing if it is absent. What cannot be taken for an answer to that is an error.
    async fn ask(&self, ask: Ask<'_>) -> Result<Answer, ProvisionError> {
        let answer = self.api.ask(ask).await?;
        if matches!(answer, Answer::Unserved) {
            self.versions.forget();
            let problem = "the cluster does not have agent-sandbox in the version any more that it had";
            return Err(ProvisionError::Failed(problem.to_owned()));
        }
        Ok(answer)
    }

    async fn get<T: DeserializeOwned>(
        &self,
        version: Version,
        resource: Resource,
        name: &str,
    ) -> Result<Option<T>, ProvisionError> {
        let ask = Ask {
            verb: Verb::Get,
            resource,
            version,
            name,
            body: None,
        };
        match self.ask(ask).await? {
            Answer::Object(object) => read(object).map(Some),
            Answer::Absent | Answer::Taken | Answer::Changed | Answer::Unserved => Ok(None),
        }
    }

    async fn claim(&self, version: Version, wanted: &Wanted) -> Result<Option<Claim>, ProvisionError> {
        self.get(version, Resource::Claim, &names::claim(&wanted.workspace))
            .await
    }

    async fn look(&self, version: Version, wanted: &Wanted) -> Result<Found, ProvisionError> {
        let Some(claim) = self.claim(version, wanted).await? else {
            return Ok(Found::Nothing);
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(Found::Going);
        }
        if let Some(problem) = claim.foreign(wanted) {
            return Ok(Found::Foreign(problem));
        }
        let Some(name) = claim.sandbox() else {
            return Ok(Found::Claimed(claim));
        };
        let sandbox: Option<Sandbox> = self.get(version, Resource::Sandbox, name).await?;
        Ok(match sandbox.filter(|sandbox| sandbox.is_of(&claim)) {
            Some(sandbox) => Found::Made(sandbox),
            // It was, and the controllers have not said yet what is instead.
            None => Found::Claimed(claim),
        })
    }

    /// Makes the claim of a workspace; false if somebody was faster.
    async fn create(&self, version: Version, wanted: &Wanted, pool: &str) -> Result<bool, ProvisionError> {
        let name = names::claim(&wanted.workspace);
        let ask = Ask {
            verb: Verb::Create,
            resource: Resource::Claim,
            version,
            name: &name,
            body: Some(objects::new_claim(version, (self.api.namespace(), &name, pool), wanted)),
        };
        match self.ask(ask).await? {
            Answer::Object(_) => {
                tracing::info!(workspace = wanted.workspace, claim = name, pool, "a sandbox is claimed");
                Ok(true)
            }
            Answer::Taken | Answer::Changed | Answer::Absent | Answer::Unserved => Ok(false),
        }
    }

    /// Looks, makes what is missing if there is a pool to make it from, and changes the sandbox as is wanted.
    async fn bring(&self, wanted: &Wanted, want: Want, pool: Option<&str>) -> Result<Observed, ProvisionError> {
        let version = self.versions.current(&self.api).await?;
        for _ in 0..ATTEMPTS {
            let found = self.look(version, wanted).await?;
            let sandbox = match (&found, pool) {
                (Found::Nothing, Some(pool)) => {
                    if self.create(version, wanted, pool).await? {
                        return Ok(Observed::Coming);
                    }
                    continue;
                }
                (Found::Foreign(problem), _) => return Err(ProvisionError::Refused(problem.clone())),
                (Found::Made(sandbox), _) => sandbox,
                (Found::Nothing | Found::Going | Found::Claimed(_), _) => return Ok(found.observed(version)),
            };
            let Some(change) = state::change(version, sandbox, want) else {
                return Ok(found.observed(version));
            };
            let ask = Ask {
                verb: Verb::Patch,
                resource: Resource::Sandbox,
                version,
                name: &sandbox.metadata.name,
                body: Some(objects::change_of(version, sandbox, change.mode, change.is_replacing)),
            };
            if let Answer::Object(changed) = self.ask(ask).await? {
                let (workspace, sandbox) = (&wanted.workspace, &sandbox.metadata.name);
                tracing::info!(workspace, sandbox, mode = ?change.mode, other_pod = change.is_replacing, "a sandbox is changed");
                return Ok(Found::Made(read(changed)?).observed(version));
            }
        }
        Err(ProvisionError::Failed(format!(
            "others change the objects of the workspace {} all the time",
            wanted.workspace
        )))
    }
}

async fn own_namespace() -> anyhow::Result<String> {
    // The file is the pod's own, and no part of any workspace.
    #[allow(clippy::disallowed_methods)]
    let read = tokio::task::spawn_blocking(|| std::fs::read_to_string(OWN_NAMESPACE)).await?;
    let read =
        read.with_context(|| format!("{OWN_NAMESPACE}: outside of a cluster, set cluster.provisioner.namespace"))?;
    Ok(read.trim().to_owned())
}

fn read<T: DeserializeOwned>(object: Value) -> Result<T, ProvisionError> {
    let read = serde_json::from_value(object);
    read.map_err(|error| ProvisionError::Failed(format!("the cluster shows an object that cannot be read: {error}")))
}

#[async_trait]
impl Provisioner for AgentSandbox {
    async fn ensure(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        let pool = names::pool(&self.template, &wanted.source).map_err(ProvisionError::Refused)?;
        self.bring(wanted, Want::There, Some(&pool)).await
    }

    async fn suspend(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.bring(wanted, Want::Resting, None).await
    }

    async fn resume(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        self.bring(wanted, Want::Running, None).await
    }

    async fn delete(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        let version = self.versions.current(&self.api).await?;
        for _ in 0..ATTEMPTS {
            let Some(claim) = self.claim(version, wanted).await? else {
                return Ok(Observed::Absent);
            };
            if let Some(problem) = claim.foreign(wanted) {
                tracing::warn!(
                    workspace = wanted.workspace,
                    problem,
                    "what is called as a deleted workspace stays"
                );
                return Ok(Observed::Absent);
            }
            if claim.metadata.deletion_timestamp.is_some() {
                return Ok(Observed::Coming);
            }
            let ask = Ask {
                verb: Verb::Delete,
                resource: Resource::Claim,
                version,
                name: &claim.metadata.name,
                body: Some(objects::deletion_of(&claim)),
            };
            match self.ask(ask).await? {
                // It may be gone at once, or wait for what it has.
                Answer::Object(_) => {
                    let (workspace, claim) = (&wanted.workspace, &claim.metadata.name);
                    tracing::info!(workspace, claim, "the claim of a sandbox is deleted");
                    return Ok(Observed::Coming);
                }
                Answer::Absent | Answer::Changed | Answer::Taken | Answer::Unserved => {}
            }
        }
        Err(ProvisionError::Failed(format!(
            "the claim of the workspace {} is made anew all the time",
            wanted.workspace
        )))
    }

    async fn observe(&self, wanted: &Wanted) -> Result<Observed, ProvisionError> {
        let version = self.versions.current(&self.api).await?;
        Ok(self.look(version, wanted).await?.observed(version))
    }

    async fn pod(&self, wanted: &Wanted) -> Result<Option<String>, ProvisionError> {
        let version = self.versions.current(&self.api).await?;
        Ok(self.look(version, wanted).await?.pod(version))
    }
}
