"""Listing tools, plainly and in the forms of model APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.definitions import Format, ToolDefinition, in_form, model_of
from toolgate.v1 import tool_service_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from toolgate._connection import Connection
    from toolgate._json import JsonObject


class ToolListing:
    """The tools that an agent may use. Await it for the definitions, or ask for the form of a model API.

    A form is made for the model that was named. Where none was, the tools are listed for the models of that API's
    provider: it decides which tools there are and what their schemas may hold.
    """

    def __init__(self, connection: Connection, request: tool_service_pb2.ListToolsRequest) -> None:
        self._connection = connection
        self._request = request

    def __await__(self) -> Generator[object, None, list[ToolDefinition]]:
        return self.all().__await__()

    async def all(self) -> list[ToolDefinition]:
        """Returns the definitions, in the order in which models are told of them."""
        return await self._list(self._request)

    def __aiter__(self) -> AsyncIterator[ToolDefinition]:
        return self._iterate()

    async def openai(self) -> list[JsonObject]:
        """Returns the list `tools` of OpenAI's chat completions."""
        return await self._formed("openai")

    async def openai_responses(self) -> list[JsonObject]:
        """Returns the list `tools` of OpenAI's responses."""
        return await self._formed("openai_responses")

    async def anthropic(self) -> list[JsonObject]:
        """Returns the list `tools` of Anthropic's messages."""
        return await self._formed("anthropic")

    async def gemini(self) -> list[JsonObject]:
        """Returns the list `tools` of Gemini's generateContent."""
        return await self._formed("gemini")

    async def _iterate(self) -> AsyncIterator[ToolDefinition]:
        for tool in await self.all():
            yield tool

    async def _formed(self, form: Format) -> list[JsonObject]:
        request = tool_service_pb2.ListToolsRequest()
        request.CopyFrom(self._request)
        if not request.HasField("model"):
            request.model.CopyFrom(model_of(form).to_proto())
        return in_form(await self._list(request), form)

    async def _list(self, request: tool_service_pb2.ListToolsRequest) -> list[ToolDefinition]:
        page = tool_service_pb2.ListToolsRequest()
        page.CopyFrom(request)
        tools: list[ToolDefinition] = []
        while True:
            response = await self._connection.unary(lambda stubs, timeout: stubs.tools.ListTools(page, timeout=timeout))
            tools.extend(ToolDefinition.from_proto(one) for one in response.tools)
            if not response.next_page_token:
                return tools
            page.page_token = response.next_page_token
