"""What of a result frameworks keep beside what the model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolgate._json import JsonObject
    from toolgate.results import Result


def facts_of(result: Result) -> JsonObject:
    """Returns what programs want to know of a result, as a value of JSON."""
    return {
        "call_id": result.call_id,
        "ok": result.ok,
        "title": result.title,
        "reason": result.reason.value if result.reason is not None else None,
        "outcome": result.outcome.value if result.outcome is not None else None,
        "exit_code": result.exit_code,
        "output_id": result.truncation.output_id or None,
        "metadata": result.metadata,
    }
