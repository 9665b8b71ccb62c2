"""What MCP servers of a workspace offer beside tools: resources and prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from toolgate.calls import Unattended, call_options
from toolgate.v1 import call_pb2, mcp_service_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
    from datetime import timedelta

    from toolgate._connection import Connection

T = TypeVar("T")


class _Page(Protocol):
    @property
    def omitted(self) -> Iterable[mcp_service_pb2.McpOmission]: ...

    @property
    def next_page_token(self) -> str: ...


class McpListing(Generic[T]):
    """What MCP servers have, as an asynchronous iterator, fetched page by page. `await` it for all of it."""

    def __init__(self, fetch: Callable[[str], Awaitable[tuple[Iterable[T], _Page]]]) -> None:
        self._fetch = fetch
        self._omitted: list[mcp_service_pb2.McpOmission] | None = None

    @property
    def omitted(self) -> list[mcp_service_pb2.McpOmission]:
        """The servers whose entries are left out, and why; none in the list of one server, which fails instead.

        Raises:
            RuntimeError: Nothing was fetched yet.
        """
        if self._omitted is None:
            raise RuntimeError("what is left out comes with the first page; iterate first")
        return self._omitted

    async def all(self) -> list[T]:
        """Returns the entries of all pages: by server, in the order of the configuration."""
        return [entry async for entry in self]

    def __await__(self) -> Generator[object, None, list[T]]:
        return self.all().__await__()

    async def __aiter__(self) -> AsyncIterator[T]:
        token = ""
        while True:
            entries, page = await self._fetch(token)
            self._omitted = list(page.omitted)
            for entry in entries:
                yield entry
            if not (token := page.next_page_token):
                return


class McpServers:
    """The MCP servers of a workspace, in the name of a session and an agent, whose rules for `read` decide.

    Lists and completions ask nobody: what a person would have to be asked about is refused with the reason
    PERMISSION_NEEDED, and what a rule denies is not in lists. `read` and `prompt` are calls: they may ask a person,
    for as long as that takes, and are recorded. Nothing that a server says is to be trusted.
    """

    def __init__(
        self,
        connection: Connection,
        context: call_pb2.CallContext,
        unattended: Unattended,
        wait_timeout: float | timedelta | None,
    ) -> None:
        self._connection = connection
        self._context = context
        self._unattended = unattended
        self._wait_timeout = wait_timeout

    def resources(self, server: str = "") -> McpListing[mcp_service_pb2.McpResource]:
        """Lists the resources.

        Args:
            server: The server, as the configuration names it; all if empty.
        """

        async def fetch(token: str) -> tuple[Iterable[mcp_service_pb2.McpResource], _Page]:
            request = mcp_service_pb2.ListMcpResourcesRequest(context=self._context, server=server, page_token=token)
            page = await self._connection.unary(
                lambda stubs, timeout: stubs.mcp.ListMcpResources(request, timeout=timeout)
            )
            return page.resources, page

        return McpListing(fetch)

    def templates(self, server: str = "") -> McpListing[mcp_service_pb2.McpResourceTemplate]:
        """Lists the templates from which addresses of resources are made.

        Args:
            server: The server, as the configuration names it; all if empty.
        """

        async def fetch(token: str) -> tuple[Iterable[mcp_service_pb2.McpResourceTemplate], _Page]:
            request = mcp_service_pb2.ListMcpResourceTemplatesRequest(
                context=self._context, server=server, page_token=token
            )
            page = await self._connection.unary(
                lambda stubs, timeout: stubs.mcp.ListMcpResourceTemplates(request, timeout=timeout)
            )
            return page.templates, page

        return McpListing(fetch)

    def prompts(self, server: str = "") -> McpListing[mcp_service_pb2.McpPrompt]:
        """Lists the prompts.

        Args:
            server: The server, as the configuration names it; all if empty.
        """

        async def fetch(token: str) -> tuple[Iterable[mcp_service_pb2.McpPrompt], _Page]:
            request = mcp_service_pb2.ListMcpPromptsRequest(context=self._context, server=server, page_token=token)
            page = await self._connection.unary(
                lambda stubs, timeout: stubs.mcp.ListMcpPrompts(request, timeout=timeout)
            )
            return page.prompts, page

        return McpListing(fetch)

    async def read(
        self, server: str, uri: str, *, call_id: str | None = None
    ) -> mcp_service_pb2.ReadMcpResourceResponse:
        """Reads a resource, and returns its contents and the id of the call.

        Args:
            server: The server, as the configuration names it.
            uri: The address; the server need not have listed it.
            call_id: The call's id; a UUIDv7 is made if there is none.
        """
        request = mcp_service_pb2.ReadMcpResourceRequest(call=self._call(call_id), server=server, uri=uri)
        return await self._connection.make_call(lambda stubs: stubs.mcp.ReadMcpResource(request))

    async def prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None, *, call_id: str | None = None
    ) -> mcp_service_pb2.GetMcpPromptResponse:
        """Gets a prompt, and returns the messages that the server makes of it, and the id of the call.

        Args:
            server: The server, as the configuration names it.
            name: The prompt.
            arguments: Its arguments. If a required one is missing, the reason is MCP_ARGUMENT_MISSING.
            call_id: The call's id; a UUIDv7 is made if there is none.
        """
        request = mcp_service_pb2.GetMcpPromptRequest(
            call=self._call(call_id), server=server, name=name, arguments=arguments
        )
        return await self._connection.make_call(lambda stubs: stubs.mcp.GetMcpPrompt(request))

    async def complete(
        self,
        server: str,
        argument: str,
        value: str = "",
        *,
        prompt: str | None = None,
        uri_template: str | None = None,
        arguments: Mapping[str, str] | None = None,
    ) -> mcp_service_pb2.CompleteMcpArgumentResponse:
        """Suggests values for an argument of a prompt or of a template, the best first.

        Args:
            server: The server, as the configuration names it.
            argument: The argument.
            value: What is typed of it so far.
            prompt: The prompt whose argument it is.
            uri_template: The template whose argument it is, if it is not a prompt's.
            arguments: Other arguments that are given already.
        """
        if (prompt is None) == (uri_template is None):
            raise ValueError("an argument belongs to a prompt or to a template: name one of them")
        request = mcp_service_pb2.CompleteMcpArgumentRequest(
            context=self._context,
            server=server,
            argument=argument,
            value=value,
            arguments=arguments,
        )
        if prompt is not None:
            request.prompt = prompt
        elif uri_template is not None:
            request.uri_template = uri_template
        return await self._connection.unary(
            lambda stubs, timeout: stubs.mcp.CompleteMcpArgument(request, timeout=timeout)
        )

    def _call(self, call_id: str | None) -> call_pb2.CallStart:
        return call_options(self._context, call_id, self._unattended, self._wait_timeout)
