"""Workspaces that are opened and closed."""

from __future__ import annotations

import pytest

from tests.conftest import Server
from tests.fake import Context, Fake
from toolgate import AsyncClient, Client, RpcError
from toolgate.v1 import info_service_pb2, workspace_service_pb2


@pytest.mark.permit(bash="allow")
async def test_a_workspace_is_opened_used_and_closed(server: Server) -> None:
    shop = server.roots / "shop"
    async with AsyncClient(server.target) as client, client.events(workspace="-") as events:
        workspaces = client.workspaces
        assert await workspaces.roots() == (str(server.roots),)
        opened = await workspaces.open("shop", shop, create=True)
        assert (opened.is_new, opened.workspace.name, opened.workspace.directory) == (True, "shop", str(shop))
        assert shop.is_dir()
        again = await workspaces.open("shop", shop)
        assert (again.is_new, again.workspace.opened) == (False, opened.workspace.opened)
        assert [one.name async for one in workspaces.list()] == ["default", "shop"]
        assert (await workspaces.get()).opened is None
        assert (await workspaces.get("shop")).problem == ""
        async for event in events:
            if event.kind == "workspace_changed":
                assert event.workspace == "shop"
                break
        result = await client.run("bash", {"command": "pwd", "description": "Says"}, workspace="shop")
        assert result.output == f"{shop}\n", result.error
        assert await workspaces.close("shop") == 0
        assert [one.name async for one in workspaces.list()] == ["default"]


async def test_closing_cancels_calls(server: Server) -> None:
    async with AsyncClient(server.target) as client:
        await client.workspaces.open("shop", server.roots / "shop", create=True)
        execution = client.execute("bash", {"command": "sleep 99", "description": "Sleeps"}, workspace="shop")
        assert (await execution.__anext__()).kind == "pending"
        assert await client.workspaces.close("shop") == 1
        assert not (await execution.result()).ok


async def test_a_workspace_that_is_broken_says_why(server: Server) -> None:
    shop = server.roots / "shop"
    shop.mkdir()
    (shop / "opencode.json").write_text("{")
    async with AsyncClient(server.target) as client:
        opened = await client.workspaces.open("shop", shop)
        assert "opencode.json" in opened.workspace.problem
        (shop / "opencode.json").write_text("{}")
        assert (await client.workspaces.open("shop", shop)).workspace.problem == ""


def test_what_cannot_be_opened_or_closed_says_why(server: Server) -> None:
    with Client(server.target) as client:
        workspaces = client.workspaces
        assert workspaces.roots() == (str(server.roots),)
        assert workspaces.open("shop", server.roots / "shop", create=True).is_new
        (server.roots / "other").mkdir()

        def reason(name: str, directory: str) -> str:
            with pytest.raises(RpcError) as caught:
                workspaces.open(name, directory)
            return caught.value.reason

        assert reason("shop", f"{server.roots}/other") == "WORKSPACE_NAME_TAKEN"
        assert reason("inside", f"{server.roots}/shop/..") == "INVALID_FIELD"
        assert reason("outside", f"{server.folder}") == "OUTSIDE_ROOTS"
        assert reason("gone", f"{server.roots}/gone") == "FOLDER_MISSING"
        assert reason("twice", f"{server.roots}/shop") == "WORKSPACES_OVERLAP"
        with pytest.raises(RpcError, match="WORKSPACE_CONFIGURED"):
            workspaces.close("default")
        with pytest.raises(RpcError, match="NOT_FOUND"):
            workspaces.get("nowhere")
        assert [one.name for one in workspaces.list()] == ["default", "shop"]
        assert workspaces.get("shop").opened is not None
        assert workspaces.close("shop") == 0


async def test_workspaces_are_listed_to_the_last_page() -> None:
    async def listed(request: workspace_service_pb2.ListWorkspacesRequest, _context: Context) -> object:
        name = request.page_token or "a"
        following = {"a": "b", "b": "c"}.get(name, "")
        workspaces = [info_service_pb2.WorkspaceInfo(name=name)]
        return workspace_service_pb2.ListWorkspacesResponse(workspaces=workspaces, next_page_token=following)

    async with Fake(ListWorkspaces=[listed]) as fake, AsyncClient(fake.target) as client:
        assert [one.name async for one in client.workspaces.list()] == ["a", "b", "c"]
