"""Stored outputs, without `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.sync import _portal

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from toolgate import outputs


class Output:
    """A stored output, by its id.

    Attributes:
        id: Its id.
    """

    def __init__(self, output: outputs.Output) -> None:
        self.id = output.id
        self._output = output

    def info(self) -> outputs.OutputInfo:
        """Returns what is known of the output."""
        return _portal.run(self._output.info())

    def read(self, offset: int = 0, limit: int = 0) -> Iterator[bytes]:
        """Reads bytes, in pieces: from an offset on, at most `limit` of them, 0 for all."""
        return _portal.iterate(self._output.read(offset, limit))

    def lines(self, first: int = 1, limit: int = 0) -> Iterator[bytes]:
        """Reads whole lines, in pieces of bytes: from a line on, at most `limit` of them, 0 for all."""
        return _portal.iterate(self._output.lines(first, limit))

    def tail(self, lines: int) -> Iterator[bytes]:
        """Reads the last lines, in pieces of bytes."""
        return _portal.iterate(self._output.tail(lines))

    def content(self) -> bytes:
        """Returns the whole output, as the tool wrote it."""
        return _portal.run(self._output.content())

    def text(self) -> str:
        """Returns the whole output as text; what is not UTF-8 is replaced."""
        return _portal.run(self._output.text())

    def search(self, pattern: str, *, before: int = 0, after: int = 0, max_matches: int = 0) -> outputs.SearchResult:
        """Searches the output line by line.

        Args:
            pattern: A regular expression in the syntax of Rust.
            before: Lines to show before each match, at most 20.
            after: Lines to show after each match, at most 20.
            max_matches: At most this many matching lines; 0 for 100.
        """
        return _portal.run(self._output.search(pattern, before=before, after=after, max_matches=max_matches))

    def delete(self) -> None:
        """Deletes the output. The record of its call stays."""
        _portal.run(self._output.delete())

    def save(self, path: str | os.PathLike[str], *, progress: outputs.Progress | None = None) -> int:
        """Saves the output to a file, which is there whole or not at all; a lost connection is taken up again.

        Args:
            path: The file. One that is there is replaced.
            progress: Is told how far it is, after each piece; it is called on the library's thread.

        Returns:
            The number of bytes.
        """
        return _portal.run(self._output.save(path, progress=progress))
