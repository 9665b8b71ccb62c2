"""Lending tools to a server: runs what it asks for, over a stream that is opened again when it breaks.

*Invariant:* an invocation runs once, however often it is sent; its end is told again to a server that asks again.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from toolgate._feed import Outbox
from toolgate._ids import uuid7
from toolgate._json import to_struct, to_text
from toolgate._service import Service
from toolgate._tasks import Tasks, in_thread
from toolgate.errors import PermissionRefused, ToolFailure
from toolgate.hosting import AskRequest, Hook, HookFunction, LentTool, Subagent, SubagentRun, ToolContext, ToolResult
from toolgate.v1 import host_service_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from toolgate._connection import Connection

# Results that are kept in case the server did not hear them. It asks within its grace of some seconds.
_KEPT_RESULTS = 256


@dataclass(frozen=True)
class Refused:
    """A tool or a hook that the server does not use, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Lending:
    """What a host lends, and who is told how it goes.

    Attributes:
        name: How the host is called, for people.
        workspace: The workspace that it lends to; empty for the default one.
        tools: Its tools.
        subagent: Runs subagents; `None` if it runs none.
        subagents: The agents that it can run; none for all.
        hooks: Functions by the name of the point at which they are called.
        on_ready: Is told what was refused, each time that the server has taken the host in.
        on_cancel: Is told the id of each invocation that the server gave up while it ran.
    """

    name: str
    workspace: str = ""
    tools: Sequence[LentTool] = ()
    subagent: Subagent | None = None
    subagents: Sequence[str] = ()
    hooks: Mapping[str, HookFunction] = field(default_factory=dict)
    on_ready: Callable[[list[Refused]], None] | None = None
    on_cancel: Callable[[str], None] | None = None

    def hello(self, token: str) -> host_service_pb2.HostHello:
        """Makes the message that a stream begins with."""
        return host_service_pb2.HostHello(
            name=self.name,
            workspace=self.workspace,
            tools=[one.to_proto() for one in self.tools],
            runs_subagents=self.subagent is not None,
            subagents=self.subagents,
            hooks=list(self.hooks),
            token=token,
        )


class _Invocation:
    """One run of a function: where its context sends what it reports. What is reported after its end is dropped."""

    def __init__(self, invocation_id: str, outbox: Outbox[host_service_pb2.HostRequest]) -> None:
        self.id = invocation_id
        self.task: asyncio.Task[None] | None = None
        self._outbox = outbox
        self._is_open = True
        self._asking: dict[str, tuple[host_service_pb2.HostReport, asyncio.Future[None]]] = {}

    def close(self) -> None:
        """Gives the function up."""
        self._is_open = False
        for _, answer in self._asking.values():
            answer.cancel()
        if self.task is not None:
            self.task.cancel()

    def end(self, report: host_service_pb2.HostReport) -> bool:
        """Reports the end; says whether it counts."""
        was_open, self._is_open = self._is_open, False
        if was_open:
            report.invocation_id = self.id
            self._outbox.put_now(host_service_pb2.HostRequest(report=report))
        return was_open

    def ask_again(self) -> None:
        """Sends the requests for permission again whose answers may be lost."""
        for report, _ in self._asking.values():
            self._outbox.put_now(host_service_pb2.HostRequest(report=report))

    def answer(self, result: host_service_pb2.HostAskResult) -> None:
        """Takes the answer to a request for permission."""
        _, answer = self._asking.get(result.ask_id, (None, None))
        if answer is None or answer.done():
            return
        if result.allowed:
            answer.set_result(None)
        else:
            answer.set_exception(PermissionRefused(result.error))

    async def progress(self, title: str | None, metadata: Mapping[str, Any]) -> None:
        """Reports title and metadata."""
        progress = host_service_pb2.HostProgress(title=title, metadata=to_struct(metadata) if metadata else None)
        await self._report(host_service_pb2.HostReport(invocation_id=self.id, progress=progress))

    async def output(self, data: bytes) -> None:
        """Reports output."""
        output = host_service_pb2.HostOutput(data=data)
        await self._report(host_service_pb2.HostReport(invocation_id=self.id, output=output))

    async def ask(self, ask: AskRequest) -> None:
        """Asks for a permission."""
        if not self._is_open:
            raise ToolFailure("the call has ended")
        request = host_service_pb2.HostAsk(
            ask_id=uuid7(),
            permission=ask.permission,
            patterns=ask.patterns,
            always=ask.always,
            title=ask.title,
            metadata=to_struct(ask.metadata) if ask.metadata else None,
        )
        report = host_service_pb2.HostReport(invocation_id=self.id, ask=request)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking[request.ask_id] = (report, answer)
        try:
            await self._report(report)
            await answer
        finally:
            del self._asking[request.ask_id]

    async def _report(self, report: host_service_pb2.HostReport) -> None:
        if self._is_open:
            await self._outbox.put(host_service_pb2.HostRequest(report=report))


