//! `InfoService`: what the service is and what it allows.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use toolgate_config::service as config;
use toolgate_contract::info_service_server::InfoService;
use toolgate_contract::*;
use toolgate_engine::{Held, WorkspaceRuntime};
use toolgate_permission::agents::Mode;
use toolgate_tool::SourceInfo;

use super::auth::Caller;
use super::console::IS_BUILT;
use super::convert::{FromCore as _, IntoProto, duration, int, int32, shown_source, timestamp};
use super::{LanguageServerFacts, SandboxFacts, Shared, status};

/// The service.
pub(crate) struct Info(pub(crate) Arc<Shared>);

#[tonic::async_trait]
impl InfoService for Info {
    async fn get_server_info(
        &self,
        request: Request<GetServerInfoRequest>,
    ) -> Result<Response<GetServerInfoResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let engine = &self.0.engine;
        let places = engine.catalogs().all();
        let seen = places.iter().filter(|place| caller.sees(place.workspace.name()));
        let mut workspaces: Vec<WorkspaceInfo> = seen.map(|place| workspace(place)).collect();
        let languages = self.0.languages.clone();
        let workspaces = tokio::task::spawn_blocking(move || {
            for workspace in &mut workspaces {
                let found = languages.servers(&workspace.name).into_iter();
                workspace.language_servers = found.map(language_server).collect();
            }
            workspaces
        })
        .await
        .map_err(|error| status::internal("looking for language servers", &error))?;
        let allowed = engine.limits();
        let truncation = places.first().map(|place| place.now().truncation).unwrap_or_default();
        let (traffic, prompts) = (self.0.traffic.limits(), engine.prompts().policy());
        let wide = |count: u32| int32(count as usize);
        let limits = Limits {
            max_running_calls: int32(allowed.running.max_running),
            max_running_calls_per_workspace: allowed.running.max_per_workspace.map(int32),
            max_running_calls_per_session: allowed.running.max_per_session.map(int32),
            max_running_calls_per_principal: allowed.running.max_per_principal.map(int32),
            max_queued_calls: int32(allowed.running.max_queued),
            max_queued_bytes: int(allowed.running.max_queued_bytes as u64),
            max_requests_per_second: traffic.requests_per_second.map(wide),
            max_request_burst: traffic.request_burst.map(wide),
            max_streams: int32(traffic.streams),
            max_streams_per_principal: traffic.streams_per_principal.map(int32),
            max_streams_per_connection: wide(traffic.streams_per_connection),
            max_workspaces: int32(self.0.workspaces.most()),
            max_open_prompts: int32(prompts.max_open),
            max_open_prompts_per_session: prompts.max_open_per_session.map(int32),
            max_input_bytes: int(allowed.max_input_bytes as u64),
            max_output_bytes: int(allowed.max_output_bytes),
            max_message_bytes: int(self.0.max_message_bytes as u64),
            truncate_lines: int32(truncation.max_lines),
            truncate_bytes: int32(truncation.max_bytes),
            heartbeat: Some(duration(self.0.heartbeat)),
            prompt_timeout: prompts.timeout.map(duration),
            output_retention: Some(duration(self.0.output_retention)),
            call_retention: Some(duration(self.0.call_retention)),
        };
        Ok(Response::new(GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            api_revision: API_REVISION,
            features: features(&self.0),
            instance_id: engine.calls().instance().to_string(),
            start_time: Some(timestamp(self.0.started)),
            limits: Some(limits),
            workspaces,
            sandbox: in_force(&self.0.sandbox).into(),
            sandbox_info: Some(sandbox_info(&self.0.sandbox)),
            running_calls: int32(engine.calls().count()),
            queued_calls: int32(engine.calls().queued()),
            warnings: self.0.warnings.clone(),
        }))
    }
}

/// Returns what this build can do and its configuration allows.
fn features(shared: &Shared) -> Vec<i32> {
    let known = [
        (Feature::Mcp, cfg!(feature = "mcp")),
        (Feature::Javascript, cfg!(feature = "javascript")),
        (Feature::Lsp, cfg!(feature = "lsp")),
        (Feature::Otel, cfg!(feature = "otel")),
        (Feature::Jwt, shared.authenticator.takes_jwt()),
        (Feature::Console, shared.console && IS_BUILT),
        (Feature::Sandbox, shared.sandbox.is_on),
        (Feature::OpenWorkspaces, !shared.workspaces.roots().is_empty()),
        (Feature::CreateWorkspaces, shared.workspaces.can_create()),
    ];
    let there = known.into_iter().filter(|(_, is_there)| *is_there);
    there.map(|(feature, _)| feature.into()).collect()
}

