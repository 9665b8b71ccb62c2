//! For whom tools are shown and called: the workspace, the agent, the model and the session that a client's address or
//! headers name.
//!
//! *Invariant:* read from each request, never kept: a caller that may no longer see a workspace is refused at once.

use std::sync::Arc;

use rmcp::model::Implementation;
use serde_json::json;
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use toolgate_engine::{Engine, WorkspaceRuntime, digest_of};
use toolgate_model::{Definition, Model, SessionId};
use toolgate_tool::{Offer, dialect};

use super::endpoint::named;
use crate::grpc::auth::Caller;
use crate::grpc::convert::DEFAULT_AGENT;
use crate::grpc::status;

/// The kind of client that MCP clients are.
pub(super) const CLIENT: &str = "mcp";

/// The longest part of a client's name in the name of its session.
const MAX_CLIENT: usize = 40;

/// What a request says of its context: `?workspace=…&agent=…&model=provider/model&session=…&forms=none`, or headers of these names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct McpContext {
    workspace: String,
    agent: String,
    pub(super) model: Model,
    session: String,
    /// Whether the client is shown no forms, whatever it can show.
    leaves_prompts: bool,
}

impl McpContext {
    /// Reads the query, then the headers for what it leaves out.
    ///
    /// # Errors
    /// Something cannot be read; the text says what.
    pub(super) fn read(query: &str, headers: &HeaderMap) -> Result<Self, String> {
        let value = |name: &str| named(name, query, headers);
        let model = value("model")?;
        let model = match model.split_once('/') {
            Some((provider, id)) if !provider.is_empty() && !id.is_empty() => Model {
                provider_id: provider.to_owned(),
                model_id: id.to_owned(),
                ..Model::default()
            },
            None if model.is_empty() => Model::default(),
            Some(_) | None => return Err("model: write PROVIDER/MODEL".to_owned()),
        };
        let leaves_prompts = match value("forms")?.as_str() {
            "" => false,
            "none" => true,
            _ => return Err("forms: write none, or leave it out".to_owned()),
        };
        Ok(Self {
            workspace: value("workspace")?,
            agent: value("agent")?,
            model,
            session: value("session")?,
            leaves_prompts,
        })
    }

    /// Returns the agent's name.
    pub(super) fn agent(&self) -> &str {
        if self.agent.is_empty() {
            DEFAULT_AGENT
        } else {
            &self.agent
        }
    }

    /// Says whether the client chose its session.
    pub(super) fn names_session(&self) -> bool {
        !self.session.is_empty()
    }

    /// Says whether prompts are left to approvers.
    pub(super) fn leaves_prompts(&self) -> bool {
        self.leaves_prompts
    }

    /// Finds the workspace, if the caller may see it.
    pub(super) fn place(&self, caller: &Caller, engine: &Engine) -> Result<Arc<WorkspaceRuntime>, Status> {
        caller.place(engine, &self.workspace)
    }

    /// Checks that there is such a workspace with such an agent. One that is suspended is resumed, if that is `wanted`, else it
    /// will do.
    pub(super) async fn check(&self, caller: &Caller, engine: &Engine, wanted: bool) -> Result<(), Status> {
        let place = match wanted {
            true => caller.awake(engine, &self.workspace).await?,
            false => self.place(caller, engine)?,
        };
        if !wanted && place.gate.hold().is_some() {
            return Ok(());
        }
        place.usable().map_err(status::admit)?;
        // Plugins may bring it.
        place.tools.loaded().await;
        match place.agent(self.agent()) {
            Some(_) => Ok(()),
            None => Err(status::not_found("agent", self.agent())),
        }
    }

