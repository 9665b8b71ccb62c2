//! What the controllers of agent-sandbox, the kubelets and the garbage collector do, one pass after the other.
//!
//! *Invariant:* as the releases do it (`extensions/controllers`, `controllers`), with what a client can see in between: a sandbox that
//! is adopted and not yet told, a pod that starts, or ends for a while, or has failed and stays.

use serde_json::{Value, json};

use super::state::*;

const SANDBOX_OF_CLAIM: &str = "agents.x-k8s.io/sandbox-name";
const POD_OF_SANDBOX: &str = "agents.x-k8s.io/pod-name";
const OF_POOL: &str = "agents.x-k8s.io/warm-pool-sandbox";

impl State {
    /// Lets each controller look at everything once.
    pub(crate) fn pass(&mut self) {
        for name in self.names(POOLS) {
            self.fill_pool(&name);
        }
        for name in self.names(CLAIMS) {
            self.reconcile_claim(&name);
        }
        for name in self.names(SANDBOXES) {
            self.reconcile_sandbox(&name);
        }
        self.run_pods();
        self.collect();
    }

    pub(crate) fn passes(&mut self, count: usize) {
        (0..count).for_each(|_| self.pass());
    }

    fn fill_pool(&mut self, pool: &str) {
        let spec = self.get(POOLS, pool).unwrap().clone();
        let uid = spec["metadata"]["uid"].as_str().unwrap().to_owned();
        let of_pool = |state: &Self| {
            let names = state.names(SANDBOXES);
            let owned = |name: &String| Self::is_owned(state.get(SANDBOXES, name).unwrap(), &uid);
            names.iter().filter(|name| owned(name)).count() as u64
        };
        while of_pool(self) < spec["spec"]["replicas"].as_u64().unwrap() {
            let name = format!("{pool}-{:05}", self.number());
            self.add_sandbox(&name, &uid, "SandboxWarmPool", json!({OF_POOL: pool}));
        }
    }

    fn add_sandbox(&mut self, name: &str, owner: &str, kind: &str, labels: Value) {
        let mut spec = json!({"podTemplate": {"metadata": {}, "spec": {"containers": [{"name": "worker"}]}}});
        match self.release {
            Release::V0_4_6 => spec["replicas"] = json!(1),
            Release::V0_5_0 | Release::V0_5_6 => spec["operatingMode"] = json!("Running"),
        }
        let owner = owner_of(kind, owner);
        let metadata = json!({"name": name, "labels": labels, "annotations": {}, "ownerReferences": [owner]});
        let version = format!("agents.x-k8s.io/{}", self.release.version());
        self.create(
            SANDBOXES,
            json!({"apiVersion": version, "kind": "Sandbox", "metadata": metadata, "spec": spec, "status": {"conditions": []}}),
        );
    }

