"""The client of Toolgate, which runs the tools of an AI agent with a person in the loop.

`Client` is for plain programs, `AsyncClient` for asyncio; they have the same methods.
"""

from toolgate._auth import Token
from toolgate._connection import Stubs
from toolgate._json import JsonObject
from toolgate._target import Tls
from toolgate._version import __version__
from toolgate.calls import Unattended
from toolgate.client import AsyncClient
from toolgate.definitions import Model, ToolDefinition, ToolEffect, ToolSource
from toolgate.errors import (
    CallFailedError,
    CursorTooOldError,
    PermissionRefused,
    RpcError,
    ToolFailure,
    ToolgateError,
)
from toolgate.evaluation import EvaluatedRequest, Evaluation, PermissionAction
from toolgate.events import (
    ChildEvent,
    CompletedEvent,
    Event,
    FailedEvent,
    GapEvent,
    ListeningEvent,
    MetadataEvent,
    OutputEvent,
    PendingEvent,
    ResumedEvent,
    RunningEvent,
    WaitingEvent,
    WarningEvent,
    WorkspaceEvent,
)
from toolgate.execution import Execution as AsyncExecution
from toolgate.execution import OnDisconnect, OutputMode
from toolgate.file_info import FileInfo, FileKind
from toolgate.file_watch import FilesChanged, FilesEvent, FilesMissed
from toolgate.files import DownloadedArchive, WrittenFile
from toolgate.host import Refused
from toolgate.hosting import Hook, LentTool, SubagentRun, ToolContext, ToolFunction, ToolResult, tool
from toolgate.outputs import FoundLine, OutputInfo, SearchResult
from toolgate.prompts import (
    Decision,
    Permission,
    PermissionPart,
    PermissionPrompt,
    Prompt,
    PromptState,
    Question,
    QuestionOption,
    QuestionPrompt,
    ReplyOutcome,
    ReplyResult,
    Scope,
    always,
    answer,
    instead,
    once,
    reject,
)
from toolgate.results import (
    Attachment,
    Call,
    CallState,
    FailureReason,
    InputState,
    ListeningPort,
    Outcome,
    Result,
    Timing,
    Truncation,
)
from toolgate.sync.client import Client
from toolgate.sync.execution import Execution
from toolgate.sync.hosting import SyncToolContext
from toolgate.terminals import Signal, TerminalPicture
from toolgate.workspaces import OpenedWorkspace, Workspace

__all__ = [
    "AsyncClient",
    "AsyncExecution",
    "Attachment",
    "Call",
    "CallFailedError",
    "CallState",
    "ChildEvent",
    "Client",
    "CompletedEvent",
    "CursorTooOldError",
    "Decision",
    "DownloadedArchive",
    "EvaluatedRequest",
    "Evaluation",
    "Event",
    "Execution",
    "FailedEvent",
    "FailureReason",
    "FileInfo",
    "FileKind",
    "FilesChanged",
    "FilesEvent",
    "FilesMissed",
    "FoundLine",
    "GapEvent",
    "Hook",
    "InputState",
    "JsonObject",
    "LentTool",
    "ListeningEvent",
    "ListeningPort",
    "MetadataEvent",
    "Model",
    "OnDisconnect",
    "OpenedWorkspace",
    "Outcome",
    "OutputEvent",
    "OutputInfo",
    "OutputMode",
    "PendingEvent",
    "Permission",
    "PermissionAction",
    "PermissionPart",
    "PermissionPrompt",
    "PermissionRefused",
    "Prompt",
    "PromptState",
    "Question",
    "QuestionOption",
    "QuestionPrompt",
    "Refused",
    "ReplyOutcome",
    "ReplyResult",
    "Result",
    "ResumedEvent",
    "RpcError",
    "RunningEvent",
    "Scope",
    "SearchResult",
    "Signal",
    "Stubs",
    "SubagentRun",
    "SyncToolContext",
    "TerminalPicture",
    "Timing",
    "Tls",
    "Token",
    "ToolContext",
    "ToolDefinition",
    "ToolEffect",
    "ToolFailure",
    "ToolFunction",
    "ToolResult",
    "ToolSource",
    "ToolgateError",
    "Truncation",
    "Unattended",
    "WaitingEvent",
    "WarningEvent",
    "Workspace",
    "WorkspaceEvent",
    "WrittenFile",
    "__version__",
    "always",
    "answer",
    "instead",
    "once",
    "reject",
    "tool",
]
