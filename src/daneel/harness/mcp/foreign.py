"""What an MCP server says of its tools and gives as results, checked: it may be anybody's, and the model reads all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from daneel.formats.validate import normalise_schema
from daneel.harness.safety.untrusted import defused
from daneel.harness.tools.arguments import Bound
from daneel.harness.tools.json_schema import SchemaError, binder
from daneel.harness.tools.registry import MAX_NAME_CHARS
from daneel.harness.tools.schema import JsonSchema

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as ForeignTool

MAX_TOOLS = 500
MAX_DESCRIPTION_CHARS = 2_000
MAX_SCHEMA_CHARS = 32_000
MAX_SCHEMA_DEPTH = 24
MAX_TEXT_CHARS = 8_000_000

_DROPPED = frozenset({"title", "$schema", "$id", "$comment", "examples"})
_TEXTS = frozenset({"description"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


class Unusable(Exception):
    """A tool that cannot be offered to a model; the message says why."""


def tool_name(name: str, taken: Iterable[str]) -> str:
    """A name that all servers and models take, and that no other tool of this server has."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:MAX_NAME_CHARS] or "tool"
    taken = set(taken)
    if plain not in taken:
        return plain
    return next(
        found for number in range(2, MAX_TOOLS + 2) if (found := f"{plain[: MAX_NAME_CHARS - 4]}_{number}") not in taken
    )


def description(tool: ForeignTool) -> str:
    """What the server says of the tool, bounded, and without anything that a model could take for a turn of the chat."""
    text = tool.description or tool.title or f"The tool {tool.name}."
    return _text(text)


def _text(text: str) -> str:
    text = defused(text.encode("utf-8", "replace").decode()).strip()
    return text if len(text) <= MAX_DESCRIPTION_CHARS else text[: MAX_DESCRIPTION_CHARS - 1] + "…"


def parameters(tool: ForeignTool) -> tuple[JsonSchema, Callable[[dict[str, Any]], Bound]]:
    """The schema to declare, and what checks arguments against it. Raises Unusable."""
    schema = tool.input_schema
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise Unusable(f"its schema is not JSON: {error}") from error
    if size > MAX_SCHEMA_CHARS:
        raise Unusable(f"its schema has {size} characters, more than {MAX_SCHEMA_CHARS}")
    clean = _clean(schema, 0)
    if not isinstance(clean, dict) or clean.get("type", "object") != "object":
        raise Unusable("its schema is not one of an object")
    clean = {"type": "object", "properties": {}, **clean}
    if not isinstance(clean["properties"], dict):
        raise Unusable("its schema's properties are no object")
    try:
        return clean, binder(normalise_schema(clean))
    except SchemaError as error:
        raise Unusable(f"its schema cannot be used: {error}") from error


def _clean(value: Any, depth: int, *, is_map: bool = False) -> Any:
    """The schema without what a model does not need; its texts bounded and defused."""
    if depth > MAX_SCHEMA_DEPTH:
        raise Unusable(f"its schema is nested more than {MAX_SCHEMA_DEPTH} levels deep")
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if is_map:
        return {name: _clean(item, depth + 1) for name, item in value.items()}
    kept: dict[str, Any] = {}
    for key, item in value.items():
        if key in _TEXTS and isinstance(item, str):
            kept[key] = _text(item)
        elif key in ("enum", "const", "default", "required"):
            kept[key] = item
        elif key not in _DROPPED:
            kept[key] = _clean(item, depth + 1, is_map=key in _NAMED)
    return kept


def result_value(result: CallToolResult) -> str:
    """A result as text: texts as they are, structured data as JSON where there is no text, other media as what they are."""
    parts = [_block(block) for block in result.content]
    has_text = any(getattr(block, "type", "") == "text" for block in result.content)
    if not has_text and result.structured_content is not None:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, default=str))
    text = "\n".join(part for part in parts if part)
    if len(text) > MAX_TEXT_CHARS:
        text = f"{text[:MAX_TEXT_CHARS]}\n[{len(text) - MAX_TEXT_CHARS} more characters were not kept]"
    return text or "(no output)"


def _block(block: Any) -> str:
    kind = getattr(block, "type", "")
    if kind == "text":
        return str(block.text)
    if kind in ("image", "audio"):
        return f"[{kind}, {block.mime_type}, {len(block.data) * 3 // 4} bytes: it cannot be shown]"
    if kind == "resource_link":
        return f"[resource: {block.uri}]"
    resource = getattr(block, "resource", None)
    if resource is None:
        return f"[{kind or 'something'} that cannot be shown]"
    text = getattr(resource, "text", None)
    return f"[resource {resource.uri}: it cannot be shown]" if text is None else str(text)
