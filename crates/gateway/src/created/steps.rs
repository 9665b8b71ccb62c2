//! What is done for a created workspace at each stage, through whoever makes places.
//!
//! *Invariant:* an attempt does the same however often it is made, and by whichever gateway. A workspace is ready when a worker holds it,
//! not before.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use toolgate_server::app::registration::fitting;
use toolgate_server::provision::{Observed, ProvisionError};
use toolgate_store::StoreError;
use toolgate_store::created::{CreatedWorkspace, Stage, Step};

use super::{Created, wanted};

/// How long an attempt waits for the worker of a place, and how often it looks.
const ARRIVAL: (Duration, Duration) = (Duration::from_secs(3), Duration::from_millis(100));

/// When it is said that a worker is late, and when it is waited for no more; likewise for places that cannot be made.
const LATE: Duration = Duration::from_secs(30);
const TOO_LATE: Duration = Duration::from_secs(15 * 60);

/// How long to wait before the same is tried again, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// How often it is looked at what is as it should be, about.
const DRIFT: Duration = Duration::from_secs(300);

/// What is said of a place with all that was stored there, when it is gone.
const GONE: &str = "its place is gone, with what was stored there: create it again, which begins with nothing but its source, or delete it";

/// Returns a time that is not the same for all: a half of it to all of it.
fn about(time: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let share = u32::try_from(random % 512).unwrap_or_default();
    time / 2 + time * share / 1024
}

/// Returns how long to wait after so many attempts in vain.
pub(super) fn backoff(attempts: u64) -> Duration {
    let doubled = u32::try_from(attempts.min(16)).unwrap_or(16);
    about(BACKOFF.0.saturating_mul(1 << doubled).min(BACKOFF.1) * 2)
}

/// Looks again because something was wrong.
pub(super) fn in_vain(workspace: &CreatedWorkspace, problem: String, is_begun: bool) -> Step {
    Step::Later {
        after: backoff(workspace.attempts),
        problem,
        is_begun,
        attempts: workspace.attempts + 1,
    }
}

/// Looks again soon, as it takes its time.
pub(super) fn soon(workspace: &CreatedWorkspace, problem: String) -> Step {
    let after = match workspace.lasts {
        lasts if lasts < Duration::from_secs(10) => Duration::from_millis(250),
        lasts if lasts < LATE => Duration::from_secs(1),
        _ => Duration::from_secs(5),
    };
    Step::Later {
        after: about(after * 2),
        problem,
        is_begun: true,
        attempts: 0,
    }
}

/// Says whether a worker is of a pod, as far as that can be known: a token of a service account names its pod, a certificate its machine,
/// and a token that many share names none, so that of these each is what it calls itself.
fn is_of_pod((principal, known_as): (&str, &str), pod: &str) -> bool {
    let named = principal
        .strip_prefix("worker:")
        .map(|named| named.rsplit_once('/').map_or(named, |(_, last)| last));
    match named {
        Some(named) if known_as.is_empty() => named == pod,
        Some(_) | None => !known_as.is_empty(),
    }
}

pub(super) fn reached(stage: Stage) -> Step {
    Step::Reached(stage, about(DRIFT * 2))
}

/// Why no worker is at a place.
struct Missing {
    problem: String,
    /// Whether that is the cause, and does not just take its time.
    is_known: bool,
}

impl Missing {
    const fn known(problem: String) -> Self {
        Self {
            problem,
            is_known: true,
        }
    }

    const fn perhaps(problem: String) -> Self {
        Self {
            problem,
            is_known: false,
        }
    }
}

impl Created {
    /// Makes an attempt to bring a workspace further; none if there is nothing to write down of it.
    pub(super) async fn attempt(&self, workspace: &CreatedWorkspace) -> Option<Step> {
        let step = match workspace.stage {
            Stage::Creating | Stage::Resuming => self.bring(workspace).await,
            Stage::Suspending => self.suspend(workspace).await,
            Stage::Deleting => return self.delete(workspace).await,
            Stage::Ready => self.look_at_ready(workspace).await,
            Stage::Suspended => self.look_at_suspended(workspace).await,
            Stage::Failed => Ok(Step::Failed(workspace.problem.clone())),
        };
        match step {
            Ok(step) => Some(step),
            Err(error) => {
                tracing::warn!(workspace = workspace.name, %error, "a workspace cannot be brought further");
                None
            }
        }
    }

