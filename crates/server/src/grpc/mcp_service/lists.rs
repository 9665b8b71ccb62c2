//! What MCP servers list, as far as a caller may see it.
//!
//! *Invariant:* a list is judged before it is looked at, and each entry of it again. Why a server is left out is told.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tonic::Status;
use toolgate_contract::{CallContext, ErrorReason, McpOmission};
use toolgate_engine::{Glance, Unseen, WorkspaceRuntime, digest_of};
use toolgate_extensions::mcp::{List, McpServer, Unlisted};
use toolgate_model::{Ask, Source, SourceState};
use toolgate_tool::SourceInfo;

use super::is_server;
use crate::grpc::Shared;
use crate::grpc::auth::Caller;
use crate::grpc::convert::page_size;
use crate::grpc::file_service::permitted::glance;
use crate::grpc::status;
use crate::grpc::values::page_start;

/// What the audit calls whoever looks, in the place of a tool.
const LOOKING: &str = "mcp";

/// Entries of a page, if a request does not say, and at most.
const PAGE: (usize, usize) = (100, 1000);

/// Bytes of a page, beyond its first entry, as JSON.
const PAGE_BYTES: usize = 1 << 20;

/// What a caller may look at in a workspace.
pub(super) struct Look<'a> {
    shared: &'a Shared,
    place: Arc<WorkspaceRuntime>,
    glance: Glance,
}

/// Why something of a server is not shown.
pub(super) struct Left {
    reason: ErrorReason,
    problem: String,
    /// Whether it is meant to be so.
    is_off: bool,
}

/// What was found.
pub(super) struct Found {
    /// Each with its server.
    entries: Vec<(String, Value)>,
    omitted: Vec<McpOmission>,
}

/// A page of it.
pub(super) struct Page {
    pub(super) entries: Vec<(String, Value)>,
    pub(super) omitted: Vec<McpOmission>,
    /// The token of the next one.
    pub(super) next: String,
}

/// Finds a server among the sources of tools.
pub(super) fn source(place: &WorkspaceRuntime, name: &str) -> Result<SourceInfo, Status> {
    if name.is_empty() {
        return Err(status::bad_field("server", "it must not be empty"));
    }
    let source = place.tools.sources().into_iter().find(|source| is_server(source, name));
    source.ok_or_else(|| status::not_found("MCP server", name))
}

/// Finds the way to a server; none if it is not to be connected to.
pub(super) fn of_server(shared: &Shared, workspace: &str, name: &str) -> Option<McpServer> {
    let servers = shared.servers.as_ref()?.of(workspace);
    servers.into_iter().find(|server| server.name() == name)
}

impl<'a> Look<'a> {
    pub(super) async fn new(shared: &'a Shared, caller: &Caller, context: Option<CallContext>) -> Result<Self, Status> {
        let workspace = context.as_ref().map_or("", |context| &context.workspace);
        let place = caller.awake(&shared.engine, workspace).await?;
        place.usable().map_err(status::admit)?;
        place.tools.settled().await;
        let glance = glance(shared, caller, context).await?;
        Ok(Self { shared, place, glance })
    }

    pub(super) fn source(&self, name: &str) -> Result<SourceInfo, Status> {
        source(&self.place, name)
    }

    pub(super) fn server(&self, name: &str) -> Option<McpServer> {
        of_server(self.shared, self.place.workspace.name(), name)
    }

    /// Says whether something that the permission `read` has this pattern for may be shown.
    pub(super) async fn may(&self, pattern: &str) -> Result<Result<(), Left>, Status> {
        let ask = Ask {
            title: pattern.to_owned(),
            ..Ask::new("read", vec![pattern.to_owned()])
        };
        match self.glance.may(LOOKING, &ask).await {
            Ok(()) => Ok(Ok(())),
            Err(Unseen::Denied { .. }) => Ok(Err(Left {
                reason: ErrorReason::DeniedByRule,
                problem: format!("a rule denies the permission read for {pattern}"),
                is_off: false,
            })),
            Err(Unseen::Asked) => Ok(Err(Left {
                reason: ErrorReason::PermissionNeeded,
                problem: format!(
                    "the rules want a person asked for the permission read for {pattern}, and nobody is asked for a list or a \
                     completion: allow it by a rule or by a standing approval"
                ),
                is_off: false,
            })),
            Err(Unseen::Unavailable) => Err(status::unavailable("whether it is permitted could not be found out")),
        }
    }

