"""Arguments text as models write it, read as a JSON object; repaired only where the repair cannot change what was said.

The repair reads a wider grammar (`wide_json.py`), not a broken text. What that grammar does not read (a string with a stray
quote, a text that was cut off) has more than one reading, and guessing one would call a tool with arguments the model never
gave. Around the object may stand what says nothing of it: prose behind it, closing brackets too many, the same once more.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from daneel.harness import wide_json

MAX_STRING_LEVELS = 3
"""Strings within strings that are read."""


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """Either `arguments` (and what `repair` was needed), or `error` with `offset`, in characters into the text."""

    arguments: dict[str, Any] | None = None
    repair: str | None = None
    error: str | None = None
    offset: int = 0


def read_arguments(text: str, *, repair: bool = True) -> ReadArguments:
    """Read arguments text. Absent arguments ("" or null) are an empty object: nothing was said, and the schema decides."""
    if text.strip() in ("", "null"):
        return ReadArguments({})
    return _read(text, repair, MAX_STRING_LEVELS)


def _read(text: str, repair: bool, levels: int) -> ReadArguments:
    how: str | None = None
    try:
        value = wide_json.sendable(_strict(text))
    except (ValueError, RecursionError) as error:
        fixed = _repaired(text) if repair else None
        if fixed is None:
            message = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            return ReadArguments(error=f"not valid JSON: {message}", offset=getattr(error, "pos", 0))
        value, how = fixed
    if repair and isinstance(value, str) and levels and value.strip() not in ("", "null"):
        inner = _read(value, repair, levels - 1)
        if inner.arguments is not None:
            return ReadArguments(inner.arguments, how or "json_in_string")
    if repair and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return ReadArguments(value[0], how or "list_of_one")
    if not isinstance(value, dict):
        return ReadArguments(error="the arguments are not a JSON object")
    return ReadArguments(value, how)


def _strict(text: str) -> Any:
    """`json.loads` without its leniencies: no NaN, no key given twice."""

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, object_pairs_hook=wide_json.as_object, parse_constant=constant)


FENCE = "```"
_INFOS = ("", "json", "json5", "jsonc", "python", "tool_call", "tool_calls", "tool_code")
_CLOSERS = re.compile(r"[\s}\])>`]*\Z")
_MARKER = re.compile(r"\s*(?:</?\w[\w:|-]*>|<\|[\w|]+\|>|<[\w|]+\|>)\s*\Z")
_MEMBER = re.compile(r"[{\[]|[\"'”’\w]\s*:\s*[\"'\[{\d-]")


def unfenced(text: str) -> str | None:
    """What stands in the code fence that `text` is; None if it is none."""
    text = text.strip()
    head, line_break, body = text.partition("\n")
    if not (line_break and head.startswith(FENCE) and body.endswith(FENCE) and head[3:].strip().lower() in _INFOS):
        return None
    return None if FENCE in body[:-3] else body[:-3].strip()


def _repaired(text: str) -> tuple[Any, str] | None:
    """The value that `text` is in the wider grammar, and what was repaired; None where that is not certain."""
    if len(text) > wide_json.MAX_CHARS:
        return None
    text = unfenced(text) or text
    value = wide_json.read(text)
    if value is not wide_json.NOTHING:
        return value, "json"
    end = wide_json.end_of_object(text)
    value = wide_json.read(text[:end]) if end else wide_json.NOTHING
    if value is wide_json.NOTHING:
        return None
    rest = text[end:]
    if wide_json.read(rest) == value:
        return value, "said_twice"
    says_nothing = _CLOSERS.match(rest) or _MARKER.match(rest)
    prose = rest.lstrip()[:1] not in (",", ":", ";", "=") and not _MEMBER.search(rest)
    return (value, "trailing_text") if says_nothing or prose else None
