"""Calls whose arguments are nested tags, each behind a prefix: `P<invoke name="NAME">P<KEY>VALUEP</KEY>P</invoke>`.

Source: the chat template of MiniMaxAI/MiniMax-M3, where the prefix P is a token of its own, so that no text needs escaping.
An object's members are tags, an array's elements are `P<item>` tags; a tag with neither is text, typed by the tool's schema.
The template leaves null out and cannot tell an empty object from an empty array or text: the schema does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.invoke_lark import Speller, parameters, value_rules
from daneel.formats.invoke_tags import Tag, begins, tag_reader
from daneel.formats.json_scan import WHITE
from daneel.formats.lark import join
from daneel.formats.nested_values import ITEM, Element, members_json
from daneel.formats.scan import MAX_DEPTH, Head, ScanError, ScannedCall, ScannedFailure
from daneel.formats.typed_value import argument_schema, item_schema, kinds_of
from daneel.formats.validate import ToolSet

MAX_LARK_DEPTH = 6
"""Tags within tags that a decoding grammar spells out; values further inside are JSON, which is read too."""

MAX_KEY = 1000
"""Characters of a tag with its key; a longer one is none."""


class NestedTagScanner:
    """Scans one call. It may leave a prefix or tag at the end of the text unread."""

    def __init__(self, grammar: NestedTagGrammar, tools: ToolSet) -> None:
        self.offset = 0
        self.error: ScanError | None = None
        self.name: str | None = None
        self.done = False
        self.expected = grammar.expected_head
        self._grammar, self._tools = grammar, tools
        self._open: list[Element] = []  # from the call itself to the innermost tag
        self._repairs: list[str] = []

    def feed(self, text: str, pos: int) -> int:
        base, prefix = self.offset - pos, self._grammar.prefix
        while pos < len(text) and not self.done and self.error is None:
            at = text.find(prefix, pos)
            if at < 0:
                at = _whole_before(text, pos, prefix)
                self._text(text[pos:at], base + pos)
                pos = at
                break
            self._text(text[pos:at], base + pos)
            pos = at if self.error is not None else self._tag(text, at, base)
            if pos == at:
                break
        self.offset = base + pos
        return pos

    def finish(self) -> None:
        """Whatever is missing might not be all that is missing."""

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        name = self.name or ""
        arguments = members_json(self._open[0], self._tools.schema(name))
        return [ScannedCall(name, arguments, self.offset, tuple(self._repairs))]

    def _fail(self, message: str, offset: int) -> None:
        self.error = ScanError(message, offset)

    def _text(self, text: str, offset: int) -> None:
        """Text between tags: a value; around tags, only white space."""
        if not text:
            return
        inner = self._open[-1] if self._open else None
        if inner is not None and len(self._open) > 1 and not inner.children:
            inner.text.append(text)
            inner.blank = inner.blank and not text.strip(WHITE)
        elif text.strip(WHITE):
            self._fail(f"expected {self.expected}", offset + len(text) - len(text.lstrip(WHITE)))

    def _tag(self, text: str, at: int, base: int) -> int:
        """The tag behind the prefix at `at`; answers `at` if it is not all there, or is none."""
        start = at + len(self._grammar.prefix)
        if not self._open:
            return self._call_tag(text, at, start, base)
        if start == len(text):
            return at
        end = text.find(">", start, start + MAX_KEY)
        if text[start] != "<" or (end < 0 and len(text) - start >= MAX_KEY):
            self._fail(f"expected {self.expected}", base + at)
            return at
        if end < 0:
            return at
        key = text[start + 1 : end]
        if key.startswith("/"):
            return self._close(key[1:], at, end + 1, base)
        if len(self._open) == 1 and key.startswith("invoke "):
            return self._end_early(at)
        return self._open_tag(key, at, end + 1, base)

    def _call_tag(self, text: str, at: int, start: int, base: int) -> int:
        tag = tag_reader("<invoke").read(text, start)
        if tag == "more":
            return at
        name = tag.attributes.get("name") if isinstance(tag, Tag) else None
        if tag is None or not name:
            self._fail(f"expected {self.expected}", base + at)
            return at
        self.name = name
        self._open.append(Element("invoke"))
        self.expected = self._expected()
        self.done = tag.closed
        return tag.end

    def _open_tag(self, key: str, at: int, end: int, base: int) -> int:
        inner = self._open[-1]
        if not key.strip():
            self._fail(f"expected {self.expected}", base + at)
        elif not inner.blank:
            self._fail(f"expected </{inner.key[:80]}>: a value is text or tags", base + at)
        elif not inner.claim(key):
            self._fail(f"the key '{key[:80]}' stands twice", base + at)
        elif len(self._open) > MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels", base + at)
        else:
            element = Element(key)
            inner.children.append(element)
            self._open.append(element)
            self.expected = self._expected()
            return end
        return at

    def _close(self, key: str, at: int, end: int, base: int) -> int:
        if len(self._open) == 1 and key == self._grammar.section:
            return self._end_early(at)
        if key != self._open[-1].key:
            self._fail(f"expected {self.expected}", base + at)
            return at
        if len(self._open) == 1:
            self.done = True
        else:
            self._open.pop()
            self.expected = self._expected()
        return end

    def _end_early(self, at: int) -> int:
        """The next call, or the section's end, where only the call's own closing tag is missing."""
        self._repairs.append("missing_end_tag")
        self.done = True
        return at

    def _expected(self) -> str:
        key = self._open[-1].key
        return f"a tag or </{key[:80]}>" if len(self._open) == 1 else f"a value and </{key[:80]}>"


def _whole_before(text: str, pos: int, prefix: str) -> int:
    """Up to where the text, from `pos` on, cannot be the beginning of a prefix."""
    for size in range(min(len(text) - pos, len(prefix) - 1), 0, -1):
        if text.endswith(prefix[:size]):
            return len(text) - size
    return len(text)


class _Number(str):
    """A number as it was written."""


@dataclass(frozen=True, slots=True)
class NestedTagGrammar:
    """`prefix`: what stands before every tag. `section`: the name of the tag around all calls, which is a marker."""

    prefix: str
    section: str
    key: str = "nested-tags"
    slack: str = ""
    holds_several: bool = False

    @property
    def expected_head(self) -> str:
        return f'{self.prefix}<invoke name="...">'

    def head(self, text: str, pos: int) -> Head:
        while pos < len(text) and text[pos] in WHITE:
            pos += 1
        opening = f"{self.prefix}<invoke"
        if not text.startswith(opening, pos):
            return "more" if begins(text, pos, opening) else "no"
        pos += len(opening)
        while pos < len(text) and text[pos].isspace():
            pos += 1
        if begins(text, pos, "name"):
            return "more"
        return "yes" if text.startswith("name", pos) else "no"

    def scanner(self, tools: ToolSet) -> NestedTagScanner:
        return NestedTagScanner(self, tools)

    def write(self, name: str, arguments: str) -> str:
        """Unlike the template, which leaves it out, null is written as a word."""
        given = json.loads(arguments, parse_int=_Number, parse_float=_Number)
        return f'{self.prefix}<invoke name="{name}">{self._write(given)}{self.prefix}</invoke>'

    def _write(self, value: Any) -> str:
        if isinstance(value, dict):
            return "".join(self._tag(key, item) for key, item in value.items())
        if isinstance(value, list):
            return "".join(self._tag(ITEM, item) for item in value)
        return str(value) if isinstance(value, str) else json.dumps(value)

    def _tag(self, key: str, value: Any) -> str:
        return f"{self.prefix}<{key}>{self._write(value)}{self.prefix}</{key}>"

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError("one body holds one call")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        speller = Speller(self.prefix, marker)
        terms, rules = [], list[str]()
        for place, (key, schema, required) in enumerate(parameters(tool)):
            term, others = self._member(speller, key, schema, f"{place}_{number}", depth=1)
            terms.append(term if required else f"({term})?")
            rules += others
        opening = speller.literal(f'{open_pad}{self.prefix}<invoke name="{_label(tool.name)}">')
        return join(opening, *terms, speller.literal(f"{self.prefix}</invoke>{close_pad}")), rules

    def _member(self, speller: Speller, key: str, schema: dict[str, Any], rule: str, *, depth: int) -> tuple[str, list[str]]:
        """A tag and its value, as a Lark expression, and the rules it needs."""
        opening, ending = speller.literal(f"{self.prefix}<{_label(key)}>"), f"{self.prefix}</{key}>"
        kinds, properties = kinds_of(schema), schema.get("properties")
        if depth < MAX_LARK_DEPTH and kinds == ("object",) and isinstance(properties, dict) and properties:
            terms, rules = [], list[str]()
            for place, name in enumerate(properties):
                given = argument_schema(schema, name) or {}
                term, others = self._member(speller, name, given, f"{place}_{rule}", depth=depth + 1)
                terms.append(term if name in schema.get("required", []) else f"({term})?")
                rules += others
            return join(opening, *terms, speller.literal(ending)), rules
        items = item_schema(schema)
        if depth < MAX_LARK_DEPTH and kinds == ("array",) and items is not None:
            term, rules = self._member(speller, ITEM, items, f"0_{rule}", depth=depth + 1)
            return join(opening, f"({term})*", speller.literal(ending)), rules
        value, rules = value_rules(speller, schema, ending, f"value_{rule}")
        return join(opening, value), rules


def _label(text: str) -> str:
    """A name that a tag can hold."""
    if not text.strip() or text.startswith("/") or any(char in '"<>\n' for char in text):
        raise ValueError(f"the name {text!r} cannot be written in this format")
    return text
