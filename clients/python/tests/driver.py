"""Does what the tests of the repository tell it, through the library's public functions: see clients/DRIVER.md."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf import descriptor_pool, json_format, message, message_factory, struct_pb2

import toolgate
from toolgate.v1 import (
    call_pb2,
    host_service_pb2,
    permission_service_pb2,
    prompt_pb2,
    session_service_pb2,
    tool_service_pb2,
)
from toolgate.v1 import output_service_pb2 as outputs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

M = TypeVar("M", bound=message.Message)


def plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Returns an object whose numbers are integers where they have no fraction, as they were written."""

    def number(text: str) -> float | int:
        value = float(text)
        return int(value) if value.is_integer() else value

    content: dict[str, Any] = json.loads(json_format.MessageToJson(struct), parse_float=number)
    return content


class CommandError(Exception):
    """A command ends with this error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def decode(kind: type[M], text: str) -> M:
    try:
        return kind.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, message.DecodeError) as error:
        raise CommandError("INVALID_ARGUMENT", f"no {kind.DESCRIPTOR.name}: {error}") from error


def encode(content: message.Message) -> str:
    return base64.b64encode(content.SerializeToString()).decode()


def error_of(error: BaseException) -> dict[str, str]:
    if isinstance(error, toolgate.RpcError):
        return {"code": error.code.name, "reason": error.reason, "message": error.message}
    if isinstance(error, CommandError):
        return {"code": error.code, "message": str(error)}
    if isinstance(error, asyncio.CancelledError):
        return {"code": "CANCELLED", "message": "cancelled"}
    if isinstance(error, (KeyError, TypeError, ValueError)):
        return {"code": "INVALID_ARGUMENT", "message": f"{type(error).__name__}: {error}"}
    return {"code": "UNKNOWN", "message": f"{type(error).__name__}: {error}"}


class Approver:
    """The handler of an `approvals` command: each prompt waits for a `reply` command."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._waiting: dict[str, asyncio.Future[toolgate.Decision]] = {}

    async def handle(self, prompt: toolgate.Prompt) -> toolgate.Decision:
        decision: asyncio.Future[toolgate.Decision] = asyncio.get_running_loop().create_future()
        self._waiting[prompt.id] = decision
        self._report(prompt=encode(prompt.raw))
        try:
            return await decision
        finally:
            del self._waiting[prompt.id]

    def reply(self, reply: permission_service_pb2.PromptReply) -> None:
        decision = self._waiting.get(reply.prompt_id)
        if decision is None or decision.done():
            raise CommandError("NOT_FOUND", f"no handler waits for prompt {reply.prompt_id}")
        decision.set_result(decision_of(reply))


def decision_of(reply: permission_service_pb2.PromptReply) -> toolgate.Decision:
    if reply.decision == prompt_pb2.PROMPT_DECISION_ONCE:
        return toolgate.once()
    if reply.decision == prompt_pb2.PROMPT_DECISION_ALWAYS:
        return toolgate.always(scope_of(reply.scope) if reply.HasField("scope") else None, list(reply.always_patterns))
    if reply.decision == prompt_pb2.PROMPT_DECISION_REJECT:
        return toolgate.reject(reply.message)
    if reply.decision == prompt_pb2.PROMPT_DECISION_ANSWER:
        return toolgate.answer(*(list(one.values) for one in reply.answers))
    if reply.decision == prompt_pb2.PROMPT_DECISION_INSTEAD:
        return toolgate.instead(reply.input_json)
    return toolgate.Decision(reply)


def scope_of(scope: prompt_pb2.GrantScope) -> toolgate.Scope:
    reaches: dict[int, Any] = {
        prompt_pb2.GRANT_REACH_RUN: "run",
        prompt_pb2.GRANT_REACH_SESSION: "session",
        prompt_pb2.GRANT_REACH_WORKSPACE: "workspace",
    }
    return toolgate.Scope(
        reach=reaches.get(scope.reach),
        expires=scope.expire_time.ToDatetime().astimezone() if scope.HasField("expire_time") else None,
        max_uses=scope.max_uses,
    )


