"""The events of a call: a closed union of frozen data classes, told apart by type or by `kind`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from toolgate._json import JsonObject, from_struct
from toolgate.prompts import Prompt, PromptState, prompt_of, prompt_state_of
from toolgate.results import ListeningPort, Result, time_of
from toolgate.v1 import call_pb2

if TYPE_CHECKING:
    from datetime import datetime

    from toolgate.v1 import prompt_pb2, session_service_pb2


@dataclass(frozen=True)
class _Event:
    """What every event has.

    Attributes:
        call_id: The call.
        sequence: Counts from 1 without gaps.
        time: When it happened.
        raw: The message of the contract.
    """

    call_id: str
    sequence: int
    time: datetime
    raw: call_pb2.CallEvent = field(repr=False)


@dataclass(frozen=True)
class PendingEvent(_Event):
    """The call is admitted and recorded.

    Attributes:
        tool: The tool that will run.
        requested_tool: The name that was asked for.
        title: A first title, made from the input.
        summary: What the call touches, one line: a command, a path, a URL, a pattern.
    """

    tool: str
    requested_tool: str
    title: str
    summary: str
    kind: Literal["pending"] = "pending"


@dataclass(frozen=True)
class RunningEvent(_Event):
    """The tool starts. Nothing changes the input after this.

    Attributes:
        input_json: The frozen input, canonical JSON.
        input_digest: Its SHA-256.
        title: The title so far.
    """

    input_json: str
    input_digest: str
    title: str
    kind: Literal["running"] = "running"


@dataclass(frozen=True)
class MetadataEvent(_Event):
    """Title or metadata changed.

    Attributes:
        title: The new title; `None` if it did not change.
        metadata: A patch: an absent key stays, `None` clears a key, any other value replaces the key's whole value.
    """

    title: str | None
    metadata: JsonObject
    kind: Literal["metadata"] = "metadata"


@dataclass(frozen=True)
class OutputEvent(_Event):
    """The tool produced output.

    Attributes:
        output_id: The stored output that it belongs to.
        offset: The offset of the first byte in that output.
        data: The bytes.
    """

    output_id: str
    offset: int
    data: bytes
    kind: Literal["output"] = "output"

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is replaced."""
        return self.data.decode(errors="replace")


@dataclass(frozen=True)
class WaitingEvent(_Event):
    """The call waits for a person.

    Attributes:
        prompt: What is asked.
        approvers: How many approvers that could answer are connected.
    """

    prompt: Prompt
    approvers: int
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True)
class ResumedEvent(_Event):
    """The wait is over.

    Attributes:
        prompt_id: Which prompt.
        state: The state that it ended in.
        resolution: How it was settled: the message of the contract.
    """

    prompt_id: str
    state: PromptState
    resolution: prompt_pb2.PromptResolution
    kind: Literal["resumed"] = "resumed"


@dataclass(frozen=True)
class WarningEvent(_Event):
    """Something that a person should know, and that does not end the call.

    Attributes:
        word: What it is about, in a word: `lossy`, `no_undo`, …; `unknown` for what this library does not know yet.
        text: A sentence.
    """

    word: str
    text: str
    kind: Literal["warning"] = "warning"


@dataclass(frozen=True)
class ChildEvent(_Event):
    """The call made another one, which is watched under its own id.

    Attributes:
        child_id: The other call.
        tool: Its tool.
    """

    child_id: str
    tool: str
    kind: Literal["child"] = "child"


@dataclass(frozen=True)
class ListeningEvent(_Event):
    """A program of the call began or ceased to listen on a port: see `Client.open_port`.

    Attributes:
        ports: All that its programs listen on now; none any more if empty.
    """

    ports: list[ListeningPort]
    kind: Literal["listening"] = "listening"


@dataclass(frozen=True)
class GapEvent(_Event):
    """Events that the stream left out; `sequence` is that of the last one.

    Attributes:
        first_sequence: The first event left out.
        last_sequence: The last event left out.
        output_bytes: Bytes of output left out; the stored output has them.
    """

    first_sequence: int
    last_sequence: int
    output_bytes: int
    kind: Literal["gap"] = "gap"


