"""What a person is asked, and what a person may decide.

A handler of `Client.approvals` gets a `PermissionPrompt` or a `QuestionPrompt` and returns one of the decisions that
`once`, `always`, `reject`, `answer` and `instead` make, or nothing to leave the prompt to others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, Literal, TypeAlias

from toolgate._json import JsonObject, from_struct, to_text
from toolgate.results import time_of
from toolgate.v1 import permission_service_pb2, prompt_pb2

Reach: TypeAlias = Literal["run", "session", "workspace"]


class PromptState(str, Enum):
    """Whether a prompt still waits."""

    OPEN = "open"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"


class ReplyResult(str, Enum):
    """What became of a reply."""

    ACCEPTED = "accepted"
    ALREADY_RESOLVED = "already_resolved"
    NOT_FOUND = "not_found"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    DIGEST_MISMATCH = "digest_mismatch"
    INVALID = "invalid"
    OTHER_INSTANCE = "other_instance"
    NOT_ALLOWED = "not_allowed"
    SECOND_APPROVAL_NEEDED = "second_approval_needed"
    UNKNOWN = "unknown"


def prompt_state_of(value: prompt_pb2.PromptState.ValueType) -> PromptState:
    """Reads the state of a prompt; one that this library does not know yet is `UNKNOWN`."""
    name = prompt_pb2.PromptState.Name(value) if value in prompt_pb2.PromptState.values() else ""
    return PromptState.__members__.get(name.removeprefix("PROMPT_STATE_"), PromptState.UNKNOWN)


def reply_result_of(value: permission_service_pb2.ReplyResult.ValueType) -> ReplyResult:
    """Reads what became of a reply; what this library does not know yet is `UNKNOWN`."""
    results = permission_service_pb2.ReplyResult
    name = results.Name(value) if value in results.values() else ""
    return ReplyResult.__members__.get(name.removeprefix("REPLY_RESULT_"), ReplyResult.UNKNOWN)


@dataclass(frozen=True)
class PermissionPart:
    """One part of a compound request, such as one command of a shell line.

    Attributes:
        text: The source text.
        arguments: The words that a program gets, its name first; empty if the part starts no program.
        patterns: Everything that the part is judged as.
        always: Which of the request's `always` patterns come from this part.
        paths: The paths that it touches, as far as they are known.
        unclear: Why nobody can say what this part does; empty if it is clear.
        is_allowed: Whether the rules or a grant allow this part already.
    """

    text: str
    arguments: list[str]
    patterns: list[str]
    always: list[str]
    paths: list[str]
    unclear: str
    is_allowed: bool


@dataclass(frozen=True)
class Permission:
    """A permission that a tool needs.

    Attributes:
        name: `bash`, `edit`, `external_directory`, `doom_loop`, …
        patterns: What the tool is about to touch. The reply is for all of them.
        always: What the decision `always` would allow from now on.
        title: A short line for the person.
        metadata: What the person should see, such as the `diff` of an edit.
        parts: What a compound request consists of, in its order.
    """

    name: str
    patterns: list[str]
    always: list[str]
    title: str
    metadata: JsonObject
    parts: list[PermissionPart]

    @property
    def diff(self) -> str:
        """The change that an edit would make, as a unified diff; empty if it is no edit."""
        diff = self.metadata.get("diff")
        return diff if isinstance(diff, str) else ""


@dataclass(frozen=True)
class QuestionOption:
    """One choice: the answer is its label."""

    label: str
    description: str


@dataclass(frozen=True)
class Question:
    """A question that the model asks.

    Attributes:
        question: The whole question.
        header: A very short label.
        options: What may be chosen; possibly nothing.
        multiple: Several options may be chosen.
        custom: An own answer makes sense beside the options.
    """

    question: str
    header: str
    options: list[QuestionOption]
    multiple: bool
    custom: bool


@dataclass(frozen=True, kw_only=True)
class _Prompt:
    """What both kinds of prompts have.

    Attributes:
        id: The prompt's id.
        call_id: The call that waits.
        session: The call's session.
        workspace: The call's workspace.
        agent: The call's agent.
        tool: The call's tool.
        requester: Who made the call; empty without authentication.
        state: Whether it still waits.
        created: When it was asked.
        expires: When it ends by itself; `None` if it waits for ever.
        input_digest: SHA-256 of the input that would run; every reply cites it.
        raw: The message of the contract, which has more.
        problem: Why the handler is asked again: its last reply was not taken. Empty the first time.
    """

    id: str
    call_id: str
    session: str
    workspace: str
    agent: str
    tool: str
    requester: str
    state: PromptState
    created: datetime
    expires: datetime | None
    input_digest: str
    raw: prompt_pb2.Prompt = field(repr=False)
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class PermissionPrompt(_Prompt):
    """A tool needs a permission.

    Attributes:
        kind: What tells the prompts of the union `Prompt` apart.
        permission: The permission that is asked for.
        editable: Whether `instead` is a possible decision.
        input: If it is editable: the call's input.
    """

    permission: Permission
    editable: bool
    input: JsonObject | None
    kind: Literal["permission"] = "permission"

    @property
    def title(self) -> str:
        """A short line that says what is asked."""
        return self.permission.title or f"{self.permission.name}: {', '.join(self.permission.patterns)}"


@dataclass(frozen=True, kw_only=True)
class QuestionPrompt(_Prompt):
    """The model asks questions.

    Attributes:
        kind: What tells the prompts of the union `Prompt` apart.
        questions: In the order in which `answer` answers them.
    """

    questions: list[Question]
    kind: Literal["questions"] = "questions"

    @property
    def title(self) -> str:
        """The first question."""
        return self.questions[0].question if self.questions else self.tool


Prompt: TypeAlias = PermissionPrompt | QuestionPrompt
"""A question to a person that a call waits on."""


def prompt_of(message: prompt_pb2.Prompt, problem: str = "") -> Prompt:
    """Reads a prompt of the contract."""
    base: dict[str, Any] = {
        "id": message.prompt_id,
        "call_id": message.call_id,
        "session": message.session_id,
        "workspace": message.workspace,
        "agent": message.agent,
        "tool": message.tool,
        "requester": message.requester,
        "state": prompt_state_of(message.state),
        "created": time_of(message.create_time),
        "expires": time_of(message.expire_time) if message.HasField("expire_time") else None,
        "input_digest": message.input_digest,
        "raw": message,
        "problem": problem,
    }
    if message.HasField("questions"):
        return QuestionPrompt(questions=[question_of(one) for one in message.questions.questions], **base)
    return PermissionPrompt(
        permission=permission_of(message.permission),
        editable=message.editable,
        input=json.loads(message.input_json) if message.input_json else None,
        **base,
    )


def permission_of(message: prompt_pb2.PermissionRequest) -> Permission:
    """Reads the message of the contract."""
    return Permission(
        name=message.permission,
        patterns=list(message.patterns),
        always=list(message.always),
        title=message.title,
        metadata=from_struct(message.metadata),
        parts=[
            PermissionPart(
                text=part.text,
                arguments=list(part.arguments),
                patterns=list(part.patterns),
                always=list(part.always),
                paths=list(part.paths),
                unclear=part.unclear,
                is_allowed=part.action == prompt_pb2.PERMISSION_ACTION_ALLOW,
            )
            for part in message.parts
        ],
    )


def question_of(message: prompt_pb2.Question) -> Question:
    """Reads the message of the contract."""
    return Question(
        question=message.question,
        header=message.header,
        options=[QuestionOption(label=one.label, description=one.description) for one in message.options],
        multiple=message.multiple,
        custom=message.custom,
    )


@dataclass(frozen=True)
class Scope:
    """How far a standing approval reaches, and what ends it by itself.

    Attributes:
        reach: `run`: the workspace, until the service ends. `session`: the prompt's session. `workspace`: for good.
            `None`: `run`.
        expires: When it ends: a moment, or how long from now.
        max_uses: How many requests it lets through; 0 for any number.
    """

    reach: Reach | None = None
    expires: datetime | timedelta | None = None
    max_uses: int = 0

    def to_proto(self) -> prompt_pb2.GrantScope:
        """Makes the message of the contract."""
        scope = prompt_pb2.GrantScope(max_uses=self.max_uses)
        if self.reach is not None:
            scope.reach = prompt_pb2.GrantReach.Value(f"GRANT_REACH_{self.reach.upper()}")
        if self.expires is not None:
            moment = self.expires
            if isinstance(moment, timedelta):
                moment = datetime.now(timezone.utc) + moment
            scope.expire_time.FromDatetime(moment.astimezone(timezone.utc))
        return scope


@dataclass(frozen=True)
class Decision:
    """What a handler decides about a prompt; made by `once`, `always`, `reject`, `answer` and `instead`.

    Attributes:
        reply: The message of the contract, without what names the prompt.
    """

    reply: permission_service_pb2.PromptReply

    def reply_to(self, prompt: Prompt, reply_id: str) -> permission_service_pb2.PromptReply:
        """Makes the reply to a prompt: it cites the input that the person was shown."""
        reply = permission_service_pb2.PromptReply()
        reply.CopyFrom(self.reply)
        reply.prompt_id = prompt.id
        reply.reply_id = reply_id
        reply.input_digest = prompt.input_digest
        is_always = reply.decision == prompt_pb2.PROMPT_DECISION_ALWAYS
        if is_always and not reply.always_patterns and isinstance(prompt, PermissionPrompt):
            reply.always_patterns.extend(prompt.permission.always)
        return reply


def once() -> Decision:
    """Allows this call only."""
    return Decision(permission_service_pb2.PromptReply(decision=prompt_pb2.PROMPT_DECISION_ONCE))


def always(scope: Scope | None = None, patterns: Sequence[str] = ()) -> Decision:
    """Allows this call, and from now on what the prompt's `always` patterns match.

    Args:
        scope: How far that reaches; by default the workspace, while the service runs.
        patterns: Which of the prompt's `always` patterns, word for word; none for all of them.
    """
    reply = permission_service_pb2.PromptReply(
        decision=prompt_pb2.PROMPT_DECISION_ALWAYS,
        scope=scope.to_proto() if scope is not None else None,
        always_patterns=patterns,
    )
    return Decision(reply)


def reject(message: str = "") -> Decision:
    """Refuses the call, or dismisses the questions.

    Args:
        message: What the model should do instead.
    """
    return Decision(permission_service_pb2.PromptReply(decision=prompt_pb2.PROMPT_DECISION_REJECT, message=message))


def answer(*answers: str | Sequence[str]) -> Decision:
    """Answers questions, in their order.

    Args:
        *answers: For each question a label or an own text, or several; an empty list leaves it unanswered.
    """
    values = [[one] if isinstance(one, str) else list(one) for one in answers]
    reply = permission_service_pb2.PromptReply(
        decision=prompt_pb2.PROMPT_DECISION_ANSWER, answers=[prompt_pb2.QuestionAnswer(values=one) for one in values]
    )
    return Decision(reply)


def instead(input: Mapping[str, Any] | str) -> Decision:  # noqa: A002 - the word of the contract
    """Lets the call run with another input. Only for permission prompts that are `editable`.

    Args:
        input: The whole input, as a mapping or as JSON text.
    """
    text = input if isinstance(input, str) else to_text(input)
    reply = permission_service_pb2.PromptReply(decision=prompt_pb2.PROMPT_DECISION_INSTEAD, input_json=text)
    return Decision(reply)


@dataclass(frozen=True)
class ReplyOutcome:
    """What became of a reply.

    Attributes:
        prompt: The prompt as it was shown to the handler.
        decision: What the handler decided.
        result: What became of it; only `ACCEPTED` decided.
        message: A sentence for a person, if the reply was not accepted.
        raw: The message of the contract.
    """

    prompt: Prompt
    decision: Decision
    result: ReplyResult
    message: str
    raw: permission_service_pb2.PromptReplyResult = field(repr=False)
