"""A call that is executed or watched, without `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.sync import _portal

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from toolgate import execution
    from toolgate.events import Event
    from toolgate.results import Call, Result


class Execution:
    """A call, as an iterator over its events. It begins when the first event or the result is asked for.

    Ctrl-C cancels the call. Use it in `with` where it may be left before its end; one that is forgotten is cancelled
    when Python notices.

    Attributes:
        call_id: The call's id.
    """

    def __init__(self, execution: execution.Execution) -> None:
        self.call_id = execution.call_id
        self._execution = execution

    @property
    def last_sequence(self) -> int:
        """The number of the last event seen: from where `Client.watch` goes on."""
        return self._execution.last_sequence

    @property
    def has_ended(self) -> bool:
        """Whether the terminal event was seen."""
        return self._execution.has_ended

    def detach(self) -> None:
        """Lets the call go on when this execution is left: as `on_disconnect="keep"`, from now on."""
        self._execution.detach()

    def __iter__(self) -> Execution:
        return self

    def __next__(self) -> Event:
        event = _portal.run(self._next())
        if event is None:
            raise StopIteration
        return event

    def result(self) -> Result:
        """Returns how the call ended, when it has; events that were not iterated over are passed by."""
        return _portal.run(self._execution.result())

    def cancel(self) -> Call | None:
        """Stops the call, and returns when it has ended. May be called from another thread than the one that iterates.

        Returns:
            The record of the call; `None` if it was never started.
        """
        return _portal.run(self._execution.cancel())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _portal.run(self._execution.leave())

    async def _next(self) -> Event | None:
        # A coroutine cannot raise StopAsyncIteration through a future.
        try:
            return await self._execution.__anext__()
        except StopAsyncIteration:
            return None
