"""Arguments as a model wrote them, checked against a tool's parameters.

Strict, with one leniency: a value that converts without loss ("3" for an integer, 3.0 for an integer, "true" for a boolean,
an object or list that stands inside a string) is converted, and the conversion is reported. Nothing is filled in or left out,
but for unknown arguments that say nothing (null, "", [], {}).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

SHOWN_ERRORS = 3
SHOWN_CHARS = 80
CONVERSION_ROUNDS = 4
_SCHEMA_WORDS = {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
_INTEGER = re.compile(r"[+-]?\d{1,400}\Z")
_WHOLE = re.compile(r"[+-]?\d{1,400}\.0{1,20}\Z")
_NUMBER = re.compile(r"[+-]?\d{1,300}(\.\d{1,300})?([eE][+-]?\d{1,3})?\Z")


class ArgumentsError(Exception):
    """Arguments that a tool cannot be called with. `message` is for the model; `path` a JSON pointer to the first fault."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path


@dataclass(frozen=True, slots=True)
class Bound:
    """Checked arguments: `kwargs` for the function, `arguments` as JSON data for the record, and what was converted."""

    kwargs: dict[str, Any]
    arguments: dict[str, Any]
    conversions: tuple[str, ...] = ()


def bind(model: type[BaseModel], arguments: dict[str, Any]) -> Bound:
    """Check `arguments` against the model of a tool's parameters. Raises ArgumentsError."""
    data = arguments
    conversions: list[str] = []
    if not model.model_fields and data and _is_echoed_schema(data):
        data, conversions = {}, [f"{show(data)} left out: the tool takes no arguments, and this repeats its schema"]
    for _ in range(CONVERSION_ROUNDS):  # a list read from a string may hold values that need reading in turn
        try:
            return Bound(_kwargs(model, data), data, tuple(conversions))
        except ValidationError as error:
            data = json.loads(json.dumps(data))
            faults = error.errors(include_url=False, include_context=False)
            changes = [change for fault in faults if (change := _convert(data, fault))]
            if not changes:
                raise _explain(model, error, arguments) from error
            conversions += changes
    raise ArgumentsError("the arguments do not fit the tool's schema")


def _is_echoed_schema(arguments: dict[str, Any]) -> bool:
    """Small models repeat the schema of a tool without parameters as its arguments."""
    return set(arguments) <= _SCHEMA_WORDS and ("properties" in arguments or arguments.get("type") == "object")


def _kwargs(model: type[BaseModel], arguments: dict[str, Any]) -> dict[str, Any]:
    # JSON mode: strict there still reads dates, enums and tuples from what JSON has for them
    instance = model.model_validate_json(json.dumps(arguments), strict=True)
    names = {field: info.alias or field for field, info in model.model_fields.items()}
    return {names[field]: getattr(instance, field) for field in names if field in instance.model_fields_set}


def _convert(root: dict[str, Any], fault: Any) -> str | None:
    """Convert the value that `fault` complains of, in place, if nothing is lost by it; says what was done."""
    kind = fault["type"]
    path, holder, key = _locate(root, fault["loc"])
    if holder is None:
        return None
    value = holder[key]
    if kind == "extra_forbidden":
        if value in (None, "", [], {}) and value is not False and value != 0:
            del holder[key]
            return f"{path}: left out, as no such argument exists and it was empty"
        return None
    try:
        new = lossless(kind, value)
    except ValueError:
        return None
    if new is None:
        return None
    holder[key] = new
    return f"{path}: {show(value)} read as {show(new)}"


def lossless(kind: str, value: Any) -> Any:
    """`value` as the type that pydantic's error `kind` asks for; None when that is not certain. Raises ValueError."""
    if kind in ("int_type", "int_from_float"):
        if isinstance(value, str) and _INTEGER.match(value.strip()):
            return int(value)
        if isinstance(value, str) and _WHOLE.match(value.strip()):
            return int(value.partition(".")[0])
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else None
    if kind == "float_type" and isinstance(value, str) and _NUMBER.match(value.strip()):
        return float(value)
    if kind == "bool_type" and isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    if kind == "string_type" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and kind in ("list_type", "tuple_type", "set_type"):
        inner = json.loads(value)
        return inner if isinstance(inner, list) else None
    if isinstance(value, str) and kind in ("dict_type", "model_type", "model_attributes_type", "dataclass_type"):
        inner = json.loads(value)
        return inner if isinstance(inner, dict) else None
    return None


def _locate(root: dict[str, Any], loc: tuple[int | str, ...]) -> tuple[str, Any, Any]:
    """The container and key that an error's `loc` leads to (names of union branches in it lead nowhere and are skipped)."""
    holder: Any = None
    key: Any = None
    value: Any = root
    path = ""
    for step in loc:
        inside_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if inside_list or (isinstance(value, dict) and step in value):
            holder, key = value, step
            value = holder[key]
            path += f"/{step}"
    return path, holder, key


def _explain(model: type[BaseModel], error: ValidationError, arguments: dict[str, Any]) -> ArgumentsError:
    """All faults in short sentences: field, value, what was expected."""
    faults = error.errors(include_url=False, include_context=False)
    lines: list[str] = []
    for fault in faults:
        line = _sentence(model, fault, arguments)
        if line not in lines:
            lines.append(line)
    more = f" (and {len(lines) - SHOWN_ERRORS} more)" if len(lines) > SHOWN_ERRORS else ""
    path = "/" + "/".join(str(step) for step in faults[0]["loc"])
    return ArgumentsError("; ".join(lines[:SHOWN_ERRORS]) + more, path)


def _sentence(model: type[BaseModel], fault: Any, arguments: dict[str, Any]) -> str:
    name = ".".join(str(step) for step in fault["loc"])
    if fault["type"] == "missing":
        return f'argument "{name}" is missing'
    if fault["type"] == "extra_forbidden":
        known = ", ".join(f'"{info.alias}"' for info in model.model_fields.values())
        return f'there is no argument "{name}"' + (f" (there are {known})" if known else " (it takes no arguments)")
    expected = str(fault["msg"]).removeprefix("Input should be ")
    _, holder, key = _locate(arguments, fault["loc"])
    got = holder[key] if holder is not None else fault.get("input")
    return f'argument "{name}": expected {expected}, got {show(got)}'


def show(value: Any) -> str:
    """A value as short JSON, for messages."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
