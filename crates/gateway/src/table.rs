//! How each RPC of the contract finds its worker: one row for each.
//!
//! *Invariant:* every RPC of the contract has a row (a test compares them with the descriptors), and what has none is refused.

use prost::Message as _;
use tonic::Status;
use toolgate_contract::*;

use crate::directory::Kind;
use crate::wire::decode;

/// What the first message of a request is aimed at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// A workspace; empty for the default one.
    Workspace(String),
    /// Whatever has the id.
    Id(Kind, String),
    /// Nothing: a worker says what is wrong.
    Nothing,
}

/// Reads the first message.
pub(crate) type Read = fn(&[u8]) -> Result<Aim, Status>;

/// Makes what to add to the first message, so that it names a workspace.
pub(crate) type Name = fn(String) -> Vec<u8>;

/// How an RPC is carried.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// To the worker of what it is aimed at, message by message as it comes.
    Passed(Read, Name),
    /// So, or if it is aimed at all workspaces, to all workers, whose answers are put together.
    PassedOrMerged(Read, Name, Merge),
    /// To all workers; one of them knows what is meant.
    Tried(Try),
    /// To the only worker there is.
    OfOne,
    /// The gateway answers.
    Own(Own),
}

/// What is put together of the answers of all workers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Merge {
    /// Calls.
    Calls,
    /// Prompts.
    Prompts,
    /// Grants.
    Grants,
    /// Sessions.
    Sessions,
    /// Outputs.
    Outputs,
    /// One session, in all workspaces.
    Session,
    /// Prompts as they come.
    WatchedPrompts,
    /// The same, and replies.
    Channel,
    /// Events as they come.
    Events,
    /// Nothing: it has to name a workspace, and a worker says so.
    Nothing,
}

/// What a gateway with a store answers from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In any case.
    Always,
    /// Unless it is of a call that goes on at a worker which is there: that one knows more of it.
    OnceEnded,
}

/// What only its worker knows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Try {
    /// A grant.
    Grant,
    /// The token of a host.
    Host,
}

/// What the gateway answers itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Own {
    /// What it is.
    Info,
    /// The workspaces of all workers.
    Workspaces,
    /// Opening one, at the worker that may.
    OpenWorkspace,
    /// Creating one, at a worker that may.
    CreateWorkspace,
}

fn context(workspace: String) -> Option<CallContext> {
    Some(CallContext {
        workspace,
        ..CallContext::default()
    })
}

fn start(workspace: String) -> Option<CallStart> {
    let context = context(workspace);
    Some(CallStart {
        context,
        ..CallStart::default()
    })
}

fn filter(workspace: String) -> Option<PromptFilter> {
    Some(PromptFilter {
        workspace,
        ..PromptFilter::default()
    })
}

fn of_context(context: Option<CallContext>) -> Aim {
    Aim::Workspace(context.unwrap_or_default().workspace)
}

/// What names nothing is added to what needs no workspace.
fn nothing(_: String) -> Vec<u8> {
    Vec::new()
}

/// Encodes a message with one field.
macro_rules! with {
    ($request:ident { $field:ident: $value:expr }) => {{
        let mut request = $request::default();
        request.$field = $value;
        request.encode_to_vec()
    }};
}

/// Passed by `context.workspace`.
macro_rules! by_context {
    ($request:ident) => {
        Way::Passed(
            |message| Ok(of_context(decode::<$request>(message)?.context)),
            |workspace| {
                with!($request {
                    context: context(workspace)
                })
            },
        )
    };
}

/// Passed by `call.context.workspace`.
macro_rules! by_start {
    ($request:ident) => {
        Way::Passed(
            |message| {
                Ok(of_context(
                    decode::<$request>(message)?.call.unwrap_or_default().context,
                ))
            },
            |workspace| with!($request { call: start(workspace) }),
        )
    };
}

/// Passed by `workspace`; what to make of all workspaces.
macro_rules! by_workspace {
    ($request:ident, $merge:ident) => {
        Way::PassedOrMerged(
            |message| Ok(Aim::Workspace(decode::<$request>(message)?.workspace)),
            |workspace| with!($request { workspace: workspace }),
            Merge::$merge,
        )
    };
}

/// Passed by `workspace`, and nothing is done to one that was not named.
macro_rules! by_its_name {
    ($request:ident) => {
        Way::Passed(
            |message| {
                Ok(match decode::<$request>(message)?.workspace {
                    workspace if workspace.is_empty() => Aim::Nothing,
                    workspace => Aim::Workspace(workspace),
                })
            },
            nothing,
        )
    };
}

