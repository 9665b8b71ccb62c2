"""Tools as a model is told of them, and the forms in which the common model APIs take them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias

from toolgate._json import JsonObject
from toolgate.v1 import call_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

Format: TypeAlias = Literal["openai", "openai_responses", "anthropic", "gemini"]


class ToolSource(str, Enum):
    """Where a tool comes from."""

    BUILTIN = "builtin"
    CUSTOM = "custom"
    PLUGIN = "plugin"
    MCP = "mcp"
    HOSTED = "hosted"
    UNKNOWN = "unknown"


class ToolEffect(str, Enum):
    """What a tool may do to the world."""

    READS = "reads"
    WRITES = "writes"
    RUNS_PROGRAMS = "runs_programs"
    NETWORK = "network"
    ASKS_USER = "asks_user"

    def to_proto(self) -> call_pb2.ToolEffect.ValueType:
        """Makes the value of the contract."""
        return call_pb2.ToolEffect.Value(f"TOOL_EFFECT_{self.name}")


@dataclass(frozen=True)
class Model:
    """A model, as the front end names it.

    Attributes:
        provider: The provider's id, for instance `anthropic`.
        name: The provider's name for the model; may be empty.
        package: The npm package through which the front end reaches it, if that is not the provider's usual one.
    """

    provider: str
    name: str = ""
    package: str = ""

    @classmethod
    def parse(cls, text: str) -> Model:
        """Reads `provider/model`; the model's name may contain slashes."""
        provider, _, name = text.partition("/")
        return cls(provider, name)

    def to_proto(self) -> call_pb2.ModelRef:
        """Makes the message of the contract."""
        return call_pb2.ModelRef(provider_id=self.provider, model_id=self.name, package=self.package)


@dataclass(frozen=True)
class ToolDefinition:
    """A tool as a model is told of it.

    Attributes:
        name: The name that a call uses.
        description: The text for the model.
        input_schema: The JSON Schema (2020-12) of the input.
        source: Where the tool comes from.
        effects: What it may do.
        permissions: The permissions that it may ask for.
        experimental: Whether it may change or vanish without notice.
        raw: The message of the contract.
    """

    name: str
    description: str
    input_schema: JsonObject
    source: ToolSource
    effects: list[ToolEffect]
    permissions: list[str]
    experimental: bool
    raw: call_pb2.ToolDefinition = field(repr=False)

    @classmethod
    def from_proto(cls, message: call_pb2.ToolDefinition) -> ToolDefinition:
        """Reads the message of the contract."""
        known = {one.to_proto(): one for one in ToolEffect}
        source = call_pb2.ToolSource.Name(message.source) if message.source in call_pb2.ToolSource.values() else ""
        return cls(
            name=message.name,
            description=message.description,
            input_schema=json.loads(message.input_schema_json),
            source=ToolSource.__members__.get(source.removeprefix("TOOL_SOURCE_"), ToolSource.UNKNOWN),
            effects=[known[one] for one in message.effects if one in known],
            permissions=list(message.permissions),
            experimental=message.experimental,
            raw=message,
        )


def model_of(form: Format) -> Model:
    """Returns the provider whose models take tools in this form, without naming one of its models."""
    providers = {"openai": "openai", "openai_responses": "openai", "anthropic": "anthropic", "gemini": "google"}
    return Model(providers[form])


def in_form(tools: Iterable[ToolDefinition], form: Format) -> list[JsonObject]:
    """Returns the list of tools that a model API takes."""
    if form == "openai":
        return [{"type": "function", "function": _function(tool)} for tool in tools]
    if form == "openai_responses":
        # Strict mode, the default there, takes only schemas that require every property.
        return [{"type": "function", **_function(tool), "strict": False} for tool in tools]
    if form == "anthropic":
        return [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools
        ]
    return [{"functionDeclarations": [_function(tool) for tool in tools]}]


def _function(tool: ToolDefinition) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
