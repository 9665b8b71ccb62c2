//! On whose behalf a gateway calls: one entry of the metadata that it sends and a worker believes.
//!
//! *Invariant:* the entry counts only from a principal that `auth.gateways` names or that this service has registered at, and gives nobody more than that one may
//! itself. From anybody else it is refused, never ignored. Clocks are not compared: it says how long credentials are good yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD_NO_PAD};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};
use tonic::{Extensions, Status};
use toolgate_contract::{ErrorReason, Scope};
use toolgate_model::{Principal, PrincipalKind, WorkspaceSet};

use super::caller::{self, Caller, Scopes};
use super::workers::Entitled;
use crate::grpc::status;

/// The entry of the metadata, as gRPC writes binary ones.
pub const ENTRY: HeaderName = HeaderName::from_static("toolgate-caller-bin");

/// Bytes of the longest id of a principal.
const MAX_ID_BYTES: usize = 1024;

/// People whose rights are remembered; more than call a service at a time.
const MAX_REMEMBERED: usize = 10_000;

/// What a gateway needs to look for where something is.
const LOOKS: Scopes = Scopes::of_two(Scope::CallsRead, Scope::OutputsRead);

/// What padding is written does not matter.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What the entry says, as JSON. What is not known here is refused with the rest.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    /// The id of the principal, as the audit has it.
    principal: String,
    scopes: Vec<String>,
    /// Null for all.
    #[serde(deserialize_with = "Option::deserialize")]
    workspaces: Option<Vec<String>>,
    /// How long the credentials are good yet, in milliseconds; null for those without an end.
    #[serde(deserialize_with = "Option::deserialize")]
    expires_in_ms: Option<u64>,
    /// Whether the gateway only looks for where something is, with scopes that the principal may not have: what is said here
    /// of its rights counts for this request only.
    looks: bool,
}

/// The caller of a request, of whom a gateway tells its workers.
#[derive(Clone, Debug)]
pub struct OnBehalf(Arc<Caller>);

impl OnBehalf {
    /// Returns the caller of a request that has passed the gate.
    ///
    /// # Errors
    /// It has not.
    pub fn of(extensions: &Extensions) -> Result<Self, Status> {
        Caller::from_extensions(extensions).map(Self)
    }

    /// Returns the caller itself, for services of this process.
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.0
    }

    /// Returns the id of the principal.
    pub fn id(&self) -> String {
        self.0.principal.id()
    }

    /// Says whether the caller may come as a worker.
    pub fn is_worker(&self) -> bool {
        self.0.is_worker()
    }

    /// Returns what a worker may be bound to that has only what it is bound to; none of any other caller.
    pub fn may_be_bound_to(&self) -> Option<&WorkspaceSet> {
        match &self.0.worker.as_ref()?.may {
            Entitled::ToBeBound(workspaces) => Some(workspaces),
            Entitled::ToHave(_) => None,
        }
    }

    /// Returns the names of hosts that a worker may say to be at, beside those that hold for all.
    pub fn hosts(&self) -> &[String] {
        self.0.worker.as_ref().map_or(&[], |worker| &worker.hosts)
    }

    /// Says whether a worker's principal stands for one machine, so that it cannot be several workers.
    pub fn is_one_machine(&self) -> bool {
        self.0.worker.as_ref().is_some_and(|worker| worker.is_one)
    }

    /// Returns the pod that a worker must be called after, if that is said of it.
    pub fn pod(&self) -> Option<&str> {
        self.0.worker.as_ref()?.pod.as_deref()
    }

    /// Returns the workspaces that the caller may see.
    pub fn workspaces(&self) -> &WorkspaceSet {
        self.0.workspaces()
    }

    /// Says whether the caller may see a workspace.
    pub fn sees(&self, workspace: &str) -> bool {
        self.0.sees(workspace)
    }

    /// Returns the entry for its own requests.
    pub fn entry(&self) -> HeaderValue {
        self.entry_with(self.0.scopes, false)
    }

    /// Returns the entry for looking at which worker something is: what the caller may not see is not there.
    pub fn entry_to_look(&self) -> HeaderValue {
        self.entry_with(LOOKS, true)
    }

    /// Returns the entry for what a gateway asks by itself. A worker that does not know it as a gateway refuses it.
    pub fn entry_of_gateway() -> HeaderValue {
        let nobody = Principal::new(PrincipalKind::Token, "toolgate-gateway");
        Self(Arc::new(Caller::new(nobody, Scopes::default(), WorkspaceSet::ALL))).entry_to_look()
    }

    /// Returns the entry for ending calls of a workspace that is suspended or deleted. Who wanted that may have asked another gateway.
    pub fn entry_to_end_calls(workspace: &str) -> HeaderValue {
        let nobody = Principal::new(PrincipalKind::Token, "toolgate-gateway");
        let scopes = Scopes::of_two(Scope::CallsExecute, Scope::CallsRead);
        Self(Arc::new(Caller::new(nobody, scopes, WorkspaceSet::one(workspace)))).entry()
    }

    fn entry_with(&self, scopes: Scopes, looks: bool) -> HeaderValue {
        let caller = &self.0;
        let left = caller.expires.map(|end| end.saturating_duration_since(Instant::now()));
        let said = Said {
            principal: caller.principal.id(),
            scopes: scopes.names().map(str::to_owned).collect(),
            workspaces: caller.workspaces().entries(),
            expires_in_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            looks,
        };
        let json = serde_json::to_vec(&said).expect("texts and numbers are JSON");
        HeaderValue::try_from(STANDARD_NO_PAD.encode(json)).expect("base64 may stand in a header")
    }
}

