"""What a call would ask, without making it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Server
from toolgate import AsyncClient, Client, PermissionAction, RpcError


@pytest.mark.permit(bash={"*": "ask", "echo *": "allow", "rm *": "deny"})
@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("echo x", PermissionAction.ALLOW),
        ("touch made", PermissionAction.ASK),
        ("rm x", PermissionAction.DENY),
    ],
)
async def test_what_a_call_would_ask(server: Server, command: str, action: PermissionAction) -> None:
    async with AsyncClient(server.target) as client:
        evaluation = await client.evaluate("bash", {"command": command, "description": "Does"})
        assert (evaluation.action, evaluation.tool, evaluation.complete) == (action, "bash", True)
        assert evaluation.summary == command
        assert len(evaluation.input_digest) == 64
        [request] = evaluation.requests
        assert request.permission is not None
        assert (request.permission.name, request.permission.patterns) == ("bash", [command])
        assert (request.action, request.questions, request.announced) == (action, [], False)
        assert not (server.work / "made").exists()
        assert [one async for one in client.calls()] == []


async def test_what_would_fail_says_why(server: Server) -> None:
    async with AsyncClient(server.target) as client:
        malformed = await client.evaluate("bash", "{")
        assert malformed.tool == "invalid"
        missing = await client.evaluate("edit", {"filePath": "nowhere", "oldString": "a", "newString": "b"})
        assert "nowhere" in missing.problem
        with pytest.raises(RpcError) as caught:
            await client.evaluate("bash", {"command": "ls", "description": "Lists"}, agent="nobody")
        assert caught.value.reason == "INVALID_FIELD"


def test_calls_below_and_questions(server: Server) -> None:
    with Client(server.target, client_kind="app") as client:
        command = {"command": "touch made", "description": "Makes", "background": True}
        evaluation = client.evaluate("bash", command)
        assert [one.tool for one in evaluation.children] == ["background"]
        question: dict[str, Any] = {"question": "Which?", "header": "Which", "options": []}
        [request] = client.evaluate("question", {"questions": [question]}).requests
        assert (request.permission, [one.question for one in request.questions]) == (None, ["Which?"])
        assert request.action is PermissionAction.ASK
