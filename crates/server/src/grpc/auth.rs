//! Authentication and authorization: who calls, and what they may do.
//!
//! A bearer token decides if there is one, then a client certificate, then the user behind a Unix socket. Where nothing is
//! configured, whoever can connect may do everything: the configuration allows that on this machine only.
//!
//! *Invariant:* closed by default. A request without a caller passes nowhere but to the health service; no secret is
//! logged, kept in the clear beyond what must be checked again, or shown by `Debug`.

mod behalf;
mod caller;
mod certificates;
mod error;
mod files;
mod host;
#[cfg(feature = "jwt")]
mod jwt;
#[cfg(not(feature = "jwt"))]
#[path = "auth/jwt_absent.rs"]
mod jwt;
mod layer;
mod registered;
mod scopes;
mod shown;
mod tls;
mod tokens;
mod workers;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderMap, Request};
use tonic::transport::server::TlsConnectInfo;
use toolgate_config::service::AuthConfig;
use toolgate_contract::{ErrorReason, Scope};
use toolgate_model::{Principal, PrincipalKind, WorkspaceSet};

use self::behalf::People;
pub use self::behalf::{ENTRY, OnBehalf};
pub(crate) use self::caller::{ALL, Caller};
use self::caller::{Scopes, Secret};
use self::certificates::Certificates;
pub use self::error::AuthError;
use self::files::{Readers, Reloading, Source};
use self::jwt::Jwt;
#[cfg(feature = "mcp")]
pub(crate) use self::layer::Gate;
pub(crate) use self::layer::GateLayer;
pub(crate) use self::registered::Registered;
use self::scopes::{Need, Needs};
pub(crate) use self::tls::incoming;
pub use self::tls::{HANDSHAKE_TIMEOUT, Tls};
use self::tokens::Tokens;
use self::workers::Workers;
use super::arrival::{Arrival, Behind, MakingCall, Way};
use super::status;

/// What a process of a call may do at most: run tools and read, but neither answer nor lend tools, nor administer.
const PROCESS_SCOPES: [Scope; 3] = [Scope::CallsExecute, Scope::CallsRead, Scope::OutputsRead];

/// How often the files are looked at.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// Knows who may call.
pub struct Authenticator {
    needs: Needs,
    tokens: Option<Reloading<Tokens>>,
    jwt: Option<Jwt>,
    certificates: Certificates,
    /// Signed tokens of workers.
    worker_jwt: Option<Jwt>,
    /// Who may come as a worker.
    workers: Workers,
    /// The ids of those that may say on whose behalf they call.
    gateways: Vec<String>,
    /// The secrets of gateways that this service has registered at; none where it registers nowhere.
    registered: Option<Registered>,
    people: People,
    /// The user that the service runs as; none if that one must say who calls as well.
    owner: Option<u32>,
    /// What other users may do that the mode of the Unix socket lets in.
    members: Option<Scopes>,
    /// Counts the changes of the files.
    generation: watch::Sender<u64>,
}

impl Authenticator {
    /// Says whether it accepts signed tokens.
    pub(crate) fn takes_jwt(&self) -> bool {
        self.jwt.is_some()
    }

    /// Returns who issues the signed tokens that it accepts.
    pub(crate) fn issuer(&self) -> Option<&str> {
        self.jwt.as_ref().map(Jwt::issuer)
    }

