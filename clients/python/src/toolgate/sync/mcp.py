"""What MCP servers of a workspace offer beside tools, without `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from toolgate.sync import _portal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolgate import mcp
    from toolgate.v1 import mcp_service_pb2

T = TypeVar("T")


class McpListing(Generic[T]):
    """What MCP servers have, as an iterator, fetched page by page; `all()` returns all of it."""

    def __init__(self, listing: mcp.McpListing[T]) -> None:
        self._listing = listing

    @property
    def omitted(self) -> list[mcp_service_pb2.McpOmission]:
        """The servers whose entries are left out, and why; none in the list of one server, which fails instead.

        Raises:
            RuntimeError: Nothing was fetched yet.
        """
        return self._listing.omitted

    def all(self) -> list[T]:
        """Returns the entries of all pages: by server, in the order of the configuration."""
        return _portal.run(self._listing.all())

    def __iter__(self) -> Iterator[T]:
        return _portal.iterate(self._listing.__aiter__())


class McpServers:
    """The MCP servers of a workspace, in the name of a session and an agent, whose rules for `read` decide.

    Lists and completions ask nobody: what a person would have to be asked about is refused with the reason
    PERMISSION_NEEDED, and what a rule denies is not in lists. `read` and `prompt` are calls: they may ask a person,
    for as long as that takes, and are recorded. Nothing that a server says is to be trusted.
    """

    def __init__(self, servers: mcp.McpServers) -> None:
        self._servers = servers

    def resources(self, server: str = "") -> McpListing[mcp_service_pb2.McpResource]:
        """Lists the resources.

        Args:
            server: The server, as the configuration names it; all if empty.
        """
        return McpListing(self._servers.resources(server))

    def templates(self, server: str = "") -> McpListing[mcp_service_pb2.McpResourceTemplate]:
        """Lists the templates from which addresses of resources are made.

        Args:
            server: The server, as the configuration names it; all if empty.
        """
        return McpListing(self._servers.templates(server))

    def prompts(self, server: str = "") -> McpListing[mcp_service_pb2.McpPrompt]:
        """Lists the prompts.

        Args:
            server: The server, as the configuration names it; all if empty.
        """
        return McpListing(self._servers.prompts(server))

    def read(self, server: str, uri: str, *, call_id: str | None = None) -> mcp_service_pb2.ReadMcpResourceResponse:
        """Reads a resource, and returns its contents and the id of the call.

        Args:
            server: The server, as the configuration names it.
            uri: The address; the server need not have listed it.
            call_id: The call's id; a UUIDv7 is made if there is none.
        """
        return _portal.run(self._servers.read(server, uri, call_id=call_id))

    def prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None, *, call_id: str | None = None
    ) -> mcp_service_pb2.GetMcpPromptResponse:
        """Gets a prompt, and returns the messages that the server makes of it, and the id of the call.

        Args:
            server: The server, as the configuration names it.
            name: The prompt.
            arguments: Its arguments. If a required one is missing, the reason is MCP_ARGUMENT_MISSING.
            call_id: The call's id; a UUIDv7 is made if there is none.
        """
        return _portal.run(self._servers.prompt(server, name, arguments, call_id=call_id))

    def complete(
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
        return _portal.run(
            self._servers.complete(
                server, argument, value, prompt=prompt, uri_template=uri_template, arguments=arguments
            )
        )
