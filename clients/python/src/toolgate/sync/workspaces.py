"""The folders in which tools work, without `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.sync import _portal

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from toolgate import workspaces


class Workspaces:
    """The workspaces of a server."""

    def __init__(self, workspaces: workspaces.Workspaces) -> None:
        self._workspaces = workspaces

    def open(self, name: str, directory: str | os.PathLike[str], *, create: bool = False) -> workspaces.OpenedWorkspace:
        """Opens a folder as a workspace; the same name with the same folder again returns what is open.

        One whose configuration cannot be used is opened all the same: its `problem` says why its calls are refused.

        Args:
            name: 1 to 128 letters, digits, `-`, `_` and `.`, in parts with `/` between.
            directory: The folder on the service's machine, as an absolute path; below one that the operator allows.
            create: Makes the folder, if it is not there.
        """
        return _portal.run(self._workspaces.open(name, directory, create=create))

    def close(self, name: str) -> int:
        """Closes a workspace that was opened at run time, with its calls and what they left running. Records stay.

        Returns how many calls were cancelled.
        """
        return _portal.run(self._workspaces.close(name))

    def get(self, name: str = "") -> workspaces.Workspace:
        """Returns a workspace; the server's default one if the name is empty."""
        return _portal.run(self._workspaces.get(name))

    def list(self) -> Iterator[workspaces.Workspace]:
        """Lists the workspaces that the client may see, by their names."""
        return _portal.iterate(self._workspaces.list())

    def roots(self) -> tuple[str, ...]:
        """Returns the folders below which workspaces may be opened; none if none may."""
        return _portal.run(self._workspaces.roots())
