"""What calls leave behind: results, attachments, and the record of a call."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING

from toolgate import forms
from toolgate._json import JsonObject, from_struct
from toolgate.errors import CallFailedError
from toolgate.v1 import call_pb2, result_pb2

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp


class CallState(str, Enum):
    """Where a call is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class FailureReason(str, Enum):
    """Why a call failed, for programs; the text beside it is for the model."""

    INVALID_ARGUMENTS = "invalid_arguments"
    DENIED = "denied"
    REJECTED = "rejected"
    PROMPT_EXPIRED = "prompt_expired"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    TOOL_ERROR = "tool_error"
    DOOM_LOOP = "doom_loop"
    QUOTA = "quota"
    DRAINED = "drained"
    LOST = "lost"
    INTERNAL = "internal"
    UNKNOWN = "unknown"


class Outcome(str, Enum):
    """How the result of a completed call is to be read."""

    OK = "ok"
    NON_ZERO = "non_zero"
    TIMED_OUT = "timed_out"
    PARTIAL = "partial"
    INVALID = "invalid"
    UNKNOWN = "unknown"


def outcome_of(value: result_pb2.CallOutcome.ValueType) -> Outcome:
    """Reads how a result is to be read; a word that this library does not know yet is `UNKNOWN`."""
    name = result_pb2.CallOutcome.Name(value) if value in result_pb2.CallOutcome.values() else ""
    return Outcome.__members__.get(name.removeprefix("CALL_OUTCOME_"), Outcome.UNKNOWN)


def state_of(value: call_pb2.CallState.ValueType) -> CallState:
    """Reads the state of a call; one that this library does not know yet is `UNKNOWN`."""
    name = call_pb2.CallState.Name(value) if value in call_pb2.CallState.values() else ""
    return CallState.__members__.get(name.removeprefix("CALL_STATE_"), CallState.UNKNOWN)


def reason_of(value: call_pb2.FailureReason.ValueType) -> FailureReason:
    """Reads why a call failed; a reason that this library does not know yet is `UNKNOWN`."""
    name = call_pb2.FailureReason.Name(value) if value in call_pb2.FailureReason.values() else ""
    return FailureReason.__members__.get(name.removeprefix("FAILURE_REASON_"), FailureReason.UNKNOWN)


