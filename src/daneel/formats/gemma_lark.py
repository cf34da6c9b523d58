"""Decoding grammars for arguments as Gemma writes them, from a tool's schema.

Types, listed properties, required ones, enumerations and the number of items are enforced while decoding. Other constraints
(lengths, patterns, bounds) are left to the schema check behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.lark import join, object_schema, quote

Schema = dict[str, Any]

_KEY = re.compile(r'[^\s:{},<"](?:[^:{},<"\n]*[^\s:{},<"])?')
_INTEGER = r"/-?(0|[1-9][0-9]{0,17})/"
_NUMBER = r"/-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][-+]?[0-9]{1,3})?/"
_FREE_KEY = "/[A-Za-z_][A-Za-z0-9_.-]*/"
_SCALARS = {"integer": _INTEGER, "number": _NUMBER, "boolean": '("true" | "false")', "null": '"null"'}
_COMBINED = {"patternProperties", "unevaluatedProperties", "allOf"}
_MAX_ITEMS = 1000


def lark_arguments(
    tool: Tool, number: int, *, delimiter: str, sorted_keys: bool, write: Callable[[Any], str]
) -> tuple[str, list[str]]:
    """The arguments of a call as a Lark expression, and its rules. `delimiter` is the Lark term of what stands around strings;
    `write` gives a value as Lark terms. `ValueError` when a parameter's name cannot be written."""
    rules = _Rules(object_schema(tool), number, delimiter, write, sorted_keys=sorted_keys)
    return rules.object(rules.root), rules.lines


class _Rules:
    """Makes the rules of one schema. Rules that are referred to are made once, so references may go in circles."""

    def __init__(self, root: Schema, number: int, delimiter: str, write: Callable[[Any], str], *, sorted_keys: bool) -> None:
        self.root = root
        self.lines: list[str] = []
        self._number = number
        self._delimiter = delimiter
        self._write = write
        self._sorted_keys = sorted_keys
        self._named: dict[str, str] = {}
        self._count = 0

    def _rule(self, right: str) -> str:
        name = self._new_name()
        self.lines.append(f"{name}: {right}")
        return name

    def _new_name(self) -> str:
        self._count += 1
        return f"value{self._count}_{self._number}"

    def _once(self, key: str, make: Callable[[], str]) -> str:
        """The rule known as `key`; it may refer to itself."""
        if key not in self._named:
            self._named[key] = name = self._new_name()
            self.lines.append(f"{name}: {make()}")
        return self._named[key]

    def value(self, schema: Any) -> str:
        """A Lark expression for a value of that schema; one that is not understood admits any value."""
        if not isinstance(schema, dict):
            return self._any()
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._once(reference, lambda: self.value(self._target(reference)))
        allowed = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(allowed, list) and allowed:
            return self._either([self._write(value) for value in allowed])
        for word in ("anyOf", "oneOf"):
            branches = schema.get(word)
            if isinstance(branches, list) and branches:
                return self._either([self.value(branch) for branch in branches])
        kinds = schema.get("type")
        if isinstance(kinds, list) and kinds:
            return self._either([self._of_kind(kind, schema) for kind in kinds])
        return self._of_kind(kinds or ("object" if "properties" in schema else "array" if "items" in schema else ""), schema)

    def _of_kind(self, kind: Any, schema: Schema) -> str:
        if kind == "string":
            return self._string()
        if kind == "object":
            return self.object(schema)
        if kind == "array":
            return self._array(self.value(schema.get("items")), schema)
        return _SCALARS[kind] if isinstance(kind, str) and kind in _SCALARS else self._any()

    def _either(self, branches: list[str]) -> str:
        return "(" + " | ".join(dict.fromkeys(branches)) + ")"

    def _target(self, reference: str) -> Any:
        found: Any = self.root if reference.startswith("#") else None
        for step in reference.split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found

    def _string(self) -> str:
        """Any text up to the delimiter. A special token cannot be part of text; a quoted delimiter must end it at once."""
        if self._delimiter.startswith('"'):
            if "string" not in self._named:
                self._named["string"] = name = self._new_name()
                self.lines.append(f"{name}[suffix={self._delimiter}]: /(.|\\n)*/")
            return f"{self._delimiter} {self._named['string']}"
        return self._once("string", lambda: f"{self._delimiter} /(.|\\n)*/ {self._delimiter}")

    def _any(self) -> str:
        def make() -> str:
            name = self._named["any"]
            scalars = [self._string(), _NUMBER, _SCALARS["boolean"], '"null"']
            return " | ".join([*scalars, self._free_object(name), self._array(name, {})])

        return self._once("any", make)

    def _free_object(self, value: str) -> str:
        pair = f'{_FREE_KEY} ":" {value}'
        return f'"{{" ({pair} ("," {pair})*)? "}}"'

    def _array(self, item: str, schema: Schema) -> str:
        least, most = _size(schema.get("minItems")) or 0, _size(schema.get("maxItems"))
        if most == 0:
            return '"[]"'
        least = min(least, most) if most is not None else least
        item = self._rule(item) if " " in item else item
        others = f'("," {item}){{{max(least - 1, 0)},{"" if most is None else most - 1}}}'
        items = f"{item} {others}"
        return f'"[" {items if least else f"({items})?"} "]"'

    def object(self, schema: Schema) -> str:
        """An object with its properties in one order, which keeps the grammar small."""
        properties = schema.get("properties")
        if not isinstance(properties, dict) or schema.keys() & _COMBINED:
            others = schema.get("additionalProperties")
            if others is False:
                return '"{}"'
            return self._free_object(self._rule(self.value(others)) if isinstance(others, dict) else self._any())
        keys = sorted(properties, key=str.lower) if self._sorted_keys else list(properties)
        if not keys:
            return '"{}"'
        required = schema.get("required")
        needed = set(required) if isinstance(required, list) else set()
        pairs = [self._rule(join(quote(f"{_checked(key)}:"), self.value(properties[key]))) for key in keys]
        # behind the first pair each has its comma: `tail` is what may follow
        tails, tail = [""] * len(keys), ""
        for at in range(len(keys) - 1, 0, -1):
            pair = f'"," {pairs[at]}' if keys[at] in needed else f'("," {pairs[at]})?'
            tail = self._rule(join(pair, tail))
            tails[at - 1] = tail
        firsts: list[str] = []
        for key, pair, rest in zip(keys, pairs, tails, strict=True):
            firsts.append(join(pair, rest))
            if key in needed:
                return f'"{{" {self._either(firsts)} "}}"'
        return f'"{{" {self._either(firsts)}? "}}"'


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"a parameter called {key!r} cannot be written")
    return key


def _size(given: Any) -> int | None:
    return min(given, _MAX_ITEMS) if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else None
