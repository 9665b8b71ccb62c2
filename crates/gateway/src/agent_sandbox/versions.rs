//! Which version of agent-sandbox a cluster has.
//!
//! *Invariant:* the newest that the cluster has of all that is asked for. The newest that is known here is remembered until the cluster does
//! not have it any more, an older one for a moment only: a cluster that was upgraded still has it, and what is made in it then is not
//! what was meant.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolgate_server::provision::ProvisionError;

use super::api::Api;
use super::objects::{Resource, Version};

/// How long an older version is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// What is known of it.
#[derive(Default)]
pub(super) struct Versions(Mutex<Option<(Version, Instant)>>);

impl Versions {
    /// Returns the version to speak.
    pub(super) async fn current(&self, api: &Api) -> Result<Version, ProvisionError> {
        let known = *self.0.lock();
        let is_good =
            |(version, seen): &(Version, Instant)| Some(version) == Version::ALL.last() || seen.elapsed() < REMEMBERED;
        if let Some((version, _)) = known.filter(is_good) {
            return Ok(version);
        }
        let mut served = Version::ALL.to_vec();
        for resource in Resource::ALL {
            let group = resource.group();
            let Some(versions) = api.versions(group).await? else {
                return Err(ProvisionError::Failed(format!(
                    "the cluster has no objects of the group {group}: install agent-sandbox with its extensions"
                )));
            };
            served.retain(|version| versions.iter().any(|name| name == version.as_str()));
        }
        let Some(version) = served.last().copied() else {
            let known = Version::ALL.map(Version::as_str).join(" and ");
            return Err(ProvisionError::Failed(format!(
                "the cluster has agent-sandbox in another version than those that are known here, {known}"
            )));
        };
        if known.is_none_or(|(known, _)| known != version) {
            tracing::info!(version = version.as_str(), "agent-sandbox makes the pods of workspaces");
        }
        *self.0.lock() = Some((version, Instant::now()));
        Ok(version)
    }

    /// Forgets it, since the cluster does not have it.
    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }
}