    /// Reads the files that the configuration names. Blocking.
    ///
    /// # Errors
    /// A file cannot be read or understood, or a setting means nothing.
    pub fn load(config: AuthConfig) -> Result<Arc<Self>, AuthError> {
        let tokens = config.tokens_file.map(|path| {
            let source = Source {
                path: path.clone(),
                readers: Readers::Group,
            };
            Reloading::load(vec![source], move |contents| {
                Tokens::parse(&path, contents.first().map(Vec::as_slice).unwrap_or_default())
            })
        });
        let tokens = tokens.transpose()?;
        if tokens.as_ref().is_some_and(|tokens| tokens.current().len() == 0) {
            tracing::warn!("the file of tokens has none");
        }
        let members = config.unix.map(|unix| {
            let names = unix.scopes.iter().map(String::as_str);
            Scopes::parse(names).map_err(AuthError::Group)
        });
        Ok(Arc::new(Self {
            members: members.transpose()?,
            needs: Needs::read()?,
            tokens,
            jwt: config.jwt.map(Jwt::load).transpose()?,
            certificates: Certificates::new(config.certificates)?,
            worker_jwt: config.worker_jwt.map(Jwt::load).transpose()?,
            workers: Workers::load(config.workers, config.workers_file)?,
            gateways: config.gateways,
            registered: config.registers.then(Registered::default),
            people: People::default(),
            owner: (!config.owner_is_stranger).then(|| rustix::process::geteuid().as_raw()),
            generation: watch::Sender::new(0),
        }))
    }

    /// Says whether a rule lets workers be bound to a workspace, whether or not there are any.
    pub fn has_pool_for(&self, workspace: &str) -> bool {
        self.workers.has_pool_for(workspace)
    }

    /// Says whether callers must say who they are.
    pub fn is_configured(&self) -> bool {
        self.tokens.is_some()
            || self.jwt.is_some()
            || self.worker_jwt.is_some()
            || !self.certificates.is_empty()
            || self.members.is_some()
            // What registers is for its gateways, and not for whoever comes.
            || self.registered.is_some()
    }

    /// Finds the caller of a request and checks that it may make it; none where nobody need be known. It needs this scope, or else
    /// what its path does in the contract.
    pub(crate) fn admit<B>(&self, request: &Request<B>, scope: Option<Scope>) -> Result<Option<Arc<Caller>>, Status> {
        let need = match scope {
            Some(scope) => Need::AnyOf(Scopes::new(&[scope])),
            None => self.needs.for_path(request.uri().path()),
        };
        if need == Need::Nothing {
            return Ok(None);
        }
        let caller = self.as_worker(self.identify(request)?);
        let told = behalf::told(request.headers(), &caller, &self.gateways, &self.people)?;
        let caller = told.unwrap_or(caller);
        host::check(request, &caller)?;
        match need {
            Need::AnyOf(scopes) if scopes.is_empty() => Err(Status::unimplemented(
                "there is no such RPC: is the client newer than the service?",
            )),
            Need::AnyOf(scopes) if !caller.scopes.meets(scopes) => {
                let (names, text) = scopes::missing(scopes);
                if caller.within.is_some() {
                    return Err(status::of_a_call(&names));
                }
                Err(status::scope_missing(&names, text))
            }
            Need::AnyOf(_) | Need::Caller | Need::Nothing => Ok(Some(Arc::new(caller))),
        }
    }

    fn identify<B>(&self, request: &Request<B>) -> Result<Caller, Status> {
        // Without one the request came by no way that is traced, and nothing is allowed.
        let arrival = request.extensions().get::<Arrival>().ok_or_else(status::no_caller)?;
        match &arrival.behind {
            Behind::Stranger => {}
            Behind::Refused(why) => return Err(status::unauthenticated(ErrorReason::NotTraced, *why)),
            // Whatever else it shows: a token that a command finds is not its own.
            Behind::Call(call) => return self.process_of(call),
        }
        let user = match arrival.way {
            Way::Unix(user) => self.owner.map(|owner| self.user(user, owner)).transpose()?,
            Way::Tcp(_) | Way::Tls(_) => None,
        };
        if (self.tokens.is_some() || self.jwt.is_some() || self.worker_jwt.is_some() || self.registered.is_some())
            && let Some(token) = bearer(request.headers())?
        {
            return self.bearer(&token);
        }
        let certificates = match &arrival.way {
            Way::Tls(tls) => TlsConnectInfo::peer_certs(tls),
            Way::Unix(_) | Way::Tcp(_) => None,
        };
        let certificate = certificates.as_ref().and_then(|chain| chain.first());
        if let Some(caller) = certificate.and_then(|certificate| self.owner_of(certificate)) {
            return Ok(caller);
        }
        if !self.is_configured() {
            return Ok(Caller::trusted(Principal::anonymous()));
        }
        if let Some(user) = user {
            return Ok(user);
        }
        Err(status::unauthenticated(
            ErrorReason::NoCredentials,
            if certificates.is_some() {
                "no rule names the owner of this client certificate: send `authorization: Bearer TOKEN`, or ask the operator"
            } else {
                "authenticate: send `authorization: Bearer TOKEN`, or connect with a client certificate"
            },
        ))
    }

