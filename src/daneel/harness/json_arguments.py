"""Arguments text as models write it, read as a JSON object; repaired only where the repair cannot change what was said.

The repair reads a wider grammar, not a broken text: trailing commas, single quotes, unquoted keys, True, False and None,
comments, line breaks inside strings, a code fence around it all. What that grammar does not read (a string with a stray
quote, a text that was cut off) has more than one reading, and guessing one would call a tool with arguments the model never
gave.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

MAX_REPAIR_CHARS = 200_000
MAX_DEPTH = 100


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
    try:
        value = _sendable(_strict(text))
    except (ValueError, RecursionError) as error:
        fixed = _repaired(text) if repair else None
        if fixed is not None:
            return ReadArguments(fixed, "json")
        message = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        return ReadArguments(error=f"not valid JSON: {message}", offset=getattr(error, "pos", 0))
    if isinstance(value, str) and repair:
        inner = read_arguments(value, repair=False)
        if inner.arguments is not None and value.strip() not in ("", "null"):
            return ReadArguments(inner.arguments, "json_in_string")
    if not isinstance(value, dict):
        return ReadArguments(error="the arguments are not a JSON object")
    return ReadArguments(value)


def _strict(text: str) -> Any:
    """`json.loads` without its leniencies: no NaN, no key given twice."""

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, object_pairs_hook=_object, parse_constant=constant)


def _sendable(value: Any) -> Any:
    """`value`, if it can be written as JSON again: 1e999 and half of a surrogate pair cannot. Raises ValueError."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is given twice")
    return result


_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<word>[A-Za-z_$][\w$-]*)
    |(?P<mark>[{}\[\]:,])""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}


def _repaired(text: str) -> dict[str, Any] | None:
    """The object that `text` is in the wider grammar, or None."""
    if len(text) > MAX_REPAIR_CHARS:
        return None
    fence = _FENCE.match(text)
    try:
        tokens = _tokens(fence[1] if fence else text)
        value = _sendable(_value(tokens, MAX_DEPTH))
        return value if isinstance(value, dict) and not tokens else None
    except (ValueError, IndexError):
        return None


def _tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of each token, last one first. Raises ValueError where the text is none."""
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unexpected character at {position}")
        if match.lastgroup not in (None, "skip"):
            found.append((str(match.lastgroup), match[0]))
        position = match.end()
    return found[::-1]


def _value(tokens: list[tuple[str, str]], depth: int) -> Any:
    kind, text = tokens.pop()
    if kind == "string":
        return _string(text)
    if kind == "number":
        return json.loads(text)
    if kind == "word":
        if text not in _WORDS:
            raise ValueError(f"{text} is not a value")
        return _WORDS[text]
    if depth == 0 or text not in "{[":
        raise ValueError(f"unexpected {text}")
    return _members(tokens, depth - 1) if text == "{" else _items(tokens, depth - 1)


def _members(tokens: list[tuple[str, str]], depth: int) -> dict[str, Any]:
    pairs: list[tuple[str, Any]] = []
    while tokens[-1][1] != "}":
        kind, key = tokens.pop()
        if kind not in ("string", "word") or tokens.pop() != ("mark", ":"):
            raise ValueError("expected a key and ':'")
        pairs.append((_string(key) if kind == "string" else key, _value(tokens, depth)))
        _comma(tokens, "}")
    tokens.pop()
    return _object(pairs)


def _items(tokens: list[tuple[str, str]], depth: int) -> list[Any]:
    items: list[Any] = []
    while tokens[-1][1] != "]":
        items.append(_value(tokens, depth))
        _comma(tokens, "]")
    tokens.pop()
    return items


def _comma(tokens: list[tuple[str, str]], closer: str) -> None:
    if tokens[-1] == ("mark", ","):
        tokens.pop()
    elif tokens[-1] != ("mark", closer):
        raise ValueError(f"expected ',' or '{closer}'")


def _string(text: str) -> str:
    inner = text[1:-1]
    if text[0] == "'":
        inner = re.sub(r"\\(.)|\"", lambda match: {"\\'": "'", '"': '\\"'}.get(match[0], match[0]), inner, flags=re.DOTALL)
    value = json.loads(f'"{inner}"', strict=False)
    assert isinstance(value, str)
    return value
