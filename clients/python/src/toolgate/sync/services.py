"""Approvals and hosts, without `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import Self

from toolgate.sync import _portal

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from toolgate import approvals, host
    from toolgate._service import Service


class _Service:
    """Serves in the background of `with`, or in the foreground of `run`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def start(self) -> None:
        """Begins to serve, and returns when the server has answered."""
        _portal.run(self._service.start())

    def wait(self) -> None:
        """Returns when this was stopped; raises what ended it otherwise."""
        _portal.run(self._service.wait())

    def run(self) -> None:
        """Serves until Ctrl-C."""
        _portal.run(self._service.run())

    def stop(self) -> None:
        """Ends in order: what was decided or finished is delivered, and the rest is given up."""
        _portal.run(self._service.stop())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _portal.run(self._service.__aexit__(kind, error, trace))


class Approvals(_Service):
    """Answers prompts while it is open: `with client.approvals(handler):`, or `approvals.run()`."""

    def __init__(self, service: approvals.Approvals) -> None:
        super().__init__(service)


class Host(_Service):
    """Lends tools while it is open: `with client.host(tools):`, or `host.run()`."""

    def __init__(self, service: host.Host) -> None:
        super().__init__(service)
        self._host = service

    @property
    def refused(self) -> list[host.Refused]:
        """What the server does not use, and why."""
        return self._host.refused
