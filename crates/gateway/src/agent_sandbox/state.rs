//! What the objects of a workspace say: what there is, and what has to be changed for what is wanted.
//!
//! *Invariant:* pure. It is decided by what is there now, never by what was done before, so whoever asks next, at any gateway, goes on
//! where the last one stopped. What a controller has said before a change says nothing of what comes after it.

use toolgate_server::provision::Observed;

use super::objects::{Claim, Condition, Mode, Sandbox, Version};

/// What a claim says that no controller gets over by trying again: somebody has to change something.
const FINAL: [&str; 7] = [
    "TemplateNotFound",
    "WarmPoolNotFound",
    "InvalidMetadata",
    "EnvVarsInjectionRejected",
    "VolumeClaimTemplatesError",
    "ClaimExpired",
    EXPIRED,
];

/// What both say of a sandbox whose time was over.
const EXPIRED: &str = "SandboxExpired";

/// What a sandbox says that has more than one pod: which one is it?
const SEVERAL_PODS: &str = "MultiplePods";

/// What was found of a workspace.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// A claim of its name that is not its own; the text says so.
    Foreign(String),
    /// Its claim, which is being deleted.
    Going,
    /// Its claim, which has no sandbox yet.
    Claimed(Claim),
    /// Its sandbox.
    Made(Sandbox),
}

/// How a sandbox is.
#[derive(Debug, PartialEq, Eq)]
enum Life {
    /// Its pod is on the way.
    Coming,
    /// Its pod runs.
    Ready,
    /// Its pod has ended, and no controller makes another one.
    Ended,
    /// It is to rest, and its pod is still there.
    Stopping,
    /// It rests.
    Stopped,
    /// Its pod is taken away, or has been, so that another one is made.
    Replacing { is_gone: bool },
    /// It cannot be used.
    Broken(String),
}

/// What is wanted of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// That it is as it is, and has no pod that has ended.
    There,
    /// That it runs.
    Running,
    /// That it rests.
    Resting,
}

/// A change of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) mode: Mode,
    /// Whether that is only for another pod.
    pub(super) is_replacing: bool,
}

impl Found {
    /// Says what there is, in the words of whoever asks.
    pub(super) fn observed(&self, version: Version) -> Observed {
        match self {
            Self::Nothing => Observed::Absent,
            Self::Foreign(problem) => Observed::Broken(problem.clone()),
            Self::Going => Observed::Coming,
            Self::Claimed(claim) => of_claim(claim),
            Self::Made(sandbox) => match life(version, sandbox) {
                Life::Coming | Life::Stopping | Life::Replacing { is_gone: false } => Observed::Coming,
                Life::Ready => Observed::Ready,
                // Nothing runs, what is stored is kept, and somebody has to want that it runs.
                Life::Ended | Life::Stopped | Life::Replacing { is_gone: true } => Observed::Resting,
                Life::Broken(problem) => Observed::Broken(problem),
            },
        }
    }

    /// Returns the name of the pod, if there is one.
    pub(super) fn pod(&self, version: Version) -> Option<String> {
        let Self::Made(sandbox) = self else { return None };
        match life(version, sandbox) {
            // A pod that nobody has noted is called after its sandbox.
            Life::Ready => Some(sandbox.pod().unwrap_or(&sandbox.metadata.name).to_owned()),
            Life::Coming => sandbox.pod().map(ToOwned::to_owned),
            Life::Ended | Life::Stopping | Life::Stopped | Life::Replacing { .. } | Life::Broken(_) => None,
        }
    }
}

/// Says what has to be changed of a sandbox for what is wanted of it.
pub(super) fn change(version: Version, sandbox: &Sandbox, want: Want) -> Option<Change> {
    let to = |mode, is_replacing| Some(Change { mode, is_replacing });
    match (want, life(version, sandbox)) {
        (Want::There | Want::Running, Life::Ended) => to(Mode::Suspended, true),
        (Want::There | Want::Running, Life::Replacing { is_gone: true })
        | (Want::Running, Life::Stopped | Life::Stopping) => to(Mode::Running, false),
        (Want::Resting, Life::Coming | Life::Ready | Life::Ended | Life::Replacing { .. }) => {
            to(Mode::Suspended, false)
        }
        (Want::There, Life::Coming | Life::Ready | Life::Stopped | Life::Stopping)
        | (Want::Running, Life::Coming | Life::Ready)
        | (Want::There | Want::Running, Life::Replacing { is_gone: false })
        | (Want::Resting, Life::Stopped | Life::Stopping)
        | (_, Life::Broken(_)) => None,
    }
}