    /// Returns who a user is that has connected to the Unix socket. Its mode keeps others out; this does so where a mode
    /// is not enough. The mode alone tells who is in the group: the kernel names one group of a peer only.
    fn user(&self, user: Option<u32>, owner: u32) -> Result<Caller, Status> {
        match (user, self.members) {
            (Some(user), _) if is_trusted(user, owner) => {
                Ok(Caller::trusted(Principal::new(PrincipalKind::Owner, user.to_string())))
            }
            (Some(user), Some(scopes)) => {
                let principal = Principal::new(PrincipalKind::Member, user.to_string());
                Ok(Caller::new(principal, scopes, WorkspaceSet::ALL))
            }
            (Some(_) | None, _) => Err(status::unauthenticated(
                ErrorReason::ForeignUser,
                "this socket is for the user that the service runs as",
            )),
        }
    }

    /// Returns who the process of a call is: it may what all may in whose name the call was made, in the call's workspace,
    /// but decide nothing. Rights that were taken back since are gone here, too.
    fn process_of(&self, call: &Arc<MakingCall>) -> Result<Caller, Status> {
        let people = call.requesters.iter().filter(|id| !id.starts_with("call:"));
        let rights = people.map(|id| self.rights_of(id, &call.workspace)).reduce(Scopes::and);
        let scopes = rights.unwrap_or_default().and(Scopes::new(&PROCESS_SCOPES));
        if scopes.is_empty() {
            let text = "this connection comes from a process of a call whose caller has no rights any more";
            return Err(status::unauthenticated(ErrorReason::NotTraced, text));
        }
        let principal = Principal::new(PrincipalKind::Call, call.id.as_str());
        Ok(Caller {
            within: Some(call.clone()),
            ..Caller::new(principal, scopes, WorkspaceSet::one(&call.workspace))
        })
    }

    /// Returns what the one of an id may do in a workspace now, as far as that can be known without credentials.
    fn rights_of(&self, id: &str, workspace: &str) -> Scopes {
        let here = self.rights_here(id, workspace);
        match self.people.rights_of(id, workspace) {
            // Whoever of two with one id has made the call: what both may.
            Some(there) if !here.is_empty() => here.and(there),
            Some(there) => there,
            None => here,
        }
    }

    fn rights_here(&self, id: &str, workspace: &str) -> Scopes {
        let scopes_of = |caller: Option<&Caller>| {
            let caller = caller.filter(|caller| caller.sees(workspace));
            caller.map(|caller| caller.scopes).unwrap_or_default()
        };
        match id.split_once(':') {
            None if id.is_empty() && !self.is_configured() => Scopes::ALL,
            Some(("unix", _)) => Scopes::ALL,
            Some(("user", _)) => self.members.unwrap_or_default(),
            Some(("token", name)) => {
                let tokens = self.tokens.as_ref().map(Reloading::current);
                scopes_of(tokens.as_ref().and_then(|tokens| tokens.named(name)))
            }
            Some(("certificate", name)) => scopes_of(self.certificates.named(name)),
            // It made the call; what else it may was in its token.
            Some(("jwt", _)) if self.jwt.is_some() => Scopes::new(&[Scope::CallsExecute]),
            Some(_) | None => Scopes::default(),
        }
    }

