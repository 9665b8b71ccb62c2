"""How a client says who it is: the bearer token, and the interceptors that show it with each request."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc

if TYPE_CHECKING:
    from grpc.aio import ClientCallDetails, ClientInterceptor

Token: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A token, or a function that returns one that is good now; it is called for each request."""


def token_from_environment() -> Token | None:
    """Returns TOOLGATE_TOKEN, or what the file of TOOLGATE_TOKEN_FILE holds whenever it is needed."""
    if token := os.environ.get("TOOLGATE_TOKEN"):
        return token
    if path := os.environ.get("TOOLGATE_TOKEN_FILE"):
        return Path(path).read_text
    return None


def interceptors(token: Token | None) -> list[ClientInterceptor]:
    """Returns what shows the token with each request, whatever its shape."""
    if token is None:
        return []
    bearer = _Bearer(token)
    return [_Unary(bearer), _Streaming(bearer), _Uploading(bearer), _Bidirectional(bearer)]


class _Bearer:
    def __init__(self, token: Token) -> None:
        self._token = token

    async def add(self, details: ClientCallDetails) -> ClientCallDetails:
        token = self._token if isinstance(self._token, str) else self._token()
        if inspect.isawaitable(token):
            token = await token
        metadata = grpc.aio.Metadata(*(details.metadata or ()))
        metadata.add("authorization", f"Bearer {str(token).strip()}")
        return grpc.aio.ClientCallDetails(
            method=details.method,
            timeout=details.timeout,
            metadata=metadata,
            credentials=details.credentials,
            wait_for_ready=details.wait_for_ready,
        )


class _Unary(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc,unused-ignore]
    def __init__(self, bearer: _Bearer) -> None:
        self._bearer = bearer

    async def intercept_unary_unary(
        self, continuation: Any, client_call_details: ClientCallDetails, request: Any
    ) -> Any:
        return await continuation(await self._bearer.add(client_call_details), request)


class _Streaming(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc,unused-ignore]
    def __init__(self, bearer: _Bearer) -> None:
        self._bearer = bearer

    async def intercept_unary_stream(
        self, continuation: Any, client_call_details: ClientCallDetails, request: Any
    ) -> Any:
        return await continuation(await self._bearer.add(client_call_details), request)


class _Uploading(grpc.aio.StreamUnaryClientInterceptor):  # type: ignore[misc,unused-ignore]
    def __init__(self, bearer: _Bearer) -> None:
        self._bearer = bearer

    async def intercept_stream_unary(
        self, continuation: Any, client_call_details: ClientCallDetails, request_iterator: Any
    ) -> Any:
        return await continuation(await self._bearer.add(client_call_details), request_iterator)


class _Bidirectional(grpc.aio.StreamStreamClientInterceptor):  # type: ignore[misc,unused-ignore]
    def __init__(self, bearer: _Bearer) -> None:
        self._bearer = bearer

    async def intercept_stream_stream(
        self, continuation: Any, client_call_details: ClientCallDetails, request_iterator: Any
    ) -> Any:
        return await continuation(await self._bearer.add(client_call_details), request_iterator)
