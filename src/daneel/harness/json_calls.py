"""Calls in JSON, in whatever shape models give them; taken only if each names a tool of this turn and fits its schema.

{"name": "add", "arguments": {"a": 1}}      {"tool": "add", "args": {"a": 1}}      {"add": {"a": 1}}
{"type": "function", "function": {"name": "add", "parameters": {"a": 1}}}          [{…}, {…}]      {"tool_calls": [{…}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from daneel.harness import wide_json
from daneel.harness.json_arguments import read_arguments
from daneel.harness.names import find_tool, letters
from daneel.harness.tools.arguments import ArgumentsError
from daneel.harness.tools.registry import Tool

NAME_KEYS = ("name", "tool", "function", "tool_name", "function_name", "action", "recipient_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "tool_input", "action_input", "kwargs")
_WRAPPERS = ("function", "function_call", "tool_call", "call")
_LISTS = ("tool_calls", "function_calls", "calls", "tools", "tool_uses")
_SAYS_NOTHING = ("id", "type", "index", "call_id", "tool_call_id", "role", "content", "thought", "thoughts", "reasoning")
MAX_CALLS = 64


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as text: `name` as it was written, `arguments` as JSON text of an object, `start` and `end` in the text."""

    name: str
    arguments: str
    start: int
    end: int


def calls_at(text: str, start: int, tools: Sequence[Tool]) -> list[WrittenCall] | None:
    """The calls that the text from `start` on consists of, to its last character; None if that is not all it holds."""
    return _calls_at(text, start, tools) or _without_ends(text, start, tools)


def _without_ends(text: str, start: int, tools: Sequence[Tool]) -> list[WrittenCall] | None:
    """Calls whose arguments are whole, and which lack the ends of what stands around these."""
    whole = wide_json.with_ends(text[start:])
    value = wide_json.read(whole) if whole is not None else wide_json.NOTHING
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) and item and [*item][-1] in ARGUMENT_KEYS for item in items):
        return None
    pairs = as_calls(value, tools) or []
    return [WrittenCall(name, json.dumps(given, ensure_ascii=False), start, len(text)) for name, given in pairs] or None


def _calls_at(text: str, start: int, tools: Sequence[Tool]) -> list[WrittenCall] | None:
    found: list[WrittenCall] = []
    position = start
    while True:
        while position < len(text) and text[position] in " \t\r\n,;":
            position += 1
        if position == len(text):
            return found or None
        size = wide_json.end_of_object(text[position:])
        value = wide_json.read(text[position : position + size]) if size else wide_json.NOTHING
        pairs = as_calls(value, tools)
        if not pairs or len(found) + len(pairs) > MAX_CALLS:
            return None
        found += [
            WrittenCall(name, json.dumps(arguments, ensure_ascii=False), position, position + size) for name, arguments in pairs
        ]
        position += size


def as_calls(value: Any, tools: Sequence[Tool]) -> list[tuple[str, dict[str, Any]]] | None:
    """The calls that a JSON value says, names as written; None if it says anything else, or one of them does not fit."""
    if isinstance(value, list):
        found: list[tuple[str, dict[str, Any]]] = []
        for item in value[: MAX_CALLS + 1]:
            calls = as_calls(item, tools) if isinstance(item, dict) else None
            if not calls:
                return None
            found += calls
        return found
    if not isinstance(value, dict):
        return None
    said = {key: item for key, item in value.items() if key not in _SAYS_NOTHING or not _is_plain(item)}
    if len(said) == 1:
        ((key, item),) = said.items()
        if (key in _LISTS and isinstance(item, list)) or (key in _WRAPPERS and isinstance(item, dict)):
            return as_calls(item, tools)
        if isinstance(item, dict) and fits(key, item, tools):
            return [(key, item)]
    call = _named(said, tools)
    return [call] if call is not None else None


def other_readings(tool: Tool, arguments: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What arguments that do not fit may mean, each with its repair's name: a wrapper around them, slips in their names."""
    unwrapped = _unwrapped(tool, arguments)
    if unwrapped is not None:
        yield "wrapped_arguments", unwrapped
    for reading in (arguments, unwrapped):
        renamed = _renamed(tool, reading) if reading is not None else None
        if renamed is not None:
            yield "argument_names", renamed


def _unwrapped(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments within the arguments: under a key that is none of the tool's, or beside the tool's own name."""
    known = tool.parameters.get("properties", {})
    keys = [key for key in arguments if key in (*ARGUMENT_KEYS, "properties", tool.name) and key not in known]
    if len(keys) != 1:
        return None
    rest = {key: value for key, value in arguments.items() if key != keys[0]}
    named = all(
        key in NAME_KEYS and isinstance(value, str) and find_tool(value, [tool], slips=True) for key, value in rest.items()
    )
    return _arguments(arguments[keys[0]]) if named else None


def _renamed(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments under the tool's own names, where each differs from one of them in case and separators alone."""
    known = tool.parameters.get("properties", {})
    renamed: dict[str, Any] = {}
    for key, value in arguments.items():
        near = [name for name in known if letters(name) == letters(key)] if key not in known else [key]
        if len(near) != 1 or near[0] in renamed:
            return None
        renamed[near[0]] = value
    return renamed if renamed.keys() != arguments.keys() else None


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int)


def _named(said: dict[str, Any], tools: Sequence[Tool]) -> tuple[str, dict[str, Any]] | None:
    """A name under one key and the arguments under another, or beside the name."""
    for name_key in NAME_KEYS:
        name = said.get(name_key)
        if not isinstance(name, str):
            continue
        rest = {key: item for key, item in said.items() if key != name_key}
        if len(rest) == 1 and next(iter(rest)) in ARGUMENT_KEYS:
            given = next(iter(rest.values()))
            inside = _arguments(given)
            if inside is not None and fits(name, inside, tools):
                return name, inside
            tool = find_tool(name, tools, slips=True)
            if tool is None or next(iter(rest)) not in tool.parameters.get("properties", {}):
                continue  # they are the arguments, and do not fit
        if fits(name, rest, tools):
            return name, rest
    return None


def _arguments(given: Any) -> dict[str, Any] | None:
    if given is None:
        return {}
    if isinstance(given, str):
        return read_arguments(given).arguments
    return given if isinstance(given, dict) else None


def fits(name: str, arguments: dict[str, Any], tools: Sequence[Tool]) -> bool:
    """Whether this is a call of one of the tools, with arguments that it can be called with."""
    tool = find_tool(name, tools, slips=True)
    if tool is None:
        return False
    return any(_binds(tool, reading) for reading in (arguments, *(other for _, other in other_readings(tool, arguments))))


def _binds(tool: Tool, arguments: dict[str, Any]) -> bool:
    try:
        tool.bind(arguments)
    except ArgumentsError:
        return False
    return True