    fn reconcile_claim(&mut self, name: &str) {
        let claim = self.get(CLAIMS, name).unwrap().clone();
        if claim["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let uid = claim["metadata"]["uid"].as_str().unwrap();
        if let Some(problem) = self.wrong_metadata(&claim) {
            return self.tell_claim(name, "InvalidMetadata", &problem);
        }
        let noted = claim["metadata"]["annotations"][SANDBOX_OF_CLAIM].as_str();
        let noted = noted.or_else(|| claim["metadata"]["labels"][SANDBOX_OF_CLAIM].as_str());
        let candidates = [claim["status"]["sandbox"]["name"].as_str(), noted, Some(name)];
        let own = candidates.into_iter().flatten().find(|name| {
            let sandbox = self.get(SANDBOXES, name);
            sandbox.is_some_and(|sandbox| Self::is_owned(sandbox, uid))
        });
        if let Some(own) = own.map(ToOwned::to_owned) {
            return self.mirror(name, &own);
        }
        let is_of_pool = |noted: &&str| {
            let sandbox = self.get(SANDBOXES, noted);
            sandbox.is_some_and(|sandbox| sandbox["metadata"]["ownerReferences"][0]["kind"] == "SandboxWarmPool")
        };
        if let Some(noted) = noted.filter(is_of_pool) {
            return self.adopt(noted, name, uid);
        }
        let (pool, template) = match self.release {
            Release::V0_4_6 => {
                let template = &claim["spec"]["sandboxTemplateRef"]["name"];
                (template.as_str().unwrap(), template.as_str().unwrap().to_owned())
            }
            Release::V0_5_0 | Release::V0_5_6 => {
                let pool = claim["spec"]["warmPoolRef"]["name"].as_str().unwrap();
                let Some(spec) = self.get(POOLS, pool) else {
                    let text = format!("SandboxWarmPool {pool:?} not found");
                    return self.tell_claim(name, "WarmPoolNotFound", &text);
                };
                let template = spec["spec"]["sandboxTemplateRef"]["name"].as_str().unwrap();
                (pool, template.to_owned())
            }
        };
        if claim["spec"]["env"].as_array().is_none_or(Vec::is_empty)
            && let Some(warm) = self.warm_one(pool)
        {
            self.change(CLAIMS, name, |claim| {
                claim["metadata"]["annotations"][SANDBOX_OF_CLAIM] = json!(warm);
            });
            return;
        }
        if self.get(TEMPLATES, &template).is_none() {
            let text = format!("SandboxTemplate {template:?} not found");
            return self.tell_claim(name, "TemplateNotFound", &text);
        }
        self.add_sandbox(name, uid, "SandboxClaim", json!({}));
        self.tell_claim(name, "SandboxMissing", "Sandbox does not exist");
    }

    /// Labels need a domain that the operator allows, annotations only one that is nobody's.
    fn wrong_metadata(&self, claim: &Value) -> Option<String> {
        let metadata = &claim["spec"]["additionalPodMetadata"];
        let keys = |kind: &str| metadata[kind].as_object().cloned().unwrap_or_default();
        let is_new = self.release.is_beta();
        let refused = keys("labels")
            .keys()
            .find(|key| is_new && !key.starts_with("sandbox.users.io/"))
            .cloned();
        let is_reserved = |key: &&String| {
            let domain = key.split('/').next().unwrap();
            ["kubernetes.io", "k8s.io"].iter().any(|end| domain.ends_with(end))
        };
        refused.or_else(|| keys("annotations").keys().find(is_reserved).cloned())
    }

    fn warm_one(&self, pool: &str) -> Option<String> {
        let is_free = |name: &String| {
            let sandbox = self.get(SANDBOXES, name).unwrap();
            let is_noted = self.names(CLAIMS).iter().any(|claim| {
                self.get(CLAIMS, claim).unwrap()["metadata"]["annotations"][SANDBOX_OF_CLAIM] == name.as_str()
            });
            sandbox["metadata"]["labels"][OF_POOL] == pool && is_ready(sandbox) && !is_noted
        };
        self.names(SANDBOXES).into_iter().find(is_free)
    }

    fn adopt(&mut self, sandbox: &str, claim: &str, uid: &str) {
        let (pod, owner) = (json!(sandbox), owner_of("SandboxClaim", uid));
        let annotations = self.get(CLAIMS, claim).unwrap()["spec"]["additionalPodMetadata"]["annotations"].clone();
        self.change(SANDBOXES, sandbox, |sandbox| {
            sandbox["metadata"]["labels"] = json!({"agents.x-k8s.io/claim-uid": uid});
            sandbox["metadata"]["ownerReferences"] = json!([owner]);
            sandbox["metadata"]["annotations"][POD_OF_SANDBOX] = pod;
            sandbox["spec"]["podTemplate"]["metadata"]["annotations"] = annotations;
        });
    }

    /// Has a claim say what its sandbox says.
    fn mirror(&mut self, claim: &str, sandbox: &str) {
        let said = self.get(SANDBOXES, sandbox).unwrap()["status"]["conditions"].clone();
        self.change(CLAIMS, claim, |claim| {
            claim["status"]["sandbox"]["name"] = json!(sandbox);
            let said = said.as_array().unwrap().iter();
            let kept = said.filter(|one| one["type"] == "Ready" || one["type"] == "Finished");
            claim["status"]["conditions"] = kept.cloned().collect();
        });
    }

    fn tell_claim(&mut self, name: &str, reason: &str, message: &str) {
        self.change(CLAIMS, name, |claim| {
            let told = condition("Ready", false, reason, message, &claim["metadata"]["generation"]);
            claim["status"]["conditions"] = json!([told]);
        });
    }

    fn reconcile_sandbox(&mut self, name: &str) {
        let sandbox = self.get(SANDBOXES, name).unwrap().clone();
        if sandbox["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let uid = sandbox["metadata"]["uid"].as_str().unwrap();
        let is_new = self.release.is_beta();
        let rests = sandbox["spec"]["operatingMode"] == "Suspended" || sandbox["spec"]["replicas"] == 0;
        let pod_name = sandbox["metadata"]["annotations"][POD_OF_SANDBOX]
            .as_str()
            .unwrap_or(name);
        let mut pod = self.pods.get(pod_name).filter(|pod| pod.owner == uid).cloned();
        let mut noted = Some(pod_name.to_owned());
        if rests {
            if let Some(pod) = self.pods.get_mut(pod_name).filter(|_| pod.is_some()) {
                pod.ending = pod.ending.or(Some(self.grace));
            }
            if !is_new {
                // It does not wait for the end of the pod.
                pod = None;
            }
            noted = noted.filter(|_| pod.is_some());
        } else if pod.is_none() {
            let number = self.number();
            let new = Pod {
                uid: format!("uid-{number}"),
                owner: uid.to_owned(),
                phase: Phase::Pending,
                age: 0,
                ending: None,
            };
            self.pods.insert(name.to_owned(), new.clone());
            (pod, noted) = (Some(new), Some(name.to_owned()));
        }
        let generation = &sandbox["metadata"]["generation"];
        let mut conditions = Vec::new();
        let phase = pod.as_ref().map(|pod| pod.phase);
        if is_new {
            let (is_true, reason) = match (rests, phase) {
                (false, _) => (false, "NotSuspended"),
                (true, Some(_)) => (false, "PodTerminating"),
                (true, None) => (true, "PodTerminated"),
            };
            conditions.push(condition("Suspended", is_true, reason, "as it is", generation));
        }
        if self.release == Release::V0_5_0 && !rests {
            // It leaves there what was said of an earlier rest, and says nothing before the first.
            let said = sandbox["status"]["conditions"].as_array().unwrap();
            let earlier = said.iter().find(|one| one["type"] == "Suspended").cloned();
            conditions = earlier.into_iter().collect();
        }
        let end = match phase {
            Some(Phase::Failed) => Some(("PodFailed", "Pod failed")),
            Some(Phase::Succeeded) => Some(("PodSucceeded", "Pod completed successfully")),
            Some(Phase::Pending | Phase::Running) | None => None,
        };
        if let Some((reason, message)) = end {
            conditions.push(condition("Finished", true, reason, message, generation));
        }
        let (is_ready, reason, message) = match (rests, phase, end) {
            (true, _, _) if is_new => (false, "SandboxSuspended", "Sandbox is suspended".to_owned()),
            (true, _, _) => (
                true,
                "DependenciesReady",
                "Pod does not exist, replicas is 0".to_owned(),
            ),
            (false, _, Some((reason, message))) if is_new => (false, reason, message.to_owned()),
            (false, Some(Phase::Running), _) => (true, "DependenciesReady", "Pod is Ready".to_owned()),
            (false, phase, _) => {
                let phase = phase.map_or("none", Phase::as_str);
                (false, "DependenciesNotReady", format!("Pod exists with phase: {phase}"))
            }
        };
        conditions.push(condition("Ready", is_ready, reason, &message, generation));
        self.change(SANDBOXES, name, |sandbox| {
            match noted {
                Some(pod) => sandbox["metadata"]["annotations"][POD_OF_SANDBOX] = json!(pod),
                None => {
                    let annotations = sandbox["metadata"]["annotations"].as_object_mut();
                    annotations.unwrap().remove(POD_OF_SANDBOX);
                }
            }
            sandbox["status"]["conditions"] = json!(conditions);
        });
    }

    fn run_pods(&mut self) {
        let start = self.start;
        self.pods.retain(|_, pod| {
            pod.age += 1;
            if pod.phase == Phase::Pending && pod.age >= start {
                pod.phase = Phase::Running;
            }
            match &mut pod.ending {
                Some(0) => false,
                Some(left) => {
                    *left -= 1;
                    true
                }
                None => true,
            }
        });
    }

    /// Takes away what nobody owns any more, and what waited for that.
    fn collect(&mut self) {
        let there = |state: &Self, kind| -> Vec<(String, Value)> {
            let names = state.names(kind).into_iter();
            names
                .map(|name| (name.clone(), state.get(kind, &name).unwrap().clone()))
                .collect()
        };
        let is_going = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
        for (name, claim) in there(self, CLAIMS).into_iter().filter(|(_, claim)| is_going(claim)) {
            let uid = claim["metadata"]["uid"].as_str().unwrap();
            let owned = there(self, SANDBOXES)
                .into_iter()
                .filter(|(_, one)| Self::is_owned(one, uid));
            let owned: Vec<String> = owned.map(|(name, _)| name).collect();
            for sandbox in &owned {
                self.delete(SANDBOXES, sandbox, true);
            }
            if owned.is_empty() {
                self.objects.remove(&(CLAIMS, name));
            }
        }
        for (name, sandbox) in there(self, SANDBOXES) {
            let owner = sandbox["metadata"]["ownerReferences"][0]["uid"].clone();
            let has_owner = [CLAIMS, POOLS].iter().any(|kind| {
                there(self, kind)
                    .iter()
                    .any(|(_, object)| object["metadata"]["uid"] == owner)
            });
            if has_owner && !is_going(&sandbox) {
                continue;
            }
            let (uid, grace) = (sandbox["metadata"]["uid"].as_str().unwrap(), self.grace);
            let mut pods = self.pods.values_mut().filter(|pod| pod.owner == uid).peekable();
            if pods.peek().is_none() {
                self.objects.remove(&(SANDBOXES, name));
                continue;
            }
            pods.for_each(|pod| pod.ending = pod.ending.or(Some(grace)));
        }
    }
}

fn owner_of(kind: &str, uid: &str) -> Value {
    json!({"kind": kind, "uid": uid, "controller": true, "blockOwnerDeletion": true})
}

fn is_ready(sandbox: &Value) -> bool {
    let conditions = sandbox["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn condition(kind: &str, is_true: bool, reason: &str, message: &str, generation: &Value) -> Value {
    json!({
        "type": kind,
        "status": if is_true { "True" } else { "False" },
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    })
}
