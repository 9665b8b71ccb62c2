"""The options of the methods that have many, for those that hand them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from toolgate._auth import Token
    from toolgate._target import Tls
    from toolgate.calls import Unattended
    from toolgate.definitions import Model
    from toolgate.execution import OnDisconnect, OutputMode
    from toolgate.host import Refused
    from toolgate.hosting import HookFunction, Subagent
    from toolgate.prompts import Prompt, ReplyOutcome


class ClientOptions(TypedDict, total=False):
    """What `AsyncClient` takes beside the target; it says what each means."""

    token: Token | None
    tls: Tls | None
    workspace: str
    agent: str
    model: Model | str | None
    session: str
    client_kind: str
    client_name: str | None
    timeout: float
    connect_timeout: float
    reconnect_timeout: float | None
    stall_timeout: float


class ExecuteOptions(TypedDict, total=False):
    """What `AsyncClient.execute` takes beside the tool and its input; it says what each means."""

    call_id: str | None
    session: str | None
    workspace: str | None
    agent: str | None
    model: Model | str | None
    client_kind: str | None
    message_id: str
    parent: str
    extra: Mapping[str, Any] | None
    timeout: float | timedelta | None
    on_disconnect: OnDisconnect
    output: OutputMode


class EvaluateOptions(TypedDict, total=False):
    """What `AsyncClient.evaluate` takes beside the tool and its input; it says what each means."""

    session: str | None
    workspace: str | None
    agent: str | None
    model: Model | str | None
    client_kind: str | None
    parent: str


class RevertOptions(TypedDict, total=False):
    """What `AsyncClient.revert` takes beside the call; it says what each means."""

    merge: bool
    revert_call_id: str | None
    session: str | None
    workspace: str | None
    agent: str | None
    on_disconnect: OnDisconnect


class PortOptions(TypedDict, total=False):
    """What `AsyncClient.open_port` takes beside the call and the port; it says what each means."""

    port_call_id: str | None
    session: str | None
    workspace: str | None
    agent: str | None
    unattended: Unattended
    wait_timeout: float | timedelta | None


class FilesOptions(TypedDict, total=False):
    """What `AsyncClient.files` and `AsyncClient.mcp` take; they say what each means."""

    session: str | None
    workspace: str | None
    agent: str | None
    parent: str
    unattended: Unattended
    wait_timeout: float | timedelta | None


class WriteOptions(TypedDict, total=False):
    """What `Files.write` and `Files.upload` take beside the path and the content; they say what each means."""

    mode: int | None
    if_sha256: str
    if_absent: bool
    call_id: str | None


class ApprovalOptions(TypedDict, total=False):
    """What `AsyncClient.approvals` takes beside the handler; it says what each means."""

    name: str | None
    workspace: str
    sessions: Sequence[str]
    everybody: bool
    on_ready: Callable[[int], None] | None
    on_reply: Callable[[ReplyOutcome], None] | None
    on_gone: Callable[[Prompt], None] | None
    on_error: Callable[[Prompt, Exception], None] | None


class HostOptions(TypedDict, total=False):
    """What `AsyncClient.host` takes beside the tools; it says what each means."""

    name: str
    workspace: str | None
    subagent: Subagent | None
    subagents: Sequence[str]
    hooks: Mapping[str, HookFunction] | None
    on_ready: Callable[[list[Refused]], None] | None
    on_cancel: Callable[[str], None] | None
