"""Listing tools and watching events, without `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.sync import _portal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

    from toolgate import listing, watching
    from toolgate._json import JsonObject
    from toolgate.definitions import ToolDefinition
    from toolgate.events import WorkspaceEvent


class ToolListing:
    """The tools that an agent may use: iterate over them, or ask for the form of a model API.

    A form is made for the model that was named. Where none was, the tools are listed for the models of that API's
    provider: it decides which tools there are and what their schemas may hold.
    """

    def __init__(self, listing: listing.ToolListing) -> None:
        self._listing = listing

    def all(self) -> list[ToolDefinition]:
        """Returns the definitions, in the order in which models are told of them."""
        return _portal.run(self._listing.all())

    def __iter__(self) -> Iterator[ToolDefinition]:
        return iter(self.all())

    def openai(self) -> list[JsonObject]:
        """Returns the list `tools` of OpenAI's chat completions."""
        return _portal.run(self._listing.openai())

    def openai_responses(self) -> list[JsonObject]:
        """Returns the list `tools` of OpenAI's responses."""
        return _portal.run(self._listing.openai_responses())

    def anthropic(self) -> list[JsonObject]:
        """Returns the list `tools` of Anthropic's messages."""
        return _portal.run(self._listing.anthropic())

    def gemini(self) -> list[JsonObject]:
        """Returns the list `tools` of Gemini's generateContent."""
        return _portal.run(self._listing.gemini())


class WorkspaceEvents:
    """What happens in the workspaces, as an iterator. It ends with an error when the connection is lost."""

    def __init__(self, events: watching.WorkspaceEvents) -> None:
        self._events = events

    @property
    def last_sequence(self) -> int | None:
        """The number of the last event seen; `None` before the first."""
        return self._events.last_sequence

    def __iter__(self) -> Iterator[WorkspaceEvent]:
        return _portal.iterate(self._events)

    def __enter__(self) -> Self:
        """Returns when the server watches: what happens from then on is seen."""
        _portal.run(self._events.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _portal.run(self._events.__aexit__(kind, error, trace))