def time_of(value: Timestamp) -> datetime:
    """Reads a time, with its zone."""
    return value.ToDatetime(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Attachment:
    """A file that belongs to a result: its bytes, or where to fetch it.

    Attributes:
        mime: The media type.
        data: The bytes, unless there is a `url`.
        url: Where to fetch it.
        filename: The name of the file it came from, or empty.
        id: Unique within the service; empty for one that a lent tool makes.
    """

    mime: str
    data: bytes | None = None
    url: str | None = None
    filename: str = ""
    id: str = ""

    @property
    def link(self) -> str:
        """Where its content is: `url`, or the bytes as a data URL."""
        if self.data is None:
            return self.url or ""
        return f"data:{self.mime};base64,{b64encode(self.data).decode()}"

    @property
    def base64(self) -> str | None:
        """The bytes in base64; `None` where they have to be fetched."""
        if self.data is not None:
            return b64encode(self.data).decode()
        head, _, content = (self.url or "").partition(";base64,")
        return content if content and head.startswith("data:") else None

    @classmethod
    def from_proto(cls, message: call_pb2.Attachment) -> Attachment:
        """Reads the message of the contract."""
        kind = message.WhichOneof("content")
        return cls(
            mime=message.mime,
            data=message.data if kind == "data" else None,
            url=message.url if kind == "url" else None,
            filename=message.filename,
            id=message.attachment_id,
        )

    def to_proto(self) -> call_pb2.Attachment:
        """Makes the message of the contract."""
        message = call_pb2.Attachment(attachment_id=self.id, mime=self.mime, filename=self.filename)
        if self.data is not None:
            message.data = self.data
        elif self.url is not None:
            message.url = self.url
        return message


@dataclass(frozen=True)
class Truncation:
    """What the model sees of the whole output, and where the whole is.

    Attributes:
        truncated: Whether the model sees less than the whole.
        output_id: The stored output, for `Client.output`; empty if nothing was stored.
        path: Its file on the service's machine.
        total_bytes: Bytes of the whole.
        total_lines: Lines of the whole.
    """

    truncated: bool
    output_id: str
    path: str
    total_bytes: int
    total_lines: int


@dataclass(frozen=True)
class Timing:
    """How a call spent its time: queued, waiting for people, running."""

    queued: timedelta
    waited: timedelta
    ran: timedelta


@dataclass(frozen=True)
class Result:
    """How a call ended. A failed call is a result as well: the model must read it.

    Attributes:
        call_id: The call.
        ok: Whether the call completed. It has not if nothing ran because the name of the tool or the JSON was not
            understood; the model reads `error` then.
        title: A short text for people.
        output: The text for the model; empty if the call failed.
        error: Why the call failed, for the model; empty if it completed.
        reason: Why the call failed, for programs; `None` if it completed.
        outcome: How the result is to be read: a command may have ended with another exit code than 0, for instance;
            `None` if the call failed.
        exit_code: The exit code of the command that the call ran; `None` if it ran none, or if a signal ended it.
        metadata: What a front end draws: diffs, exit codes, counts.
        attachments: Files that belong to the result.
        truncation: What was cut, and where the whole is.
        timing: How long it took.
        raw: The message of the contract.
    """

    call_id: str
    ok: bool
    title: str
    output: str
    error: str
    reason: FailureReason | None
    outcome: Outcome | None
    exit_code: int | None
    metadata: JsonObject
    attachments: list[Attachment]
    truncation: Truncation
    timing: Timing
    raw: call_pb2.CallCompleted | call_pb2.CallFailed = field(repr=False)

    @property
    def text(self) -> str:
        """What to give to the model: the output, or why there is none."""
        return self.output if self.ok else self.error

    def raise_for_failure(self) -> Result:
        """Returns the result itself if the call completed.

        Raises:
            CallFailedError: The call failed.
        """
        if not self.ok:
            raise CallFailedError(self)
        return self

    def openai(self, tool_call_id: str) -> JsonObject:
        """Makes the message `tool` of OpenAI's chat completions, which take no images there: they are named."""
        return forms.openai(self, tool_call_id)

    def openai_responses(self, call_id: str) -> JsonObject:
        """Makes the item `function_call_output` of OpenAI's responses, with images and PDF files."""
        return forms.openai_responses(self, call_id)

    def anthropic(self, tool_use_id: str) -> JsonObject:
        """Makes the block `tool_result` of Anthropic's messages, with images and PDF files."""
        return forms.anthropic(self, tool_use_id)

    def gemini(self, name: str, call_id: str = "") -> JsonObject:
        """Makes the part `functionResponse` of Gemini's generateContent, with images and PDF files.

        Args:
            name: The function's name.
            call_id: The call's id, where the model gave one.
        """
        return forms.gemini(self, name, call_id)

    @classmethod
    def from_proto(cls, call_id: str, message: call_pb2.CallCompleted | call_pb2.CallFailed) -> Result:
        """Reads either terminal message of the contract."""
        reason: FailureReason | None = None
        outcome: Outcome | None = None
        exit_code: int | None = None
        output, error = "", ""
        if isinstance(message, call_pb2.CallFailed):
            reason, error = reason_of(message.reason), message.error
        elif message.outcome == result_pb2.CALL_OUTCOME_INVALID:
            # In the record it is a result, for the model to read; nothing ran, so to programs it is none.
            reason, error = FailureReason.INVALID_ARGUMENTS, message.output
        else:
            output, outcome = message.output, outcome_of(message.outcome)
            if message.HasField("command") and message.command.HasField("exit_code"):
                exit_code = message.command.exit_code
        truncation, timing = message.truncation, message.timing
        return cls(
            call_id=call_id,
            ok=reason is None,
            title=message.title,
            output=output,
            error=error,
            reason=reason,
            outcome=outcome,
            exit_code=exit_code,
            metadata=from_struct(message.metadata),
            attachments=[Attachment.from_proto(one) for one in message.attachments],
            truncation=Truncation(
                truncated=truncation.truncated,
                output_id=truncation.output_id,
                path=truncation.path,
                total_bytes=truncation.total_bytes,
                total_lines=truncation.total_lines,
            ),
            timing=Timing(
                queued=timing.queued.ToTimedelta(), waited=timing.waited.ToTimedelta(), ran=timing.ran.ToTimedelta()
            ),
            raw=message,
        )


@dataclass(frozen=True)
class ListeningPort:
    """A TCP port of the service's machine that a program of a call listens on.

    Attributes:
        port: The port.
        address: The address that it listens on: `127.0.0.1`, or `0.0.0.0` or `::` for all.
        pid: A process that listens there.
        command: The command line of that process, cut at 512 bytes.
    """

    port: int
    address: str
    pid: int
    command: str

    @classmethod
    def from_proto(cls, message: call_pb2.ListeningPort) -> ListeningPort:
        """Reads the message of the contract."""
        return cls(message.port, message.address, message.pid, message.command)


@dataclass(frozen=True)
class Call:
    """The record of a call.

    Attributes:
        id: The call's id.
        tool: The tool that ran; `invalid` if the name or the JSON could not be understood.
        state: Where it is.
        title: A short text for people, from admission on.
        summary: What it touches, one line: a command, a path, a URL, a pattern.
        session: Its session.
        workspace: Its workspace.
        agent: Its agent.
        input_json: The frozen input, canonical JSON; empty in listings.
        waiting_prompt_id: The prompt it waits on, or empty.
        last_sequence: The number of its last event.
        created: When it was admitted.
        ended: When it ended; `None` while it runs.
        result: How it ended; `None` while it runs. In listings without output, metadata and attachments.
        listening: What its programs listen on at this moment; empty in listings.
        raw: The message of the contract, which has more.
    """

    id: str
    tool: str
    state: CallState
    title: str
    summary: str
    session: str
    workspace: str
    agent: str
    input_json: str
    waiting_prompt_id: str
    last_sequence: int
    created: datetime
    ended: datetime | None
    result: Result | None
    listening: list[ListeningPort]
    raw: call_pb2.Call = field(repr=False)

    @classmethod
    def from_proto(cls, message: call_pb2.Call) -> Call:
        """Reads the message of the contract."""
        ending = message.WhichOneof("ending")
        result = None
        if ending is not None:
            result = Result.from_proto(message.call_id, message.completed if ending == "completed" else message.failed)
        return cls(
            id=message.call_id,
            tool=message.tool,
            state=state_of(message.state),
            title=message.title,
            summary=message.summary,
            session=message.context.session_id,
            workspace=message.context.workspace,
            agent=message.context.agent,
            input_json=message.input_json,
            waiting_prompt_id=message.waiting_prompt_id,
            last_sequence=message.last_sequence,
            created=time_of(message.create_time),
            ended=time_of(message.end_time) if message.HasField("end_time") else None,
            result=result,
            listening=[ListeningPort.from_proto(one) for one in message.listening],
            raw=message,
        )


@dataclass(frozen=True)
class InputState:
    """How far the standard input of a running call has come.

    Attributes:
        next_offset: The number of bytes accepted so far.
        closed: Whether nothing more is accepted.
    """

    next_offset: int
    closed: bool