    /// Returns what one server lists, or all in their order.
    pub(super) async fn list(&self, named: &str, list: List) -> Result<Found, Status> {
        let mut found = Found {
            entries: Vec::new(),
            omitted: Vec::new(),
        };
        if !named.is_empty() {
            let source = self.source(named)?;
            let listed = self.of_one(&source, self.server(named), list).await?;
            let listed = listed.map_err(|left| left.into_status(named))?;
            found.entries = listed.into_iter().map(|item| (named.to_owned(), item)).collect();
            return Ok(found);
        }
        let servers = self.shared.servers.as_ref();
        let servers = servers
            .map(|servers| servers.of(self.place.workspace.name()))
            .unwrap_or_default();
        let mut sources = self.place.tools.sources();
        sources.retain(|source| source.source == Source::Mcp);
        // Those that are not to be connected to come last.
        let place = |source: &SourceInfo| servers.iter().position(|server| server.name() == source.name);
        sources.sort_by_key(|source| place(source).unwrap_or(usize::MAX));
        let each = sources
            .iter()
            .map(|source| self.of_one(source, self.server(&source.name), list));
        let each = join_all(each).await;
        for (source, listed) in sources.iter().zip(each) {
            match listed? {
                Ok(items) => found
                    .entries
                    .extend(items.into_iter().map(|item| (source.name.clone(), item))),
                Err(left) if left.is_off => {}
                Err(left) => found.omitted.push(McpOmission {
                    server: source.name.clone(),
                    reason: left.reason.into(),
                    problem: left.problem,
                }),
            }
        }
        Ok(found)
    }

    async fn of_one(
        &self,
        source: &SourceInfo,
        server: Option<McpServer>,
        list: List,
    ) -> Result<Result<Vec<Value>, Left>, Status> {
        let server = server.filter(|_| source.state == SourceState::Ready);
        let Some((server, has)) = server.and_then(|server| server.has(list).map(|has| (server, has))) else {
            return Ok(Err(Left::not_ready(source)));
        };
        if !has {
            return Ok(Ok(Vec::new()));
        }
        let pattern = |item: &str| match list {
            List::Prompts => server.prompt(item).pattern,
            List::Resources | List::Templates => server.resource(item).pattern,
        };
        if let Err(left) = self.may(&pattern("*")).await? {
            return Ok(Err(left));
        }
        let listed = match server.listed(list).await {
            Ok(listed) => listed,
            Err(Unlisted::NotConnected) => return Ok(Err(Left::lost())),
            Err(Unlisted::Failed(problem)) => {
                return Ok(Err(Left::not_done(format!(
                    "the MCP server does not give its list: {problem}"
                ))));
            }
        };
        let key = match list {
            List::Prompts => "name",
            List::Resources => "uri",
            List::Templates => "uriTemplate",
        };
        let seen = listed.iter().filter(|item| {
            let name = item[key].as_str();
            name.is_some_and(|name| !self.glance.hides("read", &pattern(name)))
        });
        Ok(Ok(seen.cloned().collect()))
    }
}

impl Left {
    /// There is no connection to a server.
    pub(super) fn not_ready(source: &SourceInfo) -> Self {
        let state = match source.state {
            SourceState::Connecting => "it is being connected to",
            SourceState::Disabled => "it is switched off",
            SourceState::NeedsAuth => "somebody has to log in",
            SourceState::NeedsClientRegistration => "somebody has to register a client",
            SourceState::Untrusted => "the workspace is not trusted",
            SourceState::Failed => "it does not work",
            // It was when it was asked how it is.
            SourceState::Ready => return Self::lost(),
        };
        let problem = if source.problem.is_empty() {
            state
        } else {
            &source.problem
        };
        Self {
            reason: ErrorReason::McpServerNotReady,
            problem: format!("the MCP server is not ready: {problem}"),
            is_off: source.state == SourceState::Disabled,
        }
    }

    /// The connection to a server is lost.
    pub(super) fn lost() -> Self {
        Self {
            reason: ErrorReason::McpServerNotReady,
            problem: "the connection to the MCP server is lost".to_owned(),
            is_off: false,
        }
    }

    /// A server did not do what it was asked for.
    pub(super) fn not_done(problem: String) -> Self {
        Self {
            reason: ErrorReason::NotDone,
            problem,
            is_off: false,
        }
    }

    /// Returns the same as an error about a server.
    pub(super) fn into_status(self, server: &str) -> Status {
        if [ErrorReason::DeniedByRule, ErrorReason::PermissionNeeded].contains(&self.reason) {
            return status::refused(self.reason, self.problem);
        }
        status::precondition(self.reason, server, format!("{server}: {}", self.problem))
    }
}

impl Found {
    /// Returns a page of it, without secrets.
    pub(super) fn page(self, shared: &Shared, size: i32, token: &str) -> Result<Page, Status> {
        let size = page_size(size, PAGE.0, PAGE.1)?;
        let etag = digest_of(&json!(self.entries))[..32].to_owned();
        let first = page_start(token, &etag)?;
        let all = self.entries.len();
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for (server, mut item) in self.entries.into_iter().skip(first).take(size) {
            bytes += item.to_string().len();
            if bytes > PAGE_BYTES && !entries.is_empty() {
                break;
            }
            shared.engine.redactor().value(&mut item);
            entries.push((server, item));
        }
        let next = first.saturating_add(entries.len());
        Ok(Page {
            next: if next < all {
                format!("{etag}.{next}")
            } else {
                String::new()
            },
            entries,
            omitted: self.omitted,
        })
    }
}