/// Whom gateways called for: what those may do whose calls run programs that call back.
#[derive(Default)]
pub(super) struct People(Mutex<HashMap<String, Caller>>);

impl People {
    fn remember(&self, caller: &Caller) {
        let mut people = self.0.lock();
        if people.len() >= MAX_REMEMBERED {
            let now = Instant::now();
            people.retain(|_, caller| caller.expires.is_none_or(|end| end > now));
        }
        if people.len() >= MAX_REMEMBERED
            && let Some(any) = people.keys().next().cloned()
        {
            people.remove(&any);
        }
        people.insert(caller.principal.id(), caller.clone());
    }

    /// Returns what one may do in a workspace, as the gateway said last.
    pub(super) fn rights_of(&self, id: &str, workspace: &str) -> Option<Scopes> {
        let people = self.0.lock();
        let caller = people
            .get(id)
            .filter(|caller| caller.expires.is_none_or(|end| end > Instant::now()))?;
        caller.sees(workspace).then_some(caller.scopes)
    }
}

/// Returns the one on whose behalf a request is made, if it says so.
pub(super) fn told(
    headers: &HeaderMap,
    gateway: &Caller,
    gateways: &[String],
    people: &People,
) -> Result<Option<Caller>, Status> {
    let mut entries = headers.get_all(ENTRY).iter();
    let Some(entry) = entries.next() else { return Ok(None) };
    let is_gateway = gateway.principal.kind() == PrincipalKind::Gateway || gateways.contains(&gateway.principal.id());
    if gateway.within.is_some() || !is_gateway {
        let id = gateway.principal.id();
        let problem = format!(
            "{id} may not say on whose behalf it calls (toolgate-caller-bin): if it is a gateway, add {id:?} to auth.gateways in the \
             configuration of this service"
        );
        return Err(status::refused(ErrorReason::ScopeMissing, problem));
    }
    let wrong = || {
        let problem = "the entry toolgate-caller-bin is not understood: are gateway and worker of the same version?";
        status::refused(ErrorReason::ScopeMissing, problem)
    };
    if entries.next().is_some() {
        return Err(wrong());
    }
    let (caller, looks) = understood(entry).ok_or_else(wrong)?;
    let expires = [caller.expires, gateway.expires].into_iter().flatten().min();
    let most = if looks { LOOKS } else { Scopes::ALL };
    let caller = Caller {
        scopes: caller.scopes.and(gateway.scopes).and(most),
        // There may be none left: that one sees nothing here, and perhaps at another worker.
        workspaces: caller.workspaces.and(&gateway.workspaces),
        expires,
        bearer: gateway.bearer.clone(),
        generation: gateway.generation,
        via: Some(Arc::new(gateway.clone())),
        ..caller
    };
    if !looks {
        people.remember(&caller);
    }
    Ok(Some(caller))
}

