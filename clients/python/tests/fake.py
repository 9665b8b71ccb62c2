"""A server in the test's own process that says what the test tells it, and breaks streams when it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
from google.protobuf import any_pb2, duration_pb2, message_factory
from google.rpc import error_details_pb2, status_pb2
from typing_extensions import Self

from toolgate.v1 import (
    call_pb2,
    file_service_pb2,
    host_service_pb2,
    mcp_service_pb2,
    output_service_pb2,
    permission_service_pb2,
    port_service_pb2,
    session_service_pb2,
    tool_service_pb2,
    workspace_service_pb2,
)

Context: TypeAlias = Any
_FILES = (
    tool_service_pb2,
    permission_service_pb2,
    host_service_pb2,
    mcp_service_pb2,
    output_service_pb2,
    session_service_pb2,
    workspace_service_pb2,
    file_service_pb2,
    port_service_pb2,
)


class Fake:
    """Each RPC does what the next of its scripts says; the last one is for all that follow."""

    def __init__(self, **scripts: list[Any]) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.metadata: list[dict[str, str]] = []
        self.target = ""
        self._scripts = scripts
        self._server = grpc.aio.server()
        for file in _FILES:
            for service in file.DESCRIPTOR.services_by_name.values():
                handlers = {one.name: self._handler(one) for one in service.methods if one.name in scripts}
                self._server.add_generic_rpc_handlers(
                    (grpc.method_handlers_generic_handler(service.full_name, handlers),)
                )

    def _handler(self, method: Any) -> Any:
        async def streamed(request: Any, context: Context) -> AsyncIterator[Any]:
            async for response in self._next(method.name, request, context)(request, context):
                yield response

        async def answered(request: Any, context: Context) -> Any:
            return await self._next(method.name, request, context)(request, context)

        forms: dict[tuple[bool, bool], Any] = {
            (False, False): (grpc.unary_unary_rpc_method_handler, answered),
            (False, True): (grpc.unary_stream_rpc_method_handler, streamed),
            (True, False): (grpc.stream_unary_rpc_method_handler, answered),
            (True, True): (grpc.stream_stream_rpc_method_handler, streamed),
        }
        make, function = forms[(method.client_streaming, method.server_streaming)]
        return make(
            function,
            request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
            response_serializer=message_factory.GetMessageClass(method.output_type).SerializeToString,
        )

    def _next(self, name: str, request: Any, context: Context) -> Any:
        self.requests.append((name, request))
        self.metadata.append({str(key): str(value) for key, value in context.invocation_metadata()})
        scripts = self._scripts[name]
        return scripts.pop(0) if len(scripts) > 1 else scripts[0]

    def named(self, name: str) -> list[Any]:
        return [request for one, request in self.requests if one == name]

    async def __aenter__(self) -> Self:
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.target = f"http://127.0.0.1:{port}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)


async def refuse(
    context: Context, code: grpc.StatusCode, text: str, reason: str = "", retry: float | None = None
) -> None:
    """Ends an RPC with an error and the details of `google.rpc` that Toolgate gives."""
    status = status_pb2.Status(code=code.value[0], message=text)
    if reason:
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="toolgate", metadata={"scope": "calls.read"}))
        status.details.append(packed)
    if retry is not None:
        delay = duration_pb2.Duration()
        delay.FromNanoseconds(int(retry * 1e9))
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        status.details.append(packed)
    trailing = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(code, text, trailing_metadata=trailing)


async def break_off(context: Context) -> None:
    """Ends an RPC as a lost connection does."""
    await context.abort(grpc.StatusCode.UNAVAILABLE, "connection reset")


def event(sequence: int, kind: str = "metadata", **content: Any) -> call_pb2.CallEvent:
    message = call_pb2.CallEvent(call_id="c", sequence=sequence)
    getattr(message, kind).SetInParent()
    for name, value in content.items():
        setattr(getattr(message, kind), name, value)
    return message


def executed(one: call_pb2.CallEvent) -> tool_service_pb2.ExecuteToolResponse:
    return tool_service_pb2.ExecuteToolResponse(event=one)


def watched(one: call_pb2.CallEvent) -> tool_service_pb2.WatchCallResponse:
    return tool_service_pb2.WatchCallResponse(event=one)
