"""The arguments of an `<invoke name="NAME">` call as they come: each value as JSON, by what the wire or the schema says."""

from __future__ import annotations

import json

from daneel.formats.json_scan import WHITE, JsonScanner, scan_object
from daneel.formats.typed_value import argument_schema, read_typed
from daneel.formats.validate import ToolSet

WRAPPERS = ("arguments", "input", "parameters")
"""Names of a single parameter that models put all arguments into."""


class Arguments:
    """The arguments of one call to the tool called `name`."""

    def __init__(self, tools: ToolSet, name: str) -> None:
        self._tools, self._name = tools, name
        self._schema = tools.schema(name)
        self._values: dict[str, str] = {}
        self._wrapped = ""

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def add(self, key: str, text: str, kind: str) -> int | None:
        """A value as it is written. `kind`: `"string"`, `"json"`, or "" when only the schema knows.

        Answers at which character `text` is not the JSON that it is said to be, else `None`.
        """
        if key in WRAPPERS and not self._values:
            self._wrapped = text
        if kind == "string":
            self._values[key] = json.dumps(text, ensure_ascii=False)
        elif kind == "json":
            self._values[key] = text.strip(WHITE)
            return _no_json_at(text)
        else:
            self._values[key] = read_typed(text, argument_schema(self._schema, key))
        return None

    def json(self) -> str:
        """All of them, as JSON text of an object."""
        members = (f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in self._values.items())
        return "{" + ", ".join(members) + "}"

    def unwrapped(self) -> str | None:
        """All arguments as one JSON object in a single parameter that the tool does not have, if they satisfy the schema."""
        properties = self._schema.get("properties") if self._schema else None
        if not self._wrapped or len(self._values) != 1 or not isinstance(properties, dict) or not properties:
            return None
        inner = self._wrapped.strip(WHITE)
        if argument_schema(self._schema, next(iter(self._values))) is not None or scan_object(inner) is not None:
            return None
        if self._tools.issues(self._name, inner) or not json.loads(inner, parse_int=float).keys() <= properties.keys():
            return None
        return inner


def _no_json_at(text: str) -> int | None:
    scanner = JsonScanner()
    end = scanner.feed(text + " ", 0)  # the space completes a number
    if scanner.error is not None:
        return min(scanner.error.offset, len(text))
    return None if scanner.done and not text[end:].strip(WHITE) else min(end, len(text))
