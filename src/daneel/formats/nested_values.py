"""Nested tags as JSON: what a tree of tags means is a question to the tool's schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from daneel.formats.json_scan import WHITE
from daneel.formats.typed_value import Schema, argument_schema, item_schema, kinds_of, read_typed

ITEM = "item"
"""The name of the tag that holds an array's element."""


@dataclass(slots=True)
class Element:
    """A tag: text or other tags. `blank`: its text so far is white space."""

    key: str
    text: list[str] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)
    blank: bool = True
    keys: set[str] = field(default_factory=set)

    def claim(self, key: str) -> bool:
        """Whether a tag with this key may follow inside: keys do not stand twice, elements of an array may."""
        if key in self.keys:
            return key == ITEM and len(self.keys) == 1
        if self.keys == {ITEM} and len(self.children) > 1:
            return False
        self.keys.add(key)
        return True


def members_json(element: Element, schema: Schema | None) -> str:
    """The tags inside as JSON text of an object."""
    members = (
        f"{json.dumps(child.key, ensure_ascii=False)}: {value_json(child, argument_schema(schema, child.key))}"
        for child in element.children
    )
    return "{" + ", ".join(members) + "}"


def value_json(element: Element, schema: Schema | None) -> str:
    """The JSON text of a tag's value. `schema` `None`: nothing is known of it, its shape alone tells."""
    kinds = kinds_of(schema)
    if element.children:
        if _is_array(element, schema, kinds):
            items = item_schema(schema)
            return "[" + ", ".join(value_json(child, items) for child in element.children) + "]"
        return members_json(element, schema)
    text = "".join(element.text)
    if not text.strip(WHITE) and "string" not in kinds:
        empty = next((kind for kind in kinds if kind in ("array", "object", "null")), None)
        if empty is not None:
            return {"array": "[]", "object": "{}", "null": "null"}[empty]
    return read_typed(text, schema)


def _is_array(element: Element, schema: Schema | None, kinds: tuple[str, ...]) -> bool:
    if element.keys != {ITEM}:
        return False
    if len(element.children) > 1:
        return True
    return ("array" in kinds or "object" not in kinds) and argument_schema(schema, ITEM) is None
