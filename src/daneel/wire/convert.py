"""A JSON object as a typed struct, or an error that names the field and shows its value."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from daneel.wire.errors import BadRequest
from daneel.wire.strict_json import shown

_T = TypeVar("_T", bound=msgspec.Struct)
_WHERE = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>.*)`)?$", re.S)


def converted(given: dict[str, Any], kind: type[_T]) -> _T:
    """`given` as a `kind`. A value of the wrong type is a `BadRequest` that names the field and shows the value."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        match = _WHERE.match(str(error))
        problem = (match["problem"] if match else str(error)).replace("`", "").replace(" | null", "")
        problem = problem[:1].lower() + problem[1:]
        path = (match["path"] if match and match["path"] else "$").removeprefix("$").removeprefix(".").removesuffix("[...]")
        if not path:
            raise BadRequest(problem) from None
        value = _at(given, path)
        got = "" if value is None else f": {shown(value)}"
        raise BadRequest(f"{path}: {problem}{got}", param=path) from None


def _at(value: Any, path: str) -> Any:
    """What stands at a path like `tools[0].function.name`; `None` if that cannot be told."""
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