/// Passed by an id.
macro_rules! by_id {
    ($request:ident, $kind:ident, $field:ident) => {
        Way::Passed(
            |message| Ok(Aim::Id(Kind::$kind, decode::<$request>(message)?.$field)),
            nothing,
        )
    };
}

/// Passed by an id if there is one and no workspace.
fn id_or_workspace(kind: Kind, id: String, workspace: String) -> Aim {
    match workspace.is_empty() && !id.is_empty() {
        true => Aim::Id(kind, id),
        false => Aim::Workspace(workspace),
    }
}

fn of_channel(message: &[u8]) -> Result<Aim, Status> {
    let workspace = match decode::<ChannelRequest>(message)?.message {
        Some(channel_request::Message::Open(open)) => open.filter.unwrap_or_default().workspace,
        // The worker says what is wrong.
        Some(channel_request::Message::Reply(_)) | None => String::new(),
    };
    Ok(Aim::Workspace(workspace))
}

fn to_channel(workspace: String) -> Vec<u8> {
    let filter = filter(workspace);
    let open = ChannelOpen {
        filter,
        ..ChannelOpen::default()
    };
    ChannelRequest {
        message: Some(channel_request::Message::Open(open)),
    }
    .encode_to_vec()
}

fn hello(workspace: String) -> HostHello {
    HostHello {
        workspace,
        ..HostHello::default()
    }
}

fn of_host(message: &[u8]) -> Result<Aim, Status> {
    let workspace = match decode::<HostRequest>(message)?.message {
        Some(host_request::Message::Hello(hello)) => hello.workspace,
        Some(host_request::Message::Report(_)) | None => String::new(),
    };
    Ok(Aim::Workspace(workspace))
}

