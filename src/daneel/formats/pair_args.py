"""Calls written as a name and pairs of tags: `NAME<arg_key>K</arg_key><arg_value>V</arg_value>`.

The texts of the tags are the family's; `pair_scan.py` reads them. Values are raw text, white space included: the tool's schema
says what is a string. A value that holds its own closing tag cannot be read back, as the families' templates escape nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from daneel.formats.base import Tool
from daneel.formats.json_members import members
from daneel.formats.lark import join, json_rule, object_schema, quote
from daneel.formats.pair_scan import PairScanner
from daneel.formats.pair_tags import PLAIN_TAGS, PairTags, Spelling, head_of
from daneel.formats.scan import Head
from daneel.formats.typed_value import argument_schema, kinds_of
from daneel.formats.validate import ToolSet


@dataclass(frozen=True, slots=True)
class PairGrammar:
    """A name, then a pair of tags for each argument.

    `tags`: as the family writes them; `also_tags`: other spellings that are read. `pad`: the white space that it writes behind
    the name and each tag that closes. `closes`: the markers that end a call behind its body; `others`: every other marker that
    ends it (the opening of the next, the end of the turn).
    `json`: what a JSON object with `name` and `arguments` in place of the pairs is: a deviation that is put right, an equal
    spelling, or the way in which the family writes calls.
    """

    tags: PairTags = PLAIN_TAGS
    also_tags: tuple[PairTags, ...] = ()
    pad: str = ""
    closes: tuple[str, ...] = ("</tool_call>",)
    others: tuple[str, ...] = ("<tool_call>",)
    json: Literal["repair", "equal"] = "repair"
    key: str = "pairs"
    slack: str = ""
    holds_several: bool = False

    @property
    def expected_head(self) -> str:
        return repr(self.tags.body_open) if self.tags.body_open else "a tool's name"

    @property
    def spelling(self) -> Spelling:
        return Spelling.of((self.tags, *self.also_tags), self.closes, self.others)

    def head(self, text: str, pos: int) -> Head:
        return head_of(self.spelling, text, pos)

    def scanner(self, tools: ToolSet) -> PairScanner:
        return PairScanner(self.spelling, tools, json_repair=self.json == "repair")

    def write(self, name: str, arguments: str) -> str:
        tags, pad = self.tags, self.pad
        parts = [tags.body_open, name, tags.name_end, pad]
        for key, value in members(arguments):
            text = str(json.loads(value)) if value.startswith('"') else value
            parts += [tags.key_open, key, tags.key_close, pad, tags.value_open, text, tags.value_close, pad]
        return "".join([*parts, tags.body_close])

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError("one body holds one call")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        tags, schema = self.tags, object_schema(tool)
        terms = _Terms(marker)
        terms.text(open_pad).tag(tags.body_open).text(tool.name).tag(tags.name_end).text(self.pad)
        rules: list[str] = []
        properties, required = schema.get("properties"), schema.get("required")
        for at, key in enumerate(properties if isinstance(properties, dict) else ()):
            rule = f"pair_{at}_{number}"
            terms.term(rule if isinstance(required, list) and key in required else f"{rule}?")
            rules += self._pair(rule, f"value_{at}_{number}", key, argument_schema(schema, key), marker)
        return terms.tag(tags.body_close).text(close_pad).joined(), rules

    def _pair(self, rule: str, value: str, key: str, schema: dict[str, Any] | None, marker: Callable[[str], str]) -> list[str]:
        """The rules of one pair; a string is any text without the closing tag."""
        tags, close = self.tags, marker(self.tags.value_close)
        terms = _Terms(marker).tag(tags.key_open).text(key).tag(tags.key_close).text(self.pad).tag(tags.value_open).term(value)
        choices = _strings(schema)
        if choices:
            return [f"{rule}: {terms.term(close).text(self.pad).joined()}", f"{value}: " + " | ".join(map(quote, choices))]
        if "string" not in kinds_of(schema):
            return [f"{rule}: {terms.term(close).text(self.pad).joined()}", f"{value}: {json_rule(schema or {})}"]
        if close.startswith('"'):
            return [f"{rule}: {terms.text(self.pad).joined()}", f"{value}[suffix={close}]: /(.|\\n)*/"]
        return [f"{rule}: {terms.term(close).text(self.pad).joined()}", f"{value}: /(.|\\n)*/"]


class _Terms:
    """Lark terms in order; neighbouring texts become one."""

    def __init__(self, marker: Callable[[str], str]) -> None:
        self._marker = marker
        self._done: list[str] = []
        self._text = ""

    def text(self, text: str) -> _Terms:
        self._text += text
        return self

    def term(self, term: str) -> _Terms:
        self._done += [quote(self._text) if self._text else "", term]
        self._text = ""
        return self

    def tag(self, tag: str) -> _Terms:
        return self.term(self._marker(tag)) if tag else self

    def joined(self) -> str:
        return join(*self.term("")._done)


def _strings(schema: dict[str, Any] | None) -> list[str]:
    """The texts that an argument may be, if the schema lists them and nothing else."""
    values = (schema or {}).get("enum")
    return values if isinstance(values, list) and values and all(isinstance(value, str) for value in values) else []


def suffixed(tags: PairTags, suffix: str) -> PairTags:
    """The tags with a suffix before their last bracket: `<arg_key:x>`."""
    return PairTags(**{field.name: with_suffix(getattr(tags, field.name), suffix) for field in fields(PairTags)})


def with_suffix(tag: str, suffix: str) -> str:
    return f"{tag[:-1]}{suffix}{tag[-1]}" if tag else ""
