"""The declared tools, and what is wrong with a call to one of them.

Arguments are checked against the tool's JSON Schema as they are: nothing is coerced. References outside the schema are
refused, so a declaration cannot make daneel fetch anything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import jsonschema_rs

from daneel.formats.base import Issue, Tool

MAX_ISSUES = 10
"""Issues reported per call; a schema can be broken in every element of a long array."""

_MAX_VALUE_SHOWN = 80
_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_OTHER_NAMES = {
    "string": ("str", "text", "char", "varchar"),
    "integer": ("int", "int32", "int64", "uint", "long", "short"),
    "number": ("float", "float32", "float64", "double", "decimal"),
    "boolean": ("bool",),
    "object": ("dict", "map"),
    "array": ("list", "tuple"),
    "null": ("none", "nonetype"),
}
_ALIASES = {name: kind for kind in _TYPES for name in (kind, *_OTHER_NAMES[kind])}
"""The types of JSON Schema by what people call them, in small letters."""
_WORDS_OF_NO_VALUE = ("default", "const", "example", "examples")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


class ToolSet:
    """The tools of one request. `None` means that nothing is known of them: every name counts as declared.

    `ValueError` names the tool whose `parameters` are no JSON Schema, or that is declared twice.
    """

    def __init__(self, tools: Sequence[Tool] | None) -> None:
        self.tools: tuple[Tool, ...] = tuple(tools or ())
        self.known = tools is not None
        self._validators: dict[str, Any] = {}
        self._schemas: dict[str, dict[str, Any] | None] = {}
        for tool in self.tools:
            if tool.name in self._validators:
                raise ValueError(f"the tool {tool.name!r} is declared twice")
            self._validators[tool.name] = _validator(tool)

    def declared(self, name: str) -> bool:
        return not self.known or name in self._validators

    def schema(self, name: str) -> dict[str, Any] | None:
        """The schema of a declared tool's arguments, normalised; `None` if the tool or its schema is not known."""
        if name not in self._schemas:
            given = next((tool.parameters for tool in self.tools if tool.name == name), None)
            schema = normalise_schema(given)
            self._schemas[name] = schema if isinstance(schema, dict) else None
        return self._schemas[name]

    def issues(self, name: str, arguments_json: str) -> list[Issue]:
        """What is wrong with a call, at most `MAX_ISSUES`; empty when it may be dispatched."""
        if not self.known:
            return []
        validator = self._validators.get(name)
        if validator is None:
            names = ", ".join(sorted(self._validators)) or "none"
            return [Issue("unknown_tool", f"no tool is called {name!r}; declared: {names}")]
        try:
            arguments = json.loads(arguments_json, parse_int=_read_int, parse_float=_read_float)
        except (ValueError, RecursionError) as error:
            return [Issue("invalid_arguments", f"the arguments are not JSON: {error}", "")]
        if not isinstance(arguments, dict):
            return [Issue("invalid_arguments", "the arguments must be an object", "")]
        issues: list[Issue] = []
        try:
            for found in validator.iter_errors(arguments):
                issues.append(Issue("invalid_arguments", _message(found), _pointer(found.instance_path)))
                if len(issues) == MAX_ISSUES:
                    break
        except (ValueError, RecursionError) as problem:
            issues.append(Issue("invalid_arguments", f"the arguments cannot be checked: {problem}", ""))
        return issues


def _validator(tool: Tool) -> Any:
    schema = normalise_schema(tool.parameters) if tool.parameters else {"type": "object"}
    if not isinstance(schema, dict):
        raise ValueError(f"the parameters of the tool {tool.name!r} are not a JSON Schema: expected an object")
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse)
    except (ValueError, RecursionError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        reason = str(error).split("\n", 1)[0][:200]
        where = _pointer(getattr(error, "instance_path", []) or [])
        place = f" at {where}" if where else ""
        raise ValueError(f"the parameters of the tool {tool.name!r} are not a JSON Schema{place}: {reason}") from error


def _refuse(uri: str) -> Any:
    raise ValueError(f"references outside the schema are not followed ({uri[:80]})")


def normalise_schema(schema: Any) -> Any:
    """A copy with the spellings people use put right: other languages' type names, OpenAPI's `nullable`, words left null, a
    type's name in place of a property's schema. What names no type is no constraint.
    """
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if (value is None and key not in _WORDS_OF_NO_VALUE) or (key == "required" and isinstance(value, bool)):
            continue
        if key in _SCHEMA_MAPS and isinstance(value, dict):
            result[key] = {name: normalise_schema(_as_schema(item)) for name, item in value.items()}
        elif key in _SCHEMA_LISTS and isinstance(value, list):
            result[key] = [normalise_schema(item) for item in value]
        elif key in _SCHEMAS:
            result[key] = normalise_schema(value)
        else:
            result[key] = value
    kinds = _kinds(result.pop("type", None))
    if kinds is not None:
        result["type"] = kinds
    if result.pop("nullable", None) is True:
        return {"anyOf": [result, {"type": "null"}]}
    return result


def _as_schema(item: Any) -> Any:
    """What stands for a property: its schema, or only the name of its type."""
    return item if isinstance(item, dict | bool) else {"type": item}


def _kinds(given: Any) -> Any:
    """What `type` says, in the words of JSON Schema; `None` if that is no constraint. What is no name stays, and is wrong."""
    if isinstance(given, str):
        return _ALIASES.get(given.lower())
    if isinstance(given, list) and all(isinstance(item, str) for item in given):
        known = [_ALIASES.get(item.lower()) for item in given]
        return list(dict.fromkeys(known)) if known and None not in known else None
    return None if isinstance(given, dict) else given


def _message(error: Any) -> str:
    text = str(error.message)
    if len(text) <= 4 * _MAX_VALUE_SHOWN:
        return text
    return text[: 2 * _MAX_VALUE_SHOWN] + " … " + text[-_MAX_VALUE_SHOWN:]


def _pointer(path: Sequence[Any]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _read_float(text: str) -> float:
    """The number, or the largest there is: the schema is asked, not the value used."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return sys.float_info.max if value > 0 else -sys.float_info.max
    return value


def _read_int(text: str) -> int | float:
    return int(text) if len(text) < 1000 else _read_float(text)