/// Returns the caller, and whether the gateway only looks for something.
fn understood(entry: &HeaderValue) -> Option<(Caller, bool)> {
    let json = BASE64.decode(entry.as_bytes()).ok()?;
    let said: Said = serde_json::from_slice(&json).ok()?;
    let (kind, name) = said.principal.split_once(':')?;
    // Neither the owner of another machine nor a process of another service's call is one here.
    let kind = match kind {
        "token" => PrincipalKind::Token,
        "jwt" => PrincipalKind::Jwt,
        "certificate" => PrincipalKind::Certificate,
        _ => return None,
    };
    if name.is_empty() || said.principal.len() > MAX_ID_BYTES || name.chars().any(char::is_control) {
        return None;
    }
    let scopes = Scopes::parse(said.scopes.iter().map(String::as_str)).ok()?;
    let workspaces = caller::workspaces(said.workspaces.as_deref()).ok()?;
    let left = said.expires_in_ms.map(Duration::from_millis);
    let caller = Caller {
        // So far away that it cannot be told is as good as never.
        expires: left.and_then(|left| Instant::now().checked_add(left)),
        ..Caller::new(Principal::new(kind, name), scopes, workspaces)
    };
    Some((caller, said.looks))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn caller(name: &str, scopes: &[&str], workspaces: Option<&[&str]>) -> Caller {
        let workspaces = workspaces.map_or(WorkspaceSet::ALL, |names| {
            WorkspaceSet::parse(names.iter().copied()).unwrap()
        });
        let scopes = Scopes::parse(scopes.iter().copied()).unwrap();
        Caller::new(Principal::new(PrincipalKind::Token, name), scopes, workspaces)
    }

    fn with(entry: HeaderValue) -> HeaderMap {
        HeaderMap::from_iter([(ENTRY, entry)])
    }

    #[test]
    fn a_gateway_gives_nobody_more_than_it_has() {
        let gateways = ["token:gw".to_owned()];
        let people = People::default();
        let person = OnBehalf(Arc::new(Caller {
            expires: Some(Instant::now() + Duration::from_secs(60)),
            ..caller("anna", &["calls.read", "admin"], Some(&["a", "b"]))
        }));
        let headers = with(person.entry());
        let gateway = caller("gw", &["calls.read", "calls.execute"], Some(&["b", "c"]));
        let found = told(&headers, &gateway, &gateways, &people).unwrap().unwrap();
        assert_eq!(found.principal.id(), "token:anna");
        assert_eq!(found.scopes.names().collect::<Vec<_>>(), ["calls.read"]);
        assert!(found.sees("b") && !found.sees("a") && !found.sees("c"));
        assert!(found.expires.unwrap() <= Instant::now() + Duration::from_secs(60));
        assert_eq!(people.rights_of("token:anna", "b"), Some(found.scopes));
        assert_eq!(people.rights_of("token:anna", "a"), None);
        assert_eq!(people.rights_of("token:ben", "b"), None);
        let below = caller("gw", &["*"], Some(&["a/*"]));
        let person = OnBehalf(Arc::new(caller("carl", &["*"], Some(&["a/b/*", "c"]))));
        let found = told(&with(person.entry()), &below, &gateways, &people)
            .unwrap()
            .unwrap();
        assert!(found.sees("a/b/x") && !found.sees("a/x") && !found.sees("c"));
        let elsewhere = caller("gw", &["*"], Some(&["z"]));
        let nothing = told(&headers, &elsewhere, &gateways, &people).unwrap().unwrap();
        assert!(nothing.is_limited() && !nothing.sees("a") && !nothing.sees("z"));
        // Looking for something gives nobody rights that last.
        let people = People::default();
        let looking = OnBehalf(Arc::new(caller("dora", &["calls.execute"], None))).entry_to_look();
        let found = told(&with(looking), &gateway, &gateways, &people).unwrap().unwrap();
        assert_eq!(found.scopes.names().collect::<Vec<_>>(), ["calls.read"]);
        assert_eq!(people.rights_of("token:dora", "b"), None);
        assert!(told(&HeaderMap::new(), &gateway, &gateways, &people).unwrap().is_none());
    }

    #[test]
    fn what_is_forged_or_not_understood_is_refused() {
        let gateways = ["token:gw".to_owned()];
        let good = OnBehalf(Arc::new(caller("anna", &["*"], None))).entry();
        let gateway = caller("gw", &["*"], None);
        let check = |headers: &HeaderMap, by: &Caller, is_taken: bool| {
            let found = told(headers, by, &gateways, &People::default());
            assert_eq!(found.is_ok_and(|found| found.is_some()), is_taken);
        };
        check(&with(good.clone()), &gateway, true);
        check(&with(good.clone()), &caller("ben", &["*"], None), false);
        let mut twice = with(good.clone());
        twice.append(ENTRY, good);
        check(&twice, &gateway, false);
        for text in [
            r#"{"principal":"unix:0","scopes":[],"workspaces":null,"expires_in_ms":null,"looks":false}"#,
            r#"{"principal":"call:1","scopes":[],"workspaces":null,"expires_in_ms":null,"looks":false}"#,
            r#"{"principal":"","scopes":[],"workspaces":null,"expires_in_ms":null,"looks":false}"#,
            r#"{"principal":"token:a","scopes":["root"],"workspaces":null,"expires_in_ms":null,"looks":false}"#,
            r#"{"principal":"token:a","scopes":[],"workspaces":[],"expires_in_ms":null,"looks":false}"#,
            r#"{"principal":"token:a","scopes":[],"workspaces":null,"expires_in_ms":null,"looks":false,"more":1}"#,
            r#"{"principal":"token:a","scopes":[],"expires_in_ms":null,"looks":false}"#,
            "{}",
        ] {
            check(
                &with(HeaderValue::try_from(STANDARD_NO_PAD.encode(text)).unwrap()),
                &gateway,
                false,
            );
        }
        check(&with(HeaderValue::from_static("?")), &gateway, false);
    }

    proptest! {
        #[test]
        fn no_entry_panics(bytes in proptest::collection::vec(32u8..127, 0..200)) {
            let _ = understood(&HeaderValue::from_bytes(&bytes).unwrap());
        }
    }
}
