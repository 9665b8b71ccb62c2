//! Somebody who calls: who that is, what it may do, and where.
//!
//! *Invariant:* a caller that is limited to workspaces has at least one; an empty list never means all.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tonic::{Extensions, Request, Status};
use toolgate_contract::Scope;
use toolgate_engine::{Engine, WorkspaceRuntime};
use toolgate_model::{CallId, Origin, Principal};

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

/// The workspaces that a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All.
    All,
    /// Only these; at least one.
    Only(Arc<[String]>),
}

impl Reach {
    /// Makes one of a list; `*` stands for all, and so does no list.
    ///
    /// # Errors
    /// The list is empty.
    pub(crate) fn new(workspaces: Option<Vec<String>>) -> Result<Self, String> {
        match workspaces {
            None => Ok(Self::All),
            Some(names) if names.iter().any(|name| name == "*") => Ok(Self::All),
            Some(names) if names.is_empty() => Err("expected at least one workspace".to_owned()),
            Some(names) => Ok(Self::Only(names.into())),
        }
    }

    /// Returns the workspaces that are in both; none if there are none.
    pub(super) fn and(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::All, reach) | (reach, Self::All) => Some(reach.clone()),
            (Self::Only(these), Self::Only(those)) => {
                let both: Vec<String> = these.iter().filter(|name| those.contains(name)).cloned().collect();
                (!both.is_empty()).then(|| Self::Only(both.into()))
            }
        }
    }
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
    pub(super) reach: Reach,
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
}

impl Caller {
    pub(super) fn trusted(principal: Principal) -> Self {
        Self::new(principal, Scopes::ALL, Reach::All)
    }

    pub(super) fn new(principal: Principal, scopes: Scopes, reach: Reach) -> Self {
        Self {
            principal,
            scopes,
            reach,
            expires: None,
            bearer: None,
            generation: 0,
            within: None,
            via: None,
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

    /// Says whether there are workspaces that it may not see.
    pub(crate) fn is_limited(&self) -> bool {
        self.reach != Reach::All
    }

    /// Says whether it may see a workspace.
    pub(crate) fn sees(&self, workspace: &str) -> bool {
        match &self.reach {
            Reach::All => true,
            Reach::Only(names) => names.iter().any(|name| name == workspace),
        }
    }

    /// Returns the workspaces to filter by; none if it may see all.
    pub(crate) fn workspaces(&self) -> Vec<String> {
        match &self.reach {
            Reach::All => Vec::new(),
            Reach::Only(names) => names.to_vec(),
        }
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

    /// Returns the workspace that a filter names, open or closed with its records still there; none for [`ALL`], which means
    /// all that the caller may see.
    pub(crate) async fn filtered(&self, engine: &Engine, name: &str) -> Result<Option<String>, Status> {
        if name == ALL {
            return Ok(None);
        }
        let missing = match self.place(engine, name) {
            Ok(place) => return Ok(Some(place.workspace.name().to_owned())),
            Err(missing) => missing,
        };
        if !name.is_empty() && self.sees(name) && engine.has_records(name).await.map_err(status::store)? {
            return Ok(Some(name.to_owned()));
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
        assert!(Reach::new(Some(Vec::new())).is_err());
        assert_eq!(Reach::new(None), Ok(Reach::All));
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