fn in_force(facts: &SandboxFacts) -> Sandbox {
    if facts.is_on { available(facts) } else { Sandbox::None }
}

fn available(facts: &SandboxFacts) -> Sandbox {
    match (facts.landlock, facts.seccomp) {
        (0, false) => Sandbox::None,
        (0, true) => Sandbox::Seccomp,
        (_, false) => Sandbox::Landlock,
        (_, true) => Sandbox::LandlockSeccomp,
    }
}

fn sandbox_info(facts: &SandboxFacts) -> SandboxInfo {
    SandboxInfo {
        available: available(facts).into(),
        landlock_version: int32(facts.landlock as usize),
        missing: facts.missing.clone(),
        mode: match facts.mode {
            config::SandboxMode::Off => SandboxMode::Off,
            config::SandboxMode::WorkspaceWrite => SandboxMode::WorkspaceWrite,
            config::SandboxMode::ReadOnly => SandboxMode::ReadOnly,
        }
        .into(),
        network: match facts.network {
            config::SandboxNetwork::Ask => PermissionAction::Ask,
            config::SandboxNetwork::Allow => PermissionAction::Allow,
            config::SandboxNetwork::Deny => PermissionAction::Deny,
        }
        .into(),
        required: facts.required,
    }
}

pub(super) fn workspace(place: &WorkspaceRuntime) -> WorkspaceInfo {
    let agent = |agent: &toolgate_permission::agents::Agent| AgentInfo {
        name: agent.name.clone(),
        description: agent.description.clone().unwrap_or_default(),
        mode: match agent.mode {
            Mode::Primary => AgentMode::Primary,
            Mode::Subagent => AgentMode::Subagent,
            Mode::All => AgentMode::All,
        }
        .into(),
        rules: agent.rules.iter().cloned().map(IntoProto::into_proto).collect(),
    };
    let now = place.now();
    WorkspaceInfo {
        name: place.workspace.name().to_owned(),
        directory: place.workspace.directory().to_string_lossy().into_owned(),
        worktree: place.workspace.worktree().to_string_lossy().into_owned(),
        agents: now.agents.iter().filter(|agent| !agent.hidden).map(agent).collect(),
        trusted: place.trusted,
        tool_sources: place.tools.sources().into_iter().map(tool_source).collect(),
        language_servers: Vec::new(),
        warnings: now.warnings.clone(),
        problem: place.problem().unwrap_or_default(),
        open_time: place.opened.as_ref().map(|opened| timestamp(opened.time)),
        opened_by: place
            .opened
            .as_ref()
            .map(|opened| opened.by.clone())
            .unwrap_or_default(),
        usage: None,
        state: state(place).into(),
        source: place
            .opened
            .as_ref()
            .and_then(|opened| opened.source.as_ref())
            .map(shown_source),
    }
}

fn state(place: &WorkspaceRuntime) -> WorkspaceState {
    match place.gate.hold() {
        None => WorkspaceState::Ready,
        Some(Held::Creating) => WorkspaceState::Creating,
        Some(Held::Suspended { .. }) => WorkspaceState::Suspended,
        Some(Held::Failed(_)) => WorkspaceState::Failed,
        Some(Held::Deleting) => WorkspaceState::Deleting,
    }
}

pub(super) fn language_server(facts: LanguageServerFacts) -> LanguageServerInfo {
    let (program, problem) = match facts.program {
        Ok(program) => (program.to_string_lossy().into_owned(), String::new()),
        Err(problem) => (String::new(), problem),
    };
    LanguageServerInfo {
        id: facts.id,
        program,
        problem,
        running: int32(facts.running),
    }
}

fn tool_source(source: SourceInfo) -> ToolSourceInfo {
    let kind = ToolSource::from_core(source.source);
    let state = ToolSourceState::from_core(source.state);
    ToolSourceInfo {
        source: kind.into(),
        name: source.name,
        state: state.into(),
        problem: source.problem,
        tools: int32(source.tools),
    }
}