    /// Says whether a run holds a workspace.
    async fn is_held(&self, name: &str) -> Result<bool, StoreError> {
        let holders = self.ledger.holders(&[name.to_owned()]).await?;
        Ok(holders.contains_key(name))
    }

    /// Makes a place, or wakes it up, until a worker holds the workspace.
    async fn bring(&self, workspace: &CreatedWorkspace) -> Result<Step, StoreError> {
        let wanted = wanted(workspace);
        let is_new = workspace.stage == Stage::Creating;
        if is_new && workspace.was_ready && !workspace.is_begun {
            // It had a place before. What waits was asked about what was in that, unless it is still there.
            match self.provisioner.observe(&wanted).await {
                Ok(Observed::Absent) => self.end_all(workspace).await?,
                Ok(Observed::Ready | Observed::Coming | Observed::Resting | Observed::Broken(_)) => {}
                Err(ProvisionError::Refused(problem)) => return Ok(Step::Failed(problem)),
                Err(ProvisionError::Failed(problem)) => return Ok(in_vain(workspace, problem, false)),
            }
        }
        let mut observed = match (workspace.is_begun, is_new) {
            (true, _) => self.provisioner.observe(&wanted).await,
            (false, true) => self.provisioner.ensure(&wanted).await,
            (false, false) => self.provisioner.resume(&wanted).await,
        };
        if let Ok(Observed::Resting) = observed {
            observed = self.provisioner.resume(&wanted).await;
        }
        let is_too_late = workspace.lasts > TOO_LATE;
        Ok(match observed {
            Ok(Observed::Ready | Observed::Coming | Observed::Resting) => match self.arrival(workspace).await? {
                Ok(()) => reached(Stage::Ready),
                Err(missing) if is_too_late => Step::Failed(missing.problem),
                Err(missing) if missing.is_known || workspace.lasts > LATE => soon(workspace, missing.problem),
                Err(_) => soon(workspace, String::new()),
            },
            Ok(Observed::Absent) if !is_new => Step::Failed(GONE.to_owned()),
            Ok(Observed::Absent) => {
                let problem = match workspace.is_begun {
                    true => "its place was made, and is gone again: it is made once more",
                    false => "its place was to be made, and is not there: it is tried again",
                };
                match is_too_late {
                    true => Step::Failed(problem.to_owned()),
                    false => in_vain(workspace, problem.to_owned(), false),
                }
            }
            Ok(Observed::Broken(problem)) | Err(ProvisionError::Refused(problem)) => Step::Failed(problem),
            Err(ProvisionError::Failed(problem)) if is_too_late => Step::Failed(problem),
            Err(ProvisionError::Failed(problem)) => in_vain(workspace, problem, workspace.is_begun),
        })
    }

    /// Waits a moment for the worker of a place; says what is wrong if it does not come.
    async fn arrival(&self, workspace: &CreatedWorkspace) -> Result<Result<(), Missing>, StoreError> {
        let begun = Instant::now();
        let pod = self.provisioner.pod(&wanted(workspace)).await;
        loop {
            let problem = match &pod {
                Ok(Some(pod)) => self.bind(workspace, pod).await?,
                Ok(None) => None,
                Err(error) => Some(Missing::known(error.to_string())),
            };
            if self.is_held(&workspace.name).await? {
                return Ok(Ok(()));
            }
            if begun.elapsed() > ARRIVAL.0 {
                let seconds = workspace.lasts.as_secs();
                return Ok(Err(problem.unwrap_or_else(|| {
                    Missing::perhaps(format!(
                        "no worker has come to its place for {seconds} s: look at what is logged there, and whether the gateways let it \
                         register (auth.workers, auth.workers_file)"
                    ))
                })));
            }
            sleep(ARRIVAL.1).await;
        }
    }

