"""Pieces of decoding grammars (Lark text for llguidance) that argument grammars share."""

from __future__ import annotations

import json
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.validate import normalise_schema

SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""How JSON is spaced. Where white space is free, small models write it without end."""


def quote(text: str) -> str:
    """A Lark string."""
    return json.dumps(text, ensure_ascii=False)


def join(*terms: str) -> str:
    """Lark terms one after the other; "" is nothing."""
    return " ".join(term for term in terms if term)


def json_rule(schema: dict[str, Any]) -> str:
    """The right side of a rule that admits JSON of a schema."""
    return f"%json {json.dumps({**schema, 'x-guidance': SPACING}, ensure_ascii=False)}"


def object_schema(tool: Tool) -> dict[str, Any]:
    """The schema of the arguments. Where it lists properties and does not speak of others, others are not admitted: what is
    not told, small models invent."""
    given = normalise_schema(tool.parameters) if tool.parameters else {}
    schema: dict[str, Any] = {"type": "object", **(given if isinstance(given, dict) else {}), "x-guidance": SPACING}
    if "properties" in schema and not schema.keys() & {"patternProperties", "unevaluatedProperties", "allOf", "anyOf", "$ref"}:
        schema.setdefault("additionalProperties", False)
    return schema