    /// Returns what the model is told of the tools, as far as this client can use them.
    pub(super) async fn definitions(&self, place: &WorkspaceRuntime, asks_its_user: bool) -> Vec<Definition> {
        place.tools.loaded().await;
        let Some(agent) = place.agent(self.agent()) else {
            return Vec::new();
        };
        let mut model = self.model.clone();
        dialect::complete(&mut model, &place.now().packages);
        let offer = Offer {
            workspace: &place.workspace,
            agent: self.agent(),
            model: &model,
            client: CLIENT,
            rights: None,
        };
        let mut definitions = place.offered(&offer, &place.rights(&agent)).await;
        definitions
            .retain(|definition| asks_its_user || !definition.effects.contains(&toolgate_model::Effect::AsksUser));
        definitions
    }
}

/// What a request came with, as the gate and the checks left it.
pub(super) struct Seen {
    pub(super) caller: Arc<Caller>,
    pub(super) context: McpContext,
    /// The session of the transport; none of a client that has none.
    pub(super) session: Option<String>,
}

impl Seen {
    /// Returns the session that a client works in: the one that it names, else one for all its connections, since some
    /// clients make one for each call. It is of this principal and this folder only.
    pub(super) fn conversation(&self, client: Option<&Implementation>, place: &WorkspaceRuntime) -> SessionId {
        if self.context.names_session() {
            return SessionId::from(self.context.session.as_str());
        }
        let name = client.map_or("", |client| &client.name);
        let owner = digest_of(&json!([
            self.caller.principal().id(),
            name,
            place.workspace.directory().to_string_lossy(),
        ]));
        let shown: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .take(MAX_CLIENT)
            .collect();
        SessionId::new(format!("mcp-{shown}-{}", &owner[..12]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_stronger_than_headers() {
        let check = |query: &str, headers: &[(&'static str, &str)], expected: Option<[&str; 4]>| {
            let map: HeaderMap = headers
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect();
            let read = McpContext::read(query, &map).ok();
            let expected = expected.map(|[workspace, agent, provider, model]| McpContext {
                workspace: workspace.to_owned(),
                agent: agent.to_owned(),
                model: Model {
                    provider_id: provider.to_owned(),
                    model_id: model.to_owned(),
                    ..Model::default()
                },
                session: String::new(),
                leaves_prompts: false,
            });
            assert_eq!(read, expected, "{query} {headers:?}");
        };
        check("", &[], Some(["", "", "", ""]));
        check("workspace=a%20b+c&agent=plan", &[], Some(["a b c", "plan", "", ""]));
        check(
            "agent=plan",
            &[("toolgate-agent", "build"), ("toolgate-workspace", "w")],
            Some(["w", "plan", "", ""]),
        );
        check("model=openai/gpt-5/x", &[], Some(["", "", "openai", "gpt-5/x"]));
        check("model=gpt", &[], None);
        check("model=/x", &[], None);
        check("workspace=%", &[], None);
        check("workspace=%zz", &[], None);
        check("workspace=%ff", &[], None);
        check("workspace=a%0Ab", &[], None);
        check(&format!("agent={}", "a".repeat(300)), &[], None);
    }

    #[test]
    fn a_session_may_be_named() {
        let named = |query: &str| McpContext::read(query, &HeaderMap::new()).map(|read| read.session);
        assert_eq!(named("agent=plan&session=a%20b"), Ok("a b".to_owned()));
        assert_eq!(named("agent=plan"), Ok(String::new()));
        assert!(named("session=a%0Ab").is_err());
        let mut headers = HeaderMap::new();
        headers.insert("toolgate-session", "mine".parse().unwrap());
        assert!(McpContext::read("", &headers).unwrap().names_session());
    }

    #[test]
    fn forms_may_be_refused() {
        let leaves = |query: &str| McpContext::read(query, &HeaderMap::new()).map(|read| read.leaves_prompts());
        assert_eq!((leaves(""), leaves("forms=none")), (Ok(false), Ok(true)));
        assert!(leaves("forms=some").is_err());
    }

    #[test]
    fn the_agent_has_a_default() {
        assert_eq!(McpContext::default().agent(), DEFAULT_AGENT);
    }
}