Work: TypeAlias = Callable[[_Invocation], "Awaitable[host_service_pb2.HostReport]"]


class Host(Service):
    """Lends tools while it is open: `async with client.host(tools):`, or `await host.run()`.

    Attributes:
        refused: What the server does not use, and why.
    """

    def __init__(self, connection: Connection, tasks: Tasks, lending: Lending) -> None:
        super().__init__(connection, tasks)
        self.refused: list[Refused] = []
        self._lending = lending
        self._tools = {one.name: one for one in lending.tools}
        self._token = ""
        self._outbox: Outbox[host_service_pb2.HostRequest] = Outbox()
        self._running: dict[str, _Invocation] = {}
        self._finished: OrderedDict[str, host_service_pb2.HostReport] = OrderedDict()
        # What was running when the stream was lost, until the server has sent it again.
        self._unconfirmed: set[str] = set()

    async def _converse(self) -> None:
        hello = host_service_pb2.HostRequest(hello=self._lending.hello(self._token))
        requests = self._outbox.attach(hello, hold=True)
        stream = self._connection.stream(lambda stubs: stubs.hosts.Host(requests), host_service_pb2.HostResponse)
        try:
            while (response := await stream.next()) is not None:
                self._take(response.event)
        finally:
            self._outbox.release()
            stream.close()

    async def _flush(self, task: asyncio.Task[None]) -> None:
        # A host that ends its requests is gone, and its invocations with it.
        self._outbox.finish()
        await asyncio.wait([task])

    def _give_up(self) -> None:
        for invocation in self._running.values():
            invocation.close()

    def _take(self, event: host_service_pb2.HostEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "welcome":
            self._welcome(event.welcome)
        elif kind == "invoke":
            invoke = event.invoke
            self._begin(invoke.invocation_id, lambda invocation: self._run_tool(invoke, invocation))
        elif kind == "run_subagent":
            run = event.run_subagent
            self._begin(run.invocation_id, lambda invocation: self._run_subagent(run, invocation))
        elif kind == "hook":
            hook = event.hook
            self._begin(hook.invocation_id, lambda _: self._run_hook(hook))
        elif kind == "cancel":
            self._cancel(event.cancel.invocation_id)
        elif kind == "ask_result" and (invocation := self._running.get(event.ask_result.invocation_id)):
            invocation.answer(event.ask_result)
        elif kind == "heartbeat":
            # All that is open was sent again before this silence, so what was not has ended.
            for invocation_id in list(self._unconfirmed):
                self._cancel(invocation_id)

    def _welcome(self, welcome: host_service_pb2.HostWelcome) -> None:
        self._token = welcome.token
        self._unconfirmed = set(self._running)
        if not welcome.resumed:
            # A new host begins anew to count its invocations, so nothing of the earlier one may be taken for its own.
            for invocation_id in list(self._unconfirmed):
                self._cancel(invocation_id)
            self._finished.clear()
            self._outbox.clear()
        for invocation in self._running.values():
            invocation.ask_again()
        self._outbox.go_on()
        self.refused = [Refused(one.name, one.reason) for one in welcome.refused]
        for one in self.refused:
            self._tasks.log.warning("%s is not lent: %s", one.name, one.reason)
        self._answered()
        if self._lending.on_ready is not None:
            self._lending.on_ready(self.refused)

    def _begin(self, invocation_id: str, work: Work) -> None:
        self._unconfirmed.discard(invocation_id)
        if (finished := self._finished.get(invocation_id)) is not None:
            self._outbox.put_now(host_service_pb2.HostRequest(report=finished))
        elif invocation_id not in self._running:
            invocation = self._running[invocation_id] = _Invocation(invocation_id, self._outbox)
            invocation.task = self._tasks.spawn(self._work(invocation, work))

    def _cancel(self, invocation_id: str) -> None:
        self._unconfirmed.discard(invocation_id)
        invocation = self._running.pop(invocation_id, None)
        if invocation is not None:
            invocation.close()
            if self._lending.on_cancel is not None:
                self._lending.on_cancel(invocation_id)

    async def _work(self, invocation: _Invocation, work: Work) -> None:
        try:
            report = await work(invocation)
        except Exception as error:
            if not isinstance(error, ToolFailure):
                self._tasks.log.exception("a lent function failed")
            failed = host_service_pb2.HostFailed(error=_text_of(error))
            report = host_service_pb2.HostReport(failed=failed)
        if not invocation.end(report):
            return
        del self._running[invocation.id]
        self._unconfirmed.discard(invocation.id)
        self._finished[invocation.id] = report
        while len(self._finished) > _KEPT_RESULTS:
            self._finished.popitem(last=False)

    async def _run_tool(
        self, invoke: host_service_pb2.HostInvoke, invocation: _Invocation
    ) -> host_service_pb2.HostReport:
        tool = self._tools.get(invoke.tool)
        if tool is None:
            raise ToolFailure(f"this host does not lend {invoke.tool}")
        context = _context(invoke, invoke.input_json, invocation)
        return _completed(await _call(tool.run, json.loads(invoke.input_json or "{}"), context))

    async def _run_subagent(
        self, run: host_service_pb2.HostRunSubagent, invocation: _Invocation
    ) -> host_service_pb2.HostReport:
        if self._lending.subagent is None:
            raise ToolFailure("this host runs no subagents")
        context = _context(run, "", invocation)
        return _completed(await _call(self._lending.subagent, SubagentRun.from_proto(run), context))

    async def _run_hook(self, message: host_service_pb2.HostHook) -> host_service_pb2.HostReport:
        hook = Hook.from_proto(message)
        function = self._lending.hooks.get(message.point)
        if function is None:
            raise ToolFailure(f"this host has no hook {message.point}")
        before = json.loads(message.output_json)
        await _call(function, hook)
        # Numbers are not written anew where nothing was changed.
        text = message.output_json if hook.output == before else to_text(hook.output)
        return host_service_pb2.HostReport(hook_result=host_service_pb2.HostHookResult(output_json=text))


def _context(
    message: host_service_pb2.HostInvoke | host_service_pb2.HostRunSubagent, input_json: str, invocation: _Invocation
) -> ToolContext:
    return ToolContext(
        invocation_id=message.invocation_id,
        call_id=message.call_id,
        session=message.context.session_id,
        workspace=message.context.workspace,
        agent=message.context.agent,
        message_id=message.context.message_id,
        input_json=input_json,
        raw=message,
        reports=invocation,
    )


async def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    from toolgate.sync.hosting import SyncToolContext, for_thread

    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    contexts = [for_thread(one) if isinstance(one, ToolContext) else one for one in arguments]
    try:
        result = await in_thread(function, *contexts)
    except asyncio.CancelledError:
        for one in contexts:
            if isinstance(one, SyncToolContext):
                one.cancelled.set()
        raise
    return await result if inspect.isawaitable(result) else result


def _completed(value: Any) -> host_service_pb2.HostReport:
    result = value
    if not isinstance(value, ToolResult):
        result = ToolResult(value if value is None or isinstance(value, str) else to_text(value))
    completed = host_service_pb2.HostCompleted(
        title=result.title,
        output=result.output,
        metadata=to_struct(result.metadata) if result.metadata else None,
        attachments=[one.to_proto() for one in result.attachments],
    )
    return host_service_pb2.HostReport(completed=completed)


def _text_of(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problems = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        return "; ".join(problems)
    return str(error) or type(error).__name__
