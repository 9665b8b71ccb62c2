"""What is known of a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from toolgate.results import time_of
from toolgate.v1 import file_service_pb2

if TYPE_CHECKING:
    from datetime import datetime


class FileKind(str, Enum):
    """What an entry of a folder is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class FileInfo:
    """A file, a folder, or what else stands in one.

    Attributes:
        path: Its path relative to the workspace's folder, `.` for that folder itself.
        kind: What it is; `OTHER` is a pipe, a socket or a device, which is shown and cannot be opened.
        size: Bytes; of what is no file what the system says.
        mode: The permission bits.
        modified: When the content was last modified.
        link_target: Where a link leads, as it is written in it; empty for everything else.
        sha256: The digest of the content, where it was asked for; empty for what is no file, and above 64 MiB.
        path_is_lossy: The name is not UTF-8, so `path` names nothing.
        unreadable: It is a folder that the service may not list.
        raw: The message of the contract.
    """

    path: str
    kind: FileKind
    size: int
    mode: int
    modified: datetime
    link_target: str
    sha256: str
    path_is_lossy: bool
    unreadable: bool
    raw: file_service_pb2.FileInfo = field(repr=False)

    @classmethod
    def from_proto(cls, message: file_service_pb2.FileInfo) -> FileInfo:
        """Reads the message of the contract."""
        kinds = file_service_pb2.FileKind
        kind = kinds.Name(message.kind) if message.kind in kinds.values() else ""
        return cls(
            path=message.path,
            kind=FileKind.__members__.get(kind.removeprefix("FILE_KIND_"), FileKind.UNKNOWN),
            size=message.size_bytes,
            mode=message.mode,
            modified=time_of(message.modify_time),
            link_target=message.link_target,
            sha256=message.sha256,
            path_is_lossy=message.path_is_lossy,
            unreadable=message.unreadable,
            raw=message,
        )
