"""The client for asyncio: where a program begins.

*Invariant:* only what belongs to the client itself is here; each method hands over to the module of its subject.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from toolgate import calls
from toolgate._auth import Token, token_from_environment
from toolgate._connection import Connection, Settings, Stubs
from toolgate._follow import Follower, Watch
from toolgate._ids import uuid7
from toolgate._target import DEFAULT_TARGET, Target, Tls
from toolgate._tasks import Tasks
from toolgate._version import __version__
from toolgate.approvals import ApprovalCallbacks, Approvals, Handler
from toolgate.calls import (
    CallDefaults,
    Unattended,
    call_options,
    evaluate_request,
    execute_request,
    output_mode,
    revert_request,
)
from toolgate.definitions import Model
from toolgate.evaluation import Evaluation
from toolgate.execution import Execution, OnDisconnect, OutputMode, cancel_call
from toolgate.files import Files
from toolgate.host import Host, Lending, Refused
from toolgate.hosting import HookFunction, LentTool, Subagent
from toolgate.listing import ToolListing
from toolgate.mcp import McpServers
from toolgate.outputs import Output
from toolgate.ports import OpenedPort, open_port
from toolgate.results import Call, CallState, InputState, Result
from toolgate.terminals import Terminal
from toolgate.v1 import (
    info_service_pb2,
    permission_service_pb2,
    port_service_pb2,
    session_service_pb2,
    tool_service_pb2,
)
from toolgate.watching import WorkspaceEvents
from toolgate.workspaces import Workspaces

if TYPE_CHECKING:
    from types import TracebackType

    from pydantic import BaseModel
    from typing_extensions import Self, Unpack

    from toolgate.options import ExecuteOptions
    from toolgate.prompts import Prompt, ReplyOutcome

T = TypeVar("T")


class AsyncClient:
    """A client of a Toolgate server, for asyncio. It connects when it is first used, and again whenever it must.

    Args:
        target: `unix:/path`, `http://host:port`, `https://host:port` or `host:port`, which is plain on loopback and
            encrypted otherwise. By default TOOLGATE_SERVER, else `http://127.0.0.1:50551`.
        token: A bearer token, or a function, `async` or not, that returns one for each request. By default
            TOOLGATE_TOKEN, else what the file TOOLGATE_TOKEN_FILE holds.
        tls: How an encrypted server is known. By default by TOOLGATE_TLS_CA, TOOLGATE_TLS_CERT
            and TOOLGATE_TLS_KEY.
        workspace: The workspace of calls that name none; the server's default one if empty.
        agent: The agent of calls that name none; `build` if empty.
        model: The model of calls and lists that name none: a `Model`, or `provider/name`.
        session: The session of calls that name none; if empty, each call has a session of its own.
        client_kind: The kind of client: `cli`, `app`, `desktop`, or a name of your own. The tools on offer depend on
            it.
        client_name: The program that makes the calls: its name and its version, by default those of this library.
        timeout: Seconds in which a plain request is answered, retries included. Streams have no limit.
        connect_timeout: Seconds after which a server that never answered is given up.
        reconnect_timeout: Seconds after which a server that does not answer any more is given up; `None` for never.
        stall_timeout: Seconds of silence after which a stream counts as lost. Servers send something every 15 seconds.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        token: Token | None = None,
        tls: Tls | None = None,
        workspace: str = "",
        agent: str = "",
        model: Model | str | None = None,
        session: str = "",
        client_kind: str = "",
        client_name: str | None = None,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        reconnect_timeout: float | None = 120.0,
        stall_timeout: float = 45.0,
    ) -> None:
        settings = Settings(
            target=Target.parse(target or os.environ.get("TOOLGATE_SERVER") or DEFAULT_TARGET),
            token=token if token is not None else token_from_environment(),
            tls=tls or Tls.from_environment(),
            timeout=timeout,
            connect_timeout=connect_timeout,
            reconnect_timeout=reconnect_timeout,
            stall_timeout=stall_timeout,
        )
        self._connection = Connection(settings)
        self._tasks = Tasks()
        self._defaults = CallDefaults(
            workspace,
            agent,
            model,
            session,
            client_kind,
            f"toolgate-python/{__version__}" if client_name is None else client_name,
            client_id=uuid7(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client: its approvals and hosts are stopped, and its executions cancelled unless they are kept."""
        try:
            await self._tasks.finish()
        finally:
            await self._connection.close()

    @property
    def stubs(self) -> Stubs:
        """The generated stubs, on this client's channel and with its credentials."""
        return self._connection.stubs

    async def rpc(
        self, call: Callable[[Stubs], Awaitable[T]], *, timeout: float | None = None, retry: bool = False
    ) -> T:
        """Makes any unary request, and raises `RpcError` instead of the errors of grpcio.

        Args:
            call: What to call, for instance `lambda stubs: stubs.sessions.GetSession(request)`.
            timeout: Seconds in which it is answered.
            retry: Whether it may be sent again when the connection is lost.
        """
        return await self._connection.unary(lambda stubs, _: call(stubs), timeout=timeout, retry=retry)

    def tools(
        self,
        *,
        workspace: str | None = None,
        agent: str | None = None,
        model: Model | str | None = None,
        client_kind: str | None = None,
        parent: str = "",
    ) -> ToolListing:
        """Lists the tools that an agent may use: `await` it, or one of its forms for model APIs.

        Args:
            workspace: The workspace.
            agent: The agent.
            model: The model, which decides which tools there are and what their schemas may hold.
            client_kind: The kind of client.
            parent: The call of `task` on whose behalf a subagent works.
        """
        context = self._defaults.context(workspace=workspace, agent=agent, model=model, client_kind=client_kind)
        request = tool_service_pb2.ListToolsRequest(
            workspace=context.workspace,
            agent=context.agent,
            model=context.model if context.HasField("model") else None,
            client_kind=context.client_kind,
            parent_call_id=parent,
        )
        return ToolListing(self._connection, request)

    def execute(
        self,
        tool: str,
        input: Mapping[str, Any] | BaseModel | str | None = None,  # noqa: A002 - the word of the contract
        *,
        call_id: str | None = None,
        session: str | None = None,
        workspace: str | None = None,
        agent: str | None = None,
        model: Model | str | None = None,
        client_kind: str | None = None,
        message_id: str = "",
        parent: str = "",
        extra: Mapping[str, Any] | None = None,
        timeout: float | timedelta | None = None,
        on_disconnect: OnDisconnect = "cancel",
        output: OutputMode = "full",
    ) -> Execution:
        """Executes a tool. The call begins when its first event or its result is awaited.

        Args:
            tool: The tool's name, as the model wrote it.
            input: The arguments: a mapping, a model of pydantic, or JSON text exactly as the model wrote it.
            call_id: The call's id; a UUIDv7 is made if there is none.
            session: The session.
            workspace: The workspace.
            agent: The agent.
            model: The model.
            client_kind: The kind of client.
            message_id: The model's message that the call belongs to.
            parent: The call on whose behalf this one is made.
            extra: Free data, kept in the record.
            timeout: The time that the tool may run, in seconds; waiting for people does not count.
            on_disconnect: What becomes of the call when its client is gone.
            output: How much of the running output comes as events.
        """
        context = self._defaults.context(
            session=session,
            workspace=workspace,
            agent=agent,
            model=model,
            client_kind=client_kind,
            message_id=message_id,
            parent=parent,
            extra=extra,
        )
        request = execute_request(context, tool, input, call_id, timeout, on_disconnect, output)
        return self._follow(Watch(request.call_id, 0, request.output), request, keep=on_disconnect == "keep")

    async def run(
        self,
        tool: str,
        input: Mapping[str, Any] | BaseModel | str | None = None,  # noqa: A002 - the word of the contract
        **options: Unpack[ExecuteOptions],
    ) -> Result:
        """Executes a tool and returns how it ended. The options are those of `execute`."""
        options.setdefault("output", "none")
        return await self.execute(tool, input, **options).result()

    async def evaluate(
        self,
        tool: str,
        input: Mapping[str, Any] | BaseModel | str | None = None,  # noqa: A002 - the word of the contract
        *,
        session: str | None = None,
        workspace: str | None = None,
        agent: str | None = None,
        model: Model | str | None = None,
        client_kind: str | None = None,
        parent: str = "",
    ) -> Evaluation:
        """Says what a call would ask before it does anything. Nothing is run or recorded, and nobody is asked.

        Args:
            tool: The tool's name, as the model wrote it.
            input: The arguments: a mapping, a model of pydantic, or JSON text exactly as the model wrote it.
            session: The session.
            workspace: The workspace.
            agent: The agent.
            model: The model.
            client_kind: The kind of client.
            parent: The call on whose behalf the call would be made.
        """
        context = self._defaults.context(
            session=session, workspace=workspace, agent=agent, model=model, client_kind=client_kind, parent=parent
        )
        request = evaluate_request(context, tool, input)
        response = await self._connection.unary(
            lambda stubs, timeout: stubs.tools.EvaluateCall(request, timeout=timeout)
        )
        return Evaluation.from_proto(response.evaluation)

    def watch(self, call_id: str, *, after: int = 0, output: OutputMode = "full") -> Execution:
        """Watches a call that exists, from any event on. Leaving it never touches the call; `cancel()` does.

        Args:
            call_id: The call.
            after: The number of the event after which to begin.
            output: How much of the output comes as events.
        """
        return self._follow(Watch(call_id, after, output_mode(output)), None, keep=True)

    def revert(
        self,
        call_id: str,
        *,
        merge: bool = False,
        revert_call_id: str | None = None,
        session: str | None = None,
        workspace: str | None = None,
        agent: str | None = None,
        on_disconnect: OnDisconnect = "cancel",
    ) -> Execution:
        """Takes back what an ended call did to files, which is a call itself.

        Args:
            call_id: The call to take back.
            merge: Keep what was changed since in the same files, where that is possible.
            revert_call_id: The id of the new call; a UUIDv7 is made if there is none.
            session: The session.
            workspace: The workspace; that of the call to take back if there is none.
            agent: The agent.
            on_disconnect: What becomes of the new call when its client is gone.
        """
        context = self._defaults.context(session=session, workspace=workspace, agent=agent)
        request = revert_request(context, call_id, revert_call_id, on_disconnect, merge=merge)
        keep = on_disconnect == "keep"
        return self._follow(Watch(request.revert_call_id, 0, output_mode("full")), request, keep=keep)

    async def get(self, call_id: str) -> Call:
        """Returns the record of a call."""
        request = tool_service_pb2.GetCallRequest(call_id=call_id)
        response = await self._connection.unary(lambda stubs, timeout: stubs.tools.GetCall(request, timeout=timeout))
        return Call.from_proto(response.call)

    async def cancel(self, call_id: str) -> Call:
        """Asks a call to stop and returns its record once it has ended; its programs are gone then."""
        return await cancel_call(self._connection, call_id)

    def calls(
        self,
        *,
        workspace: str = "",
        session: str = "",
        states: Iterable[CallState] = (),
        tools: Iterable[str] = (),
    ) -> AsyncIterator[Call]:
        """Lists calls, newest first. Filters that are set must all match.

        Args:
            workspace: The workspace; the server's default one if empty, `-` for all.
            session: The session; empty for all.
            states: Any of these states; none for all.
            tools: Any of these tools; none for all.
        """
        return calls.listed(self._connection, workspace, session, states, tools)

    async def send_input(
        self, call_id: str, data: bytes | str = b"", *, offset: int | None = None, close: bool = False
    ) -> InputState:
        """Sends bytes to the standard input of a call of the tool `background`; each counts once.

        Args:
            call_id: The call.
            data: The bytes.
            offset: How many bytes come before them in the whole input; `None` to append to what was sent before.
            close: Nothing follows: the program reads the end of its input.
        """
        return await calls.send_input(self._connection, call_id, data, offset, close=close)

    def terminal(self, call_id: str) -> Terminal:
        """Returns a command in the background, to show its terminal, to type to it, and to send it signals.

        Args:
            call_id: The call of the tool `background` that runs it: a `ChildEvent` of its `bash` has it.
        """
        return Terminal(self._connection, call_id)

    async def open_port(
        self,
        call_id: str,
        port: int,
        *,
        port_call_id: str | None = None,
        session: str | None = None,
        workspace: str | None = None,
        agent: str | None = None,
        unattended: Unattended = "refuse",
        wait_timeout: float | timedelta | None = None,
    ) -> OpenedPort:
        """Opens a port that a program of a call listens on, which may ask a person. It is a call itself.

        Args:
            call_id: The call whose program listens: its `ListeningEvent` and `Call.listening` say where.
            port: The port, 1 to 65535.
            port_call_id: The id of the new call; a UUIDv7 is made if there is none.
            session: The session.
            workspace: The workspace; that of the call to reach if there is none.
            agent: The agent.
            unattended: What becomes of a prompt that nobody answers.
            wait_timeout: With `wait`, how long a prompt waits, in seconds.
        """
        context = self._defaults.context(session=session, workspace=workspace, agent=agent)
        call = call_options(context, port_call_id, unattended, wait_timeout)
        request = port_service_pb2.OpenPortRequest(call=call, call_id=call_id, port=port)
        return await open_port(self._connection, request)

    def approvals(
        self,
        handler: Handler,
        *,
        name: str | None = None,
        workspace: str = "",
        sessions: Sequence[str] = (),
        everybody: bool = False,
        on_ready: Callable[[int], None] | None = None,
        on_reply: Callable[[ReplyOutcome], None] | None = None,
        on_gone: Callable[[Prompt], None] | None = None,
        on_error: Callable[[Prompt, Exception], None] | None = None,
    ) -> Approvals:
        """Answers prompts with a handler, in `async with` or by `await ….run()`.

        By default those of the calls that this client makes, of calls made on their behalf, and of the client's
        `session`.

        Args:
            handler: Is given a `PermissionPrompt` or a `QuestionPrompt` and returns a decision, or `None` to leave it
                to others. It runs at once for several prompts, and is cancelled when its prompt has ended otherwise.
                When its reply was not taken (`INVALID`, `DIGEST_MISMATCH`) it is called again, with `problem` in the
                prompt, five times at most.
            name: The approver's name, recorded with the decisions; the user's name if there is none.
            workspace: Only prompts of this workspace; of all that the client may see if empty.
            sessions: The prompts of these sessions instead, whoever makes the calls.
            everybody: The prompts of everybody's calls instead.
            on_ready: Is told how many prompts were open, each time that the channel is open.
            on_reply: Is told what became of each reply.
            on_gone: Is told of each prompt that has ended while its handler worked.
            on_error: Is told what a handler raised, and when its replies were not taken time after time; the prompt
                stays open.
        """
        if everybody and sessions:
            raise ValueError("approvals of everybody's calls name no sessions")
        prompts = permission_service_pb2.PromptFilter(workspace=workspace or "-", all=everybody, session_ids=sessions)
        if not (everybody or sessions):
            prompts.client_ids.append(self._defaults.client_id)
            prompts.session_ids.extend([self._defaults.session] if self._defaults.session else [])
        opening = permission_service_pb2.ChannelOpen(name=_user_name() if name is None else name, filter=prompts)
        callbacks = ApprovalCallbacks(on_ready, on_reply, on_gone, on_error)
        return Approvals(self._connection, self._tasks, handler, opening, callbacks)

    def host(
        self,
        tools: Iterable[LentTool] = (),
        *,
        name: str = "python",
        workspace: str | None = None,
        subagent: Subagent | None = None,
        subagents: Sequence[str] = (),
        hooks: Mapping[str, HookFunction] | None = None,
        on_ready: Callable[[list[Refused]], None] | None = None,
        on_cancel: Callable[[str], None] | None = None,
    ) -> Host:
        """Lends functions as tools, in `async with` or by `await ….run()`.

        Args:
            tools: Functions with the decorator `tool`, or tools made by hand.
            name: How the host is called, for people.
            workspace: The workspace that it lends to.
            subagent: Runs subagents: with it, the tool `task` is offered.
            subagents: The agents that it can run; none for all.
            hooks: Functions by the name of the point at which they take part in every call.
            on_ready: Is told what the server refused, each time that it has taken the host in.
            on_cancel: Is told the id of each invocation that was given up while it ran.
        """
        lending = Lending(
            name=name,
            workspace=self._defaults.workspace if workspace is None else workspace,
            tools=tuple(tools),
            subagent=subagent,
            subagents=subagents,
            hooks=hooks or {},
            on_ready=on_ready,
            on_cancel=on_cancel,
        )
        return Host(self._connection, self._tasks, lending)

    def output(self, output_id: str) -> Output:
        """Returns a stored output: to read, to search, to save to a file. `Result.truncation` has its id."""
        return Output(self._connection, output_id)

    def files(
        self,
        *,
        session: str | None = None,
        workspace: str | None = None,
        agent: str | None = None,
        parent: str = "",
        unattended: Unattended = "refuse",
        wait_timeout: float | timedelta | None = None,
    ) -> Files:
        """Returns the files of a workspace: to list, to read, to watch, to change.

        Args:
            session: The session.
            workspace: The workspace.
            agent: The agent, whose rules decide.
            parent: The call on whose behalf it is done.
            unattended: What becomes of prompts that nobody answers: changes may ask a person.
            wait_timeout: With `wait`, how long each prompt waits, in seconds.
        """
        context = self._defaults.context(session=session, workspace=workspace, agent=agent, parent=parent)
        return Files(self._connection, context, unattended, wait_timeout)

    def mcp(
        self,
        *,
        session: str | None = None,
        workspace: str | None = None,
        agent: str | None = None,
        parent: str = "",
        unattended: Unattended = "refuse",
        wait_timeout: float | timedelta | None = None,
    ) -> McpServers:
        """Returns what the MCP servers of a workspace have beside tools: resources and prompts, to list and to read.

        Args:
            session: The session.
            workspace: The workspace.
            agent: The agent, whose rules decide.
            parent: The call on whose behalf it is done.
            unattended: What becomes of prompts that nobody answers: reading may ask a person.
            wait_timeout: With `wait`, how long each prompt waits, in seconds.
        """
        context = self._defaults.context(session=session, workspace=workspace, agent=agent, parent=parent)
        return McpServers(self._connection, context, unattended, wait_timeout)

    @property
    def workspaces(self) -> Workspaces:
        """The workspaces of the server: to list, to open, to close."""
        return Workspaces(self._connection)

    def events(self, *, workspace: str = "", session: str = "", after: int | None = None) -> WorkspaceEvents:
        """Watches what happens: states of calls, files, prompts, todos, tools, workspaces, ports.

        Args:
            workspace: The workspace; the server's default one if empty, `-` for all.
            session: Only this session.
            after: The number of the event after which to begin; `None` for what happens from now on, 0 for all.
        """
        request = session_service_pb2.WatchEventsRequest(workspace=workspace, session_id=session, after_sequence=after)
        return WorkspaceEvents(self._connection, request)

    async def end_session(self, session_id: str) -> int:
        """Cancels a session's calls, ends what they left running, and forgets what the session has kept.

        Records stay. Returns how many calls were cancelled.
        """
        request = session_service_pb2.EndSessionRequest(session_id=session_id)
        response = await self._connection.unary(
            lambda stubs, timeout: stubs.sessions.EndSession(request, timeout=timeout)
        )
        return response.cancelled_calls

    async def server_info(self) -> info_service_pb2.GetServerInfoResponse:
        """Returns what the server is and what it allows: its version, limits and workspaces."""
        request = info_service_pb2.GetServerInfoRequest()
        return await self._connection.unary(lambda stubs, timeout: stubs.info.GetServerInfo(request, timeout=timeout))

    def _follow(
        self,
        watch: Watch,
        start: tool_service_pb2.ExecuteToolRequest | tool_service_pb2.RevertCallRequest | None,
        *,
        keep: bool,
    ) -> Execution:
        return Execution(self._connection, self._tasks, Follower(self._connection, watch, start), keep=keep)


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
