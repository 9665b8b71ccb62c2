"""Identifiers that the client makes."""

from __future__ import annotations

import secrets
import time
import uuid


def uuid7() -> str:
    """Returns a UUID of version 7 (RFC 9562): the time in milliseconds, then what is random."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | secrets.randbits(80)
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return str(uuid.UUID(int=value))