fn of_claim(claim: &Claim) -> Observed {
    let ready = claim.condition("Ready").filter(|ready| !ready.is_true());
    match ready.filter(|ready| FINAL.contains(&ready.reason.as_str())) {
        Some(ready) => Observed::Broken(told(ready)),
        None => Observed::Coming,
    }
}

fn told(condition: &Condition) -> String {
    format!("agent-sandbox says {}: {}", condition.reason, condition.message)
}

fn life(version: Version, sandbox: &Sandbox) -> Life {
    if sandbox.metadata.deletion_timestamp.is_some() {
        // Its claim is not, so it gets another one.
        return Life::Coming;
    }
    let current = |kind: &str| {
        let condition = sandbox.condition(kind);
        condition.filter(|condition| condition.is_current(&sandbox.metadata))
    };
    let ready = current("Ready");
    let is_final = |ready: &&Condition| !ready.is_true() && [EXPIRED, SEVERAL_PODS].contains(&ready.reason.as_str());
    if let Some(ready) = ready.filter(is_final) {
        return Life::Broken(told(ready));
    }
    match sandbox.mode() {
        Mode::Suspended => {
            let is_gone = match version {
                // It says when it has deleted the pod, not when that is gone; it is called ready then.
                Version::V1alpha1 => ready.is_some(),
                Version::V1beta1 => current("Suspended").is_some_and(Condition::is_true),
            };
            match (sandbox.is_replacing(), is_gone) {
                (true, is_gone) => Life::Replacing { is_gone },
                (false, true) => Life::Stopped,
                (false, false) => Life::Stopping,
            }
        }
        Mode::Running if current("Finished").is_some_and(Condition::is_true) => Life::Ended,
        Mode::Running if ready.is_some_and(Condition::is_true) => Life::Ready,
        Mode::Running => Life::Coming,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const VERSIONS: [Version; 2] = Version::ALL;

    fn condition(kind: &str, status: &str, reason: &str, seen: i64) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "text", "observedGeneration": seen})
    }

    /// A sandbox in its second generation.
    fn sandbox(spec: &Value, annotations: &Value, conditions: &[Value]) -> Sandbox {
        let metadata = json!({"name": "pool-x", "uid": "u", "generation": 2, "annotations": annotations});
        let object = json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}});
        serde_json::from_value(object).unwrap()
    }

    fn rests(version: Version) -> Value {
        match version {
            Version::V1alpha1 => json!({"replicas": 0}),
            Version::V1beta1 => json!({"operatingMode": "Suspended"}),
        }
    }

    /// What says that the pod of a sandbox that rests is gone.
    fn gone(version: Version, seen: i64) -> Value {
        match version {
            Version::V1alpha1 => condition("Ready", "True", "DependenciesReady", seen),
            Version::V1beta1 => condition("Suspended", "True", "PodTerminated", seen),
        }
    }

    #[test]
    fn what_was_said_before_a_change_does_not_count() {
        for version in VERSIONS {
            let check = |spec: &Value, conditions: &[Value], expected: &Life| {
                let life = life(version, &sandbox(spec, &json!({}), conditions));
                assert_eq!(life, *expected, "{version:?} {spec} {conditions:?}");
            };
            let ready = |seen| condition("Ready", "True", "DependenciesReady", seen);
            let ended = |seen| condition("Finished", "True", "PodFailed", seen);
            check(&json!({}), &[ready(2)], &Life::Ready);
            check(&json!({}), &[ready(1)], &Life::Coming);
            check(&json!({}), &[], &Life::Coming);
            check(&json!({}), &[ended(2)], &Life::Ended);
            check(&json!({}), &[ended(1)], &Life::Coming);
            check(&rests(version), &[gone(version, 2)], &Life::Stopped);
            check(&rests(version), &[gone(version, 1)], &Life::Stopping);
        }
        // Earlier releases of the newer version had no generation in it.
        let unsaid = json!({"type": "Ready", "status": "True", "reason": "DependenciesReady", "message": ""});
        assert_eq!(
            life(Version::V1beta1, &sandbox(&json!({}), &json!({}), &[unsaid])),
            Life::Ready
        );
    }

    #[test]
    fn what_does_not_heal_is_told() {
        for reason in [EXPIRED, SEVERAL_PODS] {
            let found = Found::Made(sandbox(
                &json!({}),
                &json!({}),
                &[condition("Ready", "False", reason, 2)],
            ));
            let Observed::Broken(problem) = found.observed(Version::V1beta1) else {
                panic!("{reason}")
            };
            assert_eq!(problem, format!("agent-sandbox says {reason}: text"));
        }
        let claimed = |reason: &str| {
            let status = json!({"conditions": [condition("Ready", "False", reason, 1)]});
            Found::Claimed(serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap())
        };
        for reason in FINAL {
            let observed = claimed(reason).observed(Version::V1beta1);
            assert!(matches!(observed, Observed::Broken(_)), "{reason}");
        }
        for reason in ["SandboxMissing", "ReconcilerError", "AdoptionConflict", "SomethingNew"] {
            assert_eq!(claimed(reason).observed(Version::V1beta1), Observed::Coming, "{reason}");
        }
    }

    #[test]
    fn whatever_is_wanted_is_reached_and_then_left_alone() {
        for version in VERSIONS {
            let replacing = json!({"toolgate.dev/replacing": "true"});
            let ready = condition("Ready", "True", "DependenciesReady", 2);
            let ended = |seen| condition("Finished", "True", "PodFailed", seen);
            let running = sandbox(&json!({}), &json!({}), &[ready]);
            let failed = sandbox(&json!({}), &json!({}), &[ended(2)]);
            let stopping = sandbox(&rests(version), &json!({}), &[]);
            let stopped = sandbox(&rests(version), &json!({}), &[gone(version, 2)]);
            let going = sandbox(&rests(version), &replacing, &[ended(1)]);
            let replaced = sandbox(&rests(version), &replacing, &[gone(version, 2)]);

            let to = |mode, is_replacing| Some(Change { mode, is_replacing });
            let suspend = to(Mode::Suspended, false);
            let run = to(Mode::Running, false);
            let replace = to(Mode::Suspended, true);
            let check = |sandbox: &Sandbox, there: Option<Change>, run: Option<Change>, rest: Option<Change>| {
                let all = [(Want::There, there), (Want::Running, run), (Want::Resting, rest)];
                for (want, expected) in all {
                    assert_eq!(
                        change(version, sandbox, want),
                        expected,
                        "{version:?} {want:?} {sandbox:?}"
                    );
                }
            };
            check(&running, None, None, suspend);
            check(&failed, replace, replace, suspend);
            check(&stopping, None, run, None);
            check(&stopped, None, run, None);
            check(&going, None, None, suspend);
            check(&replaced, run, run, suspend);
        }
    }

    #[test]
    fn the_pod_is_named_while_there_is_one() {
        let noted = json!({"agents.x-k8s.io/pod-name": "pool-y"});
        let ready = [condition("Ready", "True", "DependenciesReady", 2)];
        let pod = |found: Sandbox| Found::Made(found).pod(Version::V1beta1);
        assert_eq!(pod(sandbox(&json!({}), &noted, &[])).as_deref(), Some("pool-y"));
        assert_eq!(pod(sandbox(&json!({}), &noted, &ready)).as_deref(), Some("pool-y"));
        assert_eq!(pod(sandbox(&json!({}), &json!({}), &ready)).as_deref(), Some("pool-x"));
        assert_eq!(pod(sandbox(&json!({}), &json!({}), &[])), None);
        let suspended = json!({"operatingMode": "Suspended"});
        assert_eq!(pod(sandbox(&suspended, &noted, &[])), None);
    }
}