class Lender:
    """The functions of a `host` command: each invocation waits for `report` commands."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._reports: dict[str, asyncio.Queue[tuple[host_service_pb2.HostReport, asyncio.Future[dict[str, Any]]]]] = {}

    def tools(self, hello: host_service_pb2.HostHello) -> list[toolgate.LentTool]:
        effects = {one.to_proto(): one for one in toolgate.ToolEffect}
        return [
            toolgate.LentTool(
                name=one.name,
                description=one.description,
                input_schema=one.input_schema_json,
                run=self.tool,
                effects=[effects[effect] for effect in one.effects],
            )
            for one in hello.tools
        ]

    async def tool(self, _input: dict[str, Any], context: toolgate.ToolContext) -> toolgate.ToolResult:
        return await self._work(context, invoke=encode(context.raw))

    async def subagent(self, run: toolgate.SubagentRun, context: toolgate.ToolContext) -> toolgate.ToolResult:
        return await self._work(context, subagent=encode(run.raw))

    async def hook(self, hook: toolgate.Hook) -> None:
        queue = self._open(hook.raw.invocation_id, hook=encode(hook.raw))
        try:
            report, done = await queue.get()
            done.set_result({})
            if report.HasField("failed"):
                raise toolgate.ToolFailure(report.failed.error)
            hook.output = json.loads(report.hook_result.output_json)
        finally:
            del self._reports[hook.raw.invocation_id]

    async def report(self, report: host_service_pb2.HostReport) -> dict[str, Any]:
        queue = self._reports.get(report.invocation_id)
        if queue is None:
            raise CommandError("NOT_FOUND", f"no function runs for invocation {report.invocation_id}")
        done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        queue.put_nowait((report, done))
        return await done

    def _open(
        self, invocation_id: str, **told: str
    ) -> asyncio.Queue[tuple[host_service_pb2.HostReport, asyncio.Future[dict[str, Any]]]]:
        queue = self._reports[invocation_id] = asyncio.Queue()
        self._report(**told)
        return queue

    async def _work(self, context: toolgate.ToolContext, **told: str) -> toolgate.ToolResult:
        queue = self._open(context.invocation_id, **told)
        try:
            while True:
                report, done = await queue.get()
                if report.HasField("completed"):
                    done.set_result({})
                    return result_of(report.completed)
                if report.HasField("failed"):
                    done.set_result({})
                    raise toolgate.ToolFailure(report.failed.error)
                try:
                    done.set_result(await interim(context, report))
                except asyncio.CancelledError:
                    done.set_exception(CommandError("NOT_FOUND", "the invocation has ended"))
                    raise
        finally:
            del self._reports[context.invocation_id]
            while not queue.empty():
                queue.get_nowait()[1].set_exception(CommandError("NOT_FOUND", "the invocation has ended"))


async def interim(context: toolgate.ToolContext, report: host_service_pb2.HostReport) -> dict[str, Any]:
    kind = report.WhichOneof("report")
    if kind == "progress":
        title = report.progress.title if report.progress.HasField("title") else None
        await context.progress(title, plain(report.progress.metadata))
    elif kind == "output":
        await context.output(report.output.data)
    elif kind == "ask":
        ask = report.ask
        metadata = plain(ask.metadata)
        try:
            await context.ask(
                ask.permission, *ask.patterns, always=list(ask.always), title=ask.title, metadata=metadata
            )
        except toolgate.PermissionRefused as error:
            return {"allowed": False, "error": str(error)}
        return {"allowed": True}
    return {}


def result_of(completed: host_service_pb2.HostCompleted) -> toolgate.ToolResult:
    return toolgate.ToolResult(
        output=completed.output if completed.HasField("output") else None,
        title=completed.title,
        metadata=plain(completed.metadata),
        attachments=[toolgate.Attachment.from_proto(one) for one in completed.attachments],
    )


@toolgate.tool
async def greet(context: toolgate.ToolContext, name: str, times: int = 1) -> toolgate.ToolResult:
    """Greets somebody.

    Args:
        context: The call.
        name: Who is greeted.
        times: How often.
    """
    for number in range(1, times + 1):
        await context.progress(metadata={"greeted": number})
    return toolgate.ToolResult(output="\n".join([f"Hello, {name}!"] * times), title=f"Greeting {name}")


class Driver:
    """The commands, by their names."""

    def __init__(self) -> None:
        self._clients: dict[str, toolgate.AsyncClient] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._executions: dict[int, toolgate.AsyncExecution] = {}
        self._stops: dict[int, Callable[[], Awaitable[object]]] = {}
        self._approvers: dict[int, Approver] = {}
        self._lenders: dict[int, Lender] = {}

    def start(self, line: bytes) -> None:
        try:
            command = json.loads(line)
            task = asyncio.get_running_loop().create_task(self._run(command))
            self._running[command["id"]] = task
        except (KeyError, TypeError, ValueError) as error:
            sys.stderr.write(f"driver: no command: {error}\n")

    async def finish(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients.values()), return_exceptions=True)
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, command: dict[str, Any]) -> None:
        number = command["id"]

        def report(**content: object) -> None:
            sys.stdout.write(json.dumps({"id": number, **content}) + "\n")
            sys.stdout.flush()

        try:
            work = getattr(self, "do_" + str(command.get("do")), self.do_nothing)
            done = await work(command, report)
        except (Exception, asyncio.CancelledError) as error:
            report(error=error_of(error))
        else:
            report(done=done or {})
        finally:
            for kept in (self._running, self._executions, self._stops, self._approvers, self._lenders):
                kept.pop(number, None)

    def _client(self, command: dict[str, Any]) -> toolgate.AsyncClient:
        try:
            return self._clients[command["client"]]
        except KeyError:
            raise CommandError("INVALID_ARGUMENT", f"no client {command.get('client')}") from None

    async def do_nothing(self, command: dict[str, Any], _report: Callable[..., None]) -> None:
        raise CommandError("INVALID_ARGUMENT", f"no command {command.get('do')!r}")

    async def do_connect(self, command: dict[str, Any], _report: Callable[..., None]) -> None:
        self._clients[command["client"]] = toolgate.AsyncClient(command["target"], token=command.get("token"))

    async def do_close(self, command: dict[str, Any], _report: Callable[..., None]) -> None:
        await self._client(command).close()
        del self._clients[command["client"]]

    def _listing(self, command: dict[str, Any]) -> Any:
        request = decode(tool_service_pb2.ListToolsRequest, command["request"])
        return self._client(command).tools(
            workspace=request.workspace,
            agent=request.agent,
            model=model_of(request.model) if request.HasField("model") else None,
            client_kind=request.client_kind,
            parent=request.parent_call_id,
        )

    async def do_tools(self, command: dict[str, Any], _report: Callable[..., None]) -> dict[str, Any]:
        return {"tools": [encode(one.raw) for one in await self._listing(command)]}

    async def do_formats(self, command: dict[str, Any], _report: Callable[..., None]) -> dict[str, Any]:
        listing = self._listing(command)
        forms = ["openai", "openai_responses", "anthropic", "gemini"]
        lists = await asyncio.gather(*(getattr(listing, form)() for form in forms))
        return dict(zip(forms, lists, strict=True))

    async def do_forms(self, command: dict[str, Any], _report: Callable[..., None]) -> dict[str, Any]:
        result = toolgate.Call.from_proto(decode(call_pb2.Call, command["call"])).result
        if result is None:
            raise CommandError("INVALID_ARGUMENT", "the call has not ended")
        call_id = command["model_call"]
        return {
            "openai": result.openai(call_id),
            "openai_responses": result.openai_responses(call_id),
            "anthropic": result.anthropic(call_id),
            "gemini": result.gemini(command["tool"], call_id),
        }

    async def do_execute(self, command: dict[str, Any], report: Callable[..., None]) -> dict[str, Any]:
        request = decode(tool_service_pb2.ExecuteToolRequest, command["request"])
        context = request.context
        arguments: Any = request.input_json if request.HasField("input_json") else None
        if request.HasField("input"):
            arguments = plain(request.input)
        mode = call_pb2.OutputMode.Name(request.output).removeprefix("OUTPUT_MODE_").lower()
        output: Any = "full" if mode == "unspecified" else mode
        execution = self._client(command).execute(
            request.tool,
            arguments,
            call_id=request.call_id or None,
            session=context.session_id,
            workspace=context.workspace,
            agent=context.agent,
            model=model_of(context.model) if context.HasField("model") else None,
            client_kind=context.client_kind,
            message_id=context.message_id,
            parent=context.parent_call_id,
            extra=plain(context.extra) if context.HasField("extra") else None,
            timeout=request.timeout.ToTimedelta() if request.HasField("timeout") else None,
            on_disconnect="keep" if request.on_disconnect == call_pb2.ON_DISCONNECT_KEEP else "cancel",
            output=output,
        )
        self._executions[command["id"]] = execution
        async for event in execution:
            report(event=encode(event.raw))
        result = await execution.result()
        raw = result.raw
        call = call_pb2.Call(call_id=execution.call_id)
        if isinstance(raw, call_pb2.CallCompleted):
            call.completed.CopyFrom(raw)
        else:
            call.failed.CopyFrom(raw)
        return {"call": encode(call), "ok": result.ok}

    async def do_cancel(self, command: dict[str, Any], _report: Callable[..., None]) -> None:
        execution = self._executions.get(command["execution"])
        if execution is not None:
            await execution.cancel()

    async def do_interrupt(self, command: dict[str, Any], _report: Callable[..., None]) -> None:
        await self._end(command["execution"])

    async def _end(self, number: int) -> None:
        task = self._running.get(number)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def do_approvals(self, command: dict[str, Any], report: Callable[..., None]) -> None:
        prompts = decode(permission_service_pb2.PromptFilter, command.get("filter") or "")
        approver = self._approvers[command["id"]] = Approver(report)

        def replied(outcome: toolgate.ReplyOutcome) -> None:
            report(result={"prompt_id": outcome.prompt.id, "result": outcome.result.name})

        approvals = self._client(command).approvals(
            approver.handle,
            name=command.get("name"),
            workspace=prompts.workspace,
            sessions=list(prompts.session_ids),
            everybody=command.get("everybody", False),
            on_ready=lambda _: report(ready=True),
            on_reply=replied,
            on_gone=lambda prompt: report(gone=prompt.id),
        )
        self._stops[command["id"]] = approvals.stop
        await approvals.run()

    async def do_reply(self, command: dict[str, Any], _report: Callable[..., None]) -> None:
        approver = self._approvers.get(command["approvals"])
        if approver is None:
            raise CommandError("NOT_FOUND", "there are no such approvals")
        approver.reply(decode(permission_service_pb2.PromptReply, command["reply"]))

    async def do_host(self, command: dict[str, Any], report: Callable[..., None]) -> None:
        hello = decode(host_service_pb2.HostHello, command["hello"])
        lender = self._lenders[command["id"]] = Lender(report)
        host = self._client(command).host(
            lender.tools(hello),
            name=hello.name,
            workspace=hello.workspace,
            subagent=lender.subagent if hello.runs_subagents else None,
            subagents=list(hello.subagents),
            hooks=dict.fromkeys(hello.hooks, lender.hook),
            on_ready=lambda refused: report(ready={"refused": refusals(refused)}),
            on_cancel=lambda invocation_id: report(cancelled=invocation_id),
        )
        self._stops[command["id"]] = host.stop
        await host.run()

    async def do_report(self, command: dict[str, Any], _report: Callable[..., None]) -> dict[str, Any]:
        lender = self._lenders.get(command["host"])
        if lender is None:
            raise CommandError("NOT_FOUND", "there is no such host")
        return await lender.report(decode(host_service_pb2.HostReport, command["report"]))

    async def do_greeter(self, command: dict[str, Any], report: Callable[..., None]) -> None:
        host = self._client(command).host(
            [greet], name="greeter", on_ready=lambda refused: report(ready={"refused": refusals(refused)})
        )
        self._stops[command["id"]] = host.stop
        await host.run()

    async def do_stop(self, command: dict[str, Any], _report: Callable[..., None]) -> None:
        stop = self._stops.get(command["command"])
        if stop is not None:
            await stop()

    async def do_read(self, command: dict[str, Any], report: Callable[..., None]) -> None:
        output = self._client(command).output(command["output"])
        async for piece in output.read(command.get("offset", 0), command.get("limit", 0)):
            report(data=base64.b64encode(piece).decode())

    async def do_search(self, command: dict[str, Any], _report: Callable[..., None]) -> dict[str, Any]:
        request = decode(outputs.SearchOutputRequest, command["request"])
        found = (
            await self._client(command)
            .output(request.output_id)
            .search(
                request.pattern,
                before=request.before_context,
                after=request.after_context,
                max_matches=request.max_matches,
            )
        )
        return {"response": encode(found.raw)}

    async def do_save(self, command: dict[str, Any], report: Callable[..., None]) -> dict[str, Any]:
        output = self._client(command).output(command["output"])
        saved = 0

        async def save() -> None:
            nonlocal saved
            saved = await output.save(
                command["path"], progress=lambda size, total: report(progress={"bytes": size, "total": total})
            )

        return {"bytes": saved} if await self._stoppable(command, save()) else {}

    async def do_events(self, command: dict[str, Any], report: Callable[..., None]) -> None:
        request = decode(session_service_pb2.WatchEventsRequest, command["request"])
        after = request.after_sequence if request.HasField("after_sequence") else None

        async def watch() -> None:
            async with self._client(command).events(
                workspace=request.workspace, session=request.session_id, after=after
            ) as events:
                report(ready=True)
                async for event in events:
                    report(event=encode(session_service_pb2.WatchEventsResponse(event=event.raw)))

        await self._stoppable(command, watch())

    async def _stoppable(self, command: dict[str, Any], work: Any) -> bool:
        """Does something that `stop` ends; says whether it came to its own end."""
        task = asyncio.ensure_future(work)

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])

        self._stops[command["id"]] = stop
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return not task.cancelled()

    async def do_unary(self, command: dict[str, Any], _report: Callable[..., None]) -> dict[str, Any]:
        service, _, name = command["method"].partition("/")
        try:
            method = descriptor_pool.Default().FindServiceByName(service).FindMethodByName(name)
        except KeyError as error:
            raise CommandError("INVALID_ARGUMENT", f"no method {command['method']}") from error
        request = decode(message_factory.GetMessageClass(method.input_type), command["request"])
        stub = {
            "ToolService": "tools",
            "PermissionService": "permissions",
            "HostService": "hosts",
            "OutputService": "outputs",
            "SessionService": "sessions",
            "InfoService": "info",
            "AuditService": "audit",
        }[service.removeprefix("toolgate.v1.")]

        def call(stubs: toolgate.Stubs) -> Awaitable[message.Message]:
            call: Awaitable[message.Message] = getattr(getattr(stubs, stub), name)(request)
            return call

        return {"response": encode(await self._client(command).rpc(call))}


def refusals(refused: list[toolgate.Refused]) -> list[str]:
    return [encode(host_service_pb2.HostRefused(name=one.name, reason=one.reason)) for one in refused]


def model_of(model: call_pb2.ModelRef) -> toolgate.Model:
    return toolgate.Model(model.provider_id, model.model_id, model.package)


async def main() -> None:
    driver = Driver()
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while (line := await lines.get()) is not None:
        driver.start(line)
    await driver.finish()


if __name__ == "__main__":
    grpc.aio.init_grpc_aio()
    asyncio.run(main())
