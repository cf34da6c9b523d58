"""Decoding grammars (Lark text for llguidance) of tags whose values are raw text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.lark import join, json_rule, object_schema, quote
from daneel.formats.typed_value import argument_schema, kinds_of

_ANY_TEXT = r"/(.|\n)*/"
Marker = Callable[[str], str]


class Speller:
    """Writes texts of which a part may be one token of its own: then it must be referred to, and cannot be part of a value."""

    def __init__(self, token: str, marker: Marker) -> None:
        self._token, self._term = token, marker(token) if token else ""
        self._is_token = bool(token) and not self._term.startswith('"')

    def literal(self, text: str) -> str:
        """The text, as Lark terms."""
        if not self._is_token:
            return quote(text)
        first, *others = text.split(self._token)
        terms = [quote(first) if first else ""]
        for part in others:
            terms += [self._term, quote(part) if part else ""]
        return join(*terms)

    def text_until(self, ending: str, rule: str) -> tuple[str, list[str]]:
        """Any text up to `ending`, which is read too: an expression, and the rules it needs, called `rule`."""
        if not self._is_token or self._token not in ending:
            return rule, [f"{rule}[suffix={quote(ending)}]: {_ANY_TEXT}"]
        before, _, behind = ending.partition(self._token)
        text = rf"/(.|\n)*{_regex(before)}/" if before else _ANY_TEXT
        return join(rule, self._term, self.literal(behind) if behind else ""), [f"{rule}: {text}"]


def parameters(tool: Tool) -> list[tuple[str, dict[str, Any], bool]]:
    """The arguments of a tool in the order of its schema: name, schema, whether it must be given. `ValueError` if unknown."""
    schema = object_schema(tool)
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        if schema.keys() & {"$ref", "anyOf", "oneOf", "allOf"}:
            raise ValueError(f"the arguments of the tool {tool.name!r} cannot be listed")
        return []
    required = schema.get("required", [])
    return [(key, argument_schema(schema, key) or {}, key in required) for key in properties]


def texts_of(schema: dict[str, Any]) -> list[str]:
    """The texts that an enumeration of nothing but texts admits."""
    values = schema.get("enum")
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else []


def value_rules(speller: Speller, schema: dict[str, Any], ending: str, rule: str) -> tuple[str, list[str]]:
    """A value of which only the schema knows the type, up to its `ending`."""
    choices = texts_of(schema)
    if choices:
        return join("(" + " | ".join(map(quote, choices)) + ")", speller.literal(ending)), []
    if "string" in kinds_of(schema):
        return speller.text_until(ending, rule)
    return join(rule, speller.literal(ending)), [f"{rule}: {json_rule(schema)}"]


def typed_value_rules(
    speller: Speller, schema: dict[str, Any], endings: tuple[str, str], rule: str
) -> tuple[tuple[str, str], list[str]]:
    """A text and a JSON value, each up to its ending; "" where the schema does not admit it."""
    kinds, text, other, rules = kinds_of(schema), "", "", list[str]()
    if "string" in kinds:
        text, rules = value_rules(speller, {**schema, "type": "string"}, endings[0], f"text_{rule}")
    if set(kinds) - {"string"} and not texts_of(schema):
        other = join(f"json_{rule}", speller.literal(endings[1]))
        rules = [*rules, f"json_{rule}: {json_rule(schema)}"]
    return (text, other), rules


def _regex(text: str) -> str:
    """The text inside a Lark regular expression; the tags hold nothing more than these."""
    return text.replace("/", r"\/").replace(".", r"\.")
