"""What a call would ask, before it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from toolgate.prompts import Permission, Question, permission_of, question_of
from toolgate.v1 import prompt_pb2, tool_service_pb2


class PermissionAction(str, Enum):
    """What the rules and the standing approvals say."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    UNKNOWN = "unknown"


def _action_of(value: prompt_pb2.PermissionAction.ValueType) -> PermissionAction:
    actions = prompt_pb2.PermissionAction
    name = actions.Name(value) if value in actions.values() else ""
    return PermissionAction.__members__.get(name.removeprefix("PERMISSION_ACTION_"), PermissionAction.UNKNOWN)


@dataclass(frozen=True)
class EvaluatedRequest:
    """One thing that a call would ask.

    Attributes:
        permission: The permission that is asked for; `None` if it asks questions.
        questions: The questions for a person, which no rule answers.
        action: The verdict.
        grants: The ids of the standing approvals that turn ask into allow.
        announced: It is asked only after the one before is approved. What the call finds then may add to it.
        raw: The message of the contract.
    """

    permission: Permission | None
    questions: list[Question]
    action: PermissionAction
    grants: list[str]
    announced: bool
    raw: tool_service_pb2.EvaluatedRequest = field(repr=False)

    @classmethod
    def from_proto(cls, message: tool_service_pb2.EvaluatedRequest) -> EvaluatedRequest:
        """Reads the message of the contract."""
        return cls(
            permission=permission_of(message.permission) if message.HasField("permission") else None,
            questions=[question_of(one) for one in message.questions.questions],
            action=_action_of(message.action),
            grants=list(message.grant_ids),
            announced=message.announced,
            raw=message,
        )


@dataclass(frozen=True)
class Evaluation:
    """What a call would ask before it does anything.

    Attributes:
        action: The strictest verdict of all: `DENY` if any request is denied, else `ASK` if a person would be asked or
            if not everything is known, else `ALLOW`.
        tool: The tool that would run; `invalid` if the name or the JSON could not be understood.
        summary: What the call touches, one line.
        input_json: The frozen input, canonical JSON.
        input_digest: Its SHA-256.
        requests: What would be asked, in order.
        children: The calls that it would make: of `batch`, and of `bash` in the background.
        problem: Why the call would fail before it has asked everything, for the model; empty if it would not.
        complete: Whether `requests` is all that is asked before the call does something.
        raw: The message of the contract.
    """

    action: PermissionAction
    tool: str
    summary: str
    input_json: str
    input_digest: str
    requests: list[EvaluatedRequest]
    children: list[Evaluation]
    problem: str
    complete: bool
    raw: tool_service_pb2.CallEvaluation = field(repr=False)

    @classmethod
    def from_proto(cls, message: tool_service_pb2.CallEvaluation) -> Evaluation:
        """Reads the message of the contract."""
        return cls(
            action=_action_of(message.action),
            tool=message.tool,
            summary=message.summary,
            input_json=message.input_json,
            input_digest=message.input_digest,
            requests=[EvaluatedRequest.from_proto(one) for one in message.requests],
            children=[cls.from_proto(one) for one in message.children],
            problem=message.problem,
            complete=message.complete,
            raw=message,
        )
