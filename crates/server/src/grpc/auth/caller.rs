//! Somebody who calls: who that is, what it may do, and where.
//!
//! *Invariant:* a caller that is limited to workspaces names at least one or a prefix of some; an empty list never means all.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tonic::{Extensions, Request, Status};
use toolgate_contract::Scope;
use toolgate_engine::{Engine, WorkspaceRuntime};
use toolgate_model::{CallId, Origin, Principal, PrincipalKind, WorkspaceSet};

use super::workers::AsWorker;
use crate::grpc::arrival::MakingCall;
use crate::grpc::status;

/// What a filter names instead of a workspace to mean all of them.
pub(crate) const ALL: &str = "-";

/// The scopes that exist, as they are written.
const NAMES: [(&str, Scope); 11] = [
    ("calls.execute", Scope::CallsExecute),
    ("calls.read", Scope::CallsRead),
    ("prompts.reply", Scope::PromptsReply),
    ("tools.host", Scope::ToolsHost),
    ("tools.hook", Scope::ToolsHook),
    ("outputs.read", Scope::OutputsRead),
    ("files.read", Scope::FilesRead),
    ("files.write", Scope::FilesWrite),
    ("workspaces.manage", Scope::WorkspacesManage),
    ("ports.connect", Scope::PortsConnect),
    ("admin", Scope::Admin),
];

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scopes(u32);

impl Scopes {
    /// Every scope.
    pub(crate) const ALL: Self = Self(u32::MAX);

    /// Reads names of scopes; `*` stands for all.
    ///
    /// # Errors
    /// A name is none of a scope.
    pub(crate) fn parse<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, String> {
        let mut scopes = Self::default();
        for name in names {
            let known = Self::parse_one(name);
            scopes.0 |= known
                .ok_or_else(|| {
                    format!(
                        "there is no scope {name:?}; there are {}",
                        NAMES.map(|(name, _)| name).join(", ")
                    )
                })?
                .0;
        }
        Ok(scopes)
    }

    /// Reads names of scopes among which those of others may be.
    #[cfg(feature = "jwt")]
    pub(super) fn among<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        names
            .into_iter()
            .filter_map(Self::parse_one)
            .fold(Self::default(), |all, one| Self(all.0 | one.0))
    }

    fn parse_one(name: &str) -> Option<Self> {
        if name == "*" {
            return Some(Self::ALL);
        }
        let found = NAMES.iter().find(|(one, _)| *one == name);
        found.map(|(_, scope)| Self(1 << (*scope as u32)))
    }

    /// Returns the set of two scopes.
    pub(super) const fn of_two(one: Scope, other: Scope) -> Self {
        Self(1 << (one as u32) | 1 << (other as u32))
    }

    /// Returns those that are among both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Says whether there are some that are among both.
    pub(super) fn meets(self, other: Self) -> bool {
        !self.and(other).is_empty()
    }

    /// Returns their names.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES
            .into_iter()
            .filter(move |(_, scope)| self.has(*scope))
            .map(|(name, _)| name)
    }

    /// Says whether there are none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Makes a set.
    pub(crate) fn new(scopes: &[Scope]) -> Self {
        Self(scopes.iter().fold(0, |all, &scope| all | 1 << (scope as u32)))
    }

    /// Says whether a scope is among them.
    pub(crate) fn has(self, scope: Scope) -> bool {
        scope != Scope::Unspecified && self.0 & (1 << (scope as u32)) != 0
    }
}

/// Reads the list of workspaces of a caller; no list stands for all.
///
/// # Errors
/// The list is empty, or an entry is none.
pub(super) fn workspaces(listed: Option<&[String]>) -> Result<WorkspaceSet, String> {
    listed.map_or(Ok(WorkspaceSet::ALL), |entries| {
        WorkspaceSet::parse(entries.iter().map(String::as_str))
    })
}

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) Arc<str>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Somebody who calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(super) principal: Principal,
    pub(super) scopes: Scopes,
    /// The workspaces that it may see.
    pub(super) workspaces: WorkspaceSet,
    /// When its credentials expire.
    pub(super) expires: Option<Instant>,
    /// What it showed and could be taken back.
    pub(super) bearer: Option<Secret>,
    /// The state of the credential files that it was checked against.
    pub(super) generation: u64,
    /// The call whose process it is.
    pub(super) within: Option<Arc<MakingCall>>,
    /// The gateway that calls on its behalf.
    pub(super) via: Option<Arc<Self>>,
    /// What it may as a worker, if it is one.
    pub(super) worker: Option<AsWorker>,
    /// The certificate by which it is known, if a rule for workers may be changed that fits it.
    pub(super) certificate: Option<Arc<[u8]>>,
}

impl Caller {
    pub(super) fn trusted(principal: Principal) -> Self {
        Self::new(principal, Scopes::ALL, WorkspaceSet::ALL)
    }

    pub(super) fn new(principal: Principal, scopes: Scopes, workspaces: WorkspaceSet) -> Self {
        Self {
            principal,
            scopes,
            workspaces,
            expires: None,
            bearer: None,
            generation: 0,
            within: None,
            via: None,
            worker: None,
            certificate: None,
        }
    }

    /// Makes a worker that is known by a rule alone.
    pub(super) fn worker(name: String, worker: AsWorker) -> Self {
        let principal = Principal::new(PrincipalKind::Worker, name);
        let workspaces = worker.may.to_have();
        Self {
            worker: Some(worker),
            ..Self::new(principal, Scopes::default(), workspaces)
        }
    }

