"""Arguments checked against a JSON schema that came with a tool, as `arguments.py` checks those of a Python function.

The same leniency, no more: a value that converts without loss is converted, and an argument that says nothing (unknown and
empty, or null where null does not fit and nothing is required) is left out; both are reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs

from daneel.harness.tools.arguments import CONVERSION_ROUNDS, SHOWN_ERRORS, ArgumentsError, Bound, lossless, show

REGEX_LIMIT_BYTES = 1_000_000
BACKTRACK_LIMIT = 100_000
MAX_FAULTS = 50
_PYDANTIC_KINDS = {
    "integer": "int_type",
    "number": "float_type",
    "boolean": "bool_type",
    "string": "string_type",
    "array": "list_type",
    "object": "dict_type",
}
_MISSING = re.compile(r'^"(.*)" is a required property$')


class SchemaError(ValueError):
    """A schema that arguments cannot be checked against; the message says why."""


def binder(schema: dict[str, Any]) -> Callable[[dict[str, Any]], Bound]:
    """A function that checks arguments against `schema`, raising ArgumentsError. Raises SchemaError.

    References outside the schema are refused, and patterns have limits: the schema may be anybody's.
    """
    try:
        validator = jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=REGEX_LIMIT_BYTES),
        )
    except (ValueError, RecursionError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise SchemaError(str(error).split("\n", 1)[0][:200]) from error

    def bind(arguments: dict[str, Any]) -> Bound:
        data = arguments
        conversions: list[str] = []
        for _ in range(CONVERSION_ROUNDS):
            faults = _faults(validator, data)
            if not faults:
                return Bound(data, data, tuple(conversions))
            data = json.loads(json.dumps(data))
            changes = [change for fault in faults for change in _convert(data, fault)]
            if not changes:
                raise _explain(faults, schema)
            conversions += changes
        raise ArgumentsError("the arguments do not fit the tool's schema")

    return bind


def _refuse(uri: str) -> Any:
    raise ValueError(f"references outside the schema are not followed ({uri[:80]})")


def _faults(validator: Any, data: dict[str, Any]) -> list[Any]:
    faults: list[Any] = []
    try:
        for fault in validator.iter_errors(data):
            faults.append(fault)
            if len(faults) == MAX_FAULTS:
                break
    except (ValueError, RecursionError, OverflowError) as error:
        raise ArgumentsError(f"the arguments cannot be checked: {error}") from error
    return faults


def _convert(root: dict[str, Any], fault: Any) -> Iterator[str]:
    """Convert, in place, what `fault` complains of, if nothing is lost by it; says what was done."""
    holder, key = _holder(root, list(fault.instance_path))
    if fault.kind.name == "additionalProperties":
        target = root if holder is None else holder[key]
        for name in fault.kind.unexpected:
            if isinstance(target, dict) and name in target and _says_nothing(target[name]):
                del target[name]
                yield f"/{name}: left out, as no such argument exists and it was empty"
        return
    wanted_types = _types(fault)
    if holder is None or not wanted_types:
        return
    value = holder[key]
    path = "/" + "/".join(str(step) for step in fault.instance_path)
    for wanted in wanted_types:
        try:
            new = lossless(_PYDANTIC_KINDS.get(wanted, ""), value)
        except ValueError:
            continue
        if new is not None:
            holder[key] = new
            yield f"{path}: {show(value)} read as {show(new)}"
            return
    if value is None and isinstance(holder, dict):
        del holder[key]  # where it is required, the next round says that it is missing
        yield f"{path}: left out, as it was null"


def _types(fault: Any) -> list[str]:
    """The types that would have been right at the place of `fault`, those of all branches together."""
    if fault.kind.name == "type":
        return list(fault.kind.types)
    branches = getattr(fault.kind, "context", None) or []
    return [
        name for branch in branches for inner in branch if inner.instance_path == fault.instance_path for name in _types(inner)
    ]


def _says_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _holder(root: Any, path: list[Any]) -> tuple[Any, Any]:
    """The container and the key that a path leads to; None for the arguments themselves."""
    holder: Any = None
    key: Any = None
    value = root
    for step in path:
        if not isinstance(value, dict | list):
            return None, None
        holder, key = value, step
        value = holder[key]
    return holder, key


def _explain(faults: list[Any], schema: dict[str, Any]) -> ArgumentsError:
    lines = list(dict.fromkeys(_sentence(fault, schema) for fault in faults))
    more = f" (and {len(lines) - SHOWN_ERRORS} more)" if len(lines) > SHOWN_ERRORS else ""
    path = "".join(f"/{step}" for step in faults[0].instance_path)
    return ArgumentsError("; ".join(lines[:SHOWN_ERRORS]) + more, path)


def _sentence(fault: Any, schema: dict[str, Any]) -> str:
    name = ".".join(str(step) for step in fault.instance_path)
    message = str(fault.message)
    if missing := _MISSING.match(message):
        return f'argument "{f"{name}." if name else ""}{missing[1]}" is missing'
    if fault.kind.name == "additionalProperties" and not name:
        known = ", ".join(f'"{known}"' for known in schema.get("properties", {}))
        there_are = f" (there are {known})" if known else " (it takes no arguments)"
        return f'there is no argument "{fault.kind.unexpected[0]}"' + there_are
    message = message if len(message) <= 200 else message[:199] + "…"
    return f'argument "{name}": {message}' if name else message
