"""Calls as XML of a model's own making: tags that name a tool of this turn, with its arguments as attributes or inner tags.

<function name="add"><parameter name="a">1</parameter></function>      <tool_call name="add" arguments='{"a": 1}'/>
<add><a>1</a><b>2</b></add>      <tool name="add" a="1" b="2"/>
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from typing import Any

from daneel.harness.json_arguments import read_arguments
from daneel.harness.json_calls import ARGUMENT_KEYS, MAX_CALLS, WrittenCall, fits
from daneel.harness.names import find_tool
from daneel.harness.tools.registry import Tool

MAX_CHARS = 100_000
_CALL_TAGS = ("function", "function_call", "tool", "tool_call", "tool_use", "invoke", "call", "action")
_WRAPPERS = ("function_calls", "tool_calls", "tools", "calls")
_OPEN = re.compile(r"<([A-Za-z_][\w.:-]{0,99})((?:\s+[\w.:-]{1,100}\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*)\s*(/?)>")
_ATTRIBUTE = re.compile(r"([\w.:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


def xml_calls(text: str, tools: Sequence[Tool], *, offset: int = 0) -> list[WrittenCall] | None:
    """The calls that `text` consists of, if it is nothing but such tags. `offset`: where it stands in the whole text."""
    if len(text) > MAX_CHARS or not text.lstrip().startswith("<"):
        return None
    found: list[WrittenCall] = []
    position = 0
    while position < len(text) and len(found) < MAX_CALLS:
        if text[position].isspace():
            position += 1
            continue
        element = _element(text, position)
        if element is None:
            return None
        tag, attributes, inner, end = element
        if tag in _WRAPPERS:
            calls = xml_calls(inner, tools, offset=offset + text.index(inner, position)) if inner else None
            if not calls:
                return None
            found += calls
        else:
            call = _call(tag, attributes, inner, tools)
            if call is None:
                return None
            name, arguments = call
            found.append(WrittenCall(name, json.dumps(arguments, ensure_ascii=False), offset + position, offset + end))
        position = end
    return found or None


def _element(text: str, start: int) -> tuple[str, dict[str, str], str, int] | None:
    """Tag, attributes and inner text of the element that begins at `start`, and where it ends."""
    match = _OPEN.match(text, start)
    if match is None:
        return None
    attributes = {key: html.unescape(one or other) for key, one, other in _ATTRIBUTE.findall(match[2])}
    if match[3]:
        return match[1], attributes, "", match.end()
    closing = f"</{match[1]}>"
    end = text.find(closing, match.end())
    return None if end < 0 else (match[1], attributes, text[match.end() : end], end + len(closing))


def _call(tag: str, attributes: dict[str, str], inner: str, tools: Sequence[Tool]) -> tuple[str, dict[str, Any]] | None:
    name = attributes.pop("name", None) if tag in _CALL_TAGS else tag
    if name is None or find_tool(name, tools, slips=True) is None:
        return None
    for given in _readings(attributes, inner):
        if given is not None and fits(name, given, tools):
            return name, given
    return None


def _readings(attributes: dict[str, str], inner: str) -> list[dict[str, Any] | None]:
    """What the arguments may be: an object inside, or inner tags, or attributes."""
    if inner.strip().startswith("{"):
        return [read_arguments(inner).arguments] if not attributes else []
    if inner.strip():
        return [_children(inner)] if not attributes else []
    keys = [key for key in attributes if key in ARGUMENT_KEYS]
    whole = read_arguments(attributes[keys[0]]).arguments if len(keys) == 1 == len(attributes) else None
    return [whole, dict(attributes)]


def _children(inner: str) -> dict[str, Any] | None:
    """Arguments as inner tags: each the argument's own, or any tag with its `name`; or all of them in one wrapper."""
    found: dict[str, Any] = {}
    position = 0
    while position < len(inner):
        if inner[position].isspace():
            position += 1
            continue
        element = _element(inner, position)
        if element is None:
            return None
        tag, attributes, value, position = element
        if tag in ARGUMENT_KEYS and not attributes and not found and not inner[position:].strip():
            return read_arguments(value).arguments if value.strip().startswith("{") else _children(value)
        key = attributes.get("name", tag)
        if key in found:
            return None
        found[key] = html.unescape(value)
    return found
