"""The model: chat completions of any OpenAI-compatible endpoint, streamed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from typing_extensions import Self

Json = dict[str, Any]


class ModelError(Exception):
    """The endpoint refused a request, or broke off."""


@dataclass
class ToolCall:
    """A call that the model wants. The arguments are its own words, which need not be JSON."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class Reply:
    """One message of the model, put together from the pieces in which it comes."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)

    def add(self, delta: Json) -> str:
        """Takes a piece, and returns the text in it."""
        text: str = delta.get("content") or ""
        self.text += text
        for part in delta.get("tool_calls") or ():
            # Some servers leave the index out and send each call whole.
            index = part.get("index", len(self.calls))
            while len(self.calls) <= index:
                self.calls.append(ToolCall(id=f"call_{len(self.calls)}"))
            call, function = self.calls[index], part.get("function") or {}
            call.id = part.get("id") or call.id
            call.name += function.get("name") or ""
            call.arguments += function.get("arguments") or ""
        return text

    def message(self) -> Json:
        """Returns it as the next request repeats it."""
        message: Json = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = [
                {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
                for one in self.calls
            ]
        return message


class Model:
    """A model behind an endpoint. Closes its connections at the end of `async with`."""

    def __init__(self, base_url: str, key: str, name: str) -> None:
        self.name = name
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(30.0, read=600.0),  # models think
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def stream(self, messages: Sequence[Json], tools: Sequence[Json], reply: Reply) -> AsyncGenerator[str, None]:
        """Yields the text as it comes. `reply` is what has come so far, and is the whole message at the end."""
        request: Json = {"model": self.name, "messages": messages, "stream": True}
        if tools:
            request["tools"] = tools
        try:
            async with self._http.stream("POST", "/chat/completions", json=request) as response:
                if response.is_error:
                    body = (await response.aread()).decode(errors="replace")
                    raise ModelError(f"the model's endpoint answers {response.status_code}: {body[:500]}")
                finished = False
                async for data in _events(response):
                    if data == "[DONE]":
                        return
                    chunk: Json = json.loads(data)
                    if chunk.get("error"):
                        raise ModelError(f"the model failed: {json.dumps(chunk['error'])[:500]}")
                    for choice in chunk.get("choices") or ():
                        finished = finished or bool(choice.get("finish_reason"))
                        if text := reply.add(choice.get("delta") or {}):
                            yield text
        except (httpx.HTTPError, ValueError) as error:
            raise ModelError(f"the model cannot be heard: {str(error) or type(error).__name__}") from error
        if not finished:
            raise ModelError("the model's answer broke off")


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    # Not `aiter_lines`: it also splits where a text holds U+2028 and its like.
    rest = b""
    async for data in response.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[len(b"data:") :].decode().strip()