    /// Binds the worker of a pod to a workspace, if it waits; says why not.
    async fn bind(&self, workspace: &CreatedWorkspace, pod: &str) -> Result<Option<Missing>, StoreError> {
        let worker = self.registry.named(&fitting(pod));
        let Some(worker) = worker.filter(|worker| worker.waits()) else {
            return Ok(Some(Missing::perhaps(format!(
                "the worker of the pod {pod} does not wait for a workspace here"
            ))));
        };
        let known = worker.bound_as().filter(|_| worker.may_be_bound_to(&workspace.name));
        let Some((principal, known_as)) = known else {
            return Ok(Some(Missing::known(format!(
                "the worker of the pod {pod} may not be bound to it: no rule in auth.workers_file with `pool = true` says so"
            ))));
        };
        if !is_of_pod((&principal, &known_as), pod) {
            return Ok(Some(Missing::known(format!(
                "the worker that calls itself {} is not of the pod {pod}: its token says otherwise",
                worker.name
            ))));
        }
        // What came before it stands at that place no more.
        self.store.release_binding(workspace, &principal, &known_as).await?;
        match self.pool.bind(&worker, &workspace.name).await {
            Ok(_) => Ok(None),
            Err(status) => Ok(Some(Missing::known(status.message().to_owned()))),
        }
    }

    /// Looks whether what should be ready is.
    async fn look_at_ready(&self, workspace: &CreatedWorkspace) -> Result<Step, StoreError> {
        if self.is_held(&workspace.name).await? {
            return Ok(reached(Stage::Ready));
        }
        Ok(match self.provisioner.observe(&wanted(workspace)).await {
            Ok(Observed::Ready | Observed::Coming) => match self.arrival(workspace).await? {
                Ok(()) => reached(Stage::Ready),
                Err(missing) => in_vain(workspace, missing.problem, true),
            },
            // Somebody else has suspended it.
            Ok(Observed::Resting) => Step::Reached(Stage::Suspending, Duration::ZERO),
            Ok(Observed::Absent) => Step::Failed(GONE.to_owned()),
            Ok(Observed::Broken(problem)) | Err(ProvisionError::Refused(problem)) => Step::Failed(problem),
            Err(ProvisionError::Failed(problem)) => in_vain(workspace, problem, true),
        })
    }

    /// Looks whether what should rest does.
    async fn look_at_suspended(&self, workspace: &CreatedWorkspace) -> Result<Step, StoreError> {
        let wanted = wanted(workspace);
        let observed = match self.provisioner.observe(&wanted).await {
            Ok(Observed::Ready | Observed::Coming) => {
                tracing::warn!(
                    workspace = workspace.name,
                    "a suspended workspace runs: it is suspended again"
                );
                self.provisioner.suspend(&wanted).await
            }
            other => other,
        };
        Ok(match observed {
            Ok(Observed::Resting) => reached(Stage::Suspended),
            Ok(Observed::Ready | Observed::Coming) => soon(workspace, String::new()),
            Ok(Observed::Absent) => Step::Failed(GONE.to_owned()),
            Ok(Observed::Broken(problem)) => Step::Failed(problem),
            // It is suspended as far as the gateways can do that: nobody holds it.
            Err(ProvisionError::Refused(problem) | ProvisionError::Failed(problem)) => {
                in_vain(workspace, problem, true)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_of_the_pod_that_its_token_names() {
        let of = |principal: &str, known_as: &str| is_of_pod((principal, known_as), "ws-web");
        assert!(of("worker:system:serviceaccount:agents:pool/ws-web", ""));
        assert!(of("worker:ws-web", ""), "a certificate names one machine");
        assert!(of("token:pods", "ws-web"));
        for (principal, known_as) in [
            ("worker:system:serviceaccount:agents:pool/other", ""),
            ("worker:system:serviceaccount:agents:pool", ""),
            ("worker:another", ""),
            ("token:machine", ""),
        ] {
            assert!(!of(principal, known_as), "{principal}");
        }
    }

    #[test]
    fn it_is_tried_again_later_each_time() {
        for attempts in [0, 1, 5, 100] {
            let longest = BACKOFF.0.saturating_mul(1 << attempts.min(16)).min(BACKOFF.1) * 2;
            for _ in 0..100 {
                let time = backoff(attempts);
                assert!(time >= longest / 2 && time <= longest, "{attempts}: {time:?}");
            }
        }
        let all: std::collections::BTreeSet<Duration> = (0..20).map(|_| backoff(3)).collect();
        assert!(all.len() > 1, "{all:?}");
    }
}
