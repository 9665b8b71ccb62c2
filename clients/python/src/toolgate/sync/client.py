"""The client without `async`: where a program begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from toolgate.client import AsyncClient
from toolgate.sync import _portal
from toolgate.sync.execution import Execution
from toolgate.sync.files import Files
from toolgate.sync.listing import ToolListing, WorkspaceEvents
from toolgate.sync.mcp import McpServers
from toolgate.sync.outputs import Output
from toolgate.sync.ports import OpenedPort
from toolgate.sync.services import Approvals, Host
from toolgate.sync.terminals import Terminal
from toolgate.sync.workspaces import Workspaces

if TYPE_CHECKING:
    from types import TracebackType

    from pydantic import BaseModel
    from typing_extensions import Self, Unpack

    from toolgate._connection import Stubs
    from toolgate.approvals import Handler
    from toolgate.definitions import Model
    from toolgate.evaluation import Evaluation
    from toolgate.execution import OutputMode
    from toolgate.hosting import LentTool
    from toolgate.options import (
        ApprovalOptions,
        ClientOptions,
        EvaluateOptions,
        ExecuteOptions,
        FilesOptions,
        HostOptions,
        PortOptions,
        RevertOptions,
    )
    from toolgate.results import Call, CallState, InputState, Result
    from toolgate.v1 import info_service_pb2

T = TypeVar("T")


class Client:
    """A client of a Toolgate server. It connects when it is first used, and again whenever it must.

    Its methods may be called from any thread.

    Args:
        target: `unix:/path`, `http://host:port`, `https://host:port` or `host:port`, which is plain on loopback and
            encrypted otherwise. By default TOOLGATE_SERVER, else `http://127.0.0.1:50551`.
        **options: The options of `AsyncClient`.
    """

    def __init__(self, target: str | None = None, **options: Unpack[ClientOptions]) -> None:
        self._client = AsyncClient(target, **options)
        _portal.keep(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client: its approvals and hosts are stopped, and its executions cancelled unless they are kept."""
        _portal.run(self._client.close())

    def rpc(self, call: Callable[[Stubs], Awaitable[T]], *, timeout: float | None = None, retry: bool = False) -> T:
        """Makes any unary request with the generated stubs.

        Args:
            call: What to call, for instance `lambda stubs: stubs.sessions.GetSession(request)`.
            timeout: Seconds in which it is answered.
            retry: Whether it may be sent again when the connection is lost.
        """
        return _portal.run(self._client.rpc(call, timeout=timeout, retry=retry))

    def tools(
        self,
        *,
        workspace: str | None = None,
        agent: str | None = None,
        model: Model | str | None = None,
        client_kind: str | None = None,
        parent: str = "",
    ) -> ToolListing:
        """Lists the tools that an agent may use: iterate, or ask for one of its forms for model APIs.

        Args:
            workspace: The workspace.
            agent: The agent.
            model: The model, which decides which tools there are and what their schemas may hold.
            client_kind: The kind of client.
            parent: The call of `task` on whose behalf a subagent works.
        """
        listing = self._client.tools(
            workspace=workspace, agent=agent, model=model, client_kind=client_kind, parent=parent
        )
        return ToolListing(listing)

    def execute(
        self,
        tool: str,
        input: Mapping[str, Any] | BaseModel | str | None = None,  # noqa: A002 - the word of the contract
        **options: Unpack[ExecuteOptions],
    ) -> Execution:
        """Executes a tool. The call begins when its first event or its result is asked for.

        Args:
            tool: The tool's name, as the model wrote it.
            input: The arguments: a mapping, a model of pydantic, or JSON text exactly as the model wrote it.
            **options: The options of `AsyncClient.execute`.
        """
        return Execution(self._client.execute(tool, input, **options))

    def run(
        self,
        tool: str,
        input: Mapping[str, Any] | BaseModel | str | None = None,  # noqa: A002 - the word of the contract
        **options: Unpack[ExecuteOptions],
    ) -> Result:
        """Executes a tool and returns how it ended. The options are those of `execute`."""
        return _portal.run(self._client.run(tool, input, **options))

    def evaluate(
        self,
        tool: str,
        input: Mapping[str, Any] | BaseModel | str | None = None,  # noqa: A002 - the word of the contract
        **options: Unpack[EvaluateOptions],
    ) -> Evaluation:
        """Says what a call would ask before it does anything. Nothing is run or recorded, and nobody is asked.

        Args:
            tool: The tool's name, as the model wrote it.
            input: The arguments: a mapping, a model of pydantic, or JSON text exactly as the model wrote it.
            **options: The options of `AsyncClient.evaluate`.
        """
        return _portal.run(self._client.evaluate(tool, input, **options))

    def watch(self, call_id: str, *, after: int = 0, output: OutputMode = "full") -> Execution:
        """Watches a call that exists, from any event on. Leaving it never touches the call; `cancel()` does."""
        return Execution(self._client.watch(call_id, after=after, output=output))

    def revert(self, call_id: str, **options: Unpack[RevertOptions]) -> Execution:
        """Takes back what an ended call did to files, which is a call itself. Options are `AsyncClient.revert`'s."""
        return Execution(self._client.revert(call_id, **options))

    def get(self, call_id: str) -> Call:
        """Returns the record of a call."""
        return _portal.run(self._client.get(call_id))

    def cancel(self, call_id: str) -> Call:
        """Asks a call to stop and returns its record once it has ended; its programs are gone then."""
        return _portal.run(self._client.cancel(call_id))

    def calls(
        self,
        *,
        workspace: str = "",
        session: str = "",
        states: Iterable[CallState] = (),
        tools: Iterable[str] = (),
    ) -> Iterator[Call]:
        """Lists calls, newest first. Filters that are set must all match.

        Args:
            workspace: The workspace; empty for all.
            session: The session; empty for all.
            states: Any of these states; none for all.
            tools: Any of these tools; none for all.
        """
        return _portal.iterate(self._client.calls(workspace=workspace, session=session, states=states, tools=tools))

    def send_input(
        self, call_id: str, data: bytes | str = b"", *, offset: int | None = None, close: bool = False
    ) -> InputState:
        """Sends bytes to the standard input of a call of the tool `background`; each counts once.

        Args:
            call_id: The call.
            data: The bytes.
            offset: How many bytes come before them in the whole input; `None` to append to what was sent before.
            close: Nothing follows: the program reads the end of its input.
        """
        return _portal.run(self._client.send_input(call_id, data, offset=offset, close=close))

    def terminal(self, call_id: str) -> Terminal:
        """Returns a command in the background, to show its terminal, to type to it, and to send it signals.

        Args:
            call_id: The call of the tool `background` that runs it: a `ChildEvent` of its `bash` has it.
        """
        return Terminal(self._client.terminal(call_id))

    def open_port(self, call_id: str, port: int, **options: Unpack[PortOptions]) -> OpenedPort:
        """Opens a port that a program of a call listens on, which may ask a person. It is a call itself.

        Args:
            call_id: The call whose program listens: its `ListeningEvent` and `Call.listening` say where.
            port: The port, 1 to 65535.
            **options: The options of `AsyncClient.open_port`.
        """
        return OpenedPort(_portal.run(self._client.open_port(call_id, port, **options)))

    def approvals(self, handler: Handler, **options: Unpack[ApprovalOptions]) -> Approvals:
        """Answers prompts with a handler, in `with` or by `run()`.

        Args:
            handler: Is given a `PermissionPrompt` or a `QuestionPrompt` and returns a decision, or `None` to leave it
                to others. It runs in a thread of its own for each prompt, unless it is `async`.
            **options: The options of `AsyncClient.approvals`.
        """
        return Approvals(self._client.approvals(handler, **options))

    def host(self, tools: Iterable[LentTool] = (), **options: Unpack[HostOptions]) -> Host:
        """Lends functions as tools, in `with` or by `run()`.

        Args:
            tools: Functions with the decorator `tool`, or tools made by hand.
            **options: The options of `AsyncClient.host`.
        """
        return Host(self._client.host(tools, **options))

    def output(self, output_id: str) -> Output:
        """Returns a stored output: to read, to search, to save to a file. `Result.truncation` has its id."""
        return Output(self._client.output(output_id))

    def files(self, **options: Unpack[FilesOptions]) -> Files:
        """Returns the files of a workspace: to list, to read, to watch, to change.

        Args:
            **options: The options of `AsyncClient.files`.
        """
        return Files(self._client.files(**options))

    def mcp(self, **options: Unpack[FilesOptions]) -> McpServers:
        """Returns what the MCP servers of a workspace have beside tools: resources and prompts, to list and to read.

        Args:
            **options: The options of `AsyncClient.mcp`.
        """
        return McpServers(self._client.mcp(**options))

    @property
    def workspaces(self) -> Workspaces:
        """The workspaces of the server: to list, to open, to close."""
        return Workspaces(self._client.workspaces)

    def events(self, *, workspace: str = "", session: str = "", after: int | None = None) -> WorkspaceEvents:
        """Watches what happens: states of calls, files, prompts, todos, tools, workspaces, ports.

        Args:
            workspace: Only this workspace.
            session: Only this session.
            after: The number of the event after which to begin; `None` for what happens from now on, 0 for all.
        """
        return WorkspaceEvents(self._client.events(workspace=workspace, session=session, after=after))

    def end_session(self, session_id: str) -> int:
        """Cancels a session's calls, ends what they left running, and forgets what the session has kept.

        Records stay. Returns how many calls were cancelled.
        """
        return _portal.run(self._client.end_session(session_id))

    def server_info(self) -> info_service_pb2.GetServerInfoResponse:
        """Returns what the server is and what it allows: its version, limits and workspaces."""
        return _portal.run(self._client.server_info())
