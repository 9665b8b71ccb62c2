"""Which of the values that a graph was resumed with is a decision about which prompt.

LangGraph gives the values of a task to whoever asks first, by counting. Where a node runs several calls at once, as
`ToolNode` does, that may be another call than the one that a person was shown. So a value counts for the prompt that it
names as `prompt`. One that names none counts for the prompt that the task was stopped for last, which the checkpoint
says, and only if it came after that. LangGraph keeps the value of a plain `Command(resume=…)`, and gives it once more
when a graph goes on without any; so one that is like the one before it has to name its prompt, or come by the
interrupt's id.

*Invariant:* a value that may be meant for another prompt decides nothing: the graph is interrupted again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

_NO_TASK = "00000000-0000-0000-0000-000000000000"
_INTERRUPT = "__interrupt__"
_RESUME = "__resume__"

# LangGraph's own counting does not expect several threads at the same time.
_counting = threading.Lock()


@dataclass(frozen=True)
class Stop:
    """What a task was stopped for last.

    Attributes:
        shown: The value of the interrupt.
        is_resumed_plainly: Whether the checkpoint has a value that was given without the id of an interrupt.
    """

    shown: Mapping[str, Any]
    is_resumed_plainly: bool


# What tasks were stopped for before they were resumed, by something that a task has anew each time that it runs.
_stops: WeakKeyDictionary[Any, Stop | None] = WeakKeyDictionary()


# How often each call was made without an id of the model, since a task began to run.
_made: WeakKeyDictionary[Any, Counter[str]] = WeakKeyDictionary()


def count(configurable: Mapping[str, Any], call_id: str) -> int | None:
    """Returns how often a task has made a call before, since it began to run; `None` where no task is known.

    A task that is resumed runs from its beginning, and makes the same calls in the same order.
    """
    attempt = configurable.get("__pregel_read")
    if attempt is None:
        return None
    with _counting:
        made = _made.setdefault(attempt, Counter())
        made[call_id] += 1
        return made[call_id] - 1


class Saved:
    """What the checkpointer has of a task.

    It is read once for all calls of the task: when one of them interrupts it again, the checkpoint says something else.
    """

    def __init__(self, configurable: Mapping[str, Any]) -> None:
        self._attempt: Any = configurable.get("__pregel_read")
        self._saver: Any = configurable.get("__pregel_checkpointer")
        outer, _, own = str(configurable.get("checkpoint_ns") or "").rpartition("|")
        self._task = own.rpartition(":")[2]
        self._at = {
            "configurable": {
                "thread_id": configurable.get("thread_id"),
                "checkpoint_ns": outer,
                "checkpoint_id": (configurable.get("checkpoint_map") or {}).get(outer),
            }
        }

    def read(self) -> Stop | None:
        """Returns what the task was stopped for last, as far as it is known; in a plain program."""
        if not self._is_known():
            return None
        if self._attempt in _stops:
            return _stops[self._attempt]
        return self._stop_in(self._saver.get_tuple(self._at))

    async def aread(self) -> Stop | None:
        """Returns what the task was stopped for last, as far as it is known; with asyncio."""
        if not self._is_known():
            return None
        if self._attempt in _stops:
            return _stops[self._attempt]
        return self._stop_in(await self._saver.aget_tuple(self._at))

    def _is_known(self) -> bool:
        return (
            self._attempt is not None
            and hasattr(self._saver, "get_tuple")
            and self._at["configurable"]["checkpoint_id"] is not None
        )

    def _stop_in(self, saved: Any) -> Stop | None:
        writes = (saved.pending_writes if saved is not None else None) or ()
        found = [value for task, channel, value in writes if task == self._task and channel == _INTERRUPT]
        interrupts: Any = found[-1] if found else ()
        value = getattr(interrupts[0], "value", None) if len(interrupts) == 1 else None
        is_plain = any(task == _NO_TASK and channel == _RESUME for task, channel, _ in writes)
        stop = Stop(value if isinstance(value, Mapping) else {}, is_plain) if value is not None else None
        return _stops.setdefault(self._attempt, stop)


class Task:
    """The task of a graph that a call runs in, and the values that it was resumed with."""

    def __init__(self) -> None:
        from langgraph.config import get_config

        configurable: Mapping[str, Any] = get_config().get("configurable") or {}
        self._scratchpad: Any = configurable.get("__pregel_scratchpad")
        self._is_resumed_plainly = self._scratchpad is not None and self._scratchpad.get_null_resume(False) is not None
        self.saved = Saved(configurable)

    @property
    def is_resumed(self) -> bool:
        """Whether there may be a value for it."""
        return bool(self._values()) or self._is_resumed_plainly

    def pass_one(self, value: dict[str, Any]) -> None:
        """Counts a prompt that is decided, so that what comes after it finds its own value.

        Raises:
            GraphInterrupt: The task was not resumed yet.
        """
        from langgraph.errors import GraphBubbleUp
        from langgraph.types import interrupt

        with _counting:
            try:
                interrupt(value)
            except GraphBubbleUp:
                # Another call of the task has counted all of them.
                if not self._values():
                    raise

    def answer(self, value: dict[str, Any], stop: Stop | None) -> object:
        """Returns what was said about the prompt in `value`, which is open.

        Args:
            value: Of the interrupt.
            stop: What the task was stopped for last.

        Raises:
            GraphInterrupt: Nothing was said about it.
        """
        from langgraph.errors import GraphBubbleUp
        from langgraph.types import interrupt

        asked = value["toolgate"]
        with _counting:
            try:
                while True:
                    # What comes after an open prompt was not reached yet, so all values are of now or before.
                    interrupt(value)
            except GraphBubbleUp:
                values = self._values()
                named = [one for one in values if _named(one) == asked["id"]]
                if named:
                    return named[-1]
                asked["answered"] = len(values)
                if values and _named(values[-1]) is None:
                    if self._is_for(asked["id"], values, stop):
                        return values[-1]
                    asked["note"] = 'what was said last may be about another prompt: say the id of this one as "prompt"'
                raise

    def _is_for(self, prompt: str, values: list[Any], stop: Stop | None) -> bool:
        """Says whether the last value, which names no prompt, was given when this one was shown."""
        shown = stop.shown.get("toolgate") if stop is not None else None
        if stop is None or not isinstance(shown, Mapping):
            return False
        if shown.get("id") != prompt or shown.get("answered") != len(values) - 1:
            return False
        is_plain = self._is_resumed_plainly or stop.is_resumed_plainly
        return not (is_plain and len(values) > 1 and values[-1] == values[-2])

    def _values(self) -> list[Any]:
        return list(self._scratchpad.resume) if self._scratchpad is not None else []


def _named(said: object) -> str | None:
    """Returns the id of the prompt that a value says it is about; `None` if it says nothing of that."""
    if not isinstance(said, Mapping):
        return None
    decisions = said.get("decisions")
    if "prompt" not in said and isinstance(decisions, list) and len(decisions) == 1:
        return _named(decisions[0])
    return str(said["prompt"]) if "prompt" in said else None
