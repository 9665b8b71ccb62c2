"""What a lent function that is not `async` is given."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolgate.errors import ToolFailure
from toolgate.hosting import ToolContext

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from toolgate.v1 import host_service_pb2


@dataclass(frozen=True)
class SyncToolContext:
    """What a lent tool knows of its call, and what it may report while it runs. For functions that are not `async`.

    Attributes:
        invocation_id: Names this run of the function.
        call_id: The call.
        session: The call's session.
        workspace: The call's workspace.
        agent: The call's agent.
        message_id: The model's message that the call belongs to.
        input_json: The input as canonical JSON.
        cancelled: Is set when the call was cancelled; what the function returns then goes nowhere.
        raw: The message of the contract.
    """

    invocation_id: str
    call_id: str
    session: str
    workspace: str
    agent: str
    message_id: str
    input_json: str
    raw: host_service_pb2.HostInvoke | host_service_pb2.HostRunSubagent = field(repr=False)
    cancelled: threading.Event = field(repr=False)
    _context: ToolContext = field(repr=False)
    _loop: asyncio.AbstractEventLoop = field(repr=False)

    def progress(self, title: str | None = None, metadata: Mapping[str, Any] | None = None) -> None:
        """Shows a new title, or new metadata: absent keys stay, and `None` clears a key."""
        self._run(self._context.progress(title, metadata))

    def output(self, data: bytes | str) -> None:
        """Adds to the output of the call, which is shown as it comes."""
        self._run(self._context.output(data))

    def ask(
        self,
        permission: str,
        *patterns: str,
        always: Sequence[str] = (),
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Asks for a permission, by the rules of the call's agent and then of a person.

        Args:
            permission: Its name; any name may be asked for.
            *patterns: What the tool is about to touch; none for `*`.
            always: The patterns that the reply `always` allows from then on.
            title: A short line for the person.
            metadata: What the person should see.

        Raises:
            PermissionRefused: It was refused.
        """
        self._run(self._context.ask(permission, *patterns, always=always, title=title, metadata=metadata))

    def raise_if_cancelled(self) -> None:
        """Ends a function that has nothing left to do: raises `ToolFailure` if the call was cancelled."""
        if self.cancelled.is_set():
            raise ToolFailure("the call was cancelled")

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        if self.cancelled.is_set():
            work.close()
            self.raise_if_cancelled()
        asyncio.run_coroutine_threadsafe(work, self._loop).result()


def for_thread(context: ToolContext) -> SyncToolContext:
    """Makes the context of a function that runs in a thread, in the event loop that waits for it."""
    return SyncToolContext(
        invocation_id=context.invocation_id,
        call_id=context.call_id,
        session=context.session,
        workspace=context.workspace,
        agent=context.agent,
        message_id=context.message_id,
        input_json=context.input_json,
        raw=context.raw,
        cancelled=threading.Event(),
        _context=context,
        _loop=asyncio.get_running_loop(),
    )
