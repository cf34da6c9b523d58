"""JSON from outside, read without forgiving: what two readers could understand differently is refused.

Refused: bytes that are no UTF-8, `NaN` and `Infinity`, numbers outside a float's range, a key that stands twice in one object,
half of a surrogate pair, nesting deeper than `MAX_DEPTH`, and a body that is no object.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from daneel.wire.errors import BadRequest

MAX_DEPTH = 100
"""Levels of nesting. Tool schemas stay below 30; templates and validators recurse over what is let in."""

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def decode_object(body: bytes, *, what: str = "the body") -> dict[str, Any]:
    """The object in `body`, called `what` in messages. Raises `BadRequest`, whose message says what is wrong and where."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{what} is not UTF-8: byte 0x{body[error.start]:02x} at offset {error.start}") from None
    if not text.strip():
        raise BadRequest(f"{what} is empty: a JSON object is needed")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise BadRequest(f"{what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise BadRequest(f"{what} is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        # Python refuses to read integers of thousands of digits
        raise BadRequest(f"{what} is not JSON that can be read: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be a JSON object, not {kind_of(value)}")
    _check_depth(value, what)
    if _SURROGATE_ESCAPE.search(text):
        _check_surrogates(value, "")
    return value


def kind_of(value: Any) -> str:
    """What JSON calls the value, with its article: "a string", "null"."""
    names = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), "null")


def shown(value: Any) -> str:
    """The value as JSON for an error message, cut to a readable length."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadRequest(f"the key {shown(key)} stands twice in one object", param=key)
            seen.add(key)
    return built


def _no_constant(name: str) -> NoReturn:
    raise BadRequest(f"the body holds {name}, which is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadRequest(f"the number {digits[:40]} is out of range")
    return number


def _check_depth(value: Any, what: str) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            children = container.values() if isinstance(container, dict) else container
            below += [child for child in children if isinstance(child, dict | list)]
        if not below:
            return
        level = below
    raise BadRequest(f"{what} is nested deeper than {MAX_DEPTH} levels")


def _check_surrogates(value: Any, path: str) -> None:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(value[error.start]):04x}"
            raise BadRequest(f"{path or 'a key'} holds half of a surrogate pair ({half})", param=path or None) from None
    elif isinstance(value, dict):
        for key, child in value.items():
            _check_surrogates(key, "")
            _check_surrogates(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _check_surrogates(child, f"{path}[{index}]")
