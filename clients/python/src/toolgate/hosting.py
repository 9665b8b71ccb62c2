"""Lending functions as tools: the decorator `tool`, what a function is given, and what it may return.

*Invariant:* nothing here knows a stream; `toolgate.host` runs what is described here.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, get_type_hints, overload

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import GenerateJsonSchema

from toolgate._json import JsonObject, to_text
from toolgate.definitions import ToolEffect
from toolgate.v1 import host_service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolgate.results import Attachment

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ToolResult:
    """The full result of a lent tool.

    Attributes:
        output: The text for the model; `None` for what was reported as output while the tool ran.
        title: A short text for people; empty for the last one that was reported.
        metadata: Merged over what was reported while the tool ran.
        attachments: Files that belong to the result.
    """

    output: str | None = None
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    attachments: Sequence[Attachment] = ()


class Reports(Protocol):
    """Where a context sends what a function reports."""

    async def progress(self, title: str | None, metadata: Mapping[str, Any]) -> None:
        """Reports title and metadata."""

    async def output(self, data: bytes) -> None:
        """Reports output."""

    async def ask(self, ask: AskRequest) -> None:
        """Asks for a permission; raises `PermissionRefused` unless it is given."""


@dataclass(frozen=True)
class AskRequest:
    """A request for a permission, made while a lent tool runs."""

    permission: str
    patterns: Sequence[str]
    always: Sequence[str]
    title: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class ToolContext:
    """What a lent tool knows of its call, and what it may report while it runs. For functions that are `async`.

    Attributes:
        invocation_id: Names this run of the function.
        call_id: The call.
        session: The call's session.
        workspace: The call's workspace.
        agent: The call's agent.
        message_id: The model's message that the call belongs to.
        input_json: The input as canonical JSON.
        raw: The message of the contract.
    """

    invocation_id: str
    call_id: str
    session: str
    workspace: str
    agent: str
    message_id: str
    input_json: str
    raw: host_service_pb2.HostInvoke | host_service_pb2.HostRunSubagent = field(repr=False)
    reports: Reports = field(repr=False)

    async def progress(self, title: str | None = None, metadata: Mapping[str, Any] | None = None) -> None:
        """Shows a new title, or new metadata: absent keys stay, and `None` clears a key."""
        await self.reports.progress(title, metadata or {})

    async def output(self, data: bytes | str) -> None:
        """Adds to the output of the call, which is shown as it comes."""
        await self.reports.output(data.encode() if isinstance(data, str) else data)

    async def ask(
        self,
        permission: str,
        *patterns: str,
        always: Sequence[str] = (),
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Asks for a permission, by the rules of the call's agent and then of a person.

        Args:
            permission: Its name; any name may be asked for.
            *patterns: What the tool is about to touch; none for `*`.
            always: The patterns that the reply `always` allows from then on.
            title: A short line for the person.
            metadata: What the person should see.

        Raises:
            PermissionRefused: It was refused.
        """
        await self.reports.ask(AskRequest(permission, patterns, always, title, metadata or {}))


@dataclass(frozen=True)
class SubagentRun:
    """What a subagent is to do. The calls that it makes name `call_id` as their parent and `session` as their session.

    Attributes:
        call_id: The call of `task`.
        session: The subagent's session.
        resumed: Whether the session goes on; otherwise it is new.
        agent: The agent.
        agent_prompt: Its own system prompt, or empty.
        model: The model, as `provider/name`, or empty.
        description: What it is to do, in a few words.
        prompt: What it is to do.
        allowed_tools: The tools that it is offered.
        raw: The message of the contract, which has more.
    """

    call_id: str
    session: str
    resumed: bool
    agent: str
    agent_prompt: str
    model: str
    description: str
    prompt: str
    allowed_tools: list[str]
    raw: host_service_pb2.HostRunSubagent = field(repr=False)

    @classmethod
    def from_proto(cls, message: host_service_pb2.HostRunSubagent) -> SubagentRun:
        """Reads the message of the contract."""
        model = message.model
        return cls(
            call_id=message.call_id,
            session=message.session_id,
            resumed=message.resumed,
            agent=message.agent,
            agent_prompt=message.agent_prompt,
            model=f"{model.provider_id}/{model.model_id}" if model.model_id else model.provider_id,
            description=message.description,
            prompt=message.prompt,
            allowed_tools=list(message.allowed_tools),
            raw=message,
        )


@dataclass
class Hook:
    """A point in every call at which a host takes part. What `output` holds afterwards is what goes on.

    Attributes:
        point: Its name, such as `tool.execute.before`.
        input: What it is about.
        output: What it may change.
        raw: The message of the contract.
    """

    point: str
    input: JsonObject
    output: JsonObject
    raw: host_service_pb2.HostHook = field(repr=False)

    @classmethod
    def from_proto(cls, message: host_service_pb2.HostHook) -> Hook:
        """Reads the message of the contract."""
        return cls(message.point, json.loads(message.input_json), json.loads(message.output_json), message)


