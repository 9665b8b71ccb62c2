"""The folders in which tools work: to look at, to open, to close."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolgate.results import time_of
from toolgate.v1 import info_service_pb2, workspace_service_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from toolgate._connection import Connection


@dataclass(frozen=True)
class Workspace:
    """A folder in which tools work.

    Attributes:
        name: Its name, for requests.
        directory: The folder that relative paths are joined to.
        worktree: The folder that titles and patterns are relative to.
        trusted: Whether code that the project brings is run.
        warnings: What a person should know of its configuration.
        problem: Why its calls are refused; empty if nothing is wrong.
        opened: When it was opened at run time; `None` for one of the configuration, which cannot be closed.
        opened_by: The principal that opened it; empty without authentication.
        raw: The message of the contract, which has more.
    """

    name: str
    directory: str
    worktree: str
    trusted: bool
    warnings: list[str]
    problem: str
    opened: datetime | None
    opened_by: str
    raw: info_service_pb2.WorkspaceInfo = field(repr=False)

    @classmethod
    def from_proto(cls, message: info_service_pb2.WorkspaceInfo) -> Workspace:
        """Reads the message of the contract."""
        return cls(
            name=message.name,
            directory=message.directory,
            worktree=message.worktree,
            trusted=message.trusted,
            warnings=list(message.warnings),
            problem=message.problem,
            opened=time_of(message.open_time) if message.HasField("open_time") else None,
            opened_by=message.opened_by,
            raw=message,
        )


@dataclass(frozen=True)
class OpenedWorkspace:
    """A workspace that is open.

    Attributes:
        workspace: It.
        is_new: Whether it was opened now, and not before.
    """

    workspace: Workspace
    is_new: bool


class Workspaces:
    """The workspaces of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open(self, name: str, directory: str | os.PathLike[str], *, create: bool = False) -> OpenedWorkspace:
        """Opens a folder as a workspace; the same name with the same folder again returns what is open.

        One whose configuration cannot be used is opened all the same: its `problem` says why its calls are refused.

        Args:
            name: 1 to 128 letters, digits, `-`, `_` and `.`, in parts with `/` between.
            directory: The folder on the service's machine, as an absolute path; below one that the operator allows.
            create: Makes the folder, if it is not there.
        """
        request = workspace_service_pb2.OpenWorkspaceRequest(
            workspace=name, directory=os.fspath(directory), create=create
        )
        response = await self._connection.unary(
            lambda stubs, timeout: stubs.workspaces.OpenWorkspace(request, timeout=timeout)
        )
        return OpenedWorkspace(Workspace.from_proto(response.workspace), response.opened)

    async def close(self, name: str) -> int:
        """Closes a workspace that was opened at run time, with its calls and what they left running. Records stay.

        Returns how many calls were cancelled.
        """
        request = workspace_service_pb2.CloseWorkspaceRequest(workspace=name)
        response = await self._connection.unary(
            lambda stubs, timeout: stubs.workspaces.CloseWorkspace(request, timeout=timeout)
        )
        return response.cancelled_calls

    async def get(self, name: str = "") -> Workspace:
        """Returns a workspace; the server's default one if the name is empty."""
        request = workspace_service_pb2.GetWorkspaceRequest(workspace=name)
        response = await self._connection.unary(
            lambda stubs, timeout: stubs.workspaces.GetWorkspace(request, timeout=timeout)
        )
        return Workspace.from_proto(response.workspace)

    async def list(self) -> AsyncIterator[Workspace]:
        """Lists the workspaces that the client may see, by their names."""
        request = workspace_service_pb2.ListWorkspacesRequest()
        while True:
            response = await self._page(request)
            for workspace in response.workspaces:
                yield Workspace.from_proto(workspace)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    async def roots(self) -> tuple[str, ...]:
        """Returns the folders below which workspaces may be opened; none if none may."""
        response = await self._page(workspace_service_pb2.ListWorkspacesRequest(page_size=1))
        return tuple(response.roots)

    async def _page(
        self, request: workspace_service_pb2.ListWorkspacesRequest
    ) -> workspace_service_pb2.ListWorkspacesResponse:
        return await self._connection.unary(
            lambda stubs, timeout: stubs.workspaces.ListWorkspaces(request, timeout=timeout)
        )