@dataclass(frozen=True)
class CompletedEvent(_Event):
    """The last event of a call with a result."""

    result: Result
    kind: Literal["completed"] = "completed"


@dataclass(frozen=True)
class FailedEvent(_Event):
    """The last event of a call without one."""

    result: Result
    kind: Literal["failed"] = "failed"


Event: TypeAlias = (
    PendingEvent
    | RunningEvent
    | MetadataEvent
    | OutputEvent
    | WaitingEvent
    | ResumedEvent
    | WarningEvent
    | ChildEvent
    | ListeningEvent
    | GapEvent
    | CompletedEvent
    | FailedEvent
)
"""Any event of a call."""


def _warning_word(value: call_pb2.WarningKind.ValueType) -> str:
    name = call_pb2.WarningKind.Name(value) if value in call_pb2.WarningKind.values() else ""
    return name.removeprefix("WARNING_KIND_").lower() or "unknown"


def from_proto(message: call_pb2.CallEvent) -> Event | None:
    """Reads the message of the contract; `None` for a heartbeat, and for what this library does not know yet."""
    call_id, sequence, time = message.call_id, message.sequence, time_of(message.event_time)
    which = message.WhichOneof("event")
    if which == "pending":
        new = message.pending
        return PendingEvent(call_id, sequence, time, message, new.tool, new.requested_tool, new.title, new.summary)
    if which == "running":
        run = message.running
        return RunningEvent(call_id, sequence, time, message, run.input_json, run.input_digest, run.title)
    if which == "metadata":
        title = message.metadata.title if message.metadata.HasField("title") else None
        return MetadataEvent(call_id, sequence, time, message, title, from_struct(message.metadata.metadata))
    if which == "output":
        output = message.output
        return OutputEvent(call_id, sequence, time, message, output.output_id, output.offset, output.data)
    if which == "waiting":
        waiting = message.waiting
        return WaitingEvent(call_id, sequence, time, message, prompt_of(waiting.prompt), waiting.approvers)
    if which == "resumed":
        resumed = message.resumed
        state = prompt_state_of(resumed.state)
        return ResumedEvent(call_id, sequence, time, message, resumed.prompt_id, state, resumed.resolution)
    if which == "warning":
        return WarningEvent(call_id, sequence, time, message, _warning_word(message.warning.kind), message.warning.text)
    if which == "child":
        return ChildEvent(call_id, sequence, time, message, message.child.call_id, message.child.tool)
    if which == "listening":
        ports = [ListeningPort.from_proto(one) for one in message.listening.ports]
        return ListeningEvent(call_id, sequence, time, message, ports)
    if which == "gap":
        gap = message.gap
        return GapEvent(call_id, sequence, time, message, gap.first_sequence, gap.last_sequence, gap.output_bytes)
    if which == "completed":
        result = Result.from_proto(call_id, message.completed)
        return (CompletedEvent if result.ok else FailedEvent)(call_id, sequence, time, message, result)
    if which == "failed":
        return FailedEvent(call_id, sequence, time, message, Result.from_proto(call_id, message.failed))
    return None


@dataclass(frozen=True)
class WorkspaceEvent:
    """Something that happened in a workspace.

    Attributes:
        sequence: Ascends over all workspaces; a filtered stream skips numbers.
        time: When.
        workspace: Where.
        session: In which session; empty if it concerns all.
        kind: What: `call_state_changed`, `file_edited`, `prompt_opened`, `prompt_ended`, `session_ended`,
            `todos_updated`, `tools_changed`, `call_metadata_changed`, `workspace_changed` or `listening_changed`.
        raw: The message of the contract; its field named like `kind` says more.
    """

    sequence: int
    time: datetime
    workspace: str
    session: str
    kind: str
    raw: session_service_pb2.Event = field(repr=False)

    @classmethod
    def from_proto(cls, message: session_service_pb2.Event) -> WorkspaceEvent:
        """Reads the message of the contract."""
        return cls(
            sequence=message.sequence,
            time=time_of(message.event_time),
            workspace=message.workspace,
            session=message.session_id,
            kind=message.WhichOneof("event") or "",
            raw=message,
        )
