"""What goes wrong, as exceptions.

Two layers are never mixed. `RpcError` says that a request failed or that a call was never admitted. A call that was
admitted and failed is a result (`Result.ok` is false), which becomes `CallFailedError` only where that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import grpc
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toolgate.results import Result

_DOMAIN = "toolgate"
_DETAILS = "grpc-status-details-bin"

# What a transport, and not the service, says of a connection that is gone.
_LOST = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
)

_HINTS = {
    grpc.StatusCode.UNAVAILABLE: "is `toolgate serve` running there? The target is an argument, or TOOLGATE_SERVER",
    grpc.StatusCode.UNAUTHENTICATED: "pass token=…, or set TOOLGATE_TOKEN or TOOLGATE_TOKEN_FILE",
    grpc.StatusCode.DEADLINE_EXCEEDED: "the server did not answer in time; pass a longer timeout=… if it is busy",
    grpc.StatusCode.UNIMPLEMENTED: "the server is older than this library, or it is not Toolgate",
}


class ToolgateError(Exception):
    """Anything that this library reports as gone wrong."""


class RpcError(ToolgateError):
    """A request failed, or a call was never admitted.

    Attributes:
        code: The gRPC status code.
        message: What the server, or the transport, said.
        reason: The stable word for why (`reason` of `google.rpc.ErrorInfo`), or empty.
        metadata: What belongs to the reason, such as the scope that is missing.
        retry_delay: How many seconds to wait before another attempt; `None` if the server did not suggest one.
        violations: For each wrong field its name and what is wrong with it.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_delay: float | None = None,
        violations: Iterable[tuple[str, str]] = (),
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.retry_delay = retry_delay
        self.violations = list(violations)

    def __str__(self) -> str:
        hint = "" if self.reason else _HINTS.get(self.code, "")
        text = f"{self.message or 'no reason given'} ({self.code.name}{': ' + self.reason if self.reason else ''})"
        return f"{text}; {hint}" if hint else text

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later: the connection was lost, or the server said when to try again."""
        if self.reason:
            return self.code is grpc.StatusCode.UNAVAILABLE or self.retry_delay is not None
        return self.code in _LOST

    @classmethod
    def from_grpc(cls, error: grpc.RpcError) -> RpcError:
        """Reads an error of grpcio, with the details of `google.rpc` that it carries."""
        failed = cast("grpc.aio.AioRpcError", error)
        result = cls(failed.code(), failed.details() or "")
        for key, value in failed.trailing_metadata() or ():
            if key == _DETAILS and isinstance(value, bytes):
                result._read_details(value)
        return result

    def _read_details(self, data: bytes) -> None:
        for detail in status_pb2.Status.FromString(data).details:
            info, retry, bad = (
                error_details_pb2.ErrorInfo(),
                error_details_pb2.RetryInfo(),
                error_details_pb2.BadRequest(),
            )
            if detail.Unpack(info) and info.domain == _DOMAIN:
                self.reason = info.reason
                self.metadata = dict(info.metadata)
            elif detail.Unpack(retry):
                self.retry_delay = retry.retry_delay.ToTimedelta().total_seconds()
            elif detail.Unpack(bad):
                self.violations.extend((one.field, one.description) for one in bad.field_violations)


class CursorTooOldError(RpcError):
    """What happened to files since the cursor is not known any more: list the folder, and watch it without a cursor."""


class CallFailedError(ToolgateError):
    """A call ended without a result, and somebody asked for an exception then.

    Attributes:
        result: The result that says why.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(result.error)
        self.result = result

    def __str__(self) -> str:
        reason = self.result.reason
        return f"{self.result.error} ({reason.name if reason else 'FAILED'})"


class ToolFailure(ToolgateError):  # noqa: N818 - not an error of the library, but how a lent tool says that it failed
    """Raised by a lent tool to fail with a text for the model, which should say what to do next."""


class PermissionRefused(ToolFailure):
    """A permission that a lent tool asked for was refused. Unless it is caught, it is what the model reads."""
