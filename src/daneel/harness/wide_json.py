"""A grammar wider than JSON, in which a text has one reading at most.

Beyond JSON it has trailing commas, single and typographic quotes, unquoted keys, True, False and None, comments, line breaks
inside strings, and full-width punctuation.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

MAX_CHARS = 200_000
MAX_DEPTH = 100
NOTHING: Final = object()
"""What is read where the text is no value; None is one."""

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|“[^“”]*”|‘[^‘’]*’)
    |(?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<word>[A-Za-z_$][\w$-]*)
    |(?P<mark>[{}\[\]:,｛｝［］：，])""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_NARROW = str.maketrans("｛｝［］：，", "{}[]:,")
_ESCAPES = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)|(\")", re.DOTALL)


def read(text: str) -> Any:
    """The value, or NOTHING: also for one that cannot be written as JSON again, or has a key twice."""
    if len(text) > MAX_CHARS:
        return NOTHING
    try:
        tokens = _tokens(text)
        value = sendable(_value(tokens, MAX_DEPTH))
    except (ValueError, IndexError):
        return NOTHING
    return NOTHING if tokens else value


def sendable(value: Any) -> Any:
    """`value`, if it can be written as JSON again: 1e999 and half of a surrogate pair cannot. Raises ValueError."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dict. Raises ValueError for a key that is given twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is given twice")
    return result


def end_of_object(text: str) -> int:
    """Where the object or list that the text begins with ends; 0 if it begins with none, or has no end."""
    position = depth = 0
    while position < min(len(text), MAX_CHARS):
        match = _TOKEN.match(text, position)
        if match is None:
            return 0
        position = match.end()
        if match.lastgroup == "skip":
            continue
        mark = match[0].translate(_NARROW) if match.lastgroup == "mark" else ""
        depth += (mark in ("{", "[")) - (mark in ("}", "]"))
        if depth == 0:
            return position if mark else 0
    return 0


def with_ends(text: str) -> str | None:
    """The text with the ends that its outermost objects and lists lack; None where that is not all it lacks.

    An end may be missing where the container inside has just been closed: at the end of the text, or before the end of what is
    outside. So in `[{"name": "f", "arguments": {"a": 1}]` the inner object was closed by whoever wrote it, and is whole. Of
    objects in objects, only one may lack its end.
    """
    kept, stack, added, before, position = "", "", 0, "", 0
    while position < min(len(text), MAX_CHARS):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        mark = match[0].translate(_NARROW) if match.lastgroup == "mark" else ""
        if mark in _OPENS:
            stack += mark
        elif mark in _OPENS.values():
            while stack and _OPENS[stack[-1]] != mark:
                if before not in _OPENS.values() or len(stack) > 2:
                    return None
                kept, stack, added = kept + _OPENS[stack[-1]], stack[:-1], added + 1
            if not stack:
                return None
            stack = stack[:-1]
        kept, position = kept + match[0], match.end()
        if match.lastgroup != "skip":
            before = mark or match[0]
            if not stack and text[position:].strip():
                return None
    if not stack and added:
        return kept
    may_end = before in _OPENS.values() and stack in ("{", "[", "[{")
    return kept + "".join(_OPENS[each] for each in reversed(stack)) if may_end else None


_OPENS = {"{": "}", "[": "]"}


def _tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of each token, last one first. Raises ValueError where the text is none."""
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unexpected character at {position}")
        kind = str(match.lastgroup)
        if kind != "skip":
            found.append((kind, match[0].translate(_NARROW) if kind == "mark" else match[0]))
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
    while tokens[-1] != ("mark", "}"):
        kind, key = tokens.pop()
        if kind not in ("string", "word") or tokens.pop() != ("mark", ":"):
            raise ValueError("expected a key and ':'")
        pairs.append((_string(key) if kind == "string" else key, _value(tokens, depth)))
        _comma(tokens, "}")
    tokens.pop()
    return as_object(pairs)


def _items(tokens: list[tuple[str, str]], depth: int) -> list[Any]:
    items: list[Any] = []
    while tokens[-1] != ("mark", "]"):
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
    if text[0] != '"':
        inner = _ESCAPES.sub(_escape, inner)
    value = json.loads(f'"{inner}"', strict=False)
    assert isinstance(value, str)
    return value


def _escape(match: re.Match[str]) -> str:
    """An escape of a string in other quotes, or a double quote in it, as JSON has it."""
    code, char, quote = match.groups()
    if code:
        return f"\\u00{code}"
    return '\\"' if quote else "'" if char == "'" else match[0]
