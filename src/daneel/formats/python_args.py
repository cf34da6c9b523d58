"""The argument grammar of families that write calls as Python does: `[f(a=1, b="x"), g()]`, or one call on each line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.json_scan import WHITE, JsonScanner
from daneel.formats.lark import join, json_rule, object_schema, quote
from daneel.formats.python_scan import KEY, WHITE_RUN, PythonCallScanner
from daneel.formats.python_tokens import PythonString
from daneel.formats.scan import Head
from daneel.formats.validate import ToolSet

_NAME = r"[^\W\d][\w.:/$-]*+"
_HEAD = re.compile(rf"(?:\[[ \t\n\r]*+)?+{_NAME}[ \t\n\r]*+\(")
_HEAD_BEGUN = re.compile(rf"(?:\[[ \t\n\r]*+)?+(?:{_NAME}[ \t\n\r]*+)?+")
_JSON_PARTS = re.compile(r'"(?:[^"\\]++|\\.)*+"|true|false|null', re.DOTALL)
_JSON_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PYTHON_WORDS = {"true": "True", "false": "False", "null": "None"}
_WORDS = {"boolean": '"True" | "False"', "null": '"None"'}
_UNWRITTEN = {"patternProperties", "allOf", "anyOf", "oneOf", "$ref"}


@dataclass(frozen=True, slots=True)
class PythonGrammar:
    """Calls as Python writes them. `in_list`: several are a list, else one stands on each line. `json_words`: the family
    writes `true` and `null` where Python has `True` and `None`; both are read.
    """

    in_list: bool = True
    json_words: bool = False
    key: str = "python"
    slack: str = ""
    holds_several: bool = True

    @property
    def expected_head(self) -> str:
        return "'[' and a tool's name" if self.in_list else "a tool's name and '('"

    def head(self, text: str, pos: int) -> Head:
        white = WHITE_RUN.match(text, pos)
        pos = white.end() if white else pos
        if _HEAD.match(text, pos):
            return "yes"
        begun = _HEAD_BEGUN.match(text, pos)
        return "more" if begun is not None and begun.end() == len(text) else "no"

    def scanner(self, tools: ToolSet) -> PythonCallScanner:
        return PythonCallScanner(tools, in_list=self.in_list)

    @property
    def joints(self) -> tuple[str, str, str]:
        """What stands before, between and behind the calls."""
        return ("[", ", ", "]") if self.in_list else ("", "\n", "")

    def write(self, name: str, arguments: str) -> str:
        return self.write_several([(name, arguments)])

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        before, between, after = self.joints
        return before + between.join(f"{name}({', '.join(self._arguments(given))})" for name, given in calls) + after

    def _arguments(self, arguments: str) -> list[str]:
        members = _Members()
        members.feed(arguments, 0)
        return [
            f"{key}={value}" if KEY.fullmatch(key) else f"**{{{PythonString.json(key)}: {value}}}"
            for key, value in ((key, self._value(arguments[start:end])) for key, start, end in members.found)
        ]

    def _value(self, value: str) -> str:
        return _JSON_PARTS.sub(lambda part: self._part(part.group()), value)

    def _part(self, part: str) -> str:
        if part[0] != '"':
            return part if self.json_words else _PYTHON_WORDS[part]
        return _JSON_ESCAPE.sub(lambda escape: "/" if escape[1] == "/" else escape[0], part)

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        schema = object_schema(tool)
        properties = schema.get("properties", {})
        if schema.keys() & _UNWRITTEN or not all(map(KEY.fullmatch, properties)):
            raise ValueError(f"the arguments of {tool.name!r} have no decoding grammar as keyword arguments")
        first = f"arguments_0_{number}" if properties else ""
        return join(quote(f"{open_pad}{tool.name}("), first, quote(")" + close_pad)), _argument_rules(
            schema, number, words=not self.json_words
        )


@dataclass(frozen=True, slots=True)
class BarePythonGrammar(PythonGrammar):
    """Calls that need no marker: only in a list, for a line of prose may begin with a word and a bracket."""

    def head(self, text: str, pos: int) -> Head:
        white = WHITE_RUN.match(text, pos)
        pos = white.end() if white else pos
        return PythonGrammar.head(self, text, pos) if text[pos : pos + 1] in ("", "[") else "no"


@dataclass(frozen=True, slots=True)
class MethodGrammar(PythonGrammar):
    """Calls of one method of the tool: `brave_search.call(query="x")`. The method's name is no part of the tool's."""

    method: str = ".call"
    in_list: bool = False

    @property
    def expected_head(self) -> str:
        return f"a tool's name and '{self.method}('"

    def head(self, text: str, pos: int) -> Head:
        found = PythonGrammar.head(self, text, pos)
        if found != "yes":
            return found
        name = text[pos:].partition("(")[0].strip(WHITE)
        return "yes" if name.endswith(self.method) and name != self.method and name[0] != "[" else "no"

    def scanner(self, tools: ToolSet) -> PythonCallScanner:
        return PythonCallScanner(tools, in_list=False, method=self.method)

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        return PythonGrammar.write_several(self, [(name + self.method, arguments) for name, arguments in calls])


class _Members(JsonScanner):
    """The members of a JSON object: key, and where the value stands."""

    def __init__(self) -> None:
        super().__init__(track_depth=1)
        self._member = ""
        self.found: list[tuple[str, int, int]] = []

    def on_key(self, depth: int, key: str, start: int) -> None:
        self._member = key

    def on_value(self, depth: int, start: int, end: int, kind: str, text: str | None) -> None:
        if depth == 1:
            self.found.append((self._member, start, end))


def _argument_rules(schema: dict[str, Any], number: int, *, words: bool) -> list[str]:
    """Lark rules for keyword arguments in the schema's order: `arguments_K_N` begins with the K-th, `more_K_N` goes on.

    `words`: a value that is only `True`, `False` or `None` is written so; inside other values JSON's words are admitted.
    """
    properties, required = schema.get("properties", {}), set(schema.get("required", []))
    definitions: dict[str, Any] = {word: schema[word] for word in ("$defs", "definitions") if word in schema}
    rules = []
    for place, (key, value) in enumerate(properties.items()):
        is_last = place + 1 == len(properties)
        for name, comma in (("arguments", ""), ("more", ", ")):
            given = join(quote(f"{comma}{key}="), f"value_{place}_{number}", "" if is_last else f"more_{place + 1}_{number}")
            skipped = '""' if is_last else f"{name}_{place + 1}_{number}"
            rules.append(f"{name}_{place}_{number}: {given}" + ("" if key in required else f" | {skipped}"))
        value = value if isinstance(value, dict) else {}
        word = _WORDS.get(str(value.get("type"))) if words and not value.keys() & {"enum", "const"} else None
        rules.append(f"value_{place}_{number}: {word or json_rule({**definitions, **value})}")
    return rules