    /// Returns the caller of a request.
    pub(crate) fn from_extensions(extensions: &Extensions) -> Result<Arc<Self>, Status> {
        // Without one the request did not pass the layer that makes it, and nothing is allowed.
        let caller = extensions.get::<Arc<Self>>();
        caller.cloned().ok_or_else(status::no_caller)
    }

    /// Returns the caller of a request, and what it asks.
    pub(crate) fn of_request<T>(request: Request<T>) -> Result<(Arc<Self>, T), Status> {
        Ok((Self::from_extensions(request.extensions())?, request.into_inner()))
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Says whether a gateway calls on its behalf.
    pub(crate) fn is_behind_gateway(&self) -> bool {
        self.via.is_some()
    }

    /// Returns the call whose process it is.
    pub(crate) fn within(&self) -> Option<&CallId> {
        self.within.as_ref().map(|call| &call.id)
    }

    /// Writes down who makes a call. What the process of a call makes is made on behalf of that one, in its session.
    pub(crate) fn sign(&self, origin: &mut Origin) {
        origin.requester = self.principal.id();
        if let Some(within) = &self.within {
            origin.session = within.session.clone();
            origin.parent = Some(within.id.clone());
        }
    }

    /// Says whether it has a scope.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }

    /// Says whether it may come as a worker.
    pub(crate) fn is_worker(&self) -> bool {
        self.worker.is_some()
    }

    /// Says whether there are workspaces that it may not see.
    pub(crate) fn is_limited(&self) -> bool {
        !self.workspaces.is_all()
    }

    /// Says whether it may see a workspace.
    pub(crate) fn sees(&self, workspace: &str) -> bool {
        self.workspaces.contains(workspace)
    }

    /// Returns the workspaces that it may see.
    pub(crate) fn workspaces(&self) -> &WorkspaceSet {
        &self.workspaces
    }

    /// Finds a workspace; an empty name means the first that the caller may see.
    pub(crate) fn place(&self, engine: &Engine, name: &str) -> Result<Arc<WorkspaceRuntime>, Status> {
        let all = engine.catalogs().all();
        let mut places = all.iter().filter(|place| self.sees(place.workspace.name()));
        let found = match name {
            "" => places.next(),
            name => places.find(|place| place.workspace.name() == name),
        };
        found.cloned().ok_or_else(|| status::not_found("workspace", name))
    }

    /// Finds a workspace in which something is to be done: one that is suspended is resumed for it, and one that is about to be
    /// there is waited for, for a moment.
    pub(crate) async fn awake(&self, engine: &Engine, name: &str) -> Result<Arc<WorkspaceRuntime>, Status> {
        let place = self.place(engine, name)?;
        match place.gate.hold() {
            None => Ok(place),
            Some(_) => {
                let name = place.workspace.name();
                let awake = engine.catalogs().awake(name).await;
                awake.ok_or_else(|| status::not_found("workspace", name))
            }
        }
    }

    /// Returns the workspaces that a filter means, of those that the caller may see: the one that it names, open or closed with
    /// its records still there; all below a prefix, `PREFIX/*`; or all, for [`ALL`].
    pub(crate) async fn filtered(&self, engine: &Engine, name: &str) -> Result<WorkspaceSet, Status> {
        if name == ALL {
            return Ok(self.workspaces.clone());
        }
        if name == "*" {
            return Err(status::bad_field(
                "workspace",
                format!("`{ALL}` stands for all workspaces"),
            ));
        }
        if name.contains('*') {
            let asked = WorkspaceSet::parse([name]).map_err(|problem| status::bad_field("workspace", problem))?;
            return Ok(asked.and(&self.workspaces));
        }
        let missing = match self.place(engine, name) {
            Ok(place) => return Ok(WorkspaceSet::one(place.workspace.name())),
            Err(missing) => missing,
        };
        if !name.is_empty() && self.sees(name) && engine.has_records(name).await.map_err(status::store)? {
            return Ok(WorkspaceSet::one(name));
        }
        Err(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_have_names() {
        for (name, scope) in NAMES {
            let scopes = Scopes::parse([name]).unwrap();
            assert_eq!(scopes.names().collect::<Vec<_>>(), [name]);
            for (_, other) in NAMES {
                assert_eq!(scopes.has(other), other == scope);
            }
        }
        assert!(NAMES.iter().all(|(_, scope)| Scopes::ALL.has(*scope)));
        assert!(!Scopes::ALL.has(Scope::Unspecified));
        assert!(Scopes::parse(["calls"]).unwrap_err().contains("calls.execute"));
        #[cfg(feature = "jwt")]
        assert_eq!(Scopes::among(["openid", "admin"]), Scopes::parse(["admin"]).unwrap());
        assert_eq!(Scopes::parse([]).unwrap(), Scopes::default());
    }

    #[test]
    fn no_workspace_is_not_all() {
        assert!(workspaces(Some(&[])).is_err());
        assert_eq!(workspaces(None), Ok(WorkspaceSet::ALL));
    }

    #[test]
    fn secrets_are_not_shown() {
        let caller = Caller {
            bearer: Some(Secret("hunter2".into())),
            ..Caller::trusted(Principal::anonymous())
        };
        assert!(!format!("{caller:?}").contains("hunter2"));
    }
}
