"""A tool's name as models write it. A slip in writing is put right; no name is ever taken for another tool's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daneel.harness.tools.registry import Tool

_NAMESPACE = re.compile(r"(?:functions?|tools?|default_api|multi_tool_use|namespace)[.:/]+", re.IGNORECASE)
"""What some families, and some servers, put before every name."""
_AROUND = " \t\r\n`'\"“”*"
_MARKER = re.compile(r"<\|.*\Z|<｜.*\Z", re.DOTALL)
_NUMBER = re.compile(r":\d{1,4}\Z")
_EMPTY_CALL = re.compile(r"\s*\(\s*\)\Z")
MAX_CHARS = 200


def find_tool(name: str, tools: Sequence[Tool], *, slips: bool) -> Tool | None:
    """The tool of this name; with `slips`, also the only one whose name differs in case and separators alone.

    What stands around a name and is no part of it (quotes, a namespace that all tools share, a marker or a call's number
    behind it) is a slip as well.
    """
    by_name = _find(name, tools, slips=slips)
    if by_name is not None or not slips or len(name) > MAX_CHARS:
        return by_name
    stripped = bare_name(name)
    return _find(stripped, tools, slips=True) if stripped != name else None


def bare_name(name: str) -> str:
    """The name without what some models write around it."""
    name = _MARKER.sub("", name).strip(_AROUND)
    name = _EMPTY_CALL.sub("", name).strip(_AROUND)
    name = _NAMESPACE.sub("", name, count=1) if _NAMESPACE.match(name) else name
    return _NUMBER.sub("", name)


def _find(name: str, tools: Sequence[Tool], *, slips: bool) -> Tool | None:
    for tool in tools:
        if tool.name == name:
            return tool
    if not slips:
        return None
    near = [tool for tool in tools if letters(tool.name) == letters(name)]
    return near[0] if len(near) == 1 else None


def letters(name: str) -> str:
    """What is left of a name when case and separators do not count."""
    return re.sub(r"[\s_.\-]", "", name).lower()
