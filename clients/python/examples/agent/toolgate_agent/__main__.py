"""Puts the agent together: arguments, the connection, the person, and what Ctrl-C means."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import uuid
from contextlib import suppress

from toolgate import AsyncClient, RpcError, ToolgateError
from toolgate.v1 import session_service_pb2

from toolgate_agent.conversation import Conversation, Parts, Role, Subagents
from toolgate_agent.model import Model, ModelError
from toolgate_agent.people import Person
from toolgate_agent.terminal import Terminal, visible

_SYSTEM = """You are a careful software engineer who works in the folder {root} with the tools you are given.
Look before you change something, keep changes small, and run the tests afterwards. When a call is refused, read why,
and find another way that respects the reason. Say briefly what you did when you are done."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="toolgate-agent", description="An agent with the tools of Toolgate.")
    base_url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    parser.add_argument("--base-url", default=base_url, help="the OpenAI-compatible endpoint (%(default)s)")
    parser.add_argument("--model", required=True, help="the endpoint's name for the model")
    parser.add_argument("--server", help="Toolgate: unix:/path, http://host:port (TOOLGATE_SERVER)")
    parser.add_argument("--workspace", default="", help="the workspace; the server's first one if left out")
    parser.add_argument("--agent", default="build", help="the agent, whose rules hold (%(default)s)")
    return parser.parse_args()


class Turn:
    """What runs now, and what a signal does to it."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._program = asyncio.current_task()
        self._task: asyncio.Task[str] | None = None
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        # A closed window is no reason to leave calls behind either.
        for end in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(end, self._end)

    async def run(self, conversation: Conversation, text: str) -> None:
        """Has the agent work on a message; what goes wrong is told to the person, who may say what to do."""
        self._task = task = asyncio.create_task(conversation.turn(text))
        try:
            await asyncio.wait({task})
        finally:
            self._task = None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if task.cancelled():
            self._terminal.line("Stopped.")
        elif (error := task.exception()) is not None:
            if not isinstance(error, ModelError | RpcError):
                raise error
            self._terminal.line(self._terminal.paint(31, f"! {visible(str(error))}"))

    def _interrupt(self) -> None:
        if self._task is None:
            self._end()
        else:
            self._terminal.line("Stopping; Ctrl-C again ends the agent.")
            self._task.cancel()
            self._task = None

    def _end(self) -> None:
        if self._program is not None:
            self._program.cancel()


async def _talk(arguments: argparse.Namespace, terminal: Terminal) -> None:
    turn = Turn(terminal)
    session = f"ses_{uuid.uuid4().hex}"
    sessions = {session}
    # With the model's name the server decides which tools it gets, and in what form.
    client = AsyncClient(
        arguments.server, workspace=arguments.workspace, client_kind="cli", model=f"openai/{arguments.model}"
    )
    model = Model(arguments.base_url, os.environ.get("OPENAI_API_KEY", ""), arguments.model)
    async with client, model:
        workspaces = (await client.server_info()).workspaces
        root = next((one.directory for one in workspaces if arguments.workspace in ("", one.name)), ".")
        system = _SYSTEM.format(root=root)
        parts = Parts(client, model, terminal, host=f"agent {session}")
        person = Person(terminal, sessions)
        subagents = Subagents(parts, sessions, system)

        async def say(text: str) -> None:
            terminal.write(visible(text))

        conversation = Conversation(parts, Role(arguments.agent, session), system, say)
        try:
            async with (
                client.approvals(person.decide, workspace=arguments.workspace, on_reply=person.told),
                client.host(name=parts.host, subagent=subagents.run),
            ):
                while (text := await _next_message(terminal)) is not None:
                    await turn.run(conversation, text)
        finally:
            # Ends what commands left running in the background, too.
            for one in sessions:
                await _end_session(client, one)


async def _next_message(terminal: Terminal) -> str | None:
    while True:
        async with terminal.dialog():
            line = await terminal.ask("> ", typed_ahead=True)
        if line is None or line.strip():
            return line


async def _end_session(client: AsyncClient, session: str) -> None:
    request = session_service_pb2.EndSessionRequest(session_id=session)
    with suppress(RpcError):
        await client.rpc(lambda stubs: stubs.sessions.EndSession(request))


async def _main() -> int:
    arguments = _arguments()
    terminal = Terminal()
    try:
        await _talk(arguments, terminal)
    except asyncio.CancelledError:
        return 130
    except ToolgateError as error:
        terminal.line(f"toolgate-agent: {error}")
        return 1
    return 0


def main() -> None:
    """Runs the agent until its input ends, or Ctrl-C at its prompt."""
    sys.exit(asyncio.run(_main()))


if __name__ == "__main__":
    main()