    fn bearer(&self, token: &Secret) -> Result<Caller, Status> {
        // Read first: what changes meanwhile is looked at again.
        let generation = *self.generation.borrow();
        if let Some(registered) = self.registered.as_ref().filter(|_| Registered::is_one(&token.0)) {
            let gone = "the secret of this registration is good no more: the worker registers again by itself";
            let gateway = registered.find(&token.0);
            let gateway = gateway.ok_or_else(|| status::unauthenticated(ErrorReason::CredentialsRevoked, gone))?;
            return Ok(Caller {
                bearer: Some(token.clone()),
                generation,
                ..gateway
            });
        }
        let known = self.tokens.as_ref().map(Reloading::current);
        let known = known.as_ref().and_then(|tokens| tokens.find(&token.0)).cloned();
        let caller = match known {
            Some(caller) => caller,
            None if self.may_be_signed(&token.0) => self.signed(&token.0)?,
            None => {
                return Err(status::unauthenticated(
                    ErrorReason::BadCredentials,
                    "the token is not known",
                ));
            }
        };
        Ok(Caller {
            bearer: Some(token.clone()),
            generation,
            ..caller
        })
    }

    /// Waits until the credentials of a caller are good no more, and says why.
    pub(crate) async fn end_of(&self, caller: &Caller) -> Status {
        let mut changes = self.generation.subscribe();
        let mut checked = caller.generation;
        loop {
            let now = *changes.borrow_and_update();
            if now != checked && !self.still_holds(caller) {
                return status::unauthenticated(ErrorReason::CredentialsRevoked, "the token was revoked or changed");
            }
            checked = now;
            let expiry = async {
                match caller.expires {
                    Some(time) => tokio::time::sleep_until(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = expiry => return status::expired(),
                changed = changes.changed() => if changed.is_err() {
                    return status::draining();
                },
            }
        }
    }

    fn still_holds(&self, caller: &Caller) -> bool {
        // The gateway answers for the credentials of those on whose behalf it calls.
        let caller = caller.via.as_deref().unwrap_or(caller);
        let again = match (&caller.bearer, &caller.certificate) {
            (Some(token), _) => self.bearer(token).ok(),
            (None, Some(certificate)) => self.owner_of(certificate),
            (None, None) => return true,
        };
        again.map(|again| self.as_worker(again)).is_some_and(|again| {
            again.principal == caller.principal
                && again.scopes == caller.scopes
                && again.workspaces == caller.workspaces
                && again.worker == caller.worker
        })
    }

    /// Takes a secret for that of a gateway, as long as what is returned is kept.
    pub(crate) fn let_in(self: &Arc<Self>, gateway: &str, secret: &str) -> Option<LetIn> {
        let number = self.registered.as_ref()?.let_in(gateway, secret);
        Some(LetIn {
            authenticator: self.clone(),
            number,
        })
    }

    /// Says whether there are files that may change.
    fn has_files(&self) -> bool {
        let signed = self.jwt.is_some() || self.worker_jwt.is_some();
        self.tokens.is_some() || signed || self.workers.may_change()
    }

    /// Reads the files again. Blocking.
    fn refresh(&self) {
        let tokens = self.tokens.as_ref().is_some_and(Reloading::refresh);
        // Each of them, whatever the one before says.
        let signed = [&self.jwt, &self.worker_jwt].map(|jwt| jwt.as_ref().is_some_and(Jwt::refresh));
        let rules = self.workers.refresh();
        if tokens || signed.contains(&true) || rules {
            self.generation.send_modify(|generation| *generation += 1);
        }
    }
}

/// The secret of a gateway is good; dropping it ends that. What was opened by it goes on, as it must when the service stops.
pub(crate) struct LetIn {
    authenticator: Arc<Authenticator>,
    number: u64,
}

impl Drop for LetIn {
    fn drop(&mut self) {
        if let Some(registered) = &self.authenticator.registered {
            registered.forget(self.number);
        }
    }
}

impl LetIn {
    /// Ends it, and what was opened by it.
    pub(crate) fn revoke(self) {
        let authenticator = self.authenticator.clone();
        drop(self);
        authenticator.generation.send_modify(|generation| *generation += 1);
    }
}

/// Says whether the Unix socket is a user's own: that of the one that the service runs as, and root's.
fn is_trusted(user: u32, owner: u32) -> bool {
    user == owner || user == 0
}

fn bearer(headers: &HeaderMap) -> Result<Option<Secret>, Status> {
    let malformed =
        || status::unauthenticated(ErrorReason::BadCredentials, "write `authorization: Bearer TOKEN`, once");
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed());
    }
    let text = value.to_str().map_err(|_| malformed())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(malformed)?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(malformed());
    }
    Ok(Some(Secret(token.into())))
}

