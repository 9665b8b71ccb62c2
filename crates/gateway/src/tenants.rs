//! Limits of tenants: groups of workspaces that share a number of open workspaces and of running calls.
//!
//! *Invariant:* what counts is what this gateway knows: the workspaces that its workers have, or are about to have by way of it, and
//! the calls whose streams are open here. A call that goes on without its stream is not counted, and neither is one that came by
//! another gateway.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;
use toolgate_config::service::TenantConfig;
use toolgate_contract::ErrorReason;
use toolgate_server::grpc::status;
use toolgate_store::created::Quota;

use crate::counts::{Counts, UnderWay};
use crate::registry::Registry;
use crate::wire::Passed;

/// After how long to look again for room.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What makes a call that counts.
const EXECUTING: [&str; 2] = [
    "/toolgate.v1.ToolService/ExecuteTool",
    "/toolgate.v1.ToolService/RunTool",
];

/// The tenants, and how many calls of each run.
pub(crate) struct Tenants {
    tenants: Vec<(TenantConfig, Arc<AtomicU32>)>,
    /// By name, how many requests are under way that bring a workspace about.
    coming: Counts,
}

/// Calls that count; dropping it makes room.
#[derive(Default)]
pub(crate) struct Counted(Vec<Arc<AtomicU32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        for running in &self.0 {
            running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Counted {
    /// Counts until an answer is over.
    pub(crate) fn until_the_end_of(self, answer: Response<Body>, worker: &str) -> Response<Body> {
        match self.0.is_empty() {
            true => answer,
            false => Passed::on(answer, worker, self),
        }
    }
}

impl Tenants {
    pub(crate) fn new(tenants: Vec<TenantConfig>) -> Self {
        Self {
            tenants: tenants.into_iter().map(|tenant| (tenant, Arc::default())).collect(),
            coming: Counts::default(),
        }
    }

    fn of<'t>(&'t self, workspace: &str) -> impl Iterator<Item = &'t (TenantConfig, Arc<AtomicU32>)> {
        let workspace = workspace.to_owned();
        self.tenants
            .iter()
            .filter(move |(tenant, _)| tenant.workspaces.contains(&workspace))
    }

    /// Counts a request of an MCP client until it is answered, or refuses it.
    pub(crate) fn run_mcp(&self, workspace: &str) -> Result<Counted, Status> {
        self.run(EXECUTING[0], workspace)
    }

    /// Counts a request, if it makes a call, or refuses it.
    pub(crate) fn run(&self, path: &str, workspace: &str) -> Result<Counted, Status> {
        let mut counted = Counted::default();
        if !EXECUTING.contains(&path) {
            return Ok(counted);
        }
        for (tenant, running) in self.of(workspace) {
            let before = running.fetch_add(1, Ordering::Relaxed);
            counted.0.push(running.clone());
            let most = tenant.max_running_calls.unwrap_or(u32::MAX);
            if before >= most {
                let key = format!("tenants.{}.max_running_calls", tenant.name);
                let problem = format!(
                    "{before} calls of the tenant {} run at this gateway ({key} is {most})",
                    tenant.name
                );
                return Err(status::exhausted(
                    ErrorReason::TooManyCalls,
                    &key,
                    most.into(),
                    RETRY_DELAY,
                    problem,
                ));
            }
        }
        Ok(counted)
    }

    /// Returns how many workspaces there may be where one of a name is to be one of them.
    pub(crate) fn quotas(&self, workspace: &str) -> Vec<Quota> {
        let quota = |(tenant, _): &(TenantConfig, Arc<AtomicU32>)| Quota {
            of: tenant.workspaces.entries(),
            most: tenant.max_workspaces.map_or(u64::MAX, u64::from),
        };
        self.of(workspace).map(quota).collect()
    }

    /// Says that there are so many workspaces already as one of the quotas of a name allows.
    pub(crate) fn are_too_many(&self, workspace: &str, quota: usize, open: u64) -> Status {
        let found = self.of(workspace).nth(quota).map(|(tenant, _)| tenant);
        let (name, most) = found.map_or(("", 0), |tenant| {
            (tenant.name.as_str(), tenant.max_workspaces.unwrap_or_default())
        });
        too_many(name, open, most)
    }

    /// Refuses to open another workspace if there are too many. Until what is returned is dropped, it counts.
    pub(crate) fn open(&self, registry: &Registry, workspace: &str) -> Result<UnderWay, Status> {
        self.open_beside(|| registry.served(), workspace)
    }

    fn open_beside(&self, served: impl FnOnce() -> Vec<String>, workspace: &str) -> Result<UnderWay, Status> {
        self.coming.begin(workspace, |coming| {
            // Only now: what is not under way any more is served by now.
            let mut open: BTreeSet<String> = served().into_iter().collect();
            let is_there = open.contains(workspace);
            open.extend(coming.keys().filter(|one| *one != workspace).cloned());
            for (tenant, _) in self.of(workspace).filter(|_| !is_there) {
                let open = open.iter().filter(|one| tenant.workspaces.contains(one)).count();
                let most = tenant.max_workspaces.unwrap_or(u32::MAX);
                if open >= most as usize {
                    return Err(too_many(&tenant.name, open as u64, most));
                }
            }
            Ok(())
        })
    }
}

fn too_many(tenant: &str, open: u64, most: u32) -> Status {
    let key = format!("tenants.{tenant}.max_workspaces");
    let problem = format!("{open} workspaces of the tenant {tenant} are open ({key} is {most})");
    status::exhausted(ErrorReason::TooManyWorkspaces, &key, most.into(), RETRY_DELAY, problem)
}

#[cfg(test)]
mod tests {
    use toolgate_model::WorkspaceSet;

    use super::*;

    #[test]
    fn calls_of_a_tenant_are_counted_while_they_run() {
        let tenant = TenantConfig {
            name: "acme".to_owned(),
            workspaces: WorkspaceSet::parse(["acme/*"]).unwrap(),
            max_workspaces: None,
            max_running_calls: Some(2),
        };
        let tenants = Tenants::new(vec![tenant]);
        let run = |workspace: &str| tenants.run(EXECUTING[0], workspace);
        let one = run("acme/a").unwrap();
        let _two = run("acme/b").unwrap();
        let refused = run("acme/c").err().unwrap();
        assert!(
            refused.message().contains("tenants.acme.max_running_calls is 2"),
            "{refused:?}"
        );
        // What is not of the tenant is not counted, and neither is what makes no call.
        assert!(run("acme").is_ok() && tenants.run("/other", "acme/a").is_ok());
        drop(one);
        assert!(run("acme/c").is_ok());
    }

    #[test]
    fn workspaces_that_are_on_their_way_count() {
        let tenant = TenantConfig {
            name: "acme".to_owned(),
            workspaces: WorkspaceSet::parse(["acme/*"]).unwrap(),
            max_workspaces: Some(2),
            max_running_calls: None,
        };
        let tenants = Tenants::new(vec![tenant]);
        let open = |workspace: &str| tenants.open_beside(|| vec!["acme/a".to_owned()], workspace);
        let one = open("acme/b").unwrap();
        // Somebody else asks for the same.
        let two = open("acme/b").unwrap();
        drop(one);
        let refused = open("acme/c").err().unwrap();
        assert!(
            refused.message().contains("tenants.acme.max_workspaces is 2"),
            "{refused:?}"
        );
        // What is there already, and what is another's, is no matter.
        assert!(open("acme/a").is_ok() && open("beta/a").is_ok());
        drop(two);
        assert!(open("acme/c").is_ok());
    }
}
