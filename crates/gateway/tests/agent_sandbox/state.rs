//! What is in a cluster: objects in the version that its release stores, and pods.
//!
//! *Invariant:* as the API server keeps them: each change has another resource version, each change of what is wanted another generation, and
//! what is not changed has neither.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::schema::Schemas;

pub(crate) const NAMESPACE: &str = "agents";

/// The kinds of objects, by their plurals.
pub(crate) const CLAIMS: &str = "sandboxclaims";
pub(crate) const SANDBOXES: &str = "sandboxes";
pub(crate) const POOLS: &str = "sandboxwarmpools";
pub(crate) const TEMPLATES: &str = "sandboxtemplates";

pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// A release of agent-sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    V0_4_6,
    V0_5_0,
    V0_5_6,
}

impl Release {
    pub(crate) const ALL: [Self; 3] = [Self::V0_4_6, Self::V0_5_0, Self::V0_5_6];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V0_4_6 => "0.4.6",
            Self::V0_5_0 => "0.5.0",
            Self::V0_5_6 => "0.5.6",
        }
    }

    /// The version in which it stores objects. The older one, which 0.5 still has, is not played.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::V0_4_6 => "v1alpha1",
            Self::V0_5_0 | Self::V0_5_6 => "v1beta1",
        }
    }

    pub(crate) fn served(self) -> &'static [&'static str] {
        match self {
            Self::V0_4_6 => &["v1alpha1"],
            Self::V0_5_0 | Self::V0_5_6 => &["v1beta1", "v1alpha1"],
        }
    }

    pub(crate) fn is_beta(self) -> bool {
        self.version() == "v1beta1"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Failed,
    Succeeded,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Failed => "Failed",
            Self::Succeeded => "Succeeded",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    pub(crate) owner: String,
    pub(crate) phase: Phase,
    pub(crate) age: u32,
    /// For how many passes it still ends.
    pub(crate) ending: Option<u32>,
}

/// What happens to a request instead of what it is for.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// An answer with a status, and for how many seconds to wait.
    Status(u16, Option<u64>),
    /// It is done, and the answer says that it was not.
    Lost,
    /// An answer that is late.
    Slow(Duration),
    /// An answer that is no object.
    Garbage,
    /// An answer that breaks off.
    BreaksOff,
    /// An answer without an end.
    Endless,
    /// A way to somewhere else.
    Redirect,
}

type Race = Box<dyn FnOnce(&mut State) + Send>;