/// Reads changed files again, every [`REFRESH_INTERVAL`] and on SIGHUP, until `stop`.
///
/// # Errors
/// The signal cannot be listened to.
pub async fn keep_fresh(
    authenticator: Arc<Authenticator>,
    tls: Vec<Arc<Tls>>,
    stop: CancellationToken,
) -> io::Result<()> {
    if tls.is_empty() && !authenticator.has_files() {
        return Ok(());
    }
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = hangup.recv() => {}
            () = tokio::time::sleep(REFRESH_INTERVAL) => {}
        }
        let (authenticator, tls) = (authenticator.clone(), tls.clone());
        let read = tokio::task::spawn_blocking(move || {
            authenticator.refresh();
            tls.iter().for_each(|tls| tls.refresh());
        });
        if let Err(error) = read.await {
            tracing::error!(%error, "the files that say who may call could not be read again");
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_config::service::UnixGroupConfig;
    use toolgate_contract::Scope;

    use super::*;

    fn group(scopes: &[&str]) -> UnixGroupConfig {
        UnixGroupConfig {
            group: "users".to_owned(),
            scopes: scopes.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn the_socket_is_for_its_owner() {
        assert!(is_trusted(1000, 1000));
        assert!(is_trusted(0, 1000));
        assert!(!is_trusted(1001, 1000));
        assert!(!is_trusted(1000, 0));
    }

    #[test]
    fn others_come_in_by_their_group_only() {
        let check = |scopes: Option<&[&str]>, user: Option<u32>, expected: Option<(&str, bool, bool)>| {
            let settings = AuthConfig {
                unix: scopes.map(group),
                ..AuthConfig::default()
            };
            let authenticator = Authenticator {
                owner: Some(1000),
                ..Arc::into_inner(Authenticator::load(settings).unwrap()).unwrap()
            };
            assert_eq!(authenticator.is_configured(), scopes.is_some());
            let found = authenticator.user(user, 1000).ok();
            let found = found.map(|caller| {
                let has = |scope| caller.scopes.has(scope);
                (caller.principal.id(), has(Scope::CallsRead), has(Scope::PromptsReply))
            });
            let found = found
                .as_ref()
                .map(|(id, reads, replies)| (id.as_str(), *reads, *replies));
            assert_eq!(found, expected, "{scopes:?} {user:?}");
        };
        for scopes in [None, Some(["calls.read"].as_slice())] {
            check(scopes, Some(1000), Some(("unix:1000", true, true)));
            check(scopes, Some(0), Some(("unix:0", true, true)));
            check(scopes, None, None);
        }
        check(None, Some(1001), None);
        check(Some(&["calls.read"]), Some(1001), Some(("user:1001", true, false)));
        let wrong = AuthConfig {
            unix: Some(group(&["everything"])),
            ..AuthConfig::default()
        };
        assert!(matches!(Authenticator::load(wrong), Err(AuthError::Group(_))));
    }

    #[test]
    fn a_token_comes_once_and_with_its_scheme() {
        let check = |values: &[&str], expected: Result<Option<&str>, ()>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            let found = bearer(&headers).map(|token| token.map(|token| token.0.to_string()));
            assert_eq!(
                found.map_err(drop),
                expected.map(|token| token.map(str::to_owned)),
                "{values:?}"
            );
        };
        check(&[], Ok(None));
        check(&["Bearer abc"], Ok(Some("abc")));
        check(&["bearer  abc "], Ok(Some("abc")));
        check(&["Basic abc"], Err(()));
        check(&["Bearer"], Err(()));
        check(&["Bearer "], Err(()));
        check(&["Bearer abc", "Bearer abc"], Err(()));
    }
}