/// Returns how an RPC is carried; none for what is no RPC of the contract.
#[rustfmt::skip]
pub(crate) fn way(path: &str) -> Option<Way> {
    let rpc = path.strip_prefix("/toolgate.v1.")?;
    Some(match rpc {
        "AuditService/ExportAudit" | "AuditService/GetAuditHead" => Way::OfOne,

        "FileService/StatFile" => by_context!(StatFileRequest),
        "FileService/ListFiles" => by_context!(ListFilesRequest),
        "FileService/ReadFile" => by_context!(ReadFileRequest),
        "FileService/WatchFiles" => by_context!(WatchFilesRequest),
        "FileService/DownloadArchive" => by_context!(DownloadArchiveRequest),
        "FileService/WriteFile" => by_start!(WriteFileRequest),
        "FileService/UploadFile" => by_start!(UploadFileRequest),
        "FileService/CreateFolder" => by_start!(CreateFolderRequest),
        "FileService/MoveFile" => by_start!(MoveFileRequest),
        "FileService/DeleteFile" => by_start!(DeleteFileRequest),
        "FileService/UploadArchive" => by_start!(UploadArchiveRequest),

        "HostService/Host" => Way::Passed(of_host, |workspace| HostRequest {
            message: Some(host_request::Message::Hello(hello(workspace))),
        }.encode_to_vec()),
        "HostService/ServeTools" => Way::Passed(
            |message| Ok(Aim::Workspace(decode::<ServeToolsRequest>(message)?.hello.unwrap_or_default().workspace)),
            |workspace| with!(ServeToolsRequest { hello: Some(hello(workspace)) }),
        ),
        "HostService/ReportInvocation" => Way::Tried(Try::Host),

        "InfoService/GetServerInfo" => Way::Own(Own::Info),

        "McpService/ListMcpResources" => by_context!(ListMcpResourcesRequest),
        "McpService/ListMcpResourceTemplates" => by_context!(ListMcpResourceTemplatesRequest),
        "McpService/ListMcpPrompts" => by_context!(ListMcpPromptsRequest),
        "McpService/ReadMcpResource" => by_start!(ReadMcpResourceRequest),
        "McpService/GetMcpPrompt" => by_start!(GetMcpPromptRequest),
        "McpService/CompleteMcpArgument" => by_context!(CompleteMcpArgumentRequest),

        "OutputService/ReadOutput" => by_id!(ReadOutputRequest, Output, output_id),
        "OutputService/SearchOutput" => by_id!(SearchOutputRequest, Output, output_id),
        "OutputService/GetOutput" => by_id!(GetOutputRequest, Output, output_id),
        "OutputService/DeleteOutput" => by_id!(DeleteOutputRequest, Output, output_id),
        "OutputService/ListOutputs" => Way::PassedOrMerged(
            |message| {
                let ListOutputsRequest { workspace, call_id, .. } = decode(message)?;
                Ok(id_or_workspace(Kind::Call, call_id, workspace))
            },
            |workspace| with!(ListOutputsRequest { workspace: workspace }),
            Merge::Outputs,
        ),

        "PermissionService/Channel" => Way::PassedOrMerged(of_channel, to_channel, Merge::Channel),
        "PermissionService/WatchPrompts" => Way::PassedOrMerged(
            |message| Ok(Aim::Workspace(decode::<WatchPromptsRequest>(message)?.filter.unwrap_or_default().workspace)),
            |workspace| with!(WatchPromptsRequest { filter: filter(workspace) }),
            Merge::WatchedPrompts,
        ),
        "PermissionService/ListPrompts" => Way::PassedOrMerged(
            |message| {
                let ListPromptsRequest { filter, call_id, .. } = decode(message)?;
                Ok(id_or_workspace(Kind::Call, call_id, filter.unwrap_or_default().workspace))
            },
            |workspace| with!(ListPromptsRequest { filter: filter(workspace) }),
            Merge::Prompts,
        ),
        "PermissionService/GetPrompt" => by_id!(GetPromptRequest, Prompt, prompt_id),
        "PermissionService/ReplyPrompt" => Way::Passed(
            |message| Ok(Aim::Id(Kind::Prompt, decode::<ReplyPromptRequest>(message)?.reply.unwrap_or_default().prompt_id)),
            nothing,
        ),
        "PermissionService/ListGrants" => by_workspace!(ListGrantsRequest, Grants),
        "PermissionService/RevokeGrant" => Way::Tried(Try::Grant),

        "PortService/OpenPort" => Way::Passed(
            |message| {
                let OpenPortRequest { call, call_id, .. } = decode(message)?;
                let workspace = call.unwrap_or_default().context.unwrap_or_default().workspace;
                Ok(id_or_workspace(Kind::Call, call_id, workspace))
            },
            |workspace| with!(OpenPortRequest { call: start(workspace) }),
        ),
        "PortService/ConnectPort" => by_id!(ConnectPortRequest, Call, call_id),

        "SessionService/GetSession" => by_workspace!(GetSessionRequest, Session),
        "SessionService/ListSessions" => by_workspace!(ListSessionsRequest, Sessions),
        "SessionService/EndSession" => by_workspace!(EndSessionRequest, Nothing),
        "SessionService/WatchEvents" => by_workspace!(WatchEventsRequest, Events),

        "ToolService/ListTools" => by_workspace!(ListToolsRequest, Nothing),
        "ToolService/ExecuteTool" => by_context!(ExecuteToolRequest),
        "ToolService/RunTool" => by_context!(RunToolRequest),
        "ToolService/EvaluateCall" => by_context!(EvaluateCallRequest),
        "ToolService/WatchCall" => by_id!(WatchCallRequest, Call, call_id),
        "ToolService/GetCall" => by_id!(GetCallRequest, Call, call_id),
        "ToolService/ListCalls" => by_workspace!(ListCallsRequest, Calls),
        "ToolService/CancelCall" => by_id!(CancelCallRequest, Call, call_id),
        "ToolService/SendInput" => by_id!(SendInputRequest, Call, call_id),
        "ToolService/ResizeTerminal" => by_id!(ResizeTerminalRequest, Call, call_id),
        "ToolService/GetTerminal" => by_id!(GetTerminalRequest, Call, call_id),
        "ToolService/SignalCall" => by_id!(SignalCallRequest, Call, call_id),
        "ToolService/RevertCall" => by_id!(RevertCallRequest, Call, call_id),

        "WorkspaceService/OpenWorkspace" => Way::Own(Own::OpenWorkspace),
        "WorkspaceService/CreateWorkspace" => Way::Own(Own::CreateWorkspace),
        "WorkspaceService/CloseWorkspace" => by_its_name!(CloseWorkspaceRequest),
        "WorkspaceService/SuspendWorkspace" => by_its_name!(SuspendWorkspaceRequest),
        "WorkspaceService/ResumeWorkspace" => by_its_name!(ResumeWorkspaceRequest),
        "WorkspaceService/DeleteWorkspace" => by_its_name!(DeleteWorkspaceRequest),
        "WorkspaceService/GetWorkspace" => by_workspace!(GetWorkspaceRequest, Nothing),
        "WorkspaceService/ListWorkspaces" => Way::Own(Own::Workspaces),

        _ => return None,
    })
}