Subagent: TypeAlias = Callable[[SubagentRun, ToolContext], Awaitable["str | ToolResult | None"]]
"""Runs a subagent and returns its last text."""

HookFunction: TypeAlias = Callable[[Hook], Any]
"""Changes `output` of the hook, or raises to refuse. A function that is not `async` runs in a thread."""


@dataclass(frozen=True)
class LentTool:
    """A tool that is lent.

    The decorator `tool` makes one of a function; one whose schema is known only when the program runs is made by hand.

    Attributes:
        name: 1 to 64 letters, digits, `_` and `-`.
        description: The text for the model.
        input_schema: The JSON Schema of the input: an object, or its JSON text.
        run: Is given the parsed input and a context; returns text, a `ToolResult`, nothing, or a value for JSON.
        effects: What the tool may do.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any] | str
    run: Callable[[JsonObject, Any], Any]
    effects: Sequence[ToolEffect] = ()

    def to_proto(self) -> host_service_pb2.LentTool:
        """Makes the message of the contract."""
        schema = self.input_schema if isinstance(self.input_schema, str) else to_text(self.input_schema)
        return host_service_pb2.LentTool(
            name=self.name,
            description=self.description,
            input_schema_json=schema,
            effects=[one.to_proto() for one in self.effects],
        )


class _PlainSchema(GenerateJsonSchema):
    """Leaves out titles, which tell a model nothing that the names do not."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


class ToolFunction(LentTool):
    """A lent tool that is still the function it was made of: calling it calls the function."""

    def __init__(
        self, function: Callable[..., Any], name: str, description: str, effects: Iterable[ToolEffect]
    ) -> None:
        documented = docstring_parser.parse(inspect.getdoc(function) or "")
        self._function = function
        self._context = _context_parameter(function)
        self._model = _input_model(function, self._context, documented)
        schema = self._model.model_json_schema(schema_generator=_PlainSchema)
        schema.pop("title", None)
        schema.pop("description", None)
        super().__init__(
            name=name or getattr(function, "__name__", ""),
            description=description or (documented.description or "").strip(),
            input_schema=schema,
            run=self._run_async if inspect.iscoroutinefunction(function) else self._run,
            effects=tuple(effects),
        )

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function."""
        return self._function(*arguments, **named)

    async def _run_async(self, input: JsonObject, context: Any) -> Any:  # noqa: A002
        return await self._run(input, context)

    def _run(self, input: JsonObject, context: Any) -> Any:  # noqa: A002
        parsed = self._model.model_validate(input)
        arguments = {name: getattr(parsed, name) for name in type(parsed).model_fields}
        if self._context is not None:
            arguments[self._context] = context
        return self._function(**arguments)


@overload
def tool(function: Callable[..., Any], /) -> ToolFunction: ...


@overload
def tool(
    *, name: str = "", description: str = "", effects: Iterable[ToolEffect] = ()
) -> Callable[[Callable[..., Any]], ToolFunction]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    effects: Iterable[ToolEffect] = (),
) -> ToolFunction | Callable[[Callable[..., Any]], ToolFunction]:
    """Makes a tool of a function: its schema from the type hints, its descriptions from the docstring.

    Parameters are described in the docstring's section `Args` or by `Annotated[…, pydantic.Field(…)]`. A parameter of
    the type `ToolContext` or `SyncToolContext` is given the context and is not part of the schema. A function that is
    not `async` runs in a thread.

    Args:
        function: The function, where the decorator stands without brackets.
        name: The name; that of the function if empty.
        description: The text for the model; that of the docstring, without its sections, if empty.
        effects: What the tool may do, for front ends that mark tools by it.
    """

    def decorate(function: Callable[..., Any]) -> ToolFunction:
        return ToolFunction(function, name, description, effects)

    return decorate if function is None else decorate(function)


def _context_parameter(function: Callable[..., Any]) -> str | None:
    from toolgate.sync.hosting import SyncToolContext

    wanted: type = ToolContext
    other: type = SyncToolContext
    if not inspect.iscoroutinefunction(function):
        wanted, other = other, wanted
    for name, hint in get_type_hints(function).items():
        if hint is wanted:
            return name
        if hint is other:
            raise TypeError(f"{name} has to be a {wanted.__name__}: ToolContext is for `async` functions only")
    return None


def _input_model(
    function: Callable[..., Any], context: str | None, documented: docstring_parser.Docstring
) -> type[BaseModel]:
    described = {one.arg_name: one.description for one in documented.params}
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == context:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"a tool's parameters have names and types; {parameter} is of another kind")
        if name not in hints:
            raise TypeError(f"the parameter {name} has no type hint, which its schema is made of")
        default = ... if parameter.default is parameter.empty else parameter.default
        # A description of `None` would hide the one that `Annotated` brings.
        text = described.get(name)
        fields[name] = (hints[name], Field(default, description=text) if text else default)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    return create_model(getattr(function, "__name__", "Input"), __config__=config, **fields)