pub(crate) struct State {
    pub(crate) release: Release,
    pub(crate) schemas: Arc<Schemas>,
    pub(crate) objects: BTreeMap<(&'static str, String), Value>,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) tokens: BTreeSet<String>,
    /// Verbs and plurals that the Role has.
    pub(crate) role: BTreeSet<(&'static str, &'static str)>,
    /// Whether the cluster has any of it.
    pub(crate) is_installed: bool,
    /// What was asked for, in order.
    pub(crate) log: Vec<String>,
    pub(crate) faults: VecDeque<Fault>,
    /// What somebody else does right before the next change.
    pub(crate) race: Option<Race>,
    /// What no request should have been.
    pub(crate) violations: Vec<String>,
    /// For how many passes a pod starts, and ends.
    pub(crate) start: u32,
    pub(crate) grace: u32,
    counter: u64,
}

impl State {
    pub(crate) fn new(release: Release) -> Self {
        let role = [
            ("get", CLAIMS),
            ("create", CLAIMS),
            ("delete", CLAIMS),
            ("get", SANDBOXES),
            ("patch", SANDBOXES),
        ];
        Self {
            release,
            schemas: Schemas::of(release.as_str()),
            objects: BTreeMap::new(),
            pods: BTreeMap::new(),
            tokens: BTreeSet::new(),
            role: role.into(),
            is_installed: true,
            log: Vec::new(),
            faults: VecDeque::new(),
            race: None,
            violations: Vec::new(),
            start: 2,
            grace: 2,
            counter: 0,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(crate) fn get(&self, kind: &'static str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned()))
    }

    pub(crate) fn names(&self, kind: &'static str) -> Vec<String> {
        let of_kind = self.objects.keys().filter(|(one, _)| *one == kind);
        of_kind.map(|(_, name)| name.clone()).collect()
    }

    /// Stores a new object.
    pub(crate) fn create(&mut self, kind: &'static str, mut object: Value) -> Value {
        let number = self.number();
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(format!("uid-{number}"));
        metadata["resourceVersion"] = json!(number.to_string());
        metadata["generation"] = json!(1);
        metadata["namespace"] = json!(NAMESPACE);
        metadata["creationTimestamp"] = json!("2026-11-01T00:00:00Z");
        let name = metadata["name"].as_str().unwrap().to_owned();
        self.objects.insert((kind, name), object.clone());
        object
    }

    /// Changes an object that is there.
    pub(crate) fn change(&mut self, kind: &'static str, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let key = (kind, name.to_owned());
        let old = self.objects[&key].clone();
        let mut new = old.clone();
        change(&mut new);
        if new != old {
            let number = self.number();
            new["metadata"]["resourceVersion"] = json!(number.to_string());
            if new["spec"] != old["spec"] {
                let generation = old["metadata"]["generation"].as_i64().unwrap();
                new["metadata"]["generation"] = json!(generation + 1);
            }
            self.objects.insert(key, new.clone());
        }
        new
    }

    /// Marks an object as one that goes when nothing is left that it owns, or lets it go at once.
    pub(crate) fn delete(&mut self, kind: &'static str, name: &str, is_foreground: bool) -> Value {
        if !is_foreground {
            return self.objects.remove(&(kind, name.to_owned())).unwrap();
        }
        self.change(kind, name, |object| {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-01T00:01:00Z");
            object["metadata"]["finalizers"] = json!([FOREGROUND]);
        })
    }

    /// Says whether an object is controlled by another one.
    pub(crate) fn is_owned(object: &Value, owner: &str) -> bool {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        owners.any(|one| one["uid"] == owner && one["controller"] == true)
    }

    /// Adds a template, and a pool of it with so many sandboxes.
    pub(crate) fn add_pool(&mut self, name: &str, replicas: u64) {
        self.create(TEMPLATES, json!({"metadata": {"name": name}, "spec": {}}));
        let spec = json!({"replicas": replicas, "sandboxTemplateRef": {"name": name}});
        self.create(POOLS, json!({"metadata": {"name": name}, "spec": spec}));
    }

    /// Installs the newer release over the older one, with what that makes of its objects.
    pub(crate) fn upgrade(&mut self) {
        self.release = Release::V0_5_6;
        self.schemas = Schemas::of(self.release.as_str());
        for name in self.names(CLAIMS) {
            self.change(CLAIMS, &name, |claim| {
                let pool = match claim["spec"]["warmpool"].as_str() {
                    None | Some("none" | "default") => {
                        format!(
                            "shadow-pool-{}",
                            claim["spec"]["sandboxTemplateRef"]["name"].as_str().unwrap()
                        )
                    }
                    Some(pool) => pool.to_owned(),
                };
                let metadata = claim["spec"]["additionalPodMetadata"].clone();
                claim["spec"] = json!({"warmPoolRef": {"name": pool}, "additionalPodMetadata": metadata});
            });
        }
        for name in self.names(SANDBOXES) {
            self.change(SANDBOXES, &name, |sandbox| {
                let spec = sandbox["spec"].as_object_mut().unwrap();
                let replicas = spec.remove("replicas");
                let mode = if replicas == Some(json!(0)) {
                    "Suspended"
                } else {
                    "Running"
                };
                spec.insert("operatingMode".to_owned(), json!(mode));
                sandbox["status"].as_object_mut().unwrap().remove("replicas");
            });
        }
    }
}
