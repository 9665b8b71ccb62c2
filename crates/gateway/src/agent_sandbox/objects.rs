//! The objects of agent-sandbox, as far as they are read, and what is written of them.
//!
//! *Invariant:* plain data. What is read is lenient, since a newer release may have more; what is written has nothing that the
//! schema of its version does not know.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_server::provision::Wanted;

/// What says of which workspace an object is.
pub(super) const WORKSPACE: &str = "toolgate.dev/workspace";

/// What says which creation of that workspace has made it: the name may have been used before.
const REQUEST: &str = "toolgate.dev/request";

/// What a sandbox has while its pod is replaced: it is suspended for that, and not because somebody wants it to rest.
const REPLACING: &str = "toolgate.dev/replacing";

/// Where agent-sandbox notes the pod of a sandbox, once it has one.
const POD: &str = "agents.x-k8s.io/pod-name";

/// A version of the API, the newest last. The release that brought the newer one still serves the older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// As of release 0.4.
    V1alpha1,
    /// As of release 0.5.
    V1beta1,
}

impl Version {
    pub(super) const ALL: [Self; 2] = [Self::V1alpha1, Self::V1beta1];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V1alpha1 => "v1alpha1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// What is made and deleted here.
    Claim,
    /// What agent-sandbox gives to a claim; only whether it runs is said here.
    Sandbox,
}

impl Resource {
    pub(super) const ALL: [Self; 2] = [Self::Claim, Self::Sandbox];

    pub(super) fn group(self) -> &'static str {
        match self {
            Self::Claim => "extensions.agents.x-k8s.io",
            Self::Sandbox => "agents.x-k8s.io",
        }
    }

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Claim => "sandboxclaims",
            Self::Sandbox => "sandboxes",
        }
    }
}

/// Whether a sandbox is to have a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is to have one.
    Running,
    /// It is to have none, and keeps its volumes.
    Suspended,
}

/// What every object has.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) deletion_timestamp: Option<String>,
    annotations: BTreeMap<String, String>,
    owner_references: Vec<Owner>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Owner {
    uid: String,
    controller: bool,
}

/// What a controller says of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    pub(super) reason: String,
    pub(super) message: String,
    observed_generation: Option<i64>,
}

impl Condition {
    pub(super) fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Says whether it is about what the object is to be now, not about what it was to be before a change.
    pub(super) fn is_current(&self, metadata: &Metadata) -> bool {
        self.observed_generation.is_none_or(|seen| seen >= metadata.generation)
    }
}

/// A SandboxClaim.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    pub(super) metadata: Metadata,
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    conditions: Vec<Condition>,
    sandbox: SandboxOfClaim,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SandboxOfClaim {
    name: String,
}

impl Claim {
    /// Says what is wrong with taking it for that of a workspace.
    pub(super) fn foreign(&self, wanted: &Wanted) -> Option<String> {
        let (name, annotations) = (&self.metadata.name, &self.metadata.annotations);
        if annotations.get(WORKSPACE) != Some(&wanted.workspace) {
            return Some(format!(
                "the SandboxClaim {name} is there already, and was not made for the workspace {}",
                wanted.workspace
            ));
        }
        let is_own = annotations.get(REQUEST) == Some(&wanted.request);
        (!is_own).then(|| {
            format!(
                "the SandboxClaim {name} is of an earlier workspace {}, whose files are still there: the operator has to delete it",
                wanted.workspace
            )
        })
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Returns the name of the sandbox that it was given.
    pub(super) fn sandbox(&self) -> Option<&str> {
        Some(self.status.sandbox.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// A Sandbox.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sandbox {
    pub(super) metadata: Metadata,
    spec: SandboxSpec,
    status: SandboxStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SandboxSpec {
    operating_mode: Option<String>,
    replicas: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SandboxStatus {
    conditions: Vec<Condition>,
}

impl Sandbox {
    pub(super) fn is_of(&self, claim: &Claim) -> bool {
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|owner| owner.controller && owner.uid == claim.metadata.uid)
    }

    pub(super) fn mode(&self) -> Mode {
        match (self.spec.operating_mode.as_deref(), self.spec.replicas) {
            (Some("Suspended"), _) | (None, Some(0)) => Mode::Suspended,
            (Some(_), _) | (None, _) => Mode::Running,
        }
    }

    pub(super) fn is_replacing(&self) -> bool {
        self.metadata.annotations.contains_key(REPLACING)
    }

    /// Returns the pod that agent-sandbox has noted.
    pub(super) fn pod(&self) -> Option<&str> {
        let noted = self.metadata.annotations.get(POD);
        noted.map(String::as_str).filter(|name| !name.is_empty())
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// Writes the claim of a workspace, on a template and a pool that have the same name.
pub(super) fn new_claim(version: Version, (namespace, name, pool): (&str, &str, &str), wanted: &Wanted) -> Value {
    let mut spec = match version {
        // A pool that is named stays that pool when the cluster gets the newer version.
        Version::V1alpha1 => json!({"sandboxTemplateRef": {"name": pool}, "warmpool": pool}),
        Version::V1beta1 => json!({"warmPoolRef": {"name": pool}}),
    };
    // Labels would have to be allowed by the operator of agent-sandbox, and variables keep it from taking a pod of the pool.
    spec["additionalPodMetadata"] = json!({"annotations": {WORKSPACE: wanted.workspace}});
    json!({
        "apiVersion": format!("{}/{}", Resource::Claim.group(), version.as_str()),
        "kind": "SandboxClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "toolgate"},
            "annotations": {WORKSPACE: wanted.workspace, REQUEST: wanted.request},
        },
        "spec": spec,
    })
}

/// Writes a change of whether a sandbox runs. It is refused if the sandbox is not the one that was looked at any more.
pub(super) fn change_of(version: Version, sandbox: &Sandbox, mode: Mode, is_replacing: bool) -> Value {
    let mut metadata = json!({"resourceVersion": sandbox.metadata.resource_version});
    if is_replacing {
        metadata["annotations"] = json!({REPLACING: "true"});
    } else if sandbox.is_replacing() {
        metadata["annotations"] = json!({REPLACING: null});
    }
    let spec = match (version, mode) {
        (Version::V1alpha1, Mode::Running) => json!({"replicas": 1}),
        (Version::V1alpha1, Mode::Suspended) => json!({"replicas": 0}),
        (Version::V1beta1, Mode::Running) => json!({"operatingMode": "Running"}),
        (Version::V1beta1, Mode::Suspended) => json!({"operatingMode": "Suspended"}),
    };
    json!({"metadata": metadata, "spec": spec})
}

/// Writes how a claim is deleted: it is there until its sandbox, the pod and the volumes are gone.
pub(super) fn deletion_of(claim: &Claim) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": claim.metadata.uid},
    })
}
