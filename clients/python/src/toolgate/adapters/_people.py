"""Prompts and decisions as plain values, which frameworks store, send to a page, and bring back.

*Invariant:* what is not clearly a decision is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolgate._json import JsonObject
from toolgate.prompts import (
    Decision,
    PermissionPrompt,
    Prompt,
    QuestionPrompt,
    Reach,
    Scope,
    always,
    answer,
    instead,
    once,
    reject,
)

_NOT_UNDERSTOOD = (
    "not a decision: {value!r}; it is True or False, 'once', 'always' or 'reject', or a mapping with one of them as "
    "'decision', beside 'message', 'answers', 'input', 'reach' and 'patterns'"
)


def prompt_json(prompt: Prompt) -> JsonObject:
    """Makes a value of JSON of a prompt: what a person has to see, and by what it is known."""
    shown: JsonObject = {
        "id": prompt.id,
        "call_id": prompt.call_id,
        "session": prompt.session,
        "workspace": prompt.workspace,
        "agent": prompt.agent,
        "tool": prompt.tool,
        "title": prompt.title,
        "input_digest": prompt.input_digest,
        "expires": prompt.expires.isoformat() if prompt.expires is not None else None,
    }
    if isinstance(prompt, QuestionPrompt):
        questions = [
            {
                "question": one.question,
                "header": one.header,
                "options": [{"label": option.label, "description": option.description} for option in one.options],
                "multiple": one.multiple,
                "custom": one.custom,
            }
            for one in prompt.questions
        ]
        return {**shown, "kind": "question", "questions": questions}
    return {
        **shown,
        "kind": "permission",
        "permission": prompt.permission.name,
        "patterns": prompt.permission.patterns,
        "always": prompt.permission.always,
        "diff": prompt.permission.diff,
        "input": prompt.input,
    }


def description_of(prompt: Prompt) -> str:
    """Returns what a person has to read, as lines of text."""
    if isinstance(prompt, QuestionPrompt):
        return "\n".join(
            line
            for one in prompt.questions
            for line in [one.question, *(f"- {option.label}: {option.description}" for option in one.options)]
        )
    lines = [prompt.title, *(f"{prompt.permission.name}: {pattern}" for pattern in prompt.permission.patterns)]
    return "\n".join([*lines, prompt.permission.diff] if prompt.permission.diff else lines)


def decision_of(value: object, prompt: Prompt) -> Decision:
    """Reads a decision: one of the library, or a value of JSON.

    Raises:
        ValueError: It is no decision.
    """
    if isinstance(value, Decision):
        return value
    if isinstance(value, bool):
        return once() if value else reject()
    if isinstance(value, str):
        if isinstance(prompt, QuestionPrompt):
            return answer(value)
        value = {"decision": value}
    if isinstance(value, Mapping):
        decision = _read(cast("Mapping[str, Any]", value), prompt)
        if decision is not None:
            return decision
    raise ValueError(_NOT_UNDERSTOOD.format(value=value))


def _read(value: Mapping[str, Any], prompt: Prompt) -> Decision | None:
    message = value.get("message")
    text = message if isinstance(message, str) else ""
    kind = value.get("decision")
    if kind == "once" and isinstance(prompt, PermissionPrompt):
        return once()
    if kind == "always" and isinstance(prompt, PermissionPrompt):
        reach = value.get("reach")
        scope = Scope(cast("Reach", reach)) if reach in ("run", "session", "workspace") else None
        return always(scope, value.get("patterns") or ()) if reach is None or scope is not None else None
    if kind == "reject":
        return reject(text)
    answers = value.get("answers")
    if kind == "answer" and isinstance(answers, list):
        return answer(*answers)
    if kind == "instead" and isinstance(value.get("input"), Mapping):
        return instead(value["input"])
    return None
