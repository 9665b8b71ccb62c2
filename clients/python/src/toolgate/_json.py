"""JSON values, as Python's and as the contract's.

*Invariant:* nothing here knows a message of Toolgate.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf import struct_pb2
from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject: TypeAlias = dict[str, Any]


def from_struct(struct: struct_pb2.Struct) -> JsonObject:
    """Returns the object that a `Struct` holds; numbers without a fraction are integers."""
    return {key: _from_value(value) for key, value in struct.fields.items()}


def _from_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "string_value":
        return value.string_value
    if kind == "bool_value":
        return value.bool_value
    if kind == "struct_value":
        return from_struct(value.struct_value)
    if kind == "list_value":
        return [_from_value(one) for one in value.list_value.values]
    return None


def to_struct(value: Mapping[str, Any]) -> struct_pb2.Struct:
    """Makes a `Struct` of an object; data classes, models of pydantic, dates and the like become JSON first."""
    struct = struct_pb2.Struct()
    struct.update(to_jsonable_python(dict(value)))
    return struct


def to_text(value: Any) -> str:
    """Writes a value as JSON; data classes, models of pydantic, dates and the like are understood."""
    return json.dumps(to_jsonable_python(value), ensure_ascii=False, allow_nan=False)
