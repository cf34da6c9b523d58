"""Calls written as code or by name: whole lines that are nothing but a call of a tool of this turn, and fit its schema.

add(a=1, b=2)      [add(a=1, b=2), add(3, 4)]      add{"a": 1, "b": 2}      call:add{a:1,b:2}      Action: add
                                                                                                  Action Input: {"a": 1}
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from typing import Any

from daneel.harness import wide_json
from daneel.harness.json_calls import MAX_CALLS, WrittenCall, fits
from daneel.harness.names import find_tool
from daneel.harness.tools.registry import Tool

MAX_CHARS = 20_000
MAX_BRACKETS = 200
"""Python's own parser is asked, and it does not like depth."""
_WORDS = {"true": True, "false": False, "null": None}
_HEAD = re.compile(r"\s*(?:call:)?([\w.\-]{1,100}(?::[\w.\-]{1,100})?)\s*(?:\[ARGS\]|\(|:)?\s*(?=\{)")
_ACTION = re.compile(r"Action[ \t]*:[ \t]*([^\n]{1,100})\n+[ \t]*Action[ _]Input[ \t]*:[ \t]*", re.IGNORECASE)


def code_calls(text: str, tools: Sequence[Tool], *, offset: int = 0) -> list[WrittenCall] | None:
    """The calls that `text` consists of, if it is nothing but calls. `offset`: where it stands in the whole text."""
    stripped = text.strip()
    if not stripped or len(stripped) > MAX_CHARS or stripped[-1] not in ")}],;":
        return None
    start = offset + text.index(stripped)
    found = _python(stripped, tools) or _by_name(stripped, tools)
    if found is None:
        return None
    return [
        WrittenCall(name, json.dumps(arguments, ensure_ascii=False), start, start + len(stripped)) for name, arguments in found
    ]


def action_call(text: str, tools: Sequence[Tool]) -> list[WrittenCall] | None:
    """`Action:` and `Action Input:`, as many prompts ask for; behind it at most an observation that the model made up."""
    matches = list(_ACTION.finditer(text))
    if len(matches) != 1:
        return None
    (match,) = matches
    size = wide_json.end_of_object(text[match.end() :])
    rest = text[match.end() + size :].strip()
    value = wide_json.read(text[match.end() : match.end() + size]) if size else wide_json.NOTHING
    if not isinstance(value, dict) or (rest and not rest.lower().startswith("observation")):
        return None
    if not fits(match[1], value, tools):
        return None
    return [WrittenCall(match[1].strip(), json.dumps(value, ensure_ascii=False), match.start(), len(text))]


def _python(text: str, tools: Sequence[Tool]) -> list[tuple[str, dict[str, Any]]] | None:
    if sum(map(text.count, "([{")) > MAX_BRACKETS or not any(tool.name in text for tool in tools):
        return None
    try:
        body = ast.parse(text.rstrip(",;")).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes: list[ast.expr] = []
    for statement in body:
        if not isinstance(statement, ast.Expr):
            return None
        listed = isinstance(statement.value, ast.List | ast.Tuple)
        nodes += statement.value.elts if listed else [statement.value]  # type: ignore[attr-defined]
    calls = [_python_call(node, tools) for node in nodes[: MAX_CALLS + 1]]
    return [call for call in calls if call is not None] if calls and None not in calls else None


def _python_call(node: ast.expr, tools: Sequence[Tool]) -> tuple[str, dict[str, Any]] | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name) and node.func.id == "print" and len(node.args) == 1 and not node.keywords:
        return _python_call(node.args[0], tools)
    name = ast.unparse(node.func)
    tool = find_tool(name, tools, slips=True)
    if tool is None:
        return None
    names = list(tool.parameters.get("properties", {}))
    try:
        arguments = {key: _literal(value) for key, value in zip(names, node.args, strict=False)}
        given = {str(keyword.arg): _literal(keyword.value) for keyword in node.keywords}
    except ValueError:
        return None
    in_vain = len(node.args) > len(names) or set(arguments) & set(given) or any(word.arg is None for word in node.keywords)
    merged = {**arguments, **given}
    return None if in_vain or not fits(name, merged, tools) else (name, merged)


def _literal(node: ast.expr) -> Any:
    """The JSON value that an expression writes out. Raises ValueError for any other."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
        return wide_json.sendable(node.value)
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = _literal(node.operand)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        pairs = [(_literal(key), _literal(value)) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
        if len(pairs) == len(node.keys) and all(isinstance(key, str) for key, _ in pairs):
            return wide_json.as_object(pairs)
    raise ValueError("no literal")


def _by_name(text: str, tools: Sequence[Tool]) -> list[tuple[str, dict[str, Any]]] | None:
    """A name and right behind it the arguments as an object, one call behind the other."""
    found: list[tuple[str, dict[str, Any]]] = []
    position = 0
    while position < len(text):
        match = _HEAD.match(text, position)
        size = wide_json.end_of_object(text[match.end() :]) if match else 0
        value = wide_json.read(text[match.end() : match.end() + size]) if match and size else None
        if match is None or not isinstance(value, dict) or not fits(match[1], value, tools) or len(found) == MAX_CALLS:
            return None
        found.append((match[1], value))
        position = match.end() + size
        while position < len(text) and text[position] in ") \t\r\n,;":
            position += 1
    return found or None
