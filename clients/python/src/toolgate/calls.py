"""The requests that make calls, list them, and bring them input."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import grpc
from google.protobuf import duration_pb2
from pydantic import BaseModel

from toolgate._ids import uuid7
from toolgate._json import to_struct, to_text
from toolgate.definitions import Model
from toolgate.errors import RpcError
from toolgate.results import Call, CallState, InputState
from toolgate.v1 import call_pb2, tool_service_pb2

if TYPE_CHECKING:
    from toolgate._connection import Connection
    from toolgate.execution import OnDisconnect, OutputMode

Unattended: TypeAlias = Literal["refuse", "wait"]
"""What becomes of the prompts of a call that nobody answers.

- `refuse`: the call is refused at once if nobody listens, and when nobody has been listening for 10 seconds.
- `wait`: prompts wait, also for somebody who is not there yet.
"""

_INPUT_PIECE = 256 * 1024


@dataclass(frozen=True)
class CallDefaults:
    """In whose name calls are made that do not say so themselves."""

    workspace: str
    agent: str
    model: Model | str | None
    session: str
    client_kind: str
    client_name: str
    client_id: str

    def context(
        self,
        *,
        workspace: str | None = None,
        agent: str | None = None,
        model: Model | str | None = None,
        session: str | None = None,
        client_kind: str | None = None,
        message_id: str = "",
        parent: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> call_pb2.CallContext:
        """Makes the message of the contract."""
        model = self.model if model is None else model
        if isinstance(model, str):
            model = Model.parse(model)
        return call_pb2.CallContext(
            workspace=self.workspace if workspace is None else workspace,
            session_id=self.session if session is None else session,
            message_id=message_id,
            agent=self.agent if agent is None else agent,
            model=model.to_proto() if model is not None else None,
            client_kind=self.client_kind if client_kind is None else client_kind,
            client_name=self.client_name,
            client_ids=[self.client_id],
            parent_call_id=parent,
            extra=to_struct(extra) if extra is not None else None,
        )


def output_mode(mode: OutputMode) -> call_pb2.OutputMode.ValueType:
    """Makes the value of the contract."""
    return call_pb2.OutputMode.Value(f"OUTPUT_MODE_{mode.upper()}")


def _on_disconnect(choice: OnDisconnect) -> call_pb2.OnDisconnect.ValueType:
    # A call that is to be taken up again must survive a lost connection; leaving it cancels it by a request.
    is_cancelled = choice == "cancel_when_lost"
    return call_pb2.ON_DISCONNECT_CANCEL if is_cancelled else call_pb2.ON_DISCONNECT_KEEP


def execute_request(
    context: call_pb2.CallContext,
    tool: str,
    input: Mapping[str, Any] | BaseModel | str | None,  # noqa: A002 - the word of the contract
    call_id: str | None,
    timeout: float | timedelta | None,
    on_disconnect: OnDisconnect,
    output: OutputMode,
) -> tool_service_pb2.ExecuteToolRequest:
    """Makes the message of the contract."""
    request = tool_service_pb2.ExecuteToolRequest(
        context=context,
        call_id=call_id or uuid7(),
        tool=tool,
        on_disconnect=_on_disconnect(on_disconnect),
        output=output_mode(output),
    )
    if input is not None:
        request.input_json = _input_text(input)
    if timeout is not None:
        request.timeout.CopyFrom(_duration(timeout))
    return request


def evaluate_request(
    context: call_pb2.CallContext,
    tool: str,
    input: Mapping[str, Any] | BaseModel | str | None,  # noqa: A002 - the word of the contract
) -> tool_service_pb2.EvaluateCallRequest:
    """Makes the message of the contract."""
    request = tool_service_pb2.EvaluateCallRequest(context=context, tool=tool)
    if input is not None:
        request.input_json = _input_text(input)
    return request


def call_options(
    context: call_pb2.CallContext,
    call_id: str | None,
    unattended: Unattended,
    wait_timeout: float | timedelta | None,
) -> call_pb2.CallStart:
    """Makes the message of the contract: how a request makes the call that does its work."""
    return call_pb2.CallStart(
        context=context,
        call_id=call_id or uuid7(),
        unattended=call_pb2.Unattended.Value(f"UNATTENDED_{unattended.upper()}"),
        wait_timeout=None if wait_timeout is None else _duration(wait_timeout),
    )


def _duration(time: float | timedelta) -> duration_pb2.Duration:
    duration = duration_pb2.Duration()
    duration.FromTimedelta(time if isinstance(time, timedelta) else timedelta(seconds=time))
    return duration


def _input_text(input: Mapping[str, Any] | BaseModel | str) -> str:  # noqa: A002
    if isinstance(input, str):
        return input
    if isinstance(input, BaseModel):
        return input.model_dump_json(by_alias=True, exclude_none=True)
    return to_text(input)


def revert_request(
    context: call_pb2.CallContext,
    call_id: str,
    revert_call_id: str | None,
    on_disconnect: OnDisconnect,
    *,
    merge: bool,
) -> tool_service_pb2.RevertCallRequest:
    """Makes the message of the contract."""
    return tool_service_pb2.RevertCallRequest(
        context=context,
        call_id=call_id,
        revert_call_id=revert_call_id or uuid7(),
        merge=merge,
        on_disconnect=_on_disconnect(on_disconnect),
    )


async def listed(
    connection: Connection, workspace: str, session: str, states: Iterable[CallState], tools: Iterable[str]
) -> AsyncIterator[Call]:
    """Lists calls, page by page as they are asked for."""
    request = tool_service_pb2.ListCallsRequest(
        workspace=workspace,
        session_id=session,
        states=[call_pb2.CallState.Value(f"CALL_STATE_{one.name}") for one in states],
        tools=tools,
    )
    while True:
        response = await connection.unary(lambda stubs, timeout: stubs.tools.ListCalls(request, timeout=timeout))
        for call in response.calls:
            yield Call.from_proto(call)
        if not response.next_page_token:
            return
        request.page_token = response.next_page_token


async def send_input(
    connection: Connection, call_id: str, data: bytes | str, offset: int | None, *, close: bool
) -> InputState:
    """Sends input piece by piece, and waits while the program does not read."""
    data = data.encode() if isinstance(data, str) else data
    if offset is None:
        offset = (await _send_piece(connection, tool_service_pb2.SendInputRequest(call_id=call_id))).next_offset
    pieces = [data[start : start + _INPUT_PIECE] for start in range(0, len(data), _INPUT_PIECE)] or [b""]
    state = InputState(offset, closed=False)
    for number, piece in enumerate(pieces, start=1):
        request = tool_service_pb2.SendInputRequest(
            call_id=call_id, offset=offset, data=piece, close=close and number == len(pieces)
        )
        state = await _send_piece(connection, request)
        offset += len(piece)
    return state


async def _send_piece(connection: Connection, request: tool_service_pb2.SendInputRequest) -> InputState:
    while True:
        try:
            response = await connection.unary(lambda stubs, timeout: stubs.tools.SendInput(request, timeout=timeout))
        except RpcError as error:
            # However long the program does not read, what is sent stays in order and counts once.
            if error.code is not grpc.StatusCode.RESOURCE_EXHAUSTED or error.retry_delay is None:
                raise
            await asyncio.sleep(error.retry_delay)
        else:
            return InputState(response.next_offset, response.closed)