/// Says what a gateway with a store answers from it; none for what touches programs or files.
pub(crate) fn stored(path: &str) -> Option<Stored> {
    let rpc = path.strip_prefix("/toolgate.v1.")?;
    Some(match rpc {
        "AuditService/ExportAudit"
        | "AuditService/GetAuditHead"
        | "OutputService/DeleteOutput"
        | "OutputService/GetOutput"
        | "OutputService/ListOutputs"
        | "OutputService/ReadOutput"
        | "OutputService/SearchOutput"
        | "PermissionService/GetPrompt"
        | "PermissionService/ListGrants"
        | "PermissionService/ListPrompts"
        | "PermissionService/ReplyPrompt"
        | "PermissionService/RevokeGrant"
        | "SessionService/GetSession"
        | "SessionService/ListSessions"
        | "SessionService/WatchEvents"
        | "PermissionService/Channel"
        | "PermissionService/WatchPrompts"
        | "ToolService/ListCalls" => Stored::Always,
        "ToolService/GetCall" | "ToolService/WatchCall" => Stored::OnceEnded,
        _ => return None,
    })
}

/// Says whether an RPC makes a call, which is stored before anything happens.
pub(crate) fn makes_call(path: &str) -> bool {
    let rpc = path.strip_prefix("/toolgate.v1.");
    rpc.is_some_and(|rpc| {
        [
            "FileService/CreateFolder",
            "FileService/DeleteFile",
            "FileService/MoveFile",
            "FileService/UploadArchive",
            "FileService/UploadFile",
            "FileService/WriteFile",
            "McpService/GetMcpPrompt",
            "McpService/ReadMcpResource",
            "PortService/OpenPort",
            "ToolService/ExecuteTool",
            "ToolService/RevertCall",
            "ToolService/RunTool",
        ]
        .contains(&rpc)
    })
}

/// Says whether an RPC is about what runs of a call: of one that is over, the store says all there is to say.
pub(crate) fn is_of_running(path: &str) -> bool {
    let rpc = path.strip_prefix("/toolgate.v1.ToolService/");
    rpc.is_some_and(|rpc| ["CancelCall", "SendInput", "ResizeTerminal", "GetTerminal", "SignalCall"].contains(&rpc))
}

#[cfg(test)]
mod tests {
    use prost_types::FileDescriptorSet;

    use super::*;

    fn rpcs() -> Vec<String> {
        let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
        let services = files
            .iter()
            .filter(|file| file.package() == "toolgate.v1")
            .flat_map(|file| &file.service);
        let named = services.flat_map(|service| {
            let name = |method: &prost_types::MethodDescriptorProto| {
                format!("/toolgate.v1.{}/{}", service.name(), method.name())
            };
            service.method.iter().map(name).collect::<Vec<_>>()
        });
        named.collect()
    }

    #[test]
    fn every_rpc_of_the_contract_has_a_way() {
        let rpcs = rpcs();
        assert!(rpcs.len() > 40, "{rpcs:?}");
        for rpc in rpcs {
            assert!(way(&rpc).is_some(), "{rpc} has no row");
        }
        assert!(way("/toolgate.v1.ToolService/Made").is_none() && way("/other.Service/Made").is_none());
    }

    #[test]
    fn what_is_kept_is_answered_from_the_store() {
        for rpc in rpcs() {
            let of = |service: &str| rpc.starts_with(&format!("/toolgate.v1.{service}/"));
            let is_kept = of("AuditService") || of("OutputService") || of("PermissionService");
            let is_always = matches!(stored(&rpc), Some(Stored::Always));
            // No reply to a prompt ever goes to a worker.
            assert!(is_always || !is_kept, "{rpc}");
            let runs = ["FileService", "HostService", "PortService", "WorkspaceService"];
            assert!(
                stored(&rpc).is_none() || !runs.iter().any(|service| of(service)),
                "{rpc}"
            );
        }
        assert!(stored("/toolgate.v1.ToolService/ExecuteTool").is_none());
    }

    #[test]
    fn a_workspace_that_is_added_is_the_one_that_is_read() {
        for rpc in rpcs() {
            let (read, name) = match way(&rpc).unwrap() {
                Way::Passed(read, name) | Way::PassedOrMerged(read, name, _) => (read, name),
                Way::Tried(_) | Way::OfOne | Way::Own(_) => continue,
            };
            let added = name("w".to_owned());
            match read(&added).unwrap() {
                Aim::Workspace(workspace) => assert_eq!(workspace, "w", "{rpc}"),
                Aim::Id(_, id) => assert!(id.is_empty() && added.is_empty(), "{rpc}"),
                Aim::Nothing => assert!(added.is_empty(), "{rpc}"),
            }
        }
    }
}
